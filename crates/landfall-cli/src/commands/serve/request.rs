//! The histories of a request: JSON or CSV, as series that a run can continue.

use super::answer::Refusal;
use hyper::StatusCode;
use landfall_train::data::{DataError, Panel, ReadOptions, Records, Series};
use landfall_train::run::Run;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// What a request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
}

/// The series of a request, and what its answer has to say of them.
pub(super) struct Histories {
    pub(super) series: Vec<Series>,
    pub(super) notes: Vec<String>,
}

/// A cell of JSON.
enum Scalar {
    Missing,
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
        Ok(Scalar::Number(f64::from(u8::from(x))))
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
}

fn unprocessable(text: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

fn refused(why: &DataError) -> Refusal {
    unprocessable(why.to_string())
}

/// Reads histories for a run: at most `most` of them.
pub(super) struct Reader<'a> {
    pub(super) run: &'a Run,
    pub(super) options: &'a ReadOptions,
    pub(super) most: usize,
}

impl Reader<'_> {
    /// The histories of a body; `series` is the name of the only one of a CSV, if it was given.
    pub(super) fn read(&self, form: Form, body: &[u8], series: Option<&str>) -> Result<Histories, Refusal> {
        let histories = match form {
            Form::Json => self.json(body)?,
            Form::Csv => self.csv(body, series)?,
        };
        self.few(histories.series.len())?;
        Ok(histories)
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
        let single =
            History { series: body.series, dates: body.dates, columns: body.columns, rows: body.rows };
        let any = single.series.is_some()
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
        let read = |(i, history): (usize, History)| {
            let source = if several { format!("history {}", i + 1) } else { "the history".to_owned() };
            self.history(history, &source)
        };
        let series = all.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Histories { series, notes: Vec::new() })
    }

    fn history(&self, history: History, source: &str) -> Result<Series, Refusal> {
        let own = self.options.date_column.as_deref().unwrap_or_default();
        // A date of several columns is one column here, in a form that is found anew.
        let (date_name, date_format) = match own {
            [one] => (one.as_str(), self.options.date_format.clone()),
            _ => ("date", None),
        };
        let mut table = match (history.columns, history.rows) {
            (Some(_), Some(_)) => {
                return Err(unprocessable(format!("{source} has `columns` and `rows`; give one of them")));
            }
            (None, None) => {
                let columns = self.run.columns().join(", ");
                return Err(unprocessable(format!(
                    "{source} has no `columns` and no `rows`; the run reads {columns}"
                )));
            }
            (Some(Pairs(columns)), None) => columns,
            (None, Some(rows)) => transposed(rows),
        };
        if let Some(dates) = history.dates {
            if table.iter().any(|(name, _)| name == date_name) {
                return Err(unprocessable(format!(
                    "{source} has `dates` and a column `{date_name}`; give one of them"
                )));
            }
            table.insert(0, (date_name.to_owned(), dates));
        }
        let (mut dates, mut columns) = (None, Vec::with_capacity(self.run.columns().len()));
        for (name, cells) in table {
            if name == date_name && dates.is_none() {
                dates = Some((name, cells.into_iter().map(text).collect()));
            } else if self.run.columns().contains(&name) {
                columns.push((numbers(&name, cells, source)?, name));
            }
        }
        let columns = columns.into_iter().map(|(values, name)| (name, values)).collect();
        let options = ReadOptions { date_format, ..self.options.clone() };
        let records = Records { source: source.to_owned(), dates, columns };
        let series = records.series(&options).map_err(|why| refused(&why))?;
        Ok(match history.series {
            Some(name) => series.named(name),
            None => series,
        })
    }

    fn csv(&self, body: &[u8], series: Option<&str>) -> Result<Histories, Refusal> {
        let mut options = self.options.clone();
        options.series_id = options.series_id.filter(|_| series.is_none());
        let (panel, mut notes) = match Panel::parse(body, "the CSV", &options) {
            // Rows are counted where the run had dates and the CSV has none, as `landfall forecast` counts them.
            Err(DataError::UnknownColumn { name, .. })
                if options.date_column.as_ref().is_some_and(|columns| columns.contains(&name)) =>
            {
                options.date_column = None;
                options.date_format = None;
                let note = format!("no column `{name}`, where the run had dates; rows are counted");
                (Panel::parse(body, "the CSV", &options), vec![note])
            }
            read => (read, Vec::new()),
        };
        let panel = panel.map_err(|why| refused(&why))?;
        notes.extend(panel.notices().iter().cloned());
        let all = panel.into_series();
        let series = match series {
            Some(name) if all.len() == 1 => all.into_iter().map(|s| s.named(name)).collect(),
            Some(_) => {
                return Err(unprocessable(
                    "?series= names one series, and the CSV has several; leave it out",
                ));
            }
            None => all,
        };
        Ok(Histories { series, notes })
    }
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
        Scalar::Number(x) => x.to_string(),
        Scalar::Text(text) => text,
    }
}

fn numbers(name: &str, cells: Vec<Scalar>, source: &str) -> Result<Vec<Option<f64>>, Refusal> {
    let number = |(row, cell): (usize, Scalar)| match cell {
        Scalar::Missing => Ok(None),
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
