//! The NVIDIA GPU device: eager launches are issued to its stream, programs are captured as one CUDA graph and
//! replayed.

mod cache;
mod capture;
mod compile;
mod driver;
mod eager;
mod faults;
mod graph;
mod join;
mod launch_cache;
mod log;
mod memory;
mod nccl;
mod preload;
mod probe;
mod product;
mod stream;
mod tensor_map;
mod timed;
mod watch;

pub use compile::Compiler;
pub use probe::{count, survey};

use super::steps::lower;
use super::{
    Counters, Counting, Device, Foreign, ForeignStream, Hardware, Launch, LaunchList, Place, Recording,
};
use crate::contract::Op;
use crate::error::Error;
use crate::kernel::cuda::product::Addresses;
use crate::kernel::cuda::{
    CollectiveLaunch, Geometry, KernelLaunch, Module, ProductLaunch, Seat, Sink, TENSOR_MAP_WORDS, Tile,
    Values,
};
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand, RankFault};
use driver::{Context, Loaded};
use eager::Eager;
use faults::Faults;
use launch_cache::{LaunchCache, LaunchKey};
use log::Gone;
use memory::Memory;
use nccl::Communicator;
use product::{Product, Products};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stream::{Relaxation, Stream};

/// The GPU of this index.
///
/// # Errors
/// [`Error::Absent`] for a missing part; a fault of the driver.
pub(crate) fn open(ordinal: u32) -> Result<Arc<dyn Device>, Error> {
    Ok(Cuda::new(ordinal)?)
}

/// A GPU with one stream for eager work.
///
/// Field order is drop order: fields that live in the context are dropped before it.
#[derive(Debug)]
struct Cuda {
    ordinal: u32,
    compiler: Compiler,
    issuing: Mutex<Issuing>,
    products: Products,
    faults: Faults,
    /// The first fault that destroyed the context.
    failure: OnceLock<Error>,
    frees: Mutex<Frees>,
    /// But for launches, which are counted where they are issued.
    counting: Counting,
    world: Place,
    /// The GPUs of the other ranks, if it joined a world.
    communicator: OnceLock<Arc<Communicator>>,
    /// Nanoseconds of a collective of one rank, where a kernel stands in for it.
    stand_in: Option<u64>,
    /// Whether each launch is waited for, so that a fault is reported by its own kernel.
    sync_each_launch: bool,
    /// Whether CUDA graphs are disabled and programs issue their launches one by one.
    graphs_disabled: bool,
    stream: Stream,
    memory: Memory,
    context: Context,
}

/// The mutable state of eager launches, under one lock.
#[derive(Debug, Default)]
struct Issuing {
    modules: FxHashMap<Module, Arc<Loaded>>,
    /// Cached calls of one launch without workspace.
    calls: LaunchCache<Prepared>,
    /// The most recent launch.
    last: Option<Issued>,
    /// Number of launches.
    launches: u64,
}

/// Memory freed during a capture, on this thread or another: the driver is called when the capture ends.
#[derive(Debug, Default)]
struct Frees {
    capturing: bool,
    waiting: Vec<Address>,
}

