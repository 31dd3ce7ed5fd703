//! Runs in forms that other programs read.
//!
//! [`onnx`] writes the forecaster of a run as an ONNX model. There is no second definition of any model: the graph that
//! Landfall itself would run is built, and each of its ops is written as ONNX operators.

mod forecaster;
mod onnx;

pub use onnx::{IR_VERSION, OPSET, OnnxSummary, onnx};

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
    #[error("{} reads columns that are known in advance ({}), and a model for other programs has no input for them; train without --known-future, --static and --calendar", .path.display(), .columns.join(", "))]
    Known { path: PathBuf, columns: Vec<String> },
    #[error("{} predicts a distribution (--loss {loss}), whose quantiles have no ONNX form; train with --loss quantile", .path.display())]
    Distribution { path: PathBuf, loss: String },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

/// Refuses runs that forecast from more than their history, or a distribution.
fn expressible(run: &Run) -> Result<(), ExportError> {
    let path = || run.path().to_owned();
    if run.reads_known() {
        let columns = run.columns().iter().rev().take(run.known().len()).rev().cloned().collect();
        return Err(ExportError::Known { path: path(), columns });
    }
    let loss = run.resolved().settings.loss.clone().unwrap_or_default();
    match run.resolved().training.loss {
        Loss::Distribution(..) => Err(ExportError::Distribution { path: path(), loss }),
        Loss::Mse | Loss::Mae | Loss::Huber(_) | Loss::Quantile(_) | Loss::CrossEntropy => Ok(()),
    }
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
