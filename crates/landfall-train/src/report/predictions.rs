//! The forecasts of windows as a CSV file, beside what came to be.

use crate::data::{Dates, Series, WindowForecast, WindowedPanel};
use std::io;

/// The columns with the bounds of a column's interval, as other libraries call them: `load-lo-80` and `load-hi-80`.
#[must_use]
pub fn bound_names(column: &str, level: f64) -> [String; 2] {
    ["lo", "hi"].map(|end| format!("{column}-{end}-{level}"))
}

/// Writes a row for each window and step, in the units of the data.
///
/// Columns: `series` (only where there are several), `window` (from 0, within its series), `step` (from 1), the date of
/// the row that is forecast under the name of the date column (or `row`, its number from 0, where there are no dates);
/// then for each target column `<column>`, `<column>_q<level>` for each quantile level, `<column>-lo-<level>` and
/// `<column>-hi-<level>` for each interval, and `<column>_actual`. Numbers have the fewest digits that read back as the same number.
#[derive(Debug)]
pub struct Predictions<'a, W: io::Write> {
    csv: csv::Writer<W>,
    series: Vec<&'a Series>,
    targets: usize,
    levels: usize,
    intervals: usize,
    dated: bool,
}

impl<'a, W: io::Write> Predictions<'a, W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn new(out: W, panel: &'a WindowedPanel, levels: &[f64], intervals: &[f64]) -> io::Result<Self> {
        let series: Vec<&Series> = panel.members().iter().map(|m| &m.series).collect();
        let dates: Option<Vec<&Dates>> = series.iter().map(|s| s.dates()).collect();
        let label = dates.as_ref().and_then(|all| all.first()).map(|d| d.column());
        let mut header: Vec<String> = Vec::new();
        header.extend((series.len() > 1).then(|| "series".to_owned()));
        header.extend(["window", "step", label.unwrap_or("row")].map(str::to_owned));
        for column in panel.columns().iter().take(panel.targets()) {
            header.push(column.clone());
            header.extend(levels.iter().map(|level| format!("{column}_q{level:?}")));
            header.extend(intervals.iter().flat_map(|level| bound_names(column, *level)));
            header.push(format!("{column}_actual"));
        }
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(&header)?;
        let (targets, dated) = (panel.targets(), label.is_some());
        Ok(Self { csv, dated, targets, levels: levels.len(), intervals: intervals.len(), series })
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
                self.csv.write_field(series.name())?;
            }
            self.csv.write_field(w.window.to_string())?;
            self.csv.write_field((step + 1).to_string())?;
            let date = series.dates().filter(|_| self.dated);
            let date = date.and_then(|dates| Some(dates.format(*dates.values().get(row)?)));
            self.csv.write_field(date.unwrap_or_else(|| row.to_string()))?;
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

    fn number(&mut self, x: f64) -> io::Result<()> {
        Ok(self.csv.write_field(format!("{x:?}"))?)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn finish(mut self) -> io::Result<()> {
        self.csv.flush()
    }
}
