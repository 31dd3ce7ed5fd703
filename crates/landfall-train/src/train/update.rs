//! The end of a training step, the same for every model: gradients, their mean over micro-batches, clipping, the optimizer's
//! update, running statistics, the average of the weights, the report.

use super::TrainingOptions;
use super::names::{
    AVERAGE, BUFFERS, CURSORS, FROZEN, GRADIENTS, LEARNING_RATES, LOSS_SCALE, MEAN_GRADIENTS, MEAN_LOSS,
    MEANS, Moment, PARAMETERS, REPORTS, SCHEDULE, STEP_RING, mean_of,
};
use super::optimizer::{Optimizer, Update, scaled_rate};
use super::options::{AT_LEAST_0, at_least_0};
use super::ranks::{Ranks, part};
use super::shards::{self, Shards, is_shared};
use crate::nn::{Asked, Context, Group, Parameter, Parameters};
use landfall::{DType, Error, Graph, Rule, Shape, StateSpec, Value, grad, mixed_precision, ops};
use std::ops::Range;

/// Steps whose losses the device keeps until the host reads them.
pub const RING: usize = 1024;

/// What a step trains, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Minimiser<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) optimizer: &'a dyn Optimizer,
    pub(super) options: &'a TrainingOptions,
    /// The ranks that take the step together.
    pub(super) ranks: Ranks,
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

