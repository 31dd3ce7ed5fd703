//! Half the widths of intervals, around forecasts.

use super::RunError;
use super::open::Forecast;
use super::pooled::Pooled;
use crate::data::Digits;
use crate::data::conformal::{RecentErrors, needed};
use crate::ensemble::half_widths_of;
use crate::zero_shot::{Quantiles, quantile};
use std::collections::HashMap;

/// Refuses levels that need more errors than any series has; the names of those that have too few, and how many they have. Of
/// these no interval is made.
///
/// # Errors
/// [`RunError::TooFewErrors`], of the series that has most.
pub fn enough<'s>(
    found: impl IntoIterator<Item = (&'s str, usize)>,
    levels: &[f64],
) -> Result<Vec<(&'s str, usize)>, RunError> {
    let (mut few, mut most) = (Vec::new(), None::<(&str, usize)>);
    for (series, found) in found {
        few.extend(levels.iter().any(|level| found < needed(*level)).then_some((series, found)));
        if most.is_none_or(|(_, other)| other < found) {
            most = Some((series, found));
        }
    }
    let Some((series, found)) = most else { return Ok(few) };
    match levels.iter().find(|level| found < needed(**level)) {
        Some(&level) => {
            let series = series.to_owned();
            Err(RunError::TooFewErrors { series, level, found, needed: needed(level) })
        }
        None => Ok(few),
    }
}

/// That some series have too few windows for intervals, if there are such.
#[must_use]
pub fn without_intervals(few: &[(&str, usize)], levels: &[f64]) -> Option<String> {
    let (series, found) = named(few)?;
    let needed = most_needed(levels);
    Some(format!(
        "{series} without intervals: of {needed} windows that the run was not fit on it has {found}"
    ))
}

/// Series in a message, and the windows of the first.
fn named(few: &[(&str, usize)]) -> Option<(String, usize)> {
    let (series, found) = few.first()?;
    let others = match few.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some((format!("series `{series}`{others}"), *found))
}

/// The windows that the highest of some levels needs.
fn most_needed(levels: &[f64]) -> usize {
    levels.iter().map(|level| needed(*level)).max().unwrap_or(0)
}

/// That the intervals of some series, of which there are too few errors, are of the ensemble's spread, if there are such.
#[must_use]
pub(super) fn with_spread<'s>(
    found: impl Iterator<Item = (&'s str, usize)>,
    levels: &[f64],
) -> Option<String> {
    let needed = most_needed(levels);
    let few: Vec<(&str, usize)> = found.filter(|(_, found)| *found < needed).collect();
    let (series, found) = named(&few)?;
    Some(format!(
        "{series}: the intervals are those of the ensemble's members, as of {needed} windows with errors that they need there are \
         {found}"
    ))
}

/// Half the width of a column's interval in each step; infinite where there are too few errors.
pub(super) fn half_widths(
    recent: &RecentErrors,
    level: f64,
    (target, steps): (usize, usize),
    std: f64,
) -> Vec<f64> {
    let (half, digits) = (|step: usize| recent.half_width(target * steps + step, level), Digits::of_f32(std));
    (0..steps).map(|step| half(step).map_or(f64::INFINITY, |half| digits.up(half * std))).collect()
}

/// A forecast minus and plus half widths, nowhere below `lowest`, of a column of this standard deviation.
pub(super) fn around(forecast: &[f64], half: &[f64], (lowest, std): (f64, f64)) -> [Vec<f64>; 2] {
    let digits = Digits::of_f32(std);
    // Errors have 24 bits, and of a forecast in f64 more are known.
    let bound = |f: f64, half: f64| match digits.round(f) == f {
        true => digits.round(f + half).max(lowest),
        false => (f + half).max(lowest),
    };
    let pairs = || forecast.iter().zip(half);
    [pairs().map(|(f, half)| bound(*f, -half)).collect(), pairs().map(|(f, half)| bound(*f, *half)).collect()]
}

/// Half the widths of the intervals of forecasts beyond the end of series: of [`Run::half_widths`](super::Run::half_widths).
#[derive(Debug, Clone, PartialEq)]
pub struct HalfWidths {
    pub(super) levels: Vec<f64>,
    /// The smallest value of each target column.
    pub(super) lowest: Vec<f64>,
    pub(super) series: HashMap<String, SeriesWidths>,
    /// Errors of all series together, which take the place of each one's own.
    pub(super) pooled: Option<Pooled>,
    /// Whether the run has one series, whose name does not matter.
    pub(super) only: bool,
}

