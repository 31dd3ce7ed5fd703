//! Devices: they own memory and run kernels. A device names no op: it receives kernels and operands.

pub(crate) mod cache;
pub(crate) mod cpu;
#[cfg_attr(not(feature = "cuda"), path = "cuda_absent.rs")]
pub(crate) mod cuda;
mod faults;
mod foreign;
pub(crate) mod null;
mod place;
pub(crate) mod steps;
mod survey;
pub(crate) mod times;

pub use foreign::{Foreign, ForeignStream};
pub(crate) use place::Place;
pub use survey::{Gpu, Link, Survey};

use crate::contract::{Kernel, Op};
use crate::error::Error;
use crate::kernel::Operands;
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand, Repeat};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use times::Times;

/// One checked kernel call: issued by eager calls, programs and recordings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The op and its attributes.
    pub(crate) op: &'a dyn Op,
    /// The kernel chosen for it.
    pub(crate) kernel: &'static Kernel,
    /// Operands read.
    pub(crate) inputs: &'a [Operand],
    /// Operands written.
    pub(crate) outputs: &'a [Operand],
    /// Address of the workspace.
    pub(crate) workspace: Address,
    /// Bytes of workspace.
    pub(crate) workspace_bytes: usize,
}

impl<'a> Launch<'a> {
    /// Its operands and workspace, as kernels see them.
    pub(crate) fn operands(&self) -> Operands<'a> {
        let Self { op, inputs, outputs, workspace, workspace_bytes, .. } = *self;
        Operands { op: op.name(), inputs, outputs, workspace, workspace_bytes }
    }
}

/// A launch that owns its lists, for recordings.
#[derive(Debug, Clone)]
pub(crate) struct RecordedLaunch {
    /// The op and its attributes.
    pub(crate) op: Arc<dyn Op>,
    /// The kernel chosen for it.
    pub(crate) kernel: &'static Kernel,
    /// Operands read, with raw addresses.
    pub(crate) inputs: Vec<Operand>,
    /// Operands written, with raw addresses.
    pub(crate) outputs: Vec<Operand>,
    /// Address of the workspace.
    pub(crate) workspace: Address,
    /// Bytes of workspace.
    pub(crate) workspace_bytes: usize,
    /// Launches of the list that must be complete before it starts, by number: the plan's verified edges.
    pub(crate) after: Vec<usize>,
}

impl RecordedLaunch {
    /// The launch, borrowed.
    #[must_use]
    pub(crate) fn as_launch(&self) -> Launch<'_> {
        Launch {
            op: self.op.as_ref(),
            kernel: self.kernel,
            inputs: &self.inputs,
            outputs: &self.outputs,
            workspace: self.workspace,
            workspace_bytes: self.workspace_bytes,
        }
    }
}

/// The input of a recording.
#[derive(Debug, Clone)]
pub(crate) struct LaunchList {
    /// Each launch once.
    pub(crate) launches: Vec<RecordedLaunch>,
    /// The loop body and its number of iterations.
    pub(crate) repeat: Repeat,
    /// Launches that one kernel does by parts, in order.
    pub(crate) segments: Vec<PartedLaunches>,
    /// Whether small launches that wait for the same ones may become one.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "a GPU alone has groups"))]
    pub(crate) grouped: bool,
}

/// A run of launches that one kernel does by parts.
#[derive(Debug, Clone)]
pub(crate) struct PartedLaunches {
    /// Their numbers.
    pub(crate) launches: Range<usize>,
    /// Into how many parts their operands are cut.
    pub(crate) parts: usize,
}

impl LaunchList {
    /// The launches in replay order.
    pub(crate) fn sequence(&self) -> impl Iterator<Item = &RecordedLaunch> {
        self.repeat.sequence(self.launches.len()).map(|i| &self.launches[i])
    }
}

