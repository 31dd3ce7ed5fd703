//! The house: modules lie in floors, and every import goes down. The crates above the engine are held to the order of their top
//! modules; the engine also to families of ops and to circles of folders.
//!
//! Every path in code counts: `use` lines, inline `crate::…` and `super::…` paths, re-exports, and the bodies of macros.
//! What does not: comments, `pub(in …)`, which names who may see an item and imports nothing, and tests, which may use the
//! whole engine. A call of a method is no path: an `impl Graph` on an upper floor adds methods that lower floors must not
//! call, and no test sees that.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// The crates above the engine: the top modules of each from the ground up, and the crates whose names its root passes on.
const UPPER: [(&str, &[&str], &[&str]); 5] = [
    (
        "landfall-data",
        &[
            "message",
            "files",
            "segment",
            "error",
            "cells",
            "dates",
            "series",
            "read",
            "windows",
            "score",
            "tokens",
            "synthetic",
        ],
        &[],
    ),
    ("landfall-train", &["nn", "models", "ranks", "train", "checkpoint"], &["data", "files"]),
    (
        "landfall-forecast",
        &[
            "pretrained",
            "choice",
            "run",
            "error",
            "backtest",
            "export",
            "report",
            "training",
            "forecasting",
            "backtesting",
        ],
        &["checkpoint", "data", "files", "models", "nn", "train"],
    ),
    ("landfall-cli", &["signals", "wording", "error", "output", "table", "args", "commands"], &[]),
    (
        "landfall-bench",
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
];

/// The sources: each module by its path, with its file.
type Modules = BTreeMap<Vec<String>, PathBuf>;

/// A path in code that leads from one module to another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    file: PathBuf,
    line: usize,
    from: Vec<String>,
    /// What the path names, from the crate's root on: a module and, behind it, an item.
    to: Vec<String>,
    /// The modules that were opened in the file where it stands.
    inside: Vec<String>,
}

fn modules(folder: &Path, path: &mut Vec<String>, all: &mut Modules) {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    for entry in entries.map(|e| e.expect("an entry").path()) {
        let stem = entry.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        if entry.is_dir() {
            path.push(stem);
            modules(&entry, path, all);
            path.pop();
        } else if entry.extension().is_some_and(|e| e == "rs") {
            let mut own = path.clone();
            if !(stem == "mod" || stem == "lib" && own.is_empty()) {
                own.push(stem);
            }
            all.insert(own, entry);
        }
    }
}

/// What the root exports, by its path from there (`cuda::Entry`, or a macro's name), and the path that it has it from.
type Facade = BTreeMap<Vec<String>, Vec<String>>;

/// Collects the imports of one file.
struct Reader<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    file: PathBuf,
    facade: &'a Facade,
    imports: Vec<Import>,
}

impl Reader<'_> {
    /// Walks tokens. `inside` holds the names of modules that were opened in the file.
    fn walk(&mut self, tokens: TokenStream, inside: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            if let Some(skipped) = tests(rest).or_else(|| visibility(rest)) {
                at += skipped;
            } else if ident(rest, 0, "use") {
                let end = rest.iter().position(|t| punct(t, ';')).unwrap_or(rest.len());
                self.tree(&rest[1..end], Vec::new(), inside);
                at += end;
            } else if let Some((name, body)) = opened(rest) {
                let inner: Vec<String> = inside.iter().cloned().chain([name]).collect();
                self.walk(body, &inner);
                at += 3;
            } else if let Some((path, line, used)) = path(rest) {
                let in_macro = at > 0 && punct(&tokens[at - 1], '$');
                self.found(if in_macro { self.public(path) } else { path }, line, inside, false);
                at += used;
            } else {
                if let TokenTree::Group(group) = &rest[0] {
                    self.walk(group.stream(), inside);
                }
                at += 1;
            }
        }
    }

    /// The leaves of a `use` tree.
    fn tree(&mut self, tokens: &[TokenTree], mut before: Vec<String>, inside: &[String]) {
        let mut line = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(i) if i == "as" => break,
                TokenTree::Ident(i) => {
                    line = i.span().start().line;
                    if i != "self" || before.is_empty() {
                        before.push(i.to_string());
                    }
                }
                TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                    inner.split(|t| punct(t, ',')).for_each(|part| self.tree(part, before.clone(), inside));
                    return;
                }
                TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if !before.is_empty() {
            self.found(before, line, inside, true);
        }
    }

    /// What a macro that other crates use can name is what the root exports: where the root has it from.
    fn public(&self, path: Vec<String>) -> Vec<String> {
        if path[0] != "crate" {
            return path;
        }
        let known = (2..=path.len()).find_map(|end| Some((self.facade.get(&path[1..end])?, &path[end..])));
        known.map_or_else(|| path.clone(), |(from, rest)| from.iter().chain(rest).cloned().collect())
    }

    /// Notes a path if it leads into the crate.
    fn found(&mut self, path: Vec<String>, line: usize, inside: &[String], is_use: bool) {
        let mut base: Vec<String> = self.module.iter().chain(inside).cloned().collect();
        let mut rest = &path[..];
        match rest[0].as_str() {
            "crate" => (base, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            // In a `use`, and before an item, a module that lies inside of this one.
            name => {
                let child: Vec<String> = base.iter().cloned().chain([name.to_owned()]).collect();
                if !(is_use && self.modules.contains_key(&child)) {
                    return;
                }
            }
        }
        let to = base.into_iter().chain(rest.iter().cloned()).collect();
        let (file, from, inside) = (self.file.clone(), self.module.clone(), inside.to_vec());
        self.imports.push(Import { file, line, from, to, inside });
    }
}