/// The digits of bounds around these forecasts.
fn digits_of(values: &[f64]) -> Digits {
    Digits::of_f32(values.iter().fold(0.0, |size: f64, y| size.max(y.abs())))
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeriesWidths {
    /// Windows with errors.
    pub(super) found: usize,
    /// For each target column and level the half width of each step, in the units of the data.
    pub(super) half: Vec<Vec<Vec<f64>>>,
    /// Standard deviations of the target columns.
    pub(super) std: Vec<f64>,
}

impl HalfWidths {
    /// The levels, in percent.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        &self.levels
    }

    /// The half widths of the intervals of a series, for each target column and level those of each step, in the units of the
    /// data; of a run of one series, that series' whatever the name.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`], of a series without errors too.
    pub fn of(&self, series: &str) -> Result<&[Vec<Vec<f64>>], RunError> {
        let found = self.find(series);
        enough([(series, found.map_or(0, |of| of.found))], &self.levels)?;
        Ok(found.map_or(&[], |of| of.half.as_slice()))
    }

    fn find(&self, series: &str) -> Option<&SeriesWidths> {
        match self.only && self.series.len() == 1 {
            true => self.series.values().next(),
            false => self.series.get(series),
        }
    }

    /// The smallest value of each target column's bounds: 0 of a column without negative values, else minus infinity.
    #[must_use]
    pub fn lowest(&self) -> &[f64] {
        &self.lowest
    }

    /// Adds the intervals to a forecast: of errors, of a series with too few of them of [`Forecast::spread`], and none without both.
    pub fn add_to(&self, forecast: &mut Forecast) {
        if let Some(pooled) = &self.pooled {
            self.add_pooled(pooled, forecast);
            return;
        }
        let enough = |widths: &&SeriesWidths| enough([("", widths.found)], &self.levels).is_ok();
        let Some(widths) = self.find(forecast.context.name()).filter(enough) else {
            self.add_spread(forecast);
            return;
        };
        let bounds = |column: usize| {
            let unit = (self.lowest[column], widths.std[column]);
            widths.half[column].iter().map(|half| around(&forecast.values[column], half, unit)).collect()
        };
        forecast.intervals = (0..widths.half.len()).map(bounds).collect();
    }

    /// Adds the intervals of the errors of all series, in the widths that the forecast's own spread gives.
    fn add_pooled(&self, pooled: &Pooled, forecast: &mut Forecast) {
        if forecast.spread.iter().any(Vec::is_empty) {
            return;
        }
        let column = |(column, spread): (usize, &Vec<Quantiles>)| -> Option<Vec<[Vec<f64>; 2]>> {
            let lowest = self.lowest.get(column).copied().unwrap_or(f64::NEG_INFINITY);
            let (values, widths) = (&forecast.values[column], half_widths_of(spread).collect::<Vec<f64>>());
            let digits = digits_of(values);
            let one = |level: &f64| {
                let half = pooled.half_widths(*level, &widths)?;
                let bound = |sign: f64| {
                    let pairs = values.iter().zip(&half);
                    pairs.map(|(y, half)| digits.round(y + sign * half).max(lowest)).collect()
                };
                Some([bound(-1.0), bound(1.0)])
            };
            self.levels.iter().map(one).collect()
        };
        let found: Option<Vec<_>> = forecast.spread.iter().enumerate().map(column).collect();
        forecast.intervals = found.unwrap_or_default();
    }

    /// Adds the intervals of a forecast's own spread.
    fn add_spread(&self, forecast: &mut Forecast) {
        if forecast.spread.iter().any(Vec::is_empty) {
            return;
        }
        let bounds = |(column, spread): (usize, &Vec<Quantiles>)| {
            let lowest = self.lowest.get(column).copied().unwrap_or(f64::NEG_INFINITY);
            let values = &forecast.values[column];
            let digits = digits_of(values);
            let at = |level: f64| -> Vec<f64> {
                let of = |(y, row): (&f64, &Quantiles)| digits.round(y + quantile(row, level)).max(lowest);
                values.iter().zip(spread).map(of).collect()
            };
            let of = |level: &f64| [at(0.5 - level / 200.0), at(0.5 + level / 200.0)];
            self.levels.iter().map(of).collect()
        };
        forecast.intervals = forecast.spread.iter().enumerate().map(bounds).collect();
    }
}
