//! A session: state, and the programs that train, evaluate and predict on it.

use super::draws::Twister;
use super::optimizer::{self, LOSS_SCALE};
use super::scores::{ABSOLUTE, CLASSES, CORRECT, COVERED, CROSS_ENTROPY, PINBALL, SQUARED, sums};
use super::steps::{
    EVALUATION_CURSOR, ORDER, PREDICTION, Sizes, TRAIN_CURSOR, evaluate_graph, predict_graph, train_graph,
};
use super::{Dataset, Draws, Loss, Order, Target, TrainingOptions};
use crate::data::Segment;
use crate::models::Model;
use landfall::ops::cursor;
use landfall::{
    DType, Element, Engine, Error, Graph, Program, ProgramSet, Rule, Shape, State, StateSpec, Value, ops,
};
use std::panic::Location;
use std::sync::Arc;

/// Steps whose losses the device keeps until the host reads them.
pub const RING: usize = 1024;

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

/// Sums over the windows of a segment, for each series and target channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Windows seen.
    pub windows: usize,
    /// Windows of whole batches.
    pub windows_drop_last: usize,
    /// Windows of each series.
    pub series: Vec<usize>,
    /// Sum of squared errors `[series, targets]`, all windows.
    pub squared: Vec<f64>,
    /// Sum of absolute errors `[series, targets]`, all windows.
    pub absolute: Vec<f64>,
    /// The same over whole batches only.
    pub squared_drop_last: Vec<f64>,
    /// The same over whole batches only.
    pub absolute_drop_last: Vec<f64>,
    /// Number of target channels.
    pub targets: usize,
    /// Values of each target channel in one window.
    pub horizon: usize,
    /// What a forecast of quantiles is scored by besides, where the loss is one.
    pub quantiles: Option<QuantileScore>,
    /// What a prediction of classes is scored by besides; the errors above are those of its probabilities.
    pub classes: Option<ClassScore>,
}

/// Scores of a prediction of classes, over all tokens of all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassScore {
    /// Mean negative logarithm of the class's probability, in nats.
    pub cross_entropy: f64,
    /// Share of the tokens whose class has the largest probability.
    pub accuracy: f64,
}

/// Scores of a forecast of quantiles, over all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileScore {
    /// Mean quantile loss over the levels, scaled.
    pub pinball: f64,
    /// Share of the values between the lowest and the highest level's prediction.
    pub coverage: f64,
    /// The share that there should be: the highest level less the lowest.
    pub nominal: f64,
}

impl Evaluation {
    /// Mean squared and mean absolute error over all windows.
    #[must_use]
    pub fn errors(&self) -> (f64, f64) {
        self.means(&self.squared, &self.absolute, self.windows)
    }

    /// Mean squared and mean absolute error over whole batches; `None` when there is none.
    #[must_use]
    pub fn errors_drop_last(&self) -> Option<(f64, f64)> {
        let n = self.windows_drop_last;
        (n > 0).then(|| self.means(&self.squared_drop_last, &self.absolute_drop_last, n))
    }

    /// Mean squared and mean absolute error of one series, over all its windows.
    #[must_use]
    pub fn errors_of(&self, series: usize) -> (f64, f64) {
        let sums = |all: &'_ [f64]| all.chunks_exact(self.targets).nth(series).unwrap_or_default().to_vec();
        let windows = self.series.get(series).copied().unwrap_or(0);
        self.means(&sums(&self.squared), &sums(&self.absolute), windows)
    }

    /// Adds window `number` of the segment, of this series: per target the sums of its squared and absolute errors.
    pub fn add_window(&mut self, number: usize, series: usize, squared: &[f64], absolute: &[f64]) {
        let at = series * self.targets;
        let mut sums = vec![(&mut self.squared, squared), (&mut self.absolute, absolute)];
        if number < self.windows_drop_last {
            sums.push((&mut self.squared_drop_last, squared));
            sums.push((&mut self.absolute_drop_last, absolute));
        }
        for (sums, errors) in sums {
            sums[at..].iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
        }
    }

