//! Lowering: a graph becomes a list of instructions, which plan, verify, replay and capture all read.

mod instruction;
mod order;
pub(crate) mod segments;

use crate::values::align;
pub use crate::values::{Repeat, StoredId};
pub use instruction::{Arg, Home, Instruction, Stored};
pub(crate) use order::lower;
pub use segments::Segment;
use std::collections::HashSet;

/// A lowered program: instructions in issue order over stored values.
#[derive(Debug, Clone, Default)]
pub struct Lowered {
    /// Every stored value.
    pub values: Vec<Stored>,
    /// The instructions, in issue order.
    pub instructions: Vec<Instruction>,
    /// Program inputs: name and value.
    pub inputs: Vec<(String, StoredId)>,
    /// Program outputs: name, value, and layout in it.
    pub outputs: Vec<(String, Arg)>,
    /// The loop body. Each iteration starts with undefined arena contents, as any run does: a plan that is verified for
    /// one iteration holds for all.
    pub repeat: Repeat,
    /// Runs of instructions that one kernel does by parts, in order.
    pub segments: Vec<Segment>,
    /// Whether small launches that wait for the same ones may become one.
    pub grouped: bool,
    /// Forward values recomputed for the backward pass instead of being saved.
    pub recomputed: usize,
}

impl Lowered {
    /// Bytes of all values and workspaces together, `usize::MAX` on overflow: no offset of a plan is above it.
    pub(crate) fn bytes(&self) -> usize {
        let values = self.values.iter().map(|v| align(v.spec.bytes()));
        values.chain(self.instructions.iter().map(|i| align(i.workspace))).fold(0, usize::saturating_add)
    }

    /// The values in whose memory a run writes: outputs, and inputs that an op updates in place.
    pub(crate) fn written(&self) -> HashSet<StoredId> {
        self.instructions.iter().flat_map(|i| &i.outputs).map(|arg| root(self, arg.value).0).collect()
    }
}

/// The value whose memory holds `id`, and the byte offset in it.
pub(crate) fn root(lowered: &Lowered, mut id: StoredId) -> (StoredId, usize) {
    let mut offset = 0;
    while let Home::Within(parent, at) = lowered.values[id.0].home {
        offset += at;
        id = parent;
    }
    (id, offset)
}
