//! The kernel-author API: typed views and threads on the CPU, typed launches on a GPU, and the generators of pointwise
//! kernels. A kernel knows its op by name only.

pub mod cpu;
pub(crate) mod cuda;
mod operands;

pub(crate) use operands::{Operands, added};
