//! DLPack in: tensors of other libraries, by capsule and by the C exchange API.

use super::abi::{
    CPU, CUDA, CUDA_HOST, EXCHANGE_API, ExchangeApi, LEGACY, LegacyManaged, MAX_VERSION, Managed, READ_ONLY,
    Tensor, USED_LEGACY, USED_VERSIONED, VERSIONED,
};
use super::layout::{NOWHERE, layout};
use crate::dtype;
use crate::engines;
use crate::error::{Class, Raise};
use landfall::{DeviceKind, Foreign, ForeignStream, MAX_RANK, View};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};
use std::ffi::c_void;
use std::ptr::NonNull;

/// An array of another library.
#[derive(Debug, Clone)]
pub(crate) struct Imported {
    /// Its memory.
    pub(crate) view: View,
    /// The stream on which its library works, where that is known.
    pub(crate) stream: Option<ForeignStream>,
}

/// A tensor that another library lent; it is given back when this drops.
#[derive(Debug)]
enum Lent {
    Versioned(NonNull<Managed>),
    Legacy(NonNull<LegacyManaged>),
}

// SAFETY: DLPack lets a consumer call the deleter from any thread; nothing else of the struct is used after the import.
unsafe impl Send for Lent {}
// SAFETY: as above; a shared reference gives access to nothing that changes.
unsafe impl Sync for Lent {}

impl Lent {
    fn tensor(&self) -> &Tensor {
        match self {
            // SAFETY: the struct is alive until its deleter is called, which only `drop` does.
            Self::Versioned(managed) => unsafe { &managed.as_ref().tensor },
            // SAFETY: as above.
            Self::Legacy(managed) => unsafe { &managed.as_ref().tensor },
        }
    }

