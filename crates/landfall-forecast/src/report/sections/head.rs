//! What was trained, on what, and how good it is.

use super::super::page::Page;
use super::super::svg::{digits, shortened};
use crate::choice::Metric;
use crate::data::{LevelScores, Metrics, Summary, count};
use crate::files::read_text;
use crate::run::{ENSEMBLE_STAYS, EvaluationRecord, IntervalRecord, IntervalScore, Run, SCALED};
use chrono::{DateTime, Utc};
use std::time::SystemTime;

/// Test windows below which errors may be chance.
const FEW: usize = 20;

/// Names of a list, the first ones where there are many.
fn names(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().take(12).map(|name| shortened(name, 60)).collect();
    match all.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether the run beats its baselines, and the errors of all.
pub(crate) fn verdict(page: &mut Page, run: &Run, record: &EvaluationRecord) {
    page.heading(2, "How good it is");
    let units = run.resolved().units();
    let name = run.forecaster_name();
    let metric = run.resolved().metric(run.scalers().len() * run.targets());
    if let Some(compared) = record.beside_baseline(metric) {
        let error = match compared.metric {
            Metric::Mase => "mean absolute scaled error (MASE)",
            Metric::Mse | Metric::Rmsse => "mean squared error",
        };
        let (ratio, baseline) = (compared.own / compared.other, &compared.baseline.name);
        if compared.own < compared.other {
            let text = format!(
                "{name} forecasts the test windows with {:.1} % less {error} than the better baseline, {baseline}.",
                100.0 * (1.0 - ratio)
            );
            page.paragraph("", &text);
        } else {
            let text = format!(
                "{name} does not beat the better baseline on the test windows: its {error} is {} times that of {baseline}. \
                 Try a longer series, a shorter horizon, or another seasonal period.",
                digits(ratio)
            );
            page.paragraph("warn", &text);
        }
    }
    let best = record.baselines.iter().reduce(|a, b| if b.mse < a.mse { b } else { a });
    if record.windows < FEW {
        page.paragraph(
            "warn",
            &format!("Test has {}: these errors may be chance.", count(record.windows, "window")),
        );
    }
    let cells = |name: &str, mse: f64, mae: f64, metrics: Metrics| {
        let cell = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), digits);
        let percent = metrics.smape.map_or_else(|| "–".to_owned(), |x| format!("{} %", digits(x)));
        let relative = best.filter(|b| b.mse > 0.0).map(|b| mse / b.mse);
        let numbers =
            [digits(mse), digits(mae), digits(mse.sqrt()), cell(metrics.mase), percent, cell(relative)];
        std::iter::once(name.to_owned()).chain(numbers).collect::<Vec<_>>()
    };
    let own = cells(&name, record.mse, record.mae, record.metrics.unwrap_or_default());
    let beside = record.baselines.iter().map(|b| cells(&b.name, b.mse, b.mae, b.metrics));
    let rows: Vec<Vec<String>> = std::iter::once(own).chain(beside).collect();
    let first = format!("{} test windows, {units}", record.windows);
    let header = [&first, "MSE", "MAE", "RMSE", "MASE", "sMAPE", "MSE relative to the better baseline"];
    page.table(&header, &rows, Some(0));
    let text = "MASE is the mean absolute error in units of that of the seasonal naive forecast on the training rows: below 1 is better. \
                sMAPE is the symmetric mean absolute percentage error.";
    page.paragraph("soft", text);
    if !record.intervals.is_empty() {
        let row = |level: f64, name: &str, s: &IntervalScore| {
            let coverage = format!("{:.1} %", 100.0 * s.coverage);
            vec![format!("{level} % of {name}"), coverage, digits(s.width), digits(s.interval_score)]
        };
        let both = |i: &IntervalRecord| {
            let beside = i.baseline.as_ref().map(|s| row(i.level, &i.baseline_name, s));
            [Some(row(i.level, &name, &i.own)), beside]
        };
        let rows: Vec<Vec<String>> = record.intervals.iter().flat_map(both).flatten().collect();
        let first = format!("Intervals, {units}");
        page.table(&[&first, "Coverage", "Mean width", "Interval score"], &rows, None);
        let remarks = record.coverage_remarks(true);
        remarks.iter().for_each(|remark| page.paragraph("warn", remark));
        if remarks.is_empty() && record.windows >= FEW {
            page.paragraph("", "The intervals hold about as many of the test values as they should.");
        }
        if let Some(without) = record.intervals.iter().find(|i| i.baseline.is_none()) {
            page.paragraph("soft", &without.no_baseline());
        }
    }
    if let Some(q) = record.quantiles {
        let text = format!(
            "Mean quantile loss {} ({units}). Interval coverage {:.1} % (nominal {:.0} %).",
            digits(q.pinball),
            100.0 * q.coverage,
            100.0 * q.coverage_nominal
        );
        page.paragraph("", &text);
    }
    if let Some(nll) = record.nll {
        page.paragraph("", &format!("Mean negative log-likelihood {} ({units}).", digits(nll)));
    }
    if let Some(q) = &record.quantile_scores {
        let wql = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), digits);
        page.paragraph("", &format!("CRPS {} ({units}), WQL {}.", digits(q.crps), wql(q.wql)));
        let row =
            |l: &LevelScores| vec![format!("{}", l.level), format!("{:.1} %", 100.0 * l.below), wql(l.wql)];
        let rows: Vec<Vec<String>> = q.levels.iter().map(row).collect();
        page.table(&["Quantile", "Values below", "WQL"], &rows, None);
    }
}

