//! Random numbers, a function of a seed and a position.

pub(crate) mod distributions;
pub(crate) mod dropout;

pub use distributions::{Bernoulli, Uniform};
pub use dropout::Dropout;
