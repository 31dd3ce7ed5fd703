//! Forecasts of series that no run knows, by the pretrained forecaster.

use super::answer::{Answered, Body, Form, Refusal, forecasts, internal, too_many};
use super::columns::Columns;
use super::forecasts::{Forecasts, Given, Network, Read};
use super::json::{Cells, Column, History, Parser, Table};
use super::parts::Parts;
use super::query::{decoded, parameters};
use super::request::{refused, unprocessable};
use hyper::{Response, StatusCode};
use landfall_forecast::ForecastError;
use landfall_forecast::chronos::Group;
use landfall_forecast::run::{Forecast, OneOrMore, Settings};
use landfall_forecast::without_run::{
    INTERVAL, PanelForecaster, Prepared, Roles, Rows, Spread, check, future_options, unused,
};
use landfall_train::data::{
    Column as Values, DataError, Frame, Future, Known as Kind, Panel, ReadOptions, Series, Spelling, ahead,
};

/// The parameters of a request, as a refusal lists them.
const FORM: &str = "POST /forecast takes horizon=N, and may take interval=P,P or interval=none, quantiles=Q,Q, target=COLUMN,COLUMN and \
                    series=NAME, each once, as in ?horizon=12&interval=80,95; weights of Chronos-2 also known-future=COLUMN,COLUMN, \
                    categorical=COLUMN,COLUMN and calendar=FEATURE,FEATURE";
/// The parameters that say what covariates are, and the settings that they are.
const OF_COVARIATES: [(&str, &str); 3] =
    [("known-future", "known_future"), ("categorical", "categorical"), ("calendar", "calendar")];
/// Numbers of an answer: those that clients have not taken yet are kept.
const MOST_NUMBERS: usize = 1 << 18;

/// The pretrained forecaster, as it is served.
pub(super) struct WithoutRun {
    /// Series of a request, each column to forecast of each history one.
    most: usize,
    /// Rows of a series that are read.
    context: usize,
    /// Rows that are forecast at most.
    horizon: usize,
    /// Levels of the network's quantiles.
    levels: Vec<f64>,
    /// What forecasts.
    name: &'static str,
    /// Whether it reads covariates.
    covariates: bool,
}

/// Its network.
pub(super) struct Pretrained {
    pub(super) forecaster: PanelForecaster,
    pub(super) most: usize,
}

/// A column to forecast, with its covariates.
pub(super) struct Ahead {
    group: Group,
    horizon: usize,
}

impl Network for Pretrained {
    type Job = Ahead;
    type Done = Rows;

    fn most(&self) -> usize {
        self.most
    }

    fn predict(&mut self, jobs: Vec<Ahead>) -> Result<Vec<Rows>, String> {
        let mut horizons: Vec<usize> = jobs.iter().map(|job| job.horizon).collect();
        horizons.sort_unstable();
        horizons.dedup();
        let mut done = vec![Vec::new(); jobs.len()];
        for horizon in horizons {
            let mut of: Vec<(&Ahead, &mut Rows)> =
                jobs.iter().zip(&mut done).filter(|(job, _)| job.horizon == horizon).collect();
            let groups: Vec<&Group> = of.iter().map(|(job, _)| &job.group).collect();
            let rows = self.forecaster.quantiles(&groups, horizon).map_err(|why| why.to_string())?;
            of.iter_mut().zip(rows).for_each(|((_, done), rows)| **done = rows);
        }
        Ok(done)
    }
}

/// What a request asks for.
#[derive(Debug)]
pub(super) struct Asked {
    series: Option<String>,
    /// The columns to forecast, and what the others are.
    settings: Settings,
    horizon: usize,
    quantiles: Vec<f64>,
    intervals: Vec<f64>,
}

/// What an answer needs beside the quantiles of the network.
pub(super) struct Rest {
    asked: Asked,
    columns: Vec<String>,
    prepared: Vec<Prepared>,
    named: bool,
    notes: Vec<String>,
}

impl Asked {
    fn spread(&self) -> Spread<'_> {
        Spread { quantiles: &self.quantiles, intervals: &self.intervals }
    }
}

/// What is wrong with what a request asks for, in its own words.
fn asked_wrongly(why: &ForecastError) -> Refusal {
    unprocessable(Spelling::Key.within(|| why.to_string()))
}

/// What is wrong with the data of a request, in its own words.
fn unread(why: &DataError) -> Refusal {
    Spelling::Key.within(|| refused(why))
}

