//! Losses that are a few ops each, with their gradients through those ops.

use crate::contract::{Graph, Value};
use crate::error::Error;
use crate::ops;
use crate::values::{All, Rule};
use std::panic::Location;

/// What [`Graph::cross_entropy`] takes beside logits and labels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Labels {
    /// A factor for each class, `[K]`: of the losses, and of the count that their sum is divided by.
    pub weights: Option<Value>,
    /// The label of rows that do not count.
    pub ignored: Option<i64>,
    /// The part of the probability that is spread evenly over all classes instead of given to the label.
    pub smoothing: f64,
}

impl Graph {
    /// Mean over rows of `−Σ_k target_k · ln softmax(logits)_k`, the target 1 at the label.
    ///
    /// `logits`: `[.., K]`; `labels`: i64 `[..]`. With weights, ignored labels or smoothing as PyTorch's `cross_entropy` defines
    /// them, by ops that keep the logarithms of all probabilities; without any of these by [`ops::CrossEntropy`]. Where every row
    /// is ignored the result is NaN.
    ///
    /// # Errors
    /// Shapes and dtypes as above; `smoothing` must be in [0, 1); a label out of range is reported when the result is read.
    #[track_caller]
    pub fn cross_entropy(&self, logits: Value, labels: Value, options: Labels) -> Result<Value, Error> {
        let Labels { weights, ignored, smoothing } = options;
        let (specs, at) = (self.specs(&[logits, labels]), Location::caller());
        if !(0.0..1.0).contains(&smoothing) {
            let rule = Rule::Attribute { name: "smoothing", value: smoothing, expected: "in [0, 1)" };
            return Err(rule.of("cross_entropy", &specs, None, Some(at)).into());
        }
        if weights.is_none() && ignored.is_none() && smoothing == 0.0 {
            return self.op1(ops::CrossEntropy, &[logits, labels]);
        }
        let (rows, classes) = (specs[1].shape.elements(), specs[0].shape.last());
        let logs = self.reshape(self.log_softmax(logits, -1)?, [rows, classes])?;
        let labels = self.reshape(labels, [rows])?;
        let (counts, labels) = match ignored {
            None => (None, labels),
            Some(label) => {
                let unused = self.equal(labels, self.scalar(labels, label)?)?;
                (Some(self.not(unused)?), self.select(unused, self.scalar(labels, 0.0)?, labels)?)
            }
        };
        let column = self.reshape(labels, [rows, 1])?;
        let own = self.neg(self.reshape(self.gather(logs, 1, column)?, [rows])?)?;
        let ones = self.fill(specs[0].dtype, [rows], 1.0)?;
        let mut factors = match weights {
            Some(weights) => self.take(weights, 0, labels)?,
            None => ones,
        };
        let none = self.scalar(factors, 0.0)?;
        let counted = |v| counts.map_or(Ok(v), |c| self.select(c, v, none));
        factors = counted(factors)?;
        let mut losses = self.mul(own, factors)?;
        if smoothing > 0.0 {
            let all = match weights {
                Some(weights) => self.mul(logs, weights)?,
                None => logs,
            };
            let even = counted(self.affine(self.sum(all, -1)?, -smoothing / classes.max(1) as f64, 0.0)?)?;
            losses = self.add(self.affine(losses, 1.0 - smoothing, 0.0)?, even)?;
        }
        self.div(self.sum(losses, All)?, self.sum(factors, All)?)
    }

    /// Mean of `−(t·ln σ(x) + (1 − t)·ln(1 − σ(x)))` with `σ` the sigmoid, without overflow: `softplus(x) − t·x`.
    ///
    /// # Errors
    /// Float arguments of one dtype whose shapes can be broadcast.
    #[track_caller]
    pub fn binary_cross_entropy(&self, logits: Value, targets: Value) -> Result<Value, Error> {
        self.mean(self.sub(self.softplus(logits)?, self.mul(targets, logits)?)?, All)
    }

    /// Mean over rows of the Kullback–Leibler divergence `Σ_k p_k·(ln p_k − log_q_k)`; a `p` of 0 adds nothing.
    ///
    /// `log_q`, the logarithms of the predicted probabilities, and `p`: `[.., K]`.
    ///
    /// # Errors
    /// Float arguments of one dtype and shape, with an axis.
    #[track_caller]
    pub fn kl_divergence(&self, log_q: Value, p: Value) -> Result<Value, Error> {
        let zero = self.scalar(p, 0.0)?;
        let empty = self.less_equal(p, zero)?;
        let logs = self.ln(self.masked_fill(p, empty, 1.0)?)?;
        let terms = self.mul(p, self.sub(logs, log_q)?)?;
        self.mean(self.sum(self.select(empty, zero, terms)?, -1)?, All)
    }
}
