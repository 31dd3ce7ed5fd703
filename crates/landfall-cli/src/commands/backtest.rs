//! `landfall backtest`: forecasts from several past origins, scored against what came.

mod file;

use super::{METRICS, fill, forecast, metric_cells, note_all};
use crate::args::{self, Backtest as Args};
use crate::error::CliError;
use crate::output::{self, Origins as Shown, digits};
use crate::signals::Stop;
use file::File;
use landfall_forecast::ForecastError;
use landfall_forecast::backtest::{Errors, Of, Record, Scored};
use landfall_forecast::backtesting::{Forecasters, Refit, Rolling, forecasts_rows};
use landfall_forecast::forecasting::{Predictor, series};
use landfall_forecast::report::{self, BacktestFacts};
use landfall_forecast::run::{Data, Device, Run, RunError, Settings, Text, Weights};
use landfall_forecast::without_run::{self, PanelForecaster, Spread};
use landfall_train::data::{Cutoff, OriginRange, Origins, Panel, Series, count, few};
use serde_json::json;
use std::path::Path;

/// Rows of a table of the errors by step or origin that are printed.
const SHOWN: usize = 12;

/// What is tested.
struct Subject {
    /// The run's directory, or the data.
    name: String,
    panel: Panel,
    forecasters: Forecasters,
    horizon: usize,
    /// Rows of each series that a run was trained or chosen on, by the place of the series; none where no forecaster is
    /// older than its origin.
    seen: Option<Vec<usize>>,
    notes: Vec<String>,
    /// Where a forecaster computes, where that is known before.
    device: Option<String>,
}

