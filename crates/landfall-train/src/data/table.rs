//! Series from rows of cells: what the readers of all file formats share.

use std::collections::{BTreeMap, HashMap};

use ::csv::StringRecord;
use chrono::NaiveDateTime;

use super::clock::unshift;
use super::columns::{Roles, boolean, roles};
use super::dates::{DateForm, Dates};
use super::error::{DataError, Place, list};
use super::fill::{Fill, fill_missing};
use super::frequency::Spacing;
use super::number::{Number, number};
use super::series::Series;

/// Of the rows of a series, the share that may be missing for them to be inserted unasked.
const MAX_INSERTED: f64 = 1.0 / 3.0;

/// What to read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The columns to read, in this order; when `None` all columns of numbers that change.
    pub columns: Option<Vec<String>>,
    /// What to put in place of missing values: `None` takes a straight line between their neighbours.
    pub fill: Option<Fill>,
    /// Whether rows are inserted wherever the dates skip some, however many.
    pub fill_gaps: bool,
    /// The column that says which series a row belongs to; when `None` it is looked for where dates repeat.
    pub series_id: Option<String>,
    /// The column of dates; when `None` it is looked for.
    pub date_column: Option<String>,
    /// How dates are written, as a strftime format; when `None` it is found.
    pub date_format: Option<String>,
    /// What separates cells; when `None` it is found.
    pub separator: Option<char>,
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

/// What was found in a file, so that another file of the kind is read in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The column that names the series.
    pub series_id: Option<String>,
}

/// Series in the order of their first rows, what was found, and what a person has to know of how they were read.
pub(super) struct Read {
    pub(super) series: Vec<Series>,
    pub(super) found: Found,
    pub(super) notes: Vec<String>,
}

/// Makes series of the rows, which are read twice: to find what columns hold, and to read them.
pub(super) fn assemble<I: Iterator<Item = Result<Row, DataError>>>(
    header: &Header<'_>,
    rows: impl Fn() -> I,
    options: &ReadOptions,
) -> Result<Read, DataError> {
    let file = header.file;
    let roles = roles(header, &rows, options)?;
    let mut tables: Vec<Table> = Vec::new();
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for row in rows() {
        let row = row?;
        let id = roles.id.as_ref().map(|(field, _)| row.cells.get(*field).unwrap_or_default().trim());
        if let (Some(""), Some((_, column))) = (id, &roles.id) {
            return Err(DataError::NoSeriesId { at: header.at(row.line), column: column.clone() });
        }
        let place = match by_id.get(id.unwrap_or_default()) {
            Some(&place) => place,
            None => {
                by_id.insert(id.unwrap_or_default().to_owned(), tables.len());
                tables.push(Table::new(&roles, id));
                tables.len() - 1
            }
        };
        if let Some(table) = tables.get_mut(place) {
            table.push(header, &roles, &row)?;
        }
    }
    let form = match &roles.date {
        Some(date) => Some(choose_form(file, &tables, &date.forms)?),
        None => None,
    };
    let mut notes = Notes::default();
    let series: Vec<Series> = tables
        .into_iter()
        .map(|t| t.finish(header, &roles, form.as_ref(), options, &mut notes))
        .collect::<Result<_, _>>()?;
    let mut said = Vec::new();
    if let (true, Some((_, column))) = (roles.id_found, &roles.id) {
        said.push(format!("{} series, told apart by column `{column}`", series.len()));
    }
    said.extend(roles.notes);
    if form.as_ref().is_some_and(DateForm::is_utc) {
        said.push("dates with an offset from UTC are read and written as UTC".to_owned());
    }
    said.extend(notes.lines());
    let found = Found { series_id: roles.id.map(|(_, name)| name) };
    Ok(Read { series, found, notes: said })
}

