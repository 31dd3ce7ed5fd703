//! The graphs of a session: a step of training, of evaluation, of prediction.

use super::layout::Layout;
use super::names::{
    CONTEXT, EVALUATION_CURSOR, LABELS, LEARNING_RATES, LOSS_SCALE, MEAN_GRADIENTS, MEAN_LOSS, ORDER,
    PREDICTION, STEP_RING, TRAIN_CURSOR, VALUES, WINDOWS, mean_of,
};
use super::optimizer::{self, Update};
use super::session::LossFunction;
use super::{Loss, Target, TrainingOptions, scores};
use crate::models::Model;
use crate::nn::{Context, Mode};
use landfall::{
    DType, Engine, Error, Graph, Program, ProgramSet, Shape, State, StateSpec, Value, grad, mixed_precision,
    ops,
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
        let (order, batches) = (layout.order, layout.steps_per_epoch);
        let mut set = ProgramSet::new(engine, state);
        set.add("train", &train_graph(spec, model, &sizes, order, batches, options, loss)?)?;
        set.add("evaluate", &evaluate_graph(spec, model, &sizes, options)?)?;
        set.add("predict", &predict_graph(spec, model, &sizes, options)?)?;
        let mut programs = set.build()?.into_iter();
        let (Some(train), Some(evaluate), Some(predict)) =
            (programs.next(), programs.next(), programs.next())
        else {
            unreachable!("three graphs make three programs");
        };
        Ok(Self { train, evaluate, predict })
    }
}

/// Shapes that all programs of a session share.
pub(super) struct Sizes<'a> {
    /// Windows of a micro-batch: of a whole batch, where that is not cut.
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) context: usize,
    pub(super) horizon: usize,
    pub(super) stride: usize,
    pub(super) targets: usize,
    pub(super) target: &'a Target,
    pub(super) loss: &'a Loss,
}

/// A batch on the device.
struct Batch {
    /// Inputs `[B, C, L]`.
    x: Value,
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
    let x = g.op1(windows, &[values, starts])?;
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
    Ok(Batch { x: g.name(x, "input"), y: g.name(y, "target"), series, valid })
}

/// The model's prediction of the target channels, which are the first ones.
fn predicted(cx: &Context<'_>, model: &dyn Model, x: Value, s: &Sizes<'_>) -> Result<Value, Error> {
    let all = model.forward(cx, x)?;
    match s.target {
        Target::Future(targets) if *targets != s.channels => cx.graph.slice(all, 1, 0, *targets),
        Target::Future(_) | Target::Labels(_) | Target::Classes { .. } => Ok(all),
    }
}

fn train_graph(
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
    // A micro-batch reads a copy: the cursor itself can then move on, and the next micro-batch need not wait for this one.
    let at =
        if options.accumulate > 1 { forward.name(forward.copy(cursor)?, "cursor.micro") } else { cursor };
    let Batch { x, y, .. } = batch(&forward, at, order, options.accumulate, s)?;
    let cx = Context::new(&forward, parameters, Mode::Train { cursor: at });
    let prediction = predicted(&cx, model, x, s)?;
    let loss = forward.name(cx.penalised(loss(&forward, prediction, y)?)?, "loss");
    let running = cx.into_running();
    let mixed = mixed_precision(&forward, options.dtype, options.products)?;
    let (g, cursor, at, loss) = (mixed.graph(), mixed.value(cursor)?, mixed.value(at)?, mixed.value(loss)?);
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
    let micro = MicroBatches { count: options.accumulate, cursor, at };
    let packed = micro.mean(g, MEAN_GRADIENTS, packed)?;
    let loss = micro.mean(g, MEAN_LOSS, loss)?;
    let running = running.into_iter().map(|r| {
        let mean = micro.mean(g, &mean_of(&r.buffer), mixed.value(r.batch)?)?;
        Ok((r, mean))
    });
    let running = running.collect::<Result<Vec<_>, Error>>()?;
    let cursor = micro.end(g)?;
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
    let lr = g.op1(ops::Lookup, &[g.entry(LEARNING_RATES)?, cursor])?;
    optimizer::update(g, parameters, options, &Update { gradients: packed, cursor, lr, scale: factor, ok })?;
    for (r, batch) in running {
        let op = ops::RunningUpdate { momentum: r.momentum, unbiased_count: r.unbiased_count };
        g.op(op, &[g.entry(&r.buffer)?, batch, ok])?;
    }
    if scale.is_some() {
        g.op(ops::LossScale::default(), &[g.entry(LOSS_SCALE)?, ok])?;
    }
    g.op(ops::RingPush, &[g.entry(STEP_RING)?, cursor, loss, norm, lr])?;
    g.op(ops::Advance { batches }, &[cursor, ok])?;
    Ok(mixed.into_graph())
}

/// The micro-batches that a batch is cut into. They are one part of the step's program that runs several times; what a
/// step needs of all of them is a mean, which lies in the state.
struct MicroBatches {
    count: usize,
    cursor: Value,
    /// The cursor of the micro-batch at hand.
    at: Value,
}

impl MicroBatches {
    /// The mean of a value over the micro-batches, in this entry of the state; the value itself, if there is but one.
    fn mean(&self, g: &Graph, entry: &str, value: Value) -> Result<Value, Error> {
        match self.count {
            1 => Ok(value),
            micro_batches => g.op1(ops::MicroBatchMean { micro_batches }, &[g.entry(entry)?, value, self.at]),
        }
    }

    /// Ends what is repeated; the cursor of what follows.
    fn end(self, g: &Graph) -> Result<Value, Error> {
        match self.count {
            1 => Ok(self.cursor),
            micro_batches => {
                let next = g.op1(ops::AdvanceMicro { micro_batches }, &[self.cursor])?;
                g.repeat_so_far(micro_batches)?;
                Ok(next)
            }
        }
    }
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

fn evaluate_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let cursor = g.entry(EVALUATION_CURSOR)?;
    let Batch { x, y, series, valid } = batch(&g, cursor, ops::Order::Sequential, 1, s)?;
    let prediction = predicted(&Context::new(&g, model.parameters(), Mode::Evaluate), model, x, s)?;
    if !matches!(s.target, Target::Classes { .. }) {
        g.output(PREDICTION, prediction);
    }
    // Rows past the last window count nothing.
    let mask = g.reshape(valid, [s.batch, 1, 1])?;
    let zero = g.fill(g.spec(prediction).dtype, Shape::SCALAR, 0.0)?;
    let count = |name: &str, value: Value| {
        let sums = g.cast(g.sum(g.select(mask, value, zero)?, &[2])?, DType::F64)?;
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

fn predict_graph(
    spec: &Arc<StateSpec>,
    model: &dyn Model,
    s: &Sizes<'_>,
    options: &TrainingOptions,
) -> Result<Graph, Error> {
    let g = Graph::new(spec);
    let x = g.input(CONTEXT, options.dtype.accumulate(), [1, s.channels, s.context]);
    let mut prediction = predicted(&Context::new(&g, model.parameters(), Mode::Evaluate), model, x, s)?;
    if let Target::Classes { .. } = s.target {
        prediction = g.op1(ops::Softmax { axis: 2 }, &[prediction])?;
    }
    g.output(PREDICTION, g.reshape(prediction, [s.targets, s.loss.outputs(), s.horizon])?);
    Ok(mixed_precision(&g, options.dtype, options.products)?.into_graph())
}
