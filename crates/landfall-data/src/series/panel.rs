//! Several series with the same columns: what files hold.

use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::series::found::Found;
use std::collections::{BTreeSet, HashMap, HashSet};

use crate::dates::Dates;
use crate::dates::frequency::{Frequency, Spacing};
use crate::error::DataError;
use crate::error::form::FormError;
use crate::message::{count, list};
use crate::series::Series;
use crate::series::names::Places;
use crate::series::roles::{Known, Scale, indicator};
use crate::series::season::Season;
use crate::series::summary::Summary;

/// Series with the same columns, of which the first ones are to be forecast.
///
/// ```
/// use landfall_data::{Panel, Series};
/// let series = |name: &str, values: Vec<f64>| {
///     Series::new(name, vec!["sales".to_owned(), "price".to_owned()], vec![values.clone(), values], None)
/// };
/// let shops = vec![series("north", vec![1.0, 2.0, 3.0])?, series("south", vec![4.0, 5.0])?];
/// let panel = Panel::new(shops)?.with_targets(&["sales".to_owned()])?; // price is an input only
/// assert_eq!((panel.rows(), panel.targets()), (5, 1));
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    pub(crate) series: Vec<Series>,
    pub(crate) targets: usize,
    /// Why each of the last columns is known in advance.
    pub(crate) known: Vec<Known>,
    /// How each column is scaled; by its series where there are no covariates.
    pub(crate) scales: Vec<Scale>,
    /// Whether the columns to be forecast were chosen.
    pub(crate) chosen: bool,
    pub(crate) files: Vec<String>,
    pub(crate) found: Found,
    period: Option<usize>,
    places: Places,
}

impl Panel {
    /// These series; all columns are to be forecast. A series with the columns in another order than the first is
    /// put into that order.
    ///
    /// # Errors
    /// [`ReadError::NoFile`] for no series, [`SeriesError::DuplicateSeries`], [`SeriesError::OtherColumns`].
    pub fn new(series: Vec<Series>) -> Result<Self, DataError> {
        let Some(first) = series.first() else { return Err(DataError::Read(ReadError::NoFile)) };
        let (columns, other) = (first.columns().to_vec(), first.source().to_owned());
        let mut sources: HashMap<&str, &str> = HashMap::new();
        for s in &series {
            if let Some(before) = sources.insert(s.name(), s.source()) {
                let (file, other, name) = (before.to_owned(), s.source().to_owned(), s.name().to_owned());
                return Err(DataError::Series(SeriesError::DuplicateSeries { file, other, name }));
            }
        }
        let known: HashSet<&String> = columns.iter().collect();
        let same = |s: Series| {
            if s.columns() == columns {
                return Ok(s);
            }
            let own: HashSet<&String> = s.columns().iter().collect();
            let absent = columns.iter().find(|c| !own.contains(c)).map(|c| ("no", c));
            let added = s.columns().iter().find(|c| !known.contains(c)).map(|c| ("it has a", c));
            if let Some((has, column)) = absent.or(added) {
                let (file, column, other) = (s.source().to_owned(), column.clone(), other.clone());
                return Err(DataError::Series(SeriesError::OtherColumns { file, has, column, other }));
            }
            s.with_columns(&columns)
        };
        let series = series.into_iter().map(same).collect::<Result<_, _>>()?;
        let targets = columns.len();
        Ok(Self {
            series,
            targets,
            known: Vec::new(),
            scales: Vec::new(),
            chosen: false,
            files: Vec::new(),
            found: Found::default(),
            period: None,
            places: Places::default(),
        })
    }

    /// Leaves out columns of one value in each series, if others remain and there are rows enough to say so; but for those
    /// that may be so.
    pub(crate) fn leave_out_constants(&mut self, may: &[String]) -> Result<(), DataError> {
        const ENOUGH: usize = 10;
        let constant = |column: usize| {
            let name = self.columns().get(column).map_or("", String::as_str);
            if may.iter().any(|m| name == m || name.starts_with(&indicator(m, ""))) {
                return false;
            }
            let values = self.series.iter().filter_map(|s| s.values().get(column));
            values.into_iter().all(|v| v.iter().all(|x| v.first() == Some(x)))
        };
        let (constants, kept): (Vec<usize>, Vec<usize>) =
            (0..self.columns().len()).partition(|c| constant(*c));
        if constants.is_empty() || kept.is_empty() || self.rows() < ENOUGH {
            return Ok(());
        }
        let name = |column: &usize| self.columns().get(*column).cloned().unwrap_or_default();
        let (out, names): (Vec<String>, Vec<String>) =
            (constants.iter().map(name).collect(), kept.iter().map(name).collect());
        let column = count(out.len(), "column");
        self.found.notes.push(format!("{column} left out: {} (constant)", list(&out)));
        let series = std::mem::take(&mut self.series).into_iter();
        self.series = series.map(|s| s.with_columns(&names)).collect::<Result<_, _>>()?;
        self.targets = names.len();
        Ok(())
    }

