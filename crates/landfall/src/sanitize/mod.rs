//! The sanitizer: a device in front of another one that proves of every launch what the contract says of it.
//!
//! It holds all memory that it gives out between guard bands. A launch is run twice from the same operands. Before each
//! run, every byte of every allocation that the launch touches is painted, guard bands, scratch memory and outputs
//! included, with another byte the second time; only what the launch may read keeps its contents. After each run,
//! whatever is not an output must be as it was painted: so the launch wrote nothing else, not even to an operand that it
//! reads. Both runs must give the same outputs: so these are wholly written, and depend on nothing but the operands.
//!
//! Nothing of this exists in an engine that does not ask for it. Here every launch costs several copies of all memory
//! that it touches, to the host and back.

mod launch;
mod memory;

use crate::device::{
    Address, Counters, Device, DeviceKind, Hardware, Launch, LaunchList, Operand, Recording,
};
use crate::engine::Engine;
use crate::error::Error;
use crate::plan::Reuse;
use crate::shape::Spec;
use memory::Memory;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What memory holds that nobody may read: NaN in every float dtype.
pub(crate) const POISON: u8 = 0xFF;

/// In what order the sanitizer gives out addresses. Results must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// No address twice, until [`QUARANTINE`] bytes of memory have been given back. Each value of a program has an
    /// allocation of its own.
    NeverReuse,
    /// Memory that was given back last is given out first; in programs too ([`Reuse::Most`]).
    ReuseAtOnce,
    /// As [`Allocator::NeverReuse`], but each allocation from an offset on that is drawn from this seed, now and then in
    /// memory that was given back.
    Shuffled(u64),
}

/// Bytes of memory given back that the sanitizer keeps out of use, poisoned, before the oldest is used again.
pub const QUARANTINE: usize = 1 << 28;

impl Allocator {
    /// What `LANDFALL_SANITIZE` asks for; `None` where it is not set.
    ///
    /// # Errors
    /// [`Error::Setting`] for another value than `1`, `reuse` and `shuffle`.
    pub(crate) fn asked() -> Result<Option<Self>, Error> {
        match std::env::var("LANDFALL_SANITIZE").as_deref() {
            Err(_) | Ok("0") => Ok(None),
            Ok("1") => Ok(Some(Self::NeverReuse)),
            Ok("reuse") => Ok(Some(Self::ReuseAtOnce)),
            Ok("shuffle") => Ok(Some(Self::Shuffled(1))),
            Ok(other) => Err(Error::Setting {
                name: "LANDFALL_SANITIZE",
                value: other.to_owned(),
                expected: "1, reuse, shuffle, or 0 or not set",
            }),
        }
    }

    /// How programs share memory under it.
    pub(crate) fn reuse(self) -> Reuse {
        match self {
            Self::NeverReuse | Self::Shuffled(_) => Reuse::Nothing,
            Self::ReuseAtOnce => Reuse::Most,
        }
    }
}

/// Runs the same work under each allocator, and gives its results if all of them agree bit for bit. `work` makes its
/// tensors, states and programs on the engine that it is given.
///
/// # Errors
/// What `work` returns, with [`Error::Sanitizer`] for the first launch that breaks the contract; [`Finding::Disagree`]
/// where two allocators give different bytes.
pub fn agree<E: From<Error>>(
    engine: &Engine,
    mut work: impl FnMut(&Engine) -> Result<Vec<Vec<u8>>, E>,
) -> Result<Vec<Vec<u8>>, E> {
    let want = work(&engine.sanitized(Allocator::NeverReuse))?;
    for allocator in [Allocator::ReuseAtOnce, Allocator::Shuffled(1), Allocator::Shuffled(2)] {
        let got = work(&engine.sanitized(allocator))?;
        let differ = |i: usize| got.get(i) != want.get(i);
        if let Some(result) = (0..want.len().max(got.len())).find(|&i| differ(i)) {
            let bytes = |of: &[Vec<u8>]| of.get(result).cloned().unwrap_or_default();
            let (got, want) = (bytes(&got), bytes(&want));
            let byte = (0..want.len().max(got.len())).find(|&b| got.get(b) != want.get(b)).unwrap_or(0);
            let finding = Finding::Disagree { allocator, result, byte };
            return Err(Error::from(Violation::of_memory(engine.device(), finding)).into());
        }
    }
    Ok(want)
}

/// Something that the sanitizer found, and in whose work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The launch, or `None` where memory was touched by none that is known.
    pub launch: Option<Culprit>,
    /// The device.
    pub device: DeviceKind,
    /// What it did.
    pub finding: Finding,
}

/// A launch, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// Its number in the program that was run; `None` for an eager call.
    pub instruction: Option<usize>,
    /// The op.
    pub op: &'static str,
    /// Its kernel.
    pub kernel: &'static str,
    /// Dtype and shape of each argument.
    pub args: Vec<Spec>,
}

/// What memory is to a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The input of this number.
    Input(usize),
    /// The output of this number.
    Output(usize),
    /// Its scratch memory.
    Scratch,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(i) => write!(f, "input {i}"),
            Self::Output(j) => write!(f, "output {j}"),
            Self::Scratch => f.write_str("its scratch memory"),
        }
    }
}

