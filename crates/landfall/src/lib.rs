//! Landfall: a tensor engine in which every result lands in the memory you gave it.
//!
//! In the order in which a step passes through them:
//!
//! 1. [`Graph`]: a step as a graph of values; [`grad`] adds its backward pass.
//! 2. [`lower`]: the graph as instructions, each with its kernel, alias rule and happens-before edges.
//! 3. [`plan`]: one offset per value, verified by an independent checker.
//! 4. [`Program`]: the allocated plan, recorded once; runs on its [`State`] without allocation.
//! 5. [`ops`]: one definition per op; [`Engine::call`] issues an op eagerly through the same checked launch.
//! 6. [`sanitize`]: a debugging mode that checks the memory accesses of every launch.
//! 7. [`tune`]: finds the fastest kernel of each instruction, on private copies, on request.
//! 8. [`profile`]: time, bytes, operations and distance to the floor of each node of a step.
//!
//! Modules are layered in floors, and imports go down only: see `docs/architecture.md`; `tests/floors` checks it.
//! `unsafe` code is in `device` and `kernel` only.
#![deny(unsafe_code)]

// Ops that tests define are written as a user's would be.
#[cfg(test)]
extern crate self as landfall;

// The cases of the generated suite, for tests of launch internals.
#[cfg(test)]
#[path = "../../landfall-suite/src/case.rs"]
#[allow(dead_code, reason = "the suite uses the rest")]
mod case;
#[cfg(test)]
#[path = "../../landfall-suite/src/compare.rs"]
#[allow(dead_code, reason = "the suite uses the rest")]
mod compare;
#[cfg(test)]
#[path = "../tests/device/gpu.rs"]
mod gpu;

mod contract;
#[allow(unsafe_code, reason = "devices turn checked addresses into memory; nothing else may")]
mod device;
mod engine;
mod error;
#[allow(unsafe_code, reason = "typed views are made from checked addresses here; nothing else may")]
mod kernel;
pub mod lower;
pub mod ops;
mod passes;
pub mod plan;
mod program;
mod ranks;
pub mod rng;
mod sanitizer;
pub mod tune;
mod values;

pub use contract::{
    Argument, Attribute, AttributeType, AttributeValue, Attributes, ENTRY_ALIGNMENT, Entry, Given, Graph,
    Slab, StateSpec, Value,
};
pub use device::{Counters, Foreign, ForeignStream};
pub use engine::{Engine, State, Tensor, TensorMut, TensorRef, View};
pub use error::Error;
#[doc(hidden)]
pub use half;
pub use kernel::cpu;
pub use ops::{HeadsFirst, Interpolation, KvCache, Labels, Var, Visible, Windows};
pub use passes::{Mixed, grad, mixed_precision};
pub use program::{Binding, Program, ProgramSet};
pub use ranks::{Parts, Signature, Transport, World};
pub use values::{
    Accumulate, All, Axes, Axis, Class, DType, DeviceKind, Element, HostTensor, Keep, Layout, MAX_ELEMENTS,
    MAX_RANK, Math, Number, OpError, Overlap, RankFault, Relation, Rule, Shape, Spec,
};

/// Scalar expressions, in which pointwise ops are defined; each device generates its kernel from the expression.
pub mod codegen {
    pub use crate::values::{Binary, Expression, Reg, Step, Unary};
}

/// Reading a graph from outside: how each value is made, for programs that write a graph in another form
/// ([`Graph::made`](crate::Graph::made)).
pub mod walk {
    pub use crate::contract::{Made, ViewOf};
}

/// NVIDIA GPUs: the kernel-author API, a survey of the installation, and module compilation.
pub mod cuda {
    pub use crate::device::cuda::{Compiler, count, survey};
    pub use crate::device::steps::{ListedLaunch, launches, launches_on};
    pub use crate::device::{Gpu, Link, Survey};
    pub use crate::error::{Absence, Version};
    pub use crate::kernel::cuda::{
        Arg, Call, Compiled, Element, Entry, Failure, Geometry, KernelArgs, Kind, Module, Param, Piece,
        RowFrame, RowView, SHARED_MEMORY, Source, Tile, Transfer, pieces, shared_memory,
    };
    pub use crate::values::Operand;
}

/// Where the time of a step goes: time, bytes, operations and distance to the floor of each node
/// ([`Program::profile`](crate::Program::profile)).
pub mod profile {
    pub use crate::program::profile::{Group, Node, ProductRate, Profile, Rates, Row, Timed, trace};
}

/// The sanitizer: a debugging mode that checks the memory accesses of every launch
/// ([`Engine::sanitized`](crate::Engine::sanitized)).
pub mod sanitize {
    pub use crate::engine::agree;
    pub use crate::error::{Allocator, Culprit, Finding, QUARANTINE, Role, Violation};
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
