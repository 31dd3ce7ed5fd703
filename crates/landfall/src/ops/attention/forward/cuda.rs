//! Attention and its gradient on a GPU.

use super::Attention;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::attention::cpu_tiles::Sizes;
use crate::ops::attention::grad::AttentionGrad;
use crate::values::{DType, Operand, Rule, Spec};

/// Rows of a block at most: `ROWS` in the source.
const ROWS: u32 = 64;
/// Threads of a block of `levels`.
const BLOCK: u32 = 256;

/// Parameters of a forward kernel, after some of its own.
macro_rules! forward {
    ($($own:expr)?) => {
        &[
            $($own,)?
            Param::input("q", "T"),
            Param::input("k", "T"),
            Param::input("v", "T"),
            Param::input("prev", "T"),
            Param::output("out", "T"),
            Param::output("lse", "A"),
            Param::output("emitted", "T"),
            Param::u32("has_prev"),
            Param::u32("has_scores"),
            Param::u32("heads"),
            Param::u32("n"),
            Param::u32("e"),
            Param::f64("scale"),
            Param::dims("stride_q"),
            Param::dims("stride_k"),
            Param::dims("stride_v"),
            Param::dims("stride_prev"),
            Param::dims("stride_out"),
            Param::dims("stride_lse"),
            Param::dims("stride_emitted"),
        ]
    };
}

/// Parameters of a kernel of the gradient by tiles, which writes two of the results.
macro_rules! tiles {
    ($first:literal $second:literal) => {
        &[
            Param::input("q", "T"),
            Param::input("k", "T"),
            Param::input("v", "T"),
            Param::input("prev", "T"),
            Param::input("lse", "L"),
            Param::scratch("level", "A"),
            Param::input("slope", "T"),
            Param::input("score_slope", "T"),
            Param::u32("has_prev"),
            Param::u32("has_scores"),
            Param::u32("heads"),
            Param::u32("n"),
            Param::u32("e"),
            Param::f64("scale"),
            Param::dims("stride_q"),
            Param::dims("stride_k"),
            Param::dims("stride_v"),
            Param::dims("stride_prev"),
            Param::dims("stride_lse"),
            Param::dims("stride_slope"),
            Param::dims("stride_scores"),
            Param::output($first, "T"),
            Param::output($second, "T"),
            Param::dims(concat!("stride_", $first)),
            Param::dims(concat!("stride_", $second)),
        ]
    };
}

static FORWARD: Source = Source {
    name: "attention",
    text: concat!(include_str!("tiles.cu"), include_str!("attention.cu")),
    entries: &[Entry { name: "attention", block: ROWS, params: forward!() }],
};

static GRADIENT: Source = Source {
    name: "attention_grad",
    text: concat!(include_str!("tiles.cu"), include_str!("grad.cu")),
    entries: &[
        Entry {
            name: "levels",
            block: BLOCK,
            params: &[
                Param::input("out", "T"),
                Param::input("slope", "T"),
                Param::scratch("level", "A"),
                Param::u64("count"),
                Param::u64("heads"),
                Param::u64("n"),
                Param::u64("e"),
                Param::dims("stride_out"),
                Param::dims("stride_slope"),
            ],
        },
        Entry { name: "columns", block: ROWS, params: tiles!("gk" "gv") },
        Entry { name: "rows", block: ROWS, params: tiles!("gq" "g_prev") },
    ],
};

/// Threads of a block that holds whole heads in shared memory: `THREADS` in `few.cu` and `head.cu`.
const FEW: u32 = 128;
/// Bytes of shared memory that a block may have without being asked twice.
const SHARED: usize = 48 << 10;

static FEW_FORWARD: Source = Source {
    name: "attention_few",
    text: concat!(include_str!("few.cu"), include_str!("few_forward.cu")),
    entries: &[Entry { name: "attention", block: FEW, params: forward!(Param::u64("all")) }],
};

