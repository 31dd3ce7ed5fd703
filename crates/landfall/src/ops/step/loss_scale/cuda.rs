//! The loss scale on a GPU.

use super::LossScale;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::DType;

static SOURCE: Source = Source {
    name: "loss_scale",
    text: include_str!("loss_scale.cu"),
    entries: &[Entry {
        name: "loss_scale",
        block: 32,
        params: &[
            Param::output_is("state", DType::F32),
            Param::input_is("ok", DType::Bool),
            Param::u64("stride"),
            Param::u64("interval"),
            Param::f64("growth"),
            Param::f64("backoff"),
            Param::f64("least"),
        ],
    }],
};

/// [`LossScale`].
pub(super) fn loss_scale(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<LossScale>(op)?;
    let (ok, state) = (*call.input(1)?, *call.output(0)?);
    let args = [
        Arg::Output(&state),
        Arg::Input(&ok),
        Arg::U64(state.layout().strides()[0] as u64),
        Arg::U64(op.interval as u64),
        Arg::F64(op.growth),
        Arg::F64(op.backoff),
        Arg::F64(op.least),
    ];
    call.launch(&Module::new(&SOURCE), "loss_scale", Geometry::blocks(1, 32)?, &args)
}
