//! The histories of a request, and the rows after them that are known in advance: JSON or CSV, as series that a run can
//! continue.

use super::answer::Refusal;
use super::parts::Parts;
use hyper::StatusCode;
use landfall_train::data::{CovariateError, DataError, Panel, Purpose, ReadOptions, Records, Series};
use landfall_train::run::Run;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What a request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
}

/// A body: JSON, or CSVs.
pub(super) enum Given {
    Json(bytes::Bytes),
    Csv(Parts),
}

/// The series of a request, with the rows after each that were given, and what its answer has to say of them.
pub(super) struct Histories {
    pub(super) all: Vec<(Series, Option<Arc<Panel>>)>,
    pub(super) notes: Vec<String>,
}

/// How a table of a request is read, and the columns that it has to have.
struct Columns {
    options: ReadOptions,
    names: Vec<String>,
}

impl Columns {
    fn of(options: ReadOptions) -> Self {
        Self { names: options.file_columns().unwrap_or_default(), options }
    }
}

/// How the requests of a run are read.
pub(super) struct Reading {
    history: Columns,
    /// Of the rows after a history; none where nothing is known in advance.
    future: Option<Columns>,
}

impl Reading {
    pub(super) fn of(run: &Run) -> Self {
        let history = ReadOptions { purpose: Purpose::Request, ..run.read_options() };
        Self { history: Columns::of(history), future: run.future_options().map(Columns::of) }
    }
}

/// A cell of JSON.
enum Scalar {
    Missing,
    Truth(bool),
    Number(f64),
    Text(String),
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text or null")
    }
    fn visit_f64<E: Error>(self, x: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(x))
    }
    fn visit_i64<E: Error>(self, x: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_u64<E: Error>(self, x: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_bool<E: Error>(self, x: bool) -> Result<Scalar, E> {
        Ok(Scalar::Truth(x))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }
    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Missing)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// An object as it is written: a name that stands there twice is there twice.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the names of columns")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor(std::marker::PhantomData))
    }
}

/// One history, as columns or as rows.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct History {
    series: Option<String>,
    dates: Option<Vec<Scalar>>,
    columns: Option<Pairs<Vec<Scalar>>>,
    rows: Option<Vec<Pairs<Scalar>>>,
    future: Option<Rows>,
}

/// Rows, or their columns.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    dates: Option<Vec<Scalar>>,
    columns: Option<Pairs<Vec<Scalar>>>,
    rows: Option<Vec<Pairs<Scalar>>>,
}

/// The body: one history, or several.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    histories: Option<Vec<History>>,
    series: Option<String>,
    dates: Option<Vec<Scalar>>,
    columns: Option<Pairs<Vec<Scalar>>>,
    rows: Option<Vec<Pairs<Scalar>>>,
    future: Option<Rows>,
}

fn unprocessable(text: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// What is wrong with a request's data, in the words of a request.
pub(super) fn refused(why: &DataError) -> Refusal {
    unprocessable(if let DataError::Covariates(CovariateError::NoDates { file }) = why {
        format!("{file}: no dates, and the run reads features of them; give each row its date")
    } else {
        // Who sends a request gives the rows with it, in no file.
        why.to_string().replace("--future FILE", "`future`")
    })
}

/// Reads histories for a run: at most `most` of them.
pub(super) struct Reader<'a> {
    pub(super) run: &'a Run,
    pub(super) reading: &'a Reading,
    pub(super) most: usize,
}

