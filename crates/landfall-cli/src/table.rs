//! Forecasts as a table: CSV, and the object that `--json` prints.

use landfall_forecast::report::{bound_names, name_cell};
use landfall_forecast::run::Forecast;
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

/// The forecasts of all series, and the cells that name their rows.
pub(crate) struct Table<'a> {
    forecasts: &'a [Forecast],
    columns: &'a [String],
    /// Levels of the quantiles that stand beside each column's point forecast.
    levels: &'a [f64],
    /// Levels of the intervals, in percent, whose bounds stand after these.
    intervals: &'a [f64],
    /// Name of the column that tells the rows of a series apart.
    label: String,
    /// Its cells, for each series.
    rows: Vec<Vec<String>>,
    /// Why rows are numbered, where there are dates.
    note: Option<String>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        forecasts: &'a [Forecast],
        columns: &'a [String],
        (levels, intervals): (&'a [f64], &'a [f64]),
        horizon: usize,
    ) -> Self {
        let Labels { label, rows, note } = Labels::of(forecasts, horizon);
        Self { forecasts, columns, levels, intervals, label, rows, note }
    }

    /// Why rows are numbered, where there are dates.
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether a column names the series.
    fn several(&self) -> bool {
        self.forecasts.len() > 1
    }

    /// The names of its columns.
    fn header(&self) -> Vec<String> {
        let series = self.several().then_some("series");
        let header = series.into_iter().chain([self.label.as_str()]);
        let named = |column: &'a String| {
            let level = move |l: &f64| format!("{column}_q{l:?}");
            let bounds = self.intervals.iter().flat_map(move |l| bound_names(column, *l));
            std::iter::once(column.clone()).chain(self.levels.iter().map(level)).chain(bounds)
        };
        header.map(str::to_owned).chain(self.columns.iter().flat_map(named)).collect()
    }

    /// A name that two of its columns would have: that of a column of the data and of another's bound, as a rule.
    pub(crate) fn named_twice(&self) -> Option<String> {
        twice(&self.header())
    }

    /// Bytes of the names in the table: of its columns, and of its series in each row.
    pub(crate) fn named(&self) -> usize {
        let each = 1 + self.levels.len() + 2 * self.intervals.len();
        let header = self.columns.iter().map(|name| name.len().saturating_mul(each)).sum::<usize>();
        let rows = self.forecasts.iter().zip(&self.rows);
        let series = rows.map(|(f, rows)| f.context.name().len().saturating_mul(rows.len())).sum::<usize>();
        header.saturating_add(if self.several() { series } else { 0 })
    }

    /// All rows, with a header.
    pub(crate) fn csv(&self) -> String {
        let mut text = self.header().iter().map(|c| quoted(c)).collect::<Vec<_>>().join(",");
        text.push('\n');
        for (forecast, rows) in self.forecasts.iter().zip(&self.rows) {
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
    pub(crate) fn object(&self, out: Option<&Path>) -> serde_json::Value {
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
        let label = self.label.as_str();
        match (self.forecasts, self.rows.as_slice()) {
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
pub(crate) struct Labels {
    /// Name of their column.
    pub(crate) label: String,
    /// Its cells, for each series.
    pub(crate) rows: Vec<Vec<String>>,
    /// Why they are numbers, where there are dates.
    pub(crate) note: Option<String>,
}

impl Labels {
    pub(crate) fn of(forecasts: &[Forecast], horizon: usize) -> Self {
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
    pub(crate) fn dated(&self) -> bool {
        self.label != "step"
    }
}

/// A name that stands twice among these.
pub(crate) fn twice(names: &[String]) -> Option<String> {
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().find(|name| !seen.insert(name.as_str())).cloned()
}

/// A name as a cell of a CSV.
pub(crate) fn quoted(name: &str) -> String {
    let cell = name_cell(name);
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into_owned()
    }
}
