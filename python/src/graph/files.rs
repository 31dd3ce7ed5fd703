//! Tensors by name in safetensors files.

use crate::error::{Class, Raise};
use crate::tensor::Tensor;
use crate::tensor::elements::bytes;
use crate::{engines, operand};
use landfall::{DeviceKind, View};
use landfall_train::checkpoint::{File, Tensor as Stored};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Writes arrays by name to a safetensors file, so that a reader never sees half of it.
#[pyfunction]
pub(crate) fn save(py: Python<'_>, path: PathBuf, tensors: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut file = File::default();
    for (name, array) in tensors {
        let name: String = name.extract()?;
        let view = operand::required(&array, &name)?.view;
        file.tensors.insert(name, Stored { spec: view.spec(), bytes: bytes(py, &view)? });
    }
    py.detach(|| file.write(&path)).map_err(|e| Class::Error.error(py, e.to_string()))
}

/// The tensors of a safetensors file by name, on a device.
#[pyfunction]
#[pyo3(signature = (path, device = None))]
pub(crate) fn load<'py>(
    py: Python<'py>,
    path: PathBuf,
    device: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let device: DeviceKind = engines::device(py, device)?;
    let engine = engines::on(py, device)?;
    let file = py.detach(|| File::read(&path)).map_err(|e| Class::Error.error(py, e.to_string()))?;
    let dict = PyDict::new(py);
    for (name, stored) in file.tensors {
        let view = View::from(engine.empty(stored.spec.dtype, stored.spec.shape).raised(py)?);
        py.detach(|| view.write_bytes(&stored.bytes)).raised(py)?;
        dict.set_item(name, Tensor::new(view))?;
    }
    Ok(dict)
}
