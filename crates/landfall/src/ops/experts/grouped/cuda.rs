//! Products by expert on a GPU: on tensor cores where 16-bit operands lie in whole chunks of 16 bytes, else by a kernel of
//! any strides. Hopper has tensor instructions of its own: large products take them, others where a tuner chose them.

use crate::contract::Op;
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Operand, Rule, Spec};

const BLOCK: u32 = 256;
/// Threads of a block of three warpgroups.
const GROUPS: u32 = 384;

/// What tells the rows of each expert, and texts behind it.
macro_rules! with_segments {
    ($($file:literal),*) => {
        concat!(include_str!("../routing/scan.cu"), include_str!("segments.cu"), $(include_str!($file)),*)
    };
}

const SEGMENTS: Entry = Entry {
    name: "segments",
    block: BLOCK,
    params: &[
        Param::input("counts", "I"),
        Param::input("offsets", "I"),
        Param::scratch_is("bounds", DType::I64),
        Param::scratch_is("tiles", DType::I64),
        Param::faults("faults"),
        Param::u64("rows"),
        Param::u64("most_tiles"),
        Param::u32("tile_rows"),
        Param::u32("experts"),
        Param::u64("stride_counts"),
        Param::u64("stride_offsets"),
    ],
};

const PRODUCT: Entry = Entry {
    name: "product",
    block: BLOCK,
    params: &[
        Param::input("x", "T"),
        Param::input("w", "T"),
        Param::scratch_is("bounds", DType::I64),
        Param::scratch_is("tiles", DType::I64),
        Param::output("y", "T"),
        Param::u64("experts"),
        Param::u64("k"),
        Param::u64("n"),
        Param::dims("stride_x"),
        Param::dims("stride_w"),
        Param::dims("stride_y"),
    ],
};

const WEIGHTS: Entry = Entry {
    name: "weights",
    block: BLOCK,
    params: &[
        Param::input("x", "T"),
        Param::input("gy", "T"),
        Param::scratch_is("bounds", DType::I64),
        Param::output("out", "T"),
        Param::u64("k"),
        Param::u64("n"),
        Param::dims("stride_x"),
        Param::dims("stride_gy"),
        Param::dims("stride_out"),
    ],
};

static ANY: Source = Source {
    name: "grouped",
    text: with_segments!("simt.cu", "grouped.cu", "product.cu", "weights.cu"),
    entries: &[SEGMENTS, PRODUCT, WEIGHTS],
};

static MMA: Source = Source {
    name: "grouped_mma",
    text: with_segments!("mma.cu", "grouped.cu", "product.cu", "weights.cu"),
    entries: &[SEGMENTS, PRODUCT, WEIGHTS],
};

/// Of the gradient: rows are the axis that is summed over, and a box would not end where an expert's rows do.
static WGMMA: Source = Source {
    name: "grouped_wgmma",
    text: with_segments!("../routing/barriers.cu", "hopper.cu", "wgmma.cu", "grouped.cu", "weights.cu"),
    entries: &[SEGMENTS, Entry { block: GROUPS, ..WEIGHTS }],
};

static PARTS: Source = Source {
    name: "grouped_parts",
    text: with_segments!("parts.cu"),
    entries: &[Entry {
        name: "parts",
        block: BLOCK,
        params: &[
            Param::input("counts", "I"),
            Param::input("offsets", "I"),
            Param::scratch_is("queue", DType::I32),
            Param::scratch_is("list", DType::I32),
            Param::faults("faults"),
            Param::u64("rows"),
            Param::u32("experts"),
            Param::u64("stride_counts"),
            Param::u64("stride_offsets"),
        ],
    }],
};

static SWAPPED: Source = Source {
    name: "grouped_swapped",
    text: concat!(
        include_str!("../routing/barriers.cu"),
        include_str!("hopper.cu"),
        include_str!("swapped.cu")
    ),
    entries: &[Entry {
        name: "product",
        block: GROUPS,
        params: &[
            Param::map("map_x", "T"),
            Param::map("map_w", "T"),
            Param::scratch_is("queue", DType::I32),
            Param::scratch_is("list", DType::I32),
            Param::output("y", "T"),
            Param::u64("k"),
            Param::u64("n"),
            Param::dims("stride_y"),
        ],
    }],
};

/// A way to multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Without tensor cores: any dtype and layout.
    Any,
    /// By tensor cores, through registers.
    Mma,
    /// By the tensor cores of Hopper, straight from shared memory.
    Wgmma,
}

/// Rows and columns of a tile of [`Way::Any`], the smallest.
const ANY_TILE: usize = 64;

