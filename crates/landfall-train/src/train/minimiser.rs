//! What makes a loss small: its gradients, clipping, a check that all is finite and an optimizer's update, for any graph.

use super::names::{AVERAGE, BUFFERS, CURSOR, FROZEN, Moment, PARAMETERS};
use super::optimizer::{Optimizer, Update, scaled_rate};
use super::options::{AT_LEAST_0, at_least_0, check_update};
use super::ranks::part;
use super::shards::{Shards, is_shared};
use crate::nn::{Group, Parameter, Parameters};
use landfall::{DType, ENTRY_ALIGNMENT, Error, Graph, Rule, Shape, Spec, StateSpec, Value, grad, ops};
use std::ops::Range;
use std::panic::Location;

/// Updates parameters by an optimizer in any graph: it adds what the optimizer keeps to the layout of a state, and appends the
/// update to a graph over that state. [`Trainer`](super::Trainer) stands on it. Several may work on one state, each under a
/// prefix of its own: on networks of their own, or on the same parameters.
///
/// The learning rate is a value of the graph (`f64[]`): a constant, an input, or looked up in a table by the step's number
/// ([`ops::Lookup`] at [`Minimiser::cursor`]). [Groups](Parameters::group) and [frozen](Parameters::freeze) parameters are as in a
/// [`Trainer`](super::Trainer), and weight decay is of matrices, and of vectors whose group says so.
///
/// ```
/// use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// use landfall_train::nn::{Context, Linear, Mode, Parameters, loss};
/// use landfall_train::train::{Minimiser, Sgd};
/// use std::sync::Arc;
///
/// let mut p = Parameters::new();
/// let layer = Linear::new(&mut p, "layer", 2, 1);
/// let sgd = Sgd { momentum: 0.9, nesterov: true };
/// let minimiser = Minimiser::new("sgd", &p, &sgd).clip(1.0);
///
/// let engine = Engine::cpu()?;
/// let mut spec = StateSpec::new();
/// minimiser.add_entries(&mut spec, DType::F32)?;
/// let mut state = State::new(&engine, &Arc::new(spec))?;
/// p.initialise(&mut state, 1)?;
///
/// let g = Graph::new(state.spec());
/// let cx = Context::new(&g, &p, Mode::Train { cursor: minimiser.cursor(&g)? });
/// let (x, y) = (g.input("x", DType::F32, [4, 2]), g.input("y", DType::F32, [4, 1]));
/// let loss = loss::mse(&g, layer.forward(&cx, x)?, y)?;
/// minimiser.minimise(&g, loss, g.fill(DType::F64, [], 0.05)?)?;
/// g.output("loss", loss);
///
/// let mut step = Program::compile(&engine, &state, "step", &g)?;
/// step.write("x", &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0])?;
/// step.write("y", &[2.0f32, 3.0, 5.0, 7.0])?;
/// step.run(&mut state)?;
/// let first = step.read::<f32>("loss")?[0];
/// (0..200).try_for_each(|_| step.run(&mut state))?;
/// assert!(step.read::<f32>("loss")?[0] < 1e-3 * first);
/// assert_eq!(state.read::<i64>("sgd.cursor")?[0], 201);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Minimiser<'a> {
    prefix: &'a str,
    parameters: &'a Parameters,
    optimizer: &'a dyn Optimizer,
    weight_decay: f64,
    clip: Option<f64>,
    average: Option<f64>,
}

/// What a graph has of an update.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Minimised {
    /// The norm of all gradients, before they are clipped.
    pub norm: Value,
    /// Whether loss and norm are finite, `bool[]`: where they are not, nothing is updated, the number of steps included.
    pub ok: Value,
}

/// Parameters, and what an optimizer keeps for them, as values: of a program whose inputs they are, for instance, in memory of the
/// caller's ([`landfall::Program::bind`]).
#[derive(Debug, Clone)]
pub struct Held {
    /// The trainable parameters, in the order of [`Parameters::trainable`], of one dtype.
    pub parameters: Vec<Value>,
    /// The [moments](Optimizer::moments) of each, of its shape, in the accumulation dtype (f32, for f64 f64).
    pub moments: Vec<Vec<Value>>,
    /// The [cursor](ops::cursor) that counts the steps, `i64[8]`.
    pub cursor: Value,
}

