//! `landfall train`: a new run, or an old one that goes on.

pub(super) mod one_run;
mod ranks;
pub(super) mod results;

use self::one_run::{fresh, go_on, new_settings, only_resumes};
use super::seeds;
use crate::args::Train;
use crate::error::CliError;
use crate::signals::Stop;
use landfall::World;
use std::path::Path;

/// Trains; the exit code.
pub(crate) fn run(args: &Train) -> Result<u8, CliError> {
    let stop = Stop::watch();
    match ranks::launched(args)? {
        None => alone(args, stop),
        Some(place) => place.train(args, stop),
    }
}

/// Trains in this process alone.
fn alone(args: &Train, stop: Stop) -> Result<u8, CliError> {
    match (&args.resume, &args.seeds) {
        (Some(path), _) => resume(args, path, stop),
        (None, Some(seeds)) => seeds::run(args, seeds, &stop),
        (None, None) => {
            let (settings, world) = (new_settings(args)?, World::single());
            fresh((args.tuned, args.json), settings, args.out.as_deref(), &world, stop)
                .map(|ended| ended.code)
        }
    }
}

fn resume(args: &Train, path: &Path, stop: Stop) -> Result<u8, CliError> {
    only_resumes(args)?;
    let flags = args.settings();
    if seeds::is_one(path) {
        return seeds::resume(args, path, &flags, &stop);
    }
    flags.changes_nothing_else()?;
    go_on(&flags, path, args.json, &World::single(), stop).map(|ended| ended.code)
}
