//! The block loops around the register tile.

use super::super::isa::{Isa, Real, dispatch_on};
use super::super::pack::{PackedB, k_blocks, pack, panels, unpack};
use super::tile::{Plus, Rows, Sweep};
use super::{Beta, GemmError, MatMut, MatRef, PACK_COLS, a_stride, block_rows};
use crate::values::Element;

/// B as the sweeps read it.
pub(super) enum Panels<'a, T: Element> {
    /// Packed as a whole.
    Packed(PackedB<'a, T::Acc>),
    /// Read in place if `in_place`; other panels, and a remainder narrower than a register, are packed into `room`.
    View { view: MatRef<'a, T>, in_place: Option<&'a [T::Acc]>, room: &'a mut [T::Acc] },
}

impl<T: Element<Acc: Real>> Panels<'_, T> {
    /// Rows `first..first + len` of the panel of `cols` columns from `col` on, and their stride.
    fn panel(
        &mut self,
        isa: Isa,
        (first, len): (usize, usize),
        (col, cols, padded): (usize, usize, usize),
    ) -> Result<(&[T::Acc], usize), GemmError> {
        match self {
            Self::Packed(packed) => Ok((packed.panel(first, len, col), padded)),
            Self::View { view, in_place: Some(data), .. } if cols == padded => {
                let at = if len == 0 { 0 } else { first * view.row_stride + col };
                Ok((&data[at..], view.row_stride))
            }
            Self::View { view, room, .. } => {
                pack(isa, view.block((first, col), (len, cols))?, padded, room);
                Ok((room, padded))
            }
        }
    }
}

/// The slice itself, if `T` is its own accumulation type.
pub(super) fn same_type<T: Element>(data: &[T]) -> Option<&[T::Acc]> {
    let same = T::DTYPE == <T::Acc as Element>::DTYPE;
    same.then(|| bytemuck::try_cast_slice(data).ok()).flatten()
}

/// [`same_type`] for a mutable slice.
fn same_type_mut<T: Element>(data: &mut [T]) -> Option<&mut [T::Acc]> {
    let same = T::DTYPE == <T::Acc as Element>::DTYPE;
    same.then(|| bytemuck::try_cast_slice_mut(data).ok()).flatten()
}

/// Widens the rows of a matrix to rows `stride` apart; the gaps between them are not written.
fn copy_rows<R: Element>(from: MatRef<'_, R>, stride: usize, to: &mut [R::Acc]) {
    for i in 0..from.rows {
        let (line, to) = (&from.data[i * from.row_stride..], &mut to[i * stride..]);
        if from.col_stride == 1 {
            line[..from.cols].iter().zip(to).for_each(|(x, to)| *to = x.widen());
        } else {
            (0..from.cols).for_each(|j| to[j] = line[j * from.col_stride].widen());
        }
    }
}

/// What all blocks of a product share.
pub(super) struct Blocks<'a, T: Element> {
    pub(super) isa: Isa,
    pub(super) alpha: T::Acc,
    pub(super) a: MatRef<'a, T>,
    pub(super) n: usize,
    pub(super) bias: Option<&'a [T::Acc]>,
}

