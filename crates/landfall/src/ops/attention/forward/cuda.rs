//! Attention and its gradient on a GPU.

use super::Attention;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    BLOCK, Call, FRAGMENTS, Failure, Geometry, KernelArgs, Module, Piece, SHARED_MEMORY, Source, cuda_kernel,
    size,
};
use crate::ops::attention::cpu_tiles::Sizes;
use crate::ops::attention::grad::AttentionGrad;
use crate::values::{DType, Rule, Spec};

/// Rows of a block at most: `ROWS` in the source.
const ROWS: u32 = 64;
cuda_kernel! {
    /// Attention, in each way. What an op has not, `has_prev` and `has_scores` tell.
    struct Forward = "attention", ROWS;
    q: view_in T,
    k: view_in T,
    v: view_in T,
    prev: view_in T,
    out: view_out T,
    lse: view_out A,
    emitted: view_out T,
    has_prev: flag,
    has_scores: flag,
    /// Heads of all batch entries: for the way in which a block may have too few.
    all: size,
    heads: u32,
    n: u32,
    e: u32,
    scale: f64,
}

cuda_kernel! {
    /// The whole gradient, by blocks that hold whole heads.
    struct Gradient = "gradient", FEW;
    q: view_in T,
    k: view_in T,
    v: view_in T,
    prev: view_in T,
    out: view_in T,
    lse: view_in L,
    slope: view_in T,
    score_slope: view_in T,
    has_prev: flag,
    has_scores: flag,
    /// As of [`Forward`].
    all: size,
    heads: u32,
    n: u32,
    e: u32,
    scale: f64,
    gq: view_out T,
    gk: view_out T,
    gv: view_out T,
    g_prev: view_out T,
}

cuda_kernel! {
    /// What the gradient by tiles needs of each query.
    struct Levels = "levels", BLOCK;
    out: view_in T,
    slope: view_in T,
    level: scratch A,
    count: size,
    heads: size,
    n: size,
    e: size,
}

