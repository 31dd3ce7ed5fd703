//! Vectors of neighbouring elements in device memory.

use crate::values::{Layout, Operand};

/// Distance between neighbours of a vector.
pub(crate) fn stride(operand: &Operand) -> u64 {
    operand.layout().strides().first().copied().unwrap_or(0) as u64
}

/// Whether a run of `n` elements of each operand, from a multiple of `n` on, can be moved by whole accesses.
pub(crate) fn gapless(operands: &[(&Operand, &Layout)], n: usize) -> u32 {
    let fits = |&(o, l): &(&Operand, &Layout)| {
        l.is_contiguous() && o.address().is_multiple_of((n * o.dtype().size()).min(16) as u64)
    };
    u32::from(operands.iter().all(fits))
}
