//! The choice of experts on a GPU.

use super::{TopK, TopKGrad};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::experts::routing::cuda::dims;
use crate::values::DType;

const BLOCK: u32 = 256;

static SOURCE: Source = Source {
    name: "top_k",
    text: include_str!("top_k.cu"),
    entries: &[
        Entry {
            name: "top_k",
            block: BLOCK,
            params: &[
                Param::input("p", "T"),
                Param::output_is("routed", DType::Bool),
                Param::output("weights", "T"),
                Param::u64("tokens"),
                Param::u32("experts"),
                Param::u32("k"),
                Param::dims("stride_p"),
                Param::dims("stride_routed"),
                Param::dims("stride_weights"),
            ],
        },
        Entry {
            name: "top_k_grad",
            block: BLOCK,
            params: &[
                Param::input("p", "T"),
                Param::input_is("routed", DType::Bool),
                Param::input("gw", "T"),
                Param::output("out", "T"),
                Param::u64("tokens"),
                Param::u32("experts"),
                Param::dims("stride_p"),
                Param::dims("stride_routed"),
                Param::dims("stride_gw"),
                Param::dims("stride_out"),
            ],
        },
    ],
};

/// [`TopK`].
pub(super) fn top_k(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<TopK>(op)?;
    let (p, routed, weights) = (*call.input(0)?, *call.output(0)?, *call.output(1)?);
    let shape = p.spec().shape;
    let tokens = shape.dims()[0];
    if tokens == 0 {
        return Ok(());
    }
    let module = Module::new(&SOURCE).of("T", p.dtype()).constant("RENORMALISE", u64::from(op.renormalise));
    let args = [
        Arg::Input(&p),
        Arg::Output(&routed),
        Arg::Output(&weights),
        Arg::U64(tokens as u64),
        Arg::U32(shape.last() as u32),
        Arg::U32(op.k as u32),
        dims(&p),
        dims(&routed),
        dims(&weights),
    ];
    call.launch(&module, "top_k", Geometry::linear(tokens * 32, BLOCK)?, &args)
}

/// [`TopKGrad`].
pub(super) fn top_k_grad(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<TopKGrad>(op)?;
    let (p, routed, gw, out) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    let shape = p.spec().shape;
    let tokens = shape.dims()[0];
    if tokens == 0 || shape.last() == 0 {
        return Ok(());
    }
    let module = Module::new(&SOURCE).of("T", p.dtype()).constant("RENORMALISE", u64::from(op.renormalise));
    let args = [
        Arg::Input(&p),
        Arg::Input(&routed),
        Arg::Input(&gw),
        Arg::Output(&out),
        Arg::U64(tokens as u64),
        Arg::U32(shape.last() as u32),
        dims(&p),
        dims(&routed),
        dims(&gw),
        dims(&out),
    ];
    call.launch(&module, "top_k_grad", Geometry::linear(tokens * 32, BLOCK)?, &args)
}
