//! `landfall.Value`: what a traced function computes with.

use super::beside::{Traced, array, constant, no_operand};
use super::trace::{Step, Tracer};
use crate::attribute;
use crate::error::{Class, Raise};
use crate::keyword::{self, taken};
use crate::operand::{self, Number};
use crate::tensor::cuts::{self, index};
use crate::{dtype, tensor};
use landfall::ops::AttributeValue;
use landfall::{DType, Spec};
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

    /// Dtype and shape of another value of the function.
    pub(super) fn spec_of(&self, number: usize) -> Spec {
        self.tracer.spec(number)
    }

    pub(super) fn of(&self, number: usize) -> Self {
        Self { tracer: Arc::clone(&self.tracer), number }
    }

    /// The values that a call gives, one by itself, several as a tuple.
    pub(super) fn add<'py>(&self, py: Python<'py>, step: Step) -> PyResult<Bound<'py, PyAny>> {
        added(py, &self.tracer, step)
    }

    pub(super) fn method<'py>(
        &self,
        py: Python<'py>,
        name: &'static str,
        args: &[usize],
        given: Vec<(&'static str, AttributeValue)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let ("matmul", &[rhs]) = (name, args) {
            return self.product(py, &self.of(rhs));
        }
        let args = std::iter::once(self.number).chain(args.iter().copied()).map(Some).collect();
        self.add(py, Step::Method { name, args, given })
    }

    /// A method that gives one value.
    pub(super) fn one(
        &self,
        py: Python<'_>,
        name: &'static str,
        given: Vec<(&'static str, AttributeValue)>,
    ) -> PyResult<Self> {
        let step = Step::Method { name, args: vec![Some(self.number)], given };
        Ok(self.of(self.tracer.add(step).raised(py)?.start))
    }

    /// What an object is beside this value, if it is a value of the same function, a number, an array or a list of numbers.
    pub(super) fn operand(&self, other: &Bound<'_, PyAny>) -> PyResult<Option<Traced>> {
        match other.cast::<Self>() {
            Ok(value) => self.same(value.get(), other.py()).map(Traced::Value).map(Some),
            Err(_) => match operand::lone(other)? {
                Some(number) => Ok(Some(Traced::Number(number))),
                None => Ok(array(&self.tracer, self.spec().dtype, other)?.map(Traced::Value)),
            },
        }
    }

    /// The value that an operand is; a number is one of this dtype.
    pub(super) fn placed(
        &self,
        py: Python<'_>,
        operand: Traced,
        dtype: DType,
        what: &str,
    ) -> PyResult<usize> {
        match operand {
            Traced::Value(number) => Ok(number),
            Traced::Number(number) => constant(py, &self.tracer, dtype, number, what),
        }
    }

    /// The number of another value, which must be of the same function.
    pub(super) fn same(&self, other: &Self, py: Python<'_>) -> PyResult<usize> {
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
        let Some(operand) = self.operand(other)? else {
            if !keyword::uncalled(other).is_empty() {
                return Err(no_operand(py, &format!("the operand of {name}"), other));
            }
            return Ok(py.NotImplemented().into_bound(py));
        };
        let other = self.placed(py, operand, self.spec().dtype, &format!("the operand of {name}"))?;
        if reflected {
            self.of(other).method(py, name, &[self.number], Vec::new())
        } else {
            self.method(py, name, &[other], Vec::new())
        }
    }
}

impl Value {
    /// `⌊self / other⌋`, or the other way round; `NotImplemented` as of a division.
    fn floor_of_division<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        reflected: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let spec = self.spec();
        if !spec.dtype.is_float() {
            let why = format!(
                "{spec} // ..: it is the floor of a division, which takes floats; convert, x.cast(dtype=\"float64\")"
            );
            return Err(Class::DType.error(py, why));
        }
        let quotient = self.binary("div", other, reflected)?;
        match quotient.cast::<Self>() {
            Ok(value) => value.get().method(py, "floor", &[], Vec::new()),
            Err(_) => Ok(quotient),
        }
    }
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

