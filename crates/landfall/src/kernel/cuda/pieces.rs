//! Shared CUDA C++ sources of several ops.

use super::Piece;

/// Units of adjacent elements, in the accumulation type.
pub(crate) const UNITS: Piece = Piece::new("units", include_str!("units.cu"));
/// Rows shared between the threads of a block.
pub(crate) const GROUP: Piece = Piece::new("group", include_str!("group.cu"));
/// Rows of an operand: `RowView`.
pub(crate) const ROWS: Piece = Piece::new("rows", include_str!("rows.cu"));
/// Rows that a group of lanes reads once, as most are.
pub(crate) const SINGLE_PASS: Piece = Piece::new("single_pass", include_str!("single_pass.cu"));
/// Columns shared between the threads of a block.
pub(crate) const COLUMNS: Piece = Piece::new("columns", include_str!("columns.cu"));
/// Fragments of 16-bit floats for tensor cores.
pub(crate) const FRAGMENTS: Piece = Piece::new("fragments", include_str!("fragments.cu"));
/// Random words of an op.
pub(crate) const WORDS: Piece = Piece::new("words", include_str!("words.cu"));
/// Columns of which a thread takes several. (With `COLUMNS`.)
pub(crate) const STRIPS: Piece = Piece::new("strips", include_str!("strips.cu"));
/// Sums over the threads of a block before each.
pub(crate) const SCAN: Piece = Piece::new("scan", include_str!("scan.cu"));