/// Data, dates, season, sizes, and the choice.
pub(crate) fn facts(page: &mut Page, run: &Run, summary: &Summary, record: &EvaluationRecord) {
    page.heading(2, "Data and run");
    let resolved = run.resolved();
    let (targets, inputs) = summary.columns.split_at(summary.targets.min(summary.columns.len()));
    let dates = match (&summary.first, &summary.last) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => "none, rows are counted".to_owned(),
    };
    let mut facts = vec![
        ("Data", shortened(&summary.source, 200)),
        ("Rows and series", format!("{} rows, {} series", summary.rows, summary.series)),
        ("Dates", dates),
        ("Frequency", summary.frequency.clone().unwrap_or_else(|| "none".to_owned())),
        (
            "Seasonal period",
            match resolved.period {
                1 => "none".to_owned(),
                n => n.to_string(),
            },
        ),
        ("Columns to forecast", format!("{}: {}", targets.len(), names(targets))),
        ("Forecaster", run.forecaster_name()),
        (
            "Lookback window and horizon",
            format!("{} and {} rows", resolved.network.context(), resolved.network.horizon()),
        ),
        ("Test windows", record.windows.to_string()),
    ];
    if !inputs.is_empty() {
        facts.push(("Further inputs", names(inputs)));
    }
    facts.extend(chosen(run).map(|text| ("Chosen by", text)));
    page.facts(&facts);
    let units = match resolved.units() {
        SCALED => {
            "Scaled: each series and column has mean 0 and standard deviation 1 over its training rows. Original units: those of \
             the data."
        }
        _ => "All errors are in original units, those of the data: counts are not scaled.",
    };
    page.paragraph("soft", units);
    for note in summary.notes.iter().take(12) {
        page.paragraph("soft", &format!("Note: {}", shortened(note, 400)));
    }
}

/// What made the report, when, and the commands that use the run.
pub(crate) fn made(page: &mut Page, run: &Run) {
    let path = run.path().display();
    let now = DateTime::<Utc>::from(SystemTime::now()).format("%Y-%m-%d %H:%M UTC");
    page.facts(&[
        ("Made by", format!("landfall {}, {now}", env!("CARGO_PKG_VERSION"))),
        ("Forecast", format!("landfall forecast {path}")),
        ("Train again from", format!("{path}/config.toml")),
        ("This report", format!("landfall report {path}")),
    ]);
}

/// How the forecaster was chosen, and by how much, as `choice.json` of the run has it.
fn chosen(run: &Run) -> Option<String> {
    let text = read_text(&run.path().join("choice.json")).ok()?;
    let choice: serde_json::Value = serde_json::from_str(&text).ok()?;
    let how =
        if choice["rolling"].as_bool()? { "rolling origins before the test rows" } else { "validation" };
    let winner = &choice["winner"];
    // Runs of earlier versions chose by the squared error.
    let metric = choice["metric"].as_str().unwrap_or("mse");
    let others = choice["candidates"].as_array()?.iter().filter(|c| c["name"] != winner["name"]);
    let scored = |c: &serde_json::Value| {
        Some(format!("{} {}", shortened(c["name"].as_str()?, 80), digits(c[metric].as_f64()?)))
    };
    let scored: Vec<String> =
        std::iter::once(winner).chain(others.clone().take(2)).filter_map(scored).collect();
    let better = |c: &serde_json::Value| c[metric].as_f64() < winner[metric].as_f64();
    let why = match run.resolved().has_networks() && others.clone().any(better) {
        true if choice["forecaster"]["ensemble"] == true => {
            format!("; of many series and columns {ENSEMBLE_STAYS}")
        }
        true => "; only networks have quantiles, so that one of them is chosen".to_owned(),
        false => String::new(),
    };
    let windows = choice["windows"].as_u64()?;
    let name = match metric {
        "mse" => format!("MSE ({})", run.resolved().units()),
        other => other.to_uppercase(),
    };
    Some(format!("{how}, {windows} windows; {name}: {}{why}", scored.join(", ")))
}

/// A run that predicts classes or labels.
pub(crate) fn samples(page: &mut Page, run: &Run, record: &EvaluationRecord) {
    let text =
        "This model predicts classes or labels of samples, not future rows: there are no forecasts to draw.";
    page.paragraph("soft", text);
    let title = format!("{} samples of {}", record.windows, record.split);
    let mut rows = vec![("MSE", record.mse), ("MAE", record.mae)];
    if let Some(c) = record.classes {
        rows = vec![("Accuracy", c.accuracy), ("Cross-entropy", c.cross_entropy)];
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|(n, x)| vec![(*n).to_owned(), digits(*x)]).collect();
    page.table(&[&title, &run.forecaster_name()], &rows, None);
}