    fn means(&self, squared: &[f64], absolute: &[f64], windows: usize) -> (f64, f64) {
        let n = (windows * self.horizon * self.targets).max(1) as f64;
        (squared.iter().sum::<f64>() / n, absolute.iter().sum::<f64>() / n)
    }
}

/// Model, data and optimizer on a device.
pub struct Session {
    /// The engine that runs it.
    pub engine: Engine,
    /// Parameters, moments, statistics, counters and data.
    pub state: State,
    model: Box<dyn Model>,
    options: TrainingOptions,
    spans: [super::dataset::Span; 3],
    windows_of_series: [Vec<usize>; 3],
    targets: usize,
    horizon: usize,
    steps_per_epoch: usize,
    train: Program,
    evaluate: Program,
    predict: Program,
    ring: Vec<f64>,
    cursor: Vec<i64>,
}

/// A loss of a batch: prediction `[B, C, H]` and target of that shape in, a scalar out.
pub type LossFunction<'a> = dyn Fn(&Graph, Value, Value) -> Result<Value, Error> + 'a;

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
        let training = dataset.span(Segment::Train);
        // Fewer windows than a batch make one smaller batch.
        let batch = options.batch.min(training.count).max(1);
        let steps_per_epoch = (training.count / batch).max(1);
        let steps = options.max_steps.unwrap_or(options.epochs.saturating_mul(steps_per_epoch)).max(1);
        if options.accumulate == 0 || !batch.is_multiple_of(options.accumulate) {
            let value = options.accumulate as f64;
            let rule = Rule::Attribute { name: "accumulate", value, expected: "a divisor of the batch" };
            return Err(rule.of("session", &[], None, Some(Location::caller())).into());
        }
        let order = match (options.order, options.draws) {
            (Order::Sequential, _) => ops::Order::Sequential,
            (Order::Shuffle, Draws::Philox) => ops::Order::Shuffled,
            (Order::Shuffle, Draws::PyTorch) => ops::Order::Listed,
        };
        let epochs = steps.div_ceil(steps_per_epoch);
        let drawn = match options.draws {
            Draws::Philox => None,
            Draws::PyTorch => {
                // Within a closure, the caller is this file.
                let at = Location::caller();
                let told = |rule: Rule| rule.of("session", &[], None, Some(at));
                let mut twister = Twister::new(options.seed);
                let values = twister.values(model.parameters()).map_err(told)?;
                let listed = if order == ops::Order::Listed { epochs } else { 0 };
                Some((values, twister.orders(training.count, listed).map_err(told)?))
            }
        };
        let sizes = Sizes {
            batch: batch / options.accumulate,
            channels: dataset.channels,
            context,
            horizon,
            stride: dataset.stride,
            targets: dataset.targets(),
            target: &dataset.target,
            loss: &options.loss,
        };
        let dtype = options.dtype.accumulate();
        let mut spec = StateSpec::new();
        optimizer::add_slabs(&mut spec, model.parameters(), &options)?;
        let scalar = |name: &str, shape: Shape| (name.to_owned(), shape);
        spec.add(
            "cursors",
            DType::I64,
            &[scalar(TRAIN_CURSOR, [cursor::LEN].into()), scalar(EVALUATION_CURSOR, [cursor::LEN].into())],
        )?;
        let sums = sums(sizes.loss)
            .map(|name| scalar(name, [dataset.series, sizes.targets].into()))
            .collect::<Vec<_>>();
        spec.add("sums", DType::F64, &sums)?;
        spec.add("reports", DType::F64, &[scalar("ring", [RING, 3].into())])?;
        let mut data = vec![scalar("data.values", [dataset.channels, dataset.rows].into())];
        if let Target::Labels(labels) = &dataset.target {
            data.push(scalar("data.labels", [1, labels.len()].into()));
        }
        spec.add_constant("data", dtype, &data)?;
        if let Target::Classes { labels, classes } = &dataset.target {
            let samples = labels.len() / dataset.channels.max(1);
            let labels = scalar("data.labels", [dataset.channels, samples].into());
            spec.add_constant("classes", DType::I64, &[labels, scalar(CLASSES, [*classes].into())])?;
        }
        let windows = scalar("data.windows", [dataset.stretches.len(), 3].into());
        spec.add_constant("windows", DType::I64, &[windows])?;
        if order == ops::Order::Listed {
            spec.add_constant("order", DType::I64, &[scalar(ORDER, [epochs, training.count].into())])?;
        }
        spec.add_constant("schedule", DType::F64, &[scalar("schedule.lr", [steps].into())])?;
        let spec = Arc::new(spec);
        let mut state = State::new(engine, &spec)?;

        let mut set = ProgramSet::new(engine, &state);
        set.add(
            "train",
            &train_graph(&spec, model.as_ref(), &sizes, order, steps_per_epoch, &options, loss)?,
        )?;
        set.add("evaluate", &evaluate_graph(&spec, model.as_ref(), &sizes, &options)?)?;
        set.add("predict", &predict_graph(&spec, model.as_ref(), &sizes, &options)?)?;
        let mut programs = set.build()?.into_iter();
        let (Some(train), Some(evaluate), Some(predict)) =
            (programs.next(), programs.next(), programs.next())
        else {
            unreachable!("three graphs make three programs");
        };
        write_values(&mut state, "data.values", &dataset.values, dtype)?;
        match &dataset.target {
            Target::Future(_) => {}
            Target::Labels(labels) => write_values(&mut state, "data.labels", labels, dtype)?,
            Target::Classes { labels, classes } => {
                state.write("data.labels", labels)?;
                state.write(CLASSES, &(0..*classes as i64).collect::<Vec<i64>>())?;
            }
        }
        let row = |s: &super::Stretch| [s.first, s.start, s.series].map(|x| x as i64);
        state.write("data.windows", &dataset.stretches.iter().flat_map(row).collect::<Vec<i64>>())?;
        state.write("schedule.lr", &options.schedule.table(options.lr, steps, steps_per_epoch))?;
        match drawn {
            None => model.parameters().initialise(&mut state, options.seed)?,
            Some((values, orders)) => {
                model.parameters().begin_with(&mut state, values)?;
                if order == ops::Order::Listed {
                    state.write(ORDER, &orders)?;
                }
            }
        }
        if options.dtype == DType::F16 {
            state.write(LOSS_SCALE, &[ops::LossScale::INITIAL, 0.0])?;
        }
        let mut start = [0i64; cursor::LEN];
        start[cursor::SEED] = options.seed as i64;
        start[cursor::BASE] = training.base as i64;
        start[cursor::WINDOWS] = training.count as i64;
        state.write(TRAIN_CURSOR, &start)?;
        let spans = [Segment::Train, Segment::Validation, Segment::Test].map(|s| dataset.span(s));
        let windows_of_series =
            [Segment::Train, Segment::Validation, Segment::Test].map(|s| dataset.windows_of_series(s));
        let (targets, horizon) = (sizes.targets, sizes.horizon);
        let options = TrainingOptions { batch, ..options };
        Ok(Self {
            engine: engine.clone(),
            state,
            model,
            options,
            spans,
            windows_of_series,
            targets,
            horizon,
            steps_per_epoch,
            train,
            evaluate,
            predict,
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

    /// Steps of one epoch: whole batches only.
    #[must_use]
    pub fn steps_per_epoch(&self) -> usize {
        self.steps_per_epoch
    }

    /// Whether validation and test have windows of their own.
    #[must_use]
    pub fn holds_out(&self) -> bool {
        self.spans[1] != self.spans[0]
    }

    /// Windows of a segment.
    #[must_use]
    pub fn windows(&self, segment: Segment) -> usize {
        self.spans[place(segment)].count
    }

    /// The programs: train, evaluate, predict.
    #[must_use]
    pub fn programs(&self) -> [&Program; 3] {
        [&self.train, &self.evaluate, &self.predict]
    }

    /// Runs one training step. Nothing is read back and nothing is allocated.
    ///
    /// # Errors
    /// A device fault.
    pub fn step(&mut self) -> Result<(), Error> {
        self.train.run(&mut self.state)
    }

    /// Runs one training step by issuing each instruction as an eager call is: the bytes of [`Session::step`].
    ///
    /// # Errors
    /// A device fault.
    pub fn issue(&mut self) -> Result<(), Error> {
        self.train.issue(&mut self.state)
    }

    /// Runs one training step instruction by instruction, with the time of each.
    ///
    /// # Errors
    /// A device fault.
    pub fn profile(&mut self) -> Result<Vec<(String, std::time::Duration)>, Error> {
        self.train.profile(&mut self.state)
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
        self.state.write(TRAIN_CURSOR, &self.cursor)
    }

    /// Reports of the steps numbered `from..=to` (at most the last [`RING`] are kept).
    ///
    /// # Errors
    /// A device fault.
    pub fn records(&mut self, from: usize, to: usize) -> Result<Vec<StepRecord>, Error> {
        self.state.read_into("ring", &mut self.ring)?;
        let record = |step: usize| {
            let row = &self.ring[(step - 1) % RING * 3..][..3];
            StepRecord { step, loss: row[0], grad_norm: row[1], lr: row[2] }
        };
        Ok((from.max(1)..=to).map(record).collect())
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
        self.train.find_non_finite(&mut self.state)
    }

    /// Errors over all windows of a segment, and over its whole batches.
    ///
    /// # Errors
    /// A device fault.
    pub fn evaluate(&mut self, segment: Segment) -> Result<Evaluation, Error> {
        let which = place(segment);
        let (span, series) = (self.spans[which], self.windows_of_series[which].clone());
        self.rewind(span)?;
        let zeros = vec![0.0f64; series.len() * self.targets];
        for name in sums(&self.options.loss) {
            self.state.write(name, &zeros)?;
        }
        let whole = span.count / self.options.batch * self.options.batch;
        let each = self.options.batch / self.options.accumulate;
        let mut drop_last = (zeros.clone(), zeros);
        for seen in (each..).step_by(each).take(span.count.div_ceil(each)) {
            self.evaluate.run(&mut self.state)?;
            if seen == whole {
                drop_last = (self.state.read(SQUARED)?, self.state.read(ABSOLUTE)?);
            }
        }
        let tokens = (span.count * self.targets).max(1) as f64;
        let mean = |name: &str, n: f64| Ok::<_, Error>(self.state.read::<f64>(name)?.iter().sum::<f64>() / n);
        let quantiles = match self.options.loss.levels() {
            [] => None,
            levels => Some(QuantileScore {
                pinball: mean(PINBALL, tokens * self.horizon as f64)?,
                coverage: mean(COVERED, tokens * self.horizon as f64)?,
                nominal: levels[levels.len() - 1] - levels[0],
            }),
        };
        let classes = match self.options.loss {
            Loss::CrossEntropy => Some(ClassScore {
                cross_entropy: mean(CROSS_ENTROPY, tokens)?,
                accuracy: mean(CORRECT, tokens)?,
            }),
            Loss::Mse | Loss::Mae | Loss::Huber(_) | Loss::Quantile(_) => None,
        };
        Ok(Evaluation {
            quantiles,
            classes,
            windows: span.count,
            windows_drop_last: whole,
            series,
            squared: self.state.read(SQUARED)?,
            absolute: self.state.read(ABSOLUTE)?,
            squared_drop_last: drop_last.0,
            absolute_drop_last: drop_last.1,
            targets: self.targets,
            horizon: self.horizon,
        })
    }

    /// The sums of a segment before any window is added.
    #[must_use]
    pub fn empty_evaluation(&self, segment: Segment) -> Evaluation {
        let (span, series) = (self.spans[place(segment)], self.windows_of_series[place(segment)].clone());
        let zeros = vec![0.0; series.len() * self.targets];
        Evaluation {
            quantiles: None,
            classes: None,
            windows: span.count,
            windows_drop_last: span.count / self.options.batch * self.options.batch,
            series,
            squared: zeros.clone(),
            absolute: zeros.clone(),
            squared_drop_last: zeros.clone(),
            absolute_drop_last: zeros,
            targets: self.targets,
            horizon: self.horizon,
        }
    }

    /// Predicts from one scaled context `[C, L]`: `[targets, Q, H]`, scaled, with Q = 1 unless the loss has quantile
    /// levels; of a sample `[S, F]` the probabilities of the classes, `[S, K]`. Of several levels the predictions are sorted at each row: independently trained levels may cross.
    ///
    /// # Errors
    /// [`Error::HostData`] when the context has another number of values; a device fault.
    pub fn predict(&mut self, context: &[f64]) -> Result<Vec<f64>, Error> {
        if self.options.dtype == DType::F64 {
            self.predict.write("context", context)?;
        } else {
            self.predict.write("context", &context.iter().map(|&x| x as f32).collect::<Vec<f32>>())?;
        }
        self.predict.run(&mut self.state)?;
        let mut all = self.predict.read_host("prediction")?.data;
        sort_levels(&mut all, self.options.loss.outputs(), self.horizon);
        Ok(all)
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
        let span = self.spans[place(segment)];
        self.rewind(span)?;
        let batch = self.options.batch / self.options.accumulate;
        let levels = self.options.loss.outputs();
        let window = self.targets * levels * self.horizon;
        for first in (0..span.count).step_by(batch) {
            self.evaluate.run(&mut self.state)?;
            let mut all = self.evaluate.read_host(PREDICTION)?.data;
            // Rows past the last window repeat it.
            all.truncate((span.count - first).min(batch) * window);
            sort_levels(&mut all, levels, self.horizon);
            each(first, &all)?;
        }
        Ok(())
    }

    /// Puts the evaluation at the first of these windows.
    fn rewind(&mut self, span: super::dataset::Span) -> Result<(), Error> {
        let mut start = [0i64; cursor::LEN];
        start[cursor::BASE] = span.base as i64;
        start[cursor::WINDOWS] = span.count as i64;
        self.state.write(EVALUATION_CURSOR, &start)
    }
}

/// Where a session keeps what it knows of a segment.
const fn place(segment: Segment) -> usize {
    match segment {
        Segment::Train => 0,
        Segment::Validation => 1,
        Segment::Test => 2,
    }
}

/// Sorts the predictions `[.., levels, horizon]` of each row by level: independently trained levels may cross.
fn sort_levels(all: &mut [f64], levels: usize, horizon: usize) {
    let mut row = vec![0.0; levels];
    for channel in all.chunks_exact_mut(levels * horizon).filter(|_| levels > 1) {
        for at in 0..horizon {
            for (q, v) in row.iter_mut().enumerate() {
                *v = channel[q * horizon + at];
            }
            row.sort_by(f64::total_cmp);
            for (q, v) in row.iter().enumerate() {
                channel[q * horizon + at] = *v;
            }
        }
    }
}

fn write_values(state: &mut State, name: &str, values: &[f32], dtype: DType) -> Result<(), Error> {
    if dtype == DType::F32 {
        return state.write(name, values);
    }
    let (_, entry) = state.spec().find(name)?;
    let spec = landfall::Spec::new(DType::F64, entry.shape);
    let data = values.iter().map(|x| x.to_f64()).collect();
    state.write_host(name, &landfall::HostTensor { spec, data })
}
