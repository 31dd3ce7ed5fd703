//! Products with a small result and a long inner axis on a GPU: weight gradients. For these the matrix library's first
//! choice may be a single block that walks the whole axis. The axis is cut into parts: where there is little to multiply
//! they are made by a kernel of ours, else by the library, as a batch.

use super::cuda::{LEAST, strides};
use super::join::join;
use super::lines::{self, LINES, REST};
use crate::kernel::cuda::{
    BLOCK, Call, FRAGMENTS, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel, size,
};
use crate::values::{DType, Operand, Precision, Rule, Spec};

/// Elements of the result that a block can hold, and indices of an axis in a tile: at least and at most.
const TILE: usize = 8192;
const SIDE: (usize, usize) = (16, 128);
/// Inner indices that a block takes at once: a multiple of `SLAB` in the source.
const SLAB: usize = 32;

/// Parts of a long inner axis that there is room for.
pub(super) const PARTS: usize = 128;
/// Elements at most of a small result, inner elements at least of a long axis, and of a part of it.
const SMALL: usize = 1 << 15;
const LONG: usize = 2048;
const PART: usize = 128;
/// Multiplications at most of our kernel: in larger products the library's are faster. Of 16 bits it has tensor cores, too: there our
/// kernel is for products so small that many of them in one launch are what counts.
const WORK: usize = 1 << 31;
const SMALL_WORK: usize = 1 << 28;
/// Of tensor cores: inner elements of a part at least, and those in shared memory at once, at most; rows and columns of a tile.
const MMA_PART: usize = 256;
const MMA_ROWS: (usize, usize) = (16, 64);
const MMA_COLUMNS: (usize, usize) = (32, 64);
/// About what a block of the library takes of a result, a side, how many blocks keep a GPU busy, and inner elements at
/// least of a part that the library makes: of less it finds a good way itself.
const LIBRARY_TILE: usize = 128;
const LIBRARY_BLOCKS: usize = 128;
const LIBRARY_PART: usize = 2048;
/// Elements of 16 bits in the 16 bytes that the library's kernels for tensor cores load at once.
const ALIGNED: usize = 8;

cuda_kernel! {
    /// A block makes a tile of a part of the product.
    struct Part = "part", BLOCK;
    lhs: input T,
    rhs: input T,
    m: size,
    n: size,
    k: size,
    lhs_row: size,
    lhs_column: size,
    rhs_row: size,
    rhs_column: size,
    each: size,
    partial: scratch A,
}

static SOURCE: Source = Source {
    name: "matmul_cut",
    pieces: &[Piece::new("cut", include_str!("cut.cu"))],
    entries: &[Part::KERNEL],
};

/// The same by tensor cores.
static MMA_SOURCE: Source = Source {
    name: "matmul_cut_mma",
    pieces: &[FRAGMENTS, LINES, Piece::new("cut_mma", include_str!("cut_mma.cu"))],
    entries: &[Part::KERNEL],
};

/// Whether tensor cores make the parts: of 16 bits, of which their sums are in f32.
fn by_tensor_cores(dtype: DType) -> bool {
    dtype.size() == 2
}

/// Multiplications at most of a product that our kernel makes by default. Of 16 bits the library cuts the axis and uses tensor cores too,
/// but not where rows of the result or of a factor are no multiple of [`ALIGNED`]: there one block walks the whole axis (512 x 7 of
/// 16,384 inner elements: 2,650 us on an H100).
fn work(dtype: DType, (m, n): (usize, usize)) -> usize {
    let aligned = m.is_multiple_of(ALIGNED) && n.is_multiple_of(ALIGNED);
    if by_tensor_cores(dtype) && aligned { SMALL_WORK } else { WORK }
}

/// Inner elements of a part, of a product that is to be cut by our kernel; by sizes alone.
pub(super) fn each(dtype: DType, (batch, m, n, k): (usize, usize, usize, usize)) -> Option<usize> {
    let cuts = batch == 1 && m * n <= SMALL && k >= LONG && m * n <= work(dtype, (m, n)) / k;
    let (least, slab) = if by_tensor_cores(dtype) { (MMA_PART, MMA_PART) } else { (PART, SLAB) };
    cuts.then(|| k.div_ceil(PARTS).max(least).next_multiple_of(slab))
}

