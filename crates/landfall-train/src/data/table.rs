//! Series from rows of cells: what the readers of all file formats share.

use std::collections::HashMap;

use ::csv::StringRecord;
use chrono::NaiveDateTime;

use super::dates::{DateParser, Dates, ascending};
use super::error::{DataError, Place, list};
use super::fill::{Fill, fill_missing};
use super::frequency::Spacing;
use super::series::{Series, first_duplicate};

/// Names that make the first column the date column whatever its cells hold.
const DATE_NAMES: [&str; 5] = ["date", "timestamp", "time", "datetime", "ds"];

/// Cells that stand for a missing value, compared without regard to case; an empty cell is one too.
const MISSING: [&str; 5] = ["", "na", "nan", "null", "-"];

/// What to read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The columns to read, in this order; all of them when `None`. Cells of the others are not looked at.
    pub columns: Option<Vec<String>>,
    /// What to put in place of missing values; `None` refuses them.
    pub fill: Option<Fill>,
    /// Whether rows are inserted where the dates skip some, to be filled by the same rule.
    pub fill_gaps: bool,
    /// The column that says which series a row belongs to; one series when `None`.
    pub series_id: Option<String>,
}

/// A row and the line it stands on.
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) cells: StringRecord,
}

/// What is known of a file before its rows.
pub(super) struct Header<'a> {
    /// Path, for messages.
    pub(super) file: &'a str,
    /// Names of the columns.
    pub(super) names: Vec<String>,
    /// Whether a number may have a decimal comma.
    pub(super) decimal_comma: bool,
}

/// Series in the order of their first rows, and what a person has to know of how they were read.
pub(super) type Read = (Vec<Series>, Vec<String>);

/// Makes series of the rows.
pub(super) fn assemble(
    header: &Header<'_>,
    mut rows: impl Iterator<Item = Result<Row, DataError>>,
    options: &ReadOptions,
) -> Result<Read, DataError> {
    let file = header.file;
    let first = rows.next().ok_or_else(|| DataError::HeaderOnly { file: file.to_owned() })??;
    let roles = Roles::new(header, &first, options)?;
    let mut tables: Vec<Table<'_>> = Vec::new();
    let mut by_id = HashMap::new();
    for row in std::iter::once(Ok(first)).chain(rows) {
        let row = row?;
        let at = || Place { file: file.to_owned(), line: row.line };
        check_fields(header.names.len(), row.cells.len(), at)?;
        let id = roles.id.map(|field| row.cells.get(field).unwrap_or_default().trim());
        if let (Some(""), Some(column)) = (id, &options.series_id) {
            return Err(DataError::NoSeriesId { at: at(), column: column.clone() });
        }
        let place = match by_id.get(id.unwrap_or_default()) {
            Some(&place) => place,
            None => {
                by_id.insert(id.unwrap_or_default().to_owned(), tables.len());
                tables.push(Table::new(header, &roles, id, options));
                tables.len() - 1
            }
        };
        if let Some(table) = tables.get_mut(place) {
            table.push(&row)?;
        }
    }
    let mut notices = Vec::new();
    let series = tables.into_iter().map(|t| t.finish(&mut notices)).collect::<Result<_, _>>()?;
    Ok((series, notices))
}

/// Which field holds what.
struct Roles {
    id: Option<usize>,
    date: Option<(usize, String)>,
    values: Vec<(usize, String)>,
}

