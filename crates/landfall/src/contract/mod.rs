//! The contract: what an op says of itself, the graph of ops over typed values, and the checks of a call.

mod build;
pub(crate) mod check;
mod graph;
mod op;
mod slab;

pub use graph::{Graph, Value};
pub(crate) use graph::{Inner, Node, Origin, ValueInfo, View};
pub use op::{
    Alias, Body, Cost, Coverage, Data, FusedBody, Grad, GradRule, Kernel, MAX_OUTPUTS, Op, Outputs, Run,
    Sample, SampleArg, Spread, Vjp, attributes,
};
pub(crate) use op::{part_offsets, rules};
pub use slab::{ENTRY_ALIGNMENT, Entry, Slab, StateSpec};
