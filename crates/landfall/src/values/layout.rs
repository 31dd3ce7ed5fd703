//! Layouts: shape, strides and offset of a view in its buffer. Views are values: creating one moves no data.

use crate::values::rule::Rule;
use crate::values::shape::{MAX_ELEMENTS, MAX_RANK, Shape};
use std::ops::Range;

/// Shape, strides and offset of a view, in elements. Strides are never negative; a broadcast axis has stride 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: [usize; MAX_RANK],
    offset: usize,
}

impl Layout {
    /// The layout of a scalar at offset 0.
    pub(crate) const SCALAR: Self = Self { shape: Shape::SCALAR, strides: [0; MAX_RANK], offset: 0 };

    /// Contiguous layout, from offset 0. Of a shape that no tensor can have ([`Shape::bounded`]) it is a description alone: views
    /// of it are refused.
    #[must_use]
    pub fn contiguous(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        for (axis, &d) in shape.dims().iter().enumerate().rev() {
            strides[axis] = step;
            step = step.saturating_mul(d.max(1));
        }
        Self { shape, strides, offset: 0 }
    }

    /// These strides and this offset, in elements.
    ///
    /// ```
    /// use landfall::Layout;
    /// let columns = Layout::strided([3, 2].into(), &[1, 3], 0)?;
    /// assert_eq!(columns, Layout::contiguous([2, 3].into()).permute(&[1, 0])?);
    /// # Ok::<(), landfall::Rule>(())
    /// ```
    ///
    /// # Errors
    /// There must be as many strides as axes, the shape be one that a tensor can have ([`Shape::bounded`]), and the last
    /// element have an address. Strides of a shape without elements lead nowhere, and are not kept.
    pub fn strided(shape: Shape, strides: &[usize], offset: usize) -> Result<Self, Rule> {
        let refused = || Rule::Strides { shape, strides: strides.to_vec(), offset };
        if strides.len() != shape.rank() || offset > MAX_ELEMENTS {
            return Err(refused());
        }
        let mut out = Self { offset, ..Self::contiguous(shape.bounded()?) };
        if shape.elements() == 0 {
            return Ok(out);
        }
        let mut last = offset;
        for (axis, (&d, &s)) in shape.dims().iter().zip(strides).enumerate() {
            let reach = (d - 1).checked_mul(s).ok_or_else(refused)?;
            last = last.checked_add(reach).filter(|&l| l <= MAX_ELEMENTS).ok_or_else(refused)?;
            // The stride of an axis of one element is never walked, and may be any number.
            out.strides[axis] = s.min(MAX_ELEMENTS);
        }
        Ok(out)
    }

