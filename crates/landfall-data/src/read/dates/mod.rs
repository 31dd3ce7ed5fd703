//! Which columns of a table hold the date: one, a date and a time, or year, month and day apart.

pub(crate) mod form;
pub(crate) mod parts;
pub(crate) mod words;

use crate::cells::cell::Cell;
use crate::cells::numbers::{Number, NumberForm};
use crate::dates::digits::digits;
use crate::dates::form::DateForm;
use crate::dates::frequency::Spacing;
use crate::dates::infer::{patterns, time_of_day};
use crate::dates::purpose::Purpose;
use crate::error::DataError;
use crate::error::form::FormError;
use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::message::list;
use crate::read::dates::form::{DateColumn, NotDates, find as find_form, read};
use crate::read::dates::parts::{Part, joined};
use crate::read::dates::words::{TimeName, Word};
use crate::read::options::ReadOptions;
use crate::read::sheet::Sheet;
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

/// Finds and reads the dates of a table; `None` where it has none. `taken` are fields that hold something else.
pub(crate) fn find(
    sheet: &Sheet,
    options: &ReadOptions,
    taken: &[usize],
) -> Result<Option<DateSource>, DataError> {
    if let Some(text) = options.date_format.as_ref().filter(|pattern| DateForm::new(pattern).is_none()) {
        return Err(DataError::Read(ReadError::BadDateFormat { text: text.clone() }));
    }
    if let Some(names) = &options.date_column {
        let field = |name: &String| {
            let at = sheet.names.iter().position(|n| n == name || (n.is_empty() && name == "date"));
            at.ok_or_else(|| {
                let (file, known) = (sheet.file.clone(), sheet.names.clone());
                DataError::Series(SeriesError::UnknownColumn { file, name: name.clone(), known })
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
    if found.is_none() && options.date_format.is_none() {
        found = numbers.iter().find_map(|field| by_steps(sheet, *field));
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
    if matches!(options.purpose, Purpose::NewRun | Purpose::Unknown) {
        return Ok(None);
    }
    let elsewhere = ReadOptions { date_column: None, ..options.clone() };
    let mut found = match find(sheet, &elsewhere, taken) {
        Ok(Some(found)) => Some(found),
        Ok(None) | Err(_) => find(sheet, &ReadOptions { date_format: None, ..elsewhere }, taken)?,
    };
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
    let name = sheet.names.get(field).map_or("", String::as_str);
    if name.is_empty() || name.eq_ignore_ascii_case("unnamed: 0") {
        let year = |cell: Cell<'_>| match cell {
            Cell::Text(text) => text.parse().ok(),
            Cell::Integer(n) => u32::try_from(n).ok(),
            Cell::Empty | Cell::Boolean(_) | Cell::Float(_) | Cell::Decimal(_) | Cell::Time(_) => None,
        };
        let years: Vec<Option<u32>> = sheet.cells(field).map(year).collect();
        return field == 0 && years.windows(2).all(|pair| pair.first() < pair.last());
    }
    let lower = name.to_ascii_lowercase();
    TimeName::of(name).is_some()
        || lower.split(|c: char| !c.is_ascii_alphabetic()).any(|word| WORDS.contains(&word))
}

/// Dates in digits under a name that does not say so, which are as far apart as dates are and as no count is: 202012, 202101.
fn by_steps(sheet: &Sheet, field: usize) -> Option<DateSource> {
    let number = |cell: Cell<'_>| cell.text().parse::<i64>().ok();
    let numbers: Vec<i64> = sheet.cells(field).map(number).collect::<Option<_>>()?;
    let step = |pair: &[i64]| pair.last().zip(pair.first()).map(|(b, a)| b.wrapping_sub(*a));
    let mut steps = numbers.windows(2).map(step);
    let first = steps.next()?;
    let ascending = numbers.is_sorted_by(|a, b| a < b);
    if !ascending || numbers.first().is_none_or(|n| *n < 100_000) || steps.all(|step| step == first) {
        return None;
    }
    let dates = find_form(sheet.cells(field), None).ok()?;
    let spacing = Spacing::of(&dates.values);
    let even = dates.values.len() > 3 && spacing.gaps.is_empty() && spacing.uneven.is_none();
    even.then(|| named_source(sheet, vec![field], dates))
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
        let text = first.text();
        let of_whole = || digits(&text).is_some_and(|(whole, _)| !patterns(&whole).is_empty());
        if !given && !exact(field) && patterns(&text).is_empty() && !of_whole() {
            continue;
        }
        match read_fields(sheet, &[field], options) {
            Ok(dates) => return Ok(Some(named_source(sheet, vec![field], dates))),
            Err(why) => {
                let numeric = is_numeric(sheet, field);
                let mostly = match &why {
                    NotDates::Cell { dates, .. } => *dates * 2 >= sheet.len(),
                    NotDates::Ambiguous { .. } | NotDates::Century { .. } => true,
                };
                let ambiguous = matches!(why, NotDates::Ambiguous { .. });
                // A column that is called a date, or is one but for some cells, is not left out in silence.
                if (exact(field) || mostly) && (!numeric || ambiguous) && refused.is_none() {
                    refused = Some(error(sheet, &[field], why, options));
                }
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

/// The year and the parts of it in columns of these names, or of such cells: of several that are dates together those with the
/// most dates.
fn apart(sheet: &Sheet, free: &[usize], options: &ReadOptions) -> Result<Option<DateSource>, DataError> {
    let parts: Vec<(usize, Part)> =
        free.iter().map(|field| (*field, Part::of(sheet, *field, None))).collect();
    let of = |wanted| parts.iter().find(|(_, part)| *part == wanted).map(|(field, _)| *field);
    let Some(year) = of(Part::Year) else { return Ok(None) };
    let (month, day) = (of(Part::Month), of(Part::Day));
    let (hour, minute) = (of(Part::Hour).or(of(Part::HourEnding)), of(Part::Minute));
    let clock = hour.into_iter().chain(minute.filter(|_| of(Part::Hour).is_some()));
    let days = month.zip(day).map(|(month, day)| [year, month, day].into_iter().chain(clock).collect());
    let pair = |part: Option<usize>| Some(vec![year, part?]);
    let all: [Option<Vec<usize>>; 5] =
        [days, pair(month), pair(of(Part::Quarter)), pair(of(Part::Week)), pair(of(Part::DayOfYear))];
    // Columns of these names that hold something else are no date.
    let read = |fields: Vec<usize>| read_fields(sheet, &fields, options).ok().map(|dates| (fields, dates));
    let distinct = |dates: &DateColumn| dates.values.iter().collect::<HashSet<_>>().len();
    let found = all.into_iter().flatten().filter_map(read).rev().max_by_key(|(_, dates)| distinct(dates));
    let Some((fields, mut dates)) = found else {
        let beside = [Part::Month, Part::Quarter, Part::Week, Part::DayOfYear].into_iter().find_map(of);
        return match beside.filter(|field| sheet.cells(*field).all(Cell::is_count)) {
            Some(field) => {
                let both = quoted(sheet, &[year, field]);
                Err(unread(
                    sheet,
                    format!("{both} are no dates together (weeks are those of ISO 8601)"),
                    options,
                ))
            }
            None => Ok(None),
        };
    };
    let name = |field: &usize| sheet.names.get(*field).map_or("", String::as_str);
    let fiscal = |field: &usize| TimeName::of(name(field)).is_some_and(|name| name.has(Word::Fiscal));
    if fields.iter().any(fiscal) {
        let ordered = dates.values.is_sorted_by(|a, b| a < b) || dates.values.is_sorted_by(|a, b| a > b);
        if !ordered && !fields.iter().all(fiscal) {
            let what = format!(
                "{} are no dates in the order of the rows, since a fiscal year may begin in any month",
                quoted(sheet, &fields)
            );
            return Err(unread(sheet, what, options));
        }
        dates.note = Some(format!("{}: dates are those of calendar years", quoted(sheet, &fields)));
    }
    Ok(Some(named_source(sheet, fields, dates)))
}

/// The names of columns, for a message.
fn quoted(sheet: &Sheet, fields: &[usize]) -> String {
    list(&fields.iter().map(|field| format!("`{}`", sheet.column_name(*field))).collect::<Vec<_>>())
}

/// That columns are called a time and cannot be read as one.
fn unread(sheet: &Sheet, what: String, options: &ReadOptions) -> DataError {
    let (file, advice) = (sheet.file.clone(), options.purpose.time_columns());
    FormError::TimeColumns { file, what, advice }.into()
}

/// Columns that are called a time, of a file without dates: those that do not count its rows are an error, as nothing says
/// what they are. Columns that settings name are what they say, and so are all where the columns to forecast are named.
pub(crate) fn check_unread(sheet: &Sheet, options: &ReadOptions, taken: &[usize]) -> Result<(), DataError> {
    if options.columns.is_some() || options.targets {
        return Ok(());
    }
    let plain = |field: &usize| {
        let name = sheet.column_name(*field);
        let named = options.named.contains(&name) || taken.contains(field);
        !named && TimeName::of(&name).is_some_and(|name| name.is_plain())
    };
    let whole = |field: &usize| {
        let mut cells = sheet.cells(*field).filter(|cell| !cell.is_missing()).peekable();
        cells.peek().is_some() && cells.all(|cell| digits(&cell.text()).is_some())
    };
    // What has two values is a mark.
    let many = |field: &usize| sheet.cells(*field).collect::<HashSet<_>>().len() > 2;
    let fields: Vec<usize> = (0..sheet.names.len())
        .filter(plain)
        .filter(whole)
        .filter(many)
        .filter(|f| !ascends(sheet, *f))
        .collect();
    if fields.is_empty() {
        return Ok(());
    }
    let (are, dates) = if fields.len() == 1 {
        ("is called a time and is", "date")
    } else {
        ("are called times and are", "dates")
    };
    Err(unread(
        sheet,
        format!("{} {are} no {dates} of a known form, and no other column is one", quoted(sheet, &fields)),
        options,
    ))
}

/// Refuses columns of whole numbers that are called a time of day or a part of a year and would name series.
pub(crate) fn check_series(sheet: &Sheet, ids: &[usize], options: &ReadOptions) -> Result<(), DataError> {
    let time = |field: &usize| {
        TimeName::of(&sheet.column_name(*field)).is_some() && sheet.cells(*field).all(Cell::is_count)
    };
    match ids.iter().copied().filter(time).collect::<Vec<_>>() {
        fields if fields.is_empty() => Ok(()),
        fields => {
            let what =
                format!("dates repeat, and {} cannot be read as their times of day", quoted(sheet, &fields));
            Err(unread(sheet, what, options))
        }
    }
}

/// Whether the numbers of a column ascend from row to row.
fn ascends(sheet: &Sheet, field: usize) -> bool {
    let number = |cell: Cell<'_>| match cell.number(NumberForm::POINT) {
        Number::Finite(value) => Some(value),
        Number::Missing | Number::Infinite | Number::Text => None,
    };
    let all: Option<Vec<f64>> = sheet.cells(field).map(number).collect();
    all.is_some_and(|all| all.len() > 1 && all.is_sorted_by(|a, b| a < b))
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
    let others: Vec<(usize, Part)> = free
        .iter()
        .filter(|field| !found.fields.contains(field))
        .map(|field| (*field, Part::of(sheet, *field, None)))
        .collect();
    let is = |wanted: &'static [Part]| {
        others.iter().filter(|(_, part)| wanted.contains(part)).map(|(field, _)| *field)
    };
    let minute = is(&[Part::Minute]).next();
    let hours = is(&[Part::Hour]).map(|hour| [hour].into_iter().chain(minute).collect::<Vec<_>>());
    let counted = is(&[Part::HourEnding, Part::HalfHour]).map(|field| vec![field]);
    let timed = |field: &usize| {
        let called = TimeName::of(&sheet.column_name(*field)).is_some_and(|name| name.has(Word::Time));
        let four = |text: &str| text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit());
        sheet.cells(*field).all(|cell| cell.as_text().is_some_and(|t| time_of_day(t) || called && four(t)))
    };
    let timed = is(&[Part::Text]).filter(timed).map(|field| vec![field]);
    for clock in hours.chain(counted).chain(timed) {
        let fields: Vec<usize> = found.fields.iter().copied().chain(clock).collect();
        if let Ok(mut dates) = read_fields(sheet, &fields, options) {
            if is(&[Part::HourEnding, Part::HalfHour]).any(|field| fields.contains(&field)) {
                dates.note =
                    Some(format!("{}: dates are the times at which the hours begin", quoted(sheet, &fields)));
            }
            return Ok(DateSource { fields, dates, ..found });
        }
    }
    let to_24 = |field: &usize| sheet.cells(*field).any(|cell| cell.text() == "24");
    if let Some(hour) = is(&[Part::Hour]).find(to_24) {
        let what = format!(
            "dates repeat, and {} counts to 24, where hours are 0 to 23 (call the column hour_ending if an hour is named by its end)",
            quoted(sheet, &[hour])
        );
        return Err(unread(sheet, what, options));
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
    let apart = fields.len() > 1 && TimeName::of(name).is_some_and(|name| name.is_year());
    let name = if name.is_empty() || name == "Unnamed: 0" || apart { "date" } else { name };
    DateSource { name: name.to_owned(), fields, dates }
}

fn read_fields(sheet: &Sheet, fields: &[usize], options: &ReadOptions) -> Result<DateColumn, NotDates> {
    let form = options.date_format.as_deref().and_then(DateForm::new);
    if let &[field] = fields {
        let cells = sheet.cells(field);
        return match form {
            Some(form) => read(&form, cells),
            None => find_form(cells, digits_of(&sheet.column_name(field))),
        };
    }
    let part = |field: &usize| (*field, Part::of(sheet, *field, options.date_format.as_deref()));
    let parts: Vec<(usize, Part)> = fields.iter().map(part).collect();
    let joined: Vec<String> = (0..sheet.len()).map(|row| joined(sheet, &parts, row)).collect();
    let cells = joined.iter().map(|text| Cell::Text(text));
    match form {
        Some(form) => read(&form, cells),
        None => find_form(cells, None),
    }
}

/// What the digits of a column of this name are beside a year: weeks, or days of it.
fn digits_of(name: &str) -> Option<Word> {
    let name = TimeName::of(name)?;
    let whole = [Word::Ending, Word::Date, Word::Day, Word::Month].iter().any(|word| name.has(*word));
    [Word::Week, Word::DayOfYear].into_iter().find(|word| !whole && name.has(*word))
}

fn error(sheet: &Sheet, fields: &[usize], why: NotDates, options: &ReadOptions) -> DataError {
    let names = fields.iter().filter_map(|field| sheet.names.get(*field)).cloned().collect::<Vec<_>>();
    let column = names.join(", ");
    match why {
        NotDates::Cell { row, .. } => {
            let cells = fields.iter().map(|field| sheet.cell(row, *field).text());
            let (at, text) = (sheet.place(row), cells.collect::<Vec<_>>().join(" "));
            let form = options.date_format.as_deref().and_then(DateForm::new);
            DataError::Read(ReadError::BadDate {
                at,
                column,
                text,
                advice: options.purpose.date(form.as_ref()),
            })
        }
        NotDates::Ambiguous { first, second } => {
            let file = sheet.file.clone();
            let advice = options.purpose.ambiguous_dates(&first, &second);
            DataError::Read(ReadError::AmbiguousDates { file, column, first, second, advice })
        }
        NotDates::Century { first, last } => {
            FormError::Century { file: sheet.file.clone(), column, first, last }.into()
        }
    }
}
