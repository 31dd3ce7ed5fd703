//! A function's calls on values, recorded so that they can be made again on another graph.

use landfall::ops::{AttributeValue, Tested, method};
use landfall::{Error, Graph, HostTensor, Shape, Spec, StateSpec, Value, grad};
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call. Values are numbered in the order in which calls give them.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A value from outside.
    Input { name: String, spec: Spec },
    /// An array with its numbers, under a name of its own.
    Constant { name: String, value: Arc<HostTensor> },
    /// An op of the table.
    Op { op: Arc<dyn Tested>, args: Vec<usize> },
    /// A method of a graph.
    Method { name: &'static str, args: Vec<Option<usize>>, given: Vec<(&'static str, AttributeValue)> },
    /// Elements set to zero at random while training.
    Dropout { of: usize, rate: f64 },
    /// The gradients of a scalar; zeros of values that it does not depend on, or an error.
    Gradients { of: usize, with_respect_to: Vec<usize>, allow_unused: bool },
}

impl Step {
    /// The numbers of the values that it takes.
    fn args(&self) -> Vec<usize> {
        match self {
            Self::Input { .. } | Self::Constant { .. } => Vec::new(),
            Self::Op { args, .. } => args.clone(),
            Self::Method { args, .. } => args.iter().copied().flatten().collect(),
            Self::Dropout { of, .. } => vec![*of],
            Self::Gradients { of, with_respect_to, .. } => {
                with_respect_to.iter().copied().chain([*of]).collect()
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
    /// An array with its numbers. Where there is no place for it, it has to come as an input.
    fn constant(&self, name: &str, value: &HostTensor) -> Result<Value, Error> {
        let why = format!(
            "{} is an array that the function has beside its values, which has no place here; give it as data or as a parameter",
            value.spec
        );
        Err(Error::Binding { name: name.to_owned(), why })
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

    /// Only dtype and shape count while a function is traced.
    fn constant(&self, name: &str, value: &HostTensor) -> Result<Value, Error> {
        Ok(self.input(name, value.spec.dtype, value.spec.shape))
    }
}

impl Step {
    /// Makes the call: `values` are those that the calls before gave.
    fn perform(&self, at: &impl Site, values: &[Value]) -> Result<Vec<Value>, Error> {
        let graph = at.graph();
        let all = |args: &[usize]| args.iter().map(|&arg| values[arg]).collect::<Vec<Value>>();
        match self {
            Self::Input { name, spec } => Ok(vec![at.input(name, *spec)?]),
            Self::Constant { name, value } => Ok(vec![at.constant(name, value)?]),
            Self::Op { op, args } => graph.op_dyn(Arc::clone(op) as _, &all(args)),
            Self::Method { name, args, given } => {
                let args: Vec<Option<Value>> = args.iter().map(|arg| arg.map(|arg| values[arg])).collect();
                method(graph, name, &args, given)
            }
            Self::Dropout { of, rate } => Ok(vec![at.dropout(values[*of], *rate)?]),
            Self::Gradients { of, with_respect_to, allow_unused } => {
                let named =
                    with_respect_to.iter().map(|&n| (format!("value {n}"), values[n])).collect::<Vec<_>>();
                if *allow_unused {
                    gradients_or_zeros(graph, values[*of], named)
                } else {
                    grad(graph, values[*of], &named)
                }
            }
        }
    }
}

/// The gradients of a scalar, zeros of values that it does not depend on.
fn gradients_or_zeros(graph: &Graph, of: Value, named: Vec<(String, Value)>) -> Result<Vec<Value>, Error> {
    let mut used = named.clone();
    let found = loop {
        match grad(graph, of, &used) {
            Err(Error::NoPath { name, .. }) => used.retain(|(own, _)| *own != name),
            found => break found?,
        }
    };
    let one = |(name, value): &(String, Value)| match used.iter().position(|(own, _)| own == name) {
        Some(place) => Ok(found[place]),
        None => graph.fill(graph.spec(*value).dtype, graph.shape(*value), 0.0),
    };
    named.iter().map(one).collect()
}

/// A line of the user's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    file: String,
    number: usize,
}

impl Line {
    /// The line outside of this package that runs now.
    fn current() -> Option<Self> {
        Python::attach(|py| {
            let mut frame = py.import("sys").ok()?.call_method1("_getframe", (0,)).ok()?;
            loop {
                let module = frame.getattr("f_globals").ok()?.get_item("__name__").ok();
                let module = module.and_then(|name| name.extract::<String>().ok()).unwrap_or_default();
                if module != "landfall" && !module.starts_with("landfall.") {
                    break;
                }
                frame = frame.getattr("f_back").ok().filter(|back| !back.is_none())?;
            }
            let file = frame.getattr("f_code").ok()?.getattr("co_filename").ok()?.extract().ok()?;
            Some(Self { file, number: frame.getattr("f_lineno").ok()?.extract().ok()? })
        })
    }

    /// Its place and, where the file can be read, its text.
    pub(crate) fn text(&self, py: Python<'_>) -> String {
        let Self { file, number } = self;
        let source = py
            .import("linecache")
            .and_then(|lines| lines.call_method1("getline", (file, *number))?.extract::<String>())
            .unwrap_or_default();
        match source.trim() {
            "" => format!("{file}:{number}"),
            source => format!("{file}:{number}: `{source}`"),
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
    /// The line that made each value.
    lines: Vec<Option<Line>>,
}

impl Tracer {
    pub(crate) fn new() -> Arc<Self> {
        let graph = Graph::new(&Arc::new(StateSpec::new()));
        Arc::new(Self(Mutex::new(Tracing {
            graph,
            steps: Vec::new(),
            values: Vec::new(),
            lines: Vec::new(),
        })))
    }

    fn tracing(&self) -> MutexGuard<'_, Tracing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call and records it; the numbers of its values.
    pub(crate) fn add(&self, step: Step) -> Result<Range<usize>, Error> {
        // Before the lock: it asks the interpreter, which may let another thread run.
        let line = Line::current();
        let mut tracing = self.tracing();
        let values = distinct(&step, &tracing.graph, &tracing.values)?;
        let first = tracing.values.len();
        tracing.values.extend(values);
        let count = tracing.values.len();
        tracing.lines.resize(count, line);
        tracing.steps.push(step);
        Ok(first..tracing.values.len())
    }

    /// An array as a value.
    pub(crate) fn constant(&self, value: HostTensor) -> Result<usize, Error> {
        let name = format!("constant {}", self.tracing().values.len());
        Ok(self.add(Step::Constant { name, value: Arc::new(value) })?.start)
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

    /// The line that made each value, by number.
    pub(crate) fn lines(&self) -> Vec<Option<Line>> {
        self.tracing().lines.clone()
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
