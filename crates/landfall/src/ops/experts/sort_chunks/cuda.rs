//! Chunks of rows on a GPU.

use super::{ChunkMap, SortChunks};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, SCAN, Source, cuda_kernel};
use crate::ops::experts::routing::cuda::{BLOCK, CELLS, Share, TEAM_ROWS, Team};

/// Blocks of a map at most: each finds all chunks first, and then takes its share of the rows.
const MAX_BLOCKS: usize = 264;

cuda_kernel! {
    /// Each block finds all chunks, then where its share of the rows goes.
    struct FindRows = "chunk_map", BLOCK;
    sizes: view_in I,
    order: view_in I,
    d: view_out I,
    faults: faults,
    rows: size,
    chunks: u32,
}

static MAP: Source = Source {
    name: "chunk_map",
    pieces: &[SCAN, Piece::new("chunk_map", include_str!("chunk_map.cu"))],
    entries: &[FindRows::KERNEL],
};

cuda_kernel! {
    /// A team moves a row.
    struct MoveRows = "sort_chunks", BLOCK;
    x: view_in T,
    d: view_in I,
    p: view_in P,
    y: view_out T,
    py: view_out P,
    faults: faults,
    rows: size,
    units: size,
    lanes: u32,
}

static ROWS: Source = Source {
    name: "sort_chunks",
    pieces: &[CELLS, TEAM_ROWS, Piece::new("sort_chunks", include_str!("sort_chunks.cu"))],
    entries: &[MoveRows::KERNEL],
};

/// [`ChunkMap`].
pub(super) fn chunk_map(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let rows = attributes::<ChunkMap>(op)?.rows;
    let (sizes, order, d) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let chunks = sizes.spec().shape.elements();
    let module =
        Module::new(&MAP).of("I", sizes.dtype()).constant("CHUNKS", chunks.next_power_of_two() as u64);
    let args = FindRows { sizes: &sizes, order: &order, d: &d, faults: (), rows, chunks: chunks as u32 };
    // One block where there is no row: it reports what is wrong all the same.
    let blocks = rows.div_ceil(BLOCK as usize).clamp(1, MAX_BLOCKS);
    call.launch(&module, Geometry::blocks(blocks, BLOCK)?, &args)
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
    let args = MoveRows {
        x: &x,
        d: &d,
        p: &p,
        y: &y,
        py: &py,
        faults: (),
        rows,
        units: team.units,
        lanes: team.lanes,
    };
    call.launch(&module, team.geometry(rows, 0)?, &args)
}