    /// Whether the memory must not be written: it says so, or comes from a library too old to say.
    fn read_only(&self) -> bool {
        match self {
            // SAFETY: as above.
            Self::Versioned(managed) => unsafe { managed.as_ref().flags & READ_ONLY != 0 },
            Self::Legacy(_) => true,
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Deleters of libraries that hold Python objects expect the interpreter's lock, and not all take it themselves.
        // Without an interpreter the memory ends with the process.
        Python::try_attach(|_| match *self {
            Self::Versioned(managed) => {
                // SAFETY: the struct was handed over, and nobody else calls the deleter.
                if let Some(deleter) = unsafe { managed.as_ref().deleter } {
                    // SAFETY: as above; this is the last use.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
            Self::Legacy(managed) => {
                // SAFETY: as above.
                if let Some(deleter) = unsafe { managed.as_ref().deleter } {
                    // SAFETY: as above.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
        });
    }
}

/// The tensor of a DLPack capsule, which is used up.
pub(crate) fn from_capsule(capsule: &Bound<'_, PyCapsule>) -> PyResult<View> {
    let py = capsule.py();
    let lent = if capsule.is_valid_checked(Some(VERSIONED)) {
        let pointer = capsule.pointer_checked(Some(VERSIONED))?;
        rename(capsule, USED_VERSIONED)?;
        Lent::Versioned(pointer.cast())
    } else if capsule.is_valid_checked(Some(LEGACY)) {
        let pointer = capsule.pointer_checked(Some(LEGACY))?;
        rename(capsule, USED_LEGACY)?;
        Lent::Legacy(pointer.cast())
    } else if capsule.is_valid_checked(Some(USED_VERSIONED)) || capsule.is_valid_checked(Some(USED_LEGACY)) {
        return Err(Class::Exchange.error(
            py,
            "this DLPack capsule was used already, and a capsule is good for one import; call __dlpack__ again for another",
        ));
    } else {
        return Err(Class::Exchange.error(py, format!("{} is no DLPack capsule", capsule.repr()?)));
    };
    wrap(py, lent, None, true)
}

fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static std::ffi::CStr) -> PyResult<()> {
    // SAFETY: the object is a capsule, and the name lives for ever.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// The C exchange API of a class, looked up once for the first class that has one, such as torch's tensors.
fn exchange_api(class: &Bound<'_, PyType>) -> PyResult<Option<&'static ExchangeApi>> {
    static FIRST: PyOnceLock<(Py<PyType>, &'static ExchangeApi)> = PyOnceLock::new();
    let py = class.py();
    if let Some((_, api)) = FIRST.get(py).filter(|(first, _)| first.is(class)) {
        return Ok(Some(api));
    }
    let Some(capsule) = class.getattr_opt(pyo3::intern!(py, "__dlpack_c_exchange_api__"))? else {
        return Ok(None);
    };
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else { return Ok(None) };
    let Ok(pointer) = capsule.pointer_checked(Some(EXCHANGE_API)) else { return Ok(None) };
    let mut api = pointer.as_ptr().cast_const().cast::<ExchangeApi>();
    // SAFETY: a capsule of this name holds the API's table, or a later one with the same head, which lives as long as the
    // process; a table names an earlier one or null.
    while !api.is_null() && unsafe { (*api).version.major } > MAX_VERSION.0 {
        // SAFETY: as above.
        api = unsafe { (*api).previous };
    }
    // SAFETY: as above; with this major version the whole table is known.
    let api: Option<&'static ExchangeApi> = unsafe { api.as_ref() };
    if let Some(api) = api {
        FIRST.get_or_init(py, || (class.clone().unbind(), api));
    }
    Ok(api)
}

/// The tensor of an object whose class offers the C exchange API; `None` for another. A call that writes to one that does not
/// wait leaves faults of indices to `synchronize`.
pub(crate) fn from_exchange_api(object: &Bound<'_, PyAny>, waits: bool) -> PyResult<Option<Imported>> {
    let py = object.py();
    let Some(api) = exchange_api(&object.get_type())? else { return Ok(None) };
    let (Some(managed_from_object), Some(current_work_stream)) =
        (api.managed_from_object, api.current_work_stream)
    else {
        return Ok(None);
    };
    let mut managed = std::ptr::null_mut();
    // SAFETY: the interpreter's lock is held, and the object is one of the class that the table was found on.
    let status = unsafe { managed_from_object(object.as_ptr().cast::<c_void>(), &raw mut managed) };
    let Some(managed) = NonNull::new(managed).filter(|_| status == 0) else { return Err(PyErr::fetch(py)) };
    let lent = Lent::Versioned(managed);
    let mut stream = None;
    let device = lent.tensor().device;
    if device.kind == CUDA {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the interpreter's lock is held.
        if unsafe { current_work_stream(device.kind, device.ordinal, &raw mut handle) } != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the library works on this stream of the GPU's primary context, and keeps it.
        stream = Some(unsafe { ForeignStream::new(handle as u64) });
    }
    Ok(Some(Imported { view: wrap(py, lent, stream, waits)?, stream }))
}

fn wrap(py: Python<'_>, lent: Lent, stream: Option<ForeignStream>, waits: bool) -> PyResult<View> {
    if let Lent::Versioned(managed) = &lent {
        // SAFETY: the struct is alive; everything up to its flags has its place in every version.
        let version = unsafe { managed.as_ref().version };
        if version.major != MAX_VERSION.0 {
            return Err(Class::Exchange.error(
                py,
                format!(
                    "the tensor is one of DLPack {}.{}, this package speaks 1.x; update the one or the other",
                    version.major, version.minor
                ),
            ));
        }
    }
    let tensor = lent.tensor();
    let dtype = tensor.dtype.dtype().map_err(|name| {
        Class::DType.error(
            py,
            format!("the array is of {name}, which Landfall does not have; it has {}", dtype::all()),
        )
    })?;
    let device = match (tensor.device.kind, u32::try_from(tensor.device.ordinal)) {
        (CPU | CUDA_HOST, _) => DeviceKind::Cpu,
        (CUDA, Ok(ordinal)) => DeviceKind::Cuda(ordinal),
        (kind, _) => {
            return Err(Class::Device.error(
                py,
                format!(
                    "the array is on DLPack device ({kind}, {}); Landfall runs on the CPU and on NVIDIA GPUs: copy it there",
                    tensor.device.ordinal
                ),
            ));
        }
    };
    let Some(rank) = usize::try_from(tensor.rank).ok().filter(|&rank| rank <= MAX_RANK) else {
        return Err(Class::Shape
            .error(py, format!("the array has {} axes; a tensor has 0 to {MAX_RANK}", tensor.rank)));
    };
    let list = |start: *mut i64| {
        // SAFETY: shape and strides have one number for each axis, and live as long as the struct.
        (!start.is_null() && rank > 0).then(|| unsafe { std::slice::from_raw_parts(start, rank) })
    };
    let shape: &[i64] = match list(tensor.shape) {
        Some(shape) => shape,
        None if rank == 0 => &[],
        None => {
            let why = format!("the array has {rank} axes and does not say of which sizes");
            return Err(Class::Exchange.error(py, why));
        }
    };
    let layout = layout(py, shape, list(tensor.strides))?;
    let bytes = layout.span().end * dtype.size();
    let address = match (tensor.data as u64).checked_add(tensor.byte_offset) {
        _ if bytes == 0 => NOWHERE,
        _ if tensor.data.is_null() => {
            return Err(Class::Exchange.error(
                py,
                "the array has elements but no memory (such as a fake or meta tensor); give one that holds numbers",
            ));
        }
        Some(address) => address,
        None => {
            return Err(Class::Exchange.error(
                py,
                format!(
                    "the array begins {} bytes behind its memory, beyond every address",
                    tensor.byte_offset
                ),
            ));
        }
    };
    let read_only = lent.read_only();
    let engine = engines::on(py, device)?;
    // SAFETY: the producer says that this memory is there until its deleter is called, which dropping `lent` does.
    let mut foreign = unsafe { Foreign::new(device, address, bytes, lent) };
    if read_only {
        foreign = foreign.read_only();
    }
    if !waits {
        foreign = foreign.unwaited();
    }
    let Some(on) = stream else { return engine.wrap(foreign, dtype, layout).raised(py) };
    let foreign = foreign.on_stream(on);
    if engine.stream() == Some(on.handle()) {
        return engine.wrap(foreign, dtype, layout).raised(py);
    }
    // On that stream first, so that nothing waits between two streams, nor leaves one that is captured.
    engines::issue(py, engine, stream, || engine.wrap(foreign, dtype, layout))
}
