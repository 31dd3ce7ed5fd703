//! Instructions and the values they read and write.

use crate::contract::{Kernel, Op};
use crate::values::{DType, Layout, Spec, StoredId};
use std::panic::Location;
use std::sync::Arc;

/// Where a value's memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// The program's arena; the plan gives it an offset.
    Arena,
    /// A slab of the state.
    Slab(usize),
    /// A program input or output: its own memory, which no other program shares.
    Own,
    /// The memory of another value from a byte offset on: an updated value is where it was, a part of a packing is
    /// where the packing will be.
    Within(StoredId, usize),
}

/// One value that has memory. Each is written by one instruction, or before the program starts.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Text for plans and errors.
    pub name: String,
    /// Dtype and shape; the elements lie contiguously.
    pub spec: Spec,
    /// Where its memory comes from.
    pub home: Home,
    /// Whether it holds something before the program starts (inputs and slabs).
    pub initial: bool,
    /// Whether no instruction may write its memory.
    pub constant: bool,
    /// Whether it is read after the program has run (outputs and slabs).
    pub kept: bool,
}

/// A stored value as an instruction sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg {
    /// The value.
    pub value: StoredId,
    /// Element type.
    pub dtype: DType,
    /// Where in the value's memory the elements lie.
    pub layout: Layout,
}

impl Arg {
    /// Dtype and shape.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { dtype: self.dtype, shape: *self.layout.shape() }
    }
}

/// One kernel launch: what it reads and writes, its scratch memory, and what must have happened before.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// The op and its attributes; its alias and coverage rules hold for these operands.
    pub op: Arc<dyn Op>,
    /// The kernel chosen for it.
    pub kernel: &'static Kernel,
    /// Operands read.
    pub inputs: Vec<Arg>,
    /// Values written, whole.
    pub outputs: Vec<Arg>,
    /// Bytes of scratch memory.
    pub workspace: usize,
    /// Instructions that must be done before it starts, by number (all smaller than its own).
    pub after: Vec<usize>,
    /// Where the model asked for it.
    pub at: Option<&'static Location<'static>>,
}
