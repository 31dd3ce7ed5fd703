//! What a forward pass needs besides its input.

use super::parameter::{Parameter, ParameterId, Parameters};
use landfall::{DType, Error, Graph, Rule, Spec, Value, ops};
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// What the forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Training: dropout draws from the cursor's random numbers, batch statistics are used and collected.
    Train {
        /// The step's cursor.
        cursor: Value,
    },
    /// Evaluation: no dropout, running statistics, no random numbers.
    Evaluate,
    /// Evaluation with random numbers: running statistics, and dropout where it is asked for.
    Draw {
        /// The cursor of the program ([`Graph::draws`]).
        cursor: Value,
        /// Whether dropout drops, as in training.
        dropout: bool,
    },
}

/// A running statistic and the batch's value that it is moved towards, once the step is known to be sound.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningStatistic {
    /// Name of the buffer.
    pub buffer: String,
    /// The batch's value.
    pub batch: Value,
    /// Weight of the batch's value.
    pub momentum: f64,
    /// Elements behind a variance, which is made unbiased with them.
    pub unbiased_count: Option<usize>,
}

/// What a forward pass asks of the step beside its loss.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Running statistics to be moved.
    pub(crate) running: Vec<RunningStatistic>,
    /// Values to be read after the step, by name.
    pub(crate) kept: Vec<(String, Value)>,
    /// New contents of buffers, by name.
    pub(crate) assigned: Vec<(String, Value)>,
    /// Scalars that are a part of the loss.
    penalties: Vec<Value>,
}

/// A forward pass under construction.
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::nn::{Context, Init, Mode, Parameters};
/// use std::sync::Arc;
///
/// let mut p = Parameters::new();
/// let scale = p.add("scale", [4], Init::Constant(1.0));
/// // A `Trainer` or a `Session` makes the state; by hand it is an entry for each parameter.
/// let mut spec = StateSpec::new();
/// let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
/// spec.add("parameters", DType::F32, &entries)?;
/// let g = Graph::new(&Arc::new(spec));
///
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 4]);
/// let y = cx.graph.mul(x, cx.parameter(scale)?)?;
/// assert_eq!(g.shape(y).dims(), [8, 4]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug)]
pub struct Context<'a> {
    /// The graph that layers add to.
    pub graph: &'a Graph,
    /// The model's parameters.
    pub parameters: &'a Parameters,
    /// What the pass is for.
    pub mode: Mode,
    /// What entries of trainable parameters begin with: nothing, or the slab of their average.
    entries: &'static str,
    /// The ranks whose rows are one batch to a batch norm.
    statistics: usize,
    streams: Cell<u32>,
    asked: RefCell<Asked>,
}

impl<'a> Context<'a> {
    /// A forward pass that adds to `graph`.
    #[must_use]
    pub fn new(graph: &'a Graph, parameters: &'a Parameters, mode: Mode) -> Self {
        Self {
            graph,
            parameters,
            mode,
            entries: "",
            statistics: 1,
            streams: Cell::new(1),
            asked: RefCell::default(),
        }
    }

    /// The value of a parameter, with its [adapters](Parameters::adapt).
    ///
    /// # Errors
    /// A parameter that was added to other [`Parameters`]; [`Error::NoEntry`] when the graph's state was made for another model.
    #[track_caller]
    pub fn parameter(&self, id: ParameterId) -> Result<Value, Error> {
        let at = Location::caller();
        let Some(parameter) = self.parameters.own(id) else {
            let value = format!("number {} of other Parameters", id.index);
            let takes = "of the model's own: make its layers with the Parameters that it is trained with, or a copy of them";
            let rule = Rule::AttributeValue { name: "the layer's parameter", value, takes, choices: &[] };
            return Err(rule.of("parameter", &[], None, Some(at)).into());
        };
        let weight = self.entry(parameter)?;
        self.adapted(id.index, weight)
    }

    /// What the state holds of a parameter.
    #[track_caller]
    pub(super) fn entry(&self, parameter: &Parameter) -> Result<Value, Error> {
        match self.entries {
            prefix if prefix.is_empty() || parameter.frozen => self.graph.entry(&parameter.name),
            prefix => self.graph.entry(&format!("{prefix}.{}", parameter.name)),
        }
    }

    /// The same pass with the entries of another slab, laid out as the parameters', in place of the trainable parameters.
    pub(crate) fn reading(self, slab: &'static str) -> Self {
        Self { entries: slab, ..self }
    }

