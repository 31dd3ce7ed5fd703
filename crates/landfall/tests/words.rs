//! Words that the glossary has retired do not come back: each row of its last table is searched for in the whole tree.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Where the words of the project are: code, documentation, benches.
const PLACES: &[&str] = &[
    "crates",
    "docs",
    "bench",
    "examples",
    "python",
    "xtask",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    ".ci",
    ".github",
];
/// Kinds of files that people read.
const KINDS: &[&str] = &["rs", "cu", "md", "py", "sh", "toml"];
/// The glossary lists the words themselves.
const GLOSSARY: &str = "docs/glossary.md";
/// Old names whose use is an error: what says so names them.
const ERRORS: &[(&str, &str)] =
    &[("LANDFALL_ABREAST", "crates/landfall/src/engine/mod.rs"), ("LANDFALL_ABREAST", "docs/env.md")];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first column of the table of retired words.
fn retired() -> Vec<String> {
    let glossary = read_to_string(top().join(GLOSSARY)).expect("the glossary");
    let table = glossary.split("## Retired words").nth(1).expect("a table of retired words");
    let cell = |line: &str| {
        line.strip_prefix("| ")?.split(" |").next().map(|w| w.trim().trim_matches('`').to_owned())
    };
    let words = table.lines().filter_map(cell).filter(|w| w != "retired" && !w.starts_with("--"));
    words.collect()
}

fn files(at: &Path, all: &mut Vec<PathBuf>) {
    if at.is_dir() {
        let entries = read_dir(at).expect("a folder of the tree").map(|e| e.expect("an entry").path());
        entries
            .filter(|p| !p.ends_with("target") && !p.ends_with("__pycache__"))
            .for_each(|p| files(&p, all));
    } else if at.extension().is_none_or(|e| KINDS.iter().any(|k| e == *k)) {
        all.push(at.to_owned());
    }
}

/// The lines of a text that have a word, from 1.
fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(part) && !after.is_some_and(part)
        })
    };
    text.lines().zip(1..).filter(|(line, _)| has(line)).map(|(_, number)| number).collect()
}

#[test]
fn retired_words_are_gone() {
    let (top, words) = (top(), retired());
    assert!(words.len() >= 10, "the glossary retires {} words", words.len());
    let mut all = Vec::new();
    PLACES.iter().for_each(|place| files(&top.join(place), &mut all));
    assert!(all.len() > 300, "only {} files were found", all.len());
    let mut found = Vec::new();
    for file in all {
        let name = file.strip_prefix(&top).expect("below the top").to_string_lossy().into_owned();
        // This test names some of them.
        if name == GLOSSARY || name.ends_with("landfall/tests/words.rs") {
            continue;
        }
        let Ok(text) = read_to_string(&file) else { continue };
        for word in words.iter().filter(|w| !ERRORS.contains(&(w, &name))) {
            found.extend(lines_with(&text, word).into_iter().map(|line| format!("{name}:{line}: {word}")));
        }
    }
    assert!(found.is_empty(), "retired words (see {GLOSSARY}):\n{}", found.join("\n"));
}

#[test]
fn a_word_is_found_whole() {
    assert_eq!(lines_with("gapless\nis gapless.\ngaplessly\nun_gapless\n(gapless)", "gapless"), [1, 2, 5]);
    assert!(lines_with("nothing of it", "gapless").is_empty());
}
