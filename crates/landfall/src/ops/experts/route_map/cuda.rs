//! The compact map on a GPU.

use super::RouteMap;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Operand, Spec};

/// Threads of a block that reads the routing: `THREADS` in the source.
const BLOCK: u32 = 1024;
/// Threads of a block that numbers rows: `PLACERS` in the source.
const PLACERS: u32 = 512;
/// Tokens of a group: the bits of a word.
const GROUP: usize = 32;
/// Groups of a pass at most: `GROUPS` in the source.
const GROUPS: usize = 8;
/// Experts of a token that are listed as they are found: `SLOTS` in the source.
const SLOTS: usize = 32;
/// Pairs of a tile at most whose part of the map is put together first: `AHEAD * PLACERS` in the source.
const STAGED: usize = 4 * PLACERS as usize;
/// Tiles that are aimed at: about one a multiprocessor, and few, because the block of each reads the counts of all.
const TILES: usize = 128;
/// Groups of a tile at most: the counts of eight tiles (`EACH` in the source) are added up in 16 bits.
const LONGEST: usize = 255;

static SOURCE: Source = Source {
    name: "route_map",
    text: include_str!("route_map.cu"),
    entries: &[
        Entry {
            name: "collect",
            block: BLOCK,
            params: &[
                Param::input("routed", "M"),
                Param::scratch_is("pairs", DType::I32),
                Param::scratch_is("counted", DType::I32),
                Param::faults("faults"),
                Param::u64("tokens"),
                Param::u32("experts"),
                Param::u32("most"),
                Param::u32("groups"),
                Param::u32("pass"),
                Param::u64("stride_token"),
                Param::u64("stride_expert"),
            ],
        },
        Entry {
            name: "place",
            block: PLACERS,
            params: &[
                Param::scratch_is("pairs", DType::I32),
                Param::scratch_is("counted", DType::I32),
                Param::output("map", "I"),
                Param::output("source", "I"),
                Param::output("counts", "I"),
                Param::output("offsets", "I"),
                Param::u64("tokens"),
                Param::u64("rows"),
                Param::u64("align"),
                Param::u32("experts"),
                Param::u32("most"),
                Param::u32("groups"),
                Param::u64("stride_token"),
                Param::u64("stride_cell"),
                Param::u64("stride_source"),
                Param::u64("stride_counts"),
                Param::u64("stride_offsets"),
            ],
        },
    ],
};

/// How the tokens are dealt out, and where what a call keeps lies in its scratch memory: a word of each token and each expert
/// that it may have, then the counts of each tile, half a word each, in rows of whole sixteen bytes.
struct Scratch {
    /// Groups of a tile.
    groups: usize,
    tiles: usize,
    counted: usize,
    end: usize,
}

impl Scratch {
    fn of(tokens: usize, experts: usize, most: usize) -> Self {
        let all = tokens.div_ceil(GROUP);
        let groups = all.div_ceil(TILES).clamp(1, LONGEST);
        // One tile where there is no token: the outputs that tell of experts are written all the same.
        let tiles = all.div_ceil(groups).max(1);
        let counted = (tokens * most * size_of::<u32>()).next_multiple_of(16);
        let end = counted + tiles * experts.next_multiple_of(8) * size_of::<u16>();
        Self { groups, tiles, counted, end }
    }
}

/// What a block that reads the routing has in hand at once.
struct Pass {
    groups: usize,
    /// Bytes of shared memory: the experts of each token as they were found, and how many they are; of each group and expert a
    /// word and a count of half a word; a count of each expert. 42 KB of 4,096 experts.
    shared: usize,
}

impl Pass {
    fn of(tile: usize, experts: usize) -> Self {
        let groups = (GROUPS * 512 / experts.next_power_of_two()).clamp(1, GROUPS.min(tile));
        let (found, words) = (groups * GROUP, (groups * experts).next_multiple_of(4) + experts);
        let halves = found * SLOTS + groups * experts;
        Self { groups, shared: (found + words) * size_of::<u32>() + halves * size_of::<u16>() }
    }
}