    /// Dimension sizes.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Element stride of each axis.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.rank()]
    }

    /// Elements from the start of the buffer to the first one.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The same layout starting `elements` later.
    #[must_use]
    pub fn shifted(&self, elements: usize) -> Self {
        Self { offset: self.offset.saturating_add(elements), ..*self }
    }

    /// The same layout from offset 0.
    #[must_use]
    pub fn at_origin(&self) -> Self {
        Self { offset: 0, ..*self }
    }

    /// Whether the elements are contiguous in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        if self.shape.elements() == 0 {
            return true;
        }
        let mut step = 1;
        for (&d, &s) in self.shape.dims().iter().zip(self.strides()).rev() {
            if d != 1 {
                if s != step {
                    return false;
                }
                step = step.saturating_mul(d);
            }
        }
        true
    }

    /// Whether no two elements share memory. (Sufficient test: sorted by stride, each axis steps over
    /// all that the smaller ones span; every layout made from a contiguous one by slicing and permuting passes.)
    #[must_use]
    pub fn is_injective(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let mut axes = [(0usize, 0usize); MAX_RANK];
        let mut n = 0;
        for (&d, &s) in self.shape.dims().iter().zip(self.strides()) {
            if d == 0 {
                return true;
            }
            if d > 1 {
                axes[n] = (s, d);
                n += 1;
            }
        }
        axes[..n].sort_unstable();
        let mut span = 1;
        for &(s, d) in &axes[..n] {
            if s < span {
                return false;
            }
            span = s.saturating_mul(d - 1).saturating_add(span);
        }
        true
    }

    /// Range of elements from the first to one past the last, empty if there is none.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        let mut last = self.offset;
        for (&d, &s) in self.shape.dims().iter().zip(self.strides()) {
            if d == 0 {
                return self.offset..self.offset;
            }
            last = last.saturating_add((d - 1).saturating_mul(s));
        }
        self.offset..last.saturating_add(1)
    }

    /// Whether two layouts of one shape have the same strides. (Strides of axes of size 1 do not count.)
    pub(crate) fn walks_like(&self, other: &Self) -> bool {
        let strides = self.strides().iter().zip(other.strides());
        self.shape == other.shape
            && self.shape.dims().iter().zip(strides).all(|(&d, (a, b))| d == 1 || a == b)
    }

    /// Element offset of a multi-index.
    #[must_use]
    pub fn index(&self, at: &[usize]) -> usize {
        self.offset + at.iter().zip(self.strides()).map(|(&i, &s)| i * s).sum::<usize>()
    }

    /// Element offset of the `flat`-th element in row-major order.
    #[must_use]
    pub fn index_flat(&self, mut flat: usize) -> usize {
        let mut at = self.offset;
        for (&d, &s) in self.shape.dims().iter().zip(self.strides()).rev() {
            at += flat % d.max(1) * s;
            flat /= d.max(1);
        }
        at
    }

    /// Axes in the order `axes`.
    ///
    /// # Errors
    /// `axes` must name each axis once.
    pub fn permute(&self, axes: &[usize]) -> Result<Self, Rule> {
        let rank = self.shape.rank();
        let mut seen = [false; MAX_RANK];
        let valid = axes.len() == rank
            && axes.iter().all(|&a| a < rank && !std::mem::replace(&mut seen[a.min(MAX_RANK - 1)], true));
        if !valid {
            return Err(Rule::Permutation { axes: axes.to_vec(), rank });
        }
        let mut out = *self;
        for (to, &from) in axes.iter().enumerate() {
            out.shape.dims_mut()[to] = self.shape.dims()[from];
            out.strides[to] = self.strides[from];
        }
        Ok(out)
    }

    /// Elements `start`, `start + step`, … (`len` of them) along an axis.
    ///
    /// # Errors
    /// The axis must exist, the step be at least 1, and the last element be within the axis.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: usize) -> Result<Self, Rule> {
        let size = self.size(axis)?;
        // One past the last element.
        let behind = match len.checked_sub(1) {
            None => Some(start),
            Some(steps) => steps.checked_mul(step).and_then(|n| n.checked_add(start)?.checked_add(1)),
        };
        let skipped = start.checked_mul(self.strides[axis]).and_then(|n| n.checked_add(self.offset));
        let (Some(offset), true) = (skipped, step > 0 && behind.is_some_and(|end| end <= size)) else {
            return Err(Rule::Slice { axis, start, len, step, size });
        };
        let mut out = Self { offset, ..*self };
        out.shape.dims_mut()[axis] = len;
        // One element alone has no next one, however large the step.
        if len > 1 {
            out.strides[axis] = self.strides[axis].saturating_mul(step);
        }
        Ok(out)
    }

    /// Broadcasts to `shape`: stretches axes of size 1 and prepends axes.
    ///
    /// # Errors
    /// Each size, aligned at the last axis, must be 1 or equal; the shape be one that a tensor can have ([`Shape::bounded`]).
    pub fn broadcast_to(&self, shape: Shape) -> Result<Self, Rule> {
        if self.shape.broadcast(&shape) != Some(shape) {
            return Err(Rule::Broadcast { from: self.shape, to: shape });
        }
        let mut out = Self { shape: shape.bounded()?, strides: [0; MAX_RANK], offset: self.offset };
        let lead = shape.rank() - self.shape.rank();
        for (axis, (&d, &s)) in self.shape.dims().iter().zip(self.strides()).enumerate() {
            let stretched = d == 1 && shape.dims()[lead + axis] != 1;
            out.strides[lead + axis] = if stretched { 0 } else { s };
        }
        Ok(out)
    }

    /// The same elements in the same order with another shape, without moving them.
    ///
    /// # Errors
    /// The element counts must be equal, and the strides must allow it (otherwise copy first).
    pub fn reshape(&self, shape: Shape) -> Result<Self, Rule> {
        if self.shape.elements() != shape.elements() {
            return Err(Rule::Reshape { from: self.shape, to: shape });
        }
        shape.bounded()?;
        let strides = || self.strides().to_vec();
        self.fits(shape).ok_or_else(|| Rule::ReshapeStrides {
            from: self.shape,
            to: shape,
            strides: strides(),
        })
    }

    /// The same elements in the same order with another shape, if the element counts are equal and the strides allow
    /// it. Kernels use this in every call, so it allocates nothing.
    #[must_use]
    pub(crate) fn fits(&self, shape: Shape) -> Option<Self> {
        if self.shape.elements() != shape.elements() {
            return None;
        }
        if shape.elements() == 0 || self.is_contiguous() {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        // Adjacent axes that are contiguous form one run; a new axis must not cross a run's border.
        let mut axes = [(0, 0); MAX_RANK];
        let mut count = 0;
        for (&d, &s) in self.shape.dims().iter().zip(self.strides()).filter(|a| *a.0 != 1) {
            axes[count] = (d, s);
            count += 1;
        }
        let old = &axes[..count];
        let mut out = Self { offset: self.offset, ..Self::contiguous(shape) };
        let (mut from, mut to) = (0, 0);
        while from < old.len() {
            let mut run = old[from].0;
            let mut end = from + 1;
            let mut made = 1;
            let first = to;
            loop {
                while made < run && to < shape.rank() {
                    made *= shape.dims()[to];
                    to += 1;
                }
                if made == run {
                    break;
                }
                if end == old.len() || old[end - 1].1 != old[end].0 * old[end].1 {
                    return None;
                }
                run *= old[end].0;
                end += 1;
            }
            let mut step = old[end - 1].1;
            for axis in (first..to).rev() {
                out.strides[axis] = step;
                step *= shape.dims()[axis];
            }
            from = end;
        }
        Some(out)
    }

    /// Windows of `size` elements every `step` along the last axis: `[.., n]` becomes `[.., (n − size) / step + 1,
    /// size]`; the windows overlap if `step < size`.
    ///
    /// # Errors
    /// The window must fit, the rank be below [`MAX_RANK`], and the windows together be a shape that a tensor can have
    /// ([`Shape::bounded`]).
    pub fn unfold(&self, size: usize, step: usize) -> Result<Self, Rule> {
        let rank = self.shape.rank();
        let n = self.shape.last();
        if rank == 0 || size == 0 || step == 0 || size > n || rank == MAX_RANK {
            return Err(Rule::Unfold { shape: self.shape, size, step });
        }
        let mut out = *self;
        let stride = self.strides[rank - 1];
        out.shape.dims_mut()[rank - 1] = (n - size) / step + 1;
        // One window alone has no next one, however large the step.
        if out.shape.last() > 1 {
            out.strides[rank - 1] = stride.saturating_mul(step);
        }
        out.shape.push(size);
        out.strides[rank] = stride;
        out.shape.bounded()?;
        Ok(out)
    }

    /// Inserts an axis of size 1 before `axis`.
    ///
    /// # Errors
    /// The axis must be at most the rank, and the rank below [`MAX_RANK`].
    pub fn unsqueeze(&self, axis: usize) -> Result<Self, Rule> {
        let rank = self.shape.rank();
        if axis > rank || rank == MAX_RANK {
            return Err(Rule::Axis { axis: axis as isize, rank });
        }
        let mut out = Self { shape: Shape::SCALAR, strides: [0; MAX_RANK], offset: self.offset };
        for i in 0..=rank {
            let old = if i < axis { i } else { i.wrapping_sub(1) };
            let (d, s) = if i == axis { (1, 0) } else { (self.shape.dims()[old], self.strides[old]) };
            out.shape.push(d);
            out.strides[i] = s;
        }
        Ok(out)
    }

    /// Removes an axis of size 1.
    ///
    /// # Errors
    /// The axis must exist and have size 1.
    pub fn squeeze(&self, axis: usize) -> Result<Self, Rule> {
        let size = self.size(axis)?;
        if size != 1 {
            return Err(Rule::Squeeze { axis, size });
        }
        let mut out = Self { shape: self.shape.without(axis), strides: [0; MAX_RANK], offset: self.offset };
        for i in 0..out.shape.rank() {
            out.strides[i] = self.strides[if i < axis { i } else { i + 1 }];
        }
        Ok(out)
    }

    /// The same elements in the same order with as few axes as possible.
    pub(crate) fn collapsed(&self) -> Self {
        let mut layout = *self;
        collapse(std::slice::from_mut(&mut layout));
        layout
    }

    fn size(&self, axis: usize) -> Result<usize, Rule> {
        self.shape
            .dims()
            .get(axis)
            .copied()
            .ok_or(Rule::Axis { axis: axis as isize, rank: self.shape.rank() })
    }
}

