//! Project tasks, run as `cargo xtask TASK`.

mod bundle;
mod campaign;
mod http;
mod kernels;
mod licenses;
mod load;
mod readme;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask TASK
  readme [--except COMMAND]...  runs each line of the README's sh blocks from the top of the checkout, except those named
  kernels [LABEL|--everywhere]  compiles every CUDA kernel, or those of modules whose label begins so, with the run-time compiler
                                of the Python wheel, for Hopper, or for every architecture; needs no GPU
  ops                           writes docs/ops.md, what each op takes on which device, and docs/names.md, what it is called elsewhere,
                                from the table of ops
  licenses [--check]            writes python/THIRD-PARTY.md, the licences of the crates in the wheel, or compares it
  shuffle [ARGUMENT]...         runs the suite of every op in one process, in the orders of ten seeds; --help lists arguments
  bundle [TEST]...              puts test binaries (all, or these) and the programs into bundle/, with a runner for a machine with a GPU
  campaign NAME [ARGUMENT]...   ends runs at random moments, fills the disk, gives damaged files, sends hostile requests; without NAME lists
                                campaigns
  load HOST:PORT FILE           posts FILE to a server's /forecast, and prints the rate and the time of a request";

fn main() -> ExitCode {
    let top = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut args = std::env::args().skip(1);
    let result = match (args.next().as_deref(), args.collect::<Vec<_>>()) {
        (Some("readme"), rest) => readme::excepted(&rest).and_then(|except| readme::run(&top, &except)),
        (Some("kernels"), rest) if rest.len() < 2 => kernels::run(&top, rest.first()),
        (Some("ops"), rest) if rest.is_empty() => ops(&top),
        (Some("licenses"), rest) if rest.is_empty() => licenses::run(&top, false),
        (Some("licenses"), rest) if rest == ["--check"] => licenses::run(&top, true),
        (Some("shuffle"), rest) => shuffle(&top, &rest),
        (Some("campaign"), rest) => return campaign::run(&rest),
        (Some("load"), rest) => return load::run(&rest),
        (Some("bundle"), tests) => bundle::run(&top, &tests),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the tables of ops in the documentation.
fn ops(top: &Path) -> Result<(), String> {
    let test = ["test", "--package", "landfall-suite", "--lib", "--", "--exact", "support::support_table"];
    must(Command::new(env!("CARGO")).current_dir(top).args(test).env("LANDFALL_BLESS", "1"))
}

/// Runs the generated suite in shuffled orders.
fn shuffle(top: &Path, rest: &[String]) -> Result<(), String> {
    let seeds = if rest.iter().any(|arg| arg.starts_with("--seed")) { &[][..] } else { &["--seeds", "10"] };
    let test = ["test", "--package", "landfall", "--test", "suite", "--"];
    must(Command::new(env!("CARGO")).current_dir(top).args(test).args(seeds).args(rest))
}

/// Runs a command and says what it was where it fails.
fn must(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(s) if s.success() => Ok(()),
        Ok(s) => Err(format!("{command:?} ended with {s}")),
        Err(e) => Err(format!("{command:?} could not be started: {e}")),
    }
}
