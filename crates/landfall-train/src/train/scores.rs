//! What an evaluation sums up, and the part of its graph that does.

use super::Loss;
use super::names::CLASSES;
use super::sizes::Sizes;
use landfall::{Error, Graph, Shape, Value, ops};

pub(super) const SQUARED: &str = "evaluation.squared";
pub(super) const ABSOLUTE: &str = "evaluation.absolute";
pub(super) const PINBALL: &str = "evaluation.pinball";
pub(super) const COVERED: &str = "evaluation.covered";
pub(super) const NLL: &str = "evaluation.nll";
pub(super) const CROSS_ENTROPY: &str = "evaluation.cross_entropy";
pub(super) const CORRECT: &str = "evaluation.correct";

/// Names of the sums that an evaluation takes.
pub(super) fn sums(loss: &Loss) -> impl Iterator<Item = &'static str> {
    let further: &[_] = match loss {
        Loss::Quantile(_) => &[PINBALL, COVERED],
        Loss::Distribution(..) => &[NLL],
        Loss::CrossEntropy => &[CROSS_ENTROPY, CORRECT],
        Loss::Mse | Loss::Mae | Loss::Huber(_) => &[],
    };
    [SQUARED, ABSOLUTE].into_iter().chain(further.iter().copied())
}

/// Adds up a value `[B, targets, any]` under a name: over its last axis and all real windows, for each series and target.
pub(super) type Count<'a> = dyn Fn(&str, Value) -> Result<(), Error> + 'a;

fn at_most(g: &Graph, low: Value, high: Value) -> Result<Value, Error> {
    let shape = g.shape(low).broadcast(&g.shape(high)).unwrap_or(g.shape(low));
    let args = [g.broadcast_to(low, shape)?, g.broadcast_to(high, shape)?];
    g.op1(ops::Compare { comparison: ops::Comparison::LessEqual }, &args)
}

/// Errors of a forecast; of a distribution, those of its mean and the negative log-likelihood; of one of quantiles, those of its point forecast, the quantile loss and the coverage.
pub(super) fn forecast(
    g: &Graph,
    s: &Sizes<'_>,
    prediction: Value,
    y: Value,
    count: &Count<'_>,
) -> Result<(), Error> {
    if let Loss::Distribution(family, _) = s.loss {
        let terms = family.terms(g, prediction, y)?;
        let error = g.sub(terms.mean, y)?;
        count(SQUARED, g.mul(error, error)?)?;
        count(ABSOLUTE, g.abs(error)?)?;
        return count(NLL, terms.nll);
    }
    let levels = s.loss.levels();
    // What is forecast is sorted at each row, so this is what is scored.
    let prediction = if levels.len() > 1 { sorted(g, prediction, levels.len())? } else { prediction };
    let level = |q: usize| g.slice(prediction, 2, q * s.horizon, s.horizon);
    let error = if levels.is_empty() { g.sub(prediction, y)? } else { g.sub(level(s.loss.point())?, y)? };
    count(SQUARED, g.mul(error, error)?)?;
    count(ABSOLUTE, g.abs(error)?)?;
    if levels.is_empty() {
        return Ok(());
    }
    let mut total: Option<Value> = None;
    for (q, &tau) in levels.iter().enumerate() {
        let own = level(q)?;
        let d = g.sub(y, own)?;
        let one = g.maximum(g.affine(d, tau, 0.0)?, g.affine(d, tau - 1.0, 0.0)?)?;
        total = Some(total.map_or(Ok(one), |sum| g.add(sum, one))?);
    }
    let (low, high) = (level(0)?, level(levels.len() - 1)?);
    count(PINBALL, g.affine(total.unwrap_or(error), 1.0 / levels.len() as f64, 0.0)?)?;
    let [zero, one] = [0.0, 1.0].map(|x| g.fill(g.spec(y).dtype, Shape::SCALAR, x));
    let (zero, one) = (zero?, one?);
    count(COVERED, g.select(at_most(g, low, y)?, g.select(at_most(g, y, high)?, one, zero)?, zero)?)
}

/// The levels of a prediction `[B, targets, levels·H]`, ascending at each row.
fn sorted(g: &Graph, prediction: Value, levels: usize) -> Result<Value, Error> {
    let shape = g.shape(prediction);
    let &[batch, targets, values] = shape.dims() else { return Ok(prediction) };
    let by_level = g.reshape(prediction, [batch, targets, levels, values / levels])?;
    let sorted = g.op(ops::Sort { axis: 2, descending: false }, &[by_level])?[0];
    g.reshape(sorted, shape)
}

/// Scores of logits `[B, S, K]` for classes `[B, S]`: the squared and absolute errors of the probabilities (1 for the
/// class, 0 for the others), the cross-entropy, and how often no logit is above that of the class.
pub(super) fn classes(g: &Graph, logits: Value, y: Value, count: &Count<'_>) -> Result<(), Error> {
    let (shape, dtype) = (g.shape(logits), g.spec(logits).dtype);
    let one_each = shape.with(2, 1);
    let [zero, one] = [0.0, 1.0].map(|x| g.fill(dtype, Shape::SCALAR, x));
    let (zero, one) = (zero?, one?);
    let args = [g.broadcast_to(g.reshape(y, one_each)?, shape)?, g.broadcast_to(g.entry(CLASSES)?, shape)?];
    let is_class = g.op1(ops::Compare { comparison: ops::Comparison::Equal }, &args)?;
    let probabilities = g.op1(ops::Softmax { axis: 2 }, &[logits])?;
    let error = g.sub(probabilities, g.select(is_class, one, zero)?)?;
    count(SQUARED, g.mul(error, error)?)?;
    count(ABSOLUTE, g.abs(error)?)?;
    let top = g.reshape(g.max(logits, [2])?, one_each)?;
    let own = g.reshape(g.sum(g.select(is_class, logits, zero)?, [2])?, one_each)?;
    let below = g.reshape(g.sum(g.exp(g.sub(logits, top)?)?, [2])?, one_each)?;
    count(CROSS_ENTROPY, g.add(g.ln(below)?, g.sub(top, own)?)?)?;
    count(CORRECT, g.select(at_most(g, top, own)?, one, zero)?)
}
