//! Batches of windows on a GPU.

use super::{BatchWindows, Order, WindowGather};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Operand};

const BLOCK: u32 = 256;
/// Elements that a thread of [`window_gather`] takes: `EACH` in the source.
const EACH: usize = 4;
/// Threads of a block of [`batch_windows`]: each is a chain of steps of its own, and a warp alone on a multiprocessor waits
/// for no other.
const WARP: u32 = 32;

static SOURCE: Source = Source {
    name: "windows",
    text: include_str!("windows.cu"),
    entries: &[
        Entry {
            name: "batch_windows",
            block: WARP,
            params: &[
                Param::input_is("cursor", DType::I64),
                Param::input_is("table", DType::I64),
                Param::input_is("list", DType::I64),
                Param::output_is("starts", DType::I64),
                Param::output_is("groups", DType::I64),
                Param::output_is("valid", DType::Bool),
                Param::u64("batch"),
                Param::u64("micro_batches"),
                Param::u64("rows"),
                Param::u32("shuffle"),
                Param::u64("epochs"),
                Param::u64("positions"),
                Param::u64("stride_epoch"),
                Param::u64("stride_position"),
                Param::u64("stride_cursor"),
                Param::u64("stride_row"),
                Param::u64("stride_col"),
                Param::u64("stride_starts"),
                Param::u64("stride_groups"),
                Param::u64("stride_valid"),
            ],
        },
        Entry {
            name: "window_gather",
            block: BLOCK,
            params: &[
                Param::input("series", "T"),
                Param::input_is("starts", DType::I64),
                Param::output("out", "T"),
                Param::faults("faults"),
                Param::u64("units"),
                Param::u64("channels"),
                Param::u64("length"),
                Param::u64("width"),
                Param::u64("t"),
                Param::u64("stride"),
                Param::u64("offset"),
                Param::u32("whole"),
                Param::u64("stride_starts"),
                Param::dims("stride_x"),
                Param::dims("stride_out"),
            ],
        },
    ],
};

fn stride(operand: &Operand, axis: usize) -> Arg<'static> {
    Arg::U64(operand.layout().strides()[axis] as u64)
}

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
            (list, [0, 1].map(|axis| dims.dims()[axis] as u64))
        }
        Order::Sequential | Order::Shuffled => (table, [0; 2]),
    };
    let args = [
        Arg::Input(&cursor),
        Arg::Input(&table),
        Arg::Input(&list),
        Arg::Output(&starts),
        Arg::Output(&groups),
        Arg::Output(&valid),
        Arg::U64(op.batch as u64),
        Arg::U64(op.micro_batches as u64),
        Arg::U64(table.spec().shape.dims()[0] as u64),
        Arg::U32(u32::from(op.order == Order::Shuffled)),
        Arg::U64(epochs),
        Arg::U64(positions),
        stride(&list, 0),
        stride(&list, 1),
        stride(&cursor, 0),
        stride(&table, 0),
        stride(&table, 1),
        stride(&starts, 0),
        stride(&groups, 0),
        stride(&valid, 0),
    ];
    // The element type is the gather's; any will do.
    let module = Module::new(&SOURCE).of("T", DType::F32);
    call.launch(&module, "batch_windows", Geometry::linear(op.batch, WARP)?, &args)
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
    let args = [
        Arg::Input(&series),
        Arg::Input(&starts),
        Arg::Output(&out),
        Arg::Faults,
        Arg::U64(units as u64),
        Arg::U64(dims[0] as u64),
        Arg::U64(op.length as u64),
        Arg::U64(op.width as u64),
        Arg::U64(dims[1] as u64),
        Arg::U64(i64::try_from(op.stride).unwrap_or(i64::MAX) as u64),
        Arg::U64(op.offset as u64),
        Arg::U32(u32::from(whole)),
        stride(&starts, 0),
        Arg::dims(series.layout().strides()),
        Arg::dims(out.layout().strides()),
    ];
    let module = Module::new(&SOURCE).of("T", series.dtype());
    call.launch(&module, "window_gather", Geometry::linear(units, BLOCK)?, &args)
}
