//! `landfall.compile`: a traced function as a program whose memory is planned before it runs.

use super::trace::{Line, Recorded, Step, Tracer, replay};
use super::value::Value;
use crate::device::Imported;
use crate::error::{Class, Raise};
use crate::operand;
use crate::tensor::Tensor;
use crate::{dtype, engines};
use landfall::ops::cursor;
use landfall::{
    Binding, DeviceKind, Engine, Error, ForeignStream, Graph, Program, Spec, State, StateSpec, Value as Node,
    View,
};
use landfall_train::nn::{Context, Mode, Parameters};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The calls of a function, while it is traced.
#[pyclass(frozen, module = "landfall", name = "Trace")]
pub(crate) struct Trace {
    pub(super) tracer: Arc<Tracer>,
}

#[pymethods]
impl Trace {
    #[new]
    fn new() -> Self {
        Self { tracer: Tracer::new() }
    }

    /// A value from outside, by name.
    fn input(&self, name: String, dtype: &Bound<'_, PyAny>, shape: &Bound<'_, PyAny>) -> PyResult<Value> {
        let spec = Spec::new(dtype::of(dtype)?, crate::tensor::sizes::shape(shape)?);
        let number = self.tracer.add(Step::Input { name, spec }).raised(dtype.py())?.start;
        Ok(Value { tracer: Arc::clone(&self.tracer), number })
    }

    /// Random numbers: uniform from `low` to `high`, or normal without these.
    fn draw(
        &self,
        dtype: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        range: Option<(f64, f64)>,
    ) -> PyResult<Value> {
        let spec = Spec::new(dtype::of(dtype)?, crate::tensor::sizes::shape(shape)?);
        let number = self.tracer.add(Step::Draw { spec, range }).raised(dtype.py())?.start;
        Ok(Value { tracer: Arc::clone(&self.tracer), number })
    }

    /// Whether random numbers were drawn.
    #[getter]
    fn draws(&self) -> bool {
        self.tracer.steps().iter().any(|recorded| matches!(recorded.step, Step::Draw { .. }))
    }

    /// Begins a block that is computed again for its gradients; false within another, of which it is a part.
    fn begin_block(&self) -> bool {
        self.tracer.begin_block()
    }

    /// Ends the block.
    fn end_block(&self) {
        self.tracer.end_block();
    }
}

/// A compiled function. Its memory is planned, checked and allocated once; a run allocates nothing. On a GPU it is one CUDA
/// graph. It owns that memory, its arena, as long as it lives: a CUDA graph of another library's that captured it must not be
/// replayed after.
#[pyclass(frozen, module = "landfall._landfall", name = "Program")]
pub(crate) struct Compiled {
    ready: Mutex<Ready>,
    engine: &'static Engine,
    generation: u64,
    function: Function,
    /// Names and specs, in order.
    inputs: Vec<(String, Spec)>,
    outputs: Vec<(String, Spec)>,
}

/// What was traced.
struct Function {
    steps: Vec<Recorded>,
    /// The numbers of the values that are outputs, by name.
    outputs: Vec<(String, usize)>,
    /// The line of the user's that made each value.
    lines: Vec<Option<Line>>,
    /// Of one that draws random numbers, whether dropout drops.
    drawing: Option<bool>,
}

/// The input of a program's cursor.
const DRAWS: &str = "cursor of draws";

struct Ready {
    program: Program,
    state: State,
    /// The memory of the caller's in which inputs lie, by name.
    bound: BTreeMap<String, View>,
    /// The inputs among them that a call was given, and that lie in memory of the program's since.
    away: BTreeSet<String>,
}

