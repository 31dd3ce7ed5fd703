//! Forecasts as a table: CSV, and the object that `landfall forecast --json` prints.

use crate::report::{bound_names, name_cell};
use crate::run::Forecast;
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

/// The forecasts of all series, and the cells that name their rows.
///
/// ```
/// use landfall_data::{Panel, ReadOptions};
/// use landfall_forecast::run::Device;
/// use landfall_forecast::table::Table;
/// use landfall_forecast::without_run::{PanelForecaster, Spread};
///
/// let csv = b"day,sales\n2024-01-01,3\n2024-01-02,5\n2024-01-03,4\n2024-01-04,5\n";
/// let panel = Panel::parse(csv, "the sales", &ReadOptions::default())?;
/// let mut forecaster = PanelForecaster::new(None, Device::Cpu, Some(1))?;
/// let forecasts = forecaster.forecast(&panel, 2, Spread { quantiles: &[], intervals: &[80.0] })?;
/// let table = Table::new(&forecasts, panel.columns(), (&[], &[80.0]), 2);
/// assert_eq!(table.labels().rows, [["2024-01-05", "2024-01-06"]]);
/// assert!(table.csv().starts_with("day,sales,sales-lo-80,sales-hi-80\n2024-01-05,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Table<'a> {
    forecasts: &'a [Forecast],
    columns: &'a [String],
    /// Levels of the quantiles that stand beside each column's point forecast.
    levels: &'a [f64],
    /// Levels of the intervals, in percent, whose bounds stand after these.
    intervals: &'a [f64],
    labels: Labels,
}

impl<'a> Table<'a> {
    /// Of forecasts of these columns, as many rows each as the horizon, with these levels of quantiles, and of intervals in percent.
    #[must_use]
    pub fn new(
        forecasts: &'a [Forecast],
        columns: &'a [String],
        (levels, intervals): (&'a [f64], &'a [f64]),
        horizon: usize,
    ) -> Self {
        Self { forecasts, columns, levels, intervals, labels: Labels::of(forecasts, horizon) }
    }

    /// What tells its rows apart.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether a column names the series.
    fn several(&self) -> bool {
        self.forecasts.len() > 1
    }

