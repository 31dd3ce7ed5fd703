//! Test: every command in the documents is one that the program takes.

use super::headings::command;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The commands of `landfall` in the blocks of a document: lines that begin so, with the lines that go on with them.
fn commands(text: &str) -> Vec<String> {
    // Whether a line goes on with the one before, and that is a command of the program.
    let (mut code, mut found, mut on, mut open) = (false, Vec::<String>::new(), false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            (code, on, open) = (!code, false, false);
            continue;
        }
        // What stands behind a sign for comments, redirections and pipes is not the program's.
        let own = line.split(" #").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
        let own = own.split(" | ").next().unwrap_or_default().trim_end_matches('&').trim();
        let begins = own.strip_prefix("$ ").unwrap_or(own);
        let new = code && !on && begins.starts_with("landfall ") && !begins.starts_with("landfall =");
        if new {
            found.push(begins.trim_end_matches('\\').to_owned());
        } else if let Some(last) = found.last_mut().filter(|_| code && open) {
            last.push_str(own.trim_end_matches('\\'));
        }
        on = line.ends_with('\\');
        open = on && (new || open);
    }
    found
}

/// Words, as a shell divides them.
fn words(command: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => all.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    all.extend(Some(word).filter(|w| !w.is_empty()));
    all
}

fn documents(at: &Path, all: &mut Vec<PathBuf>) {
    for path in read_dir(at).expect("a folder of documents").map(|e| e.expect("an entry").path()) {
        // Decisions tell of what was.
        if path.is_dir() && !path.ends_with("decisions") {
            documents(&path, all);
        } else if path.extension().is_some_and(|e| e == "md") {
            all.push(path);
        }
    }
}

#[test]
fn every_command_of_the_documents_is_taken() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![top.join("README.md")];
    documents(&top.join("docs"), &mut all);
    let (mut tried, mut refused) = (0, Vec::new());
    for path in all {
        for line in commands(&read_to_string(&path).expect("a document")) {
            tried += 1;
            if let Err(e) = command().try_get_matches_from(words(&line))
                && e.use_stderr()
            {
                let why = e.to_string().lines().next().unwrap_or_default().to_owned();
                refused
                    .push(format!("{}: {line}: {why}", path.strip_prefix(&top).unwrap_or(&path).display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(tried > 25, "only {tried} commands were found");
}

#[test]
fn commands_are_found_in_blocks() {
    let text = "landfall not --this\n```text\nlandfall a --b 'c d' \\\n    --e f   # why\n$ landfall g > h.csv\nother \\\n    landfall i\nlandfall = 1\n```\n";
    assert_eq!(commands(text), ["landfall a --b 'c d' --e f", "landfall g"]);
    assert_eq!(words("a --b 'c d'  e"), ["a", "--b", "c d", "e"]);
}
