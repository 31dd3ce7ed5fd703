//! The house: modules lie in floors, and every import goes down. The crates above the engine are held to the order of their top
//! modules, and to no ring of files; the engine to families of ops and to circles of folders.
//!
//! Every path in code counts: `use` lines, inline `crate::…` and `super::…` paths, re-exports, and the bodies of macros.
//! What does not: comments, `pub(in …)`, which names who may see an item and imports nothing, and tests, which may use the
//! whole engine. A call of a method is no path: an `impl Graph` on an upper floor adds methods that lower floors must not
//! call, and no test sees that.

mod imports;
mod rings;

use imports::{Facade, Import, Modules, imports_of, imports_with, sources, sources_below, text_of};
use rings::rings;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// From the ground up. A module imports from those before it and from itself; the crate's root, the facade, from all.
const FLOORS: [&str; 15] = [
    "values",
    "error",
    "ranks",
    "kernel",
    "rng",
    "contract",
    "device",
    "ops",
    "sanitizer",
    "engine",
    "passes",
    "lower",
    "plan",
    "program",
    "tune",
];

/// The families of ops, from the general ones to the special ones. A family imports from those of the lines before its own.
const FAMILIES: [&[&str]; 4] = [
    &["elementwise"],
    &["matmul", "movement", "random", "reduce"],
    &["collective", "indexing", "loss", "norm", "recurrent"],
    &["attention", "experts", "step"],
];

/// The crates above the engine by their folders: the top modules of each from the ground up, and the crates whose names its root passes on.
const UPPER: [(&str, &[&str], &[&str]); 8] = [
    (
        "crates/landfall-data",
        &[
            "message",
            "files",
            "segment",
            "error",
            "cells",
            "dates",
            "generated",
            "series",
            "read",
            "windows",
            "score",
            "tokens",
            "synthetic",
        ],
        &[],
    ),
    (
        "crates/landfall-local",
        &[
            "rows",
            "simplex",
            "seasonal",
            "intermittent",
            "model",
            "error",
            "naive",
            "theta",
            "ets",
            "fitted",
            "all",
        ],
        &[],
    ),
    ("crates/landfall-train", &["nn", "models", "ranks", "train", "checkpoint"], &["data", "files"]),
    (
        "crates/landfall-forecast",
        &[
            "zero_shot",
            "precision",
            "chronos",
            "pretrained_network",
            "ensemble",
            "pretrained",
            "choice",
            "run",
            "error",
            "backtest",
            "export",
            "report",
            "table",
            "training",
            "forecasting",
            "without_run",
            "backtesting",
            "comparing",
        ],
        &["checkpoint", "data", "files", "models", "nn", "train"],
    ),
    ("crates/landfall-cli", &["signals", "wording", "error", "output", "args", "commands"], &[]),
    (
        "crates/landfall-bench",
        &[
            "stop",
            "error",
            "calls",
            "routing",
            "rows",
            "args",
            "output",
            "samples",
            "record",
            "ours",
            "peer",
            "measured",
            "experts",
            "profile",
            "ranks",
            "comparison",
        ],
        &[],
    ),
    ("crates/landfall-web", &["answer", "device"], &[]),
    (
        "python",
        &[
            "error",
            "keyword",
            "failure",
            "dtype",
            "engines",
            "device",
            "columns",
            "tensor",
            "operand",
            "attribute",
            "graph",
            "ops",
            "methods",
            "xla",
            "forecast",
            "chronos",
        ],
        &[],
    ),
];

/// The folders of crates without floors of their own, which have no ring of files either.
const FLAT: [&str; 2] = ["crates/landfall-suite", "xtask"];

fn is_test(module: &[String]) -> bool {
    module.iter().any(|name| name == "tests")
}

/// The folder of a module: the nearest one with a `mod.rs`. A file and the folder of its name are one.
fn folder(of: &[String], modules: &Modules) -> Vec<String> {
    let is_folder = |m: &[String]| modules.get(m).is_some_and(|f| f.ends_with("mod.rs"));
    (0..=of.len()).rev().map(|n| &of[..n]).find(|m| is_folder(m)).unwrap_or(&[]).to_vec()
}

/// The module that a path leads to, and its file.
fn module_of<'a>(to: &[String], modules: &'a Modules) -> (Vec<String>, &'a PathBuf) {
    let longest = (0..=to.len()).rev().map(|n| &to[..n]).find(|m| modules.contains_key(*m));
    let module = longest.unwrap_or(&[]).to_vec();
    let file = &modules[&module];
    (module, file)
}

