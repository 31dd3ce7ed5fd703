//! Calls of ops against the reference: the suite's `--guarded`, on views that a seed draws in memory whose other bytes must stay
//! as they are.

use super::{Options, Tally};
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    command.args(["test", "--quiet", "-p", "landfall", "--test", "suite", "--"]);
    command.args(["--guarded", &options.count.to_string(), "--seed", &options.seed.to_string()]);
    if let Some(case) = options.case {
        command.args(["--case", &case.to_string()]);
    }
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    let told = String::from_utf8_lossy(&done.stdout);
    let mut tally = Tally { count: options.case.map_or(options.count, |_| 1), ..Tally::default() };
    told.lines()
        .filter_map(|line| line.strip_prefix("FOUND "))
        .for_each(|line| tally.finding(line.to_owned()));
    // A run that counted its calls ended; another one says why it did not.
    match told.lines().find(|line| line.starts_with("guarded: ")) {
        Some(counts) if done.status.success() != tally.findings.is_empty() => {
            Err(format!("{}: {counts}", done.status))
        }
        Some(counts) => {
            tally.note(counts.to_owned());
            Ok(tally)
        }
        None => Err(format!("the suite ended with {}:\n{told}", done.status)),
    }
}
