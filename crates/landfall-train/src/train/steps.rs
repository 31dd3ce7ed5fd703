//! The graphs of a session: a step of training, of evaluation, of prediction.

use super::optimizer::{self, LOSS_SCALE, Update};
use super::session::LossFunction;
use super::{Loss, TrainingOptions};
use crate::models::Model;
use crate::nn::{Context, Mode};
use landfall::{DType, Error, Graph, Shape, StateSpec, Value, grad, mixed_precision, ops};
use std::sync::Arc;

pub(super) const TRAIN_CURSOR: &str = "cursor.train";
pub(super) const EVALUATION_CURSOR: &str = "cursor.evaluation";
pub(super) const SQUARED: &str = "evaluation.squared";
pub(super) const ABSOLUTE: &str = "evaluation.absolute";
pub(super) const PINBALL: &str = "evaluation.pinball";
pub(super) const COVERED: &str = "evaluation.covered";

/// Names of the sums that an evaluation takes.
pub(super) fn sums(loss: &Loss) -> impl Iterator<Item = &'static str> {
    let quantiles = if loss.levels().is_empty() { &[][..] } else { &[PINBALL, COVERED] };
    [SQUARED, ABSOLUTE].into_iter().chain(quantiles.iter().copied())
}

/// Shapes that all programs of a session share.
pub(super) struct Sizes<'a> {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) context: usize,
    pub(super) horizon: usize,
    pub(super) stride: usize,
    pub(super) targets: usize,
    pub(super) labels: bool,
    pub(super) loss: &'a Loss,
}

/// A batch on the device.
struct Batch {
    /// Inputs `[B, C, L]`.
    x: Value,
    /// What is to be predicted `[B, targets, H]`.
    y: Value,
    /// The series of each window.
    series: Value,
    /// Which windows are real.
    valid: Value,
}

/// Gathers a batch.
fn batch(g: &Graph, cursor: Value, order: ops::Order, s: &Sizes<'_>) -> Result<Batch, Error> {
    let table = g.entry("data.windows")?;
    let picked = g.op(ops::BatchWindows { batch: s.batch, order }, &[cursor, table])?;
    let (starts, series, valid) = (picked[0], picked[1], picked[2]);
    let values = g.entry("data.values")?;
    let x = g.op1(ops::WindowGather { stride: s.stride, offset: 0, length: s.context }, &[values, starts])?;
    let y = if s.labels {
        g.op1(ops::WindowGather { stride: 1, offset: 0, length: 1 }, &[g.entry("data.labels")?, starts])?
    } else {
        let future = ops::WindowGather { stride: s.stride, offset: s.context, length: s.horizon };
        g.op1(future, &[g.slice(values, 0, 0, s.targets)?, starts])?
    };
    Ok(Batch { x: g.name(x, "input"), y: g.name(y, "target"), series, valid })
}

/// The model's prediction of the target channels, which are the first ones.
fn predicted(cx: &Context<'_>, model: &dyn Model, x: Value, s: &Sizes<'_>) -> Result<Value, Error> {
    let all = model.forward(cx, x)?;
    if s.labels || s.targets == s.channels { Ok(all) } else { cx.graph.slice(all, 1, 0, s.targets) }
}

pub(super) fn train_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    order: ops::Order,
    batches: usize,
    options: &TrainingOptions,
    loss: &LossFunction<'_>,
) -> Result<Graph, Error> {
    let forward = Graph::new(spec);
    let parameters = model.parameters();
    let cursor = forward.entry(TRAIN_CURSOR)?;
    let Batch { x, y, .. } = batch(&forward, cursor, order, s)?;
    let cx = Context::new(&forward, parameters, Mode::Train { cursor });
    let prediction = predicted(&cx, model, x, s)?;
    let loss = forward.name(cx.penalised(loss(&forward, prediction, y)?)?, "loss");
    let running = cx.into_running();
    let mixed = mixed_precision(&forward, options.dtype, options.products)?;
    let (g, cursor, loss) = (mixed.graph(), mixed.value(cursor)?, mixed.value(loss)?);
    let scale = LossScale::of(g, options.dtype)?;
    let wrt: Vec<(String, Value)> = parameters
        .trainable()
        .iter()
        .map(|p| Ok((p.name.clone(), g.entry(&p.name)?)))
        .collect::<Result<_, Error>>()?;
    let minimised = scale.as_ref().map_or(Ok(loss), |s| g.mul(loss, s.scale))?;
    let gradients = grad(g, minimised, &wrt).map_err(|e| {
        let Error::NoPath { name, .. } = e else { return e };
        // The line that made the parameter says more than this one.
        let at = parameters.list().iter().find(|p| p.name == name).map(|p| p.at);
        Error::NoPath { name, at }
    })?;
    for (v, (name, _)) in gradients.iter().zip(&wrt) {
        g.name(*v, &format!("gradient of {name}"));
    }
    let packed = g.name(g.op1(ops::Pack, &gradients)?, "gradients");
    let norm = g.op1(ops::GlobalNorm, &[packed])?;
    let norm = g.name(scale.as_ref().map_or(Ok(norm), |s| g.mul(norm, s.inverse))?, "gradient norm");
    let clipped = options.clip.map(|max| g.op1(ops::ClipScale { max }, &[norm])).transpose()?;
    // What the gradients are multiplied by undoes the loss scale and clips at once.
    let factor = match (clipped, &scale) {
        (Some(clip), Some(s)) => g.mul(clip, s.inverse)?,
        (Some(clip), None) => clip,
        (None, Some(s)) => s.inverse,
        (None, None) => g.fill(g.spec(norm).dtype, Shape::SCALAR, 1.0)?,
    };
    let ok = g.op1(ops::AllFinite, &[loss, norm])?;
    let lr = g.op1(ops::Lookup, &[g.entry("schedule.lr")?, cursor])?;
    optimizer::update(g, parameters, options, &Update { gradients: packed, cursor, lr, scale: factor, ok })?;
    for r in running {
        let op = ops::RunningUpdate { momentum: r.momentum, unbiased_count: r.unbiased_count };
        g.op(op, &[g.entry(&r.buffer)?, mixed.value(r.batch)?, ok])?;
    }
    if scale.is_some() {
        g.op(ops::LossScale::default(), &[g.entry(LOSS_SCALE)?, ok])?;
    }
    g.op(ops::RingPush, &[g.entry("ring")?, cursor, loss, norm, lr])?;
    g.op(ops::Advance { batches }, &[cursor, ok])?;
    Ok(mixed.into_graph())
}

