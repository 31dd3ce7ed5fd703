//! The compact map on a GPU.

use super::RouteMap;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::values::{Operand, Spec};

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

cuda_kernel! {
    /// A block lists the experts of each token of its tile.
    struct Collect = "collect", BLOCK;
    routed: view_in M,
    pairs: scratch_of I32,
    counted: scratch_of I32,
    faults: faults,
    tokens: size,
    experts: u32,
    most: u32,
    groups: u32,
    pass: u32,
}

cuda_kernel! {
    /// A block numbers the rows of its tile's pairs.
    struct Place = "place", PLACERS;
    pairs: scratch_of I32,
    counted: scratch_of I32,
    map: view_out I,
    source: view_out I,
    counts: view_out I,
    offsets: view_out I,
    tokens: size,
    rows: size,
    align: size,
    experts: u32,
    most: u32,
    groups: u32,
}

static SOURCE: Source = Source {
    name: "route_map",
    pieces: &[Piece::new("route_map", include_str!("route_map.cu"))],
    entries: &[Collect::KERNEL, Place::KERNEL],
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
/// is put together: contiguous, from a multiple of 16 bytes on.
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
    let (pairs, counted, groups) = (0, scratch.counted, scratch.groups as u32);
    let (rows, width, most) = (op.rows, experts as u32, op.most as u32);
    let collecting = Geometry { shared: pass.shared as u32, ..Geometry::blocks(scratch.tiles, BLOCK)? };
    let args = Collect {
        routed: &routed,
        pairs,
        counted,
        faults: (),
        tokens,
        experts: width,
        most,
        groups,
        pass: pass.groups as u32,
    };
    call.launch(&module, collecting, &args)?;
    // The tile's part of the map; of each expert its first row, and the tile's pairs of the experts before it.
    let tile = scratch.groups * GROUP;
    let staged = if short && tile * op.most <= STAGED { tile * (2 * op.most + 1) } else { 0 };
    let number = if short { size_of::<u32>() } else { size_of::<u64>() };
    let shared = (staged * op.index.dtype().size() + experts * (number + size_of::<u32>())) as u32;
    let placing = Geometry { shared, ..Geometry::blocks(scratch.tiles, PLACERS)? };
    let args = Place {
        pairs,
        counted,
        map: &map,
        source: &source,
        counts: &counts,
        offsets: &offsets,
        tokens,
        rows,
        align: op.align,
        experts: width,
        most,
        groups,
    };
    call.launch(&module, placing, &args)
}
