//! Kernels: what their authors write against. Typed views and threads of the processor, typed launches of a GPU, and the
//! generators of pointwise kernels. Which op a kernel belongs to, it knows by name alone.

pub mod cpu;
pub(crate) mod cuda;
mod operands;

pub(crate) use operands::{Operands, added};
