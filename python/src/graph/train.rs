//! `landfall.Trainer`: trains a loss that is written as a function.

use super::optimizer::{Apart, ApartGiven, PyOptimizer};
use super::program::Trace;
use super::trace::{Recorded, Site, Step, replay};
use super::value::Value;
use crate::engines;
use crate::error::{Class, Raise};
use crate::operand;
use crate::tensor::Tensor;
use crate::tensor::elements::host;
use landfall::{DType, Element, Engine, Error, Graph, HostTensor, Spec, Value as Node, View, with_dtype};
use landfall_train::nn::{Context, Init, ParameterId, Parameters};
use landfall_train::train::{Arrays, Batch, StepRecord, Trainer, TrainingOptions, Weights};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The step of a training: parameters and buffers by name, and samples of a batch.
struct Training<'a> {
    cx: &'a Context<'a>,
    batch: &'a Batch,
    parameters: &'a BTreeMap<String, ParameterId>,
    buffers: &'a Arrayed,
}

/// Arrays by name.
type Arrayed = Vec<(String, HostTensor)>;

/// What a loss gives: its number, and those of what it gives beside it, by name.
struct Results {
    loss: usize,
    beside: Vec<(String, usize)>,
}

impl Training<'_> {
    /// The loss. What it gives by the name of a buffer is assigned to it, all else is kept.
    fn loss(&self, values: &[Node], results: &Results) -> Result<Node, Error> {
        for (name, number) in &results.beside {
            let is_buffer = self.buffers.iter().any(|(buffer, _)| buffer == name);
            let give = if is_buffer { Context::assign } else { Context::keep };
            give(self.cx, name, values[*number]);
        }
        Ok(values[results.loss])
    }
}

impl Site for Training<'_> {
    fn graph(&self) -> &Graph {
        self.cx.graph
    }

    fn input(&self, name: &str, _: Spec) -> Result<Node, Error> {
        match self.parameters.get(name) {
            Some(&id) => self.cx.parameter(id),
            None if self.buffers.iter().any(|(buffer, _)| buffer == name) => self.cx.buffer(name),
            None => self.batch.get(name),
        }
    }

    fn constant(&self, name: &str, _: &HostTensor) -> Result<Node, Error> {
        self.batch.get(name)
    }

    fn dropout(&self, of: Node, rate: f64) -> Result<Node, Error> {
        self.cx.dropout(of, rate)
    }

    fn draw(&self, spec: Spec, range: Option<(f64, f64)>) -> Result<Node, Error> {
        self.cx.draw(spec, range)
    }
}

/// Adds the samples of an array.
fn with(arrays: Arrays, name: &str, view: &View) -> Result<Arrays, Error> {
    with_dtype!(any view.dtype(), T => arrays.with(name, view.shape(), view.read::<T>()?))
}

/// Arrays of samples by name, copied.
fn samples(py: Python<'_>, data: &Bound<'_, PyDict>) -> PyResult<Arrays> {
    let mut arrays = Arrays::new();
    for (name, array) in data {
        let name: String = name.extract()?;
        let view = operand::required(&array, &format!("data {name}"))?.view;
        arrays = py.detach(|| with(arrays, &name, &view)).raised(py)?;
    }
    Ok(arrays)
}

/// Adds an array that a call of the loss has beside its values.
fn constant(arrays: Arrays, recorded: &Recorded) -> Result<Arrays, Error> {
    let Step::Constant { name, value } = &recorded.step else { return Ok(arrays) };
    let Spec { dtype, shape } = value.spec;
    if dtype == DType::I64 {
        return arrays.with_constant(name, shape, (0..value.data.len()).map(|i| value.int(i)).collect());
    }
    let rounded = value.data.iter();
    with_dtype!(any dtype, T => arrays.with_constant(name, shape, rounded.map(|&x| T::from_f64(x)).collect()))
}

/// Steps between two looks at whether the user wants to stop.
const STEPS_BETWEEN_SIGNALS: usize = 32;

/// Trains parameters on arrays of samples: forward pass, gradients, clipping and the optimizer's update are one program, which
/// on a GPU is one CUDA graph.
#[pyclass(frozen, module = "landfall._landfall", name = "Trainer")]
pub(crate) struct PyTrainer {
    trainer: Mutex<Trainer>,
    engine: &'static Engine,
    generation: u64,
    names: Vec<String>,
    buffers: Vec<String>,
    steps: usize,
}

/// Arrays of a float dtype by name, on the host.
fn floats(py: Python<'_>, arrays: &Bound<'_, PyDict>, what: &str) -> PyResult<Arrayed> {
    let read = |(name, array): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name: String = name.extract()?;
        let view = operand::required(&array, &format!("{what} {name}"))?.view;
        if !view.dtype().is_float() {
            let text = format!("{what} {name} is {}; it must be of a float dtype", view.spec());
            return Err(Class::DType.error(py, text));
        }
        let values = host(py, &view)?;
        Ok((name, values))
    };
    arrays.iter().map(read).collect()
}

