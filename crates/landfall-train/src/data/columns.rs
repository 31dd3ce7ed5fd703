//! What the columns of a file hold, found from all their cells: dates, names of series, values, or nothing of use.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::NaiveDateTime;

use super::dates::{DateForm, Forms};
use super::error::{DataError, Place};
use super::number::{Number, number};
use super::table::{Header, ReadOptions, Row};

/// Names that dates go by.
const DATE_NAMES: [&str; 10] =
    ["date", "timestamp", "time", "datetime", "ds", "day", "week", "month", "quarter", "period"];

/// Distinct cells of a column beyond which they are not counted.
const DISTINCT: usize = 100_000;

/// What the cells of a column are.
pub(super) struct Facts {
    pub(super) name: String,
    /// Cells that are not missing.
    pub(super) cells: usize,
    pub(super) missing: usize,
    numbers: usize,
    booleans: usize,
    /// Cells with a percent or currency sign.
    pub(super) signs: usize,
    /// The first cell that is no number, with its line.
    first_text: Option<(usize, String)>,
    distinct: HashSet<u64>,
    integers: bool,
    /// Whether each number is one more than the one before.
    consecutive: bool,
    first: f64,
    last: f64,
    range: (f64, f64),
    forms: Option<Forms>,
    /// The first cell that no form of the cells before allows.
    bad_date: Option<(usize, String)>,
}

impl Facts {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cells: 0,
            missing: 0,
            numbers: 0,
            booleans: 0,
            signs: 0,
            first_text: None,
            distinct: HashSet::new(),
            integers: true,
            consecutive: true,
            first: f64::NAN,
            last: f64::NAN,
            range: (f64::INFINITY, f64::NEG_INFINITY),
            forms: Some(Forms::new(dates_go_by(name))),
            bad_date: None,
        }
    }

    fn push(&mut self, text: &str, line: usize, decimal_comma: bool) {
        let kind = number(text, decimal_comma);
        if matches!(kind, Number::Missing) {
            self.missing += 1;
            return;
        }
        self.cells += 1;
        if self.distinct.len() < DISTINCT {
            self.distinct.insert(hash(text));
        }
        if let Some(forms) = &mut self.forms
            && !forms.push(text)
        {
            self.forms = None;
            self.bad_date = Some((line, text.to_owned()));
        }
        match kind {
            Number::Finite(value) => {
                self.numbers += 1;
                self.signs += usize::from(text.contains(['%', '$', '€', '£', '¥']));
                self.integers &= value.fract() == 0.0;
                self.consecutive &= self.numbers == 1 || value == self.last + 1.0;
                if self.numbers == 1 {
                    self.first = value;
                }
                self.last = value;
                self.range = (self.range.0.min(value), self.range.1.max(value));
            }
            Number::Infinite => self.numbers += 1,
            Number::Text | Number::Missing => {
                self.booleans += usize::from(boolean(text).is_some());
                self.first_text.get_or_insert_with(|| (line, text.to_owned()));
            }
        }
    }

    fn is_boolean(&self) -> bool {
        self.cells > 0 && self.booleans == self.cells
    }

    fn is_numeric(&self) -> bool {
        self.cells > 0 && (self.numbers == self.cells || self.is_boolean())
    }

    fn is_constant(&self) -> bool {
        self.distinct.len() == 1 && self.missing == 0 && self.cells > 1
    }

    /// Row numbers that an exporter wrote: 0, 1, 2 or 1, 2, 3, in a column without a name.
    fn is_row_number(&self) -> bool {
        let unnamed = self.name.is_empty() || self.name.starts_with("Unnamed:") || self.name == "index";
        unnamed && self.counts() && (self.first == 0.0 || self.first == 1.0)
    }

    fn counts(&self) -> bool {
        self.numbers == self.cells && self.missing == 0 && self.integers && self.consecutive && self.cells > 1
    }

    /// Whether its cells may be dates: texts of a form, or numbers in a column whose name says so.
    fn is_date(&self) -> bool {
        if self.cells == 0 || self.forms.is_none() {
            return false;
        }
        if self.numbers < self.cells {
            return true;
        }
        let years = self.integers && self.range.0 >= 1000.0 && self.range.1 <= 3000.0;
        let name = self.name.to_lowercase();
        if years {
            return name.contains("year")
                || dates_go_by(&name)
                || (self.counts() && (name.is_empty() || name.starts_with("unnamed:")));
        }
        dates_go_by(&name) || (self.counts_days() && name.is_empty())
    }

    /// Eight digits that are a day, in every cell.
    fn counts_days(&self) -> bool {
        self.integers && self.range.0 >= 10_000_101.0 && self.range.1 <= 30_001_231.0
    }
}