/// What the loss is multiplied by, so that f16 holds the gradients, and what undoes it.
struct LossScale {
    scale: Value,
    inverse: Value,
}

impl LossScale {
    /// That of the state, if this dtype needs one.
    fn of(g: &Graph, dtype: DType) -> Result<Option<Self>, Error> {
        if dtype != DType::F16 {
            return Ok(None);
        }
        let scale = g.reshape(g.slice(g.entry(LOSS_SCALE)?, 0, 0, 1)?, Shape::SCALAR)?;
        Ok(Some(Self { scale, inverse: g.recip(scale)? }))
    }
}

pub(super) fn evaluate_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let cursor = g.entry(EVALUATION_CURSOR)?;
    let Batch { x, y, series, valid } = batch(&g, cursor, ops::Order::Sequential, s)?;
    let prediction = predicted(&Context::new(&g, model.parameters(), Mode::Evaluate), model, x, s)?;
    // Rows past the last window count nothing.
    let mask = g.reshape(valid, [s.batch, 1, 1])?;
    let zero = g.fill(g.spec(y).dtype, Shape::SCALAR, 0.0)?;
    let count = |name: &str, value: Value| {
        let sums = g.cast(g.sum(g.select(mask, value, zero)?, &[2])?, DType::F64)?;
        g.op(ops::Accumulate, &[g.entry(name)?, series, sums]).map(|_| ())
    };
    let level = |q: usize| g.slice(prediction, 2, q * s.horizon, s.horizon);
    let error =
        if s.loss.levels().is_empty() { g.sub(prediction, y)? } else { g.sub(level(s.loss.point())?, y)? };
    count(SQUARED, g.mul(error, error)?)?;
    count(ABSOLUTE, g.abs(error)?)?;
    if !s.loss.levels().is_empty() {
        let mut total: Option<Value> = None;
        let (mut low, mut high) = (level(0)?, level(0)?);
        for (q, &tau) in s.loss.levels().iter().enumerate() {
            let own = level(q)?;
            let d = g.sub(y, own)?;
            let one = g.maximum(g.affine(d, tau, 0.0)?, g.affine(d, tau - 1.0, 0.0)?)?;
            total = Some(total.map_or(Ok(one), |sum| g.add(sum, one))?);
            // As predictions are sorted, the outermost are the smallest and the largest.
            (low, high) = (g.minimum(low, own)?, g.maximum(high, own)?);
        }
        let levels = s.loss.levels().len() as f64;
        count(PINBALL, g.affine(total.unwrap_or(error), 1.0 / levels, 0.0)?)?;
        let one = g.fill(g.spec(y).dtype, Shape::SCALAR, 1.0)?;
        let at_most = |a, b| g.op1(ops::Compare { comparison: ops::Comparison::LessEqual }, &[a, b]);
        let inside = g.select(at_most(low, y)?, g.select(at_most(y, high)?, one, zero)?, zero)?;
        count(COVERED, inside)?;
    }
    let yes = g.fill(DType::Bool, Shape::SCALAR, 1.0)?;
    g.op(ops::Advance { batches: usize::MAX >> 1 }, &[cursor, yes])?;
    Ok(mixed_precision(&g, options.dtype, options.products)?.into_graph())
}

pub(super) fn predict_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let x = g.input("context", options.dtype.accumulate(), [1, s.channels, s.context]);
    let prediction = predicted(&Context::new(&g, model.parameters(), Mode::Evaluate), model, x, s)?;
    g.output("prediction", g.reshape(prediction, [s.targets, s.loss.outputs(), s.horizon])?);
    Ok(mixed_precision(&g, options.dtype, options.products)?.into_graph())
}
