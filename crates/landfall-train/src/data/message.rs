//! Parts of messages: counts, names and cells of a file.

/// A count with its noun.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Most characters of a cell that a message holds.
const LONGEST: usize = 80;

/// A cell or a name as a message holds it: line breaks and other control characters escaped, the end of a long one left
/// out.
pub(super) fn one_line(text: &str) -> String {
    let cut = text.char_indices().nth(LONGEST).map(|(at, _)| at);
    cut.map_or_else(|| escaped(text), |at| escaped(&text[..at]) + "…")
}

/// Text with line breaks and other control characters escaped.
pub(super) fn escaped(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

/// The names that another is none of.
pub(super) fn among(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" among {}", list(known)) }
}

/// Names for a message, cut where a line would turn into a page.
pub(super) fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let head = names.iter().take(SHOWN).map(|name| one_line(name)).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => head,
        Some(more) => format!("{head} and {more} more"),
    }
}

/// Lines about single series that people read: the first ones, and how many more there are.
///
/// ```
/// use landfall_train::data::few;
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
