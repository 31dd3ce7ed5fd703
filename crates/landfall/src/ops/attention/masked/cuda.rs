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

/// A kernel with the operands and sizes that all have, and its own between them.
macro_rules! of_warps {
    ($(#[$doc:meta])* $Name:ident = $kernel:literal, $count:ident; $($own:tt)*) => {
        cuda_kernel! {
            $(#[$doc])*
            struct $Name = $kernel, BLOCK;
            q: view_in T,
            k: view_in T,
            v: view_in T,
            mask: view_in M,
            lengths: view_in N,
            $($own)*
            causal: flag,
            $count: u32,
            queries: u32,
            heads: u32,
            keys: u32,
            group: u32,
            features: u32,
            scale: f64,
        }
    };
}

of_warps! {
    /// A warp has a query.
    Forward = "masked_attention", rows;
    out: view_out T,
    lse: view_out A,
    faults: faults,
}

of_warps! {
    /// A warp has a query: its gradient, and its level for [`Columns`].
    Rows = "masked_rows", rows;
    lse: view_in L,
    slope: view_in T,
    level: scratch A,
    out: view_in T,
    gq: view_out T,
    faults: faults,
}

of_warps! {
    /// A warp has a key, whose gradients it sums over the queries of all its heads in order.
    Columns = "masked_columns", columns;
    lse: view_in L,
    slope: view_in T,
    level: scratch A,
    gk: view_out T,
    gv: view_out T,
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

/// What a call has, whichever of its kernels runs.
struct Shared {
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand,
    lengths: Operand,
    sizes: Sizes,
}

/// A launch's arguments: those that all kernels have, and its own.
macro_rules! arguments {
    ($Args:ident, $op:ident, $of:ident, $count:ident { $($own:ident),+ }) => {{
        let (Shared { q, k, v, mask, lengths, sizes: s }, MaskedAttention { causal, scale, .. }) = (&$of, *$op);
        let (queries, heads, keys) = (size(s.queries)?, size(s.heads)?, size(s.keys)?);
        let (group, features, $count) = (size(s.group())?, size(s.features)?, size($count)?);
        $Args { q, k, v, mask, lengths, causal, $count, queries, heads, keys, group, features, scale, $($own),+ }
    }};
}

impl Shared {
    fn of(op: &MaskedAttention, call: &Call<'_>) -> Result<Self, Rule> {
        let (q, k, v) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
        // In place of an operand that the call has not, another is passed and not touched.
        let mask = if op.mask { *call.input(3)? } else { q };
        let lengths = if let Some(at) = op.lengths_at() { *call.input(at)? } else { q };
        Ok(Self { q, k, v, mask, lengths, sizes: Sizes::of(&q.spec().shape, &k.spec().shape) })
    }

    /// A source for the op's masks, and for heads of so many features.
    fn module(&self, source: &'static Source, op: &MaskedAttention) -> Module {
        let (dtype, boolean) = (self.q.dtype, op.mask && self.mask.dtype == DType::Bool);
        Module::new(source)
            .of("T", dtype)
            .of("A", dtype.accumulate())
            .of("N", if op.lengths { DType::I64 } else { dtype })
            .of("M", if boolean { DType::Bool } else { dtype })
            .constant("MASK", if boolean { 1 } else { 2 * u64::from(op.mask) })
            .constant("LENGTHS", u64::from(op.lengths))
            .constant("EACH", self.sizes.features.div_ceil(32).next_power_of_two().min(MOST) as u64)
    }
}

/// A warp for each of `count`.
fn warps(count: usize) -> Result<Geometry, Rule> {
    Geometry::blocks(count.div_ceil(BLOCK as usize / 32), BLOCK)
}

pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MaskedAttention>(op)?;
    let of = Shared::of(op, call)?;
    let (out, lse) = (*call.output(0)?, *call.output(1)?);
    let (out, lse, faults) = (&out, &lse, ());
    let rows = of.sizes.rows().elements();
    if rows == 0 {
        return Ok(());
    }
    let args = arguments!(Forward, op, of, rows { out, lse, faults });
    call.launch(&of.module(&FORWARD, op), warps(rows)?, &args)
}

pub(in crate::ops) fn gradient(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = &attributes::<MaskedAttentionGrad>(op)?.forward();
    let of = Shared::of(op, call)?;
    let at = op.operands();
    let (out, lse, slope) = (*call.input(at)?, *call.input(at + 1)?, *call.input(at + 2)?);
    let (gq, gk, gv) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (out, lse, slope, level) = (&out, &lse, &slope, 0);
    let module = of.module(&GRADIENT, op).of("L", lse.dtype());
    let rows = of.sizes.rows().elements();
    if rows > 0 {
        let (gq, faults) = (&gq, ());
        let args = arguments!(Rows, op, of, rows { lse, slope, level, out, gq, faults });
        call.launch(&module, warps(rows)?, &args)?;
    }
    let columns = of.sizes.batch * of.sizes.key_heads * of.sizes.keys;
    if columns == 0 {
        return Ok(());
    }
    let (gk, gv) = (&gk, &gv);
    let args = arguments!(Columns, op, of, columns { lse, slope, level, gk, gv });
    call.launch(&module, warps(columns)?, &args)
}