/// Parameters of a kernel of the whole gradient, after some of its own.
macro_rules! gradient {
    ($($own:expr)?) => {
        &[
            $($own,)?
            Param::input("q", "T"),
            Param::input("k", "T"),
            Param::input("v", "T"),
            Param::input("prev", "T"),
            Param::input("out", "T"),
            Param::input("lse", "L"),
            Param::input("slope", "T"),
            Param::input("score_slope", "T"),
            Param::u32("has_prev"),
            Param::u32("has_scores"),
            Param::u32("heads"),
            Param::u32("n"),
            Param::u32("e"),
            Param::f64("scale"),
            Param::dims("stride_q"),
            Param::dims("stride_k"),
            Param::dims("stride_v"),
            Param::dims("stride_prev"),
            Param::dims("stride_out"),
            Param::dims("stride_lse"),
            Param::dims("stride_slope"),
            Param::dims("stride_scores"),
            Param::output("gq", "T"),
            Param::output("gk", "T"),
            Param::output("gv", "T"),
            Param::output("g_prev", "T"),
            Param::dims("stride_gq"),
            Param::dims("stride_gk"),
            Param::dims("stride_gv"),
            Param::dims("stride_g_prev"),
        ]
    };
}

static FEW_GRADIENT: Source = Source {
    name: "attention_few_grad",
    text: concat!(include_str!("few.cu"), include_str!("few_grad.cu")),
    entries: &[Entry { name: "gradient", block: FEW, params: gradient!(Param::u64("all")) }],
};

static HEAD_FORWARD: Source = Source {
    name: "attention_head",
    text: concat!(include_str!("heads.cu"), include_str!("head.cu"), include_str!("head_forward.cu")),
    entries: &[Entry { name: "attention", block: FEW, params: forward!() }],
};

static HEAD_GRADIENT: Source = Source {
    name: "attention_head_grad",
    text: concat!(include_str!("heads.cu"), include_str!("head.cu"), include_str!("head_grad.cu")),
    entries: &[Entry { name: "gradient", block: FEW, params: gradient!() }],
};

/// Threads of a block that has one head of middle size: `THREADS` in `block.cu`.
const MIDDLE: u32 = 256;
/// Rows and columns of its threads: `SIDE` in `block.cu`.
const SIDE: usize = 16;
/// Bytes of shared memory that a block may ask for on every architecture, from Ampere to consumer Blackwell.
const ASKED: usize = 99 << 10;

static BLOCK_FORWARD: Source = Source {
    name: "attention_block",
    text: concat!(include_str!("heads.cu"), include_str!("block.cu"), include_str!("block_forward.cu")),
    entries: &[Entry { name: "attention", block: MIDDLE, params: forward!() }],
};

static BLOCK_GRADIENT: Source = Source {
    name: "attention_block_grad",
    text: concat!(include_str!("heads.cu"), include_str!("block.cu"), include_str!("block_grad.cu")),
    entries: &[Entry { name: "gradient", block: MIDDLE, params: gradient!() }],
};

/// Which of the two a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Forward,
    Gradient,
}

/// Bytes of shared memory of a block of [`Way::Block`]: `Head` in the sources.
fn shared(part: Part, s: &Sizes, dtype: DType) -> usize {
    // An odd number of fours.
    let pitch = |of: usize| (of.div_ceil(4) | 1) * 4;
    let lines = s.n.next_multiple_of(4);
    let (features, scores) = (lines * pitch(s.e), s.n * pitch(s.n));
    let elements = match part {
        Part::Forward => 2 * features + features.max(scores) + lines,
        Part::Gradient => 3 * features + features.max(scores) + scores + 2 * lines,
    };
    elements * dtype.accumulate().size()
}

/// A way to compute attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Way {
    /// A block for several whole heads, a row a thread.
    Few,
    /// A block for one whole head, spread over all threads.
    Head,
    /// A block for one whole head, a square of scores a thread.
    Block,
    /// A row a thread, keys by tiles: any sizes.
    Rows,
}

impl Way {
    /// Whether it can hold such heads.
    fn takes(self, s: &Sizes, dtype: DType) -> bool {
        let size = dtype.accumulate().size();
        match self {
            // Four rows of each thread in shared memory.
            Self::Few => s.n <= FEW as usize && s.e * size <= 64,
            // Queries, keys, values and their results' slopes, weights and what they change by.
            Self::Head => {
                let (lines, squares) = (4 * s.n * (s.e.next_multiple_of(4) + 4), 2 * s.n * (s.n + 1));
                (lines + squares + 2 * s.n) * size <= SHARED
            }
            // Of fewer tokens a thread would have one score at most.
            Self::Block => s.n > SIDE && shared(Part::Gradient, s, dtype) <= ASKED,
            Self::Rows => true,
        }
    }

