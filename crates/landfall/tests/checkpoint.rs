//! Blocks of `Graph::checkpoint`: the same gradients, byte for byte, with less memory.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{self, cursor};
use landfall::{
    All, DType, Engine, Error, Graph, Program, Spec, State, StateSpec, Value, grad, mixed_precision,
};
use std::sync::Arc;

on_each_device!(
    gradients_are_the_same_bytes_with_less_memory,
    a_value_read_behind_its_block_is_kept,
    what_a_block_updates_is_updated_once,
);

const BLOCKS: usize = 12;
const ROWS: usize = 64;
const WIDTH: usize = 32;

fn weights() -> Result<Arc<StateSpec>, Error> {
    let mut spec = StateSpec::new();
    let named: Vec<_> = (0..BLOCKS).map(|b| (format!("w{b}"), [WIDTH, WIDTH].into())).collect();
    spec.add("parameters", DType::F32, &named)?;
    Ok(Arc::new(spec))
}

/// `x + dropout(gelu(norm(x)·w))`, with noise: values of every kind, of which two are drawn.
fn block(g: &Graph, x: Value, w: Value, number: u32, draws: Value) -> Result<Value, Error> {
    let (one, zero) = (g.fill(DType::F32, [WIDTH], 1.0)?, g.fill(DType::F32, [WIDTH], 0.0)?);
    let norm = g.op(ops::LayerNorm { eps: 1e-5 }, &[x, one, zero])?[0];
    let noise = g.normal(Spec::new(DType::F32, [ROWS, WIDTH]), 2 * number, draws)?;
    let hidden = g.gelu(g.matmul(g.add(norm, g.mul(noise, norm)?)?, w)?)?;
    let dropped = g.op1(ops::Dropout { rate: 0.2, stream: 2 * number + 1 }, &[hidden, draws])?;
    g.add(x, g.tanh(dropped)?)
}

/// The gradients of all weights after two runs, the bytes of the arena, and the values that were recomputed.
fn gradients(
    e: &Engine,
    compute: DType,
    distinct: bool,
    in_blocks: bool,
) -> Result<(Vec<Vec<f32>>, usize, usize), Error> {
    let spec = weights()?;
    let g = Graph::new(&spec);
    let draws = g.draws("draws")?;
    let mut y = g.input("x", DType::F32, [ROWS, WIDTH]);
    for b in 0..BLOCKS {
        let w = g.entry(&format!("w{b}"))?;
        let add = || block(&g, y, w, b as u32, draws);
        let add = || if distinct { g.distinct(add) } else { add() };
        y = if in_blocks { g.checkpoint(add)? } else { add()? };
    }
    let loss = g.mean(g.square(y)?, All)?;
    let mixed = mixed_precision(&g, compute, ops::Precision::Strict)?;
    let loss = mixed.value(loss)?;
    let g = mixed.graph();
    let wrt: Vec<(String, Value)> = (0..BLOCKS)
        .map(|b| Ok((format!("w{b}"), g.entry(&format!("w{b}"))?)))
        .collect::<Result<_, Error>>()?;
    let found = grad(g, loss, &wrt)?;
    wrt.iter().zip(found).for_each(|((name, _), v)| g.output(name, v));
    let mut state = State::new(e, &spec)?;
    let mut program = Program::compile(e, &state, "step", g)?;
    let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 100.0;
    for b in 0..BLOCKS {
        state.write(&format!("w{b}"), &(0..WIDTH * WIDTH).map(|i| value(i + b)).collect::<Vec<_>>())?;
    }
    program.write("x", &(0..ROWS * WIDTH).map(value).collect::<Vec<_>>())?;
    program.write("draws", &cursor::seeded(3))?;
    // The second run draws other numbers than the first.
    program.run(&mut state)?;
    program.run(&mut state)?;
    let all = wrt.iter().map(|(name, _)| program.read::<f32>(name)).collect::<Result<_, _>>()?;
    let report = program.report();
    Ok((all, report.arena_bytes, report.recomputed))
}

fn gradients_are_the_same_bytes_with_less_memory(e: &Engine) -> Result<(), Error> {
    for compute in [DType::F32, DType::BF16] {
        for distinct in [false, true] {
            let (kept, bytes, few) = gradients(e, compute, distinct, false)?;
            let (again, fewer_bytes, many) = gradients(e, compute, distinct, true)?;
            assert!(kept.iter().flatten().any(|x| *x != 0.0));
            assert_eq!(kept, again, "{compute} {distinct}");
            assert!(2 * fewer_bytes < bytes, "{compute} {distinct}: {bytes} and {fewer_bytes} bytes");
            assert!(many >= few + 4 * BLOCKS, "{compute} {distinct}: {few} and {many}");
        }
    }
    Ok(())
}

/// Of one block's two results the forward pass reads one further on: it is not computed again.
fn a_value_read_behind_its_block_is_kept(e: &Engine) -> Result<(), Error> {
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F64, [3]);
    let (inside, result) = g.checkpoint(|| {
        let inside = g.exp(x)?;
        let again = g.checkpoint(|| g.tanh(inside))?; // a part of the same block
        Ok::<_, Error>((inside, g.exp(again)?))
    })?;
    let y = g.mul(result, g.sin(inside)?)?;
    g.output("slope", grad(&g, g.sum(y, All)?, &[("x".to_owned(), x)])?[0]);
    let mut state = State::new(e, &spec)?;
    let mut program = Program::compile(e, &state, "step", &g)?;
    let names: Vec<String> = program.report().rows.iter().map(|row| row.op.to_string()).collect();
    let count = |op: &str| names.iter().filter(|name| *name == op).count();
    assert_eq!(count("exp"), 2, "{names:?}");
    program.write("x", &[-1.0f64, 0.0, 0.5])?;
    program.run(&mut state)?;
    for (slope, x) in program.read::<f64>("slope")?.iter().zip([-1.0f64, 0.0, 0.5]) {
        let u = x.exp();
        let t = u.tanh();
        let want = t.exp() * u * ((1.0 - t * t) * u.sin() + u.cos());
        assert!((slope - want).abs() < 1e-12, "{slope} {want}");
    }
    Ok(())
}

/// An update within a block, here of a counter, is made once, and its result is kept.
fn what_a_block_updates_is_updated_once(e: &Engine) -> Result<(), Error> {
    let mut spec = StateSpec::new();
    spec.add("counters", DType::F32, &[("count".to_owned(), [1].into())])?;
    let spec = Arc::new(spec);
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F32, [1]);
    let y = g.checkpoint(|| {
        let count = g.entry("count")?;
        let next = g.assign(count, g.affine(count, 1.0, 1.0)?, g.fill(DType::Bool, [], 1.0)?)?;
        g.mul(g.exp(x)?, g.exp(next)?)
    })?;
    g.output("slope", grad(&g, g.sum(g.square(y)?, All)?, &[("x".to_owned(), x)])?[0]);
    let mut state = State::new(e, &spec)?;
    let mut program = Program::compile(e, &state, "step", &g)?;
    program.write("x", &[0.0f32])?;
    for runs in 1..4u8 {
        program.run(&mut state)?;
        assert_eq!(state.read::<f32>("count")?, [f32::from(runs)]);
        let want = 2.0 * (2.0 * f32::from(runs)).exp();
        let slope = program.read::<f32>("slope")?[0];
        assert!((slope - want).abs() < 1e-5 * want, "{slope} {want}");
    }
    Ok(())
}
