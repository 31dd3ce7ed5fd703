//! Running statistics on a GPU.

use super::RunningUpdate;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::collapsed;
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

cuda_kernel! {
    /// A thread mixes a statistic of the batch into the running one.
    struct Update = "running_update", BLOCK;
    batch: view_in T,
    ok: input_of Bool,
    running: view_out T,
    n: size,
    keep: f64,
    take: f64,
    rank: u32,
    shape: dims,
}

static SOURCE: Source = Source {
    name: "running_update",
    pieces: &[Piece::new("running_update", include_str!("running_update.cu"))],
    entries: &[Update::KERNEL],
};

/// [`RunningUpdate`].
pub(super) fn running_update(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (keep, take) = attributes::<RunningUpdate>(op)?.factors();
    let (batch, ok, running) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = running.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let [batch, running] = &collapsed([&batch, &running]);
    let args = Update {
        batch,
        ok: &ok,
        running,
        n,
        keep,
        take,
        rank: running.layout().shape().rank() as u32,
        shape: running.layout().shape().dims(),
    };
    let module = Module::new(&SOURCE).of("T", running.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)
}
