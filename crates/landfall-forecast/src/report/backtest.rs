//! The page of a backtest.

use super::page::Page;
use super::sections::style::{BASELINES, SIZE};
use super::svg::{Bars, Line, LineChart, date_ticks, digits, row_ticks, shortened};
use crate::backtest::{Backtest, Errors, Of, Record, Scored, Shown};
use crate::data::{Panel, Series};

/// Groups of bars in a chart at most, and rows of a table.
const BARS: usize = 12;
const ROWS: usize = 60;
/// Rows of a picture of forecasts at most.
const WIDE: usize = 4000;

/// What a backtest is about, beside its errors.
#[derive(Debug, Clone, Default)]
pub struct BacktestFacts {
    /// The name of the forecaster.
    pub forecaster: String,
    /// Where the run or the data lies.
    pub source: String,
    /// What errors are in ([`Resolved::units`](crate::run::Resolved::units)).
    pub units: &'static str,
    /// Names of further things and what they are.
    pub facts: Vec<(&'static str, String)>,
    /// What a person has to know.
    pub notes: Vec<String>,
}

/// The page of a backtest: its errors overall, by step, origin, series and column beside those of the baselines, and
/// some of its forecasts beside the actual values. Its size does not grow with the number of windows.
#[must_use]
pub fn backtest(panel: &Panel, tested: &Backtest, record: &Record, about: &BacktestFacts) -> String {
    let title = format!("Backtest of {}", shortened(&about.source, 120));
    let mut page = Page::default();
    page.heading(1, &title);
    let units = about.units;
    verdict(&mut page, record, &about.forecaster, units);
    let sizes = format!("{} windows from {} origins", record.windows, record.origins);
    let mut facts = vec![
        ("Forecaster", about.forecaster.clone()),
        ("Windows", sizes),
        ("Origins (last known rows)", format!("{} to {}", record.first_cutoff, record.last_cutoff)),
    ];
    facts.extend(about.facts.iter().cloned());
    page.facts(&facts);
    for note in &about.notes {
        page.paragraph("soft", &format!("Note: {}", shortened(note, 400)));
    }
    forecasts(&mut page, panel, tested.shown());
    page.heading(2, "Errors");
    let kinds = kinds(record, &about.forecaster);
    let mut charts = vec![by_step(record, &kinds, units)];
    charts.extend((record.by_origin.len() > 1).then(|| by_origin(record, &kinds, units)));
    if record.series.len() > 1 {
        charts.push(bars("series", &record.series, &kinds, units));
    }
    page.charts(&charts);
    scores(&mut page, "Column, original units", &record.columns);
    if !record.series.is_empty() {
        scores(&mut page, &format!("Series, {units}"), &record.series);
    }
    scores(&mut page, &format!("Origins (last known rows), {units}"), &record.by_origin);
    page.html(&title)
}

/// Class and name of the forecaster and of the baselines.
fn kinds(record: &Record, forecaster: &str) -> Vec<(&'static str, String)> {
    let baselines = record.baselines.iter().zip(BASELINES).map(|(b, class)| (class, b.name.clone()));
    std::iter::once(("forecast", forecaster.to_owned())).chain(baselines).collect()
}

fn verdict(page: &mut Page, record: &Record, forecaster: &str, units: &str) {
    let best = record.baselines.iter().min_by(|a, b| a.errors.mse.total_cmp(&b.errors.mse));
    if let Some(best) = best {
        let ratio = record.errors.mse / best.errors.mse;
        if ratio < 1.0 {
            let (share, name) = (100.0 * (1.0 - ratio), &best.name);
            let text = format!(
                "{forecaster} has {share:.1} % less mean squared error than the better baseline, {name}."
            );
            page.paragraph("", &text);
        } else {
            let (ratio, name) = (digits(ratio), &best.name);
            let text = format!(
                "{forecaster} does not beat the better baseline: its mean squared error is {ratio} times that of {name}."
            );
            page.paragraph("warn", &text);
        }
    }
    let row = |name: &str, e: &Errors| std::iter::once(name.to_owned()).chain(cells(e)).collect();
    let mut rows: Vec<Vec<String>> = vec![row(forecaster, &record.errors)];
    rows.extend(record.baselines.iter().map(|b| row(&b.name, &b.errors)));
    let first = format!("All windows, {units}");
    let header = [&first, "MSE", "MAE", "RMSE", "MASE", "sMAPE", "R²"];
    page.table(&header, &rows, Some(0));
    if let Some(q) = record.quantiles {
        let (coverage, nominal) = (100.0 * q.coverage, 100.0 * q.coverage_nominal);
        let loss = digits(q.pinball);
        let text = format!(
            "Mean quantile loss {loss} ({units}). Interval coverage {coverage:.1} % (nominal {nominal:.0} %)."
        );
        page.paragraph("", &text);
    }
}

fn cells(e: &Errors) -> [String; 6] {
    let cell = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), digits);
    let m = &e.metrics;
    let smape = m.smape.map_or_else(|| "–".to_owned(), |x| format!("{} %", digits(x)));
    [digits(e.mse), digits(e.mae), cell(m.rmse), cell(m.mase), smape, cell(m.r2)]
}

