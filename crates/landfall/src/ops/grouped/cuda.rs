//! Products by expert on a GPU: on tensor cores where 16-bit operands lie in whole chunks of 16 bytes, else by a kernel of
//! any strides. On Hopper a tuner may choose its own tensor instructions.

use crate::DType;
use crate::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Operand, Param, Source};
use crate::error::Rule;
use crate::ops::Op;
use crate::shape::Spec;

const BLOCK: u32 = 256;

/// One source with its kernels, of which those that multiply have blocks of so many threads.
macro_rules! source {
    ($name:literal, $tile:literal, $block:expr) => {
        Source {
            name: $name,
            text: concat!(
                include_str!("../routing/scan.cu"),
                include_str!($tile),
                include_str!("grouped.cu")
            ),
            entries: &[
                Entry {
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
                },
                Entry {
                    name: "product",
                    block: $block,
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
                },
                Entry {
                    name: "weights",
                    block: $block,
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
                },
            ],
        }
    };
}

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

static ANY: Source = source!("grouped", "simt.cu", BLOCK);
static MMA: Source = source!("grouped_mma", "mma.cu", BLOCK);
static WGMMA: Source = source!("grouped_wgmma", "wgmma.cu", 384);

/// Rows and columns of a tile of [`Way::Any`], the smallest.
const ANY_TILE: usize = 64;

impl Way {
    /// Rows and columns of a block's tile: `TILE_ROWS` and `TILE_COLUMNS` in the sources.
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
            // A ring of four slabs of 128 bytes of each row and column, from a multiple of 1,024 bytes on.
            Self::Wgmma => {
                Ok(Geometry { shared: 4 * (128 + 256) * 128 + 1024, ..Geometry::blocks(count, 384)? })
            }
        }
    }

    /// The module for these operands; `None` where it does not take how they lie.
    fn module(
        self,
        dtype: DType,
        index: DType,
        factors: [Option<bool>; 2],
        result: &Operand,
    ) -> Option<Module> {
        let of = |source| Module::new(source).of("T", dtype).of("I", index);
        let cores = |source| {
            let [Some(a), Some(b)] = factors else { return None };
            let strides = result.layout().strides();
            let gapless =
                strides.last() == Some(&1) && strides.iter().rev().skip(1).all(|s| s.is_multiple_of(8));
            let chunks = result.address().is_multiple_of(16) && result.spec().shape.last().is_multiple_of(8);
            let module = of(source).constant("A_ALONG", u64::from(a)).constant("B_ALONG", u64::from(b));
            (short(dtype) && gapless && chunks).then(|| module.constant("PAIRED", 1))
        };
        match self {
            Self::Any => Some(of(&ANY).constant("PAIRED", 0)),
            Self::Mma => cores(&MMA),
            Self::Wgmma => cores(&WGMMA).map(|m| m.only("sm_90a")),
        }
    }
}

/// Rows of an expert, and columns, of which half a tile of [`Way::Wgmma`] is full.
const HALF: [usize; 2] = [64, 128];

/// A way that was asked for, or the fastest that the device and the operands allow, with its module. Of `large` results the
/// tiles of Hopper are mostly full.
///
/// # Errors
/// The operands do not lie as the way that was asked for needs it.
fn choose(
    call: &Call<'_>,
    asked: Option<Way>,
    large: bool,
    factors: [Option<bool>; 2],
    result: &Operand,
) -> Result<(Way, Module), Rule> {
    let (dtype, index) = (result.dtype(), call.input(2)?.dtype());
    let own = [Way::Wgmma, Way::Mma, Way::Any];
    let ways = asked.as_ref().map_or(if large { &own[..] } else { &own[1..] }, std::slice::from_ref);
    let found = ways.iter().find_map(|&way| {
        let module = way.module(dtype, index, factors, result)?;
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
    short(args[0].dtype) && args[..2].iter().all(|a| a.shape.last().is_multiple_of(8))
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

/// Bytes of the bounds and of the list of tiles.
pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let (rows, experts) = (args[0].shape.dims()[0], args[2].shape.last());
    bounds(experts) + 3 * most_tiles(rows, experts, ANY_TILE) * size_of::<i64>()
}

fn dims(of: &Operand) -> Arg<'static> {
    Arg::dims(of.layout().strides())
}

/// Finds the rows of each expert, and its tiles.
fn segments(call: &mut Call<'_>, module: &Module, rows: usize, tile: usize) -> Result<usize, Failure> {
    let (counts, offsets) = (*call.input(2)?, *call.input(3)?);
    let experts = counts.spec().shape.elements();
    let tiles = most_tiles(rows, experts, tile);
    let stride = |o: &Operand| Arg::U64(o.layout().strides()[0] as u64);
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
    let large = rows >= HALF[0] * w.spec().shape.dims()[0] && n >= HALF[1];
    let (way, module) = choose(call, asked, large, [of_x, along(&w, 2, 1, true)], &y)?;
    let [tile_rows, tile_columns] = way.tile();
    let tiles = segments(call, &module, rows, tile_rows)?;
    let experts = w.spec().shape.dims()[0];
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
    let (way, module) = choose(call, asked, false, [outward(&x), outward(&gy)], &out)?;
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
