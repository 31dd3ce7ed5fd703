//! Matrix products.

pub(crate) mod dense;

pub use dense::MatMul;
