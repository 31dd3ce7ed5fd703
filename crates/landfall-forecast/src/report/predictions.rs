//! The forecasts of windows as a CSV file, beside what came to be.

use super::cell::name_cell;
use crate::data::{Series, WindowForecast};
use std::io;

/// What a file of predictions has for each of the first columns of its series.
#[derive(Debug, Clone, Copy)]
pub struct PredictedColumns<'a> {
    /// Number of these columns.
    pub targets: usize,
    /// Levels of quantiles.
    pub levels: &'a [f64],
    /// Levels of intervals, in per cent.
    pub bands: &'a [f64],
}

/// The columns with the bounds of a column's interval, as other libraries call them: `load-lo-80` and `load-hi-80`.
#[must_use]
pub fn bound_names(column: &str, level: f64) -> [String; 2] {
    ["lo", "hi"].map(|end| format!("{column}-{end}-{level}"))
}

/// How a window is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windows {
    /// `window`: its number within its series, from 0.
    Numbers,
    /// `cutoff`: the date, or the number, of the last row that it knows.
    Cutoffs,
}

impl Windows {
    /// Names of the columns of a file of such windows.
    #[must_use]
    pub fn header(self, series: &[&Series], columns: PredictedColumns<'_>) -> Vec<String> {
        let PredictedColumns { targets, levels, bands } = columns;
        let label = series.first().and_then(|s| s.dates()).filter(|_| dated(series)).map(|d| d.column());
        let window = match self {
            Self::Numbers => "window",
            Self::Cutoffs => "cutoff",
        };
        let mut header: Vec<String> = Vec::new();
        header.extend((series.len() > 1).then(|| "series".to_owned()));
        header.extend([window, "step", label.unwrap_or("row")].map(str::to_owned));
        for column in series.first().map_or(&[][..], |s| s.columns()).iter().take(targets) {
            header.push(column.clone());
            header.extend(levels.iter().map(|level| format!("{column}_q{level:?}")));
            header.extend(bands.iter().flat_map(|level| bound_names(column, *level)));
            header.push(format!("{column}_actual"));
        }
        header.iter().map(|name| name_cell(name).into_owned()).collect()
    }
}

/// Writes a row for each window and step, in the units of the data.
///
/// Columns: `series` (only where there are several), `window` or `cutoff` ([`Windows`]), `step` (from 1), the date of
/// the row that is forecast under the name of the date column (or `row`, its number from 0, where there are no dates);
/// then for each target column `<column>`, `<column>_q<level>` for each quantile level, `<column>-lo-<level>` and
/// `<column>-hi-<level>` for each interval, and `<column>_actual`. Numbers have the fewest digits that read back as the same number.
#[derive(Debug)]
pub struct Predictions<'a, W: io::Write> {
    csv: csv::Writer<W>,
    series: Vec<&'a Series>,
    targets: usize,
    levels: usize,
    windows: Windows,
    intervals: usize,
    /// Whether rows are named by their dates.
    dated: bool,
}

impl<'a, W: io::Write> Predictions<'a, W> {
    /// Writes the header, for the first `targets` columns of these series.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn new(
        out: W,
        series: Vec<&'a Series>,
        columns: PredictedColumns<'_>,
        windows: Windows,
    ) -> io::Result<Self> {
        let mut further = Self::further(out, series, columns, windows);
        further.csv.write_record(windows.header(&further.series, columns))?;
        Ok(further)
    }

    /// Goes on with a file that has a header already.
    #[must_use]
    pub fn further(out: W, series: Vec<&'a Series>, columns: PredictedColumns<'_>, windows: Windows) -> Self {
        let PredictedColumns { targets, levels, bands } = columns;
        let csv = csv::Writer::from_writer(out);
        let dated = dated(&series);
        Self { csv, targets, levels: levels.len(), intervals: bands.len(), series, windows, dated }
    }

    /// Writes the rows of a window.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn window(&mut self, w: &WindowForecast<'_>) -> io::Result<()> {
        let series = self.series[w.series];
        for step in 0..w.horizon {
            let row = w.start_row + step;
            if self.series.len() > 1 {
                self.csv.write_field(name_cell(series.name()).as_bytes())?;
            }
            self.csv.write_field(match self.windows {
                Windows::Numbers => w.window.to_string(),
                Windows::Cutoffs => self.label(series, w.start_row - 1),
            })?;
            self.csv.write_field((step + 1).to_string())?;
            self.csv.write_field(self.label(series, row))?;
            for target in 0..self.targets {
                self.number(w.of(target)[step])?;
                for level in 0..self.levels {
                    self.number(w.level(target, level)[step])?;
                }
                for which in 0..self.intervals {
                    let (low, high) = w.interval(target, which);
                    self.number(low[step])?;
                    self.number(high[step])?;
                }
                self.number(w.actual(series, target)[step])?;
            }
            self.csv.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }

    fn label(&self, series: &Series, row: usize) -> String {
        if self.dated { series.label(row) } else { row.to_string() }
    }

    /// A bound that is not known, of a window with too few errors before it, is an empty cell.
    fn number(&mut self, x: f64) -> io::Result<()> {
        Ok(self.csv.write_field(if x.is_finite() { format!("{x:?}") } else { String::new() })?)
    }

    /// Hands over to the writer what is held back.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn finish(mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

/// Whether rows are named by their dates.
fn dated(series: &[&Series]) -> bool {
    series.iter().all(|s| s.dates().is_some())
}
