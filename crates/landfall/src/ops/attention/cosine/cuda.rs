//! Attention with normalised queries and keys, and its gradient, on a GPU.

use super::{CosineAttention, CosineAttentionGrad, Sizes, lanes, rows_of};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::attention::forward::cuda::{size, strides};
use crate::values::{Operand, Rule, Spec};

/// Threads of a block at most.
const BLOCK: u32 = 256;
/// Rows of a thread: what two read of shared memory is read once.
const ROWS: usize = 2;

/// Parameters of both ways, before those of its own.
macro_rules! params {
    ($($own:expr),* $(,)?) => {
        &[
            Param::input("qkv", "T"),
            Param::dims("stride_qkv"),
            Param::input("temperature", "S"),
            Param::u64("stride_temperature"),
            Param::u32("heads"),
            Param::u32("e"),
            Param::f64("eps"),
            $($own,)*
        ]
    };
}

static FORWARD: Source = Source {
    name: "cosine_attention",
    text: concat!(include_str!("head.cu"), include_str!("forward.cu")),
    entries: &[Entry {
        name: "attention",
        block: BLOCK,
        params: params![
            Param::output("out", "T"),
            Param::dims("stride_out"),
            Param::output("lse", "A"),
            Param::dims("stride_lse"),
        ],
    }],
};

static GRADIENT: Source = Source {
    name: "cosine_attention_grad",
    text: concat!(include_str!("head.cu"), include_str!("grad.cu")),
    entries: &[
        Entry {
            name: "gradient",
            block: BLOCK,
            params: params![
                Param::input("out", "T"),
                Param::dims("stride_out"),
                Param::input("lse", "K"),
                Param::dims("stride_lse"),
                Param::input("slope", "T"),
                Param::dims("stride_slope"),
                Param::output("gqkv", "T"),
                Param::dims("stride_gqkv"),
                Param::scratch("partial", "A"),
            ],
        },
        Entry {
            name: "finish",
            block: BLOCK,
            params: &[
                Param::scratch("partial", "A"),
                Param::u64("batch"),
                Param::output("g_temperature", "S"),
                Param::u64("stride_g_temperature"),
            ],
        },
    ],
};

fn stride(of: &Operand) -> Arg<'static> {
    Arg::U64(of.layout().strides().first().map_or(0, |&s| s as u64))
}

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
    let args = [
        Arg::Input(&qkv),
        strides(&qkv),
        Arg::Input(&temperature),
        stride(&temperature),
        size(s.heads)?,
        size(s.e)?,
        Arg::F64(op.eps),
        Arg::Output(&out),
        strides(&out),
        Arg::Output(&lse),
        strides(&lse),
    ];
    call.launch(&module(&FORWARD, &s, &qkv, &temperature), "attention", blocks(&s)?, &args)
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
        let args = [
            Arg::Input(&qkv),
            strides(&qkv),
            Arg::Input(&temperature),
            stride(&temperature),
            size(s.heads)?,
            size(s.e)?,
            Arg::F64(op.eps),
            Arg::Input(&out),
            strides(&out),
            Arg::Input(&lse),
            strides(&lse),
            Arg::Input(&slope),
            strides(&slope),
            Arg::Output(&gqkv),
            strides(&gqkv),
            Arg::Scratch(0),
        ];
        call.launch(&module, "gradient", blocks(&s)?, &args)?;
    }
    if s.heads == 0 {
        return Ok(());
    }
    // The sums of nothing are written all the same.
    let batch = if some { s.batch } else { 0 };
    let args = [Arg::Scratch(0), Arg::U64(batch as u64), Arg::Output(&g_temperature), stride(&g_temperature)];
    call.launch(&module, "finish", Geometry::blocks(s.heads, BLOCK)?, &args)
}
