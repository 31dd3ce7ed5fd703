//! Calls of ops, and what their arguments hold.

use landfall::ops::Op;
use landfall::{DType, Shape};
use std::sync::Arc;

/// One call of an op.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: Arc<dyn Op>,
    pub(crate) args: Vec<Arg>,
}

/// An argument: a tensor, or a view of one with its two axes exchanged.
#[derive(Debug, Clone)]
pub(crate) struct Arg {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) data: Data,
    pub(crate) transposed: bool,
}

/// What an argument holds.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// Standard normal values.
    Normal,
    /// Their squares.
    Squares,
    /// One value.
    All(f64),
    /// These, row-major.
    Exact(Arc<[f64]>),
    /// What this call writes to its output of this number.
    Result(Arc<Call>, usize),
}

pub(crate) fn call(op: impl Op, args: impl Into<Vec<Arg>>) -> Call {
    Call { op: Arc::new(op), args: args.into() }
}

/// Standard normal values.
pub(crate) fn normal(dtype: DType, shape: impl Into<Shape>) -> Arg {
    argument(dtype, shape, Data::Normal)
}

/// One value in all places.
pub(crate) fn all(dtype: DType, shape: impl Into<Shape>, value: f64) -> Arg {
    argument(dtype, shape, Data::All(value))
}

/// These values, row-major.
pub(crate) fn exact(dtype: DType, shape: impl Into<Shape>, values: Vec<f64>) -> Arg {
    argument(dtype, shape, Data::Exact(values.into()))
}

/// What a call of an op writes to its output of this number.
pub(crate) fn result(shape: impl Into<Shape>, of: Arc<Call>, output: usize) -> Arg {
    argument(DType::I32, shape, Data::Result(of, output))
}

fn argument(dtype: DType, shape: impl Into<Shape>, data: Data) -> Arg {
    Arg { dtype, shape: shape.into(), data, transposed: false }
}

/// The op's name and its sizes.
pub(crate) fn row_name(op: &str, sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    format!("{op}/{}", sizes.join("x"))
}
