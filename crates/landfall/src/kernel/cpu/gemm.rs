//! Single-threaded GEMM, without allocation.
//!
//! `C = alpha * A * B (+ C, or another matrix) (+ bias)`. Three loops of blocks surround one register tile (`tile.rs`): rows of C in
//! blocks of [`BLOCK_ROWS`], `k` in blocks of at most [`BLOCK_K`](super::pack::BLOCK_K), columns in panels of two
//! registers. A panel of B stays in the L1 cache while the rows of A pass it. An operand that can be read in place is
//! not packed: the relevant shapes are thin, and copying A would cost as much as multiplying it.
//!
//! Arithmetic. An element of C sums each block of `k` in order in one accumulator of the type `T::Acc`, and the blocks
//! in order into C; that order depends on `k` alone, never on the rows or columns that a task was given, on strides,
//! or on what was packed. So any split of C into row blocks gives the same bytes. AVX2 and AVX-512 fuse multiply and
//! add and agree with each other; the baseline rounds twice and differs from them within the usual error of a sum.
//! 16-bit results are summed in `f32` to the end and rounded once.

mod blocks;
mod tile;
mod view;

use super::isa::{Isa, Real};
use super::pack::{ALIGN_SLACK, BLOCK_K, PackedB, aligned, pack};
use crate::values::{Element, Rule};
use blocks::{Blocks, Panels, same_type};
pub use view::{MatMut, MatRef};

/// Rows of C that are computed together: a packed block of A is then 255 KiB in `f32`, which fits in an L2 cache. A
/// multiple of every tile height.
pub const BLOCK_ROWS: usize = 240;

/// Depth up to which a product is bound by its traffic in C: then rows are processed in blocks of [`SHALLOW_ROWS`], so
/// that the panels of B complete a few lines of C while these are in the L1 cache.
const SHALLOW: usize = 64;
const SHALLOW_ROWS: usize = 48;

/// Columns of C beyond which a deep, row-major A is packed first: each row is then read at least four times, and
/// rows a power of two apart would evict each other.
const PACK_COLS: usize = 96;

/// Why a product was not computed. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A matrix exceeds its slice.
    #[error(
        "a {rows}x{cols} matrix with strides ({row_stride}, {col_stride}) at offset {offset} must lie within {len} elements"
    )]
    #[allow(missing_docs, reason = "the message says what each number is")]
    OutOfBounds { rows: usize, cols: usize, row_stride: usize, col_stride: usize, offset: usize, len: usize },
    /// Elements of an output may share memory.
    #[error(
        "rows of a {rows}x{cols} output with strides ({row_stride}, {col_stride}) must not overlap or interleave"
    )]
    #[allow(missing_docs, reason = "the message says what each number is")]
    Overlap { rows: usize, cols: usize, row_stride: usize, col_stride: usize },
    /// A block exceeds its matrix.
    #[error("a {rows}x{cols} block at ({row}, {col}) must lie within a {}x{} matrix", of.0, of.1)]
    #[allow(missing_docs, reason = "the message says what each number is")]
    NoSuchBlock { row: usize, col: usize, rows: usize, cols: usize, of: (usize, usize) },
    /// The shapes of the operands do not match.
    #[error(
        "A is {}x{}, B is {}x{}, C is {}x{}, bias is {bias:?}; they must be m by k, k by n, m by n, n",
        a.0, a.1, b.0, b.1, c.0, c.1
    )]
    #[allow(missing_docs, reason = "the message says what each number is")]
    Shape { a: (usize, usize), b: (usize, usize), c: (usize, usize), bias: Option<usize> },
    /// The addend is not a matrix of the result's shape.
    #[error("the addend is {}x{}, C is {}x{}; they must be of one shape", addend.0, addend.1, c.0, c.1)]
    #[allow(missing_docs, reason = "the message says what each number is")]
    Addend { addend: (usize, usize), c: (usize, usize) },
    /// The workspace is too small.
    #[error("the workspace holds {have} elements, {need} are needed")]
    #[allow(missing_docs, reason = "the message says what each number is")]
    Workspace { have: usize, need: usize },
    /// B was packed for another instruction set.
    #[error("B was packed for {packed}, the product runs on {run}", packed = packed.name(), run = run.name())]
    #[allow(missing_docs, reason = "the message says what each name is")]
    OtherIsa { packed: Isa, run: Isa },
}

crate::values::debug_as_text!(GemmError);

