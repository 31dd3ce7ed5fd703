//! Rows back in the order of tokens, on a GPU.

use super::PairProbs;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::experts::routing::cuda::{BLOCK, CELLS, Share, TEAM_ROWS, Team, WRITERS};

cuda_kernel! {
    /// A team adds the rows of a token.
    struct Merge = "unpermute", BLOCK;
    y: view_in T,
    map: view_in I,
    w: view_in P,
    z: view_out T,
    faults: faults,
    tokens: size,
    rows: size,
    units: size,
    experts: size,
    most: u32,
    lanes: u32,
}

static MERGE: Source = Source {
    name: "unpermute",
    pieces: &[CELLS, TEAM_ROWS, Piece::new("unpermute", include_str!("unpermute.cu"))],
    entries: &[Merge::KERNEL],
};

cuda_kernel! {
    /// A team has the rows of a token.
    struct Gradient = "unpermute_grad", WRITERS.0;
    y: view_in T,
    map: view_in I,
    source: view_in I,
    w: view_in P,
    gz: view_in T,
    gy: view_out T,
    gw: view_out P,
    faults: faults,
    tokens: size,
    rows: size,
    units: size,
    experts: size,
    most: u32,
    lanes: u32,
    clear: u32,
}

static GRADIENT: Source = Source {
    name: "unpermute_grad",
    pieces: &[CELLS, TEAM_ROWS, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Gradient::KERNEL],
};

cuda_kernel! {
    /// A warp has the values of a token's pairs.
    struct Gather = "pair_probs", BLOCK;
    v: view_in T,
    map: view_in I,
    out: view_out T,
    faults: faults,
    tokens: size,
    rows: size,
    experts: size,
    most: u32,
}

static PAIRS: Source = Source {
    name: "pair_probs",
    pieces: &[CELLS, TEAM_ROWS, Piece::new("pairs", include_str!("pairs.cu"))],
    entries: &[Gather::KERNEL],
};

/// [`super::Unpermute`].
pub(super) fn unpermute(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    unpermute_by(op, call, Share::Own)
}

/// The same with another number of threads for a row.
pub(super) fn unpermute_by(_: &dyn Op, call: &mut Call<'_>, share: Share) -> Result<(), Failure> {
    let (y, map, z) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let weighted = call.inputs().len() > 3;
    // Without weights the kernel has no use of them: any operand stands in.
    let w = if weighted { *call.input(3)? } else { y };
    let (tokens, rows) = (z.spec().shape.dims()[0], y.spec().shape.dims()[0]);
    if tokens == 0 {
        return Ok(());
    }
    let team = Team::new(z.spec().shape.last(), &[&y, &z], share);
    let module = team
        .of(Module::new(&MERGE))
        .of("T", y.dtype())
        .of("I", map.dtype())
        .of("P", w.dtype())
        .constant("WEIGHTED", u64::from(weighted));
    let args = Merge {
        y: &y,
        map: &map,
        w: &w,
        z: &z,
        faults: (),
        tokens,
        rows,
        units: team.units,
        experts: w.spec().shape.last(),
        most: (map.spec().shape.last() / 2) as u32,
        lanes: team.lanes,
    };
    call.launch(&module, team.geometry(tokens, 0)?, &args)
}

/// [`super::UnpermuteGrad`].
pub(super) fn unpermute_grad(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    unpermute_grad_by(op, call, Share::Own)
}

/// The same with another number of threads for a row.
pub(super) fn unpermute_grad_by(_: &dyn Op, call: &mut Call<'_>, share: Share) -> Result<(), Failure> {
    let (y, map, source) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (w, gz) = (*call.input(3)?, *call.input(4)?);
    let (gy, gw) = (*call.output(0)?, *call.output(1)?);
    let (tokens, rows) = (gz.spec().shape.dims()[0], y.spec().shape.dims()[0]);
    if tokens == 0 && rows == 0 {
        return Ok(());
    }
    let team = Team::spread(gz.spec().shape.last(), &[&y, &gz, &gy], WRITERS, share);
    let clear = team.clearing(rows);
    let module = team
        .of(Module::new(&GRADIENT))
        .of("T", y.dtype())
        .of("I", map.dtype())
        .of("P", w.dtype())
        .constant("BLOCK", u64::from(team.lanes > 32));
    let args = Gradient {
        y: &y,
        map: &map,
        source: &source,
        w: &w,
        gz: &gz,
        gy: &gy,
        gw: &gw,
        faults: (),
        tokens,
        rows,
        units: team.units,
        experts: w.spec().shape.last(),
        most: (map.spec().shape.last() / 2) as u32,
        lanes: team.lanes,
        clear: clear as u32,
    };
    call.launch(&module, team.geometry(tokens, clear)?, &args)
}

/// [`PairProbs`].
pub(super) fn pair_probs(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<PairProbs>(op)?;
    let (v, map, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let tokens = map.spec().shape.dims()[0];
    if tokens == 0 {
        return Ok(());
    }
    let module =
        Module::new(&PAIRS).of("T", v.dtype()).of("I", map.dtype()).constant("V", 1).constant("WHOLE", 0);
    let args = Gather {
        v: &v,
        map: &map,
        out: &out,
        faults: (),
        tokens,
        rows: v.spec().shape.last(),
        experts: op.experts,
        most: (map.spec().shape.last() / 2) as u32,
    };
    call.launch(&module, Geometry::linear(32 * tokens, BLOCK)?, &args)
}
