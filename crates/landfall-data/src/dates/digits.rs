//! Whole numbers as programs write them that make floats of them: `20211201.0`, `1.616976024e+18`.

use std::borrow::Cow;

/// Most digits of a number that is a date.
const MOST: usize = 20;

/// The digits before the point of a decimal number, and those after it; with an exponent, of the number that it stands for.
/// `None` for what is no number from 0 on.
pub(crate) fn digits(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let sound = |part: &str| part.len() <= MOST && part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !sound(whole) || !sound(fraction) {
        return None;
    }
    let Some(exponent) = exponent else { return Some((Cow::Borrowed(whole), fraction)) };
    let exponent: usize = exponent.parse().ok().filter(|tens| *tens <= MOST)?;
    // A fraction of zeros alone has none.
    let fraction = fraction.trim_end_matches('0');
    let zeros = exponent.checked_sub(fraction.len())?;
    Some((Cow::Owned(format!("{whole}{fraction}{}", "0".repeat(zeros))), ""))
}

#[cfg(test)]
mod tests {
    use crate::dates::digits::digits;

    #[test]
    fn floats_are_whole_numbers() {
        for (text, expected) in [
            ("20211201", Some(("20211201", ""))),
            ("20211201.0", Some(("20211201", "0"))),
            ("1616976024.250", Some(("1616976024", "250"))),
            ("1.616976024e+18", Some(("1616976024000000000", ""))),
            ("1.6E9", Some(("1600000000", ""))),
            ("1.60e1", Some(("16", ""))),
            ("1.65e1", None),
            ("1e-3", None),
            ("1e99", None),
            ("-5", None),
            ("2020-01-01", None),
            ("", None),
            (".5", None),
        ] {
            assert_eq!(digits(text).as_ref().map(|(w, f)| (&**w, *f)), expected, "{text}");
        }
    }
}
