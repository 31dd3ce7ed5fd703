//! `landfall export`: a run's network in the form of another program.

mod checkpoints;
mod model;

use crate::args::Export;
use crate::error::CliError;
use landfall_train::run::Run;

/// Writes each form that was asked for.
pub(crate) fn run(args: &Export) -> Result<(), CliError> {
    if args.official.is_none() && args.hugging_face.is_none() && args.onnx.is_none() {
        return Err(CliError::Needed("a form", "as in: landfall export RUN --onnx FILE"));
    }
    let run = Run::open(&args.run)?;
    if let Some(path) = &args.official {
        checkpoints::official(&run, args.weights, path)?;
    }
    if let Some(path) = &args.hugging_face {
        checkpoints::hugging_face(&run, args.weights, path)?;
    }
    match &args.onnx {
        Some(path) => model::model(run, args.weights, path, args.json),
        None => Ok(()),
    }
}
