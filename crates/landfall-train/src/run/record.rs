//! What a run reports: lines of `metrics.jsonl`.

use crate::data::Segment;
use crate::train::{Evaluation, StepRecord};
use serde::Serialize;

/// One logged step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepLine {
    /// Number of the step, from 1.
    pub step: usize,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// Loss of its batch, before its update.
    pub loss: f64,
    /// Global L2 norm of the gradients, before clipping.
    pub grad_norm: f64,
    /// Learning rate of its update.
    pub lr: f64,
}

impl StepLine {
    /// The line of a step of a run with this many steps an epoch.
    #[must_use]
    pub fn new(r: &StepRecord, steps_per_epoch: usize) -> Self {
        let epoch = (r.step.max(1) - 1) / steps_per_epoch.max(1) + 1;
        Self { step: r.step, epoch, loss: r.loss, grad_norm: r.grad_norm, lr: r.lr }
    }
}

/// Errors of one column in the units of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnRecord {
    /// Its name.
    pub name: String,
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
}

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationRecord {
    /// Updates done before it.
    pub step: usize,
    /// The segment.
    pub split: String,
    /// Mean squared error over all windows, scaled.
    pub mse: f64,
    /// Mean absolute error over all windows, scaled.
    pub mae: f64,
    /// The same over whole batches, as the paper scores.
    pub mse_drop_last: Option<f64>,
    /// The same over whole batches.
    pub mae_drop_last: Option<f64>,
    /// Number of windows.
    pub windows: usize,
    /// Number of windows in whole batches.
    pub windows_drop_last: usize,
    /// Errors of each column, all windows, in the units of the data.
    pub columns: Vec<ColumnRecord>,
}

/// Names and scales of the predicted columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Units {
    /// Names.
    pub names: Vec<String>,
    /// Units of the data in one scaled unit.
    pub std: Vec<f64>,
}

impl EvaluationRecord {
    /// The record of an evaluation. Scaling is affine, so an error in the data's units is the scaled one times the
    /// column's standard deviation.
    #[must_use]
    pub fn new(step: usize, segment: Segment, e: &Evaluation, units: &Units) -> Self {
        let (mse, mae) = e.errors();
        let drop_last = e.errors_drop_last();
        let n = (e.windows * e.horizon).max(1) as f64;
        let column = |c: usize| {
            let std = units.std.get(c).copied().unwrap_or(1.0);
            let name = units.names.get(c).cloned().unwrap_or_else(|| format!("column {c}"));
            ColumnRecord { name, mse: e.squared[c] / n * std * std, mae: e.absolute[c] / n * std }
        };
        Self {
            step,
            split: segment.to_string(),
            mse,
            mae,
            mse_drop_last: drop_last.map(|d| d.0),
            mae_drop_last: drop_last.map(|d| d.1),
            windows: e.windows,
            windows_drop_last: e.windows_drop_last,
            columns: (0..e.squared.len()).map(column).collect(),
        }
    }
}
