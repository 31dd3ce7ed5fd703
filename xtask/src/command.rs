//! Commands that a task runs.

use std::process::Command;

/// Runs a command and waits for its end.
///
/// # Errors
/// The command, where it can not be started or fails.
pub(crate) fn must(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(s) if s.success() => Ok(()),
        Ok(s) => Err(format!("{command:?} ended with {s}")),
        Err(e) => Err(format!("{command:?} could not be started: {e}")),
    }
}