fn punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

fn ident(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(i)) if i == name)
}

fn group(tokens: &[TokenTree], at: usize, delimiter: Delimiter) -> Option<TokenStream> {
    match tokens.get(at) {
        Some(TokenTree::Group(g)) if g.delimiter() == delimiter => Some(g.stream()),
        _ => None,
    }
}

/// How many tokens an item under `#[cfg(test)]` or `#[cfg(doctest)]` has, with its attributes.
fn tests(tokens: &[TokenTree]) -> Option<usize> {
    let attribute = punct(tokens.first()?, '#').then(|| group(tokens, 1, Delimiter::Bracket)).flatten()?;
    let text: String = attribute.to_string().split_whitespace().collect();
    if text != "cfg(test)" && text != "cfg(doctest)" {
        return None;
    }
    let mut at = 2;
    while punct(tokens.get(at)?, '#') {
        at += 2;
    }
    let ends = |t: &TokenTree| {
        punct(t, ';') || matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
    };
    Some(at + tokens[at..].iter().position(ends).map_or(tokens.len() - at, |n| n + 1))
}

/// How many tokens a visibility has: `pub(in crate::ops)` imports nothing.
fn visibility(tokens: &[TokenTree]) -> Option<usize> {
    (ident(tokens, 0, "pub") && group(tokens, 1, Delimiter::Parenthesis).is_some()).then_some(2)
}

/// A module that is opened in the file.
fn opened(tokens: &[TokenTree]) -> Option<(String, TokenStream)> {
    match (tokens.first()?, tokens.get(1)?) {
        (TokenTree::Ident(word), TokenTree::Ident(name)) if word == "mod" => {
            Some((name.to_string(), group(tokens, 2, Delimiter::Brace)?))
        }
        _ => None,
    }
}

/// A path of at least two names, with its line and its number of tokens.
fn path(tokens: &[TokenTree]) -> Option<(Vec<String>, usize, usize)> {
    let TokenTree::Ident(first) = tokens.first()? else { return None };
    let mut names = vec![first.to_string()];
    let mut at = 1;
    while let (Some(a), Some(b), Some(TokenTree::Ident(next))) =
        (tokens.get(at), tokens.get(at + 1), tokens.get(at + 2))
        && punct(a, ':')
        && punct(b, ':')
    {
        names.push(next.to_string());
        at += 3;
    }
    (names.len() > 1).then(|| (names, first.span().start().line, at))
}

/// The imports of a file, of a crate with this facade.
fn imports_with(
    module: &[String],
    file: &Path,
    text: &str,
    modules: &Modules,
    facade: &Facade,
) -> Vec<Import> {
    let tokens = text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let (module, file) = (module.to_vec(), file.to_owned());
    let mut reader = Reader { modules, module, file, facade, imports: Vec::new() };
    reader.walk(tokens, &[]);
    reader.imports
}

fn imports_of(module: &[String], file: &Path, text: &str, modules: &Modules) -> Vec<Import> {
    static FACADE: OnceLock<Facade> = OnceLock::new();
    let read = |module: &[String], file: &Path, text: &str, facade: &Facade| {
        imports_with(module, file, text, modules, facade)
    };
    let facade = FACADE.get_or_init(|| {
        let root = Path::new("lib.rs");
        let exports = read(&[], root, &text_of(root), &Facade::new());
        let from_root = |path: &[String]| [&["crate".to_owned()][..], path].concat();
        let named = |i: Import| Some(([&i.inside[..], &[i.to.last()?.clone()]].concat(), from_root(&i.to)));
        // An exported macro is named at the root, wherever it lies.
        let macros = modules.iter().flat_map(|(module, file)| {
            let own = |name: String| (vec![name.clone()], from_root(&[&module[..], &[name]].concat()));
            exported_macros(&text_of(file)).into_iter().map(own).collect::<Vec<_>>()
        });
        exports.into_iter().filter_map(named).chain(macros).collect()
    });
    read(module, file, text, facade)
}

