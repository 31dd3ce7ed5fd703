//! Products with a small result and a long inner axis on a GPU: weight gradients. For these the matrix library's first
//! choice may be a single block that walks the whole axis.

use super::cuda::{Added, added, strides};
use crate::DType;
use crate::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};

const BLOCK: u32 = 256;
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
/// Multiplications at most: in larger products tensor cores pay whatever the library chooses.
const WORK: usize = 1 << 31;

static SOURCE: Source = Source {
    name: "matmul_cut",
    text: include_str!("cut.cu"),
    entries: &[
        Entry {
            name: "part",
            block: BLOCK,
            params: &[
                Param::input("lhs", "T"),
                Param::input("rhs", "T"),
                Param::u64("m"),
                Param::u64("n"),
                Param::u64("k"),
                Param::u64("lhs_row"),
                Param::u64("lhs_column"),
                Param::u64("rhs_row"),
                Param::u64("rhs_column"),
                Param::u64("each"),
                Param::scratch("partial", "A"),
            ],
        },
        Entry {
            name: "join",
            block: BLOCK,
            params: &[
                Param::scratch("partial", "A"),
                Param::input("addend", "R"),
                Param::input("bias", "R"),
                Param::output("out", "R"),
                Param::u64("m"),
                Param::u64("n"),
                Param::u64("out_row"),
                Param::u64("out_column"),
                Param::u64("bias_step"),
                Param::u64("parts"),
                Param::u64("addend_row"),
                Param::u64("addend_column"),
            ],
        },
    ],
};

/// Inner elements of a part, of a product of f32 or f64 that is to be cut; by sizes alone.
pub(super) fn each(dtype: DType, (batch, m, n, k): (usize, usize, usize, usize)) -> Option<usize> {
    let wide = matches!(dtype, DType::F32 | DType::F64);
    let cuts = wide && batch == 1 && m * n <= SMALL && k >= LONG && m * n <= WORK / k;
    cuts.then(|| k.div_ceil(PARTS).max(PART).next_multiple_of(SLAB))
}

/// Whether parts of `each` inner elements are another way to make a product for which there is room.
pub(super) fn varies(dtype: DType, (batch, m, n, k): (usize, usize, usize, usize), each: usize) -> bool {
    let wide = matches!(dtype, DType::F32 | DType::F64);
    let fits = wide && batch == 1 && m.saturating_mul(n) <= SMALL && (2..=PARTS).contains(&k.div_ceil(each));
    fits && self::each(dtype, (batch, m, n, k)) != Some(each)
}

/// Rows and columns of a block's tile of a result of `m` x `n`: powers of two, with as little beside the result as may be.
fn tile(m: usize, n: usize) -> (usize, usize) {
    let side = |of: usize| of.next_power_of_two().clamp(SIDE.0, SIDE.1);
    let columns = side(n);
    (side(m).min(TILE / columns), columns)
}

/// The product, in parts of `each` inner elements and by adding them up.
pub(super) fn run(call: &mut Call<'_>, each: usize, (m, n, k): (usize, usize, usize)) -> Result<(), Failure> {
    let (lhs, rhs, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let Added { addend, bias } = added(call);
    // What is not there is not followed.
    let added = addend.unwrap_or(&out);
    let (_, addend_row, addend_column) = strides(added)?;
    let bias_step = bias.map_or(0, |b| b.layout().strides()[0]);
    let (_, lhs_row, lhs_column) = strides(&lhs)?;
    let (_, rhs_row, rhs_column) = strides(&rhs)?;
    let (_, out_row, out_column) = strides(&out)?;
    let (rows, columns) = tile(m, n);
    let module = Module::new(&SOURCE)
        .of("T", lhs.dtype())
        .of("A", lhs.dtype().accumulate())
        .of("R", out.dtype())
        .constant("ADDED", u64::from(addend.is_some()))
        .constant("BIASED", u64::from(bias.is_some()))
        .constant("ROWS", rows as u64)
        .constant("COLUMNS", columns as u64);
    let parts = k.div_ceil(each);
    let args = [
        Arg::Input(&lhs),
        Arg::Input(&rhs),
        Arg::U64(m as u64),
        Arg::U64(n as u64),
        Arg::U64(k as u64),
        Arg::U64(lhs_row),
        Arg::U64(lhs_column),
        Arg::U64(rhs_row),
        Arg::U64(rhs_column),
        Arg::U64(each as u64),
        Arg::Scratch(0),
    ];
    let blocks = Geometry::blocks(m.div_ceil(rows) * n.div_ceil(columns), BLOCK)?;
    let geometry = Geometry { grid: [blocks.grid[0], parts as u32, 1], ..blocks };
    call.launch(&module, "part", geometry, &args)?;
    let args = [
        Arg::Scratch(0),
        Arg::Input(added),
        Arg::Input(bias.unwrap_or(&out)),
        Arg::Output(&out),
        Arg::U64(m as u64),
        Arg::U64(n as u64),
        Arg::U64(out_row),
        Arg::U64(out_column),
        Arg::U64(bias_step as u64),
        Arg::U64(parts as u64),
        Arg::U64(addend_row),
        Arg::U64(addend_column),
    ];
    call.launch(&module, "join", Geometry::blocks((m * n).div_ceil(32), BLOCK)?, &args)
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
