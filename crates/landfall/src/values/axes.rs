//! Axes as callers name them: one or several, from the front or, negative, from the end.

use super::rule::Rule;

/// The number of an axis: from the front, or negative from the end, −1 the last.
pub trait Axis: Copy {
    /// Its index in a shape of this rank.
    ///
    /// # Errors
    /// [`Rule::Axis`] if there is no such axis.
    fn index(self, rank: usize) -> Result<usize, Rule>;
}

macro_rules! axis {
    ($($T:ty),*) => { $(
        impl Axis for $T {
            fn index(self, rank: usize) -> Result<usize, Rule> {
                // An index that isize does not hold is beyond every rank.
                let axis = isize::try_from(self).unwrap_or(isize::MAX);
                let from_front = if axis < 0 { axis + rank as isize } else { axis };
                match usize::try_from(from_front) {
                    Ok(index) if index < rank => Ok(index),
                    Ok(_) | Err(_) => Err(Rule::Axis { axis, rank }),
                }
            }
        }
    )* };
}
axis!(usize, isize, i32);

/// The axes of a reduction: a number, an array or slice of numbers, [`All`], or any of these in [`Keep`].
///
/// ```
/// use landfall::{All, DType, Graph, Keep, StateSpec};
/// # use std::sync::Arc;
/// let g = Graph::new(&Arc::new(StateSpec::new()));
/// let x = g.input("x", DType::F32, [4, 3, 2]);
/// assert_eq!(g.shape(g.sum(x, -1)?).dims(), [4, 3]);
/// assert_eq!(g.shape(g.sum(x, [0, 2])?).dims(), [3]);
/// assert_eq!(g.shape(g.mean(x, Keep(-1))?).dims(), [4, 3, 1]);
/// assert_eq!(g.shape(g.max(x, All)?).rank(), 0);
/// # Ok::<(), landfall::Error>(())
/// ```
pub trait Axes {
    /// Whether the axes stay in the shape, with size 1.
    const KEEPS: bool = false;
    /// Their indices in a shape of this rank.
    ///
    /// # Errors
    /// [`Rule::Axis`] if there is no such axis; [`Rule::AxisTwice`] if one is named twice.
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule>;
}

impl<A: Axis> Axes for A {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        Ok(vec![self.index(rank)?])
    }
}

impl<A: Axis> Axes for &[A] {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        let all = self.iter().map(|a| a.index(rank)).collect::<Result<Vec<_>, _>>()?;
        twice(&all).map_or(Ok(all), |axis| Err(Rule::AxisTwice { axis }))
    }
}

/// The first axis that is named twice, if one is.
pub(crate) fn twice(axes: &[usize]) -> Option<usize> {
    axes.iter().enumerate().find(|(i, axis)| axes[..*i].contains(axis)).map(|(_, axis)| *axis)
}

impl<A: Axis, const N: usize> Axes for [A; N] {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        self.as_slice().indices(rank)
    }
}

impl<A: Axis, const N: usize> Axes for &[A; N] {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        self.as_slice().indices(rank)
    }
}

impl<A: Axis> Axes for &Vec<A> {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        self.as_slice().indices(rank)
    }
}

/// Every axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct All;

impl Axes for All {
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        Ok((0..rank).collect())
    }
}

/// The reduced axes stay in the shape, with size 1, so that the result broadcasts against the argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep<A>(pub A);

impl<A: Axes> Axes for Keep<A> {
    const KEEPS: bool = true;
    fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        self.0.indices(rank)
    }
}
