//! A session: state, and the programs that train, evaluate and predict on it.

use super::evaluation::{ClassScore, Evaluation, QuantileScore};
use super::fill::fill;
use super::layout::Layout;
use super::minimiser::kept;
use super::names::{
    CONTEXT, EVALUATION_CURSOR, KNOWN, LOSS_SCALE, Moment, PREDICTION, STEP_RING, TRAIN_CURSOR,
};
use super::ranks::Ranks;
use super::scores::{ABSOLUTE, CORRECT, COVERED, CROSS_ENTROPY, NLL, PINBALL, SQUARED, sums};
use super::shards::{Shards, read_kept, write_kept};
use super::steps::{Outputs, Programs, Shapes, predict_graph, prediction};
use super::update::RING;
use super::{Dataset, Loss, LossFunction, Span, TrainingOptions};
use crate::data::Segment;
use crate::models::{Inputs, Model};
use crate::nn::Parameters;
use landfall::ops::cursor;
use landfall::profile::Profile;
use landfall::tune::{Cache, Tuned, tune};
use landfall::{DType, Engine, Error, Graph, HostTensor, Program, ProgramSet, Spec, State, Value};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Values of predictions that are in memory at once, of windows that are put together of their columns.
const PREDICTIONS: usize = 1 << 24;

/// What one step reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRecord {
    /// Number of the step, from 1.
    pub step: usize,
    /// Loss of its batch, before its update.
    pub loss: f64,
    /// Global L2 norm of the gradients of the trainable parameters, before clipping.
    pub grad_norm: f64,
    /// Learning rate of its update.
    pub lr: f64,
}

/// Model, data and optimizer on a device.
///
/// ```
/// use landfall::Engine;
/// use landfall_train::data::{Segment, Split, synthetic};
/// use landfall_train::models::{DLinear, DLinearConfig};
/// use landfall_train::train::{Dataset, Session, TrainingOptions};
///
/// let series = synthetic::demo(400, 2, 7)?; // 400 hours, 2 columns
/// let (dataset, _) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 24, 6)?;
/// let model = DLinear::new(DLinearConfig { context: 24, horizon: 6, kernel: 5, outputs: 1 })?;
/// let options = TrainingOptions { lr: 0.01, ..TrainingOptions::default() };
/// let mut session = Session::new(&Engine::cpu()?, Box::new(model), &dataset, 24, 6, options)?;
/// let before = session.evaluate(Segment::Validation)?.errors().0;
/// for _ in 0..3 * session.steps_per_epoch() {
///     session.step()?;
/// }
/// let after = session.evaluate(Segment::Validation)?.errors().0;
/// assert!(after < before, "{after} {before}");
/// let forecast = session.predict(&[0.0; 2 * 24])?; // scaled, [channels, horizon]
/// assert_eq!(forecast.len(), 2 * 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    /// The engine that runs it.
    pub engine: Engine,
    /// Parameters, moments, statistics, counters and data.
    pub state: State,
    model: Box<dyn Model>,
    options: TrainingOptions,
    spans: [Span; 3],
    windows_of_series: [Vec<usize>; 3],
    outputs: Outputs,
    window: Shapes,
    /// Windows of a micro-batch, which an evaluation takes at once.
    part: usize,
    steps_per_epoch: usize,
    /// Columns of a window of which each is one here ([`Dataset::by_column`]).
    folded: usize,
    programs: Programs,
    /// The first step that may have run here, from 1.
    first: usize,
    ring: Vec<f64>,
    cursor: Vec<i64>,
}

impl Session {
    /// Lays out the state, builds and compiles the programs, writes data and initial values.
    ///
    /// # Errors
    /// A model that does not fit the data, a parameter without a gradient, not enough memory.
    #[track_caller]
    pub fn new(
        engine: &Engine,
        model: Box<dyn Model>,
        dataset: &Dataset,
        context: usize,
        horizon: usize,
        options: TrainingOptions,
    ) -> Result<Self, Error> {
        let loss = options.loss.clone();
        Self::with_loss(engine, model, dataset, context, horizon, options, &|g, prediction, target| {
            loss.of(g, prediction, target)
        })
    }