/// A launch, for errors.
#[derive(Debug, Clone, Copy)]
struct Issued {
    op: &'static str,
    /// The kernel, or the cuBLASLt call.
    what: &'static str,
    /// For a kernel: its source and its launch geometry.
    of: Option<(&'static str, Geometry)>,
}

impl fmt::Display for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, what, .. } = self;
        match &self.of {
            Some((source, geometry)) => write!(f, "kernel {what} of {source}.cu for {op} ({geometry})"),
            None => write!(f, "{what} for {op}"),
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    fn new(ordinal: u32) -> Result<Arc<Self>, Error> {
        let context = Context::new(ordinal)?;
        let compiler = Compiler::new(&Compiler::architecture(context.capability))?;
        let stream = Stream::new()?;
        let pooled = std::env::var_os("LANDFALL_CUDA_POOL").is_none_or(|v| v != "0");
        let memory = if pooled { Memory::pool(&context)? } else { Memory::pieces() };
        let bytes = Faults::BYTES;
        let full = Error::Memory { bytes, device: DeviceKind::Cuda(ordinal), in_use: 0 };
        let records = memory.allocate(&stream, bytes)?.ok_or(full)?;
        stream.fill(records, bytes, 0)?;
        Ok(Arc::new(Self {
            ordinal,
            compiler,
            issuing: Mutex::default(),
            products: Products::default(),
            faults: Faults::new(records)?,
            failure: OnceLock::new(),
            frees: Mutex::default(),
            counting: Counting::default(),
            world: Place::default(),
            communicator: OnceLock::new(),
            stand_in: stand_in()?,
            sync_each_launch: std::env::var_os("LANDFALL_CUDA_SYNC").is_some_and(|v| v == "1"),
            graphs_disabled: std::env::var_os("LANDFALL_CUDA_GRAPH").is_some_and(|v| v == "0"),
            stream,
            memory,
            context,
        }))
    }

    /// Whether the code of a module is loaded.
    fn has(&self, module: &Module) -> bool {
        locked(&self.issuing).modules.contains_key(module)
    }

    /// The loaded code of a module, compiled at its first use.
    fn loaded(&self, module: &Module) -> Result<Arc<Loaded>, Error> {
        if let Some(found) = locked(&self.issuing).modules.get(module) {
            return Ok(Arc::clone(found));
        }
        // A capture by another library may forbid what loading code does.
        let _relaxed = self.stream.is_captured().then(Relaxation::begin).transpose()?;
        // Compiled outside of the lock: other threads' launches continue.
        let compiled = self.compiler.compile(module)?;
        let loaded = Arc::new(Loaded::new(&self.context, module, &compiled.code)?);
        Ok(match locked(&self.issuing).modules.entry(module.clone()) {
            Slot::Occupied(first) => Arc::clone(first.get()),
            Slot::Vacant(slot) => Arc::clone(slot.insert(loaded)),
        })
    }

    /// Finds the code of a launch, and keeps what the launch needs.
    fn prepare(&self, op: &'static str, launch: &KernelLaunch<'_>) -> Result<Prepared, Error> {
        Ok(Prepared {
            loaded: self.loaded(launch.module)?,
            entry: launch.entry,
            geometry: launch.geometry,
            issued: launch.issued(op),
            values: launch.values.clone(),
        })
    }

    /// Counts launches; `last` was the most recent one, if known.
    fn counted(&self, launches: u64, last: Option<Issued>) {
        let mut issuing = locked(&self.issuing);
        issuing.launches += launches;
        issuing.last = last.or(issuing.last);
    }

    /// Makes the context current, and fails if the context has failed before.
    #[inline]
    fn enter(&self) -> Result<(), Error> {
        match self.failure.get() {
            Some(first) => Err(first.clone()),
            None => self.context.enter(),
        }
    }

    /// Where it stands among ranks.
    fn seat(&self) -> Seat {
        let alone = self.stand_in.map_or(Seat::Alone, Seat::StandIn);
        self.communicator.get().map_or(alone, |by| by.seat())
    }

    /// The GPUs of the other ranks.
    fn communicator(&self) -> Result<&Arc<Communicator>, Error> {
        let none = || {
            let (device, size) = (self.kind().to_string(), self.world.get().size());
            let why = "it has no communicator; join the world again".to_owned();
            RankFault::Device { device, size, why }.into()
        };
        self.communicator.get().ok_or_else(none)
    }

    /// After a wait: its results are none where a collective was given up meanwhile.
    fn met(&self) -> Result<(), Error> {
        self.communicator.get().map_or(Ok(()), |by| by.fault())
    }

    /// Adds the most recent launch to a fault, and stores the first fault: it poisons the context.
    #[inline]
    fn annotate_error<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| self.explained(error))
    }

    #[cold]
    fn explained(&self, error: Error) -> Error {
        let Error::Cuda { call, code, why, .. } = error else { return error };
        let last = locked(&self.issuing).last.map(|l| l.to_string());
        let sticky = STICKY.contains(&code.as_str());
        let error = Error::Cuda { call, code, why, last };
        if sticky {
            self.failure.get_or_init(|| error.clone());
        }
        error
    }
}

