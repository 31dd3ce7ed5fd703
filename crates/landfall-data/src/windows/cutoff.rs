//! A place in time up to which rows are known.

use crate::error::DataError;
use crate::error::cutoff::CutoffError;
use crate::series::Series;
use crate::series::panel::Panel;
use chrono::NaiveDateTime;

/// The last row that is known when a forecast is made.
///
/// ```
/// use landfall_data::{Cutoff, Panel, synthetic};
/// let panel = Panel::from(synthetic::demo(200, 1, 1)?); // hourly
/// let cutoff = Cutoff::parse("2020-01-02 00:00", &panel)?;
/// let series = &panel.series()[0];
/// assert_eq!(cutoff.rows(series), 25); // the row of that date is the last one
/// assert_eq!(series.label(24), cutoff.label(series));
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cutoff {
    /// Its date.
    Date(NaiveDateTime),
    /// Its number from 0, of data without dates.
    Row(usize),
}

impl Cutoff {
    /// Reads a date as the data writes them (or as `2020-01-31`), or the number of a row where series have no dates.
    ///
    /// # Errors
    /// [`CutoffError::NoDate`], [`CutoffError::NoNumber`].
    pub fn parse(text: &str, panel: &Panel) -> Result<Self, DataError> {
        let dates = panel.series().iter().map(Series::dates).collect::<Option<Vec<_>>>();
        let Some(dates) = dates.as_ref().and_then(|all| all.first()) else {
            let last = panel.series().iter().map(Series::rows).max().unwrap_or(1) - 1;
            let number = text.trim().parse().map(Self::Row);
            return number.map_err(|_| CutoffError::NoNumber { text: text.to_owned(), last }.into());
        };
        let example = dates.values().last().map_or_else(String::new, |date| dates.format(*date));
        let date = dates.read(text).map(Self::Date);
        date.ok_or_else(|| CutoffError::NoDate { text: text.to_owned(), example }.into())
    }

    /// How many rows of a series are known then: those up to it and including it.
    pub fn rows(&self, series: &Series) -> usize {
        match (self, series.dates()) {
            (Self::Date(date), Some(dates)) => dates.values().partition_point(|d| d <= date),
            (Self::Row(row), _) => row.saturating_add(1).min(series.rows()),
            (Self::Date(_), None) => 0,
        }
    }

    /// What it is called, as the series writes its dates.
    pub fn label(&self, series: &Series) -> String {
        match (self, series.dates()) {
            (Self::Date(date), Some(dates)) => {
                // Dates of months or years say less than the date that was asked for.
                let own = dates.format(*date);
                if dates.read(&own) == Some(*date) { own } else { date.to_string() }
            }
            (Self::Date(date), None) => date.to_string(),
            (Self::Row(row), _) => format!("row {row}"),
        }
    }

    /// How many rows of a series are known then, at least `needed`, the last of which is of this very date.
    ///
    /// # Errors
    /// [`CutoffError::Absent`], [`CutoffError::Before`], [`CutoffError::After`], [`CutoffError::Early`].
    pub fn known(&self, series: &Series, needed: usize) -> Result<usize, DataError> {
        let (rows, file, cutoff) = (self.rows(series), series.source().to_owned(), self.label(series));
        let last = series.rows() - 1;
        let beyond = match (self, series.dates().and_then(|dates| dates.values().last())) {
            (Self::Date(date), Some(end)) => date > end,
            (Self::Row(row), _) => *row > last,
            (Self::Date(_), None) => false,
        };
        if beyond {
            return Err(CutoffError::After { file, cutoff, last: series.label(last) }.into());
        }
        if rows == 0 {
            return Err(CutoffError::Before { file, cutoff, first: series.label(0) }.into());
        }
        let own = |dates: &crate::dates::Dates| dates.values().get(rows - 1).copied();
        if let (Self::Date(date), Some(found)) = (self, series.dates().and_then(own))
            && *date != found
        {
            let (before, after) = (series.label(rows - 1), series.label(rows));
            return Err(CutoffError::Absent { file, cutoff, before, after }.into());
        }
        if rows < needed {
            let earliest = (needed <= series.rows()).then(|| series.label(needed - 1));
            return Err(CutoffError::Early { file, cutoff, rows, needed, earliest }.into());
        }
        Ok(rows)
    }
}

impl Panel {
    /// The series up to a place in time, with `needed` rows at least ([`Cutoff::known`]); of several, those without that
    /// place are left out, and said.
    ///
    /// # Errors
    /// As [`Cutoff::known`] when no series remains; as [`Panel::known_at`].
    pub fn until(&self, cutoff: Cutoff, needed: usize) -> Result<(Self, Vec<String>), DataError> {
        let (mut left_out, mut first) = (Vec::new(), None);
        for series in self.series() {
            if let Err(why) = cutoff.known(series, needed) {
                left_out.push(format!("series `{}` is left out: {why}", series.name()));
                first.get_or_insert(why);
            }
        }
        match first {
            Some(why) if left_out.len() == self.series().len() => Err(why),
            Some(_) | None => {
                let rows = |series: &Series| cutoff.known(series, needed).unwrap_or(0);
                Ok((self.known_at(rows)?, left_out))
            }
        }
    }
}