fn name(of: &Of) -> String {
    match of {
        Of::Column { column } => shortened(column, 80),
        Of::Step { step } => step.to_string(),
        Of::Series { series } => shortened(series, 80),
        Of::Origins { cutoff, origins: 1, .. } => cutoff.clone(),
        Of::Origins { cutoff, last_cutoff, .. } => format!("{cutoff} to {last_cutoff}"),
    }
}

fn scores(page: &mut Page, what: &str, all: &[Scored]) {
    let row = |s: &Scored| -> Vec<String> {
        let [mse, mae, rmse, mase, smape, _] = cells(&s.errors);
        let baselines = s.baselines.iter().map(|b| digits(b.errors.mse));
        [name(&s.of), s.windows.to_string(), mse, mae, rmse, mase, smape]
            .into_iter()
            .chain(baselines)
            .collect()
    };
    let rows: Vec<Vec<String>> = all.iter().take(ROWS).map(row).collect();
    let baselines: Vec<String> =
        all.first().map_or(&[][..], |s| &s.baselines).iter().map(|b| format!("MSE of {}", b.name)).collect();
    let mut header = vec![what, "Windows", "MSE", "MAE", "RMSE", "MASE", "sMAPE"];
    header.extend(baselines.iter().map(String::as_str));
    page.table(&header, &rows, None);
    if all.len() > ROWS {
        page.paragraph("soft", &format!("{} further rows are left out of the table.", all.len() - ROWS));
    }
}

