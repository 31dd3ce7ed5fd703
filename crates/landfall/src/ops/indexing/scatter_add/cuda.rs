//! [`ScatterAdd`] on a GPU: a stable sort of the indices, then one thread for each element that is added to.

use super::ScatterAdd;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::movement::copies as movement;
use crate::values::{DType, Operand, Rule, Spec};

/// Keys of one digit, and keys of one block: `DIGITS` and `TILE` in the source.
const DIGITS: usize = 256;
const TILE: usize = 2048;

cuda_kernel! {
    /// A block counts the digits of a tile.
    struct Count = "count_digits", DIGITS as u32;
    keys: input_of I64,
    tiles: output_of I32,
    n: size,
    shift: u32,
}

cuda_kernel! {
    /// One block sums all counts.
    struct RunningSum = "running_sum", 1024;
    tiles: output_of I32,
    n: size,
}

cuda_kernel! {
    /// A block moves a tile.
    struct PlaceDigits = "place_digits", DIGITS as u32;
    keys: input_of I64,
    positions: input_of I32,
    keys_out: output_of I64,
    positions_out: output_of I32,
    tiles: input_of I32,
    n: size,
    shift: u32,
}

static RADIX: Source = Source {
    name: "radix",
    pieces: &[Piece::new("radix", include_str!("radix.cu"))],
    entries: &[Count::KERNEL, RunningSum::KERNEL, PlaceDigits::KERNEL],
};

cuda_kernel! {
    /// A thread makes a key.
    struct KeysOf = "keys_of", BLOCK;
    index: input_of I64,
    keys: output_of I64,
    positions: output_of I32,
    faults: faults,
    n: size,
    size: size,
    inner: size,
    rank: u32,
    shape: dims,
    index_stride: dims,
}

cuda_kernel! {
    /// A thread adds to an element.
    struct AddSorted = "add_sorted", BLOCK;
    keys: input_of I64,
    positions: input_of I32,
    source: input T,
    out: output T,
    n: size,
    width: size,
    rest: size,
    step: size,
    rank: u32,
    shape: dims,
    source_stride: dims,
    rest_rank: u32,
    rest_shape: dims,
    out_stride: dims,
}

static SCATTER: Source = Source {
    name: "scatter_add",
    pieces: &[Piece::new("scatter", include_str!("scatter.cu"))],
    entries: &[KeysOf::KERNEL, AddSorted::KERNEL],
};

/// Bytes of the keys and of the positions of a sort.
fn sizes(n: usize) -> [usize; 2] {
    [n * size_of::<i64>(), (n * size_of::<i32>()).next_multiple_of(8)]
}

/// Keys with their positions, before and after a pass, and the counts of a pass, all in the workspace.
struct Room {
    keys: [Operand; 2],
    positions: [Operand; 2],
    tiles: Operand,
}

impl Room {
    fn of(call: &Call<'_>, n: usize) -> Result<Self, Rule> {
        let [keys, positions] = sizes(n);
        let of = |at, dtype, n: usize| call.scratch(at, Spec::new(dtype, [n]));
        Ok(Self {
            keys: [of(0, DType::I64, n)?, of(keys, DType::I64, n)?],
            positions: [of(2 * keys, DType::I32, n)?, of(2 * keys + positions, DType::I32, n)?],
            tiles: of(2 * (keys + positions), DType::I32, DIGITS * n.div_ceil(TILE))?,
        })
    }
}

/// The number of keys: an index of rows is one key, whatever the row's width.
fn keys(op: &dyn Op, args: &[Spec]) -> usize {
    let rows = attributes::<ScatterAdd>(op).is_ok_and(|op| op.rows);
    args.get(if rows { 1 } else { 2 }).map_or(0, |a| a.shape.elements())
}

/// Bytes that a call needs.
pub(super) fn workspace(op: &dyn Op, args: &[Spec]) -> usize {
    let n = keys(op, args);
    2 * sizes(n).iter().sum::<usize>() + DIGITS * n.div_ceil(TILE) * size_of::<i32>()
}

/// Sorts `n` keys, all below `limit`, and their positions; gives which of the two rooms holds them.
fn sort(call: &mut Call<'_>, room: &Room, n: usize, limit: usize) -> Result<usize, Failure> {
    let module = Module::new(&RADIX);
    let (tiles, blocks) = (&room.tiles, n.div_ceil(TILE));
    let bits = usize::BITS - limit.saturating_sub(1).leading_zeros();
    let mut now = 0;
    for shift in (0..bits).step_by(8) {
        let keys = &room.keys[now];
        let tile = Geometry::blocks(blocks, DIGITS as u32)?;
        call.launch(&module, tile, &Count { keys, tiles, n, shift })?;
        call.launch(&module, Geometry::blocks(1, 1024)?, &RunningSum { tiles, n: DIGITS * blocks })?;
        let args = PlaceDigits {
            keys,
            positions: &room.positions[now],
            keys_out: &room.keys[1 - now],
            positions_out: &room.positions[1 - now],
            tiles,
            n,
            shift,
        };
        call.launch(&module, tile, &args)?;
        now = 1 - now;
    }
    Ok(now)
}

/// [`ScatterAdd`].
pub(super) fn scatter_add(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let given = call.specs();
    let n = keys(op, &given);
    let op = attributes::<ScatterAdd>(op)?;
    let (into, index, source, out) = (call.input(0)?, call.input(1)?, call.input(2)?, call.output(0)?);
    if call.in_place(0).is_none() {
        movement::cuda::copy(call, into, out)?;
    }
    let p = op.indexing().parts(out.layout(), index.layout(), source.layout())?;
    if p.picked.shape().elements() == 0 {
        return Ok(());
    }
    if i32::try_from(n).is_err() {
        let expected = "below 2^31";
        return Err(Rule::Attribute { name: "number of indices", value: n as f64, expected }.into());
    }
    let room = Room::of(call, n)?;
    // Of rows a key is a row and the width is its elements; of elements a key is an element.
    let (inner, width) = if op.rows { (1, p.rest) } else { (p.rest, 1) };
    // The index in the order of the keys.
    let by = if op.rows { *index.layout() } else { p.index };
    let args = KeysOf {
        index,
        keys: &room.keys[0],
        positions: &room.positions[0],
        faults: (),
        n,
        size: p.size,
        inner,
        rank: by.shape().rank() as u32,
        shape: by.shape().dims(),
        index_stride: by.strides(),
    };
    let module = Module::new(&SCATTER).of("T", out.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)?;
    let now = sort(call, &room, n, p.size * inner)?;
    let rest = out.layout().slice(op.axis, 0, 1, 1)?.squeeze(op.axis)?;
    let args = AddSorted {
        keys: &room.keys[now],
        positions: &room.positions[now],
        source,
        out,
        n,
        width,
        rest: p.rest,
        step: p.step,
        rank: p.picked.shape().rank() as u32,
        shape: p.picked.shape().dims(),
        source_stride: p.picked.strides(),
        rest_rank: rest.shape().rank() as u32,
        rest_shape: rest.shape().dims(),
        out_stride: rest.strides(),
    };
    call.launch(&module, Geometry::linear(n * width, BLOCK)?, &args)
}