/// The family of ops that a module is of, and its line in `FAMILIES`.
fn family(of: &[String]) -> Option<(&str, usize)> {
    let [ops, name, ..] = of else { return None };
    let line = FAMILIES.iter().position(|line| line.contains(&name.as_str()));
    line.filter(|_| ops == "ops").map(|line| (name.as_str(), line))
}

/// What breaks the rule of every crate: imports that run up or through the root, and top modules without a floor. `foreign` are
/// names of other crates at the root.
fn broken_floors(floors: &[&str], foreign: &[&str], modules: &Modules, imports: &[Import]) -> Vec<String> {
    let mut found = Vec::new();
    let root = ["lib", "main"];
    for (module, file) in modules.iter().filter(|(m, _)| m.len() == 1 && !root.contains(&m[0].as_str())) {
        if !floors.contains(&module[0].as_str()) {
            found.push(format!("{} has no floor: give it one", file.display()));
        }
    }
    let floor = |m: &[String]| floors.iter().position(|&f| m.first().is_some_and(|m| m == f));
    let inner = |i: &&Import| !i.from.is_empty() && !root.contains(&i.from[0].as_str()) && !is_test(&i.from);
    for import in imports.iter().filter(inner) {
        let (to, file) = module_of(&import.to, modules);
        let here = format!("{}:{}", import.file.display(), import.line);
        if to.is_empty() {
            if !import.to.first().is_some_and(|name| foreign.contains(&name.as_str())) {
                found.push(format!("{here} imports {} through the crate's root", import.to.join("::")));
            }
        } else if floor(&to) > floor(&import.from) {
            found.push(format!(
                "{here} imports {} from {}, which runs up",
                import.to.join("::"),
                file.display()
            ));
        }
    }
    found
}

/// What breaks the rule of the engine: that of every crate, imports of a family that is no more general, families without a
/// line, circles of folders.
fn broken(modules: &Modules, imports: &[Import]) -> Vec<String> {
    // `half` is another crate, which macros name through the root.
    let mut found = broken_floors(&FLOORS, &["half"], modules, imports);
    let folders = modules.iter().filter(|(m, f)| m.len() == 2 && m[0] == "ops" && f.ends_with("mod.rs"));
    for (_, file) in folders.filter(|(m, _)| family(m).is_none()) {
        found.push(format!("{} is of no known family: put it into FAMILIES", file.display()));
    }
    let mut arrows: BTreeMap<Vec<String>, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for import in imports.iter().filter(|i| !i.from.is_empty() && !is_test(&i.from)) {
        let (to, file) = module_of(&import.to, modules);
        let here = format!("{}:{}", import.file.display(), import.line);
        let text = format!("{here} imports {} from {}", import.to.join("::"), file.display());
        if let (Some((special, line)), Some((general, other))) = (family(&import.from), family(&to))
            && special != general
            && other >= line
        {
            found.push(format!("{text}, and {general} is no more general than {special}"));
        }
        let (a, b) = (folder(&import.from, modules), folder(&to, modules));
        if a != b && !to.is_empty() {
            arrows.entry(a).or_default().entry(b).or_insert(text);
        }
    }
    found.extend(circles(&arrows));
    found
}

