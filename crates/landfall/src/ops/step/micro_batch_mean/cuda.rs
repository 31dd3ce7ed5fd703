//! Means over micro-batches on a GPU.

use super::MicroBatchMean;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::{collapsed, contiguous};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

/// Elements of a thread.
const EACH: usize = 4;

cuda_kernel! {
    /// A thread adds its elements to their mean.
    struct Step = "micro_batch_mean", BLOCK;
    value: view_in T,
    cursor: view_in_of I64,
    mean: view_out T,
    n: size,
    factor: f64,
    micro_batches: u32,
    contiguous: flag,
    rank: u32,
    shape: dims,
}

static SOURCE: Source = Source {
    name: "micro_batch_mean",
    pieces: &[Piece::new("micro_batch_mean", include_str!("micro_batch_mean.cu"))],
    entries: &[Step::KERNEL],
};

/// [`MicroBatchMean`].
pub(super) fn micro_batch_mean(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MicroBatchMean>(op)?;
    let (value, cursor, mean) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = mean.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let [value, mean] = &collapsed([&value, &mean]);
    let args = Step {
        value,
        cursor: &cursor,
        mean,
        n,
        factor: op.factor(),
        micro_batches: u32::try_from(op.micro_batches).unwrap_or(u32::MAX),
        contiguous: contiguous(&[value, mean], EACH),
        rank: mean.layout().shape().rank() as u32,
        shape: mean.layout().shape().dims(),
    };
    let module = Module::new(&SOURCE).of("T", mean.dtype());
    call.launch(&module, Geometry::linear(n.div_ceil(EACH), BLOCK)?, &args)
}
