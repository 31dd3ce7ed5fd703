//! Landfall: a tensor engine in which every result lands in the memory you gave it.
//!
//! In the order in which a step passes them:
//!
//! 1. [`Graph`]: a step as a graph of values; [`grad`] adds its backward pass.
//! 2. [`lower`]: the graph as instructions, each with its kernel, alias rule and what must happen before it.
//! 3. [`plan`]: one offset for each value, and an independent checker that proves it.
//! 4. [`Program`]: the plan in memory, recorded once, run with no allocation on its [`State`].
//! 5. [`ops`]: one definition for each op; [`Engine::call`] issues one eagerly through the same checked launch.
//! 6. [`sanitize`]: the same launches, each proved to touch what it may and nothing else, in a mode of its own.
//! 7. [`tune`]: which of an op's kernels is the fastest for an instruction, found on private copies when it is asked for.
//!
//! Modules lie in floors, and every import goes down: `docs/architecture.md` has the picture, `tests/floors.rs` the rule.
//! `unsafe` code is in `device` and `kernel` alone.
#![deny(unsafe_code)]

// The ops that tests bring along are written as a user's would be.
#[cfg(test)]
extern crate self as landfall;

// The cases of the generated suite, for tests that reach inside of a launch.
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
pub mod rng;
mod sanitizer;
pub mod tune;
mod values;

pub use contract::{
    Attribute, AttributeType, AttributeValue, Attributes, ENTRY_ALIGNMENT, Entry, Graph, Slab, StateSpec,
    Value,
};
pub use device::Counters;
pub use engine::{Engine, State, Tensor, TensorMut, TensorRef};
pub use error::Error;
#[doc(hidden)]
pub use half;
pub use kernel::cpu;
pub use passes::{Mixed, grad, mixed_precision};
pub use program::{Program, ProgramSet};
pub use values::{
    Accumulate, Class, DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Math, OpError, Relation,
    Rule, Shape, Spec,
};

/// Scalar expressions, which pointwise ops are written as; each device makes its kernel from the one expression.
pub mod codegen {
    pub use crate::values::{Binary, Expression, Reg, Step, Unary};
}

/// NVIDIA GPUs: what an op's kernels are written against, what is there, and how modules are compiled.
pub mod cuda {
    pub use crate::device::cuda::{Compiled, Compiler, Gpu, Survey, launches, survey};
    pub use crate::error::{Absence, Version};
    pub use crate::kernel::cuda::{
        Arg, Call, Element, Entry, Failure, Geometry, KernelArgs, Kind, Module, Param, Piece, RowFrame,
        RowView, Source, Tile, Transfer,
    };
    pub use crate::values::Operand;
}

/// The sanitizer: every launch proved to touch what it may and nothing else, in a mode of its own
/// ([`Engine::sanitized`](crate::Engine::sanitized)).
pub mod sanitize {
    pub use crate::engine::agree;
    pub use crate::error::{Allocator, Culprit, Finding, QUARANTINE, Role, Violation};
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
