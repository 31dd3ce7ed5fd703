//! `landfall forecast`: the rows after the last one, in the units of the data.

use super::{cpu, fill};
use crate::args::Forecast;
use crate::error::CliError;
use crate::output;
use landfall_train::data::Series;
use landfall_train::run::{Data, Run, RunError};
use serde_json::json;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Forecasts and writes.
pub(crate) fn run(args: &Forecast) -> Result<(), CliError> {
    if let Some(path) = args.out.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let run = Run::open(&args.run)?;
    let fill = fill(args.fill.as_ref())?;
    let Data::Series(series) = run.load(args.data.as_deref(), fill)? else {
        return Err(RunError::NoFuture { path: args.run.clone() }.into());
    };
    let n = &run.resolved().network;
    let last = series.last_rows(n.context)?;
    let engine = cpu(args.threads)?;
    let mut session = run.predictor(&engine, args.weights)?;
    let values = run.forecast(&mut session, &last)?;
    let (label, rows) = labels(&last, n.horizon);
    if args.json {
        let written =
            args.out.as_deref().map(|p| write(p, &csv(&label, &rows, last.columns(), &values))).transpose();
        written?;
        let object =
            json!({"columns": last.columns(), label.as_str(): rows, "values": values, "out": args.out});
        return output::json(&object);
    }
    let text = csv(&label, &rows, last.columns(), &values);
    match &args.out {
        None => output::line(text.trim_end()),
        Some(path) => {
            write(path, &text)?;
            output::line(&format!(
                "{} rows after the last of {} are in {}",
                n.horizon,
                last.source(),
                path.display()
            ))
        }
    }
}

/// Name and cells of the first column: future dates where the dates are regular, else numbers from 1.
fn labels(last: &Series, horizon: usize) -> (String, Vec<String>) {
    let numbers = || ("step".to_owned(), (1..=horizon).map(|i| i.to_string()).collect());
    let Some(dates) = last.dates() else { return numbers() };
    match dates.future(horizon) {
        Ok(future) => (dates.column().to_owned(), future.into_iter().map(|d| dates.format(d)).collect()),
        Err(e) => {
            output::note(&format!("note: {e}; the forecast's rows are numbered"));
            numbers()
        }
    }
}

fn csv(label: &str, rows: &[String], columns: &[String], values: &[Vec<f64>]) -> String {
    let header = std::iter::once(label).chain(columns.iter().map(String::as_str)).map(quoted);
    let mut text = header.collect::<Vec<_>>().join(",");
    text.push('\n');
    for (i, row) in rows.iter().enumerate() {
        text.push_str(&quoted(row));
        for column in values {
            // The shortest digits that read back as the same number.
            text.push_str(&format!(",{:?}", column.get(i).copied().unwrap_or(f64::NAN)));
        }
        text.push('\n');
    }
    text
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// A new file, whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
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
