//! Forecasts of series that no run knows, by the pretrained forecaster.

use super::answer::{Answered, Body, Form, Refusal, forecasts, internal, too_many};
use super::columns::Columns;
use super::forecasts::{Forecasts, Given, Network, Read};
use super::json::{Cells, Column, History, Parser};
use super::parts::Parts;
use super::query::{decoded, parameters};
use super::request::{refused, unprocessable};
use hyper::{Response, StatusCode};
use landfall_forecast::ForecastError;
use landfall_forecast::run::Forecast;
use landfall_forecast::without_run::{INTERVAL, PanelForecaster, Prepared, Rows, Spread, check, unused};
use landfall_train::data::{Column as Values, DataError, Frame, Panel, ReadOptions, Series, Spelling};

/// The parameters of a request, as a refusal lists them.
const FORM: &str = "POST /forecast takes horizon=N, and may take interval=P,P or interval=none, quantiles=Q,Q, target=COLUMN,COLUMN and \
                    series=NAME, each once, as in ?horizon=12&interval=80,95";
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
}

/// Its network.
pub(super) struct Pretrained {
    pub(super) forecaster: PanelForecaster,
    pub(super) most: usize,
}

/// A column to forecast.
pub(super) struct Ahead {
    values: Vec<f64>,
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
            let columns: Vec<&Vec<f64>> = of.iter().map(|(job, _)| &job.values).collect();
            let rows = self.forecaster.quantiles(&columns, horizon).map_err(|why| why.to_string())?;
            of.iter_mut().zip(rows).for_each(|((_, done), rows)| **done = rows);
        }
        Ok(done)
    }
}

/// What a request asks for.
#[derive(Debug)]
pub(super) struct Asked {
    series: Option<String>,
    target: Option<Vec<String>>,
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
    /// Whether the request names them.
    named: bool,
    /// What is to be said of them.
    notes: Vec<String>,
}

impl Known {
    /// Of a panel that was read, with the columns that are asked for.
    fn of(panel: Result<Panel, DataError>, asked: &Asked) -> Result<Self, Refusal> {
        let panel = panel.and_then(|panel| match &asked.target {
            Some(target) => panel.with_targets(target),
            None => Ok(panel),
        });
        let panel = panel.map_err(|why| refused(&why))?;
        let columns = panel.columns().get(..panel.targets()).unwrap_or_default().to_vec();
        let notes = panel.notices().iter().cloned().chain(unused(&panel)).collect();
        Ok(Self { series: panel.into_series(), columns, named: false, notes })
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
        Self { most, context: forecaster.context(), horizon, levels, name: forecaster.name() }
    }

    fn json(&self, body: &[u8], columns: &Columns, asked: &Asked) -> Result<Vec<Known>, Refusal> {
        let (given, further) = Parser::new(columns, None, self.most).read(body)?;
        let (several, mut all) = (given.len() > 1, Vec::with_capacity(given.len()));
        if several && asked.series.is_some() {
            let count = given.len();
            let text = format!(
                "?series= names one series, and the request has {count} histories; name each with `series` beside its columns"
            );
            return Err(unprocessable(text));
        }
        for (i, History { series, table, .. }) in given.into_iter().enumerate() {
            let source = if several { format!("history {}", i + 1) } else { "the history".to_owned() };
            let (table, _) = table.only(columns, &source)?;
            let name = |place: usize| match place.checked_sub(columns.len()).and_then(|at| further.get(at)) {
                Some(name) => name.clone(),
                None => columns.column(place).0.to_owned(),
            };
            let table: Vec<(String, Values)> =
                table.into_iter().map(|Column { place, cells }| (name(place), values(cells))).collect();
            // A column of one value is a column to forecast.
            let fixed = table.iter().map(|(name, _)| name.clone()).collect();
            let options = ReadOptions { fixed, ..options(columns, asked) };
            let mut known =
                Known::of(Frame::new(table).and_then(|frame| frame.panel(&source, &options)), asked)?;
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
}

/// How a table is read of which nothing is known.
fn options(columns: &Columns, asked: &Asked) -> ReadOptions {
    ReadOptions { targets: asked.target.is_some(), ..columns.options.clone() }
}

fn csv(parts: &Parts, columns: &Columns, asked: &Asked) -> Result<Known, Refusal> {
    if parts.future.is_some() {
        return Err(unprocessable(columns.no_future()));
    }
    let mut known = Known::of(Panel::parse(&parts.history, "the CSV", &options(columns, asked)), asked)?;
    known.named = asked.series.is_some();
    match &asked.series {
        Some(name) => known.called(name),
        None => Ok(known),
    }
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
        let given = parameters(query, &["horizon", "interval", "quantiles", "target", "series"], FORM)?;
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
        let target = |text: &str| text.split(',').map(|name| decoded("target", name)).collect();
        let (target, series) = (of("target").map(target).transpose()?, of("series"));
        let series = series.map(|name| decoded("series", name)).transpose()?;
        let asked = Asked { series, target, horizon, quantiles, intervals };
        check(horizon, self.horizon, asked.spread()).map_err(|why| asked_wrongly(&why))?;
        Ok(asked)
    }

    fn read(&self, given: &Given, asked: Asked) -> Result<Read<Self>, Refusal> {
        let columns = Columns::open(self.most);
        let histories = match given {
            Given::Json(body) => self.json(body, &columns, &asked)?,
            Given::Csv(parts) => vec![csv(parts, &columns, &asked)?],
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
        if count > self.most {
            let count = format!("{count} (each column to forecast is one of its own)");
            return Err(too_many(&count, self.most));
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
            for series in known.series {
                let (one, columns) =
                    Prepared::of(&series, columns.len(), self.context).map_err(|why| asked_wrongly(&why))?;
                prepared.push(one);
                jobs.extend(columns.into_iter().map(|values| Ahead { values, horizon: asked.horizon }));
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
