//! The memory plan of a program: one offset per value, made before the program runs, and proved by an independent
//! checker.

mod abreast;
mod ancestors;
mod assign;
mod edges;
mod gaps;
mod lifetime;
mod ordered;
mod report;
mod reuse;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use abreast::{abreast, times_abreast};
pub(crate) use ancestors::Ancestors;
pub(crate) use assign::assign;
pub(crate) use edges::{Ranges, direct, order};
pub use report::{Report, ReportRow};
pub use reuse::Reuse;
pub use verify::PlanError;
pub(crate) use verify::verify;

use crate::lower::{Home, Lowered, StoredId};

/// The block that a value lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Block {
    /// The program's arena.
    Arena,
    /// A slab of the state.
    Slab(usize),
    /// The own memory of this program input or output.
    Own(StoredId),
}

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The block.
    pub block: Block,
    /// Bytes from the block's start.
    pub offset: usize,
}

/// Where everything of a program lies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Place of each stored value, by its number.
    pub places: Vec<Place>,
    /// Arena offset of each instruction's scratch memory.
    pub workspaces: Vec<usize>,
    /// Bytes of the arena.
    pub arena: usize,
    /// Offsets in the arena at which another allocation begins; none where it is one block.
    pub cuts: Vec<usize>,
    /// The largest sum of bytes (rounded to slots) that live in the arena at one time: no plan can be smaller.
    pub live_peak: usize,
    /// How many outputs took over the memory of an input.
    pub in_place: usize,
}

/// The value whose memory `id` lies in, and the bytes from its start.
pub(crate) fn root(lowered: &Lowered, mut id: StoredId) -> (StoredId, usize) {
    let mut offset = 0;
    while let Home::Within(parent, at) = lowered.values[id.0].home {
        offset += at;
        id = parent;
    }
    (id, offset)
}