    /// The op's own choice: the first that takes the heads.
    fn own(s: &Sizes, dtype: DType) -> Self {
        let ways = [Self::Few, Self::Head, Self::Block];
        ways.into_iter().find(|way| way.takes(s, dtype)).unwrap_or(Self::Rows)
    }

    /// Whether this is another way than the op's own choice for a call with these arguments.
    pub(in crate::ops) fn varies(self, args: &[Spec]) -> bool {
        let (s, dtype) = (Sizes::of(&args[0].shape), args[0].dtype);
        self != Self::own(&s, dtype) && self.takes(&s, dtype)
    }

    /// A module for whole heads, and the blocks for all of them; `None` where it goes by rows.
    fn heads(self, part: Part, s: &Sizes, dtype: DType) -> Result<Option<(Module, Geometry)>, Rule> {
        let sources = match self {
            Self::Few => [&FEW_FORWARD, &FEW_GRADIENT],
            Self::Head => [&HEAD_FORWARD, &HEAD_GRADIENT],
            Self::Block => [&BLOCK_FORWARD, &BLOCK_GRADIENT],
            Self::Rows => return Ok(None),
        };
        let module = Module::new(sources[part as usize]).of("T", dtype).of("A", dtype.accumulate());
        let module = module.constant("FEATURES", s.e.next_multiple_of(4) as u64);
        let heads = s.batch * s.heads;
        if self == Self::Few {
            return Ok(Some((module, Geometry::blocks(heads.div_ceil(FEW as usize / s.n), FEW)?)));
        }
        let module = module.constant("TOKENS", s.n as u64);
        if self == Self::Head {
            return Ok(Some((module, Geometry::blocks(heads, FEW)?)));
        }
        let shared = shared(part, s, dtype);
        let geometry = Geometry { shared: shared as u32, ..Geometry::blocks(heads, MIDDLE)? };
        Ok(Some((module.constant("SHARED", shared as u64), geometry)))
    }

    /// The first of a kernel's arguments: how many heads there are, which follows from the blocks where each has one.
    fn first(self) -> usize {
        usize::from(self != Self::Few)
    }
}

/// Features that a thread holds of a row: all where `most` bytes of registers for each row allow it.
fn chunk(e: usize, dtype: DType, most: usize) -> u64 {
    e.next_power_of_two().clamp(8, most / dtype.accumulate().size()) as u64
}

/// A thread for each row of each head, in blocks of one head's rows.
fn rows(s: &Sizes) -> Result<Geometry, Rule> {
    let threads = s.n.next_multiple_of(32).min(ROWS as usize);
    Geometry::blocks(s.batch * s.heads * s.n.div_ceil(threads), threads as u32)
}

pub(in crate::ops) fn size(of: usize) -> Result<Arg<'static>, Rule> {
    let value = of as f64;
    u32::try_from(of).map(Arg::U32).map_err(|_| Rule::Attribute {
        name: "size",
        value,
        expected: "below 2^32",
    })
}

pub(in crate::ops) fn strides(of: &Operand) -> Arg<'static> {
    Arg::dims(of.layout().strides())
}

/// [`Attention`], in the way that is asked for, if one is. In place of an operand that the call has not, another is passed
/// and not touched.
pub(super) fn attention(op: &dyn Op, call: &mut Call<'_>, asked: Option<Way>) -> Result<(), Failure> {
    let op = attributes::<Attention>(op)?;
    let (q, k, v) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (out, lse) = (*call.output(0)?, *call.output(1)?);
    let prev = if op.previous { *call.input(3)? } else { q };
    let emitted = if op.emit_scores { *call.output(2)? } else { out };
    let s = Sizes::of(&q.spec().shape);
    if out.spec().shape.elements() == 0 {
        return Ok(());
    }
    let args = [
        Arg::U64((s.batch * s.heads) as u64),
        Arg::Input(&q),
        Arg::Input(&k),
        Arg::Input(&v),
        Arg::Input(&prev),
        Arg::Output(&out),
        Arg::Output(&lse),
        Arg::Output(&emitted),
        Arg::U32(u32::from(op.previous)),
        Arg::U32(u32::from(op.emit_scores)),
        size(s.heads)?,
        size(s.n)?,
        size(s.e)?,
        Arg::F64(op.scale),
        strides(&q),
        strides(&k),
        strides(&v),
        strides(&prev),
        strides(&out),
        strides(&lse),
        strides(&emitted),
    ];
    let way = asked.unwrap_or_else(|| Way::own(&s, q.dtype()));
    if let Some((module, geometry)) = way.heads(Part::Forward, &s, q.dtype())? {
        return call.launch(&module, "attention", geometry, &args[way.first()..]);
    }
    let module = Module::new(&FORWARD)
        .of("T", q.dtype())
        .of("A", q.dtype().accumulate())
        .constant("CHUNK", chunk(s.e, q.dtype(), 256));
    call.launch(&module, "attention", rows(&s)?, &args[1..])
}

