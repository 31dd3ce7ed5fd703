//! The imports of a crate's sources, read from their tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The sources: each module by its path, with its file.
pub(crate) type Modules = BTreeMap<Vec<String>, PathBuf>;

/// A path in code that leads from one module to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) from: Vec<String>,
    /// What the path names, from the crate's root on: a module and, behind it, an item.
    pub(crate) to: Vec<String>,
    /// The modules that were opened in the file where it stands.
    pub(crate) inside: Vec<String>,
    /// The name under which a `use` has it.
    pub(crate) name: Option<String>,
}

/// What the root exports, by its path from there (`cuda::Entry`, or a macro's name), and the path that it has it from.
pub(crate) type Facade = BTreeMap<Vec<String>, Vec<String>>;

pub(crate) fn modules(folder: &Path, path: &mut Vec<String>, all: &mut Modules) {
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

/// Collects the imports of one file.
pub(crate) struct Reader<'a> {
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
                self.found(if in_macro { self.public(path) } else { path }, line, inside, None);
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
        let mut name = None;
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(i) if i == "as" => {
                    name = tokens.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(i) => {
                    line = i.span().start().line;
                    if i != "self" || before.is_empty() {
                        before.push(i.to_string());
                    }
                }
                TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                    let parts = inner.split(|t| punct(t, ',')).filter(|part| !part.is_empty());
                    parts.for_each(|part| self.tree(part, before.clone(), inside));
                    return;
                }
                TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if let Some(name) = name.or_else(|| before.last().cloned()) {
            self.found(before, line, inside, Some(name));
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

    /// Notes a path if it leads into the crate. A `use` gives it a name.
    fn found(&mut self, path: Vec<String>, line: usize, inside: &[String], name: Option<String>) {
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
            // A module that lies inside of this one.
            first => {
                let child: Vec<String> = base.iter().cloned().chain([first.to_owned()]).collect();
                if !self.modules.contains_key(&child) {
                    return;
                }
            }
        }
        let to = base.into_iter().chain(rest.iter().cloned()).collect();
        let (file, from, inside) = (self.file.clone(), self.module.clone(), inside.to_vec());
        self.imports.push(Import { file, line, from, to, inside, name });
    }
}

pub(crate) fn punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

pub(crate) fn ident(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(i)) if i == name)
}

pub(crate) fn group(tokens: &[TokenTree], at: usize, delimiter: Delimiter) -> Option<TokenStream> {
    match tokens.get(at) {
        Some(TokenTree::Group(g)) if g.delimiter() == delimiter => Some(g.stream()),
        _ => None,
    }
}

/// How many tokens an item under `#[cfg(test)]` or `#[cfg(doctest)]` has, with its attributes.
pub(crate) fn tests(tokens: &[TokenTree]) -> Option<usize> {
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
pub(crate) fn visibility(tokens: &[TokenTree]) -> Option<usize> {
    (ident(tokens, 0, "pub") && group(tokens, 1, Delimiter::Parenthesis).is_some()).then_some(2)
}

/// A module that is opened in the file.
pub(crate) fn opened(tokens: &[TokenTree]) -> Option<(String, TokenStream)> {
    match (tokens.first()?, tokens.get(1)?) {
        (TokenTree::Ident(word), TokenTree::Ident(name)) if word == "mod" => {
            Some((name.to_string(), group(tokens, 2, Delimiter::Brace)?))
        }
        _ => None,
    }
}

/// A path of at least two names, with its line and its number of tokens.
pub(crate) fn path(tokens: &[TokenTree]) -> Option<(Vec<String>, usize, usize)> {
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
pub(crate) fn imports_with(
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

pub(crate) fn imports_of(module: &[String], file: &Path, text: &str, modules: &Modules) -> Vec<Import> {
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
pub(crate) fn exported_macros(text: &str) -> Vec<String> {
    let name = |part: &str| {
        let rest = part.trim_start().strip_prefix("macro_rules!")?.trim_start();
        Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
    };
    text.split("#[macro_export]").skip(1).filter_map(name).collect()
}

pub(crate) fn sources() -> Modules {
    sources_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

pub(crate) fn sources_below(root: &Path) -> Modules {
    let mut all = Modules::new();
    modules(root, &mut Vec::new(), &mut all);
    all.into_iter().map(|(m, f)| (m, f.strip_prefix(root).expect("below it").to_owned())).collect()
}

pub(crate) fn text_of(file: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