/// Parameters that lie one after the other and are updated together.
pub(super) struct Run {
    /// Where they are among the packed gradients, and in what is kept for all parameters.
    packed: Range<usize>,
    /// They, flat.
    parameters: Value,
    moments: Vec<Value>,
    group: Group,
    /// Elements that decay, which come first.
    decaying: usize,
}

/// What the updates of all runs share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Each {
    /// Packed as the parameters.
    pub(super) gradients: Value,
    pub(super) cursor: Value,
    pub(super) lr: Value,
    pub(super) guard: Guard,
}

/// The factor of the gradients, and whether the step is sound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    pub(super) scale: Value,
    pub(super) ok: Value,
}

impl<'a> Minimiser<'a> {
    /// An update of these parameters, without weight decay and clipping. What it adds to a state has names that begin with `prefix`
    /// and a dot; the parameters have their own.
    #[must_use]
    pub fn new(prefix: &'a str, parameters: &'a Parameters, optimizer: &'a dyn Optimizer) -> Self {
        Self { prefix, parameters, optimizer, weight_decay: 0.0, clip: None, average: None }
    }

    /// With a weight decay, at least 0, of matrices; a group may have another.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// With gradients clipped to this global norm, above 0.
    #[must_use]
    pub fn clip(self, max: impl Into<Option<f64>>) -> Self {
        Self { clip: max.into(), ..self }
    }

    /// With an exponential moving average of the parameters, of this decay rate in [0, 1): the entry of a parameter `w` is
    /// `{prefix}.average.w`.
    #[must_use]
    pub fn average(self, decay: impl Into<Option<f64>>) -> Self {
        Self { average: decay.into(), ..self }
    }

    /// The name of something of its own.
    fn named(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }

    #[track_caller]
    fn refused(&self, rule: Rule) -> Error {
        rule.of("minimiser", &[], None, Some(Location::caller())).into()
    }

    /// Adds what it needs of a state: the parameters and buffers, if none of them is there yet, what the optimizer keeps for each
    /// parameter that is not frozen, and the cursor. A moment of a parameter `w` is the entry `{prefix}.moment.first.w`, or `second`;
    /// [`State::read_host`](landfall::State::read_host) and [`State::write_host`](landfall::State::write_host) take it to a file and
    /// back.
    ///
    /// # Errors
    /// [`Error::TwiceNamed`] for another with this prefix; [`Error::NoEntry`] where some of the parameters are there and others are
    /// not; a number outside of its range; a parameter that is frozen where it was added; an average of parameters that are there
    /// already.
    #[track_caller]
    pub fn add_entries(&self, spec: &mut StateSpec, dtype: DType) -> Result<(), Error> {
        if let Err(rule) = self.check() {
            return Err(self.refused(rule));
        }
        if !self.parameters.list().iter().any(|p| spec.find(&p.name).is_ok()) {
            self.add_parameters(spec, dtype)?;
        } else if self.average.is_some() {
            let (takes, value) = ("left to the minimiser that adds the parameters", "asked for".to_owned());
            return Err(self.refused(Rule::AttributeValue { name: "average", value, takes, choices: &[] }));
        }
        for p in self.parameters.trainable() {
            if spec.find(&p.name)?.0.constant {
                let takes =
                    "trainable where it is added; add the entries of the minimiser that trains it first";
                let value = format!("{}, which is frozen", p.name);
                return Err(self.refused(Rule::AttributeValue {
                    name: "parameter",
                    value,
                    takes,
                    choices: &[],
                }));
            }
        }
        self.add_kept(spec, dtype, None)?;
        spec.add(&self.named(CURSOR), DType::I64, &[(self.named(CURSOR), [ops::cursor::LEN].into())])
    }

