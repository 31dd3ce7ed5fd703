//! Documentation for readers without Rust.

/// The documentation of an op or a method without what only Rust can read: examples, links and marks of headings.
///
/// ```
/// let doc = " Gradient of [`Gelu`](crate::Gelu): `out`.\n\n ```\n let x = 1;\n ```\n # Errors\n `x` must be a float.\n";
/// assert_eq!(landfall::ops::plain(doc), "Gradient of `Gelu`: `out`.\n\nErrors:\n`x` must be a float.");
/// ```
#[must_use]
pub fn plain(doc: &str) -> String {
    let (mut lines, mut fence) = (Vec::new(), None);
    for line in doc.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        match (fence, line.strip_prefix("```")) {
            (None, Some(language)) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            // Formulas of several lines; everything else in a fence is Rust.
            (Some("text"), None) => lines.push(format!("    {line}")),
            (Some(_), None) => {}
            (None, None) => match line.strip_prefix("# ") {
                Some(heading) => lines.push(format!("{heading}:")),
                None => lines.push(unlinked(line)),
            },
        }
    }
    // Where an example was, there would be two empty lines.
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n").trim().to_owned()
}

/// A line with the names of its links in code, and without their targets.
fn unlinked(line: &str) -> String {
    let (mut plain, mut rest) = (String::new(), line);
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, behind)) = link.split_once("`]") else { break };
        plain.extend([before, "`", name, "`"]);
        let target = behind.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(behind, |(_, behind)| behind);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{methods, table};

    #[test]
    fn no_documentation_keeps_marks_of_rust() {
        let ops = table().into_iter().filter(|op| !op.internal()).map(|op| op.doc().to_owned());
        for doc in ops.chain(methods().iter().map(|method| method.doc())) {
            let text = plain(&doc);
            for mark in ["```", "](", "[`", "crate::", "engine.", "\n\n\n", "# "] {
                assert!(!text.contains(mark), "{mark} is left in\n{text}");
            }
            let first = doc.split_whitespace().next().expect("a documentation");
            assert!(text.starts_with(first.trim_start_matches('[')), "{text}\nis not\n{doc}");
        }
        let adam = table().into_iter().find(|op| op.name() == "adam").expect("in the table");
        assert!(plain(adam.doc()).contains("\n    v ← β₂ · v + (1 − β₂) · g²\n"));
    }
}
