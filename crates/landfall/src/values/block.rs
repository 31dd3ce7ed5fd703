//! Names of memory in a plan: values that have memory, and the blocks that they lie in.

/// A stored value of a lowered program, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredId(pub usize);

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
