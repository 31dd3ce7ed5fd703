//! Identifiers of memory in a plan: stored values, and the blocks that hold them.

/// A stored value of a lowered program, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredId(pub usize);

/// The block that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Block {
    /// The program's arena.
    Arena,
    /// A slab of the state.
    Slab(usize),
    /// The private memory of this program input or output.
    Own(StoredId),
}
