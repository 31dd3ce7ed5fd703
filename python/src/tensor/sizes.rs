//! Sizes and shapes that objects of Python give.

use crate::error::{Class, text};
use landfall::{MAX_RANK, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PySequence, PyTuple};

/// The sizes that an object gives: an integer, or a sequence of integers.
pub(crate) fn sizes(given: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let refused = |why: String| {
        Class::Shape
            .error(given.py(), format!("{why}; a shape is an integer or a sequence of integers from 0"))
    };
    let one = |size: &Bound<'_, PyAny>| {
        size.extract::<i64>().map_err(|_| refused(format!("{} is no size", text(size))))
    };
    if given.is_instance_of::<PyInt>() {
        return Ok(vec![one(given)?]);
    }
    let list = given.cast::<PySequence>().map_err(|_| refused(format!("{} is no shape", text(given))))?;
    list.try_iter()?.map(|size| one(&size?)).collect()
}

/// The shape that an object gives.
pub(crate) fn shape(given: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let sizes = sizes(given)?;
    let refused = || {
        Class::Shape
            .error(given.py(), format!("shape {sizes:?}; it has at most {MAX_RANK} axes, of sizes from 0"))
    };
    let whole: Vec<usize> =
        sizes.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| refused())?;
    Shape::new(&whole).ok_or_else(refused)
}

/// The integers of a variadic method: one sequence, or each by itself.
pub(crate) fn listed(given: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    match given.len() {
        1 => sizes(&given.get_item(0)?),
        _ => sizes(given.as_any()),
    }
}
