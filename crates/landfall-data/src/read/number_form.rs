//! Which of point and comma is the decimal mark of a file's numbers: what the settings say, else what the numbers say, else what the
//! separator of the fields says.

use crate::cells::cell::Cell;
use crate::cells::numbers::{Decimal, Marks, Number, NumberForm};
use crate::cells::units::{Unit, unit_of};
use crate::dates::purpose::Purpose;
use crate::error::form::FormError;
use crate::message::one_line;
use crate::message::place::Place;
use crate::message::setting::Setting;
use crate::read::options::ReadOptions;
use crate::read::sheet::Sheet;

/// What the settings say of how numbers are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    pub(crate) decimal: Option<Decimal>,
    thousands: Option<char>,
    purpose: Purpose,
}

impl Given {
    pub(crate) fn of(options: &ReadOptions) -> Result<Self, FormError> {
        let bad = |setting, mark: char| FormError::BadMark { setting, text: mark.to_string() };
        let decimal = match options.decimal {
            None => None,
            Some('.') => Some(Decimal::Point),
            Some(',') => Some(Decimal::Comma),
            Some(other) => return Err(bad(Setting("decimal"), other)),
        };
        let implied = match options.thousands {
            None | Some(' ' | '\'') => None,
            Some(',') => Some(Decimal::Point),
            Some('.') => Some(Decimal::Comma),
            Some(other) => return Err(bad(Setting("thousands"), other)),
        };
        if let (Some(decimal), Some(implied)) = (decimal, implied)
            && decimal != implied
        {
            return Err(FormError::OneMark { mark: decimal.mark() });
        }
        let (thousands, purpose) = (options.thousands, options.purpose);
        Ok(Self { decimal: decimal.or(implied), thousands, purpose })
    }

    /// What to do about a cell that is no number.
    pub(crate) fn advice(self, text: &str) -> String {
        let usual = self.purpose.cell();
        let unit = unit_of(text);
        let reads = |decimal| matches!((NumberForm { decimal, unit }).read(text), Number::Finite(_));
        let Some(own) = self.decimal.filter(|own| reads(own.other())) else { return usual };
        let (name, example) = (own.name(), own.example());
        match self.purpose {
            Purpose::NewRun => format!("numbers are asked for with a decimal {name}, as {example}; {usual}"),
            Purpose::Run | Purpose::Again | Purpose::Future | Purpose::Request => {
                format!("the run's numbers have a decimal {name}, as {example}; write it so, or {usual}")
            }
            Purpose::Unknown => {
                format!("other numbers have a decimal {name}, as {example}; write it so, or {usual}")
            }
        }
    }
}

/// A column as one form of numbers reads it.
pub(crate) struct Reading {
    pub(crate) form: NumberForm,
    pub(crate) values: Vec<f64>,
    /// The first cell that is no number: its row, and whether it is infinite.
    pub(crate) bad: Option<(usize, bool)>,
    /// Cells that are numbers.
    pub(crate) good: usize,
    /// Cells that are not missing.
    pub(crate) present: usize,
    pub(crate) marks: ColumnMarks,
}

/// A row and its cell, which outlives the text of its column.
type Witness = (usize, String);

/// What the marks of a column's cells say.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnMarks {
    decimal: bool,
    thousands: Option<char>,
    /// Whether a cell can be read in one way alone.
    sure: bool,
    /// The first cell with point or comma between its thousands that may be a decimal mark.
    doubtful: Option<Witness>,
}

impl ColumnMarks {
    fn add(&mut self, row: usize, cell: Cell<'_>, marks: Marks) {
        self.decimal |= marks.decimal;
        self.sure |= marks.sure && (marks.decimal || marks.thousands.is_some());
        if let Some(mark) = marks.thousands {
            self.thousands.get_or_insert(mark);
            if !marks.sure && self.doubtful.is_none() {
                self.doubtful = Some((row, cell.text().into_owned()));
            }
        }
    }
}

