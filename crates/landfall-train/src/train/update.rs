//! The end of a training step, the same for every model: gradients, their mean over micro-batches, clipping, the optimizer's
//! update, running statistics, the average of the weights, the report.

use super::TrainingOptions;
use super::minimiser::{Each, Minimiser};
use super::names::{
    CURSORS, GRADIENTS, LEARNING_RATES, LOSS_SCALE, MEAN_GRADIENTS, MEAN_LOSS, MEANS, PARAMETERS, REPORTS,
    SCHEDULE, STEP_RING, mean_of,
};
use super::optimizer::Optimizer;
use super::ranks::Ranks;
use super::shards::{self, Shards};
use crate::nn::{Asked, Context, Parameters};
use landfall::{DType, Error, Graph, Rule, Shape, StateSpec, Value, mixed_precision, ops};

/// Steps whose losses the device keeps until the host reads them.
pub const RING: usize = 1024;

/// A training step: what it minimises, and what surrounds the update.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingStep<'a> {
    minimiser: Minimiser<'a>,
    parameters: &'a Parameters,
    optimizer: &'a dyn Optimizer,
    options: &'a TrainingOptions,
    /// The ranks that take the step together.
    ranks: Ranks,
}

/// A forward pass and where it is: what the step's end continues.
pub(super) struct Forward<'a> {
    pub(super) graph: &'a Graph,
    /// The step's cursor.
    pub(super) cursor: Value,
    /// The cursor of the micro-batch at hand.
    pub(super) at: Value,
    /// The loss of the batch, or micro-batch.
    pub(super) loss: Value,
    /// What its layers and the loss asked for.
    pub(super) asked: Asked,
    /// Steps of one epoch.
    pub(super) batches: usize,
}

impl<'a> TrainingStep<'a> {
    /// The step that these options ask for.
    pub(super) fn new(
        parameters: &'a Parameters,
        optimizer: &'a dyn Optimizer,
        options: &'a TrainingOptions,
        ranks: Ranks,
    ) -> Self {
        let minimiser = Minimiser::new("", parameters, optimizer)
            .weight_decay(options.weight_decay)
            .clip(options.clip)
            .average(options.average);
        Self { minimiser, parameters, optimizer, options, ranks }
    }

    /// Adds the slabs of parameters, buffers, moments, and of what a step needs beside them.
    pub(super) fn add_slabs(&self, spec: &mut StateSpec) -> Result<(), Error> {
        let (p, options) = (self.parameters, self.options);
        let (dtype, wide) = (options.dtype, options.dtype.accumulate());
        self.minimiser.add_parameters(spec, dtype)?;
        shards::check(self.optimizer, options)
            .and_then(|()| self.minimiser.check())
            .map_err(|rule| rule.of("optimizer", &[], None, None))?;
        let shards = Shards::of(spec.find_slab(PARAMETERS)?.1, options, self.ranks);
        self.minimiser.add_kept(spec, dtype, shards.as_ref())?;
        if options.accumulate > 1 {
            let elements = spec.find_slab(PARAMETERS)?.1.elements;
            spec.add(GRADIENTS, wide, &[(MEAN_GRADIENTS.to_owned(), [elements].into())])?;
            let statistics = p.buffers().iter().map(|b| (mean_of(&b.name), b.shape));
            let means: Vec<_> =
                std::iter::once((MEAN_LOSS.to_owned(), Shape::SCALAR)).chain(statistics).collect();
            spec.add(MEANS, wide, &means)?;
        }
        if dtype == DType::F16 {
            spec.add(LOSS_SCALE, DType::F32, &[(LOSS_SCALE.to_owned(), [2].into())])?;
        }
        Ok(())
    }

    /// Adds the slab of cursors of these names.
    pub(super) fn add_cursors(spec: &mut StateSpec, names: &[&str]) -> Result<(), Error> {
        let named: Vec<_> = names.iter().map(|&n| (n.to_owned(), [ops::cursor::LEN].into())).collect();
        spec.add(CURSORS, DType::I64, &named)
    }

    /// Adds the slab of the steps' reports.
    pub(super) fn add_reports(spec: &mut StateSpec) -> Result<(), Error> {
        spec.add(REPORTS, DType::F64, &[(STEP_RING.to_owned(), [RING, 3].into())])
    }

    /// Adds the slab of the learning rate of each step.
    pub(super) fn add_rates(spec: &mut StateSpec, steps: usize) -> Result<(), Error> {
        spec.add_constant(SCHEDULE, DType::F64, &[(LEARNING_RATES.to_owned(), [steps].into())])
    }