/// Counters of a device since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Allocations of device memory.
    pub allocations: u64,
    /// Bytes of device memory in use now.
    pub bytes_in_use: u64,
    /// Launches that the host issued: each kernel on the CPU; on a GPU a replayed graph counts as one.
    pub launches: u64,
    /// Replays of whole recordings.
    pub replays: u64,
    /// Copies from the host to the device or back.
    pub host_transfers: u64,
    /// Times that the host waited for the device.
    pub synchronizations: u64,
}

/// What a device counts while it is used: [`Counters`] that change behind a shared reference.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) allocations: AtomicU64,
    pub(crate) in_use: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) transfers: AtomicU64,
    pub(crate) synchronizations: AtomicU64,
}

impl Counting {
    /// An allocation of so many bytes.
    pub(crate) fn allocated(&self, bytes: usize) {
        self.allocations.fetch_add(1, Relaxed);
        self.in_use.fetch_add(bytes as u64, Relaxed);
    }

    /// So many bytes are given back.
    pub(crate) fn freed(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes as u64, Relaxed);
    }

    /// What it counted up to now.
    pub(crate) fn read(&self) -> Counters {
        Counters {
            allocations: self.allocations.load(Relaxed),
            bytes_in_use: self.in_use.load(Relaxed),
            launches: self.launches.load(Relaxed),
            replays: self.replays.load(Relaxed),
            host_transfers: self.transfers.load(Relaxed),
            synchronizations: self.synchronizations.load(Relaxed),
        }
    }
}

/// A launch list made for replay: raw addresses on the CPU, a graph on a GPU.
pub(crate) trait Recording: fmt::Debug + Send + Sync {
    /// Runs the whole list, in order or in any order that the `after` edges of its launches allow.
    ///
    /// # Errors
    /// A device fault, with the kernel's name.
    fn replay(&self) -> Result<(), Error>;
    /// Issues the prepared launches one by one, unchecked: their cost without a graph, and that of eager calls without
    /// checks. If launches are not prepared it equals [`Recording::replay`].
    ///
    /// # Errors
    /// As [`Recording::replay`].
    fn reissue(&self) -> Result<(), Error> {
        self.replay()
    }
    /// Times the list and each of its launches over `runs` runs, at least one, after a warm-up; `None` if a launch is
    /// complete when the call that issues it returns, so that the host's clock can time it.
    ///
    /// # Errors
    /// As [`Recording::replay`]; the stream is being captured by another library.
    fn timed(&self, _runs: usize) -> Result<Option<Times>, Error> {
        Ok(None)
    }
}

/// What a device's results and times depend on, besides the engine's sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Its name.
    pub(crate) name: String,
    /// Driver and library versions.
    pub(crate) driver: String,
    /// Number of host threads that it computes with: times depend on it, results do not.
    pub(crate) threads: usize,
    /// Bytes of its largest cache.
    pub(crate) cache: usize,
}

