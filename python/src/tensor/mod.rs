//! `landfall.Tensor`: a view that owns its memory, or shares it with another library.

pub(crate) mod cuts;
pub(crate) mod elements;
pub(crate) mod sizes;

pub(crate) use elements::Memory;

use crate::device::adopt;
use crate::engines;
use landfall::View;
use pyo3::prelude::*;

/// An array in the memory of a device, which it owns or shares with another library. Indices and `reshape` give views of
/// the same memory; operators give new tensors; `landfall.ops` takes a destination.
#[pyclass(frozen, weakref, module = "landfall", name = "Tensor")]
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) view: View,
    /// Of the engine that it belongs to.
    generation: u64,
}

impl Tensor {
    /// A tensor of an engine of this process.
    pub(crate) fn new(view: View) -> Self {
        Self { view, generation: engines::generation() }
    }

    /// Its view, in an engine of this process.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<View> {
        if self.generation == engines::generation() { Ok(self.view.clone()) } else { adopt(py, &self.view) }
    }
}

/// Iterates over axis 0 of a tensor or value by its indices. One without axes has no length, which its error says.
pub(crate) fn along<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let builtins = object.py().import("builtins")?;
    let indices = builtins.getattr("range")?.call1((object.len()?,))?;
    builtins.getattr("map")?.call1((object.getattr("__getitem__")?, indices))
}
