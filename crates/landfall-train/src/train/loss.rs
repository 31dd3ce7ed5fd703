//! What training minimises.

use crate::nn::{Family, loss};
use landfall::{Error, Graph, Rule, Value};
use serde::{Deserialize, Serialize};

/// A loss of a batch: prediction `[B, C, H]` and target of that shape in, a scalar out.
pub type LossFunction<'a> = dyn Fn(&Graph, Value, Value) -> Result<Value, Error> + 'a;

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
    /// The negative log-likelihood of a distribution whose parameters the model predicts ([`Family::terms`]). A forecast is its
    /// mean, and its quantiles at these levels, ascending.
    Distribution(Family, Vec<f64>),
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
            Self::Distribution(family, _) => {
                let nll = family.terms(g, prediction, target)?.nll;
                let axes: Vec<usize> = (0..g.shape(nll).rank()).collect();
                g.mean(nll, &axes)
            }
            Self::CrossEntropy => loss::cross_entropy(g, prediction, target),
        }
    }

    /// Refuses a difference or levels outside of their range.
    pub(super) fn check(&self) -> Result<(), Rule> {
        if let Self::Huber(delta) = *self
            && !(delta > 0.0 && delta.is_finite())
        {
            return Err(Rule::Attribute { name: "delta", value: delta, expected: "finite and above 0" });
        }
        let levels = self.levels();
        let outside = levels.iter().find(|l| !(0.0 < **l && **l < 1.0));
        let falls = levels.windows(2).find(|pair| pair[0] >= pair[1]).map(|pair| &pair[1]);
        if let Some(&value) = outside.or(falls) {
            return Err(Rule::Attribute { name: "level", value, expected: "between 0 and 1, and ascending" });
        }
        match self {
            Self::Quantile(levels) if !levels.contains(&0.5) => Err(Rule::Attribute {
                name: "number of levels that are 0.5",
                value: 0.0,
                expected: "1: the level of the point forecast",
            }),
            Self::Mse
            | Self::Mae
            | Self::Huber(_)
            | Self::Quantile(_)
            | Self::Distribution(..)
            | Self::CrossEntropy => Ok(()),
        }
    }

    /// Quantile levels, none for a loss of one value.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        match self {
            Self::Quantile(levels) | Self::Distribution(_, levels) => levels,
            Self::Mse | Self::Mae | Self::Huber(_) | Self::CrossEntropy => &[],
        }
    }

    /// Values that a model predicts for each row: one for each quantile level, or the parameters of a distribution, or one.
    #[must_use]
    pub fn parameters(&self) -> usize {
        match self {
            Self::Distribution(family, _) => family.parameters(),
            Self::Mse | Self::Mae | Self::Huber(_) | Self::Quantile(_) | Self::CrossEntropy => self.outputs(),
        }
    }

    /// Values of the forecast of each row: one for each quantile level, and of a distribution the mean after them; or one.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match self {
            Self::Distribution(_, levels) => levels.len() + 1,
            Self::Mse | Self::Mae | Self::Huber(_) | Self::Quantile(_) | Self::CrossEntropy => {
                self.levels().len().max(1)
            }
        }
    }

    /// Which of them is the point forecast: the median of quantiles, the mean of a distribution.
    #[must_use]
    pub fn point(&self) -> usize {
        match self {
            Self::Distribution(_, levels) => levels.len(),
            Self::Mse | Self::Mae | Self::Huber(_) | Self::Quantile(_) | Self::CrossEntropy => {
                self.levels().iter().position(|&l| l == 0.5).unwrap_or(0)
            }
        }
    }

    /// Makes forecasts `[.., outputs, H]` of predictions `[.., parameters, H]`. Quantiles are sorted at each row: independently
    /// trained levels may cross.
    pub(super) fn forecasts(&self, mut predicted: Vec<f64>, horizon: usize) -> Vec<f64> {
        match self {
            Self::Distribution(family, levels) => {
                let (parameters, outputs) = (family.parameters(), self.outputs());
                let size = (parameters * horizon).max(1);
                let mut all = vec![0.0; predicted.len() / size * outputs * horizon];
                let mut row = vec![0.0; parameters];
                let channels =
                    predicted.chunks_exact(size).zip(all.chunks_exact_mut((outputs * horizon).max(1)));
                for (channel, forecast) in channels {
                    for step in 0..horizon {
                        row.iter_mut().enumerate().for_each(|(i, x)| *x = channel[i * horizon + step]);
                        for (i, x) in family.forecast(&row, levels).into_iter().enumerate() {
                            forecast[i * horizon + step] = x;
                        }
                    }
                }
                all
            }
            Self::Mse | Self::Mae | Self::Huber(_) | Self::Quantile(_) | Self::CrossEntropy => {
                sort_levels(&mut predicted, self.outputs(), horizon);
                predicted
            }
        }
    }
}

/// Sorts the predictions `[.., levels, horizon]` of each row by level: independently trained levels may cross.
fn sort_levels(all: &mut [f64], levels: usize, horizon: usize) {
    let mut row = vec![0.0; levels];
    for channel in all.chunks_exact_mut(levels * horizon).filter(|_| levels > 1) {
        for at in 0..horizon {
            for (q, v) in row.iter_mut().enumerate() {
                *v = channel[q * horizon + at];
            }
            row.sort_by(f64::total_cmp);
            for (q, v) in row.iter().enumerate() {
                channel[q * horizon + at] = *v;
            }
        }
    }
}
