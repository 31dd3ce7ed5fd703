//! `landfall.optim`: optimizers, of the library and of the caller's, and the update that one appends to a traced function.

use super::minimisation::Minimisation;
use super::program::Trace;
use super::trace::{Recorded, Site, Step, Tracer, replay};
use super::value::Value;
use crate::dtype;
use crate::error::{Class, Raise};
use landfall::ops::cursor;
use landfall::{Error, Graph, Rule, Shape, Spec, Value as Node};
use landfall_train::nn::{Group, Init, Parameters};
use landfall_train::train::{
    Adam, Betas, FIRST_MOMENT, Lion, Moment, Optimizer, SECOND_MOMENT, Schedule, Sgd, Update,
};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An optimizer, without parameters.
#[pyclass(frozen, module = "landfall._landfall", name = "Optimizer")]
pub(crate) struct PyOptimizer {
    pub(super) optimizer: Arc<dyn Optimizer>,
    /// The same, if it is a function of the caller's.
    own: Option<Arc<Own>>,
}

#[pymethods]
impl PyOptimizer {
    #[staticmethod]
    fn adam(betas: (f64, f64), eps: f64, decoupled: bool) -> Self {
        let betas = Betas { first: betas.0, second: betas.1 };
        Self { optimizer: Arc::new(Adam { betas, eps, decoupled }), own: None }
    }

    #[staticmethod]
    fn sgd(momentum: f64, nesterov: bool) -> Self {
        Self { optimizer: Arc::new(Sgd { momentum, nesterov }), own: None }
    }

    #[staticmethod]
    fn lion(betas: (f64, f64)) -> Self {
        let betas = Betas { first: betas.0, second: betas.1 };
        Self { optimizer: Arc::new(Lion { betas }), own: None }
    }

    /// A function that is called with a trace, the dtype and the number of elements of parameters, and gives their new values and
    /// those of the moments.
    #[staticmethod]
    fn own(py: Python<'_>, function: Py<PyAny>, moments: usize) -> PyResult<Self> {
        let moments: &'static [Moment] = match moments {
            0 => &[],
            1 => const { &[FIRST_MOMENT] },
            2 => const { &[FIRST_MOMENT, SECOND_MOMENT] },
            more => {
                let text = format!("moments is {more}; an optimizer keeps 0, 1 or 2 values for each element");
                return Err(Class::AttributeValue.error(py, text));
            }
        };
        let own = Arc::new(Own { function, moments, traced: Mutex::default(), failure: Mutex::default() });
        Ok(Self { optimizer: Arc::clone(&own) as _, own: Some(own) })
    }
}

impl PyOptimizer {
    /// What the caller's function raised while a graph was made with it, or else the graph's own error.
    pub(super) fn raised<T>(&self, py: Python<'_>, made: Result<T, Error>) -> PyResult<T> {
        let failure = self.own.as_ref().and_then(|own| locked(&own.failure).take());
        match (failure, made) {
            (Some(failure), Err(_)) => Err(failure),
            (_, made) => made.raised(py),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function of the caller's as an optimizer. It is traced once for each number of elements.
#[derive(Debug)]
struct Own {
    function: Py<PyAny>,
    moments: &'static [Moment],
    traced: Mutex<Vec<(Spec, Arc<Traced>)>>,
    failure: Mutex<Option<PyErr>>,
}

/// The calls of a function of the caller's, and the numbers of what it returned: the parameters, and each moment.
#[derive(Debug)]
struct Traced {
    steps: Vec<Recorded>,
    returned: Vec<usize>,
}

impl Own {
    /// The function's calls for parameters of this many elements.
    fn traced(&self, py: Python<'_>, spec: Spec) -> PyResult<Arc<Traced>> {
        if let Some((_, traced)) = locked(&self.traced).iter().find(|(of, _)| *of == spec) {
            return Ok(Arc::clone(traced));
        }
        let trace = Bound::new(py, Trace { tracer: Tracer::new() })?;
        let args = (&trace, dtype::numpy_name(spec.dtype), spec.shape.elements());
        let returned: Vec<Bound<'_, Value>> = self.function.bind(py).call1(args)?.extract()?;
        let tracer = &trace.get().tracer;
        if returned.iter().any(|value| !Arc::ptr_eq(&value.get().tracer, tracer)) {
            let text = "the optimizer's function returned a value of another traced function";
            return Err(Class::Argument.error(py, text));
        }
        let returned = returned.iter().map(|value| value.get().number).collect();
        let traced = Arc::new(Traced { steps: tracer.steps(), returned });
        locked(&self.traced).push((spec, Arc::clone(&traced)));
        Ok(traced)
    }
}

/// What a function of the caller's takes, by name.
struct Place<'a> {
    graph: &'a Graph,
    update: &'a Update,
}

impl Site for Place<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }

    fn input(&self, name: &str, spec: Spec) -> Result<Node, Error> {
        let (g, u) = (self.graph, self.update);
        match name {
            "parameter" => Ok(u.parameters),
            "gradient" => u.scaled_gradients(g),
            "rate" => u.rate(g),
            "step" => {
                let done = g.slice(u.cursor, 0, cursor::STEP, 1)?;
                g.affine(g.reshape(g.cast(done, spec.dtype)?, Shape::SCALAR)?, 1.0, 1.0)
            }
            "weight_decay" => g.fill(spec.dtype, Shape::SCALAR, u.weight_decay),
            moment => {
                let number = moment.strip_prefix("moment").and_then(|number| number.parse::<usize>().ok());
                number.and_then(|number| u.moments.get(number)).copied().ok_or_else(|| Error::NoEntry {
                    name: moment.to_owned(),
                    known: format!("{} moments", u.moments.len()),
                })
            }
        }
    }
}

impl Optimizer for Own {
    fn moments(&self) -> &'static [Moment] {
        self.moments
    }

    fn update(&self, g: &Graph, update: &Update) -> Result<Node, Error> {
        let mut all = Vec::new();
        for u in update.parts(g)? {
            let traced = Python::attach(|py| self.traced(py, g.spec(u.parameters)));
            let traced = traced.map_err(|failure| {
                *locked(&self.failure) = Some(failure);
                let (value, takes) = ("a function that failed".to_owned(), "one that gives new values");
                let rule = Rule::AttributeValue { name: "function", value, takes, choices: &[] };
                Error::from(rule.of("optimizer", &[], None, None))
            })?;
            let values = replay(&traced.steps, &Place { graph: g, update: &u })?;
            let mut new = traced.returned.iter().map(|&number| values[number]);
            let mut assign = |to: Node| match new.next() {
                Some(value) if value != to => g.assign(to, value, u.ok),
                Some(_) | None => Ok(to),
            };
            all.push(assign(u.parameters)?);
            u.moments.iter().try_for_each(|&moment| assign(moment).map(drop))?;
        }
        match all.as_slice() {
            [one] => Ok(*one),
            parts => g.concat(parts, 0),
        }
    }
}

/// What of a training's parameters is treated apart: groups by the dotted names that they lie under, each with its factor of the
/// learning rate and its weight decay, and names of those that stay as they are.
#[derive(Debug)]
pub(super) struct Apart {
    groups: Vec<(String, f64, Option<f64>)>,
    freeze: Vec<String>,
}

/// As Python gives it.
pub(super) type ApartGiven = (Vec<(String, f64, Option<f64>)>, Vec<String>);

impl From<ApartGiven> for Apart {
    fn from((groups, freeze): ApartGiven) -> Self {
        Self { groups, freeze }
    }
}

