//! Products by expert on a GPU: on tensor cores where 16-bit operands lie in whole chunks of 16 bytes, else by a kernel of
//! any strides. Hopper has tensor instructions of its own: large products take them, others where a tuner chose them.

use crate::contract::Op;
use crate::kernel::cuda::{
    BLOCK, Call, FRAGMENTS, Failure, Geometry, KernelArgs, Module, Piece, SCAN, Source, Tile, cuda_kernel,
};
use crate::ops::experts::routing::cuda::BARRIERS;
use crate::values::{DType, Operand, Rule, Spec};

/// Threads of a block of three warpgroups.
const GROUPS: u32 = 384;

cuda_kernel! {
    /// One block lists the tiles of all rows.
    struct Segments = "segments", BLOCK;
    counts: view_in I,
    offsets: view_in I,
    bounds: scratch_of I64,
    tiles: scratch_of I64,
    faults: faults,
    rows: size,
    most_tiles: size,
    tile_rows: u32,
    experts: u32,
}

cuda_kernel! {
    /// A block makes a tile of the product.
    struct Product = "product", BLOCK;
    x: view_in T,
    w: view_in T,
    bounds: scratch_of I64,
    tiles: scratch_of I64,
    y: view_out T,
    experts: size,
    k: size,
    n: size,
}

cuda_kernel! {
    /// A block makes a tile of the gradient of an expert's matrix.
    struct Weights = "weights", BLOCK;
    x: view_in T,
    gy: view_in T,
    bounds: scratch_of I64,
    out: view_out T,
    k: size,
    n: size,
}

/// What tells the rows of each expert.
const SEGMENTS: Piece = Piece::new("segments", include_str!("segments.cu"));
const GROUPED: Piece = Piece::new("grouped", include_str!("grouped.cu"));
const PRODUCT: Piece = Piece::new("product", include_str!("product.cu"));
const WEIGHTS: Piece = Piece::new("weights", include_str!("weights.cu"));
const HOPPER: Piece = Piece::new("hopper", include_str!("hopper.cu"));

static ANY: Source = Source {
    name: "grouped",
    pieces: &[SCAN, SEGMENTS, Piece::new("simt", include_str!("simt.cu")), GROUPED, PRODUCT, WEIGHTS],
    entries: &[Segments::KERNEL, Product::KERNEL, Weights::KERNEL],
};

static MMA: Source = Source {
    name: "grouped_mma",
    pieces: &[
        SCAN,
        SEGMENTS,
        FRAGMENTS,
        Piece::new("mma", include_str!("mma.cu")),
        GROUPED,
        PRODUCT,
        WEIGHTS,
    ],
    entries: &[Segments::KERNEL, Product::KERNEL, Weights::KERNEL],
};

/// Of the gradient: rows are the axis that is summed over, and a TMA tile would not end where an expert's rows do.
static WGMMA: Source = Source {
    name: "grouped_wgmma",
    pieces: &[
        SCAN,
        SEGMENTS,
        BARRIERS,
        HOPPER,
        Piece::new("wgmma", include_str!("wgmma.cu")),
        GROUPED,
        WEIGHTS,
    ],
    entries: &[Segments::KERNEL, Weights::KERNEL.of_block(GROUPS)],
};

cuda_kernel! {
    /// One block lists the parts of all rows.
    struct Parts = "parts", BLOCK;
    counts: view_in I,
    offsets: view_in I,
    queue: scratch_of I32,
    list: scratch_of I32,
    faults: faults,
    rows: size,
    experts: u32,
}

static PARTS: Source = Source {
    name: "grouped_parts",
    pieces: &[SCAN, SEGMENTS, Piece::new("parts", include_str!("parts.cu"))],
    entries: &[Parts::KERNEL],
};

cuda_kernel! {
    /// Clusters of two blocks draw tiles of the product.
    struct Swapped = "product", GROUPS;
    map_x: tensor_map T,
    map_w: tensor_map T,
    queue: scratch_of I32,
    list: scratch_of I32,
    y: view_out T,
    k: size,
    n: size,
}

