//! The sanitizer: a device wrapper that checks the contract of every launch.
//!
//! All memory that it allocates is between guard bands. A launch is run twice on the same operands. Before each run,
//! every byte of every allocation that the launch touches is poisoned, guard bands, workspace and outputs included,
//! with another byte the second time; only the launch's inputs keep their contents. After each run, everything but the
//! outputs must be unchanged: so the launch wrote nothing else, not even to its inputs. Both runs must give the same
//! outputs: so these are written in full, and depend on the operands only.
//!
//! An engine without the sanitizer has no overhead. With it, every launch copies all memory that it touches to the host
//! and back, several times.

mod launch;
mod memory;

use crate::device::{Counters, Counting, Device, Foreign, Hardware, Launch, LaunchList, Recording};
use crate::error::{Allocator, Culprit, Error, Violation};
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand};
use memory::Memory;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Poison of unreadable memory: NaN in every float dtype.
pub(crate) const POISON: u8 = 0xFF;

impl Allocator {
    /// The value of `LANDFALL_SANITIZE`; `None` if it is not set.
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
}

/// A device whose memory and launches are checked.
#[derive(Debug)]
pub(crate) struct Sanitizer {
    inner: Arc<dyn Device>,
    /// Held during each launch and copy: the compared memory must not change meanwhile.
    memory: Mutex<Memory>,
    counting: Counting,
}

impl Sanitizer {
    /// Wraps `inner`.
    pub(crate) fn new(inner: Arc<dyn Device>, allocator: Allocator) -> Arc<Self> {
        Arc::new(Self {
            memory: Mutex::new(Memory::new(Arc::clone(&inner), allocator)),
            inner,
            counting: Counting::default(),
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One launch; `instruction` is its number in a program.
    fn checked(&self, launch: &Launch<'_>, instruction: Option<usize>) -> Result<(), Error> {
        self.counting.launches.fetch_add(1, Relaxed);
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
        self.counting.allocated(bytes);
        Ok(address)
    }

    fn free(&self, address: Address, bytes: usize) {
        self.counting.freed(bytes);
        self.memory().free(address);
    }

    fn adopt(&self, foreign: &Foreign) -> Result<(), Error> {
        // It poisons all memory that a launch touches, which the owner of this memory could see.
        Err(Error::Foreign {
            why: format!("{foreign:?} has no guard bands, so the sanitizer refuses it; copy it to a tensor"),
        })
    }

    fn release(&self, _: &Foreign) {}

    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        memory.raise()?;
        memory.holds(to, data.len())?;
        self.inner.upload(to, data)
    }

    fn download(&self, from: &Operand, data: &mut [u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        memory.raise()?;
        memory.holds(Address(from.span().0), data.len())?;
        self.inner.download(from, data)
    }

    fn sound(&self, of: &Operand) -> Result<(), Error> {
        self.inner.sound(of)
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

    fn join(&self, world: World) -> Result<(), Error> {
        self.inner.join(world)
    }

    fn world(&self) -> &World {
        self.inner.world()
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        self.inner.hardware()
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.memory().raise()?;
        self.inner.synchronize()
    }

    fn counters(&self) -> Counters {
        self.counting.read()
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        // On this thread: the lock's holder could need the device thread that would wait for it.
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
        self.device.counting.replays.fetch_add(1, Relaxed);
        let LaunchList { launches, repeat, .. } = &self.list;
        let mut numbers = repeat.sequence(launches.len());
        numbers.try_for_each(|k| self.device.checked(&launches[k].as_launch(), Some(k)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
