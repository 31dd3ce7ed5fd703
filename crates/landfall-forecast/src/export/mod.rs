//! Runs in forms that other programs read.
//!
//! [`onnx`] writes the forecaster of a run as an ONNX model. There is no second definition of any model: the graph that
//! Landfall itself would run is built, and each of its ops is written as ONNX operators.

mod distribution;
mod forecaster;
mod onnx;

pub use onnx::{IR_VERSION, OPSET, OnnxSummary, onnx};

use crate::nn::Family;
use crate::run::{Run, RunError};
use crate::train::Loss;
use std::path::PathBuf;

/// Why a run is not exported.
#[derive(Debug, thiserror::Error)]
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
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

/// Refuses what no output of a model can say.
fn expressible(run: &Run) -> Result<(), ExportError> {
    let counts = matches!(run.resolved().training.loss, Loss::Distribution(Family::NegativeBinomial, _));
    if counts && run.forecaster().is_some_and(|f| f.share != 1.0) {
        return Err(ExportError::Averaged { path: run.path().to_owned() });
    }
    Ok(())
}

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
