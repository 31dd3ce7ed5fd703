//! Operands that are read in boxes by Hopper's copies: what a map of one must hold. The driver encodes it.

use crate::values::Operand;

/// Words of a map.
pub(crate) const WORDS: usize = 16;

/// The most axes of a map.
pub(crate) const MAX_AXES: usize = 5;

/// Says what is wrong with boxes of these axes of an operand, the gapless one first, each with a box's length.
pub(crate) fn refused(of: &Operand, axes: &[(usize, u32)]) -> Result<(), String> {
    let strides = of.layout.strides();
    if !(1..=MAX_AXES).contains(&axes.len()) {
        return Err(format!("a map has 1 to {MAX_AXES} axes, not {}", axes.len()));
    }
    if let Some((axis, _)) = axes.iter().find(|a| a.0 >= strides.len()) {
        return Err(format!("axis is {axis}, the operand's rank is {}", strides.len()));
    }
    match strides[axes[0].0] {
        1 => Ok(()),
        stride => Err(format!("its first axis must be gapless, its stride is {stride}")),
    }
}
