//! Batches of windows on a GPU.

use super::{BatchWindows, Order, WindowGather};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::values::DType;

/// Threads of a block of [`batch_windows`]: each is a chain of steps of its own, and a warp alone on a multiprocessor waits
/// for no other.
const WARP: u32 = 32;

cuda_kernel! {
    /// A thread finds the place of a window of the batch.
    struct Windows = "batch_windows", WARP;
    cursor: view_in_of I64,
    table: view_in_of I64,
    list: view_in_of I64,
    starts: view_out_of I64,
    groups: view_out_of I64,
    valid: view_out_of Bool,
    batch: size,
    micro_batches: size,
    rows: size,
    shuffle: flag,
    epochs: size,
    positions: size,
}

/// Elements that a thread of [`window_gather`] takes: `EACH` in the source.
const EACH: usize = 4;

cuda_kernel! {
    /// A thread copies some neighbours of a window.
    struct Gather = "window_gather", BLOCK;
    series: view_in T,
    starts: view_in_of I64,
    out: view_out T,
    faults: faults,
    units: size,
    channels: size,
    length: size,
    width: size,
    t: size,
    stride: size,
    offset: size,
    whole: flag,
}

static SOURCE: Source = Source {
    name: "windows",
    pieces: &[Piece::new("windows", include_str!("windows.cu"))],
    entries: &[Windows::KERNEL, Gather::KERNEL],
};

/// [`BatchWindows`].
pub(super) fn batch_windows(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<BatchWindows>(op)?;
    if op.batch == 0 {
        return Ok(());
    }
    let (cursor, table) = (*call.input(0)?, *call.input(1)?);
    let (starts, groups, valid) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    // In place of a list that the call has not, the table is passed and not touched.
    let (list, [epochs, positions]) = match op.order {
        Order::Listed => {
            let list = *call.input(2)?;
            let dims = list.spec().shape;
            (list, [0, 1].map(|axis| dims.dims()[axis]))
        }
        Order::Sequential | Order::Shuffled => (table, [0; 2]),
    };
    let args = Windows {
        cursor: &cursor,
        table: &table,
        list: &list,
        starts: &starts,
        groups: &groups,
        valid: &valid,
        batch: op.batch,
        micro_batches: op.micro_batches,
        rows: table.spec().shape.dims()[0],
        shuffle: op.order == Order::Shuffled,
        epochs,
        positions,
    };
    // The element type is the gather's; any will do.
    let module = Module::new(&SOURCE).of("T", DType::F32);
    call.launch(&module, Geometry::linear(op.batch, WARP)?, &args)
}

/// [`WindowGather`].
pub(super) fn window_gather(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<WindowGather>(op)?;
    let (series, starts, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let dims = *series.spec().shape.dims().first_chunk::<2>().unwrap_or(&[0; 2]);
    // Rows of whole accesses.
    let access = (EACH * out.dtype().size()).min(16) as u64;
    let steps = out.layout().strides().split_last().is_some_and(|(&last, outer)| {
        last == 1 && outer.iter().all(|s| s.is_multiple_of(EACH)) && op.width.is_multiple_of(EACH)
    });
    let whole = steps && out.address().is_multiple_of(access);
    let units = n / op.width * op.width.div_ceil(EACH);
    let args = Gather {
        series: &series,
        starts: &starts,
        out: &out,
        faults: (),
        units,
        channels: dims[0],
        length: op.length,
        width: op.width,
        t: dims[1],
        stride: op.stride.min(i64::MAX as usize),
        offset: op.offset,
        whole,
    };
    let module = Module::new(&SOURCE).of("T", series.dtype());
    call.launch(&module, Geometry::linear(units, BLOCK)?, &args)
}
