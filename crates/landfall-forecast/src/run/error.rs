//! Why a run ends early.

use super::device::Device;
use super::kinds::Weights;
use super::settings_error::SettingsError;
use super::words::Text;
use crate::checkpoint::CheckpointError;
use crate::data::DataError;
use crate::ensemble::EnsembleError;
use crate::pretrained::PretrainedError;
use std::path::PathBuf;

/// Why a run ended early.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum RunError {
    #[error("the run directory {} already exists; choose another one, or resume it", .path.display())]
    Exists { path: PathBuf },
    #[error("{} is in use: another process trains this run; wait until it ends, or stop it", .path.display())]
    InUse { path: PathBuf },
    #[error("the run directory {} was removed while the run was going on; nothing more can be saved", .path.display())]
    Gone { path: PathBuf },
    #[error("{} is not a run directory: {why}", .path.display())]
    NotARun { path: PathBuf, why: String },
    #[error("{} has no checkpoint yet: its run ended before the first one; start it again with its config.toml", .path.display())]
    NoCheckpoint { path: PathBuf },
    #[error("cannot write {}: {why}; check the permissions of its directory and the free space", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("step {step} gave loss {loss} and gradient norm {grad_norm}: {cause}; the state is as before that step{}", Kept(.checkpoint))]
    NonFinite { step: usize, loss: f64, grad_norm: f64, cause: landfall::Error, checkpoint: Option<PathBuf> },
    #[error(
        "the training diverged: after step {step} its errors are not finite, so that there is nothing to forecast with; {}",
        Text::from("use a smaller {lr} or {clip}, or scale the data")
    )]
    Diverged { step: usize },
    #[error(
        "nothing of this data can be tested: {why}; a forecast of it is possible, and errors need more rows or a run with a shorter horizon"
    )]
    Untested { why: DataError },
    #[error("the session has no validation windows to choose the best weights by")]
    NoValidation,
    #[error(
        "series `{first}` is {one} and series `{second}` {other}, and one season and one horizon in rows would have to serve both; train them in runs of their own, or give the seasonal period in rows ({})",
        Text::setting("period")
    )]
    TwoFrequencies { first: String, one: String, second: String, other: String },
    /// The best weights, of a run that was not validated, or the last ones, of one without a checkpoint.
    #[error("{} is not there; {}", .path.display(), match .weights {
        Weights::Best => "the run has not been validated yet; use its last weights",
        Weights::Last => "the run has written no checkpoint yet",
    })]
    NoWeights { path: PathBuf, weights: Weights },
    #[error(
        "{}: series `{series}` has {found} windows to take errors from that the run was not fit on, and an interval of {level} % needs {needed}; {}",
        Text::given("interval", .level),
        Text::from("ask for a lower level, or train with a shorter {horizon} or more validation rows ({split})")
    )]
    TooFewErrors { series: String, level: f64, found: usize, needed: usize },
    #[error(
        "{}: column `{column}` of series `{series}` is {value} at {row}, and counts are whole numbers from 0 to 16777216; {}",
        Text::given("loss", "negative-binomial"),
        Text::from(
            "choose count columns with {target}, fill missing ones by {fill previous}, or use {loss normal} or {loss student-t}"
        )
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
    #[error("{} has no columns that are known in advance, so that rows to forecast have nothing to give; leave them out", .path.display())]
    NoKnown { path: PathBuf },
    #[error("{}: {why}; use {}", Text::given("device", .device), Text::given("device", "cpu"))]
    NoDevice { device: Device, why: landfall::Error },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Pretrained(#[from] PretrainedError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the run forecasts by its ensemble, and ensemble.json is not in its directory; train it again")]
    NoModels,
    #[error(transparent)]
    Ensemble(#[from] EnsembleError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

landfall::debug_as_text!(RunError);

struct Kept<'a>(&'a Option<PathBuf>);

impl std::fmt::Display for Kept<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(path) => write!(f, ", and the last good checkpoint is {}", path.display()),
            None => Ok(()),
        }
    }
}
