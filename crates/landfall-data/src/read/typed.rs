//! Columns of one type each, in memory.

use crate::cells::cell::{Cell, Float};
use crate::cells::decimal::shortest;
use chrono::{DateTime, NaiveDateTime};
use std::collections::HashMap;
use std::sync::Arc;

/// What dates are counted in, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Thousandths of a second.
    Millisecond,
    /// Millionths of a second.
    Microsecond,
    /// Billionths of a second.
    Nanosecond,
}

impl TimeUnit {
    /// The date of a count; `None` outside of the calendar.
    fn date(self, count: i64) -> Option<NaiveDateTime> {
        let date = match self {
            Self::Second => DateTime::from_timestamp(count, 0),
            Self::Millisecond => DateTime::from_timestamp_millis(count),
            Self::Microsecond => DateTime::from_timestamp_micros(count),
            Self::Nanosecond => Some(DateTime::from_timestamp_nanos(count)),
        };
        date.map(|date| date.naive_utc())
    }
}

/// A column of one type, in which values may be missing.
#[derive(Debug, Clone)]
pub struct Column(Arc<Values>);

/// The values of a column.
#[derive(Debug)]
pub(crate) enum Values {
    /// NaN where one is missing.
    Numbers(Vec<f64>),
    Integers(Vec<Option<i64>>),
    Booleans(Vec<Option<bool>>),
    Texts(Dictionary),
    Dates {
        /// [`MISSING_DATE`] where one is missing.
        counts: Vec<i64>,
        unit: TimeUnit,
        /// Whether they are counted in UTC, and not on a clock without a zone.
        utc: bool,
    },
    /// Cells of different types.
    Cells(Vec<Value>),
}

/// Stands for a missing date, as in numpy.
pub const MISSING_DATE: i64 = i64::MIN;

/// A cell that owns its text.
#[derive(Debug)]
pub(crate) enum Value {
    Text(Box<str>),
    Typed(Cell<'static>),
}

/// Texts, each different one of which is kept once.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// The place of each row's text among the different ones; [`Dictionary::MISSING`] where it is missing.
    pub(crate) codes: Vec<u32>,
    /// The different texts, in the order of their first use.
    pub(crate) different: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u32>,
}

impl Dictionary {
    /// The code of a missing text.
    pub(crate) const MISSING: u32 = u32::MAX;

    /// The code of a text.
    pub(crate) fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.places.get(text) {
            return *code;
        }
        // Each code is that of a row, and no column has as many rows as there are codes.
        let code = u32::try_from(self.different.len()).unwrap_or(Self::MISSING);
        let text: Arc<str> = text.into();
        self.different.push(Arc::clone(&text));
        self.places.insert(text, code);
        code
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        let code = match (text, self.codes.last()) {
            (None, _) => Self::MISSING,
            // Rows of one series stand behind each other.
            (Some(text), Some(&last)) if self.text(last) == Some(text) => last,
            (Some(text), _) => self.code(text),
        };
        self.codes.push(code);
    }

    fn text(&self, code: u32) -> Option<&str> {
        self.different.get(code as usize).map(|text| &**text)
    }
}

impl Column {
    /// Numbers; NaN is a missing one.
    #[must_use]
    pub fn numbers(values: Vec<f64>) -> Self {
        Self::of(Values::Numbers(values))
    }

    /// Numbers of 32 bits, each as the number of its shortest decimals: 0.1 and not 0.10000000149; NaN is a missing one.
    #[must_use]
    pub fn single_numbers(values: &[f32]) -> Self {
        Self::numbers(values.iter().map(|x| shortest(*x)).collect())
    }

    /// Whole numbers, kept exactly.
    #[must_use]
    pub fn integers(values: Vec<Option<i64>>) -> Self {
        Self::of(Values::Integers(values))
    }

    /// Truth values.
    #[must_use]
    pub fn booleans(values: Vec<Option<bool>>) -> Self {
        Self::of(Values::Booleans(values))
    }