/// Whether a column of this name holds dates, whatever its cells look like.
fn dates_go_by(name: &str) -> bool {
    let name = name.to_lowercase();
    DATE_NAMES.contains(&name.as_str())
        || name.contains("date")
        || name.contains("timestamp")
        || name.contains("year")
}

/// A truth value as 0 or 1.
pub(super) fn boolean(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        _ => None,
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// How the text of a date is made of a row's cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DateCells {
    /// One cell.
    One(usize),
    /// A date and a time of day.
    DateTime(usize, usize),
    /// A year, and what follows it: `-` and a month, `Q` and a quarter; then, maybe, a day.
    Parts(usize, &'static str, usize, Option<usize>),
}

impl DateCells {
    /// The text of a row's date.
    pub(super) fn text(&self, row: &Row) -> String {
        let cell = |field: usize| row.cells.get(field).unwrap_or_default().trim();
        // Some exporters write whole numbers as 1959.0.
        let whole = |field: usize| cell(field).trim_end_matches(".0");
        match self {
            Self::One(field) => cell(*field).to_owned(),
            Self::DateTime(date, time) => format!("{} {}", cell(*date), cell(*time)),
            Self::Parts(year, "Q", part, None) => format!("{}Q{}", whole(*year), whole(*part)),
            Self::Parts(year, joint, part, None) => format!("{}{joint}{:0>2}", whole(*year), whole(*part)),
            Self::Parts(year, joint, part, Some(day)) => {
                format!("{}{joint}{:0>2}{joint}{:0>2}", whole(*year), whole(*part), whole(*day))
            }
        }
    }

    fn fields(&self) -> Vec<usize> {
        match self {
            Self::One(field) => vec![*field],
            Self::DateTime(a, b) | Self::Parts(a, _, b, None) => vec![*a, *b],
            Self::Parts(a, _, b, Some(c)) => vec![*a, *b, *c],
        }
    }
}

/// The date column of a file.
pub(super) struct DateRole {
    pub(super) name: String,
    pub(super) cells: DateCells,
    /// Forms that all cells allow; several where nothing tells day from month.
    pub(super) forms: Vec<DateForm>,
}

/// Which field holds what.
pub(super) struct Roles {
    pub(super) id: Option<(usize, String)>,
    /// Whether the series column was found, not asked for.
    pub(super) id_found: bool,
    pub(super) date: Option<DateRole>,
    pub(super) values: Vec<(usize, String)>,
    /// What was recognised or left out, in words.
    pub(super) notes: Vec<String>,
}

/// Reads all rows and finds what each column holds.
pub(super) fn roles<I: Iterator<Item = Result<Row, DataError>>>(
    header: &Header<'_>,
    rows: &impl Fn() -> I,
    options: &ReadOptions,
) -> Result<Roles, DataError> {
    let (facts, count) = facts(header, rows())?;
    if count == 0 {
        return Err(DataError::HeaderOnly { file: header.file.to_owned() });
    }
    let find = |name: &String| match facts.iter().position(|f| f.name == *name) {
        Some(field) => Ok(field),
        None => {
            let known = facts.iter().map(|f| f.name.clone()).collect();
            Err(DataError::UnknownColumn { file: header.file.to_owned(), name: name.clone(), known })
        }
    };
    let asked_id = options.series_id.as_ref().map(find).transpose()?;
    let mut notes = Vec::new();
    let date = match &options.date_column {
        Some(name) => Some(DateCells::One(find(name)?)),
        None => date_cells(&facts, asked_id),
    };
    let date = date.map(|cells| date_role(header, &facts, cells, rows, options)).transpose()?;
    let id = match (asked_id, &date) {
        (Some(field), _) => Some(field),
        (None, Some(date)) => series_column(&facts, date, rows, options)?,
        (None, None) => None,
    };
    let taken: Vec<usize> = id.into_iter().chain(date.iter().flat_map(|d| d.cells.fields())).collect();
    let values = match &options.columns {
        Some(asked) => {
            if let Some(name) = super::series::first_duplicate(asked) {
                return Err(DataError::RequestedTwice {
                    file: header.file.to_owned(),
                    name: name.to_owned(),
                });
            }
            let known: Vec<&Facts> =
                facts.iter().enumerate().filter(|(f, _)| !taken.contains(f)).map(|(_, f)| f).collect();
            let place = |name: &String| match facts.iter().position(|f| f.name == *name) {
                Some(field) if !taken.contains(&field) => numeric(header, facts.get(field), field),
                _ => {
                    let known = known.iter().map(|f| f.name.clone()).collect();
                    Err(DataError::UnknownColumn { file: header.file.to_owned(), name: name.clone(), known })
                }
            };
            asked.iter().map(place).collect::<Result<Vec<_>, _>>()?
        }
        None => value_columns(header, &facts, &taken, (count, options.fill.is_some()), &mut notes)?,
    };
    if values.is_empty() {
        return Err(DataError::NoNumericColumn { file: header.file.to_owned() });
    }
    let id_found = id.is_some() && asked_id.is_none();
    let id = id.and_then(|field| facts.get(field).map(|f| (field, f.name.clone())));
    Ok(Roles { id, id_found, date, values, notes })
}

fn facts(
    header: &Header<'_>,
    rows: impl Iterator<Item = Result<Row, DataError>>,
) -> Result<(Vec<Facts>, usize), DataError> {
    let mut facts: Vec<Facts> = header.names.iter().map(|name| Facts::new(name)).collect();
    let mut count = 0;
    for row in rows {
        let row = row?;
        super::table::check_fields(header.names.len(), row.cells.len(), || header.at(row.line))?;
        count += 1;
        for (fact, cell) in facts.iter_mut().zip(row.cells.iter()) {
            fact.push(cell.trim(), row.line, header.decimal_comma);
        }
    }
    Ok((facts, count))
}

/// A column that was asked for, if its cells are numbers.
fn numeric(header: &Header<'_>, facts: Option<&Facts>, field: usize) -> Result<(usize, String), DataError> {
    let Some(facts) = facts else { return Err(DataError::NoNumericColumn { file: header.file.to_owned() }) };
    match &facts.first_text {
        Some((line, text)) if !facts.is_numeric() => {
            let (at, column, text) = (header.at(*line), facts.name.clone(), text.clone());
            Err(DataError::NotANumber { at, column, text })
        }
        _ => Ok((field, facts.name.clone())),
    }
}

/// The columns of numbers; what is left out is said.
fn value_columns(
    header: &Header<'_>,
    facts: &[Facts],
    taken: &[usize],
    (count, filled): (usize, bool),
    notes: &mut Vec<String>,
) -> Result<Vec<(usize, String)>, DataError> {
    let free = || facts.iter().enumerate().filter(|(field, _)| !taken.contains(field));
    // Constants are left out beside columns that change.
    let changes = free().any(|(_, f)| f.is_numeric() && !f.is_constant() && !f.is_row_number());
    let mut values = Vec::new();
    let mut left = |what: &str, name: &str| notes.push(format!("column `{name}` is left out: {what}"));
    for (field, f) in free() {
        let half = f.missing * 2 > count && !filled;
        if f.cells == 0 {
            left("it is empty", &f.name);
        } else if f.is_row_number() {
            left("it holds row numbers", if f.name.is_empty() { "(no name)" } else { &f.name });
        } else if !f.is_numeric() {
            // Half numbers or more: a mistake in a cell, not a column of text.
            if f.numbers * 2 >= f.cells {
                numeric(header, Some(f), field)?;
            }
            left(if f.forms.is_some() { "it holds further dates" } else { "it holds text" }, &f.name);
        } else if half {
            left("more than half of its values are missing", &f.name);
        } else if f.is_constant() && changes {
            left("it never changes", &f.name);
        } else {
            values.push((field, f.name.clone()));
        }
    }
    for (_, f) in free().filter(|(field, _)| values.iter().any(|(v, _)| v == field)) {
        if f.is_boolean() {
            notes.push(format!("column `{}`: true and false are read as 1 and 0", f.name));
        }
        if f.signs > 0 {
            notes.push(format!("column `{}`: percent and currency signs are dropped", f.name));
        }
    }
    Ok(values)
}

/// Where the dates are: in a column of that name, else in the first column of dates, else in parts.
fn date_cells(facts: &[Facts], id: Option<usize>) -> Option<DateCells> {
    let position = |names: &[&str]| {
        facts.iter().position(|f| {
            names.contains(&f.name.to_lowercase().as_str()) && f.numbers == f.cells && f.cells > 0
        })
    };
    let year = position(&["year", "yr"]);
    // Years that repeat need their month or quarter.
    if let Some(year) = year {
        let repeats = facts.get(year).is_some_and(|f| f.distinct.len() < f.cells);
        let (month, quarter, day) =
            (position(&["month", "mon"]), position(&["quarter", "qtr", "q"]), position(&["day", "dom"]));
        match (month, quarter) {
            (Some(month), _) if repeats => return Some(DateCells::Parts(year, "-", month, day)),
            (None, Some(quarter)) if repeats => return Some(DateCells::Parts(year, "Q", quarter, None)),
            _ => {}
        }
    }
    let free = || facts.iter().enumerate().filter(|(field, _)| Some(*field) != id);
    let dated = || free().filter(|(_, f)| f.is_date());
    let named = dated().find(|(_, f)| dates_go_by(&f.name)).or_else(|| dated().next());
    // A column by its name that does not parse is a mistake in a cell, and is reported as one.
    let broken = free().find(|(_, f)| {
        let name = f.name.to_lowercase();
        ["date", "timestamp", "datetime", "ds"].contains(&name.as_str()) && f.numbers < f.cells
    });
    let (field, _) = named.or(broken)?;
    let is_clock = |f: &Facts| {
        f.name.to_lowercase().contains("time")
            && f.first_text
                .as_ref()
                .is_some_and(|(_, t)| t.contains(':') && !t.contains('-') && !t.contains('/'))
    };
    let clock = free().find(|(other, f)| *other != field && is_clock(f)).map(|(other, _)| other);
    let repeats = facts.get(field).is_some_and(|f| f.distinct.len() < f.cells);
    match clock {
        Some(time) if repeats => Some(DateCells::DateTime(field, time)),
        _ => Some(DateCells::One(field)),
    }
}

/// The forms of a date column.
fn date_role<I: Iterator<Item = Result<Row, DataError>>>(
    header: &Header<'_>,
    facts: &[Facts],
    cells: DateCells,
    rows: &impl Fn() -> I,
    options: &ReadOptions,
) -> Result<DateRole, DataError> {
    let names: Vec<&str> =
        cells.fields().iter().filter_map(|f| facts.get(*f)).map(|f| f.name.as_str()).collect();
    let name = match names.as_slice() {
        [""] => "date".to_owned(),
        [one] => (*one).to_owned(),
        _ => "date".to_owned(),
    };
    let bad = |line: usize, text: String, form: &str| DataError::BadDate {
        at: header.at(line),
        column: name.clone(),
        text,
        form: form.to_owned(),
    };
    if let Some(format) = &options.date_format {
        let form = DateForm::of_format(format)
            .map_err(|why| DataError::BadDateFormat { file: header.file.to_owned(), why })?;
        return Ok(DateRole { name, cells, forms: vec![form] });
    }
    let mut forms = match &cells {
        DateCells::One(field) => {
            let Some(f) = facts.get(*field) else {
                return Err(DataError::NoNumericColumn { file: header.file.to_owned() });
            };
            match (&f.bad_date, f.forms.clone()) {
                (Some((line, text)), _) => return Err(bad(*line, text.clone(), "")),
                (None, Some(forms)) => forms,
                (None, None) => Forms::new(true),
            }
        }
        DateCells::DateTime(..) | DateCells::Parts(..) => {
            let mut forms = Forms::new(true);
            for row in rows() {
                let row = row?;
                let text = cells.text(&row);
                if !forms.push(&text) {
                    return Err(bad(row.line, text, ""));
                }
            }
            forms
        }
    };
    if let DateCells::One(_) = &cells
        && options.date_column.is_some()
    {
        // A column that was named is read as dates, whatever its name is.
        forms = Forms::new(true);
        for row in rows() {
            let row = row?;
            let text = cells.text(&row);
            if !forms.push(&text) {
                return Err(bad(row.line, text, ""));
            }
        }
    }
    let forms = forms.finish();
    if forms.is_empty() {
        return Err(bad(2, String::new(), ""));
    }
    Ok(DateRole { name, cells, forms })
}

/// The column that tells apart the rows of one date, where dates repeat: the first column of texts, else of few whole
/// numbers, with which every date is there once.
fn series_column<I: Iterator<Item = Result<Row, DataError>>>(
    facts: &[Facts],
    date: &DateRole,
    rows: &impl Fn() -> I,
    options: &ReadOptions,
) -> Result<Option<usize>, DataError> {
    let Some(form) = date.forms.first() else { return Ok(None) };
    let fields = date.cells.fields();
    let asked = |f: &Facts| options.columns.as_ref().is_some_and(|c| c.contains(&f.name));
    let few =
        |f: &Facts| f.distinct.len() > 1 && f.distinct.len() * 2 <= f.cells && f.missing == 0 && !asked(f);
    let texts = facts.iter().enumerate().filter(|(_, f)| f.numbers == 0 && few(f));
    let whole = facts.iter().enumerate().filter(|(_, f)| f.numbers == f.cells && f.integers && few(f));
    let candidates: Vec<usize> =
        texts.chain(whole).map(|(field, _)| field).filter(|field| !fields.contains(field)).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let mut seen: HashSet<u64> = HashSet::new();
    let mut lines: HashSet<u64> = HashSet::new();
    let mut pairs: Vec<HashSet<u64>> = vec![HashSet::new(); candidates.len()];
    let mut alone = vec![true; candidates.len()];
    let mut repeats = false;
    for row in rows() {
        let row = row?;
        // The same row twice is a copy, not another series.
        if !lines.insert(hash(row.cells.iter().collect::<Vec<_>>())) {
            continue;
        }
        let day: Option<NaiveDateTime> = form.parse(&date.cells.text(&row));
        repeats |= !seen.insert(hash(day));
        for ((field, pairs), alone) in candidates.iter().zip(&mut pairs).zip(&mut alone) {
            *alone &= pairs.insert(hash((day, row.cells.get(*field).unwrap_or_default().trim())));
        }
    }
    let found = candidates.iter().zip(&alone).find(|(_, alone)| **alone).map(|(field, _)| *field);
    Ok(found.filter(|_| repeats))
}

impl Header<'_> {
    pub(super) fn at(&self, line: usize) -> Place {
        Place { file: self.file.to_owned(), line }
    }
}
