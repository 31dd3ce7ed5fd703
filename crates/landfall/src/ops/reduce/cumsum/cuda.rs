//! [`CumSum`] on a GPU.

use super::CumSum;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel, size,
};
use crate::values::DType;

/// Elements that a thread adds before it looks at the other threads' sums: `EACH` in the source.
const EACH: usize = 4;

cuda_kernel! {
    /// A warp or a block has a row.
    struct Rows = "cumsum", BLOCK;
    x: input T,
    out: output R,
    rows: u32,
    n: size,
    step: size,
    step_out: size,
    reverse: flag,
    rank: u32,
    shape: dims,
    x_stride: dims,
    out_stride: dims,
}

static SOURCE: Source = Source {
    name: "cumsum",
    pieces: &[Piece::new("cumsum", include_str!("cumsum.cu"))],
    entries: &[Rows::KERNEL],
};

/// [`CumSum`].
pub(super) fn cumsum(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<CumSum>(op)?;
    let (x, out) = (call.input(0)?, call.output(0)?);
    let n = x.layout().shape().dims()[op.axis];
    if out.spec().shape.elements() == 0 {
        return Ok(());
    }
    let ((from, step), (to, step_out)) = (op.rows(x.layout())?, op.rows(out.layout())?);
    let rows = from.shape().elements();
    let args = Rows {
        x,
        out,
        rows: size(rows)?,
        n,
        step,
        step_out,
        reverse: op.reverse,
        rank: from.shape().rank() as u32,
        shape: from.shape().dims(),
        x_stride: from.strides(),
        out_stride: to.strides(),
    };
    let totals = if x.dtype().is_float() { DType::F64 } else { DType::I64 };
    // A warp for a row that it passes in a few steps.
    let lanes = if n <= 8 * 32 * EACH { 32 } else { BLOCK as usize };
    let module = Module::new(&SOURCE).of("T", x.dtype()).of("R", out.dtype()).of("W", totals);
    let module = module.constant("LANES", lanes as u64);
    call.launch(&module, Geometry::linear(rows * lanes, BLOCK)?, &args)
}
