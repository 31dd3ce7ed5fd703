//! Covariates: what the columns beside the targets are, and what they are where a forecast ends.

use crate::dates::calendar::Calendar;
use crate::error::DataError;
use crate::error::covariates::CovariateError;
use crate::error::series::SeriesError;
use crate::message::{list, one_line};
use crate::series::Series;
use crate::series::panel::Panel;
use crate::series::roles::{Known, Scale, indicator};

/// What the columns of a panel are that are not to be forecast. Those named nowhere are known up to the last row alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covariates {
    /// Columns whose values are known in the rows to be forecast.
    pub known: Vec<String>,
    /// Columns with one value for each series.
    pub fixed: Vec<String>,
    /// Columns whose values are names. Each name is a column of its own, 1 where it stands and 0 elsewhere: `holiday=easter`.
    pub categorical: Vec<String>,
    /// Features of the dates; none where they are not asked for, and those that suit the frequency for an empty list.
    pub calendar: Option<Vec<Calendar>>,
}

/// The columns of a panel that a covariate stands for: itself, or one for each of its names.
fn stands_for(panel: &Panel, name: &str, categorical: bool) -> Result<Vec<String>, DataError> {
    let prefix = indicator(name, "");
    let columns = panel.columns();
    let found: Vec<String> = if categorical {
        columns.iter().filter(|c| c.starts_with(&prefix)).cloned().collect()
    } else {
        columns.iter().filter(|c| *c == name).cloned().collect()
    };
    if found.is_empty() {
        let known = columns.get(panel.targets()..).filter(|k| !k.is_empty()).unwrap_or(columns).to_vec();
        let (file, column) = (panel.source(), name.to_owned());
        return Err(CovariateError::Unknown { file, column, known }.into());
    }
    Ok(found)
}

impl Panel {
    /// The same panel with its covariates told apart: behind the columns to be forecast stand those that are known up to the
    /// last row alone, then those that are known in advance.
    ///
    /// ```
    /// use landfall_data::{Covariates, Panel, Series};
    /// let columns = vec!["promotion".to_owned(), "sales".to_owned()];
    /// let series = Series::new("shop", columns, vec![vec![0.0, 1.0, 0.0], vec![3.0, 8.0, 4.0]], None)?;
    /// let known = vec!["promotion".to_owned()];
    /// let panel = Panel::from(series)
    ///     .with_targets(&["sales".to_owned()])?
    ///     .with_covariates(&Covariates { known, ..Covariates::default() })?;
    /// assert_eq!((panel.columns(), panel.known().len()), (&["sales".to_owned(), "promotion".to_owned()][..], 1));
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`SeriesError::UnknownColumn`]; [`CovariateError`] for columns of two roles, a fixed one that varies, and calendar features
    /// without dates.
    pub fn with_covariates(self, covariates: &Covariates) -> Result<Self, DataError> {
        let mut panel = self;
        let mut known: Vec<(String, Known)> = Vec::new();
        for (names, why) in [(&covariates.known, Known::Given), (&covariates.fixed, Known::Fixed)] {
            for name in names {
                for column in stands_for(&panel, name, covariates.categorical.contains(name))? {
                    if let Some((_, before)) = known.iter().find(|(other, _)| *other == column) {
                        let (first, second) = (before.setting(), why.setting());
                        let (file, column) = (panel.source(), name.clone());
                        return Err(CovariateError::Twice { file, column, first, second }.into());
                    }
                    known.push((column, why));
                }
            }
        }
        let targets = panel.columns()[..panel.targets].to_vec();
        let both = known.iter().find(|(column, _)| panel.chosen && targets.contains(column));
        if let Some((column, _)) = both {
            return Err(CovariateError::Target { file: panel.source(), column: column.clone() }.into());
        }
        for series in &panel.series {
            for (column, _) in known.iter().filter(|(_, why)| *why == Known::Fixed) {
                let values = series.column_index(column).and_then(|at| series.values().get(at));
                let first = values.and_then(|v| v.first()).copied();
                if let Some(row) = values.and_then(|v| v.iter().position(|x| Some(*x) != first)) {
                    let (file, column) = (series.source().to_owned(), column.clone());
                    return Err(CovariateError::Varies { file, column, row: row + 1 }.into());
                }
            }
        }
        if let Some(features) = &covariates.calendar {
            let features = panel.calendar(features)?;
            known.extend(features.iter().map(|f| (f.column(), Known::Calendar(*f))));
            panel.series = panel.series.into_iter().map(|s| dated(s, &features)).collect::<Result<_, _>>()?;
        }
        let is_known = |c: &&String| known.iter().any(|(name, _)| name == *c);
        // Without a choice of targets all columns are to be forecast but those that are known in advance.
        let chosen = if panel.chosen { panel.targets } else { usize::MAX };
        let free: Vec<String> = panel.columns().iter().filter(|c| !is_known(c)).cloned().collect();
        let indicators: Vec<String> = covariates.categorical.iter().map(|c| indicator(c, "")).collect();
        let is_indicator = |c: &String| indicators.iter().any(|prefix| c.starts_with(prefix));
        let (past_names, numbers): (Vec<String>, Vec<String>) = free.into_iter().partition(is_indicator);
        let order: Vec<String> =
            numbers.iter().chain(&past_names).chain(known.iter().map(|(name, _)| name)).cloned().collect();
        panel.targets = numbers.len().min(chosen);
        if panel.targets == 0 {
            return Err(CovariateError::NoTarget { file: panel.source() }.into());
        }
        panel.series = panel.series.into_iter().map(|s| s.with_columns(&order)).collect::<Result<_, _>>()?;
        panel.scales = order
            .iter()
            .map(|column| match known.iter().find(|(name, _)| name == column) {
                _ if is_indicator(column) => Scale::Unit,
                Some((_, Known::Fixed)) => Scale::Panel,
                Some((_, Known::Calendar(_))) => Scale::Unit,
                Some((_, Known::Given)) | None => Scale::Series,
            })
            .collect();
        panel.known = known.into_iter().map(|(_, why)| why).collect();
        Ok(panel)
    }

    /// The features that are asked for, or those that suit the dates.
    fn calendar(&self, asked: &[Calendar]) -> Result<Vec<Calendar>, DataError> {
        let file = || self.source();
        for series in &self.series {
            let file = series.source().to_owned();
            match series.dates().map(|dates| dates.future(1)) {
                None => return Err(CovariateError::NoDates { file }.into()),
                Some(Err(DataError::Series(SeriesError::NoFrequency { .. }))) => {
                    return Err(CovariateError::Uneven { file }.into());
                }
                Some(other) => other.map(drop)?,
            }
        }
        if !asked.is_empty() {
            return Ok(asked.to_vec());
        }
        let frequency = self.frequency();
        let features = frequency.as_ref().map_or_else(|| Calendar::ALL.to_vec(), Calendar::of);
        match (features.is_empty(), frequency) {
            (true, Some(step)) => {
                Err(CovariateError::NoFeature { file: file(), step: step.to_string() }.into())
            }
            _ => Ok(features),
        }
    }
}

