//! A function's calls on values, recorded so that they can be made again on another graph.

use super::minimisation::Minimisation;
use landfall::ops::{AttributeValue, Tested, method};
use landfall::{Error, Graph, Shape, Spec, StateSpec, Value};
use landfall_train::train::Held;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call. Values are numbered in the order in which calls give them.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A value from outside.
    Input { name: String, spec: Spec },
    /// An op of the table.
    Op { op: Arc<dyn Tested>, args: Vec<usize> },
    /// A method of a graph.
    Method { name: &'static str, args: Vec<Option<usize>>, given: Vec<(&'static str, AttributeValue)> },
    /// Elements set to zero at random while training.
    Dropout { of: usize, rate: f64 },
    /// The gradients of a scalar.
    Gradients { of: usize, with_respect_to: Vec<usize> },
    /// An update of parameters.
    Minimise {
        of: Arc<Minimisation>,
        loss: usize,
        lr: usize,
        cursor: usize,
        parameters: Vec<usize>,
        moments: Vec<Vec<usize>>,
    },
}

impl Step {
    /// The numbers of the values that it takes.
    fn args(&self) -> Vec<usize> {
        match self {
            Self::Input { .. } => Vec::new(),
            Self::Op { args, .. } => args.clone(),
            Self::Method { args, .. } => args.iter().copied().flatten().collect(),
            Self::Dropout { of, .. } => vec![*of],
            Self::Gradients { of, with_respect_to } => with_respect_to.iter().copied().chain([*of]).collect(),
            Self::Minimise { loss, lr, cursor, parameters, moments, .. } => {
                let held = parameters.iter().chain(moments.iter().flatten());
                [*loss, *lr, *cursor].into_iter().chain(held.copied()).collect()
            }
        }
    }
}

/// Where calls are made: what a graph has of its own.
pub(crate) trait Site {
    /// The graph.
    fn graph(&self) -> &Graph;
    /// A value from outside.
    fn input(&self, name: &str, spec: Spec) -> Result<Value, Error> {
        Ok(self.graph().input(name, spec.dtype, spec.shape))
    }
    /// Dropout, which a forward pass alone leaves out.
    fn dropout(&self, of: Value, _rate: f64) -> Result<Value, Error> {
        Ok(of)
    }
}

impl Site for Graph {
    fn graph(&self) -> &Graph {
        self
    }
}

impl Step {
    /// Makes the call: `values` are those that the calls before gave.
    fn perform(&self, at: &impl Site, values: &[Value]) -> Result<Vec<Value>, Error> {
        let graph = at.graph();
        let all = |args: &[usize]| args.iter().map(|&arg| values[arg]).collect::<Vec<Value>>();
        match self {
            Self::Input { name, spec } => Ok(vec![at.input(name, *spec)?]),
            Self::Op { op, args } => graph.op_dyn(Arc::clone(op) as _, &all(args)),
            Self::Method { name, args, given } => {
                let args: Vec<Option<Value>> = args.iter().map(|arg| arg.map(|arg| values[arg])).collect();
                method(graph, name, &args, given)
            }
            Self::Dropout { of, rate } => Ok(vec![at.dropout(values[*of], *rate)?]),
            Self::Gradients { of, with_respect_to } => {
                let named: Vec<(String, Value)> =
                    with_respect_to.iter().map(|&n| (format!("value {n}"), values[n])).collect();
                landfall::grad(graph, values[*of], &named)
            }
            Self::Minimise { of, loss, lr, cursor, parameters, moments } => {
                let held = Held {
                    parameters: all(parameters),
                    moments: moments.iter().map(|of| all(of)).collect(),
                    cursor: values[*cursor],
                };
                of.append(graph, values[*loss], values[*lr], &held)
            }
        }
    }
}

/// The calls of a function so far, and a graph on which each was made at once: its errors come from the caller's line, and
/// the function sees shapes.
#[derive(Debug)]
pub(crate) struct Tracer(Mutex<Tracing>);

#[derive(Debug)]
struct Tracing {
    graph: Graph,
    steps: Vec<Step>,
    values: Vec<Value>,
}

impl Tracer {
    pub(crate) fn new() -> Arc<Self> {
        let graph = Graph::new(&Arc::new(StateSpec::new()));
        Arc::new(Self(Mutex::new(Tracing { graph, steps: Vec::new(), values: Vec::new() })))
    }

    fn tracing(&self) -> MutexGuard<'_, Tracing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call and records it; the numbers of its values.
    pub(crate) fn add(&self, step: Step) -> Result<Range<usize>, Error> {
        let mut tracing = self.tracing();
        let values = distinct(&step, &tracing.graph, &tracing.values)?;
        let first = tracing.values.len();
        tracing.values.extend(values);
        tracing.steps.push(step);
        Ok(first..tracing.values.len())
    }

    /// Replaces values of a pointwise op's arguments by ones of their common shape.
    pub(crate) fn broadcast(&self, args: &mut [usize]) -> Result<(), Error> {
        let common = args.iter().try_fold(Shape::SCALAR, |to, &arg| to.broadcast(&self.spec(arg).shape));
        // Shapes that do not fit are refused by the op, with its name.
        let Some(common) = common else { return Ok(()) };
        for arg in args.iter_mut().filter(|arg| self.spec(**arg).shape != common) {
            let sizes = AttributeValue::Ints(common.dims().iter().map(|&d| d as i64).collect());
            let step =
                Step::Method { name: "broadcast_to", args: vec![Some(*arg)], given: vec![("shape", sizes)] };
            *arg = self.add(step)?.start;
        }
        Ok(())
    }

    /// Dtype and shape of a value.
    pub(crate) fn spec(&self, value: usize) -> Spec {
        let tracing = self.tracing();
        tracing.graph.spec(tracing.values[value])
    }

    /// The recorded calls.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.tracing().steps.clone()
    }
}

/// Makes a call, whose results are values of their own: a gradient with respect to one is not that of an argument, or of another call's.
fn distinct(step: &Step, at: &impl Site, values: &[Value]) -> Result<Vec<Value>, Error> {
    let graph = at.graph();
    graph.distinct(|| {
        let mut given = step.perform(at, values)?;
        // A call that changes nothing gives its argument; a view of it is another value.
        let args: Vec<Value> = step.args().into_iter().map(|number| values[number]).collect();
        for value in given.iter_mut().filter(|value| args.contains(value)) {
            *value = graph.reshape(*value, graph.shape(*value))?;
        }
        Ok(given)
    })
}

/// Makes recorded calls on another graph; all values, by number.
pub(crate) fn replay(steps: &[Step], at: &impl Site) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    for step in steps {
        let given = distinct(step, at, &values)?;
        values.extend(given);
    }
    Ok(values)
}
