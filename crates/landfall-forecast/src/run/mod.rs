//! Runs: the loop over steps and epochs, and the folder that a run leaves behind.

mod auto;
mod choose;
mod compared;
mod covariates;
mod declared;
mod device;
mod ensemble_choice;
mod ensembles;
mod error;
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
mod named_network;
mod near_names;
mod network;
mod network_options;
mod on_device;
mod open;
mod past_windows;
mod pooled;
mod prepared;
mod presets;
mod record;
mod resolve;
mod resolved;
mod settings;
mod settings_error;
mod source;
mod time_limit;
mod values;
mod widths;
mod words;

pub use choose::{Choice, ENSEMBLE_STAYS, Scored, choose};
pub(crate) use compared::TestErrors;
pub use compared::{CellError, Compared};
pub use device::{Device, processor};
pub use error::RunError;
pub use fit::{FitOptions, Observer, Outcome, complete, count, fit};
pub use folder::{KEPT_DATA, KEPT_FRAME, RunFolder, RunLock};
pub use forecaster::{Forecaster, non_negative, priors};
pub use forecasts::window_forecasts;
pub use intervals::{ForecastSource, Intervals, Rolling, baseline_source, run_source};
pub use measured::TestScoring;
pub use on_device::{AutoReason, OnDevice, on_device};
pub use open::{ClassPrediction, Forecast, Run, open};
pub use prepared::Prepared;
pub use record::{
    BaselineRecord, BesideBaseline, ClassRecord, ColumnRecord, EvaluationRecord, IntervalRecord,
    IntervalScore, QuantileRecord, Scalars, SeriesRecord, StepLine, Units,
};

pub use crate::precision::Precision;
pub use declared::{Arity, Facts, Group, Range, Setting};
pub use kinds::{Synthetic, Weights};
pub use network_options::NetworkOptions;
pub use presets::{Preset, Recipe};
pub use resolve::{CheckpointEvery, Resolved, interval_levels};
pub use resolved::SCALED;
pub use settings::{SETTINGS, Settings};
pub use settings_error::SettingsError;
pub use source::{Data, Source};
pub use values::{Files, Names, OneOrMore, SameWindows, ScalerTable, TimeLimit, named};
pub use widths::{HalfWidths, enough, without_intervals};
pub use words::{OPTIONS_WITH_FLAGS, Text};