impl Cuda {
    /// Issues an eager launch.
    fn eager(&self, launch: &Launch<'_>, keep: bool) -> Result<Eager<'_>, Error> {
        let mut eager = Eager::new(self, keep);
        let issued = self.annotate_error(lower(launch, self.kind(), &mut eager));
        if let (Err(_), Some(taken)) = (&issued, eager.record) {
            self.faults.unused(taken);
        }
        issued?;
        let of = (launch.op.name(), eager.record);
        self.annotate_error(self.faults.launched(&self.stream, of, launch.inputs, launch.outputs))?;
        Ok(eager)
    }
}

/// Nanoseconds of a collective's stand-in, from the environment.
fn stand_in() -> Result<Option<u64>, Error> {
    const NAME: &str = "LANDFALL_CUDA_STAND_IN";
    let Some(text) = std::env::var_os(NAME) else { return Ok(None) };
    let microseconds = text.to_str().and_then(|text| text.parse::<u32>().ok());
    let why = || Error::Setting {
        name: NAME,
        value: text.to_string_lossy().into_owned(),
        expected: "microseconds",
    };
    Ok(Some(u64::from(microseconds.ok_or_else(why)?) * 1000))
}

/// Result codes after which a context is lost.
const STICKY: &[&str] = &[
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
];

/// A launch with its code resolved: what remains is one driver call.
#[derive(Debug)]
struct Prepared {
    loaded: Arc<Loaded>,
    entry: usize,
    geometry: Geometry,
    issued: Issued,
    values: Values,
}

impl Prepared {
    /// One call of the driver.
    fn issue(&self, stream: &Stream) -> Result<(), Error> {
        stream.launch(self.loaded.functions[self.entry], &self.geometry, &mut self.values.pointers())
    }
}

impl KernelLaunch<'_> {
    fn issued(&self, op: &'static str) -> Issued {
        let source = self.module.source();
        Issued { op, what: source.entries[self.entry].name, of: Some((source.name, self.geometry)) }
    }
}

/// A matmul with its algorithm selected.
#[derive(Debug)]
struct PreparedProduct {
    product: Arc<Product>,
    addresses: Addresses,
    issued: Issued,
}

impl Cuda {
    /// Selects the algorithm of a matmul, if cuBLASLt has one.
    fn prepare_product(
        &self,
        op: &'static str,
        launch: &ProductLaunch,
    ) -> Result<Option<PreparedProduct>, Error> {
        let issued = Issued { op, what: "cublasLtMatmul", of: None };
        let _relaxed = self.stream.is_captured().then(Relaxation::begin).transpose()?;
        let found = self.products.find(&launch.problem)?;
        Ok(found.map(|product| PreparedProduct { product, addresses: launch.addresses, issued }))
    }
}