impl<T: Element<Acc: Real>> Blocks<'_, T> {
    /// All blocks of rows. Sums run in C itself, or in `stage` if C is of another type or not contiguous along its
    /// columns.
    pub(super) fn run<R: Element<Acc = T::Acc>>(
        &self,
        beta: Beta<'_, R>,
        mut b: Panels<'_, T>,
        c: &mut MatMut<'_, R>,
        a_room: &mut [T::Acc],
        stage: &mut [T::Acc],
    ) -> Result<(), GemmError> {
        let stage_stride = self.n.next_multiple_of(16);
        let adjacent = c.col_stride == 1 || c.cols == 1;
        let block_rows = block_rows(self.a.cols);
        for first in (0..c.rows).step_by(block_rows) {
            let rows = (first, block_rows.min(c.rows - first));
            let from = first * c.row_stride;
            let shape = (rows.1, self.n);
            let added = match beta {
                Beta::Matrix(added) => Some(added.block((first, 0), shape)?),
                Beta::Zero | Beta::One => None,
            };
            let accumulate = !matches!(beta, Beta::Zero);
            if adjacent && let Some(sums) = same_type_mut(&mut c.data[from..]) {
                let plus = match added {
                    None if accumulate => Plus::Sums,
                    None => Plus::Nothing,
                    Some(added) => match same_type(added.data).filter(|_| added.col_stride == 1) {
                        Some(data) => Plus::Matrix(data, added.row_stride),
                        None => {
                            copy_rows(added, c.row_stride, sums);
                            Plus::Sums
                        }
                    },
                };
                self.block(rows, plus, &mut b, (sums, c.row_stride), a_room)?;
                continue;
            }
            if accumulate {
                let own = MatRef::new(&*c.data, from, shape, (c.row_stride, c.col_stride))?;
                pack(self.isa, added.unwrap_or(own), stage_stride, stage);
            }
            let plus = if accumulate { Plus::Sums } else { Plus::Nothing };
            self.block(rows, plus, &mut b, (stage, stage_stride), a_room)?;
            let sums = (&stage[..rows.1 * stage_stride], stage_stride);
            unpack(self.isa, sums, self.n, (c.row_stride, c.col_stride), &mut c.data[from..]);
        }
        Ok(())
    }

    /// One block of rows: every block of `k` against every panel of B.
    fn block(
        &self,
        rows: (usize, usize),
        plus: Plus<'_, T::Acc>,
        b: &mut Panels<'_, T>,
        (sums, c_stride): (&mut [T::Acc], usize),
        a_room: &mut [T::Acc],
    ) -> Result<(), GemmError> {
        let (_, k) = self.a.shape();
        for (first, len) in k_blocks(k) {
            let a = self.rows(rows, (first, len), a_room)?;
            for panel in panels(self.n, self.isa.lanes::<T::Acc>()) {
                let (col, cols, padded) = panel;
                let (b, b_stride) = b.panel(self.isa, (first, len), panel)?;
                let last = first + len == k;
                let mut sweep = Sweep {
                    rows: rows.1,
                    k: len,
                    alpha: if k == 0 { T::Acc::ONE } else { self.alpha },
                    a,
                    b,
                    b_stride,
                    cols,
                    padded,
                    c: &mut sums[col..],
                    c_stride,
                    plus: match plus {
                        _ if first > 0 => Plus::Sums,
                        Plus::Matrix(data, stride) => Plus::Matrix(&data[col..], stride),
                        Plus::Nothing | Plus::Sums => plus,
                    },
                    bias: self.bias.filter(|_| last).map(|bias| &bias[col..]),
                };
                dispatch_on(self.isa, &mut sweep);
            }
        }
        Ok(())
    }

    /// A block of A in place, or packed in its orientation.
    fn rows<'r>(
        &'r self,
        (row, rows): (usize, usize),
        (first, len): (usize, usize),
        room: &'r mut [T::Acc],
    ) -> Result<Rows<'r, T::Acc>, GemmError> {
        let block = self.a.block((row, first), (rows, len))?;
        let by_rows = block.col_stride == 1 || block.row_stride != 1;
        let adjacent = block.col_stride == 1 || block.row_stride == 1;
        let crowded = self.n > PACK_COLS && len > 128;
        if adjacent
            && !crowded
            && let Some(data) = same_type(block.data)
        {
            let stride = if by_rows { block.row_stride } else { block.col_stride };
            return Ok(Rows { data, stride, by_rows });
        }
        let (source, stride) =
            if by_rows { (block, a_stride(len)) } else { (block.transposed(), rows.next_multiple_of(16)) };
        pack(self.isa, source, stride, room);
        Ok(Rows { data: room, stride, by_rows })
    }
}