    /// As [`Session::new`], with a loss of your own in place of the options'.
    ///
    /// # Errors
    /// As [`Session::new`]; a loss that is no scalar.
    #[track_caller]
    pub fn with_loss(
        engine: &Engine,
        model: Box<dyn Model>,
        dataset: &Dataset,
        context: usize,
        horizon: usize,
        options: TrainingOptions,
        loss: &LossFunction<'_>,
    ) -> Result<Self, Error> {
        has_room(engine, model.parameters())?;
        let layout = Layout::new(dataset, context, horizon, &options, engine.world())?;
        let drawn = layout.drawn(model.parameters())?;
        let mut state = State::new(engine, &Arc::new(layout.state(model.parameters())?))?;
        let programs = Programs::compile(engine, &state, &layout, model.as_ref(), loss)?;
        fill(&mut state, &layout, model.parameters(), drawn)?;
        let (batch, part, steps_per_epoch) = (layout.batch, layout.sizes().batch, layout.steps_per_epoch);
        let (outputs, window) = (Outputs::of(&layout.sizes()), Shapes::of(&layout.sizes()));
        Ok(Self {
            engine: engine.clone(),
            state,
            model,
            options: TrainingOptions { batch, ..options },
            spans: Segment::ALL.map(|segment| dataset.span(segment)),
            windows_of_series: Segment::ALL.map(|segment| dataset.windows_of_series(segment)),
            outputs,
            window,
            part,
            steps_per_epoch,
            folded: dataset.folded,
            programs,
            first: 1,
            ring: Vec::new(),
            cursor: Vec::new(),
        })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &dyn Model {
        self.model.as_ref()
    }

    /// The options, with the batch that is really used.
    #[must_use]
    pub fn options(&self) -> &TrainingOptions {
        &self.options
    }

    /// What a checkpoint to resume from holds for every trainable element beside the parameters.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &'static Moment> + use<> {
        kept(self.options.optimizer.of(&self.options).as_ref(), self.options.average)
    }

    /// Whether ranks share out the optimizer's state: then [`checkpoint::save`](crate::checkpoint::save) of all that a resumed run
    /// needs is a call that all make together.
    #[must_use]
    pub fn shares_state(&self) -> bool {
        self.options.shard_optimizer && !self.engine.world().is_single()
    }

    /// What is kept of each trainable parameter, in the order of their slab. Where ranks share it out all must call
    /// this, and each gets all of it.
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

    /// Steps of one epoch: whole batches only.
    #[must_use]
    pub fn steps_per_epoch(&self) -> usize {
        self.steps_per_epoch
    }

    /// Whether it trains on windows of one column each ([`Dataset::by_column`]).
    #[must_use]
    pub fn is_by_column(&self) -> bool {
        self.folded > 1
    }

    /// Columns that are known in advance.
    #[must_use]
    pub fn known(&self) -> usize {
        self.window.known
    }

    /// Whether validation and test have windows of their own.
    #[must_use]
    pub fn holds_out(&self) -> bool {
        self.spans[1] != self.spans[0]
    }

    /// Windows of a segment.
    #[must_use]
    pub fn windows(&self, segment: Segment) -> usize {
        self.spans[place(segment)].count / self.folded
    }

    /// The programs: train, evaluate, predict.
    #[must_use]
    pub fn programs(&self) -> [&Program; 3] {
        [&self.programs.train, &self.programs.evaluate, &self.programs.predict]
    }

    /// Runs one training step. Nothing is read back and nothing is allocated.
    ///
    /// # Errors
    /// A device fault.
    pub fn step(&mut self) -> Result<(), Error> {
        self.programs.train.run(&mut self.state)
    }

    /// Runs one training step by issuing each instruction as an eager call is: the bytes of [`Session::step`].
    ///
    /// # Errors
    /// A device fault.
    pub fn issue(&mut self) -> Result<(), Error> {
        self.programs.train.issue(&mut self.state)
    }

    /// Where the time of a training step goes: medians of `runs` steps ([`Program::profile`]). It takes `2·(runs + 1)` steps.
    ///
    /// # Errors
    /// A device fault; not enough memory for what the device's rates are measured on.
    pub fn profile(&mut self, runs: usize) -> Result<Profile, Error> {
        self.programs.train.profile(&mut self.state, runs)
    }

    /// Finds the fastest kernels for the instructions of its programs, which give up their memory first: the choices are for
    /// a new session. Earlier results are kept for the user and used again, unless `again`.
    ///
    /// # Errors
    /// A device fault; not enough memory for the instructions' operands.
    pub fn tune(self, again: bool) -> Result<Tuned, Error> {
        let engine = self.engine.clone();
        let cases: Vec<_> = self.programs().iter().flat_map(|p| p.tuning_cases()).collect();
        drop(self);
        tune(&engine, &cases, Cache::of_user().as_ref(), again)
    }