impl Minimiser<'_> {
    /// Adds the slabs of parameters, buffers, moments, and of what a step needs beside them.
    pub(super) fn add_slabs(&self, spec: &mut StateSpec) -> Result<(), Error> {
        let (p, options) = (self.parameters, self.options);
        let dtype = options.dtype;
        let entries = |list: &[&Parameter]| {
            list.iter().map(|p| (p.name.clone(), p.shape)).collect::<Vec<(String, Shape)>>()
        };
        let wide = dtype.accumulate();
        let trainable = entries(&p.trainable());
        let frozen: Vec<&Parameter> = p.list().iter().filter(|p| p.frozen).collect();
        spec.add(PARAMETERS, wide, &trainable)?;
        spec.add_constant(FROZEN, wide, &entries(&frozen))?;
        let buffers: Vec<(String, Shape)> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
        spec.add(BUFFERS, wide, &buffers)?;
        shards::check(self.optimizer, options)
            .and_then(|()| check_groups(p.groups()))
            .map_err(|rule| rule.of("optimizer", &[], None, None))?;
        let shards = Shards::of(spec.find_slab(PARAMETERS)?.1, options, self.ranks);
        for moment in self.kept() {
            if *moment == AVERAGE {
                spec.add_copy(AVERAGE.slab, PARAMETERS, |name| AVERAGE.entry(name))?;
                continue;
            }
            if let Some(shards) = shards.as_ref().filter(|_| is_shared(moment)) {
                spec.add(moment.slab, wide, &[(moment.shard(), [shards.elements()].into())])?;
                continue;
            }
            let named: Vec<(String, Shape)> = trainable.iter().map(|(n, s)| (moment.entry(n), *s)).collect();
            spec.add(moment.slab, wide, &named)?;
        }
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

    fn kept(&self) -> impl Iterator<Item = &'static Moment> + use<> {
        kept(self.optimizer, self.options)
    }

    /// The whole step: the forward pass in mixed precision, the backward pass, and everything that follows.
    ///
    /// # Errors
    /// A parameter without a gradient; a loss that is no scalar.
    pub(super) fn step(&self, forward: Forward<'_>) -> Result<Graph, Error> {
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
        let each = Each { gradients: packed, cursor, lr, scale: factor, ok };
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
    fn gradients(
        &self,
        g: &Graph,
        loss: Value,
        scale: Option<&LossScale>,
        shards: Option<&Shards>,
    ) -> Result<Value, Error> {
        let wrt: Vec<(String, Value)> = (self.parameters.trainable().iter())
            .map(|p| Ok((p.name.clone(), g.entry(&p.name)?)))
            .collect::<Result<_, Error>>()?;
        let minimised = scale.map_or(Ok(loss), |s| g.mul(loss, s.scale))?;
        let gradients = grad(g, minimised, &wrt).map_err(|e| {
            let Error::NoPath { name, .. } = e else { return e };
            // The line that made the parameter says more than this one.
            let at = self.parameters.list().iter().find(|p| p.name == name).map(|p| p.at);
            Error::NoPath { name, at }
        })?;
        for (v, (name, _)) in gradients.iter().zip(&wrt) {
            g.name(*v, &format!("gradient of {name}"));
        }
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
        let (_, slab) = g.state_spec().find_slab(PARAMETERS)?;
        let trainable = self.parameters.trainable();
        let offset = |i: usize| slab.entries.get(i).map_or(slab.elements, |e| e.offset);
        let at = |i: usize| shards.map_or(offset(i), |shards| shards.before(offset(i)));
        let moments = self.optimizer.moments().iter().map(|m| g.slab(m.slab));
        let moments = moments.collect::<Result<Vec<Value>, _>>()?;
        let whole = g.slab(PARAMETERS)?;
        let parameters = shards.map_or(Ok(whole), |shards| shards.copied(g, whole))?;
        // New weights, and where they lie in the slab.
        let mut new: Vec<(Range<usize>, Value)> = Vec::new();
        let mut first = 0;
        while first < trainable.len() {
            let group = trainable[first].group;
            let count = trainable[first..].iter().take_while(|p| p.group == group).count();
            let decaying = trainable[first..first + count].iter().filter(|p| p.decay).count();
            let (start, end) = (at(first), at(first + count));
            let slice = |v| part(g, v, start..end);
            let of = self.parameters.group_of(group);
            // A rank may have none of a group.
            if start < end {
                let update = Update {
                    parameters: slice(parameters)?,
                    gradients: slice(each.gradients)?,
                    moments: moments.iter().map(|&m| slice(m)).collect::<Result<_, _>>()?,
                    cursor: each.cursor,
                    lr: scaled_rate(g, each.lr, of.lr)?,
                    scale: each.scale,
                    ok: each.ok,
                    weight_decay: of.weight_decay.unwrap_or(self.options.weight_decay),
                    decay_elements: at(first + decaying) - start,
                };
                new.push((start..end, self.optimizer.update(g, &update)?));
            }
            first += count;
        }
        if let Some(shards) = shards {
            let own = new.into_iter().map(|(_, own)| own).collect();
            let all = shards.gathered(g, slab.dtype, own)?;
            new = vec![(0..slab.elements, g.assign(whole, all, each.ok)?)];
        }
        if let Some(decay) = self.options.average {
            let average = g.slab(AVERAGE.slab)?;
            for (range, new) in new {
                let op = ops::RunningUpdate { momentum: 1.0 - decay, unbiased_count: None };
                g.op(op, &[part(g, average, range)?, new, each.ok])?;
            }
        }
        Ok(())
    }
}

/// Refuses a group's numbers outside of their range.
fn check_groups(groups: &[Group]) -> Result<(), Rule> {
    let of = |g: &Group| [("lr of a group", Some(g.lr)), ("weight_decay of a group", g.weight_decay)];
    let wrong = |(name, value): (&'static str, Option<f64>)| {
        let value = value.filter(|&value| !at_least_0(value))?;
        Some(Rule::Attribute { name, value, expected: AT_LEAST_0 })
    };
    groups.iter().flat_map(of).find_map(wrong).map_or(Ok(()), Err)
}

/// What the updates of all groups share.
#[derive(Debug, Clone, Copy)]
struct Each {
    gradients: Value,
    cursor: Value,
    lr: Value,
    scale: Value,
    ok: Value,
}

/// The values that are kept for every trainable element: the optimizer's moments, and the average of the weights.
pub(crate) fn kept(
    optimizer: &dyn Optimizer,
    options: &TrainingOptions,
) -> impl Iterator<Item = &'static Moment> + use<> {
    optimizer.moments().iter().chain(options.average.map(|_| &AVERAGE))
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