impl From<GemmError> for Rule {
    fn from(error: GemmError) -> Self {
        Self::Product { what: error.to_string() }
    }
}

/// The addend of the product.
#[derive(Debug, Clone, Copy)]
pub enum Beta<'a, R> {
    /// None: the previous contents of C are overwritten and never read.
    Zero,
    /// The previous contents of C.
    One,
    /// This matrix of C's shape, with the same result as if C had held it.
    Matrix(MatRef<'a, R>),
}

/// The right-hand operand.
#[derive(Debug, Clone, Copy)]
pub enum Rhs<'a, T: Element> {
    /// In place, unpacked.
    View(MatRef<'a, T>),
    /// Packed in advance, shared by several products.
    Packed(PackedB<'a, T::Acc>),
}

impl<T: Element<Acc: Real>> Rhs<'_, T> {
    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::View(view) => view.shape(),
            Self::Packed(packed) => packed.shape(),
        }
    }
}

/// A product: `alpha * a * b`, plus the addend of `beta`, plus `bias` in every row.
///
/// Operands are of type `T` and results of type `R`, which may be wider: sums of 16-bit operands can be kept in `f32`.
#[derive(Debug, Clone, Copy)]
pub struct Gemm<'a, T: Element, R> {
    /// Scale of the product.
    pub alpha: T::Acc,
    /// Left-hand operand, `m` by `k`.
    pub a: MatRef<'a, T>,
    /// Right-hand operand, `k` by `n`.
    pub b: Rhs<'a, T>,
    /// Its addend.
    pub beta: Beta<'a, R>,
    /// A row of `n` elements that is added once, at the end.
    pub bias: Option<&'a [R]>,
}

/// Workspace of [`Gemm::run`] for an `m` by `k` by `n` product, in elements of the accumulation type, for all strides
/// and instruction sets.
#[must_use]
pub fn workspace_len(m: usize, n: usize, k: usize) -> usize {
    let Parts { bias, a, b, stage } = Parts::new(m, n, k);
    [bias, a, b, stage].into_iter().fold(ALIGN_SLACK, usize::saturating_add)
}

/// Workspace of products of any depth up to `k`. A shallow one may need more than a deep one: it has blocks of fewer
/// rows, and packs all of B if there are several.
#[must_use]
pub fn workspace_up_to(m: usize, n: usize, k: usize) -> usize {
    workspace_len(m, n, k).max(workspace_len(m, n, k.min(SHALLOW)))
}

/// Lengths of the parts of a workspace, each a multiple of a cache line.
struct Parts {
    bias: usize,
    a: usize,
    b: usize,
    stage: usize,
}

impl Parts {
    fn new(m: usize, n: usize, k: usize) -> Self {
        let (rows, depth) = (m.min(BLOCK_ROWS), k.min(BLOCK_K));
        let width = n.next_multiple_of(16);
        Self {
            bias: width,
            a: rows.next_multiple_of(16).saturating_mul(a_stride(depth)),
            // One block of rows reads each panel of B once, so one panel at a time suffices.
            b: if m > block_rows(k) { k.saturating_mul(width) } else { depth * width.min(32) },
            stage: rows.saturating_mul(width),
        }
    }
}

/// Rows of C that are computed together, for a product of this depth.
fn block_rows(k: usize) -> usize {
    if k <= SHALLOW { SHALLOW_ROWS } else { BLOCK_ROWS }
}

/// Whether `m` rows of A should read panels of B in place. Panels of a wide B are far-apart parts of rows, which
/// conflict in few cache sets: they are packed, unless all of B fits in the L1 cache or too few rows read them.
fn dense<T: Element<Acc: Real>>(isa: Isa, m: usize, b: MatRef<'_, T>) -> bool {
    let narrow = b.row_stride <= 2 * isa.lanes::<T::Acc>();
    b.col_stride == 1 && (narrow || b.data.len() <= 8192 || m <= BLOCK_ROWS)
}

fn fits_in_place<T: Element<Acc: Real>>(isa: Isa, m: usize, b: MatRef<'_, T>) -> bool {
    b.cols.is_multiple_of(isa.lanes::<T::Acc>()) && dense(isa, m, b) && same_type(b.data).is_some()
}

/// Whether products of `m` rows with `b`, by one task or by several, should share one packed copy of it.
#[must_use]
pub fn pays_to_pack<T: Element<Acc: Real>>(m: usize, b: MatRef<'_, T>) -> bool {
    m > block_rows(b.rows) && !fits_in_place(Isa::detect(), m, b)
}

