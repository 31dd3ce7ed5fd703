//! How the threads of a block share rows of elements: the host's side of `group.cu`.

use crate::kernel::cuda::{RowFrame, RowView};
use crate::values::{DType, Layout, Operand};

/// Threads of a block: `THREADS` in the source.
pub(in crate::ops) const BLOCK: u32 = 256;
/// Rows of a block, at least, where there are as many: so that no row that is cut has too few segments.
const ROWS: usize = 16;
/// Blocks that keep a large GPU reading: to have as many, rows are cut.
const BLOCKS: usize = 2048;
/// Segments of a row that is cut, at least: a lane reads its units one after the other, and to wait for fewer than these
/// takes no longer than a second launch.
const SEGMENTS: usize = 8;
/// Blocks of columns that keep all of a GPU at work: to have as many, they take fewer columns each, but still a whole line
/// of memory.
const COLUMN_BLOCKS: usize = 512;
const LINE: usize = 128;

/// Elements that a thread takes at once: `UNIT` in the sources. Of 8 bytes each, 8 would not all fit in registers.
pub(in crate::ops) fn unit(dtype: DType) -> usize {
    (32 / dtype.size()).min(8)
}

/// How `rows` rows of `len` elements, both at least 1, are shared: by their numbers alone, so that a result does not
/// depend on where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) struct Group {
    /// Threads of a row.
    pub(in crate::ops) lanes: usize,
    /// Blocks for all rows, each uncut.
    pub(in crate::ops) blocks: usize,
    /// Parts of a row.
    pub(in crate::ops) segments: usize,
    /// Elements of a segment; the last may have fewer.
    pub(in crate::ops) length: usize,
}

impl Group {
    /// Rows that are not cut: a unit for each lane, as far as the block goes.
    pub(in crate::ops) fn whole(rows: usize, len: usize, dtype: DType) -> Self {
        Self::of(rows, len, dtype, BLOCK as usize)
    }

    /// Rows side by side in a block, cut where there are too few for all of a GPU.
    pub(in crate::ops) fn cut(rows: usize, len: usize, dtype: DType) -> Self {
        let uncut = Self::of(rows, len, dtype, BLOCK as usize / rows.min(ROWS).next_power_of_two());
        // What all lanes take at once.
        let step = unit(dtype) * uncut.lanes;
        let segments = (len / step).min(BLOCKS / uncut.blocks);
        if segments < SEGMENTS {
            return uncut;
        }
        let length = len.div_ceil(segments).next_multiple_of(step);
        Self { segments: len.div_ceil(length), length, ..uncut }
    }

    /// Whether the lanes of rows of this length do not depend on how many rows there are.
    pub(in crate::ops) fn alike(len: usize, dtype: DType) -> bool {
        len <= unit(dtype) * (BLOCK as usize / ROWS.next_power_of_two())
    }

    /// Threads side by side of a block, and blocks side by side, where rows lie as columns and a thread takes `together`
    /// of them.
    pub(in crate::ops) fn columns(&self, rows: usize, together: usize, dtype: DType) -> (usize, usize) {
        let threads = rows.div_ceil(together);
        let line = (LINE / (together * dtype.size())).max(1);
        let mut width = (BLOCK as usize / self.lanes).min(threads);
        while width > line && threads.div_ceil(width) * self.segments < COLUMN_BLOCKS {
            width = width.div_ceil(2);
        }
        (width, threads.div_ceil(width))
    }

    fn of(rows: usize, len: usize, dtype: DType, most: usize) -> Self {
        let lanes = len.div_ceil(unit(dtype)).next_power_of_two().min(most);
        let blocks = rows.div_ceil(BLOCK as usize / lanes);
        Self { lanes, blocks, segments: 1, length: len }
    }
}

/// Whether the lanes of a row are threads apart: where neighbouring rows lie nearer to each other than a row's elements.
pub(in crate::ops) fn across(rows: &Layout, row: &Layout) -> u32 {
    let innermost = |l: &Layout| l.strides().last().copied();
    u32::from(match (innermost(rows), innermost(row)) {
        (Some(apart), Some(step)) => (1..step).contains(&apart),
        (Some(apart), None) => apart == 1,
        (None, _) => false,
    })
}

