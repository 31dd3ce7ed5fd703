//! What the columns of a table hold, and those of numbers read.

use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cells::cell::Cell;
use crate::cells::numbers::{Decimal, Number, NumberForm};
use crate::cells::units::{Unit, has_unit, unit_of};
use crate::error::DataError;
use crate::error::covariates::CovariateError;
use crate::message::setting::Setting;
use crate::message::{count, list, one_line};
use crate::read::dates::words::TimeName;
use crate::read::number_form::{FileMarks, Given, Reading, Readings, decide, of_file};
use crate::read::options::ReadOptions;
use crate::read::sheet::Sheet;
use crate::series::roles::{MOST_CATEGORIES, indicator};

/// A column of numbers.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// One for each row of the table, NaN where a value is missing.
    pub(crate) values: Vec<f64>,
}

/// The columns of a table.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Those to be used.
    pub(crate) numbers: Vec<Column>,
    /// What a person has to know of the others, and of how numbers were read.
    pub(crate) notes: Vec<String>,
    /// Names of those that hold text and were left out.
    pub(crate) texts: Vec<String>,
    /// How the numbers are written.
    pub(crate) marks: FileMarks,
}

/// What a column holds.
enum Kind {
    /// Names, by what was asked for.
    Names,
    Numbers(Readings),
    Booleans(Vec<f64>),
    RowNumbers,
    Empty,
    Text(Reading),
}

/// What a person has to know of the columns, by name.
#[derive(Default)]
struct Said {
    numbered: Vec<String>,
    texts: Vec<String>,
    empty: Vec<String>,
    sparse: Vec<String>,
    booleans: Vec<String>,
    /// Columns whose numbers have a unit.
    units: BTreeMap<Unit, Vec<String>>,
    commas: bool,
}

impl Said {
    /// The values of a column of numbers.
    fn numbers(&mut self, reading: Reading, name: &str) -> Vec<f64> {
        self.commas |= reading.form.decimal == Decimal::Comma;
        if let Some(unit) = reading.form.unit {
            self.units.entry(unit).or_default().push(name.to_owned());
        }
        reading.values
    }

    fn notes(&self) -> Vec<String> {
        let of = |what: &str, names: &[String], why: &str| {
            let columns = || format!("{}{what}: {}{why}", count(names.len(), "column"), list(names));
            (!names.is_empty()).then(columns)
        };
        let left_out = [
            of(" left out", &self.texts, " (text)"),
            of(" left out", &self.empty, " (empty)"),
            of(" left out", &self.sparse, ""),
            of(" of true and false read as 1 and 0", &self.booleans, ""),
        ];
        let units =
            self.units.iter().map(|(unit, names)| of(&format!(" read without their `{unit}`"), names, ""));
        let commas = self.commas.then(|| "numbers have a decimal comma".to_owned());
        self.numbered
            .iter()
            .cloned()
            .chain(left_out.into_iter().chain(units).flatten())
            .chain(commas)
            .collect()
    }
}

