//! Rows in the order of a map, on a GPU.

use super::Permute;
use crate::cuda::{Arg, Call, Entry, Failure, Module, Param, Source};
use crate::ops::routing::cuda::{Share, Team, WRITERS, dims};
use crate::ops::{Op, attributes};

static SOURCE: Source = Source {
    name: "permute",
    text: concat!(
        include_str!("../routing/cells.cu"),
        include_str!("../routing/rows.cu"),
        include_str!("permute.cu")
    ),
    entries: &[Entry {
        name: "permute",
        block: WRITERS.0,
        params: &[
            Param::input("x", "T"),
            Param::input("map", "I"),
            Param::input("source", "I"),
            Param::input("p", "P"),
            Param::output("y", "T"),
            Param::output("py", "P"),
            Param::faults("faults"),
            Param::u64("tokens"),
            Param::u64("rows"),
            Param::u64("units"),
            Param::u64("experts"),
            Param::u32("most"),
            Param::u32("lanes"),
            Param::u32("clear"),
            Param::dims("stride_x"),
            Param::dims("stride_map"),
            Param::u64("stride_source"),
            Param::dims("stride_p"),
            Param::dims("stride_y"),
            Param::dims("stride_py"),
        ],
    }],
};

/// [`Permute`].
pub(super) fn permute(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    permute_by(op, call, Share::Own)
}

/// The same with another number of threads for a row.
pub(super) fn permute_by(op: &dyn Op, call: &mut Call<'_>, share: Share) -> Result<(), Failure> {
    let op = attributes::<Permute>(op)?;
    let (x, map, source, y) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    // Without probabilities the kernel has no use of them: any operands stand in.
    let (p, py) = if op.probs { (*call.input(3)?, *call.output(1)?) } else { (x, y) };
    let (tokens, rows) = (x.spec().shape.dims()[0], y.spec().shape.dims()[0]);
    if rows == 0 {
        return Ok(());
    }
    let team = Team::spread(x.spec().shape.last(), &[&x, &y], WRITERS, share);
    let clear = team.clearing(rows);
    let module = team
        .of(Module::new(&SOURCE))
        .of("T", x.dtype())
        .of("I", map.dtype())
        .of("P", p.dtype())
        .constant("PROBS", u64::from(op.probs))
        .constant("DROP_ZERO", u64::from(op.drop_zero));
    let args = [
        Arg::Input(&x),
        Arg::Input(&map),
        Arg::Input(&source),
        Arg::Input(&p),
        Arg::Output(&y),
        Arg::Output(&py),
        Arg::Faults,
        Arg::U64(tokens as u64),
        Arg::U64(rows as u64),
        Arg::U64(team.units as u64),
        Arg::U64(p.spec().shape.last() as u64),
        Arg::U32((map.spec().shape.last() / 2) as u32),
        Arg::U32(team.lanes),
        Arg::U32(clear as u32),
        dims(&x),
        dims(&map),
        Arg::U64(source.layout().strides()[0] as u64),
        dims(&p),
        dims(&y),
        dims(&py),
    ];
    call.launch(&module, "permute", team.geometry(tokens, clear)?, &args)
}
