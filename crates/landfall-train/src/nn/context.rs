//! What a forward pass needs besides its input.

use super::parameter::{ParameterId, Parameters};
use landfall::{DType, Error, Graph, Value};
use std::cell::{Cell, RefCell};

/// What the forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Training: dropout draws from the cursor's random numbers, batch statistics are used and collected.
    Train {
        /// The step's cursor.
        cursor: Value,
    },
    /// Evaluation: no dropout, running statistics.
    Evaluate,
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
    running: RefCell<Vec<RunningStatistic>>,
    penalties: RefCell<Vec<Value>>,
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
            running: RefCell::default(),
            penalties: RefCell::default(),
        }
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the graph's state was made for another model.
    #[track_caller]
    pub fn parameter(&self, id: ParameterId) -> Result<Value, Error> {
        let parameter = self.parameters.get(id);
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

    /// Asks for a running statistic to be moved at the end of the step.
    pub fn collect(&self, statistic: RunningStatistic) {
        self.running.borrow_mut().push(statistic);
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
        self.penalties.borrow_mut().push(loss);
    }

    /// A task's loss with all that layers asked to be added to it.
    ///
    /// # Errors
    /// What was added must be a scalar of the loss's dtype.
    #[track_caller]
    pub fn penalised(&self, loss: Value) -> Result<Value, Error> {
        self.penalties.borrow().iter().try_fold(loss, |sum, &penalty| self.graph.add(sum, penalty))
    }

    /// The running statistics collected, in order.
    #[must_use]
    pub fn into_running(self) -> Vec<RunningStatistic> {
        self.running.into_inner()
    }
}
