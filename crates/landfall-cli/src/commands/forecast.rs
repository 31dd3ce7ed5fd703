//! `landfall forecast`: the rows after the last one, in the units of the data.

use super::{fill, note_all};
use crate::args::Forecast as Args;
use crate::error::CliError;
use crate::output;
use landfall_forecast::forecasting::{Predictor, future, levels_ahead, series};
use landfall_forecast::report::plot;
use landfall_forecast::run::{Forecast, Run, Weights};
use landfall_forecast::table::Table;
use landfall_forecast::without_run::{self, PanelForecaster, Spread};
use landfall_train::data::{Cutoff, Future, Panel, few};
use landfall_train::files;
use std::path::Path;

/// What was forecast, and how it is shown.
struct Forecasts {
    forecasts: Vec<Forecast>,
    /// The columns that were forecast.
    columns: Vec<String>,
    /// Levels of the quantiles beside them, and of the intervals in percent.
    levels: Vec<f64>,
    intervals: Vec<f64>,
    horizon: usize,
    /// The last known row of the first series.
    after: String,
}

/// Forecasts and writes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = args.out.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let made = match &args.run {
        Some(run) => of_run(args, run)?,
        None => without_run(args)?,
    };
    made.show(args)
}

/// What a run forecasts.
fn of_run(args: &Args, run: &Path) -> Result<Forecasts, CliError> {
    let pretrained = || args.pretrained.as_ref().map(|_| "--pretrained".to_owned());
    if let Some(flags) = args.given.own().or_else(pretrained) {
        let why = "a run has its own; leave it out";
        return Err(CliError::FlagsOf { flags, other: "a run directory".to_owned(), why });
    }
    let run = Run::open(run)?;
    let panel = series(&run, args.given.data(), fill(args.given.settings.fill.as_ref())?)?;
    // What was known in advance at a past row stands in the rows after it.
    let whole = args.at.as_ref().map(|_| panel.clone());
    let context = run.resolved().network.context();
    let panel = until(args, panel, run.forecaster().map_or(context, |f| f.history(context)))?;
    // Intervals are made of windows of the whole series, which end with a known row.
    let past = (whole.as_ref().unwrap_or(&panel), whole.as_ref().map(|_| &panel));
    let (intervals, note) = match args.no_interval {
        true => (Vec::new(), None),
        false => levels_ahead(&run, past, args.interval.as_deref())?,
    };
    note_all(&note);
    let given = match (args.future.is_empty(), &whole) {
        (true, Some(_)) => None,
        _ => future(&run, &panel, &args.future)?,
    };
    let unread = given.is_some() && !run.needs_future();
    let mut predictor = Predictor::new(run, args.with.weights, args.with.on.device, args.with.on.threads)?;
    predictor.device().iter().for_each(|device| output::note(device));
    let ahead = given.as_ref().map(Future::Rows).or(whole.as_ref().map(Future::Longer));
    let (mut forecasts, left_out) = predictor.forecast(&panel, ahead)?;
    predictor.add_intervals(past, &intervals, &mut forecasts)?;
    let of_future = given.iter().flat_map(Panel::notices).map(|note| format!("the future: {note}"));
    note_all(panel.notices().iter().chain(&of_future.collect::<Vec<_>>()).chain(&few(&left_out)));
    if let (true, Some(forecaster)) = (unread, predictor.run().forecaster()) {
        output::note(&format!(
            "{} was chosen to forecast, and reads no covariates: --future changes nothing",
            forecaster.name()
        ));
    }
    let run = predictor.run();
    Ok(Forecasts {
        forecasts,
        columns: panel.columns().get(..run.targets()).unwrap_or_default().to_vec(),
        levels: run.levels().to_vec(),
        intervals,
        horizon: run.resolved().network.horizon(),
        after: after(args, &panel),
    })
}

