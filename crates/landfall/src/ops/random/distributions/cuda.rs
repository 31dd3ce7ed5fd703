//! Random tensors on a GPU.

use super::{Bernoulli, Uniform};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::{collapsed, contiguous};
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, WORDS, cuda_kernel,
};
use crate::rng;
use crate::values::DType;

cuda_kernel! {
    /// A thread draws a block of random words.
    struct FillUniform = "fill_uniform", BLOCK;
    cursor: view_in_of I64,
    stream: u32,
    out: view_out T,
    n: size,
    contiguous: flag,
    rank: u32,
    shape: dims,
    low: f64,
    range: f64,
}

cuda_kernel! {
    /// A thread draws a block of random words, and of each one a bool.
    struct FillBernoulli = "fill_bernoulli", BLOCK;
    cursor: view_in_of I64,
    stream: u32,
    out: view_out_of Bool,
    n: size,
    contiguous: flag,
    rank: u32,
    shape: dims,
    threshold: u64,
}

static SOURCE: Source = Source {
    name: "random",
    pieces: &[WORDS, Piece::new("random", include_str!("random.cu"))],
    entries: &[FillUniform::KERNEL, FillBernoulli::KERNEL],
};

/// [`Uniform`].
pub(super) fn uniform(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Uniform>(op)?;
    let (cursor, out) = (*call.input(0)?, *call.output(0)?);
    let each = if out.dtype() == DType::F64 { 2 } else { 4 };
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let [out] = &collapsed([&out]);
    let args = FillUniform {
        cursor: &cursor,
        stream: op.stream,
        out,
        n,
        contiguous: contiguous(&[out], each),
        rank: out.layout().shape().rank() as u32,
        shape: out.layout().shape().dims(),
        low: op.low,
        range: op.high - op.low,
    };
    let module = Module::new(&SOURCE).of("T", out.dtype());
    call.launch(&module, Geometry::linear(n.div_ceil(each), BLOCK)?, &args)
}

/// [`Bernoulli`].
pub(super) fn bernoulli(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Bernoulli>(op)?;
    let (cursor, out) = (*call.input(0)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let [out] = &collapsed([&out]);
    let args = FillBernoulli {
        cursor: &cursor,
        stream: op.stream,
        out,
        n,
        contiguous: contiguous(&[out], 4),
        rank: out.layout().shape().rank() as u32,
        shape: out.layout().shape().dims(),
        threshold: rng::threshold(op.keep),
    };
    // The element type is the other kernels'; any float will do.
    let module = Module::new(&SOURCE).of("T", DType::F32);
    call.launch(&module, Geometry::linear(n.div_ceil(4), BLOCK)?, &args)
}
