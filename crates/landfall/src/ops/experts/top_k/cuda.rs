//! The choice of experts on a GPU.

use super::{TopK, TopKGrad};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

cuda_kernel! {
    /// A warp chooses the experts of a token.
    struct Choose = "top_k", BLOCK;
    p: view_in T,
    routed: view_out_of Bool,
    weights: view_out T,
    tokens: size,
    experts: u32,
    k: u32,
}

cuda_kernel! {
    /// A warp has the slopes of a token.
    struct Gradient = "top_k_grad", BLOCK;
    p: view_in T,
    routed: view_in_of Bool,
    gw: view_in T,
    out: view_out T,
    tokens: size,
    experts: u32,
}

static SOURCE: Source = Source {
    name: "top_k",
    pieces: &[Piece::new("top_k", include_str!("top_k.cu"))],
    entries: &[Choose::KERNEL, Gradient::KERNEL],
};

/// [`TopK`].
pub(super) fn top_k(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<TopK>(op)?;
    let (p, routed, weights) = (*call.input(0)?, *call.output(0)?, *call.output(1)?);
    let shape = p.spec().shape;
    let tokens = shape.dims()[0];
    if tokens == 0 {
        return Ok(());
    }
    let module = Module::new(&SOURCE).of("T", p.dtype()).constant("RENORMALISE", u64::from(op.renormalise));
    let args = Choose {
        p: &p,
        routed: &routed,
        weights: &weights,
        tokens,
        experts: shape.last() as u32,
        k: op.k as u32,
    };
    call.launch(&module, Geometry::linear(tokens * 32, BLOCK)?, &args)
}

/// [`TopKGrad`].
pub(super) fn top_k_grad(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<TopKGrad>(op)?;
    let (p, routed, gw, out) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    let shape = p.spec().shape;
    let tokens = shape.dims()[0];
    if tokens == 0 || shape.last() == 0 {
        return Ok(());
    }
    let module = Module::new(&SOURCE).of("T", p.dtype()).constant("RENORMALISE", u64::from(op.renormalise));
    let args = Gradient { p: &p, routed: &routed, gw: &gw, out: &out, tokens, experts: shape.last() as u32 };
    call.launch(&module, Geometry::linear(tokens * 32, BLOCK)?, &args)
}
