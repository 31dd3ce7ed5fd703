//! Regression losses and their gradients on a GPU.

use super::Term;
use crate::contract::Op;
use crate::kernel::cuda::vectors::{collapsed, contiguous};
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, UNITS, cuda_kernel,
};
use crate::ops::reduce::reduction::{sum_partials, unit};
use crate::values::{DType, Operand, Spec};

cuda_kernel! {
    /// The sum of the terms of each block.
    struct SumTerms = "sum_terms", BLOCK;
    prediction: view_in T,
    target: view_in T,
    out: output T,
    partial: scratch_of F64,
    n: size,
    scale: f64,
    rank: u32,
    shape: dims,
}

cuda_kernel! {
    /// A thread has the slopes of a unit.
    struct Slopes = "slopes", BLOCK;
    prediction: view_in T,
    target: view_in T,
    cotangent: input T,
    out: view_out T,
    n: size,
    scale: f64,
    rank: u32,
    shape: dims,
}

static SOURCE: Source = Source {
    name: "loss",
    pieces: &[UNITS, Piece::new("loss", include_str!("loss.cu"))],
    entries: &[SumTerms::KERNEL, Slopes::KERNEL],
};

/// The module for these tensors.
fn module(dtype: DType, term: Term, tensors: &[&Operand]) -> Module {
    let (square, whole) = (u64::from(term == Term::Square), contiguous(tensors, unit(dtype)));
    let module = Module::new(&SOURCE).of("T", dtype).of("A", dtype.accumulate());
    module
        .constant("UNIT", unit(dtype) as u64)
        .constant("IS_SQUARE", square)
        .constant("WHOLE", u64::from(whole))
}

/// Units of a thread, at least, before there is another block to sum over.
const LEAST: usize = 4;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next unit.
const MAX_BLOCKS: usize = 1024;

fn blocks(args: &Spec) -> usize {
    args.shape.elements().div_ceil(LEAST * unit(args.dtype) * BLOCK as usize).min(MAX_BLOCKS)
}

/// Bytes of the blocks' sums.
pub(super) fn workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let blocks = args.first().map_or(0, blocks);
    if blocks > 1 { blocks * size_of::<f64>() } else { 0 }
}

/// [`super::Mse`] and [`super::Mae`].
pub(super) fn forward(term: Term, call: &mut Call<'_>) -> Result<(), Failure> {
    let (p, t, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let n = p.spec().shape.elements();
    let (blocks, scale) = (blocks(&p.spec()), 1.0 / n as f64);
    if n > 0 {
        let [prediction, target] = &collapsed([&p, &t]);
        let args = SumTerms {
            prediction,
            target,
            out: &out,
            partial: 0,
            n,
            scale,
            rank: prediction.layout().shape().rank() as u32,
            shape: prediction.layout().shape().dims(),
        };
        call.launch(
            &module(p.dtype(), term, &[prediction, target]),
            Geometry::blocks(blocks, BLOCK)?,
            &args,
        )?;
    }
    if blocks == 1 { Ok(()) } else { sum_partials(call, &out, blocks, scale) }
}

/// [`super::MseGrad`] and [`super::MaeGrad`].
pub(super) fn backward(term: Term, parts: usize, call: &mut Call<'_>) -> Result<(), Failure> {
    let (p, t, c, out) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    let [prediction, target, out] = &collapsed([&p, &t, &out]);
    let args = Slopes {
        prediction,
        target,
        cotangent: &c,
        out,
        n,
        scale: 1.0 / n.saturating_mul(parts) as f64,
        rank: out.layout().shape().rank() as u32,
        shape: out.layout().shape().dims(),
    };
    call.launch(
        &module(p.dtype(), term, &[prediction, target, out]),
        Geometry::linear(n.div_ceil(unit(out.dtype())), BLOCK)?,
        &args,
    )
}