impl Way {
    /// Rows and columns of a block's tile: `TILE_ROWS` and `TILE_COLUMNS` in the sources. Of [`Way::Wgmma`], the gradient's.
    const fn tile(self) -> [usize; 2] {
        match self {
            Self::Any => [ANY_TILE; 2],
            Self::Mma => [128; 2],
            Self::Wgmma => [128, 256],
        }
    }

    /// So many blocks that multiply.
    fn blocks(self, count: usize) -> Result<Geometry, Rule> {
        match self {
            Self::Any | Self::Mma => Geometry::blocks(count, BLOCK),
            Self::Wgmma => Ok(Geometry { shared: RING + 1024, ..Geometry::blocks(count, GROUPS)? }),
        }
    }
}

/// Bytes of four slabs of 128 bytes for each of 128 indices of one factor and 256 of the other. They start at a multiple of
/// 1,024 bytes.
const RING: u32 = 4 * (128 + 256) * 128;

/// The module of a tile without tensor cores.
fn any(dtype: DType, index: DType) -> Module {
    Module::new(&ANY).of("T", dtype).of("I", index).constant("PAIRED", 0)
}

/// The module of a tile on tensor cores; `None` where it does not take how factors and result lie.
fn cores(source: &'static Source, index: DType, factors: [Option<bool>; 2], out: &Operand) -> Option<Module> {
    let [a, b] = [factors[0]?, factors[1]?];
    let module = Module::new(source).of("T", out.dtype()).of("I", index);
    let module = module.constant("A_ALONG", u64::from(a)).constant("B_ALONG", u64::from(b));
    chunked(out).then(|| module.constant("PAIRED", 1))
}

/// Whether a result of 16-bit floats is written in whole chunks of 16 bytes.
fn chunked(out: &Operand) -> bool {
    let strides = out.layout().strides();
    let gapless = strides.last() == Some(&1) && strides.iter().rev().skip(1).all(|s| s.is_multiple_of(8));
    let chunks = out.address().is_multiple_of(16) && out.spec().shape.last().is_multiple_of(8);
    short(out.dtype()) && gapless && chunks
}

/// Rows of an expert, and columns, from which on [`Way::Wgmma`] is taken: fewer were not timed.
const LARGE: [usize; 2] = [64, 128];

/// A way that was asked for, or the fastest that the device and the operands allow, with its module. `large` results are for
/// Hopper's own way.
///
/// # Errors
/// The operands do not lie as the way that was asked for needs it.
fn choose(
    call: &Call<'_>,
    asked: Option<Way>,
    large: bool,
    module: impl Fn(Way) -> Option<Module>,
) -> Result<(Way, Module), Rule> {
    let own = [Way::Wgmma, Way::Mma, Way::Any];
    let ways = asked.as_ref().map_or(if large { &own[..] } else { &own[1..] }, std::slice::from_ref);
    let found = ways.iter().find_map(|&way| {
        let module = module(way)?;
        (asked.is_some() || call.has(&module)).then_some((way, module))
    });
    found.ok_or_else(|| Rule::Launch {
        file: "grouped",
        entry: "product",
        what: format!("{asked:?} takes operands of 16-bit floats in whole chunks of 16 bytes"),
    })
}

/// Whether tensor cores multiply this dtype as it is.
fn short(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Whether [`Way::Wgmma`] and [`Way::Mma`] take gapless operands of these specs.
pub(super) fn short_chunks(_: &dyn Op, args: &[Spec]) -> bool {
    let whole = |a: &Spec| a.shape.last() > 0 && a.shape.last().is_multiple_of(8);
    short(args[0].dtype) && args[..2].iter().all(whole)
}

/// How a factor lies: whether its inner axis is the gapless one; `None` where it does not come in chunks of 16 bytes.
fn along(of: &Operand, outer: usize, inner: usize, batch: bool) -> Option<bool> {
    let (dims, strides) = (*of.layout().shape(), of.layout().strides());
    let size = |axis: usize| dims.dims()[axis];
    let whole = |gapless: usize, other: usize| {
        strides[gapless] == 1 && size(gapless).is_multiple_of(8) && strides[other].is_multiple_of(8)
    };
    let apart = !batch || strides[0].is_multiple_of(8);
    if !apart || !of.address().is_multiple_of(16) {
        None
    } else if whole(inner, outer) {
        Some(true)
    } else if whole(outer, inner) {
        Some(false)
    } else {
        None
    }
}

/// Tiles of rows at most: each expert's last one, and that behind the last expert, may not be full.
fn most_tiles(rows: usize, experts: usize, tile: usize) -> usize {
    rows / tile + experts + 1
}

/// Bytes of the experts' bounds.
fn bounds(experts: usize) -> usize {
    2 * experts * size_of::<i64>()
}

/// Bytes of the bounds and of the list of tiles, or of the queue and of the list of parts.
pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let (rows, experts) = (args[0].shape.dims()[0], args[2].shape.last());
    let tiles = bounds(experts) + 3 * most_tiles(rows, experts, ANY_TILE) * size_of::<i64>();
    tiles.max(QUEUE + most_parts(rows, experts) * PART)
}

