//! Losses that are a few ops each, with their gradients through those ops.

use crate::contract::{Graph, Op, Value, rules};
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
    /// them, by ops that keep the logarithms of all probabilities; without any of these by [`ops::CrossEntropy`]. What a row with
    /// an ignored label holds does not matter, nor what has a weight of 0, even if it is not finite. Where nothing counts, the
    /// result is 0, and so are its gradients (PyTorch gives NaN).
    ///
    /// # Errors
    /// Shapes and dtypes as above; `smoothing` must be in [0, 1); a label out of range is reported when the result is read.
    #[track_caller]
    pub fn cross_entropy(&self, logits: Value, labels: Value, options: Labels) -> Result<Value, Error> {
        let Labels { weights, ignored, smoothing } = options;
        let args: Vec<Value> = [logits, labels].into_iter().chain(weights).collect();
        self.sound("cross_entropy", &args, Location::caller())?;
        let (specs, at) = (self.specs(&args), Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("cross_entropy", &specs, None, Some(at)));
        if !(0.0..1.0).contains(&smoothing) {
            return Err(refused(Rule::Attribute {
                name: "smoothing",
                value: smoothing,
                expected: "in [0, 1)",
            }));
        }
        if weights.is_none() && ignored.is_none() && smoothing == 0.0 {
            return self.op1(ops::CrossEntropy, &[logits, labels]);
        }
        ops::CrossEntropy.infer(&specs[..2]).map_err(refused)?;
        let (rows, classes) = (specs[1].shape.elements(), specs[0].shape.last());
        let labels = self.reshape(labels, [rows])?;
        let (counts, labels) = match ignored {
            None => (None, labels),
            Some(label) => {
                let unused = self.equal(labels, self.scalar(labels, label)?)?;
                (Some(self.not(unused)?), self.select(unused, self.scalar(labels, 0.0)?, labels)?)
            }
        };
        let mean = |logits: Value, weights: Option<Value>| {
            let zero = self.scalar(logits, 0.0)?;
            let mut logits = self.reshape(logits, [rows, classes])?;
            let mut factors = match weights {
                Some(weights) => self.take(weights, 0, labels)?,
                None => self.fill(self.spec(logits).dtype, [rows], 1.0)?,
            };
            if let Some(counts) = counts {
                factors = self.select(counts, factors, zero)?;
            }
            // Taken out before any arithmetic, so that no NaN of theirs comes to a result or a gradient.
            let mut taken = counts;
            if weights.is_some() && smoothing == 0.0 {
                // One that is finite has a gradient to its weight of 0.
                let none = self.equal(factors, zero)?;
                let sound = self.or(self.is_finite(self.max(logits, -1)?)?, self.not(none)?)?;
                taken = Some(taken.map_or(Ok(sound), |counts| self.and(counts, sound))?);
            }
            if let Some(taken) = taken {
                logits = self.select(self.reshape(taken, [rows, 1])?, logits, zero)?;
            }
            let logs = self.log_softmax(logits, -1)?;
            let own =
                self.neg(self.reshape(self.gather(logs, 1, self.reshape(labels, [rows, 1])?)?, [rows])?)?;
            let mut losses = self.weighted(own, factors)?;
            if smoothing > 0.0 {
                let all = weights.map_or(Ok(logs), |weights| self.weighted(logs, weights))?;
                let mut even = self.affine(self.sum(all, -1)?, -smoothing / classes as f64, 0.0)?;
                if let Some(counts) = counts {
                    even = self.select(counts, even, zero)?;
                }
                losses = self.add(self.affine(losses, 1.0 - smoothing, 0.0)?, even)?;
            }
            let (sum, count) = (self.sum(losses, All)?, self.sum(factors, All)?);
            let nothing = self.equal(count, zero)?;
            self.select(nothing, zero, self.div(sum, self.masked_fill(count, nothing, 1.0)?)?)
        };
        match weights {
            None => self.composed("cross_entropy", [logits], |[logits]| mean(logits, None)),
            Some(weights) => {
                rules::shape(&specs, 2, [classes]).map_err(refused)?;
                self.composed("cross_entropy", [logits, weights], |[logits, weights]| {
                    mean(logits, Some(weights))
                })
            }
        }
    }

    /// `x · weights`; what has a weight of 0 and is not finite is 0.
    #[track_caller]
    fn weighted(&self, x: Value, weights: Value) -> Result<Value, Error> {
        let zero = self.scalar(x, 0.0)?;
        let none = self.and(self.equal(weights, zero)?, self.not(self.is_finite(x)?)?)?;
        self.mul(self.select(none, zero, x)?, weights)
    }

    /// Mean of `−(t·ln σ(x) + (1 − t)·ln(1 − σ(x)))` with `σ` the sigmoid: `t·softplus(−x) + (1 − t)·softplus(x)`, which neither
    /// overflows nor cancels.
    ///
    /// # Errors
    /// Float arguments of one dtype whose shapes can be broadcast.
    #[track_caller]
    pub fn binary_cross_entropy(&self, logits: Value, targets: Value) -> Result<Value, Error> {
        self.composed("binary_cross_entropy", [logits, targets], |[x, t]| {
            let right = self.mul(t, self.softplus(self.neg(x)?)?)?;
            let wrong = self.mul(self.affine(t, -1.0, 1.0)?, self.softplus(x)?)?;
            self.mean(self.add(right, wrong)?, All)
        })
    }

    /// Mean over rows of the Kullback–Leibler divergence `Σ_k p_k·(ln p_k − log_q_k)`; a `p` of 0 adds nothing, whatever `log_q`
    /// is there.
    ///
    /// `log_q`, the logarithms of the predicted probabilities, and `p`: `[.., K]`.
    ///
    /// # Errors
    /// Float arguments of one dtype and shape, with an axis.
    #[track_caller]
    pub fn kl_divergence(&self, log_q: Value, p: Value) -> Result<Value, Error> {
        let (specs, at) = (self.specs(&[log_q, p]), Location::caller());
        rules::same_shape(&specs, 0, 1).map_err(|rule| rule.of("kl_divergence", &specs, None, Some(at)))?;
        self.composed("kl_divergence", [log_q, p], |[log_q, p]| {
            let zero = self.scalar(p, 0.0)?;
            let empty = self.less_equal(p, zero)?;
            let logs = self.ln(self.masked_fill(p, empty, 1.0)?)?;
            let terms = self.mul(p, self.sub(logs, self.masked_fill(log_q, empty, 0.0)?)?)?;
            self.mean(self.sum(self.select(empty, zero, terms)?, -1)?, All)
        })
    }
}
