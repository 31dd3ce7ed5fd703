//! Calls of ops against the reference, by the suite's `--guarded`: on views that a seed draws in memory whose other bytes must stay
//! as they are. Programs against PyTorch, by `bench/peers/judge.py`.

use super::options::Options;
use super::tally::Tally;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is judged.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Part {
    /// Calls of every op on views drawn in guarded memory, against the reference
    Guarded,
    /// Random programs against PyTorch, in the Python that PYTHON names, with torch and the package landfall
    Programs,
}

pub(super) fn run(part: Part, options: &Options) -> Result<Tally, String> {
    match part {
        Part::Guarded => guarded(options),
        Part::Programs => programs(options),
    }
}

fn guarded(options: &Options) -> Result<Tally, String> {
    let mut command = Command::new(suite()?);
    command.args(["--guarded", &options.count.to_string(), "--seed", &options.seed.to_string()]);
    if let Some(case) = options.case {
        command.args(["--case", &case.to_string()]);
    }
    told(command, "FOUND ", "guarded: ", options.case.map_or(options.count, |_| 1))
}

/// Random programs, their values and derivatives, in a Python with torch and the package.
fn programs(options: &Options) -> Result<Tally, String> {
    let mut command = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    command.arg(top().join("bench/peers/judge.py"));
    command.args(["--count", &options.count.to_string(), "--seed", &options.seed.to_string()]);
    told(command, "    WRONG ", "programs: ", options.count)
}

/// What a judge found: the lines that begin so. A run that counted its cases ended; another one says why it did not.
fn told(mut command: Command, found: &str, counted: &str, count: usize) -> Result<Tally, String> {
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let told = String::from_utf8_lossy(&done.stdout);
    let mut tally = Tally { count, ..Tally::default() };
    told.lines().filter_map(|line| line.strip_prefix(found)).for_each(|line| tally.finding(line.to_owned()));
    match told.lines().find(|line| line.starts_with(counted)) {
        Some(counts) if done.status.success() != tally.findings.is_empty() => {
            Err(format!("{}: {counts}\n{told}", done.status))
        }
        Some(counts) => {
            tally.note(counts.to_owned());
            Ok(tally)
        }
        None => Err(format!("{command:?} ended with {}:\n{told}", done.status)),
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The suite of the engine's ops, built with the whole workspace, so that features are those of its tests and nothing is built twice.
fn suite() -> Result<PathBuf, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(top()).args([
        "test",
        "--workspace",
        "--no-run",
        "--test",
        "suite",
        "--message-format=json",
    ]);
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    let messages = String::from_utf8_lossy(&done.stdout);
    let of_engine = |message: &Value| {
        let package = message["package_id"].as_str().is_some_and(|id| id.contains("crates/landfall#"));
        let path = message["executable"].as_str().filter(|_| package && message["target"]["name"] == "suite");
        path.map(PathBuf::from)
    };
    let found =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).find_map(|m| of_engine(&m));
    found.ok_or_else(|| format!("{command:?} built no suite ({})", done.status))
}
