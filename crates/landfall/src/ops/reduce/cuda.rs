//! Reductions on a GPU.

use super::group::{BLOCK, Group, across, gapless, unit};
use super::{Reduce, Reduction};
use crate::DType;
use crate::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Operand, Param, Source};
use crate::ops::{Op, attributes};
use crate::shape::Spec;

static SOURCE: Source = Source {
    name: "reduce",
    text: concat!(include_str!("units.cu"), include_str!("group.cu"), include_str!("reduce.cu")),
    entries: &[
        Entry {
            name: "reduce",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output("out", "T"),
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
            name: "finish",
            block: BLOCK,
            params: &[
                Param::scratch_is("partial", DType::F64),
                Param::output("out", "T"),
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

fn module(dtype: DType, reduction: Reduction) -> Module {
    let max = u64::from(reduction == Reduction::Max);
    let module = Module::new(&SOURCE).of("T", dtype).of("A", accumulation(dtype));
    module.constant("UNIT", unit(dtype) as u64).constant("IS_MAX", max)
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
    let module = module(x.dtype(), op.reduction);
    if outputs == 0 {
        return Ok(());
    }
    if reduced == 0 {
        return finish(call, &module, &out, 0, scale);
    }
    let group = Group::cut(outputs, reduced, x.dtype());
    let (kept, row) = op.split(x.layout())?;
    let to = out.layout().collapsed();
    let args = [
        Arg::Input(&x),
        Arg::Output(&out),
        Arg::Scratch(0),
        Arg::U64(outputs as u64),
        Arg::U64(reduced as u64),
        Arg::U32(group.lanes as u32),
        Arg::U64(group.segments as u64),
        Arg::U64(group.length as u64),
        Arg::U32(across(&kept, &row)),
        Arg::U32(gapless(&x, &kept, &row)),
        Arg::F64(scale),
        Arg::U32(kept.shape().rank() as u32),
        Arg::dims(kept.shape().dims()),
        Arg::dims(kept.strides()),
        Arg::U32(row.shape().rank() as u32),
        Arg::dims(row.shape().dims()),
        Arg::dims(row.strides()),
        Arg::U32(to.shape().rank() as u32),
        Arg::dims(to.shape().dims()),
        Arg::dims(to.strides()),
    ];
    call.launch(&module, "reduce", Geometry::blocks(group.blocks * group.segments, BLOCK)?, &args)?;
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
    finish(call, &module(out.dtype(), Reduction::Sum), out, count, scale)
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
