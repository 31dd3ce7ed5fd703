//! The graphs of a session: a step of training, of evaluation, of prediction.

use super::layout::Layout;
use super::names::{
    CONTEXT, EVALUATION_CURSOR, KNOWN, LABELS, ORDER, PREDICTION, TRAIN_CURSOR, VALUES, WINDOWS,
};
use super::ranks::Ranks;
use super::sizes::Sizes;
use super::update::{self, TrainingStep};
use super::{LossFunction, Target, TrainingOptions, scores};
use crate::models::{Inputs, Model};
use crate::nn::{Context, Mode};
use landfall::{
    DType, Engine, Error, Graph, Program, ProgramSet, Shape, State, StateSpec, Value, mixed_precision, ops,
};
use std::sync::Arc;

/// The programs of a session.
pub(super) struct Programs {
    pub(super) train: Program,
    pub(super) evaluate: Program,
    pub(super) predict: Program,
}

impl Programs {
    /// Builds the graphs and compiles them for the device of the state.
    ///
    /// # Errors
    /// A model that does not fit the data, a parameter without a gradient, not enough memory.
    pub(super) fn compile(
        engine: &Engine,
        state: &State,
        layout: &Layout<'_>,
        model: &dyn Model,
        loss: &LossFunction<'_>,
    ) -> Result<Self, Error> {
        let (spec, sizes, options) = (state.spec(), layout.sizes(), layout.options);
        let (order, batches) = (layout.order, (layout.steps_per_epoch, layout.ranks));
        let mut set = ProgramSet::new(engine, state);
        set.add("train", &train_graph(spec, model, &sizes, order, batches, options, loss)?)?;
        set.add("evaluate", &evaluate_graph(spec, model, &sizes, options)?)?;
        let one = (1, Shapes::of(&sizes));
        set.add("predict", &predict_graph(spec, model, one, Outputs::of(&sizes), options)?)?;
        let mut programs = set.build()?.into_iter();
        let (Some(train), Some(evaluate), Some(predict)) =
            (programs.next(), programs.next(), programs.next())
        else {
            unreachable!("three graphs make three programs");
        };
        Ok(Self { train, evaluate, predict })
    }
}

/// A batch on the device.
struct Batch {
    /// What the model is given.
    inputs: Inputs,
    /// What is to be predicted `[B, targets, H]`; classes `[B, targets]`.
    y: Value,
    /// The series of each window.
    series: Value,
    /// Which windows are real.
    valid: Value,
}

/// Rows of windows start at multiples of so many elements: of 16 bytes, if they are cast to 16 bits. Matrix libraries have
/// their fast kernels for such alone.
const ROW: usize = 8;

/// Gathers a batch, or a micro-batch of one.
fn batch(
    g: &Graph,
    cursor: Value,
    order: ops::Order,
    micro_batches: usize,
    s: &Sizes<'_>,
) -> Result<Batch, Error> {
    let mut args = vec![cursor, g.entry(WINDOWS)?];
    if order == ops::Order::Listed {
        args.push(g.entry(ORDER)?);
    }
    let picked = g.op(ops::BatchWindows { batch: s.batch, micro_batches, order }, &args)?;
    let (starts, series, valid) = (picked[0], picked[1], picked[2]);
    let values = g.entry(VALUES)?;
    let width = s.context.next_multiple_of(ROW);
    let windows = ops::WindowGather { stride: s.stride, offset: 0, length: s.context, width };
    let seen = if s.known == 0 { values } else { g.slice(values, 0, 0, s.channels)? };
    let x = g.op1(windows, &[seen, starts])?;
    let x = if width == s.context { x } else { g.slice(x, 2, 0, s.context)? };
    let labels = ops::WindowGather { stride: 1, offset: 0, length: 1, width: 1 };
    let y = match s.target {
        Target::Future(_) => {
            let (offset, length) = (s.context, s.horizon);
            let future = ops::WindowGather { stride: s.stride, offset, length, width: length };
            g.op1(future, &[g.slice(values, 0, 0, s.targets)?, starts])?
        }
        Target::Labels(_) => g.op1(labels, &[g.entry(LABELS)?, starts])?,
        Target::Classes { .. } => {
            let y = g.op1(labels, &[g.entry(LABELS)?, starts])?;
            g.reshape(y, [s.batch, s.targets])?
        }
    };
    let known = if s.known == 0 {
        None
    } else {
        let length = s.context + s.horizon;
        let known = g.slice(values, 0, s.channels, s.known)?;
        let windows = ops::WindowGather { stride: s.stride, offset: 0, length, width: length };
        Some(g.name(g.op1(windows, &[known, starts])?, "known"))
    };
    let inputs = Inputs { x: g.name(x, "input"), known };
    Ok(Batch { inputs, y: g.name(y, "target"), series, valid })
}