/// A series with columns of these features of its dates behind its own.
fn dated(series: Series, features: &[Calendar]) -> Result<Series, DataError> {
    let days = series.dates().map_or(&[][..], |d| d.values());
    let values = features.iter().map(|f| days.iter().map(|date| f.at(*date)).collect()).collect();
    series.extended(features.iter().map(|f| f.column()).collect(), values)
}

/// Where the values of columns known in advance are found that are given.
#[derive(Debug, Clone, Copy)]
pub enum Future<'a> {
    /// Rows after the last one of each series.
    Rows(&'a Panel),
    /// The same series with more rows: what was known when a past row was the last one.
    Longer(&'a Panel),
}

/// The values of the columns known in advance in the rows after a series, `[K][horizon]`, in the units of the data.
///
/// `future` are the rows of those that are given, which must be the dates to be forecast, where the series has dates, or the rows
/// after its last. They are those of the series' name; of an `only` series, those of a file that names no series too.
///
/// # Errors
/// [`CovariateError`] when given columns have no values, too few, or those of other dates.
pub fn ahead(
    series: &Series,
    known: &[Known],
    (future, only): (Option<Future<'_>>, bool),
    horizon: usize,
) -> Result<Vec<Vec<f64>>, DataError> {
    let first = series.channels() - known.len();
    let last = || match series.dates() {
        Some(dates) => dates.values().last().map_or_else(String::new, |d| dates.format(*d)),
        None => format!("row {}", series.rows()),
    };
    let of_dates = known.iter().any(|why| matches!(why, Known::Calendar(_)));
    let dates = match series.dates().map(|dates| dates.future(horizon)) {
        Some(dates) if of_dates => Some(dates?),
        // Dates that are not evenly spaced say no more than the order of the rows.
        Some(dates) => dates.ok(),
        None => None,
    };
    let given: Vec<String> =
        named(series, first, known).filter(|(_, why)| *why == Known::Given).map(|(c, _)| c.clone()).collect();
    let rows = match (given.is_empty(), future) {
        (true, _) => None,
        (false, None) => {
            let (series, columns) = (series.name().to_owned(), given);
            return Err(CovariateError::NoFuture { series, columns, needed: horizon, last: last() }.into());
        }
        (false, Some(future)) => {
            Some(future_rows(series, (future, only, &given), dates.as_deref(), horizon, &last())?)
        }
    };
    let one = |(at, (column, why)): (usize, (&String, Known))| -> Result<Vec<f64>, DataError> {
        match (why, &dates, &rows) {
            (Known::Fixed, _, _) => {
                let value = series.values().get(first + at).and_then(|v| v.last()).copied().unwrap_or(0.0);
                Ok(vec![value; horizon])
            }
            (Known::Calendar(f), Some(dates), _) => Ok(dates.iter().map(|d| f.at(*d)).collect()),
            (Known::Given, _, Some((future, start))) => {
                let values = future.column_index(column).and_then(|at| future.values().get(at));
                let values = values.and_then(|v| v.get(*start..start + horizon));
                values.map(<[f64]>::to_vec).ok_or_else(|| {
                    let (file, known) = (future.source().to_owned(), future.columns().to_vec());
                    DataError::Series(SeriesError::UnknownColumn { file, name: column.clone(), known })
                })
            }
            (Known::Calendar(_) | Known::Given, _, _) => {
                Err(CovariateError::NoDates { file: series.source().to_owned() }.into())
            }
        }
    };
    named(series, first, known).enumerate().map(one).collect()
}

/// The columns known in advance by name, and why they are.
fn named<'a>(
    series: &'a Series,
    first: usize,
    known: &'a [Known],
) -> impl Iterator<Item = (&'a String, Known)> {
    series.columns().iter().skip(first).zip(known.iter().copied())
}

/// The series of a file with the values after another's last row, and the first of its rows that is forecast.
fn future_rows<'a>(
    series: &Series,
    (future, only, columns): (Future<'a>, bool, &[String]),
    dates: Option<&[chrono::NaiveDateTime]>,
    horizon: usize,
    last: &str,
) -> Result<(&'a Series, usize), DataError> {
    let (Future::Rows(panel) | Future::Longer(panel)) = future;
    let file = if panel.files.is_empty() { panel.source() } else { list(&panel.files) };
    let found = match panel.series() {
        [one] if only && panel.found().series_id.is_empty() => Some(one),
        _ => panel.named(series.name()),
    };
    let Some(rows) = found else {
        let known = panel.series().iter().map(|s| one_line(s.name())).collect();
        return Err(CovariateError::FutureSeries { file, series: series.name().to_owned(), known }.into());
    };
    let name = series.name().to_owned();
    let too_few = |found: usize| {
        let (file, series, columns, last) = (file.clone(), name.clone(), columns.to_vec(), last.to_owned());
        CovariateError::FutureRows { file, series, columns, found, needed: horizon, last }.into()
    };
    let start = match (future, dates, rows.dates()) {
        (Future::Longer(_), _, _) => series.rows(),
        (Future::Rows(_), Some(dates), Some(own)) => {
            let start = own.values().iter().position(|d| Some(d) == dates.first());
            let after = own.values().iter().filter(|d| Some(*d) >= dates.first()).count();
            let Some(start) = start else {
                let shown = |date: Option<&_>| date.map_or_else(String::new, |d| own.format(*d));
                let (first, last) = (shown(dates.first()), shown(dates.last()));
                return Err(match own.values().iter().find(|d| Some(*d) > dates.first()) {
                    None => {
                        let found = shown(own.values().last());
                        CovariateError::FutureEnds { file, series: name, found, first, last }
                    }
                    after @ Some(_) => {
                        let found = shown(after);
                        CovariateError::FutureDate { file, series: name, found, expected: first }
                    }
                }
                .into());
            };
            let mut pairs = own.values()[start..].iter().zip(dates);
            if let Some((found, expected)) = pairs.find(|(found, expected)| found != expected) {
                let (found, expected) = (own.format(*found), own.format(*expected));
                return Err(CovariateError::FutureDate { file, series: name.clone(), found, expected }.into());
            }
            if after < horizon {
                return Err(too_few(after));
            }
            start
        }
        (Future::Rows(_), None, Some(own)) => {
            let last = series.dates().and_then(|dates| dates.values().last());
            own.values().iter().position(|date| Some(date) > last).unwrap_or(rows.rows())
        }
        (Future::Rows(_), _, None) => 0,
    };
    let found = rows.rows().saturating_sub(start);
    if found < horizon {
        return Err(too_few(found));
    }
    Ok((rows, start))
}