/// Levels of a parameter.
fn levels(name: &str, text: &str) -> Result<Vec<f64>, Refusal> {
    let level = |text: &str| {
        let bad = || {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("?{name}= has {text:?}, which is no number; {FORM}"),
            )
        };
        text.parse::<f64>().map_err(|_| bad())
    };
    decoded(name, text)?.split(',').map(level).collect()
}

/// The series of a history.
struct Known {
    series: Vec<Series>,
    /// The columns to forecast, which are their first ones.
    columns: Vec<String>,
    /// What is read of their columns, and why the last ones are known in advance.
    roles: Roles,
    kinds: Vec<Kind>,
    /// The rows after them.
    future: Option<Panel>,
    /// Whether the request names them.
    named: bool,
    /// What is to be said of them.
    notes: Vec<String>,
}

impl Known {
    /// Of a panel that was read, with the columns that are asked for; `future` reads the rows after it by these options.
    fn of(
        panel: Result<Panel, DataError>,
        asked: &Asked,
        reads_covariates: bool,
        future: impl FnOnce(ReadOptions) -> Option<Result<Panel, DataError>>,
    ) -> Result<Self, Refusal> {
        let settings = &asked.settings;
        let panel = panel
            .and_then(|panel| match &settings.target {
                Some(target) => panel.with_targets(target),
                None => Ok(panel),
            })
            .and_then(|panel| match reads_covariates {
                true => panel.with_covariates(&settings.covariates()),
                false => Ok(panel),
            });
        let panel = panel.map_err(|why| unread(&why))?;
        let roles = match reads_covariates {
            true => Roles::of(&panel, &settings.covariates()),
            false => Roles::alone(&panel),
        };
        let future = match future_options(settings, &panel) {
            Some(options) => future(options).transpose().map_err(|why| refused(&why))?,
            None if future(ReadOptions::default()).is_some() => {
                let text = "`future` is given, and no column is known in advance; name those that are: ?known-future=COLUMN";
                return Err(unprocessable(text));
            }
            None => None,
        };
        let columns = panel.columns().get(..panel.targets()).unwrap_or_default().to_vec();
        let kinds = if roles.covariates() > 0 { panel.known().to_vec() } else { Vec::new() };
        let of_future = future.iter().flat_map(Panel::notices).map(|note| format!("`future`: {note}"));
        let notes = panel.notices().iter().cloned().chain(of_future).chain(unused(&panel, &roles)).collect();
        Ok(Self { series: panel.into_series(), columns, roles, kinds, future, named: false, notes })
    }

    /// The same with the name of its only series.
    fn called(self, name: &str) -> Result<Self, Refusal> {
        let count = self.series.len();
        if count > 1 {
            let text =
                format!("a name is given for one series, and the data has {count}; leave `series` out");
            return Err(unprocessable(text));
        }
        Ok(Self { series: self.series.into_iter().map(|one| one.named(name)).collect(), ..self })
    }
}

impl WithoutRun {
    /// For requests of so many series at most.
    pub(super) fn of(forecaster: &PanelForecaster, most: usize) -> Self {
        let (horizon, levels) = (forecaster.most_rows(), forecaster.levels().to_vec());
        let (context, name, covariates) =
            (forecaster.context(), forecaster.name(), forecaster.reads_covariates());
        Self { most, context, horizon, levels, name, covariates }
    }

