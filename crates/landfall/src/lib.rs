//! Landfall: a tensor engine in which every result lands in the memory you gave it.
//!
//! The modules, in the order the data passes them:
//!
//! 1. [`Graph`]: a step as a graph of values; [`grad`] adds its backward pass.
//! 2. `lower`: the graph as instructions, each with its kernel, alias rule and what must happen before it.
//! 3. [`plan`]: one offset for each value, and an independent checker that proves it.
//! 4. [`Program`]: the plan in memory, recorded once, run with no allocation on its [`State`].
//! 5. [`ops`]: one definition for each op; [`Engine::call`] issues one eagerly through the same checked launch.
//! 6. [`sanitize`]: the same launches, each proved to touch what it may and nothing else, in a mode of its own.
//! 7. [`tune`]: which of an op's kernels is the fastest for an instruction, found on private copies when it is asked for.
//! 8. `device`: where kernels run. The only place with `unsafe` code.
#![deny(unsafe_code)]

// The ops that tests bring along are written as a user's would be.
#[cfg(test)]
extern crate self as landfall;

// The cases of the generated suite, for tests that reach inside of a launch.
#[cfg(test)]
#[path = "../tests/table/case.rs"]
#[allow(dead_code, reason = "the suite uses the rest")]
mod case;
#[cfg(test)]
#[path = "../tests/table/compare.rs"]
#[allow(dead_code, reason = "the suite uses the rest")]
mod compare;
#[cfg(test)]
#[path = "../tests/device/gpu.rs"]
mod gpu;

mod buffer;
mod cache;
pub mod codegen;
#[allow(unsafe_code, reason = "devices turn checked addresses into memory; nothing else may")]
mod device;
mod dtype;
mod engine;
mod error;
mod exec;
mod graph;
mod host;
mod layout;
pub mod lower;
mod math;
pub mod ops;
pub mod plan;
pub mod rng;
pub mod sanitize;
mod shape;
mod state;
mod tensor;
pub mod tune;

pub use device::{Counters, DeviceKind};
pub use device::{cpu, cuda};
pub use dtype::{Accumulate, Class, DType, Element};
pub use engine::Engine;
pub use error::{Error, OpError, Rule};
pub use exec::{Program, ProgramSet};
pub use graph::{Graph, Mixed, Value, grad, mixed_precision};
#[doc(hidden)]
pub use half;
pub use host::HostTensor;
pub use layout::{Layout, Relation};
pub use math::Math;
pub use shape::{MAX_RANK, Shape, Spec};
pub use state::{ENTRY_ALIGNMENT, Entry, Slab, State, StateSpec};
pub use tensor::{Tensor, TensorMut, TensorRef};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
