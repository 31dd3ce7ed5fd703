//! Reductions on a GPU.

use super::group::{BLOCK, Group, across, gapless, unit};
use super::{Reduce, Reduction};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Layout, Operand, Spec};
use arrayvec::ArrayVec;

static SOURCE: Source = Source {
    name: "reduce",
    text: concat!(
        include_str!("../../../kernel/cuda/units.cu"),
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("reduce.cu")
    ),
    entries: &[
        Entry {
            name: "reduce",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output("out", "R"),
                Param::scratch_is("partial", DType::F64),
                Param::u64("outputs"),
                Param::u64("reduced"),
                Param::u32("lanes"),
                Param::u64("segments"),
                Param::u64("length"),
                Param::u32("across"),
                Param::u32("gapless"),
                Param::f64("scale"),
                Param::u32("rank_x"),
                Param::dims("shape_x"),
                Param::dims("stride_x"),
                Param::u32("rank_row"),
                Param::dims("shape_row"),
                Param::dims("stride_row"),
                Param::u32("rank_out"),
                Param::dims("shape_out"),
                Param::dims("stride_out"),
            ],
        },
        Entry {
            name: "columns",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output("out", "R"),
                Param::scratch_is("partial", DType::F64),
                Param::u64("outputs"),
                Param::u64("reduced"),
                Param::u32("lanes"),
                Param::u32("width"),
                Param::u64("segments"),
                Param::u64("length"),
                Param::f64("scale"),
                Param::u32("rank_x"),
                Param::dims("shape_x"),
                Param::dims("stride_x"),
                Param::u64("pitch"),
                Param::u32("rank_out"),
                Param::dims("shape_out"),
                Param::dims("stride_out"),
            ],
        },
        Entry {
            name: "finish",
            block: BLOCK,
            params: &[
                Param::scratch_is("partial", DType::F64),
                Param::output("out", "R"),
                Param::u64("outputs"),
                Param::u64("segments"),
                Param::f64("scale"),
                Param::u32("rank_out"),
                Param::dims("shape_out"),
                Param::dims("stride_out"),
            ],
        },
    ],
};

/// Integers are summed in f64, which the processor does too.
fn accumulation(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => DType::F32,
        DType::F64 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => DType::F64,
    }
}

/// Neighbouring rows that a thread takes where rows lie as columns: as many as 16 bytes hold of the type that they are
/// summed in, if all of them are aligned to be moved together, else one.
fn together(x: &Operand, rows: &Layout, row: &Layout) -> usize {
    let most = 16 / accumulation(x.dtype()).size();
    let Some(last) = rows.shape().rank().checked_sub(1) else { return 1 };
    let whole = rows.shape().dims()[last].is_multiple_of(most)
        && x.address().is_multiple_of((most * x.dtype().size()) as u64)
        && rows.strides()[..last].iter().chain(row.strides()).all(|s| s.is_multiple_of(most));
    if whole { most } else { 1 }
}

/// The module for results of a dtype, and rows of which a thread takes `together` neighbours where they lie as columns.
fn module(dtype: DType, result: DType, reduction: Reduction, together: usize) -> Module {
    let max = u64::from(reduction == Reduction::Max);
    let module = Module::new(&SOURCE).of("T", dtype).of("A", accumulation(dtype)).of("R", result);
    module.constant("UNIT", unit(dtype) as u64).constant("IS_MAX", max).constant("ACROSS", together as u64)
}

/// Bytes of the segments' results.
pub(super) fn workspace(op: &dyn Op, args: &[Spec]) -> usize {
    let (Ok(op), Some(x)) = (attributes::<Reduce>(op), args.first()) else { return 0 };
    let (outputs, reduced) = op.counts(&x.shape);
    if outputs == 0 || reduced == 0 {
        return 0;
    }
    let segments = Group::cut(outputs, reduced, x.dtype).segments;
    if segments > 1 { outputs * segments * size_of::<f64>() } else { 0 }
}

/// [`Reduce`].
pub(super) fn reduce(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Reduce>(op)?;
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    let (outputs, reduced) = op.counts(&x.spec().shape);
    let scale = if op.reduction == Reduction::Mean { 1.0 / reduced as f64 } else { 1.0 };
    if outputs == 0 {
        return Ok(());
    }
    if reduced == 0 {
        return finish(call, &module(x.dtype(), out.dtype(), op.reduction, 1), &out, 0, scale);
    }
    let group = Group::cut(outputs, reduced, x.dtype());
    let (kept, row) = op.split(x.layout())?;
    let to = out.layout().collapsed();
    let across = across(&kept, &row);
    let columns = across == 1 && kept.strides().last() == Some(&1) && row.shape().rank() <= 1;
    let together = if columns { together(&x, &kept, &row) } else { 1 };
    let module = module(x.dtype(), out.dtype(), op.reduction, together);
    let (width, blocks) = group.columns(outputs, together, x.dtype());
    let mut args = ArrayVec::<Arg<'_>, 20>::new();
    args.extend([
        Arg::Input(&x),
        Arg::Output(&out),
        Arg::Scratch(0),
        Arg::U64(outputs as u64),
        Arg::U64(reduced as u64),
        Arg::U32(group.lanes as u32),
    ]);
    args.extend(columns.then_some(Arg::U32(width as u32)));
    args.extend([Arg::U64(group.segments as u64), Arg::U64(group.length as u64)]);
    if !columns {
        args.extend([Arg::U32(across), Arg::U32(gapless(&x, &kept, &row))]);
    }
    args.extend([Arg::F64(scale), Arg::U32(kept.shape().rank() as u32)]);
    args.extend([Arg::dims(kept.shape().dims()), Arg::dims(kept.strides())]);
    if columns {
        args.push(Arg::U64(row.strides().first().map_or(0, |&s| s as u64)));
    } else {
        args.push(Arg::U32(row.shape().rank() as u32));
        args.extend([Arg::dims(row.shape().dims()), Arg::dims(row.strides())]);
    }
    args.push(Arg::U32(to.shape().rank() as u32));
    args.extend([Arg::dims(to.shape().dims()), Arg::dims(to.strides())]);
    if columns {
        let block = (width * group.lanes) as u32;
        call.launch(&module, "columns", Geometry::blocks(blocks * group.segments, block)?, &args)?;
    } else {
        call.launch(&module, "reduce", Geometry::blocks(group.blocks * group.segments, BLOCK)?, &args)?;
    }
    if group.segments > 1 { finish(call, &module, &out, group.segments, scale) } else { Ok(()) }
}

/// Sums partial sums at the start of the scratch memory, `count` to an element of the result, times `scale`. Of none
/// the sum is 0.
pub(in crate::ops) fn sum_partials(
    call: &mut Call<'_>,
    out: &Operand,
    count: usize,
    scale: f64,
) -> Result<(), Failure> {
    finish(call, &module(out.dtype(), out.dtype(), Reduction::Sum, 1), out, count, scale)
}

fn finish(
    call: &mut Call<'_>,
    module: &Module,
    out: &Operand,
    segments: usize,
    scale: f64,
) -> Result<(), Failure> {
    let (outputs, to) = (out.spec().shape.elements(), out.layout().collapsed());
    let args = [
        Arg::Scratch(0),
        Arg::Output(out),
        Arg::U64(outputs as u64),
        Arg::U64(segments as u64),
        Arg::F64(scale),
        Arg::U32(to.shape().rank() as u32),
        Arg::dims(to.shape().dims()),
        Arg::dims(to.strides()),
    ];
    call.launch(module, "finish", Geometry::linear(outputs * 32, BLOCK)?, &args)
}