    /// The same series with these columns first, which alone are to be forecast; the others follow in their order.
    ///
    /// # Errors
    /// [`SeriesError::UnknownColumn`], [`SeriesError::TextTarget`], [`SeriesError::RequestedTwice`], [`SeriesError::NoTarget`] for
    /// no column.
    pub fn with_targets(self, targets: &[String]) -> Result<Self, DataError> {
        if targets.is_empty() {
            return Err(DataError::Series(SeriesError::NoTarget));
        }
        if let Some(name) =
            targets.iter().find(|t| !self.columns().contains(t) && self.found.texts.contains(t))
        {
            let (file, name) = (self.source(), name.clone());
            return Err(DataError::Series(SeriesError::TextTarget { file, name }));
        }
        let chosen: HashSet<&String> = targets.iter().collect();
        let others = self.columns().iter().filter(|c| !chosen.contains(c));
        let columns: Vec<String> = targets.iter().chain(others).cloned().collect();
        let series = self.series.into_iter().map(|s| s.with_columns(&columns)).collect::<Result<_, _>>()?;
        Ok(Self { series, targets: targets.len(), chosen: true, ..self })
    }

    /// The same series without the columns of one value, if others remain and there are rows enough to say so; with all of
    /// them where covariates are told apart.
    ///
    /// # Errors
    /// As [`Panel::with_columns`].
    pub fn without_constants(mut self) -> Result<Self, DataError> {
        if self.scales.is_empty() {
            self.leave_out_constants(&[])?;
        }
        Ok(self)
    }

    /// The same series with these columns, all of which are to be forecast.
    ///
    /// # Errors
    /// [`SeriesError::UnknownColumn`], [`SeriesError::RequestedTwice`], [`SeriesError::NoNumericColumn`] for none.
    pub fn with_columns(self, columns: &[String]) -> Result<Self, DataError> {
        let series = self.series.into_iter().map(|s| s.with_columns(columns)).collect::<Result<_, _>>()?;
        Ok(Self { series, targets: columns.len(), ..self })
    }

    /// As many rows of each series, from its first on, as `rows` says, as they were known then ([`Series::known_at`]);
    /// series of which it takes none are left out.
    ///
    /// # Errors
    /// As [`Series::known_at`]; [`ReadError::NoFile`] when no series remains.
    pub fn known_at(&self, rows: impl Fn(&Series) -> usize) -> Result<Self, DataError> {
        let some = self.series.iter().map(|s| (s, rows(s))).filter(|(_, rows)| *rows > 0);
        let series = some.map(|(s, rows)| s.known_at(rows)).collect::<Result<Vec<_>, _>>()?;
        if series.is_empty() {
            return Err(DataError::Read(ReadError::NoFile));
        }
        let (known, scales, chosen) = (self.known.clone(), self.scales.clone(), self.chosen);
        let (files, found, period) = (self.files.clone(), self.found.clone(), self.period);
        let places = Places::default();
        Ok(Self { series, targets: self.targets, chosen, known, scales, files, found, period, places })
    }

    /// The series, at least one.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The series of this name, found in a time that does not grow with their number.
    pub fn named(&self, name: &str) -> Option<&Series> {
        self.series.get(self.places.of(name, &self.series)?)
    }

    /// Its series.
    pub fn into_series(self) -> Vec<Series> {
        self.series
    }

    /// Names of the columns, those to be forecast first.
    pub fn columns(&self) -> &[String] {
        self.series.first().map_or(&[], Series::columns)
    }

    /// Number of columns that are to be forecast.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Why each of the last columns is known in advance; none without [`Panel::with_covariates`].
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Rows of all series.
    pub fn rows(&self) -> usize {
        self.series.iter().map(Series::rows).sum()
    }

    /// Where the series come from, in short.
    pub fn source(&self) -> String {
        let first = self.series.first().map_or("", Series::source);
        match self.series.len() {
            1 => first.to_owned(),
            n => format!("{first} and {} more series", n - 1),
        }
    }

    /// What reading changed, in words: rows that were inserted, columns that were left out.
    pub fn notices(&self) -> &[String] {
        &self.found.notes
    }

    /// The same panel with one more thing that a person has to know.
    #[must_use]
    pub fn with_notice(mut self, notice: String) -> Self {
        self.found.notes.push(notice);
        self
    }

    /// What reading the files found.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The same panel with a seasonal period that is known.
    #[must_use]
    pub fn with_period(self, period: Option<usize>) -> Self {
        Self { period, ..self }
    }

    /// The usual step of the dates; `None` without dates, and where those of series differ.
    pub fn frequency(&self) -> Option<Frequency> {
        let mut all = self.series.iter().map(|s| s.dates().map(|dates| dates.spacing()));
        let first = all.next()??;
        let same =
            all.all(|other| other.is_some_and(|other| other.usual == first.usual && other.uneven.is_none()));
        (same && first.uneven.is_none()).then_some(first.usual)
    }