/// The options of a trainer with their defaults, as JSON.
#[pyfunction]
pub(crate) fn _training_options(py: Python<'_>) -> PyResult<String> {
    // What is off is left out of a file; here every option has its name.
    let on = TrainingOptions {
        average: Some(0.5),
        shard_optimizer: true,
        sync_batch_norm: true,
        rank_order: true,
        ..TrainingOptions::default()
    };
    let written = |options: &TrainingOptions| {
        serde_json::to_value(options).map_err(|e| Class::Error.error(py, e.to_string()))
    };
    let (mut all, default) = (written(&on)?, written(&TrainingOptions::default())?);
    for (name, value) in all.as_object_mut().into_iter().flatten() {
        *value = match default.get(name) {
            Some(given) => given.clone(),
            None if value.is_boolean() => false.into(),
            None => serde_json::Value::Null,
        };
    }
    Ok(all.to_string())
}

/// Options from JSON; an error names the one that does not fit.
fn named_options(py: Python<'_>, given: &str) -> PyResult<TrainingOptions> {
    let refused = |text: String| Class::Argument.error(py, text);
    let given: Map<String, Json> =
        serde_json::from_str(given).map_err(|e| refused(format!("options: {e}")))?;
    let default = serde_json::to_value(TrainingOptions::default()).map_err(|e| refused(e.to_string()))?;
    for (name, value) in &given {
        let mut one = default.clone();
        if let Some(all) = one.as_object_mut() {
            all.insert(name.clone(), value.clone());
        }
        serde_json::from_value::<TrainingOptions>(one)
            .map_err(|e| refused(format!("{name} is {value}: {e}")))?;
    }
    serde_json::from_value(Json::Object(given)).map_err(|e| refused(format!("options: {e}")))
}

/// Records as dictionaries.
fn listed<'py>(py: Python<'py>, records: Vec<StepRecord>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for StepRecord { step, loss, grad_norm, lr } in records {
        let record = PyDict::new(py);
        record.set_item("step", step)?;
        record.set_item("loss", loss)?;
        record.set_item("grad_norm", grad_norm)?;
        record.set_item("lr", lr)?;
        list.append(record)?;
    }
    Ok(list)
}

#[pymethods]
impl PyTrainer {
    #[new]
    fn new(
        py: Python<'_>,
        trace: &Bound<'_, Trace>,
        results: (Bound<'_, Value>, Vec<(String, Bound<'_, Value>)>),
        arrays: (Bound<'_, PyDict>, Bound<'_, PyDict>),
        data: &Bound<'_, PyDict>,
        how: (String, ApartGiven, Option<Bound<'_, PyOptimizer>>),
        device: Option<&str>,
    ) -> PyResult<Self> {
        let engine = engines::on(py, engines::device(py, device)?)?;
        let (options, apart, optimizer) = how;
        let options = named_options(py, &options)?;
        let steps = trace.get().tracer.steps();
        let number = |(name, value): (&str, &Bound<'_, Value>)| {
            let value = value.get();
            if Arc::ptr_eq(&value.tracer, &trace.get().tracer) {
                return Ok(value.number);
            }
            Err(Class::Argument.error(py, format!("{name} is a value of another traced function")))
        };
        let beside = results.1.iter().map(|(name, value)| Ok((name.clone(), number((name, value))?)));
        let beside = beside.collect::<PyResult<_>>()?;
        let results = Results { loss: number(("the loss", &results.0))?, beside };
        let (given, kept) = (floats(py, &arrays.0, "parameter")?, floats(py, &arrays.1, "buffer")?);
        let data = steps.iter().try_fold(samples(py, data)?, constant).raised(py)?;
        let named = |list: &Arrayed| list.iter().map(|(name, _)| name.clone()).collect();
        let (names, buffers) = (named(&given), named(&kept));
        let mut parameters = Parameters::new();
        let add = |(name, values): &(String, HostTensor)| {
            (name.clone(), parameters.add(name, values.spec.shape, Init::Constant(0.0)))
        };
        let ids: BTreeMap<String, ParameterId> = given.iter().map(add).collect();
        kept.iter().for_each(|(name, values)| parameters.add_buffer(name, values.spec.shape, 0.0));
        Apart::from(apart).tell(py, &mut parameters)?;
        let named = options.optimizer.of(&options);
        let own = optimizer.as_ref().map(Bound::get);
        let of = own.map_or(&named, |own| &own.optimizer);
        let made = py.detach(|| {
            let mut trainer =
                Trainer::with_optimizer(engine, &parameters, &data, options, of.as_ref(), |cx, batch| {
                    let training = Training { cx, batch, parameters: &ids, buffers: &kept };
                    training.loss(&replay(&steps, &training)?, &results)
                })?;
            given
                .iter()
                .chain(&kept)
                .try_for_each(|(name, values)| trainer.state.write_host(name, values))?;
            Ok(trainer)
        });
        let trainer = match own {
            Some(own) => own.raised(py, made)?,
            None => made.raised(py)?,
        };
        let steps = trainer.steps();
        Ok(Self {
            trainer: Mutex::new(trainer),
            engine,
            generation: engines::generation(),
            names,
            buffers,
            steps,
        })
    }

