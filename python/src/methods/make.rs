//! Functions that make tensors.

use crate::device::from_capsule;
use crate::error::{Class, Raise};
use crate::tensor::{Tensor, elements, sizes};
use crate::{dtype, engines, operand, ops};
use landfall::{DType, DeviceKind, Spec, View};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

impl Tensor {
    /// A copy in memory of its own, row-major.
    pub(crate) fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        ops::copy(py, &self.view(py)?).map(Self::new)
    }

    /// On a device: itself where it is there, else a copy.
    pub(crate) fn on(&self, py: Python<'_>, device: DeviceKind) -> PyResult<Self> {
        let view = self.view(py)?;
        if view.device() == device {
            return Ok(Self::new(view));
        }
        let to = View::from(engines::on(py, device)?.empty(view.dtype(), view.shape()).raised(py)?);
        to.write_bytes(&elements::bytes(py, &view)?).raised(py)?;
        Ok(Self::new(to))
    }
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
    let mut tensor = engine.empty(dtype, sizes::shape(given)?).raised(py)?;
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
    let spec = Spec { dtype: dtype::of(dtype)?, shape: sizes::shape(shape)? };
    if spec.bytes() != bytes.len() {
        return Err(Class::Shape.error(py, format!("{} bytes are no {spec}", bytes.len())));
    }
    let view = View::from(engine.empty(spec.dtype, spec.shape).raised(py)?);
    view.write_bytes(bytes).raised(py)?;
    Ok(Tensor::new(view))
}

/// A new tensor over the memory of an array, or of a DLPack capsule.
#[pyfunction]
#[pyo3(signature = (array, /, *, copy = None))]
pub(crate) fn from_dlpack(array: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Tensor> {
    let py = array.py();
    let view = match array.cast::<PyCapsule>() {
        Ok(capsule) => from_capsule(capsule)?,
        Err(_) => operand::required(array, "array")?.view,
    };
    let tensor = Tensor::new(view);
    if copy == Some(true) { tensor.copied(py) } else { Ok(tensor) }
}
