//! Names that were mistyped, and the known ones that are like them.

/// The names in backquotes.
pub(super) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Asks for the name that was meant, where one is like it.
pub(super) fn meant(name: &str, known: &[&str]) -> String {
    nearest(name, known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default()
}

/// The name that is most like another, if one is.
fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let name = name.to_lowercase();
    let like = |known: &&'n str| (strsim::jaro_winkler(&name, known), *known);
    let best = known.iter().map(like).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(like, _)| *like > 0.8).map(|(_, known)| known)
}
