//! Calls of ops from Python.

use super::entry::{Entry, entry};
use crate::attribute;
use crate::device::Imported;
use crate::engines;
use crate::error::{Class, Raise, text};
use crate::graph::beside::{Traced, constant, default_dtype};
use crate::graph::trace::{Step, Tracer};
use crate::graph::value::{added, traced};
use crate::keyword;
use crate::operand::{self, Number};
use crate::tensor::Tensor;
use landfall::ops::{AttributeValue, Body, Given, Tested};
use landfall::{
    DType, DeviceKind, Element, Engine, ForeignStream, HostTensor, Shape, Spec, View, with_dtype,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::Arc;

/// A call as Python makes it. It waits for checks of indices where it writes to arrays of other libraries, or leaves what they
/// find to `synchronize`.
pub(super) fn from_python<'py>(
    entry: &Entry,
    args: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
    waits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    let args: Vec<Bound<'py, PyAny>> = args.iter().collect();
    let (mut out, mut attributes) = (None, Vec::new());
    for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
        let name = name.cast_into::<PyString>()?;
        let name = name.to_str()?;
        if name == "out" {
            out = Some(value).filter(|value| !value.is_none());
            continue;
        }
        let Some(declared) = entry.attributes().find(|attribute| attribute.name == name) else {
            let known: Vec<&str> =
                entry.attributes().map(|attribute| attribute.name).chain(std::iter::once("out")).collect();
            let argument = entry.op().arguments().iter().any(|argument| argument.name == name);
            let why = match argument {
                true => format!("{}: {name} is an argument; give it by position", entry.name()),
                false => keyword::unknown(py, entry.name(), name, &known)?,
            };
            return Err(Class::Argument.error(py, why));
        };
        attributes.push((declared.name, attribute::value(declared, &value)?));
    }
    let args: Vec<&Bound<'py, PyAny>> = args.iter().collect();
    placed(entry, py, &args)?;
    issue(entry, py, &args, out.as_ref(), &attributes, waits)
}

/// Refuses attributes by position, and a list in the place of several arrays: says how they are given.
fn placed(entry: &Entry, py: Python<'_>, args: &[&Bound<'_, PyAny>]) -> PyResult<()> {
    let name = entry.name();
    if entry.op().arguments().last().is_some_and(|argument| matches!(argument.given, Given::Many { .. })) {
        let Some(list) = args.iter().find(|arg| keyword::is_list(arg)) else { return Ok(()) };
        let class = list.get_type().name()?;
        let why = format!("{name} takes its arrays one by one, not as a {class}: {name}(*arrays)");
        return Err(Class::Argument.error(py, why));
    }
    if args.iter().filter(|arg| !arg.is_none()).count() <= entry.arguments().count() {
        return Ok(());
    }
    let declared: Vec<_> = entry.arguments().collect();
    let args: Vec<_> = args.iter().filter(|arg| !arg.is_none()).collect();
    let behind = &args[declared.len()..];
    // One array too many is no attribute: the op itself says what it takes.
    if behind.iter().any(|arg| arg.hasattr("shape").unwrap_or(false)) {
        return Ok(());
    }
    let names: Vec<&str> = declared.iter().map(|argument| argument.name).collect();
    let by_position = match declared.len() {
        0 => "no arguments by position".to_owned(),
        1 => format!("1 argument by position ({})", names[0]),
        n => format!("{n} arguments by position ({})", names.join(", ")),
    };
    let meant = match entry.attributes().next() {
        Some(first)
            if first.several()
                && behind.len() > 1
                && behind.iter().all(|arg| keyword::integer(arg).is_some()) =>
        {
            let numbers: Vec<_> = behind.iter().map(|arg| text(arg)).collect();
            format!("; {0} is given by name, several as one tuple: {0}=({1})", first.name, numbers.join(", "))
        }
        Some(first) => format!("; {0} is given by name: {0}={1}", first.name, text(behind[0])),
        None => String::new(),
    };
    let why = format!("{name} takes {by_position}, got {}{meant}", args.len());
    Err(Class::Argument.error(py, why))
}