/// Of the forms that all dates allow, the one that makes them most even: day and month can often be told by nothing else.
fn choose_form(file: &str, tables: &[Table], forms: &[DateForm]) -> Result<DateForm, DataError> {
    let unevenness = |form: &DateForm| -> usize {
        let of = |table: &Table| {
            let dates: Vec<NaiveDateTime> = table.dates.iter().filter_map(|text| form.parse(text)).collect();
            let descents = dates.windows(2).filter(|pair| pair[1] <= pair[0]).count();
            let spacing = Spacing::of(&dates);
            descents + spacing.gaps.len() + usize::from(spacing.uneven.is_some()) * dates.len()
        };
        tables.iter().map(of).sum()
    };
    // Padding alone makes no other dates.
    let loose = |form: &DateForm| form.name().replace("%-", "%");
    let mut kinds: Vec<&DateForm> = Vec::new();
    for form in forms {
        if !kinds.iter().any(|kind| loose(kind) == loose(form)) {
            kinds.push(form);
        }
    }
    if let [only] = kinds.as_slice() {
        return Ok((*only).clone());
    }
    let mut scored: Vec<(usize, &DateForm)> =
        kinds.into_iter().map(|form| (unevenness(form), form)).collect();
    scored.sort_by_key(|(uneven, _)| *uneven);
    match scored.as_slice() {
        [(best, form), (second, _), ..] if best < second => Ok((*form).clone()),
        [(_, one), (_, other), ..] => {
            let text = tables.first().and_then(|t| t.dates.first()).cloned().unwrap_or_default();
            let (file, one, other) = (file.to_owned(), one.name(), other.name());
            Err(DataError::AmbiguousDates { file, text, one, other })
        }
        _ => Err(DataError::NoNumericColumn { file: file.to_owned() }),
    }
}

/// What reading changed, over all series of a file.
#[derive(Default)]
struct Notes {
    filled: BTreeMap<String, usize>,
    fill: Option<Fill>,
    inserted: usize,
    widest: Option<(usize, String)>,
    copies: usize,
    sorted: usize,
    clock: usize,
    trimmed: usize,
    ahead: Vec<String>,
}

impl Notes {
    fn lines(&self) -> Vec<String> {
        let mut lines = self.ahead.clone();
        let how = match self.fill {
            None => {
                "by a straight line between their neighbours, which looks ahead (--fill previous does not)"
                    .to_owned()
            }
            Some(fill) => format!("with --fill {fill}"),
        };
        if self.sorted > 0 {
            lines.push(format!("rows of {} series were out of order: sorted by date", self.sorted));
        }
        if self.copies > 0 {
            lines.push(format!("{} rows were copies of another one: dropped", self.copies));
        }
        if self.clock > 0 {
            lines.push(format!(
                "the clock changes {} times (hours that repeat or are skipped): rows are counted as they follow each other",
                self.clock
            ));
        }
        if self.trimmed > 0 {
            lines.push(format!("{} rows without any value at an end of the file: dropped", self.trimmed));
        }
        if self.inserted > 0 {
            let widest =
                self.widest.as_ref().map_or(String::new(), |(n, at)| format!(", at most {n} in a row, {at}"));
            lines.push(format!(
                "{} rows that the dates skip were inserted{widest}; filled {how}",
                self.inserted
            ));
        }
        if !self.filled.is_empty() {
            let all: usize = self.filled.values().sum();
            let columns: Vec<String> = self.filled.iter().map(|(name, n)| format!("{name} {n}")).collect();
            lines.push(format!("{all} missing values were filled {how}: {}", list(&columns)));
        }
        lines
    }
}

/// The rows of one series, as far as they are read.
struct Table {
    id: Option<String>,
    lines: Vec<usize>,
    dates: Vec<String>,
    columns: Vec<Vec<f64>>,
}

impl Table {
    fn new(roles: &Roles, id: Option<&str>) -> Self {
        let columns = vec![Vec::new(); roles.values.len()];
        Self { id: id.map(str::to_owned), lines: Vec::new(), dates: Vec::new(), columns }
    }

    fn push(&mut self, header: &Header<'_>, roles: &Roles, row: &Row) -> Result<(), DataError> {
        self.lines.push(row.line);
        if let Some(date) = &roles.date {
            self.dates.push(date.cells.text(row));
        }
        for ((field, name), values) in roles.values.iter().zip(&mut self.columns) {
            let text = row.cells.get(*field).unwrap_or_default().trim();
            let wrong = || (header.at(row.line), name.clone(), text.to_owned());
            values.push(match (number(text, header.decimal_comma), boolean(text)) {
                (Number::Finite(value), _) => value,
                (Number::Missing, _) => f64::NAN,
                (Number::Text, Some(truth)) => truth,
                (Number::Infinite, _) => {
                    let (at, column, text) = wrong();
                    return Err(DataError::Infinite { at, column, text });
                }
                (Number::Text, None) => {
                    let (at, column, text) = wrong();
                    return Err(DataError::NotANumber { at, column, text });
                }
            });
        }
        Ok(())
    }

