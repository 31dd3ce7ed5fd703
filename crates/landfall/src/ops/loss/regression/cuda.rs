//! Regression losses and their gradients on a GPU.

use super::Term;
use crate::contract::Op;
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::reduce::reduction::{sum_partials, unit};
use crate::values::{DType, Layout, Operand, Spec, collapse};

const BLOCK: u32 = 256;
/// Units of a thread, at least, before there is another block to sum over.
const UNITS: usize = 4;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next unit.
const MAX_BLOCKS: usize = 1024;

static SOURCE: Source = Source {
    name: "loss",
    text: concat!(include_str!("../../../kernel/cuda/units.cu"), include_str!("loss.cu")),
    entries: &[
        Entry {
            name: "sum_terms",
            block: BLOCK,
            params: &[
                Param::input("prediction", "T"),
                Param::input("target", "T"),
                Param::output("out", "T"),
                Param::scratch_is("partial", DType::F64),
                Param::u64("n"),
                Param::f64("scale"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_p"),
                Param::dims("stride_t"),
            ],
        },
        Entry {
            name: "slopes",
            block: BLOCK,
            params: &[
                Param::input("prediction", "T"),
                Param::input("target", "T"),
                Param::input("cotangent", "T"),
                Param::output("out", "T"),
                Param::u64("n"),
                Param::f64("scale"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_p"),
                Param::dims("stride_t"),
                Param::dims("stride_out"),
            ],
        },
    ],
};

fn module(dtype: DType, term: Term) -> Module {
    let square = u64::from(term == Term::Square);
    let module = Module::new(&SOURCE).of("T", dtype).of("A", dtype.accumulate());
    module.constant("UNIT", unit(dtype) as u64).constant("IS_SQUARE", square)
}

fn blocks(args: &Spec) -> usize {
    args.shape.elements().div_ceil(UNITS * unit(args.dtype) * BLOCK as usize).min(MAX_BLOCKS)
}

/// Layouts with as few axes as they have in common, and whether units lie side by side in all of them, aligned.
fn collapsed<const K: usize>(operands: [&Operand; K]) -> ([Layout; K], u32) {
    let mut layouts = operands.map(|o| *o.layout());
    collapse(&mut layouts);
    let sides = |(o, l): (&&Operand, &Layout)| {
        l.is_contiguous() && o.address().is_multiple_of((unit(o.dtype()) * o.dtype().size()).min(16) as u64)
    };
    let gapless = operands.iter().zip(&layouts).all(sides);
    (layouts, u32::from(gapless))
}

/// Bytes of the blocks' sums.
pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let blocks = args.first().map_or(0, blocks);
    if blocks > 1 { blocks * size_of::<f64>() } else { 0 }
}

/// [`super::Mse`] and [`super::Mae`].
pub(super) fn forward(term: Term, call: &mut Call<'_>) -> Result<(), Failure> {
    let (p, t, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let n = p.spec().shape.elements();
    let (blocks, scale) = (blocks(&p.spec()), 1.0 / n as f64);
    if n > 0 {
        let ([from_p, from_t], gapless) = collapsed([&p, &t]);
        let args = [
            Arg::Input(&p),
            Arg::Input(&t),
            Arg::Output(&out),
            Arg::Scratch(0),
            Arg::U64(n as u64),
            Arg::F64(scale),
            Arg::U32(gapless),
            Arg::U32(from_p.shape().rank() as u32),
            Arg::dims(from_p.shape().dims()),
            Arg::dims(from_p.strides()),
            Arg::dims(from_t.strides()),
        ];
        call.launch(&module(p.dtype(), term), "sum_terms", Geometry::blocks(blocks, BLOCK)?, &args)?;
    }
    if blocks == 1 { Ok(()) } else { sum_partials(call, &out, blocks, scale) }
}

/// [`super::MseGrad`] and [`super::MaeGrad`].
pub(super) fn backward(term: Term, call: &mut Call<'_>) -> Result<(), Failure> {
    let (p, t, c, out) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let ([from_p, from_t, to], gapless) = collapsed([&p, &t, &out]);
    let args = [
        Arg::Input(&p),
        Arg::Input(&t),
        Arg::Input(&c),
        Arg::Output(&out),
        Arg::U64(n as u64),
        Arg::F64(1.0 / n as f64),
        Arg::U32(gapless),
        Arg::U32(to.shape().rank() as u32),
        Arg::dims(to.shape().dims()),
        Arg::dims(from_p.strides()),
        Arg::dims(from_t.strides()),
        Arg::dims(to.strides()),
    ];
    call.launch(
        &module(p.dtype(), term),
        "slopes",
        Geometry::linear(n.div_ceil(unit(out.dtype())), BLOCK)?,
        &args,
    )
}