    /// Refuses numbers outside of their range.
    pub(super) fn check(&self) -> Result<(), Rule> {
        check_update(self.weight_decay, self.average, self.clip)?;
        let of = |g: &Group| [("lr of a group", Some(g.lr)), ("weight_decay of a group", g.weight_decay)];
        let wrong = |(name, value): (&'static str, Option<f64>)| {
            let value = value.filter(|&value| !at_least_0(value))?;
            Some(Rule::Attribute { name, value, expected: AT_LEAST_0 })
        };
        self.parameters.groups().iter().flat_map(of).find_map(wrong).map_or(Ok(()), Err)
    }

    /// Adds the slabs of parameters, trainable and frozen, and of buffers.
    pub(super) fn add_parameters(&self, spec: &mut StateSpec, dtype: DType) -> Result<(), Error> {
        let (p, wide) = (self.parameters, dtype.accumulate());
        let frozen: Vec<&Parameter> = p.list().iter().filter(|p| p.frozen).collect();
        spec.add(&self.named(PARAMETERS), wide, &entries(&p.trainable(), str::to_owned))?;
        spec.add_constant(&self.named(FROZEN), wide, &entries(&frozen, str::to_owned))?;
        let buffers: Vec<(String, Shape)> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
        spec.add(&self.named(BUFFERS), wide, &buffers)
    }

    /// Adds the slabs of what is kept for each trainable parameter, laid out as their slab; where ranks share it out, this one's
    /// shard.
    pub(super) fn add_kept(
        &self,
        spec: &mut StateSpec,
        dtype: DType,
        shards: Option<&Shards>,
    ) -> Result<(), Error> {
        let wide = dtype.accumulate();
        for moment in kept(self.optimizer, self.average) {
            let slab = self.named(moment.slab());
            if *moment == AVERAGE {
                let named = |name: &str| self.named(&AVERAGE.entry(name));
                spec.add_copy(&slab, &self.named(PARAMETERS), named)?;
            } else if let Some(shards) = shards.filter(|_| is_shared(moment)) {
                spec.add(&slab, wide, &[(moment.shard(), [shards.elements()].into())])?;
            } else {
                let named = |name: &str| self.named(&moment.entry(name));
                spec.add(&slab, wide, &entries(&self.parameters.trainable(), named))?;
            }
        }
        Ok(())
    }

    /// Its [cursor](ops::cursor), which counts the steps: for tables of rates, and for layers that draw random numbers.
    ///
    /// ```
    /// # use landfall::{DType, Engine, Graph, Program, State, StateSpec, ops};
    /// # use landfall_train::nn::{Context, Init, Mode, Parameters};
    /// # use landfall_train::train::{Lion, Betas, Minimiser, Schedule};
    /// # let mut p = Parameters::new();
    /// # let w = p.add("w", [2, 2], Init::Constant(1.0));
    /// # let lion = Lion { betas: Betas { first: 0.9, second: 0.99 } };
    /// let minimiser = Minimiser::new("lion", &p, &lion);
    /// let rates = Schedule::Cosine.table(0.1, 100, 100);
    /// let mut spec = StateSpec::new();
    /// minimiser.add_entries(&mut spec, DType::F32)?;
    /// spec.add("schedule", DType::F64, &[("rates".to_owned(), [rates.len()].into())])?;
    /// # let engine = Engine::cpu()?;
    /// # let mut state = State::new(&engine, &std::sync::Arc::new(spec))?;
    /// # p.initialise(&mut state, 1)?;
    /// state.write("rates", &rates)?;
    /// # let g = Graph::new(state.spec());
    /// # let loss = g.sum(g.square(g.entry("w")?)?, landfall::All)?;
    /// let lr = g.op1(ops::Lookup, &[g.entry("rates")?, minimiser.cursor(&g)?])?;
    /// minimiser.minimise(&g, loss, lr)?;
    /// # let mut step = Program::compile(&engine, &state, "step", &g)?;
    /// # step.run(&mut state)?;
    /// # assert_eq!(state.read::<f32>("w")?, [1.0 - rates[0] as f32; 4]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoEntry`] in a graph over another state.
    #[track_caller]
    pub fn cursor(&self, g: &Graph) -> Result<Value, Error> {
        g.entry(&self.named(CURSOR))
    }

