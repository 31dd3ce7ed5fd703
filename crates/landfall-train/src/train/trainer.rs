//! The training of any graph on the user's own arrays: the pieces that a session is built of, without its windows.

use super::arrays::{Arrays, Batch};
use super::names::{
    AVERAGE, LEARNING_RATES, LOSS_SCALE, Moment, STEP_RING, TRAIN_CURSOR, WINDOW_TABLE, WINDOWS,
};
use super::optimizer::Optimizer;
use super::options::{AT_LEAST_0, at_least_0};
use super::ranks::Ranks;
use super::session::{StepRecord, records};
use super::shards::{Shards, read_kept, write_kept};
use super::update::{self, RING, TrainingStep};
use super::{Draws, Order, TrainingOptions};
use crate::nn::{Context, Mode, Parameters};
use landfall::ops::{self, cursor};
use landfall::profile::Profile;
use landfall::{DType, Engine, Error, Graph, HostTensor, Program, Rule, State, StateSpec, Value};
use std::ops::ControlFlow;
use std::panic::Location;
use std::sync::Arc;

/// Which weights a prediction is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Those of the last step.
    Last,
    /// Their exponential moving average ([`TrainingOptions::average`]).
    Average,
}

/// Trains a loss that is written as graph values on [`Arrays`] of its own: state, one captured step, and programs that predict.
///
/// ```
/// use landfall::{DType, Engine};
/// use landfall_train::nn::{Linear, Parameters, loss};
/// use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
///
/// // y = 2·x, learned from eight samples.
/// let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
/// let y: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
/// let data = Arrays::new().with("x", [8, 1], x)?.with("y", [8, 1], y)?;
///
/// let mut parameters = Parameters::default();
/// let layer = Linear::new(&mut parameters, "layer", 1, 1);
/// let options = TrainingOptions { batch: 4, epochs: 200, lr: 0.05, ..TrainingOptions::default() };
/// let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
///     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
/// })?;
/// trainer.run(|_, _| Ok::<_, landfall::Error>(std::ops::ControlFlow::Continue(())))?;
///
/// let given = Arrays::new().with("x", [1, 1], vec![3.0f32])?;
/// let mut predictor =
///     trainer.predictor(&given, 1, Weights::Last, |cx, batch| layer.forward(cx, batch.get("x")?))?;
/// assert!((predictor.run(&mut trainer, &given)?.data[0] - 6.0).abs() < 0.05);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug)]
pub struct Trainer {
    pub(super) engine: Engine,
    /// Parameters, moments, statistics, counters and data.
    pub state: State,
    pub(super) parameters: Parameters,
    pub(super) options: TrainingOptions,
    step: Program,
    steps: usize,
    steps_per_epoch: usize,
    moments: &'static [Moment],
    ring: Vec<f64>,
    cursor: Vec<i64>,
}

/// An epoch that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: usize,
    /// What its steps report, in order.
    pub steps: Vec<StepRecord>,
}

impl Epoch {
    /// The mean loss of its steps.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.steps.iter().map(|s| s.loss).sum::<f64>() / self.steps.len().max(1) as f64
    }
}