/// Joins adjacent axes that are contiguous in all of these layouts of one shape, and drops axes
/// of size 1: the same elements in the same order with as few axes as possible.
pub(crate) fn collapse(layouts: &mut [Layout]) {
    let Some(first) = layouts.first().copied() else { return };
    let dims = first.shape.dims();
    // Axis groups, outermost first: (size, the innermost axis of the group).
    let mut groups = [(0usize, 0usize); MAX_RANK];
    let mut n = 0;
    for (axis, &d) in dims.iter().enumerate() {
        if d == 1 {
            continue;
        }
        if n > 0 {
            let outer = groups[n - 1].1;
            if layouts.iter().all(|l| l.strides[outer] == d * l.strides[axis]) {
                groups[n - 1] = (groups[n - 1].0 * d, axis);
                continue;
            }
        }
        groups[n] = (d, axis);
        n += 1;
    }
    for l in layouts {
        let mut out = Layout { offset: l.offset, ..Layout::SCALAR };
        for &(size, axis) in &groups[..n] {
            out.strides[out.shape.rank()] = l.strides[axis];
            out.shape.push(size);
        }
        *l = out;
    }
}

/// How two memory regions relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The same elements in the same order.
    Identical,
    /// No byte in common.
    Disjoint,
    /// Byte ranges that overlap without being identical.
    Overlapping,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(l: &Layout) -> Vec<usize> {
        (0..l.shape().elements()).map(|i| l.index_flat(i)).collect()
    }

    #[test]
    fn unfold_shares_elements() {
        let l = Layout::contiguous([2, 5].into()).unfold(3, 2).expect("fits");
        assert_eq!(l.shape().dims(), [2, 2, 3]);
        assert_eq!(elements(&l), [0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9]);
        assert!(!l.is_injective());
    }

    #[test]
    fn reshape_refuses_a_transpose() {
        let t = Layout::contiguous([3, 3].into()).permute(&[1, 0]).expect("valid");
        assert!(t.reshape([9].into()).is_err());
        assert_eq!(t.reshape([3, 1, 3].into()).map(|l| elements(&l)), Ok(elements(&t)));
    }

    proptest! {
        /// A reshape that succeeds keeps the elements in order; of a contiguous layout it always succeeds.
        #[test]
        fn reshape_keeps_order(dims in prop::collection::vec(1usize..5, 1..5), perm in any::<u64>(), split in 0usize..4) {
            let shape = Shape::new(&dims).expect("rank is small");
            let base = Layout::contiguous(shape);
            let mut axes: Vec<usize> = (0..dims.len()).collect();
            axes.rotate_left((perm % dims.len() as u64) as usize);
            let view = base.permute(&axes).expect("valid");
            let at = split.min(dims.len());
            let d = view.shape().dims();
            let flat = Shape::from([d[..at].iter().product(), d[at..].iter().product()]);
            if let Ok(r) = view.reshape(flat) {
                prop_assert_eq!(elements(&r), elements(&view));
            }
            prop_assert!(base.reshape(flat).is_ok());
            prop_assert!(view.is_injective());
        }
    }
}
