//! Reads a series from a delimited text file.
//!
//! One header line, then one row per time step, oldest first. The separator (`,`, `;` or tab) is the
//! most frequent of them in the header line. With `;` a number may have a decimal comma. The first
//! column is the date column when its name is one that dates go by, or when its first cell is a date.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use ::csv::{ReaderBuilder, StringRecord};
use chrono::NaiveDateTime;

use super::dates::{DateParser, Dates, ascending};
use super::error::{DataError, Place};
use super::series::{Series, first_duplicate};

/// Names that make the first column the date column whatever its cells hold.
const DATE_NAMES: [&str; 5] = ["date", "timestamp", "time", "datetime", "ds"];

/// Cells that stand for a missing value, compared without regard to case; an empty cell is one too.
const MISSING: [&str; 5] = ["", "na", "nan", "null", "-"];

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
            _ => Err(DataError::UnknownFill { text: text.to_owned() }),
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

/// What to read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The columns to read, in this order; all of them when `None`. Cells of the others are not looked at.
    pub columns: Option<Vec<String>>,
    /// What to put in place of missing values; `None` refuses them.
    pub fill: Option<Fill>,
}

/// Reads the file at `path`.
///
/// # Errors
/// Whatever keeps the file from being a series, with the line and the column where there is one.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Series, DataError> {
    let file = path.as_ref().display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => parse(&bytes, &file, options),
        Err(reason) if reason.kind() == ErrorKind::NotFound => Err(DataError::FileMissing { file }),
        Err(reason) => Err(DataError::Unreadable { file, reason }),
    }
}

/// Reads the text of a file; `file` names it in messages and becomes the series' source.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Series, DataError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Err(error) = std::str::from_utf8(bytes) {
        let line = 1 + count_newlines(bytes.get(..error.valid_up_to()).unwrap_or(bytes));
        return Err(DataError::NotUtf8 { at: Place { file: file.to_owned(), line } });
    }
    let mut rows = Rows::new(bytes, file);
    let header = match rows.next() {
        None => return Err(DataError::Empty { file: file.to_owned() }),
        Some(header) => header?.cells,
    };
    let names: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
    if is_data(&names, rows.decimal_comma) {
        return Err(DataError::NoHeader { file: file.to_owned() });
    }
    let first = match rows.next() {
        None => return Err(DataError::HeaderOnly { file: file.to_owned() }),
        Some(row) => row?,
    };
    let mut table = Table::new(&names, &first.cells, &rows, options)?;
    table.push(&first)?;
    for row in rows {
        table.push(&row?)?;
    }
    table.finish()
}

/// A row and the line it stands on.
struct Row {
    line: usize,
    cells: StringRecord,
}

/// The rows of a file that are not blank.
struct Rows<'a> {
    file: &'a str,
    bytes: &'a [u8],
    reader: ::csv::Reader<&'a [u8]>,
    decimal_comma: bool,
    /// Bytes whose newlines are counted in `line`. The reader's own line numbers are off after blank
    /// lines and carriage returns, so they are counted here.
    counted: usize,
    line: usize,
}

impl<'a> Rows<'a> {
    fn new(bytes: &'a [u8], file: &'a str) -> Self {
        let separator = separator(bytes);
        let reader =
            ReaderBuilder::new().delimiter(separator).has_headers(false).flexible(true).from_reader(bytes);
        Self { file, bytes, reader, decimal_comma: separator == b';', counted: 0, line: 1 }
    }

    fn place(&self) -> Place {
        Place { file: self.file.to_owned(), line: self.line }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut cells = StringRecord::new();
        loop {
            match self.reader.read_record(&mut cells) {
                Ok(false) => return None,
                Ok(true) => {}
                Err(reason) => return Some(Err(DataError::Malformed { at: self.place(), reason })),
            }
            let begin = cells.position().and_then(|p| usize::try_from(p.byte()).ok()).unwrap_or(self.counted);
            let blank = self.bytes.iter().skip(begin).take_while(|b| matches!(b, b'\r' | b'\n')).count();
            let start = begin + blank;
            self.line += count_newlines(self.bytes.get(self.counted..start).unwrap_or_default());
            self.counted = start;
            // A line of spaces is as blank as an empty one.
            if cells.len() > 1 || cells.iter().any(|cell| !cell.trim().is_empty()) {
                return Some(Ok(Row { line: self.line, cells }));
            }
        }
    }
}

/// The columns read so far.
struct Table<'a> {
    file: &'a str,
    decimal_comma: bool,
    fields: usize,
    date: Option<DateColumn>,
    fill: Option<Fill>,
    columns: Vec<Column>,
}

struct DateColumn {
    name: String,
    parser: DateParser,
    values: Vec<NaiveDateTime>,
}

struct Column {
    name: String,
    field: usize,
    /// NaN where a value is missing and to be filled.
    values: Vec<f64>,
    /// Line of the first missing value.
    missing: Option<usize>,
}

