//! Memory between guard bands, allocated by an [`Allocator`] mode, poisoned before and after.

use super::POISON;
use crate::device::Device;
use crate::error::{Allocator, Error, Finding, QUARANTINE, Violation};
use crate::rng::Rng;
use crate::values::{ALIGNMENT, Address, Operand};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a guard band: a multiple of any device's alignment.
const GUARD: usize = 256;
/// Range of the random offsets of shuffled allocations, in units of the alignment.
const SHUFFLE: usize = 16;

/// An allocation with its guard bands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// The device's memory, guard bands included.
    pub(super) base: Address,
    pub(super) capacity: usize,
    /// Bytes from the base to the user memory.
    start: usize,
    /// Bytes of user memory.
    pub(super) bytes: usize,
}

impl Block {
    /// The first byte of user memory.
    pub(super) fn address(&self) -> u64 {
        self.base.0 + self.start as u64
    }

    fn end(&self) -> u64 {
        self.address() + self.bytes as u64
    }

    /// Whether an address is in the user memory.
    pub(super) fn gave(&self, address: u64) -> bool {
        (self.address()..self.end()).contains(&address)
    }
}

/// All memory of a sanitized device.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) device: Arc<dyn Device>,
    allocator: Allocator,
    /// By user address.
    live: BTreeMap<u64, Block>,
    /// Freed and poisoned blocks, oldest first.
    given_back: Vec<Block>,
    /// Bytes of the freed blocks.
    held: usize,
    rng: Rng,
    /// First violation found in a `Drop`; the next call reports it.
    pending: Option<Violation>,
}

impl Memory {
    pub(super) fn new(device: Arc<dyn Device>, allocator: Allocator) -> Self {
        let seed = match allocator {
            Allocator::NeverReuse | Allocator::ReuseAtOnce => 0,
            Allocator::Shuffled(seed) => seed,
        };
        let (live, given_back) = (BTreeMap::new(), Vec::new());
        Self { device, allocator, live, given_back, held: 0, rng: Rng::new(seed, 0), pending: None }
    }

    /// Reports a violation that was found in a `Drop`.
    pub(super) fn raise(&mut self) -> Result<(), Error> {
        self.pending.take().map_or(Ok(()), |v| Err(v.into()))
    }

    fn note(&mut self, finding: Finding) {
        let violation = Violation::of_memory(self.device.kind(), finding);
        self.pending.get_or_insert(violation);
    }

    /// The bytes from `from` on.
    pub(super) fn read(&self, from: Address, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        self.device.download(&Operand::bytes(from, len), &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Result<Address, Error> {
        let shuffled = matches!(self.allocator, Allocator::Shuffled(_));
        let start = GUARD + if shuffled { ALIGNMENT * self.rng.range(0..SHUFFLE) } else { 0 };
        let need = start.saturating_add(bytes).saturating_add(GUARD);
        let block = match self.again(need)? {
            Some(block) => block,
            None => Block { base: self.fresh(need)?, capacity: need, start, bytes },
        };
        let block = Block { start, bytes, ..block };
        self.device.fill(block.base, block.capacity, POISON)?;
        self.live.insert(block.address(), block);
        Ok(Address(block.address()))
    }

    /// Fresh memory; when there is no more, the oldest freed memory is released first.
    fn fresh(&mut self, bytes: usize) -> Result<Address, Error> {
        match self.device.allocate(bytes) {
            Err(Error::Memory { .. }) if !self.given_back.is_empty() => {
                while !self.given_back.is_empty() {
                    self.release()?;
                }
                self.device.allocate(bytes)
            }
            other => other,
        }
    }

    /// Freed memory, if the allocator mode reuses it.
    fn again(&mut self, need: usize) -> Result<Option<Block>, Error> {
        let fits = |b: &Block| need <= b.capacity && b.capacity <= need.saturating_mul(4);
        let found = match self.allocator {
            Allocator::NeverReuse => None,
            Allocator::ReuseAtOnce => self.given_back.iter().rposition(fits),
            Allocator::Shuffled(_) => {
                let all: Vec<usize> =
                    (0..self.given_back.len()).filter(|&i| fits(&self.given_back[i])).collect();
                // Fresh and freed memory with equal probability.
                all.get(self.rng.range(0..2 * all.len())).copied()
            }
        };
        let Some(i) = found else { return Ok(None) };
        let block = self.given_back.remove(i);
        self.held -= block.capacity;
        self.untouched(&block)?;
        Ok(Some(block))
    }

    /// Checks that freed memory was not written.
    fn untouched(&mut self, block: &Block) -> Result<(), Error> {
        let bytes = self.read(block.base, block.capacity)?;
        if let Some(at) = bytes.iter().position(|&b| b != POISON) {
            let written = bytes.iter().filter(|&&b| b != POISON).count();
            self.note(Finding::Freed { at: at.saturating_sub(block.start), bytes: written });
        }
        Ok(())
    }

    /// Releases the oldest freed memory to the device.
    fn release(&mut self) -> Result<(), Error> {
        if self.given_back.is_empty() {
            return Ok(());
        }
        let block = self.given_back.remove(0);
        self.held -= block.capacity;
        let checked = self.untouched(&block);
        self.device.free(block.base, block.capacity);
        checked
    }

    pub(super) fn free(&mut self, address: Address) {
        let Some(block) = self.live.remove(&address.0) else { return };
        // A device error in Drop cannot be returned; the next call reports it.
        if let Ok(Some(finding)) = self.guard(&block) {
            self.note(finding);
        }
        _ = self.device.fill(block.base, block.capacity, POISON);
        self.given_back.push(block);
        self.held += block.capacity;
        while self.held > QUARANTINE && self.release().is_ok() {}
    }

    /// The live allocation that contains a range of bytes.
    pub(super) fn block(&self, start: u64, end: u64) -> Option<Block> {
        let (_, block) = self.live.range(..=start).next_back()?;
        (end <= block.end()).then_some(*block)
    }

    /// A copy from or to the host must stay within an allocation.
    pub(super) fn holds(&self, address: Address, bytes: usize) -> Result<(), Error> {
        if bytes == 0 || self.block(address.0, address.0 + bytes as u64).is_some() {
            return Ok(());
        }
        Err(Violation::of_memory(self.device.kind(), Finding::Copy { bytes }).into())
    }

    /// The first byte of an allocation's guard bands that changed.
    fn guard(&self, block: &Block) -> Result<Option<Finding>, Error> {
        let behind = block.start + block.bytes;
        for (from, to) in [(0, block.start), (behind, block.capacity)] {
            let band = self.read(block.base.offset(from), to - from)?;
            if let Some(at) = band.iter().position(|&b| b != POISON) {
                let at = (from + at) as isize - block.start as isize;
                return Ok(Some(Finding::Guard { at, bytes: block.bytes }));
            }
        }
        Ok(None)
    }

    /// The first guard band of any live allocation that changed.
    pub(super) fn guards(&self) -> Result<Option<Finding>, Error> {
        for block in self.live.values() {
            if let Some(finding) = self.guard(block)? {
                return Ok(Some(finding));
            }
        }
        Ok(None)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for block in self.live.values().chain(&self.given_back) {
            self.device.free(block.base, block.capacity);
        }
    }
}