/// What a launch, or somebody outside of any, did against the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Finding {
    #[error("{operand} lies in memory that is not allocated (or was given back)")]
    Unallocated { operand: Role },
    #[error("it wrote to {operand}, which it may only read: byte {byte} of its memory changed")]
    WroteInput { operand: Role, byte: usize },
    #[error("it wrote outside of its outputs: the byte {distance} bytes {side} {operand}, {region}, changed")]
    WroteOutside { operand: Role, distance: u64, side: &'static str, region: &'static str },
    #[error(
        "element {element} of {operand} depends on bytes that are none of its operands: it was not written, or made from scratch memory that was not, or from memory outside of an operand"
    )]
    Depends { operand: Role, element: usize },
    #[error("element {element} of {operand} is not the same when the launch is repeated")]
    Unstable { operand: Role, element: usize },
    #[error("byte {at} from the start of another allocation of {bytes} bytes changed, in its guard band")]
    Guard { at: isize, bytes: usize },
    #[error(
        "{bytes} bytes of memory were written after they had been given back, the first of them byte {at}"
    )]
    Freed { at: usize, bytes: usize },
    #[error("a copy of {bytes} bytes from or to the host leaves the memory that is allocated")]
    Copy { bytes: usize },
    #[error("under allocator {allocator:?}, result {result} is another one from byte {byte} on")]
    Disagree { allocator: Allocator, result: usize, byte: usize },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sanitizer: ")?;
        if let Some(Culprit { instruction, op, kernel, args }) = &self.launch {
            if let Some(k) = instruction {
                write!(f, "instruction {k}, ")?;
            }
            let args: Vec<String> = args.iter().map(Spec::to_string).collect();
            write!(f, "{op}({} on {}), kernel {kernel}: {}", args.join(", "), self.device, self.finding)
        } else {
            write!(f, "{}: {}", self.device, self.finding)
        }
    }
}

impl std::error::Error for Violation {}

impl Violation {
    fn of_memory(device: DeviceKind, finding: Finding) -> Self {
        Self { launch: None, device, finding }
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Sanitizer(Box::new(violation))
    }
}

/// A device whose memory and launches are checked.
#[derive(Debug)]
pub(crate) struct Sanitizer {
    inner: Arc<dyn Device>,
    /// Held during each launch and copy: what is compared must not change meanwhile.
    memory: Mutex<Memory>,
    allocations: AtomicU64,
    in_use: AtomicU64,
    launches: AtomicU64,
    replays: AtomicU64,
    transfers: AtomicU64,
}

impl Sanitizer {
    /// In front of `inner`.
    pub(crate) fn new(inner: Arc<dyn Device>, allocator: Allocator) -> Arc<Self> {
        Arc::new(Self {
            memory: Mutex::new(Memory::new(Arc::clone(&inner), allocator)),
            inner,
            allocations: AtomicU64::new(0),
            in_use: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One launch; `instruction` is its number in a program.
    fn checked(&self, launch: &Launch<'_>, instruction: Option<usize>) -> Result<(), Error> {
        self.launches.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        memory.raise()?;
        launch::run(&memory, launch).map_err(|stopped| match stopped {
            launch::Stopped::Device(error) => error,
            launch::Stopped::Found(finding) => {
                let launch = Some(Culprit {
                    instruction,
                    op: launch.op.name(),
                    kernel: launch.kernel.name,
                    args: launch.inputs.iter().map(Operand::spec).collect(),
                });
                Violation { launch, device: self.kind(), finding }.into()
            }
        })
    }
}

impl Device for Sanitizer {
    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Error> {
        let address = self.memory().allocate(bytes)?;
        self.allocations.fetch_add(1, Relaxed);
        self.in_use.fetch_add(bytes as u64, Relaxed);
        Ok(address)
    }

    fn free(&self, address: Address, bytes: usize) {
        self.in_use.fetch_sub(bytes as u64, Relaxed);
        self.memory().free(address);
    }

    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        self.transfers.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        memory.raise()?;
        memory.holds(to, data.len())?;
        self.inner.upload(to, data)
    }

    fn download(&self, from: Address, data: &mut [u8]) -> Result<(), Error> {
        self.transfers.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        memory.raise()?;
        memory.holds(from, data.len())?;
        self.inner.download(from, data)
    }

    fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        let mut memory = self.memory();
        memory.raise()?;
        memory.holds(to, bytes)?;
        self.inner.fill(to, bytes, value)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        self.checked(launch, None)
    }

    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error> {
        Ok(Box::new(Checked { device: self, list }))
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        self.inner.hardware()
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.memory().raise()?;
        self.inner.synchronize()
    }

    fn counters(&self) -> Counters {
        Counters {
            allocations: self.allocations.load(Relaxed),
            bytes_in_use: self.in_use.load(Relaxed),
            launches: self.launches.load(Relaxed),
            replays: self.replays.load(Relaxed),
            host_transfers: self.transfers.load(Relaxed),
        }
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        // On this thread: a thread of the device's that waited for the lock could be one that its holder needs.
        work();
    }
}

/// A launch list that is checked launch by launch, every time.
#[derive(Debug)]
struct Checked {
    device: Arc<Sanitizer>,
    list: LaunchList,
}

impl Recording for Checked {
    fn replay(&self) -> Result<(), Error> {
        self.device.replays.fetch_add(1, Relaxed);
        let LaunchList { launches, repeat } = &self.list;
        let mut numbers = repeat.sequence(launches.len());
        numbers.try_for_each(|k| self.device.checked(&launches[k].as_launch(), Some(k)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
