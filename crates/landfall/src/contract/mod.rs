//! The contract: op definitions, the graph of ops over typed values, and the checks of a call.

pub(crate) mod argument;
mod attribute;
mod build;
pub(crate) mod check;
pub(crate) mod cursor;
mod graph;
mod op;
pub mod rules;
mod sample;
mod slab;
mod walk;

pub use argument::{Argument, Given, arity};
pub use attribute::{Attribute, AttributeType, AttributeValue, Attributes};
pub(crate) use attribute::{SEVERAL_AXES, SIZES, attribute_choices, op_attributes};
pub use graph::{Graph, Value};
pub(crate) use graph::{Inner, Node, Origin, ValueInfo, View};
pub use op::{
    Alias, Body, Cost, Coverage, FusedBody, Grad, GradRule, Kernel, MAX_OUTPUTS, Mixing, Op, Output, Outputs,
    Run, Spread, Vjp, alias, attributes, text,
};
pub(crate) use op::{inferred, part_offsets};
pub use sample::{Data, Sample, SampleArg, Tested};
pub use slab::{ENTRY_ALIGNMENT, Entry, Slab, StateSpec};
pub use walk::{Made, ViewOf};
