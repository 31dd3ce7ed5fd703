//! How operands of one shape lie in device memory: the host's side of kernels that go through all elements.

use crate::values::{Operand, collapse};

/// Operands of one shape with as few axes as they have in common.
pub(crate) fn collapsed<const N: usize>(operands: [&Operand; N]) -> [Operand; N] {
    let mut layouts = operands.map(|o| *o.layout());
    collapse(&mut layouts);
    std::array::from_fn(|i| operands[i].relaid(layouts[i]))
}

/// Whether a run of `n` elements of each operand, from a multiple of `n` on, can be moved by whole accesses.
pub(crate) fn contiguous(operands: &[&Operand], n: usize) -> bool {
    let fits = |o: &&Operand| {
        o.layout().is_contiguous() && o.address().is_multiple_of((n * o.dtype().size()).min(16) as u64)
    };
    operands.iter().all(fits)
}
