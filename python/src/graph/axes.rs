//! The axes of a value: named by a call, swapped, added and taken away, and those that a vector lacks in a matrix product.

use super::beside::{Traced, no_operand};
use super::trace::Step;
use super::value::Value;
use crate::error::{Class, Raise};
use crate::keyword::{self, taken};
use crate::tensor::cuts::{self, Cut};
use landfall::ops::AttributeValue;
use landfall::{Axis, Rule};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

impl Value {
    /// A matrix product; a vector is one row before a matrix, and one column behind it, without that axis in the result.
    pub(super) fn product<'py>(&self, py: Python<'py>, rhs: &Self) -> PyResult<Bound<'py, PyAny>> {
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
    pub(super) fn shaped(&self, py: Python<'_>, sizes: &[usize]) -> PyResult<Self> {
        let sizes = sizes.iter().map(|&d| d as i64).collect();
        self.one(py, "reshape", vec![("shape", AttributeValue::Ints(sizes))])
    }

    /// The axis that an argument of a method names, of `rank` axes.
    pub(super) fn axis(
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

    /// Two axes swapped, the last two where none are named.
    pub(super) fn swapped<'py>(
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

    /// Without an axis of size 1, or several; without all of them where none are given.
    pub(super) fn without(&self, py: Python<'_>, axis: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
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

    /// With a new axis of size 1.
    pub(super) fn with_axis(&self, py: Python<'_>, axis: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut sizes = self.spec().shape.dims().to_vec();
        if let Some(axis) = axis {
            sizes.insert(self.axis("unsqueeze", "axis", &axis, sizes.len() + 1)?, 1);
        }
        self.shaped(py, &sizes)
    }

    /// Values along a new axis.
    pub(super) fn stacked<'py>(
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
            let Some(Traced::Value(number)) = self.operand(&other)? else {
                return Err(no_operand(py, &format!("stack: value {}", rows.len()), &other));
            };
            let value = self.of(number);
            let (own, its) = (self.spec(), value.spec());
            if own.shape != its.shape {
                return Err(Class::Shape.error(py, format!("stack({own}, {its}): the shapes must be equal")));
            }
            rows.push(Some(value.shaped(py, &sizes)?.number));
        }
        let given = vec![("axis", AttributeValue::Int(axis as i64))];
        self.add(py, Step::Method { name: "concat", args: rows, given })
    }

    /// The part that an index of slices and integers names.
    pub(super) fn cut(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
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
}
