//! What stands in for missing values.

use crate::error::series::SeriesError;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::dates::frequency::{Gap, Spacing};
use crate::dates::purpose::Purpose;
use crate::error::DataError;
use crate::message::place::Place;
use crate::message::{count, list};
use crate::series::roles::indicator;
use chrono::NaiveDateTime;

/// What to put in place of a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The value of the row before; looks at the past only.
    Previous,
    /// The straight line between the values on both sides, counted in rows; at the ends of a column the
    /// nearest value. It looks ahead: a filled row knows of the next value.
    Linear,
    /// Zero.
    Zero,
}

impl FromStr for Fill {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "previous" => Ok(Self::Previous),
            "linear" => Ok(Self::Linear),
            "zero" => Ok(Self::Zero),
            _ => Err(DataError::Series(SeriesError::UnknownFill { text: text.to_owned() })),
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Previous => "previous",
            Self::Linear => "linear",
            Self::Zero => "zero",
        })
    }
}

/// A series with values that may be missing, NaN, and with dates that may skip rows.
pub(crate) struct Holes<'a> {
    /// What the series is called in messages.
    pub(crate) source: &'a str,
    pub(crate) names: &'a Vec<String>,
    pub(crate) values: Vec<Vec<f64>>,
    pub(crate) dates: Option<Vec<NaiveDateTime>>,
    /// Of each column the rows whose values were interpolated, and so know of later ones.
    pub(crate) interpolated: Vec<Vec<usize>>,
}

/// Fills the series of a file, and counts what it fills.
pub(crate) struct Filling {
    fill: Option<Fill>,
    purpose: Purpose,
    gaps: bool,
    /// How the names of columns begin that stand for a name of a categorical column.
    indicators: Vec<String>,
    /// Values filled, by column.
    filled: BTreeMap<String, usize>,
    /// Rows without any value before the first or after the last one with some.
    trimmed: usize,
    inserted: usize,
    /// The most rows that were inserted at one place, and the dates before and after.
    largest: Option<(usize, NaiveDateTime, NaiveDateTime)>,
    /// What a person has to know of single series.
    said: Vec<String>,
}

impl Filling {
    /// With a rule, missing values alone are filled by it, and rows inserted where dates skip some if `gaps` says so.
    /// Without one, rows without any value at both ends are left out, skipped rows are inserted where they are at most a
    /// third of all, and values are interpolated.
    /// An inserted row has the categories of the row before.
    pub(crate) fn new(fill: Option<Fill>, gaps: bool, categorical: &[String], purpose: Purpose) -> Self {
        let indicators = categorical.iter().map(|column| indicator(column, "")).collect();
        let (filled, said) = (BTreeMap::new(), Vec::new());
        Self { fill, purpose, gaps, indicators, filled, trimmed: 0, inserted: 0, largest: None, said }
    }

