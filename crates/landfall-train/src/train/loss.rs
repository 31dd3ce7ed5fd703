//! What training minimises.

use crate::nn::loss;
use landfall::{Error, Graph, Value};
use serde::{Deserialize, Serialize};

/// A loss by name. A loss of your own goes to [`Session::with_loss`](super::Session::with_loss).
///
/// ```
/// use landfall_train::train::{Loss, TrainingOptions};
/// let loss = Loss::Quantile(vec![0.1, 0.5, 0.9]);
/// assert_eq!((loss.outputs(), loss.point()), (3, 1)); // three values for each row, the second is the forecast
/// let options = TrainingOptions { loss, ..TrainingOptions::default() };
/// assert_eq!(options.loss.levels(), [0.1, 0.5, 0.9]);
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// Mean squared error.
    #[default]
    Mse,
    /// Mean absolute error.
    Mae,
    /// Squared error up to this difference, linear beyond ([`loss::huber`]).
    Huber(f64),
    /// The quantile loss at these levels, ascending, 0.5 among them ([`loss::quantile`]). The model predicts one value
    /// for each level; the one at 0.5 is its point forecast.
    Quantile(Vec<f64>),
    /// Cross-entropy of logits with classes ([`loss::cross_entropy`]).
    CrossEntropy,
}

impl Loss {
    /// The loss of a batch.
    ///
    /// # Errors
    /// Shapes that do not fit: the prediction is `[B, C, H]` as the target, or `[B, C, Q·H]` for Q levels; for classes
    /// it is `[B, S, K]` and the target `i64 [B, S]`.
    #[track_caller]
    pub fn of(&self, g: &Graph, prediction: Value, target: Value) -> Result<Value, Error> {
        match self {
            Self::Mse => loss::mse(g, prediction, target),
            Self::Mae => loss::mae(g, prediction, target),
            Self::Huber(delta) => loss::huber(g, prediction, target, *delta),
            Self::Quantile(levels) => loss::quantile(g, prediction, target, levels),
            Self::CrossEntropy => loss::cross_entropy(g, prediction, target),
        }
    }

    /// Quantile levels, none for a loss of one value.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        match self {
            Self::Quantile(levels) => levels,
            Self::Mse | Self::Mae | Self::Huber(_) | Self::CrossEntropy => &[],
        }
    }

    /// Values that a model predicts for each row.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.levels().len().max(1)
    }

    /// Which of them is the point forecast.
    #[must_use]
    pub fn point(&self) -> usize {
        self.levels().iter().position(|&l| l == 0.5).unwrap_or(0)
    }
}
