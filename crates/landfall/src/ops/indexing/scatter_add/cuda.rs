//! [`ScatterAdd`] on a GPU: a stable sort of the indices, then one thread for each element that is added to.

use super::ScatterAdd;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::indexing::parts::NAMED;
use crate::ops::indexing::radix::Room;
use crate::ops::movement::copies as movement;
use crate::values::Spec;

cuda_kernel! {
    /// A thread makes a key.
    struct KeysOf = "keys_of", BLOCK;
    index: input_of I64,
    keys: output_of I64,
    positions: output_of I32,
    faults: faults,
    n: size,
    size: size,
    count: size,
    rest: size,
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
    pieces: &[NAMED, Piece::new("scatter", include_str!("scatter.cu"))],
    entries: &[KeysOf::KERNEL, AddSorted::KERNEL],
};

/// The number of keys: an index of rows is one key, whatever the row's width.
fn keys(op: &dyn Op, args: &[Spec]) -> usize {
    let rows = attributes::<ScatterAdd>(op).is_ok_and(|op| op.rows);
    args.get(if rows { 1 } else { 2 }).map_or(0, |a| a.shape.elements())
}

/// Bytes that a call needs.
pub(super) fn workspace(op: &dyn Op, args: &[Spec]) -> usize {
    Room::bytes(keys(op, args))
}

/// [`ScatterAdd`].
pub(super) fn scatter_add(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (into, index, source, out) = (call.input(0)?, call.input(1)?, call.input(2)?, call.output(0)?);
    let n = keys(op, &[into.spec(), index.spec(), source.spec()]);
    let op = attributes::<ScatterAdd>(op)?;
    if call.in_place(0).is_none() {
        movement::cuda::copy(call, into, out)?;
    }
    let p = op.indexing().parts(out.layout(), index.layout(), source.layout())?;
    if p.picked.shape().elements() == 0 {
        return Ok(());
    }
    let room = Room::of(call, n)?;
    // Of rows a key is a row and the width is its elements; of elements a key is an element.
    let (rest, width) = if op.rows { (1, p.rest) } else { (p.rest, 1) };
    // The index in the order of the keys.
    let by = if op.rows { *index.layout() } else { p.index };
    let args = KeysOf {
        index,
        keys: &room.keys[0],
        positions: &room.positions[0],
        faults: (),
        n,
        size: p.size,
        count: p.count,
        rest,
        inner: p.inner,
        rank: by.shape().rank() as u32,
        shape: by.shape().dims(),
        index_stride: by.strides(),
    };
    let module = Module::new(&SCATTER).of("T", out.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)?;
    let now = room.sort(call, 0, Room::bits(p.size * rest))?;
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
