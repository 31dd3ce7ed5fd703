//! The compact map on a GPU.

use super::RouteMap;
use crate::DType;
use crate::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Operand, Param, Source};
use crate::ops::{Op, attributes};
use crate::shape::Spec;

/// Threads of a block, and tokens of a tile: `THREADS` and `TILE` in the source.
const BLOCK: u32 = 128;
const TILE: usize = 64;
/// Groups of 32 tokens of a tile.
const GROUPS: usize = TILE / 32;
/// Experts, and warps, of a block that scans.
const SCAN: u32 = 32;
/// Threads of a block that numbers rows: `PLACERS` in the source.
const PLACERS: u32 = 256;

static SOURCE: Source = Source {
    name: "route_map",
    text: include_str!("route_map.cu"),
    entries: &[
        Entry {
            name: "collect",
            block: BLOCK,
            params: &[
                Param::input("routed", "M"),
                Param::output("source", "I"),
                Param::scratch_is("words", DType::I32),
                Param::scratch_is("counted", DType::I32),
                Param::faults("faults"),
                Param::u64("tokens"),
                Param::u64("rows"),
                Param::u32("experts"),
                Param::u32("most"),
                Param::u64("stride_token"),
                Param::u64("stride_expert"),
                Param::u64("stride_source"),
            ],
        },
        Entry {
            name: "scan",
            block: SCAN * SCAN,
            params: &[
                Param::scratch_is("counted", DType::I32),
                Param::scratch_is("totals", DType::I32),
                Param::u64("tiles"),
                Param::u32("experts"),
            ],
        },
        Entry {
            name: "place",
            block: PLACERS,
            params: &[
                Param::scratch_is("words", DType::I32),
                Param::scratch_is("counted", DType::I32),
                Param::scratch_is("totals", DType::I32),
                Param::output("map", "I"),
                Param::output("source", "I"),
                Param::output("counts", "I"),
                Param::output("offsets", "I"),
                Param::u64("tokens"),
                Param::u64("rows"),
                Param::u64("align"),
                Param::u32("experts"),
                Param::u32("most"),
                Param::u64("stride_token"),
                Param::u64("stride_cell"),
                Param::u64("stride_source"),
                Param::u64("stride_counts"),
                Param::u64("stride_offsets"),
            ],
        },
    ],
};

/// Where what a call keeps lies in its scratch memory: the words of each group, the counts of each tile, the totals.
struct Scratch {
    tiles: usize,
    counted: usize,
    totals: usize,
    end: usize,
}

impl Scratch {
    fn of(tokens: usize, experts: usize) -> Self {
        // One tile where there is no token: the outputs that tell of experts are written all the same.
        let tiles = tokens.div_ceil(TILE).max(1);
        let each = experts * size_of::<u32>();
        let counted = tiles * GROUPS * each;
        let totals = counted + tiles * each;
        Self { tiles, counted, totals, end: totals + each }
    }
}

/// Bytes of shared memory of a block that numbers rows: the first row of each expert, and the experts of each token, a bit
/// each, in an odd number of words.
fn shared(experts: usize) -> u32 {
    (experts * size_of::<u64>() + TILE * (experts.div_ceil(32) | 1) * size_of::<u32>()) as u32
}

pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let dims = args.first().map(|a| a.shape);
    let Some(&[tokens, experts]) = dims.as_ref().map(|s| s.dims()) else { return 0 };
    Scratch::of(tokens, experts).end
}

fn stride(operand: &Operand, axis: usize) -> Arg<'static> {
    Arg::U64(operand.layout().strides()[axis] as u64)
}

/// Experts that a lane reads at once: a word of 4 bytes where the routing lies in such.
fn vector(routed: &Operand, experts: usize) -> usize {
    let each = 4 / routed.dtype().size().min(4);
    let [token, expert] = *routed.layout().strides() else { return 1 };
    let whole = expert == 1 && [token, experts].iter().all(|n| n.is_multiple_of(each));
    if whole && routed.address().is_multiple_of(4) { each } else { 1 }
}

/// [`RouteMap`].
pub(super) fn route_map(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<RouteMap>(op)?;
    let routed = *call.input(0)?;
    let (map, source, counts, offsets) =
        (*call.output(0)?, *call.output(1)?, *call.output(2)?, *call.output(3)?);
    let shape = routed.spec().shape;
    let &[tokens, experts] = shape.dims() else { return Ok(()) };
    let scratch = Scratch::of(tokens, experts);
    let module = Module::new(&SOURCE)
        .of("M", routed.dtype())
        .of("I", op.index.dtype())
        .constant("V", vector(&routed, experts) as u64);
    let (words, counted, totals) =
        (Arg::Scratch(0), Arg::Scratch(scratch.counted), Arg::Scratch(scratch.totals));
    let (tokens, rows) = (Arg::U64(tokens as u64), Arg::U64(op.rows as u64));
    let (width, most) = (Arg::U32(experts as u32), Arg::U32(op.most as u32));
    let tiles = Geometry::blocks(scratch.tiles, BLOCK)?;
    let args = [
        Arg::Input(&routed),
        Arg::Output(&source),
        words,
        counted,
        Arg::Faults,
        tokens,
        rows,
        width,
        most,
        stride(&routed, 0),
        stride(&routed, 1),
        stride(&source, 0),
    ];
    call.launch(&module, "collect", tiles, &args)?;
    let args = [counted, totals, Arg::U64(scratch.tiles as u64), width];
    let scanning = Geometry::blocks(experts.div_ceil(SCAN as usize), SCAN * SCAN)?;
    call.launch(&module, "scan", scanning, &args)?;
    let placing = Geometry { shared: shared(experts), ..Geometry::blocks(scratch.tiles, PLACERS)? };
    let args = [
        words,
        counted,
        totals,
        Arg::Output(&map),
        Arg::Output(&source),
        Arg::Output(&counts),
        Arg::Output(&offsets),
        tokens,
        rows,
        Arg::U64(op.align as u64),
        width,
        most,
        stride(&map, 0),
        stride(&map, 1),
        stride(&source, 0),
        stride(&counts, 0),
        stride(&offsets, 0),
    ];
    call.launch(&module, "place", placing, &args)
}
