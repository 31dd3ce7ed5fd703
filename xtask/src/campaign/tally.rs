//! What a campaign found, and where it is kept.

use std::path::{Path, PathBuf};

/// What a campaign found.
#[derive(Default)]
pub(super) struct Tally {
    /// Cases that were run.
    pub(super) count: usize,
    /// What is wrong, a line each.
    pub(super) findings: Vec<String>,
    /// What else is worth a word.
    pub(super) notes: Vec<String>,
}

impl Tally {
    /// Prints what is wrong and keeps it.
    pub(super) fn finding(&mut self, line: String) {
        println!("FOUND {line}");
        self.findings.push(line);
    }

    /// Keeps what is worth a word at the end.
    pub(super) fn note(&mut self, line: String) {
        self.notes.push(line);
    }
}

/// Where inputs and run directories of findings are kept.
pub(super) fn findings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/campaign")
}
