//! Forecasts beside the actual values.

use super::super::collect::{Collected, Pair, Shown};
use super::super::page::Page;
use super::super::style;
use super::super::svg::{Line, LineChart, date_ticks, digits, row_ticks, shortened};
use super::{BASELINES, SIZE};
use crate::data::{Series, WindowedPanel};
use crate::run::{Forecast, Run};
use chrono::NaiveDateTime;

/// Rows of history that are drawn at most.
const HISTORY: usize = 400;

/// What forecasts are drawn from.
pub(crate) struct Forecasts<'a> {
    pub(crate) run: &'a Run,
    pub(crate) panel: &'a WindowedPanel,
    pub(crate) collected: &'a Collected,
    /// The forecast beyond the data of each series.
    pub(crate) future: &'a [Option<Forecast>],
    /// Levels of the intervals, in percent.
    pub(crate) intervals: &'a [f64],
}

/// A forecast to draw: where it begins, its point forecast, and its intervals: their levels in percent and their bounds.
struct Drawn<'a> {
    start: usize,
    point: &'a [f64],
    bands: Vec<(f64, &'a [f64], &'a [f64])>,
}

/// Bands in the order in which they are drawn: of the conformal intervals where there are any, else the outermost quantiles.
fn widest_first<'a>(
    mut intervals: Vec<(f64, &'a [f64], &'a [f64])>,
    quantiles: Option<(f64, &'a [f64], &'a [f64])>,
) -> Vec<(f64, &'a [f64], &'a [f64])> {
    if intervals.is_empty() {
        return quantiles.into_iter().collect();
    }
    intervals.sort_by(|a, b| b.0.total_cmp(&a.0));
    intervals
}

