//! Why forecasting fails.

use crate::data::DataError;
use crate::pretrained::PretrainedError;
use crate::run::{Keys, RunError, SettingsError, Text, Wording};
use landfall_train::checkpoint::CheckpointError;
use std::fmt;
use std::path::PathBuf;

/// Why a run is not made, trained, continued, forecast from or backtested.
#[derive(Debug)]
#[non_exhaustive]
pub enum ForecastError {
    /// Before the first step.
    Run(RunError),
    /// Of a run that had begun.
    During(RunError),
    /// A run that is to go on has done all its steps.
    Complete {
        /// Its directory.
        run: PathBuf,
        /// Steps done.
        done: usize,
        /// Steps of its settings.
        total: usize,
    },
    /// A run that is to go on has done more steps than are asked for.
    FewerSteps {
        /// Its directory.
        run: PathBuf,
        /// Steps done.
        done: usize,
        /// Steps asked for.
        total: usize,
    },
    /// A run without steps is to go on: its weights were imported, or fit by least squares.
    NoSteps(PathBuf),
    /// The data of a run that is to go on has other values.
    DataChanged {
        /// Its directory.
        run: PathBuf,
        /// The file or frame.
        data: String,
        /// A column with another mean or standard deviation.
        column: String,
    },
    /// The data of a run that is to go on holds other series.
    SeriesChanged {
        /// Its directory.
        run: PathBuf,
        /// Series that it was trained on.
        before: String,
        /// Series of the data.
        now: String,
    },
    /// The first origin of a backtest knows too few rows.
    TooEarly {
        /// The origin.
        origin: String,
        /// Rows known there.
        rows: usize,
        /// Rows that a forecast needs.
        needed: usize,
    },
    /// At an origin of a backtest.
    AtOrigin {
        /// The origin.
        origin: String,
        /// Why.
        why: Box<ForecastError>,
    },
}

impl ForecastError {
    /// Whether a run had begun, so that its directory may hold something of use.
    #[must_use]
    pub fn is_late(&self) -> bool {
        match self {
            Self::During(_) => true,
            Self::AtOrigin { why, .. } => why.is_late(),
            Self::Run(_)
            | Self::Complete { .. }
            | Self::FewerSteps { .. }
            | Self::NoSteps(_)
            | Self::DataChanged { .. }
            | Self::SeriesChanged { .. }
            | Self::TooEarly { .. } => false,
        }
    }

    /// The error with settings as a door writes them.
    #[must_use]
    pub fn worded(&self, door: &dyn Wording) -> String {
        let words = |text: &str| Text::template(text).worded(door);
        match self {
            Self::Run(e) | Self::During(e) => e.worded(door),
            Self::Complete { run, done, total } => format!(
                "{} is complete with {done} of {total} steps; {}",
                run.display(),
                words("give a larger {epochs} or {max_steps} to go on")
            ),
            Self::FewerSteps { run, done, total } => format!(
                "{} has done {done} steps, more than the {total} that are asked for; {}",
                run.display(),
                words("give a larger {epochs} or {max_steps} to go on")
            ),
            Self::NoSteps(run) => format!(
                "{} has no steps to go on with: its weights were imported, or fit without steps; start another run with its \
                 config.toml",
                run.display()
            ),
            Self::DataChanged { run, data, column } => format!(
                "{}: {data} is not what the run was trained on (column `{column}` has another mean or standard deviation); \
                 bring that data back, or start a new run",
                run.display()
            ),
            Self::SeriesChanged { run, before, now } => format!(
                "{}: its data holds series {now}, the run was trained on {before}; bring that data back, or start a new run",
                run.display()
            ),
            Self::TooEarly { origin, rows, needed } => format!(
                "the first origin, {origin}, knows {rows} rows, and a forecast needs {needed}; {}",
                words("give later or fewer origins, or a shorter {context}")
            ),
            Self::AtOrigin { origin, why } => format!("at the origin {origin}: {}", why.worded(door)),
        }
    }
}

impl fmt::Display for ForecastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(&Keys))
    }
}

impl std::error::Error for ForecastError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run(e) | Self::During(e) => e.source(),
            Self::AtOrigin { why, .. } => why.source(),
            Self::Complete { .. }
            | Self::FewerSteps { .. }
            | Self::NoSteps(_)
            | Self::DataChanged { .. }
            | Self::SeriesChanged { .. }
            | Self::TooEarly { .. } => None,
        }
    }
}

macro_rules! through_run_error {
    ($($error:ty),*) => {
        $(impl From<$error> for ForecastError {
            fn from(e: $error) -> Self {
                Self::Run(e.into())
            }
        })*
    };
}
through_run_error!(RunError, SettingsError, DataError, CheckpointError, PretrainedError, landfall::Error);
