//! Numbers and names as text.

/// A number with four significant digits, for tables; JSON has them all.
#[must_use]
pub fn digits(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let exponent = x.abs().log10().floor();
    if (-4.0..6.0).contains(&exponent) {
        let places = (3.0 - exponent).max(0.0) as usize;
        format!("{x:.places$}")
    } else {
        format!("{x:.3e}")
    }
}

/// Text for HTML and SVG, in elements and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A name of at most `most` characters; a longer one ends with an ellipsis.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_shortened() {
        assert_eq!(escape("a<b> & \"c'\n"), "a&lt;b&gt; &amp; &quot;c&#39; ");
        assert_eq!((shortened("abcd", 4), shortened("abcde", 4)), ("abcd".to_owned(), "abc…".to_owned()));
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        let all = [0.0, 0.123_456, 12.345_6, 123_456.0, 1.234_56e7, -0.000_012_3].map(digits);
        assert_eq!(all, ["0", "0.1235", "12.35", "123456", "1.235e7", "-1.230e-5"]);
    }
}
