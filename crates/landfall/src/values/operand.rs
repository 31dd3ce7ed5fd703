//! Locations of tensors: kinds of devices, addresses in their memory, and operands.

use super::{DType, Layout, Relation, Spec};
use std::fmt;
use std::ops::Range;

/// The kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The CPU: every op.
    Cpu,
    /// The NVIDIA GPU of this index.
    Cuda(u32),
    /// Checks and counts everything, computes nothing.
    Null,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Null => f.write_str("null"),
        }
    }
}

/// An address in a device's memory. The host cannot dereference one of a GPU, so only `device/` may dereference any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address(pub(crate) u64);

impl Address {
    /// The address plus `bytes`.
    #[must_use]
    pub(crate) const fn offset(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// Alignment of every allocation and every planned offset, in bytes.
pub(crate) const ALIGNMENT: usize = 64;

/// Rounds up to a multiple of [`ALIGNMENT`], `usize::MAX` on overflow.
#[must_use]
pub(crate) const fn align(bytes: usize) -> usize {
    match bytes.checked_next_multiple_of(ALIGNMENT) {
        Some(n) => n,
        None => usize::MAX,
    }
}

/// The bytes of two operands, counted from the first byte of either. As text it begins with a space, and is empty where they
/// have none in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Those of the first.
    pub first: Range<u64>,
    /// Those of the second.
    pub second: Range<u64>,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        // How far apart two allocations lie says nothing.
        if first.start >= second.end || second.start >= first.end {
            return Ok(());
        }
        write!(f, " (bytes {}..{} and {}..{})", first.start, first.end, second.start, second.end)
    }
}

/// One tensor operand of a launch: the address of its buffer, and its layout there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// Address of the buffer's first byte.
    pub(crate) base: Address,
    /// Element type.
    pub(crate) dtype: DType,
    /// Layout relative to `base`.
    pub(crate) layout: Layout,
}

impl Operand {
    /// So many bytes from an address on.
    pub(crate) fn bytes(base: Address, bytes: usize) -> Self {
        Self { base, dtype: DType::U8, layout: Layout::contiguous([bytes].into()) }
    }

    /// Dtype and shape.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { dtype: self.dtype, shape: *self.layout.shape() }
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The layout; offset 0 is the buffer's first element, not [`Operand::address`].
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Address of the first element. Only the device can dereference it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base.0 + (self.layout.offset() * self.dtype.size()) as u64
    }

    /// The same memory with another layout.
    #[must_use]
    pub fn relaid(&self, layout: Layout) -> Self {
        Self { layout, ..*self }
    }

    /// Addresses of the first byte and one past the last.
    #[must_use]
    pub(crate) fn span(&self) -> (u64, u64) {
        let span = self.layout.span();
        let size = self.dtype.size();
        (self.base.0 + (span.start * size) as u64, self.base.0 + (span.end * size) as u64)
    }

    /// The bytes of this operand and of another, from the first byte of either.
    pub(crate) fn overlap(&self, other: &Self) -> Overlap {
        let (a, b) = (self.span(), other.span());
        let first = a.0.min(b.0);
        Overlap { first: a.0 - first..a.1 - first, second: b.0 - first..b.1 - first }
    }

    /// How two operands relate in memory. Byte ranges decide: views that interleave within one range overlap.
    #[must_use]
    pub(crate) fn relation(&self, other: &Self) -> Relation {
        let (a, b) = (self.span(), other.span());
        if a.0 == a.1 || b.0 == b.1 || a.1 <= b.0 || b.1 <= a.0 {
            Relation::Disjoint
        } else if a == b && self.dtype == other.dtype && self.layout.walks_like(&other.layout) {
            Relation::Identical
        } else {
            Relation::Overlapping
        }
    }
}