/// Rows that products on Hopper go by, and the most of a part: `UNIT` and `MOST` in the sources.
const UNIT: usize = 16;
const MOST: usize = 256;
/// Bytes of a part in the list, and of what is before it.
const PART: usize = 16;
const QUEUE: usize = 16;

/// Parts of rows at most: the last of each expert's pairs, that of its pad rows and that behind the last expert may not be full.
fn most_parts(rows: usize, experts: usize) -> usize {
    rows / MOST + 2 * experts + 1
}

fn dims(of: &Operand) -> Arg<'static> {
    Arg::dims(of.layout().strides())
}

fn stride(of: &Operand) -> Arg<'static> {
    Arg::U64(of.layout().strides()[0] as u64)
}

/// Finds the rows of each expert, and its tiles.
fn segments(call: &mut Call<'_>, module: &Module, rows: usize, tile: usize) -> Result<usize, Failure> {
    let (counts, offsets) = (*call.input(2)?, *call.input(3)?);
    let experts = counts.spec().shape.elements();
    let tiles = most_tiles(rows, experts, tile);
    let args = [
        Arg::Input(&counts),
        Arg::Input(&offsets),
        Arg::Scratch(0),
        Arg::Scratch(bounds(experts)),
        Arg::Faults,
        Arg::U64(rows as u64),
        Arg::U64(tiles as u64),
        Arg::U32(tile as u32),
        Arg::U32(experts as u32),
        stride(&counts),
        stride(&offsets),
    ];
    call.launch(module, "segments", Geometry::blocks(1, BLOCK)?, &args)?;
    Ok(tiles)
}

fn matrix(of: &Operand) -> Result<[usize; 2], Rule> {
    let shape = of.spec().shape;
    let rank = shape.rank();
    shape.dims().try_into().map_err(|_| Rule::Rank { arg: 0, rank, expected: "2" })
}

/// [`super::GroupedMatMul`], in the way that is asked for, if one is.
pub(super) fn product(call: &mut Call<'_>, asked: Option<Way>) -> Result<(), Failure> {
    let (x, w, y) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let ([rows, k], [_, n]) = (matrix(&x)?, matrix(&y)?);
    if rows * n == 0 {
        return Ok(());
    }
    // The rows of `x` are cut anywhere, so their elements must be the gapless axis.
    let of_x = along(&x, 0, 1, false).filter(|&along| along);
    let of_w = along(&w, 2, 1, true);
    let (experts, index) = (w.spec().shape.dims()[0], call.input(2)?.dtype());
    let (way, module) = choose(call, asked, rows >= LARGE[0] * experts && n >= LARGE[1], |way| match way {
        Way::Any => Some(any(y.dtype(), index)),
        Way::Mma => cores(&MMA, index, [of_x, of_w], &y),
        Way::Wgmma => of_x.and(of_w).and_then(|of_w| swapped(&x, &w, of_w, &y)),
    })?;
    if way == Way::Wgmma {
        return boxes(call, &module, of_w == Some(true));
    }
    let [tile_rows, tile_columns] = way.tile();
    let tiles = segments(call, &module, rows, tile_rows)?;
    let args = [
        Arg::Input(&x),
        Arg::Input(&w),
        Arg::Scratch(0),
        Arg::Scratch(bounds(experts)),
        Arg::Output(&y),
        Arg::U64(experts as u64),
        Arg::U64(k as u64),
        Arg::U64(n as u64),
        dims(&x),
        dims(&w),
        dims(&y),
    ];
    call.launch(&module, "product", way.blocks(tiles * n.div_ceil(tile_columns))?, &args)
}

/// Columns of a cluster's tile, and of a block's; rows of `x` that one copy brings, and indices of the axis that is summed over:
/// `COLUMNS`, `BOX` and `SLAB` in the sources.
const PAIR: usize = 256;
const COLUMNS: u32 = 128;
const BOX: u32 = 32;
const SLAB: u32 = 64;

/// Pairs of multiprocessors of an H100 or H200. Where there are fewer, the last clusters find no tiles.
const CLUSTERS: usize = 66;

