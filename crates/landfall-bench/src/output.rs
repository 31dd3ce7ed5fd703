//! What the bench prints: results to standard output, everything else to standard error.

use crate::error::BenchError;
use landfall_train::data::printable;
use serde_json::Value;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

/// Number of this rank, where it is not the first one, which prints the results of all.
static RANK: OnceLock<usize> = OnceLock::new();

/// Prints no results from now on, and begins other lines with the rank's number.
pub(crate) fn as_rank(rank: usize) {
    // A process has one rank.
    let _ = RANK.set(rank);
}

/// Writes results. A reader that went away has read enough; it is no error.
pub(crate) fn line(text: &str) -> Result<(), BenchError> {
    if RANK.get().is_some() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(BenchError::Output(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes results as one line of JSON.
pub(crate) fn json(value: &Value) -> Result<(), BenchError> {
    line(&value.to_string())
}

/// A line on standard error, where nobody may be listening any more.
pub(crate) fn note(text: &str) {
    let rank = RANK.get().map_or_else(String::new, |rank| format!("rank {rank}: "));
    let _ = writeln!(std::io::stderr().lock(), "{rank}{}", printable(text));
}

/// A note of why the bench ends early.
pub(crate) fn error(text: &str) {
    note(&format!("error: {}", text.replace('\n', " ")));
}
