//! From a file to series: text or typed cells, columns, dates and numbers, and the series that they are.

pub(crate) mod arrow;
pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod dates;
pub(crate) mod frame;
pub(crate) mod limit;
pub(crate) mod long;
pub(crate) mod number_form;
pub(crate) mod options;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod sheet;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod text_column;
pub(crate) mod typed;

use crate::error::DataError;
use crate::error::form::FormError;
use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::files;
use crate::read::frame::Frame;
use crate::read::options::ReadOptions;
use crate::read::sheet::Sheet;
use crate::read::table::assemble;
use crate::series::Series;
use crate::series::found::Found;
use crate::series::panel::Panel;
use std::io::ErrorKind;
use std::path::Path;

/// Reads the one series of the file at `path`.
///
/// ```
/// use landfall_data::{ReadOptions, read};
/// # let path = std::env::temp_dir().join(format!("landfall-read-{}.csv", std::process::id()));
/// # std::fs::write(&path, "date;load\n2024-01-01 00:00;1,5\n2024-01-01 01:00;2,5\n2024-01-01 02:00;3,5\n").ok();
/// let series = read(&path, &ReadOptions::default())?; // finds separator, dates and decimal commas
/// assert_eq!(series.values()[0], [1.5, 2.5, 3.5]);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), landfall_data::DataError>(())
/// ```
///
/// # Errors
/// As [`Panel::read`]; [`SeriesError::ManySeries`].
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Series, DataError> {
    let path = path.as_ref();
    only(Panel::read(&[path], options)?.series, &path.display().to_string())
}

/// Reads the text of a file that holds one series; `file` names it in messages and becomes the series' source.
///
/// ```
/// use landfall_data::{ReadOptions, parse};
/// let text = "date,load,price\n2024-01-01,1.5,30\n2024-01-02,2.5,31\n2024-01-03,2.0,32\n";
/// let series = parse(text.as_bytes(), "load.csv", &ReadOptions::default())?;
/// assert_eq!(series.columns(), ["load", "price"]);
/// assert_eq!(series.values()[0], [1.5, 2.5, 2.0]);
/// assert!(series.dates().is_some());
/// # Ok::<(), landfall_data::DataError>(())
/// ```
///
/// # Errors
/// Whatever keeps the text from being one series, with the line and the column where there is one.
pub fn parse(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Series, DataError> {
    only(assemble(csv::sheet(bytes, file, options)?, options)?.0, file)
}

/// The only one of these series.
pub(crate) fn only(mut series: Vec<Series>, file: &str) -> Result<Series, DataError> {
    match (series.pop(), series.len()) {
        (Some(one), 0) => Ok(one),
        (_, more) => {
            Err(DataError::Series(SeriesError::ManySeries { file: file.to_owned(), count: more + 1 }))
        }
    }
}

impl Panel {
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
        let mut panel = Self::new(series)?;
        (panel.found, panel.files) = (all.unwrap_or_default(), files);
        if options.columns.is_none() {
            panel.leave_out_constants(&[options.categorical.as_slice(), &options.fixed].concat())?;
        }
        Ok(panel)
    }

    /// Reads all series of the text of a delimited file; `source` names it in messages.
    ///
    /// ```
    /// use landfall_data::{Panel, ReadOptions};
    /// let panel = Panel::parse(b"day,load\n2024-01-01,1\n2024-01-02,2\n2024-01-03,4\n", "request", &ReadOptions::default())?;
    /// assert_eq!(panel.series()[0].values(), [[1.0, 2.0, 4.0]]);
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Panel::read`].
    pub fn parse(text: &[u8], source: &str, options: &ReadOptions) -> Result<Self, DataError> {
        Self::of(csv::sheet(text, source, options)?, options)
    }

    /// The series of a table.
    pub(crate) fn of(sheet: Sheet, options: &ReadOptions) -> Result<Self, DataError> {
        let (series, found) = assemble(sheet, options)?;
        let mut panel = Self::new(series)?;
        panel.found = found;
        Ok(panel)
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
    if ends("arrow") {
        return assemble(Frame::read(path)?.sheet(&file), options);
    }
    if ends("parquet") {
        let opened = files::open(path).map_err(|reason| unread(path, reason))?;
        return read_parquet(opened, &file, options);
    }
    // The bytes are given up before the table is read: they may be most of the memory that it takes.
    let sheet = csv::sheet(&file_bytes(path)?, &file, options)?;
    assemble(sheet, options)
}

/// A whole file.
pub(crate) fn file_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    files::read(path).map_err(|reason| unread(path, reason))
}

fn unread(path: &Path, reason: std::io::Error) -> DataError {
    let file = path.display().to_string();
    if reason.kind() == ErrorKind::NotFound {
        DataError::Read(ReadError::FileMissing { file })
    } else {
        DataError::Read(ReadError::Unreadable { file, reason })
    }
}

#[cfg(feature = "parquet")]
use crate::read::parquet::parse_all as read_parquet;

#[cfg(not(feature = "parquet"))]
fn read_parquet(_: std::fs::File, file: &str, _: &ReadOptions) -> Result<Read, DataError> {
    Err(DataError::Read(ReadError::NoParquet { file: file.to_owned() }))
}
