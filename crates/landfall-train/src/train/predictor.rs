//! Programs that compute something of samples with a trainer's weights.

use super::arrays::{Arrays, Batch};
use super::names::AVERAGE;
use super::trainer::{Trainer, Weights};
use crate::nn::{Context, Mode};
use landfall::ops::cursor;
use landfall::{Error, Graph, HostTensor, Program, Rule, State, Value, mixed_precision};
use std::panic::Location;

/// How a predictor computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predicting {
    /// Samples of a batch.
    pub batch: usize,
    /// Which weights.
    pub weights: Weights,
    /// The seed of its random numbers ([`Context::normal`], [`Context::uniform`]): each batch of each run draws others, and a predictor of
    /// the same seed the same ones. Without a seed it draws none.
    pub seed: Option<u64>,
    /// Whether dropout drops, as in training, so that the predictions of several runs differ (Gal & Ghahramani 2016). It takes a seed.
    pub dropout: bool,
}

/// One sample at a time, the last weights, no random numbers.
impl Default for Predicting {
    fn default() -> Self {
        Self { batch: 1, weights: Weights::Last, seed: None, dropout: false }
    }
}

impl Trainer {
    /// Compiles a program that predicts batches of this many samples: `given` are arrays as it will be run on (names, dtypes and
    /// sizes count, not contents), `value` writes what it gives, with one row for each sample.
    ///
    /// # Errors
    /// As [`Trainer::new`]; a value without a row for each sample; [`Weights::Average`] where none is kept.
    #[track_caller]
    pub fn predictor(
        &self,
        given: &Arrays,
        batch: usize,
        weights: Weights,
        value: impl FnOnce(&Context<'_>, &Batch) -> Result<Value, Error>,
    ) -> Result<Predictor, Error> {
        let how = Predicting { batch, weights, ..Predicting::default() };
        self.predictor_with(given, how, |cx, batch| Ok(vec![("value", value(cx, batch)?)]))
    }

    /// As [`Trainer::predictor`], of several values by name, and of values that are drawn.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Dropout, Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Predicting, Trainer, TrainingOptions};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// // Dropout in prediction: the spread of 20 runs says how sure the model is.
    /// let how = Predicting { batch: 8, seed: Some(1), dropout: true, ..Predicting::default() };
    /// let mut predictor = trainer.predictor_with(&data, how, |cx, batch| {
    ///     let hidden = Dropout { rate: 0.5 }.forward(cx, batch.get("x")?)?;
    ///     let y = layer.forward(cx, hidden)?;
    ///     Ok(vec![("y", y), ("hidden", hidden)])
    /// })?;
    /// let runs = (0..20).map(|_| predictor.run(&trainer, &data)).collect::<Result<Vec<_>, _>>()?;
    /// assert!(runs.iter().any(|run| *run != runs[0]));
    /// predictor.seed(1)?; // from the beginning
    /// let all = predictor.run_all(&trainer, &data)?;
    /// assert_eq!(all[0], ("y".to_owned(), runs[0].clone()));
    /// assert_eq!(all[1].1.spec.to_string(), "f32[8, 2]");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Trainer::predictor`]; no value, or two of one name; dropout without a seed.
    #[track_caller]
    pub fn predictor_with<N: Into<String>>(
        &self,
        given: &Arrays,
        how: Predicting,
        values: impl FnOnce(&Context<'_>, &Batch) -> Result<Vec<(N, Value)>, Error>,
    ) -> Result<Predictor, Error> {
        let (at, batch) = (Location::caller(), how.batch);
        let refused = |rule: Rule| Error::from(rule.of("predictor", &[], None, Some(at)));
        if how.dropout && how.seed.is_none() {
            return Err(refused(Rule::Missing { name: "a seed", takes: "from which dropout draws" }));
        }
        if batch == 0 {
            let rule = Rule::Attribute { name: "samples of a batch", value: 0.0, expected: "at least 1" };
            return Err(refused(rule));
        }
        let g = Graph::new(self.state.spec());
        let inputs = given.inputs(&g, batch);
        let mode = match how.seed {
            None => Mode::Evaluate,
            Some(_) => Mode::Draw { cursor: g.draws(DRAWS)?, dropout: how.dropout },
        };
        let mut cx = Context::new(&g, &self.parameters, mode);
        if how.weights == Weights::Average {
            self.averages("predictor", at)?;
            cx = cx.reading(AVERAGE.slab);
        }
        let mut names = Vec::new();
        for (name, value) in values(&cx, &inputs)? {
            let (name, spec) = (name.into(), g.spec(value));
            if spec.shape.dims().first() != Some(&batch) {
                let rule = match spec.shape.rank() {
                    0 => Rule::AttributeValue {
                        name: "value",
                        value: spec.to_string(),
                        takes: "a row for each sample of the batch",
                        choices: &[],
                    },
                    _ => Rule::ArgShape { arg: 0, shape: spec.shape, expected: spec.shape.with(0, batch) },
                };
                return Err(rule.of("predictor", &[spec], None, Some(at)).into());
            }
            if names.contains(&name) {
                return Err(refused(Rule::Name { kind: "output", name }));
            }
            g.output(&name, value);
            names.push(name);
        }
        if names.is_empty() {
            return Err(refused(Rule::Missing { name: "a value", takes: "with a row for each sample" }));
        }
        let graph = mixed_precision(&g, self.options.dtype, self.options.products)?.into_graph();
        let program = Program::compile(&self.engine, &self.state, "predict", &graph)?;
        let mut predictor = Predictor { program, batch, given: given.slice(0, 1), names };
        how.seed.map_or(Ok(()), |seed| predictor.seed(seed))?;
        Ok(predictor)
    }
}

/// The input of a predictor's cursor.
const DRAWS: &str = "cursor of draws";

/// A program that computes something of samples with a trainer's weights, batch by batch.
///
/// Weights are read, not written, so predictors of several threads run at once on one trainer, or, when it has done its work, on its state:
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
/// let given = Arrays::new().with("x", [3, 2], vec![0.0f32; 6])?;
/// let mut predictor =
///     trainer.predictor(&given, 2, Weights::Last, |cx, batch| layer.forward(cx, batch.get("x")?))?;
/// let y = predictor.run(&trainer, &given)?;
/// assert_eq!(y.spec.to_string(), "f32[3, 1]"); // two batches, the last one half full
///
/// let weights = std::sync::Arc::new(trainer.state); // for all threads
/// let shared = std::sync::Arc::clone(&weights);
/// let of_thread = std::thread::spawn(move || predictor.run(&shared, &given)).join().expect("no panic")?;
/// assert_eq!(of_thread, y);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Predictor {
    program: Program,
    batch: usize,
    /// A sample of the arrays that it was made for.
    given: Arrays,
    /// The names of its values, in order.
    names: Vec<String>,
}

impl Predictor {
    /// Computes its value for every sample, of several the first: `[rows, ..]`.
    ///
    /// # Errors
    /// As [`Predictor::run_all`].
    pub fn run(&mut self, weights: &impl AsRef<State>, data: &Arrays) -> Result<HostTensor, Error> {
        self.computed(weights.as_ref(), data, 1).map(|mut all| all.swap_remove(0))
    }