    /// Appends the gradients of `loss`, a scalar, by the parameters that are not frozen, and their update with the learning rate
    /// `lr` (`f64[]`). All values of the graph, wherever they are computed, are of the parameters before the update.
    ///
    /// A penalty that layers asked for ([`Context::penalised`](crate::nn::Context::penalised)) and running statistics that they
    /// collected ([`Context::into_running`](crate::nn::Context::into_running)) are the caller's to add.
    ///
    /// # Errors
    /// [`Error::Unused`] for a parameter that the loss does not depend on; [`Error::NoEntry`] in a graph over another state; a loss that is no scalar; a rate
    /// that is not `f64[]`.
    #[track_caller]
    pub fn minimise(&self, g: &Graph, loss: Value, lr: Value) -> Result<Minimised, Error> {
        let cursor = self.cursor(g)?;
        let wrt =
            self.parameters.trainable().iter().map(|p| g.entry(&p.name)).collect::<Result<Vec<_>, _>>()?;
        self.applied(g, (loss, lr, cursor), &wrt, |_| self.runs(g, None))
    }

    /// As [`Minimiser::minimise`], of parameters that are values of their own and no entries of a state: they and what is kept for
    /// them are updated where they lie.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec, View};
    /// use landfall_train::nn::{Init, Parameters};
    /// use landfall_train::train::{Held, Minimiser, Sgd};
    /// use std::sync::Arc;
    ///
    /// let mut p = Parameters::new();
    /// p.add("w", [3], Init::Constant(0.0));
    /// let (engine, spec) = (Engine::cpu()?, Arc::new(StateSpec::new()));
    /// let g = Graph::new(&spec);
    /// let (w, cursor) = (g.input("w", DType::F32, [3]), g.input("cursor", DType::I64, [8]));
    /// let loss = g.affine(g.sum(g.square(w)?, landfall::All)?, 0.5, 0.0)?;
    /// let held = Held { parameters: vec![w], moments: vec![vec![]], cursor };
    /// let sgd = Sgd { momentum: 0.0, nesterov: false };
    /// Minimiser::new("", &p, &sgd).minimise_held(&g, loss, g.fill(DType::F64, [], 0.5)?, &held)?;
    ///
    /// let mut state = State::new(&engine, &spec)?;
    /// let mut step = Program::compile(&engine, &state, "step", &g)?;
    /// let weights = View::from(engine.tensor([3], &[2.0f32, 4.0, 6.0])?); // could be memory of another library's
    /// step.bind(&[("w", &weights)])?;
    /// step.write("cursor", &[0i64; 8])?;
    /// step.run(&mut state)?;
    /// assert_eq!(weights.read::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Minimiser::minimise`]; parameters or moments of other numbers, shapes or dtypes than [`Held`] says.
    #[track_caller]
    pub fn minimise_held(&self, g: &Graph, loss: Value, lr: Value, held: &Held) -> Result<Minimised, Error> {
        if let Err(rule) = self.check() {
            return Err(self.refused(rule));
        }
        let trainable = self.parameters.trainable();
        let counts = [("parameters", held.parameters.len()), ("moments", held.moments.len())];
        if let Some((name, count)) = counts.into_iter().find(|(_, count)| *count != trainable.len()) {
            let expected = "as many as there are trainable parameters";
            return Err(self.refused(Rule::Attribute { name, value: count as f64, expected }));
        }
        if let Some(moments) = held.moments.iter().find(|m| m.len() != self.optimizer.moments().len()) {
            let (value, expected) = (moments.len() as f64, "as many as the optimizer has");
            return Err(self.refused(Rule::Attribute { name: "moments of a parameter", value, expected }));
        }
        let runs = |g: &Graph| {
            let mut start = 0;
            let mut all = Vec::new();
            for ((p, &value), moments) in trainable.iter().zip(&held.parameters).zip(&held.moments) {
                let len = p.shape.elements();
                let flat = |v: Value| g.reshape(v, [len]);
                all.push(Run {
                    packed: start..start + len,
                    parameters: flat(value)?,
                    moments: moments.iter().map(|&m| flat(m)).collect::<Result<_, _>>()?,
                    group: self.parameters.group_of(p.group),
                    decaying: if p.decay { len } else { 0 },
                });
                start += len.next_multiple_of(ENTRY_ALIGNMENT);
            }
            Ok(all)
        };
        self.applied(g, (loss, lr, held.cursor), &held.parameters, runs)
    }