/// Inner elements of a part, of a product that the library is to make in parts; by sizes alone. Products of 16 bits it cuts
/// itself, but `whole` ones: those it may not cut, because a bias would be added to a sum that was rounded.
pub(super) fn of_library(
    dtype: DType,
    whole: bool,
    (batch, m, n, k): (usize, usize, usize, usize),
) -> Option<usize> {
    if !(dtype == DType::F32 || dtype.size() == 2 && whole) || batch != 1 {
        return None;
    }
    let tiles = m.div_ceil(LIBRARY_TILE).saturating_mul(n.div_ceil(LIBRARY_TILE));
    let most = (LIBRARY_BLOCKS / tiles).min(k / LIBRARY_PART);
    // Parts of one length, which need no product of what is left over, where that costs few of them.
    let even = |parts: &usize| k % (parts * SLAB) == 0;
    (most > 1).then(|| match (most.div_ceil(2)..=most).rev().find(even) {
        Some(parts) => k / parts,
        None => k.div_ceil(most).next_multiple_of(SLAB),
    })
}

/// Bytes of parts of `each` inner elements.
pub(super) fn workspace(dtype: DType, (_, m, n, k): (usize, usize, usize, usize), each: usize) -> usize {
    [m, n, dtype.accumulate().size()].into_iter().fold(k.div_ceil(each), usize::saturating_mul)
}

/// Whether parts of `each` inner elements are another way to make a product for which there is room.
pub(super) fn varies(dtype: DType, (batch, m, n, k): (usize, usize, usize, usize), each: usize) -> bool {
    let fits = batch == 1 && m.saturating_mul(n) <= SMALL && (2..=PARTS).contains(&k.div_ceil(each));
    fits && self::each(dtype, (batch, m, n, k)) != Some(each)
}

/// Whether parts of `each` inner elements that the library makes are another way for which the scratch memory has room.
pub(super) fn library_varies(
    dtype: DType,
    sizes: (usize, usize, usize, usize),
    each: usize,
    scratch: usize,
) -> bool {
    let (batch, m, n, k) = sizes;
    let bytes = m.saturating_mul(n).saturating_mul(dtype.size());
    let room = scratch.saturating_sub(LEAST) / bytes.max(1);
    let fits = dtype == DType::F32 && batch == 1 && (2..=room.min(PARTS)).contains(&k.div_ceil(each));
    fits && of_library(dtype, false, sizes) != Some(each)
}

/// Rows and columns of a block's tile of a result of `m` x `n`: powers of two, with as little beside the result as may be.
fn tile(m: usize, n: usize) -> (usize, usize) {
    let side = |of: usize| of.next_power_of_two().clamp(SIDE.0, SIDE.1);
    let columns = side(n);
    (side(m).min(TILE / columns), columns)
}

/// The product, in parts of `each` inner elements and by adding them up.
pub(super) fn run(call: &mut Call<'_>, each: usize, (m, n, k): (usize, usize, usize)) -> Result<(), Failure> {
    let (lhs, rhs) = (*call.input(0)?, *call.input(1)?);
    let (_, lhs_row, lhs_column) = strides(&lhs)?;
    let (_, rhs_row, rhs_column) = strides(&rhs)?;
    let parts = k.div_ceil(each);
    let args =
        Part { lhs: &lhs, rhs: &rhs, m, n, k, lhs_row, lhs_column, rhs_row, rhs_column, each, partial: 0 };
    let (module, (rows, columns), shared) =
        if by_tensor_cores(lhs.dtype()) { mma(&args) } else { (Module::new(&SOURCE), tile(m, n), 0) };
    let module = module
        .of("T", lhs.dtype())
        .of("A", lhs.dtype().accumulate())
        .constant("ROWS", rows as u64)
        .constant("COLUMNS", columns as u64);
    let blocks = Geometry::blocks(m.div_ceil(rows) * n.div_ceil(columns), BLOCK)?;
    let geometry = Geometry { grid: [blocks.grid[0], parts as u32, 1], shared: size(shared)?, ..blocks };
    call.launch(&module, geometry, &args)?;
    join(call, parts, (m, n))
}