/// Pairs of folders each of which leads to the other, with an import of each step there and back.
fn circles(arrows: &BTreeMap<Vec<String>, BTreeMap<Vec<String>, String>>) -> Vec<String> {
    let reached = |from: &Vec<String>| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(folder) = next.pop() {
            for to in arrows.get(&folder).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let mut found = Vec::new();
    for (from, targets) in arrows {
        for (to, import) in targets.iter().filter(|(to, _)| reached(to).contains(from)) {
            let mut text = format!("a circle of folders, {} and {}: {import}", from.join("/"), to.join("/"));
            if let Some(back) = arrows.get(to).and_then(|b| b.get(from)) {
                _ = write!(text, "; {back}");
            }
            found.push(text);
        }
    }
    found
}

#[test]
fn every_import_goes_down() {
    let modules = sources();
    let files = modules.iter().filter(|(m, _)| !is_test(m));
    let imports: Vec<Import> = files.flat_map(|(m, f)| imports_of(m, f, &text_of(f), &modules)).collect();
    assert!(imports.len() > 1000, "the sources have far more imports than {}", imports.len());
    let found = broken(&modules, &imports);
    assert!(found.is_empty(), "{} imports break the floors:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_import_of_the_crates_above_goes_down() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, floors, foreign) in UPPER {
        let root = workspace.join(name).join("src");
        let mut modules = sources_below(&root);
        let imports = imports_below(&root, &modules);
        // A root without a library is the program's.
        modules.entry(Vec::new()).or_insert_with(|| PathBuf::from("main.rs"));
        assert!(imports.len() + 1 >= modules.len(), "{name} has more imports than {}", imports.len());
        let found = broken_floors(floors, foreign, &modules, &imports);
        assert!(found.is_empty(), "{name}: {} imports break the floors:\n{}", found.len(), found.join("\n"));
        // The test sees one that runs up.
        let (low, high) = (floors[0].to_owned(), floors[floors.len() - 1]);
        let up = format!("use crate::{high}::Anything;");
        let seen = imports_with(std::slice::from_ref(&low), Path::new("x.rs"), &up, &modules, &Facade::new());
        assert_eq!(broken_floors(floors, foreign, &modules, &seen).len(), 1, "{name}: {up}");
    }
}

/// The imports of a crate, whose sources lie below a root.
fn imports_below(root: &Path, modules: &Modules) -> Vec<Import> {
    let read = |file: &Path| std::fs::read_to_string(root.join(file)).expect("a source");
    let files = modules.iter().filter(|(m, _)| !is_test(m));
    files.flat_map(|(m, f)| imports_with(m, f, &read(f), modules, &Facade::new())).collect()
}

#[test]
fn no_files_import_each_other_in_a_ring() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for name in UPPER.iter().map(|(name, ..)| *name).chain(FLAT) {
        let root = workspace.join(name).join("src");
        let mut modules = sources_below(&root);
        let imports = imports_below(&root, &modules);
        modules.entry(Vec::new()).or_insert_with(|| PathBuf::from("main.rs"));
        assert!(imports.len() + 1 >= modules.len(), "{name} has more imports than {}", imports.len());
        found.extend(rings(&modules, &imports).iter().map(|ring| format!("{name}: {ring}")));
    }
    assert!(found.is_empty(), "{} rings:\n{}", found.len(), found.join("\n"));
}

/// Each way in which code can name a module, in a file of the ground floor: seen, with both files.
#[test]
fn every_kind_of_path_is_seen() {
    let modules = sources();
    let module = ["values".to_owned(), "shape".to_owned()];
    let file = Path::new("values/shape.rs");
    for up in [
        "use crate::engine::Engine;",
        "use std::fmt; use crate::{values::DType, engine::{self, Engine}};",
        "use super::super::engine::Engine as Other;",
        "pub(crate) use crate::engine::Engine;",
        "fn f() -> Result<(), E> { crate::engine::agree(&x) }",
        "fn f(x: &[Option<super::super::engine::Engine>]) {}",
        "macro_rules! m { ($x:expr) => { $crate::engine::Engine::on($x) } }",
        "macro_rules! m { () => { $crate::sanitize::agree() } }",
        "mod inner { fn f() { super::super::super::engine::agree() } }",
        "#[derive(Debug)] struct S { x: crate::engine::Engine }",
        "#[cfg(not(test))] use crate::engine::Engine;",
    ] {
        let found = broken(&modules, &imports_of(&module, file, up, &modules));
        let both = |t: &String| {
            t.starts_with("values/shape.rs:1 imports engine")
                && t.contains(" from engine/")
                && t.ends_with(".rs, which runs up")
        };
        assert!(found.iter().any(both), "{up}\n{found:?}");
    }
    for down in [
        "use super::DType; use std::sync::Arc;",
        "/// [`crate::engine::Engine`]\nfn f() {}",
        "// crate::engine::Engine\nfn f() { let x = \"crate::engine::Engine\"; }",
        "pub(in crate::engine) fn f() {}",
        "macro_rules! m { () => { $crate::with_dtype!(x) } }",
        "#[cfg(test)] mod tests { use crate::engine::Engine; }",
        "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\nfn f() { engine::agree() }",
    ] {
        let found = broken(&modules, &imports_of(&module, file, down, &modules));
        assert!(found.is_empty(), "{down}\n{found:?}");
    }
    let root = broken(&modules, &imports_of(&module, file, "use crate::DType;", &modules));
    assert_eq!(root, ["values/shape.rs:1 imports DType through the crate's root"]);
}

