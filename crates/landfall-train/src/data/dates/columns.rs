//! Which columns of a table hold the date: one, a date and a time, or year, month and day apart.

use super::form::DateForm;
use super::infer::{patterns, time_of_day};
use super::read::{DateColumn, NotDates, find as find_form, read};
use crate::data::cell::Cell;
use crate::data::error::DataError;
use crate::data::numbers::{Number, NumberForm};
use crate::data::purpose::Purpose;
use crate::data::sheet::{ReadOptions, Sheet};
use std::collections::HashSet;

/// Names by which a column says that it holds dates.
const EXACT: [&str; 5] = ["date", "timestamp", "time", "datetime", "ds"];

/// Words in a name that make dates of whole numbers likely.
const WORDS: [&str; 13] = [
    "date",
    "dates",
    "timestamp",
    "time",
    "datetime",
    "ds",
    "day",
    "month",
    "week",
    "quarter",
    "year",
    "period",
    "yyyymmdd",
];

/// The columns that hold the date, read.
#[derive(Debug)]
pub(crate) struct DateSource {
    /// Their fields.
    pub(crate) fields: Vec<usize>,
    /// What the date is called.
    pub(crate) name: String,
    /// The dates.
    pub(crate) dates: DateColumn,
}

/// What a column is of a date that stands in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Quarter,
    Day,
    Hour,
    /// A whole date, or a time of day.
    Text,
}

impl Part {
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "year" | "yr" | "yyyy" => Self::Year,
            "month" | "mon" | "mm" | "mo" | "mnth" => Self::Month,
            "quarter" | "qtr" | "q" => Self::Quarter,
            "day" | "dd" => Self::Day,
            "hour" | "hr" | "hh" => Self::Hour,
            _ => Self::Text,
        }
    }
}

/// Finds and reads the dates of a table; `None` where it has none. `taken` are fields that hold something else.
pub(crate) fn find(
    sheet: &Sheet,
    options: &ReadOptions,
    taken: &[usize],
) -> Result<Option<DateSource>, DataError> {
    if let Some(text) = options.date_format.as_ref().filter(|pattern| DateForm::new(pattern).is_none()) {
        return Err(DataError::BadDateFormat { text: text.clone() });
    }
    if let Some(names) = &options.date_column {
        let field = |name: &String| {
            let at = sheet.names.iter().position(|n| n == name || (n.is_empty() && name == "date"));
            at.ok_or_else(|| {
                let (file, known) = (sheet.file.clone(), sheet.names.clone());
                DataError::UnknownColumn { file, name: name.clone(), known }
            })
        };
        return match names.iter().map(field).collect::<Result<Vec<_>, _>>() {
            Ok(fields) => source(sheet, fields, options).map(Some),
            Err(why) => renamed(sheet, names, options, taken)?.ok_or(why).map(Some),
        };
    }
    let held: HashSet<usize> = taken.iter().copied().collect();
    let free: Vec<usize> = (0..sheet.names.len()).filter(|field| !held.contains(field)).collect();
    let (numbers, texts): (Vec<usize>, Vec<usize>) =
        free.iter().partition(|field| is_numeric(sheet, **field));
    let mut found = single(sheet, &texts, options)?;
    if found.is_none() {
        found = apart(sheet, &free, options)?;
    }
    if found.is_none() {
        let likely: Vec<usize> = numbers.iter().copied().filter(|field| likely(sheet, *field)).collect();
        found = single(sheet, &likely, options)?;
    }
    match found {
        Some(found) => with_time(sheet, found, &free, options).map(Some),
        None => Ok(None),
    }
}

/// The dates of data of a run in another column than the run's, and a note that says so.
fn renamed(
    sheet: &Sheet,
    names: &[String],
    options: &ReadOptions,
    taken: &[usize],
) -> Result<Option<DateSource>, DataError> {
    if options.purpose == Purpose::NewRun {
        return Ok(None);
    }
    let anew = ReadOptions { date_column: None, date_format: None, ..options.clone() };
    let mut found = find(sheet, &anew, taken)?;
    if let Some(DateSource { name, dates, .. }) = &mut found {
        let column =
            format!("no column `{}`, where the run had dates: those of `{name}` are read", names.join(", "));
        dates.note =
            Some(dates.note.take().map_or_else(|| column.clone(), |note| format!("{column}; {note}")));
    }
    Ok(found)
}

