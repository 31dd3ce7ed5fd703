//! Landfall: a tensor engine in which every result lands in the memory you gave it.
#![deny(unsafe_code)]

mod dtype;
mod math;

pub use dtype::{Accumulate, Class, DType, Element};
#[doc(hidden)]
pub use half;
pub use math::Math;