    /// Steps done, and the epoch (from 0) and batch that come next.
    ///
    /// # Errors
    /// A device fault; an index out of range that a kernel flagged.
    pub fn position(&mut self) -> Result<(usize, usize, usize), Error> {
        self.state.read_into(TRAIN_CURSOR, &mut self.cursor)?;
        let at = |i: usize| usize::try_from(self.cursor[i]).unwrap_or(0);
        Ok((at(cursor::STEP), at(cursor::EPOCH), at(cursor::BATCH)))
    }

    /// Moves to a step, epoch and batch (a resumed run).
    ///
    /// # Errors
    /// A device fault.
    pub fn seek(&mut self, step: usize, epoch: usize, batch: usize) -> Result<(), Error> {
        self.state.read_into(TRAIN_CURSOR, &mut self.cursor)?;
        self.cursor[cursor::STEP] = step as i64;
        self.cursor[cursor::EPOCH] = epoch as i64;
        self.cursor[cursor::BATCH] = batch as i64;
        self.first = step + 1;
        self.state.write(TRAIN_CURSOR, &self.cursor)
    }

    /// Reports of the steps numbered `from..=to`, of those that have run here since the last [`Session::seek`]; the last [`RING`] are
    /// kept.
    ///
    /// # Errors
    /// A device fault.
    pub fn records(&mut self, from: usize, to: usize) -> Result<Vec<StepRecord>, Error> {
        let done = self.position()?.0;
        self.state.read_into(STEP_RING, &mut self.ring)?;
        Ok(records(&self.ring, from.max(self.first)..=to.min(done), done))
    }

    /// What the step after the last one that went through reported when it was tried.
    ///
    /// # Errors
    /// A device fault.
    pub fn failed(&mut self) -> Result<StepRecord, Error> {
        let step = self.position()?.0 + 1;
        self.state.read_into(STEP_RING, &mut self.ring)?;
        Ok(record(&self.ring, step))
    }

    /// The factor of the loss in f16, and the sound steps since it changed; `None` for the dtypes that need none. A step
    /// whose gradients overflow changes nothing but this: the next one repeats it, with half the factor. Below 1, a step
    /// has overflowed without any scaling.
    ///
    /// # Errors
    /// A device fault.
    pub fn loss_scale(&self) -> Result<Option<[f32; 2]>, Error> {
        if self.options.dtype != DType::F16 {
            return Ok(None);
        }
        Ok(self.state.read::<f32>(LOSS_SCALE)?.try_into().ok())
    }

    /// Runs the step that did not go through again, instruction by instruction, and says what became non-finite first.
    ///
    /// # Errors
    /// [`Error::NonFinite`] with its name; a device fault.
    pub fn explain_non_finite(&mut self) -> Result<(), Error> {
        self.programs.train.find_non_finite(&mut self.state)
    }

    /// Errors over all windows of a segment, and over its whole batches.
    ///
    /// # Errors
    /// A device fault.
    pub fn evaluate(&mut self, segment: Segment) -> Result<Evaluation, Error> {
        let which = place(segment);
        let (span, series) = (self.spans[which], self.windows_of_series[which].clone());
        self.rewind(span)?;
        let zeros = vec![0.0f64; series.len() * self.outputs.targets];
        for name in sums(&self.options.loss) {
            self.state.write(name, &zeros)?;
        }
        let whole = span.count / self.options.batch * self.options.batch;
        let each = self.part;
        let mut drop_last = (zeros.clone(), zeros);
        for seen in (each..).step_by(each).take(span.count.div_ceil(each)) {
            self.programs.evaluate.run(&mut self.state)?;
            if seen == whole {
                drop_last = (self.state.read(SQUARED)?, self.state.read(ABSOLUTE)?);
            }
        }
        let tokens = (span.count * self.outputs.targets).max(1) as f64;
        let mean = |name: &str, n: f64| Ok::<_, Error>(self.state.read::<f64>(name)?.iter().sum::<f64>() / n);
        let values = tokens * self.outputs.horizon as f64;
        let quantiles = match &self.options.loss {
            Loss::Quantile(levels) => Some(QuantileScore {
                pinball: mean(PINBALL, values)?,
                coverage: mean(COVERED, values)?,
                nominal: levels.last().zip(levels.first()).map_or(0.0, |(high, low)| high - low),
            }),
            Loss::Distribution(..) | Loss::CrossEntropy | Loss::Mse | Loss::Mae | Loss::Huber(_) => None,
        };
        let nll = match self.options.loss {
            Loss::Distribution(..) => Some(mean(NLL, values)?),
            Loss::Quantile(_) | Loss::CrossEntropy | Loss::Mse | Loss::Mae | Loss::Huber(_) => None,
        };
        let classes = match self.options.loss {
            Loss::CrossEntropy => Some(ClassScore {
                cross_entropy: mean(CROSS_ENTROPY, tokens)?,
                accuracy: mean(CORRECT, tokens)?,
            }),
            Loss::Mse | Loss::Mae | Loss::Huber(_) | Loss::Quantile(_) | Loss::Distribution(..) => None,
        };
        Ok(Evaluation {
            quantiles,
            nll,
            classes,
            windows: span.count,
            windows_drop_last: whole,
            series,
            squared: self.state.read(SQUARED)?,
            absolute: self.state.read(ABSOLUTE)?,
            squared_drop_last: drop_last.0,
            absolute_drop_last: drop_last.1,
            targets: self.outputs.targets,
            horizon: self.outputs.horizon,
        }
        .unfolded(self.folded))
    }

