//! Numbers as text files write them.

use std::borrow::Cow;

use crate::cells::units::{Unit, without_unit};

/// Cells that stand for a missing value, compared without regard to case: those of pandas, and `-`, `?` and `.`.
const MISSING: [&str; 16] = [
    "", "na", "n/a", "#n/a", "#n/a n/a", "#na", "<na>", "nan", "-nan", "null", "none", "1.#ind", "-1.#ind",
    "-", "?", ".",
];

/// What may group thousands beside the one of point and comma that is not the decimal mark: blanks of several widths and
/// apostrophes.
const BLANKS: [char; 5] = [' ', '\u{a0}', '\u{202f}', '\u{2009}', '\u{2007}'];
const APOSTROPHES: [char; 2] = ['\'', '\u{2019}'];

/// Signs of a negative number: the hyphen and the minus of typesetters.
const MINUS: [char; 2] = ['-', '\u{2212}'];

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Finite(f64),
    Missing,
    Infinite,
    Text,
}

impl Number {
    /// What a float stands for; NaN for a missing value.
    pub(crate) fn of(value: f64) -> Self {
        match value {
            value if value.is_finite() => Self::Finite(value),
            value if value.is_nan() => Self::Missing,
            _ => Self::Infinite,
        }
    }
}

/// The sign between the whole and the fraction; what groups thousands follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decimal {
    Point,
    Comma,
}

impl Decimal {
    /// Its sign.
    pub(crate) const fn mark(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }

    /// The other one, which may group thousands.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Point => Self::Comma,
            Self::Comma => Self::Point,
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Comma => "comma",
        }
    }

    /// A number that has it, and groups of thousands.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Point => "1,234.5",
            Self::Comma => "1.234,5",
        }
    }
}

/// What the marks of a cell say of how numbers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Whether it has a decimal mark.
    pub(crate) decimal: bool,
    /// What groups its thousands; blanks and apostrophes of all widths are one.
    pub(crate) thousands: Option<char>,
    /// Whether no other reading of point and comma makes a number of it.
    pub(crate) sure: bool,
}

/// How the numbers of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberForm {
    pub(crate) decimal: Decimal,
    /// The percent sign or currency that every number has.
    pub(crate) unit: Option<Unit>,
}

impl NumberForm {
    pub(crate) const POINT: Self = Self { decimal: Decimal::Point, unit: None };
    pub(crate) const COMMA: Self = Self { decimal: Decimal::Comma, unit: None };

    /// Reads a cell without blanks around it. Thousands are grouped by a blank, an apostrophe, or the other one of point
    /// and comma, and only where each group has three digits, or all but the last two, as in India. A negative number has
    /// a minus before or behind it, or stands in brackets.
    pub(crate) fn read(self, text: &str) -> Number {
        self.read_marked(text).0
    }

    /// As [`NumberForm::read`], with what the cell's marks say.
    pub(crate) fn read_marked(self, text: &str) -> (Number, Marks) {
        let none = Marks::default();
        if let (Decimal::Point, None, Ok(value)) = (self.decimal, self.unit, text.parse::<f64>()) {
            // The usual cell. More digits behind the point than a group has are no thousands.
            let fraction = text.split_once('.').map(|(_, fraction)| fraction);
            let sure = fraction.is_some_and(|f| f.len() != 3) || text.starts_with("0.");
            return (Number::of(value), Marks { decimal: fraction.is_some(), thousands: None, sure });
        }
        if is_missing(text) {
            return (Number::Missing, none);
        }
        let Some((negative, body)) = self.magnitude(text) else { return (Number::Text, none) };
        if ["inf", "infinity"].iter().any(|word| body.eq_ignore_ascii_case(word)) {
            return (Number::Infinite, none);
        }
        let read = self.plain(body).or_else(|| self.grouped(body));
        let Some((value, marks)) = read else { return (Number::Text, none) };
        (Number::of(if negative { -value } else { value }), marks)
    }

    /// Whether a number is negative, and what is left of it without sign, brackets and unit.
    fn magnitude(self, text: &str) -> Option<(bool, &str)> {
        let (mut rest, mut signed, mut negative, mut unit) = (text, false, false, self.unit);
        loop {
            let bracketed = rest.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
            let minus = bracketed.or_else(|| rest.strip_prefix(MINUS)).or_else(|| rest.strip_suffix(MINUS));
            let bare = minus.or_else(|| rest.strip_prefix('+')).filter(|_| !signed);
            if let Some(bare) = bare {
                (rest, signed, negative) = (bare.trim(), true, minus.is_some());
            } else if let Some(bare) = unit.and_then(|unit| without_unit(rest, unit)) {
                (rest, unit) = (bare.trim(), None);
            } else {
                return unit.is_none().then_some((negative, rest));
            }
        }
    }

