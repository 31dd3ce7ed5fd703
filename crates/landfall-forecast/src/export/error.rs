//! Why a run is not exported.

use crate::chronos::ChronosError;
use crate::run::{RunError, Text};
use crate::zero_shot::ZeroShotError;
use std::path::PathBuf;

/// Why a run is not exported.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum ExportError {
    #[error("{} exists already; choose another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {why}; choose another file", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("the op {op}{} has no ONNX form ({why}); a model with it is not exported", At(.value))]
    NoForm { op: &'static str, value: Option<String>, why: String },
    #[error(
        "the model takes {bytes} bytes and one ONNX file at most {limit} (2 GiB, the limit of its format); export a smaller network"
    )]
    TooLarge { bytes: usize, limit: usize },
    #[error("{} has the loss student-t, whose quantile at level {level} is written as a series that errs by {error:e}, and {most:e} is allowed; train with quantiles nearer to 0.5", .path.display())]
    Level { path: PathBuf, level: f64, error: f64, most: f64 },
    #[error("{} averages a network with a baseline, and has the loss negative-binomial, whose quantiles are written as parameters of the network alone; train with a preset", .path.display())]
    Averaged { path: PathBuf },
    #[error("{} forecasts by its ensemble, whose statistical models have no form in ONNX; train it with {}", .path.display(), Text::given("ensemble", "none"))]
    Ensemble { path: PathBuf },
    #[error("{} forecasts by {member} alone, which has no form in ONNX; train a network with {}", .path.display(), Text::given("ensemble", "none"))]
    Member { path: PathBuf, member: &'static str },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
    #[error(transparent)]
    Chronos(#[from] ChronosError),
    #[error(transparent)]
    ZeroShot(#[from] ZeroShotError),
}

landfall::debug_as_text!(ExportError);

/// Which value an op makes, if it has a name.
struct At<'a>(&'a Option<String>);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(name) => write!(f, " of `{name}`"),
            None => Ok(()),
        }
    }
}

/// An op without an ONNX form.
pub(super) fn no_form(op: &'static str, value: Option<String>, why: impl Into<String>) -> ExportError {
    ExportError::NoForm { op, value, why: why.into() }
}