    /// The same pass with the statistics of a batch over the rows of so many ranks.
    pub(crate) fn across(self, statistics: usize) -> Self {
        Self { statistics, ..self }
    }

    /// The ranks whose rows are one batch to a batch norm: 1, unless their statistics are synchronised.
    pub(super) fn statistics(&self) -> usize {
        self.statistics
    }

    /// The dtype that the model computes in: its parameters'.
    #[must_use]
    pub fn dtype(&self, x: Value) -> DType {
        self.graph.spec(x).dtype
    }

    /// The next stream of random numbers. Numbers of a layer depend on how many drew before it, so a model's order of
    /// layers is part of what a seed means.
    #[must_use]
    pub fn next_stream(&self) -> u32 {
        self.streams.replace(self.streams.get() + 1)
    }

    /// The cursor from which this pass draws, if it draws.
    #[must_use]
    pub fn cursor(&self) -> Option<Value> {
        match self.mode {
            Mode::Train { cursor } | Mode::Draw { cursor, .. } => Some(cursor),
            Mode::Evaluate => None,
        }
    }

    /// Normal numbers with mean 0 and variance 1, others at every step and every run; no gradient flows into them. Draws are numbered
    /// in the order of their calls, with those of dropout ([`Context::next_stream`]).
    ///
    /// ```
    /// use landfall::{Engine, Error, Spec};
    /// use landfall_train::nn::{Context, Linear, Parameters, loss};
    /// use landfall_train::train::{Arrays, Predicting, Trainer, TrainingOptions, Weights};
    /// let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// let mut p = Parameters::new();
    /// let layer = Linear::new(&mut p, "layer", 2, 1);
    /// // y is normal about the layer's result.
    /// let sample = |cx: &Context<'_>, mean| cx.graph.add(mean, cx.normal(cx.graph.spec(mean))?);
    /// let options = TrainingOptions { batch: 4, ..TrainingOptions::default() };
    /// let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data, options, |cx, batch| {
    ///     loss::mse(cx.graph, sample(cx, layer.forward(cx, batch.get("x")?)?)?, batch.get("y")?)
    /// })?;
    /// trainer.step()?;
    ///
    /// let how = Predicting { batch: 8, seed: Some(1), ..Predicting::default() };
    /// let mut sampler = trainer.predictor_with(&data, how, |cx, batch| {
    ///     Ok(vec![("sample", sample(cx, layer.forward(cx, batch.get("x")?)?)?)])
    /// })?;
    /// assert_ne!(sampler.run(&trainer, &data)?, sampler.run(&trainer, &data)?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A dtype that is not a float; a pass that does not draw ([`Mode::Evaluate`]).
    #[track_caller]
    pub fn normal(&self, spec: Spec) -> Result<Value, Error> {
        let cursor = self.drawn_from("normal")?;
        self.graph.normal(spec, self.next_stream(), cursor)
    }

    /// Uniform numbers between `low` and `high`, drawn as by [`Context::normal`].
    ///
    /// # Errors
    /// As of [`Context::normal`]; an end that is not finite.
    #[track_caller]
    pub fn uniform(&self, spec: Spec, low: f64, high: f64) -> Result<Value, Error> {
        let cursor = self.drawn_from("uniform")?;
        self.graph.op1(ops::Uniform { spec, low, high, stream: self.next_stream() }, &[cursor])
    }

    #[track_caller]
    fn drawn_from(&self, op: &'static str) -> Result<Value, Error> {
        let takes = "which a training step has, and a predictor of Trainer::predictor_with with a seed";
        let rule = Rule::Missing { name: "a cursor to draw from", takes };
        self.cursor().ok_or_else(|| rule.of(op, &[], None, Some(Location::caller())).into())
    }

