//! Devices: where kernels run.
pub mod cpu;
