//! What was asked of a campaign.

use crate::command::must;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was asked of a campaign.
pub(super) struct Options {
    /// How many cases to run.
    pub(super) count: usize,
    /// From it and its number follows a case.
    pub(super) seed: u64,
    /// The one case to run again, instead of many.
    pub(super) case: Option<u64>,
    /// The program to test, instead of the one that is built here.
    pub(super) program: Option<PathBuf>,
}

impl Options {
    /// The program to run, built where none was named.
    pub(super) fn program(&self) -> Result<PathBuf, String> {
        if let Some(path) = &self.program {
            return std::path::absolute(path).map_err(|e| e.to_string());
        }
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let build = ["build", "--quiet", "-p", "landfall-cli"];
        must(Command::new(env!("CARGO")).current_dir(&top).args(build))?;
        // Beside this program, wherever builds go.
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        Ok(own.with_file_name("landfall"))
    }
}
