//! Rings of files: files of one crate each of which leads to all others of the ring.
//!
//! A path counts as one to the file that defines what it names: a parent that re-exports its children's items is passed through,
//! so that a child may name a sibling's item through the parent.

use crate::imports::{Import, Modules};
use crate::{is_test, module_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The names that each module imports, with the paths from which it has them.
type Names = BTreeMap<(Vec<String>, String), Vec<String>>;

/// From a file to others, each with the first import that leads there.
type Arrows<'a> = BTreeMap<Vec<String>, BTreeMap<Vec<String>, &'a Import>>;

/// The module that defines what a path names.
fn defining(to: &[String], names: &Names, modules: &Modules) -> Vec<String> {
    let mut path = to.to_vec();
    // A chain of re-exports has at most as many links as there are names.
    for _ in 0..=names.len() {
        let (module, _) = module_of(&path, modules);
        let Some(name) = path.get(module.len()) else { return module };
        let Some(from) = names.get(&(module.clone(), name.clone())) else { return module };
        path = from.iter().chain(&path[module.len() + 1..]).cloned().collect();
    }
    module_of(&path, modules).0
}

fn arrows<'a>(modules: &Modules, imports: &'a [Import]) -> Arrows<'a> {
    let named = |i: &Import| Some(((i.from.clone(), i.name.clone()?), i.to.clone()));
    let names: Names = imports.iter().filter(|i| i.inside.is_empty()).filter_map(named).collect();
    let root = |m: &[String]| m.is_empty() || m == ["main"] || m == ["lib"];
    let mut arrows = Arrows::new();
    for import in imports.iter().filter(|i| !root(&i.from) && !is_test(&i.from)) {
        let to = defining(&import.to, &names, modules);
        if !root(&to) && to != import.from {
            arrows.entry(import.from.clone()).or_default().entry(to).or_insert(import);
        }
    }
    arrows
}

fn reached(from: &[String], arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_vec()]);
    while let Some(file) = next.pop() {
        for to in arrows.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    seen
}

/// The rings of files, each as one text with every import between its files.
pub(crate) fn rings(modules: &Modules, imports: &[Import]) -> Vec<String> {
    let arrows = arrows(modules, imports);
    let reach: BTreeMap<&Vec<String>, _> = arrows.keys().map(|m| (m, reached(m, &arrows))).collect();
    let together = |a: &Vec<String>, b: &Vec<String>| {
        reach.get(a).is_some_and(|r| r.contains(b)) && reach.get(b).is_some_and(|r| r.contains(a))
    };
    let mut placed = BTreeSet::new();
    let mut found = Vec::new();
    for first in arrows.keys() {
        let ring: Vec<&Vec<String>> = arrows.keys().filter(|&m| together(first, m)).collect();
        if ring.is_empty() || !placed.insert(ring.clone()) {
            continue;
        }
        let mut text = format!("a ring of {} files:", ring.len());
        for from in &ring {
            for (to, import) in arrows[*from].iter().filter(|(to, _)| ring.contains(to)) {
                let (file, line, target) = (import.file.display(), import.line, modules[to].display());
                _ = write!(text, "\n  {file}:{line} imports {} from {target}", import.to.join("::"));
            }
        }
        found.push(text);
    }
    found
}
