//! What is wrong with a split, a window or a scaler.

use crate::message::setting::Setting;
use crate::message::{count, list, one_line};
use crate::segment::Segment;
use std::fmt;

/// What is wrong with a split, a window or a scaler.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// Every series of several is too short.
    #[error("none of {count} series holds a window in each segment; `{name}`: {why}", name = one_line(.name))]
    AllTooShort {
        /// Series there are.
        count: usize,
        /// The first.
        name: String,
        /// Why it holds none.
        why: Box<Self>,
    },
    /// No series that a run has a scaler for.
    #[error("{file}: no series of the run ({}); give one that it was trained on", list(.known))]
    NoKnownSeries {
        /// The data.
        file: String,
        /// Series of the run.
        known: Vec<String>,
    },
    /// Mean or standard deviation, or a scaled value, leaves the range of floats.
    #[error(
        "{file}: column `{column}` cannot be scaled, its values span too wide a range; rescale the column",
        column = one_line(.column)
    )]
    Unscalable {
        /// Name of the series.
        file: String,
        /// The column.
        column: String,
    },
    /// A value that no float of 32 bits can tell from others, once it is scaled as the training rows are.
    #[error(
        "{file}: row {row}{date}, column `{column}`: {value:?} is {spread:.0e} standard deviations from the mean of the \
         training rows; correct the value, or leave the column out",
        column = one_line(.column)
    )]
    FarOut {
        /// Name of the series.
        file: String,
        /// The column.
        column: String,
        /// Row, counted from 1.
        row: usize,
        /// Its date, in brackets; empty without dates.
        date: String,
        /// The value.
        value: f64,
        /// Its distance from the mean.
        spread: f64,
    },
    /// Scaler and series differ in their channels.
    #[error("{file}: {series} columns and a scaler for {scaler}; use the columns that the scaler was fit on")]
    ScalerChannels {
        /// Name of the series.
        file: String,
        /// Columns of the series.
        series: usize,
        /// Columns of the scaler.
        scaler: usize,
    },
    /// A stored scaler that no fit can have written.
    #[error(
        "the scaler is damaged ({means} means, {stds} standard deviations; all must be finite, std positive); \
         fit it again"
    )]
    BadScaler {
        /// Number of means.
        means: usize,
        /// Number of standard deviations.
        stds: usize,
    },
    /// A split that is neither three ratios nor a name.
    #[error(
        "split `{text}` cannot be read; write three ratios as `0.7,0.1,0.2`, `last` or `last:24` for the last rows as the test rows, \
         or `ett`",
        text = one_line(.text)
    )]
    BadSplit {
        /// What was given.
        text: String,
    },
    /// Ratios that are not a partition.
    #[error("split {train},{val},{test}: {}", ratios([*train, *val, *test], *sum))]
    BadRatios {
        /// Training share.
        train: f64,
        /// Validation share.
        val: f64,
        /// Test share.
        test: f64,
        /// Their sum.
        sum: f64,
    },
    /// The fixed ETT split on a series that is too short for it.
    #[error("split ett needs {needed} rows, the series has {rows}; use ratios such as `0.7,0.1,0.2`")]
    TooShortForEtt {
        /// Rows needed.
        needed: usize,
        /// Rows there are.
        rows: usize,
    },
    /// No window fits a segment.
    #[error("{}: {limits}", needed(*.segment, *.rows, .limits))]
    TooShort {
        /// The segment.
        segment: Segment,
        /// Its rows, for validation and test with the context rows before it.
        rows: usize,
        /// What would fit.
        limits: Limits,
    },
    /// No window fits a row range.
    #[error("{rows} rows hold no window of context {context} and horizon {horizon}; shorten one of them")]
    NoWindow {
        /// Rows of the range.
        rows: usize,
        /// Context.
        context: usize,
        /// Horizon.
        horizon: usize,
    },
    /// A context of no rows.
    #[error("the context is 0; give at least 1 row")]
    ZeroContext,
    /// A horizon of no rows.
    #[error("the horizon is 0; give at least 1 step")]
    ZeroHorizon,
}

crate::message::debug_as_text!(WindowError);

/// What fits a split when the requested window does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requested context.
    pub context: usize,
    /// Requested horizon.
    pub horizon: usize,
    /// Largest horizon with the requested context, 0 when there is none.
    pub max_horizon: usize,
    /// Largest context with the requested horizon, 0 when there is none.
    pub max_context: usize,
    /// Largest context + horizon that fits all segments, 0 when nothing fits.
    pub max_window: usize,
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max_window == 0 {
            return write!(f, "no window fits: use a longer series or another {}", Setting("split"));
        }
        let (context, horizon) = (Setting("context"), Setting("horizon"));
        match (self.max_horizon, self.max_context) {
            (0, 0) => write!(f, "reduce {context} and {horizon}")?,
            (0, _) => write!(f, "reduce {context}")?,
            (_, 0) => write!(f, "reduce {horizon}")?,
            (_, _) => write!(f, "reduce {context} or {horizon}")?,
        }
        write!(f, ", or change {} (", Setting("split"))?;
        match self.max_horizon {
            0 => write!(f, "no horizon fits context {}", self.context)?,
            h => write!(f, "context {} allows a horizon up to {h}", self.context)?,
        }
        match self.max_context {
            0 => write!(f, ", no context fits horizon {})", self.horizon),
            l => write!(f, ", horizon {} allows a context up to {l})", self.horizon),
        }
    }
}

/// What keeps shares from being a partition.
pub(crate) fn ratios(shares: [f64; 3], sum: f64) -> String {
    let wrong = shares.iter().zip(["1st", "2nd", "3rd"]).find(|(share, _)| share.is_nan() || **share <= 0.0);
    match wrong {
        Some((share, which)) => {
            format!("each ratio must be above 0, and the {which} is {share}; correct it")
        }
        None => format!("the ratios must sum to 1, and their sum is {sum}; correct them"),
    }
}

/// What a segment has and what a window needs of it. Validation and test have the context before them for free.
pub(crate) fn needed(segment: Segment, rows: usize, limits: &Limits) -> String {
    let Limits { context, horizon, .. } = *limits;
    let (name, rows, needed, of) = match segment {
        Segment::Train => {
            let sum = context.saturating_add(horizon);
            ("training", rows, sum, format!("context {context} + horizon {horizon}"))
        }
        Segment::Validation => {
            ("validation", rows.saturating_sub(context), horizon, format!("horizon {horizon}"))
        }
        Segment::Test => ("test", rows.saturating_sub(context), horizon, format!("horizon {horizon}")),
    };
    format!("{name} split has {}; {needed} needed ({of})", count(rows, "row"))
}
