//! `landfall export`: a run's network in the form of another program.

mod checkpoints;
mod model;

use crate::args::{Export, KeptIntervals};
use crate::error::CliError;
use landfall_forecast::export::pretrained_onnx;
use landfall_forecast::run::Run;
use landfall_forecast::zero_shot::Weights;

/// Writes each form that was asked for.
pub(crate) fn run(args: &Export) -> Result<(), CliError> {
    if args.official.is_none() && args.hugging_face.is_none() && args.onnx.is_none() {
        return Err(CliError::Needed("a form", "as in: landfall export RUN --onnx FILE"));
    }
    let KeptIntervals { interval, no_interval, data } = &args.intervals;
    if args.onnx.is_none() && (interval.is_some() || *no_interval || !data.is_empty()) {
        return Err(CliError::Needed("--onnx", "intervals are a part of an ONNX model alone"));
    }
    let Some(run) = &args.run else {
        let Some(path) =
            args.onnx.as_ref().filter(|_| args.official.is_none() && args.hugging_face.is_none())
        else {
            return Err(CliError::Needed("a run directory", "as in: landfall export RUN --hugging-face DIR"));
        };
        let weights = args.pretrained.as_deref().map_or_else(Weights::shipped, Weights::read)?;
        return model::say(&pretrained_onnx(&weights, path)?, (path, args.json));
    };
    let run = Run::open(run)?;
    if let Some(path) = &args.official {
        checkpoints::official(&run, args.weights, path)?;
    }
    if let Some(path) = &args.hugging_face {
        checkpoints::hugging_face(&run, args.weights, path)?;
    }
    match &args.onnx {
        Some(path) => model::model(run, args.weights, &args.intervals, (path, args.json)),
        None => Ok(()),
    }
}
