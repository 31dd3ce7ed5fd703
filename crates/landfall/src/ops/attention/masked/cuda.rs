//! [`MaskedAttention`] and its gradient on a GPU.

use super::{MaskedAttention, Sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel, size};
use crate::ops::attention::masked_grad::MaskedAttentionGrad;
use crate::values::{DType, Operand, Rule};

/// Threads of a block: four warps, each with a query or a key.
const BLOCK: u32 = 128;
/// Features that a lane of a warp holds at most.
const MOST: usize = 8;

cuda_kernel! {
    /// A warp has a query.
    struct Forward = "masked_attention", BLOCK;
    q: view_in T,
    k: view_in T,
    v: view_in T,
    mask: view_in M,
    lengths: view_in N,
    out: view_out T,
    lse: view_out A,
    faults: faults,
    causal: flag,
    rows: u32,
    queries: u32,
    heads: u32,
    keys: u32,
    group: u32,
    features: u32,
    scale: f64,
}

cuda_kernel! {
    /// A warp has a query: its gradient, and its level for [`Columns`].
    struct Rows = "masked_rows", BLOCK;
    q: view_in T,
    k: view_in T,
    v: view_in T,
    mask: view_in M,
    lengths: view_in N,
    out: view_in T,
    lse: view_in L,
    slope: view_in T,
    gq: view_out T,
    level: scratch A,
    faults: faults,
    causal: flag,
    rows: u32,
    queries: u32,
    heads: u32,
    keys: u32,
    group: u32,
    features: u32,
    scale: f64,
}

cuda_kernel! {
    /// A warp has a key, whose gradients it sums over the queries of all its heads in order.
    struct Columns = "masked_columns", BLOCK;
    q: view_in T,
    k: view_in T,
    v: view_in T,
    mask: view_in M,
    lengths: view_in N,
    lse: view_in L,
    slope: view_in T,
    gk: view_out T,
    gv: view_out T,
    level: scratch A,
    causal: flag,
    columns: u32,
    queries: u32,
    heads: u32,
    keys: u32,
    group: u32,
    features: u32,
    scale: f64,
}

const WARPS: Piece = Piece::new("warps", include_str!("warps.cu"));

static FORWARD: Source = Source {
    name: "masked_attention",
    pieces: &[WARPS, Piece::new("forward", include_str!("forward.cu"))],
    entries: &[Forward::KERNEL],
};

static GRADIENT: Source = Source {
    name: "masked_attention_grad",
    pieces: &[WARPS, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Rows::KERNEL, Columns::KERNEL],
};

/// A source for the op's masks, and for heads of so many features.
fn module(source: &'static Source, op: &MaskedAttention, q: &Operand, mask: &Operand, s: &Sizes) -> Module {
    let boolean = op.mask && mask.dtype == DType::Bool;
    Module::new(source)
        .of("T", q.dtype)
        .of("A", q.dtype.accumulate())
        .of("N", if op.lengths { DType::I64 } else { q.dtype })
        .of("M", if boolean { DType::Bool } else { q.dtype })
        .constant("MASK", if boolean { 1 } else { 2 * u64::from(op.mask) })
        .constant("LENGTHS", u64::from(op.lengths))
        .constant("EACH", s.features.div_ceil(32).next_power_of_two().min(MOST) as u64)
}

/// A warp for each of `count`.
fn warps(count: usize) -> Result<Geometry, Rule> {
    Geometry::blocks(count.div_ceil(BLOCK as usize / 32), BLOCK)
}

pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MaskedAttention>(op)?;
    let (q, k, v) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (out, lse) = (*call.output(0)?, *call.output(1)?);
    // In place of an operand that the call has not, another is passed and not touched.
    let mask = if op.mask { *call.input(3)? } else { q };
    let lengths = if let Some(at) = op.lengths_at() { *call.input(at)? } else { q };
    let s = Sizes::of(&q.spec().shape, &k.spec().shape);
    let rows = s.rows().elements();
    if rows == 0 {
        return Ok(());
    }
    let args = Forward {
        q: &q,
        k: &k,
        v: &v,
        mask: &mask,
        lengths: &lengths,
        out: &out,
        lse: &lse,
        faults: (),
        causal: op.causal,
        rows: size(rows)?,
        queries: size(s.queries)?,
        heads: size(s.heads)?,
        keys: size(s.keys)?,
        group: size(s.group())?,
        features: size(s.features)?,
        scale: op.scale,
    };
    call.launch(&module(&FORWARD, op, &q, &mask, &s), warps(rows)?, &args)
}

pub(in crate::ops) fn gradient(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MaskedAttentionGrad>(op)?.forward();
    let (q, k, v) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let at = op.arguments();
    let (out, lse, slope) = (*call.input(at)?, *call.input(at + 1)?, *call.input(at + 2)?);
    let (gq, gk, gv) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let mask = if op.mask { *call.input(3)? } else { q };
    let lengths = if let Some(at) = op.lengths_at() { *call.input(at)? } else { q };
    let s = Sizes::of(&q.spec().shape, &k.spec().shape);
    let (q, k, v, mask, lengths, lse, slope) = (&q, &k, &v, &mask, &lengths, &lse, &slope);
    let (queries, heads, keys) = (size(s.queries)?, size(s.heads)?, size(s.keys)?);
    let (group, features) = (size(s.group())?, size(s.features)?);
    let (level, causal, scale) = (0, op.causal, op.scale);
    let module = module(&GRADIENT, &op, q, mask, &s).of("L", lse.dtype());
    /// What both kernels are given, and what each has of its own.
    macro_rules! given {
        ($Args:ident { $($own:ident),+ }) => {
            $Args {
                q, k, v, mask, lengths, lse, slope, level, causal, queries, heads, keys, group, features, scale, $($own),+
            }
        };
    }
    let rows = s.rows().elements();
    if rows > 0 {
        let (out, gq, faults, blocks, rows) = (&out, &gq, (), warps(rows)?, size(rows)?);
        call.launch(&module, blocks, &given!(Rows { out, gq, faults, rows }))?;
    }
    let columns = s.batch * s.key_heads * s.keys;
    if columns == 0 {
        return Ok(());
    }
    let (gk, gv, blocks, columns) = (&gk, &gv, warps(columns)?, size(columns)?);
    call.launch(&module, blocks, &given!(Columns { gk, gv, columns }))
}
