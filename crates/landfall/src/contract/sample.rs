//! The tests of an op: its reference and the sample calls of the generated suite.

use super::Op;
use crate::values::{DType, HostTensor, Shape};
use std::sync::Arc;

/// The tests of an op. The generated suite checks kernels, gradients, aliasing, poison and capture of every op that
/// implements it.
pub trait Tested: Op {
    /// The reference: naive loops in `f64`, against which kernels are tested.
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor>;
    /// Sample calls for tests, benches and the support table.
    fn samples(&self) -> Vec<Sample>;
}

/// A test call of an op.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Arc<dyn Tested>,
    /// The arguments.
    pub args: Vec<SampleArg>,
    /// Text that the error must contain, if the call must be refused.
    pub refused: Option<&'static str>,
}

/// An argument of a [`Sample`].
#[derive(Debug, Clone)]
pub struct SampleArg {
    /// Its dtype; `None` is the dtype under test.
    pub dtype: Option<DType>,
    /// Its shape.
    pub shape: Shape,
    /// Its contents.
    pub data: Data,
}

/// The contents of a sample's argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Uniform in this range.
    Range(f64, f64),
    /// Standard normal values, with some exact zeros and some of large magnitude.
    Wide,
    /// Integers in `lo..hi`.
    Int(i64, i64),
    /// Exactly these values, row-major.
    Exact(Vec<f64>),
}

impl Sample {
    /// A call that must succeed.
    #[must_use]
    pub fn new(op: impl Tested, args: Vec<SampleArg>) -> Self {
        Self { op: Arc::new(op), args, refused: None }
    }

    /// A call that must be refused with an error that contains `text`.
    #[must_use]
    pub fn bad(op: impl Tested, args: Vec<SampleArg>, text: &'static str) -> Self {
        Self { op: Arc::new(op), args, refused: Some(text) }
    }
}

impl SampleArg {
    /// An argument of the dtype under test, uniform in (−2, 2).
    pub fn any(shape: impl Into<Shape>) -> Self {
        Self::range(shape, -2.0, 2.0)
    }

    /// An argument of the dtype under test, uniform in a range.
    pub fn range(shape: impl Into<Shape>, lo: f64, hi: f64) -> Self {
        Self { dtype: None, shape: shape.into(), data: Data::Range(lo, hi) }
    }

    /// An argument with this data.
    pub fn with(dtype: Option<DType>, shape: impl Into<Shape>, data: Data) -> Self {
        Self { dtype, shape: shape.into(), data }
    }
}