    /// The names of its columns.
    fn header(&self) -> Vec<String> {
        let series = self.several().then_some("series");
        let header = series.into_iter().chain([self.labels.label.as_str()]);
        let named = |column: &'a String| {
            let level = move |l: &f64| format!("{column}_q{l:?}");
            let bounds = self.intervals.iter().flat_map(move |l| bound_names(column, *l));
            std::iter::once(column.clone()).chain(self.levels.iter().map(level)).chain(bounds)
        };
        header.map(str::to_owned).chain(self.columns.iter().flat_map(named)).collect()
    }

    /// A name that two of its columns would have: that of a column of the data and of another's bound, as a rule.
    #[must_use]
    pub fn named_twice(&self) -> Option<String> {
        twice(&self.header())
    }

    /// Bytes of the names in the table: of its columns, and of its series in each row.
    #[must_use]
    pub fn named(&self) -> usize {
        let each = 1 + self.levels.len() + 2 * self.intervals.len();
        let header = self.columns.iter().map(|name| name.len().saturating_mul(each)).sum::<usize>();
        let rows = self.forecasts.iter().zip(&self.labels.rows);
        let series = rows.map(|(f, rows)| f.context.name().len().saturating_mul(rows.len())).sum::<usize>();
        header.saturating_add(if self.several() { series } else { 0 })
    }

    /// All rows, with a header.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = self.header().iter().map(|c| quoted(c)).collect::<Vec<_>>().join(",");
        text.push('\n');
        for (forecast, rows) in self.forecasts.iter().zip(&self.labels.rows) {
            let series = if self.several() { quoted(forecast.context.name()) + "," } else { String::new() };
            for (i, row) in rows.iter().enumerate() {
                text.push_str(&series);
                text.push_str(&quoted(row));
                for (c, column) in forecast.values.iter().enumerate() {
                    let quantiles = forecast.quantiles.get(c).into_iter().flatten();
                    for cells in std::iter::once(column).chain(quantiles) {
                        // The shortest digits that read back as the same number.
                        let _ = write!(text, ",{:?}", cells.get(i).copied().unwrap_or(f64::NAN));
                    }
                    let bounds: Vec<_> = forecast.intervals.get(c).into_iter().flatten().flatten().collect();
                    for which in 0..2 * self.intervals.len() {
                        // A bound that is not known is an empty cell.
                        let bound = bounds.get(which).and_then(|b| b.get(i)).filter(|b| b.is_finite());
                        text.push(',');
                        bound.iter().for_each(|b| {
                            let _ = write!(text, "{b:?}");
                        });
                    }
                }
                text.push('\n');
            }
        }
        text
    }

    /// One series' labels and values stand at the top; several are a list.
    #[must_use]
    pub fn object(&self, out: Option<&Path>) -> serde_json::Value {
        let mut object = self.points(out);
        if !self.intervals.is_empty() {
            let of = |f: &Forecast| json!(f.intervals);
            object["interval_levels"] = json!(self.intervals);
            match (self.forecasts, object.get_mut("series").and_then(|s| s.as_array_mut())) {
                (all, Some(series)) => series.iter_mut().zip(all).for_each(|(s, f)| s["intervals"] = of(f)),
                ([one], None) => object["intervals"] = of(one),
                (_, None) => {}
            }
        }
        object
    }

    fn points(&self, out: Option<&Path>) -> serde_json::Value {
        let label = self.labels.label.as_str();
        match (self.forecasts, self.labels.rows.as_slice()) {
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

/// What tells the rows of forecasts apart: future dates where the dates of all series are regular, else numbers from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// Name of their column.
    pub label: String,
    /// Its cells, for each series.
    pub rows: Vec<Vec<String>>,
    /// Why they are numbers, where there are dates.
    pub note: Option<String>,
}

impl Labels {
    /// Of forecasts of as many rows each as the horizon.
    #[must_use]
    pub fn of(forecasts: &[Forecast], horizon: usize) -> Self {
        let (mut name, mut note) = (None, None);
        let mut rows = Vec::with_capacity(forecasts.len());
        for forecast in forecasts {
            let Some(dates) = forecast.context.dates() else { break };
            match dates.future(horizon) {
                Ok(future) => rows.push(future.into_iter().map(|d| dates.format(d)).collect()),
                Err(e) => {
                    note = Some(format!("{e}; the forecast's rows are numbered"));
                    break;
                }
            }
            name.get_or_insert_with(|| dates.column().to_owned());
        }
        match name {
            Some(label) if rows.len() == forecasts.len() => Self { label, rows, note },
            Some(_) | None => {
                let numbers: Vec<String> = (1..=horizon).map(|i| i.to_string()).collect();
                Self { label: "step".to_owned(), rows: vec![numbers; forecasts.len()], note }
            }
        }
    }

    /// Whether they are dates.
    #[must_use]
    pub fn dated(&self) -> bool {
        self.label != "step"
    }
}

/// A name that stands twice among these.
///
/// ```
/// let names = ["date", "sales", "date"].map(str::to_owned);
/// assert_eq!(landfall_forecast::table::twice(&names).as_deref(), Some("date"));
/// ```
#[must_use]
pub fn twice(names: &[String]) -> Option<String> {
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().find(|name| !seen.insert(name.as_str())).cloned()
}

/// A name as a cell of a CSV: [`name_cell`], in quotes where it needs them.
///
/// ```
/// assert_eq!(landfall_forecast::table::quoted("north, \"old\""), "\"north, \"\"old\"\"\"");
/// ```
#[must_use]
pub fn quoted(name: &str) -> String {
    let cell = name_cell(name);
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into_owned()
    }
}
