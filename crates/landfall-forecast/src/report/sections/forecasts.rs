//! Forecasts beside the actual values.

use super::super::collect::{Collected, Pair, Shown};
use super::super::page::Page;
use super::super::style;
use super::super::svg::{Line, LineChart, date_ticks, digits, row_ticks, shortened};
use super::style::{BASELINES, SIZE, WIDE};
use crate::data::{Series, WindowedPanel};
use crate::run::{Forecast, Run};
use chrono::NaiveDateTime;

/// Rows of history that are drawn at most.
const HISTORY: usize = 400;
/// Of a series of fewer histories the end is not drawn once more.
const SHORT: usize = 3;
/// Rows of a table of a forecast at most.
const ROWS: usize = 60;

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
    /// The forecast of the rows after the last one: the whole series, its end, and a table, for each series and column that are shown.
    pub(crate) fn ahead(&self, page: &mut Page) {
        page.heading(2, "Forecast");
        if self.future.iter().all(Option::is_none) {
            let text = "The rows after the last one have covariates that are not known here; landfall forecast takes them from a file.";
            page.paragraph("soft", text);
        }
        for pair in &self.collected.pairs {
            let Some(drawn) = self.beyond(pair) else { continue };
            page.heading(3, &self.name(pair));
            let horizon = drawn.point.len();
            let rows = self.panel.members()[pair.series].series.rows();
            let mut whole = self.chart(pair, &drawn, "the whole series", rows);
            whole.size = WIDE;
            whole.x_ticks = self.ticks(&whole, pair, 9);
            page.wide_chart(
                "The whole series and its forecast",
                &format!("{rows} rows, {horizon} ahead"),
                &whole.svg(),
            );
            if rows > SHORT * self.history(horizon) {
                let mut end = self.chart(pair, &drawn, "beyond the end of the data", self.history(horizon));
                end.size = WIDE;
                end.x_ticks = self.ticks(&end, pair, 9);
                page.wide_chart("Beyond the end of the data", "no actual values yet", &end.svg());
            }
            self.table(page, pair, &drawn);
        }
        self.left_out(page);
    }

    /// The numbers of a forecast.
    fn table(&self, page: &mut Page, pair: &Pair, drawn: &Drawn<'_>) {
        let series = &self.panel.members()[pair.series].series;
        let horizon = drawn.point.len();
        let dates = series.dates().and_then(|dates| Some((dates, dates.future(horizon).ok()?)));
        let mut bands = drawn.bands.clone();
        bands.reverse();
        let mut header = vec![if dates.is_some() { "Date" } else { "Row" }.to_owned(), "Forecast".to_owned()];
        header.extend(
            bands.iter().flat_map(|(level, ..)| [format!("{level} %, low"), format!("{level} %, high")]),
        );
        let row = |i: usize| {
            let place = match &dates {
                Some((of, dates)) => of.format(dates[i]),
                None => (drawn.start + i).to_string(),
            };
            let bounds = bands.iter().flat_map(|(_, low, high)| [low[i], high[i]]);
            std::iter::once(place).chain(std::iter::once(drawn.point[i]).chain(bounds).map(digits)).collect()
        };
        let rows: Vec<Vec<String>> = (0..horizon.min(ROWS)).map(row).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        page.table(&header, &rows, None);
        let text = "Rounded; landfall forecast writes all digits";
        match horizon.saturating_sub(ROWS) {
            0 => page.paragraph("soft", &format!("{text}.")),
            more => page.paragraph("soft", &format!("{text}, and the {more} rows that are left out.")),
        }
    }

    /// That further columns are not drawn.
    fn left_out(&self, page: &mut Page) {
        if self.collected.left_out > 0 {
            let (shown, all) =
                (self.collected.pairs.len(), self.collected.pairs.len() + self.collected.left_out);
            let text = format!(
                "The first {shown} of {all} columns are drawn, {} are left out; errors below are those of all.",
                self.collected.left_out
            );
            page.paragraph("soft", &text);
        }
    }

    /// Forecasts of test windows and the actual values, for each series and column that are shown.
    pub(crate) fn windows(&self, page: &mut Page) {
        page.heading(2, "Test windows: forecasts and actual values");
        self.left_out(page);
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
        shown.into_iter().filter_map(one).collect()
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
        let drawn = Drawn { start: shown.start_row, point: level(loss.point()), bands };
        self.chart(pair, &drawn, which, self.history(drawn.point.len()))
    }

    /// Percent of the values that should lie between the outermost quantiles.
    fn nominal(&self) -> f64 {
        let levels = self.run.levels();
        let share = levels.last().zip(levels.first()).map_or(0.0, |(high, low)| high - low);
        (1e6 * share).round() / 1e4
    }

    /// The forecast of the rows after the last one.
    fn beyond(&self, pair: &Pair) -> Option<Drawn<'_>> {
        let forecast = self.future.get(pair.series)?.as_ref()?;
        let series = &self.panel.members()[pair.series].series;
        let levels = forecast.quantiles.get(pair.target).filter(|levels| levels.len() > 1);
        let quantiles = levels
            .and_then(|levels| Some((self.nominal(), levels.first()?.as_slice(), levels.last()?.as_slice())));
        let bounds = forecast.intervals.get(pair.target).into_iter().flatten();
        let pairs = self.intervals.iter().zip(bounds);
        let intervals = pairs.map(|(level, [low, high])| (*level, low.as_slice(), high.as_slice())).collect();
        let bands = widest_first(intervals, quantiles);
        Some(Drawn { start: series.rows(), point: forecast.values.get(pair.target)?, bands })
    }

    /// Rows of history before a window.
    fn history(&self, horizon: usize) -> usize {
        (2 * horizon).max(2 * self.run.resolved().period + 1).clamp(12, HISTORY)
    }

    fn chart(&self, pair: &Pair, drawn: &Drawn<'_>, which: &str, history: usize) -> LineChart {
        let series = &self.panel.members()[pair.series].series;
        let values = &series.values()[pair.target];
        let horizon = drawn.point.len();
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