impl Reader<'_> {
    /// The histories of a body; `series` is the name of the only one of a CSV, if it was given.
    pub(super) fn read(&self, given: &Given, series: Option<&str>) -> Result<Histories, Refusal> {
        let mut histories = match given {
            Given::Json(body) => self.json(body)?,
            Given::Csv(parts) => self.csv(parts, series)?,
        };
        self.few(histories.all.len())?;
        if histories.all.iter().any(|(_, future)| future.is_some())
            && !self.run.needs_future()
            && let Some(forecaster) = self.run.forecaster()
        {
            let name = forecaster.name();
            histories.notes.push(format!(
                "{name} was chosen to forecast, and reads no covariates: `future` changes nothing"
            ));
        }
        Ok(histories)
    }

    /// How rows after a history are read.
    fn future(&self) -> Result<&Columns, Refusal> {
        self.reading.future.as_ref().ok_or_else(|| {
            let columns = self.reading.history.names.join(", ");
            unprocessable(format!(
                "`future` is given, and the run has no columns known in advance: it reads {columns}; leave it out"
            ))
        })
    }

    fn few(&self, count: usize) -> Result<(), Refusal> {
        if count <= self.most {
            return Ok(());
        }
        let text = format!(
            "the request has {count} histories, and at most {} are taken (--max-histories); send several requests",
            self.most
        );
        Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text))
    }

    fn json(&self, body: &[u8]) -> Result<Histories, Refusal> {
        let bad = |why: serde_json::Error| {
            let text = format!("the body is not JSON of the form that GET / describes: {why}");
            Refusal::new(StatusCode::BAD_REQUEST, text)
        };
        let body: Body = serde_json::from_slice(body).map_err(bad)?;
        let single = History {
            series: body.series,
            dates: body.dates,
            columns: body.columns,
            rows: body.rows,
            future: body.future,
        };
        let any = single.series.is_some()
            || single.future.is_some()
            || single.dates.is_some()
            || single.columns.is_some()
            || single.rows.is_some();
        let all = match body.histories {
            Some(_) if any => {
                return Err(unprocessable(
                    "`histories` stands beside other fields; put those into each history",
                ));
            }
            Some(all) if all.is_empty() => {
                return Err(unprocessable("`histories` is empty; give at least one"));
            }
            Some(all) => all,
            None => vec![single],
        };
        self.few(all.len())?;
        let several = all.len() > 1;
        let mut histories = Histories { all: Vec::with_capacity(all.len()), notes: Vec::new() };
        for (i, history) in all.into_iter().enumerate() {
            let source = if several { format!("history {}", i + 1) } else { "the history".to_owned() };
            self.history(history, &source, &mut histories)?;
        }
        Ok(histories)
    }

    /// Reads one history, and adds it to those before.
    fn history(&self, history: History, source: &str, to: &mut Histories) -> Result<(), Refusal> {
        let History { series: name, dates, columns, rows, future } = history;
        let panel = table(Rows { dates, columns, rows }, &self.reading.history, source)?;
        let panel = self.run.arranged(panel).map_err(|why| refused(&why))?;
        let mut noted = |panel: &Panel, source: &str| {
            to.notes.extend(panel.notices().iter().map(|note| format!("{source}: {note}")));
        };
        noted(&panel, source);
        let future = match future {
            Some(rows) => {
                let source = format!("`future` of {source}");
                let future = table(rows, self.future()?, &source)?;
                noted(&future, &source);
                Some(Arc::new(future))
            }
            None => None,
        };
        let named = |series: Series| match &name {
            Some(name) => series.named(name),
            None => series,
        };
        to.all.extend(panel.into_series().into_iter().map(|series| (named(series), future.clone())));
        Ok(())
    }

    fn csv(&self, parts: &Parts, series: Option<&str>) -> Result<Histories, Refusal> {
        let named = |columns: &Columns| {
            let mut options = columns.options.clone();
            options.series_id = options.series_id.filter(|_| series.is_none());
            options
        };
        let mut options = named(&self.reading.history);
        let (panel, mut notes) = match Panel::parse(&parts.history, "the CSV", &options) {
            // Rows are counted where the run had dates and the CSV has none, as `landfall forecast` counts them.
            Err(DataError::UnknownColumn { name, .. })
                if options.date_column.as_ref().is_some_and(|columns| columns.contains(&name)) =>
            {
                options.date_column = None;
                options.date_format = None;
                let note = format!("no column `{name}`, where the run had dates; rows are counted");
                (Panel::parse(&parts.history, "the CSV", &options), vec![note])
            }
            read => (read, Vec::new()),
        };
        let panel = panel.and_then(|panel| self.run.arranged(panel)).map_err(|why| refused(&why))?;
        notes.extend(panel.notices().iter().cloned());
        let all = panel.into_series();
        let future = match &parts.future {
            Some(text) => {
                let mut ahead = named(self.future()?);
                ahead.date_column = ahead.date_column.filter(|_| options.date_column.is_some());
                ahead.date_format = ahead.date_format.filter(|_| options.date_column.is_some());
                let panel = Panel::parse(text, "the future", &ahead).map_err(|why| refused(&why))?;
                notes.extend(panel.notices().iter().map(|note| format!("the future: {note}")));
                Some(Arc::new(panel))
            }
            None => None,
        };
        let all = match series {
            Some(name) if all.len() == 1 => all.into_iter().map(|s| s.named(name)).collect(),
            Some(_) => {
                return Err(unprocessable(
                    "?series= names one series, and the CSV has several; leave it out",
                ));
            }
            None => all,
        };
        let all = all.into_iter().map(|series| (series, future.clone())).collect();
        Ok(Histories { all, notes })
    }
}