static SWAPPED: Source = Source {
    name: "grouped_swap_ab",
    pieces: &[BARRIERS, HOPPER, Piece::new("swap_ab", include_str!("swap_ab.cu"))],
    entries: &[Swapped::KERNEL],
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
    let contiguous = strides.last() == Some(&1) && strides.iter().rev().skip(1).all(|s| s.is_multiple_of(8));
    let chunks = out.address().is_multiple_of(16) && out.spec().shape.last().is_multiple_of(8);
    short(out.dtype()) && contiguous && chunks
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

/// Whether [`Way::Wgmma`] and [`Way::Mma`] take contiguous operands of these specs.
pub(super) fn short_chunks(_: &dyn Op, args: &[Spec]) -> bool {
    let whole = |a: &Spec| a.shape.last() > 0 && a.shape.last().is_multiple_of(8);
    short(args[0].dtype) && args[..2].iter().all(whole)
}

/// How a factor lies: whether its inner axis is the contiguous one; `None` where it does not come in chunks of 16 bytes.
fn along(of: &Operand, outer: usize, inner: usize, batch: bool) -> Option<bool> {
    let (dims, strides) = (*of.layout().shape(), of.layout().strides());
    let size = |axis: usize| dims.dims()[axis];
    let whole = |contiguous: usize, other: usize| {
        strides[contiguous] == 1 && size(contiguous).is_multiple_of(8) && strides[other].is_multiple_of(8)
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

/// Finds the rows of each expert, and its tiles.
fn segments(call: &mut Call<'_>, module: &Module, rows: usize, tile: usize) -> Result<usize, Failure> {
    let (counts, offsets) = (*call.input(2)?, *call.input(3)?);
    let experts = counts.spec().shape.elements();
    let tiles = most_tiles(rows, experts, tile);
    let args = Segments {
        counts: &counts,
        offsets: &offsets,
        bounds: 0,
        tiles: bounds(experts),
        faults: (),
        rows,
        most_tiles: tiles,
        tile_rows: tile as u32,
        experts: experts as u32,
    };
    call.launch(module, Geometry::blocks(1, BLOCK)?, &args)?;
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
    // The rows of `x` are cut anywhere, so their elements must be the contiguous axis.
    let of_x = along(&x, 0, 1, false).filter(|&along| along);
    let of_w = along(&w, 2, 1, true);
    let (experts, index) = (w.spec().shape.dims()[0], call.input(2)?.dtype());
    let (way, module) = choose(call, asked, rows >= LARGE[0] * experts && n >= LARGE[1], |way| match way {
        Way::Any => Some(any(y.dtype(), index)),
        Way::Mma => cores(&MMA, index, [of_x, of_w], &y),
        Way::Wgmma => of_x.and(of_w).and_then(|of_w| swap_ab(&x, &w, of_w, &y)),
    })?;
    if way == Way::Wgmma {
        return by_clusters(call, &module, of_w == Some(true));
    }
    let [tile_rows, tile_columns] = way.tile();
    let tiles = segments(call, &module, rows, tile_rows)?;
    let args = Product { x: &x, w: &w, bounds: 0, tiles: bounds(experts), y: &y, experts, k, n };
    call.launch(&module, way.blocks(tiles.saturating_mul(n.div_ceil(tile_columns)))?, &args)
}

/// Columns of a cluster's tile, and of a block's; rows of `x` that one copy brings, and indices of the axis that is summed over:
/// `COLUMNS`, `TILE_ROWS` and `SLAB` in the sources.
const PAIR: usize = 256;
const COLUMNS: u32 = 128;
const TILE_ROWS: u32 = 32;
const SLAB: u32 = 64;

/// Pairs of multiprocessors of an H100 or H200. Where there are fewer, the last clusters find no tiles.
const CLUSTERS: usize = 66;

/// The module of [`Way::Wgmma`] for a product; `None` where it does not take how the operands lie.
fn swap_ab(x: &Operand, w: &Operand, w_along: bool, y: &Operand) -> Option<Module> {
    // What a tensor map takes; sizes are 32 bits in the kernel.
    let mapped = |o: &Operand| {
        let (shape, strides) = (o.spec().shape, o.layout().strides());
        shape.dims().iter().all(|d| (1..1 << 31).contains(d))
            && strides.iter().all(|&s| (1..1 << 39).contains(&(s as u64)))
    };
    let [rows, experts] = [x, w].map(|o| o.spec().shape.dims()[0]);
    let tiles = most_parts(rows, experts).saturating_mul(y.spec().shape.last().div_ceil(PAIR));
    let takes = chunked(y) && mapped(x) && mapped(w) && tiles < 1 << 31;
    let module = Module::new(&SWAPPED).of("T", y.dtype()).constant("W_ALONG", u64::from(w_along));
    takes.then(|| module.constant("UNIT", UNIT as u64).constant("MOST", MOST as u64).only("sm_90a"))
}

/// A product by [`swap_ab`]'s module, of operands that it takes.
fn by_clusters(call: &mut Call<'_>, module: &Module, w_along: bool) -> Result<(), Failure> {
    let (x, w, y) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let ([rows, k], [_, n], experts) = (matrix(&x)?, matrix(&y)?, w.spec().shape.dims()[0]);
    let (counts, offsets) = (*call.input(2)?, *call.input(3)?);
    let args = Parts {
        counts: &counts,
        offsets: &offsets,
        queue: 0,
        list: QUEUE,
        faults: (),
        rows,
        experts: experts as u32,
    };
    let parts = Module::new(&PARTS).of("I", counts.dtype());
    let parts = parts.constant("UNIT", UNIT as u64).constant("MOST", MOST as u64);
    call.launch(&parts, Geometry::blocks(1, BLOCK)?, &args)?;
    let by_columns = [(1, SLAB), (2, COLUMNS), (0, 1)];
    let by_rows = [(2, SLAB), (1, SLAB), (0, 1)];
    let args = Swapped {
        map_x: Tile { operand: &x, axes: &[(1, SLAB), (0, TILE_ROWS)] },
        map_w: Tile { operand: &w, axes: if w_along { &by_columns } else { &by_rows } },
        queue: 0,
        list: QUEUE,
        y: &y,
        k,
        n,
    };
    let clusters = most_parts(rows, experts).saturating_mul(n.div_ceil(PAIR)).min(CLUSTERS);
    // Behind the ring: four buffers of 64 lines for results, 8 barriers of slabs, 8 letters of 16 bytes with their barriers.
    let shared = RING + 4 * 64 * 128 + 8 * 8 + 8 * 24 + 1024;
    call.launch(module, Geometry { shared, ..Geometry::blocks(2 * clusters, GROUPS)? }, &args)
}

/// [`super::GroupedMatMulGrad`], in the way that is asked for, if one is.
pub(super) fn weights(call: &mut Call<'_>, asked: Option<Way>) -> Result<(), Failure> {
    let (x, gy, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let ([rows, k], [_, n]) = (matrix(&x)?, matrix(&gy)?);
    let experts = out.spec().shape.dims()[0];
    if k * n == 0 {
        return Ok(());
    }
    // An expert's rows start anywhere, so they must not be the contiguous axis.
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
    let args = Weights { x: &x, gy: &gy, bounds: 0, out: &out, k, n };
    let blocks = experts.saturating_mul(k.div_ceil(tile_rows)).saturating_mul(n.div_ceil(tile_columns));
    call.launch(&module, way.blocks(blocks)?, &args)
}
