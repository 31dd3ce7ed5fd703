//! The library knows settings by their names, and no flag of the program.

use std::error::Error;
use std::path::{Path, PathBuf};

/// The official PatchTST's scripts have flags, which are no settings of ours, and a style sheet
/// has variables of that form.
const ELSEWHERE: [&str; 2] = ["pretrained/official.rs", "report/style.rs"];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, all)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    Ok(())
}

/// Whether a line of code has a flag in it: two hyphens before a letter, with no word right before them.
fn has_flag(line: &str) -> bool {
    let letter = |at: usize| line.as_bytes().get(at).is_some_and(u8::is_ascii_lowercase);
    let alone = |at: usize| {
        at == 0 || !line.as_bytes()[at - 1].is_ascii_alphanumeric() && line.as_bytes()[at - 1] != b'-'
    };
    line.match_indices("--").any(|(at, _)| letter(at + 2) && alone(at))
}

#[test]
fn no_text_of_the_library_names_a_flag() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all)?;
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../landfall-train/src"), &mut all)?;
    assert!(all.len() > 100, "{} files", all.len());
    let mut found = Vec::new();
    for path in all {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        if ELSEWHERE.iter().any(|elsewhere| name.starts_with(elsewhere)) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        // Tests stand at the end of a file.
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        found.extend(
            lines.filter(|(_, line)| has_flag(line)).map(|(i, line)| format!("{name}:{}: {line}", i + 1)),
        );
    }
    assert!(found.is_empty(), "a door words settings, the library names them:\n{}", found.join("\n"));
    Ok(())
}
