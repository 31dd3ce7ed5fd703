//! [`AssignRows`] on a GPU.

use super::AssignRows;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

cuda_kernel! {
    /// A thread writes an element.
    struct Rows = "assign_rows", BLOCK;
    rows: view_in T,
    start: input_of I64,
    target: view_out T,
    faults: faults,
    n: size,
    /// The last start for which the rows fit, and the step along the axis.
    last: size,
    step: size,
    rank: u32,
    shape: dims,
}

static SOURCE: Source = Source {
    name: "assign_rows",
    pieces: &[Piece::new("assign_rows", include_str!("assign_rows.cu"))],
    entries: &[Rows::KERNEL],
};

/// [`AssignRows`].
pub(super) fn assign_rows(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let axis = attributes::<AssignRows>(op)?.axis;
    let (rows, start, target) = (call.input(1)?, call.input(2)?, call.output(0)?);
    let shape = rows.spec().shape;
    let n = shape.elements();
    if n == 0 {
        return Ok(());
    }
    let args = Rows {
        rows,
        start,
        target,
        faults: (),
        n,
        last: target.spec().shape.dims()[axis] - shape.dims()[axis],
        step: target.layout().strides()[axis],
        rank: shape.rank() as u32,
        shape: shape.dims(),
    };
    let module = Module::new(&SOURCE).of("T", rows.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)
}