    /// Gradients, guard, updates, and the next step's number.
    #[track_caller]
    fn applied(
        &self,
        g: &Graph,
        (loss, lr, cursor): (Value, Value, Value),
        wrt: &[Value],
        runs: impl FnOnce(&Graph) -> Result<Vec<Run>, Error>,
    ) -> Result<Minimised, Error> {
        let (given, expected) = (g.spec(lr), Spec::new(DType::F64, Shape::SCALAR));
        if given != expected {
            let (value, takes) = (given.to_string(), "a value of f64[]");
            return Err(self.refused(Rule::AttributeValue { name: "lr", value, takes, choices: &[] }));
        }
        let gradients = g.op1(ops::Pack, &self.gradients(g, loss, wrt)?)?;
        let norm = g.op1(ops::GlobalNorm, &[gradients])?;
        let guard = self.guard(g, loss, norm, None)?;
        let new = self.updated(g, runs(g)?, Each { gradients, cursor, lr, guard })?;
        self.averaged(g, new, guard.ok)?;
        g.op(ops::Advance { batches: usize::MAX >> 1 }, &[cursor, guard.ok])?;
        Ok(Minimised { norm, ok: guard.ok })
    }

    /// The gradients of a scalar by these values of the trainable parameters, in order.
    #[track_caller]
    pub(super) fn gradients(&self, g: &Graph, loss: Value, wrt: &[Value]) -> Result<Vec<Value>, Error> {
        let trainable = self.parameters.trainable();
        if trainable.is_empty() {
            return Err(self.refused(Rule::Missing { name: "a parameter", takes: "one that is not frozen" }));
        }
        let named: Vec<(String, Value)> =
            trainable.iter().map(|p| p.name.clone()).zip(wrt.iter().copied()).collect();
        let gradients = grad(g, loss, &named).map_err(|e| {
            let Error::NoPath { name, .. } = e else { return e };
            // The line that made the parameter says more than this one.
            let at = trainable.iter().find(|p| p.name == name).map(|p| p.at);
            Error::Unused { name, at }
        })?;
        for (v, (name, _)) in gradients.iter().zip(&named) {
            g.name(*v, &format!("gradient of {name}"));
        }
        Ok(gradients)
    }

    /// What the gradients of this norm are multiplied by, to clip them and to undo a loss scale at once, and whether the step is
    /// sound.
    pub(super) fn guard(
        &self,
        g: &Graph,
        loss: Value,
        norm: Value,
        undo: Option<Value>,
    ) -> Result<Guard, Error> {
        let clipped = self.clip.map(|max| g.op1(ops::ClipScale { max }, &[norm])).transpose()?;
        let scale = match (clipped, undo) {
            (Some(clip), Some(undo)) => g.mul(clip, undo)?,
            (Some(clip), None) => clip,
            (None, Some(undo)) => undo,
            (None, None) => g.fill(g.spec(norm).dtype, Shape::SCALAR, 1.0)?,
        };
        Ok(Guard { scale, ok: g.op1(ops::AllFinite, &[loss, norm])? })
    }

