//! How lines of a factor get to shared memory: the host side of `lines.cu`.

use crate::kernel::cuda::Piece;
use crate::values::Operand;

pub(super) const LINES: Piece = Piece::new("lines", include_str!("lines.cu"));
/// Elements that are added to a line, so that neighbouring lines lie in different banks.
pub(super) const REST: usize = 8;
/// Elements that one access moves.
const CHUNK: usize = 8;

/// Whether lines of `length` elements can be moved by chunks.
pub(super) fn by_chunks(of: &Operand, length: usize, line_step: usize, step: usize) -> bool {
    let bytes = CHUNK * of.dtype().size();
    step == 1
        && length.is_multiple_of(CHUNK)
        && line_step.is_multiple_of(CHUNK)
        && of.address().is_multiple_of(bytes as u64)
}
