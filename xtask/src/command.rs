//! Commands that a task runs.

use std::process::{Command, Stdio};

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

/// What a command writes to standard output.
///
/// # Errors
/// The command, where it can not be started, fails, or writes what is no text.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let ran = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{command:?} could not be started: {e}"))?;
    if !ran.status.success() {
        return Err(format!("{command:?} ended with {}", ran.status));
    }
    String::from_utf8(ran.stdout).map_err(|e| format!("{command:?}: {e}"))
}
