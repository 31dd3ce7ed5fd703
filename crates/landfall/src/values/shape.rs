//! Shapes: up to [`MAX_RANK`] dimension sizes, stored inline so that describing a tensor never allocates.

use crate::values::dtype::DType;
use crate::values::rule::Rule;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Maximum rank of a tensor.
pub const MAX_RANK: usize = 8;

/// The most elements of a tensor, axes of size 0 not counted. With addresses of 64 bits 2⁴⁸: more bytes than processes and GPUs can
/// address. With addresses of 32 bits, as in WebAssembly, 2²⁶: their widest elements are an eighth of what can be addressed. Arithmetic
/// on sizes has room above it: what is in this bound can be multiplied by any constant of a kernel (on 32 bits up to 32), and added,
/// without overflow.
/// Products of two such numbers have no room, and are taken with saturation.
pub const MAX_ELEMENTS: usize = 1 << if usize::BITS > 48 { 48 } else { 26 };

/// The product of sizes, `usize::MAX` on overflow.
pub(crate) fn product<const N: usize>(sizes: [usize; N]) -> usize {
    sizes.into_iter().fold(1, usize::saturating_mul)
}

/// Dimension sizes, outermost first. A scalar has none.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

/// Size by size: every checked call compares several shapes, and a libc call for each would cost more than the
/// comparison.
impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank && self.dims().iter().zip(other.dims()).all(|(a, b)| a == b)
    }
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Shape {
    /// The shape of a scalar.
    pub const SCALAR: Self = Self { rank: 0, dims: [0; MAX_RANK] };

    /// The shape of these sizes; `None` beyond [`MAX_RANK`] dimensions.
    #[must_use]
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let mut dims = [0; MAX_RANK];
        dims.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(Self { rank: sizes.len() as u8, dims })
    }

    /// The sizes, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// The sizes, mutable.
    pub(crate) fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank as usize]
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Number of elements: the product of the sizes, `usize::MAX` on overflow.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims().iter().fold(1, |n: usize, &d| n.saturating_mul(d))
    }

    /// The shape, if a tensor can have it: its sizes, those of 0 left out, multiply to at most [`MAX_ELEMENTS`]. Every product of
    /// some of its sizes is then in that bound too. The engine takes no other shape: what makes tensors, views and values of a
    /// graph asks here.
    ///
    /// ```
    /// use landfall::Shape;
    /// assert!(Shape::from([1 << 40, 0]).bounded().is_ok());
    /// assert!(Shape::from([1 << 40, 1 << 40, 0]).bounded().is_err());
    /// ```
    ///
    /// # Errors
    /// [`Rule::TooLarge`].
    pub fn bounded(self) -> Result<Self, Rule> {
        let counted = self.dims().iter().filter(|&&d| d > 0).try_fold(1usize, |n, &d| n.checked_mul(d));
        if counted.is_some_and(|n| n <= MAX_ELEMENTS) {
            Ok(self)
        } else {
            Err(Rule::TooLarge { shape: self })
        }
    }

    /// The last size; 1 for a scalar.
    #[must_use]
    pub fn last(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    /// The same sizes without `axis`.
    #[must_use]
    pub fn without(&self, axis: usize) -> Self {
        let mut out = Self::SCALAR;
        for (i, &d) in self.dims().iter().enumerate() {
            if i != axis {
                out.push(d);
            }
        }
        out
    }

    /// The same sizes with `axis` set to `size`.
    #[must_use]
    pub fn with(&self, axis: usize, size: usize) -> Self {
        let mut out = *self;
        if let Some(d) = out.dims_mut().get_mut(axis) {
            *d = size;
        }
        out
    }

    /// Appends a size; a ninth one is dropped (callers check the rank before).
    pub(crate) fn push(&mut self, size: usize) {
        if let Some(d) = self.dims.get_mut(self.rank as usize) {
            *d = size;
            self.rank += 1;
        }
    }

    /// The broadcast shape of both (sizes aligned at the last axis, 1 stretches), if there is one.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let mut out = Self { rank: rank as u8, dims: [0; MAX_RANK] };
        for i in 0..rank {
            let size = |s: &Self| (i + s.rank()).checked_sub(rank).map_or(1, |k| s.dims[k]);
            out.dims[i] = match (size(self), size(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Some(out)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        const { assert!(N <= MAX_RANK, "a tensor has at most 8 dimensions") };
        let mut dims = [0; MAX_RANK];
        dims[..N].copy_from_slice(&sizes);
        Self { rank: N as u8, dims }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

/// Dtype and shape of a value, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Element type.
    pub dtype: DType,
    /// Dimension sizes.
    pub shape: Shape,
}

impl Spec {
    /// The spec of this dtype and shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Bytes of all elements, `usize::MAX` on overflow.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.elements().saturating_mul(self.dtype.size())
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}
