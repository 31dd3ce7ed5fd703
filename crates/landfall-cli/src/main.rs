//! The program `landfall`: trains forecasters from a CSV, scores them, and forecasts.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(landfall_cli::program(std::env::args_os()))
}
