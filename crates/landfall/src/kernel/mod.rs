//! The kernel-author API: typed views and threads on the CPU, typed launches on a GPU, and the generators of pointwise
//! kernels. A kernel knows its op by name only.

pub mod cpu;
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the driver alone reads some of it"))]
pub(crate) mod cuda;
mod operands;

pub(crate) use operands::{Operands, added};
