//! The engines of the process: one for each device, made when it is first needed.
//!
//! A fork copies an engine without its threads, so a child forgets its parent's engines and makes its own
//! (`landfall/__init__.py` registers [`forget`]).

use crate::error::{Class, Raise, raise};
use landfall::{DeviceKind, Engine, Error, ForeignStream};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyDict};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// How often this process was forked from another that had loaded the package.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Locked only by threads that hold the interpreter's lock, and never while they let go of it: no thread can hold it while
/// another forks.
static ENGINES: Mutex<Engines> = Mutex::new(Engines { made: Vec::new(), parent_had_cuda: false });

struct Engines {
    /// They live as long as the process: tensors of any thread may be the last to go.
    made: Vec<(DeviceKind, &'static Engine)>,
    parent_had_cuda: bool,
}

/// Held by a call on a GPU.
static ON_STREAM: Mutex<()> = Mutex::new(());

/// Issues a call, without the interpreter's lock, on the stream of the library that the arrays are from.
pub(crate) fn issue<T: Send>(
    py: Python<'_>,
    engine: &Engine,
    stream: Option<ForeignStream>,
    call: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    py.detach(|| on_stream(engine, stream, call)).raised(py)
}

/// Issues a call on a stream of another library; the calling thread needs no lock of the interpreter's.
pub(crate) fn on_stream<T, E: From<Error>>(
    engine: &Engine,
    stream: Option<ForeignStream>,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if engine.device() == DeviceKind::Cpu {
        return call();
    }
    // A call chooses a stream and then issues on it: one at a time.
    let _alone = ON_STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    if stream.is_some() {
        engine.follow(stream)?;
    }
    call()
}

/// The engines that were made for calls without the interpreter: the CPU's, then those of the GPUs.
static READY: [OnceLock<&'static Engine>; 1 + GPUS] = [const { OnceLock::new() }; 1 + GPUS];

/// The most GPUs of a process.
const GPUS: usize = 64;

fn place(device: DeviceKind) -> Option<&'static OnceLock<&'static Engine>> {
    match device {
        DeviceKind::Cpu => READY.first(),
        DeviceKind::Cuda(ordinal) => READY.get(usize::try_from(ordinal).ok()?.checked_add(1)?),
        DeviceKind::Null => None,
    }
}

/// Makes the engine of a device for calls that threads without the interpreter make.
pub(crate) fn make_ready(py: Python<'_>, device: DeviceKind) -> PyResult<&'static Engine> {
    let engine = on(py, device)?;
    Ok(place(device).map_or(engine, |place| place.get_or_init(|| engine)))
}

/// The engine of a device that [`make_ready`] made.
pub(crate) fn ready(device: DeviceKind) -> Option<&'static Engine> {
    place(device)?.get().copied()
}

/// The generation of engines; a tensor of another one belongs to an engine of the parent process.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Relaxed)
}

/// Loads CUDA's libraries from wheels, once, where the system has none: `landfall/_cuda.py`.
pub(crate) fn preload(py: Python<'_>) -> PyResult<()> {
    static DONE: PyOnceLock<()> = PyOnceLock::new();
    let load = || py.import("landfall._cuda")?.call_method0("preload").map(drop);
    DONE.get_or_try_init(py, load).copied()
}

/// The engine of a device.
pub(crate) fn on(py: Python<'_>, device: DeviceKind) -> PyResult<&'static Engine> {
    if matches!(device, DeviceKind::Cuda(_)) {
        preload(py)?;
    }
    // Exceptions are made when the lock is free again: that may let another thread run.
    match find_or_make(device) {
        Ok(engine) => Ok(engine),
        Err(Some(error)) => Err(raise(py, error)),
        Err(None) => Err(Class::Device.error(py, FORKED)),
    }
}

/// The engine of a device; no error is that of a GPU in a child of a process that uses one.
fn find_or_make(device: DeviceKind) -> Result<&'static Engine, Option<Error>> {
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, engine)) = engines.made.iter().find(|(of, _)| *of == device) {
        return Ok(engine);
    }
    let engine = match device {
        DeviceKind::Cpu => Engine::cpu(),
        DeviceKind::Cuda(_) if engines.parent_had_cuda => return Err(None),
        DeviceKind::Cuda(ordinal) => Engine::cuda(ordinal),
        DeviceKind::Null => Ok(Engine::null()),
    };
    let engine = &*Box::leak(Box::new(engine?));
    engines.made.push((device, engine));
    Ok(engine)
}

/// Why a child has no GPU.
pub(crate) const FORKED: &str = "this process was forked from one that uses CUDA, which does not survive a fork; start \
    processes with \"spawn\": multiprocessing.set_start_method(\"spawn\")";

/// Called in a forked child, before anything else of the package.
#[pyfunction]
#[pyo3(name = "_forget_engines")]
pub(crate) fn forget() {
    GENERATION.fetch_add(1, Relaxed);
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.parent_had_cuda |= engines.made.iter().any(|(of, _)| matches!(of, DeviceKind::Cuda(_)));
    engines.made.clear();
}

/// The device that a Python argument names.
pub(crate) fn device(py: Python<'_>, name: Option<&str>) -> PyResult<DeviceKind> {
    let Some(name) = name else { return Ok(DeviceKind::Cpu) };
    let ordinal = match name.split_once(':') {
        None if name == "cpu" => return Ok(DeviceKind::Cpu),
        None if name == "cuda" => Some(0),
        Some(("cuda", ordinal)) => ordinal.parse().ok(),
        None | Some(_) => None,
    };
    ordinal.map(DeviceKind::Cuda).ok_or_else(|| {
        Class::Device
            .error(py, format!("no device is called {name:?}; there are \"cpu\", \"cuda\" and \"cuda:N\""))
    })
}

/// What a device has counted since it was first used: allocations, bytes_in_use, launches, replays, host_transfers,
/// synchronizations.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn counters<'py>(py: Python<'py>, device: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let counted = on(py, self::device(py, device)?)?.counters();
    [
        ("allocations", counted.allocations),
        ("bytes_in_use", counted.bytes_in_use),
        ("launches", counted.launches),
        ("replays", counted.replays),
        ("host_transfers", counted.host_transfers),
        ("synchronizations", counted.synchronizations),
    ]
    .into_py_dict(py)
}

/// Waits until a device has done all work.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn synchronize(py: Python<'_>, device: Option<&str>) -> PyResult<()> {
    let engine = on(py, self::device(py, device)?)?;
    py.detach(|| engine.synchronize()).raised(py)
}
