//! Pointwise ops are written as scalar expressions; each device makes its kernel from the one expression.

pub(crate) mod cuda;
mod expression;
pub(crate) mod tile;

pub use expression::{Binary, Expression, Reg, Step, Unary};
