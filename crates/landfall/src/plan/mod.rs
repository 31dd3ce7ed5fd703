//! The memory plan of a program: one offset per value, made before the program runs, and proved by an independent
//! checker.

mod assign;
mod edges;
mod gaps;
mod lifetime;
mod ordered;
mod report;
#[cfg(test)]
mod tests;
mod unroll;
mod verify;

pub use crate::engine::Reuse;
pub use crate::error::PlanError;
pub use crate::values::Block;
pub(crate) use assign::assign;
pub(crate) use edges::order;
pub use report::{Report, ReportRow};
pub(crate) use unroll::unroll;
pub(crate) use verify::verify;

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