/// Bytes of what the gradient keeps of each query.
pub(in crate::ops) fn grad_workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let s = Sizes::of(&args[0].shape);
    s.batch * s.heads * s.n * args[0].dtype.accumulate().size()
}

/// [`AttentionGrad`], in the way that is asked for, if one is.
pub(in crate::ops) fn attention_grad(
    op: &dyn Op,
    call: &mut Call<'_>,
    asked: Option<Way>,
) -> Result<(), Failure> {
    let op = attributes::<AttentionGrad>(op)?;
    let at = op.saved();
    let (q, k, v) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (out, lse, slope) = (*call.input(at)?, *call.input(at + 1)?, *call.input(at + 2)?);
    let prev = if op.previous { *call.input(3)? } else { q };
    let scores = if op.score_cotangent { *call.input(at + 3)? } else { q };
    let (gq, gk, gv) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let g_prev = if op.previous { *call.output(3)? } else { gq };
    let s = Sizes::of(&q.spec().shape);
    if gq.spec().shape.elements() == 0 {
        return Ok(());
    }
    let way = asked.unwrap_or_else(|| Way::own(&s, q.dtype()));
    if let Some((module, geometry)) = way.heads(Part::Gradient, &s, q.dtype())? {
        let args = [
            Arg::U64((s.batch * s.heads) as u64),
            Arg::Input(&q),
            Arg::Input(&k),
            Arg::Input(&v),
            Arg::Input(&prev),
            Arg::Input(&out),
            Arg::Input(&lse),
            Arg::Input(&slope),
            Arg::Input(&scores),
            Arg::U32(u32::from(op.previous)),
            Arg::U32(u32::from(op.score_cotangent)),
            size(s.heads)?,
            size(s.n)?,
            size(s.e)?,
            Arg::F64(op.scale),
            strides(&q),
            strides(&k),
            strides(&v),
            strides(&prev),
            strides(&out),
            strides(&lse),
            strides(&slope),
            strides(&scores),
            Arg::Output(&gq),
            Arg::Output(&gk),
            Arg::Output(&gv),
            Arg::Output(&g_prev),
            strides(&gq),
            strides(&gk),
            strides(&gv),
            strides(&g_prev),
        ];
        return call.launch(&module.of("L", lse.dtype()), "gradient", geometry, &args[way.first()..]);
    }
    let module = Module::new(&GRADIENT)
        .of("T", q.dtype())
        .of("A", q.dtype().accumulate())
        .of("L", lse.dtype())
        .constant("CHUNK", chunk(s.e, q.dtype(), 128));
    let count = s.batch * s.heads * s.n;
    let args = [
        Arg::Input(&out),
        Arg::Input(&slope),
        Arg::Scratch(0),
        Arg::U64(count as u64),
        Arg::U64(s.heads as u64),
        Arg::U64(s.n as u64),
        Arg::U64(s.e as u64),
        strides(&out),
        strides(&slope),
    ];
    call.launch(&module, "levels", Geometry::linear(count, BLOCK)?, &args)?;
    for (entry, [first, second]) in [("columns", [&gk, &gv]), ("rows", [&gq, &g_prev])] {
        let args = [
            Arg::Input(&q),
            Arg::Input(&k),
            Arg::Input(&v),
            Arg::Input(&prev),
            Arg::Input(&lse),
            Arg::Scratch(0),
            Arg::Input(&slope),
            Arg::Input(&scores),
            Arg::U32(u32::from(op.previous)),
            Arg::U32(u32::from(op.score_cotangent)),
            size(s.heads)?,
            size(s.n)?,
            size(s.e)?,
            Arg::F64(op.scale),
            strides(&q),
            strides(&k),
            strides(&v),
            strides(&prev),
            strides(&lse),
            strides(&slope),
            strides(&scores),
            Arg::Output(first),
            Arg::Output(second),
            strides(first),
            strides(second),
        ];
        call.launch(&module, entry, rows(&s)?, &args)?;
    }
    Ok(())
}
