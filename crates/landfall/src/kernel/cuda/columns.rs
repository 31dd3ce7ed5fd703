//! How the threads of a block share columns: the host side of `columns.cu`.

use crate::kernel::cuda::Geometry;
use crate::values::Rule;

/// Threads of a block: `THREADS` in the source.
pub(crate) const BLOCK: u32 = 256;
/// Maximum columns of a block: a memory line of f32.
const WIDTH: usize = 32;
/// Minimum rows of a lane in a chunk.
const ROWS: usize = 8;
/// Maximum blocks of sums, and chunks.
const BLOCKS: usize = 512;
const CHUNKS: usize = 128;
/// Maximum blocks of a pass: what a large GPU runs at once.
const PASS: usize = 1024;

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

    /// Chunks for a pass that writes each element: one if there are no rows.
    pub(crate) fn pass(rows: usize, columns: usize) -> Self {
        let sharing = Self::new(rows, columns, |groups| (PASS / groups).max(1));
        Self { chunks: sharing.chunks.max(1), ..sharing }
    }

    fn new(rows: usize, columns: usize, most: impl Fn(usize) -> usize) -> Self {
        let width = columns.max(1).next_power_of_two().min(WIDTH);
        let groups = columns.div_ceil(width);
        let lanes = BLOCK as usize / width;
        let chunks = rows.div_ceil(lanes * ROWS).clamp(1, most(groups.max(1)));
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
    use super::Sharing;

    #[test]
    fn every_row_and_column_belongs_to_one_block() {
        for rows in [0, 1, 7, 8, 63, 64, 65, 1000, 37_632, 1 << 22, (1 << 31) + 5] {
            for columns in [1, 2, 3, 16, 31, 32, 33, 128, 5000, 100_000] {
                for s in [Sharing::sums(rows, columns), Sharing::pass(rows, columns)] {
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