/// The names of the macros in a text that other crates can use.
fn exported_macros(text: &str) -> Vec<String> {
    let name = |part: &str| {
        let rest = part.trim_start().strip_prefix("macro_rules!")?.trim_start();
        Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
    };
    text.split("#[macro_export]").skip(1).filter_map(name).collect()
}

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

/// What breaks the rule: arrows that run up or to a family that is no more general, modules without a floor, families without
/// a line, imports through the root, circles of folders.
fn broken(modules: &Modules, imports: &[Import]) -> Vec<String> {
    let mut found = Vec::new();
    for module in modules.keys().filter(|m| m.len() == 1) {
        if !FLOORS.contains(&module[0].as_str()) {
            found.push(format!("{} has no floor: put it into FLOORS", modules[module].display()));
        }
    }
    let folders = modules.iter().filter(|(m, f)| m.len() == 2 && m[0] == "ops" && f.ends_with("mod.rs"));
    for (_, file) in folders.filter(|(m, _)| family(m).is_none()) {
        found.push(format!("{} is of no known family: put it into FAMILIES", file.display()));
    }
    let floor = |m: &[String]| FLOORS.iter().position(|&f| m.first().is_some_and(|m| m == f));
    let mut arrows: BTreeMap<Vec<String>, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for import in imports.iter().filter(|i| !i.from.is_empty() && !is_test(&i.from)) {
        let (to, file) = module_of(&import.to, modules);
        let here = format!("{}:{}", import.file.display(), import.line);
        if to.is_empty() && import.to.first().is_some_and(|name| name == "half") {
            // Another crate, which macros name through the root.
        } else if to.is_empty() {
            found.push(format!("{here} imports {} through the crate's root", import.to.join("::")));
        } else if floor(&to) > floor(&import.from) {
            found.push(format!(
                "{here} imports {} from {}, which runs up",
                import.to.join("::"),
                file.display()
            ));
        } else if let (Some((special, line)), Some((general, other))) = (family(&import.from), family(&to))
            && special != general
            && other >= line
        {
            found.push(format!(
                "{here} imports {} from {}, and {general} is no more general than {special}",
                import.to.join("::"),
                file.display()
            ));
        }
        let (a, b) = (folder(&import.from, modules), folder(&to, modules));
        if a != b && !to.is_empty() {
            let text = format!("{here} imports {} from {}", import.to.join("::"), file.display());
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

fn sources() -> Modules {
    sources_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn sources_below(root: &Path) -> Modules {
    let mut all = Modules::new();
    modules(root, &mut Vec::new(), &mut all);
    all.into_iter().map(|(m, f)| (m, f.strip_prefix(root).expect("below it").to_owned())).collect()
}

fn text_of(file: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
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

/// Imports of an upper crate that run up, and top modules without a floor.
fn broken_above(floors: &[&str], foreign: &[&str], modules: &Modules, imports: &[Import]) -> Vec<String> {
    let mut found = Vec::new();
    let root = ["lib", "main"];
    for (module, file) in modules.iter().filter(|(m, _)| m.len() == 1 && !root.contains(&m[0].as_str())) {
        if !floors.contains(&module[0].as_str()) {
            found.push(format!("{} has no floor: put it into UPPER", file.display()));
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

#[test]
fn every_import_of_the_crates_above_goes_down() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, floors, foreign) in UPPER {
        let root = crates.join(name).join("src");
        let mut modules = sources_below(&root);
        let read = |file: &Path| std::fs::read_to_string(root.join(file)).expect("a source");
        let imports: Vec<Import> = modules
            .iter()
            .filter(|(m, _)| !is_test(m))
            .flat_map(|(m, f)| imports_with(m, f, &read(f), &modules, &Facade::new()))
            .collect();
        // A root without a library is the program's.
        modules.entry(Vec::new()).or_insert_with(|| PathBuf::from("main.rs"));
        assert!(imports.len() > 50, "{name} has far more imports than {}", imports.len());
        let found = broken_above(floors, foreign, &modules, &imports);
        assert!(found.is_empty(), "{name}: {} imports break the floors:\n{}", found.len(), found.join("\n"));
        // The test sees one that runs up.
        let (low, high) = (floors[0].to_owned(), floors[floors.len() - 1]);
        let up = format!("use crate::{high}::Anything;");
        let seen = imports_with(std::slice::from_ref(&low), Path::new("x.rs"), &up, &modules, &Facade::new());
        assert_eq!(broken_above(floors, foreign, &modules, &seen).len(), 1, "{name}: {up}");
    }
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
