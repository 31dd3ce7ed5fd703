//! Kernels against the reference, and against the body in other ops.

use crate::case::{Case, Check, Which, cases, each, ensure};
use crate::compare::{BODY, Worst, bound, close, describe};
use crate::device::On;
use crate::launch::{Operands, POISON, reserve};
use crate::place::Place;
use crate::programs::graph_of;
use landfall::ops::{Body, Tested};
use landfall::{DType, Engine, HostTensor, Program};

/// Results of a call on contiguous operands.
fn results(engine: &Engine, case: &Case) -> Check<Vec<HostTensor>> {
    let mut operands = Operands::new(engine, case, &[], Place::Whole, POISON)?;
    reserve(engine, case)?;
    operands.call(engine, case)?;
    Ok((0..case.outputs.len()).map(|j| operands.output(j).host()).collect::<Result<_, _>>()?)
}

/// Every sample in every dtype against the reference; and an op that takes f32 takes every float dtype.
pub(crate) fn parity(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let mut worst = Worst::new();
    each(op, Which::All, |case| {
        let got = results(&engine, case)?;
        close(case, &got, &case.reference()?, bound, &mut worst)
    })?;
    println!("parity {}: {}", op.name(), describe(&worst));
    let samples = op.samples();
    if samples.iter().any(|s| s.refused.is_none() && crate::case::generic(s)) {
        let taken: Vec<DType> = cases(op)?.iter().map(|c| c.dtype).collect();
        let floats: Vec<DType> = DType::ALL.iter().copied().filter(|d| d.is_float()).collect();
        let missing = floats.iter().find(|d| !taken.contains(d));
        ensure!(
            !taken.contains(&DType::F32) || missing.is_none(),
            "{} takes f32, but not {missing:?}",
            op.name()
        );
    }
    Ok(())
}

/// The body of a fused op as a program of its own, against the kernel, in f64 and f32.
pub(crate) fn body(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let mut worst = Worst::new();
    each(op, Which::Light, |case| {
        let Body::Fused(body) = case.op.body() else { return Ok(()) };
        if !matches!(case.dtype, DType::F32 | DType::F64) {
            return Ok(());
        }
        let build = |g: &landfall::Graph, values: &[landfall::Value]| body(case.op.as_ref(), g, values);
        let (graph, mut state) = graph_of(&engine, case, false, build)?;
        let mut program = Program::compile(&engine, &state, "body", &graph)?;
        crate::programs::load(case, &mut program, &mut state)?;
        program.run(&mut state)?;
        let got: Vec<HostTensor> = (0..case.outputs.len())
            .map(|j| program.read_host(&format!("output{j}")))
            .collect::<Result<_, _>>()?;
        let specs: Vec<_> = got.iter().map(|h| h.spec).collect();
        ensure!(specs == case.outputs, "the body gives {specs:?}, infer says {:?}", case.outputs);
        close(case, &got, &results(&engine, case)?, |_| BODY, &mut worst)
    })?;
    if !worst.is_empty() {
        println!("body {}: {}", op.name(), describe(&worst));
    }
    Ok(())
}