/// A call of the op of this name.
pub(crate) fn call<'py>(
    py: Python<'py>,
    name: &str,
    args: &[&Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
    attributes: &[(&'static str, AttributeValue)],
) -> PyResult<Bound<'py, PyAny>> {
    issue(entry(py, name)?, py, args, out, attributes, true)
}

/// A copy in memory of its own, row-major.
pub(crate) fn copy(py: Python<'_>, view: &View) -> PyResult<View> {
    one(py, "copy", view, &[])
}

/// A copy in another dtype.
pub(crate) fn cast(py: Python<'_>, view: &View, dtype: DType) -> PyResult<View> {
    one(py, "cast", view, &[("dtype", dtype.name().into())])
}

fn one(
    py: Python<'_>,
    name: &str,
    view: &View,
    attributes: &[(&'static str, AttributeValue)],
) -> PyResult<View> {
    let op = entry(py, name)?.made(py, attributes, &[view.spec()])?;
    let engine = engines::on(py, view.device())?;
    let results = py.detach(|| engine.eval_views(op.as_ref(), &[view])).raised(py)?;
    results.into_iter().next().ok_or_else(|| Class::Error.error(py, format!("{name} has no result")))
}

/// Writes a number, or an array that is broadcast and converted, to the elements of a view.
pub(crate) fn assign(py: Python<'_>, place: &View, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let engine = engines::on(py, place.device())?;
    let (value, stream) = match operand::number(value)? {
        Some(number) => (scalar(py, engine, number, place.dtype())?, None),
        None => {
            let array = operand::required(value, "value")?;
            (array.view, array.stream)
        }
    };
    let value = value.broadcast_to(place.shape()).raised(py)?;
    // `x[i] += y` assigns what it has updated in place.
    if (value.address(), value.device(), value.dtype()) == (place.address(), place.device(), place.dtype())
        && value.layout().strides() == place.layout().strides()
    {
        return Ok(());
    }
    let (name, attributes) = match value.dtype() == place.dtype() {
        true => ("copy", Vec::new()),
        false => ("cast", vec![("dtype", place.dtype().name().into())]),
    };
    let op = entry(py, name)?.made(py, &attributes, &[value.spec()])?;
    engines::issue(py, engine, stream, || engine.call_views(op.as_ref(), &[&value], &[place]))
}

/// What an argument is.
enum Arg {
    Array(Imported),
    Number(Number),
}

fn issue<'py>(
    entry: &Entry,
    py: Python<'py>,
    args: &[&Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
    attributes: &[(&'static str, AttributeValue)],
    waits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    // An argument that the call does not have can be given as None.
    let args: Vec<_> = args.iter().copied().filter(|arg| !arg.is_none()).collect();
    if let Some((tracer, args)) = traced(&args, entry.name())? {
        return in_graph(entry, py, &tracer, &args, out, attributes);
    }
    let read =
        args.iter().enumerate().map(|(i, arg)| argument(entry, i, arg)).collect::<PyResult<Vec<_>>>()?;
    let targets = out.map(destinations).transpose()?;
    let written = match &targets {
        None => Vec::new(),
        Some(targets) => targets
            .iter()
            .enumerate()
            .map(|(j, target)| operand::destination(target, &format!("{}: out {j}", entry.name()), waits))
            .collect::<PyResult<Vec<_>>>()?,
    };
    let arrays = || {
        let arrays =
            read.iter().filter_map(|arg| if let Arg::Array(array) = arg { Some(array) } else { None });
        arrays.chain(&written)
    };
    let device = arrays().next().map_or(DeviceKind::Cpu, |array| array.view.device());
    let stream = arrays().find_map(|array| array.stream);
    let engine = engines::on(py, device)?;
    let inputs = views(entry, py, engine, &read, attributes)?;
    let specs: Vec<Spec> = inputs.iter().map(View::spec).collect();
    let op = entry.made(py, attributes, &specs)?;
    let inputs: Vec<&View> = inputs.iter().collect();
    if let Some(out) = out {
        let outputs: Vec<&View> = written.iter().map(|array| &array.view).collect();
        engines::issue(py, engine, stream, || engine.call_views(op.as_ref(), &inputs, &outputs))?;
        return Ok(out.clone());
    }
    if op.outputs().iter().any(|output| output.updated().is_some()) {
        return updating(py, engine, stream, op.as_ref(), &inputs, &args);
    }
    let results = engines::issue(py, engine, stream, || engine.eval_views(op.as_ref(), &inputs))?;
    let results = results.into_iter().map(|view| Ok(Bound::new(py, Tensor::new(view))?.into_any()));
    joined(py, results.collect::<PyResult<Vec<_>>>()?)
}

/// A call on values of a traced function.
fn in_graph<'py>(
    entry: &Entry,
    py: Python<'py>,
    tracer: &Arc<Tracer>,
    args: &[Traced],
    out: Option<&Bound<'py, PyAny>>,
    attributes: &[(&'static str, AttributeValue)],
) -> PyResult<Bound<'py, PyAny>> {
    if out.is_some() {
        return Err(Class::Argument.error(
            py,
            format!(
                "{}: out beside values of a traced function, whose memory is planned; leave it out",
                entry.name()
            ),
        ));
    }
    let spec = |arg: &Traced| if let Traced::Value(n) = arg { Some(tracer.spec(*n)) } else { None };
    let specs: Vec<Option<Spec>> = args.iter().map(spec).collect();
    let dtype = match &specs[..] {
        // A condition does not say what it chooses among.
        [Some(_), None, None] if entry.name() == "where" => default_dtype(
            args.iter().filter_map(|arg| if let Traced::Number((n, _)) = arg { Some(*n) } else { None }),
        ),
        specs if specs.contains(&None) => {
            specs[beside(entry, py, specs, attributes)?].map_or(DType::F32, |spec| spec.dtype)
        }
        _ => DType::F32,
    };
    let number = |(i, arg): (usize, &Traced)| match *arg {
        Traced::Value(value) => Ok(value),
        Traced::Number(number) => {
            let name = entry.op().arguments().get(i).map_or("a number", |argument| argument.name);
            constant(py, tracer, dtype, number, &format!("{}: {name}", entry.name()))
        }
    };
    let mut args = args.iter().enumerate().map(number).collect::<PyResult<Vec<usize>>>()?;
    if matches!(entry.op().body(), Body::Pointwise(_)) {
        tracer.broadcast(&mut args).raised(py)?;
    }
    let specs: Vec<Spec> = args.iter().map(|&arg| tracer.spec(arg)).collect();
    let op = entry.made(py, attributes, &specs)?;
    added(py, tracer, Step::Op { op, args })
}

/// A call of an op that updates arguments, which are the results.
fn updating<'py>(
    py: Python<'py>,
    engine: &Engine,
    stream: Option<ForeignStream>,
    op: &dyn Tested,
    inputs: &[&View],
    args: &[&Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    let (mut outputs, mut results) = (Vec::new(), Vec::new());
    for (j, output) in op.outputs().iter().enumerate() {
        match output.updated().and_then(|i| Some((*inputs.get(i)?, *args.get(i)?))) {
            Some((view, arg)) => {
                if operand::number(arg)?.is_some() {
                    return Err(Class::Argument.error(
                        py,
                        format!("{} updates {}, which must be an array, not a number", op.name(), text(arg)),
                    ));
                }
                outputs.push(view.clone());
                results.push(arg.clone());
            }
            None => {
                let specs: Vec<Spec> = inputs.iter().map(|view| view.spec()).collect();
                let wanted = op
                    .infer(&specs)
                    .map_err(|rule| rule.of(op.name(), &specs, Some(engine.device()), None))
                    .raised(py)?;
                let Some(spec) = wanted.get(j) else { continue };
                let view = View::from(engine.empty(spec.dtype, spec.shape).raised(py)?);
                outputs.push(view.clone());
                results.push(Bound::new(py, Tensor::new(view))?.into_any());
            }
        }
    }
    let outputs: Vec<&View> = outputs.iter().collect();
    engines::issue(py, engine, stream, || engine.call_views(op, inputs, &outputs))?;
    joined(py, results)
}

/// One result by itself, several as a tuple.
fn joined<'py>(py: Python<'py>, mut results: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match (results.len(), results.pop()) {
        (1, Some(result)) => Ok(result),
        (_, last) => {
            results.extend(last);
            Ok(PyTuple::new(py, results)?.into_any())
        }
    }
}

/// The destinations of `out`: an array, or a tuple of arrays.
fn destinations<'py>(out: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    Ok(match out.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![out.clone()],
    })
}

fn argument(entry: &Entry, index: usize, given: &Bound<'_, PyAny>) -> PyResult<Arg> {
    let declared = entry.op().arguments();
    let name = || match (declared.get(..=index), declared.get(index)) {
        (Some(upto), Some(argument)) if upto.iter().all(|a| a.given == Given::Always) => argument.name,
        _ => "an argument",
    };
    if matches!(entry.op().body(), Body::Pointwise(_))
        && let Some(number) = operand::number(given)?
    {
        return Ok(Arg::Number(number));
    }
    operand::array(given)?
        .map(Arg::Array)
        .ok_or_else(|| operand::no_array(given, &format!("{}: {} (number {index})", entry.name(), name())))
}

/// The arguments as views; a number is one of no axes, of a dtype that the op takes beside the arrays.
fn views(
    entry: &Entry,
    py: Python<'_>,
    engine: &Engine,
    args: &[Arg],
    attributes: &[(&'static str, AttributeValue)],
) -> PyResult<Vec<View>> {
    let dtype = if args.iter().any(|arg| matches!(arg, Arg::Number(_))) {
        let spec = |arg: &Arg| if let Arg::Array(array) = arg { Some(array.view.spec()) } else { None };
        let specs: Vec<Option<Spec>> = args.iter().map(spec).collect();
        let like = beside(entry, py, &specs, attributes)?;
        specs[like].map_or(DType::F32, |spec| spec.dtype)
    } else {
        DType::F32
    };
    let view = |arg: &Arg| match arg {
        Arg::Array(array) => Ok(array.view.clone()),
        Arg::Number(number) => scalar(py, engine, *number, dtype),
    };
    args.iter().map(view).collect()
}

/// Which argument has the dtype of the numbers among the arguments, which have no spec: one with which the op takes all.
fn beside(
    entry: &Entry,
    py: Python<'_>,
    args: &[Option<Spec>],
    attributes: &[(&'static str, AttributeValue)],
) -> PyResult<usize> {
    let dtypes = || args.iter().enumerate().filter_map(|(i, spec)| Some((i, (*spec)?.dtype)));
    let Some((first, _)) = dtypes().next() else {
        return Err(Class::Argument.error(
            py,
            format!(
                "{}: all arguments are numbers; make one an array with landfall.tensor(..)",
                entry.name()
            ),
        ));
    };
    let takes = |dtype: DType| {
        let spec = |spec: &Option<Spec>| Spec::new(spec.map_or(dtype, |spec| spec.dtype), Shape::SCALAR);
        let specs: Vec<Spec> = args.iter().map(spec).collect();
        entry.made(py, attributes, &specs).is_ok_and(|op| op.infer(&specs).is_ok())
    };
    Ok(dtypes().find(|(_, dtype)| takes(*dtype)).map_or(first, |(i, _)| i))
}

/// A number as a tensor of no axes.
fn scalar(py: Python<'_>, engine: &Engine, number: Number, dtype: DType) -> PyResult<View> {
    let host = match number.of(dtype, "the number", py)? {
        landfall::Number::Int(value) if dtype == DType::I64 => HostTensor::from_ints([], vec![value]),
        // Rounded once.
        landfall::Number::Int(value) => {
            HostTensor::new(dtype, [], vec![with_dtype!(any dtype, T => T::from_i64(value).to_f64())])
        }
        landfall::Number::Float(value) => HostTensor::new(dtype, [], vec![value]),
    };
    let host = host.raised(py)?;
    engine.from_host(&host).map(View::from).raised(py)
}
