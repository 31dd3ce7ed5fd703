//! The sum of a product's parts on a GPU.

use super::cuda::{Added, added, strides};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::Operand;

const BLOCK: u32 = 256;
/// Neighbouring elements of a thread, where they lie side by side.
const VECTOR: usize = 4;
/// Threads that share the parts of an element, of so many parts at least.
const WAYS: usize = 8;
const MANY: usize = 16;

static SOURCE: Source = Source {
    name: "matmul_join",
    text: include_str!("join.cu"),
    entries: &[Entry {
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
    }],
};

/// Adds up the parts of a product of `m` x `n`, which lie in scratch memory one after the other, and what is added to it.
pub(super) fn join(call: &mut Call<'_>, parts: usize, (m, n): (usize, usize)) -> Result<(), Failure> {
    let out = *call.output(0)?;
    let accumulate = call.input(0)?.dtype().accumulate();
    let Added { addend, bias } = added(call);
    // What is not there is not followed.
    let added = addend.unwrap_or(&out);
    let (_, addend_row, addend_column) = strides(added)?;
    let bias_step = bias.map_or(0, |b| b.layout().strides()[0]);
    let (_, out_row, out_column) = strides(&out)?;
    let aligned = |o: &Operand| o.address().is_multiple_of((VECTOR * o.dtype().size()).min(16) as u64);
    let side_by_side = out_column == 1 && out_row.is_multiple_of(VECTOR as u64) && aligned(&out);
    let vector = if side_by_side && n.is_multiple_of(VECTOR) { VECTOR } else { 1 };
    let ways = if parts >= MANY { WAYS } else { 1 };
    let module = Module::new(&SOURCE)
        .of("A", accumulate)
        .of("R", out.dtype())
        .constant("ADDED", u64::from(addend.is_some()))
        .constant("BIASED", u64::from(bias.is_some()))
        .constant("VECTOR", vector as u64)
        .constant("WAYS", ways as u64);
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
    call.launch(&module, "join", Geometry::linear((m * n).div_ceil(vector) * ways, BLOCK)?, &args)
}
