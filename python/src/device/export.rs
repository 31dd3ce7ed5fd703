//! DLPack out: a capsule of a view, for other libraries.

use super::abi::{
    CPU, CUDA, DataType, Device, IS_COPIED, MAX_VERSION, Managed, READ_ONLY, Tensor, VERSIONED, Version,
};
use crate::engines;
use crate::error::Raise;
use landfall::{DeviceKind, Engine, ForeignStream, MAX_RANK, View};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::c_void;
use std::ptr::NonNull;

/// What a capsule points to: the struct first, so that its address is that of the whole.
#[repr(C)]
struct Export {
    managed: Managed,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    view: View,
    /// The engine, and the consumer's stream, on which it may still use the memory when it lets go of it.
    stream: Option<(&'static Engine, ForeignStream)>,
}

impl Drop for Export {
    fn drop(&mut self) {
        // Work of the consumer's comes before whatever reuses the memory. A failure can not be told to anybody.
        if let Some((engine, stream)) = self.stream {
            _ = engine.wait_for(stream);
        }
    }
}

/// A capsule of the view, which keeps its memory alive until the consumer lets go of it.
/// On a GPU the consumer works on `stream`, which waits for everything issued; the engine works there from now on.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    view: View,
    copied: bool,
    stream: Option<u64>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = match stream {
        // SAFETY: the consumer names a stream of its own, in the primary context of the GPU.
        Some(stream) => Some((engines::on(py, view.device())?, unsafe { ForeignStream::new(stream) })),
        None => None,
    };
    let address = match stream {
        // On the consumer's stream first: where that is captured, nothing may be waited for.
        Some((engine, stream)) => engines::issue(py, engine, Some(stream), || view.hand_out())?,
        None => py.detach(|| view.hand_out()).raised(py)?,
    };
    let list = |sizes: &[usize]| {
        let mut list = [0; MAX_RANK];
        let sizes = sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX));
        list.iter_mut().zip(sizes).for_each(|(to, size)| *to = size);
        list
    };
    let (shape, strides) = (list(view.shape().dims()), list(view.layout().strides()));
    let flags = if view.is_writable() { 0 } else { READ_ONLY } | if copied { IS_COPIED } else { 0 };
    let (major, minor) = MAX_VERSION;
    let tensor = Tensor {
        data: address as *mut c_void,
        device: match view.device() {
            DeviceKind::Cpu | DeviceKind::Null => Device { kind: CPU, ordinal: 0 },
            DeviceKind::Cuda(ordinal) => {
                Device { kind: CUDA, ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX) }
            }
        },
        rank: view.shape().rank() as i32,
        dtype: DataType::of(view.dtype()),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = Managed {
        version: Version { major, minor },
        context: std::ptr::null_mut(),
        deleter: Some(delete),
        flags,
        tensor,
    };
    let export = Box::into_raw(Box::new(Export { managed, shape, strides, view, stream }));
    // SAFETY: the box was just made, and nobody else knows it; the lists stay where they are as long as it lives.
    let pointer = unsafe {
        (*export).managed.tensor.shape = (&raw mut (*export).shape).cast();
        (*export).managed.tensor.strides = (&raw mut (*export).strides).cast();
        NonNull::new_unchecked(export.cast::<c_void>())
    };
    // SAFETY: the capsule owns the box until a consumer renames it; `unused` frees it only if none did.
    let capsule = unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, VERSIONED, Some(unused)) };
    if capsule.is_err() {
        // SAFETY: no capsule was made, so the box is still this function's alone.
        drop(unsafe { Box::from_raw(export) });
    }
    capsule
}

/// The deleter that consumers call, from any thread.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: consumers call it once, with the struct of `capsule`, the first field of its box.
    drop(unsafe { Box::from_raw(managed.cast::<Export>()) });
}

/// The destructor of a capsule: what no consumer took is freed here.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule, which has this name until a consumer takes what it holds.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
