//! Several series with the same columns: what files hold.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

use super::covariates::{self, Known, Scale, indicator};
use super::message::{count, list};
use super::names::Places;
use super::sheet::Sheet;
use super::table::assemble;
use super::{
    DataError, Dates, FormError, Frame, Frequency, ReadOptions, Season, Series, Spacing, Summary, csv,
};
use crate::files;

/// Series with the same columns, of which the first ones are to be forecast.
///
/// ```
/// use landfall_train::data::{Panel, Series};
/// let series = |name: &str, values: Vec<f64>| {
///     Series::new(name, vec!["sales".to_owned(), "price".to_owned()], vec![values.clone(), values], None)
/// };
/// let shops = vec![series("north", vec![1.0, 2.0, 3.0])?, series("south", vec![4.0, 5.0])?];
/// let panel = Panel::new(shops)?.with_targets(&["sales".to_owned()])?; // price is an input only
/// assert_eq!((panel.rows(), panel.targets()), (5, 1));
/// # Ok::<(), landfall_train::data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    pub(super) series: Vec<Series>,
    pub(super) targets: usize,
    /// Why each of the last columns is known in advance.
    pub(super) known: Vec<Known>,
    /// How each column is scaled; by its series where there are no covariates.
    pub(super) scales: Vec<Scale>,
    /// Whether the columns to be forecast were chosen.
    pub(super) chosen: bool,
    pub(super) files: Vec<String>,
    found: Found,
    period: Option<usize>,
    places: Places,
}

/// What reading a file found in it. The same as [`ReadOptions`] reads the file, or a longer one, alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What separates the fields of a row, in a text file.
    pub separator: Option<char>,
    /// The decimal mark of the numbers, where they have one or groups of thousands.
    pub decimal: Option<char>,
    /// What groups their thousands.
    pub thousands: Option<char>,
    /// Whether the separator of the fields decided on the decimal mark.
    pub(super) guessed: bool,
    /// The columns that hold the date.
    pub date_column: Vec<String>,
    /// How dates are written, in the notation of `strftime`.
    pub date_format: Option<String>,
    /// The columns that name the series.
    pub series_id: Vec<String>,
    /// What was filled, changed or left out, a sentence each.
    pub notes: Vec<String>,
}

impl Found {
    /// What two files have in common; the notes of both.
    fn join(&mut self, mut other: Self) {
        self.notes.append(&mut other.notes);
        self.separator = self.separator.filter(|_| self.separator == other.separator);
        self.decimal = self.decimal.or(other.decimal);
        self.thousands = self.thousands.or(other.thousands);
        if self.date_column != other.date_column || self.date_format != other.date_format {
            self.date_column.clear();
            self.date_format = None;
        }
        if self.series_id != other.series_id {
            self.series_id.clear();
        }
    }
}

/// Reads the one series of the file at `path`.
///
/// ```
/// use landfall_train::data::{ReadOptions, read};
/// # let path = std::env::temp_dir().join(format!("landfall-read-{}.csv", std::process::id()));
/// # std::fs::write(&path, "date;load\n2024-01-01 00:00;1,5\n2024-01-01 01:00;2,5\n2024-01-01 02:00;3,5\n").ok();
/// let series = read(&path, &ReadOptions::default())?; // finds separator, dates and decimal commas
/// assert_eq!(series.values()[0], [1.5, 2.5, 3.5]);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), landfall_train::data::DataError>(())
/// ```
///
/// # Errors
/// As [`Panel::read`]; [`DataError::ManySeries`].
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Series, DataError> {
    let path = path.as_ref();
    only(Panel::read(&[path], options)?.series, &path.display().to_string())
}

/// The only one of these series.
pub(super) fn only(mut series: Vec<Series>, file: &str) -> Result<Series, DataError> {
    match (series.pop(), series.len()) {
        (Some(one), 0) => Ok(one),
        (_, more) => Err(DataError::ManySeries { file: file.to_owned(), count: more + 1 }),
    }
}

