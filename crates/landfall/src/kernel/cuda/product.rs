//! Matmul in cuBLASLt's terms.
//!
//! cuBLASLt is column-major. A matmul with a row-major result is `outᵀ = rhsᵀ · lhsᵀ` for it, so that its first matrix
//! is our right-hand side.

use crate::kernel::added;
use crate::values::{Address, DType, Layout, Operand, Precision, collapse};

/// A matrix in memory, column-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Column stride in elements.
    pub(crate) lead: usize,
    /// Batch stride in elements.
    pub(crate) step: usize,
    /// Whether it is transposed.
    pub(crate) transposed: bool,
    /// Alignment: the largest power of two up to 16 bytes that divides its address.
    pub(crate) alignment: u32,
}

/// A matmul problem: everything that the heuristic's choice of an algorithm depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    /// Dtypes of the factors, and of the result and the addend.
    pub(crate) dtype: DType,
    pub(crate) result: DType,
    pub(crate) precision: Precision,
    pub(crate) batch: usize,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) out: Matrix,
    pub(crate) addend: Option<Matrix>,
    pub(crate) bias: bool,
    pub(crate) workspace: usize,
    /// Index of the algorithm in the heuristic's ranking.
    pub(crate) algorithm: usize,
}

/// The library's alignment of the workspace. Plans align to less, so that a matmul requests this much more.
pub(crate) const WORKSPACE_ALIGNMENT: usize = 256;

/// The addresses of a matmul's operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) out: u64,
    pub(crate) addend: u64,
    pub(crate) bias: u64,
    pub(crate) workspace: u64,
}

/// A matmul to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProductLaunch {
    pub(crate) problem: Problem,
    pub(crate) addresses: Addresses,
}

/// Batch axes merged into one: their number, and the batch stride.
fn batch(layout: &Layout) -> Option<(usize, usize)> {
    let rank = layout.shape().rank() - 2;
    let count = layout.shape().dims()[..rank].iter().product();
    let mut outer = (0..2).try_fold(*layout, |l, _| l.slice(rank, 0, 1, 1)?.squeeze(rank)).ok()?;
    collapse(std::slice::from_mut(&mut outer));
    match outer.strides() {
        [] => Some((count, 0)),
        [step] => Some((count, *step)),
        _ => None,
    }
}

fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(4)
}

impl Matrix {
    /// An operand's batch size and column-major matrix, transposed if needed; `None` if neither axis is contiguous.
    fn of(operand: &Operand) -> Option<(usize, Self)> {
        let layout = operand.layout();
        let rank = layout.shape().rank();
        let (batch, step) = batch(layout)?;
        let ([.., m, n], [.., down, along]) = (layout.shape().dims(), layout.strides()) else { return None };
        debug_assert!(rank >= 2, "a product is of matrices");
        let alignment = alignment(operand.address());
        // The stride of an axis of size 1 may be anything.
        let distance = |size: usize, other: usize, stride: usize| {
            if size <= 1 { Some(other.max(1)) } else { (stride >= other.max(1)).then_some(stride) }
        };
        let unit = |size: usize, stride: usize| size <= 1 || stride == 1;
        let by_rows = || distance(*m, *n, *down).filter(|_| unit(*n, *along));
        let by_columns = || distance(*n, *m, *along).filter(|_| unit(*m, *down));
        let this = match (by_rows(), by_columns()) {
            (Some(lead), _) => Self { rows: *n, cols: *m, lead, step, transposed: false, alignment },
            (None, Some(lead)) => Self { rows: *m, cols: *n, lead, step, transposed: true, alignment },
            (None, None) => return None,
        };
        Some((batch, this))
    }
}

impl ProductLaunch {
    /// The matmul in the library's terms; `None` if it does not support the operand layouts.
    pub(crate) fn new(
        inputs: &[Operand],
        out: &Operand,
        precision: Precision,
        workspace: (Address, usize),
        algorithm: usize,
    ) -> Option<Self> {
        let [rhs, lhs] = [inputs.get(1)?, inputs.first()?];
        let (addend, bias) = added(inputs.len(), |i| inputs[i].layout().shape().rank());
        let (addend, bias) = (addend.map(|i| &inputs[i]), bias.map(|i| &inputs[i]));
        if bias.is_some_and(|b| !b.layout().is_contiguous()) {
            return None;
        }
        // The library would round to 16 bits between the two: measured on an H200, not documented.
        if addend.is_some() && bias.is_some() && out.dtype() != out.dtype().accumulate() {
            return None;
        }
        let (batch, mut out_matrix) = Matrix::of(out).filter(|(_, m)| !m.transposed)?;
        let mut added = match addend {
            Some(addend) => Some(Matrix::of(addend).filter(|(_, m)| !m.transposed)?.1),
            None => None,
        };
        let ((_, a), (_, mut b)) = (Matrix::of(rhs)?, Matrix::of(lhs)?);
        let (n, m, k) = (out_matrix.rows, out_matrix.cols, if b.transposed { b.cols } else { b.rows });
        let mut count = batch;
        // One matrix for the whole batch is one product with more rows.
        let joins = |x: &Matrix| !x.transposed && x.step == x.lead * m;
        if batch > 1 && a.step == 0 && joins(&b) && joins(&out_matrix) && added.as_ref().is_none_or(joins) {
            (b.cols, out_matrix.cols, count) = (m * batch, m * batch, 1);
            added.iter_mut().for_each(|added| added.cols = m * batch);
        }
        let small = |x: usize| i32::try_from(x).is_ok();
        if m * n * k * batch == 0 || ![n, out_matrix.cols, k, count].into_iter().all(small) {
            return None;
        }
        let (start, bytes) = workspace;
        let aligned = start.0.next_multiple_of(WORKSPACE_ALIGNMENT as u64);
        let problem = Problem {
            dtype: lhs.dtype(),
            result: out.dtype(),
            precision,
            batch: count,
            a,
            b,
            out: out_matrix,
            addend: added,
            bias: bias.is_some(),
            // The same size for every offset: the choice of an algorithm depends on it.
            workspace: bytes.saturating_sub(WORKSPACE_ALIGNMENT),
            algorithm,
        };
        let addresses = Addresses {
            a: rhs.address(),
            b: lhs.address(),
            out: out.address(),
            // Without an addend the result's memory is passed, and not read.
            addend: addend.unwrap_or(out).address(),
            bias: bias.map_or(0, Operand::address),
            workspace: aligned,
        };
        Some(Self { problem, addresses })
    }
}

#[cfg(test)]
mod tests;
