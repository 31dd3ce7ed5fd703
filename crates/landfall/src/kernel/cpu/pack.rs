//! Packing: copies a strided block of a matrix, widened to the accumulation type, to contiguous memory.

use super::gemm::{GemmError, MatRef};
use super::isa::{Isa, Kernel, Real, Simd, dispatch_on};
use crate::values::{DType, Element};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Longest run over `k` that one accumulator sums; longer ones are summed block by block. A block of B of this depth
/// and two registers wide is 32 KiB, which fits in the L1 cache next to the rows of A that it is multiplied with.
pub const BLOCK_K: usize = 256;

/// Maximum shift of a buffer by [`aligned`], in elements: a cache line of the smallest accumulation type.
pub(super) const ALIGN_SLACK: usize = 16;

/// The blocks of `0..k`, as (start, length), equal except for the last. They depend on `k` only, so that every element
/// of a product sums in the same order for any task partition. `k = 0` has one empty block.
pub(super) fn k_blocks(k: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let count = k.div_ceil(BLOCK_K).max(1);
    let len = k.div_ceil(count);
    (0..count).map(move |i| (i * len, len.min(k - (i * len).min(k))))
}

/// The column panels of a matrix of `n` columns, as (first column, columns, padded columns): two registers wide, and
/// one register for a remainder that fits in it.
pub(super) fn panels(n: usize, lanes: usize) -> impl Iterator<Item = (usize, usize, usize)> + Clone {
    (0..n).step_by(2 * lanes).map(move |start| {
        let left = n - start;
        let padded = if left <= lanes { lanes } else { 2 * lanes };
        (start, left.min(padded), padded)
    })
}

/// The part of `buffer` that starts on a cache line, so that no vector load from it crosses one.
pub(super) fn aligned<T>(buffer: &mut [T]) -> &mut [T] {
    let skip = buffer.as_ptr().align_offset(64).min(buffer.len());
    &mut buffer[skip..]
}

/// Copies `source` to `target[row * stride + col]`, widened; columns from its last to `stride` become zero.
pub(super) fn pack<T: Element>(isa: Isa, source: MatRef<'_, T>, stride: usize, target: &mut [T::Acc]) {
    dispatch_on(isa, Pack { source, stride, target });
}

struct Pack<'a, T: Element> {
    source: MatRef<'a, T>,
    stride: usize,
    target: &'a mut [T::Acc],
}

impl<T: Element> Kernel for Pack<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { source, stride, target } = self;
        let (rows, cols) = source.shape();
        let target = &mut target[..rows * stride];
        if cols == 0 {
            return target.fill(T::Acc::default());
        }
        if source.col_stride == 1 || source.row_stride != 1 {
            for (row, line) in target.chunks_exact_mut(stride).enumerate() {
                let (values, padding) = line.split_at_mut(cols);
                let from = &source.data[row * source.row_stride..];
                if source.col_stride == 1 {
                    widen(&from[..cols], values);
                } else if source.col_stride == 0 {
                    // A broadcast axis.
                    values.fill(from[0].widen());
                } else {
                    for (value, from) in values.iter_mut().zip(from.iter().step_by(source.col_stride)) {
                        *value = from.widen();
                    }
                }
                padding.fill(T::Acc::default());
            }
            return;
        }
        // Transposing: reads run along memory, a few rows at a time, so that the written lines stay in cache.
        for first in (0..rows).step_by(TRANSPOSE_ROWS) {
            let count = TRANSPOSE_ROWS.min(rows - first);
            let lines = &mut target[first * stride..(first + count) * stride];
            for col in 0..cols {
                let from = &source.data[col * source.col_stride + first..][..count];
                for (line, from) in lines.chunks_exact_mut(stride).zip(from) {
                    line[col] = from.widen();
                }
            }
            for line in lines.chunks_exact_mut(stride) {
                line[cols..].fill(T::Acc::default());
            }
        }
    }
}

const TRANSPOSE_ROWS: usize = 64;

/// Widens a run of elements. f16 uses the slice conversion of `half`, which checks the CPU for its conversion
/// instruction once per run and not once per element.
#[inline(always)]
fn widen<T: Element>(from: &[T], to: &mut [T::Acc]) {
    if T::DTYPE == DType::F16
        && let Ok(from) = bytemuck::try_cast_slice::<T, f16>(from)
        && let Ok(to) = bytemuck::try_cast_slice_mut::<T::Acc, f32>(to)
    {
        return from.convert_to_f32_slice(to);
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.widen();
    }
}

