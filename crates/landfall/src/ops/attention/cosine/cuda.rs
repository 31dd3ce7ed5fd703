//! Attention with normalised queries and keys, and its gradient, on a GPU.

use super::{CosineAttention, CosineAttentionGrad, Sizes, lanes, rows_of};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel, size,
};
use crate::values::{Operand, Rule, Spec};

/// Rows of a thread: what two read of shared memory is read once.
const ROWS: usize = 2;

const HEAD: Piece = Piece::new("head", include_str!("head.cu"));

cuda_kernel! {
    /// A block has one head.
    struct Forward = "attention", BLOCK;
    qkv: view_in T,
    temperature: view_in S,
    heads: u32,
    e: u32,
    eps: f64,
    out: view_out T,
    lse: view_out A,
}

static FORWARD: Source = Source {
    name: "cosine_attention",
    pieces: &[HEAD, Piece::new("forward", include_str!("forward.cu"))],
    entries: &[Forward::KERNEL],
};

cuda_kernel! {
    /// A block has one head.
    struct Gradient = "gradient", BLOCK;
    qkv: view_in T,
    temperature: view_in S,
    heads: u32,
    e: u32,
    eps: f64,
    out: view_in T,
    lse: view_in K,
    slope: view_in T,
    gqkv: view_out T,
    partial: scratch A,
}

cuda_kernel! {
    /// A block adds what the batch has for the temperature of a head.
    struct Finish = "finish", BLOCK;
    partial: scratch A,
    batch: size,
    g_temperature: view_out S,
}

static GRADIENT: Source = Source {
    name: "cosine_attention_grad",
    pieces: &[HEAD, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Gradient::KERNEL, Finish::KERNEL],
};

/// A module for heads of these sizes.
fn module(source: &'static Source, s: &Sizes, qkv: &Operand, temperature: &Operand) -> Module {
    Module::new(source)
        .of("T", qkv.dtype())
        .of("A", qkv.dtype().accumulate())
        .of("S", temperature.dtype())
        .constant("TOKENS", s.n.max(1) as u64)
        .constant("LANES", lanes(s.e) as u64)
        .constant("ROWS", ROWS as u64)
}

/// A block for each head.
fn blocks(s: &Sizes) -> Result<Geometry, Rule> {
    let threads = (s.n.div_ceil(ROWS) * lanes(s.e)).next_multiple_of(32);
    Geometry::blocks(s.batch * s.heads, threads as u32)
}

/// [`CosineAttention`].
pub(in crate::ops) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<CosineAttention>(op)?;
    let (qkv, temperature) = (*call.input(0)?, *call.input(1)?);
    let (out, lse) = (*call.output(0)?, *call.output(1)?);
    if out.spec().shape.elements() == 0 {
        return Ok(());
    }
    let s = Sizes::of(&out.spec().shape);
    let args = Forward {
        qkv: &qkv,
        temperature: &temperature,
        heads: size(s.heads)?,
        e: size(s.e)?,
        eps: op.eps,
        out: &out,
        lse: &lse,
    };
    call.launch(&module(&FORWARD, &s, &qkv, &temperature), blocks(&s)?, &args)
}

/// Bytes of what each head adds to the gradient of its temperature.
pub(in crate::ops) fn grad_workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let s = Sizes::of(&rows_of(&args[0].shape));
    s.batch * s.heads * args[0].dtype.accumulate().size()
}

/// [`CosineAttentionGrad`].
pub(in crate::ops) fn gradient(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<CosineAttentionGrad>(op)?;
    let (qkv, temperature) = (*call.input(0)?, *call.input(1)?);
    let (out, lse, slope) = (*call.input(2)?, *call.input(3)?, *call.input(4)?);
    let (gqkv, g_temperature) = (*call.output(0)?, *call.output(1)?);
    let s = Sizes::of(&out.spec().shape);
    let module = module(&GRADIENT, &s, &qkv, &temperature).of("K", lse.dtype());
    let some = gqkv.spec().shape.elements() > 0;
    if some {
        let args = Gradient {
            qkv: &qkv,
            temperature: &temperature,
            heads: size(s.heads)?,
            e: size(s.e)?,
            eps: op.eps,
            out: &out,
            lse: &lse,
            slope: &slope,
            gqkv: &gqkv,
            partial: 0,
        };
        call.launch(&module, blocks(&s)?, &args)?;
    }
    if s.heads == 0 {
        return Ok(());
    }
    // The sums of nothing are written all the same.
    let batch = if some { s.batch } else { 0 };
    let args = Finish { partial: 0, batch, g_temperature: &g_temperature };
    call.launch(&module, Geometry::blocks(s.heads, BLOCK)?, &args)
}
