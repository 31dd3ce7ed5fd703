//! [`Gather`] on a GPU.

use super::Gather;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::indexing::parts::NAMED;
use crate::values::collapse;

cuda_kernel! {
    /// A thread picks an element.
    struct Pick = "gather", BLOCK;
    x: input T,
    index: input_of I64,
    out: output T,
    faults: faults,
    n: size,
    size: size,
    step: size,
    count: size,
    rest: size,
    inner: size,
    narrow_offsets: flag,
    rank: u32,
    shape: dims,
    x_stride: dims,
    index_stride: dims,
    out_stride: dims,
}

static SOURCE: Source = Source {
    name: "gather",
    pieces: &[NAMED, Piece::new("gather", include_str!("gather.cu"))],
    entries: &[Pick::KERNEL],
};

/// [`Gather`].
pub(super) fn gather(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Gather>(op)?;
    let (x, index, out) = (call.input(0)?, call.input(1)?, call.output(0)?);
    let p = op.indexing().parts(x.layout(), index.layout(), out.layout())?;
    let n = p.picked.shape().elements();
    if n == 0 {
        return Ok(());
    }
    let mut layouts = [p.table, p.index, p.picked];
    collapse(&mut layouts);
    let [table, by, picked] = &layouts;
    let args = Pick {
        x,
        index,
        out,
        faults: (),
        n,
        size: p.size,
        step: p.step,
        count: p.count,
        rest: p.rest,
        inner: p.inner,
        narrow_offsets: n < 1 << 31 && layouts.iter().all(|l| l.span().len() as u64 <= 1 << 32),
        rank: picked.shape().rank() as u32,
        shape: picked.shape().dims(),
        x_stride: table.strides(),
        index_stride: by.strides(),
        out_stride: picked.strides(),
    };
    let module = Module::new(&SOURCE).of("T", x.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)
}