impl Device for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda(self.ordinal)
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Error> {
        self.enter()?;
        self.stream.outside_of_capture("memory would be allocated")?;
        let in_use = self.counting.in_use.load(Relaxed);
        let full = Error::Memory { bytes, device: self.kind(), in_use: in_use as usize };
        let address = self.annotate_error(self.memory.allocate(&self.stream, bytes))?.ok_or(full)?;
        self.counting.allocated(bytes);
        Ok(address)
    }

    fn free(&self, address: Address, bytes: usize) {
        self.counting.freed(bytes);
        self.faults.gone(Gone::Overwritten(address.0..address.0 + bytes as u64));
        let mut frees = locked(&self.frees);
        if frees.capturing {
            frees.waiting.push(address);
            return;
        }
        drop(frees);
        // A device error in Drop cannot be returned; the next call reports it.
        _ = self.enter().and_then(|()| self.annotate_error(self.memory.free(&self.stream, address)));
    }

    fn adopt(&self, foreign: &Foreign) -> Result<(), Error> {
        foreign.stream.map_or(Ok(()), |stream| self.wait_for(stream))
    }

    fn release(&self, foreign: &Foreign) {
        let bytes = foreign.address.0..foreign.address.0 + foreign.bytes as u64;
        self.faults.gone(if foreign.waits { Gone::Overwritten(bytes) } else { Gone::Left(bytes) });
        // On one stream all is in order.
        if foreign.stream.is_some_and(|stream| self.stream.is(stream)) {
            return;
        }
        let order = || match foreign.stream {
            Some(stream) => self.stream.is_awaited_by(stream),
            None => {
                self.counting.synchronizations.fetch_add(1, Relaxed);
                self.stream.synchronize()
            }
        };
        // A device error in Drop cannot be returned; the next call reports it.
        _ = self.enter().and_then(|()| self.annotate_error(order()));
    }

    fn follow(&self, stream: Option<ForeignStream>) -> Result<(), Error> {
        self.enter()?;
        self.annotate_error(self.stream.follow(stream))
    }

    fn wait_for(&self, stream: ForeignStream) -> Result<(), Error> {
        if self.stream.is(stream) {
            return Ok(());
        }
        self.enter()?;
        self.annotate_error(self.stream.waits_for(stream))
    }

    fn stream(&self) -> Option<u64> {
        Some(self.stream.handle() as u64)
    }

    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        if data.is_empty() {
            return Ok(());
        }
        self.enter()?;
        self.stream.outside_of_capture("memory of the host would be copied")?;
        self.annotate_error(self.stream.upload(to, data))?;
        self.faults.gone(Gone::Overwritten(to.0..to.0 + data.len() as u64));
        Ok(())
    }

    fn download(&self, from: &Operand, data: &mut [u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        self.counting.synchronizations.fetch_add(1, Relaxed);
        self.enter()?;
        self.stream.outside_of_capture("the host would wait for a result")?;
        self.annotate_error(self.faults.read(&self.stream, from, data))?;
        self.met()
    }

    fn sound(&self, of: &Operand) -> Result<(), Error> {
        if self.faults.waits() {
            self.enter()?;
            // A capture allows no waiting: `synchronize` reports what its replays find.
            if self.stream.is_captured() {
                return Ok(());
            }
            self.counting.synchronizations.fetch_add(1, Relaxed);
            self.annotate_error(self.faults.look(&self.stream))?;
        }
        self.faults.check(of)
    }

    fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        self.annotate_error(self.stream.fill(to, bytes, value))?;
        self.faults.gone(Gone::Overwritten(to.0..to.0 + bytes as u64));
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        self.enter()?;
        self.eager(launch, false).map(drop)
    }

    fn call(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let lasting = launch.workspace_bytes == 0 && !self.sync_each_launch;
        let key = LaunchKey::new(launch.op, launch.inputs, launch.outputs).filter(|_| lasting);
        let Some(key) = key.filter(|key| locked(&self.issuing).calls.seen_before(key)) else {
            return self.launch(launch);
        };
        self.enter()?;
        let eager = self.eager(launch, true)?;
        // A launch that checks an index has a record of its own each time.
        if let (1, Some(prepared), None) = (eager.launches, eager.kept, eager.record) {
            locked(&self.issuing).calls.insert(&key, prepared);
        }
        Ok(())
    }

    fn repeat(&self, op: &dyn Op, inputs: &[Operand], outputs: &[Operand]) -> Option<Result<(), Error>> {
        let key = LaunchKey::new(op, inputs, outputs)?;
        // Held during the driver call, as for every launch.
        let mut issuing = locked(&self.issuing);
        let Issuing { calls, last, launches, .. } = &mut *issuing;
        let prepared = calls.find(&key)?;
        let issued = self.enter().and_then(|()| {
            (*last, *launches) = (Some(prepared.issued), *launches + 1);
            prepared.issue(&self.stream)
        });
        drop(issuing);
        let issued =
            issued.and_then(|()| self.faults.launched(&self.stream, (op.name(), None), inputs, outputs));
        Some(self.annotate_error(issued))
    }

    fn preload(&self, lists: &[&LaunchList]) -> Result<(), Error> {
        self.enter()?;
        self.annotate_error(preload::preload(self, lists))
    }

    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error> {
        self.enter()?;
        let recorded = capture::record(&self, list);
        Ok(Box::new(self.annotate_error(recorded)?))
    }

    fn timed(&self, launch: &Launch<'_>, (flush, bytes): (Address, usize)) -> Result<Duration, Error> {
        self.fill(flush, bytes, 0)?;
        // The host finishes issuing long before the device finishes the fill: no gap is timed.
        let start = self.annotate_error(self.stream.mark())?;
        self.launch(launch)?;
        let end = self.annotate_error(self.stream.mark())?;
        self.annotate_error(end.since(&start))
    }

    fn join(&self, world: World) -> Result<(), Error> {
        self.enter()?;
        self.world.join(world.clone())?;
        if self.stand_in.is_some() && world.is_single() {
            return Ok(());
        }
        let communicator = Communicator::new(world, &self.context)?;
        self.communicator.get_or_init(|| Arc::new(communicator));
        Ok(())
    }

    fn world(&self) -> &World {
        self.world.get()
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        let library = probe::cublaslt_version().map_or_else(|_| "none".to_owned(), |n| n.to_string());
        let (driver, compiler) = (probe::driver()?, probe::nvrtc()?);
        Ok(Hardware {
            name: self.context.name()?,
            driver: format!("CUDA {driver}, NVRTC {compiler}, cuBLASLt {library}"),
            threads: 1,
            cache: self.context.cache()?,
        })
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.counting.synchronizations.fetch_add(1, Relaxed);
        self.enter()?;
        self.stream.outside_of_capture("the host would wait for the device")?;
        self.annotate_error(self.faults.synchronize(&self.stream))?;
        self.met()
    }

    fn counters(&self) -> Counters {
        Counters { launches: locked(&self.issuing).launches, ..self.counting.read() }
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Loaded code and memory are released next: nothing may still run. A failure in Drop cannot be reported.
        let records = self.faults.memory();
        _ = self.context.enter().and_then(|()| self.memory.free(&self.stream, records));
        _ = self.stream.synchronize();
    }
}