/// Rounds a run of elements, the inverse of [`widen`].
#[inline(always)]
fn narrow<R: Element>(from: &[R::Acc], to: &mut [R]) {
    if R::DTYPE == DType::F16
        && let Ok(from) = bytemuck::try_cast_slice::<R::Acc, f32>(from)
        && let Ok(to) = bytemuck::try_cast_slice_mut::<R, f16>(to)
    {
        return to.convert_from_f32_slice(from);
    }
    for (to, &from) in to.iter_mut().zip(from) {
        *to = R::narrow(from);
    }
}

/// Rounds `source[row * stride + col]` into `target`, a matrix of `cols` columns with `strides`.
pub(super) fn unpack<R: Element>(
    isa: Isa,
    (source, stride): (&[R::Acc], usize),
    cols: usize,
    (row_stride, col_stride): (usize, usize),
    target: &mut [R],
) {
    dispatch_on(isa, Unpack { source, stride, cols, row_stride, col_stride, target });
}

struct Unpack<'a, R: Element> {
    source: &'a [R::Acc],
    stride: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    target: &'a mut [R],
}

impl<R: Element> Kernel for Unpack<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (row, line) in self.source.chunks_exact(self.stride).enumerate() {
            let (line, target) = (&line[..self.cols], &mut self.target[row * self.row_stride..]);
            if self.col_stride == 1 {
                narrow(line, &mut target[..self.cols]);
            } else {
                for (to, &from) in target.iter_mut().step_by(self.col_stride.max(1)).zip(line) {
                    *to = R::narrow(from);
                }
            }
        }
    }
}

/// A right-hand matrix that is packed once and shared by the tasks that compute rows of the product.
#[derive(Debug, Clone, Copy)]
pub struct PackedB<'a, A> {
    pub(super) isa: Isa,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) data: &'a [A],
}

impl<'a, A: Real> PackedB<'a, A> {
    /// Size of a packed `k` by `n` matrix, in elements of the accumulation type.
    #[must_use]
    pub const fn buffer_len(k: usize, n: usize) -> usize {
        // A register holds at most 16 elements.
        k.saturating_mul(n.next_multiple_of(16)).saturating_add(ALIGN_SLACK)
    }

    /// Packs `b` into `buffer`.
    ///
    /// # Errors
    /// If `buffer` is shorter than [`buffer_len`](Self::buffer_len).
    pub fn new<T: Element<Acc = A>>(b: MatRef<'_, T>, buffer: &'a mut [A]) -> Result<Self, GemmError> {
        Self::new_on(Isa::detect(), b, buffer)
    }

    /// [`new`](Self::new) for products on `isa`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_on<T: Element<Acc = A>>(
        isa: Isa,
        b: MatRef<'_, T>,
        buffer: &'a mut [A],
    ) -> Result<Self, GemmError> {
        let ((k, n), have) = (b.shape(), buffer.len());
        let need = Self::buffer_len(k, n);
        if have < need {
            return Err(GemmError::Workspace { have, need });
        }
        Self::within(isa.min(Isa::widest()), b, aligned(buffer))
    }

    /// Packs `b` into `buffer`, which is long enough.
    pub(super) fn within<T: Element<Acc = A>>(
        isa: Isa,
        b: MatRef<'_, T>,
        buffer: &'a mut [A],
    ) -> Result<Self, GemmError> {
        let ((k, n), lanes) = (b.shape(), isa.lanes::<A>());
        for (first, len) in k_blocks(k) {
            for (col, cols, padded) in panels(n, lanes) {
                let at = first * n.next_multiple_of(lanes) + col * len;
                pack(isa, b.block((first, col), (len, cols))?, padded, &mut buffer[at..]);
            }
        }
        Ok(Self { isa, k, n, data: buffer })
    }

    /// Rows and columns of the packed matrix.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// The panel whose first column is `col`, of the block of `len` rows from `first` on.
    pub(super) fn panel(&self, first: usize, len: usize, col: usize) -> &'a [A] {
        &self.data[first * self.n.next_multiple_of(self.isa.lanes::<A>()) + col * len..]
    }
}
