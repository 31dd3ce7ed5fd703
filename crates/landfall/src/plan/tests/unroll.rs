//! Several times of a repeated part next to each other: proved as any program, and free of each other but for the state.

use super::super::unroll::copies as unrolled;
use super::super::{assign, order, verify};
use super::{Planned, refused};
use crate::contract::{Graph, StateSpec, Value};
use crate::engine::Reuse;
use crate::error::{Error, PlanError};
use crate::lower::{Lowered, lower};
use crate::ops::{AdvanceMicro, MicroBatchMean, cursor};
use crate::passes::optimise;
use crate::values::{DType, DeviceKind};
use std::sync::Arc;

const TIMES: usize = 8;
/// Links of the chain from what a time reads to what it adds to the mean.
const CHAIN: usize = 12;

/// A mean of a long chain over the weights, and a cursor that counts; `rest` is given the mean and the advanced cursor.
fn graph(rest: impl FnOnce(&Graph, Value, Value) -> Result<(), Error>) -> Result<Graph, Error> {
    let mut state = StateSpec::new();
    state.add("weights", DType::F64, &[("w".into(), [16].into())])?;
    state.add("means", DType::F64, &[("mean".into(), [16].into()), ("out".into(), [16].into())])?;
    state.add("cursors", DType::I64, &[("cursor".into(), [cursor::LEN].into())])?;
    let g = Graph::new(&Arc::new(state));
    let cursor = g.entry("cursor")?;
    let at = g.copy(cursor)?;
    let mut x = g.entry("w")?;
    for _ in 0..CHAIN {
        x = g.tanh(x)?;
    }
    let mean = g.op1(MicroBatchMean { micro_batches: TIMES }, &[g.entry("mean")?, x, at])?;
    let next = g.op1(AdvanceMicro { micro_batches: TIMES }, &[cursor])?;
    g.repeat_so_far(TIMES)?;
    rest(&g, mean, next)?;
    Ok(g)
}

/// The mean goes into `out`.
fn rest(g: &Graph, mean: Value, next: Value) -> Result<(), Error> {
    g.op(MicroBatchMean { micro_batches: 1 }, &[g.entry("out")?, g.neg(mean)?, next]).map(|_| ())
}

fn laid_out(g: &Graph, count: usize) -> Result<Option<Planned>, Error> {
    let lowered = lower(&optimise(g, false), DeviceKind::Cpu, Reuse::Tight)?;
    let plan = assign(&lowered, Reuse::Tight);
    let Some((mut lowered, plan)) = unrolled(&lowered, &plan, count) else { return Ok(None) };
    order(&mut lowered, &plan);
    let slabs = g.state_spec().slabs().iter().map(|s| s.elements * s.dtype.size()).collect();
    Ok(Some(Planned { lowered, plan, slabs }))
}

/// Instructions of the longest chain of edges.
fn depth(lowered: &Lowered) -> usize {
    let mut depth: Vec<usize> = Vec::new();
    for i in &lowered.instructions {
        depth.push(1 + i.after.iter().map(|&a| depth[a]).max().unwrap_or(0));
    }
    depth.into_iter().max().unwrap_or(0)
}

#[test]
fn times_wait_for_each_other_only_at_the_state() -> Result<(), Error> {
    let g = graph(rest)?;
    let one = laid_out(&g, 1)?.expect("one time is always possible");
    for count in [2, 4, 8] {
        let p = laid_out(&g, count)?.expect("nothing is in the way");
        verify(&p.lowered, &p.plan, &p.slabs)?;
        assert_eq!(p.plan.arena, one.plan.arena * count);
        assert_eq!(p.lowered.repeat.instructions, one.lowered.repeat.instructions * count);
        assert_eq!(p.lowered.repeat.times * count, TIMES);
        // The cursor is copied and moved on once a time, while the chains run; the means are added up one after another.
        let (alone, together) = (depth(&one.lowered), depth(&p.lowered));
        assert!(alone > CHAIN && together <= alone + 2 * count, "{count}: {alone}, then {together}");
    }
    Ok(())
}

/// The checker knows nothing of times: where one works in another's arena, or does not wait for its mean, it says so.
#[test]
fn what_is_laid_out_is_proved() -> Result<(), Error> {
    let mut p = laid_out(&graph(rest)?, 2)?.expect("nothing is in the way");
    let means: Vec<usize> = (0..p.lowered.instructions.len())
        .filter(|&k| p.lowered.instructions[k].op.name() == "micro_batch_mean")
        .collect();
    let edges = p.lowered.instructions[means[1]].after.clone();
    p.lowered.instructions[means[1]].after.retain(|&a| a != means[0]);
    refused!(
        p,
        PlanError::Unordered { .. },
        format!(
            "instruction {} (micro_batch_mean) is not ordered after instruction {}, which touches the same memory or is the collective before it",
            means[1], means[0]
        )
    );
    p.lowered.instructions[means[1]].after = edges;
    verify(&p.lowered, &p.plan, &p.slabs)?;
    // The first link of the second time, put where the first time's lies.
    let links: Vec<usize> = (0..p.lowered.instructions.len())
        .filter(|&k| p.lowered.instructions[k].op.name() == "tanh")
        .collect();
    let value = |k: usize| p.lowered.instructions[links[k]].outputs[0].value.0;
    let (first, second) = (value(0), value(CHAIN));
    p.plan.places[second] = p.plan.places[first];
    assert!(matches!(p.refusal(), PlanError::Unordered { .. } | PlanError::Stale { .. }), "{}", p.refusal());
    Ok(())
}

#[test]
fn what_cannot_be_laid_out_stays_as_it_is() -> Result<(), Error> {
    let output = graph(|g, mean, next| {
        g.output("made in each time", g.entry("w").and_then(|w| g.tanh(w))?);
        rest(g, mean, next)
    })?;
    assert!(laid_out(&output, 2)?.is_none(), "each time would write the output");
    Ok(())
}
