//! NVIDIA GPU kernels.
//!
//! An op's CUDA side is a function of a [`Call`]: it turns operands into typed launches of kernels, which it declares
//! in a [`Source`] beside its `.cu` file. The same function serves an eager call (launches go to the stream), a program
//! (they are prepared once, captured as one CUDA graph and replayed), and the check that compiles every kernel without
//! a GPU (they go to the compiler only).

mod architecture;
mod call;
mod collective;
pub(crate) mod columns;
mod module;
mod param;
pub mod pieces;
pub(crate) mod pointwise;
pub(crate) mod product;
pub(crate) mod segment;
pub(crate) mod tensor_map;
pub(crate) mod vectors;

pub use architecture::{SHARED_MEMORY, shared_memory};
pub(crate) use call::size;
pub use call::{Arg, Call, Failure, Geometry};
pub(crate) use call::{BLOCK, KernelLaunch, Sink, Values};
pub(crate) use collective::{Collective, CollectiveLaunch, Combination, Seat};
pub use module::{Compiled, Module, Piece, Source};
pub(crate) use param::cuda_kernel;
pub use param::{Element, Entry, KernelArgs, Kind, Param, RowFrame, RowView, Tile, Transfer};
pub(crate) use pieces::{COLUMNS, FRAGMENTS, GROUP, ROWS, SCAN, SINGLE_PASS, STRIPS, UNITS, WORDS};
pub(crate) use product::{ProductLaunch, WORKSPACE_ALIGNMENT};
pub(crate) use tensor_map::WORDS as TENSOR_MAP_WORDS;
