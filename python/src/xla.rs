//! Ops of the table as calls that XLA makes: in its buffers, on its stream, without the interpreter.

use crate::attribute;
use crate::device::{Call, Given, Handler, Refused, xla_capsule};
use crate::error::{Class, Raise};
use crate::ops::{Entry, entry, found};
use crate::tensor::sizes::shape;
use crate::{dtype, engines};
use landfall::ops::AttributeValue;
use landfall::{DeviceKind, Spec, View};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The attribute of a call that names the op; the others are the op's.
const OP: &str = "landfall_op";
/// The arguments whose last two axes are read swapped.
const SWAPPED: &str = "landfall_swapped";

/// Calls on the CPU.
struct OnCpu;
/// Calls on GPUs.
struct OnCuda;

impl Handler for OnCpu {
    const CUDA: bool = false;
    fn execute(call: &Call<'_>) -> Result<(), Refused> {
        execute(call)
    }
}

impl Handler for OnCuda {
    const CUDA: bool = true;
    fn execute(call: &Call<'_>) -> Result<(), Refused> {
        execute(call)
    }
}

/// The handler of calls on a device's platform, as a capsule; makes the device's engine.
#[pyfunction]
pub(crate) fn _xla_handler(py: Python<'_>, device: &str) -> PyResult<Py<PyAny>> {
    match engines::make_ready(py, engines::device(py, Some(device))?)?.device() {
        DeviceKind::Cuda(_) => xla_capsule::<OnCuda>(py),
        DeviceKind::Cpu | DeviceKind::Null => xla_capsule::<OnCpu>(py),
    }
}

/// Specs of results, bytes of workspace, for each result the argument that it updates, and the attributes as the engine names them.
type Results<'py> =
    (Vec<(&'static str, Vec<usize>)>, usize, Vec<Option<usize>>, Vec<(&'static str, Bound<'py, PyAny>)>);

/// What a call of an op has, for arguments of these dtypes and sizes, on the devices with a handler.
#[pyfunction]
pub(crate) fn _xla_results<'py>(
    py: Python<'py>,
    name: &str,
    attributes: &Bound<'py, PyDict>,
    args: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    devices: Vec<String>,
) -> PyResult<Results<'py>> {
    let entry = entry(py, name)?;
    let mut given = Vec::new();
    for (key, value) in attributes.iter() {
        let key: String = key.extract()?;
        let Some(declared) = entry.attributes().find(|attribute| attribute.name == key) else {
            let known: Vec<&str> = entry.attributes().map(|attribute| attribute.name).collect();
            return Err(Class::Argument.error(py, crate::keyword::unknown(py, name, &key, &known)?));
        };
        given.push((declared.name, attribute::value(declared, &value)?));
    }
    let mut specs = Vec::new();
    for (of, sizes) in &args {
        specs.push(Spec::new(dtype::of(of)?, shape(sizes)?));
    }
    let op = entry.made(py, &given, &specs)?;
    let results = op.infer(&specs).map_err(|rule| rule.of(op.name(), &specs, None, None)).raised(py)?;
    let mut workspace = 0;
    for device in devices {
        let engine = engines::make_ready(py, engines::device(py, Some(&device))?)?;
        workspace = workspace.max(engine.workspace(op.as_ref(), &specs).raised(py)?);
    }
    let described = |spec: &Spec| (dtype::numpy_name(spec.dtype), spec.shape.dims().to_vec());
    let updated = op.outputs().iter().map(|output| output.updated()).collect();
    let named = given.iter().filter(|(_, value)| *value != AttributeValue::None);
    let named = named.map(|(name, value)| Ok((*name, object(py, value)?))).collect::<PyResult<_>>()?;
    Ok((results.iter().map(described).collect(), workspace, updated, named))
}

/// A value as XLA is given it: names are the engine's.
fn object<'py>(py: Python<'py>, value: &AttributeValue) -> PyResult<Bound<'py, PyAny>> {
    if let AttributeValue::Text(name) = value {
        return Ok(PyString::new(py, name).into_any());
    }
    attribute::object(py, value)
}

/// Runs the op of a call in its buffers. Every call checks them by the op's rules, those of shared memory among them.
fn execute(call: &Call<'_>) -> Result<(), Refused> {
    let refused = |why: String| Refused::Text(why);
    let mut attributes = call.attributes()?;
    let mut taken = |name: &str| {
        let at = attributes.iter().position(|(own, _)| own == name)?;
        Some(attributes.remove(at).1)
    };
    let Some(Given::Text(name)) = taken(OP) else {
        return Err(refused(format!("the call has no attribute {OP}; make it with landfall.jax")));
    };
    let swapped = match taken(SWAPPED) {
        Some(Given::Ints(list)) => list,
        _ => Vec::new(),
    };
    let Some(entry) = found(&name) else {
        return Err(refused(format!(
            "no op is called {name:?} in this landfall; the program was compiled with another version: compile it again"
        )));
    };
    let device = call.device()?;
    let Some(engine) = engines::ready(device) else {
        return Err(refused(format!(
            "landfall has no engine on {device}; import landfall.jax in this process"
        )));
    };
    let attributes = read(entry, attributes).map_err(refused)?;
    let stream = call.stream()?;
    engines::on_stream(engine, stream, || {
        let input = |i: usize| {
            let view = call.argument(engine, i)?;
            if !swapped.contains(&(i as i64)) {
                return Ok(view);
            }
            let mut axes: Vec<usize> = (0..view.shape().rank()).collect();
            let last = axes.len().saturating_sub(2);
            axes[last..].reverse();
            Ok(view.permute(&axes)?)
        };
        let inputs = (0..call.arguments()).map(input).collect::<Result<Vec<View>, Refused>>()?;
        let specs: Vec<Spec> = inputs.iter().map(View::spec).collect();
        let op = entry.op_for(&attributes, &specs)?;
        let count = op.outputs().len();
        let outputs = (0..count).map(|j| call.result(engine, j)).collect::<Result<Vec<View>, Refused>>()?;
        let (inputs, outputs): (Vec<&View>, Vec<&View>) = (inputs.iter().collect(), outputs.iter().collect());
        if call.results() == count {
            return Ok(engine.call_views(op.as_ref(), &inputs, &outputs)?);
        }
        let own = engine.with_workspace(call.workspace(device)?)?;
        Ok(own.call_views(op.as_ref(), &inputs, &outputs)?)
    })
}

/// The attributes of a call as the op's.
fn read(entry: &Entry, given: Vec<(String, Given)>) -> Result<Vec<(&'static str, AttributeValue)>, String> {
    let one = |(name, value): (String, Given)| {
        let declared = entry.attributes().find(|attribute| attribute.name == name);
        let declared = declared.ok_or_else(|| {
            format!("{} has no attribute {name} in this landfall; compile the program again", entry.name())
        })?;
        let value = match value {
            Given::Bool(value) => AttributeValue::Bool(value),
            Given::Int(value) => AttributeValue::Int(value),
            Given::Float(value) => AttributeValue::Float(value),
            Given::Text(value) => AttributeValue::Text(value),
            Given::Ints(value) => AttributeValue::Ints(value),
        };
        Ok((declared.name, value))
    };
    given.into_iter().map(one).collect()
}
