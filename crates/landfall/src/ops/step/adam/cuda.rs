//! Adam on a GPU.

use super::Adam;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Operand};

const BLOCK: u32 = 256;
/// Elements that a thread updates at once: `N` in the source.
const UNIT: usize = 4;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next unit; all have as many.
const MAX_BLOCKS: usize = 640;

static SOURCE: Source = Source {
    name: "adam",
    text: include_str!("adam.cu"),
    entries: &[Entry {
        name: "adam",
        block: BLOCK,
        params: &[
            Param::output("param", "T"),
            Param::input("grad", "G"),
            Param::output("m", "A"),
            Param::output("v", "A"),
            Param::input_is("cursor", DType::I64),
            Param::input_is("lr", DType::F64),
            Param::input("scale", "A"),
            Param::input_is("ok", DType::Bool),
            Param::u64("n"),
            Param::u64("decayed"),
            Param::u32("decoupled"),
            Param::f64("beta1"),
            Param::f64("beta2"),
            Param::f64("eps"),
            Param::f64("weight_decay"),
            Param::u32("gapless"),
            Param::dims("stride"),
        ],
    }],
};

/// [`Adam`].
pub(super) fn adam(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Adam>(op)?;
    let (param, m, v) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (grad, cursor, lr) = (*call.input(1)?, *call.input(4)?, *call.input(5)?);
    let (scale, ok) = (*call.input(6)?, *call.input(7)?);
    let n = param.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let stride = [param, grad, m, v].map(|o| o.layout().strides()[0]);
    let fits = |o: &Operand| {
        o.layout().is_contiguous() && o.address().is_multiple_of((UNIT * o.dtype().size()).min(16) as u64)
    };
    let gapless = [param, grad, m, v].iter().all(fits);
    let args = [
        Arg::Output(&param),
        Arg::Input(&grad),
        Arg::Output(&m),
        Arg::Output(&v),
        Arg::Input(&cursor),
        Arg::Input(&lr),
        Arg::Input(&scale),
        Arg::Input(&ok),
        Arg::U64(n as u64),
        // Without decay there is nothing to multiply by one.
        Arg::U64(if op.weight_decay == 0.0 { 0 } else { op.decay_elements as u64 }),
        Arg::U32(u32::from(op.decoupled)),
        Arg::F64(op.beta1),
        Arg::F64(op.beta2),
        Arg::F64(op.eps),
        Arg::F64(op.weight_decay),
        Arg::U32(u32::from(gapless)),
        Arg::dims(&stride),
    ];
    let module = Module::new(&SOURCE).of("T", param.dtype()).of("G", grad.dtype()).of("A", m.dtype());
    let blocks = Geometry::shares(n.div_ceil(UNIT * BLOCK as usize), MAX_BLOCKS);
    call.launch(&module, "adam", Geometry::blocks(blocks, BLOCK)?, &args)
}
