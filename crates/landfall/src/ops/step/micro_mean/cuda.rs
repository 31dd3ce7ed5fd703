//! Means over micro-batches on a GPU.

use super::MicroMean;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::{gapless, stride};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, collapse};

const BLOCK: u32 = 256;
/// Elements of a thread.
const EACH: usize = 4;

static SOURCE: Source = Source {
    name: "micro_mean",
    text: include_str!("micro_mean.cu"),
    entries: &[Entry {
        name: "micro_mean",
        block: BLOCK,
        params: &[
            Param::input("value", "T"),
            Param::input_is("cursor", DType::I64),
            Param::output("mean", "T"),
            Param::u64("n"),
            Param::f64("factor"),
            Param::u64("stride_cursor"),
            Param::u32("gapless"),
            Param::u32("rank"),
            Param::dims("shape"),
            Param::dims("stride_value"),
            Param::dims("stride_mean"),
        ],
    }],
};

/// [`MicroMean`].
pub(super) fn micro_mean(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MicroMean>(op)?;
    let (value, cursor, mean) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = mean.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let mut layouts = [*value.layout(), *mean.layout()];
    collapse(&mut layouts);
    let args = [
        Arg::Input(&value),
        Arg::Input(&cursor),
        Arg::Output(&mean),
        Arg::U64(n as u64),
        Arg::F64(op.factor()),
        Arg::U64(stride(&cursor)),
        Arg::U32(gapless(&[(&value, &layouts[0]), (&mean, &layouts[1])], EACH)),
        Arg::U32(layouts[0].shape().rank() as u32),
        Arg::dims(layouts[0].shape().dims()),
        Arg::dims(layouts[0].strides()),
        Arg::dims(layouts[1].strides()),
    ];
    let module = Module::new(&SOURCE).of("T", mean.dtype());
    call.launch(&module, "micro_mean", Geometry::linear(n.div_ceil(EACH), BLOCK)?, &args)
}