    /// A number without groups.
    fn plain(self, body: &str) -> Option<(f64, Marks)> {
        let mark = self.decimal.mark();
        if !body.starts_with(|c: char| c.is_ascii_digit() || c == mark) {
            return None;
        }
        let text = match self.decimal {
            Decimal::Point => Cow::Borrowed(body),
            Decimal::Comma if body.contains('.') => return None,
            Decimal::Comma => Cow::Owned(body.replacen(',', ".", 1)),
        };
        let fraction = body.split_once(mark).map(|(_, fraction)| fraction);
        let sure = fraction.is_some_and(|f| f.len() != 3) || body.starts_with('0');
        Some((text.parse().ok()?, Marks { decimal: fraction.is_some(), thousands: None, sure }))
    }

    /// A number whose thousands are grouped.
    fn grouped(self, body: &str) -> Option<(f64, Marks)> {
        let (decimal, other) = (self.decimal.mark(), self.decimal.other().mark());
        let (whole, fraction) = body.split_once(decimal).unwrap_or((body, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let separator = whole.chars().find(|c| !c.is_ascii_digit())?;
        let thousands = match separator {
            c if c == other => other,
            c if BLANKS.contains(&c) => ' ',
            c if APOSTROPHES.contains(&c) => '\'',
            _ => return None,
        };
        let groups: Vec<&str> = whole.split(separator).collect();
        let ([first, middle @ ..], last) = (groups.split_last()?.1, groups.last()?) else { return None };
        let of = |digits: usize| middle.iter().all(|group| group.len() == digits);
        // Lakh and crore: groups of two digits before the last one.
        let indian = separator == ',' && !middle.is_empty() && of(2) && first.len() <= 2;
        let sound = (1..=3).contains(&first.len()) && !first.starts_with('0') && digits(fraction);
        if !sound || last.len() != 3 || !(of(3) || indian) || !groups.iter().all(|group| digits(group)) {
            return None;
        }
        let number: f64 = format!("{}.{fraction}0", groups.concat()).parse().ok()?;
        let fraction = body.contains(decimal);
        let sure = thousands != other || !middle.is_empty() || fraction;
        Some((number, Marks { decimal: fraction, thousands: Some(thousands), sure }))
    }
}

pub(crate) fn is_missing(text: &str) -> bool {
    text.len() <= 8 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

/// A cell of a file whose numbers may have a decimal comma.
pub(crate) fn number(text: &str, decimal_comma: bool) -> Number {
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
            ("12,34,567", Number::Finite(1_234_567.0), Number::Text),
            ("1,23,456.5", Number::Finite(123_456.5), Number::Text),
            ("(1,034.50)", Number::Finite(-1034.5), Number::Text),
            ("(1.034,50)", Number::Text, Number::Finite(-1034.5)),
            ("12-", Number::Finite(-12.0), Number::Finite(-12.0)),
            ("\u{2212}1.5", Number::Finite(-1.5), Number::Text),
            ("(-5)", Number::Text, Number::Text),
            ("12\u{2019}000.50", Number::Finite(12_000.5), Number::Text),
            ("1\u{202f}234", Number::Finite(1234.0), Number::Finite(1234.0)),
            ("-inf", Number::Infinite, Number::Infinite),
            ("(2020)-01", Number::Text, Number::Text),
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
    fn a_unit_is_that_of_every_cell() {
        let dollars = NumberForm { unit: Some("$"), ..NumberForm::POINT };
        for (text, value) in [
            ("-$1,234.50", -1234.5),
            ("$-3", -3.0),
            ("($1,234.50)", -1234.5),
            ("$(3)", -3.0),
            ("3 $", 3.0),
            ("$3-", -3.0),
        ] {
            assert_eq!(dollars.read(text), Number::Finite(value), "{text}");
        }
        assert_eq!((dollars.read("3"), dollars.read("$$3"), dollars.read("-$-3")), TEXTS);
        let percent = NumberForm { unit: Some("%"), ..NumberForm::COMMA };
        assert_eq!(percent.read("12,5 %"), Number::Finite(12.5));
        let euro = NumberForm { unit: Some("EUR"), ..NumberForm::COMMA };
        assert_eq!(
            (euro.read("EUR 1.234,50"), euro.read("7 eur")),
            (Number::Finite(1234.5), Number::Finite(7.0))
        );
    }

    const TEXTS: (Number, Number, Number) = (Number::Text, Number::Text, Number::Text);

    #[test]
    fn marks_say_what_a_number_may_be() {
        let point = |text| NumberForm::POINT.read_marked(text).1;
        let marks = |decimal, thousands, sure| Marks { decimal, thousands, sure };
        assert_eq!(point("1,234"), marks(false, Some(','), false));
        assert_eq!(point("1,234,567"), marks(false, Some(','), true));
        assert_eq!(point("1,234.5"), marks(true, Some(','), true));
        assert_eq!(point("1 234"), marks(false, Some(' '), true));
        assert_eq!((point("60.013"), point("60.01")), (marks(true, None, false), marks(true, None, true)));
        assert_eq!((point("0.126"), point("12")), (marks(true, None, true), marks(false, None, false)));
    }
}