/// Whether the first cells of a column, missing ones aside, are numbers.
fn is_numeric(sheet: &Sheet, field: usize) -> bool {
    let number =
        |cell: Cell<'_>| matches!(cell.number(NumberForm::POINT), Number::Finite(_) | Number::Infinite);
    let mut cells = sheet.cells(field).filter(|cell| !cell.is_missing()).take(20).peekable();
    cells.peek().is_some() && cells.all(number)
}

/// Whether whole numbers in a column may be dates: by its name, or because it is the first and has none. Years without a
/// name ascend.
fn likely(sheet: &Sheet, field: usize) -> bool {
    let name = sheet.names.get(field).map_or("", String::as_str).to_ascii_lowercase();
    if name.is_empty() || name == "unnamed: 0" {
        let year = |cell: Cell<'_>| match cell {
            Cell::Text(text) => text.parse().ok(),
            Cell::Integer(n) => u32::try_from(n).ok(),
            Cell::Empty | Cell::Boolean(_) | Cell::Float(_) | Cell::Decimal(_) | Cell::Time(_) => None,
        };
        let years: Vec<Option<u32>> = sheet.cells(field).map(year).collect();
        return field == 0 && years.windows(2).all(|pair| pair.first() < pair.last());
    }
    name.split(|c: char| !c.is_ascii_alphabetic()).any(|word| WORDS.contains(&word))
}