impl Reading {
    /// Reads a column; where it is known to be readable otherwise, as far as it can be read.
    pub(crate) fn of(sheet: &Sheet, field: usize, form: NumberForm, whole: bool) -> Self {
        let values = Vec::with_capacity(sheet.len());
        let marks = ColumnMarks::default();
        let mut reading = Self { form, values, bad: None, good: 0, present: 0, marks };
        for (row, cell) in sheet.cells(field).enumerate() {
            let (number, marks) = cell.read(form);
            reading.present += usize::from(number != Number::Missing);
            reading.values.push(match number {
                Number::Finite(value) => {
                    reading.good += 1;
                    reading.marks.add(row, cell, marks);
                    value
                }
                Number::Missing => f64::NAN,
                Number::Infinite | Number::Text => {
                    reading.bad.get_or_insert((row, number == Number::Infinite));
                    if !whole {
                        break;
                    }
                    f64::NAN
                }
            });
        }
        reading
    }

    /// The first row that another reading of the same cells gives another value.
    fn differs(&self, other: &Self) -> Option<usize> {
        let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
        self.values.iter().zip(&other.values).position(|pair| !same(pair))
    }
}

/// What a column of numbers says of the decimal mark.
pub(crate) enum Readings {
    /// Nothing: the mark is known, or none of its numbers has one.
    One(Reading),
    /// It is a point: this cell is no number with a decimal comma.
    Point(Reading, Witness),
    /// It is a comma, likewise.
    Comma(Reading, Witness),
    /// It may be either; this cell is another number then.
    Either { point: Reading, comma: Reading, cell: Witness },
}

impl Readings {
    /// The readings of a column whose numbers have this unit, if one; where none is sound, that with the most numbers.
    pub(crate) fn of(sheet: &Sheet, field: usize, given: Given, unit: Option<Unit>) -> Result<Self, Reading> {
        let of = |decimal, whole| Reading::of(sheet, field, NumberForm { decimal, unit }, whole);
        let first = of(given.decimal.unwrap_or(Decimal::Point), true);
        let marked = |cell: Cell<'_>| cell.as_text().is_some_and(|text| text.contains(['.', ',']));
        if given.decimal.is_some() || sheet.is_typed() || !sheet.cells(field).any(marked) {
            return if first.bad.is_none() { Ok(Self::One(first)) } else { Err(first) };
        }
        let whole = first.bad.is_some();
        let (point, comma) = (first, of(Decimal::Comma, whole));
        let cell = |row: usize| (row, sheet.cell(row, field).text().into_owned());
        match (point.bad, comma.bad) {
            (None, Some((row, _))) => Ok(Self::Point(point, cell(row))),
            (Some((row, _)), None) => Ok(Self::Comma(comma, cell(row))),
            (Some(_), Some(_)) => Err(if comma.good > point.good { comma } else { point }),
            (None, None) => Ok(match point.differs(&comma) {
                Some(row) => Self::Either { point, comma, cell: cell(row) },
                None => Self::One(point),
            }),
        }
    }

    /// The reading by the decimal mark of the file.
    pub(crate) fn by(self, decimal: Decimal) -> Reading {
        match (self, decimal) {
            (Self::One(reading) | Self::Point(reading, _) | Self::Comma(reading, _), _) => reading,
            (Self::Either { point, .. }, Decimal::Point) => point,
            (Self::Either { comma, .. }, Decimal::Comma) => comma,
        }
    }
}

/// The decimal mark of a file.
pub(crate) struct Decided {
    pub(crate) decimal: Decimal,
    /// The column and the cell of a number that may be read otherwise, where the separator of the fields decided.
    guessed: Option<(usize, Witness)>,
}

impl Decided {
    /// That no number decided.
    pub(crate) fn note(&self, sheet: &Sheet) -> Option<String> {
        let (field, (row, text)) = self.guessed.as_ref()?;
        let (name, other) = (self.decimal.name(), self.decimal.other());
        Some(format!(
            "numbers such as `{}` ({}, column `{}`) are read with a decimal {name}, since no number says which mark it is; if \
             it is a {}, give {} {}",
            one_line(text),
            sheet.place(*row),
            one_line(&sheet.column_name(*field)),
            other.name(),
            Setting("decimal"),
            other.mark(),
        ))
    }
}