    fn json(&self, body: &[u8], columns: &Columns, asked: &Asked) -> Result<Vec<Known>, Refusal> {
        let future = self.covariates.then_some(columns);
        let (given, further) = Parser::new(columns, future, self.most).read(body)?;
        let (several, mut all) = (given.len() > 1, Vec::with_capacity(given.len()));
        if several && asked.series.is_some() {
            let count = given.len();
            let text = format!(
                "?series= names one series, and the request has {count} histories; name each with `series` beside its columns"
            );
            return Err(unprocessable(text));
        }
        let read = |table: Table, source: &str| -> Result<Vec<(String, Values)>, Refusal> {
            let (table, _) = table.only(columns, source)?;
            let name = |place: usize| match place.checked_sub(columns.len()).and_then(|at| further.get(at)) {
                Some(name) => name.clone(),
                None => columns.column(place).0.to_owned(),
            };
            Ok(table.into_iter().map(|Column { place, cells }| (name(place), values(cells))).collect())
        };
        for (i, History { series, table, future }) in given.into_iter().enumerate() {
            let source = if several { format!("history {}", i + 1) } else { "the history".to_owned() };
            let table = read(table, &source)?;
            let ahead = format!("`future` of {source}");
            let future = future.map(|table| read(table, &ahead)).transpose()?;
            // A column of one value is a column to forecast.
            let fixed = table.iter().map(|(name, _)| name.clone()).collect();
            let options = ReadOptions { fixed, ..options(columns, asked) };
            let panel = Frame::new(table).and_then(|frame| frame.panel(&source, &options));
            let mut known = Known::of(panel, asked, self.covariates, |options| {
                let table = future?;
                let has = |name: &String| table.iter().any(|(other, _)| other == name);
                let options = only_there(options, has);
                Some(Frame::new(table).and_then(|frame| frame.panel(&ahead, &options)))
            })?;
            known.notes.iter_mut().for_each(|note| *note = format!("{source}: {note}"));
            let alone = several && known.series.len() == 1;
            let given = series.or_else(|| asked.series.clone());
            known.named = given.is_some();
            all.push(match given.or_else(|| alone.then_some(source)) {
                Some(name) => known.called(&name)?,
                None => known,
            });
        }
        Ok(all)
    }

    fn csv(&self, parts: &Parts, columns: &Columns, asked: &Asked) -> Result<Known, Refusal> {
        if parts.future.is_some() && !self.covariates {
            return Err(unprocessable(columns.no_future()));
        }
        let panel = Panel::parse(&parts.history, "the CSV", &options(columns, asked));
        let mut known = Known::of(panel, asked, self.covariates, |options| {
            let text = parts.future.as_ref()?;
            let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let header = String::from_utf8_lossy(header);
            let options = only_there(options, |name| header.contains(name.as_str()));
            Some(Panel::parse(text, "the future", &options))
        })?;
        known.named = asked.series.is_some();
        match &asked.series {
            Some(name) => known.called(name),
            None => Ok(known),
        }
    }
}

/// How a table is read of which nothing is known.
fn options(columns: &Columns, asked: &Asked) -> ReadOptions {
    let names = |names: &Option<OneOrMore<String>>| names.as_ref().map_or_else(Vec::new, |n| n.0.clone());
    let (categorical, known) = (names(&asked.settings.categorical), names(&asked.settings.known_future));
    let named = known.iter().chain(&categorical).cloned().collect();
    let fixed = known.clone();
    ReadOptions {
        targets: asked.settings.target.is_some(),
        categorical,
        named,
        fixed,
        ..columns.options.clone()
    }
}

/// The same without the columns of dates and series that are not there: rows may follow in their order.
fn only_there(options: ReadOptions, has: impl Fn(&String) -> bool) -> ReadOptions {
    let there = |names: Option<Vec<String>>| names.filter(|names| names.iter().all(&has));
    let (date_column, series_id) = (there(options.date_column), there(options.series_id));
    let date_format = options.date_format.filter(|_| date_column.is_some());
    ReadOptions { date_column, series_id, date_format, ..options }
}

/// The cells of a column; whole numbers may name series, or count rows.
fn values(cells: Cells) -> Values {
    const EXACT: f64 = (1u64 << 53) as f64;
    match cells {
        Cells::Texts(texts) => {
            Values::texts(texts.iter().map(|text| Some(text.as_str()).filter(|text| !text.is_empty())))
        }
        Cells::Numbers(numbers) if numbers.iter().flatten().all(|x| x.fract() == 0.0 && x.abs() < EXACT) => {
            Values::integers(numbers.into_iter().map(|x| x.map(|x| x as i64)).collect())
        }
        Cells::Numbers(numbers) => {
            Values::numbers(numbers.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect())
        }
    }
}

