//! `landfall.Value`: what a traced function computes with.

use super::trace::{Step, Tracer};
use crate::attribute;
use crate::error::{Class, Raise, text};
use crate::operand::{self, Number};
use crate::tensor::cuts::{self, Cut};
use crate::{dtype, tensor};
use landfall::Spec;
use landfall::ops::{AttributeValue, Given, Method, Parameter, methods};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// A value of a traced function: it has a dtype and a shape, and no contents. The functions of `landfall.ops` take it, and so do
/// operators; its methods are those of the graph: `x.softmax(axis=-1)`, `x.mean()`; `dir(x)` has them all.
#[pyclass(frozen, module = "landfall", name = "Value")]
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(super) tracer: Arc<Tracer>,
    pub(super) number: usize,
}

impl Value {
    /// Dtype and shape.
    pub(crate) fn spec(&self) -> Spec {
        self.tracer.spec(self.number)
    }

    fn of(&self, number: usize) -> Self {
        Self { tracer: Arc::clone(&self.tracer), number }
    }

    /// The values that a call gives, one by itself, several as a tuple.
    fn add<'py>(&self, py: Python<'py>, step: Step) -> PyResult<Bound<'py, PyAny>> {
        added(py, &self.tracer, step)
    }

    fn method<'py>(
        &self,
        py: Python<'py>,
        name: &'static str,
        args: &[usize],
        given: Vec<(&'static str, AttributeValue)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = std::iter::once(self.number).chain(args.iter().copied()).map(Some).collect();
        self.add(py, Step::Method { name, args, given })
    }

    /// A method that gives one value.
    fn one(
        &self,
        py: Python<'_>,
        name: &'static str,
        given: Vec<(&'static str, AttributeValue)>,
    ) -> PyResult<Self> {
        let step = Step::Method { name, args: vec![Some(self.number)], given };
        Ok(self.of(self.tracer.add(step).raised(py)?.start))
    }

    /// An operand of this value's function: a value, or a number as one of this value's dtype.
    fn operand(&self, other: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let py = other.py();
        if let Ok(value) = other.cast::<Self>() {
            return self.same(value.get(), py).map(Some);
        }
        let number = operand::number(other)?;
        number.map(|number| constant(py, &self.tracer, self.number, number)).transpose()
    }

    /// The number of another value, which must be of the same function.
    fn same(&self, other: &Self, py: Python<'_>) -> PyResult<usize> {
        if Arc::ptr_eq(&self.tracer, &other.tracer) { Ok(other.number) } else { Err(stranger(py)) }
    }

    /// `self op other`, or the other way round.
    fn binary<'py>(
        &self,
        name: &'static str,
        other: &Bound<'py, PyAny>,
        reflected: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let Some(other) = self.operand(other)? else {
            if other.hasattr(pyo3::intern!(py, "__dlpack__"))? {
                return Err(no_constant(py, &format!("the operand of {name}"), other));
            }
            return Ok(py.NotImplemented().into_bound(py));
        };
        if reflected {
            self.of(other).method(py, name, &[self.number], Vec::new())
        } else {
            self.method(py, name, &[other], Vec::new())
        }
    }
}

/// An array beside a value.
fn no_constant(py: Python<'_>, what: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let class = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    Class::Argument.error(
        py,
        format!(
            "{what} is a {class}, beside a value of a traced function; pass arrays to the function as arguments, or as params \
             of landfall.compile"
        ),
    )
}

fn stranger(py: Python<'_>) -> PyErr {
    Class::Argument.error(
        py,
        "a value of another traced function; a function computes with its own arguments, so pass what it needs as one",
    )
}

/// Records a call; the values that it gives.
pub(crate) fn added<'py>(py: Python<'py>, tracer: &Arc<Tracer>, step: Step) -> PyResult<Bound<'py, PyAny>> {
    let values = tracer.add(step).raised(py)?.map(|number| Value { tracer: Arc::clone(tracer), number });
    let values = values.map(|value| Ok(Bound::new(py, value)?.into_any())).collect::<PyResult<Vec<_>>>()?;
    match <[_; 1]>::try_from(values) {
        Ok([one]) => Ok(one),
        Err(values) => Ok(PyTuple::new(py, values)?.into_any()),
    }
}

/// A number as a value of no axes, of the dtype of another value.
pub(crate) fn constant(py: Python<'_>, tracer: &Tracer, like: usize, number: Number) -> PyResult<usize> {
    let value = match number.of(tracer.spec(like).dtype, py)? {
        landfall::Number::Int(value) => AttributeValue::Int(value),
        landfall::Number::Float(value) => AttributeValue::Float(value),
    };
    let step = Step::Method { name: "scalar", args: vec![Some(like)], given: vec![("value", value)] };
    tracer.add(step).raised(py).map(|range| range.start)
}

/// An argument beside values of a traced function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traced {
    /// A value, by its number.
    Value(usize),
    /// A number of Python.
    Number(Number),
}

