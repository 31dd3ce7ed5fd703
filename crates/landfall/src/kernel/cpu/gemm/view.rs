//! Strided matrices over slices, validated at construction.

use super::GemmError;

/// A matrix to read: element `(i, j)` is `data[i * row_stride + j * col_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct MatRef<'a, T> {
    pub(in crate::kernel::cpu) data: &'a [T],
    pub(in crate::kernel::cpu) rows: usize,
    pub(in crate::kernel::cpu) cols: usize,
    pub(in crate::kernel::cpu) row_stride: usize,
    pub(in crate::kernel::cpu) col_stride: usize,
}

/// A matrix to write, no two elements of which share memory.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    pub(super) data: &'a mut [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
}

/// Elements from the first to one past the last of a strided matrix; `None` where that overflows.
fn extent(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    let down = (rows - 1).checked_mul(row_stride)?;
    let across = (cols - 1).checked_mul(col_stride)?;
    down.checked_add(across)?.checked_add(1)
}

/// The range that the matrix spans in a slice of `len` elements.
fn range(
    len: usize,
    offset: usize,
    (rows, cols): (usize, usize),
    (row_stride, col_stride): (usize, usize),
) -> Result<std::ops::Range<usize>, GemmError> {
    let refusal = GemmError::OutOfBounds { rows, cols, row_stride, col_stride, offset, len };
    let extent = extent(rows, cols, row_stride, col_stride).ok_or(refusal)?;
    match offset.checked_add(extent) {
        Some(end) if end <= len => Ok(offset..end),
        Some(_) if extent == 0 => Ok(0..0),
        Some(_) | None => Err(refusal),
    }
}

impl<'a, T> MatRef<'a, T> {
    /// The matrix of `shape` (rows, columns) and `strides` (of a row, of a column; in elements, 0 broadcasts) whose
    /// first element is `data[offset]`.
    ///
    /// # Errors
    /// If an element is outside `data`.
    pub fn new(
        data: &'a [T],
        offset: usize,
        shape: (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self, GemmError> {
        let data = &data[range(data.len(), offset, shape, strides)?];
        Ok(Self { data, rows: shape.0, cols: shape.1, row_stride: strides.0, col_stride: strides.1 })
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The transpose, which moves no data.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// `shape` rows and columns from `(row, col)` on.
    ///
    /// # Errors
    /// If the block exceeds the matrix.
    pub fn block(self, (row, col): (usize, usize), shape: (usize, usize)) -> Result<Self, GemmError> {
        let inside =
            |start: usize, len: usize, limit: usize| start.checked_add(len).is_some_and(|end| end <= limit);
        let strides = (self.row_stride, self.col_stride);
        if !inside(row, shape.0, self.rows) || !inside(col, shape.1, self.cols) {
            return Err(GemmError::NoSuchBlock { row, col, rows: shape.0, cols: shape.1, of: self.shape() });
        }
        let offset = if shape.0 == 0 || shape.1 == 0 { 0 } else { row * strides.0 + col * strides.1 };
        Self::new(self.data, offset, shape, strides)
    }
}

impl<'a, T> MatMut<'a, T> {
    /// The matrix of `shape` (rows, columns) and `strides` (of a row, of a column; in elements) whose first element is
    /// `data[offset]`.
    ///
    /// # Errors
    /// If an element is outside `data`, or if two elements might share memory: one stride must exceed the extent of the
    /// other axis.
    pub fn new(
        data: &'a mut [T],
        offset: usize,
        shape: (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self, GemmError> {
        let range = range(data.len(), offset, shape, strides)?;
        let ((rows, cols), (row_stride, col_stride)) = (shape, strides);
        let row_major = nests(rows, row_stride, cols, col_stride);
        if !(range.is_empty() || row_major || nests(cols, col_stride, rows, row_stride)) {
            return Err(GemmError::Overlap { rows, cols, row_stride, col_stride });
        }
        Ok(Self { data: &mut data[range], rows, cols, row_stride, col_stride })
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The first `row` rows and the rest, for two tasks.
    ///
    /// # Errors
    /// If there are fewer rows, or if the rows interleave in memory (a column-major matrix: transpose the product and
    /// split that instead).
    pub fn split_at_row(self, row: usize) -> Result<(Self, Self), GemmError> {
        let Self { data, rows, cols, row_stride, col_stride } = self;
        if row > rows {
            return Err(GemmError::NoSuchBlock { row, col: 0, rows: 0, cols, of: (rows, cols) });
        }
        if !nests(rows, row_stride, cols, col_stride) {
            return Err(GemmError::Overlap { rows, cols, row_stride, col_stride });
        }
        let at = (row * row_stride).min(data.len());
        let (head, tail) = data.split_at_mut(at);
        let strides = (row_stride, col_stride);
        Ok((Self::new(head, 0, (row, cols), strides)?, Self::new(tail, 0, (rows - row, cols), strides)?))
    }
}

/// Whether the outer stride exceeds the extent of the inner axis, whose stride is not 0.
fn nests(outer: usize, outer_stride: usize, inner: usize, inner_stride: usize) -> bool {
    let inner_extent = extent(1, inner, 0, inner_stride).unwrap_or(usize::MAX);
    (inner <= 1 || inner_stride > 0) && (outer <= 1 || outer_stride >= inner_extent)
}
