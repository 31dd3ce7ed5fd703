//! Sums of the errors of any set of forecasts.

use crate::data::{Metrics, Scaler, Series, finite, seasonal_scale, symmetric_percent};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What the errors of a column of a series are measured in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// What squared and absolute errors are divided by: the standard deviation of the column's scaler, or 1.
    pub std: f64,
    /// The scale of MASE; `None` where it is 0 or not defined.
    pub scale: Option<f64>,
}

impl Unit {
    /// The units of the first `targets` columns of a series: those of its scaler, and of its training rows a season of
    /// `period` rows apart.
    #[must_use]
    pub fn of(
        series: &Series,
        scaler: &Scaler,
        training: Range<usize>,
        (targets, period): (usize, usize),
    ) -> Vec<Self> {
        let columns = series.values().iter().zip(scaler.std()).take(targets);
        let unit = |(column, std): (&Vec<f64>, &f64)| Self {
            std: *std,
            scale: seasonal_scale(column.get(training.clone()).unwrap_or_default(), period),
        };
        columns.map(unit).collect()
    }
}

/// Sums of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ErrorSums {
    values: usize,
    squared: f64,
    absolute: f64,
    percent: f64,
    relative: f64,
    relative_values: usize,
}

/// Means of errors; see [`Metrics`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Further errors.
    #[serde(flatten)]
    pub metrics: Metrics,
}

impl ErrorSums {
    /// Adds an actual value and its forecast.
    pub fn add(&mut self, actual: f64, forecast: f64, unit: Unit) {
        let error = actual - forecast;
        let scaled = error / unit.std;
        self.values += 1;
        self.squared += scaled * scaled;
        self.absolute += scaled.abs();
        self.percent += symmetric_percent(actual, forecast);
        if let Some(scale) = unit.scale {
            self.relative += error.abs() / scale;
            self.relative_values += 1;
        }
    }

    /// Adds other sums.
    pub fn join(&mut self, other: &Self) {
        self.values += other.values;
        self.squared += other.squared;
        self.absolute += other.absolute;
        self.percent += other.percent;
        self.relative += other.relative;
        self.relative_values += other.relative_values;
    }

    /// The means. R² is `1 − squared errors / deviations`, where the squared deviations of the actual values from their
    /// mean are given, in the same unit.
    #[must_use]
    pub fn errors(&self, deviations: Option<f64>) -> Errors {
        let n = self.values as f64;
        let mse = self.squared / n;
        let r2 = deviations.filter(|d| *d > 0.0).and_then(|d| finite(1.0 - self.squared / d));
        let mase = finite(self.relative / self.relative_values as f64);
        let metrics = Metrics { rmse: finite(mse.sqrt()), mase, smape: finite(self.percent / n), r2 };
        Errors { mse, mae: self.absolute / n, metrics }
    }
}

/// The mean of values and the sum of their squared deviations from it, in one pass (Welford 1962).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deviation {
    count: f64,
    mean: f64,
    squared: f64,
}

impl Deviation {
    pub(super) fn add(&mut self, x: f64) {
        self.count += 1.0;
        let before = x - self.mean;
        self.mean += before / self.count;
        self.squared += before * (x - self.mean);
    }

    /// The sum of squared deviations in units of `std`.
    pub(super) fn squared(&self, std: f64) -> f64 {
        self.squared / (std * std)
    }
}
