//! The documents find each other: docs/README.md lists each once, and every link leads to a file and to a heading of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Folders and files with documents, from the top of the checkout.
const PLACES: &[&str] = &[".github", "CONTRIBUTING.md", "README.md", "SECURITY.md", "bench", "docs"];
/// Pictures are shown in documents, and listed nowhere.
const PICTURES: &str = "images";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn markdown(at: &Path, all: &mut Vec<PathBuf>) {
    if at.is_dir() {
        let entries = read_dir(at).expect("a folder of documents").map(|e| e.expect("an entry").path());
        entries.for_each(|path| markdown(&path, all));
    } else if at.extension().is_some_and(|extension| extension == "md") {
        all.push(at.to_owned());
    }
}

/// The lines of a document outside of its pieces of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .scan(false, |code, line| {
            let fence = line.trim_start().starts_with("```");
            *code ^= fence;
            Some((!*code && !fence).then_some(line))
        })
        .flatten()
}

/// Where the links of a document lead, but for those to the web.
fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// What links to the headings of a document say behind `#`.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: char| (c.is_alphanumeric() || matches!(c, '-' | '_' | ' ')).then_some(c);
    headings.map(|heading| heading.chars().filter_map(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn the_index_lists_each_document_once() {
    let docs = top().join("docs");
    let index = read_to_string(docs.join("README.md")).expect("the index");
    let mut times = BTreeMap::new();
    for entry in read_dir(&docs).expect("the documents") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
        if name != "README.md" && name != PICTURES {
            times.insert(name, 0);
        }
    }
    assert!(times.len() > 20, "only {} documents were found", times.len());
    for link in links(&index) {
        // A folder is listed by a link to itself or to its first page.
        let name = link.split(['/', '#']).next().unwrap_or_default();
        if let Some(times) = times.get_mut(name) {
            *times += 1;
        }
    }
    let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "docs/README.md lists these not once, but so often: {wrong:?}");
}

#[test]
fn links_lead_somewhere() {
    let (top, mut all) = (top(), Vec::new());
    PLACES.iter().for_each(|place| markdown(&top.join(place), &mut all));
    assert!(all.len() > 80, "only {} documents were found", all.len());
    let (mut count, mut wrong) = (0, Vec::new());
    for file in &all {
        let text = read_to_string(file).expect("a document");
        for link in links(&text) {
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = file.parent().expect("a folder");
            let target = if path.is_empty() { file.clone() } else { folder.join(path) };
            let heading = |text: String| anchors(&text).contains(anchor);
            if !target.exists() || !anchor.is_empty() && !read_to_string(&target).is_ok_and(heading) {
                wrong.push(format!("{}: {link}", file.strip_prefix(&top).expect("below the top").display()));
            }
        }
    }
    assert!(count > 150, "only {count} links were found");
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn links_and_headings_are_found() {
    let text =
        "# A b, `c-d_e`?\n[x](y.md#z) and [w](https://w) [v](#u)\n```\n[no](no.md)\n# no\n```\n## Ünd\n";
    assert_eq!(links(text), ["y.md#z", "#u"]);
    assert_eq!(anchors(text), ["a-b-c-d_e".to_owned(), "ünd".to_owned()].into());
}