/// Whether every unit of every row is contiguous, aligned for accesses of 16 bytes (or of the unit, if smaller).
/// `rows` and `row` are layouts with as few axes as possible.
pub(super) fn contiguous(x: &Operand, rows: &Layout, row: &Layout) -> bool {
    let (size, unit) = (x.dtype().size(), unit(x.dtype()));
    let access = 16.min(unit * size);
    let aligned =
        |l: &Layout, axes: usize| l.strides()[..axes].iter().all(|s| (s * size).is_multiple_of(access));
    let Some(last) = row.shape().rank().checked_sub(1) else { return false };
    row.strides()[last] == 1
        && (last == 0 || row.shape().dims()[last].is_multiple_of(unit))
        && x.address().is_multiple_of(access as u64)
        && aligned(rows, rows.shape().rank())
        && aligned(row, last)
}

/// The rows of an operand, as a kernel takes them.
pub(in crate::ops) fn row_view<'a>(operand: &'a Operand, starts: &'a Layout, row: &'a Layout) -> RowView<'a> {
    RowView { operand, contiguous: contiguous(operand, starts, row), starts, row }
}

/// The lanes of a row, where rows are as `single_pass.cu` says: `SINGLE_PASS` in the sources; otherwise 0. `views` are those
/// of all that is read and written.
pub(in crate::ops) fn single_pass(frame: &RowFrame<'_>, dtype: DType, views: &[RowView<'_>]) -> u64 {
    match kept(frame, dtype, views) {
        (lanes, 1) => lanes,
        (_, _) => 0,
    }
}

/// Elements in f32 of a row that a lane keeps in registers, at most. Of f64 it keeps a unit, and spills with more.
const KEPT: usize = 64;

/// The lanes of a row that is kept in registers and the units of each, `SINGLE_PASS` and `PASSES` in the sources: 0 lanes where
/// rows are not as `single_pass.cu` says, or too long.
pub(in crate::ops) fn kept(frame: &RowFrame<'_>, dtype: DType, views: &[RowView<'_>]) -> (u64, u64) {
    let (unit, lanes) = (unit(dtype), frame.lanes as usize);
    let passes = frame.length.div_ceil(lanes * unit).max(1);
    let single = (passes == 1 || dtype.accumulate() == DType::F32 && passes * unit <= KEPT)
        && frame.length.is_multiple_of(unit)
        && frame.starts.shape().rank() <= 1
        && frame.across == 0
        && views.iter().all(|view| view.contiguous);
    if single { (lanes as u64, passes as u64) } else { (0, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_covers_every_row_and_element_once() {
        for rows in [1, 2, 3, 31, 32, 33, 512, 1000, 100_000, 5_000_000_000] {
            for len in [1, 7, 8, 9, 42, 511, 512, 2048, 40_000, 4_194_304, 5_000_000_000] {
                for (dtype, cut) in
                    [DType::F64, DType::F32, DType::BF16].map(|d| [(d, false), (d, true)]).concat()
                {
                    let g = if cut { Group::cut(rows, len, dtype) } else { Group::whole(rows, len, dtype) };
                    let text = format!("{rows} rows of {len} {dtype}: {g:?}");
                    assert!(cut || g.segments == 1, "{text}");
                    assert!(g.lanes.is_power_of_two() && g.lanes <= BLOCK as usize, "{text}");
                    assert!(g.blocks * (BLOCK as usize / g.lanes) >= rows, "{text}");
                    assert!((g.blocks - 1) * (BLOCK as usize / g.lanes) < rows, "{text}");
                    assert!(g.segments * g.length >= len, "{text}");
                    assert!((g.segments - 1) * g.length < len, "{text}");
                    assert!(g.segments == 1 || g.length.is_multiple_of(unit(dtype) * g.lanes), "{text}");
                    assert!(g.segments == 1 || g.segments * g.blocks <= BLOCKS, "{text}");
                    for together in [1, 16 / dtype.size()] {
                        let (width, blocks) = g.columns(rows, together, dtype);
                        let covered = blocks * width * together;
                        assert!(width >= 1 && width * g.lanes <= BLOCK as usize, "{text} {width}");
                        assert!(covered >= rows && covered - width * together < rows, "{text} {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn small_sums_take_one_launch_and_few_long_rows_fill_a_gpu() {
        assert_eq!(Group::cut(1, 4096, DType::F32).segments, 1);
        assert_eq!(Group::cut(512, 256, DType::F32).segments, 1);
        for (rows, len) in [(1, 1 << 22), (512, 4096), (64, 100_000), (3, 1 << 21)] {
            let g = Group::cut(rows, len, DType::F32);
            assert!(g.segments * g.blocks >= 500, "{rows} rows of {len}: {g:?}");
        }
    }
}