impl Forecasts for WithoutRun {
    type Network = Pretrained;
    type Asked = Asked;
    type Rest = Rest;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn asked(&self, query: Option<&str>) -> Result<Asked, Refusal> {
        let mut names = vec!["horizon", "interval", "quantiles", "target", "series"];
        names.extend(OF_COVARIATES.iter().filter(|_| self.covariates).map(|(name, _)| *name));
        let given = parameters(query, &names, FORM)?;
        let of = |name: &str| given.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let bad = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
        let Some(horizon) = of("horizon") else {
            return Err(bad(format!("the request says no horizon; {FORM}")));
        };
        let horizon = horizon
            .parse()
            .map_err(|_| bad(format!("?horizon= is {horizon:?}, and is a number of rows; {FORM}")))?;
        let intervals = match of("interval") {
            None => vec![INTERVAL],
            Some("none") => Vec::new(),
            Some(text) => levels("interval", text)?,
        };
        let quantiles = of("quantiles").map_or(Ok(Vec::new()), |text| levels("quantiles", text))?;
        // A comma in a name is written %2C.
        let list = |name: &'static str, text: &str| -> Result<Vec<String>, Refusal> {
            text.split(',').map(|part| decoded(name, part)).collect()
        };
        let mut settings = Settings::default();
        for (name, setting) in [("target", "target")].into_iter().chain(OF_COVARIATES) {
            if let Some(text) = of(name) {
                settings.set(setting, &list(name, text)?).map_err(|why| bad(format!("?{name}=: {why}")))?;
            }
        }
        let series = of("series").map(|name| decoded("series", name)).transpose()?;
        let asked = Asked { series, settings, horizon, quantiles, intervals };
        check(horizon, self.horizon, asked.spread()).map_err(|why| asked_wrongly(&why))?;
        Ok(asked)
    }

    fn read(&self, given: &Given, asked: Asked) -> Result<Read<Self>, Refusal> {
        let columns = Columns::open(self.most);
        let histories = match given {
            Given::Json(body) => self.json(body, &columns, &asked)?,
            Given::Csv(parts) => vec![self.csv(parts, &columns, &asked)?],
        };
        let named = histories.iter().any(|known| known.named);
        let columns = histories.first().map(|known| known.columns.clone()).unwrap_or_default();
        if let Some((at, other)) = histories.iter().enumerate().find(|(_, known)| known.columns != columns) {
            return Err(unprocessable(format!(
                "history {} has the columns {} to forecast, and history 1 has {}; send a request for each, or name what all have with ?target=",
                at + 1,
                other.columns.join(", "),
                columns.join(", ")
            )));
        }
        let series: usize = histories.iter().map(|known| known.series.len()).sum();
        let count = series.saturating_mul(columns.len());
        let with = |known: &Known| known.series.len().saturating_mul(1 + known.roles.covariates());
        let all = histories.iter().map(with).sum::<usize>().saturating_mul(columns.len());
        if all > self.most {
            let beside = if all > count { ", and so is each covariate beside it" } else { "" };
            let all = format!("{all} (each column to forecast is one of its own{beside})");
            return Err(too_many(&all, self.most));
        }
        let each = 1 + asked.quantiles.len() + 2 * asked.intervals.len();
        let numbers = count.saturating_mul(asked.horizon).saturating_mul(each);
        if numbers > MOST_NUMBERS {
            let text = format!(
                "the answer would have {numbers} numbers, and at most {MOST_NUMBERS} are sent; ask for a shorter horizon, fewer levels or \
                 fewer histories"
            );
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let (mut prepared, mut jobs, mut notes) =
            (Vec::with_capacity(series), Vec::with_capacity(count), Vec::new());
        for known in histories {
            let (future, only) = (known.future.as_ref().map(Future::Rows), known.series.len() == 1);
            for series in known.series {
                let next = ahead(&series, &known.kinds, (future, only), asked.horizon);
                let next = next.map_err(|why| refused(&why))?;
                let (one, groups) = Prepared::of(&series, &known.roles, self.context, &next)
                    .map_err(|why| asked_wrongly(&why))?;
                prepared.push(one);
                jobs.extend(groups.into_iter().map(|group| Ahead { group, horizon: asked.horizon }));
            }
            notes.extend(known.notes);
        }
        Ok((jobs, Rest { asked, columns, prepared, named, notes }))
    }

    fn finish(&self, done: Vec<Rows>, rest: Rest, form: Form) -> Result<Response<Body>, Refusal> {
        let Rest { asked, columns, prepared, named, notes } = rest;
        if done.len() != prepared.len() * columns.len() {
            let text = format!("{} columns were forecast of {}", done.len(), prepared.len() * columns.len());
            return Err(internal(text));
        }
        let each = prepared.into_iter().zip(done.chunks(columns.len().max(1)));
        let all: Vec<Forecast> =
            each.map(|(prepared, rows)| prepared.finish(rows, &self.levels, asked.spread())).collect();
        let answered = Answered {
            columns: &columns,
            levels: &asked.quantiles,
            interval_levels: &asked.intervals,
            horizon: asked.horizon,
            named,
        };
        forecasts(&answered, &all, (form, notes))
    }
}
