//! The histories of a request, and the rows after them that are known in advance: JSON or CSV, as series that a run can
//! continue.

use super::answer::{Refusal, too_many};
use super::columns::{Columns, Role};
use super::forecasts::Given;
use super::json::{Cells, Column, History, Parser, Table};
use super::parts::Parts;
use hyper::StatusCode;
use landfall_forecast::run::Run;
use landfall_train::data::{
    CovariateError, DataError, LimitError, Panel, Purpose, ReadOptions, Records, Series, SeriesError,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The series of a request, with the rows after each that were given, and what its answer has to say of them.
pub(super) struct Histories {
    pub(super) all: Vec<(Series, Option<Arc<Panel>>)>,
    pub(super) notes: Vec<String>,
}

/// How the requests of a run are read.
pub(super) struct Reading {
    history: Columns,
    /// Of the rows after a history; none where nothing is known in advance.
    future: Option<Columns>,
    /// Histories of a request.
    most: usize,
}

impl Reading {
    /// Of this run, for requests of so many histories at most.
    pub(super) fn of(run: &Run, most: usize) -> Self {
        let history = ReadOptions { purpose: Purpose::Request, ..run.read_options() };
        let future = run.future_options().map(|options| Columns::of(options, usize::MAX));
        Self { history: Columns::of(history, most), future, most }
    }
}

pub(super) fn unprocessable(text: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// What is wrong with a request's data, in the words of a request.
pub(super) fn refused(why: &DataError) -> Refusal {
    if let DataError::Covariates(CovariateError::NoDates { file }) = why {
        unprocessable(format!("{file}: no dates, and the run reads features of them; give each row its date"))
    } else if let DataError::Limit(LimitError::Series { most, .. }) = why {
        too_many(&format!("more than {most}"), *most)
    } else if let DataError::Limit(_) = why {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why.to_string())
    } else {
        // Who sends a request gives the rows with it, in no file.
        unprocessable(why.to_string().replace("--future FILE", "`future`"))
    }
}

/// Reads histories for a run.
pub(super) struct Reader<'a> {
    pub(super) run: &'a Run,
    pub(super) reading: &'a Reading,
}

impl Reader<'_> {
    /// The histories of a body; `series` is the name of the only one of a CSV, if it was given.
    pub(super) fn read(&self, given: &Given, series: Option<&str>) -> Result<Histories, Refusal> {
        let mut histories = match given {
            Given::Json(body) => self.json(body)?,
            Given::Csv(parts) => self.csv(parts, series)?,
        };
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
        self.reading.future.as_ref().ok_or_else(|| unprocessable(self.reading.history.no_future()))
    }

    fn json(&self, body: &[u8]) -> Result<Histories, Refusal> {
        let (all, _) =
            Parser::new(&self.reading.history, self.reading.future.as_ref(), self.reading.most).read(body)?;
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
        let History { series: name, table: given, future } = history;
        let panel = table(given, &self.reading.history, source)?;
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
            Err(DataError::Series(SeriesError::UnknownColumn { name, .. }))
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

/// A table of JSON as one series with these columns, and what reading it changed.
fn table(given: Table, read: &Columns, source: &str) -> Result<Panel, Refusal> {
    let (table, unread) = given.only(read, source)?;
    let there: HashSet<usize> = table.iter().map(|column| column.place).collect();
    let missing = (1..read.len()).find(|place| !there.contains(place));
    if let Some((name, _)) = missing.map(|place| read.column(place)) {
        let given = if unread.is_empty() {
            String::new()
        } else {
            format!(" among {}, which the run does not read", unread.join(", "))
        };
        return Err(unprocessable(format!(
            "{source}: no column `{name}`{given}; add it or correct its name"
        )));
    }
    let mut records = Records { source: source.to_owned(), ..Records::default() };
    for Column { place, cells } in table {
        let (name, role) = read.column(place);
        let name = name.to_owned();
        match (cells, role) {
            (Cells::Numbers(values), _) => records.columns.push((name, values)),
            (Cells::Texts(dates), Role::Date) => records.dates = Some((name, dates)),
            (Cells::Texts(texts), Role::Name | Role::Number | Role::Any) => records.texts.push((name, texts)),
        }
    }
    let options = ReadOptions { date_format: read.date_format.clone(), ..read.options.clone() };
    records.panel(&options).map_err(|why| refused(&why))
}
