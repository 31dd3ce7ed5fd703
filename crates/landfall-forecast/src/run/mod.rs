//! Runs: the loop over steps and epochs, and the folder that a run leaves behind.

mod auto;
mod choose;
mod covariates;
mod declared;
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
mod on_device;
mod open;
mod past_windows;
mod prepared;
mod presets;
mod record;
mod resolve;
mod resolved;
mod settings;
mod words;

pub use choose::{Choice, Scored, choose};
pub use device::{Device, processor};
pub use fit::{CheckpointEvery, FitOptions, Observer, Outcome, complete, count, fit};
pub use folder::{KEPT_DATA, KEPT_FRAME, RunFolder, RunLock};
pub use forecaster::{Forecaster, non_negative, priors};
pub use forecasts::window_forecasts;
pub use intervals::{
    ForecastSource, HalfWidths, Intervals, Rolling, baseline_source, enough, run_source, without_intervals,
};
pub use measured::TestScoring;
pub use on_device::{AutoReason, OnDevice, on_device};
pub use open::{ClassPrediction, Forecast, Run, Weights, open};
pub use prepared::Prepared;
pub use record::{
    BaselineRecord, ClassRecord, ColumnRecord, EvaluationRecord, IntervalRecord, IntervalScore,
    QuantileRecord, Scalars, SeriesRecord, StepLine, Units,
};

pub use declared::{Arity, Facts, Group, Range, Setting};
pub use kinds::{Precision, Synthetic};
pub use network::NetworkOptions;
pub use presets::{Preset, Recipe};
pub use resolve::{Data, Resolved, Source, interval_levels};
pub use resolved::SCALED;
pub use settings::{Files, Names, OneOrMore, SETTINGS, ScalerTable, Settings, SettingsError, named};
pub use words::{Keys, Text, Wording};

use crate::checkpoint::CheckpointError;
use crate::data::DataError;
use crate::pretrained::PretrainedError;
use std::path::PathBuf;

/// Why a run ended early. The texts mention settings, which [`RunError::worded`] writes as a door does.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum RunError {
    Exists {
        path: PathBuf,
    },
    InUse {
        path: PathBuf,
    },
    Gone {
        path: PathBuf,
    },
    NotARun {
        path: PathBuf,
        why: String,
    },
    NoCheckpoint {
        path: PathBuf,
    },
    Write {
        path: PathBuf,
        why: std::io::Error,
    },
    NonFinite {
        step: usize,
        loss: f64,
        grad_norm: f64,
        cause: landfall::Error,
        checkpoint: Option<PathBuf>,
    },
    Diverged {
        step: usize,
    },
    NoValidation,
    TwoFrequencies {
        first: String,
        one: String,
        second: String,
        other: String,
    },
    /// The best weights, of a run that was not validated, or the last ones, of one without a checkpoint.
    NoWeights {
        path: PathBuf,
        weights: Weights,
    },
    TooFewErrors {
        series: String,
        level: f64,
        found: usize,
        needed: usize,
    },
    NoCount {
        series: String,
        column: String,
        row: String,
        value: f64,
    },
    NoErrors {
        path: PathBuf,
    },
    UndatedErrors {
        path: PathBuf,
    },
    NoFuture {
        path: PathBuf,
    },
    Classes {
        path: PathBuf,
    },
    NoClasses {
        path: PathBuf,
    },
    NoKnown {
        path: PathBuf,
    },
    NoDevice {
        device: Device,
        why: landfall::Error,
    },
    Settings(SettingsError),
    Checkpoint(CheckpointError),
    Pretrained(PretrainedError),
    Data(DataError),
    Engine(landfall::Error),
}