/// The tracer of the values among these arguments, and each argument, if there is a value among them.
pub(crate) fn traced(args: &[&Bound<'_, PyAny>], op: &str) -> PyResult<Option<(Arc<Tracer>, Vec<Traced>)>> {
    let Some(first) = args.iter().find_map(|arg| arg.cast::<Value>().ok()) else { return Ok(None) };
    let first = first.get();
    let one = |(i, arg): (usize, &&Bound<'_, PyAny>)| {
        if let Ok(value) = arg.cast::<Value>() {
            return first.same(value.get(), arg.py()).map(Traced::Value);
        }
        let number = operand::number(arg)?;
        number.map(Traced::Number).ok_or_else(|| no_constant(arg.py(), &format!("{op}: argument {i}"), arg))
    };
    let all = args.iter().enumerate().map(one).collect::<PyResult<Vec<_>>>()?;
    Ok(Some((Arc::clone(&first.tracer), all)))
}

#[pymethods]
impl Value {
    /// numpy leaves operators to this class.
    #[classattr]
    fn __array_ufunc__(py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    /// The dtype's name, such as "float32".
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype::numpy_name(self.spec().dtype)
    }

    /// The size of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.spec().shape.dims())
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.spec().shape.rank()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.spec().shape.elements()
    }

    /// The value with its axes in the opposite order.
    #[getter(T)]
    fn transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let axes = (0..self.ndim() as i64).rev().collect();
        self.method(py, "permute", &[], vec![("axes", AttributeValue::Ints(axes))])
    }

    /// The same elements with another shape; one size may be -1, which the others leave.
    #[pyo3(signature = (*shape))]
    fn reshape<'py>(&self, shape: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let sizes = tensor::sizes::listed(shape)?;
        self.method(shape.py(), "reshape", &[], vec![("shape", AttributeValue::Ints(sizes))])
    }

    /// The value with its axes in this order; negative axes count from the end.
    #[pyo3(signature = (*axes))]
    fn permute<'py>(&self, axes: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let axes_ = tensor::sizes::listed(axes)?;
        self.method(axes.py(), "permute", &[], vec![("axes", AttributeValue::Ints(axes_))])
    }

    /// Sets elements to zero at random with this probability while training, and scales the others by 1 / (1 - rate);
    /// elsewhere the value itself.
    fn dropout<'py>(&self, py: Python<'py>, rate: f64) -> PyResult<Bound<'py, PyAny>> {
        if !(0.0..1.0).contains(&rate) {
            return Err(
                Class::AttributeValue.error(py, format!("rate is {rate}; it must be from 0 and below 1"))
            );
        }
        self.add(py, Step::Dropout { of: self.number, rate })
    }

    /// The gradients of this scalar with respect to other values of the function, in order.
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        values: Vec<Bound<'py, Self>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let numbers = values.iter().map(|v| self.same(v.get(), py)).collect::<PyResult<Vec<_>>>()?;
        let step = Step::Gradients { of: self.number, with_respect_to: numbers };
        let range = self.tracer.add(step).raised(py)?;
        PyTuple::new(py, range.map(|number| self.of(number)))
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = key.py();
        let cuts = cuts::of(self.spec(), key)?;
        if cuts.is_empty() {
            // All of it is a value of its own too.
            let sizes = self.spec().shape.dims().iter().map(|&d| d as i64).collect();
            return self.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))]);
        }
        let mut out = self.clone();
        for cut in cuts {
            let mut sizes: Vec<i64> = out.spec().shape.dims().iter().map(|&d| d as i64).collect();
            let (axis, start, len, step) = match cut {
                Cut::NewAxis(axis) => {
                    sizes.insert(axis, 1);
                    out = out.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])?;
                    continue;
                }
                Cut::Range { axis, start, len, step } => (axis, start, len, step),
                Cut::At { axis, index } => (axis, index, 1, 1),
            };
            let places = [("axis", axis), ("start", start), ("len", len), ("step", step)];
            let given = places.into_iter().map(|(name, v)| (name, AttributeValue::Int(v as i64))).collect();
            out = out.one(py, "slice_step", given)?;
            if matches!(cut, Cut::At { .. }) {
                sizes.remove(axis);
                out = out.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])?;
            }
        }
        Ok(out)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let all = methods();
        match all.binary_search_by_key(&name, |method| method.name) {
            Ok(at) => Ok(Bound::new(py, BoundMethod { value: self.clone(), method: &all[at] })?.into_any()),
            Err(_) => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "a value of a traced function has no {name:?}; dir(value) lists what it has"
            ))),
        }
    }

    fn __dir__(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        let class = slf.get_type();
        let mut names: Vec<String> =
            class.dir()?.iter().map(|name| name.extract()).collect::<PyResult<_>>()?;
        names.extend(methods().iter().map(|method| method.name.to_owned()));
        Ok(names)
    }

    fn __repr__(&self) -> String {
        format!("landfall.Value({})", self.spec())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Err(no_contents(py, "an if or a while cannot depend on it; use value.select"))
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Err(no_contents(py, "return it, and read the program's result"))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let first = self.spec().shape.dims().first().copied();
        first.ok_or_else(|| Class::DType.error(py, format!("{} has no axis, so no length", self.spec())))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        tensor::along(slf.as_any())
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("add", other, false)
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("add", other, true)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("sub", other, false)
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("sub", other, true)
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("mul", other, false)
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("mul", other, true)
    }

    fn __truediv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("div", other, false)
    }

    fn __rtruediv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("div", other, true)
    }

    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("rem", other, false)
    }

    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("rem", other, true)
    }

    fn __matmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("matmul", other, false)
    }

    fn __pow__<'py>(
        &self,
        exponent: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = exponent.py();
        if modulo.is_some() {
            return Ok(py.NotImplemented().into_bound(py));
        }
        match operand::number(exponent)? {
            Some(Number::Int(2)) => self.method(py, "square", &[], Vec::new()),
            Some(Number::Int(v)) => {
                self.method(py, "powf", &[], vec![("exponent", AttributeValue::Float(v as f64))])
            }
            Some(Number::Float(v)) => {
                self.method(py, "powf", &[], vec![("exponent", AttributeValue::Float(v))])
            }
            None => self.binary("pow", exponent, false),
        }
    }

    fn __rpow__<'py>(
        &self,
        base: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match modulo {
            None => self.binary("pow", base, true),
            Some(_) => Ok(base.py().NotImplemented().into_bound(base.py())),
        }
    }

    fn __neg__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.method(py, "neg", &[], Vec::new())
    }

    fn __abs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.method(py, "abs", &[], Vec::new())
    }

    fn __invert__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.method(py, "not", &[], Vec::new())
    }

    fn __and__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("and", other, false)
    }

    fn __or__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("or", other, false)
    }

    fn __richcmp__<'py>(&self, other: &Bound<'py, PyAny>, op: CompareOp) -> PyResult<Bound<'py, PyAny>> {
        self.binary(attribute::comparison(op), other, false)
    }

    fn __hash__(&self) -> u64 {
        (Arc::as_ptr(&self.tracer) as u64).wrapping_mul(31).wrapping_add(self.number as u64)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(no_contents(py, "it exists while its function is traced"))
    }
}