impl Apart {
    /// Says it of these parameters.
    pub(super) fn tell(&self, py: Python<'_>, parameters: &mut Parameters) -> PyResult<()> {
        let names: Vec<String> = parameters.list().iter().map(|p| p.name.clone()).collect();
        let none = |what: &str, prefix: &str| {
            let (known, more) = (names.len().min(8), names.len().saturating_sub(8));
            let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
            let text = format!(
                "{what}: no parameter is called {prefix:?} or lies under it; there are {}{rest}",
                names[..known].join(", ")
            );
            Class::Argument.error(py, text)
        };
        for prefix in &self.freeze {
            if parameters.freeze(prefix) == 0 {
                return Err(none("freeze", prefix));
            }
        }
        for (prefix, lr, weight_decay) in &self.groups {
            if parameters.group(prefix, Group { lr: *lr, weight_decay: *weight_decay }) == 0 {
                return Err(none("groups", prefix));
            }
        }
        if parameters.trainable().is_empty() {
            return Err(Class::Argument.error(py, "freeze leaves no parameter that is trained"));
        }
        Ok(())
    }
}

/// Appends updates of parameters to traced functions.
#[pyclass(frozen, module = "landfall._landfall", name = "Minimiser")]
pub(crate) struct PyMinimiser {
    minimisation: Arc<Minimisation>,
    optimizer: Py<PyOptimizer>,
}

#[pymethods]
impl PyMinimiser {
    #[new]
    fn new(
        py: Python<'_>,
        optimizer: Py<PyOptimizer>,
        params: Vec<(String, Bound<'_, PyAny>)>,
        apart: ApartGiven,
        weight_decay: f64,
        clip: Option<f64>,
    ) -> PyResult<Self> {
        let mut parameters = Parameters::new();
        for (name, shape) in &params {
            parameters.add(name, crate::tensor::sizes::shape(shape)?, Init::Constant(0.0));
        }
        Apart::from(apart).tell(py, &mut parameters)?;
        let own = Arc::clone(&optimizer.get().optimizer);
        Ok(Self {
            minimisation: Arc::new(Minimisation { parameters, optimizer: own, weight_decay, clip }),
            optimizer,
        })
    }

    /// Names of the parameters that are not frozen, in the order in which `minimise` takes them.
    #[getter]
    fn trainable(&self) -> Vec<String> {
        self.minimisation.parameters.trainable().iter().map(|p| p.name.clone()).collect()
    }

    /// Appends the update to the function that is traced; the norm of the gradients, and whether the step was sound.
    fn minimise<'py>(
        &self,
        py: Python<'py>,
        loss: &Bound<'py, Value>,
        lr: &Bound<'py, Value>,
        cursor: &Bound<'py, Value>,
        params: Vec<Bound<'py, Value>>,
        moments: Vec<Vec<Bound<'py, Value>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let loss = loss.get();
        let all = [lr, cursor].into_iter().chain(&params).chain(moments.iter().flatten());
        for value in all {
            if !Arc::ptr_eq(&value.get().tracer, &loss.tracer) {
                return Err(Class::Argument.error(py, "the loss is a value of another traced function"));
            }
        }
        // A function of the caller's is traced before the calls of this one are at hand.
        if let Some(own) = &self.optimizer.get().own {
            for value in &params {
                let spec = value.get().spec();
                own.traced(py, Spec::new(spec.dtype, [spec.shape.elements()]))?;
            }
        }
        let number = |value: &Bound<'_, Value>| value.get().number;
        let step = Step::Minimise {
            of: Arc::clone(&self.minimisation),
            loss: loss.number,
            lr: number(lr),
            cursor: number(cursor),
            parameters: params.iter().map(number).collect(),
            moments: moments.iter().map(|of| of.iter().map(number).collect()).collect(),
        };
        loss.add(py, step)
    }
}

/// The rate of each step of a schedule of the library.
#[pyfunction]
pub(crate) fn _rates(
    py: Python<'_>,
    schedule: &str,
    lr: f64,
    steps: usize,
    steps_per_epoch: usize,
) -> PyResult<Vec<f64>> {
    let names = || Schedule::ALL.iter().map(|s| s.name()).collect::<Vec<_>>().join(", ");
    let named = Schedule::parse(schedule);
    let schedule = named.ok_or_else(|| {
        Class::AttributeValue.error(
            py,
            format!("schedule is {schedule:?}; it must be a function of the step, or one of {}", names()),
        )
    })?;
    Ok(schedule.table(lr, steps, steps_per_epoch))
}