/// Reads the columns of numbers, but for the fields in `taken`.
///
/// Without [`ReadOptions::columns`], columns of text, empty ones, numbers of rows, and those of which more than half is
/// missing are left out and named; a column that is numbers but for some cells is an error, at the first of them.
/// The sheet gives up the text of columns of numbers.
pub(crate) fn read(sheet: &mut Sheet, options: &ReadOptions, taken: &[usize]) -> Result<Columns, DataError> {
    let asked = options.columns.is_some();
    let fields = chosen(sheet, options, taken)?;
    let categorical: HashSet<&String> = options.categorical.iter().collect();
    let there: HashSet<String> = match categorical.is_empty() {
        true => HashSet::new(),
        false => fields.iter().map(|field| sheet.column_name(*field)).collect(),
    };
    if let Some(name) = options.categorical.iter().find(|name| !there.contains(*name)) {
        let known = fields.iter().map(|field| sheet.column_name(*field)).collect();
        return Err(DataError::Series(SeriesError::UnknownColumn {
            file: sheet.file.clone(),
            name: name.clone(),
            known,
        }));
    }
    let given = Given::of(options)?;
    let kinds: Vec<(usize, Kind)> = fields
        .into_iter()
        .map(|field| match categorical.contains(&sheet.column_name(field)) {
            true => (field, Kind::Names),
            false => {
                let kind = kind(sheet, field, given);
                if matches!(kind, Kind::Numbers(_) | Kind::Booleans(_)) {
                    sheet.forget(field);
                }
                (field, kind)
            }
        })
        .collect();
    let sheet = &*sheet;
    let readings: Vec<(usize, &Readings)> = kinds
        .iter()
        .filter_map(
            |(field, kind)| if let Kind::Numbers(readings) = kind { Some((*field, readings)) } else { None },
        )
        .collect();
    let decided = decide(sheet, &readings, given)?;
    let (mut marks, mut first_text) = (Vec::new(), None);
    let (mut numbers, mut said) = (Vec::new(), Said::default());
    for (field, kind) in kinds {
        let name = sheet.column_name(field);
        let values = match kind {
            Kind::Names => {
                numbers.append(&mut indicators(sheet, options, field)?);
                continue;
            }
            Kind::Booleans(values) => {
                said.booleans.push(name.clone());
                values
            }
            Kind::RowNumbers if !asked => {
                let unnamed = sheet.names.get(field).is_none_or(String::is_empty);
                let which = if unnamed { "the first column".to_owned() } else { format!("column `{name}`") };
                let why = if evenly(sheet, field) { "it numbers the rows".to_owned() } else { uneven() };
                said.numbered.push(format!("{which} left out: {why}"));
                continue;
            }
            Kind::Empty if !asked && options.fill.is_none() => {
                said.empty.push(name);
                continue;
            }
            Kind::Text(best) if asked || best.good > 0 && best.good * 2 >= best.present => {
                return Err(not_a_number(sheet, given, field, best.bad));
            }
            Kind::Text(best) => {
                first_text.get_or_insert((field, best.bad));
                said.texts.push(name);
                continue;
            }
            Kind::Numbers(readings) => {
                let reading = readings.by(decided.decimal);
                marks.push((field, reading.marks.clone()));
                said.numbers(reading, &name)
            }
            Kind::RowNumbers | Kind::Empty => Reading::of(sheet, field, NumberForm::POINT, true).values,
        };
        let missing = values.iter().filter(|v| v.is_nan()).count();
        if !asked && options.fill.is_none() && missing * 2 > values.len() {
            said.sparse.push(format!("`{name}` ({missing} of {} values missing)", values.len()));
            continue;
        }
        numbers.push(Column { name, values });
    }
    if numbers.is_empty() {
        let why = first_text.map(|(field, bad)| not_a_number(sheet, given, field, bad));
        return Err(DataError::Series(SeriesError::NoNumericColumn {
            file: sheet.file.clone(),
            why: why.map_or_else(String::new, |why| format!(" ({why})")),
        }));
    }
    let marks = of_file(sheet, &marks, given, &decided)?;
    let mut notes = said.notes();
    notes.extend(decided.note(sheet));
    Ok(Columns { numbers, notes, texts: said.texts, marks })
}

/// A column for each name in a column of names: those that were asked for, or all that are there, in their order.
fn indicators(sheet: &Sheet, options: &ReadOptions, field: usize) -> Result<Vec<Column>, DataError> {
    let column = sheet.column_name(field);
    let prefix = indicator(&column, "");
    let asked: Vec<String> = options
        .columns
        .iter()
        .flatten()
        .filter_map(|name| Some(name.strip_prefix(&prefix)?.to_owned()))
        .collect();
    let mut found = BTreeMap::new();
    for (row, cell) in sheet.cells(field).enumerate() {
        // `None` and `NA` are names here.
        if cell.is_empty() {
            let at = sheet.place(row);
            return Err(CovariateError::NoCategory { at, column }.into());
        }
        found.entry(cell.text().into_owned()).or_insert(row);
    }
    let unknown = found.iter().find(|(text, _)| !asked.is_empty() && !asked.contains(text));
    if let Some((text, row)) = unknown {
        let (at, text) = (sheet.place(*row), one_line(text));
        return Err(CovariateError::Category { at, column, text, known: asked }.into());
    }
    let all = if asked.is_empty() { found.into_keys().collect() } else { asked };
    if all.len() > MOST_CATEGORIES {
        let (file, found, most) = (sheet.file.clone(), all.len(), MOST_CATEGORIES);
        return Err(CovariateError::Categories { file, column, found, most }.into());
    }
    let one = |category: String| {
        let is = |cell: Cell<'_>| f64::from(u8::from(cell.text() == category));
        Column { name: indicator(&column, &category), values: sheet.cells(field).map(is).collect() }
    };
    Ok(all.into_iter().map(one).collect())
}