/// Size of such a copy of a `k` by `n` matrix, in elements of the accumulation type; 0 if it never pays.
#[must_use]
pub fn shared_len(m: usize, n: usize, k: usize) -> usize {
    if m > block_rows(k) { PackedB::<f32>::buffer_len(k, n) } else { 0 }
}

/// Row stride of packed A: odd in cache lines, so that a tile's rows map to different cache sets.
fn a_stride(depth: usize) -> usize {
    (depth.div_ceil(16) | 1) * 16
}

impl<'a, T, R> Gemm<'a, T, R>
where
    T: Element<Acc: Real>,
    R: Element<Acc = T::Acc>,
{
    /// Computes the product into `c`, on the instruction set of the process.
    ///
    /// # Errors
    /// If shapes disagree or `workspace` is shorter than [`workspace_len`]; nothing has been written then.
    pub fn run(&self, c: &mut MatMut<'_, R>, workspace: &mut [T::Acc]) -> Result<(), GemmError> {
        self.run_on(Isa::detect(), c, workspace)
    }

    /// [`run`](Self::run) on `isa`, or on the widest instruction set of the CPU if that is narrower.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if `b` was packed for another set.
    pub fn run_on(&self, isa: Isa, c: &mut MatMut<'_, R>, workspace: &mut [T::Acc]) -> Result<(), GemmError> {
        let isa = isa.min(Isa::widest());
        let ((m, k), (_, n)) = (self.a.shape(), self.b.shape());
        self.check(isa, c, workspace.len())?;
        if m == 0 || n == 0 || (k == 0 && matches!(self.beta, Beta::One) && self.bias.is_none()) {
            return Ok(());
        }
        let parts = Parts::new(m, n, k);
        let (bias_room, rest) = aligned(workspace).split_at_mut(parts.bias);
        let (a_room, rest) = rest.split_at_mut(parts.a);
        let (b_room, stage) = rest.split_at_mut(parts.b);
        let bias = match self.bias {
            Some(bias) => {
                pack(isa, MatRef::new(bias, 0, (1, n), (n, 1))?, parts.bias, bias_room);
                Some(&*bias_room)
            }
            None => None,
        };
        let b = self.b_source(isa, m, b_room)?;
        let blocks = Blocks { isa, alpha: self.alpha, a: self.a, n, bias };
        blocks.run(self.beta, b, c, a_room, stage)
    }

    fn check(&self, isa: Isa, c: &MatMut<'_, R>, have: usize) -> Result<(), GemmError> {
        let (a, b, c) = (self.a.shape(), self.b.shape(), c.shape());
        let bias = self.bias.map(<[R]>::len);
        if a.1 != b.0 || a.0 != c.0 || b.1 != c.1 || bias.is_some_and(|len| len != b.1) {
            return Err(GemmError::Shape { a, b, c, bias });
        }
        match self.beta {
            Beta::Matrix(added) if added.shape() != c => {
                return Err(GemmError::Addend { addend: added.shape(), c });
            }
            Beta::Matrix(_) | Beta::Zero | Beta::One => {}
        }
        let need = workspace_len(a.0, b.1, a.1);
        if have < need {
            return Err(GemmError::Workspace { have, need });
        }
        match self.b {
            Rhs::Packed(packed) if packed.isa != isa => {
                Err(GemmError::OtherIsa { packed: packed.isa, run: isa })
            }
            Rhs::Packed(_) | Rhs::View(_) => Ok(()),
        }
    }

    /// B as the sweeps read it: packed now if many blocks of rows would each have to pack it.
    fn b_source<'b>(&self, isa: Isa, m: usize, room: &'b mut [T::Acc]) -> Result<Panels<'b, T>, GemmError>
    where
        'a: 'b,
    {
        let view = match self.b {
            Rhs::Packed(packed) => return Ok(Panels::Packed(packed)),
            Rhs::View(view) => view,
        };
        if m > block_rows(view.rows) && !fits_in_place(isa, m, view) {
            return Ok(Panels::Packed(PackedB::within(isa, view, room)?));
        }
        let in_place = dense(isa, m, view).then(|| same_type(view.data)).flatten();
        Ok(Panels::View { view, in_place, room })
    }
}

#[cfg(test)]
mod tests;
