//! The cursor's ops on a GPU.

use super::{Advance, AdvanceMicro};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::DType;

/// Values that one launch pushes.
const VALUES: usize = 4;
const TYPES: [&str; VALUES] = ["T0", "T1", "T2", "T3"];

static CURSOR: Source = Source {
    name: "cursor",
    text: include_str!("cursor.cu"),
    entries: &[
        Entry {
            name: "advance",
            block: 32,
            params: &[
                Param::output_is("cursor", DType::I64),
                Param::input_is("ok", DType::Bool),
                Param::u64("stride"),
                Param::u64("batches"),
            ],
        },
        Entry {
            name: "advance_micro",
            block: 32,
            params: &[
                Param::output_is("cursor", DType::I64),
                Param::u64("stride"),
                Param::u64("micro_batches"),
            ],
        },
        Entry {
            name: "lookup",
            block: 32,
            params: &[
                Param::input_is("table", DType::F64),
                Param::input_is("cursor", DType::I64),
                Param::output_is("out", DType::F64),
                Param::u64("n"),
                Param::u64("stride"),
            ],
        },
        Entry {
            name: "ring_push",
            block: 32,
            params: &[
                Param::output_is("ring", DType::F64),
                Param::input_is("cursor", DType::I64),
                Param::input("x0", "T0"),
                Param::input("x1", "T1"),
                Param::input("x2", "T2"),
                Param::input("x3", "T3"),
                Param::u32("count"),
                Param::u64("first"),
                Param::u64("rows"),
                Param::u64("stride_row"),
                Param::u64("stride_col"),
            ],
        },
    ],
};

/// The module, with the types of the values where a kernel takes some.
fn module(dtypes: [DType; VALUES]) -> Module {
    TYPES.iter().zip(dtypes).fold(Module::new(&CURSOR), |module, (name, dtype)| module.of(name, dtype))
}

/// [`Advance`].
pub(super) fn advance(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Advance>(op)?;
    let (ok, cursor) = (*call.input(1)?, *call.output(0)?);
    let args = [
        Arg::Output(&cursor),
        Arg::Input(&ok),
        Arg::U64(cursor.layout().strides()[0] as u64),
        Arg::U64(op.batches as u64),
    ];
    call.launch(&module([DType::F32; VALUES]), "advance", Geometry::blocks(1, 32)?, &args)
}

/// [`AdvanceMicro`].
pub(super) fn advance_micro(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<AdvanceMicro>(op)?;
    let cursor = *call.output(0)?;
    let args = [
        Arg::Output(&cursor),
        Arg::U64(cursor.layout().strides()[0] as u64),
        Arg::U64(op.micro_batches as u64),
    ];
    call.launch(&module([DType::F32; VALUES]), "advance_micro", Geometry::blocks(1, 32)?, &args)
}

/// [`super::Lookup`].
pub(super) fn lookup(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (table, cursor, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let args = [
        Arg::Input(&table),
        Arg::Input(&cursor),
        Arg::Output(&out),
        Arg::U64(table.spec().shape.elements() as u64),
        Arg::U64(table.layout().strides()[0] as u64),
    ];
    call.launch(&module([DType::F32; VALUES]), "lookup", Geometry::blocks(1, 32)?, &args)
}

/// [`super::RingPush`]: four values a launch; the places of those that are not there repeat the first.
pub(super) fn ring_push(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (cursor, ring, inputs) = (*call.input(1)?, *call.output(0)?, call.inputs());
    let strides = ring.layout().strides();
    for (i, values) in inputs[2..].chunks(VALUES).enumerate() {
        let x = [0, 1, 2, 3].map(|v| values.get(v).unwrap_or(&values[0]));
        let args = [
            Arg::Output(&ring),
            Arg::Input(&cursor),
            Arg::Input(x[0]),
            Arg::Input(x[1]),
            Arg::Input(x[2]),
            Arg::Input(x[3]),
            Arg::U32(values.len() as u32),
            Arg::U64((i * VALUES) as u64),
            Arg::U64(ring.spec().shape.dims()[0] as u64),
            Arg::U64(strides[0] as u64),
            Arg::U64(strides[1] as u64),
        ];
        call.launch(&module(x.map(|x| x.dtype())), "ring_push", Geometry::blocks(1, 32)?, &args)?;
    }
    Ok(())
}
