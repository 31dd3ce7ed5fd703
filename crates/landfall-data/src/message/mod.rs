//! Parts of messages: counts, names and cells of a file.

pub(crate) mod nearest;
pub(crate) mod place;
pub(crate) mod setting;

use std::borrow::Cow;

/// Makes `Debug` of errors print what `Display` does: Rust prints an error that `main` returns by its `Debug`.
macro_rules! debug_as_text {
    ($Error:ty) => {
        impl std::fmt::Debug for $Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use debug_as_text;

/// A count with its noun: `1 row`, `2 rows`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Most characters of a cell that a message holds.
const LONGEST: usize = 80;

/// A cell or a name as a message holds it: line breaks and other control characters escaped, the end of a long one left
/// out.
pub(crate) fn one_line(text: &str) -> String {
    let cut = text.char_indices().nth(LONGEST).map(|(at, _)| at);
    cut.map_or_else(|| printable(text).into_owned(), |at| format!("{}…", printable(&text[..at])))
}

/// Text with line breaks and other control characters escaped: a terminal would obey them. So would the order of its letters obey
/// the marks that turn it around.
///
/// ```
/// use landfall_data::printable;
/// assert_eq!(printable("load\u{1b}[2J\n"), "load\\u{1b}[2J\\n");
/// assert_eq!(printable("température"), "température");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let one = |c: char| if obeyed(c) { c.escape_debug().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(one).collect())
}

/// The names that another is none of: those near to it, else all.
pub(crate) fn among(name: &str, known: &[String]) -> String {
    let near = nearest::nearest(name, known.iter().map(String::as_str));
    match near.as_slice() {
        [] if known.is_empty() => String::new(),
        [] => format!(" among {}", list(known)),
        [one] => format!("; the nearest name is `{}`", one_line(one)),
        several => {
            let names: Vec<String> = several.iter().map(|name| format!("`{}`", one_line(name))).collect();
            format!("; the nearest names are {}", names.join(", "))
        }
    }
}

/// Parts of a list that a message holds.
const SHOWN: usize = 20;

/// Names for a message, cut where a line would turn into a page.
pub(crate) fn list(names: &[String]) -> String {
    cut(names.iter().map(|name| one_line(name)), names.len())
}

/// Parts of a message that hold one line each, cut alike.
pub(crate) fn shortened(parts: &[String]) -> String {
    cut(parts.iter().cloned(), parts.len())
}

fn cut(parts: impl Iterator<Item = String>, count: usize) -> String {
    let head = parts.take(SHOWN).collect::<Vec<_>>().join(", ");
    match count.checked_sub(SHOWN) {
        None | Some(0) => head,
        Some(more) => format!("{head} and {more} more"),
    }
}

/// Lines about single series that people read: the first ones, and how many more there are.
///
/// ```
/// use landfall_data::few;
/// let lines: Vec<String> = (1..=9).map(|i| format!("series `{i}` is left out")).collect();
/// assert_eq!(few(&lines).last().map(String::as_str), Some("and 6 more series, for the like reasons"));
/// ```
#[must_use]
pub fn few(lines: &[String]) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut shown: Vec<String> = lines.iter().take(SHOWN).cloned().collect();
    match lines.len().saturating_sub(SHOWN) {
        0 => {}
        1 => shown.extend(lines.get(SHOWN).cloned()),
        more => shown.push(format!("and {more} more series, for the like reasons")),
    }
    shown
}
