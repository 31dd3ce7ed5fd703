//! Adam on a GPU.

use super::Adam;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::vectors::contiguous;
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

cuda_kernel! {
    /// A thread updates units of elements.
    struct Update = "adam", BLOCK;
    param: view_out T,
    grad: view_in G,
    m: view_out A,
    v: view_out A,
    cursor: input_of I64,
    lr: input_of F64,
    scale: input A,
    ok: input_of Bool,
    n: size,
    decayed: size,
    decoupled: flag,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    contiguous: flag,
}

static SOURCE: Source = Source {
    name: "adam",
    pieces: &[Piece::new("adam", include_str!("adam.cu"))],
    entries: &[Update::KERNEL],
};

/// Elements that a thread updates at once: `N` in the source.
const UNIT: usize = 4;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next unit; all have as many.
const MAX_BLOCKS: usize = 640;

/// [`Adam`].
pub(super) fn adam(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Adam>(op)?;
    let (param, m, v) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (grad, cursor, lr) = (*call.input(1)?, *call.input(4)?, *call.input(5)?);
    let (scale, ok) = (*call.input(6)?, *call.input(7)?);
    let n = param.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let args = Update {
        param: &param,
        grad: &grad,
        m: &m,
        v: &v,
        cursor: &cursor,
        lr: &lr,
        scale: &scale,
        ok: &ok,
        n,
        // Without decay there is nothing to multiply by one.
        decayed: if op.weight_decay == 0.0 { 0 } else { op.decay_elements },
        decoupled: op.decoupled,
        beta1: op.beta1,
        beta2: op.beta2,
        eps: op.eps,
        weight_decay: op.weight_decay,
        contiguous: contiguous(&[&param, &grad, &m, &v], UNIT),
    };
    let module = Module::new(&SOURCE).of("T", param.dtype()).of("G", grad.dtype()).of("A", m.dtype());
    let blocks = Geometry::shares(n.div_ceil(UNIT * BLOCK as usize), MAX_BLOCKS);
    call.launch(&module, Geometry::blocks(blocks, BLOCK)?, &args)
}