    /// Fills a series; `place` is where a row of it stands in the file.
    pub(crate) fn fill<'a>(
        &mut self,
        mut holes: Holes<'a>,
        place: impl Fn(usize) -> Place,
    ) -> Result<Holes<'a>, DataError> {
        let mut start = 0;
        if self.fill.is_none() {
            start = self.trim(&mut holes);
        }
        if let (Some(what), Some(advice)) = (known_ahead(&holes), self.purpose.known_ahead()) {
            let Some(fill) = self.fill else {
                return Err(DataError::Series(SeriesError::KnownAhead {
                    file: holes.source.to_owned(),
                    what,
                    advice,
                }));
            };
            self.said.push(format!("{}: {what}; the rule {fill} fills them", holes.source));
        }
        let missing = |values: &Vec<f64>| {
            let first = values.iter().position(|v| v.is_nan());
            first.map(|first| (first, values.iter().filter(|v| v.is_nan()).count()))
        };
        let missing: Vec<Option<(usize, usize)>> = holes.values.iter().map(missing).collect();
        self.insert_rows(&mut holes)?;
        for ((name, values), missing) in holes.names.iter().zip(&mut holes.values).zip(missing) {
            if let Some((_, count)) = missing {
                *self.filled.entry(name.clone()).or_insert(0) += count;
            }
            // Rows that were inserted stand on no line, and none of them is the first of a column.
            let first = place(start + missing.map_or(0, |(first, _)| first));
            let category = self.indicators.iter().any(|prefix| name.starts_with(prefix));
            let fill = if category { Fill::Previous } else { self.fill.unwrap_or(Fill::Linear) };
            let empty = || values.iter().enumerate().filter(|(_, v)| v.is_nan()).map(|(row, _)| row);
            holes.interpolated.push(if fill == Fill::Linear { empty().collect() } else { Vec::new() });
            if values.iter().any(|v| v.is_nan()) {
                fill_missing(name, values, (fill, self.purpose), first)?;
            }
        }
        Ok(holes)
    }

    /// Leaves out rows without any value at both ends; how many at the start.
    fn trim(&mut self, holes: &mut Holes<'_>) -> usize {
        let rows = holes.values.first().map_or(0, Vec::len);
        let some = |row: &usize| holes.values.iter().any(|v| v.get(*row).is_some_and(|x| !x.is_nan()));
        let Some(start) = (0..rows).find(some) else { return 0 };
        let end = (0..rows).rfind(some).map_or(rows, |last| last + 1);
        for values in &mut holes.values {
            values.truncate(end);
            values.drain(..start);
        }
        if let Some(dates) = &mut holes.dates {
            dates.truncate(end);
            dates.drain(..start);
        }
        self.trimmed += start + rows - end;
        start
    }

    /// Puts rows without values where the dates skip some.
    fn insert_rows(&mut self, holes: &mut Holes<'_>) -> Result<(), DataError> {
        let file = || holes.source.to_owned();
        let Some(dates) = &mut holes.dates else {
            return if self.gaps {
                Err(DataError::Series(SeriesError::GapsWithoutDates { file: file() }))
            } else {
                Ok(())
            };
        };
        if !self.gaps && self.fill.is_some() {
            return Ok(());
        }
        let spacing = Spacing::of(dates);
        let (missing, rows) = (spacing.missing(), dates.len());
        match spacing.uneven {
            Some((row, previous, date)) if self.gaps => {
                let step = spacing.usual.to_string();
                return Err(DataError::Series(SeriesError::UnevenDates {
                    file: file(),
                    row: row + 1,
                    previous,
                    date,
                    step,
                }));
            }
            Some(_) => return Ok(()),
            None if missing == 0 => return Ok(()),
            // A mistyped year would fill the memory.
            None if self.gaps && missing > rows => {
                return Err(DataError::Series(SeriesError::GapsTooWide { file: file(), missing, rows }));
            }
            // More than a third of all rows, of however many a mistyped date makes.
            None if !self.gaps && missing > rows / 2 => return Ok(()),
            None => {}
        }
        let inserted = |gap: &Gap| spacing.usual.future(gap.from, gap.missing);
        let new = spacing.gaps.iter().map(inserted).collect::<Result<Vec<_>, _>>()?;
        *dates = spread(dates, &spacing.gaps, new);
        for values in &mut holes.values {
            let nothing = spacing.gaps.iter().map(|gap| vec![f64::NAN; gap.missing]);
            *values = spread(values, &spacing.gaps, nothing);
        }
        for gap in spacing.gaps.iter().rev() {
            if self.largest.is_none_or(|(largest, ..)| gap.missing >= largest) {
                self.largest = Some((gap.missing, gap.from, gap.to));
            }
        }
        self.inserted += missing;
        Ok(())
    }

    /// What was filled, in words.
    pub(crate) fn notes(self) -> Vec<String> {
        let mut notes = self.said;
        let by = match self.fill {
            None => "interpolated between the values on both sides, so a filled row knows of the next value"
                .to_owned(),
            Some(fill) => format!("filled by the rule {fill}"),
        };
        if self.trimmed > 0 {
            notes.push(format!(
                "{} without any value left out at the start or the end",
                count(self.trimmed, "row")
            ));
        }
        if let Some((largest, from, to)) = self.largest {
            let places = format!("{largest} of them between {from} and {to}");
            let rows = count(self.inserted, "row");
            notes.push(format!("{rows} inserted where the dates skip them ({places}), {by}"));
        }
        if !self.filled.is_empty() {
            let each: Vec<String> = self.filled.iter().map(|(name, n)| format!("{name} ({n})")).collect();
            let all = count(self.filled.values().sum(), "missing value");
            notes.push(format!("{all} {by}: {}", list(&each)));
        }
        notes
    }
}

