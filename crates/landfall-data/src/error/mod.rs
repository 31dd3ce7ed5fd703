//! What can be wrong with data: one error for each floor of the crate, all of them a [`DataError`].
//!
//! They lie on the ground floor, as plain data, so that every function has one type of error and imports nothing from above.

pub(crate) mod covariates;
pub(crate) mod cutoff;
pub(crate) mod facts;
pub(crate) mod form;
pub(crate) mod generated;
pub(crate) mod limit;
pub(crate) mod read;
pub(crate) mod score;
pub(crate) mod series;
pub(crate) mod tokens;
pub(crate) mod windows;

/// What is wrong with the data or with what was asked of it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or a table cannot be read.
    #[error(transparent)]
    Read(#[from] read::ReadError),
    /// Series are not as they must be.
    #[error(transparent)]
    Series(#[from] series::SeriesError),
    /// A split, a window or a scaler is not as it must be.
    #[error(transparent)]
    Window(#[from] windows::WindowError),
    /// A forecast is not scored.
    #[error(transparent)]
    Score(#[from] score::ScoreError),
    /// Samples of tokens are not as they must be.
    #[error(transparent)]
    Tokens(#[from] tokens::TokenError),
    /// No forecast from a place in time.
    #[error(transparent)]
    Cutoff(#[from] cutoff::CutoffError),
    /// Numbers, dates or columns are of no form that is known.
    #[error(transparent)]
    Form(#[from] form::FormError),
    /// Covariates are not as they must be.
    #[error(transparent)]
    Covariates(#[from] covariates::CovariateError),
    /// What is asked of the simulator is not there.
    #[error(transparent)]
    Generated(#[from] generated::GeneratedError),
    /// More than is read.
    #[error(transparent)]
    Limit(#[from] limit::LimitError),
}

crate::message::debug_as_text!(DataError);
