//! Rows back in the order of tokens, on a GPU.

use super::PairProbs;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::experts::routing::cuda::{BLOCK, Share, Team, WRITERS, dims};

static MERGE: Source = Source {
    name: "unpermute",
    text: concat!(
        include_str!("../routing/cells.cu"),
        include_str!("../routing/rows.cu"),
        include_str!("unpermute.cu")
    ),
    entries: &[Entry {
        name: "unpermute",
        block: BLOCK,
        params: &[
            Param::input("y", "T"),
            Param::input("map", "I"),
            Param::input("w", "P"),
            Param::output("z", "T"),
            Param::faults("faults"),
            Param::u64("tokens"),
            Param::u64("rows"),
            Param::u64("units"),
            Param::u64("experts"),
            Param::u32("most"),
            Param::u32("lanes"),
            Param::dims("stride_y"),
            Param::dims("stride_map"),
            Param::dims("stride_w"),
            Param::dims("stride_z"),
        ],
    }],
};

static GRADIENT: Source = Source {
    name: "unpermute_grad",
    text: concat!(
        include_str!("../routing/cells.cu"),
        include_str!("../routing/rows.cu"),
        include_str!("grad.cu")
    ),
    entries: &[Entry {
        name: "unpermute_grad",
        block: WRITERS.0,
        params: &[
            Param::input("y", "T"),
            Param::input("map", "I"),
            Param::input("source", "I"),
            Param::input("w", "P"),
            Param::input("gz", "T"),
            Param::output("gy", "T"),
            Param::output("gw", "P"),
            Param::faults("faults"),
            Param::u64("tokens"),
            Param::u64("rows"),
            Param::u64("units"),
            Param::u64("experts"),
            Param::u32("most"),
            Param::u32("lanes"),
            Param::u32("clear"),
            Param::dims("stride_y"),
            Param::dims("stride_map"),
            Param::u64("stride_source"),
            Param::dims("stride_w"),
            Param::dims("stride_gz"),
            Param::dims("stride_gy"),
            Param::dims("stride_gw"),
        ],
    }],
};

static PAIRS: Source = Source {
    name: "pair_probs",
    text: concat!(
        include_str!("../routing/cells.cu"),
        include_str!("../routing/rows.cu"),
        include_str!("pairs.cu")
    ),
    entries: &[Entry {
        name: "pair_probs",
        block: BLOCK,
        params: &[
            Param::input("v", "T"),
            Param::input("map", "I"),
            Param::output("out", "T"),
            Param::faults("faults"),
            Param::u64("tokens"),
            Param::u64("rows"),
            Param::u64("experts"),
            Param::u32("most"),
            Param::u64("stride_v"),
            Param::dims("stride_map"),
            Param::dims("stride_out"),
        ],
    }],
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
    let args = [
        Arg::Input(&y),
        Arg::Input(&map),
        Arg::Input(&w),
        Arg::Output(&z),
        Arg::Faults,
        Arg::U64(tokens as u64),
        Arg::U64(rows as u64),
        Arg::U64(team.units as u64),
        Arg::U64(w.spec().shape.last() as u64),
        Arg::U32((map.spec().shape.last() / 2) as u32),
        Arg::U32(team.lanes),
        dims(&y),
        dims(&map),
        dims(&w),
        dims(&z),
    ];
    call.launch(&module, "unpermute", team.geometry(tokens, 0)?, &args)
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
    let args = [
        Arg::Input(&y),
        Arg::Input(&map),
        Arg::Input(&source),
        Arg::Input(&w),
        Arg::Input(&gz),
        Arg::Output(&gy),
        Arg::Output(&gw),
        Arg::Faults,
        Arg::U64(tokens as u64),
        Arg::U64(rows as u64),
        Arg::U64(team.units as u64),
        Arg::U64(w.spec().shape.last() as u64),
        Arg::U32((map.spec().shape.last() / 2) as u32),
        Arg::U32(team.lanes),
        Arg::U32(clear as u32),
        dims(&y),
        dims(&map),
        Arg::U64(source.layout().strides()[0] as u64),
        dims(&w),
        dims(&gz),
        dims(&gy),
        dims(&gw),
    ];
    call.launch(&module, "unpermute_grad", team.geometry(tokens, clear)?, &args)
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
    let args = [
        Arg::Input(&v),
        Arg::Input(&map),
        Arg::Output(&out),
        Arg::Faults,
        Arg::U64(tokens as u64),
        Arg::U64(v.spec().shape.last() as u64),
        Arg::U64(op.experts as u64),
        Arg::U32((map.spec().shape.last() / 2) as u32),
        Arg::U64(v.layout().strides()[0] as u64),
        dims(&map),
        dims(&out),
    ];
    call.launch(&module, "pair_probs", Geometry::linear(32 * tokens, BLOCK)?, &args)
}