    /// Computes all its values for every sample, by name and in order. A last batch that is not full is filled up with the last sample,
    /// and what comes of that left out.
    ///
    /// # Errors
    /// [`Error::NoBinding`] or [`Error::HostData`] for arrays of other names, dtypes or sizes than the program's;
    /// [`Error::ForeignState`] for another trainer's weights; a device fault.
    pub fn run_all(
        &mut self,
        weights: &impl AsRef<State>,
        data: &Arrays,
    ) -> Result<Vec<(String, HostTensor)>, Error> {
        let all = self.computed(weights.as_ref(), data, self.names.len())?;
        Ok(self.names.iter().cloned().zip(all).collect())
    }

    /// Draws from this seed on, as a new predictor with it does.
    ///
    /// # Errors
    /// [`Error::NoBinding`] for a predictor without a seed; a device fault.
    pub fn seed(&mut self, seed: u64) -> Result<(), Error> {
        self.program.write(DRAWS, &cursor::seeded(seed))
    }

    /// Its first `count` values.
    fn computed(&mut self, weights: &State, data: &Arrays, count: usize) -> Result<Vec<HostTensor>, Error> {
        data.check_like(&self.given)?;
        let rows = data.rows();
        let mut all: Vec<Option<HostTensor>> = vec![None; count];
        for first in (0..rows).step_by(self.batch) {
            data.write_rows(&mut self.program, first, self.batch)?;
            self.program.run_shared(weights)?;
            for (name, all) in self.names.iter().zip(&mut all) {
                let mut some = self.program.read_host(name)?;
                let width = some.data.len() / self.batch;
                some.data.truncate((rows - first).min(self.batch) * width);
                match all {
                    Some(all) => all.data.append(&mut some.data),
                    None => *all = Some(some),
                }
            }
        }
        let none = || {
            let rule = Rule::Attribute { name: "number of samples", value: 0.0, expected: "at least 1" };
            Error::from(rule.of("predictor", &[], None, None))
        };
        let whole = |part: Option<HostTensor>| {
            let HostTensor { spec, data, .. } = part.ok_or_else(none)?;
            Ok(HostTensor::new(spec.dtype, spec.shape.with(0, rows), data)?)
        };
        all.into_iter().map(whole).collect()
    }
}

/// The weights.
impl AsRef<State> for Trainer {
    fn as_ref(&self) -> &State {
        &self.state
    }
}