/// A kernel of the gradient by tiles, which writes two of the results.
macro_rules! by_tiles {
    ($(#[$doc:meta])* $Name:ident = $kernel:literal, $first:ident, $second:ident) => {
        cuda_kernel! {
            $(#[$doc])*
            struct $Name = $kernel, ROWS;
            q: view_in T,
            k: view_in T,
            v: view_in T,
            prev: view_in T,
            lse: view_in L,
            level: scratch A,
            slope: view_in T,
            score_slope: view_in T,
            has_prev: flag,
            has_scores: flag,
            heads: u32,
            n: u32,
            e: u32,
            scale: f64,
            $first: view_out T,
            $second: view_out T,
        }
    };
}

by_tiles! {
    /// A thread has a key.
    Columns = "columns", gk, gv
}

by_tiles! {
    /// A thread has a query.
    Rows = "rows", gq, g_prev
}

const TILES: Piece = Piece::new("tiles", include_str!("tiles.cu"));
const SMALL_SEQ: Piece = Piece::new("small_seq", include_str!("small_seq.cu"));
const HEADS: Piece = Piece::new("heads", include_str!("heads.cu"));
const HEAD: Piece = Piece::new("head", include_str!("head.cu"));
const HEAD_BLOCK: Piece = Piece::new("block", include_str!("block.cu"));

static FORWARD: Source = Source {
    name: "attention",
    pieces: &[TILES, Piece::new("attention", include_str!("attention.cu"))],
    entries: &[Forward::KERNEL],
};

static GRADIENT: Source = Source {
    name: "attention_grad",
    pieces: &[TILES, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Levels::KERNEL, Columns::KERNEL, Rows::KERNEL],
};

/// Threads of a block that holds whole heads in shared memory: `THREADS` in `small_seq.cu` and `head.cu`.
const FEW: u32 = 128;
/// Bytes of shared memory that a block may have without being asked twice.
const SHARED: usize = 48 << 10;

static FEW_FORWARD: Source = Source {
    name: "attention_small_seq",
    pieces: &[SMALL_SEQ, Piece::new("small_seq_forward", include_str!("small_seq_forward.cu"))],
    entries: &[Forward::KERNEL.of_block(FEW)],
};

static FEW_GRADIENT: Source = Source {
    name: "attention_small_seq_grad",
    pieces: &[SMALL_SEQ, Piece::new("small_seq_grad", include_str!("small_seq_grad.cu"))],
    entries: &[Gradient::KERNEL],
};

static HEAD_FORWARD: Source = Source {
    name: "attention_head",
    pieces: &[HEADS, HEAD, Piece::new("head_forward", include_str!("head_forward.cu"))],
    entries: &[Forward::KERNEL.of_block(FEW)],
};

static HEAD_GRADIENT: Source = Source {
    name: "attention_head_grad",
    pieces: &[HEADS, HEAD, Piece::new("head_grad", include_str!("head_grad.cu"))],
    entries: &[Gradient::KERNEL],
};

/// Threads of a block that has one head of middle size: `THREADS` in `block.cu`.
const MIDDLE: u32 = 256;
/// Rows and columns of its threads: `SIDE` in `block.cu`.
const SIDE: usize = 16;

static BLOCK_FORWARD: Source = Source {
    name: "attention_block",
    pieces: &[HEADS, HEAD_BLOCK, Piece::new("block_forward", include_str!("block_forward.cu"))],
    entries: &[Forward::KERNEL.of_block(MIDDLE)],
};

static BLOCK_GRADIENT: Source = Source {
    name: "attention_block_grad",
    pieces: &[HEADS, HEAD_BLOCK, Piece::new("block_grad", include_str!("block_grad.cu"))],
    entries: &[Gradient::KERNEL.of_block(MIDDLE)],
};

const LINES: Piece = Piece::new("lines", include_str!("lines.cu"));
const SHORT: Piece = Piece::new("short", include_str!("short.cu"));

static SHORT_FORWARD: Source = Source {
    name: "attention_short",
    pieces: &[FRAGMENTS, LINES, SHORT, Piece::new("short_forward", include_str!("short_forward.cu"))],
    entries: &[Forward::KERNEL.of_block(32 * MOST_WARPS as u32)],
};

const SHORT_GRAD: Piece = Piece::new("short_grad", include_str!("short_grad.cu"));

/// As registers are given to a block of twice as many threads: more blocks hide each other's waits.
static SHORT_GRADIENT: Source = Source {
    name: "attention_short_grad",
    pieces: &[FRAGMENTS, LINES, SHORT, SHORT_GRAD],
    entries: &[Gradient::KERNEL.of_block(2 * 32 * MOST_WARPS as u32)],
};

/// Of heads whose sums need the registers.
static SHORT_GRADIENT_WIDE: Source = Source {
    name: "attention_short_grad_wide",
    pieces: &[FRAGMENTS, LINES, SHORT, SHORT_GRAD],
    entries: &[Gradient::KERNEL.of_block(32 * MOST_WARPS as u32)],
};

const LONG: Piece = Piece::new("long", include_str!("long.cu"));

static LONG_FORWARD: Source = Source {
    name: "attention_long",
    pieces: &[FRAGMENTS, LINES, LONG, Piece::new("long_forward", include_str!("long_forward.cu"))],
    entries: &[Forward::KERNEL.of_block(LONG_THREADS)],
};

static LONG_GRADIENT: Source = Source {
    name: "attention_long_grad",
    pieces: &[FRAGMENTS, LINES, LONG, Piece::new("long_grad", include_str!("long_grad.cu"))],
    entries: &[Levels::KERNEL, Columns::KERNEL.of_block(LONG_THREADS), Rows::KERNEL.of_block(LONG_THREADS)],
};

/// Threads of a block of [`Way::Long`], and its lines: `THREADS` and `OWN` in `long.cu`.
const LONG_THREADS: u32 = 128;
const LONG_LINES: usize = 64;

/// Features of a head at most whose sums fit in half of the registers.
const NARROW: usize = 64;

/// Warps of a block of [`Way::Short`] at most.
const MOST_WARPS: usize = 8;

/// How a block of [`Way::Short`] is filled: constants of `short.cu`.
#[derive(Debug, Clone, Copy)]
struct Short {
    /// Warps of a head.
    warps: usize,
    /// Heads of a block: a power of two.
    heads: usize,
    /// Bytes of shared memory of a block.
    shared: usize,
}

impl Short {
    fn of(part: Part, s: &Sizes) -> Self {
        let (lines, chunks) = (s.n.next_multiple_of(16), if s.e <= 8 { 1 } else { s.e.div_ceil(16) * 2 });
        let strips = lines / 16;
        // A warp alone has no one to wait for, as long as its sums fit in registers.
        let warps = if strips * chunks <= 6 { 1 } else { strips };
        let rows = |count: usize, chunks: usize| 2 * lines * count * (chunks | 1) * 8;
        let room = match part {
            Part::Forward => rows(3, chunks),
            Part::Gradient => rows(4, chunks) + rows(1, lines / 8) + 2 * 4 * lines,
        };
        // Neighbouring heads lie in different banks.
        let slot = room.next_multiple_of(128) + 16;
        // Two blocks of a multiprocessor at least.
        let fits = |heads: &usize| heads * warps <= MOST_WARPS && heads * slot <= SHARED_MEMORY * 4 / 5;
        let heads = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        Self { warps, heads, shared: heads * slot }
    }
}

/// The module of [`Way::Long`], and the blocks for all lines.
fn long(part: Part, s: &Sizes, dtype: DType, prev: bool) -> Result<(Module, Geometry), Rule> {
    let chunks = if s.e <= 8 { 1 } else { s.e.div_ceil(16) * 2 };
    let tile = if chunks > 8 { 32 } else { 64 };
    let (source, own, sums) = match part {
        Part::Forward => (&LONG_FORWARD, 1, 0),
        Part::Gradient => (&LONG_GRADIENT, 2, 2 * 2 * tile * size_of::<f32>()),
    };
    let shared = 2 * (4 * tile + own * LONG_LINES) * (chunks | 1) * 8 + sums;
    let module = Module::new(source).of("T", dtype).of("A", dtype.accumulate());
    let module = module.constant("FEATURES", s.e as u64).constant("SHARED", shared as u64);
    let module = module.constant("PREV", u64::from(prev));
    let blocks = Geometry::blocks(s.batch * s.heads * s.n.div_ceil(LONG_LINES), LONG_THREADS)?;
    Ok((module, Geometry { shared: shared as u32, ..blocks }))
}

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
    /// 16-bit floats on tensor cores, whole heads of up to 128 tokens in shared memory.
    Short,
    /// 16-bit floats on tensor cores, sixteen rows a warp, the others by tiles: with previous scores, but without scores of its own in
    /// memory.
    Long,
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
    /// Whether it can hold such heads. `scores` says whether scores (or, of the gradient, their cotangent) take part.
    fn takes(self, s: &Sizes, dtype: DType, scores: bool) -> bool {
        let size = dtype.accumulate().size();
        match self {
            Self::Short => {
                let fits = |part| Short::of(part, s).shared <= SHARED_MEMORY;
                dtype.size() == 2 && s.n.max(s.e) <= 128 && fits(Part::Forward) && fits(Part::Gradient)
            }
            Self::Long => dtype.size() == 2 && s.n > 128 && s.e <= 128 && !scores,
            // Four rows of each thread in shared memory.
            Self::Few => s.n <= FEW as usize && s.e * size <= 64,
            // Queries, keys, values and their results' slopes, weights and what they change by.
            // (More tokens or features than bytes have squares beyond what numbers hold.)
            Self::Head if s.n.max(s.e) > SHARED => false,
            Self::Head => {
                let (lines, squares) = (4 * s.n * (s.e.next_multiple_of(4) + 4), 2 * s.n * (s.n + 1));
                (lines + squares + 2 * s.n) * size <= SHARED
            }
            // Of fewer tokens a thread would have one score at most.
            Self::Block => {
                s.n > SIDE
                    && s.n.max(s.e) <= SHARED_MEMORY
                    && shared(Part::Gradient, s, dtype) <= SHARED_MEMORY
            }
            Self::Rows => true,
        }
    }

    /// The op's own choice: the first that takes the heads.
    fn own(s: &Sizes, dtype: DType, scores: bool) -> Self {
        let ways = [Self::Short, Self::Long, Self::Few, Self::Head, Self::Block];
        ways.into_iter().find(|way| way.takes(s, dtype, scores)).unwrap_or(Self::Rows)
    }

    /// Whether this is another way than the op's own choice for a call with these arguments.
    pub(in crate::ops) fn varies(self, op: &dyn Op, args: &[Spec]) -> bool {
        let (s, dtype) = (Sizes::of(&args[0].shape), args[0].dtype);
        let scores = match attributes::<AttentionGrad>(op) {
            Ok(op) => op.score_cotangent,
            Err(_) => attributes::<Attention>(op).is_ok_and(|op| op.emit_scores),
        };
        self != Self::own(&s, dtype, scores) && self.takes(&s, dtype, scores)
    }

    /// A module for whole heads, and the blocks for all of them; `None` where it goes by rows.
    /// `scores` says whether previous scores are read, and whether scores (or, of the gradient, their cotangent) take part.
    fn heads(
        self,
        part: Part,
        s: &Sizes,
        dtype: DType,
        scores: [bool; 2],
    ) -> Result<Option<(Module, Geometry)>, Rule> {
        let sources = match self {
            Self::Short => {
                [&SHORT_FORWARD, if s.e > NARROW { &SHORT_GRADIENT_WIDE } else { &SHORT_GRADIENT }]
            }
            Self::Few => [&FEW_FORWARD, &FEW_GRADIENT],
            Self::Head => [&HEAD_FORWARD, &HEAD_GRADIENT],
            Self::Block => [&BLOCK_FORWARD, &BLOCK_GRADIENT],
            Self::Long => return long(part, s, dtype, scores[0]).map(Some),
            Self::Rows => return Ok(None),
        };
        let module = Module::new(sources[part as usize]).of("T", dtype).of("A", dtype.accumulate());
        let heads = s.batch * s.heads;
        if self == Self::Short {
            let Short { warps, heads: each, shared } = Short::of(part, s);
            let numbers =
                [("TOKENS", s.n), ("FEATURES", s.e), ("WARPS", warps), ("HEADS", each), ("SHARED", shared)];
            let module = numbers.into_iter().fold(module, |m, (name, value)| m.constant(name, value as u64));
            // A branch for each score would take more time than the score.
            let [prev, scores] = scores.map(u64::from);
            let module = module.constant("PREV", prev).constant("SCORES", scores);
            let geometry = Geometry::blocks(heads.div_ceil(each), (32 * warps * each) as u32)?;
            return Ok(Some((module, Geometry { shared: shared as u32, ..geometry })));
        }
        let module = module.constant("FEATURES", s.e.next_multiple_of(4) as u64);
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
    let args = Forward {
        q: &q,
        k: &k,
        v: &v,
        prev: &prev,
        out: &out,
        lse: &lse,
        emitted: &emitted,
        has_prev: op.previous,
        has_scores: op.emit_scores,
        all: s.batch * s.heads,
        heads: size(s.heads)?,
        n: size(s.n)?,
        e: size(s.e)?,
        scale: op.scale,
    };
    let way = asked.unwrap_or_else(|| Way::own(&s, q.dtype(), op.emit_scores));
    if let Some((module, geometry)) =
        way.heads(Part::Forward, &s, q.dtype(), [op.previous, op.emit_scores])?
    {
        return call.launch(&module, geometry, &args);
    }
    let module = Module::new(&FORWARD)
        .of("T", q.dtype())
        .of("A", q.dtype().accumulate())
        .constant("CHUNK", chunk(s.e, q.dtype(), 256));
    call.launch(&module, rows(&s)?, &args)
}

/// Bytes of what the gradient keeps of each query, in the op's own way: blocks that hold whole heads keep it to themselves.
pub(in crate::ops) fn own_grad_workspace(op: &dyn Op, args: &[Spec]) -> usize {
    let scores = attributes::<AttentionGrad>(op).is_ok_and(|op| op.score_cotangent);
    match Way::own(&Sizes::of(&args[0].shape), args[0].dtype, scores) {
        Way::Short | Way::Few | Way::Head | Way::Block => 0,
        Way::Long | Way::Rows => grad_workspace(op, args),
    }
}

/// The same in any way.
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
    let (q, k, v, prev, lse) = (&q, &k, &v, &prev, &lse);
    let (out, slope, score_slope) = (&out, &slope, &scores);
    let (gq, gk, gv, g_prev) = (&gq, &gk, &gv, &g_prev);
    let (has_prev, has_scores, scale) = (op.previous, op.score_cotangent, op.scale);
    let (heads, n, e) = (size(s.heads)?, size(s.n)?, size(s.e)?);
    let way = asked.unwrap_or_else(|| Way::own(&s, q.dtype(), has_scores));
    let whole = way.heads(Part::Gradient, &s, q.dtype(), [has_prev, has_scores])?;
    if let (Some((module, geometry)), true) = (&whole, way != Way::Long) {
        let args = Gradient {
            q,
            k,
            v,
            prev,
            out,
            lse,
            slope,
            score_slope,
            has_prev,
            has_scores,
            all: s.batch * s.heads,
            heads,
            n,
            e,
            scale,
            gq,
            gk,
            gv,
            g_prev,
        };
        return call.launch(&module.clone().of("L", lse.dtype()), *geometry, &args);
    }
    let (module, geometry) = match whole {
        Some((module, geometry)) => (module, geometry),
        None => {
            let module = Module::new(&GRADIENT).of("T", q.dtype()).of("A", q.dtype().accumulate());
            (module.constant("CHUNK", chunk(s.e, q.dtype(), 128)), rows(&s)?)
        }
    };
    let module = module.of("L", lse.dtype());
    let (count, level) = (s.batch * s.heads * s.n, 0);
    let levels = Levels { out, slope, level, count, heads: s.heads, n: s.n, e: s.e };
    call.launch(&module, Geometry::linear(count, BLOCK)?, &levels)?;
    // What both kernels are given, and what each writes.
    macro_rules! given {
        ($Args:ident { $($written:ident),+ }) => {
            $Args { q, k, v, prev, lse, level, slope, score_slope, has_prev, has_scores, heads, n, e, scale, $($written),+ }
        };
    }
    let columns = given!(Columns { gk, gv });
    call.launch(&module, geometry, &columns)?;
    let of_rows = given!(Rows { gq, g_prev });
    call.launch(&module, geometry, &of_rows)
}
