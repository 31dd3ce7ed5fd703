//! Chunks of rows on a GPU.

use super::{ChunkMap, SortChunks};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::experts::routing::cuda::{BLOCK, Share, Team, dims};
use crate::values::Operand;

/// Blocks of a map at most: each finds all chunks first, and then takes its share of the rows.
const MAX_BLOCKS: usize = 264;

static MAP: Source = Source {
    name: "chunk_map",
    text: concat!(include_str!("../routing/scan.cu"), include_str!("chunk_map.cu")),
    entries: &[Entry {
        name: "chunk_map",
        block: BLOCK,
        params: &[
            Param::input("sizes", "I"),
            Param::input("order", "I"),
            Param::output("d", "I"),
            Param::faults("faults"),
            Param::u64("rows"),
            Param::u32("chunks"),
            Param::u64("stride_sizes"),
            Param::u64("stride_order"),
            Param::u64("stride_d"),
        ],
    }],
};

static ROWS: Source = Source {
    name: "sort_chunks",
    text: concat!(
        include_str!("../routing/cells.cu"),
        include_str!("../routing/rows.cu"),
        include_str!("sort_chunks.cu")
    ),
    entries: &[Entry {
        name: "sort_chunks",
        block: BLOCK,
        params: &[
            Param::input("x", "T"),
            Param::input("d", "I"),
            Param::input("p", "P"),
            Param::output("y", "T"),
            Param::output("py", "P"),
            Param::faults("faults"),
            Param::u64("rows"),
            Param::u64("units"),
            Param::u32("lanes"),
            Param::dims("stride_x"),
            Param::u64("stride_d"),
            Param::u64("stride_p"),
            Param::dims("stride_y"),
            Param::u64("stride_py"),
        ],
    }],
};

fn stride(operand: &Operand) -> Arg<'static> {
    Arg::U64(operand.layout().strides().first().map_or(0, |&s| s as u64))
}

/// [`ChunkMap`].
pub(super) fn chunk_map(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let rows = attributes::<ChunkMap>(op)?.rows;
    let (sizes, order, d) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let chunks = sizes.spec().shape.elements();
    let module =
        Module::new(&MAP).of("I", sizes.dtype()).constant("CHUNKS", chunks.next_power_of_two() as u64);
    let args = [
        Arg::Input(&sizes),
        Arg::Input(&order),
        Arg::Output(&d),
        Arg::Faults,
        Arg::U64(rows as u64),
        Arg::U32(chunks as u32),
        stride(&sizes),
        stride(&order),
        stride(&d),
    ];
    // One block where there is no row: it reports what is wrong all the same.
    let blocks = rows.div_ceil(BLOCK as usize).clamp(1, MAX_BLOCKS);
    call.launch(&module, "chunk_map", Geometry::blocks(blocks, BLOCK)?, &args)
}

/// [`SortChunks`].
pub(super) fn sort_chunks(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    sort_chunks_by(op, call, Share::Own)
}

/// The same with another number of threads for a row.
pub(super) fn sort_chunks_by(op: &dyn Op, call: &mut Call<'_>, share: Share) -> Result<(), Failure> {
    let op = attributes::<SortChunks>(op)?;
    let (x, d, y) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    // Without probabilities the kernel has no use of them: any operands stand in.
    let (p, py) = if op.probs { (*call.input(2)?, *call.output(1)?) } else { (x, y) };
    let rows = x.spec().shape.dims()[0];
    if rows == 0 {
        return Ok(());
    }
    let team = Team::new(x.spec().shape.last(), &[&x, &y], share);
    let module = team
        .of(Module::new(&ROWS))
        .of("T", x.dtype())
        .of("I", d.dtype())
        .of("P", p.dtype())
        .constant("PROBS", u64::from(op.probs))
        .constant("INVERSE", u64::from(op.inverse));
    let args = [
        Arg::Input(&x),
        Arg::Input(&d),
        Arg::Input(&p),
        Arg::Output(&y),
        Arg::Output(&py),
        Arg::Faults,
        Arg::U64(rows as u64),
        Arg::U64(team.units as u64),
        Arg::U32(team.lanes),
        dims(&x),
        stride(&d),
        stride(&p),
        dims(&y),
        stride(&py),
    ];
    call.launch(&module, "sort_chunks", team.geometry(rows, 0)?, &args)
}
