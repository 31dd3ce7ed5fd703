//! Cells as numbers.

/// Cells that stand for a missing value, compared without regard to case; an empty cell is one too.
const MISSING: [&str; 10] = ["", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?", "nat"];

/// What a cell holds.
pub(super) enum Number {
    Finite(f64),
    Missing,
    Infinite,
    Text,
}

/// Reads a cell. With a decimal comma, `1.234,5` groups thousands by points; without, `1,234.5` does by commas. A percent
/// sign behind, or a currency sign before the number is dropped.
pub(super) fn number(text: &str, decimal_comma: bool) -> Number {
    if MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing)) {
        return Number::Missing;
    }
    let bare = text.strip_suffix('%').unwrap_or(text).trim_end();
    let sign = if bare.starts_with('-') { "-" } else { "" };
    let bare = bare.strip_prefix('-').unwrap_or(bare);
    let bare = bare.strip_prefix(['$', '€', '£', '¥']).map_or(bare, str::trim_start);
    let (group, point) = if decimal_comma { ('.', ',') } else { (',', '.') };
    let (whole, decimals) = bare.split_once(point).map_or((bare, None), |(w, d)| (w, Some(d)));
    let plain = match whole.contains(group) {
        // `1.234` alone may be either; a point is the decimal one far more often, also where commas are allowed.
        true if decimal_comma && decimals.is_none() && whole.matches(group).count() == 1 => whole.to_owned(),
        true if groups(whole, group) => whole.replace(group, ""),
        true => return Number::Text,
        false => whole.to_owned(),
    };
    // `Infinity` and `nan` have no decimals; a second point in them fails.
    let text = match decimals {
        Some(decimals) => format!("{sign}{plain}.{decimals}"),
        None => format!("{sign}{plain}"),
    };
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Number::Finite(value),
        Ok(value) if value.is_nan() => Number::Missing,
        Ok(_) => Number::Infinite,
        Err(_) => Number::Text,
    }
}

/// Whether a whole number is grouped in thousands: one to three digits, then three each.
fn groups(whole: &str, group: char) -> bool {
    let mut parts = whole.split(group);
    let first = parts.next().unwrap_or_default();
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    (1..=3).contains(&first.len()) && digits(first) && parts.all(|part| part.len() == 3 && digits(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_people_write_them() {
        let read = |text: &str, comma: bool| match number(text, comma) {
            Number::Finite(value) => value.to_string(),
            Number::Missing => "missing".to_owned(),
            Number::Infinite => "infinite".to_owned(),
            Number::Text => "text".to_owned(),
        };
        for (text, point, comma) in [
            ("1.5", "1.5", "1.5"),
            ("1,5", "text", "1.5"),
            ("1,234", "1234", "1.234"),
            ("1,234,567.8", "1234567.8", "text"),
            ("1.234.567,8", "text", "1234567.8"),
            ("12,34", "text", "12.34"),
            ("-$1,234.50", "-1234.5", "text"),
            ("12.5 %", "12.5", "12.5"),
            ("1e-3", "0.001", "0.001"),
            ("-inf", "infinite", "infinite"),
            ("1e999", "infinite", "infinite"),
            ("N/A", "missing", "missing"),
            ("-nan", "missing", "missing"),
            ("1.2.3", "text", "text"),
            ("drizzle", "text", "text"),
            ("$", "text", "text"),
        ] {
            assert_eq!((read(text, false).as_str(), read(text, true).as_str()), (point, comma), "{text}");
        }
    }
}
