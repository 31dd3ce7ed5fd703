//! RMSE, MASE, sMAPE and R² of forecasts of windows, in one pass: memory does not grow with the number of windows.

use crate::series::Series;
use crate::windows::window_forecast::WindowForecast;
use crate::windows::windowed::Part;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Errors beside MSE and MAE. What is not defined or not finite is `None`.
///
/// `y` is the actual value, `f` the forecast, both in original units; means are over all windows and steps.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Root mean squared error: `sqrt(MSE)`, in the unit of the MSE beside it (of a column its own, pooled the scaled one).
    pub rmse: Option<f64>,
    /// Mean absolute scaled error (Hyndman & Koehler 2006): the mean of `|y − f| / s`, where `s` is the mean of
    /// `|y[t] − y[t − m]|` over the training rows of the series, m the seasonal period. Series of which `s` is 0, or which
    /// have at most m training rows, are left out of the mean; without any other there is none.
    pub mase: Option<f64>,
    /// Symmetric mean absolute percentage error as in the M4 competition: the mean of `200 |y − f| / (|y| + |f|)`, in
    /// percent, 0 to 200. A term whose `y` and `f` are both 0 is 0.
    pub smape: Option<f64>,
    /// Coefficient of determination: `1 − Σ (y − f)² / Σ (y − mean of y)²`. The mean is that of the column's actual values
    /// in the windows, of each series its own. `None` where they are constant. Pooled, both sums are of scaled values.
    pub r2: Option<f64>,
}

/// What is known of one column of one series, and the sums of its errors.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Mean absolute difference of the training rows over a season; `None` where it is 0 or not defined.
    scale: Option<f64>,
    /// Standard deviation of the column's scaler.
    std: f64,
    /// Sum of squared deviations of the actual values from their mean.
    deviations: f64,
    values: usize,
    squared: f64,
    absolute: f64,
    percent: f64,
}

/// Sums of the errors of forecasts, window after window.
#[derive(Debug, Clone)]
pub struct MetricSums<'a> {
    series: Vec<&'a Series>,
    targets: usize,
    /// `[series, targets]`.
    sums: Vec<Sums>,
}

impl<'a> MetricSums<'a> {
    /// Empty sums for the first `targets` columns of these windows; `training` holds the training rows of each series,
    /// `period` is the seasonal period m in rows.
    #[must_use]
    pub fn new(parts: &[Part<'a>], training: &[Range<usize>], targets: usize, period: usize) -> Self {
        let mut sums = Vec::with_capacity(parts.len() * targets);
        for (part, rows) in parts.iter().zip(training) {
            for (target, column) in part.series.values().iter().take(targets).enumerate() {
                sums.push(Sums {
                    scale: seasonal_scale(column.get(rows.clone()).unwrap_or_default(), period),
                    std: part.scaler.std().get(target).copied().unwrap_or(1.0),
                    deviations: deviations(part, column),
                    ..Sums::default()
                });
            }
        }
        Self { series: parts.iter().map(|part| part.series).collect(), targets, sums }
    }

    /// Adds the point forecast of a window.
    pub fn add(&mut self, window: &WindowForecast<'_>) {
        let Some(series) = self.series.get(window.series) else { return };
        let sums = self.sums.iter_mut().skip(window.series * self.targets).take(self.targets);
        for (target, sums) in sums.enumerate() {
            for (y, f) in window.actual(series, target).iter().zip(window.of(target)) {
                let error = y - f;
                sums.squared += error * error;
                sums.absolute += error.abs();
                sums.percent += symmetric_percent(*y, *f);
                sums.values += 1;
            }
        }
    }

    /// The pooled metrics of all target columns, and those of each column.
    #[must_use]
    pub fn finish(&self) -> (Metrics, Vec<Metrics>) {
        let column = |c: usize| metrics(self.sums.iter().skip(c).step_by(self.targets.max(1)), |_| 1.0);
        let columns = (0..self.targets).map(column).collect();
        (metrics(self.sums.iter(), |sums| sums.std), columns)
    }
}

/// `200 |y − f| / (|y| + |f|)`, 0 where both are 0.
pub fn symmetric_percent(y: f64, f: f64) -> f64 {
    let size = y.abs() + f.abs();
    if size == 0.0 { 0.0 } else { 200.0 * ((y - f).abs() / size) }
}

/// Mean absolute difference of rows a season apart; `None` where it is 0, not finite, or there is no such pair.
pub fn seasonal_scale(rows: &[f64], period: usize) -> Option<f64> {
    let pairs = rows.len().checked_sub(period).filter(|pairs| *pairs > 0 && period > 0)?;
    let sum: f64 = rows.iter().zip(&rows[period..]).map(|(before, y)| (y - before).abs()).sum();
    finite(sum / pairs as f64).filter(|scale| *scale > 0.0)
}

/// Sum of squared deviations of the actual values of all windows from their mean; exactly 0 where they are constant.
fn deviations(part: &Part<'_>, column: &[f64]) -> f64 {
    let windows = &part.windows;
    let actual = || windows.starts().flat_map(|start| column.get(windows.target(start)).unwrap_or_default());
    let (mut count, mut sum) = (0usize, 0.0);
    for y in actual() {
        count += 1;
        sum += y;
    }
    let first = actual().next().copied();
    if actual().all(|y| Some(*y) == first) {
        return 0.0;
    }
    let mean = sum / count as f64;
    actual().map(|y| (y - mean) * (y - mean)).sum()
}

/// The metrics of some columns; squares are of values divided by what `unit` says.
fn metrics<'s>(all: impl Iterator<Item = &'s Sums> + Clone, unit: impl Fn(&Sums) -> f64) -> Metrics {
    let sum = |of: &dyn Fn(&Sums) -> f64| all.clone().map(of).sum::<f64>();
    let values = sum(&|s| s.values as f64);
    let squared = sum(&|s| s.squared / (unit(s) * unit(s)));
    let deviations = sum(&|s| s.deviations / (unit(s) * unit(s)));
    let scaled = sum(&|s| s.scale.map_or(0.0, |scale| s.absolute / scale));
    let scaled_values = sum(&|s| s.scale.map_or(0.0, |_| s.values as f64));
    let r2 = if deviations > 0.0 { finite(1.0 - squared / deviations) } else { None };
    Metrics {
        rmse: finite((squared / values).sqrt()),
        mase: finite(scaled / scaled_values),
        smape: finite(sum(&|s| s.percent) / values),
        r2,
    }
}