    /// The whole step: the forward pass in mixed precision, the backward pass, and everything that follows.
    ///
    /// # Errors
    /// A parameter without a gradient, or none that is trained; a loss that is no scalar.
    #[track_caller]
    pub(super) fn graph(&self, forward: Forward<'_>) -> Result<Graph, Error> {
        let options = self.options;
        let mixed = mixed_precision(forward.graph, options.dtype, options.products)?;
        let value = |v| mixed.value(v);
        let (g, cursor, at, loss) =
            (mixed.graph(), value(forward.cursor)?, value(forward.at)?, value(forward.loss)?);
        let scale = LossScale::of(g, options.dtype)?;
        let shards = Shards::of(g.state_spec().find_slab(PARAMETERS)?.1, options, self.ranks);
        let packed = self.gradients(g, loss, scale.as_ref(), shards.as_ref())?;
        let micro = MicroBatches { count: options.accumulate, cursor, at };
        let packed = micro.mean(g, MEAN_GRADIENTS, packed)?;
        let loss = micro.mean(g, MEAN_LOSS, loss)?;
        let mut means = vec![loss];
        for r in &forward.asked.running {
            means.push(micro.mean(g, &mean_of(&r.buffer), value(r.batch)?)?);
        }
        let cursor = micro.end(g)?;
        for (name, kept) in &forward.asked.kept {
            let kept = value(*kept)?;
            // An output within what is repeated would keep micro-batches from running at once.
            g.output(name, if options.accumulate > 1 { g.copy(kept)? } else { kept });
        }
        // Of micro-batches there is one mean, at the end of the loop.
        let packed = match (options.accumulate, &shards) {
            (1, _) => packed,
            (_, None) => self.ranks.mean(g, packed)?,
            (_, Some(shards)) => shards.scattered_packed(g, packed)?,
        };
        let mut means = self.ranks.means(g, &means)?;
        let statistics = means.split_off(1);
        let loss = means[0];
        let norm = match &shards {
            None => g.op1(ops::GlobalNorm, &[packed])?,
            Some(shards) => shards.norm(g, packed)?,
        };
        let norm = g.name(scale.as_ref().map_or(Ok(norm), |s| g.mul(norm, s.inverse))?, "gradient norm");
        let guard = self.minimiser.guard(g, loss, norm, scale.as_ref().map(|s| s.inverse))?;
        let ok = guard.ok;
        let lr = g.op1(ops::Lookup, &[g.entry(LEARNING_RATES)?, cursor])?;
        let each = Each { gradients: packed, cursor, lr, guard };
        self.update(g, each, shards.as_ref())?;
        self.assign(g, &forward.asked.assigned, value, ok)?;
        for (r, batch) in forward.asked.running.iter().zip(statistics) {
            let op = ops::RunningUpdate { momentum: r.momentum, unbiased_count: r.unbiased_count };
            g.op(op, &[g.entry(&r.buffer)?, batch, ok])?;
        }
        if scale.is_some() {
            g.op(ops::LossScale::default(), &[g.entry(LOSS_SCALE)?, ok])?;
        }
        g.op(ops::RingPush, &[g.entry(STEP_RING)?, cursor, loss, norm, lr])?;
        g.op(ops::Advance { batches: forward.batches }, &[cursor, ok])?;
        Ok(mixed.into_graph())
    }

    /// Writes the buffers that the loss assigned.
    fn assign(
        &self,
        g: &Graph,
        assigned: &[(String, Value)],
        value: impl Fn(Value) -> Result<Value, Error>,
        ok: Value,
    ) -> Result<(), Error> {
        let parts = self.options.accumulate * self.ranks.size;
        if parts > 1 && !assigned.is_empty() {
            let (name, expected) = (
                "accumulate · ranks",
                "1 where a loss assigns a buffer: each part would assign another value",
            );
            return Err(Rule::Attribute { name, value: parts as f64, expected }
                .of("assign", &[], None, None)
                .into());
        }
        for (buffer, new) in assigned {
            let target = g.entry(buffer)?;
            g.assign(target, g.cast(value(*new)?, g.spec(target).dtype)?, ok)?;
        }
        Ok(())
    }

    /// The gradients of all trainable parameters, packed as their slab; this rank's shard of them, where there are shards and no
    /// micro-batches.
    #[track_caller]
    fn gradients(
        &self,
        g: &Graph,
        loss: Value,
        scale: Option<&LossScale>,
        shards: Option<&Shards>,
    ) -> Result<Value, Error> {
        let wrt =
            self.parameters.trainable().iter().map(|p| g.entry(&p.name)).collect::<Result<Vec<_>, _>>()?;
        let minimised = scale.map_or(Ok(loss), |s| g.mul(loss, s.scale))?;
        let gradients = self.minimiser.gradients(g, minimised, &wrt)?;
        let packed = match (self.options.accumulate, shards) {
            (1, None) => self.ranks.packed(g, &gradients)?,
            (1, Some(shards)) => shards.scattered(g, &gradients)?,
            (_, _) => Ranks::ALONE.packed(g, &gradients)?,
        };
        Ok(g.name(packed, "gradients"))
    }

    /// Appends the optimizer's update of each group, and of the average. With shards each rank updates its own, and all get all new
    /// weights.
    fn update(&self, g: &Graph, each: Each, shards: Option<&Shards>) -> Result<(), Error> {
        let mut new = self.minimiser.updated(g, self.minimiser.runs(g, shards)?, each)?;
        if let Some(shards) = shards {
            let (slab, whole) = (g.state_spec().find_slab(PARAMETERS)?.1, g.slab(PARAMETERS)?);
            let all = shards.gathered(g, slab.dtype, new.into_iter().map(|(_, own)| own).collect())?;
            new = vec![(0..slab.elements, g.assign(whole, all, each.guard.ok)?)];
        }
        self.minimiser.averaged(g, new, each.guard.ok)
    }
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

/// The forward pass of a step: the cursor that its batch is read at.
pub(super) fn begin(g: &Graph, cursor: &str, options: &TrainingOptions) -> Result<(Value, Value), Error> {
    let cursor = g.entry(cursor)?;
    // A micro-batch reads a copy: the cursor itself can then move on, and the next micro-batch need not wait for this one.
    let at = if options.accumulate > 1 { g.name(g.copy(cursor)?, "cursor.micro") } else { cursor };
    Ok((cursor, at))
}

/// Ends a forward pass: the loss with what layers asked to be added to it.
pub(super) fn end<'a>(
    cx: Context<'a>,
    (cursor, at): (Value, Value),
    loss: Value,
    batches: usize,
) -> Result<Forward<'a>, Error> {
    let graph = cx.graph;
    let loss = graph.name(cx.penalised(loss)?, "loss");
    Ok(Forward { graph, cursor, at, loss, asked: cx.into_asked(), batches })
}
