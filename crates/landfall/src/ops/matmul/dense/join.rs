//! The sum of a product's parts on a GPU.

use super::cuda::{Added, added, strides};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::values::Operand;

cuda_kernel! {
    /// Adds up the parts of an element.
    struct Join = "join", BLOCK;
    partial: scratch A,
    addend: input R,
    bias: input R,
    out: output R,
    m: size,
    n: size,
    out_row: size,
    out_column: size,
    bias_step: size,
    parts: size,
    addend_row: size,
    addend_column: size,
}

static SOURCE: Source = Source {
    name: "matmul_join",
    pieces: &[Piece::new("join", include_str!("join.cu"))],
    entries: &[Join::KERNEL],
};

/// Neighbouring elements of a thread, where they are contiguous.
const VECTOR: usize = 4;
/// Threads that share the parts of an element, of so many parts at least.
const WAYS: usize = 8;
const MANY: usize = 16;

/// Adds up the parts of a product of `m` x `n`, which lie in scratch memory one after the other, and what is added to it.
pub(super) fn join(call: &mut Call<'_>, parts: usize, (m, n): (usize, usize)) -> Result<(), Failure> {
    let out = *call.output(0)?;
    let accumulate = call.input(0)?.dtype().accumulate();
    let Added { addend, bias } = added(call);
    // What is not there is not followed.
    let added = addend.unwrap_or(&out);
    let (_, addend_row, addend_column) = strides(added)?;
    let bias_step = bias.map_or(0, |b| b.layout().strides()[0]);
    let (_, out_row, out_column) = strides(&out)?;
    let aligned = |o: &Operand| o.address().is_multiple_of((VECTOR * o.dtype().size()).min(16) as u64);
    let contiguous = out_column == 1 && out_row.is_multiple_of(VECTOR) && aligned(&out);
    let vector = if contiguous && n.is_multiple_of(VECTOR) { VECTOR } else { 1 };
    let ways = if parts >= MANY { WAYS } else { 1 };
    let module = Module::new(&SOURCE)
        .of("A", accumulate)
        .of("R", out.dtype())
        .constant("ADDED", u64::from(addend.is_some()))
        .constant("BIASED", u64::from(bias.is_some()))
        .constant("VECTOR", vector as u64)
        .constant("WAYS", ways as u64);
    let args = Join {
        partial: 0,
        addend: added,
        bias: bias.unwrap_or(&out),
        out: &out,
        m,
        n,
        out_row,
        out_column,
        bias_step,
        parts,
        addend_row,
        addend_column,
    };
    call.launch(&module, Geometry::linear((m * n).div_ceil(vector) * ways, BLOCK)?, &args)
}