/// The model's prediction of the target channels, which are the first ones.
fn predicted(cx: &Context<'_>, model: &dyn Model, inputs: &Inputs, targets: usize) -> Result<Value, Error> {
    let all = model.forecast(cx, inputs)?;
    match cx.graph.shape(all).dims() {
        [_, channels, _] if *channels != targets => cx.graph.slice(all, 1, 0, targets),
        _ => Ok(all),
    }
}

/// What a session predicts for each window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    /// Columns, or tokens.
    pub(super) targets: usize,
    /// Values of each row: 1, one for each quantile, or the parameters of a distribution.
    pub(super) levels: usize,
    /// Rows, or classes.
    pub(super) horizon: usize,
    /// Whether they are probabilities of classes.
    pub(super) classes: bool,
}

/// Shapes of what a model is given of one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shapes {
    /// Channels that are known up to the end of the context.
    pub(super) channels: usize,
    /// Channels that are known in advance.
    pub(super) known: usize,
    /// Rows of the context.
    pub(super) context: usize,
}

impl Shapes {
    pub(super) fn of(s: &Sizes<'_>) -> Self {
        Self { channels: s.channels, known: s.known, context: s.context }
    }
}

impl Outputs {
    pub(super) fn of(s: &Sizes<'_>) -> Self {
        let classes = matches!(s.target, Target::Classes { .. });
        Self { targets: s.targets, levels: s.loss.parameters(), horizon: s.horizon, classes }
    }
}

/// What a model predicts of scaled windows `[B, C, L]`: `[B, targets, Q, H]`; of samples `[B, S, F]` the probabilities of their
/// classes, `[B, S, 1, K]`.
pub(super) fn prediction(g: &Graph, model: &dyn Model, inputs: &Inputs, of: Outputs) -> Result<Value, Error> {
    let batch = g.shape(inputs.x).dims().first().copied().unwrap_or(1);
    let cx = Context::new(g, model.parameters(), Mode::Evaluate);
    let mut all = predicted(&cx, model, inputs, of.targets)?;
    if of.classes {
        all = g.op1(ops::Softmax { axis: 2 }, &[all])?;
    }
    g.reshape(all, [batch, of.targets, of.levels, of.horizon])
}

fn train_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    order: ops::Order,
    (batches, ranks): (usize, Ranks),
    options: &TrainingOptions,
    loss: &LossFunction<'_>,
) -> Result<Graph, Error> {
    let forward = Graph::new(spec);
    let cursors = update::begin(&forward, TRAIN_CURSOR, options)?;
    let Batch { inputs, y, .. } = batch(&forward, cursors.1, order, s.parts, s)?;
    let cx = Context::new(&forward, model.parameters(), Mode::Train { cursor: cursors.1 });
    let cx = cx.across(options.statistics(ranks));
    let prediction = predicted(&cx, model, &inputs, s.targets)?;
    let loss = loss(&forward, prediction, y)?;
    let optimizer = options.optimizer.of(options);
    let step = TrainingStep::new(model.parameters(), optimizer.as_ref(), options, ranks);
    step.graph(update::end(cx, cursors, loss, batches)?)
}

fn evaluate_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let cursor = g.entry(EVALUATION_CURSOR)?;
    let Batch { inputs, y, series, valid } = batch(&g, cursor, ops::Order::Sequential, 1, s)?;
    let prediction =
        predicted(&Context::new(&g, model.parameters(), Mode::Evaluate), model, &inputs, s.targets)?;
    if !matches!(s.target, Target::Classes { .. }) {
        g.output(PREDICTION, prediction);
    }
    // Rows past the last window count nothing.
    let mask = g.reshape(valid, [s.batch, 1, 1])?;
    let zero = g.fill(g.spec(prediction).dtype, Shape::SCALAR, 0.0)?;
    let count = |name: &str, value: Value| {
        let sums = g.cast(g.sum(g.select(mask, value, zero)?, [2])?, DType::F64)?;
        g.op(ops::Accumulate, &[g.entry(name)?, series, sums]).map(|_| ())
    };
    match s.target {
        Target::Future(_) | Target::Labels(_) => scores::forecast(&g, s, prediction, y, &count)?,
        Target::Classes { .. } => scores::classes(&g, prediction, y, &count)?,
    }
    let yes = g.fill(DType::Bool, Shape::SCALAR, 1.0)?;
    g.op(ops::Advance { batches: usize::MAX >> 1 }, &[cursor, yes])?;
    Ok(mixed_precision(&g, options.dtype, options.products)?.into_graph())
}

/// The graph that predicts `batch` windows at once.
pub(super) fn predict_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    (batch, window): (usize, Shapes),
    outputs: Outputs,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let dtype = options.dtype.accumulate();
    let x = g.input(CONTEXT, dtype, [batch, window.channels, window.context]);
    let known = (window.known > 0)
        .then(|| g.input(KNOWN, dtype, [batch, window.known, window.context + outputs.horizon]));
    g.output(PREDICTION, prediction(&g, model, &Inputs { x, known }, outputs)?);
    Ok(mixed_precision(&g, options.dtype, options.products)?.into_graph())
}
