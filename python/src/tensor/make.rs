//! Functions that make tensors.

use super::Tensor;
use crate::error::{Class, Raise};
use crate::{dtype, engines, operand, ops};
use landfall::{DType, MAX_RANK, Shape, Spec, View};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PySequence};

/// The sizes that an object gives: an integer, or a sequence of integers.
pub(crate) fn sizes(given: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let refused = |why: String| {
        Class::Shape
            .error(given.py(), format!("{why}; a shape is an integer or a sequence of integers from 0"))
    };
    let one = |size: &Bound<'_, PyAny>| {
        size.extract::<i64>().map_err(|_| refused(format!("{} is no size", super::text(size))))
    };
    if given.is_instance_of::<PyInt>() {
        return Ok(vec![one(given)?]);
    }
    let list =
        given.cast::<PySequence>().map_err(|_| refused(format!("{} is no shape", super::text(given))))?;
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

fn made(
    given: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&str>,
    zeroed: bool,
) -> PyResult<Tensor> {
    let py = given.py();
    let dtype = dtype.map_or(Ok(DType::F32), dtype::of)?;
    let engine = engines::on(py, engines::device(py, device)?)?;
    let mut tensor = engine.empty(dtype, shape(given)?).raised(py)?;
    if zeroed {
        // Zero bytes are a zero in every dtype.
        tensor.poison(0).raised(py)?;
    }
    Ok(Tensor::new(View::from(tensor)))
}

/// A tensor whose elements are not set.
#[pyfunction]
#[pyo3(signature = (shape, dtype = None, device = None))]
pub(crate) fn empty(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&str>,
) -> PyResult<Tensor> {
    made(shape, dtype, device, false)
}

/// A tensor of zeros.
#[pyfunction]
#[pyo3(signature = (shape, dtype = None, device = None))]
pub(crate) fn zeros(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&str>,
) -> PyResult<Tensor> {
    made(shape, dtype, device, true)
}

/// A tensor with a copy of the data: a number, nested lists of numbers, or an array.
///
/// Numbers without a dtype become float32, int64 or bool; an array keeps its own.
#[pyfunction]
#[pyo3(signature = (data, dtype = None, device = None))]
pub(crate) fn tensor(
    data: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&str>,
) -> PyResult<Tensor> {
    let py = data.py();
    let mut wanted = dtype.map(dtype::of).transpose()?;
    let view = match operand::array(data)? {
        Some(array) => array.view,
        None => {
            let list = py.import("numpy")?.call_method1("asarray", (data,))?;
            let view = operand::required(&list, "data")?.view;
            if view.dtype() == DType::F64 {
                wanted = wanted.or(Some(DType::F32));
            }
            view
        }
    };
    let device = device.map(|name| engines::device(py, Some(name))).transpose()?;
    let tensor = Tensor::new(view);
    let view = tensor.view(py)?;
    let converted = match wanted {
        Some(dtype) if dtype != view.dtype() => Tensor::new(ops::cast(py, &view, dtype)?),
        Some(_) | None => tensor.copied(py)?,
    };
    match device {
        Some(device) => converted.on(py, device),
        None => Ok(converted),
    }
}

/// A tensor over the memory of a numpy array, without a copy.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub(crate) fn from_numpy(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if !array.is_instance(&array.py().import("numpy")?.getattr("ndarray")?)? {
        return Err(Class::Argument.error(
            array.py(),
            format!("array is a {}; from_numpy takes a numpy array", array.get_type().name()?),
        ));
    }
    Ok(Tensor::new(operand::required(array, "array")?.view))
}

/// A tensor of the bytes that pickling wrote.
#[pyfunction]
pub(crate) fn _from_bytes(
    py: Python<'_>,
    bytes: &[u8],
    dtype: &Bound<'_, PyAny>,
    shape: &Bound<'_, PyAny>,
    device: &str,
) -> PyResult<Tensor> {
    let engine = engines::on(py, engines::device(py, Some(device))?)?;
    let spec = Spec { dtype: dtype::of(dtype)?, shape: self::shape(shape)? };
    if spec.bytes() != bytes.len() {
        return Err(Class::Shape.error(py, format!("{} bytes are no {spec}", bytes.len())));
    }
    let view = View::from(engine.empty(spec.dtype, spec.shape).raised(py)?);
    view.write_bytes(bytes).raised(py)?;
    Ok(Tensor::new(view))
}
