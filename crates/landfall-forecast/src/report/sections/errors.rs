//! Errors by step, series and column; residuals.

use super::super::collect::{Collected, Errors};
use super::super::page::Page;
use super::super::svg::{Bars, Line, LineChart, date_ticks, digits, row_ticks, shortened};
use super::style::{BASELINES, SIZE};
use crate::data::WindowedPanel;
use crate::run::{ColumnRecord, EvaluationRecord};

/// Groups of bars in a chart at most, and rows of a table.
const BARS: usize = 12;
const ROWS: usize = 60;

/// Class and name of the run's forecast and of the baselines.
fn kinds(collected: &Collected) -> Vec<(&'static str, String)> {
    let baselines = collected.baselines.iter().zip(BASELINES).map(|(b, class)| (class, b.to_string()));
    std::iter::once(("forecast", "forecast".to_owned())).chain(baselines).collect()
}

/// Errors by step, by series and by column.
pub(crate) fn errors(
    page: &mut Page,
    panel: &WindowedPanel,
    collected: &Collected,
    record: &EvaluationRecord,
    units: &str,
) {
    page.heading(2, "Errors on the test windows");
    let (errors, kinds) = (collected.errors(), kinds(collected));
    let mut charts = vec![by_step(&errors, &kinds, units)];
    let series: Vec<&str> = panel.members().iter().map(|m| m.series.name()).collect();
    let columns: Vec<&str> = panel.columns().iter().take(panel.targets()).map(String::as_str).collect();
    if series.len() > 1 {
        charts.push(bars("series", (&series, units), &kinds, |kind, i| errors[kind].series[i]));
    }
    charts.push(bars("column", (&columns, units), &kinds, |kind, i| errors[kind].targets[i]));
    page.charts(&charts);
    let row =
        |c: &ColumnRecord| vec![shortened(&c.name, 80), digits(c.mse), digits(c.mse.sqrt()), digits(c.mae)];
    let rows: Vec<Vec<String>> = record.columns.iter().take(ROWS).map(row).collect();
    page.table(&["Column, original units", "MSE", "RMSE", "MAE"], &rows, None);
    left_out(page, record.columns.len(), "columns");
    if !record.series.is_empty() {
        let row = |s: &crate::run::SeriesRecord| {
            vec![shortened(&s.name, 80), s.windows.to_string(), digits(s.mse), digits(s.mae)]
        };
        let rows: Vec<Vec<String>> = record.series.iter().take(ROWS).map(row).collect();
        page.table(&[&format!("Series, {units}"), "Windows", "MSE", "MAE"], &rows, None);
        left_out(page, record.series.len(), "series");
    }
}

fn left_out(page: &mut Page, count: usize, what: &str) {
    if count > ROWS {
        page.paragraph("soft", &format!("{} further {what} are left out of the table.", count - ROWS));
    }
}

