//! Many elements joined to one: reductions and softmax.

pub(crate) mod reduction;
pub(crate) mod softmax;

pub use reduction::{Reduce, Reduction};
pub use softmax::Softmax;