    /// The sums of a segment before any window is added.
    #[must_use]
    pub fn empty_evaluation(&self, segment: Segment) -> Evaluation {
        let (span, series) = (self.spans[place(segment)], self.windows_of_series[place(segment)].clone());
        let zeros = vec![0.0; series.len() * self.outputs.targets];
        Evaluation {
            quantiles: None,
            nll: None,
            classes: None,
            windows: span.count,
            windows_drop_last: span.count / self.options.batch * self.options.batch,
            series,
            squared: zeros.clone(),
            absolute: zeros.clone(),
            squared_drop_last: zeros.clone(),
            absolute_drop_last: zeros,
            targets: self.outputs.targets,
            horizon: self.outputs.horizon,
        }
        .unfolded(self.folded)
    }

    /// Predicts from one scaled context `[C, L]`: `[targets, Q, H]`, scaled, with Q = 1 unless the loss has quantile
    /// levels; of a sample `[S, F]` the probabilities of the classes, `[S, K]`. Of several levels the predictions are sorted at each row: independently trained levels may cross.
    ///
    /// # Errors
    /// [`Error::HostData`] when the context has another number of values; a device fault.
    pub fn predict(&mut self, context: &[f64]) -> Result<Vec<f64>, Error> {
        self.predict_with(context, &[])
    }

    /// As [`Session::predict`], with the columns known in advance `[K, L + H]`, scaled.
    ///
    /// # Errors
    /// [`Error::HostData`] when context or known columns have another number of values; a device fault.
    pub fn predict_with(&mut self, context: &[f64], known: &[f64]) -> Result<Vec<f64>, Error> {
        self.write_input(CONTEXT, context)?;
        if self.window.known > 0 {
            self.write_input(KNOWN, known)?;
        }
        self.programs.predict.run(&mut self.state)?;
        let all = self.programs.predict.read_host(PREDICTION)?.data;
        Ok(self.options.loss.forecasts(all, self.outputs.horizon))
    }

    /// Writes an input of the prediction in its dtype.
    fn write_input(&mut self, name: &str, values: &[f64]) -> Result<(), Error> {
        if self.options.dtype == DType::F64 {
            return self.programs.predict.write(name, values);
        }
        self.programs.predict.write(name, &values.iter().map(|&x| x as f32).collect::<Vec<f32>>())
    }

    /// Adds what the session predicts to a graph: of scaled windows `[B, C, L]`, of any batch, and columns known in advance
    /// `[B, K, L + H]`, where the model reads some, `[B, targets, Q, H]`, Q the values that it predicts for a row; of samples
    /// `[B, S, F]` the probabilities of their classes, `[B, S, 1, K]`. The graph's state must have the model's entries.
    ///
    /// # Errors
    /// As the ops that the model adds.
    pub fn prediction(&self, g: &Graph, x: Value, known: Option<Value>) -> Result<Value, Error> {
        prediction(g, self.model.as_ref(), &Inputs { x, known }, self.outputs)
    }

    /// Programs that predict these numbers of windows at once, in the memory of the largest.
    pub(super) fn batch_programs(&self, sizes: &[usize]) -> Result<Vec<Program>, Error> {
        let mut set = ProgramSet::new(&self.engine, &self.state);
        for &size in sizes {
            let (spec, window) = (self.state.spec(), self.window);
            let graph =
                predict_graph(spec, self.model.as_ref(), (size, window), self.outputs, &self.options)?;
            set.add(&format!("predict {size}"), &graph)?;
        }
        set.build()
    }

    /// Values of a window, and of its columns known in advance.
    pub(super) fn window_elements(&self) -> (usize, usize) {
        let Shapes { channels, known, context } = self.window;
        (channels * context, known * (context + self.outputs.horizon))
    }