/// The fields that are asked for, in their order; all free ones otherwise. Columns of a column of names ask for it once.
fn chosen(sheet: &Sheet, options: &ReadOptions, taken: &[usize]) -> Result<Vec<usize>, DataError> {
    let taken: HashSet<usize> = taken.iter().copied().collect();
    let free: Vec<usize> = (0..sheet.names.len()).filter(|field| !taken.contains(field)).collect();
    let Some(names) = options.file_columns() else { return Ok(free) };
    let named: HashMap<String, usize> =
        free.iter().map(|field| (sheet.column_name(*field), *field)).collect();
    let place = |name: &String| {
        named.get(name).copied().ok_or_else(|| {
            let (file, known) =
                (sheet.file.clone(), free.iter().map(|field| sheet.column_name(*field)).collect());
            DataError::Series(SeriesError::UnknownColumn { file, name: name.clone(), known })
        })
    };
    names.iter().map(place).collect()
}

/// The first cell that is no number, as an error.
fn not_a_number(sheet: &Sheet, given: Given, field: usize, bad: Option<(usize, bool)>) -> DataError {
    let (row, infinite) = bad.unwrap_or((0, false));
    let (at, column) = (sheet.place(row), sheet.column_name(field));
    let text = sheet.cell(row, field).text().into_owned();
    if infinite {
        DataError::Read(ReadError::Infinite { at, column, text })
    } else {
        let advice = given.advice(&text);
        DataError::Read(ReadError::NotANumber { at, column, text, advice })
    }
}

fn kind(sheet: &Sheet, field: usize, given: Given) -> Kind {
    let present = || sheet.cells(field).filter(|cell| !cell.is_missing());
    let Some(first) = present().next() else { return Kind::Empty };
    if present().all(|cell| cell.truth().is_some()) {
        let value = |cell: Cell<'_>| cell.truth().map_or(f64::NAN, |yes| f64::from(u8::from(yes)));
        return Kind::Booleans(sheet.cells(field).map(value).collect());
    }
    let name = sheet.names.get(field).map_or("", String::as_str);
    if row_numbers(sheet, field, name) {
        return Kind::RowNumbers;
    }
    let plain = NumberForm { decimal: given.decimal.unwrap_or(Decimal::Point), unit: None };
    let number = |cell: Cell<'_>| matches!(cell.number(plain), Number::Finite(_));
    let has = |cell: Cell<'_>, unit| cell.as_text().is_some_and(|text| has_unit(text, unit));
    // A unit that more cells have than are numbers without one.
    let unit = first.as_text().and_then(unit_of).filter(|unit| {
        present().filter(|cell| has(*cell, unit)).count() > present().filter(|cell| number(*cell)).count()
    });
    Readings::of(sheet, field, given, unit).map_or_else(Kind::Text, Kind::Numbers)
}

/// Why a column is left out that orders the rows.
fn uneven() -> String {
    format!(
        "it ascends and is no date, so the rows are counted; {} says how dates are written",
        Setting("date-format")
    )
}

/// Whether the numbers of a column have one step.
fn evenly(sheet: &Sheet, field: usize) -> bool {
    let numbers: Vec<f64> = sheet
        .cells(field)
        .map(|cell| if let Number::Finite(value) = cell.number(NumberForm::POINT) { value } else { f64::NAN })
        .collect();
    let step = |pair: &[f64]| pair.last().zip(pair.first()).map(|(b, a)| b - a);
    let mut steps = numbers.windows(2).map(step);
    let first = steps.next().flatten();
    steps.all(|step| step == first)
}

/// Whether a column numbers the rows: the first one without a name or called an index, from 0 or 1; or one that is
/// called a time, ascends, and is no date.
fn row_numbers(sheet: &Sheet, field: usize, name: &str) -> bool {
    let named = |names: &[&str]| names.iter().any(|n| name.eq_ignore_ascii_case(n));
    let number = |cell: Cell<'_>| match cell.number(NumberForm::POINT) {
        Number::Finite(value) => Some(value),
        Number::Missing | Number::Infinite | Number::Text => None,
    };
    let numbers = || sheet.cells(field).map(number);
    if field == 0 && (name.is_empty() || named(&["Unnamed: 0", "index", "rownames"])) {
        let start = numbers().next().flatten();
        let counts = |start: f64| numbers().zip(0_u32..).all(|(n, i)| n == Some(start + f64::from(i)));
        return start.is_some_and(|start| [0.0, 1.0].contains(&start) && counts(start))
            && sheet.names.len() > 1;
    }
    let time = TimeName::of(name).is_some_and(|name| name.is_plain());
    let all: Option<Vec<f64>> = if time { numbers().collect() } else { None };
    all.is_some_and(|all| all.len() > 1 && all.is_sorted_by(|a, b| a < b))
}