fn by_step(errors: &[Errors], kinds: &[(&'static str, String)], units: &str) -> (String, String, String) {
    let line = |(e, (class, name)): (&Errors, &(&'static str, String))| {
        let points: Vec<(f64, f64)> = e.steps.iter().enumerate().map(|(i, y)| ((i + 1) as f64, *y)).collect();
        Line { class, name: name.clone(), dots: points.len() <= 14, points }
    };
    let steps = errors.first().map_or(0, |e| e.steps.len());
    let mut lines: Vec<Line> = errors.iter().zip(kinds).map(line).collect();
    lines.rotate_left(1);
    let chart = LineChart {
        title: "Error by horizon step".to_owned(),
        description: "Mean squared error of each step ahead, over all test windows, beside the baselines."
            .to_owned(),
        size: SIZE,
        x_ticks: row_ticks(1.0, steps as f64),
        x_name: "steps ahead".to_owned(),
        y_name: format!("MSE, {units}"),
        lines,
        ..LineChart::default()
    };
    ("Error by horizon step".to_owned(), format!("MSE, {units}"), chart.svg())
}

fn bars(
    what: &str,
    (names, units): (&[&str], &str),
    kinds: &[(&'static str, String)],
    error: impl Fn(usize, usize) -> f64,
) -> (String, String, String) {
    let group = |(i, name): (usize, &&str)| {
        ((*name).to_owned(), (0..kinds.len()).map(|kind| error(kind, i)).collect())
    };
    let bars = Bars {
        title: format!("Error by {what}"),
        description: format!(
            "Mean squared error of each {what} over its test windows, {units}, beside the baselines."
        ),
        width: SIZE.0,
        kinds: kinds.to_vec(),
        groups: names.iter().enumerate().take(BARS).map(group).collect(),
    };
    let beside = match names.len().saturating_sub(BARS) {
        0 => format!("MSE, {units}"),
        more => format!("MSE, {units}; {more} more are left out"),
    };
    (format!("Error by {what}"), beside, bars.svg())
}

/// Histogram of the residuals, and residuals over time.
pub(crate) fn residuals(page: &mut Page, panel: &WindowedPanel, collected: &Collected, units: &str) {
    page.heading(2, "Residuals");
    let text = format!(
        "A residual is the actual value minus the forecast, {units}, over all test windows, steps, series and columns."
    );
    page.paragraph("soft", &text);
    let bins = collected.residuals.bins();
    let total = bins.iter().map(|b| b.2).sum::<u64>().max(1) as f64;
    let steps = bins.iter().flat_map(|(low, high, count)| {
        let share = 100.0 * *count as f64 / total;
        [(*low, 0.0, share), (*high, 0.0, share)]
    });
    let (low, high) = bins.first().zip(bins.last()).map_or((0.0, 1.0), |(a, b)| (a.0, b.1));
    let histogram = LineChart {
        title: "Histogram of residuals".to_owned(),
        description:
            "Share of the residuals in bins of equal width; a forecast without bias is centred at 0."
                .to_owned(),
        size: SIZE,
        x_ticks: super::super::svg::ticks(low, high, 5),
        x_name: format!("residual, {units}"),
        y_name: "% of residuals".to_owned(),
        bands: vec![("share of residuals".to_owned(), steps.collect())],
        marks: if (low..high).contains(&0.0) { vec![(0.0, "no error".to_owned())] } else { Vec::new() },
        ..LineChart::default()
    };
    page.charts(&[
        ("Histogram of residuals".to_owned(), String::new(), histogram.svg()),
        (
            "Residuals over time".to_owned(),
            "mean and standard deviation".to_owned(),
            over_time(panel, collected, units).svg(),
        ),
    ]);
}

fn over_time(panel: &WindowedPanel, collected: &Collected, units: &str) -> LineChart {
    let (first, rows, places) = &collected.over_time;
    let (mut mean, mut band) = (Vec::new(), Vec::new());
    for (i, place) in places.iter().enumerate().filter(|(_, place)| place.count > 0.0) {
        let x = (first + i * rows) as f64;
        let m = place.sum / place.count;
        let deviation = (place.squared / place.count - m * m).max(0.0).sqrt();
        mean.push((x, m));
        band.push((x, m - deviation, m + deviation));
    }
    let (low, high) = (*first, first + places.len().saturating_sub(1) * rows);
    // Series of other dates have no common axis but the numbers of their rows.
    let own: Vec<_> = panel.members().iter().map(|m| m.series.dates().map(|d| d.values())).collect();
    let same = own.windows(2).all(|two| two[0] == two[1]);
    let dates = own.first().copied().flatten().filter(|_| same).and_then(|d| d.get(low..=high));
    let zero = Line {
        class: "past",
        name: String::new(),
        points: vec![(low as f64, 0.0), (high.max(low + 1) as f64, 0.0)],
        dots: false,
    };
    LineChart {
        title: "Residuals over time".to_owned(),
        description:
            "Mean of the residuals of each row or group of rows, and one standard deviation on both sides."
                .to_owned(),
        size: SIZE,
        x_ticks: dates.map_or_else(|| row_ticks(low as f64, high as f64), |d| date_ticks(d, low, 4)),
        x_name: if dates.is_some() { "date" } else { "row" }.to_owned(),
        y_name: format!("residual, {units}"),
        lines: vec![
            zero,
            Line { class: "forecast", name: "mean residual".to_owned(), points: mean, dots: false },
        ],
        bands: vec![("± standard deviation".to_owned(), band)],
        ..LineChart::default()
    }
}
