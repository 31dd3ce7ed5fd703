//! What is wrong with covariates.

use crate::message::list;
use crate::message::place::Place;
use crate::message::setting::{Setting, Spelling};
use std::fmt;

/// What is wrong with covariates.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum CovariateError {
    #[error(
        "{file}: no dates, and {calendar} makes features of them; name the column with {date_column}, or leave {calendar} out",
        calendar = Setting("calendar"), date_column = Setting("date-column")
    )]
    NoDates { file: String },
    #[error(
        "{file}: the dates are not evenly spaced, so that those of the rows to forecast are not known, and {calendar} makes features of them; leave it out",
        calendar = Setting("calendar")
    )]
    Uneven { file: String },
    #[error("{file}: dates {step} apart have no calendar features; leave {} out", Setting("calendar"))]
    NoFeature { file: String, step: String },
    #[error(
        "{file}: column `{column}` is to be forecast, so that it cannot be a covariate too; leave it out of one of the lists"
    )]
    Target { file: String, column: String },
    #[error("{file}: no column of numbers `{column}` is read ({} chooses what is); choose from {}, or give {} {column} if it holds names", Setting("columns"), list(.known), Setting("categorical"))]
    Unknown { file: String, column: String, known: Vec<String> },
    #[error(
        "{file}: every column is a covariate, so that none is left to forecast; leave one out of {}, {} or {}",
        Setting("known-future"),
        Setting("static"),
        Setting("categorical")
    )]
    NoTarget { file: String },
    #[error("{file}: column `{column}` is named by {first} and by {second}; name it once")]
    Twice { file: String, column: String, first: Setting, second: Setting },
    #[error(
        "{file}: column `{column}` has one value for each series by {}, but row {row} differs from row 1; name it with {} if it is known in advance, else leave it out",
        Setting("static"),
        Setting("known-future")
    )]
    Varies { file: String, column: String, row: usize },
    #[error("{at}: column `{column}` has no value, and a column of names needs one in each row; fill it in")]
    NoCategory { at: Place, column: String },
    #[error("{at}: column `{column}` has `{text}`, which the run was not trained on; it knows {}", list(.known))]
    Category { at: Place, column: String, text: String, known: Vec<String> },
    #[error(
        "{file}: column `{column}` has {found} different values, and at most {most} can be told apart; join rare ones, or leave the column out"
    )]
    Categories { file: String, column: String, found: usize, most: usize },
    #[error("series `{series}`: {} known in advance, and {needed} rows after its last ({last}) are forecast; give their values with {}", of_columns(.columns), future())]
    NoFuture { series: String, columns: Vec<String>, needed: usize, last: String },
    #[error(
        "{file}: series `{series}` has {found} of the {needed} rows after {last} that are forecast, and {} known in advance; add the others", of_columns(.columns)
    )]
    FutureRows {
        file: String,
        series: String,
        columns: Vec<String>,
        found: usize,
        needed: usize,
        last: String,
    },
    #[error("{file}: series `{series}` has {found} where {expected} is forecast; give one row for each date")]
    FutureDate { file: String, series: String, found: String, expected: String },
    #[error(
        "{file}: series `{series}` ends at {found}, and {first} to {last} are forecast; add a row for each of these dates"
    )]
    FutureEnds { file: String, series: String, found: String, first: String, last: String },
    #[error("{file}: it has no series `{series}`; it has {}", list(.known))]
    FutureSeries { file: String, series: String, known: Vec<String> },
}

crate::message::debug_as_text!(CovariateError);

/// Columns and their verb.
fn of_columns(columns: &[String]) -> impl fmt::Display {
    let verb = if columns.len() == 1 { "is" } else { "are" };
    format!("{} {} {verb}", if columns.len() == 1 { "column" } else { "columns" }, list(columns))
}

/// How rows to forecast are given.
fn future() -> &'static str {
    match Spelling::now() {
        Spelling::Key => "the rows to forecast",
        Spelling::Flag => "--future FILE",
        Spelling::Keyword => "futr_df",
    }
}
