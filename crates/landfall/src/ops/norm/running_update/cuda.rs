//! Running statistics on a GPU.

use super::RunningUpdate;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, collapse};

const BLOCK: u32 = 256;

static SOURCE: Source = Source {
    name: "running_update",
    text: include_str!("running_update.cu"),
    entries: &[Entry {
        name: "running_update",
        block: BLOCK,
        params: &[
            Param::input("batch", "T"),
            Param::input_is("ok", DType::Bool),
            Param::output("running", "T"),
            Param::u64("n"),
            Param::f64("keep"),
            Param::f64("take"),
            Param::u32("rank"),
            Param::dims("shape"),
            Param::dims("stride_batch"),
            Param::dims("stride_running"),
        ],
    }],
};

/// [`RunningUpdate`].
pub(super) fn running_update(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (keep, take) = attributes::<RunningUpdate>(op)?.factors();
    let (batch, ok, running) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = running.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let mut layouts = [*batch.layout(), *running.layout()];
    collapse(&mut layouts);
    let args = [
        Arg::Input(&batch),
        Arg::Input(&ok),
        Arg::Output(&running),
        Arg::U64(n as u64),
        Arg::F64(keep),
        Arg::F64(take),
        Arg::U32(layouts[0].shape().rank() as u32),
        Arg::dims(layouts[0].shape().dims()),
        Arg::dims(layouts[0].strides()),
        Arg::dims(layouts[1].strides()),
    ];
    let module = Module::new(&SOURCE).of("T", running.dtype());
    call.launch(&module, "running_update", Geometry::linear(n, BLOCK)?, &args)
}