/// A number, or none where it is NaN or infinite.
pub fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::baseline;
    use crate::score::baseline::Baseline;
    use crate::windows::Windows;
    use crate::windows::scaler::Scaler;

    const LOAD: [f64; 10] = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0];

    fn of(series: &Series, std: Vec<f64>, period: usize) -> (Metrics, Vec<Metrics>) {
        let scaler = Scaler::new(vec![0.0; std.len()], std).expect("a scaler");
        let windows = Windows::new(4..10, 2, 2).expect("three windows");
        let parts = [Part { series, scaler: &scaler, windows }];
        let targets = series.channels();
        let mut sums = MetricSums::new(&parts, std::slice::from_ref(&(0..6)), targets, period);
        baseline::forecasts(Baseline::LastValue, &parts, targets, |w| {
            sums.add(&w);
            Ok::<(), crate::error::DataError>(())
        })
        .expect("forecasts");
        sums.finish()
    }

    fn series(columns: &[[f64; 10]]) -> Series {
        let names = (0..columns.len()).map(|i| format!("c{i}")).collect();
        Series::new("s", names, columns.iter().map(|c| c.to_vec()).collect(), None).expect("a series")
    }

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("a value");
        assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    #[test]
    fn metrics_are_those_that_numpy_computes() {
        // y = [[2, 6], [6, 5], [5, 3]], f = [[9, 9], [2, 2], [6, 6]], s = mean(|x[2:6] - x[:4]|) = 2.5.
        let (pooled, columns) = of(&series(&[LOAD]), vec![2.0], 2);
        close(columns[0].rmse, 3.9370039370059056);
        close(columns[0].mase, 1.4);
        close(columns[0].smape, 72.97258297258297);
        close(columns[0].r2, -5.888888888888889);
        close(pooled.rmse, 3.9370039370059056 / 2.0);
        assert_eq!((pooled.mase, pooled.smape), (columns[0].mase, columns[0].smape));
        close(pooled.r2, -5.888888888888889);
    }

    #[test]
    fn what_is_not_defined_is_absent() {
        let (pooled, columns) = of(&series(&[LOAD, [0.0; 10]]), vec![2.0, 1.0], 2);
        let exact = Metrics { rmse: Some(0.0), mase: None, smape: Some(0.0), r2: None };
        assert_eq!(columns[1], exact);
        assert_eq!(pooled.mase, columns[0].mase);
        close(pooled.smape, 72.97258297258297 / 2.0);
        // A season as long as the training rows has no pair of rows.
        assert_eq!(of(&series(&[LOAD]), vec![2.0], 6).1[0].mase, None);
        assert_eq!(
            serde_json::to_string(&exact).expect("json"),
            r#"{"rmse":0.0,"mase":null,"smape":0.0,"r2":null}"#
        );
    }

    #[test]
    fn errors_that_overflow_are_absent() {
        let mut wide = [1e200; 10];
        wide[6..].copy_from_slice(&[-1e200, 1e200, -1e200, 1e200]);
        let (_, columns) = of(&series(&[wide]), vec![1.0], 2);
        assert_eq!((columns[0].rmse, columns[0].r2, columns[0].mase), (None, None, None));
        assert!(columns[0].smape.is_some_and(f64::is_finite));
    }
}
