//! Layouts of operands of one shape in device memory: the host side of elementwise kernels.

use crate::values::{Operand, collapse};

/// Operands of one shape with as few common axes as possible.
pub(crate) fn collapsed<const N: usize>(operands: [&Operand; N]) -> [Operand; N] {
    let mut layouts = operands.map(|o| *o.layout());
    collapse(&mut layouts);
    std::array::from_fn(|i| operands[i].relaid(layouts[i]))
}

/// Whether aligned runs of `n` elements of each operand can be moved by vector accesses.
pub(crate) fn contiguous(operands: &[&Operand], n: usize) -> bool {
    let fits = |o: &&Operand| {
        o.layout().is_contiguous() && o.address().is_multiple_of((n * o.dtype().size()).min(16) as u64)
    };
    operands.iter().all(fits)
}
