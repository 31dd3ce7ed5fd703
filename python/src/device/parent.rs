//! Tensors of the process that this one was forked from.

use crate::engines;
use crate::error::{Class, Raise};
use landfall::{DeviceKind, Foreign, Layout, View};
use pyo3::prelude::*;

/// A tensor of the parent's engine as one of this process's: a fork copies main memory, and no GPU.
pub(crate) fn adopt(py: Python<'_>, view: &View) -> PyResult<View> {
    match view.device() {
        DeviceKind::Cpu | DeviceKind::Null => {}
        DeviceKind::Cuda(_) => return Err(Class::Device.error(py, engines::FORKED)),
    }
    let layout = Layout::strided(view.shape(), view.layout().strides(), 0)
        .map_err(|rule| rule.of("tensor", &[view.spec()], None, None))
        .raised(py)?;
    let bytes = layout.span().end * view.dtype().size();
    let address = view.hand_out().raised(py)?;
    // SAFETY: the view keeps this copy of the parent's memory, from its first element on, as long as it lives.
    let mut foreign = unsafe { Foreign::new(DeviceKind::Cpu, address, bytes, view.clone()) };
    if !view.is_writable() {
        foreign = foreign.read_only();
    }
    engines::on(py, DeviceKind::Cpu)?.wrap(foreign, view.dtype(), layout).raised(py)
}