impl Ready {
    /// Places the inputs that were bound where the caller's memory is, but for those that a call is given: what is bound is the
    /// caller's, and a call does not write it.
    fn place(&mut self, engine: &Engine, given: &BTreeMap<String, Imported>) -> Result<(), Error> {
        let mut moved = Vec::new();
        for (name, view) in &self.bound {
            let is_away = self.away.contains(name);
            match given.contains_key(name) {
                true if !is_away => moved.push((name, engine.empty(view.dtype(), view.shape())?.into())),
                false if is_away => moved.push((name, view.clone())),
                true | false => {}
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        let places: Vec<(Binding<'_>, &View)> =
            moved.iter().map(|(name, view)| (Binding::Input(name), view)).collect();
        self.program.bind(&places)?;
        self.away = self.bound.keys().filter(|name| given.contains_key(*name)).cloned().collect();
        Ok(())
    }
}

/// Compiles traced calls: `outputs` are values by name.
#[pyfunction]
pub(crate) fn _compile(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    outputs: Vec<(String, Bound<'_, Value>)>,
    device: Option<&str>,
    dropout: bool,
) -> PyResult<Compiled> {
    let engine = engines::on(py, engines::device(py, device)?)?;
    let tracer = &trace.get().tracer;
    let steps = tracer.steps();
    let inputs = steps.iter().filter_map(|recorded| match &recorded.step {
        Step::Input { name, spec } => Some((name.clone(), *spec)),
        Step::Constant { .. }
        | Step::Op { .. }
        | Step::Method { .. }
        | Step::Dropout { .. }
        | Step::Draw { .. }
        | Step::Gradients { .. }
        | Step::Minimise { .. } => None,
    });
    let inputs: Vec<(String, Spec)> = inputs.collect();
    let draws = steps.iter().any(|recorded| match recorded.step {
        Step::Draw { .. } => true,
        Step::Dropout { .. } => dropout,
        Step::Input { .. }
        | Step::Constant { .. }
        | Step::Op { .. }
        | Step::Method { .. }
        | Step::Gradients { .. }
        | Step::Minimise { .. } => false,
    });
    let mut named = Vec::new();
    for (name, value) in &outputs {
        let value = value.get();
        if !Arc::ptr_eq(&value.tracer, tracer) {
            return Err(
                Class::Argument.error(py, format!("output {name} is a value of another traced function"))
            );
        }
        named.push((name.clone(), value.number));
    }
    let outputs = outputs.iter().map(|(name, value)| (name.clone(), value.get().spec())).collect();
    let drawing = draws.then_some(dropout);
    let function = Function { steps, outputs: named, lines: tracer.lines(), drawing };
    let ready = py.detach(|| {
        let first = function.ready(engine, &[], |_, _| ())?;
        // An output that lies in other memory, such as a part of an input, is copied to memory of its own.
        let parts = function
            .outputs
            .iter()
            .map(|(name, _)| name)
            .filter(|name| first.program.view(Binding::Output(name)).is_err());
        let parts: Vec<&String> = parts.collect();
        if parts.is_empty() { Ok(first) } else { function.ready(engine, &parts, |_, _| ()) }
    });
    let ready = Mutex::new(ready.raised(py)?);
    Ok(Compiled { ready, engine, generation: engines::generation(), function, inputs, outputs })
}

impl Function {
    /// Compiles the calls with their outputs, of which some are copied; `named` sees the graph and its values.
    fn ready(
        &self,
        engine: &Engine,
        copied: &[&String],
        named: impl FnOnce(&Graph, &[Node]),
    ) -> Result<Ready, Error> {
        let mut spec = StateSpec::new();
        let constants = || {
            self.steps.iter().filter_map(|recorded| {
                if let Step::Constant { name, value } = &recorded.step { Some((name, value)) } else { None }
            })
        };
        for (name, value) in constants() {
            spec.add_constant(
                &format!("memory of {name}"),
                value.spec.dtype,
                &[(name.clone(), value.spec.shape)],
            )?;
        }
        let spec = Arc::new(spec);
        let graph = Graph::new(&spec);
        let mode = match self.drawing {
            Some(dropout) => Mode::Draw { cursor: graph.draws(DRAWS)?, dropout },
            None => Mode::Evaluate,
        };
        let values = replay(&self.steps, &Context::new(&graph, &Parameters::new(), mode))?;
        named(&graph, &values);
        for (name, number) in &self.outputs {
            let value = values[*number];
            let copy = copied.contains(&name);
            graph.output(name, if copy { graph.op1(landfall::ops::Copy, &[value])? } else { value });
        }
        let mut state = State::new(engine, &spec)?;
        for (name, value) in constants() {
            state.write_host(name, value)?;
        }
        let program = Program::compile(engine, &state, "function", &graph)?;
        Ok(Ready { program, state, bound: BTreeMap::new(), away: BTreeSet::new() })
    }
}

impl Compiled {
    /// Runs `work` on the program without the interpreter's lock, on the stream of the arrays.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        stream: Option<ForeignStream>,
        work: impl FnOnce(&mut Ready) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        if self.generation != engines::generation() {
            return Err(Class::Device.error(
                py,
                "the program was compiled before this process was forked, and its memory belongs to the parent; compile it here",
            ));
        }
        engines::issue(py, self.engine, stream, || {
            work(&mut self.ready.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Arrays by name, each of an input or output.
    fn imported(&self, arrays: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, Imported>> {
        let read = |(name, array): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let name: String = name.extract()?;
            let array = operand::required(&array, &name)?;
            self.on_device(array.view.device(), &name, arrays.py())?;
            Ok((name, array))
        };
        arrays.iter().map(read).collect()
    }

    fn on_device(&self, device: DeviceKind, name: &str, py: Python<'_>) -> PyResult<()> {
        if device == self.engine.device() {
            return Ok(());
        }
        let text =
            format!("{name} is on {device}, the program on {}; copy it there first", self.engine.device());
        Err(Class::Device.error(py, text))
    }
}

#[pymethods]
impl Compiled {
    /// Names, dtypes and shapes of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        described(&self.inputs)
    }

    /// Names, dtypes and shapes of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        described(&self.outputs)
    }

    /// The device's name.
    #[getter]
    fn device(&self) -> String {
        self.engine.device().to_string()
    }

    /// Draws from this seed on. A program that draws is given one before its first run.
    fn seed(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        if self.function.drawing.is_none() {
            return Err(Class::Argument.error(py, "the program draws no random numbers, so it has no seed"));
        }
        self.with(py, None, |ready| ready.program.write(DRAWS, &cursor::seeded(seed)))
    }

    /// Whether it draws random numbers.
    #[getter]
    fn draws(&self) -> bool {
        self.function.drawing.is_some()
    }

    /// The memory plan, as JSON.
    fn _report(&self, py: Python<'_>) -> PyResult<String> {
        let report = self.with(py, None, |ready| Ok(ready.program.report()))?;
        serde_json::to_string(&report).map_err(|e| Class::Error.error(py, e.to_string()))
    }

    /// Copies these inputs, on the device, runs, and copies the results to `out`, or to new tensors.
    fn call(
        &self,
        py: Python<'_>,
        arrays: &Bound<'_, PyDict>,
        out: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Tensor>> {
        let inputs = self.imported(arrays)?;
        let outputs = out.map(|out| self.imported(out)).transpose()?;
        let all = || inputs.values().chain(outputs.iter().flat_map(BTreeMap::values));
        let stream = all().find_map(|array| array.stream);
        let results = self.with(py, stream, |ready| {
            ready.place(self.engine, &inputs)?;
            ready.program.write_views(&views(&inputs))?;
            let given = |name: &String| outputs.as_ref().and_then(|out| out.get(name));
            let mut to = Vec::new();
            for (name, _) in &self.outputs {
                to.extend(given(name).map(|array| (name.as_str(), &array.view)));
            }
            ready.program.run_to(&mut ready.state, &to)?;
            let mut results = Vec::new();
            for (name, _) in self.outputs.iter().filter(|_| outputs.is_none()) {
                let from = ready.program.view(Binding::Output(name))?;
                results.extend(self.engine.eval_views(&landfall::ops::Copy, &[&from])?);
            }
            Ok(results)
        })?;
        Ok(results.into_iter().map(Tensor::new).collect())
    }

    /// Runs in the memory that is bound, or was written: no copy, no allocation. `stream_of` is an array on whose library's
    /// current stream it runs.
    #[pyo3(signature = (stream_of = None))]
    fn run(&self, py: Python<'_>, stream_of: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let stream = stream_of.map(|array| operand::required(array, "stream_of")).transpose()?;
        self.with(py, stream.and_then(|array| array.stream), |ready| {
            ready.place(self.engine, &BTreeMap::new())?;
            ready.program.run(&mut ready.state)
        })
    }

    /// Searches the values of a run on these inputs, or on what is bound or was written, for the first that is not finite: the error
    /// names its line.
    fn find_non_finite(&self, py: Python<'_>, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let inputs = self.imported(arrays)?;
        let stream = inputs.values().find_map(|array| array.stream);
        let lines: Vec<Option<String>> =
            self.function.lines.iter().map(|line| line.as_ref().map(|line| line.text(py))).collect();
        self.with(py, stream, |ready| {
            ready.place(self.engine, &inputs)?;
            ready.program.write_views(&views(&inputs))?;
            // It refuses inputs that were never written.
            ready.program.run(&mut ready.state)?;
            // Without fusion each value that a line made lies in memory of its own.
            let copied: Vec<&String> = self.function.outputs.iter().map(|(name, _)| name).collect();
            let mut single =
                self.function.ready(&self.engine.with_fusion(false), &copied, |graph, values| {
                    for (&value, line) in values.iter().zip(&lines) {
                        if let Some(line) = line {
                            graph.name(value, line);
                        }
                    }
                })?;
            for (name, spec) in &self.inputs {
                let view = match ready.bound.get(name).filter(|_| !ready.away.contains(name)) {
                    Some(bound) => bound.clone(),
                    None => ready.program.view(Binding::Input(name))?,
                };
                if spec.dtype.is_float() {
                    finite(name, &view)?;
                }
                single.program.write_views(&[(name, &view)])?;
            }
            single.program.find_non_finite(&mut single.state)
        })
    }

    /// Places inputs and outputs in the memory of these arrays: runs then read and write it in place. The arrays must lie
    /// row-major without gaps, and are kept alive. It records the program anew.
    fn bind(&self, py: Python<'_>, inputs: &Bound<'_, PyDict>, outputs: &Bound<'_, PyDict>) -> PyResult<()> {
        let (inputs, outputs) = (self.imported(inputs)?, self.imported(outputs)?);
        let places = inputs.iter().map(|(name, array)| (Binding::Input(name), &array.view));
        let places = places.chain(outputs.iter().map(|(name, array)| (Binding::Output(name), &array.view)));
        let places: Vec<_> = places.collect();
        let stream = inputs.values().chain(outputs.values()).find_map(|array| array.stream);
        self.with(py, stream, |ready| {
            ready.program.bind(&places)?;
            for (name, array) in &inputs {
                ready.bound.insert(name.clone(), array.view.clone());
                ready.away.remove(name);
            }
            Ok(())
        })
    }

    /// The memory of an input or of an output, without a copy: an output's holds the result until the next run.
    fn memory(&self, py: Python<'_>, name: &str, of_input: bool) -> PyResult<Tensor> {
        let view = self.with(py, None, |ready| match ready.bound.get(name) {
            Some(bound) if of_input => Ok(bound.clone()),
            Some(_) | None if of_input => ready.program.view(Binding::Input(name)),
            Some(_) | None => ready.program.view(Binding::Output(name)),
        });
        view.map(Tensor::new)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(Class::Error.error(
            py,
            "a program is memory of a device and code for it, and is not pickled; pickle its function and params, and compile \
             them again",
        ))
    }
}

fn views(arrays: &BTreeMap<String, Imported>) -> Vec<(&str, &View)> {
    arrays.iter().map(|(name, array)| (name.as_str(), &array.view)).collect()
}

/// That all numbers of an input are finite.
fn finite(name: &str, view: &View) -> Result<(), Error> {
    let values = view.read_host()?;
    match values.data.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((element, &value)) => {
            Err(Error::NonFinite { name: format!("the input {name}"), op: "the call", element, value })
        }
    }
}

fn described(list: &[(String, Spec)]) -> Vec<(String, &'static str, Vec<usize>)> {
    let one = |(name, spec): &(String, Spec)| {
        (name.clone(), dtype::numpy_name(spec.dtype), spec.shape.dims().to_vec())
    };
    list.iter().map(one).collect()
}