    /// What the loss gave of the last step by this name.
    fn kept(&self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        let values = self.with(py, |trainer| trainer.kept(name))?;
        Ok(Tensor::new(View::from(self.engine.from_host(&values).raised(py)?)))
    }

    /// Copies of the buffers by name.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in &self.buffers {
            let values = self.with(py, |trainer| trainer.state.read_host(name))?;
            dict.set_item(name, Tensor::new(View::from(self.engine.from_host(&values).raised(py)?)))?;
        }
        Ok(dict)
    }

    /// Steps of the whole training.
    #[getter]
    fn steps(&self) -> usize {
        self.steps
    }

    /// Sets the learning rate of each step.
    fn schedule(&self, py: Python<'_>, rates: Vec<f64>) -> PyResult<()> {
        self.with(py, |trainer| trainer.schedule(|step| rates.get(step).copied().unwrap_or(f64::NAN)))
    }

    /// Steps done.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Trainer::position)
    }

    /// Runs so many steps, and reads nothing back. Ctrl-C ends it between two steps.
    #[pyo3(signature = (count = 1))]
    fn step(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let mut left = count;
        while left > 0 {
            let now = left.min(STEPS_BETWEEN_SIGNALS);
            self.with(py, |trainer| (0..now).try_for_each(|_| trainer.step()))?;
            left -= now;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Writes other samples over those that the trainer has: steps before see the old ones, steps after the new ones.
    fn replace(&self, py: Python<'_>, data: &Bound<'_, PyDict>) -> PyResult<()> {
        let arrays = samples(py, data)?;
        self.with(py, |trainer| trainer.replace(&arrays))
    }

    /// What the steps numbered `first` to `last` report, of those that have run: dictionaries of step, loss, grad_norm and lr. The
    /// last 1,024 are kept.
    fn records<'py>(&self, py: Python<'py>, first: usize, last: usize) -> PyResult<Bound<'py, PyList>> {
        listed(py, self.with(py, |trainer| trainer.records(first, last))?)
    }

    /// What the steps after number `done` report, of those that were run since.
    fn since<'py>(&self, py: Python<'py>, done: usize) -> PyResult<Bound<'py, PyList>> {
        listed(py, self.with(py, |trainer| trainer.since(done))?)
    }

    /// Copies of the parameters by name, or of their average.
    #[pyo3(signature = (average = false))]
    fn state_dict<'py>(&self, py: Python<'py>, average: bool) -> PyResult<Bound<'py, PyDict>> {
        let (dict, weights) = (PyDict::new(py), if average { Weights::Average } else { Weights::Last });
        for name in &self.names {
            let values = self.with(py, |trainer| trainer.parameter(name, weights))?;
            let tensor = self.engine.from_host(&values).raised(py)?;
            dict.set_item(name, Tensor::new(View::from(tensor)))?;
        }
        Ok(dict)
    }

    /// Sets the parameters, all of them, from arrays by name.
    fn load_state_dict(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut given: Vec<(String, HostTensor)> = Vec::new();
        for (name, array) in state {
            let name: String = name.extract()?;
            if !self.names.contains(&name) {
                let text = format!("there is no parameter {name}; there are {}", self.names.join(", "));
                return Err(Class::Argument.error(py, text));
            }
            let view = operand::required(&array, &name)?.view;
            given.push((name, host(py, &view)?));
        }
        if let Some(missing) = self.names.iter().find(|name| !given.iter().any(|(own, _)| own == *name)) {
            return Err(
                Class::Argument.error(py, format!("parameter {missing} is missing; nothing was changed"))
            );
        }
        self.with(py, |trainer| {
            // All shapes before the first is written.
            for (name, values) in &given {
                let (slab, entry) = trainer.state.spec().find(name)?;
                if entry.shape != values.spec.shape {
                    let expected = Spec { dtype: slab.dtype, shape: entry.shape };
                    return Err(Error::HostData {
                        what: format!("parameter {name}"),
                        expected,
                        given: values.spec,
                    });
                }
            }
            given.iter().try_for_each(|(name, values)| trainer.state.write_host(name, values))
        })
    }

    /// Writes all that steps change to a safetensors file: parameters, moments, the position.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |trainer| Ok(trainer.save(&path)))?.map_err(|e| Class::Error.error(py, e.to_string()))
    }

    /// Goes on from a file of `save`.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |trainer| Ok(trainer.load(&path)))?.map_err(|e| Class::Error.error(py, e.to_string()))
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(Class::Error.error(
            py,
            "a trainer is memory of a device and code for it, and is not pickled; save(path) writes its state, and load(path) \
             of a trainer of the same function goes on from there",
        ))
    }
}

impl PyTrainer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Trainer) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        if self.generation != engines::generation() {
            return Err(Class::Device.error(
                py,
                "the trainer was made before this process was forked, and its memory belongs to the parent; make it here",
            ));
        }
        py.detach(|| work(&mut self.trainer.lock().unwrap_or_else(PoisonError::into_inner))).raised(py)
    }
}
