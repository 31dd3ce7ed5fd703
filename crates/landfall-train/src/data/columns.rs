//! What the columns of a table hold, and those of numbers read.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::CovariateError;
use super::cell::Cell;
use super::covariates::{MOST_CATEGORIES, indicator};
use super::error::DataError;
use super::message::{count, list, one_line};
use super::numbers::{Decimal, Number, NumberForm, sign_of};
use super::purpose::Purpose;
use super::sheet::{ReadOptions, Sheet};

/// A column of numbers.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// One for each row of the table, NaN where a value is missing.
    pub(super) values: Vec<f64>,
}

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    /// Those to be used.
    pub(super) numbers: Vec<Column>,
    /// What a person has to know of the others, and of how numbers were read.
    pub(super) notes: Vec<String>,
}

/// A column as one form of numbers reads it.
struct Reading {
    form: NumberForm,
    values: Vec<f64>,
    /// The first cell that is no number: its row, and whether it is infinite.
    bad: Option<(usize, bool)>,
    /// Cells that are numbers.
    good: usize,
    /// Cells that are not missing.
    present: usize,
}

impl Reading {
    fn of(sheet: &Sheet, field: usize, form: NumberForm) -> Self {
        let values = Vec::with_capacity(sheet.len());
        let mut reading = Self { form, values, bad: None, good: 0, present: 0 };
        for (row, cell) in sheet.cells(field).enumerate() {
            let number = cell.number(form);
            reading.present += usize::from(number != Number::Missing);
            reading.values.push(match number {
                Number::Finite(value) => {
                    reading.good += 1;
                    value
                }
                Number::Missing => f64::NAN,
                Number::Infinite | Number::Text => {
                    reading.bad.get_or_insert((row, number == Number::Infinite));
                    f64::NAN
                }
            });
        }
        reading
    }
}

/// What a column holds.
enum Kind {
    /// Names, by what was asked for.
    Names,
    Numbers {
        point: Reading,
        comma: Option<Reading>,
        /// Whether cells have a point or a comma.
        marks: Marks,
    },
    Booleans(Vec<f64>),
    RowNumbers,
    Empty,
    Text(Reading),
}

/// Marks that stand in the cells of a column.
#[derive(Clone, Copy)]
struct Marks {
    point: bool,
    comma: bool,
}

/// What a person has to know of the columns, by name.
#[derive(Default)]
struct Said {
    numbered: Option<String>,
    texts: Vec<String>,
    empty: Vec<String>,
    sparse: Vec<String>,
    booleans: Vec<String>,
    /// Columns whose numbers have a sign.
    signs: BTreeMap<char, Vec<String>>,
    commas: bool,
}

impl Said {
    /// The values of a column of numbers.
    fn numbers(&mut self, reading: Reading, name: &str) -> Vec<f64> {
        self.commas |= reading.form.decimal == Decimal::Comma;
        if let Some(sign) = reading.form.sign {
            self.signs.entry(sign).or_default().push(name.to_owned());
        }
        reading.values
    }

    fn notes(self) -> Vec<String> {
        let of = |what: &str, names: &[String], why: &str| {
            let columns = || format!("{}{what}: {}{why}", count(names.len(), "column"), list(names));
            (!names.is_empty()).then(columns)
        };
        let left_out = [
            self.numbered.map(|name| format!("{name} left out: it numbers the rows")),
            of(" left out", &self.texts, " (text)"),
            of(" left out", &self.empty, " (empty)"),
            of(" left out", &self.sparse, ""),
            of(" of true and false read as 1 and 0", &self.booleans, ""),
        ];
        let signs =
            self.signs.iter().map(|(sign, names)| of(&format!(" read without their `{sign}`"), names, ""));
        let commas = self.commas.then(|| "numbers have a decimal comma".to_owned());
        left_out.into_iter().chain(signs).flatten().chain(commas).collect()
    }
}

