//! Formats all Rust code. `cargo fmt` finds modules by their `mod` lines; those of the ops stand in the lists of the families.

use crate::must;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Formats, or with `--check` says what is not formatted.
pub(crate) fn run(top: &Path, rest: &[String]) -> Result<(), String> {
    let check: &[&str] = match rest {
        [] => &[],
        [check] if check == "--check" => &["--check"],
        other => return Err(format!("{other:?}: format takes --check or nothing")),
    };
    must(Command::new(env!("CARGO")).current_dir(top).args(["fmt", "--all", "--"]).args(check))?;
    let mut files = Vec::new();
    listed(&top.join("crates/landfall/src/ops"), &mut files).map_err(|e| format!("files of ops: {e}"))?;
    must(Command::new("rustfmt").current_dir(top).args(["--edition", "2024"]).args(check).args(files))
}

/// Rust files below a folder.
fn listed(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            listed(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