impl Panel {
    /// These series; all columns are to be forecast. A series with the columns in another order than the first is
    /// put into that order.
    ///
    /// # Errors
    /// [`DataError::NoFile`] for no series, [`DataError::DuplicateSeries`], [`DataError::OtherColumns`].
    pub fn new(series: Vec<Series>) -> Result<Self, DataError> {
        let Some(first) = series.first() else { return Err(DataError::NoFile) };
        let (columns, other) = (first.columns().to_vec(), first.source().to_owned());
        let mut sources: HashMap<&str, &str> = HashMap::new();
        for s in &series {
            if let Some(before) = sources.insert(s.name(), s.source()) {
                let (file, other, name) = (before.to_owned(), s.source().to_owned(), s.name().to_owned());
                return Err(DataError::DuplicateSeries { file, other, name });
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
                return Err(DataError::OtherColumns { file, has, column, other });
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

    /// Reads all series of these files. A series is named by the file it fills, without folder and ending, or by the
    /// columns that [`ReadOptions::series_id`] names, or that tell rows of one date apart.
    ///
    /// # Errors
    /// Whatever keeps a file from being series, with the line and the column where there is one; as [`Panel::new`].
    pub fn read(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Self, DataError> {
        let (mut series, mut all): (Vec<Series>, Option<Found>) = (Vec::new(), None);
        for (path, (mut read, mut found)) in paths.iter().zip(read_files(paths, options)?) {
            let path = path.as_ref();
            if found.series_id.is_empty() {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                let named = |s: Series| match &stem {
                    Some(stem) => s.named(stem.clone()),
                    None => s,
                };
                read = read.into_iter().map(named).collect();
            }
            if paths.len() > 1 {
                found.notes = found.notes.iter().map(|note| format!("{}: {note}", path.display())).collect();
            }
            series.append(&mut read);
            match &mut all {
                Some(all) => all.join(found),
                None => all = Some(found),
            }
        }
        let files = paths.iter().map(|path| path.as_ref().display().to_string()).collect();
        let mut panel = Self { found: all.unwrap_or_default(), files, ..Self::new(series)? };
        if options.columns.is_none() {
            panel.leave_out_constants(&[options.categorical.as_slice(), &options.fixed].concat())?;
        }
        Ok(panel)
    }

    /// Reads all series of the text of a delimited file; `source` names it in messages.
    ///
    /// ```
    /// use landfall_train::data::{Panel, ReadOptions};
    /// let panel = Panel::parse(b"day,load\n2024-01-01,1\n2024-01-02,2\n2024-01-03,4\n", "request", &ReadOptions::default())?;
    /// assert_eq!(panel.series()[0].values(), [[1.0, 2.0, 4.0]]);
    /// # Ok::<(), landfall_train::data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Panel::read`].
    pub fn parse(text: &[u8], source: &str, options: &ReadOptions) -> Result<Self, DataError> {
        Self::of(csv::sheet(text, source, options)?, options)
    }

    /// The series of a table.
    pub(super) fn of(sheet: Sheet, options: &ReadOptions) -> Result<Self, DataError> {
        let (series, found) = assemble(sheet, options)?;
        Ok(Self { found, ..Self::new(series)? })
    }

    /// Leaves out columns of one value in each series, if others remain and there are rows enough to say so; but for those
    /// that may be so.
    pub(super) fn leave_out_constants(&mut self, may: &[String]) -> Result<(), DataError> {
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
    /// [`DataError::UnknownColumn`], [`DataError::RequestedTwice`], [`DataError::NoTarget`] for no column.
    pub fn with_targets(self, targets: &[String]) -> Result<Self, DataError> {
        if targets.is_empty() {
            return Err(DataError::NoTarget);
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
    /// [`DataError::UnknownColumn`], [`DataError::RequestedTwice`], [`DataError::NoNumericColumn`] for none.
    pub fn with_columns(self, columns: &[String]) -> Result<Self, DataError> {
        let series = self.series.into_iter().map(|s| s.with_columns(columns)).collect::<Result<_, _>>()?;
        Ok(Self { series, targets: columns.len(), ..self })
    }

    /// As many rows of each series, from its first on, as `rows` says, as they were known then ([`Series::known_at`]);
    /// series of which it takes none are left out.
    ///
    /// # Errors
    /// As [`Series::known_at`]; [`DataError::NoFile`] when no series remains.
    pub fn known_at(&self, rows: impl Fn(&Series) -> usize) -> Result<Self, DataError> {
        let some = self.series.iter().map(|s| (s, rows(s))).filter(|(_, rows)| *rows > 0);
        let series = some.map(|(s, rows)| s.known_at(rows)).collect::<Result<Vec<_>, _>>()?;
        if series.is_empty() {
            return Err(DataError::NoFile);
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
    pub(crate) fn usual_step(&self) -> Option<Frequency> {
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
    /// use landfall_train::data::{Panel, synthetic};
    /// let summary = Panel::from(synthetic::demo(200, 2, 1)?).summary();
    /// assert_eq!((summary.rows, summary.season.period), (200, 24));
    /// println!("{}", summary.lines().join("\n"));
    /// # Ok::<(), landfall_train::data::DataError>(())
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
            covariates: covariates::described(self),
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

/// Series, and what was found.
type Read = (Vec<Series>, Found);

/// Reads files whose numbers have one decimal mark: where one file says which, the others do not guess.
fn read_files(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Vec<Read>, DataError> {
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        all.push(read_file(path.as_ref(), options)?);
    }
    let says = |(at, (_, found)): (usize, &Read)| Some((at, found.decimal.filter(|_| !found.guessed)?));
    let Some((first, decimal)) = all.iter().enumerate().find_map(says) else { return Ok(all) };
    for (path, read) in paths.iter().zip(&mut all) {
        let file = || path.as_ref().display().to_string();
        match read.1.decimal {
            Some(own) if own != decimal && read.1.guessed => {
                *read = read_file(path.as_ref(), &ReadOptions { decimal: Some(decimal), ..options.clone() })?;
            }
            Some(own) if own != decimal => {
                let other = paths.get(first).map_or_else(String::new, |p| p.as_ref().display().to_string());
                let mark = if own == ',' { "comma" } else { "point" };
                return Err(FormError::OtherMark { file: file(), mark, other }.into());
            }
            Some(_) | None => {}
        }
    }
    Ok(all)
}

fn read_file(path: &Path, options: &ReadOptions) -> Result<Read, DataError> {
    let file = path.display().to_string();
    let ends = |with: &str| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(with));
    if ends("parquet") || ends("arrow") {
        let opened = files::open(path).map_err(|reason| unread(path, reason))?;
        if ends("parquet") {
            return read_parquet(opened, &file, options);
        }
        return assemble(Frame::of_file(opened, &file)?.sheet(&file), options);
    }
    // The bytes are given up before the table is read: they may be most of the memory that it takes.
    let sheet = csv::sheet(&file_bytes(path)?, &file, options)?;
    assemble(sheet, options)
}

/// A whole file.
pub(super) fn file_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    files::read(path).map_err(|reason| unread(path, reason))
}

pub(super) fn unread(path: &Path, reason: std::io::Error) -> DataError {
    let file = path.display().to_string();
    if reason.kind() == ErrorKind::NotFound {
        DataError::FileMissing { file }
    } else {
        DataError::Unreadable { file, reason }
    }
}

#[cfg(feature = "parquet")]
use super::parquet::parse_all as read_parquet;

#[cfg(not(feature = "parquet"))]
fn read_parquet(_: std::fs::File, file: &str, _: &ReadOptions) -> Result<Read, DataError> {
    Err(DataError::NoParquet { file: file.to_owned() })
}