/// Reads the columns of numbers, but for the fields in `taken`.
///
/// Without [`ReadOptions::columns`], columns of text, empty ones, numbers of rows, and those of which more than half is
/// missing are left out and named; a column that is numbers but for some cells is an error, at the first of them.
/// The sheet gives up the text of columns of numbers.
pub(super) fn read(sheet: &mut Sheet, options: &ReadOptions, taken: &[usize]) -> Result<Columns, DataError> {
    let asked = options.columns.is_some();
    let fields = chosen(sheet, options, taken)?;
    let categorical: HashSet<&String> = options.categorical.iter().collect();
    let there: HashSet<String> = match categorical.is_empty() {
        true => HashSet::new(),
        false => fields.iter().map(|field| sheet.column_name(*field)).collect(),
    };
    if let Some(name) = options.categorical.iter().find(|name| !there.contains(*name)) {
        let known = fields.iter().map(|field| sheet.column_name(*field)).collect();
        return Err(DataError::UnknownColumn { file: sheet.file.clone(), name: name.clone(), known });
    }
    let kinds: Vec<(usize, Kind)> = fields
        .into_iter()
        .map(|field| match categorical.contains(&sheet.column_name(field)) {
            true => (field, Kind::Names),
            false => {
                let kind = kind(sheet, field);
                if matches!(kind, Kind::Numbers { .. } | Kind::Booleans(_)) {
                    sheet.forget(field);
                }
                (field, kind)
            }
        })
        .collect();
    let sheet = &*sheet;
    let comma = decimal_comma(sheet, &kinds);
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
                said.numbered =
                    Some(if unnamed { "the first column".to_owned() } else { format!("column `{name}`") });
                continue;
            }
            Kind::Empty if !asked && options.fill.is_none() => {
                said.empty.push(name);
                continue;
            }
            Kind::Text(best) if asked || best.good > 0 && best.good * 2 >= best.present => {
                return Err(not_a_number(sheet, options.purpose, field, best.bad));
            }
            Kind::Text(_) => {
                said.texts.push(name);
                continue;
            }
            Kind::Numbers { point, comma: Some(other), .. } if comma || point.bad.is_some() => {
                said.numbers(other, &name)
            }
            Kind::Numbers { point, .. } => said.numbers(point, &name),
            Kind::RowNumbers | Kind::Empty => Reading::of(sheet, field, NumberForm::POINT).values,
        };
        let missing = values.iter().filter(|v| v.is_nan()).count();
        if !asked && options.fill.is_none() && missing * 2 > values.len() {
            said.sparse.push(format!("`{name}` ({missing} of {} values missing)", values.len()));
            continue;
        }
        numbers.push(Column { name, values });
    }
    if numbers.is_empty() {
        return Err(DataError::NoNumericColumn { file: sheet.file.clone() });
    }
    Ok(Columns { numbers, notes: said.notes() })
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
            let at = sheet.place(row).to_string();
            return Err(CovariateError::NoCategory { at, column }.into());
        }
        found.entry(cell.text().into_owned()).or_insert(row);
    }
    let unknown = found.iter().find(|(text, _)| !asked.is_empty() && !asked.contains(text));
    if let Some((text, row)) = unknown {
        let (at, text) = (sheet.place(*row).to_string(), one_line(text));
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
            DataError::UnknownColumn { file, name: name.clone(), known }
        })
    };
    names.iter().map(place).collect()
}

/// The first cell that is no number, as an error.
fn not_a_number(sheet: &Sheet, purpose: Purpose, field: usize, bad: Option<(usize, bool)>) -> DataError {
    let (row, infinite) = bad.unwrap_or((0, false));
    let (at, column) = (sheet.place(row), sheet.names.get(field).cloned().unwrap_or_default());
    let text = sheet.cell(row, field).text().into_owned();
    if infinite {
        DataError::Infinite { at, column, text }
    } else {
        DataError::NotANumber { at, column, text, advice: purpose.cell() }
    }
}

fn kind(sheet: &Sheet, field: usize) -> Kind {
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
    let plain = Reading::of(sheet, field, NumberForm::POINT);
    let signed = |sign| Reading::of(sheet, field, NumberForm { sign: Some(sign), ..NumberForm::POINT });
    let sign = first.as_text().and_then(sign_of).filter(|_| plain.bad.is_some());
    let point = match sign.map(signed) {
        Some(signed) if signed.good > plain.good => signed,
        Some(_) | None => plain,
    };
    let of = |decimal| Reading::of(sheet, field, NumberForm { decimal, sign });
    let marks = if sheet.separator == Some(';') { &[',', '.'][..] } else { &[','] };
    let marked = !sheet.is_typed() && present().any(|cell| has_mark(cell, marks));
    let comma = marked.then(|| of(Decimal::Comma));
    let has = |mark| present().any(|cell| has_mark(cell, &[mark]));
    let marks = |comma: bool| Marks { point: !comma && has('.'), comma: comma && has(',') };
    match (point.bad, comma) {
        (None, comma) => {
            let comma = comma.filter(|c| c.bad.is_none());
            let marks = marks(comma.is_some());
            Kind::Numbers { point, comma, marks }
        }
        (Some(_), Some(comma)) if comma.bad.is_none() => {
            Kind::Numbers { point, comma: Some(comma), marks: marks(true) }
        }
        (Some(_), comma) => Kind::Text(match comma {
            Some(comma) if comma.good > point.good => comma,
            Some(_) | None => point,
        }),
    }
}

/// Whether a cell is text with one of these marks in it.
fn has_mark(cell: Cell<'_>, marks: &[char]) -> bool {
    cell.as_text().is_some_and(|text| text.contains(marks))
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
    let all: Option<Vec<f64>> =
        if named(&["date", "timestamp", "time", "datetime", "ds"]) { numbers().collect() } else { None };
    all.is_some_and(|all| all.len() > 1 && all.windows(2).all(|pair| pair.first() < pair.last()))
}

/// Whether the numbers of the file have a decimal comma, where a column may be read both ways: as those columns that
/// may be read one way alone, else with a comma where `;` separates the fields.
fn decimal_comma(sheet: &Sheet, kinds: &[(usize, Kind)]) -> bool {
    let (mut only_comma, mut only_point, mut both) = (false, false, false);
    for (_, kind) in kinds {
        if let Kind::Numbers { point, comma, marks } = kind {
            only_comma |= point.bad.is_some();
            only_point |= comma.is_none() && marks.point;
            both |= comma.is_some() && point.bad.is_none() && marks.comma;
        }
    }
    match (only_comma, only_point) {
        (true, false) => true,
        (false, true) => false,
        (true, true) | (false, false) => both && sheet.separator == Some(';'),
    }
}