#[test]
fn a_general_op_rests_on_no_special_one() {
    let modules = sources();
    let from = |module: [&str; 3], text: &str| {
        let module = module.map(str::to_owned);
        broken(&modules, &imports_of(&module, &modules[&module[..]], text, &modules))
    };
    let up = from(["ops", "indexing", "sort"], "use crate::ops::experts::routing::Index;");
    let text = "ops/indexing/sort.rs:1 imports ops::experts::routing::Index from ops/experts/routing.rs, and experts is no more \
                general than indexing";
    assert_eq!(up, [text]);
    // Families of one line do not know each other.
    assert_eq!(from(["ops", "norm", "layer_norm"], "use crate::ops::loss::Mse;").len(), 1);
    assert_eq!(from(["ops", "experts", "permute"], "use crate::ops::indexing::sort::Sort;"), [""; 0]);
    assert_eq!(from(["ops", "norm", "layer_norm"], "use super::l2_norm::L2Norm;"), [""; 0]);
}

#[test]
fn a_circle_of_folders_on_one_floor_is_seen() {
    let modules = sources();
    let from = |module: &[&str], text: &str| {
        let module: Vec<String> = module.iter().map(|&m| m.to_owned()).collect();
        imports_of(&module, &modules[&module], text, &modules)
    };
    let mut imports = from(&["ops", "loss", "regression"], "use crate::ops::reduce::softmax::Softmax;");
    assert_eq!(broken(&modules, &imports), [""; 0]);
    imports.extend(from(&["ops", "reduce", "softmax"], "use crate::ops::loss::Mse;"));
    let mut found = broken(&modules, &imports);
    found.retain(|text| text.starts_with("a circle"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("ops/loss/regression.rs:1") && found[0].contains("ops/reduce/softmax.rs:1"),
        "{found:?}"
    );
}

/// The rings among files of these modules and texts.
fn rings_of(files: &[(&[&str], &str)]) -> Vec<String> {
    let path = |module: &[&str]| module.iter().map(|&m| m.to_owned()).collect::<Vec<_>>();
    let file = |module: &[&str]| PathBuf::from(format!("{}.rs", module.join("/")));
    let mut modules: Modules = files.iter().map(|(m, _)| (path(m), file(m))).collect();
    modules.insert(Vec::new(), PathBuf::from("lib.rs"));
    let read = |(m, text): &(&[&str], &str)| imports_with(&path(m), &file(m), text, &modules, &Facade::new());
    rings(&modules, &files.iter().flat_map(read).collect::<Vec<_>>())
}

#[test]
fn a_ring_of_files_is_seen() {
    let two = rings_of(&[(&["a"], "use crate::b::B;"), (&["b"], "fn f(x: crate::a::A) {}")]);
    assert_eq!(two, ["a ring of 2 files:\n  a.rs:1 imports b::B from b.rs\n  b.rs:1 imports a::A from a.rs"]);
    // Each file has one import, and none of its target back.
    let three =
        [(&["a"][..], "use crate::b::B;"), (&["b"], "use crate::c::{C, D};"), (&["c"], "use crate::a;")];
    assert!(matches!(&rings_of(&three)[..], [one] if one.starts_with("a ring of 3 files:")));
    assert_eq!(rings_of(&three[..2]), [""; 0]);
    // A parent that uses its child, which uses what the parent defines.
    for parent in ["pub use x::X; struct Y;", "mod x; fn f() { x::f() }", "use self::x::X as Z;"] {
        let found = rings_of(&[(&["a"], parent), (&["a", "x"], "use super::Y;")]);
        assert_eq!(found.len(), 1, "{parent}: {found:?}");
    }
}

/// What a parent only passes on is no import of the parent.
#[test]
fn a_path_through_a_re_export_leads_to_the_file_that_defines() {
    let parent = "mod x; mod y; pub use x::{X as Z}; pub use y::Y;";
    let from = |x: &str, y: &str| rings_of(&[(&["a"], parent), (&["a", "x"], x), (&["a", "y"], y)]);
    assert_eq!(from("use super::Y;", ""), [""; 0]);
    assert_eq!(from("use super::Y;", "use super::Z;").len(), 1);
    // The parent knows `X` as `Z` alone.
    assert!(from("", "use super::X;")[0].contains("a/y.rs:1 imports a::X from a.rs"));
    let chain = [(&["a"][..], "pub use crate::b::B;"), (&["b"], "pub use crate::c::C as B;"), (&["c"], "")];
    assert_eq!(rings_of(&[chain[0], chain[1], (&["c"], "use crate::a::B;")]), [""; 0]);
    assert_eq!(rings_of(&[chain[0], chain[1], (&["c"], "use crate::a::D;")]).len(), 1);
}