/// The one of these columns that holds dates: one with a name that says so before others, else the first.
fn single(sheet: &Sheet, fields: &[usize], options: &ReadOptions) -> Result<Option<DateSource>, DataError> {
    let name = |field: usize| sheet.names.get(field).map_or("", String::as_str);
    let exact = |field: usize| EXACT.iter().any(|known| name(field).eq_ignore_ascii_case(known));
    let (named, others): (Vec<usize>, Vec<usize>) =
        fields.iter().partition(|field| exact(**field) || likely(sheet, **field));
    let mut refused = None;
    for &field in named.iter().chain(&others) {
        let first = sheet.cells(field).find(|cell| !cell.is_missing()).unwrap_or_default();
        let given = options.date_format.is_some();
        if !given && patterns(&first.text()).is_empty() && !exact(field) {
            continue;
        }
        match read_fields(sheet, &[field], options) {
            Ok(dates) => return Ok(Some(named_source(sheet, vec![field], dates))),
            Err(why) => {
                let numeric = is_numeric(sheet, field);
                let mostly = match &why {
                    NotDates::Cell { dates, .. } => *dates * 2 >= sheet.len(),
                    NotDates::Ambiguous { .. } => true,
                };
                // A column that is called a date, or is one but for some cells, is not left out in silence.
                if (exact(field) || mostly) && !numeric && refused.is_none() {
                    refused = Some(error(sheet, &[field], why, options));
                }
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

/// Year and month, or year and quarter, and day and hour, in columns of these names.
fn apart(sheet: &Sheet, free: &[usize], options: &ReadOptions) -> Result<Option<DateSource>, DataError> {
    let of =
        |part| free.iter().copied().find(|f| sheet.names.get(*f).is_some_and(|n| Part::named(n) == part));
    let Some(year) = of(Part::Year) else { return Ok(None) };
    let (month, quarter, day, hour) = (of(Part::Month), of(Part::Quarter), of(Part::Day), of(Part::Hour));
    let fields: Vec<usize> = match (month, quarter, day) {
        (Some(month), _, Some(day)) => [year, month, day].into_iter().chain(hour).collect(),
        (Some(month), _, None) => vec![year, month],
        (None, Some(quarter), _) => vec![year, quarter],
        (None, None, _) => return Ok(None),
    };
    // Columns of these names that hold something else are no date.
    Ok(read_fields(sheet, &fields, options).ok().map(|dates| named_source(sheet, fields, dates)))
}

/// The dates with the time of day beside them, where the dates alone repeat.
fn with_time(
    sheet: &Sheet,
    found: DateSource,
    free: &[usize],
    options: &ReadOptions,
) -> Result<DateSource, DataError> {
    let mut seen = HashSet::new();
    let clock = found.dates.values.iter().any(|date| date.time() != chrono::NaiveTime::MIN);
    if clock || options.date_format.is_some() || found.dates.values.iter().all(|date| seen.insert(*date)) {
        return Ok(found);
    }
    let hour = |field: &usize| sheet.names.get(*field).is_some_and(|n| Part::named(n) == Part::Hour);
    let timed = |field: &usize| sheet.cells(*field).all(|cell| cell.as_text().is_some_and(time_of_day));
    let others = free.iter().filter(|field| !found.fields.contains(field));
    for field in others.filter(|field| hour(field) || timed(field)) {
        let fields: Vec<usize> = found.fields.iter().copied().chain([*field]).collect();
        if let Ok(dates) = read_fields(sheet, &fields, options) {
            return Ok(DateSource { fields, dates, ..found });
        }
    }
    Ok(found)
}

/// The dates of columns that were asked for.
fn source(sheet: &Sheet, fields: Vec<usize>, options: &ReadOptions) -> Result<DateSource, DataError> {
    match read_fields(sheet, &fields, options) {
        Ok(dates) => Ok(named_source(sheet, fields, dates)),
        Err(why) => Err(error(sheet, &fields, why, options)),
    }
}

fn named_source(sheet: &Sheet, fields: Vec<usize>, dates: DateColumn) -> DateSource {
    let name = fields.first().and_then(|field| sheet.names.get(*field)).map_or("", String::as_str);
    let apart = fields.len() > 1 && Part::named(name) == Part::Year;
    let name = if name.is_empty() || name == "Unnamed: 0" || apart { "date" } else { name };
    DateSource { name: name.to_owned(), fields, dates }
}

fn read_fields(sheet: &Sheet, fields: &[usize], options: &ReadOptions) -> Result<DateColumn, NotDates> {
    let form = options.date_format.as_deref().and_then(DateForm::new);
    if let &[field] = fields {
        let cells = sheet.cells(field);
        return match form {
            Some(form) => read(&form, cells.map(|cell| cell.whole_year().unwrap_or(cell))),
            None if cells.clone().next().is_some_and(|cell| cell.whole_year().is_some()) => {
                find_form(cells.map(|cell| cell.whole_year().unwrap_or_default()))
            }
            None => find_form(cells),
        };
    }
    let joined: Vec<String> = (0..sheet.len()).map(|row| joined(sheet, fields, row)).collect();
    let cells = joined.iter().map(|text| Cell::Text(text));
    match form {
        Some(form) => read(&form, cells),
        None => find_form(cells),
    }
}

/// The parts of a date as one text, as ISO 8601 writes it where they are numbers.
fn joined(sheet: &Sheet, fields: &[usize], row: usize) -> String {
    let mut text = String::new();
    for &field in fields {
        let cell = sheet.cell(row, field).text();
        // Some writers make floats of whole numbers.
        let cell = cell.strip_suffix(".0").unwrap_or(&cell);
        let number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
        let part = Part::named(sheet.names.get(field).map_or("", String::as_str));
        text += &match part {
            Part::Month | Part::Day if number && !text.contains(' ') => format!("-{cell:0>2}"),
            Part::Quarter => format!("Q{}", cell.trim_start_matches(['Q', 'q'])),
            Part::Hour if number => format!(" {cell:0>2}:00"),
            Part::Year => cell.to_owned(),
            Part::Month | Part::Day | Part::Hour | Part::Text if text.is_empty() => cell.to_owned(),
            Part::Month | Part::Day | Part::Hour | Part::Text => format!(" {cell}"),
        };
    }
    text
}

fn error(sheet: &Sheet, fields: &[usize], why: NotDates, options: &ReadOptions) -> DataError {
    let names = fields.iter().filter_map(|field| sheet.names.get(*field)).cloned().collect::<Vec<_>>();
    let column = names.join(", ");
    match why {
        NotDates::Cell { row, .. } => {
            let cells = fields.iter().map(|field| sheet.cell(row, *field).text());
            let (at, text) = (sheet.place(row), cells.collect::<Vec<_>>().join(" "));
            let form = options.date_format.as_deref().and_then(DateForm::new);
            DataError::BadDate { at, column, text, advice: options.purpose.date(form.as_ref()) }
        }
        NotDates::Ambiguous { first, second } => {
            let file = sheet.file.clone();
            let advice = options.purpose.ambiguous_dates(&first, &second);
            DataError::AmbiguousDates { file, column, first, second, advice }
        }
    }
}