impl RunError {
    /// The error with settings as a door writes them.
    #[must_use]
    pub fn worded(&self, door: &dyn Wording) -> String {
        let words = |text: &str| Text::template(text).worded(door);
        match self {
            Self::Exists { path } => {
                format!(
                    "the run directory {} already exists; choose another one, or resume it",
                    path.display()
                )
            }
            Self::InUse { path } => format!(
                "{} is in use: another process trains this run; wait until it ends, or stop it",
                path.display()
            ),
            Self::Gone { path } => format!(
                "the run directory {} was removed while the run was going on; nothing more can be saved",
                path.display()
            ),
            Self::NotARun { path, why } => format!("{} is not a run directory: {why}", path.display()),
            Self::NoCheckpoint { path } => format!(
                "{} has no checkpoint yet: its run ended before the first one; start it again with its config.toml",
                path.display()
            ),
            Self::Write { path, why } => format!(
                "cannot write {}: {why}; check the permissions of its directory and the free space",
                path.display()
            ),
            Self::NonFinite { step, loss, grad_norm, cause, checkpoint } => format!(
                "step {step} gave loss {loss} and gradient norm {grad_norm}: {cause}; the state is as before that step{}",
                Kept(checkpoint)
            ),
            Self::Diverged { step } => format!(
                "the training diverged: after step {step} its errors are not finite, so that there is nothing to forecast \
                 with; {}",
                words("use a smaller {lr} or {clip}, or scale the data")
            ),
            Self::NoValidation => {
                "the session has no validation windows to choose the best weights by".to_owned()
            }
            Self::TwoFrequencies { first, one, second, other } => format!(
                "series `{first}` is {one} and series `{second}` {other}, and one season and one horizon in rows would have \
                 to serve both; train them in runs of their own, or give the seasonal period in rows ({})",
                words("{period}")
            ),
            Self::NoWeights { path, weights } => {
                let hint = match weights {
                    Weights::Best => "the run has not been validated yet; use its last weights",
                    Weights::Last => "the run has written no checkpoint yet",
                };
                format!("{} is not there; {hint}", path.display())
            }
            Self::TooFewErrors { series, level, found, needed } => format!(
                "{}: series `{series}` has {found} windows to take errors from that the run was not fit on, and an interval \
                 of {level} % needs {needed}; {}",
                Text::given("interval", level).worded(door),
                words(
                    "ask for a lower level, or train with a shorter {horizon} or more validation rows ({split})"
                )
            ),
            Self::NoCount { series, column, row, value } => format!(
                "{}: column `{column}` of series `{series}` is {value} at {row}, and counts are whole numbers from 0 to \
                 16777216; {}",
                words("{loss negative-binomial}"),
                words(
                    "choose count columns with {target}, fill missing ones by {fill previous}, or use {loss normal} or \
                     {loss student-t}"
                )
            ),
            Self::NoErrors { path } => format!(
                "{} is not there, and this run's weights were fit on its validation rows, so that their errors make no \
                 intervals; train it again",
                path.display()
            ),
            Self::UndatedErrors { path } => format!(
                "{} does not say when its windows ended, so that it makes no intervals of a forecast from a past row; train \
                 the run again",
                path.display()
            ),
            Self::NoFuture { path } => format!(
                "{} holds a window-regressor, which predicts one label for a window and no future rows; train a patchtst to \
                 forecast",
                path.display()
            ),
            Self::Classes { path } => format!(
                "{} holds a cross-asset, which predicts classes of samples and no future rows; use landfall predict",
                path.display()
            ),
            Self::NoClasses { path } => format!(
                "{} holds no cross-asset, and only that predicts classes; use landfall forecast for future rows",
                path.display()
            ),
            Self::NoKnown { path } => format!(
                "{} has no columns that are known in advance, so that rows to forecast have nothing to give; leave them out",
                path.display()
            ),
            Self::NoDevice { device, why } => format!(
                "{}: {why}; {}",
                Text::given("device", device).worded(door),
                words("use {device cpu}")
            ),
            Self::Settings(e) => e.worded(door),
            Self::Checkpoint(e) => e.to_string(),
            Self::Pretrained(e) => e.to_string(),
            Self::Data(e) => e.to_string(),
            Self::Engine(e) => e.to_string(),
        }
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.worded(&Keys))
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Those that it wraps are said as they are, so that theirs are its causes.
        let wrapped: &(dyn std::error::Error + 'static) = if let Self::Settings(e) = self {
            e
        } else if let Self::Checkpoint(e) = self {
            e
        } else if let Self::Pretrained(e) = self {
            e
        } else if let Self::Data(e) = self {
            e
        } else if let Self::Engine(e) = self {
            e
        } else {
            return if let Self::Write { why, .. } = self { Some(why) } else { None };
        };
        wrapped.source()
    }
}

macro_rules! from_errors {
    ($($Error:ty: $Variant:ident),* $(,)?) => {
        $(impl From<$Error> for RunError {
            fn from(e: $Error) -> Self {
                Self::$Variant(e)
            }
        })*
    };
}
from_errors! {
    SettingsError: Settings,
    CheckpointError: Checkpoint,
    PretrainedError: Pretrained,
    DataError: Data,
    landfall::Error: Engine,
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