impl<'a> Table<'a> {
    fn new(
        names: &[String],
        first: &StringRecord,
        rows: &Rows<'a>,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        let file = || rows.file.to_owned();
        check_fields(names.len(), first.len(), || rows.place())?;
        let cell = |field: usize| first.get(field).unwrap_or_default().trim();
        let date_name = date_name(names.first().map_or("", String::as_str), cell(0), rows.decimal_comma);
        let offset = usize::from(date_name.is_some());
        let known = names.get(offset..).unwrap_or_default();
        if let Some(position) = known.iter().position(String::is_empty) {
            return Err(DataError::UnnamedColumn { file: file(), position: position + offset + 1 });
        }
        if let Some(name) = first_duplicate(names) {
            return Err(DataError::DuplicateColumn { file: file(), name: name.to_owned() });
        }
        let usable = |field| !matches!(number(cell(field), rows.decimal_comma), Number::Text);
        if !(offset..names.len()).any(usable) {
            return Err(DataError::NoNumericColumn { file: file() });
        }
        let requested = options.columns.as_deref().unwrap_or(known);
        if let Some(name) = first_duplicate(requested) {
            return Err(DataError::RequestedTwice { file: file(), name: name.to_owned() });
        }
        let column = |name: &String| match known.iter().position(|k| k == name) {
            Some(at) => {
                Ok(Column { name: name.clone(), field: at + offset, values: Vec::new(), missing: None })
            }
            None => Err(DataError::UnknownColumn { file: file(), name: name.clone(), known: known.to_vec() }),
        };
        let columns = requested.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let date = date_name.map(|name| {
            let parser = DateParser::new(&name);
            DateColumn { name, parser, values: Vec::new() }
        });
        let (fields, decimal_comma, fill) = (names.len(), rows.decimal_comma, options.fill);
        Ok(Self { file: rows.file, decimal_comma, fields, date, fill, columns })
    }

    fn push(&mut self, row: &Row) -> Result<(), DataError> {
        let at = || Place { file: self.file.to_owned(), line: row.line };
        check_fields(self.fields, row.cells.len(), at)?;
        if let Some(date) = &mut self.date {
            date.push(row.cells.get(0).unwrap_or_default().trim(), at)?;
        }
        for column in &mut self.columns {
            let text = row.cells.get(column.field).unwrap_or_default().trim();
            let (name, quoted) = (|| column.name.clone(), || text.to_owned());
            let value = match number(text, self.decimal_comma) {
                Number::Finite(value) => value,
                Number::Missing if self.fill.is_some() => {
                    column.missing = column.missing.or(Some(row.line));
                    f64::NAN
                }
                Number::Missing => {
                    return Err(DataError::MissingValue { at: at(), column: name(), text: quoted() });
                }
                Number::Infinite => {
                    return Err(DataError::Infinite { at: at(), column: name(), text: quoted() });
                }
                Number::Text => {
                    return Err(DataError::NotANumber { at: at(), column: name(), text: quoted() });
                }
            };
            column.values.push(value);
        }
        Ok(())
    }

    fn finish(self) -> Result<Series, DataError> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for mut column in self.columns {
            if let (Some(fill), Some(line)) = (self.fill, column.missing) {
                fill_missing(&mut column, fill, Place { file: self.file.to_owned(), line })?;
            }
            names.push(column.name);
            values.push(column.values);
        }
        let dates = self.date.and_then(|date| {
            date.parser.form().map(|form| Dates::from_ascending(date.name, form, date.values))
        });
        Series::new(self.file, names, values, dates)
    }
}

impl DateColumn {
    fn push(&mut self, text: &str, at: impl Fn() -> Place) -> Result<(), DataError> {
        let Some(date) = self.parser.parse(text) else {
            return Err(DataError::BadDate { at: at(), column: self.name.clone(), text: text.to_owned() });
        };
        if let Some(&previous) = self.values.last() {
            ascending(previous, date, at)?;
        }
        self.values.push(date);
        Ok(())
    }
}

fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found { Ok(()) } else { Err(DataError::Ragged { at: at(), found, expected }) }
}

/// The name of the date column if the first column is one; `date` where the header leaves it empty.
fn date_name(name: &str, first_cell: &str, decimal_comma: bool) -> Option<String> {
    let known = DATE_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    let text = matches!(number(first_cell, decimal_comma), Number::Text);
    let date = text && DateParser::new(name).parse(first_cell).is_some();
    (known || date).then(|| if name.is_empty() { "date".to_owned() } else { name.to_owned() })
}

/// Whether a header line is a row of data: it starts with a date, or holds numbers only and not all of
/// them counters, which some exporters write for names.
fn is_data(names: &[String], decimal_comma: bool) -> bool {
    let numeric = |name: &String| matches!(number(name, decimal_comma), Number::Finite(_));
    let counter = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let dated = names.first().is_some_and(|name| DateParser::new("date").parse(name).is_some());
    dated || (names.iter().all(numeric) && !names.iter().all(counter))
}

/// What a cell holds.
enum Number {
    Finite(f64),
    Missing,
    Infinite,
    Text,
}

