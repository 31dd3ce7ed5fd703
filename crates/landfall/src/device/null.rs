//! The null device: accepts every launch that the CPU, or an absent GPU, would accept, checks and counts it, computes
//! nothing.

use super::{Counters, Counting, Device, Foreign, Hardware, Launch, LaunchList, Place, Recording};
use crate::error::Error;
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand, align};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a null device does with a recorded list of launches.
type Prove = fn(&LaunchList, DeviceKind) -> Result<(), Error>;

/// Addresses without memory.
#[derive(Debug)]
pub(crate) struct Null {
    kind: DeviceKind,
    prove: Prove,
    world: Place,
    next: AtomicU64,
    counting: Counting,
}

impl Null {
    pub(crate) fn new() -> Arc<Self> {
        Self::planning(DeviceKind::Null, |_, _| Ok(()))
    }

    /// A device that accepts the launches of another kind of device, and verifies each recorded list.
    pub(crate) fn planning(kind: DeviceKind, prove: Prove) -> Arc<Self> {
        Arc::new(Self {
            kind,
            prove,
            world: Place::default(),
            // Never a real address: the first page stays unmapped.
            next: AtomicU64::new(1 << 12),
            counting: Counting::default(),
        })
    }
}

impl Device for Null {
    fn kind(&self) -> DeviceKind {
        self.kind
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Error> {
        let size = align(bytes.max(1)) as u64;
        let in_use = self.counting.in_use.load(Relaxed) as usize;
        let full = Error::Memory { bytes, device: self.kind, in_use };
        // Half of the address space: beyond it, address arithmetic could wrap.
        let taken =
            self.next.fetch_update(Relaxed, Relaxed, |at| at.checked_add(size).filter(|&end| end < 1 << 62));
        let address = taken.map_err(|_| full)?;
        self.counting.allocated(bytes);
        Ok(Address(address))
    }

    fn free(&self, _: Address, bytes: usize) {
        self.counting.freed(bytes);
    }

    fn adopt(&self, _: &Foreign) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self, _: &Foreign) {}

    fn upload(&self, _: Address, _: &[u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        Ok(())
    }

    fn download(&self, _: &Operand, _: &mut [u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        Err(Error::NoResult { what: "a tensor".to_owned(), device: self.kind })
    }

    fn sound(&self, _: &Operand) -> Result<(), Error> {
        Ok(())
    }

    fn fill(&self, _: Address, _: usize, _: u8) -> Result<(), Error> {
        Ok(())
    }

    fn launch(&self, _: &Launch<'_>) -> Result<(), Error> {
        self.counting.launches.fetch_add(1, Relaxed);
        Ok(())
    }

    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error> {
        (self.prove)(&list, self.kind)?;
        Ok(Box::new(Replay { device: self, launches: list.repeat.count(list.launches.len()) as u64 }))
    }

    fn join(&self, world: World) -> Result<(), Error> {
        self.world.join(world)
    }

    fn world(&self) -> &World {
        self.world.get()
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        Ok(Hardware { name: "null".to_owned(), driver: String::new(), threads: 1, cache: 0 })
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counting.read()
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

#[derive(Debug)]
struct Replay {
    device: Arc<Null>,
    launches: u64,
}

impl Recording for Replay {
    fn replay(&self) -> Result<(), Error> {
        self.device.counting.replays.fetch_add(1, Relaxed);
        self.device.counting.launches.fetch_add(self.launches, Relaxed);
        Ok(())
    }
}
