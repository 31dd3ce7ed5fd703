//! The cursor's ops on a GPU.

use super::{Advance, AdvanceMicro};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::values::DType;

/// Values that one launch pushes.
const VALUES: usize = 4;
const TYPES: [&str; VALUES] = ["T0", "T1", "T2", "T3"];

cuda_kernel! {
    /// The cursor of the next step, where this one counts.
    struct Step = "advance", 32;
    cursor: view_out_of I64,
    ok: input_of Bool,
    batches: size,
}

cuda_kernel! {
    /// The cursor of the next micro-batch.
    struct MicroStep = "advance_micro", 32;
    cursor: view_out_of I64,
    micro_batches: size,
}

cuda_kernel! {
    /// The value of the step in a table.
    struct LookUp = "lookup", 32;
    table: view_in_of F64,
    cursor: input_of I64,
    out: output_of F64,
    n: size,
}

cuda_kernel! {
    /// Up to four values of the step.
    struct Push = "ring_push", 32;
    ring: view_out_of F64,
    cursor: input_of I64,
    x0: input T0,
    x1: input T1,
    x2: input T2,
    x3: input T3,
    count: u32,
    first: size,
    rows: size,
}

static CURSOR: Source = Source {
    name: "cursor",
    pieces: &[Piece::new("cursor", include_str!("cursor.cu"))],
    entries: &[Step::KERNEL, MicroStep::KERNEL, LookUp::KERNEL, Push::KERNEL],
};

/// The module, with the types of the values where a kernel takes some.
fn module(dtypes: [DType; VALUES]) -> Module {
    TYPES.iter().zip(dtypes).fold(Module::new(&CURSOR), |module, (name, dtype)| module.of(name, dtype))
}

/// [`Advance`].
pub(super) fn advance(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Advance>(op)?;
    let (ok, cursor) = (*call.input(1)?, *call.output(0)?);
    let args = Step { cursor: &cursor, ok: &ok, batches: op.batches };
    call.launch(&module([DType::F32; VALUES]), Geometry::blocks(1, 32)?, &args)
}

/// [`AdvanceMicro`].
pub(super) fn advance_micro(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<AdvanceMicro>(op)?;
    let cursor = *call.output(0)?;
    let args = MicroStep { cursor: &cursor, micro_batches: op.micro_batches };
    call.launch(&module([DType::F32; VALUES]), Geometry::blocks(1, 32)?, &args)
}

/// [`super::Lookup`].
pub(super) fn lookup(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (table, cursor, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let args = LookUp { table: &table, cursor: &cursor, out: &out, n: table.spec().shape.elements() };
    call.launch(&module([DType::F32; VALUES]), Geometry::blocks(1, 32)?, &args)
}

/// [`super::RingPush`]: four values a launch; the places of those that are not there repeat the first.
pub(super) fn ring_push(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (cursor, ring, inputs) = (*call.input(1)?, *call.output(0)?, call.inputs());
    for (i, values) in inputs[2..].chunks(VALUES).enumerate() {
        let x = [0, 1, 2, 3].map(|v| values.get(v).unwrap_or(&values[0]));
        let args = Push {
            ring: &ring,
            cursor: &cursor,
            x0: x[0],
            x1: x[1],
            x2: x[2],
            x3: x[3],
            count: values.len() as u32,
            first: i * VALUES,
            rows: ring.spec().shape.dims()[0],
        };
        call.launch(&module(x.map(|x| x.dtype())), Geometry::blocks(1, 32)?, &args)?;
    }
    Ok(())
}