/// What the pretrained forecaster makes of data that no run knows.
fn without_run(args: &Args) -> Result<Forecasts, CliError> {
    let settings = &args.given.settings;
    let example =
        "a forecast without a run is one of files, as in: landfall forecast --data F.csv --horizon 12";
    if settings.data.is_none() {
        return Err(CliError::Needed("a run directory or --data", example));
    }
    let Some(horizon) = settings.horizon else { return Err(CliError::Needed("--horizon", example)) };
    if args.with.weights != Weights::Best {
        let why = "only a run has a use for it; leave it out, or name a run directory";
        return Err(CliError::Flags { flag: "--weights", other: "no run directory".to_owned(), why });
    }
    let intervals = match &args.interval {
        _ if args.no_interval => Vec::new(),
        Some(levels) => levels.clone(),
        None => vec![without_run::INTERVAL],
    };
    let levels = settings.quantiles.clone().unwrap_or_default();
    let spread = Spread { quantiles: &levels, intervals: &intervals };
    let on = &args.with.on;
    let mut forecaster = PanelForecaster::new(args.pretrained.as_deref(), on.device, on.threads)?;
    without_run::check(horizon, forecaster.most_rows(), spread)?;
    if !(args.future.is_empty() || forecaster.reads_covariates()) {
        let (flag, other) = ("--future", "Landfall's own pretrained weights".to_owned());
        let why = "they read no covariates; leave it out, or name a folder of Chronos-2";
        return Err(CliError::Flags { flag, other, why });
    }
    let panel = without_run::series(settings)?;
    // What was known in advance at a past row stands in the rows after it.
    let whole = args.at.as_ref().map(|_| panel.clone());
    let panel = until(args, panel, 1)?;
    let roles = forecaster.roles(&panel, settings)?;
    let given = match args.future.as_slice() {
        [] => None,
        files => Some(without_run::load_future(settings, &panel, files)?),
    };
    let ahead = given.as_ref().map(Future::Rows).or(whole.as_ref().map(Future::Longer));
    without_run::check_future(&panel, (&roles, ahead), horizon)?;
    let of_future = given.iter().flat_map(Panel::notices).map(|note| format!("the future: {note}"));
    let of_future: Vec<String> = of_future.collect();
    note_all(panel.notices().iter().chain(&of_future).chain(&without_run::unused(&panel, &roles)));
    forecaster.device().iter().for_each(|device| output::note(device));
    let forecasts = forecaster.forecast_with(&panel, (&roles, ahead), horizon, spread)?;
    output::note(
        "forecast by the pretrained forecaster: nothing was trained on this data, and nothing tested",
    );
    let columns = panel.columns().get(..panel.targets()).unwrap_or_default().to_vec();
    Ok(Forecasts { forecasts, columns, levels, intervals, horizon, after: after(args, &panel) })
}

/// The series up to the row that is asked for, with `needed` rows at least.
fn until(args: &Args, panel: Panel, needed: usize) -> Result<Panel, CliError> {
    let Some(text) = &args.at else { return Ok(panel) };
    let (panel, left_out) = panel.until(Cutoff::parse(text, &panel)?, needed)?;
    note_all(&few(&left_out));
    Ok(panel)
}

/// The last known row, in words.
fn after(args: &Args, panel: &Panel) -> String {
    match (&args.at, panel.series()) {
        (Some(_), [first, ..]) => first.label(first.rows() - 1),
        _ => "the last".to_owned(),
    }
}

impl Forecasts {
    /// Writes or prints them.
    fn show(&self, args: &Args) -> Result<(), CliError> {
        let Self { forecasts, horizon, .. } = self;
        let table = Table::new(forecasts, &self.columns, (&self.levels, &self.intervals), *horizon);
        let writes_csv = args.out.is_some() || !(args.with.json || args.plot);
        if let Some(name) = table.named_twice().filter(|_| writes_csv) {
            return Err(CliError::NamedTwice(name));
        }
        if let Some(note) = &table.labels().note {
            output::note(&format!("note: {note}"));
        }
        if let Some(path) = &args.out {
            write(path, &table.csv())?;
        }
        if args.with.json {
            return output::json(&table.object(args.out.as_deref()));
        }
        if let (true, Some(first)) = (args.plot, forecasts.first()) {
            draw(first, *horizon, forecasts.len() > 1)?;
        }
        match &args.out {
            None if args.plot => Ok(()),
            None => output::data(table.csv().trim_end()),
            Some(path) => {
                let (path, after, source) = (path.display(), &self.after, source(forecasts));
                output::line(&format!("{horizon} rows after {after} of {source} are in {path}"))
            }
        }
    }
}

/// What forecasts are of, in short.
fn source(forecasts: &[Forecast]) -> String {
    let first = forecasts.first().map_or("", |first| first.context.source());
    match forecasts.len() {
        2.. => format!("{first} and {} more series", forecasts.len() - 1),
        _ => first.to_owned(),
    }
}

/// Size of a forecast's picture in characters.
const PLOT: (usize, usize) = (66, 10);

/// Draws a series' last rows and the forecast of its first column; the name of one of several is said.
pub(super) fn draw(forecast: &Forecast, horizon: usize, several: bool) -> Result<(), CliError> {
    let (series, Some(values)) = (&forecast.context, forecast.values.first()) else { return Ok(()) };
    let rows = series.rows();
    // The forecast takes a fourth of the width at least.
    let shown = rows.min(3 * horizon.max(4));
    let history = &series.values()[0][rows - shown..];
    let lines = plot(history, values, PLOT);
    if lines.is_empty() {
        return Ok(());
    }
    let date = |row: usize| {
        let dates = series.dates()?;
        Some(dates.format(*dates.values().get(row)?))
    };
    let span = match (date(rows - shown), date(rows - 1)) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => format!("the last {shown} rows"),
    };
    let of = if several { format!(" of `{}`", series.name()) } else { String::new() };
    let column = &series.columns()[0];
    output::line(&format!("{column}{of}: {span} (dotted), and the forecast of {horizon} rows"))?;
    output::line(&lines.join("\n"))
}

/// A new file, whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    files::create(path, text.as_bytes()).map_err(|why| CliError::unwritten(path, why))
}