/// The decimal mark of a file with these columns of numbers: that of the settings; that of the columns that can be read in one way;
/// a comma where `;` separates the fields, else a point.
pub(crate) fn decide(
    sheet: &Sheet,
    columns: &[(usize, &Readings)],
    given: Given,
) -> Result<Decided, FormError> {
    if let Some(decimal) = given.decimal {
        return Ok(Decided { decimal, guessed: None });
    }
    let (mut by_point, mut by_comma, mut either) = (None, None, None);
    for &(field, readings) in columns {
        match readings {
            Readings::One(_) => {}
            Readings::Point(_, cell) => by_point = by_point.or(Some((field, cell))),
            Readings::Comma(_, cell) => by_comma = by_comma.or(Some((field, cell))),
            Readings::Either { cell, .. } => either = either.or(Some((field, cell))),
        }
    }
    let sure = |decimal| Ok(Decided { decimal, guessed: None });
    match (by_point, by_comma, either) {
        (Some(point), Some(comma), _) => {
            Err(FormError::TwoMarks { point: named(sheet, point), comma: named(sheet, comma) })
        }
        (Some(_), None, _) | (None, None, None) => sure(Decimal::Point),
        (None, Some(_), _) => sure(Decimal::Comma),
        // Nobody separates fields by commas who has decimal commas; thousands apart, a point is one.
        (None, None, Some((_, (_, text)))) if sheet.separator == Some(',') && !text.contains(',') => {
            sure(Decimal::Point)
        }
        (None, None, Some(guessed)) => {
            let (semicolon, comma) = (sheet.separator == Some(';'), guessed.1.1.contains(','));
            let decimal = match given.purpose {
                Purpose::NewRun | Purpose::Unknown if semicolon => Decimal::Comma,
                // As runs read it that did not keep what they read.
                Purpose::Again if semicolon && comma => Decimal::Comma,
                Purpose::NewRun | Purpose::Again | Purpose::Unknown => Decimal::Point,
                Purpose::Run | Purpose::Future | Purpose::Request => {
                    return Err(doubtful(sheet, guessed, None));
                }
            };
            let (field, cell) = guessed;
            Ok(Decided { decimal, guessed: Some((field, cell.clone())) })
        }
    }
}

/// A cell and its place, for a message.
fn named(sheet: &Sheet, (field, (row, text)): (usize, &Witness)) -> (Place, String, String) {
    (sheet.place(*row), sheet.column_name(field), text.clone())
}

/// A number that may be two; `own` is the decimal mark of the run.
fn doubtful(sheet: &Sheet, at: (usize, &Witness), own: Option<Decimal>) -> FormError {
    let (at, column, text) = named(sheet, at);
    let unit = unit_of(&text);
    let number = |decimal| match (NumberForm { decimal, unit }).read(&text) {
        Number::Finite(value) => value.to_string(),
        Number::Missing | Number::Infinite | Number::Text => String::new(),
    };
    let (point, comma) = (number(Decimal::Point), number(Decimal::Comma));
    FormError::Doubtful { at, column, text, point, comma, own: own.map(Decimal::name) }
}

/// What a whole file's numbers say of how they are written, for files that are read later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileMarks {
    pub(crate) decimal: Option<char>,
    pub(crate) thousands: Option<char>,
    /// Whether the separator of the fields decided, and no number.
    pub(crate) guessed: bool,
}

/// The marks of the columns that are read, which may not contradict those of the run.
pub(crate) fn of_file(
    sheet: &Sheet,
    columns: &[(usize, ColumnMarks)],
    given: Given,
    decided: &Decided,
) -> Result<FileMarks, FormError> {
    let decimal = decided.decimal;
    let seen = columns.iter().find_map(|(_, marks)| marks.thousands);
    let other = decimal.other().mark();
    let doubt = columns.iter().find_map(|(field, marks)| Some((*field, marks.doubtful.as_ref()?)));
    // A run whose numbers have no groups reads a lone comma as none of them where no number of the file says that it is.
    let later = matches!(given.purpose, Purpose::Run | Purpose::Future | Purpose::Request);
    let sure = columns.iter().any(|(_, marks)| marks.sure);
    if let (true, Some(own), None, Some(at), false) = (later, given.decimal, given.thousands, doubt, sure) {
        return Err(doubtful(sheet, at, Some(own)));
    }
    let fraction = columns.iter().any(|(_, marks)| marks.decimal);
    let known = given.decimal.is_some() || fraction || seen == Some(other);
    Ok(FileMarks {
        decimal: known.then(|| decimal.mark()),
        thousands: given.thousands.or(seen),
        guessed: decided.guessed.is_some(),
    })
}