/// The module of [`Way::Wgmma`] for a product; `None` where it does not take how the operands lie.
fn swapped(x: &Operand, w: &Operand, w_along: bool, y: &Operand) -> Option<Module> {
    // What a tensor map takes; sizes are 32 bits in the kernel.
    let mapped = |o: &Operand| {
        let (shape, strides) = (o.spec().shape, o.layout().strides());
        shape.dims().iter().all(|d| (1..1 << 31).contains(d))
            && strides.iter().all(|s| (1..1 << 39).contains(s))
    };
    let [rows, experts] = [x, w].map(|o| o.spec().shape.dims()[0]);
    let tiles = most_parts(rows, experts).saturating_mul(y.spec().shape.last().div_ceil(PAIR));
    let takes = chunked(y) && mapped(x) && mapped(w) && tiles < 1 << 31;
    let module = Module::new(&SWAPPED).of("T", y.dtype()).constant("W_ALONG", u64::from(w_along));
    takes.then(|| module.constant("UNIT", UNIT as u64).constant("MOST", MOST as u64).only("sm_90a"))
}

/// A product by [`swapped`]'s module, of operands that it takes.
fn boxes(call: &mut Call<'_>, module: &Module, w_along: bool) -> Result<(), Failure> {
    let (x, w, y) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let ([rows, k], [_, n], experts) = (matrix(&x)?, matrix(&y)?, w.spec().shape.dims()[0]);
    let (counts, offsets) = (*call.input(2)?, *call.input(3)?);
    let args = [
        Arg::Input(&counts),
        Arg::Input(&offsets),
        Arg::Scratch(0),
        Arg::Scratch(QUEUE),
        Arg::Faults,
        Arg::U64(rows as u64),
        Arg::U32(experts as u32),
        stride(&counts),
        stride(&offsets),
    ];
    let parts = Module::new(&PARTS).of("I", counts.dtype());
    let parts = parts.constant("UNIT", UNIT as u64).constant("MOST", MOST as u64);
    call.launch(&parts, "parts", Geometry::blocks(1, BLOCK)?, &args)?;
    let by_columns = [(1, SLAB), (2, COLUMNS), (0, 1)];
    let by_rows = [(2, SLAB), (1, SLAB), (0, 1)];
    let args = [
        Arg::Map(&x, &[(1, SLAB), (0, BOX)]),
        Arg::Map(&w, if w_along { &by_columns } else { &by_rows }),
        Arg::Scratch(0),
        Arg::Scratch(QUEUE),
        Arg::Output(&y),
        Arg::U64(k as u64),
        Arg::U64(n as u64),
        dims(&y),
    ];
    let clusters = (most_parts(rows, experts) * n.div_ceil(PAIR)).min(CLUSTERS);
    // Behind the ring: four buffers of 64 lines for results, 8 barriers of slabs, 8 letters of 16 bytes with their barriers.
    let shared = RING + 4 * 64 * 128 + 8 * 8 + 8 * 24 + 1024;
    call.launch(module, "product", Geometry { shared, ..Geometry::blocks(2 * clusters, GROUPS)? }, &args)
}

/// [`super::GroupedMatMulGrad`], in the way that is asked for, if one is.
pub(super) fn weights(call: &mut Call<'_>, asked: Option<Way>) -> Result<(), Failure> {
    let (x, gy, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let ([rows, k], [_, n]) = (matrix(&x)?, matrix(&gy)?);
    let experts = out.spec().shape.dims()[0];
    if k * n == 0 {
        return Ok(());
    }
    // An expert's rows start anywhere, so they must not be the gapless axis.
    let outward = |o: &Operand| along(o, 1, 0, false).filter(|along| !along);
    // Hopper's way is a variant here: it was timed for the product alone.
    let (factors, index) = ([outward(&x), outward(&gy)], call.input(2)?.dtype());
    let (way, module) = choose(call, asked, false, |way| match way {
        Way::Any => Some(any(out.dtype(), index)),
        Way::Mma => cores(&MMA, index, factors, &out),
        Way::Wgmma => cores(&WGMMA, index, factors, &out).map(|m| m.only("sm_90a")),
    })?;
    let [tile_rows, tile_columns] = way.tile();
    segments(call, &module, rows, tile_rows)?;
    let args = [
        Arg::Input(&x),
        Arg::Input(&gy),
        Arg::Scratch(0),
        Arg::Output(&out),
        Arg::U64(k as u64),
        Arg::U64(n as u64),
        dims(&x),
        dims(&gy),
        dims(&out),
    ];
    let blocks = experts.saturating_mul(k.div_ceil(tile_rows)).saturating_mul(n.div_ceil(tile_columns));
    call.launch(&module, "weights", way.blocks(blocks)?, &args)
}
