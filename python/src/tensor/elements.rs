//! The elements of a tensor as objects of Python: bytes, numbers, lists, text, numpy arrays.

use crate::dtype;
use crate::error::{Class, Raise};
use landfall::{DType, DeviceKind, HostTensor, View, with_dtype};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};

/// The bytes of the elements, row-major.
pub(crate) fn bytes(py: Python<'_>, view: &View) -> PyResult<Vec<u8>> {
    py.detach(
        || with_dtype!(any view.dtype(), T => view.read::<T>().map(|v| bytemuck::cast_slice(&v).to_vec())),
    )
    .raised(py)
}

/// The elements, on the host.
pub(crate) fn host(py: Python<'_>, view: &View) -> PyResult<HostTensor> {
    py.detach(|| view.read_host()).raised(py)
}

/// Element `i` as a number of Python.
pub(crate) fn number<'py>(py: Python<'py>, host: &HostTensor, i: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(match host.spec.dtype {
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => host.data[i].into_pyobject(py)?.into_any(),
        DType::I32 | DType::I64 | DType::U8 => host.int(i).into_pyobject(py)?.into_any(),
        DType::Bool => PyBool::new(py, host.data[i] != 0.0).to_owned().into_any(),
    })
}

/// Nested lists of numbers; a number for a scalar.
pub(crate) fn list<'py>(py: Python<'py>, host: &HostTensor) -> PyResult<Bound<'py, PyAny>> {
    nested(py, host, 0, &mut 0)
}

fn nested<'py>(
    py: Python<'py>,
    host: &HostTensor,
    axis: usize,
    next: &mut usize,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(&size) = host.dims().get(axis) else {
        let item = number(py, host, *next);
        *next += 1;
        return item;
    };
    let list = PyList::empty(py);
    for _ in 0..size {
        list.append(nested(py, host, axis + 1, next)?)?;
    }
    Ok(list.into_any())
}

/// Memory as numpy takes it over, without a copy, once it was handed out.
#[pyclass(frozen, module = "landfall._landfall", name = "_Memory")]
pub(crate) struct Memory {
    view: View,
    address: u64,
}

#[pymethods]
impl Memory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (spec, size) = (self.view.spec(), self.view.dtype().size());
        let kind = match spec.dtype {
            DType::F32 => "=f4",
            DType::F64 => "=f8",
            DType::F16 => "=f2",
            DType::I32 => "=i4",
            DType::I64 => "=i8",
            DType::U8 => "|u1",
            DType::Bool => "|b1",
            // numpy has none; `array` says it afterwards.
            DType::BF16 => "=u2",
        };
        let strides = self.view.layout().strides().iter().map(|&s| s.saturating_mul(size));
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", tuple(py, spec.shape.dims().iter().copied())?)?;
        interface.set_item("strides", tuple(py, strides)?)?;
        interface.set_item("data", (self.address, !self.view.is_writable()))?;
        Ok(interface)
    }
}

/// A tuple of sizes.
pub(crate) fn tuple<'py>(
    py: Python<'py>,
    sizes: impl IntoIterator<Item = usize>,
) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
    pyo3::types::PyTuple::new(py, sizes.into_iter().collect::<Vec<_>>())
}

/// The numpy array over a tensor's memory.
pub(crate) fn array<'py>(py: Python<'py>, view: View) -> PyResult<Bound<'py, PyAny>> {
    let (spec, device) = (view.spec(), view.device());
    if device != DeviceKind::Cpu {
        return Err(Class::Device.error(
            py,
            format!(
                "a numpy array lies in main memory, {spec} on {device}; copy it there: x.to(\"cpu\").numpy()"
            ),
        ));
    }
    let address = py.detach(|| view.hand_out()).raised(py)?;
    let array = py.import("numpy")?.call_method1("asarray", (Memory { view, address },))?;
    if spec.dtype != DType::BF16 {
        return Ok(array);
    }
    let Ok(ml_dtypes) = py.import("ml_dtypes") else {
        return Err(Class::DType.error(
            py,
            format!(
                "numpy has no {} of its own; `pip install ml_dtypes`, or convert: ops.cast(x, dtype=\"float32\").numpy()",
                dtype::numpy_name(spec.dtype)
            ),
        ));
    };
    array.call_method1("view", (ml_dtypes.getattr("bfloat16")?,))
}
