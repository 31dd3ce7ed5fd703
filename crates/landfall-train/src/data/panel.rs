//! Several series with the same columns: what files hold.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use super::season::Season;
use super::table::{Found, Read};
use super::{DataError, ReadOptions, Series, csv};

/// Series with the same columns, of which the first ones are to be forecast.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    series: Vec<Series>,
    targets: usize,
    found: Found,
    notices: Vec<String>,
}

/// Reads the one series of the file at `path`.
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
        let same = |s: Series| {
            let absent = columns.iter().find(|c| s.column_index(c).is_none()).map(|c| ("no", c));
            let added = s.columns().iter().find(|c| !columns.contains(c)).map(|c| ("it has a", c));
            if let Some((has, column)) = absent.or(added) {
                let (file, column, other) = (s.source().to_owned(), column.clone(), other.clone());
                return Err(DataError::OtherColumns { file, has, column, other });
            }
            if s.columns() == columns { Ok(s) } else { s.with_columns(&columns) }
        };
        let series = series.into_iter().map(same).collect::<Result<_, _>>()?;
        Ok(Self { series, targets: columns.len(), found: Found::default(), notices: Vec::new() })
    }

    /// Reads all series of these files. A series is named by the file it fills, without folder and ending, or by the
    /// column that [`ReadOptions::series_id`] names.
    ///
    /// # Errors
    /// Whatever keeps a file from being series, with the line and the column where there is one; as [`Panel::new`].
    pub fn read(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Self, DataError> {
        let (mut series, mut notices, mut found) = (Vec::new(), Vec::new(), Found::default());
        for path in paths {
            let path = path.as_ref();
            let Read { series: mut own, found: of_file, notes } = read_file(path, options)?;
            if of_file.series_id.is_none() {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                let named = |s: Series| match &stem {
                    Some(stem) => s.named(stem.clone()),
                    None => s,
                };
                own = own.into_iter().map(named).collect();
            }
            series.append(&mut own);
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            notices.extend(
                notes.into_iter().map(|note| if paths.len() > 1 { format!("{file}: {note}") } else { note }),
            );
            found = of_file;
        }
        Ok(Self { notices, found, ..Self::new(series)? })
    }

    /// The same series with these columns first, which alone are to be forecast; the others follow in their order.
    ///
    /// # Errors
    /// [`DataError::UnknownColumn`], [`DataError::RequestedTwice`], [`DataError::NoTarget`] for no column.
    pub fn with_targets(self, targets: &[String]) -> Result<Self, DataError> {
        if targets.is_empty() {
            return Err(DataError::NoTarget);
        }
        let others = self.columns().iter().filter(|c| !targets.contains(c));
        let columns: Vec<String> = targets.iter().chain(others).cloned().collect();
        let series = self.series.into_iter().map(|s| s.with_columns(&columns)).collect::<Result<_, _>>()?;
        Ok(Self { series, targets: targets.len(), found: self.found, notices: self.notices })
    }

    /// The series, at least one.
    pub fn series(&self) -> &[Series] {
        &self.series
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

    /// What was found in its files.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The seasonal period of its series, from their dates or their values.
    #[must_use]
    pub fn season(&self) -> Season {
        Season::of(self)
    }

    /// What a person has to know of the data, a line each: rows, series and columns, dates and their frequency, then what
    /// was filled, changed or left out.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let (targets, others) = self.columns().split_at(self.targets.min(self.columns().len()));
        let mut first = match self.series.as_slice() {
            [one] => format!("{}: {} rows", one.source(), one.rows()),
            all => {
                let names: Vec<String> = all.iter().map(|s| s.name().to_owned()).collect();
                let rows = all.iter().map(Series::rows);
                let (least, most) = (rows.clone().min().unwrap_or(0), rows.max().unwrap_or(0));
                let rows = if least == most {
                    format!("{most} rows each")
                } else {
                    format!("{least} to {most} rows")
                };
                format!("{} series ({}), {rows}", all.len(), super::error::list(&names))
            }
        };
        first += &format!(", columns {}", super::error::list(targets));
        if !others.is_empty() {
            first += &format!("; inputs only: {}", super::error::list(others));
        }
        let mut lines = vec![first];
        let longest = self.series.iter().max_by_key(|s| s.rows());
        if let Some(dates) = longest.and_then(Series::dates)
            && let (Some(from), Some(to)) = (dates.values().first(), dates.values().last())
        {
            let spacing = dates.spacing();
            let even = match spacing.uneven {
                Some(_) => ", unevenly spaced (rows are counted, not time)".to_owned(),
                None => String::new(),
            };
            lines.push(format!(
                "dates in column `{}`: {}{even}, {} to {}",
                dates.column(),
                spacing.usual,
                dates.format(*from),
                dates.format(*to)
            ));
        }
        lines.extend(self.notices.iter().cloned());
        lines
    }

    /// What reading changed, in words: rows that were inserted, columns that were continued.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Where dates are not evenly spaced, in words, a line for each series.
    pub fn irregularities(&self) -> Vec<String> {
        let dated = self.series.iter().filter_map(|s| Some((s, s.dates()?.spacing().irregularity()?)));
        dated.map(|(s, what)| format!("{}: {what}", s.source())).collect()
    }
}

impl From<Series> for Panel {
    fn from(series: Series) -> Self {
        let (targets, series) = (series.channels(), vec![series]);
        Self { targets, series, found: Found::default(), notices: Vec::new() }
    }
}

fn read_file(path: &Path, options: &ReadOptions) -> Result<Read, DataError> {
    let file = path.display().to_string();
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
        let opened = std::fs::File::open(path).map_err(|reason| unread(path, reason))?;
        return read_parquet(opened, &file, options);
    }
    csv::parse_all(&file_bytes(path)?, &file, options)
}

/// A whole file.
pub(super) fn file_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    std::fs::read(path).map_err(|reason| unread(path, reason))
}

fn unread(path: &Path, reason: std::io::Error) -> DataError {
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
