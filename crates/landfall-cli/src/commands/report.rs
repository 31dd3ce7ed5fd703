//! `landfall report`: a run in pictures.

use super::{fill, forecast, note_all};
use crate::args::Report as Args;
use crate::error::CliError;
use crate::output;
use landfall_forecast::report::{Report, Subject};
use landfall_forecast::run::{Data, Run, RunError, Units, on_device};
use landfall_train::data::{Panel, Segment};
use landfall_train::files;
use landfall_train::train::Dataset;
use serde_json::json;
use std::path::Path;

/// Draws and writes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let run = Run::open(&args.run)?;
    let out = args.out.clone().unwrap_or_else(|| args.run.join("report.html"));
    // The report in the run's folder is made anew each time; any other file is somebody's.
    let given = args.out.iter().chain(&args.svg);
    if let Some(path) = given.into_iter().find(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let report = match run.load(&args.data, fill(args.fill.as_ref())?)? {
        Data::Series(panel) => {
            let summary = panel.summary();
            match run.dataset(panel.clone()) {
                Err(why @ RunError::Untested { .. }) if args.interval.is_none() => {
                    untested(args, &run, panel, &why)?
                }
                made => {
                    let (dataset, panel) = made?;
                    note_all(panel.left_out());
                    run.enough_windows(&panel, &run.interval_levels(args.interval.as_deref())?)?;
                    make(args, &run, &dataset, Subject::Series { panel: &panel, summary: &summary })?
                }
            }
        }
        Data::Tokens(data) => {
            let (dataset, data) = run.samples(data)?;
            let units = Units::tokens(&data.names);
            make(args, &run, &dataset, Subject::Samples { units: &units, segment: Segment::Test })?
        }
        // Its benchmark holds no windows out.
        Data::Walk(walk) => {
            let subject = Subject::Samples { units: &Units::labels(), segment: Segment::Train };
            make(args, &run, &Dataset::regression(&walk), subject)?
        }
    };
    match (&args.svg, &report.svg) {
        (Some(path), Some(svg)) => forecast::write(path, svg)?,
        (Some(_), None) => {
            let why = "this run forecasts no rows of a series; leave it out";
            return Err(CliError::Flags { flag: "--svg", other: args.run.display().to_string(), why });
        }
        (None, _) => {}
    }
    match args.out {
        Some(_) => forecast::write(&out, &report.html)?,
        None => write(&out, &report.html)?,
    }
    let (path, bytes) = (out.display().to_string(), report.html.len());
    if args.with.json {
        return output::json(&json!({"out": path, "bytes": bytes, "svg": args.svg}));
    }
    output::line(&format!("Report written to {path} ({} kB)", bytes.div_ceil(1000)))
}

/// The forecast of data that is too short to test anything.
fn untested(args: &Args, run: &Run, panel: Panel, why: &RunError) -> Result<Report, CliError> {
    if args.svg.is_some() {
        let why = "it shows a test window, and nothing of this data can be tested; leave it out";
        return Err(CliError::Flags { flag: "--svg", other: args.run.display().to_string(), why });
    }
    let why = crate::wording::of_run(why);
    output::note(&why);
    let panel = run.untested(panel)?;
    let placed = on_device(args.with.on.device, args.with.on.threads, |engine| {
        run.predictor(engine, args.with.weights)
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let mut session = placed.made;
    let subject = Subject::Untested { panel: &panel, why: &why };
    Report::of(run, &mut session, subject, (args.with.weights, &[])).map_err(CliError::during)
}

fn make(args: &Args, run: &Run, dataset: &Dataset, subject: Subject<'_>) -> Result<Report, CliError> {
    let placed = on_device(args.with.on.device, args.with.on.threads, |engine| {
        run.session(engine, dataset, args.with.weights)
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let mut session = placed.made;
    let levels = run.interval_levels(args.interval.as_deref())?;
    Report::of(run, &mut session, subject, (args.with.weights, &levels)).map_err(CliError::during)
}

/// Writes a file in the place of an earlier one, whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    files::replace(path, text.as_bytes()).map_err(|why| CliError::Write { path: path.to_owned(), why })
}