/// The kernel for tensor cores, its tile, and the bytes of shared memory of a block.
fn mma(args: &Part<'_>) -> (Module, (usize, usize), usize) {
    let &Part { lhs, rhs, m, n, lhs_row, lhs_column, rhs_row, rhs_column, each, .. } = args;
    let side = |of: usize, (least, most)| of.next_power_of_two().clamp(least, most);
    let (rows, columns) = (side(m, MMA_ROWS), side(n, MMA_COLUMNS));
    let depth = each.min(MMA_PART);
    let shared = depth * (rows + REST + columns + REST) * lhs.dtype().size();
    let module = Module::new(&MMA_SOURCE)
        .constant("DEPTH", depth as u64)
        .constant("SHARED", shared as u64)
        .constant("LEFT_EIGHT", u64::from(lines::by_chunks(lhs, m, lhs_column, lhs_row)))
        .constant("RIGHT_EIGHT", u64::from(lines::by_chunks(rhs, n, rhs_row, rhs_column)))
        .constant("PAIRS", u64::from(n.is_multiple_of(2)));
    (module, (rows, columns), shared)
}

/// The product, in parts of `each` inner elements that the library makes and by adding them up; whether it takes operands
/// that lie like these. If not, nothing ran.
pub(super) fn by_library(
    call: &mut Call<'_>,
    precision: Precision,
    each: usize,
    (m, n, k): (usize, usize, usize),
) -> Result<bool, Failure> {
    let (whole, rest) = (k / each, k % each);
    let parts = whole + usize::from(rest > 0);
    // Parts are added up before they are rounded.
    let result = call.input(0)?.dtype().accumulate();
    let size = m * n * result.size();
    let out = call.scratch(0, Spec { dtype: result, shape: [whole, m, n].into() })?;
    // [.., inner] becomes [part, .., inner of the part].
    let cut = |of: &Operand, outer: usize, from: usize, len: usize, each: usize| -> Result<Operand, Rule> {
        let inner = 1 - outer;
        let rank = of.layout().shape().rank();
        let matrix = (2..rank).try_fold(*of.layout(), |l, _| l.squeeze(0))?;
        let parts = matrix.slice(inner, from, len, 1)?.permute(&[outer, inner])?.unfold(each, each)?;
        let order = if outer == 0 { [1, 0, 2] } else { [1, 2, 0] };
        Ok(of.relaid(parts.permute(&order)?))
    };
    let (lhs, rhs) = (*call.input(0)?, *call.input(1)?);
    let factors = |from, len, each| -> Result<[Operand; 2], Rule> {
        Ok([cut(&lhs, 0, from, len, each)?, cut(&rhs, 1, from, len, each)?])
    };
    if !call.product(&factors(0, whole * each, each)?, &out, precision, 0, parts * size)? {
        return Ok(false);
    }
    if rest > 0 {
        let out = call.scratch(whole * size, Spec { dtype: result, shape: [1, m, n].into() })?;
        let factors = factors(whole * each, rest, rest)?;
        if !call.product(&factors, &out, precision, 0, parts * size)? {
            let what = format!("it multiplies {each} inner elements and not {rest} of the same operands");
            return Err(Rule::Launch { file: "cublasLt", entry: "cublasLtMatmul", what }.into());
        }
    }
    join(call, parts, (m, n))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::tile;

    #[test]
    fn tiles_fill_whole_teams_of_a_block() {
        for m in [1, 8, 16, 17, 48, 64, 128, 200, 256, 4096] {
            for n in [1, 8, 16, 33, 48, 64, 128, 192, 4096] {
                let (rows, columns) = tile(m, n);
                // A thread has 4 x 8 elements; a team has at most the block's threads, a number that divides them.
                let team = rows / 4 * columns / 8;
                assert!(
                    rows % 4 == 0 && columns % 8 == 0 && 256 % team == 0,
                    "{m} x {n}: {rows} x {columns}"
                );
                assert!(rows >= m.min(16) && columns >= n.min(16), "{m} x {n}: {rows} x {columns}");
            }
        }
    }
}
