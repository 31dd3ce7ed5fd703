//! Losses, each a scalar, with their gradients.

pub(crate) mod cross_entropy;
pub(crate) mod regression;

pub use cross_entropy::{CrossEntropy, CrossEntropyGrad};
pub use regression::{Mae, MaeGrad, Mse, MseGrad};
