//! Softmax, cross-entropy and its gradient on a GPU.

use super::Softmax;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::reduce::reduction::{BLOCK, Group, across, gapless, split, sum_partials, unit};
use crate::values::{DType, Layout, Operand, Rule, Spec, collapse};

/// Blocks that sum losses, at most: what a large GPU holds at once. Each goes on with the next rows.
const MAX_BLOCKS: usize = 1024;

/// A kernel over rows: its own parameters, then those of [`Rows::args`].
macro_rules! over_rows {
    ($name:literal $($own:expr),*) => {
        Entry {
            name: $name,
            block: BLOCK,
            params: &[
                $($own,)*
                Param::u64("rows"),
                Param::u64("classes"),
                Param::u32("lanes"),
                Param::u32("across"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("shape_row"),
                Param::u32("gapless_x"),
                Param::dims("stride_x"),
                Param::dims("stride_row_x"),
                Param::u32("gapless_out"),
                Param::dims("stride_out"),
                Param::dims("stride_row_out"),
                Param::dims("stride_labels"),
            ],
        }
    };
}
/// Parameters that [`over_rows`] adds.
const SHARED: usize = 14;
/// Parameters of their own, at most.
const OWN: usize = 6;

static SOURCE: Source = Source {
    name: "softmax",
    text: concat!(
        include_str!("../../../kernel/cuda/units.cu"),
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/rows.cu"),
        include_str!("softmax.cu")
    ),
    entries: &[
        over_rows!("softmax" Param::input("x", "T"), Param::output("out", "T")),
        over_rows!("cross_entropy"
            Param::input("x", "T"),
            Param::input_is("labels", DType::I64),
            Param::output("out", "T"),
            Param::scratch_is("partial", DType::F64),
            Param::faults("faults"),
            Param::f64("scale")
        ),
        over_rows!("cross_entropy_grad"
            Param::input("x", "T"),
            Param::input_is("labels", DType::I64),
            Param::input("cotangent", "T"),
            Param::output("out", "T"),
            Param::faults("faults"),
            Param::f64("scale")
        ),
    ],
};

/// Rows along an axis of an argument, of a result of its shape and of labels of the shape without the axis. None is
/// empty. What an op does not have is its argument again.
struct Rows {
    dtype: DType,
    rows: usize,
    group: Group,
    across: u32,
    /// Where rows of x and out start, and labels.
    starts: [Layout; 3],
    /// The elements of a row of x and out.
    row: [Layout; 2],
    gapless: [u32; 2],
}

impl Rows {
    fn new(x: &Operand, out: &Operand, labels: Option<&Operand>, axis: usize) -> Result<Self, Rule> {
        let spec = x.spec();
        let classes = spec.shape.dims()[axis];
        let rows = spec.shape.elements() / classes;
        let (of_x, row_x) = split(x.layout(), |a| a == axis)?;
        let (of_out, row_out) = split(out.layout(), |a| a == axis)?;
        let mut starts = [of_x, of_out, labels.map_or(of_x, |l| *l.layout())];
        collapse(&mut starts);
        Ok(Self {
            dtype: spec.dtype,
            rows,
            group: Group::whole(rows, classes, spec.dtype),
            across: across(&starts[0], &row_x),
            starts,
            row: [row_x, row_out],
            gapless: [gapless(x, &starts[0], &row_x), gapless(out, &starts[1], &row_out)],
        })
    }

    fn args(&self) -> [Arg<'static>; SHARED] {
        let [of_x, of_out, of_labels] = &self.starts;
        let [row_x, row_out] = &self.row;
        [
            Arg::U64(self.rows as u64),
            Arg::U64(row_x.shape().elements() as u64),
            Arg::U32(self.group.lanes as u32),
            Arg::U32(self.across),
            Arg::U32(of_x.shape().rank() as u32),
            Arg::dims(of_x.shape().dims()),
            Arg::dims(row_x.shape().dims()),
            Arg::U32(self.gapless[0]),
            Arg::dims(of_x.strides()),
            Arg::dims(row_x.strides()),
            Arg::U32(self.gapless[1]),
            Arg::dims(of_out.strides()),
            Arg::dims(row_out.strides()),
            Arg::dims(of_labels.strides()),
        ]
    }

    fn launch(
        &self,
        call: &mut Call<'_>,
        entry: &'static str,
        blocks: usize,
        own: &[Arg<'_>],
    ) -> Result<(), Failure> {
        let mut args = [Arg::U32(0); OWN + SHARED];
        let all = own.iter().copied().chain(self.args());
        args.iter_mut().zip(all).for_each(|(to, arg)| *to = arg);
        let module = Module::new(&SOURCE).of("T", self.dtype).of("A", self.dtype.accumulate());
        let module = module.constant("UNIT", unit(self.dtype) as u64);
        call.launch(&module, entry, Geometry::blocks(blocks, BLOCK)?, &args[..own.len() + SHARED])
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
    rows.launch(call, "softmax", rows.group.blocks, &[Arg::Input(&x), Arg::Output(&out)])
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
        let own = [
            Arg::Input(&x),
            Arg::Input(&labels),
            Arg::Output(&out),
            Arg::Scratch(0),
            Arg::Faults,
            Arg::F64(scale),
        ];
        rows.launch(call, "cross_entropy", blocks, &own)?;
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
    let own = [
        Arg::Input(&x),
        Arg::Input(&labels),
        Arg::Input(&cotangent),
        Arg::Output(&out),
        Arg::Faults,
        Arg::F64(1.0 / labels.spec().shape.elements() as f64),
    ];
    rows.launch(call, "cross_entropy_grad", rows.group.blocks, &own)
}