/// Rows of JSON as one series with these columns, and what reading them changed.
fn table(given: Rows, read: &Columns, source: &str) -> Result<Panel, Refusal> {
    let own = read.options.date_column.as_deref().unwrap_or_default();
    // A date of several columns is one column here, in a form that is found anew.
    let (date_name, date_format) = match own {
        [one] => (one.as_str(), read.options.date_format.clone()),
        _ => ("date", None),
    };
    let mut table = match (given.columns, given.rows) {
        (Some(_), Some(_)) => {
            return Err(unprocessable(format!("{source} has `columns` and `rows`; give one of them")));
        }
        (None, None) => {
            let columns = read.names.join(", ");
            return Err(unprocessable(format!(
                "{source} has no `columns` and no `rows`; the run reads {columns}"
            )));
        }
        (Some(Pairs(columns)), None) => columns,
        (None, Some(rows)) => transposed(rows),
    };
    if let Some(dates) = given.dates {
        if table.iter().any(|(name, _)| name == date_name) {
            return Err(unprocessable(format!(
                "{source} has `dates` and a column `{date_name}`; give one of them"
            )));
        }
        table.insert(0, (date_name.to_owned(), dates));
    }
    let (mut dates, mut columns, mut texts) = (None, Vec::with_capacity(read.names.len()), Vec::new());
    for (name, cells) in table {
        if name == date_name && dates.is_none() {
            dates = Some((name, cells.into_iter().map(text).collect()));
        } else if read.options.categorical.contains(&name) {
            texts.push((name, cells.into_iter().map(text).collect()));
        } else if read.names.contains(&name) {
            columns.push((numbers(&name, cells, source)?, name));
        }
    }
    let columns = columns.into_iter().map(|(values, name)| (name, values)).collect();
    let options = ReadOptions { date_format, ..read.options.clone() };
    let records = Records { source: source.to_owned(), dates, columns, texts };
    records.panel(&options).map_err(|why| refused(&why))
}

/// Columns of rows, in the order in which their names appear; what a row has not is missing.
fn transposed(rows: Vec<Pairs<Scalar>>) -> Vec<(String, Vec<Scalar>)> {
    let mut columns: Vec<(String, Vec<Scalar>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (row, Pairs(cells)) in rows.into_iter().enumerate() {
        for (name, cell) in cells {
            let place = *places.entry(name).or_insert_with_key(|name| {
                columns.push((name.clone(), Vec::new()));
                columns.len() - 1
            });
            let column = &mut columns[place].1;
            // The last of equal names in a row counts, as in most readers of JSON.
            column.truncate(row);
            column.resize_with(row, || Scalar::Missing);
            column.push(cell);
        }
        for (_, column) in &mut columns {
            column.resize_with(row + 1, || Scalar::Missing);
        }
    }
    columns
}

fn text(cell: Scalar) -> String {
    match cell {
        Scalar::Missing => String::new(),
        Scalar::Truth(yes) => yes.to_string(),
        Scalar::Number(x) => x.to_string(),
        Scalar::Text(text) => text,
    }
}

fn numbers(name: &str, cells: Vec<Scalar>, source: &str) -> Result<Vec<Option<f64>>, Refusal> {
    let number = |(row, cell): (usize, Scalar)| match cell {
        Scalar::Missing => Ok(None),
        Scalar::Truth(yes) => Ok(Some(f64::from(u8::from(yes)))),
        Scalar::Number(x) => Ok(Some(x)),
        Scalar::Text(text) => {
            let shown: String = text.chars().take(40).collect();
            Err(unprocessable(format!(
                "{source}: column `{name}`, row {}: {shown:?} is not a number",
                row + 1
            )))
        }
    };
    cells.into_iter().enumerate().map(number).collect()
}
