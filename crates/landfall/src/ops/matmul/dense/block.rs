//! Products of 16-bit floats by blocks that hold the whole right factor: many rows times a small matrix, as the layers of small
//! networks are. A row's result depends on nothing but that row and the right factor, so a part of the rows can be computed by itself.

use super::cuda::{Product, added, arguments};
use super::lines::{self, LINES, REST};
use super::{MatMul, sizes};
use crate::contract::{Kernel, Op, attributes};
use crate::kernel::cuda::{
    BLOCK, Call, FRAGMENTS, Failure, Geometry, KernelArgs, Module, Piece, Source, size,
};
use crate::values::{DType, Spec};

static SOURCE: Source = Source {
    name: "matmul_block",
    pieces: &[FRAGMENTS, LINES, Piece::new("block", include_str!("block.cu"))],
    entries: &[Product::KERNEL],
};

/// Rows of a block: `ROWS` in the source.
const ROWS: usize = 32;
/// Bytes of shared memory at most: two blocks are on a multiprocessor of any GPU from Ampere on.
const SHARED: usize = 72 << 10;

/// Bytes of a block's shared memory, where columns of the right factor are contiguous or rows are.
fn shared((n, k): (usize, usize), along: bool) -> usize {
    let (width, depth) = (n.next_multiple_of(16), k.next_multiple_of(16));
    let (lines, line) = if along { (width, depth) } else { (depth, width) };
    let right = lines.saturating_mul(line + REST);
    let factors = right.saturating_add(ROWS * (depth + REST)).saturating_mul(DType::BF16.size());
    factors.saturating_add(width * DType::F32.size())
}

/// Whether a block takes such a product.
pub(super) fn fits(args: &[Spec]) -> bool {
    let (batch, m, n, k) = sizes(args);
    let small = |along| shared((n, k), along) <= SHARED;
    batch == 1
        && ![m, n, k].contains(&0)
        && matches!(args[0].dtype, DType::BF16 | DType::F16)
        && small(true)
        && small(false)
}

/// Such a product as a kernel.
pub(super) const fn kernel(name: &'static str) -> Kernel {
    Kernel::cuda(name, run).accepting(|op, args| attributes::<MatMul>(op).is_ok() && fits(args))
}

fn run(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (lhs, rhs, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let added = added(call);
    let args = arguments([&lhs, &rhs], &out, &added)?;
    let Product { m, n, k, lhs_row, lhs_column, rhs_row, rhs_column, out_row, out_column, .. } = args;
    let along = rhs_row == 1 && rhs_column != 1;
    let right_eight = if along {
        lines::by_chunks(&rhs, k, rhs_column, rhs_row)
    } else {
        lines::by_chunks(&rhs, n, rhs_row, rhs_column)
    };
    let pair = (2 * out.dtype().size()) as u64;
    let pairs = out_column == 1
        && out_row.is_multiple_of(2)
        && n.is_multiple_of(2)
        && out.address().is_multiple_of(pair);
    let bytes = shared((n, k), along);
    let flag = |name, is: bool| (name, u64::from(is));
    let constants = [
        ("INNER", k as u64),
        ("COLUMNS", n as u64),
        ("SHARED", bytes as u64),
        flag("ALONG", along),
        flag("LEFT_EIGHT", lines::by_chunks(&lhs, k, lhs_row, lhs_column)),
        flag("RIGHT_EIGHT", right_eight),
        flag("PAIRS", pairs),
        flag("ADDED", added.addend.is_some()),
        flag("BIASED", added.bias.is_some()),
    ];
    let module = Module::new(&SOURCE).of("T", lhs.dtype()).of("R", out.dtype());
    let module = constants.into_iter().fold(module, |m, (name, value)| m.constant(name, value));
    let shared = size(bytes)?;
    call.launch(&module, Geometry { shared, ..Geometry::blocks(m.div_ceil(ROWS), BLOCK)? }, &args)
}
