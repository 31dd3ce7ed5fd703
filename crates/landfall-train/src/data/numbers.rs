//! Numbers as text files write them.

use std::borrow::Cow;

/// Cells that stand for a missing value, compared without regard to case: those of pandas, and `-`, `?` and `.`.
const MISSING: [&str; 16] = [
    "", "na", "n/a", "#n/a", "#n/a n/a", "#na", "<na>", "nan", "-nan", "null", "none", "1.#ind", "-1.#ind",
    "-", "?", ".",
];

/// Signs of currencies that may stand before or after a number.
const CURRENCIES: [char; 5] = ['$', '€', '£', '¥', '₹'];

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Finite(f64),
    Missing,
    Infinite,
    Text,
}

impl Number {
    /// What a float stands for; NaN for a missing value.
    pub(super) fn of(value: f64) -> Self {
        match value {
            value if value.is_finite() => Self::Finite(value),
            value if value.is_nan() => Self::Missing,
            _ => Self::Infinite,
        }
    }
}

/// The sign between the whole and the fraction; what groups thousands follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decimal {
    Point,
    Comma,
}

/// How the numbers of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberForm {
    pub(super) decimal: Decimal,
    /// The percent or currency sign that every number has.
    pub(super) sign: Option<char>,
}

impl NumberForm {
    pub(super) const POINT: Self = Self { decimal: Decimal::Point, sign: None };
    pub(super) const COMMA: Self = Self { decimal: Decimal::Comma, sign: None };

    /// Reads a cell without blanks around it. Thousands are grouped by a blank, an apostrophe, or the other one of point
    /// and comma, and only where each group has three digits.
    pub(super) fn read(self, text: &str) -> Number {
        if is_missing(text) {
            return Number::Missing;
        }
        let unsigned = match self.sign {
            None => Some(Cow::Borrowed(text)),
            Some(sign) => without_sign(text, sign).map(Cow::Owned),
        };
        let Some(text) = unsigned else { return Number::Text };
        let plain = match self.decimal {
            Decimal::Comma if text.contains(',') && !text.contains('.') => {
                Cow::Owned(text.replacen(',', ".", 1))
            }
            Decimal::Point | Decimal::Comma => Cow::Borrowed(&*text),
        };
        // With a decimal comma, digits after a point are a group of thousands if there are three of them.
        let parsed = match self.decimal {
            Decimal::Comma if text.contains('.') => self.grouped(&text),
            Decimal::Point | Decimal::Comma => plain.parse().ok().or_else(|| self.grouped(&text)),
        };
        parsed.map_or(Number::Text, Number::of)
    }

    /// A number whose thousands are grouped.
    fn grouped(self, text: &str) -> Option<f64> {
        let (decimal, other) = match self.decimal {
            Decimal::Point => ('.', ','),
            Decimal::Comma => (',', '.'),
        };
        let (whole, fraction) = text.split_once(decimal).unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let negative = whole.starts_with('-');
        let body = whole.trim_start_matches(['-', '+']);
        let separator = body.chars().find(|c| !c.is_ascii_digit())?;
        if ![other, ' ', '\u{a0}', '\u{202f}', '\''].contains(&separator) || whole.len() > body.len() + 1 {
            return None;
        }
        let groups: Vec<&str> = body.split(separator).collect();
        let (first, rest) = groups.split_first()?;
        let sound =
            (1..=3).contains(&first.len()) && !first.starts_with('0') && digits(first) && digits(fraction);
        if !sound || !rest.iter().all(|group| group.len() == 3 && digits(group)) {
            return None;
        }
        let number: f64 = format!("{}.{fraction}0", groups.concat()).parse().ok()?;
        Some(if negative { -number } else { number })
    }
}

/// The percent or currency sign that a cell has.
pub(super) fn sign_of(text: &str) -> Option<char> {
    let body = text.trim_start_matches(['-', '+']);
    let (first, last) = (body.chars().next()?, body.chars().last()?);
    let currency = [first, last].into_iter().find(|c| CURRENCIES.contains(c));
    currency.or((last == '%').then_some('%'))
}

fn without_sign(text: &str, sign: char) -> Option<String> {
    let (minus, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text),
    };
    let prefix = (sign != '%').then(|| body.strip_prefix(sign)).flatten();
    let rest = prefix.or_else(|| body.strip_suffix(sign))?.trim();
    Some(format!("{minus}{rest}"))
}

pub(super) fn is_missing(text: &str) -> bool {
    text.len() <= 8 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

/// A cell of a file whose numbers may have a decimal comma.
pub(super) fn number(text: &str, decimal_comma: bool) -> Number {
    let form = if decimal_comma && text.contains(',') { NumberForm::COMMA } else { NumberForm::POINT };
    form.read(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_reading_in_each_form() {
        let point = |text| NumberForm::POINT.read(text);
        let comma = |text| NumberForm::COMMA.read(text);
        for (text, by_point, by_comma) in [
            ("1.5", Number::Finite(1.5), Number::Text),
            ("1,5", Number::Text, Number::Finite(1.5)),
            ("1,234", Number::Finite(1234.0), Number::Finite(1.234)),
            ("1.234", Number::Finite(1.234), Number::Finite(1234.0)),
            ("-1,234,567.25", Number::Finite(-1_234_567.25), Number::Text),
            ("-1.234.567,25", Number::Text, Number::Finite(-1_234_567.25)),
            ("12 345", Number::Finite(12345.0), Number::Finite(12345.0)),
            ("1'000.5", Number::Finite(1000.5), Number::Text),
            ("0.123", Number::Finite(0.123), Number::Text),
            ("12,34,567", Number::Text, Number::Text),
            ("1,2345", Number::Text, Number::Finite(1.2345)),
            ("--1,234", Number::Text, Number::Text),
            ("1e3", Number::Finite(1000.0), Number::Finite(1000.0)),
            ("1e999", Number::Infinite, Number::Infinite),
            ("N/A", Number::Missing, Number::Missing),
            ("x", Number::Text, Number::Text),
        ] {
            assert_eq!((point(text), comma(text)), (by_point, by_comma), "{text}");
        }
    }

    #[test]
    fn signs_are_those_of_every_cell() {
        let dollars = NumberForm { sign: Some('$'), ..NumberForm::POINT };
        assert_eq!(dollars.read("-$1,234.50"), Number::Finite(-1234.5));
        assert_eq!(dollars.read("$-3"), Number::Finite(-3.0));
        assert_eq!(dollars.read("3"), Number::Text);
        let percent = NumberForm { sign: Some('%'), ..NumberForm::COMMA };
        assert_eq!(percent.read("12,5 %"), Number::Finite(12.5));
        assert_eq!(
            ["5%", "€5", "-$5", "5", "", "5 €"].map(sign_of),
            [Some('%'), Some('€'), Some('$'), None, None, Some('€')]
        );
    }
}
