//! Runs every shell block of the README, so that what it tells people works.

use std::path::Path;
use std::process::Command;

/// Runs the README's commands in order and stops at the first that fails.
pub(crate) fn run(top: &Path, except: &[String]) -> Result<(), String> {
    let text = std::fs::read_to_string(top.join("README.md")).map_err(|e| format!("README.md: {e}"))?;
    let commands = shell_lines(&text);
    if let Some(unknown) = except.iter().find(|e| !commands.contains(&e.as_str())) {
        return Err(format!("README.md has no command `{unknown}`"));
    }
    for command in commands.into_iter().filter(|c| !except.iter().any(|e| e == c)) {
        println!("\n$ {command}");
        let status = Command::new("sh").args(["-ec", command]).current_dir(top).status();
        match status {
            Ok(s) if s.success() => {}
            Ok(s) => return Err(format!("`{command}` of README.md ended with {s}")),
            Err(e) => return Err(format!("`{command}` of README.md could not be started: {e}")),
        }
    }
    Ok(())
}

/// The lines of all fenced blocks marked `sh`.
fn shell_lines(markdown: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in markdown.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() && !command.starts_with('#') => lines.push(command),
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::shell_lines;

    #[test]
    fn finds_shell_lines_only() {
        let text = "```sh\na --b\n# why\n\nc\n```\n```rust\nlet d = 1;\n```\n";
        assert_eq!(shell_lines(text), ["a --b", "c"]);
    }
}