/// The tracer of the values among these arguments, and each argument, if there is a value among them.
pub(crate) fn traced(args: &[&Bound<'_, PyAny>], op: &str) -> PyResult<Option<(Arc<Tracer>, Vec<Traced>)>> {
    let Some(first) = args.iter().find_map(|arg| arg.cast::<Value>().ok()) else { return Ok(None) };
    let first = first.get();
    let one = |(i, arg): (usize, &&Bound<'_, PyAny>)| {
        let operand = first.operand(arg)?;
        operand.ok_or_else(|| no_operand(arg.py(), &format!("{op}: argument {i}"), arg))
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
    pub(super) fn ndim(&self) -> usize {
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

    /// The value with two axes swapped, the last two where none are named; negative axes count from the end.
    #[pyo3(signature = (*axes, **keywords), text_signature = "($self, /, *axes)")]
    fn transpose<'py>(
        &self,
        axes: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.swapped(axes, keywords)
    }

    /// The value without an axis of size 1, or several; without all of them where none are given. Negative axes count from the end.
    #[pyo3(signature = (*args, **keywords), text_signature = "($self, /, axis=None)")]
    fn squeeze(&self, args: &Bound<'_, PyTuple>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let [axis] = taken("squeeze", ["axis"], 0, args, keywords)?;
        self.without(args.py(), axis)
    }

    /// The value with a new axis of size 1 at this place of the result; a negative one counts from its end.
    #[pyo3(signature = (*args, **keywords), text_signature = "($self, /, axis)")]
    fn unsqueeze(&self, args: &Bound<'_, PyTuple>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let [axis] = taken("unsqueeze", ["axis"], 1, args, keywords)?;
        self.with_axis(args.py(), axis)
    }

    /// This value and others of its shape along a new axis of the result; a negative axis counts from its end. The others are given
    /// one by one or as one list.
    #[pyo3(signature = (*values, **keywords), text_signature = "($self, /, *values, axis=0)")]
    fn stack<'py>(
        &self,
        values: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.stacked(values, keywords)
    }

    /// This value where a condition holds, and another value or a number elsewhere; all three are broadcast.
    #[pyo3(name = "where", signature = (*args, **keywords), text_signature = "($self, /, condition, other)")]
    fn where_<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let [condition, other] = taken("where", ["condition", "other"], 2, args, keywords)?;
        let (Some(condition), Some(other)) = (condition, other) else {
            return Err(Class::Argument.error(py, "where takes a condition and another value"));
        };
        let Some(Traced::Value(condition)) = self.operand(&condition)? else {
            return Err(no_operand(py, "where: condition", &condition));
        };
        let operand = self.operand(&other)?.ok_or_else(|| no_operand(py, "where: other", &other))?;
        let other = self.placed(py, operand, self.spec().dtype, "where: other")?;
        self.of(condition).method(py, "select", &[self.number, other], Vec::new())
    }

    /// Sets elements to zero at random with this probability while training, and in a program of `landfall.compile(.., dropout=True)`,
    /// and scales the others by 1 / (1 - rate); elsewhere the value itself.
    #[pyo3(signature = (*args, **keywords), text_signature = "($self, /, rate)")]
    fn dropout<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let [given] = taken("dropout", ["rate"], 1, args, keywords)?;
        let rate = given
            .as_ref()
            .and_then(|rate| rate.extract::<f64>().ok())
            .filter(|rate| (0.0..1.0).contains(rate));
        let Some(rate) = rate else {
            let given = given.map_or_else(String::new, |rate| crate::error::text(&rate));
            return Err(Class::AttributeValue
                .error(py, format!("dropout: rate is {given}; it must be a number from 0 and below 1")));
        };
        self.add(py, Step::Dropout { of: self.number, rate })
    }

    /// The gradients of this scalar with respect to other values of the function, in order. A value that the scalar does not depend on is an
    /// error; with `allow_unused` its gradient is zeros.
    #[pyo3(signature = (values, *, allow_unused = false))]
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        values: Vec<Bound<'py, Self>>,
        allow_unused: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let numbers = values.iter().map(|v| self.same(v.get(), py)).collect::<PyResult<Vec<_>>>()?;
        let step = Step::Gradients { of: self.number, with_respect_to: numbers, allow_unused };
        let range = self.tracer.add(step).raised(py)?;
        PyTuple::new(py, range.map(|number| self.of(number)))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if cuts::has_arrays(key)? {
            // Rows by index are calls like those of a user's.
            return index(Bound::new(key.py(), self.clone())?.as_any(), key);
        }
        Ok(Bound::new(key.py(), self.cut(key)?)?.into_any())
    }

    /// An array as a value of the same function.
    fn _constant(&self, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let number = self::array(&self.tracer, self.spec().dtype, array)?;
        number.map(|number| self.of(number)).ok_or_else(|| no_operand(array.py(), "a constant", array))
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let text: String = py.import("landfall.names")?.call_method1("of_value", (name,))?.extract()?;
        Err(pyo3::exceptions::PyAttributeError::new_err(text))
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

    /// Without it numpy would take a value for a sequence.
    #[pyo3(signature = (*_args, **_keywords))]
    fn __array__(
        &self,
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        Err(no_contents(py, "numpy cannot compute with it; the functions of landfall.ops do"))
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

    fn __floordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.floor_of_division(other, false)
    }

    fn __rfloordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.floor_of_division(other, true)
    }

    fn __matmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("matmul", other, false)
    }

    fn __rmatmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("matmul", other, true)
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

    fn __rand__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("and", other, true)
    }

    fn __ror__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("or", other, true)
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