    /// How the dates of the series advance, in words, each once: `daily`, `weekly`, without the day on which. None where those
    /// of a series are uneven.
    pub fn frequencies(&self) -> Vec<String> {
        let spacings = self.series.iter().filter_map(|s| s.dates().map(Dates::spacing));
        let all: Vec<Spacing> = spacings.collect();
        if all.iter().any(|spacing| spacing.uneven.is_some()) {
            return Vec::new();
        }
        all.iter().filter_map(|s| s.usual.name()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Refuses series whose dates advance otherwise than these of a run; of several series, those long enough to tell.
    ///
    /// # Errors
    /// [`FormError::Frequency`].
    pub fn check_frequency(&self, expected: &[String]) -> Result<(), DataError> {
        /// Dates that tell business days from days.
        const TELLING: usize = 6;
        let few = |s: &Series| s.rows() < TELLING;
        let told = self.series.iter().filter(|s| self.series.len() == 1 || !few(s));
        for series in told.filter(|_| !expected.is_empty()) {
            let Some(dates) = series.dates() else { continue };
            let found = dates.spacing().usual;
            if found.contradicts(expected, few(series)) {
                let (file, found) = (series.source().to_owned(), found.to_string());
                return Err(FormError::Frequency { file, found, expected: expected.to_vec() }.into());
            }
        }
        Ok(())
    }

    /// The most frequent of the usual steps of its series; `None` without dates.
    pub fn usual_step(&self) -> Option<Frequency> {
        let mut counts: Vec<(Frequency, usize)> = Vec::new();
        for dates in self.series.iter().filter_map(Series::dates) {
            let usual = dates.spacing().usual;
            match counts.iter_mut().find(|(step, _)| *step == usual) {
                Some((_, rows)) => *rows += dates.values().len(),
                None => counts.push((usual, dates.values().len())),
            }
        }
        let known = counts.into_iter().filter(|(step, _)| *step != Frequency::Unknown);
        known.max_by_key(|(_, rows)| *rows).map(|(step, _)| step)
    }

    /// The seasonal period: that of [`Panel::with_period`], else what dates and data say.
    pub fn season(&self) -> Season {
        match self.period {
            Some(period) => Season { period, why: "from the settings".to_owned() },
            None => Season::find(self.frequency(), &self.series),
        }
    }

    /// What was read, and what was changed on the way.
    ///
    /// ```
    /// use landfall_data::{Panel, synthetic};
    /// let summary = Panel::from(synthetic::demo(200, 2, 1)?).summary();
    /// assert_eq!((summary.rows, summary.season.period), (200, 24));
    /// println!("{}", summary.lines().join("\n"));
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    pub fn summary(&self) -> Summary {
        let dates = || self.series.iter().filter_map(Series::dates);
        let at = |dates: &Dates, date: Option<&chrono::NaiveDateTime>| date.map(|d| (*d, dates.format(*d)));
        let first = dates().filter_map(|d| at(d, d.values().first())).min();
        let last = dates().filter_map(|d| at(d, d.values().last())).max();
        let frequency = self.frequency();
        let mut notes = self.found.notes.clone();
        notes.extend(self.irregularities());
        Summary {
            source: if self.files.is_empty() { self.source() } else { list(&self.files) },
            rows: self.rows(),
            series: self.series.len(),
            series_columns: self.found.series_id.clone(),
            columns: self.columns().to_vec(),
            targets: self.targets,
            date_columns: self.found.date_column.clone(),
            date_format: self.found.date_format.clone(),
            frequency: frequency.map(|f| f.to_string()),
            first: first.map(|(_, text)| text),
            last: last.map(|(_, text)| text),
            season: self.season(),
            covariates: covariates_in_words(self),
            notes,
        }
    }

    /// Where dates are not evenly spaced, in words: of several series the first one.
    fn irregularities(&self) -> Option<String> {
        let uneven = |s: &'_ Series| Some((s.name().to_owned(), s.dates()?.spacing().irregularity()?));
        let all: Vec<(String, String)> = self.series.iter().filter_map(uneven).collect();
        let (name, what) = all.first()?;
        let of = match self.series.len() {
            1 => String::new(),
            n => format!("{} of {n} series have uneven dates; `{name}`: ", all.len()),
        };
        Some(format!("{of}{what}; windows count rows as if none were missing"))
    }
}

impl From<Series> for Panel {
    fn from(series: Series) -> Self {
        Self {
            targets: series.channels(),
            known: Vec::new(),
            scales: Vec::new(),
            series: vec![series],
            chosen: false,
            files: Vec::new(),
            found: Found::default(),
            period: None,
            places: Places::default(),
        }
    }
}

/// What the columns are, for a person.
fn covariates_in_words(panel: &Panel) -> Option<String> {
    let known = panel.known();
    let first = panel.columns().len() - known.len();
    let named = |fixed: bool| -> Vec<String> {
        let columns = panel.columns().iter().skip(first).zip(known);
        columns.filter(|(_, why)| (**why == Known::Fixed) == fixed).map(|(name, _)| name.clone()).collect()
    };
    let of = |noun: &str, what: &str, names: Vec<String>| match names.len() {
        0 => None,
        n => Some(format!("{}{what} ({})", count(n, noun), list(&names))),
    };
    let past = format!("{} known up to the last row", count(first - panel.targets(), "column"));
    let parts =
        [of("column", " known in advance", named(false)), of("static column", "", named(true)), Some(past)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| format!("covariates: {}", parts.join(", ")))
}
