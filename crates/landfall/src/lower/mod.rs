//! Lowering: a graph becomes a list of instructions, which plan, verify, replay and capture all read.

mod instruction;
mod order;

pub use crate::values::{Repeat, StoredId};
pub use instruction::{Arg, Home, Instruction, Stored};
pub(crate) use order::lower;

/// A lowered program: instructions in issue order over stored values.
#[derive(Debug, Clone, Default)]
pub struct Lowered {
    /// Every value that has memory.
    pub values: Vec<Stored>,
    /// The instructions, in issue order.
    pub instructions: Vec<Instruction>,
    /// Program inputs: name and value.
    pub inputs: Vec<(String, StoredId)>,
    /// Program outputs: name, value, and where in it.
    pub outputs: Vec<(String, Arg)>,
    /// Which instructions run several times. Each time they find the arena as any run of the program may, with bytes
    /// that nobody has written: a plan that is proved for one time is so for all.
    pub repeat: Repeat,
    /// Forward values that are made again for the backward pass instead of being kept.
    pub recomputed: usize,
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