    /// Asks for a value to be kept until the next step, to be read by this name ([`Trainer::kept`](crate::train::Trainer::kept)).
    /// Of micro-batches it is the value of the last one, of several ranks each keeps its own.
    ///
    /// ```
    /// use landfall::{Engine, Error};
    /// use landfall_train::nn::{Linear, Parameters, loss};
    /// use landfall_train::train::{Arrays, Trainer, TrainingOptions};
    /// let data = Arrays::new().with("x", [4, 2], vec![1.0f32; 8])?.with("y", [4, 1], vec![1.0f32; 4])?;
    /// let mut p = Parameters::new();
    /// let layer = Linear::new(&mut p, "layer", 2, 1);
    /// let options = TrainingOptions { batch: 4, ..TrainingOptions::default() };
    /// let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data, options, |cx, batch| {
    ///     let predicted = layer.forward(cx, batch.get("x")?)?;
    ///     cx.keep("predicted", predicted);
    ///     loss::mse(cx.graph, predicted, batch.get("y")?)
    /// })?;
    /// trainer.step()?;
    /// assert_eq!(trainer.kept("predicted")?.spec.to_string(), "f32[4, 1]");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn keep(&self, name: &str, value: Value) {
        self.asked.borrow_mut().kept.push((name.to_owned(), value));
    }

    /// The contents of a buffer ([`Parameters::add_buffer`]) before the step. It is not trained.
    ///
    /// # Errors
    /// [`Error::NoEntry`] if the state has no buffer of this name.
    #[track_caller]
    pub fn buffer(&self, name: &str) -> Result<Value, Error> {
        self.graph.entry(name)
    }

    /// Asks for new contents of a buffer: written at the end of a training step, if its loss and gradients are finite. A file of
    /// [`Trainer::save`](crate::train::Trainer::save) has them.
    ///
    /// ```
    /// use landfall::{All, Engine, Error};
    /// use landfall_train::nn::{Linear, Parameters, loss};
    /// use landfall_train::train::{Arrays, Trainer, TrainingOptions};
    /// let data = Arrays::new().with("x", [4, 2], vec![1.0f32; 8])?.with("y", [4, 1], vec![1.0f32; 4])?;
    /// let mut p = Parameters::new();
    /// let layer = Linear::new(&mut p, "layer", 2, 1);
    /// p.add_buffer("samples seen", [], 0.0);
    /// let options = TrainingOptions { batch: 2, ..TrainingOptions::default() };
    /// let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data, options, |cx, batch| {
    ///     cx.assign("samples seen", cx.graph.affine(cx.buffer("samples seen")?, 1.0, 2.0)?);
    ///     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// })?;
    /// trainer.step()?;
    /// trainer.step()?;
    /// assert_eq!(trainer.state.read::<f32>("samples seen")?, [4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// None here; the trainer refuses a value of another shape than the buffer's, and assignments beside micro-batches or ranks, of
    /// which each would assign something else.
    pub fn assign(&self, buffer: &str, value: Value) {
        self.asked.borrow_mut().assigned.push((buffer.to_owned(), value));
    }

    /// Asks for a running statistic to be moved at the end of the step.
    pub fn collect(&self, statistic: RunningStatistic) {
        self.asked.borrow_mut().running.push(statistic);
    }

    /// Asks for a scalar to be added to a training step's loss, such as a load-balancing loss.
    ///
    /// ```
    /// use landfall::{Engine, Error};
    /// use landfall_train::nn::{Linear, Parameters, loss};
    /// use landfall_train::train::{Arrays, Trainer, TrainingOptions};
    /// let data = Arrays::new().with("x", [4, 2], vec![1.0f32; 8])?.with("y", [4, 1], vec![1.0f32; 4])?;
    /// let mut p = Parameters::new();
    /// let layer = Linear::new(&mut p, "layer", 2, 1);
    /// let options = TrainingOptions { batch: 4, ..TrainingOptions::default() };
    /// let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data, options, |cx, batch| {
    ///     // A penalty on the weights that is a part of the loss.
    ///     let w = cx.parameter(layer.weight())?;
    ///     cx.penalise(cx.graph.affine(cx.graph.mean_all(cx.graph.square(w)?)?, 0.01, 0.0)?);
    ///     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// })?;
    /// trainer.step()?;
    /// # Ok::<(), landfall::Error>(())
    /// ```
    pub fn penalise(&self, loss: Value) {
        self.asked.borrow_mut().penalties.push(loss);
    }

    /// A task's loss with all that layers asked to be added to it.
    ///
    /// # Errors
    /// What was added must be a scalar of the loss's dtype.
    #[track_caller]
    pub fn penalised(&self, loss: Value) -> Result<Value, Error> {
        self.asked.borrow().penalties.iter().try_fold(loss, |sum, &penalty| self.graph.add(sum, penalty))
    }

    /// The running statistics collected, in order.
    #[must_use]
    pub fn into_running(self) -> Vec<RunningStatistic> {
        self.into_asked().running
    }

    /// What layers and loss asked of the step.
    pub(crate) fn into_asked(self) -> Asked {
        self.asked.into_inner()
    }
}
