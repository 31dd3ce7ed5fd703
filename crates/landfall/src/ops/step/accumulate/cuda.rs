//! Running sums on a GPU.

use crate::contract::Op;
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};

const BLOCK: u32 = 128;

cuda_kernel! {
    /// A thread adds a value to the sum of its group.
    struct Sums = "accumulate", BLOCK;
    groups: view_in_of I64,
    values: view_in_of F64,
    sums: view_out_of F64,
    faults: faults,
    rows: size,
    columns: size,
    count: size,
}

static SOURCE: Source = Source {
    name: "accumulate",
    pieces: &[Piece::new("accumulate", include_str!("accumulate.cu"))],
    entries: &[Sums::KERNEL],
};

/// [`super::Accumulate`].
pub(super) fn accumulate(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (groups, values, sums) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let (rows, shape) = (groups.spec().shape.elements(), sums.spec().shape);
    let &[count, columns] = shape.dims() else { return Ok(()) };
    if rows == 0 {
        return Ok(());
    }
    let args = Sums { groups: &groups, values: &values, sums: &sums, faults: (), rows, columns, count };
    call.launch(&Module::new(&SOURCE), Geometry::linear(rows * columns.max(1), BLOCK)?, &args)
}
