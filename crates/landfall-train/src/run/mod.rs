//! Runs: the loop over steps and epochs, and the folder that a run leaves behind.

mod auto;
mod choose;
mod covariates;
mod device;
mod events;
mod fit;
mod folder;
mod forecaster;
mod forecasts;
mod frames;
mod init;
mod intervals;
mod keywords;
mod kinds;
pub(crate) mod measured;
mod network;
mod open;
mod past_windows;
mod prepared;
mod record;
mod resolve;
mod resolved;
mod settings;
mod sizes;

pub use choose::{Choice, Scored, choose};
pub use device::Device;
pub use fit::{CheckpointEvery, FitOptions, Observer, Outcome, complete, count, fit};
pub use folder::{KEPT_DATA, KEPT_FRAME, RunFolder, RunLock};
pub use forecaster::{Forecaster, non_negative, priors};
pub use forecasts::window_forecasts;
pub use intervals::{
    ForecastSource, HalfWidths, Intervals, Rolling, baseline_source, enough, run_source, without_intervals,
};
pub use measured::TestScoring;
pub use open::{ClassPrediction, Forecast, Run, Weights, open};
pub use prepared::Prepared;
pub use record::{
    BaselineRecord, ClassRecord, ColumnRecord, EvaluationRecord, IntervalRecord, IntervalScore,
    QuantileRecord, Scalars, SeriesRecord, StepLine, Units,
};

pub use kinds::{ModelKind, Precision, Synthetic};
pub use resolve::{Data, Resolved, Source, interval_levels};
pub use resolved::SCALED;
pub use settings::{Files, Names, Network, OneOrMore, ScalerTable, Settings, SettingsError, named};

use crate::checkpoint::CheckpointError;
use crate::data::Setting;
use std::path::PathBuf;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum RunError {
    #[error("the run directory {} already exists; choose another with --out, or resume it with --resume {}", .path.display(), .path.display())]
    Exists { path: PathBuf },
    #[error("{} is in use: another process trains this run; wait until it ends, or stop it", .path.display())]
    InUse { path: PathBuf },
    #[error("the run directory {} was removed while the run was going on; nothing more can be saved", .path.display())]
    Gone { path: PathBuf },
    #[error("{} is not a run directory: {why}", .path.display())]
    NotARun { path: PathBuf, why: String },
    #[error("{} has no checkpoint yet: its run ended before the first one; start it again with: landfall train --config {} --out {}", .path.display(), .path.join("config.toml").display(), .path.display())]
    NoCheckpoint { path: PathBuf },
    #[error("cannot write {}: {why}; check the permissions of its directory and the free space", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("step {step} gave loss {loss} and gradient norm {grad_norm}: {cause}; the state is as before that step{}", Kept(.checkpoint))]
    NonFinite { step: usize, loss: f64, grad_norm: f64, cause: landfall::Error, checkpoint: Option<PathBuf> },
    #[error(
        "the training diverged: after step {step} its errors are not finite, so that there is nothing to forecast with; use a smaller {} or {}, or scale the data",
        Setting("lr"),
        Setting("clip")
    )]
    Diverged { step: usize },
    #[error("the session has no validation windows to choose the best weights by")]
    NoValidation,
    #[error(
        "series `{first}` is {one} and series `{second}` {other}, and one season and one horizon in rows would have to serve both; train them in runs of their own, or give the seasonal period in rows ({})",
        Setting("period")
    )]
    TwoFrequencies { first: String, one: String, second: String, other: String },
    #[error("{} is not there; {hint}", .path.display())]
    NoWeights { path: PathBuf, hint: String },
    #[error(
        "{} {level}: series `{series}` has {found} windows to take errors from that the run was not fit on, and an interval of {level} % needs {needed}; ask for a lower level, or train with a shorter {} or more validation rows ({})",
        Setting("interval"),
        Setting("horizon"),
        Setting("split")
    )]
    TooFewErrors { series: String, level: f64, found: usize, needed: usize },
    #[error(
        "{loss} negative-binomial: column `{column}` of series `{series}` is {value} at {row}, and counts are whole numbers from 0 to 16777216; choose count columns with {}, fill missing ones by {} previous, or use {loss} normal or student-t",
        Setting("target"), Setting("fill"), loss = Setting("loss")
    )]
    NoCount { series: String, column: String, row: String, value: f64 },
    #[error("{} is not there, and this run's weights were fit on its validation rows, so that their errors make no intervals; train it again", .path.display())]
    NoErrors { path: PathBuf },
    #[error("{} does not say when its windows ended, so that it makes no intervals of a forecast from a past row; train the run again", .path.display())]
    UndatedErrors { path: PathBuf },
    #[error("{} holds a window-regressor, which predicts one label for a window and no future rows; train a patchtst to forecast", .path.display())]
    NoFuture { path: PathBuf },
    #[error("{} holds a cross-asset, which predicts classes of samples and no future rows; use landfall predict", .path.display())]
    Classes { path: PathBuf },
    #[error("{} holds no cross-asset, and only that predicts classes; use landfall forecast for future rows", .path.display())]
    NoClasses { path: PathBuf },
    #[error("{} has no columns that are known in advance, so that --future has nothing to give; leave it out", .path.display())]
    NoKnown { path: PathBuf },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Pretrained(#[from] crate::pretrained::PretrainedError),
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

struct Kept<'a>(&'a Option<PathBuf>);

impl std::fmt::Display for Kept<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(path) => write!(f, ", and the last good checkpoint is {}", path.display()),
            None => Ok(()),
        }
    }
}