/// The interface between the engine and a device.
///
/// Memory is identified by [`Address`]; only the device that allocated one can dereference it. Every method may be
/// called from any thread; launches, copies and frees take effect in the order of the calls.
pub(crate) trait Device: fmt::Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> DeviceKind;
    /// Allocates `bytes` bytes (at least one), aligned to [`ALIGNMENT`]; contents undefined.
    ///
    /// # Errors
    /// [`Error::Memory`] if the device is out of memory.
    fn allocate(&self, bytes: usize) -> Result<Address, Error>;
    /// Frees memory that [`Device::allocate`] returned for the same size.
    fn free(&self, address: Address, bytes: usize);
    /// Takes in memory of another library, of this device: what is issued from now on comes after its owner's work.
    ///
    /// # Errors
    /// A device fault; a device that checks its own memory refuses it.
    fn adopt(&self, foreign: &Foreign) -> Result<(), Error>;
    /// Lets go of memory that was taken in: its owner's further work comes after everything issued.
    fn release(&self, foreign: &Foreign);
    /// Issues on another library's stream from now on, after everything issued before; `None` for its own.
    ///
    /// # Errors
    /// [`Error::NoStream`] if the device has none; a device fault.
    fn follow(&self, _stream: Option<ForeignStream>) -> Result<(), Error> {
        Err(Error::NoStream { device: self.kind() })
    }
    /// Orders what is issued from now on after the work on another library's stream.
    ///
    /// # Errors
    /// As [`Device::follow`].
    fn wait_for(&self, _stream: ForeignStream) -> Result<(), Error> {
        Err(Error::NoStream { device: self.kind() })
    }
    /// The handle of the stream on which it issues, if it has one.
    fn stream(&self) -> Option<u64> {
        None
    }
    /// Copies from the host, after everything issued before.
    ///
    /// # Errors
    /// A device fault.
    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error>;
    /// Copies the bytes from the first element to the last to the host, after everything issued before.
    ///
    /// # Errors
    /// A device fault; [`Error::Index`] if an element depends on an index out of range.
    fn download(&self, from: &Operand, data: &mut [u8]) -> Result<(), Error>;
    /// That no element depends on an index out of range, as far as that can be seen: where a launch that checks an index may
    /// still run, the device is waited for, unless another library captures what is issued.
    ///
    /// # Errors
    /// [`Error::Index`]; a device fault.
    fn sound(&self, of: &Operand) -> Result<(), Error>;
    /// Sets every byte.
    ///
    /// # Errors
    /// A device fault.
    fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error>;
    /// Runs one checked launch.
    ///
    /// # Errors
    /// A device fault, with the kernel's name.
    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error>;
    /// Runs one launch of a checked eager call, and may cache it for [`Device::repeat`].
    ///
    /// # Errors
    /// As [`Device::launch`].
    fn call(&self, launch: &Launch<'_>) -> Result<(), Error> {
        self.launch(launch)
    }
    /// Repeats an eager call that [`Device::call`] cached; the call with this op and these operands was checked then.
    /// `None` if it is not cached.
    ///
    /// # Errors
    /// As [`Device::launch`].
    fn repeat(&self, _op: &dyn Op, _inputs: &[Operand], _outputs: &[Operand]) -> Option<Result<(), Error>> {
        None
    }
    /// Makes ready what lists of launches need before they are recorded, such as code that is compiled: for all of them at
    /// once it takes less time than in each [`Device::record`].
    ///
    /// # Errors
    /// A kernel that cannot be compiled; a device fault.
    fn preload(&self, _lists: &[&LaunchList]) -> Result<(), Error> {
        Ok(())
    }
    /// Prepares a list of checked launches for replay.
    ///
    /// # Errors
    /// A device fault.
    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error>;
    /// Runs one checked launch with cold caches and returns its time. `flush` is memory, larger than the caches, that
    /// is written before.
    ///
    /// # Errors
    /// As [`Device::launch`].
    fn timed(&self, launch: &Launch<'_>, (flush, bytes): (Address, usize)) -> Result<Duration, Error> {
        self.fill(flush, bytes, 0)?;
        self.synchronize()?;
        let start = Instant::now();
        self.launch(launch)?;
        self.synchronize()?;
        Ok(start.elapsed())
    }
    /// Joins other ranks: collective ops are computed with them from now on.
    ///
    /// # Errors
    /// The device is in a world already, or cannot join this one.
    fn join(&self, world: World) -> Result<(), Error>;
    /// The ranks that it computes with; by itself it is the only one.
    fn world(&self) -> &World;
    /// What its results and times depend on.
    ///
    /// # Errors
    /// A device fault.
    fn hardware(&self) -> Result<Hardware, Error>;
    /// Waits until all issued work is complete.
    ///
    /// # Errors
    /// A device fault; [`Error::Index`] for the first index out of range since the last time.
    fn synchronize(&self) -> Result<(), Error>;
    /// Counters since the device was created.
    fn counters(&self) -> Counters;
    /// Runs `work` so that launches inside it find the device's threads ready (no hand-over per launch).
    fn enter(&self, work: &mut (dyn FnMut() + Send));
}
