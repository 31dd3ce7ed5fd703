//! Instructions and the values they read and write.

use crate::contract::{Kernel, Op};
use crate::values::{DType, Layout, Spec, StoredId};
use std::panic::Location;
use std::sync::Arc;

/// The storage of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// The program's arena; the plan assigns an offset.
    Arena,
    /// A slab of the state.
    Slab(usize),
    /// A program input or output: its own memory, which no other program shares.
    Own,
    /// The memory of another value from a byte offset on: an updated value keeps the input's memory, a part of a packed
    /// buffer is in that buffer.
    Within(StoredId, usize),
}

/// One stored value. Each is written by one instruction, or before the program starts.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Text for plans and errors.
    pub name: String,
    /// Dtype and shape; the elements are contiguous.
    pub spec: Spec,
    /// Its storage.
    pub home: Home,
    /// Whether it has contents before the program starts (inputs and slabs).
    pub initial: bool,
    /// Whether it is read-only for instructions.
    pub constant: bool,
    /// Whether it is read after the program has run (outputs and slabs).
    pub kept: bool,
}

/// A stored value as an operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg {
    /// The value.
    pub value: StoredId,
    /// Element type.
    pub dtype: DType,
    /// Layout of the elements in the value's memory.
    pub layout: Layout,
}

impl Arg {
    /// Dtype and shape.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { dtype: self.dtype, shape: *self.layout.shape() }
    }
}

/// One kernel launch: its operands, its workspace, and its happens-before edges.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// The op and its attributes; its alias and coverage rules hold for these operands.
    pub op: Arc<dyn Op>,
    /// The kernel chosen for it.
    pub kernel: &'static Kernel,
    /// Operands read.
    pub inputs: Vec<Arg>,
    /// Values written, in full.
    pub outputs: Vec<Arg>,
    /// Bytes of workspace.
    pub workspace: usize,
    /// Instructions that must be complete before it starts, by number (all smaller than its own).
    pub after: Vec<usize>,
    /// The source location in the model code.
    pub at: Option<&'static Location<'static>>,
}