/// The squared errors of all kinds over some groups, as lines.
fn lines(all: &[Scored], kinds: &[(&'static str, String)], x: impl Fn(usize) -> f64) -> Vec<Line> {
    let line = |(kind, (class, name)): (usize, &(&'static str, String))| {
        let error = |s: &Scored| match kind.checked_sub(1) {
            Some(baseline) => s.baselines.get(baseline).map_or(f64::NAN, |b| b.errors.mse),
            None => s.errors.mse,
        };
        let points = all.iter().enumerate().map(|(i, s)| (x(i), error(s))).collect();
        Line { class, name: name.clone(), points, dots: all.len() <= 14 }
    };
    let mut lines: Vec<Line> = kinds.iter().enumerate().map(line).collect();
    // The forecast is drawn over the baselines.
    lines.rotate_left(1);
    lines
}

fn by_step(record: &Record, kinds: &[(&'static str, String)], units: &str) -> (String, String, String) {
    let chart = LineChart {
        title: "Error by horizon step".to_owned(),
        description: "Mean squared error of each step ahead, over all windows, beside the baselines."
            .to_owned(),
        size: SIZE,
        x_ticks: row_ticks(1.0, record.steps.len() as f64),
        x_name: "steps ahead".to_owned(),
        y_name: format!("MSE, {units}"),
        lines: lines(&record.steps, kinds, |i| (i + 1) as f64),
        ..LineChart::default()
    };
    ("Error by horizon step".to_owned(), format!("MSE, {units}"), chart.svg())
}

fn by_origin(record: &Record, kinds: &[(&'static str, String)], units: &str) -> (String, String, String) {
    let all = &record.by_origin;
    let chart = LineChart {
        title: "Error by origin".to_owned(),
        description:
            "Mean squared error of the forecasts from each origin, in their order, beside the baselines."
                .to_owned(),
        size: SIZE,
        x_ticks: row_ticks(1.0, all.len() as f64),
        x_name: format!("origin, {} to {}", record.first_cutoff, record.last_cutoff),
        y_name: format!("MSE, {units}"),
        lines: lines(all, kinds, |i| (i + 1) as f64),
        ..LineChart::default()
    };
    let groups = if all.len() == record.origins { "" } else { ", of groups of origins" };
    ("Error by origin".to_owned(), format!("MSE, {units}{groups}"), chart.svg())
}

fn bars(
    what: &str,
    all: &[Scored],
    kinds: &[(&'static str, String)],
    units: &str,
) -> (String, String, String) {
    let group = |s: &Scored| {
        let baselines = s.baselines.iter().map(|b| b.errors.mse);
        (name(&s.of), std::iter::once(s.errors.mse).chain(baselines).collect())
    };
    let bars = Bars {
        title: format!("Error by {what}"),
        description: format!(
            "Mean squared error of each {what} over its windows, {units}, beside the baselines."
        ),
        width: SIZE.0,
        kinds: kinds.to_vec(),
        groups: all.iter().take(BARS).map(group).collect(),
    };
    let beside = match all.len().saturating_sub(BARS) {
        0 => format!("MSE, {units}"),
        more => format!("MSE, {units}; {more} more are left out"),
    };
    (format!("Error by {what}"), beside, bars.svg())
}

/// The forecasts that were kept, over the actual values.
fn forecasts(page: &mut Page, panel: &Panel, shown: &[Shown]) {
    page.heading(2, "Forecasts and actual values");
    let mut pairs: Vec<(usize, usize)> = shown.iter().map(|s| (s.series, s.target)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let chart = |&(series, target): &(usize, usize)| {
        let whole = &panel.series()[series];
        let column = shortened(&panel.columns()[target], 80);
        let title = if panel.series().len() > 1 {
            format!("{}, {column}", shortened(whole.name(), 80))
        } else {
            column
        };
        let own: Vec<&Shown> = shown.iter().filter(|s| (s.series, s.target) == (series, target)).collect();
        let beside = match own.len() {
            1 => "one forecast".to_owned(),
            n => format!("{n} forecasts, evenly spaced"),
        };
        (title.clone(), beside, picture(whole, target, &title, &own).svg())
    };
    let charts: Vec<_> = pairs.iter().map(chart).collect();
    page.charts(&charts);
}

fn picture(series: &Series, target: usize, name: &str, shown: &[&Shown]) -> LineChart {
    let values = &series.values()[target];
    let end = shown.last().map_or(values.len(), |s| s.start_row + s.point.len()).min(values.len());
    let first = shown.first().map_or(0, |s| s.start_row);
    let horizon = shown.first().map_or(1, |s| s.point.len());
    let from = first.saturating_sub((2 * horizon).max(12)).max(end.saturating_sub(WIDE));
    let at = |(row, y): (usize, &f64)| (row as f64, *y);
    let actual = values.iter().enumerate().take(end).skip(from).map(at).collect();
    let line = |class, name: &str, points| Line { class, name: name.to_owned(), points, dots: false };
    let mut lines = vec![line("actual", "actual", actual)];
    for (i, s) in shown.iter().filter(|s| s.start_row >= from).enumerate() {
        // Each begins at the last known value.
        let known = s.start_row.checked_sub(1).and_then(|row| Some((row as f64, *values.get(row)?)));
        let rows = s.point.iter().enumerate().map(|(step, y)| ((s.start_row + step) as f64, *y));
        lines.push(line(
            "forecast",
            if i == 0 { "forecast" } else { "" },
            known.into_iter().chain(rows).collect(),
        ));
    }
    let dates = series.dates().and_then(|dates| dates.values().get(from..end));
    LineChart {
        title: format!("Forecasts of {name}"),
        description: format!("{horizon} rows from each of {} origins, over the actual values.", shown.len()),
        size: SIZE,
        x_ticks: match dates {
            Some(dates) => date_ticks(dates, from, 4),
            None => row_ticks(from as f64, end as f64),
        },
        x_name: if dates.is_some() { "date" } else { "row" }.to_owned(),
        y_name: "original units".to_owned(),
        lines,
        ..LineChart::default()
    }
}
