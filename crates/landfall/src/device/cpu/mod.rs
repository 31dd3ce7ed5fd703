//! The CPU device.
pub mod gemm;
pub mod isa;
pub mod pack;