impl Forecasts<'_> {
    /// Charts for each series and column that are shown.
    pub(crate) fn section(&self, page: &mut Page) {
        page.heading(2, "Forecasts and actual values");
        if self.collected.left_out > 0 {
            let (shown, all) =
                (self.collected.pairs.len(), self.collected.pairs.len() + self.collected.left_out);
            let text = format!(
                "The first {shown} of {all} columns are drawn, {} are left out; errors below are those of all.",
                self.collected.left_out
            );
            page.paragraph("soft", &text);
        }
        for pair in &self.collected.pairs {
            page.heading(3, &self.name(pair));
            page.charts(&self.charts(pair));
        }
    }

    /// The chart of the window of median error, as a file of its own.
    pub(crate) fn alone(&self) -> Option<String> {
        let pair = self.collected.pairs.first()?;
        let mut chart = self.window(pair, pair.median()?, "a typical test window");
        chart.size = (860.0, 320.0);
        chart.x_ticks = self.ticks(&chart, pair, 7);
        chart.style = Some(style::CHART);
        Some(chart.svg() + "\n")
    }

    fn name(&self, pair: &Pair) -> String {
        let column = shortened(&self.panel.columns()[pair.target], 80);
        if self.panel.members().len() > 1 {
            let series = self.panel.members()[pair.series].series.name();
            format!("{}, {column}", shortened(series, 80))
        } else {
            column
        }
    }

    fn charts(&self, pair: &Pair) -> Vec<(String, String, String)> {
        let median = if pair.every() == 1 {
            "Window of median error".to_owned()
        } else {
            format!("Window of median error (among every {}th)", pair.every())
        };
        let shown = [
            ("First test window".to_owned(), pair.first.as_ref()),
            (median, pair.median()),
            ("Worst test window".to_owned(), pair.worst.as_ref()),
            ("Last test window".to_owned(), pair.last.as_ref()),
        ];
        let units = self.run.resolved().units();
        let one = |(title, shown): (String, Option<&Shown>)| {
            let shown = shown?;
            let beside = format!("number {}, MSE {} ({units})", shown.window + 1, digits(shown.mse));
            let svg = self.window(pair, shown, &title.to_lowercase()).svg();
            Some((title, beside, svg))
        };
        let windows = shown.into_iter().filter_map(one);
        windows.chain(self.beyond(pair)).collect()
    }

    fn window(&self, pair: &Pair, shown: &Shown, which: &str) -> LineChart {
        let horizon = self.run.resolved().network.horizon();
        let level = |l: usize| shown.values.get(l * horizon..(l + 1) * horizon).unwrap_or_default();
        let loss = &self.run.resolved().training.loss;
        let outermost = || (self.nominal(), level(0), level(loss.levels().len() - 1));
        let quantiles = (loss.levels().len() > 1).then(outermost);
        let bound = |i: usize| shown.bounds.get(i * horizon..(i + 1) * horizon).unwrap_or_default();
        let interval = |(k, level): (usize, &f64)| (*level, bound(2 * k), bound(2 * k + 1));
        let bands = widest_first(self.intervals.iter().enumerate().map(interval).collect(), quantiles);
        self.chart(pair, &Drawn { start: shown.start_row, point: level(loss.point()), bands }, which)
    }

    /// Percent of the values that should lie between the outermost quantiles.
    fn nominal(&self) -> f64 {
        let levels = self.run.levels();
        let share = levels.last().zip(levels.first()).map_or(0.0, |(high, low)| high - low);
        (1e6 * share).round() / 1e4
    }

    /// The forecast of the rows after the last one.
    fn beyond(&self, pair: &Pair) -> Option<(String, String, String)> {
        let forecast = self.future.get(pair.series)?.as_ref()?;
        let series = &self.panel.members()[pair.series].series;
        let levels = forecast.quantiles.get(pair.target).filter(|levels| levels.len() > 1);
        let quantiles = levels
            .and_then(|levels| Some((self.nominal(), levels.first()?.as_slice(), levels.last()?.as_slice())));
        let bounds = forecast.intervals.get(pair.target).into_iter().flatten();
        let pairs = self.intervals.iter().zip(bounds);
        let intervals = pairs.map(|(level, [low, high])| (*level, low.as_slice(), high.as_slice())).collect();
        let bands = widest_first(intervals, quantiles);
        let drawn = Drawn { start: series.rows(), point: forecast.values.get(pair.target)?, bands };
        let svg = self.chart(pair, &drawn, "beyond the end of the data").svg();
        Some(("Beyond the end of the data".to_owned(), "no actual values yet".to_owned(), svg))
    }

    fn chart(&self, pair: &Pair, drawn: &Drawn<'_>, which: &str) -> LineChart {
        let series = &self.panel.members()[pair.series].series;
        let values = &series.values()[pair.target];
        let horizon = drawn.point.len();
        let history = (2 * horizon).max(2 * self.run.resolved().period + 1).clamp(12, HISTORY);
        let from = drawn.start.saturating_sub(history);
        let past = values.get(..drawn.start).unwrap_or(values);
        let at = |(i, y): (usize, &f64)| ((drawn.start + i) as f64, *y);
        // Lines of forecasts begin at the last known value, so that they meet the history.
        let known = past.last().map(|y| ((drawn.start - 1) as f64, *y));
        let joined = |ys: &[f64]| known.into_iter().chain(ys.iter().enumerate().map(at)).collect::<Vec<_>>();
        let dots = horizon <= 14;
        let line = |class, name: String, points| Line { class, name, points, dots: false };
        let before = past.iter().enumerate().skip(from).map(|(i, y)| (i as f64, *y));
        let mut lines = vec![line("past", "history".to_owned(), before.collect())];
        for (baseline, class) in self.collected.baselines.iter().zip(BASELINES) {
            let ys: Vec<f64> = baseline.continuation(past).take(horizon).collect();
            lines.push(line(class, baseline.to_string(), joined(&ys)));
        }
        let end = values.len().min(drawn.start + horizon);
        if let Some(actual) = values.get(drawn.start..end).filter(|actual| !actual.is_empty()) {
            lines.push(Line { dots, ..line("actual", "actual".to_owned(), joined(actual)) });
        }
        lines.push(Line { dots, ..line("forecast", "forecast".to_owned(), joined(drawn.point)) });
        let name = self.name(pair);
        let band = |(level, low, high): &(f64, &[f64], &[f64])| {
            let rows = low.iter().zip(*high).enumerate();
            let band = rows.map(|(i, (l, h))| ((drawn.start + i) as f64, *l, *h)).collect();
            (format!("{level} % interval"), band)
        };
        let bands = drawn.bands.iter().map(band).collect();
        let mut chart = LineChart {
            title: format!("Forecast of {name}: {which}"),
            description: format!(
                "{horizon} rows from row {} on, with the history before them, in original units.",
                drawn.start
            ),
            size: SIZE,
            x_ticks: Vec::new(),
            x_name: series.dates().map_or("row", |_| "date").to_owned(),
            y_name: format!("{}, original units", shortened(&self.panel.columns()[pair.target], 16)),
            lines,
            bands,
            ..LineChart::default()
        };
        chart.x_ticks = self.ticks(&chart, pair, 4);
        chart
    }

    /// Dates of the rows that a chart spans, or their numbers.
    fn ticks(&self, chart: &LineChart, pair: &Pair, most: usize) -> Vec<(f64, String)> {
        let series = &self.panel.members()[pair.series].series;
        let rows = || chart.lines.iter().flat_map(|l| &l.points).map(|p| p.0 as usize);
        let (first, last) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0));
        let dates = dates_of(series, first, last);
        dates.map_or_else(|| row_ticks(first as f64, last as f64), |dates| date_ticks(&dates, first, most))
    }
}

/// Dates of rows, also of those after the last one, where dates go on evenly.
fn dates_of(series: &Series, first: usize, last: usize) -> Option<Vec<NaiveDateTime>> {
    let dates = series.dates()?;
    let further = (last + 1).saturating_sub(series.rows());
    let future = if further > 0 { dates.future(further).ok()? } else { Vec::new() };
    let known = dates.values().get(first..(last + 1).min(series.rows()))?;
    Some(known.iter().copied().chain(future).collect())
}
