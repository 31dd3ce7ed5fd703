//! `landfall forecast`: the rows after the last one, in the units of the data.

use super::{fill, note_all};
use crate::args::Forecast as Args;
use crate::error::CliError;
use crate::output;
use crate::table::Table;
use landfall_forecast::forecasting::{Predictor, future, levels_ahead, series};
use landfall_forecast::report::plot;
use landfall_forecast::run::{Forecast, Run};
use landfall_train::data::{Cutoff, Future, Panel, few};
use landfall_train::files;
use std::path::Path;

/// Forecasts and writes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = args.out.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let run = Run::open(&args.run)?;
    let panel = series(&run, &args.data, fill(args.fill.as_ref())?)?;
    // What was known in advance at a past row stands in the rows after it.
    let whole = args.at.as_ref().map(|_| panel.clone());
    let (panel, left_out) = match &args.at {
        Some(text) => {
            let context = run.resolved().network.context();
            let needed = run.forecaster().map_or(context, |f| f.history(context));
            panel.until(Cutoff::parse(text, &panel)?, needed)?
        }
        None => (panel, Vec::new()),
    };
    note_all(&few(&left_out));
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
    let horizon = run.resolved().network.horizon();
    let columns = panel.columns().get(..run.targets()).unwrap_or_default();
    let table = Table::new(&forecasts, columns, (run.levels(), &intervals), horizon);
    let writes_csv = args.out.is_some() || !(args.with.json || args.plot);
    if let Some(name) = table.named_twice().filter(|_| writes_csv) {
        return Err(CliError::NamedTwice(name));
    }
    if let Some(note) = table.note() {
        output::note(&format!("note: {note}"));
    }
    if let Some(path) = &args.out {
        write(path, &table.csv())?;
    }
    if args.with.json {
        return output::json(&table.object(args.out.as_deref()));
    }
    if let (true, Some(first)) = (args.plot, forecasts.first()) {
        draw(first, horizon, forecasts.len() > 1)?;
    }
    match &args.out {
        None if args.plot => Ok(()),
        None => output::data(table.csv().trim_end()),
        Some(path) => {
            let path = path.display();
            let after = match (&args.at, panel.series()) {
                (Some(_), [first, ..]) => first.label(first.rows() - 1),
                _ => "the last".to_owned(),
            };
            let source = source(&forecasts);
            output::line(&format!("{horizon} rows after {after} of {source} are in {path}"))
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
