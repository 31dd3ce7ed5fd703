//! Reductions on a GPU.

use super::group::{BLOCK, Group, across, contiguous, unit};
use super::{Reduce, Reduction};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    Call, Failure, GROUP, Geometry, KernelArgs, Module, Piece, Source, UNITS, cuda_kernel,
};
use crate::values::{DType, Layout, Operand, Spec};

cuda_kernel! {
    /// A group of lanes takes a segment of a row.
    struct OfRows = "reduce", BLOCK;
    x: view_in T,
    out: view_out R,
    partial: scratch W,
    outputs: size,
    reduced: size,
    lanes: u32,
    segments: size,
    length: size,
    across: u32,
    contiguous: flag,
    scale: f64,
    rank_x: u32,
    shape_x: dims,
    rank_row: u32,
    shape_row: dims,
    stride_row: dims,
    rank_out: u32,
    shape_out: dims,
}

cuda_kernel! {
    /// The same of rows that lie as columns.
    struct OfColumns = "columns", BLOCK;
    x: view_in T,
    out: view_out R,
    partial: scratch W,
    outputs: size,
    reduced: size,
    lanes: u32,
    width: u32,
    segments: size,
    length: size,
    scale: f64,
    rank_x: u32,
    shape_x: dims,
    pitch: size,
    rank_out: u32,
    shape_out: dims,
}

cuda_kernel! {
    /// A warp joins the segments of a row.
    struct Finish = "finish", BLOCK;
    partial: scratch W,
    out: view_out R,
    outputs: size,
    segments: size,
    scale: f64,
    rank_out: u32,
    shape_out: dims,
}

static SOURCE: Source = Source {
    name: "reduce",
    pieces: &[UNITS, GROUP, Piece::new("reduce", include_str!("reduce.cu"))],
    entries: &[OfRows::KERNEL, OfColumns::KERNEL, Finish::KERNEL],
};

/// Integers are reduced in i64, as on the CPU.
fn accumulation(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => DType::F32,
        DType::F64 => DType::F64,
        DType::I32 | DType::I64 | DType::U8 | DType::Bool => DType::I64,
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
    let join = match reduction {
        Reduction::Sum | Reduction::Mean => 0,
        Reduction::Max => 1,
        Reduction::Min => 2,
        Reduction::Prod => 3,
    };
    let totals = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let module =
        Module::new(&SOURCE).of("T", dtype).of("A", accumulation(dtype)).of("W", totals).of("R", result);
    module.constant("UNIT", unit(dtype) as u64).constant("JOIN", join).constant("ACROSS", together as u64)
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
    let across = across(&kept, &row);
    let columns = across == 1 && kept.strides().last() == Some(&1) && row.shape().rank() <= 1;
    let together = if columns { together(&x, &kept, &row) } else { 1 };
    let module = module(x.dtype(), out.dtype(), op.reduction, together);
    let contiguous = contiguous(&x, &kept, &row);
    let (x, to) = (&x.relaid(kept), &out.relaid(out.layout().collapsed()));
    let (lanes, segments, length) = (group.lanes as u32, group.segments, group.length);
    let (rank_x, rank_out) = (kept.shape().rank() as u32, to.layout().shape().rank() as u32);
    let (shape_x, shape_out) = (kept.shape().dims(), to.layout().shape().dims());
    if columns {
        let (width, blocks) = group.columns(outputs, together, x.dtype());
        let args = OfColumns {
            x,
            out: to,
            partial: 0,
            outputs,
            reduced,
            lanes,
            width: width as u32,
            segments,
            length,
            scale,
            rank_x,
            shape_x,
            pitch: row.strides().first().copied().unwrap_or(0),
            rank_out,
            shape_out,
        };
        let block = (width * group.lanes) as u32;
        call.launch(&module, Geometry::blocks(blocks * segments, block)?, &args)?;
    } else {
        let args = OfRows {
            x,
            out: to,
            partial: 0,
            outputs,
            reduced,
            lanes,
            segments,
            length,
            across,
            contiguous,
            scale,
            rank_x,
            shape_x,
            rank_row: row.shape().rank() as u32,
            shape_row: row.shape().dims(),
            stride_row: row.strides(),
            rank_out,
            shape_out,
        };
        call.launch(&module, Geometry::blocks(group.blocks * segments, BLOCK)?, &args)?;
    }
    if segments > 1 { finish(call, &module, &out, segments, scale) } else { Ok(()) }
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
    let to = &out.relaid(out.layout().collapsed());
    let (outputs, shape) = (out.spec().shape.elements(), to.layout().shape());
    let args = Finish {
        partial: 0,
        out: to,
        outputs,
        segments,
        scale,
        rank_out: shape.rank() as u32,
        shape_out: shape.dims(),
    };
    call.launch(module, Geometry::linear(outputs * 32, BLOCK)?, &args)
}
