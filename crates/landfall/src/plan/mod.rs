//! The memory plan of a program: one offset per value, assigned before the program runs, and verified by an independent
//! checker.

mod assign;
mod edges;
mod gaps;
mod lifetime;
mod ordered;
mod parts;
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

/// The location of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The block.
    pub block: Block,
    /// Byte offset in the block.
    pub offset: usize,
}

/// The locations of all memory of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Location of each stored value, by its number.
    pub places: Vec<Place>,
    /// Arena offset of each instruction's workspace.
    pub workspaces: Vec<usize>,
    /// Bytes of the arena.
    pub arena: usize,
    /// Arena offsets at which another allocation begins; empty if it is one block.
    pub cuts: Vec<usize>,
    /// The peak number of bytes (rounded up to slots) alive in the arena: a lower bound for every plan.
    pub live_peak: usize,
    /// Number of outputs that reuse the memory of an input.
    pub in_place: usize,
}
