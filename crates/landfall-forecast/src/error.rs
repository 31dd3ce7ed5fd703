//! Why forecasting fails.

use crate::chronos::ChronosError;
use crate::data::DataError;
use crate::pretrained::PretrainedError;
use crate::pretrained_network::NetworkError;
use crate::run::{RunError, SettingsError, Text};
use crate::zero_shot::ZeroShotError;
use landfall_train::checkpoint::CheckpointError;
use std::path::PathBuf;

/// Why a run is not made, trained, continued, forecast from or backtested.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ForecastError {
    /// Before the first step.
    #[error(transparent)]
    Run(RunError),
    /// Of a run that had begun.
    #[error(transparent)]
    During(RunError),
    /// A run that is to go on has done all its steps.
    #[error(
        "{} is complete with {done} of {total} steps; {}",
        .run.display(), Text::from("give a larger {epochs} or {max_steps} to go on")
    )]
    Complete {
        /// Its directory.
        run: PathBuf,
        /// Steps done.
        done: usize,
        /// Steps of its settings.
        total: usize,
    },
    /// A run that is to go on has done more steps than are asked for.
    #[error(
        "{} has done {done} steps, more than the {total} that are asked for; {}",
        .run.display(), Text::from("give a larger {epochs} or {max_steps} to go on")
    )]
    FewerSteps {
        /// Its directory.
        run: PathBuf,
        /// Steps done.
        done: usize,
        /// Steps asked for.
        total: usize,
    },
    /// A run without steps is to go on: its weights were imported, or fit by least squares.
    #[error(
        "{} has no steps to go on with: its weights were imported, or fit without steps; start another run with its config.toml",
        .0.display()
    )]
    NoSteps(PathBuf),
    /// The data of a run that is to go on has other values.
    #[error(
        "{}: {data} is not what the run was trained on (column `{column}` has another mean or standard deviation); bring that data back, or start a new run",
        .run.display()
    )]
    DataChanged {
        /// Its directory.
        run: PathBuf,
        /// The file or frame.
        data: String,
        /// A column with another mean or standard deviation.
        column: String,
    },
    /// The data of a run that is to go on holds other series.
    #[error(
        "{}: its data holds series {now}, the run was trained on {before}; bring that data back, or start a new run",
        .run.display()
    )]
    SeriesChanged {
        /// Its directory.
        run: PathBuf,
        /// Series that it was trained on.
        before: String,
        /// Series of the data.
        now: String,
    },
    /// The first origin of a backtest knows too few rows.
    #[error(
        "the first origin, {origin}, knows {rows} rows, and a forecast needs {needed}; {}",
        Text::from("give later or fewer origins, or a shorter {context}")
    )]
    TooEarly {
        /// The origin.
        origin: String,
        /// Rows known there.
        rows: usize,
        /// Rows that a forecast needs.
        needed: usize,
    },
    /// Without a run, something else than a series is to be forecast.
    #[error(
        "only series are forecast without a run; {}",
        Text::from("give {data} with a row for each time step")
    )]
    NoSeries,
    /// The pretrained forecaster.
    #[error(transparent)]
    ZeroShot(#[from] ZeroShotError),
    /// A Chronos-2 or Chronos-Bolt.
    #[error(transparent)]
    Chronos(#[from] ChronosError),
    /// At an origin of a backtest.
    #[error("at the origin {origin}: {why}")]
    AtOrigin {
        /// The origin.
        origin: String,
        /// Why.
        why: Box<ForecastError>,
    },
}

landfall::debug_as_text!(ForecastError);

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
            | Self::TooEarly { .. }
            | Self::NoSeries
            | Self::ZeroShot(_)
            | Self::Chronos(_) => false,
        }
    }
}

impl From<NetworkError> for ForecastError {
    fn from(e: NetworkError) -> Self {
        match e {
            NetworkError::ZeroShot(why) => Self::ZeroShot(why),
            NetworkError::Chronos(why) => Self::Chronos(why),
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
