//! `landfall export`: a run's network in the form of another program.

mod checkpoints;

use crate::args::Export;
use crate::error::CliError;
use landfall_train::run::Run;

/// Writes each form that was asked for.
pub(crate) fn run(args: &Export) -> Result<(), CliError> {
    if args.official.is_none() && args.hugging_face.is_none() {
        return Err(CliError::Needed("a form", "as in: landfall export RUN --hugging-face DIR"));
    }
    let run = Run::open(&args.run)?;
    if let Some(path) = &args.official {
        checkpoints::official(&run, args.weights, path)?;
    }
    if let Some(path) = &args.hugging_face {
        checkpoints::hugging_face(&run, args.weights, path)?;
    }
    Ok(())
}
