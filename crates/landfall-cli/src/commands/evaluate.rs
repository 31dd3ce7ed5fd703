//! `landfall evaluate`: a run, or a baseline, on the test windows.

use super::predictions::{self, Bands};
use super::{METRICS, class_rows, fill, metric_cells, note_all, series_rows};
use crate::args::{self, Evaluate};
use crate::error::CliError;
use crate::output;
use landfall_forecast::run::{
    BaselineRecord, ColumnRecord, Data, EvaluationRecord, IntervalRecord, Intervals, QuantileRecord, Run,
    RunError, SCALED, SeriesRecord, Settings, TestScoring, Units, Weights, baseline_source, interval_levels,
    on_device, run_source, window_forecasts,
};
use landfall_forecast::without_run::{self, PanelForecaster, SCORED, Scoring, Spread};
use landfall_train::data::{
    Baseline, Metrics, QuantileScores, Scaling, Segment, Split, Validation, WindowedPanel, baseline, count,
    few,
};
use landfall_train::train::Dataset;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The object of `--json`.
#[derive(Serialize)]
struct Object {
    mse: f64,
    mae: f64,
    mse_drop_last: Option<f64>,
    mae_drop_last: Option<f64>,
    windows: usize,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
    columns: Vec<ColumnRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    baselines: Vec<BaselineRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<IntervalRecord>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    quantiles: Option<QuantileRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nll: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantile_scores: Option<QuantileScores>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    series: Vec<SeriesRecord>,
}

/// Scores and prints.
pub(crate) fn run(args: &Evaluate) -> Result<(), CliError> {
    if let Some(path) = args.predictions.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    match (&args.run, args.model, &args.pretrained) {
        (Some(path), None, None) => trained(args, path),
        (None, Some(model), None) => score_baseline(args, model),
        (None, None, Some(weights)) => pretrained(args, weights),
        (None, None, None) => Err(CliError::Needed(
            "a run directory, --model or --pretrained",
            "as in: landfall evaluate runs/patchtst-42-1, or: landfall evaluate --model last-value --data F.csv",
        )),
        (run, model, _) => Err(CliError::Flags {
            flag: if model.is_some() { "--model" } else { "--pretrained" },
            other: if run.is_some() { "a run directory".to_owned() } else { "--pretrained".to_owned() },
            why: "give a run directory, the name of a baseline or pretrained weights, and one of them only",
        }),
    }
}

