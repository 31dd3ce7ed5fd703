//! `landfall-bench`: training steps and single ops, timed in turn with other libraries. For developers of landfall;
//! `bench/README.md` says what is measured and how.
//!
//! From the bottom up: `calls` are ops with their arguments, `routing` and `rows` the tables of what can be timed, `ours` and
//! `experts` time landfall, `peer` another library; `comparison`, `ranks` and `profile` are the three measurements.
#![deny(unsafe_code)]

mod args;
mod calls;
mod comparison;
mod error;
mod experts;
mod measured;
mod ours;
mod output;
mod peer;
mod profile;
mod ranks;
mod record;
mod routing;
mod rows;
mod samples;
mod stop;

use args::Args;
use clap::Parser;
use error::BenchError;
use landfall_train::ranks::Launch;
use std::process::ExitCode;

/// 0, 2 for an error, as clap has it, and 130 for an interruption.
fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::error(&error.to_string());
            ExitCode::from(2)
        }
    }
}

/// Measures; the exit code.
fn run(args: &Args) -> Result<u8, BenchError> {
    args.check()?;
    if args.profile {
        return profile::run(args).map(|()| 0);
    }
    match Launch::from_environment()? {
        // Ranks have a table of their own.
        Some(launch) => ranks::run(args, &launch).map(|()| 0),
        None => comparison::run(args),
    }
}