/// Tests and prints; the exit code.
pub(crate) fn run(args: &Args) -> Result<u8, CliError> {
    let stop = Stop::watch();
    let resumes = |path: &&std::path::PathBuf| args.resume && Some(*path) == args.predictions.as_ref();
    let new = args.predictions.iter().chain(&args.report);
    if let Some(path) = new.filter(|path| !resumes(path)).find(|path| path.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    for (key, value) in [("--windows", args.windows), ("--step", Some(args.step))] {
        if value == Some(0) {
            let (value, rule) = ("0".to_owned(), "it must be at least 1");
            return Err(CliError::Range { flag: key, value, rule });
        }
    }
    if args.setup.settings().interval.is_some() {
        let (flag, why) = ("--interval", "a backtest has no intervals; leave it out");
        return Err(CliError::Flags { flag, other: "backtest".to_owned(), why });
    }
    let subject = match (&args.run, &args.pretrained) {
        (Some(path), None) => of_run(args, path)?,
        (None, Some(weights)) => of_pretrained(args, weights)?,
        (None, None) => of_data(args)?,
        (Some(_), Some(_)) => {
            let (flag, other) = ("--pretrained", "a run directory".to_owned());
            return Err(CliError::Flags {
                flag,
                other,
                why: "a run has its own weights; leave one of them out",
            });
        }
    };
    let Subject { name, panel, forecasters, horizon, seen, mut notes, device } = subject;
    let origins = origins(args, &panel, horizon)?;
    let panel = match &forecasters {
        Forecasters::New(settings) if args.run.is_none() => {
            without_constants(settings, panel, &origins, &mut notes)?
        }
        Forecasters::New(_) | Forecasters::Of(_) | Forecasters::Pretrained(..) => panel,
    };
    device.iter().for_each(|line| output::note(line));
    notes.extend(seen.and_then(|seen| in_sample(&seen, &panel, &origins)));
    go(args, &stop, name, Rolling::new(panel, origins, args.refit, forecasters)?, notes)
}

/// A run's own weights; or, where it is to be trained anew, its settings.
fn of_run(args: &Args, path: &Path) -> Result<Subject, CliError> {
    let given = args.setup.settings();
    let data = given.data.clone().map_or_else(Vec::new, |data| data.0);
    let fill_by = given.fill.clone();
    let (device, threads) = (given.device, given.threads);
    let kept = Settings { data: None, fill: None, device: None, threads: None, ..given };
    let network =
        kept.network.iter().flat_map(|n| n.names()).map(|name| Text::option(name, None).to_string());
    let of_run = kept.given().filter(|setting| setting.name != "network");
    let mut flags: Vec<String> =
        of_run.map(|setting| Text::setting(setting.name).to_string()).chain(network).collect();
    flags.extend(args.setup.shapes.config.is_some().then(|| "--config".to_owned()));
    if !flags.is_empty() {
        let (flags, other) = (flags.join(", "), format!("the run {}", path.display()));
        let why = "a run has its own settings; only --data, --fill, --device and --threads may be given with it. Leave the \
                   run out, and give --data, to test other settings";
        return Err(CliError::FlagsOf { flags, other, why });
    }
    let computing = device.unwrap_or(Device::Auto);
    computes(computing)?;
    let run = Run::open(path)?;
    forecasts_rows(&run)?;
    let panel = series(&run, &data, fill(fill_by.as_ref())?)?;
    let horizon = run.resolved().network.horizon();
    let notes = panel.notices().to_vec();
    let name = path.display().to_string();
    if args.refit != Refit::Never {
        let own = run.resolved().settings.clone().for_new_run();
        let settings = Settings { device: Some(computing), threads: threads.or(own.threads), ..own };
        let forecasters = Forecasters::New(Box::new(settings));
        return Ok(Subject { name, panel, forecasters, horizon, seen: None, notes, device: None });
    }
    // Of other data it is not known which rows the run has seen.
    let split = run.resolved().split;
    let before_test = |s: &Series| split.rows(s.rows()).map_or(s.rows(), |[train, val, _]| train + val);
    let seen = data.is_empty().then(|| panel.series().iter().map(before_test).collect());
    let predictor =
        Predictor::new(run, Weights::Best, computing, threads).map_err(|why| unvalidated(why, path))?;
    let device = predictor.device().map(str::to_owned);
    let forecasters = Forecasters::Of(Box::new(predictor));
    Ok(Subject { name, panel, forecasters, horizon, seen, notes, device })
}

/// Pretrained weights, which read the data and are not trained.
fn of_pretrained(args: &Args, weights: &Path) -> Result<Subject, CliError> {
    let settings =
        super::train::one_run::settings(args.setup.settings(), args.setup.shapes.config.as_deref())?;
    let why = "nothing is trained and no network is made: leave it out, or leave --pretrained out";
    let refused = |flags: String| CliError::FlagsOf { flags, other: "--pretrained".to_owned(), why };
    if args.refit != Refit::Never {
        return Err(refused("--refit".to_owned()));
    }
    let others = settings.given().filter(|setting| !args::of_pretrained(setting));
    let others: Vec<String> = others.map(|setting| Text::setting(setting.name).to_string()).collect();
    if !others.is_empty() {
        return Err(refused(others.join(", ")));
    }
    let Some(horizon) = settings.horizon else {
        return Err(CliError::Needed("--horizon", "without a run nothing says how many rows a forecast has"));
    };
    if settings.data.is_none() {
        return Err(CliError::Needed("--data", "pretrained weights know no series"));
    }
    let computing = settings.device.unwrap_or(Device::Auto);
    computes(computing)?;
    let mut forecaster = PanelForecaster::new(Some(weights), computing, settings.threads)?;
    without_run::check(horizon, forecaster.most_rows(), Spread { quantiles: &[], intervals: &[] })?;
    if let Some(context) = settings.context {
        forecaster = forecaster.with_context(context);
    }
    let reading = Settings { context: None, horizon: None, device: None, threads: None, ..settings.clone() };
    let panel = without_run::series(&reading)?;
    let roles = forecaster.roles(&panel, &settings)?;
    let notes = panel.notices().iter().cloned().chain(without_run::unused(&panel, &roles)).collect();
    let (name, device) = (panel.source(), forecaster.device().map(str::to_owned));
    let forecasters = Forecasters::Pretrained(Box::new(forecaster), roles);
    Ok(Subject { name, panel, forecasters, horizon, seen: None, notes, device })
}

/// That a run has no best weights yet, in the words of a command that takes no others.
fn unvalidated(why: ForecastError, run: &Path) -> CliError {
    let unvalidated = matches!(why, ForecastError::Run(RunError::NoWeights { .. }));
    if unvalidated { CliError::Unvalidated(run.to_owned()) } else { why.into() }
}

/// Settings of a new run.
fn of_data(args: &Args) -> Result<Subject, CliError> {
    let settings =
        super::train::one_run::settings(args.setup.settings(), args.setup.shapes.config.as_deref())?;
    let Some(horizon) = settings.horizon else {
        return Err(CliError::Needed("--horizon", "without a run nothing says how many rows a forecast has"));
    };
    computes(settings.device.unwrap_or(Device::Auto))?;
    let resolved = settings.resolve()?;
    let Data::Series(panel) = resolved.load()? else {
        return Err(CliError::Needed(
            "a series",
            "this model forecasts no rows, so there is nothing to test by origins",
        ));
    };
    let (name, notes) = (panel.source(), panel.notices().to_vec());
    let forecasters = Forecasters::New(Box::new(settings));
    Ok(Subject { name, panel, forecasters, horizon, seen: None, notes, device: None })
}

fn computes(device: Device) -> Result<(), CliError> {
    if device == Device::Null {
        let (flag, other) = ("--device null", "backtest".to_owned());
        return Err(CliError::Flags {
            flag,
            other,
            why: "null computes nothing, so there would be no forecasts",
        });
    }
    Ok(())
}

fn origins(args: &Args, panel: &Panel, horizon: usize) -> Result<Origins, CliError> {
    let cutoff = |text: &Option<String>| text.as_ref().map(|text| Cutoff::parse(text, panel)).transpose();
    let (from, to) = (cutoff(&args.from)?, cutoff(&args.to)?);
    match (args.windows, from, to) {
        (Some(windows), None, None) => Ok(Origins::last(panel, horizon, windows, args.step)?),
        (windows, from, to) if from.is_some() || windows.is_some() => {
            Ok(Origins::within(panel, horizon, OriginRange { from, to, windows }, args.step)?)
        }
        _ => Err(CliError::Needed(
            "--windows or --from",
            "as in --windows 10 --step 24, or --from 2020-01-31 --step 24",
        )),
    }
}

/// The panel without the columns that have one value up to the first origin, so that later rows have no part in which columns
/// there are.
fn without_constants(
    settings: &Settings,
    panel: Panel,
    origins: &Origins,
    notes: &mut Vec<String>,
) -> Result<Panel, CliError> {
    if settings.columns.is_some() || settings.target.is_some() || !panel.known().is_empty() {
        return Ok(panel);
    }
    let first = panel.known_at(|s| origins.known(0, s))?.without_constants()?;
    notes.extend(first.notices().iter().filter(|n| !panel.notices().contains(n)).cloned());
    Ok(panel.with_columns(first.columns())?)
}

/// That some origins are older than what a run has seen.
fn in_sample(seen: &[usize], panel: &Panel, origins: &Origins) -> Option<String> {
    let early = |origin: &usize| {
        let known = panel.series().iter().zip(seen).filter(|(s, _)| origins.is_whole(*origin, s));
        known.into_iter().any(|(s, seen)| origins.known(*origin, s) < *seen)
    };
    let count = (0..origins.count()).filter(early).count();
    (count > 0).then(|| {
        format!(
            "{count} of {} origins lie before the test rows of the run, which was trained or chosen on rows after them: errors \
             there are too small; take later origins, or --refit",
            origins.count()
        )
    })
}

/// Goes from origin to origin.
fn go(
    args: &Args,
    stop: &Stop,
    name: String,
    mut rolling: Rolling,
    notes: Vec<String>,
) -> Result<u8, CliError> {
    note_all(&notes);
    let count = rolling.origins().count();
    let mut file = match &args.predictions {
        Some(path) if args.resume && path.exists() => Some(File::resume(path, &mut rolling)?),
        Some(path) => Some(File::new(path, &rolling)?),
        None => None,
    };
    let first = file.as_ref().map_or(0, |file| file.origins);
    let mut shown = Shown::new(first, count, stop.clone());
    for origin in first..count {
        let label = rolling.label(origin);
        if stop.raised() {
            return interrupted(&shown, (origin, count), file.as_ref(), stop, args.json);
        }
        shown.begin(&label);
        let done = rolling.step(origin, &mut shown, &mut |window| {
            file.iter_mut().for_each(|file| file.add(window));
            Ok(())
        });
        if !done.inspect_err(|_| shown.finish())? {
            return interrupted(&shown, (origin, count), file.as_ref(), stop, args.json);
        }
        if let Some(file) = &mut file {
            file.write(&rolling)?;
        }
        let mse = rolling.tested().last_mse();
        shown.end(&label, mse.map(digits));
    }
    shown.finish();
    let Some(record) = rolling.tested().record() else {
        let why = "no series has a forecast from any origin";
        return Err(CliError::Needed("a longer series, or other origins", why));
    };
    let left_out = few(&rolling.left_out());
    note_all(&left_out);
    let notes = [notes, left_out].concat();
    results(args, &name, &rolling, &record)?;
    if let Some(path) = &args.report {
        let facts = facts(args, &name, &mut rolling, notes);
        let page = report::backtest(&rolling.panel().clone(), rolling.tested(), &record, &facts);
        forecast::write(path, &page)?;
        output::line(&format!("Report written to {}", path.display()))?;
    }
    if args.json {
        output::json(&object(args, &name, &rolling, &record)?)?;
    }
    Ok(0)
}

/// Says what of an interrupted backtest is kept.
fn interrupted(
    shown: &Shown,
    (done, count): (usize, usize),
    file: Option<&File>,
    stop: &Stop,
    json: bool,
) -> Result<u8, CliError> {
    shown.finish();
    let kept = match file {
        Some(file) if done > 0 => {
            format!("they are in {}; go on with the same command and --resume", file.path.display())
        }
        Some(file) => format!(
            "{} has no forecast yet; begin again with the same command and --resume",
            file.path.display()
        ),
        None => "nothing is kept (--predictions keeps the forecasts)".to_owned(),
    };
    output::note(&format!("interrupted after {done} of {count} origins; {kept}"));
    if json {
        output::json(&json!({"origins": done, "interrupted": true}))?;
    }
    Ok(stop.code())
}

/// The name of what was tested.
fn forecaster(args: &Args, rolling: &Rolling) -> String {
    match rolling.forecasters() {
        Forecasters::Of(predictor) => return predictor.run().forecaster_name(),
        Forecasters::Pretrained(forecaster, _) => return forecaster.name().to_owned(),
        Forecasters::New(_) => {}
    }
    let mut names = rolling.names().keys();
    match (names.next(), names.next()) {
        (Some(only), None) => only.clone(),
        _ => args.setup.settings().preset.unwrap_or_else(|| "auto".to_owned()),
    }
}

fn refit(refit: Refit) -> String {
    match refit {
        Refit::Never => "never".to_owned(),
        Refit::Every(1) => "always".to_owned(),
        Refit::Every(n) => format!("every {n} origins"),
    }
}

fn fits(rolling: &Rolling) -> String {
    rolling.names().iter().map(|(name, n)| format!("{name} ({n})")).collect::<Vec<_>>().join(", ")
}

fn facts(args: &Args, name: &str, rolling: &mut Rolling, notes: Vec<String>) -> BacktestFacts {
    let mut facts = vec![
        ("Horizon", format!("{} rows", rolling.origins().horizon())),
        ("Rows between origins", args.step.to_string()),
        ("Refit", refit(args.refit)),
        ("Seasonal period", rolling.period().to_string()),
    ];
    facts.extend((!rolling.names().is_empty()).then(|| ("Trained, how often", fits(rolling))));
    let units = rolling.units();
    BacktestFacts { forecaster: forecaster(args, rolling), source: name.to_owned(), units, facts, notes }
}

fn object(
    args: &Args,
    name: &str,
    rolling: &Rolling,
    record: &Record,
) -> Result<serde_json::Value, CliError> {
    let mut object = serde_json::to_value(record).map_err(|e| CliError::Output(e.into()))?;
    object[if args.run.is_some() { "run" } else { "data" }] = json!(name);
    object["forecaster"] = json!(forecaster(args, rolling));
    object["trained"] = json!(rolling.names());
    object["horizon"] = json!(rolling.origins().horizon());
    object["step"] = json!(args.step);
    object["refit"] = match args.refit {
        Refit::Never => json!("never"),
        Refit::Every(1) => json!("always"),
        Refit::Every(n) => json!(n),
    };
    object["seasonal_period"] = json!(rolling.period());
    object["predictions"] = json!(args.predictions);
    object["report"] = json!(args.report);
    Ok(object)
}

/// Prints the errors beside those of the baselines.
fn results(args: &Args, name: &str, rolling: &Rolling, r: &Record) -> Result<(), CliError> {
    let row = |name: &str, e: &Errors| -> Vec<String> {
        let cells = [name.to_owned(), digits(e.mse), digits(e.mae)];
        cells.into_iter().chain(metric_cells(Some(&e.metrics))).collect()
    };
    let forecaster = forecaster(args, rolling);
    output::line(&format!(
        "{name}: {} from {}, {} to {}, refit {}",
        count(r.windows, "window"),
        count(r.origins, "origin"),
        r.first_cutoff,
        r.last_cutoff,
        refit(args.refit)
    ))?;
    if !rolling.names().is_empty() {
        output::line(&format!("Trained: {}", fits(rolling)))?;
    }
    let mut rows =
        vec![[rolling.units(), "MSE", "MAE"].iter().chain(&METRICS).map(|&h| h.to_owned()).collect()];
    rows.push(row(&forecaster, &r.errors));
    rows.extend(r.baselines.iter().map(|b| row(&b.name, &b.errors)));
    for s in &r.columns {
        if let Of::Column { column } = &s.of {
            rows.push(row(&format!("{column}, in original units"), &s.errors));
        }
    }
    output::line(&format!("\n{}", output::table(&rows)))?;
    if let Some(q) = r.quantiles {
        output::line(&super::quantile_line(&q))?;
    }
    for (what, all) in [("step", &r.steps), ("series", &r.series), ("origin", &r.by_origin)] {
        if all.len() > 1 {
            output::line(&format!("\n{}", table((what, rolling.units()), &forecaster, all)))?;
        }
    }
    if let Some(path) = &args.predictions {
        output::line(&format!("\nForecasts and actual values are in {}", path.display()))?;
    }
    Ok(())
}

/// Squared errors of the forecaster and of the baselines; of many rows the first and the last ones.
fn table((what, units): (&str, &str), forecaster: &str, all: &[Scored]) -> String {
    let baselines = all.first().map_or(&[][..], |s| &s.baselines).iter().map(|b| b.name.clone());
    let head = [format!("{what}, MSE, {units}"), forecaster.to_owned()];
    let mut rows = vec![head.into_iter().chain(baselines).collect::<Vec<_>>()];
    for (i, s) in all.iter().enumerate() {
        if all.len() > SHOWN && i == SHOWN / 2 {
            rows.push(vec![format!("... {} more", all.len() - SHOWN)]);
        }
        if all.len() > SHOWN && (SHOWN / 2..all.len() - SHOWN / 2).contains(&i) {
            continue;
        }
        let name = match &s.of {
            Of::Column { column: name } | Of::Series { series: name } => name.clone(),
            Of::Step { step } => step.to_string(),
            Of::Origins { cutoff, origins: 1, .. } => cutoff.clone(),
            Of::Origins { cutoff, last_cutoff, .. } => format!("{cutoff} to {last_cutoff}"),
        };
        let errors = s.baselines.iter().map(|b| digits(b.errors.mse));
        rows.push([name, digits(s.errors.mse)].into_iter().chain(errors).collect());
    }
    output::table(&rows)
}