impl Roles {
    fn new(header: &Header<'_>, first: &Row, options: &ReadOptions) -> Result<Self, DataError> {
        let (names, comma) = (&header.names, header.decimal_comma);
        let file = || header.file.to_owned();
        check_fields(names.len(), first.cells.len(), || Place { file: file(), line: first.line })?;
        let unknown =
            |name: &str, known| DataError::UnknownColumn { file: file(), name: name.to_owned(), known };
        let cell = |field: usize| first.cells.get(field).unwrap_or_default().trim();
        let id = match &options.series_id {
            Some(name) => match names.iter().position(|n| n == name) {
                Some(field) => Some(field),
                None => return Err(unknown(name, names.clone())),
            },
            None => None,
        };
        // The series' names may stand before the dates.
        let leading = (0..names.len()).find(|field| Some(*field) != id);
        let date = leading.and_then(|field| {
            let name = names.get(field).map_or("", String::as_str);
            date_name(name, cell(field), comma).map(|name| (field, name))
        });
        let date_field = date.as_ref().map(|(field, _)| *field);
        let fields: Vec<usize> =
            (0..names.len()).filter(|f| Some(*f) != id && Some(*f) != date_field).collect();
        let name = |field: &usize| names.get(*field).cloned().unwrap_or_default();
        if let Some(field) = fields.iter().find(|field| name(field).is_empty()) {
            return Err(DataError::UnnamedColumn { file: file(), position: field + 1 });
        }
        if let Some(name) = first_duplicate(names) {
            return Err(DataError::DuplicateColumn { file: file(), name: name.to_owned() });
        }
        if !fields.iter().any(|&field| !matches!(number(cell(field), comma), Number::Text)) {
            return Err(DataError::NoNumericColumn { file: file() });
        }
        let known: Vec<String> = fields.iter().map(name).collect();
        let requested = options.columns.as_ref().unwrap_or(&known);
        if let Some(name) = first_duplicate(requested) {
            return Err(DataError::RequestedTwice { file: file(), name: name.to_owned() });
        }
        let column = |name: &String| match fields.iter().zip(&known).find(|(_, known)| *known == name) {
            Some((&field, _)) => Ok((field, name.clone())),
            None => Err(unknown(name, known.clone())),
        };
        let values = requested.iter().map(column).collect::<Result<_, _>>()?;
        Ok(Self { id, date, values })
    }
}

/// The columns of one series, as far as they are read.
struct Table<'a> {
    file: &'a str,
    decimal_comma: bool,
    id: Option<String>,
    date: Option<DateColumn>,
    fill: Option<Fill>,
    fill_gaps: bool,
    columns: Vec<Column>,
}

struct DateColumn {
    name: String,
    field: usize,
    parser: DateParser,
    values: Vec<NaiveDateTime>,
}

struct Column {
    name: String,
    field: usize,
    /// NaN where a value is missing.
    values: Vec<f64>,
    /// The first missing value: row, line and text.
    missing: Option<(usize, usize, String)>,
}

impl Column {
    /// Row after the last value.
    fn end(&self) -> usize {
        self.values.iter().rposition(|v| !v.is_nan()).map_or(0, |last| last + 1)
    }
}

impl<'a> Table<'a> {
    fn new(header: &Header<'a>, roles: &Roles, id: Option<&str>, options: &ReadOptions) -> Self {
        let date = roles.date.as_ref().map(|(field, name)| DateColumn {
            name: name.clone(),
            field: *field,
            parser: DateParser::new(name),
            values: Vec::new(),
        });
        let column = |(field, name): &(usize, String)| Column {
            name: name.clone(),
            field: *field,
            values: Vec::new(),
            missing: None,
        };
        Self {
            file: header.file,
            decimal_comma: header.decimal_comma,
            id: id.map(str::to_owned),
            date,
            fill: options.fill,
            fill_gaps: options.fill_gaps,
            columns: roles.values.iter().map(column).collect(),
        }
    }

