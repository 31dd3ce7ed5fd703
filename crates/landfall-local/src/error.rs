//! What a local model refuses, in words.

use crate::model::Model;

/// Why a series cannot be fit or forecast.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// There is nothing to forecast from.
    #[error("a series without rows cannot be forecast: give one row at least")]
    NoRows,
    /// A row is NaN or infinite.
    #[error("row {row} is {value}: a local model needs finite values, so fill or drop missing rows first")]
    NotFinite {
        /// The first such row, from 0.
        row: usize,
        /// What it holds.
        value: f64,
    },
    /// A season of no rows.
    #[error("the season is 0 rows: give the rows of one season, and 1 for a series without a season")]
    NoSeason,
    /// Demand is a count or an amount.
    #[error(
        "row {row} is {value}: {model} is a model of demand, which is never below 0, so choose another model for this series"
    )]
    Negative {
        /// The model that was asked for.
        model: Model,
        /// The first such row, from 0.
        row: usize,
        /// What it holds.
        value: f64,
    },
}

// Rust prints an error that `main` returns by its `Debug`.
impl std::fmt::Debug for LocalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