    /// The trainable parameters where they lie in the state: neighbours of one group together. With shards, which are of a slab with
    /// these parameters alone, this rank's part of them.
    pub(super) fn runs(&self, g: &Graph, shards: Option<&Shards>) -> Result<Vec<Run>, Error> {
        let trainable = self.parameters.trainable();
        let spec = g.state_spec();
        let places = trainable.iter().map(|p| spec.find(&p.name)).collect::<Result<Vec<_>, _>>()?;
        let padded = |i: usize| trainable[i].shape.elements().next_multiple_of(ENTRY_ALIGNMENT);
        let mut offsets = vec![0];
        (0..trainable.len()).for_each(|i| offsets.push(offsets[i] + padded(i)));
        let at = |i: usize| shards.map_or(offsets[i], |shards| shards.before(offsets[i]));
        let moments = self.optimizer.moments().iter().map(|m| g.slab(&self.named(m.slab())));
        let moments = moments.collect::<Result<Vec<Value>, _>>()?;
        let own = shards.map(|shards| shards.copied(g, g.slab(PARAMETERS)?)).transpose()?;
        let follows = |i: usize| {
            let ((before, first), (slab, entry)) = (places[i - 1], places[i]);
            trainable[i].group == trainable[i - 1].group
                && slab.name == before.name
                && entry.offset == first.offset + padded(i - 1)
        };
        let (mut all, mut first) = (Vec::new(), 0);
        while first < trainable.len() {
            let count = 1 + (first + 1..trainable.len()).take_while(|&i| follows(i)).count();
            let decaying = trainable[first..first + count].iter().filter(|p| p.decay).count();
            let packed = at(first)..at(first + count);
            // A rank may have none of a group.
            if !packed.is_empty() {
                let (slab, entry) = places[first];
                let parameters = match own {
                    Some(own) => part(g, own, packed.clone())?,
                    None => part(g, g.slab(&slab.name)?, entry.offset..entry.offset + packed.len())?,
                };
                all.push(Run {
                    parameters,
                    moments: moments.iter().map(|&m| part(g, m, packed.clone())).collect::<Result<_, _>>()?,
                    group: self.parameters.group_of(trainable[first].group),
                    decaying: at(first + decaying) - packed.start,
                    packed,
                });
            }
            first += count;
        }
        Ok(all)
    }

    /// Appends the optimizer's updates: the new values of each run, and where they are among the packed ones.
    pub(super) fn updated(
        &self,
        g: &Graph,
        runs: Vec<Run>,
        each: Each,
    ) -> Result<Vec<(Range<usize>, Value)>, Error> {
        let updated = |run: Run| {
            let update = Update {
                parameters: run.parameters,
                gradients: part(g, each.gradients, run.packed.clone())?,
                moments: run.moments,
                cursor: each.cursor,
                lr: scaled_rate(g, each.lr, run.group.lr)?,
                scale: each.guard.scale,
                ok: each.guard.ok,
                weight_decay: run.group.weight_decay.unwrap_or(self.weight_decay),
                decay_elements: run.decaying,
            };
            Ok((run.packed, self.optimizer.update(g, &update)?))
        };
        runs.into_iter().map(updated).collect()
    }

    /// Moves the average of the parameters towards their new values.
    pub(super) fn averaged(
        &self,
        g: &Graph,
        new: Vec<(Range<usize>, Value)>,
        ok: Value,
    ) -> Result<(), Error> {
        let Some(decay) = self.average else { return Ok(()) };
        let average = g.slab(&self.named(AVERAGE.slab()))?;
        for (range, new) in new {
            let op = ops::RunningUpdate { momentum: 1.0 - decay, unbiased_count: None };
            g.op(op, &[part(g, average, range)?, new, ok])?;
        }
        Ok(())
    }
}

/// The values that are kept for every trainable element: the optimizer's moments, and the average of the weights.
pub(super) fn kept(
    optimizer: &dyn Optimizer,
    average: Option<f64>,
) -> impl Iterator<Item = &'static Moment> + use<> {
    optimizer.moments().iter().chain(average.map(|_| &AVERAGE))
}

/// Entries of parameters, by these names.
fn entries(of: &[&Parameter], named: impl Fn(&str) -> String) -> Vec<(String, Shape)> {
    of.iter().map(|p| (named(&p.name), p.shape)).collect()
}