    fn push(&mut self, row: &Row) -> Result<(), DataError> {
        let at = || Place { file: self.file.to_owned(), line: row.line };
        if let Some(date) = &mut self.date {
            date.push(row.cells.get(date.field).unwrap_or_default().trim(), at)?;
        }
        for column in &mut self.columns {
            let text = row.cells.get(column.field).unwrap_or_default().trim();
            let (name, quoted) = (|| column.name.clone(), || text.to_owned());
            let value = match number(text, self.decimal_comma) {
                Number::Finite(value) => value,
                Number::Missing => {
                    column.missing.get_or_insert((column.values.len(), row.line, quoted()));
                    f64::NAN
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

    fn source(&self) -> String {
        match &self.id {
            Some(id) => format!("{}, series `{id}`", self.file),
            None => self.file.to_owned(),
        }
    }

    fn finish(mut self, notices: &mut Vec<String>) -> Result<Series, DataError> {
        let source = self.source();
        match (self.fill, self.known_ahead()) {
            (None, known) => self.refuse_missing(known)?,
            (Some(fill), Some(known)) => notices.push(format!("{source}: {known}; --fill {fill} fills them")),
            (Some(_), None) => {}
        }
        if self.fill_gaps {
            notices.extend(self.insert_rows()?);
        }
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for mut column in self.columns {
            if let (Some(fill), Some((_, line, _))) = (self.fill, column.missing) {
                let first = Place { file: self.file.to_owned(), line };
                fill_missing(&column.name, &mut column.values, fill, first)?;
            }
            names.push(column.name);
            values.push(column.values);
        }
        let dates = self.date.and_then(|date| {
            date.parser.form().map(|form| Dates::from_ascending(date.name, form, date.values))
        });
        let series = Series::new(source, names, values, dates)?;
        Ok(match self.id {
            Some(id) => series.named(id),
            None => series,
        })
    }

    /// Columns that go on after the last value of others, said in words.
    fn known_ahead(&self) -> Option<String> {
        let ends: Vec<usize> = self.columns.iter().map(Column::end).collect();
        let (&first, &last) = (ends.iter().filter(|e| **e > 0).min()?, ends.iter().max()?);
        let named = |keep: &dyn Fn(usize) -> bool| {
            let named = self.columns.iter().zip(&ends).filter(|(_, end)| keep(**end));
            list(&named.map(|(column, _)| column.name.clone()).collect::<Vec<_>>())
        };
        (first < last).then(|| {
            let (ahead, behind) = (named(&|end| end > first), named(&|end| end == first));
            format!("{ahead} has values in {} rows after the last value of {behind}", last - first)
        })
    }

    /// The first missing value as an error, when none may be missing.
    fn refuse_missing(&self, ahead: Option<String>) -> Result<(), DataError> {
        let missing = |c: &'_ Column| c.missing.as_ref().map(|m| (m.0, c.name.clone(), m.1, m.2.clone()));
        let Some((row, column, line, text)) = self.columns.iter().filter_map(missing).min_by_key(|m| m.0)
        else {
            return Ok(());
        };
        let whole = self.columns.iter().map(Column::end).filter(|end| *end > 0).min();
        match ahead {
            Some(what) if whole.is_some_and(|whole| row >= whole) => {
                Err(DataError::KnownAhead { file: self.source(), what })
            }
            Some(_) | None => {
                let at = Place { file: self.file.to_owned(), line };
                Err(DataError::MissingValue { at, column, text })
            }
        }
    }

    /// Puts rows without values where the dates skip some; says how many.
    fn insert_rows(&mut self) -> Result<Option<String>, DataError> {
        let source = self.source();
        let Some(fill) = self.fill else {
            return Err(DataError::GapsWithoutFill { file: source });
        };
        let Some(date) = &mut self.date else {
            return Err(DataError::GapsWithoutDates { file: source });
        };
        let spacing = Spacing::of(&date.values);
        if let Some((row, previous, date)) = spacing.uneven {
            let step = spacing.usual.to_string();
            return Err(DataError::UnevenDates { file: source, row: row + 1, previous, date, step });
        }
        let (missing, rows) = (spacing.missing(), date.values.len());
        if missing == 0 {
            return Ok(None);
        }
        // A mistyped year would fill the memory.
        if missing > rows {
            return Err(DataError::GapsTooWide { file: source, missing, rows });
        }
        for gap in spacing.gaps.iter().rev() {
            date.values.splice(gap.row..gap.row, spacing.usual.future(gap.from, gap.missing)?);
            for column in &mut self.columns {
                column.values.splice(gap.row..gap.row, std::iter::repeat_n(f64::NAN, gap.missing));
                // Rows that were inserted stand on no line; they follow one that has a value or is named already.
                column.missing.get_or_insert((gap.row, gap.row, String::new()));
            }
        }
        Ok(Some(format!(
            "{source}: {missing} rows inserted where the dates skip them, filled with --fill {fill}"
        )))
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

pub(super) fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found { Ok(()) } else { Err(DataError::Ragged { at: at(), found, expected }) }
}

/// The name of the date column if the column before the values is one; `date` where the header leaves it empty.
fn date_name(name: &str, first_cell: &str, decimal_comma: bool) -> Option<String> {
    let known = DATE_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    let text = matches!(number(first_cell, decimal_comma), Number::Text);
    let date = text && DateParser::new(name).parse(first_cell).is_some();
    (known || date).then(|| if name.is_empty() { "date".to_owned() } else { name.to_owned() })
}

/// Whether a header line is a row of data: it starts with a date, or holds numbers only and not all of
/// them counters, which some exporters write for names.
pub(super) fn is_data(names: &[String], decimal_comma: bool) -> bool {
    let numeric = |name: &String| matches!(number(name, decimal_comma), Number::Finite(_));
    let counter = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let dated = names.first().is_some_and(|name| DateParser::new("date").parse(name).is_some());
    dated || (names.iter().all(numeric) && !names.iter().all(counter))
}

/// What a cell holds.
pub(super) enum Number {
    Finite(f64),
    Missing,
    Infinite,
    Text,
}

pub(super) fn number(text: &str, decimal_comma: bool) -> Number {
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
