//! The arena memory of programs.

use crate::device::Device;
use crate::engine::Buffer;
use crate::error::Error;
use crate::values::Address;
use std::sync::Arc;

/// A program's arena: one block, or several that are adjacent only in the plan's offsets.
#[derive(Debug)]
pub(super) struct Arena {
    /// Each block with its first offset, in order.
    blocks: Vec<(usize, Buffer)>,
}

impl Arena {
    /// `bytes` bytes, split at the plan's boundaries.
    pub(super) fn new(device: &Arc<dyn Device>, bytes: usize, cuts: &[usize]) -> Result<Self, Error> {
        let mut starts = vec![0];
        starts.extend(cuts);
        let ends = starts[1..].iter().copied().chain([bytes]);
        let block = |(&start, end): (&usize, usize)| Ok((start, Buffer::new(device, end - start)?));
        Ok(Self { blocks: starts.iter().zip(ends).map(block).collect::<Result<_, Error>>()? })
    }

    /// Address of a plan offset.
    pub(super) fn address(&self, offset: usize) -> Address {
        let (start, block) = &self.blocks[self.blocks.partition_point(|(s, _)| *s <= offset) - 1];
        block.address().offset(offset - start)
    }

    /// Sets every byte.
    pub(super) fn fill(&self, device: &Arc<dyn Device>, value: u8) -> Result<(), Error> {
        self.blocks.iter().try_for_each(|(_, b)| device.fill(b.address(), b.bytes(), value))
    }
}
