//! The CPU device.
pub mod isa;