    /// The spec of so many values of windows.
    pub(super) fn window_spec(&self, elements: usize) -> Spec {
        Spec::new(self.options.dtype.accumulate(), [elements])
    }

    /// Rows that it predicts.
    pub(super) fn horizon(&self) -> usize {
        self.outputs.horizon
    }

    /// Predicts every window of a segment, in order: `each` gets the number of windows before these, and the predictions
    /// `[n, targets, Q, H]` of the next n, as [`Session::predict`] gives them for one.
    ///
    /// # Errors
    /// A device fault; what `each` returns.
    pub fn predict_all<E: From<Error>>(
        &mut self,
        segment: Segment,
        mut each: impl FnMut(usize, &[f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Span { base, count } = self.spans[place(segment)];
        let (columns, window) = (self.folded, self.options.loss.outputs() * self.outputs.horizon);
        let windows = count / columns;
        if columns == 1 {
            return self.predict_span(Span { base, count }, |_, first, all| each(first, all));
        }
        // Windows of one column each, which are put together again: all at once, or so many that they fit into memory.
        let some = (PREDICTIONS / (columns * window).max(1)).max(self.part).min(windows.max(1));
        for first in (0..windows).step_by(some) {
            let here = (windows - first).min(some);
            let mut all = vec![0.0; here * columns * window];
            let spans: Vec<Span> = match here == windows {
                true => vec![Span { base, count }],
                false => {
                    (0..columns).map(|c| Span { base: base + c * windows + first, count: here }).collect()
                }
            };
            for (c, span) in spans.into_iter().enumerate() {
                self.predict_span(span, |size, from, predicted| {
                    for (i, values) in predicted.chunks_exact(size).enumerate() {
                        let (column, at) = (c + (from + i) / here, (from + i) % here);
                        all[(at * columns + column) * size..][..size].copy_from_slice(values);
                    }
                    Ok::<(), E>(())
                })?;
            }
            each(first, &all)?;
        }
        Ok(())
    }

    /// Predicts the windows of a span, in order: `each` gets the number of values of a window, the number of windows before
    /// these, and the predictions of the next ones.
    fn predict_span<E: From<Error>>(
        &mut self,
        span: Span,
        mut each: impl FnMut(usize, usize, &[f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rewind(span)?;
        let batch = self.part;
        let window = self.outputs.targets * self.outputs.levels * self.outputs.horizon;
        for first in (0..span.count).step_by(batch) {
            self.programs.evaluate.run(&mut self.state)?;
            let mut all = self.programs.evaluate.read_host(PREDICTION)?.data;
            // Rows past the last window repeat it.
            all.truncate((span.count - first).min(batch) * window);
            let forecasts = self.options.loss.forecasts(all, self.outputs.horizon);
            let size = forecasts.len() / (span.count - first).min(batch).max(1);
            each(size, first, &forecasts)?;
        }
        Ok(())
    }

    /// Puts the evaluation at the first of these windows.
    fn rewind(&mut self, span: Span) -> Result<(), Error> {
        let mut start = [0i64; cursor::LEN];
        start[cursor::BASE] = span.base as i64;
        start[cursor::WINDOWS] = span.count as i64;
        self.state.write(EVALUATION_CURSOR, &start)
    }
}

/// The reports of these steps in the ring, which has those of the last steps up to `done`.
pub(super) fn records(ring: &[f64], steps: RangeInclusive<usize>, done: usize) -> Vec<StepRecord> {
    let first = (done + 1).saturating_sub(RING).max(1);
    (first.max(*steps.start())..=done.min(*steps.end())).map(|step| record(ring, step)).collect()
}

/// The ring's row of a step.
fn record(ring: &[f64], step: usize) -> StepRecord {
    let row = &ring[(step - 1) % RING * 3..][..3];
    StepRecord { step, loss: row[0], grad_norm: row[1], lr: row[2] }
}

/// Where a session keeps what it knows of a segment.
const fn place(segment: Segment) -> usize {
    match segment {
        Segment::Train => 0,
        Segment::Validation => 1,
        Segment::Test => 2,
    }
}

/// Whether the largest parameter has room here while its first values are made, in double precision: a size that is mistyped is
/// refused, and ends no process.
fn has_room(engine: &Engine, parameters: &Parameters) -> Result<(), Error> {
    let elements = parameters.list().iter().map(|p| p.shape.elements()).max().unwrap_or(0);
    let bytes = elements.saturating_mul(size_of::<f64>());
    if Vec::<u8>::new().try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    let in_use = usize::try_from(engine.counters().bytes_in_use).unwrap_or(usize::MAX);
    Err(Error::Memory { bytes, device: engine.device(), in_use })
}