    /// Texts.
    pub fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        let mut texts = Dictionary::default();
        values.into_iter().for_each(|text| texts.push(text));
        Self::of(Values::Texts(texts))
    }

    /// Texts by their places in a list; a negative place is a missing text. `None` for a place outside of the list.
    #[must_use]
    pub fn categories(places: &[i64], list: &[String]) -> Option<Self> {
        let mut texts = Dictionary::default();
        let codes: Vec<u32> = list.iter().map(|text| texts.code(text)).collect();
        for &place in places {
            let code = match usize::try_from(place) {
                Ok(place) => *codes.get(place)?,
                Err(_) => Dictionary::MISSING,
            };
            texts.codes.push(code);
        }
        Some(Self::of(Values::Texts(texts)))
    }

    /// Dates, counted since 1970 in UTC or on a clock without a zone; [`MISSING_DATE`] is a missing one.
    #[must_use]
    pub fn dates(counts: Vec<i64>, unit: TimeUnit, utc: bool) -> Self {
        Self::of(Values::Dates { counts, unit, utc })
    }

    pub(crate) fn of(values: Values) -> Self {
        Self(Arc::new(values))
    }

    pub(crate) fn values(&self) -> &Values {
        &self.0
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self.values() {
            Values::Numbers(values) => values.len(),
            Values::Integers(values) => values.len(),
            Values::Booleans(values) => values.len(),
            Values::Texts(texts) => texts.codes.len(),
            Values::Dates { counts, .. } => counts.len(),
            Values::Cells(cells) => cells.len(),
        }
    }

    /// The cell of a row; text without the blanks around it.
    pub(crate) fn cell(&self, row: usize) -> Cell<'_> {
        let cell = match self.values() {
            Values::Numbers(values) => values.get(row).map(|x| Cell::Float(Float(*x))),
            Values::Integers(values) => values.get(row).copied().flatten().map(Cell::Integer),
            Values::Booleans(values) => values.get(row).copied().flatten().map(Cell::Boolean),
            Values::Texts(texts) => {
                texts.codes.get(row).and_then(|code| texts.text(*code)).map(|text| Cell::Text(text.trim()))
            }
            Values::Dates { counts, unit, .. } => {
                let count = counts.get(row).filter(|count| **count != MISSING_DATE);
                count.map(|count| unit.date(*count).map_or(Cell::Integer(*count), Cell::Time))
            }
            Values::Cells(cells) => cells.get(row).map(|cell| match cell {
                Value::Text(text) => Cell::Text(text.trim()),
                Value::Typed(cell) => *cell,
            }),
        };
        cell.unwrap_or_default()
    }

    /// Its numbers, of a column of numbers, integers or truth values: NaN where one is missing.
    #[must_use]
    pub fn as_numbers(&self) -> Option<Vec<f64>> {
        match self.values() {
            Values::Numbers(values) => Some(values.clone()),
            Values::Integers(values) => {
                Some(values.iter().map(|n| n.map_or(f64::NAN, |n| n as f64)).collect())
            }
            Values::Booleans(values) => {
                Some(values.iter().map(|yes| yes.map_or(f64::NAN, |yes| f64::from(u8::from(yes)))).collect())
            }
            Values::Texts(_) | Values::Dates { .. } | Values::Cells(_) => None,
        }
    }

    /// Its whole numbers, of a column of them.
    #[must_use]
    pub fn as_integers(&self) -> Option<&[Option<i64>]> {
        if let Values::Integers(values) = self.values() { Some(values) } else { None }
    }

    /// The counts since 1970 of a column of dates, and their unit.
    #[must_use]
    pub fn as_dates(&self) -> Option<(&[i64], TimeUnit)> {
        if let Values::Dates { counts, unit, .. } = self.values() { Some((counts, *unit)) } else { None }
    }

    /// Its texts, of a column of texts: the place of each row's among the different ones, -1 where it is missing, and these, in
    /// the order of their first use.
    #[must_use]
    pub fn as_categories(&self) -> Option<(Vec<i64>, Vec<String>)> {
        let Values::Texts(texts) = self.values() else { return None };
        let place = |code: &u32| if *code == Dictionary::MISSING { -1 } else { i64::from(*code) };
        let list = texts.different.iter().map(|text| text.to_string()).collect();
        Some((texts.codes.iter().map(place).collect(), list))
    }
}
