//! `landfall.Value`: what a traced function computes with.

use super::beside::{Traced, constant, no_operand};
use super::trace::{Step, Tracer};
use crate::attribute;
use crate::error::{Class, Raise};
use crate::keyword::{self, taken};
use crate::operand::{self, Number};
use crate::tensor::cuts::{self, Cut};
use crate::{dtype, tensor};
use landfall::ops::AttributeValue;
use landfall::{Axis, DType, Rule, Spec};
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

    fn of(&self, number: usize) -> Self {
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

    /// A matrix product; a vector is one row before a matrix, and one column behind it, without that axis in the result.
    fn product<'py>(&self, py: Python<'py>, rhs: &Self) -> PyResult<Bound<'py, PyAny>> {
        let (l, r) = (self.spec(), rhs.spec());
        let (row, column) = (l.shape.rank() == 1, r.shape.rank() == 1);
        let multiply = |lhs: &Self, rhs: &Self| -> PyResult<Self> {
            let args = vec![Some(lhs.number), Some(rhs.number)];
            Ok(self.of(self
                .tracer
                .add(Step::Method { name: "matmul", args, given: Vec::new() })
                .raised(py)?
                .start))
        };
        if !row && !column || l.shape.rank() == 0 || r.shape.rank() == 0 {
            return Ok(Bound::new(py, multiply(self, rhs)?)?.into_any());
        }
        let size = |shape: &[usize], vector: bool| shape[shape.len() - if vector { 1 } else { 2 }];
        let (own, other) = (l.shape.last(), size(r.shape.dims(), column));
        if own != other {
            return Err(Class::Shape.error(
                py,
                format!("matmul({l}, {r}): a row of the first has {own} elements, a column of the second {other}; they must be equal"),
            ));
        }
        let lhs = if row { self.shaped(py, &[1, own])? } else { self.clone() };
        let rhs = if column { rhs.shaped(py, &[other, 1])? } else { rhs.clone() };
        let out = multiply(&lhs, &rhs)?;
        let mut sizes = out.spec().shape.dims().to_vec();
        let rank = sizes.len();
        if column {
            sizes.remove(rank - 1);
        }
        if row {
            sizes.remove(rank - 2);
        }
        Ok(Bound::new(py, out.shaped(py, &sizes)?)?.into_any())
    }

    /// The same elements with other sizes.
    fn shaped(&self, py: Python<'_>, sizes: &[usize]) -> PyResult<Self> {
        let sizes = sizes.iter().map(|&d| d as i64).collect();
        self.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])
    }

    /// The axis that an argument of a method names, of `rank` axes.
    fn axis(
        &self,
        method: &'static str,
        name: &str,
        given: &Bound<'_, PyAny>,
        rank: usize,
    ) -> PyResult<usize> {
        let py = given.py();
        let Some(axis) = keyword::integer(given).and_then(|axis| isize::try_from(axis).ok()) else {
            let text = crate::error::text(given);
            return Err(Class::AttributeValue.error(
                py,
                format!("{method}: {name} is {text}; it must be an axis, one integer, negative from the end"),
            ));
        };
        axis.index(rank).map_err(|rule: Rule| rule.of(method, &[self.spec()], None, None)).raised(py)
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

    /// What an object is beside this value, if it is a value of the same function, or a number.
    pub(super) fn operand(&self, other: &Bound<'_, PyAny>) -> PyResult<Option<Traced>> {
        match other.cast::<Self>() {
            Ok(value) => self.same(value.get(), other.py()).map(Traced::Value).map(Some),
            Err(_) => Ok(operand::lone(other)?.map(Traced::Number)),
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
        let Some(operand) = self.operand(other)? else {
            if other.hasattr(pyo3::intern!(py, "__dlpack__"))? || !keyword::uncalled(other).is_empty() {
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

    /// The value with two axes swapped, the last two where none are named; negative axes count from the end.
    #[pyo3(signature = (*axes, **keywords), text_signature = "($self, /, *axes)")]
    fn transpose<'py>(
        &self,
        axes: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = axes.py();
        if axes.is_empty() && keywords.is_none() {
            return self.method(py, "transpose", &[], Vec::new());
        }
        let [first, second] = taken("transpose", ["axis0", "axis1"], 2, axes, keywords)?;
        let rank = self.ndim();
        let mut order: Vec<i64> = (0..rank as i64).collect();
        if let (Some(first), Some(second)) = (first, second) {
            order.swap(
                self.axis("transpose", "axis0", &first, rank)?,
                self.axis("transpose", "axis1", &second, rank)?,
            );
        }
        self.method(py, "permute", &[], vec![("axes", AttributeValue::Ints(order))])
    }

    /// The value without an axis of size 1, or several; without all of them where none are given. Negative axes count from the end.
    #[pyo3(signature = (*args, **keywords), text_signature = "($self, /, axis=None)")]
    fn squeeze(&self, args: &Bound<'_, PyTuple>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let py = args.py();
        let [axis] = taken("squeeze", ["axis"], 0, args, keywords)?;
        let (spec, rank) = (self.spec(), self.ndim());
        let sizes = spec.shape.dims();
        let out: Vec<usize> = match axis {
            None => (0..rank).filter(|&axis| sizes[axis] == 1).collect(),
            Some(axes) if keyword::is_list(&axes) => axes
                .try_iter()?
                .map(|axis| self.axis("squeeze", "axis", &axis?, rank))
                .collect::<PyResult<_>>()?,
            Some(axis) => vec![self.axis("squeeze", "axis", &axis, rank)?],
        };
        if let Some(axis) = out.iter().find(|&&axis| sizes[axis] != 1) {
            let why = format!(
                "squeeze({spec}): axis {axis} has size {}; only an axis of size 1 can go",
                sizes[*axis]
            );
            return Err(Class::Shape.error(py, why));
        }
        let left: Vec<usize> = (0..rank).filter(|axis| !out.contains(axis)).map(|axis| sizes[axis]).collect();
        self.shaped(py, &left)
    }

    /// The value with a new axis of size 1 at this place of the result; a negative one counts from its end.
    #[pyo3(signature = (*args, **keywords), text_signature = "($self, /, axis)")]
    fn unsqueeze(&self, args: &Bound<'_, PyTuple>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let [axis] = taken("unsqueeze", ["axis"], 1, args, keywords)?;
        let mut sizes = self.spec().shape.dims().to_vec();
        if let Some(axis) = axis {
            sizes.insert(self.axis("unsqueeze", "axis", &axis, sizes.len() + 1)?, 1);
        }
        self.shaped(args.py(), &sizes)
    }

    /// This value and others of its shape along a new axis of the result; a negative axis counts from its end. The others are given
    /// one by one or as one list.
    #[pyo3(signature = (*values, **keywords), text_signature = "($self, /, *values, axis=0)")]
    fn stack<'py>(
        &self,
        values: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = values.py();
        let [axis] = taken("stack", ["axis"], 0, &PyTuple::empty(py), keywords)?;
        let rank = self.ndim() + 1;
        let axis = axis.map_or(Ok(0), |axis| self.axis("stack", "axis", &axis, rank))?;
        let mut sizes = self.spec().shape.dims().to_vec();
        sizes.insert(axis, 1);
        let mut rows = vec![Some(self.shaped(py, &sizes)?.number)];
        for other in keyword::spread(values)? {
            let Ok(value) = other.cast::<Self>() else {
                return Err(no_operand(py, &format!("stack: value {}", rows.len()), &other));
            };
            self.same(value.get(), py)?;
            let (own, its) = (self.spec(), value.get().spec());
            if own.shape != its.shape {
                return Err(Class::Shape.error(py, format!("stack({own}, {its}): the shapes must be equal")));
            }
            rows.push(Some(value.get().shaped(py, &sizes)?.number));
        }
        let given = vec![("axis", AttributeValue::Int(axis as i64))];
        self.add(py, Step::Method { name: "concat", args: rows, given })
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
        let Ok(condition) = condition.cast::<Self>() else {
            return Err(no_operand(py, "where: condition", &condition));
        };
        self.same(condition.get(), py)?;
        let operand = self.operand(&other)?.ok_or_else(|| no_operand(py, "where: other", &other))?;
        let other = self.placed(py, operand, self.spec().dtype, "where: other")?;
        condition.get().method(py, "select", &[self.number, other], Vec::new())
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
            let (axis, start, len, step): (_, usize, usize, isize) = match cut {
                Cut::NewAxis(axis) => {
                    sizes.insert(axis, 1);
                    out = out.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])?;
                    continue;
                }
                Cut::Range { axis, start, len, step } => (axis, start, len, step),
                Cut::At { axis, index } => (axis, index, 1, 1),
            };
            // Backwards are the same elements from the last on, turned round.
            let back = step < 0 && len > 1;
            let (start, step) =
                (start - if back { (len - 1) * step.unsigned_abs() } else { 0 }, step.unsigned_abs());
            let places = [("axis", axis), ("start", start), ("len", len), ("step", step)];
            let given = places.into_iter().map(|(name, v)| (name, AttributeValue::Int(v as i64))).collect();
            out = out.one(py, "slice_step", given)?;
            if back {
                out = out.one(py, "flip", vec![("axis", AttributeValue::Int(axis as i64))])?;
            }
            if matches!(cut, Cut::At { .. }) {
                sizes.remove(axis);
                out = out.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])?;
            }
        }
        Ok(out)
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        let names: Vec<String> = slf.get_type().dir()?.extract()?;
        let known: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !name.starts_with('_')).collect();
        Err(pyo3::exceptions::PyAttributeError::new_err(keyword::no_method(slf.py(), name, &known)?))
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

    fn __floordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.floor_of_division(other, false)
    }

    fn __rfloordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.floor_of_division(other, true)
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