fn number(text: &str, decimal_comma: bool) -> Number {
    if MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing)) {
        return Number::Missing;
    }
    let parsed = match text.split_once(',') {
        // A point beside the comma becomes the second one and fails: which of them groups thousands
        // differs by country.
        Some((whole, decimals)) if decimal_comma => format!("{whole}.{decimals}").parse::<f64>(),
        Some(_) | None => text.parse::<f64>(),
    };
    match parsed {
        Ok(value) if value.is_finite() => Number::Finite(value),
        Ok(value) if value.is_nan() => Number::Missing,
        Ok(_) => Number::Infinite,
        Err(_) => Number::Text,
    }
}

/// Replaces the NaNs of a column; `first` is the line of the first of them.
fn fill_missing(column: &mut Column, fill: Fill, first: Place) -> Result<(), DataError> {
    let known: Vec<(usize, f64)> =
        column.values.iter().copied().enumerate().filter(|(_, v)| !v.is_nan()).collect();
    if fill == Fill::Zero {
        column.values.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = 0.0);
        return Ok(());
    }
    let (Some(&(start, _)), Some(&(end, last))) = (known.first(), known.last()) else {
        return Err(DataError::ColumnMissing { file: first.file, column: column.name.clone() });
    };
    if fill == Fill::Previous && start > 0 {
        return Err(DataError::NoPreviousValue { at: first, column: column.name.clone() });
    }
    // What the linear fill of the rows before the first value repeats.
    let mut previous = known.first().copied().unwrap_or((start, last));
    let mut next = known.into_iter().peekable();
    for (row, value) in column.values.iter_mut().enumerate() {
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

/// The most frequent of the separators in the header line, outside quotes.
fn separator(bytes: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0_usize), (b'\t', 0), (b';', 0)];
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let header = bytes.iter().skip(start).take_while(|b| !matches!(b, b'\r' | b'\n'));
    for &byte in header {
        quoted ^= byte == b'"';
        for (separator, count) in &mut counts {
            *count += usize::from(!quoted && *separator == byte);
        }
    }
    // Of equally frequent ones the later in the list: a comma is the likeliest part of a name.
    match counts.iter().max_by_key(|(_, count)| *count) {
        Some(&(separator, count)) if count > 0 => separator,
        Some(_) | None => b',',
    }
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, fill: Option<Fill>) -> Vec<Vec<f64>> {
        let options = ReadOptions { columns: None, fill };
        parse(text.as_bytes(), "f", &options).expect(text).values().to_vec()
    }

    #[test]
    fn a_separator_is_found_in_the_header() {
        for text in ["a,b\n1,2.5\n", "a;b\n1;2,5\n", "a;b\n1;2.5\n", "a\tb\n1\t2.5\n", "\"a;x;y\",b\n1,2.5"] {
            assert_eq!(values(text, None), [[1.0], [2.5]], "{text:?}");
        }
        assert_eq!(values("temp, C;b\n1,5;2", None), [[1.5], [2.0]]);
        assert_eq!(values("a\n1.5\n", None), [[1.5]]);
        assert_eq!(values("\u{feff}\r\na;b\r\n1,5;2\r\n", None), [[1.5], [2.0]]);
    }

    #[test]
    fn missing_values_are_filled() {
        let text = "a,b\n1,\n-,3\nNaN,NULL\n4,na\n";
        assert_eq!(values(text, Some(Fill::Zero)), [[1.0, 0.0, 0.0, 4.0], [0.0, 3.0, 0.0, 0.0]]);
        assert_eq!(values(text, Some(Fill::Linear)), [[1.0, 2.0, 3.0, 4.0], [3.0; 4]]);
        assert_eq!(values("a\n1\n-\n-\n2\n-", Some(Fill::Previous)), [[1.0, 1.0, 1.0, 2.0, 2.0]]);
        let wide = format!("a\n{}\n-\n{}\n", f64::MAX, -f64::MAX);
        assert_eq!(values(&wide, Some(Fill::Linear)), [[f64::MAX, 0.0, -f64::MAX]]);
    }

    #[test]
    fn the_first_column_is_a_date_by_name_or_by_its_cells() {
        let dated = |text: &str| {
            let series = parse(text.as_bytes(), "f", &ReadOptions::default()).expect(text);
            series.dates().map(|d| d.column().to_owned())
        };
        assert_eq!(dated("DateTime,a\n2016-07-01,1"), Some("DateTime".to_owned()));
        assert_eq!(dated("when,a\n2016-07-01,1"), Some("when".to_owned()));
        assert_eq!(dated(",a\n2016-07-01,1"), Some("date".to_owned()));
        assert_eq!(dated("timestamp,a\n1467331200,1"), Some("timestamp".to_owned()));
        assert_eq!(dated("year,a\n2016,1"), None);
        assert_eq!(dated("0,1,2\n1,2,3"), None);
    }

    #[test]
    fn columns_are_picked_in_the_order_asked() {
        let options = ReadOptions { columns: Some(vec!["c".to_owned(), "a".to_owned()]), fill: None };
        let series = parse(b"date,a,b,c\n2016-07-01,1,text,3\n", "f", &options).expect("two columns");
        assert_eq!(series.columns(), ["c", "a"]);
        assert_eq!(series.values(), [[3.0], [1.0]]);
    }
}