fn trained(args: &Evaluate, path: &Path) -> Result<(), CliError> {
    if let Some(flags) = args.given.own() {
        let why = "a run has its own; leave it out";
        return Err(CliError::FlagsOf { flags, other: "a run directory".to_owned(), why });
    }
    let run = Run::open(path)?;
    let fill = fill(args.given.settings.fill.as_ref())?;
    let (dataset, segment, units, notes, panel) = match run.load(args.given.data(), fill)? {
        Data::Series(panel) => {
            let notes = panel.notices().to_vec();
            let (dataset, panel) = run.dataset(panel)?;
            let notes = [notes, few(panel.left_out())].concat();
            (dataset, args.segment, Units::of(&panel), notes, Some(Arc::new(panel)))
        }
        Data::Tokens(data) => {
            let (dataset, data) = run.samples(data)?;
            (dataset, args.segment, Units::tokens(&data.names), Vec::new(), None)
        }
        // Its benchmark holds no windows out.
        Data::Walk(walk) => (Dataset::regression(&walk), Segment::Train, Units::labels(), Vec::new(), None),
    };
    if let (Some(_), None) = (&args.predictions, &panel) {
        let other = path.display().to_string();
        let why = "this run forecasts no rows of a series; leave it out";
        return Err(CliError::Flags { flag: "--predictions", other, why });
    }
    // Earlier windows that the run was not fit on are there for the test windows alone.
    let levels = match &args.interval {
        Some(_) if panel.is_some() && segment != Segment::Test => {
            let why = "intervals are of the test windows; leave one of them out";
            return Err(CliError::Flags { flag: "--interval", other: format!("--segment {segment}"), why });
        }
        Some(_) | None if segment != Segment::Test => Vec::new(),
        given => run.interval_levels(given.as_deref())?,
    };
    match (&panel, &args.interval) {
        (Some(panel), _) => note_all(&run.enough_windows(panel, &levels)?),
        (None, Some(_)) => {
            let other = path.display().to_string();
            let why = "this run forecasts no rows of a series; leave it out";
            return Err(CliError::Flags { flag: "--interval", other, why });
        }
        (None, None) => {}
    }
    let placed = on_device(args.with.on.device, args.with.on.threads, |engine| {
        run.session(engine, &dataset, args.with.weights)
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let mut session = placed.made;
    let engine = session.engine.clone();
    let step = run.resolved().steps(&session);
    let evaluated = match &panel {
        Some(panel) => run.evaluate(&mut session, panel, segment),
        None => engine.enter(|| session.evaluate(segment)).map_err(RunError::Engine),
    }
    .map_err(CliError::during)?;
    let mut record = EvaluationRecord::new(step, segment, &evaluated, &units);
    if let Some(panel) = &panel {
        let test = TestScoring { panel: Arc::clone(panel), period: run.resolved().period, segment };
        test.add_to(&mut record, &mut session, run.forecaster()).map_err(CliError::during)?;
    }
    let mut intervals = None;
    let made = match &panel {
        Some(panel) if !levels.is_empty() => {
            run.intervals(&mut session, panel, &levels).map_err(CliError::during)?
        }
        Some(_) | None => None,
    };
    if let (Some(panel), Some(made)) = (&panel, made) {
        let mut source = run_source(&mut session, panel, run.forecaster());
        record.intervals =
            made.record(&mut source, panel, run.resolved().period).map_err(CliError::during)?;
        intervals = Some(made);
    }
    note_all(&notes);
    if let (Some(path), Some(panel)) = (&args.predictions, &panel) {
        predictions::write(path, panel, run.levels(), intervals.as_ref().into(), |each| {
            window_forecasts(&mut session, panel, segment, run.forecaster(), each)
        })?;
    }
    print((&run.path().display().to_string(), true), &record, run.resolved().units(), args.with.json)
}

fn score_baseline(args: &Evaluate, model: args::Baseline) -> Result<(), CliError> {
    let settings = &args.given.settings;
    if settings.data.is_none() {
        return Err(CliError::Needed("--data", "a baseline is scored on a file"));
    }
    let split: Split = settings.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
    // No network has to fit in these rows.
    let reading = Settings { context: None, horizon: None, split: None, batch: None, ..settings.clone() };
    let panel = without_run::series(&reading)?;
    let period = panel.season().period;
    let kind = match model {
        args::Baseline::LastValue => Baseline::LastValue,
        args::Baseline::SeasonalNaive => Baseline::SeasonalNaive { period },
    };
    let (context, horizon) = (settings.context.unwrap_or(kind.period()), settings.horizon.unwrap_or(96));
    let split = split.with_horizon(horizon);
    let notes = panel.notices().to_vec();
    let panel = Arc::new(WindowedPanel::fit(panel, split, context, horizon)?);
    let (parts, targets, batch) = (panel.parts(args.segment), panel.targets(), settings.batch.unwrap_or(128));
    let s = baseline::score(kind, &parts, targets, batch)?;
    let each = parts.iter().filter(|_| parts.len() > 1).map(|part| {
        let s = baseline::score(kind, std::slice::from_ref(part), targets, batch)?;
        Ok(SeriesRecord { name: part.series.name().to_owned(), windows: s.windows, mse: s.mse, mae: s.mae })
    });
    let series = each.collect::<Result<Vec<_>, landfall_train::data::DataError>>()?;
    note_all(notes.iter().chain(&few(panel.left_out())));
    let mut intervals = None;
    if let Some(levels) = &args.interval {
        interval_levels(levels).map_err(RunError::from)?;
        intervals =
            Some(Intervals::validated(&mut baseline_source(kind, &panel), &panel, levels, Vec::new())?);
    }
    if let Some(path) = &args.predictions {
        predictions::write(path, &panel, &[], intervals.as_ref().into(), |each| {
            baseline::forecasts(kind, &parts, targets, each)
        })?;
    }
    let mut record = EvaluationRecord::of_scores(s, args.segment, series);
    TestScoring { panel: Arc::clone(&panel), period, segment: args.segment }
        .add_baseline_to(&mut record, kind)?;
    if let Some(intervals) = &intervals {
        record.intervals = intervals.record(&mut baseline_source(kind, &panel), &panel, period)?;
    }
    print((&kind.to_string(), true), &record, SCALED, args.with.json)
}

/// Scores pretrained weights on windows of data that no run knows.
fn pretrained(args: &Evaluate, weights: &Path) -> Result<(), CliError> {
    let settings = &args.given.settings;
    let example = "as in: landfall evaluate --pretrained chronos-2 --data F.csv --horizon 12";
    if settings.data.is_none() {
        return Err(CliError::Needed("--data", example));
    }
    let Some(horizon) = settings.horizon else { return Err(CliError::Needed("--horizon", example)) };
    for (flag, given) in
        [("--weights", args.with.weights != Weights::Best), ("--batch", settings.batch.is_some())]
    {
        if given {
            let why = "they have no use for it; leave it out";
            return Err(CliError::Flags { flag, other: "--pretrained".to_owned(), why });
        }
    }
    let levels = match &args.interval {
        Some(_) if args.segment != Segment::Test => {
            let other = format!("--segment {}", args.segment);
            let why = "intervals are of the test windows; leave one of them out";
            return Err(CliError::Flags { flag: "--interval", other, why });
        }
        None if args.segment != Segment::Test => Vec::new(),
        None => vec![without_run::INTERVAL],
        Some(levels) => levels.clone(),
    };
    let mut forecaster = PanelForecaster::new(Some(weights), args.with.on.device, args.with.on.threads)?;
    without_run::check(horizon, forecaster.most_rows(), Spread { quantiles: &[], intervals: &levels })?;
    if let Some(context) = settings.context {
        forecaster = forecaster.with_context(context);
    }
    let split: Split = settings.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
    // A window reads whatever lies before it.
    let reading = Settings { context: None, horizon: None, split: None, ..settings.clone() };
    let panel = without_run::series(&reading)?;
    let (roles, period) = (forecaster.roles(&panel, settings)?, panel.season().period);
    note_all(panel.notices().iter().chain(&without_run::unused(&panel, &roles)));
    let demands = (Validation::Optional, Scaling::Standard);
    let panel = WindowedPanel::fit_with(panel, split.with_horizon(horizon), (1, horizon), demands)?;
    note_all(&few(panel.left_out()));
    forecaster.device().iter().for_each(|device| output::note(device));
    let of = Scoring { panel: &panel, roles: &roles, segment: args.segment, period, intervals: &levels };
    let record = match &args.predictions {
        None => forecaster.evaluate::<CliError>(&of, |_| Ok(()))?,
        Some(path) => {
            let mut record = None;
            predictions::write(path, &panel, &SCORED, Bands::Own(&levels), |each| {
                record = Some(forecaster.evaluate(&of, |window| each(*window))?);
                Ok(())
            })?;
            record.ok_or(CliError::Needed("a test window", "the series are too short for one"))?
        }
    };
    print((&weights.display().to_string(), false), &record, SCALED, args.with.json)
}

/// Prints a record, whose forecaster is called `name`, and whose intervals are made of its errors or are its own.
pub(super) fn print(
    (name, of_errors): (&str, bool),
    r: &EvaluationRecord,
    units: &str,
    json: bool,
) -> Result<(), CliError> {
    if let Some(c) = r.classes {
        output::line(&output::table(&class_rows(name, r, &c)))?;
        if json {
            let (accuracy, cross_entropy, samples) = (c.accuracy, c.cross_entropy, r.windows);
            output::json(&json!({"accuracy": accuracy, "cross_entropy": cross_entropy, "samples": samples}))?;
        }
        return Ok(());
    }
    let digits = output::digits;
    let row = |name: String, mse: f64, mae: f64, metrics: Option<&Metrics>| {
        let metrics = r.metrics.and(Some(metric_cells(metrics)));
        let cells = metrics.into_iter().flatten();
        [name, digits(mse), digits(mae)].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let heads = METRICS.iter().filter(|_| r.metrics.is_some());
    let mut rows = vec![[name, "MSE", "MAE"].iter().chain(heads).map(|&head| head.to_owned()).collect()];
    rows.push(row(
        format!("{}, {}, {units}", r.split, count(r.windows, "window")),
        r.mse,
        r.mae,
        r.metrics.as_ref(),
    ));
    if let (Some(mse), Some(mae)) = (r.mse_drop_last, r.mae_drop_last) {
        let name = format!(
            "{}, {} without the last partial batch, {units}",
            r.split,
            count(r.windows_drop_last, "window")
        );
        rows.push(row(name, mse, mae, None));
    }
    rows.extend(
        r.columns
            .iter()
            .map(|c| row(format!("{}, in original units", c.name), c.mse, c.mae, c.metrics.as_ref())),
    );
    rows.extend(
        r.baselines.iter().map(|b| row(format!("{}, {units}", b.name), b.mse, b.mae, Some(&b.metrics))),
    );
    output::line(&output::table(&rows))?;
    if let Some(q) = r.quantiles {
        output::line(&super::quantile_line(&q))?;
    }
    if let Some(nll) = r.nll {
        output::line(&super::nll_line(nll, units))?;
    }
    if let Some(q) = &r.quantile_scores {
        output::line(&super::quantile_scores_line(q, units))?;
    }
    if !r.intervals.is_empty() {
        output::line(&format!("\n{}", output::table(&super::interval_rows("the forecast", r, units))))?;
        for remark in r.coverage_remarks(of_errors) {
            output::line(&format!("\n{remark}"))?;
        }
        if let Some(why) = super::no_baseline_intervals(r) {
            output::line(&format!("\n{why}"))?;
        }
    }
    if !r.series.is_empty() {
        output::line(&format!("\n{}", output::table(&series_rows(r, units))))?;
    }
    if json {
        let (mse, mae, windows) = (r.mse, r.mae, r.windows);
        let (mse_drop_last, mae_drop_last) = (r.mse_drop_last, r.mae_drop_last);
        let (metrics, columns) = (r.metrics, r.columns.clone());
        let (baselines, series) = (r.baselines.clone(), r.series.clone());
        output::json(&Object {
            mse,
            mae,
            mse_drop_last,
            mae_drop_last,
            windows,
            metrics,
            columns,
            baselines,
            intervals: r.intervals.clone(),
            quantiles: r.quantiles,
            nll: r.nll,
            quantile_scores: r.quantile_scores.clone(),
            series,
        })?;
    }
    Ok(())
}
