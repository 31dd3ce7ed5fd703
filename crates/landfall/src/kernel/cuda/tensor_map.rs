//! Tensor maps: descriptors of TMA tiles, for Hopper and later. The driver encodes them.

use super::Tile;

/// Words of a tensor map.
pub(crate) const WORDS: usize = 16;

/// Maximum number of axes of a tensor map.
pub(crate) const MAX_AXES: usize = 5;

/// The error text of an invalid tile.
pub(crate) fn refused(tile: &Tile<'_>) -> Result<(), String> {
    let (axes, strides) = (tile.axes, tile.operand.layout.strides());
    if !(1..=MAX_AXES).contains(&axes.len()) {
        return Err(format!("a tensor map has 1 to {MAX_AXES} axes, not {}", axes.len()));
    }
    if let Some((axis, _)) = axes.iter().find(|a| a.0 >= strides.len()) {
        return Err(format!("axis is {axis}, the operand's rank is {}", strides.len()));
    }
    match strides[axes[0].0] {
        1 => Ok(()),
        stride => Err(format!("its first axis must be contiguous, its stride is {stride}")),
    }
}