    fn source(&self, file: &str) -> String {
        match &self.id {
            Some(id) => format!("{file}, series `{id}`"),
            None => file.to_owned(),
        }
    }

    fn finish(
        mut self,
        header: &Header<'_>,
        roles: &Roles,
        form: Option<&DateForm>,
        options: &ReadOptions,
        notes: &mut Notes,
    ) -> Result<Series, DataError> {
        let source = self.source(header.file);
        let names: Vec<String> = roles.values.iter().map(|(_, name)| name.clone()).collect();
        let mut dates = self.read_dates(header, roles, form)?;
        if let Some(dates) = &mut dates {
            self.order(header, dates, notes)?;
        }
        // A fill that was asked for fills rows at the ends too.
        if options.fill.is_none() {
            self.trim(dates.as_mut(), notes);
        }
        match (options.fill, self.known_ahead(&names)) {
            (None, Some(what)) => return Err(DataError::KnownAhead { file: source, what }),
            (Some(fill), Some(known)) => {
                notes.ahead.push(format!("{source}: {known}; --fill {fill} fills them"))
            }
            (_, None) => {}
        }
        notes.fill = options.fill;
        let fill = options.fill.unwrap_or(Fill::Linear);
        self.count_missing(&names, notes);
        self.insert_rows(&source, dates.as_mut(), options, notes)?;
        for ((name, values), line) in names.iter().zip(&mut self.columns).zip(std::iter::repeat(&self.lines))
        {
            if let Some(row) = values.iter().position(|v| v.is_nan()) {
                let first = Place { file: header.file.to_owned(), line: line.get(row).copied().unwrap_or(0) };
                fill_missing(name, values, fill, first)?;
            }
        }
        let dates = dates.zip(form).zip(roles.date.as_ref());
        let dates = dates
            .map(|((values, form), role)| Dates::from_ascending(role.name.clone(), form.clone(), values));
        let series = Series::new(source, names, self.columns, dates)?;
        Ok(match self.id {
            Some(id) => series.named(id),
            None => series,
        })
    }

    fn read_dates(
        &mut self,
        header: &Header<'_>,
        roles: &Roles,
        form: Option<&DateForm>,
    ) -> Result<Option<Vec<NaiveDateTime>>, DataError> {
        let (Some(role), Some(form)) = (&roles.date, form) else { return Ok(None) };
        let read = |(text, line): (&String, &usize)| {
            form.parse(text).ok_or_else(|| DataError::BadDate {
                at: header.at(*line),
                column: role.name.clone(),
                text: text.clone(),
                form: form.name(),
            })
        };
        self.dates.iter().zip(&self.lines).map(read).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Puts rows into the order of their dates, and drops copies of rows.
    fn order(
        &mut self,
        header: &Header<'_>,
        dates: &mut Vec<NaiveDateTime>,
        notes: &mut Notes,
    ) -> Result<(), DataError> {
        if dates.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let changes = unshift(dates);
        notes.clock += changes;
        if dates.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..dates.len()).collect();
        if !dates.is_sorted() {
            order.sort_by_key(|row| dates.get(*row).copied());
            notes.sorted += 1;
        }
        let same = |a: usize, b: usize| {
            self.columns.iter().all(|c| match (c.get(a), c.get(b)) {
                (Some(x), Some(y)) => x == y || (x.is_nan() && y.is_nan()),
                _ => false,
            })
        };
        let mut kept: Vec<usize> = Vec::with_capacity(order.len());
        for row in order {
            match kept.last() {
                Some(&before) if dates.get(before) == dates.get(row) => {
                    if !same(before, row) {
                        let line = |row: usize| self.lines.get(row).copied().unwrap_or(0);
                        let date = dates.get(row).copied().unwrap_or_default();
                        return Err(DataError::DuplicateDate {
                            at: header.at(line(row)),
                            first: line(before),
                            date,
                        });
                    }
                    notes.copies += 1;
                }
                _ => kept.push(row),
            }
        }
        *dates = kept.iter().filter_map(|row| dates.get(*row).copied()).collect();
        self.lines = kept.iter().filter_map(|row| self.lines.get(*row).copied()).collect();
        for values in &mut self.columns {
            *values = kept.iter().filter_map(|row| values.get(*row).copied()).collect();
        }
        Ok(())
    }