impl Trainer {
    /// Lays out the state, writes data and initial values, and compiles the step. `loss` writes the loss of a batch, a scalar, as
    /// values of `cx.graph`; the `loss` of the options is not used. A last batch that is not full is left out; of
    /// fewer samples than a batch has, all are one batch.
    ///
    /// # Errors
    /// A parameter without a gradient, none that is trained, a loss that is no scalar, a rule that an op's arguments break, not
    /// enough memory.
    #[track_caller]
    pub fn new(
        engine: &Engine,
        parameters: &Parameters,
        data: &Arrays,
        options: TrainingOptions,
        loss: impl FnOnce(&Context<'_>, &Batch) -> Result<Value, Error>,
    ) -> Result<Self, Error> {
        let optimizer = options.optimizer.of(&options);
        Self::with_optimizer(engine, parameters, data, options, optimizer.as_ref(), loss)
    }

    /// As [`Trainer::new`], with an optimizer of your own in place of the options'.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    #[track_caller]
    pub fn with_optimizer(
        engine: &Engine,
        parameters: &Parameters,
        data: &Arrays,
        mut options: TrainingOptions,
        optimizer: &dyn Optimizer,
        loss: impl FnOnce(&Context<'_>, &Batch) -> Result<Value, Error>,
    ) -> Result<Self, Error> {
        let at = Location::caller();
        let refused = |name, value, expected| {
            Rule::Attribute { name, value, expected }.of("trainer", &[], None, Some(at))
        };
        options.batch = options.batch.min(data.rows());
        if options.batch == 0 {
            return Err(refused("samples of a batch", 0.0, "at least 1").into());
        }
        options.check().map_err(|rule| rule.of("trainer", &[], None, Some(at)))?;
        if options.accumulate == 0 || !options.batch.is_multiple_of(options.accumulate) {
            return Err(refused("accumulate", options.accumulate as f64, "a divisor of the batch").into());
        }
        let ranks = Ranks::of(engine.world(), options.rank_order);
        let parts = options.accumulate * ranks.size;
        if !options.batch.is_multiple_of(parts) {
            return Err(refused("accumulate · ranks", parts as f64, "a divisor of the batch").into());
        }
        if options.draws != Draws::Philox {
            return Err(refused("draws", 1.0, "philox: other programs' draws are a session's alone").into());
        }
        let steps_per_epoch = data.rows() / options.batch;
        let steps = options.max_steps.unwrap_or(options.epochs.saturating_mul(steps_per_epoch));
        let training = TrainingStep::new(parameters, optimizer, &options, ranks);
        let mut spec = StateSpec::new();
        training.add_slabs(&mut spec)?;
        TrainingStep::add_cursors(&mut spec, &[TRAIN_CURSOR])?;
        TrainingStep::add_reports(&mut spec)?;
        data.add_slabs(&mut spec)?;
        spec.add_constant(WINDOW_TABLE, DType::I64, &[(WINDOWS.to_owned(), [1, 3].into())])?;
        TrainingStep::add_rates(&mut spec, steps)?;
        let mut state = State::new(engine, &Arc::new(spec))?;

        let g = Graph::new(state.spec());
        let cursors = update::begin(&g, TRAIN_CURSOR, &options)?;
        let order = match options.order {
            Order::Shuffle => ops::Order::Shuffled,
            Order::Sequential => ops::Order::Sequential,
        };
        let pick = ops::BatchWindows { batch: options.batch / parts, micro_batches: parts, order };
        let index = g.op(pick, &[cursors.1, g.entry(WINDOWS)?])?[0];
        let batch = data.gathered(&g, index)?;
        let cx = Context::new(&g, parameters, Mode::Train { cursor: cursors.1 });
        let cx = cx.across(options.statistics(ranks));
        let loss = loss(&cx, &batch)?;
        let graph = training.graph(update::end(cx, cursors, loss, steps_per_epoch)?)?;
        let step = Program::compile(engine, &state, "train", &graph)?;

        data.write(&mut state)?;
        state.write(WINDOWS, &[0i64; 3])?;
        state.write(LEARNING_RATES, &options.schedule.table(options.lr, steps, steps_per_epoch))?;
        parameters.initialise(&mut state, options.seed)?;
        if options.dtype == DType::F16 {
            state.write(LOSS_SCALE, &[ops::LossScale::INITIAL, 0.0])?;
        }
        let mut start = [0i64; cursor::LEN];
        start[cursor::SEED] = options.seed as i64;
        start[cursor::WINDOWS] = data.rows() as i64;
        start[cursor::MICRO] = (ranks.rank * options.accumulate) as i64;
        state.write(TRAIN_CURSOR, &start)?;
        Ok(Self {
            engine: engine.clone(),
            state,
            parameters: parameters.clone(),
            options,
            step,
            steps,
            steps_per_epoch,
            moments: optimizer.moments(),
            ring: Vec::new(),
            cursor: Vec::new(),
        })
    }

    /// Steps of the whole run.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The program of a step.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.step
    }

    /// A schedule of your own: the learning rate of each step, counted from 0.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// // A linear decay to 0.
    /// let steps = trainer.steps();
    /// trainer.schedule(|step| 1e-3 * (1.0 - step as f64 / steps as f64))?;
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A rate that is below 0 or not finite; a device fault.
    #[track_caller]
    pub fn schedule(&mut self, rate: impl Fn(usize) -> f64) -> Result<(), Error> {
        let rates: Vec<f64> = (0..self.steps).map(rate).collect();
        if let Some(&value) = rates.iter().find(|rate| !at_least_0(**rate)) {
            let rule = Rule::Attribute { name: "learning rate of a step", value, expected: AT_LEAST_0 };
            return Err(rule.of("schedule", &[], None, Some(Location::caller())).into());
        }
        self.state.write(LEARNING_RATES, &rates)
    }

    /// Runs one training step. Nothing is read back and nothing is allocated: a step that is not finite changes nothing, its number
    /// included, and does not say so. [`Trainer::advance`] does.
    ///
    /// # Errors
    /// A device fault.
    pub fn step(&mut self) -> Result<(), Error> {
        self.step.run(&mut self.state)
    }

    /// Where the time of a step goes: medians of `runs` steps ([`Program::profile`]). It trains: it takes `2·(runs + 1)` steps.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 9, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// let profile = trainer.profile(5)?;
    /// println!("{profile}"); // a table: time, bytes, operations, rates and distance to the floor
    /// assert_eq!(profile.cost(), trainer.program().cost());
    /// assert_eq!(trainer.position()?, 12);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device fault; not enough memory for what the device's rates are measured on.
    pub fn profile(&mut self, runs: usize) -> Result<Profile, Error> {
        self.step.profile(&mut self.state, runs)
    }

    /// Steps done.
    ///
    /// # Errors
    /// A device fault; an index out of range that a kernel flagged.
    pub fn position(&mut self) -> Result<usize, Error> {
        self.state.read_into(TRAIN_CURSOR, &mut self.cursor)?;
        Ok(usize::try_from(self.cursor[cursor::STEP]).unwrap_or(0))
    }

    /// Runs so many steps, or those that are left of the run; what they report.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// assert_eq!(trainer.advance(4)?.len(), 4);
    /// assert_eq!(trainer.advance(4)?.len(), 2); // three epochs of two batches
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Trainer::run`].
    pub fn advance(&mut self, count: usize) -> Result<Vec<StepRecord>, Error> {
        let mut done = self.position()?;
        let end = done.saturating_add(count).min(self.steps);
        let mut all = Vec::new();
        while done < end {
            for _ in done..end.min(done + RING) {
                self.step()?;
            }
            all.extend(self.since(done)?);
            done = self.position()?;
        }
        Ok(all)
    }

    /// What the steps after number `done` report, of those that were run since: none, if the first of them is to be repeated with a
    /// smaller loss scale.
    ///
    /// # Errors
    /// [`Error::NonFinite`] with the name of the first value that is not finite, if no step went through because of one; a device
    /// fault.
    pub fn since(&mut self, done: usize) -> Result<Vec<StepRecord>, Error> {
        if self.position()? == done && !self.scales_down()? {
            self.step.find_non_finite(&mut self.state)?;
        }
        let now = self.position()?;
        self.records(done + 1, now)
    }

    /// Reports of the steps numbered `from..=to`, of those that have run; the last [`RING`] are kept.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// trainer.step()?;
    /// trainer.step()?;
    /// let records = trainer.records(1, 2)?;
    /// assert!(records[1].loss < records[0].loss && records[0].grad_norm > 0.0);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device fault.
    pub fn records(&mut self, from: usize, to: usize) -> Result<Vec<StepRecord>, Error> {
        let done = self.position()?;
        self.state.read_into(STEP_RING, &mut self.ring)?;
        Ok(records(&self.ring, from..=to, done))
    }

    /// Runs the steps that are left and calls `each` after every epoch, and at the end: it may read, predict, write a file, and
    /// end the run with [`ControlFlow::Break`].
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// use std::ops::ControlFlow;
    /// trainer.run(|_, epoch| {
    ///     println!("epoch {}: loss {:.3}", epoch.number, epoch.loss());
    ///     Ok::<_, Error>(if epoch.number == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    /// })?;
    /// assert_eq!(trainer.position()?, 4); // two epochs of two batches
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NonFinite`] with the name of the first value that is not finite, if a step makes no progress because of one; a
    /// device fault; what `each` returns.
    pub fn run<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &Epoch) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut done = self.position()?;
        while done < self.steps {
            let number = done / self.steps_per_epoch + 1;
            let end = (number * self.steps_per_epoch).min(self.steps);
            let epoch = Epoch { number, steps: self.advance(end - done)? };
            done = end;
            if each(self, &epoch)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs the steps that are left, and gives every epoch: [`Trainer::run`] of a training that nothing looks at meanwhile.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// let epochs = trainer.fit()?;
    /// assert_eq!(epochs.len(), 3);
    /// assert!(epochs[2].loss() < epochs[0].loss());
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Trainer::run`].
    pub fn fit(&mut self) -> Result<Vec<Epoch>, Error> {
        let mut all = Vec::new();
        self.run(|_, epoch| {
            all.push(epoch.clone());
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Whether a step that overflows is repeated with a smaller loss scale: in f16, as long as there is one above 1.
    fn scales_down(&self) -> Result<bool, Error> {
        Ok(self.options.dtype == DType::F16 && self.state.read::<f32>(LOSS_SCALE)?[0] >= 1.0)
    }

    /// The values of a parameter, or of its average.
    ///
    /// # Errors
    /// [`Error::NoEntry`] if there is no such parameter; an average where none is kept; a device fault.
    #[track_caller]
    pub fn parameter(&self, name: &str, weights: Weights) -> Result<HostTensor, Error> {
        match weights {
            Weights::Last => self.state.read_host(name),
            Weights::Average => {
                self.averages("parameter", Location::caller())?;
                self.state.read_host(&AVERAGE.entry(name))
            }
        }
    }

    /// Refuses to read an average of the weights where none is kept.
    pub(super) fn averages(&self, of: &'static str, at: &'static Location<'static>) -> Result<(), Error> {
        let rule = Rule::Missing {
            name: "an average of the weights",
            takes: "which is kept if the option average asks for one",
        };
        self.options.average.map(|_| ()).ok_or_else(|| rule.of(of, &[], None, Some(at)).into())
    }

    /// What the loss kept of the last step by this name ([`Context::keep`]).
    ///
    /// # Errors
    /// [`Error::NoBinding`] with the names that were kept; [`Error::NotRun`] before the first step; a device fault.
    pub fn kept(&self, name: &str) -> Result<HostTensor, Error> {
        self.step.read_host(name).map_err(|error| {
            let Error::NoBinding { name, known, .. } = error else { return error };
            Error::NoBinding { kind: "kept value", name, known }
        })
    }

    /// What the ranks share out of that which is kept for every trainable element.
    pub(crate) fn shared(&self) -> &'static [Moment] {
        if self.options.shard_optimizer && !self.engine.world().is_single() { self.moments } else { &[] }
    }

    /// What is kept of each trainable parameter, in the order of their slab. Where ranks share it out all must call this, and each
    /// gets all of it.
    pub(crate) fn read_kept(&self, moment: &Moment) -> Result<Vec<HostTensor>, Error> {
        read_kept(&self.state, self.shards()?.as_ref(), self.engine.world(), moment)
    }

    /// Writes what is kept of each trainable parameter, in their order: of what ranks share out this one's part.
    pub(crate) fn write_kept(&mut self, moment: &Moment, values: &[HostTensor]) -> Result<(), Error> {
        let shards = self.shards()?;
        write_kept(&mut self.state, shards.as_ref(), moment, values)
    }

    fn shards(&self) -> Result<Option<Shards>, Error> {
        Shards::of_state(&self.state, &self.options, Ranks::of(self.engine.world(), self.options.rank_order))
    }

    /// Takes this rank's part of the batches, wherever the cursor was written.
    pub(crate) fn take_part(&mut self) -> Result<(), Error> {
        self.state.read_into(TRAIN_CURSOR, &mut self.cursor)?;
        self.cursor[cursor::MICRO] = (self.engine.world().rank() * self.options.accumulate) as i64;
        self.state.write(TRAIN_CURSOR, &self.cursor)
    }
}
