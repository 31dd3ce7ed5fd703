//! `landfall forecast`: the rows after the last one, in the units of the data.

use super::{fill, note_all};
use crate::args::Forecast as Args;
use crate::error::CliError;
use crate::forecasting::{Predictor, future, series};
use crate::output;
use landfall_train::data::Panel;
use landfall_train::report::plot;
use landfall_train::run::{Forecast, Run};
use serde_json::json;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Forecasts and writes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = args.out.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let run = Run::open(&args.run)?;
    let panel = series(&run, &args.data, fill(args.fill.as_ref())?)?;
    let future = future(&run, &panel, &args.future)?;
    let unread = future.is_some() && !run.needs_future();
    let mut predictor = Predictor::new(run, args.with.weights, args.with.device, args.with.threads)?;
    output::note(predictor.device());
    let (forecasts, left_out) = predictor.forecast(&panel, future.as_ref())?;
    note_all(panel.notices().iter().chain(future.iter().flat_map(Panel::notices)).chain(&left_out));
    if let (true, Some(forecaster)) = (unread, predictor.run().forecaster()) {
        output::note(&format!(
            "{} was chosen to forecast, and reads no covariates: --future changes nothing",
            forecaster.name()
        ));
    }
    let run = predictor.run();
    let horizon = run.resolved().network.horizon();
    let columns = panel.columns().get(..run.targets()).unwrap_or_default();
    let table = Table::new(&forecasts, columns, run.levels(), horizon);
    if let Some(path) = &args.out {
        write(path, &table.csv())?;
    }
    if args.with.json {
        return output::json(&table.object(args.out.as_deref()));
    }
    if let (true, Some(first)) = (args.plot, forecasts.first()) {
        draw(first, horizon)?;
    }
    match &args.out {
        None if args.plot => Ok(()),
        None => output::line(table.csv().trim_end()),
        Some(path) => {
            let (source, path) = (panel.source(), path.display());
            output::line(&format!("{horizon} rows after the last of {source} are in {path}"))
        }
    }
}

/// Size of a forecast's picture in characters.
const PLOT: (usize, usize) = (66, 10);

/// Draws a series' last rows and the forecast of its first column.
pub(super) fn draw(forecast: &Forecast, horizon: usize) -> Result<(), CliError> {
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
    output::line(&format!("{}: {span} (dotted), and the forecast of {horizon} rows", series.columns()[0]))?;
    output::line(&lines.join("\n"))
}

/// The forecasts of all series, and the cells that name their rows.
struct Table<'a> {
    forecasts: &'a [Forecast],
    columns: &'a [String],
    /// Levels of the quantiles that stand beside each column's point forecast.
    levels: &'a [f64],
    /// Name of the column that tells the rows of a series apart.
    label: String,
    /// Its cells, for each series.
    rows: Vec<Vec<String>>,
}

impl<'a> Table<'a> {
    fn new(forecasts: &'a [Forecast], columns: &'a [String], levels: &'a [f64], horizon: usize) -> Self {
        let (label, rows) = labels(forecasts, horizon);
        Self { forecasts, columns, levels, label, rows }
    }

    /// Whether a column names the series.
    fn several(&self) -> bool {
        self.forecasts.len() > 1
    }

    fn csv(&self) -> String {
        let series = self.several().then_some("series");
        let header = series.into_iter().chain([self.label.as_str()]);
        let named = |column: &'a String| {
            let level = move |l: &f64| format!("{column}_q{l:?}");
            std::iter::once(column.clone()).chain(self.levels.iter().map(level))
        };
        let header = header.map(str::to_owned).chain(self.columns.iter().flat_map(named)).map(|c| quoted(&c));
        let mut text = header.collect::<Vec<_>>().join(",");
        text.push('\n');
        for (forecast, rows) in self.forecasts.iter().zip(&self.rows) {
            for (i, row) in rows.iter().enumerate() {
                if self.several() {
                    text.push_str(&quoted(forecast.context.name()));
                    text.push(',');
                }
                text.push_str(&quoted(row));
                for (c, column) in forecast.values.iter().enumerate() {
                    let quantiles = forecast.quantiles.get(c).into_iter().flatten();
                    for cells in std::iter::once(column).chain(quantiles) {
                        // The shortest digits that read back as the same number.
                        text.push_str(&format!(",{:?}", cells.get(i).copied().unwrap_or(f64::NAN)));
                    }
                }
                text.push('\n');
            }
        }
        text
    }

    /// One series' labels and values stand at the top; several are a list.
    fn object(&self, out: Option<&Path>) -> serde_json::Value {
        let label = self.label.as_str();
        match (self.forecasts, self.rows.as_slice()) {
            ([one], [rows]) => {
                let mut object =
                    json!({"columns": self.columns, label: rows, "values": one.values, "out": out});
                if !self.levels.is_empty() {
                    object["levels"] = json!(self.levels);
                    object["quantiles"] = json!(one.quantiles);
                }
                object
            }
            (all, rows) => {
                let each = all.iter().zip(rows).map(|(f, rows)| {
                    let mut one = json!({"name": f.context.name(), label: rows, "values": f.values});
                    if !self.levels.is_empty() {
                        one["quantiles"] = json!(f.quantiles);
                    }
                    one
                });
                let mut object =
                    json!({"columns": self.columns, "series": each.collect::<Vec<_>>(), "out": out});
                if !self.levels.is_empty() {
                    object["levels"] = json!(self.levels);
                }
                object
            }
        }
    }
}

/// Name and cells of the column that tells rows apart: future dates where the dates of all series are regular, else
/// numbers from 1.
fn labels(forecasts: &[Forecast], horizon: usize) -> (String, Vec<Vec<String>>) {
    let mut name = None;
    let mut rows = Vec::with_capacity(forecasts.len());
    for forecast in forecasts {
        let Some(dates) = forecast.context.dates() else { break };
        match dates.future(horizon) {
            Ok(future) => rows.push(future.into_iter().map(|d| dates.format(d)).collect()),
            Err(e) => {
                output::note(&format!("note: {e}; the forecast's rows are numbered"));
                break;
            }
        }
        name.get_or_insert_with(|| dates.column().to_owned());
    }
    match name {
        Some(name) if rows.len() == forecasts.len() => (name, rows),
        Some(_) | None => {
            let numbers: Vec<String> = (1..=horizon).map(|i| i.to_string()).collect();
            ("step".to_owned(), vec![numbers; forecasts.len()])
        }
    }
}

pub(super) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// A new file, whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let failed = |why| CliError::Write { path: path.to_owned(), why };
    let mut file = match std::fs::File::create_new(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(CliError::OutExists(path.to_owned())),
        Err(why) => return Err(failed(why)),
    };
    file.write_all(text.as_bytes()).map_err(|why| {
        // What is half there helps nobody; the first failure is the one to report.
        let _ = std::fs::remove_file(path);
        failed(why)
    })
}