    /// Drops rows at both ends that have no value at all.
    fn trim(&mut self, dates: Option<&mut Vec<NaiveDateTime>>, notes: &mut Notes) {
        let rows = self.lines.len();
        let empty = |row: &usize| self.columns.iter().all(|c| c.get(*row).is_none_or(|v| v.is_nan()));
        let start = (0..rows).take_while(empty).count();
        let end = rows - (start..rows).rev().take_while(empty).count();
        if (start, end) == (0, rows) || start == rows {
            return;
        }
        notes.trimmed += rows - (end - start);
        let cut = |values: &mut Vec<f64>| *values = values.get(start..end).unwrap_or_default().to_vec();
        self.columns.iter_mut().for_each(cut);
        self.lines = self.lines.get(start..end).unwrap_or_default().to_vec();
        if let Some(dates) = dates {
            *dates = dates.get(start..end).unwrap_or_default().to_vec();
        }
    }

    fn count_missing(&self, names: &[String], notes: &mut Notes) {
        for (name, values) in names.iter().zip(&self.columns) {
            let missing = values.iter().filter(|v| v.is_nan()).count();
            if missing > 0 {
                *notes.filled.entry(name.clone()).or_default() += missing;
            }
        }
    }

    /// Columns that go on after the last value of others, said in words.
    fn known_ahead(&self, names: &[String]) -> Option<String> {
        let end = |c: &Vec<f64>| c.iter().rposition(|v| !v.is_nan()).map_or(0, |last| last + 1);
        let ends: Vec<usize> = self.columns.iter().map(end).collect();
        let (&first, &last) = (ends.iter().filter(|e| **e > 0).min()?, ends.iter().max()?);
        let named = |keep: &dyn Fn(usize) -> bool| {
            let named = names.iter().zip(&ends).filter(|(_, end)| keep(**end));
            list(&named.map(|(name, _)| name.clone()).collect::<Vec<_>>())
        };
        (first < last).then(|| {
            let (ahead, behind) = (named(&|end| end > first), named(&|end| end == first));
            format!("{ahead} has values in {} rows after the last value of {behind}", last - first)
        })
    }

    /// Puts rows without values where the dates skip some: always if asked, else where few are missing.
    fn insert_rows(
        &mut self,
        source: &str,
        dates: Option<&mut Vec<NaiveDateTime>>,
        options: &ReadOptions,
        notes: &mut Notes,
    ) -> Result<(), DataError> {
        let file = || source.to_owned();
        let asked = options.fill_gaps;
        if asked && options.fill.is_none() {
            return Err(DataError::GapsWithoutFill { file: file() });
        }
        let Some(dates) = dates else {
            return if asked { Err(DataError::GapsWithoutDates { file: file() }) } else { Ok(()) };
        };
        let spacing = Spacing::of(dates);
        if let Some((row, previous, date)) = spacing.uneven {
            let step = spacing.usual.to_string();
            let error = DataError::UnevenDates { file: file(), row: row + 1, previous, date, step };
            return if asked { Err(error) } else { Ok(()) };
        }
        let (missing, rows) = (spacing.missing(), dates.len());
        // A mistyped year would fill the memory.
        if asked && missing > rows {
            return Err(DataError::GapsTooWide { file: file(), missing, rows });
        }
        let few = options.fill.is_none() && missing as f64 <= MAX_INSERTED * rows as f64;
        if missing == 0 || !(asked || few) {
            return Ok(());
        }
        for gap in spacing.gaps.iter().rev() {
            dates.splice(gap.row..gap.row, spacing.usual.future(gap.from, gap.missing)?);
            let line = self.lines.get(gap.row).copied().unwrap_or(0);
            self.lines.splice(gap.row..gap.row, std::iter::repeat_n(line, gap.missing));
            for values in &mut self.columns {
                values.splice(gap.row..gap.row, std::iter::repeat_n(f64::NAN, gap.missing));
            }
            if notes.widest.as_ref().is_none_or(|(widest, _)| gap.missing > *widest) {
                notes.widest = Some((gap.missing, format!("after {}", gap.from)));
            }
        }
        notes.inserted += missing;
        Ok(())
    }
}

pub(super) fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found { Ok(()) } else { Err(DataError::Ragged { at: at(), found, expected }) }
}
