//! CUDA C++ that kernels of several ops share: a [`Source`](crate::cuda::Source) lists what stands before its own.

use super::Piece;

/// Units of adjacent elements, in the accumulation type.
pub const UNITS: Piece = Piece::new("units", include_str!("units.cu"));
/// Rows shared between the threads of a block.
pub const GROUP: Piece = Piece::new("group", include_str!("group.cu"));
/// Rows of an operand: `RowView`.
pub const ROWS: Piece = Piece::new("rows", include_str!("rows.cu"));
/// Rows that a group of lanes reads once, as most are.
pub const SINGLE_PASS: Piece = Piece::new("single_pass", include_str!("single_pass.cu"));
/// Columns shared between the threads of a block.
pub const COLUMNS: Piece = Piece::new("columns", include_str!("columns.cu"));
/// Fragments of 16-bit floats for tensor cores.
pub const FRAGMENTS: Piece = Piece::new("fragments", include_str!("fragments.cu"));
/// Random words of an op.
pub const WORDS: Piece = Piece::new("words", include_str!("words.cu"));
/// Columns of which a thread takes several. (With `COLUMNS`.)
pub const STRIPS: Piece = Piece::new("strips", include_str!("strips.cu"));
/// Sums over the threads of a block before each.
pub const SCAN: Piece = Piece::new("scan", include_str!("scan.cu"));