/// Whether every number of a row or a pair, and every cell of the results, is below 2³¹, and the map lies as a tile's part of it
/// is put together: gapless, from a multiple of 16 bytes on.
fn short(op: &RouteMap, [tokens, experts]: [usize; 2], outputs: &[Operand]) -> bool {
    let rows = (tokens.saturating_mul(op.most)).saturating_add(experts.saturating_mul(op.align));
    let below = |n: usize| n < 1 << 31;
    let map = outputs.first().is_some_and(|m| m.layout().is_contiguous() && m.address().is_multiple_of(16));
    map && below(rows) && below(op.rows) && outputs.iter().all(|o| below(o.layout().span().end))
}

pub(super) fn workspace(op: &dyn Op, args: &[Spec]) -> usize {
    let dims = args.first().map(|a| a.shape);
    let (Ok(op), Some(&[tokens, experts])) = (attributes::<RouteMap>(op), dims.as_ref().map(|s| s.dims()))
    else {
        return 0;
    };
    Scratch::of(tokens, experts, op.most).end
}

fn stride(operand: &Operand, axis: usize) -> Arg<'static> {
    Arg::U64(operand.layout().strides()[axis] as u64)
}

/// Experts that a thread reads at once: 16 or 4 bytes of them where they lie in such, else one.
fn vector(routed: &Operand, experts: usize) -> usize {
    let [token, expert] = *routed.layout().strides() else { return 1 };
    let size = routed.dtype().size();
    let whole = |&bytes: &usize| {
        let lies = [token * size, experts * size].iter().all(|n| n.is_multiple_of(bytes));
        bytes > size && expert == 1 && lies && routed.address().is_multiple_of(bytes as u64)
    };
    [16, 4].into_iter().find(whole).map_or(1, |bytes| bytes / size)
}

/// [`RouteMap`].
pub(super) fn route_map(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<RouteMap>(op)?;
    let routed = *call.input(0)?;
    let (map, source, counts, offsets) =
        (*call.output(0)?, *call.output(1)?, *call.output(2)?, *call.output(3)?);
    let shape = routed.spec().shape;
    let &[tokens, experts] = shape.dims() else { return Ok(()) };
    let scratch = Scratch::of(tokens, experts, op.most);
    let pass = Pass::of(scratch.groups, experts);
    let short = short(op, [tokens, experts], call.outputs());
    let module = Module::new(&SOURCE)
        .of("M", routed.dtype())
        .of("I", op.index.dtype())
        .constant("V", vector(&routed, experts) as u64)
        .constant("SHORT", u64::from(short));
    let (pairs, counted) = (Arg::Scratch(0), Arg::Scratch(scratch.counted));
    let (tokens, rows) = (Arg::U64(tokens as u64), Arg::U64(op.rows as u64));
    let (width, most) = (Arg::U32(experts as u32), Arg::U32(op.most as u32));
    let groups = Arg::U32(scratch.groups as u32);
    let collecting = Geometry { shared: pass.shared as u32, ..Geometry::blocks(scratch.tiles, BLOCK)? };
    let args = [
        Arg::Input(&routed),
        pairs,
        counted,
        Arg::Faults,
        tokens,
        width,
        most,
        groups,
        Arg::U32(pass.groups as u32),
        stride(&routed, 0),
        stride(&routed, 1),
    ];
    call.launch(&module, "collect", collecting, &args)?;
    // The tile's part of the map; of each expert its first row, and the tile's pairs of the experts before it.
    let tile = scratch.groups * GROUP;
    let staged = if short && tile * op.most <= STAGED { tile * (2 * op.most + 1) } else { 0 };
    let number = if short { size_of::<u32>() } else { size_of::<u64>() };
    let shared = (staged * op.index.dtype().size() + experts * (number + size_of::<u32>())) as u32;
    let placing = Geometry { shared, ..Geometry::blocks(scratch.tiles, PLACERS)? };
    let args = [
        pairs,
        counted,
        Arg::Output(&map),
        Arg::Output(&source),
        Arg::Output(&counts),
        Arg::Output(&offsets),
        tokens,
        rows,
        Arg::U64(op.align as u64),
        width,
        most,
        groups,
        stride(&map, 0),
        stride(&map, 1),
        stride(&source, 0),
        stride(&counts, 0),
        stride(&offsets, 0),
    ];
    call.launch(&module, "place", placing, &args)
}