/// Rows with others put into their gaps, in one pass.
fn spread<T: Copy>(rows: &[T], gaps: &[Gap], new: impl IntoIterator<Item = Vec<T>>) -> Vec<T> {
    let mut all = Vec::with_capacity(rows.len() + gaps.iter().map(|gap| gap.missing).sum::<usize>());
    let mut from = 0;
    for (gap, new) in gaps.iter().zip(new) {
        all.extend_from_slice(rows.get(from..gap.row).unwrap_or_default());
        all.extend(new);
        from = gap.row;
    }
    all.extend_from_slice(rows.get(from..).unwrap_or_default());
    all
}

/// Columns that go on after the last value of others, said in words.
fn known_ahead(holes: &Holes<'_>) -> Option<String> {
    let end = |values: &Vec<f64>| values.iter().rposition(|v| !v.is_nan()).map_or(0, |last| last + 1);
    let ends: Vec<usize> = holes.values.iter().map(end).collect();
    let (&first, &last) = (ends.iter().filter(|e| **e > 0).min()?, ends.iter().max()?);
    let named = |keep: &dyn Fn(usize) -> bool| {
        let named = holes.names.iter().zip(&ends).filter(|(_, end)| keep(**end));
        list(&named.map(|(name, _)| name.clone()).collect::<Vec<_>>())
    };
    (first < last).then(|| {
        let (ahead, behind) = (named(&|end| end > first), named(&|end| end == first));
        format!("{ahead} has values in {} after the last value of {behind}", count(last - first, "row"))
    })
}

/// Replaces the NaNs of the column `name`; `first` is the line of the first of them.
pub(crate) fn fill_missing(
    name: &str,
    values: &mut [f64],
    (fill, purpose): (Fill, Purpose),
    first: Place,
) -> Result<(), DataError> {
    let known: Vec<(usize, f64)> = values.iter().copied().enumerate().filter(|(_, v)| !v.is_nan()).collect();
    if fill == Fill::Zero {
        values.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = 0.0);
        return Ok(());
    }
    let (Some(&(start, _)), Some(&(end, last))) = (known.first(), known.last()) else {
        let (column, advice) = (name.to_owned(), purpose.empty_column());
        return Err(DataError::Series(SeriesError::ColumnMissing { file: first.file, column, advice }));
    };
    if fill == Fill::Previous && start > 0 {
        let (column, advice) = (name.to_owned(), purpose.no_previous());
        return Err(DataError::Series(SeriesError::NoPreviousValue { at: first, column, advice }));
    }
    // What the linear fill of the rows before the first value repeats.
    let mut previous = known.first().copied().unwrap_or((start, last));
    let mut next = known.into_iter().peekable();
    for (row, value) in values.iter_mut().enumerate() {
        while let Some(passed) = next.next_if(|(at, _)| *at <= row) {
            previous = passed;
        }
        if !value.is_nan() {
            continue;
        }
        *value = match (fill, next.peek()) {
            (Fill::Linear, Some(&(after, y))) if row > previous.0 && row < end => {
                let (before, x) = previous;
                let share = (row - before) as f64 / (after - before) as f64;
                // Weights, not a slope: y - x may overflow where both values do not.
                x * (1.0 - share) + y * share
            }
            (Fill::Linear | Fill::Previous | Fill::Zero, _) => previous.1,
        };
    }
    Ok(())
}
