//! Softmax, cross-entropy and its gradient on a GPU.

use super::Softmax;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    Call, Failure, GROUP, Geometry, KernelArgs, Module, Piece, ROWS, RowFrame, RowView, SINGLE_PASS, Source,
    UNITS, cuda_kernel,
};
use crate::ops::reduce::reduction::{BLOCK, Group, across, kept, row_view, split, sum_partials, unit};
use crate::values::{DType, Layout, Operand, Rule, Spec, collapse};

/// Blocks that sum losses, at most: what a large GPU holds at once. Each goes on with the next rows.
const MAX_BLOCKS: usize = 1024;

cuda_kernel! {
    /// A group of lanes takes a row.
    struct Quotients = "softmax", BLOCK;
    frame: row_frame,
    x: rows_in T,
    out: rows_out T,
}

cuda_kernel! {
    /// The sum of the losses of a block's rows.
    struct Losses = "cross_entropy", BLOCK;
    frame: row_frame,
    x: rows_in T,
    labels: view_in_of I64,
    out: output T,
    partial: scratch_of F64,
    faults: faults,
    scale: f64,
}

cuda_kernel! {
    /// As softmax, of rows with labels.
    struct Slopes = "cross_entropy_grad", BLOCK;
    frame: row_frame,
    x: rows_in T,
    labels: view_in_of I64,
    cotangent: input T,
    out: rows_out T,
    faults: faults,
    scale: f64,
}

static SOURCE: Source = Source {
    name: "softmax",
    pieces: &[UNITS, GROUP, ROWS, SINGLE_PASS, Piece::new("softmax", include_str!("softmax.cu"))],
    entries: &[Quotients::KERNEL, Losses::KERNEL, Slopes::KERNEL],
};

/// The module for these rows, in all that is read and written.
fn module(dtype: DType, frame: &RowFrame<'_>, views: &[RowView<'_>]) -> Module {
    let module = Module::new(&SOURCE).of("T", dtype).of("A", dtype.accumulate());
    let module = module.constant("UNIT", unit(dtype) as u64);
    let (lanes, passes) = kept(frame, dtype, views);
    module.constant("SINGLE_PASS", lanes).constant("PASSES", passes)
}

/// Rows along an axis of an argument, of a result of its shape and of labels of the shape without the axis. None is
/// empty. What an op does not have is its argument again.
struct Rows {
    group: Group,
    across: u32,
    /// Where rows of x and out start, and labels.
    starts: [Layout; 3],
    /// The elements of a row of x and out.
    row: [Layout; 2],
}

impl Rows {
    fn new(x: &Operand, out: &Operand, labels: Option<&Operand>, axis: usize) -> Result<Self, Rule> {
        let spec = x.spec();
        let classes = spec.shape.dims()[axis];
        let (of_x, row_x) = split(x.layout(), |a| a == axis)?;
        let (of_out, row_out) = split(out.layout(), |a| a == axis)?;
        let mut starts = [of_x, of_out, labels.map_or(of_x, |l| *l.layout())];
        collapse(&mut starts);
        Ok(Self {
            group: Group::whole(spec.shape.elements() / classes, classes, spec.dtype),
            across: across(&starts[0], &row_x),
            starts,
            row: [row_x, row_out],
        })
    }

    fn frame(&self) -> RowFrame<'_> {
        let ([starts, ..], [row, _]) = (&self.starts, &self.row);
        let (count, length) = (starts.shape().elements(), row.shape().elements());
        RowFrame { count, length, lanes: self.group.lanes as u32, across: self.across, starts, row }
    }

    fn x<'a>(&'a self, operand: &'a Operand) -> RowView<'a> {
        row_view(operand, &self.starts[0], &self.row[0])
    }

    fn out<'a>(&'a self, operand: &'a Operand) -> RowView<'a> {
        row_view(operand, &self.starts[1], &self.row[1])
    }

    fn labels(&self, operand: &Operand) -> Operand {
        operand.relaid(self.starts[2])
    }
}

/// [`Softmax`].
pub(super) fn softmax(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Softmax>(op)?;
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    if x.spec().shape.elements() == 0 {
        return Ok(());
    }
    let rows = Rows::new(&x, &out, None, op.axis)?;
    let args = Quotients { frame: rows.frame(), x: rows.x(&x), out: rows.out(&out) };
    let module = module(x.dtype(), &args.frame, &[args.x, args.out]);
    call.launch(&module, Geometry::blocks(rows.group.blocks, BLOCK)?, &args)
}

/// Blocks that sum the losses of logits.
fn loss_blocks(logits: &Spec) -> usize {
    let classes = logits.shape.last();
    let rows = logits.shape.elements() / classes.max(1);
    if rows == 0 { 0 } else { Group::whole(rows, classes, logits.dtype).blocks.min(MAX_BLOCKS) }
}

/// Bytes of the blocks' sums.
pub(in crate::ops) fn loss_workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let blocks = args.first().map_or(0, loss_blocks);
    if blocks > 1 { blocks * size_of::<f64>() } else { 0 }
}

/// [`crate::ops::loss::cross_entropy::CrossEntropy`].
pub(in crate::ops) fn cross_entropy(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (x, labels, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let blocks = loss_blocks(&x.spec());
    let scale = 1.0 / labels.spec().shape.elements() as f64;
    if blocks > 0 {
        let rows = Rows::new(&x, &x, Some(&labels), x.spec().shape.rank() - 1)?;
        let args = Losses {
            frame: rows.frame(),
            x: rows.x(&x),
            labels: &rows.labels(&labels),
            out: &out,
            partial: 0,
            faults: (),
            scale,
        };
        let module = module(x.dtype(), &args.frame, &[args.x]);
        call.launch(&module, Geometry::blocks(blocks, BLOCK)?, &args)?;
    }
    if blocks == 1 { Ok(()) } else { sum_partials(call, &out, blocks, scale) }
}

/// [`crate::ops::loss::cross_entropy::CrossEntropyGrad`].
pub(in crate::ops) fn cross_entropy_grad(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (x, labels, cotangent, out) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    if x.spec().shape.elements() == 0 {
        return Ok(());
    }
    let rows = Rows::new(&x, &out, Some(&labels), x.spec().shape.rank() - 1)?;
    let args = Slopes {
        frame: rows.frame(),
        x: rows.x(&x),
        labels: &rows.labels(&labels),
        cotangent: &cotangent,
        out: rows.out(&out),
        faults: (),
        scale: 1.0 / labels.spec().shape.elements() as f64,
    };
    let module = module(x.dtype(), &args.frame, &[args.x, args.out]);
    call.launch(&module, Geometry::blocks(rows.group.blocks, BLOCK)?, &args)
}
