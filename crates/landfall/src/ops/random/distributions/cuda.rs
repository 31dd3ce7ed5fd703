//! Random tensors and dropout on a GPU.

use super::{Bernoulli, Uniform};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::{gapless, stride};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::random::dropout::Dropout;
use crate::rng;
use crate::values::{DType, collapse};

const BLOCK: u32 = 256;

static SOURCE: Source = Source {
    name: "random",
    text: include_str!("random.cu"),
    entries: &[
        Entry {
            name: "fill_uniform",
            block: BLOCK,
            params: &[
                Param::input_is("cursor", DType::I64),
                Param::u64("stride_cursor"),
                Param::u32("stream"),
                Param::output("out", "T"),
                Param::u64("n"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_out"),
                Param::f64("low"),
                Param::f64("range"),
            ],
        },
        Entry {
            name: "fill_bernoulli",
            block: BLOCK,
            params: &[
                Param::input_is("cursor", DType::I64),
                Param::u64("stride_cursor"),
                Param::u32("stream"),
                Param::output_is("out", DType::Bool),
                Param::u64("n"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_out"),
                Param::u64("threshold"),
            ],
        },
        Entry {
            name: "dropout",
            block: BLOCK,
            params: &[
                Param::input_is("cursor", DType::I64),
                Param::u64("stride_cursor"),
                Param::u32("stream"),
                Param::input("x", "T"),
                Param::output("out", "T"),
                Param::u64("n"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_x"),
                Param::dims("stride_out"),
                Param::u64("threshold"),
                Param::f64("scale"),
            ],
        },
    ],
};

/// [`Uniform`].
pub(super) fn uniform(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Uniform>(op)?;
    let (cursor, out) = (*call.input(0)?, *call.output(0)?);
    let each = if out.dtype() == DType::F64 { 2 } else { 4 };
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let mut layout = [*out.layout()];
    collapse(&mut layout);
    let args = [
        Arg::Input(&cursor),
        Arg::U64(stride(&cursor)),
        Arg::U32(op.stream),
        Arg::Output(&out),
        Arg::U64(n as u64),
        Arg::U32(gapless(&[(&out, &layout[0])], each)),
        Arg::U32(layout[0].shape().rank() as u32),
        Arg::dims(layout[0].shape().dims()),
        Arg::dims(layout[0].strides()),
        Arg::F64(op.low),
        Arg::F64(op.high - op.low),
    ];
    let module = Module::new(&SOURCE).of("T", out.dtype());
    call.launch(&module, "fill_uniform", Geometry::linear(n.div_ceil(each), BLOCK)?, &args)
}

/// [`Bernoulli`].
pub(super) fn bernoulli(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Bernoulli>(op)?;
    let (cursor, out) = (*call.input(0)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let mut layout = [*out.layout()];
    collapse(&mut layout);
    let args = [
        Arg::Input(&cursor),
        Arg::U64(stride(&cursor)),
        Arg::U32(op.stream),
        Arg::Output(&out),
        Arg::U64(n as u64),
        Arg::U32(gapless(&[(&out, &layout[0])], 4)),
        Arg::U32(layout[0].shape().rank() as u32),
        Arg::dims(layout[0].shape().dims()),
        Arg::dims(layout[0].strides()),
        Arg::U64(rng::threshold(op.keep)),
    ];
    // The element type is the other kernels'; any float will do.
    let module = Module::new(&SOURCE).of("T", DType::F32);
    call.launch(&module, "fill_bernoulli", Geometry::linear(n.div_ceil(4), BLOCK)?, &args)
}

/// [`Dropout`].
pub(in crate::ops) fn dropout(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Dropout>(op)?;
    let (x, cursor, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let mut layouts = [*out.layout(), *x.layout()];
    collapse(&mut layouts);
    let keep = 1.0 - op.rate;
    let args = [
        Arg::Input(&cursor),
        Arg::U64(stride(&cursor)),
        Arg::U32(op.stream),
        Arg::Input(&x),
        Arg::Output(&out),
        Arg::U64(n as u64),
        Arg::U32(gapless(&[(&out, &layouts[0]), (&x, &layouts[1])], 4)),
        Arg::U32(layouts[0].shape().rank() as u32),
        Arg::dims(layouts[0].shape().dims()),
        Arg::dims(layouts[1].strides()),
        Arg::dims(layouts[0].strides()),
        Arg::U64(rng::threshold(keep)),
        Arg::F64(1.0 / keep),
    ];
    let module = Module::new(&SOURCE).of("T", out.dtype());
    call.launch(&module, "dropout", Geometry::linear(n.div_ceil(4), BLOCK)?, &args)
}
