//! A function's calls on values, recorded so that they can be made again on another graph.

use super::minimisation::Minimisation;
use landfall::ops::{AttributeValue, Tested, cursor, method};
use landfall::{DType, Error, Graph, HostTensor, Shape, Spec, StateSpec, Value, grad};
use landfall_train::nn::{Context, Dropout, Mode, Parameters};
use landfall_train::train::Held;
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
    /// Random numbers: uniform in a range, or normal.
    Draw { spec: Spec, range: Option<(f64, f64)> },
    /// The gradients of a scalar; zeros of values that it does not depend on, or an error.
    Gradients { of: usize, with_respect_to: Vec<usize>, allow_unused: bool },
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
            Self::Input { .. } | Self::Constant { .. } | Self::Draw { .. } => Vec::new(),
            Self::Op { args, .. } => args.clone(),
            Self::Method { args, .. } => args.iter().copied().flatten().collect(),
            Self::Dropout { of, .. } => vec![*of],
            Self::Gradients { of, with_respect_to, .. } => {
                with_respect_to.iter().copied().chain([*of]).collect()
            }
            Self::Minimise { loss, lr, cursor, parameters, moments, .. } => {
                let held = parameters.iter().chain(moments.iter().flatten());
                [*loss, *lr, *cursor].into_iter().chain(held.copied()).collect()
            }
        }
    }
}

/// A call, and the block that is computed again for its gradients in which it was made, if any.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) step: Step,
    block: Option<usize>,
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
    /// Random numbers. Where there is no place for them, they have to come as an input.
    fn draw(&self, spec: Spec, _range: Option<(f64, f64)>) -> Result<Value, Error> {
        let why = "random numbers have no place here; draw them before, and give them as data".to_owned();
        Err(Error::Binding { name: spec.to_string(), why })
    }
}

/// Where a function is traced: its values have dtypes and shapes alone.
impl Site for Graph {
    fn graph(&self) -> &Graph {
        self
    }

    /// Only dtype and shape count while a function is traced.
    fn constant(&self, name: &str, value: &HostTensor) -> Result<Value, Error> {
        Ok(self.input(name, value.spec.dtype, value.spec.shape))
    }
    fn draw(&self, spec: Spec, range: Option<(f64, f64)>) -> Result<Value, Error> {
        let cursor = self.fill(DType::I64, [cursor::LEN], 0)?;
        let mode = Mode::Draw { cursor, dropout: false };
        Context::new(self, &Parameters::new(), mode).draw(spec, range)
    }
}

/// A forward pass. Arrays with their numbers are read-only entries of its state.
impl Site for Context<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }
    fn constant(&self, name: &str, _: &HostTensor) -> Result<Value, Error> {
        self.graph.entry(name)
    }
    fn dropout(&self, of: Value, rate: f64) -> Result<Value, Error> {
        Dropout { rate }.forward(self, of)
    }
    fn draw(&self, spec: Spec, range: Option<(f64, f64)>) -> Result<Value, Error> {
        match range {
            Some((low, high)) => self.uniform(spec, low, high),
            None => self.normal(spec),
        }
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
            Self::Draw { spec, range } => Ok(vec![at.draw(*spec, *range)?]),
            Self::Gradients { of, with_respect_to, allow_unused } => {
                let named = |(i, &n): (usize, &usize)| {
                    let own = graph.name_of(values[n]).map_or_else(String::new, |name| format!(" ({name})"));
                    (format!("values[{i}]{own}"), values[n])
                };
                let named: Vec<(String, Value)> = with_respect_to.iter().enumerate().map(named).collect();
                if *allow_unused {
                    gradients_or_zeros(graph, values[*of], named)
                } else {
                    grad(graph, values[*of], &named)
                }
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
    steps: Vec<Recorded>,
    values: Vec<Value>,
    /// The line that made each value.
    lines: Vec<Option<Line>>,
    /// The block in which calls are made now, and the number of blocks so far.
    block: Option<usize>,
    blocks: usize,
}

impl Tracer {
    pub(crate) fn new() -> Arc<Self> {
        let graph = Graph::new(&Arc::new(StateSpec::new()));
        Arc::new(Self(Mutex::new(Tracing {
            graph,
            steps: Vec::new(),
            values: Vec::new(),
            lines: Vec::new(),
            block: None,
            blocks: 0,
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
        let (count, block) = (tracing.values.len(), tracing.block);
        tracing.lines.resize(count, line);
        tracing.steps.push(Recorded { step, block });
        Ok(first..tracing.values.len())
    }

    /// An array as a value.
    pub(crate) fn constant(&self, value: HostTensor) -> Result<usize, Error> {
        let name = format!("constant {}", self.tracing().values.len());
        Ok(self.add(Step::Constant { name, value: Arc::new(value) })?.start)
    }

    /// Begins a block that is computed again for its gradients; false within another, of which it is a part.
    pub(crate) fn begin_block(&self) -> bool {
        let mut tracing = self.tracing();
        let begins = tracing.block.is_none();
        if begins {
            tracing.blocks += 1;
            tracing.block = Some(tracing.blocks);
        }
        begins
    }

    /// Ends the block.
    pub(crate) fn end_block(&self) {
        self.tracing().block = None;
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
    pub(crate) fn steps(&self) -> Vec<Recorded> {
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
pub(crate) fn replay(steps: &[Recorded], at: &impl Site) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    for part in steps.chunk_by(|a, b| a.block == b.block) {
        let mut make = || {
            part.iter().try_for_each(|recorded| {
                let given = distinct(&recorded.step, at, &values)?;
                values.extend(given);
                Ok::<(), Error>(())
            })
        };
        let in_block = part.iter().any(|recorded| recorded.block.is_some());
        if in_block { at.graph().checkpoint(make) } else { make() }?;
    }
    Ok(values)
}
