//! One cell of a table, whatever the file is written in.

use crate::cells::decimal::Decimal;
use crate::cells::numbers::{Marks, Number, NumberForm, is_missing};
use chrono::NaiveDateTime;
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// A float that is equal to those which are written alike: -0 is not 0, and NaN is NaN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Float(pub(crate) f64);

impl Float {
    fn bits(self) -> u64 {
        if self.0.is_nan() { f64::NAN.to_bits() } else { self.0.to_bits() }
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Float {}

impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

/// A cell: text, as all cells of a text file are, or what a typed column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Cell<'a> {
    /// A missing value.
    #[default]
    Empty,
    /// Text without blanks around it.
    Text(&'a str),
    Boolean(bool),
    Integer(i64),
    Float(Float),
    Decimal(Decimal),
    Time(NaiveDateTime),
}

impl<'a> Cell<'a> {
    /// The cell as a text file has it: for messages, names of series, and dates that are written in digits.
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Empty => "".into(),
            Self::Text(text) => text.into(),
            Self::Boolean(yes) => if yes { "true" } else { "false" }.into(),
            Self::Integer(n) => n.to_string().into(),
            // Debug, since Display writes 1e300 with 301 digits.
            Self::Float(Float(x)) => format!("{x:?}").into(),
            Self::Decimal(decimal) => decimal.to_string().into(),
            Self::Time(time) => time.to_string().into(),
        }
    }

    /// Its text, of a cell that is text.
    pub(crate) fn as_text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Bytes of [`Cell::text`].
    pub(crate) fn width(self) -> usize {
        let Self::Integer(n) = self else { return self.text().len() };
        let digits = n.unsigned_abs().checked_ilog10().map_or(1, |tens| tens as usize + 1);
        digits + usize::from(n < 0)
    }

    /// Whether nothing stands in it.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Empty | Self::Text(""))
    }

    /// Whether it stands for a missing value.
    pub(crate) fn is_missing(self) -> bool {
        match self {
            Self::Empty => true,
            Self::Text(text) => is_missing(text),
            Self::Float(Float(x)) => x.is_nan(),
            Self::Boolean(_) | Self::Integer(_) | Self::Decimal(_) | Self::Time(_) => false,
        }
    }

    /// The number in it; of text, as this form reads it.
    pub(crate) fn number(self, form: NumberForm) -> Number {
        self.read(form).0
    }

    /// The number in it, with what the marks of text say.
    pub(crate) fn read(self, form: NumberForm) -> (Number, Marks) {
        let number = match self {
            Self::Text(text) => return form.read_marked(text),
            Self::Empty => Number::Missing,
            Self::Integer(n) => Number::Finite(n as f64),
            Self::Float(Float(x)) => Number::of(x),
            Self::Decimal(decimal) => Number::of(decimal.value()),
            Self::Boolean(_) | Self::Time(_) => Number::Text,
        };
        (number, Marks::default())
    }

    /// Whether it is true or false, of one of these two, whatever their case.
    pub(crate) fn truth(self) -> Option<bool> {
        match self {
            Self::Boolean(yes) => Some(yes),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            Self::Empty
            | Self::Text(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Decimal(_)
            | Self::Time(_) => None,
        }
    }

    /// Whether it is an integer from 0 on, in digits alone.
    pub(crate) fn is_count(self) -> bool {
        match self {
            Self::Text(text) => text.bytes().all(|b| b.is_ascii_digit()),
            Self::Integer(n) => n >= 0,
            Self::Decimal(decimal) => decimal.is_count(),
            Self::Empty | Self::Boolean(_) | Self::Float(_) | Self::Time(_) => false,
        }
    }
}
