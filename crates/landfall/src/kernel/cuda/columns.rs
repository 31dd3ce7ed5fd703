//! How the threads of a block share columns: the host side of `columns.cu`.

use crate::kernel::cuda::Geometry;
use crate::values::{DType, Rule};

/// Threads of a block: `THREADS` in the source.
pub(crate) const BLOCK: u32 = 256;
/// Maximum columns of a block: a memory line of f32.
const WIDTH: usize = 32;
/// Minimum rows of a lane in a chunk.
const ROWS: usize = 8;
/// Maximum blocks of sums, and chunks.
const BLOCKS: usize = 512;
const CHUNKS: usize = 128;

/// Bytes that a block takes of a row in strips, at most: a line of memory.
const LINE: usize = 128;
/// Rows that a lane takes at once in strips: `TOGETHER` in the source, and one such step more.
const STRIP_ROWS: usize = 8;
/// Blocks that go over strips: as many as a large GPU runs at once, each with all that it fetches ahead.
const STRIP_BLOCKS: usize = 264;

/// Adjacent columns of a thread, `STRIP` in the source: as many as one access moves, if all rows divide into such parts.
pub(crate) fn strip(columns: usize, dtype: DType) -> usize {
    1 << columns.trailing_zeros().min((16 / dtype.size()).trailing_zeros())
}

/// The partition of `rows` rows of `columns` columns: depends on these numbers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Adjacent columns of a block, a power of two.
    pub(crate) width: usize,
    /// Blocks along the columns.
    pub(crate) groups: usize,
    /// Chunks of the rows.
    pub(crate) chunks: usize,
    /// Rows of a chunk; the last may have fewer.
    pub(crate) each: usize,
}

impl Sharing {
    /// Chunks for sums: no more than a GPU runs at once, and few, because they are summed afterwards.
    pub(crate) fn sums(rows: usize, columns: usize) -> Self {
        Self::new(rows, columns, |groups| (BLOCKS / groups).clamp(1, CHUNKS))
    }

    /// Chunks for sums of strips.
    pub(crate) fn strip_sums(rows: usize, columns: usize, dtype: DType) -> Self {
        let width = columns.max(1).next_power_of_two().min(LINE / dtype.size());
        let lanes = BLOCK as usize * strip(columns, dtype) / width;
        Self::of(rows, columns, width, lanes * STRIP_ROWS, |groups| (STRIP_BLOCKS / groups).max(1))
    }

    /// Chunks for a pass over strips that writes each element: one if there are no rows.
    pub(crate) fn strip_pass(rows: usize, columns: usize, dtype: DType) -> Self {
        let sharing = Self::strip_sums(rows, columns, dtype);
        Self { chunks: sharing.chunks.max(1), ..sharing }
    }

    fn new(rows: usize, columns: usize, most: impl Fn(usize) -> usize) -> Self {
        let width = columns.max(1).next_power_of_two().min(WIDTH);
        Self::of(rows, columns, width, BLOCK as usize / width * ROWS, most)
    }

    /// Blocks of `width` columns. A chunk has at least `least` rows, and there are at most `most(groups)` chunks.
    fn of(rows: usize, columns: usize, width: usize, least: usize, most: impl Fn(usize) -> usize) -> Self {
        let groups = columns.div_ceil(width);
        let chunks = rows.div_ceil(least).clamp(1, most(groups.max(1)));
        let each = rows.div_ceil(chunks).max(1);
        Self { width, groups, chunks: rows.div_ceil(each), each }
    }

    /// Bytes of the partial sums of all chunks, two for each column.
    pub(crate) fn workspace(&self, columns: usize) -> usize {
        self.chunks * 2 * columns * size_of::<f64>()
    }

    /// A block for each group of columns and each chunk.
    pub(crate) fn blocks(&self) -> Result<Geometry, Rule> {
        let blocks = Geometry::blocks(self.groups, BLOCK)?;
        Ok(Geometry { grid: [blocks.grid[0], self.chunks as u32, 1], ..blocks })
    }

    /// A block for each group of columns.
    pub(crate) fn finish(&self) -> Result<Geometry, Rule> {
        Geometry::blocks(self.groups, BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sharing, strip};
    use crate::values::DType;

    #[test]
    fn every_row_and_column_belongs_to_one_block() {
        for rows in [0, 1, 7, 8, 63, 64, 65, 1000, 37_632, 1 << 22, (1 << 31) + 5] {
            for columns in [1usize, 2, 3, 16, 31, 32, 33, 128, 5000, 100_000] {
                let [a, b, c] = [DType::BF16, DType::F32, DType::F64].map(|d| {
                    assert!(columns.is_multiple_of(strip(columns, d)) && strip(columns, d) * d.size() <= 16);
                    Sharing::strip_sums(rows, columns, d)
                });
                for s in [Sharing::sums(rows, columns), a, b, c] {
                    assert!(s.groups * s.width >= columns && (s.groups - 1) * s.width < columns, "{s:?}");
                    assert!(s.chunks * s.each >= rows, "{rows} rows: {s:?}");
                    assert!(
                        rows == 0 && s.chunks <= 1 || (s.chunks - 1) * s.each < rows,
                        "{rows} rows: {s:?}"
                    );
                    assert!(s.chunks <= 65_535 && 256 % s.width == 0, "{s:?}");
                }
            }
        }
    }
}
