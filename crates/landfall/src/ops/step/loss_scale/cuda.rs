//! The loss scale on a GPU.

use super::LossScale;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

cuda_kernel! {
    /// One thread moves the scale.
    struct Update = "loss_scale", 32;
    state: view_out_of F32,
    ok: input_of Bool,
    interval: size,
    growth: f64,
    backoff: f64,
    least: f64,
}

static SOURCE: Source = Source {
    name: "loss_scale",
    pieces: &[Piece::new("loss_scale", include_str!("loss_scale.cu"))],
    entries: &[Update::KERNEL],
};

/// [`LossScale`].
pub(super) fn loss_scale(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<LossScale>(op)?;
    let (ok, state) = (*call.input(1)?, *call.output(0)?);
    let args = Update {
        state: &state,
        ok: &ok,
        interval: op.interval,
        growth: op.growth,
        backoff: op.backoff,
        least: op.least,
    };
    call.launch(&Module::new(&SOURCE), Geometry::blocks(1, 32)?, &args)
}