fn no_contents(py: Python<'_>, what: &str) -> PyErr {
    Class::Argument.error(py, format!("a value of a traced function has no contents: {what}"))
}

/// A method of a value.
#[pyclass(frozen, module = "landfall", name = "Method")]
struct BoundMethod {
    value: Value,
    method: &'static Method,
}

impl BoundMethod {
    fn given(
        &self,
        parameter: &Parameter,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<(&'static str, AttributeValue)> {
        Ok((parameter.name, attribute::value(parameter, value)?))
    }
}

#[pymethods]
impl BoundMethod {
    /// Values by position, then parameters; parameters by keyword too.
    #[pyo3(signature = (*args, **keywords))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, method) = (args.py(), self.method);
        let refused = |why: String| Class::Argument.error(py, format!("{}: {why}", method.name));
        let many = method.arguments.last().is_some_and(|a| matches!(a.given, Given::Many { .. }));
        let mut values = vec![Some(self.value.number)];
        let mut given = Vec::new();
        let mut open = method.parameters.iter();
        for arg in args.iter() {
            let takes_value = many || values.len() < method.arguments.len();
            let value = if takes_value && !arg.is_none() { self.value.operand(&arg)? } else { None };
            if takes_value && (value.is_some() || arg.is_none()) {
                values.push(value);
            } else {
                let parameter =
                    open.next().ok_or_else(|| refused(format!("{} is one argument too many", text(&arg))))?;
                given.push(self.given(parameter, &arg)?);
            }
        }
        for (name, value) in keywords.into_iter().flat_map(|k| k.iter()) {
            let name: String = name.extract()?;
            if let Some(place) = method.arguments.iter().position(|a| a.name == name) {
                let Some(value) = self.value.operand(&value)? else {
                    return Err(refused(format!(
                        "{name} is {}; it must be a value or a number",
                        text(&value)
                    )));
                };
                values.resize(values.len().max(place + 1), None);
                values[place] = Some(value);
                continue;
            }
            let Some(parameter) = method.parameters.iter().find(|p| p.name == name) else {
                let known: Vec<&str> = method
                    .arguments
                    .iter()
                    .skip(1)
                    .map(|a| a.name)
                    .chain(method.parameters.iter().map(|p| p.name))
                    .collect();
                return Err(refused(format!("it has no keyword {name:?}; it has {}", known.join(", "))));
            };
            given.push(self.given(parameter, &value)?);
        }
        self.value.add(py, Step::Method { name: method.name, args: values, given })
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.method.name
    }

    #[getter]
    fn __doc__(&self) -> String {
        let parameters = self.method.parameters.iter().map(|p| {
            let default = p.default().map_or_else(String::new, |d| format!(" (default {d})"));
            format!("\n{}: {}{default}", p.name, p.doc)
        });
        format!("{}{}", self.method.doc(), parameters.collect::<String>())
    }

    fn __repr__(&self) -> String {
        format!("<method {} of {}>", self.method.name, self.value.__repr__())
    }
}
