//! Landfall: a tensor engine in which every result lands in the memory you gave it.
#![deny(unsafe_code)]

#[doc(hidden)]
#[allow(unsafe_code, reason = "devices own memory and machine code; nothing else in the crate does")]
pub mod device;
mod dtype;
pub mod rng;

pub use dtype::{Accumulate, Class, DType, Element};
#[doc(hidden)]
pub use half;
