//! Why a forecast is not scored.

/// Why a forecast is not scored.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// A seasonal period of no rows, or one longer than the rows before the first value to forecast.
    #[error(
        "a seasonal period of {period} needs as many rows of history, there are {history}; choose 1 to {history}"
    )]
    BadPeriod {
        /// The period.
        period: usize,
        /// Rows before the first value to forecast.
        history: usize,
    },
    /// Error sums of another number of columns than the scores are kept for.
    #[error("errors of {found} columns where {expected} are scored; pass one sum per column")]
    ScoreColumns {
        /// Columns passed.
        found: usize,
        /// Columns scored.
        expected: usize,
    },
    /// Scores asked of no windows.
    #[error("no windows were scored; score at least one")]
    NothingScored,
}

crate::message::debug_as_text!(ScoreError);
