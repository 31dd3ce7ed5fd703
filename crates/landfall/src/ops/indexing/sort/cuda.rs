//! [`Sort`] on a GPU: all rows at once, by element and then by row.

use super::Sort;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::indexing::radix::Room;
use crate::values::{DType, Spec};

cuda_kernel! {
    /// A thread makes a key.
    struct ElementKeys = "element_keys", BLOCK;
    x: input T,
    keys: output_of I64,
    positions: output_of I32,
    n: size,
    flip: u64,
    rank: u32,
    shape: dims,
    x_stride: dims,
}

cuda_kernel! {
    /// A thread replaces a key.
    struct RowKeys = "row_keys", BLOCK;
    keys: output_of I64,
    positions: input_of I32,
    n: size,
    length: size,
}

cuda_kernel! {
    /// A thread writes an element and its index.
    struct InOrder = "in_order", BLOCK;
    x: input T,
    positions: input_of I32,
    values: output T,
    indices: output_of I64,
    n: size,
    length: size,
    rank: u32,
    shape: dims,
    x_stride: dims,
    values_stride: dims,
    indices_stride: dims,
}

static SOURCE: Source = Source {
    name: "sort",
    pieces: &[Piece::new("sort", include_str!("sort.cu"))],
    entries: &[ElementKeys::KERNEL, RowKeys::KERNEL, InOrder::KERNEL],
};

/// Bytes that a call needs.
pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    Room::bytes(args[0].shape.elements())
}

/// [`Sort`].
pub(super) fn sort(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Sort>(op)?;
    let (x, values, indices) = (call.input(0)?, call.output(0)?, call.output(1)?);
    let rows = op.rows(x.layout())?;
    let (n, length) = (rows.shape().elements(), rows.shape().last());
    if n == 0 {
        return Ok(());
    }
    let room = Room::of(call, n)?;
    let (rank, shape) = (rows.shape().rank() as u32, *rows.shape());
    // Keys of 16-bit floats are those of the f32 that holds them.
    let bits = match x.dtype() {
        DType::F64 | DType::I64 => 64,
        DType::F32 | DType::BF16 | DType::F16 | DType::I32 => 32,
        DType::U8 | DType::Bool => 8,
    };
    let flip = if op.descending { u64::MAX >> (64 - bits) } else { 0 };
    let (keys, positions) = (&room.keys[0], &room.positions[0]);
    let module = Module::new(&SOURCE).of("T", x.dtype());
    let each = Geometry::linear(n, BLOCK)?;
    let args =
        ElementKeys { x, keys, positions, n, flip, rank, shape: shape.dims(), x_stride: rows.strides() };
    call.launch(&module, each, &args)?;
    let mut now = room.sort(call, 0, bits)?;
    if n > length {
        let (keys, positions) = (&room.keys[now], &room.positions[now]);
        call.launch(&module, each, &RowKeys { keys, positions, n, length })?;
        now = room.sort(call, now, Room::bits(n / length))?;
    }
    let (to, by) = (op.rows(values.layout())?, op.rows(indices.layout())?);
    let args = InOrder {
        x,
        positions: &room.positions[now],
        values,
        indices,
        n,
        length,
        rank,
        shape: shape.dims(),
        x_stride: rows.strides(),
        values_stride: to.strides(),
        indices_stride: by.strides(),
    };
    call.launch(&module, each, &args)
}
