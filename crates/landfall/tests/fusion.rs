//! Chains of pointwise ops in one kernel give the bytes that the ops give one by one.
#[path = "recipe/dice.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod dice;
#[path = "device/gpu.rs"]
mod gpu;

use dice::Dice;
use landfall::plan::Report;
use landfall::{All, DType, Engine, Error, Graph, HostTensor, Program, Shape, State, StateSpec, Value, ops};
use std::sync::Arc;

const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// A graph with the names of its outputs.
struct Case {
    graph: Graph,
    state: Arc<StateSpec>,
    /// With their numbers of elements.
    inputs: Vec<(&'static str, usize)>,
    outputs: Vec<String>,
}

/// Pointwise ops, dropouts, casts, reshapes and a broadcast row; some of their values are outputs.
fn random(seed: u64) -> Result<Case, Error> {
    let mut dice = Dice(seed);
    let state = Arc::new(StateSpec::new());
    let g = Graph::new(&state);
    let shape = [[3, 40], [8, 16], [1, 7], [9, 33]][dice.below(4)];
    let flat = [shape[0] * shape[1]];
    let dtype = DTYPES[dice.below(3)];
    let cursor = g.input("cursor", DType::I64, [8]);
    let (mut all, mut inputs): (Vec<Value>, _) = (Vec::new(), Vec::new());
    for name in ["x", "y", "z", "row"] {
        let of: Shape = if name == "row" { [shape[1]].into() } else { shape.into() };
        let x = g.cast(g.input(name, DType::F32, of), dtype)?;
        all.push(g.broadcast_to(x, shape)?);
        inputs.push((name, of.elements()));
    }
    let mut outputs = Vec::new();
    for step in 0..14u32 {
        let last = all.len() - 1;
        let x = all[if dice.below(3) > 0 { last } else { dice.below(all.len()) }];
        let y = g.cast(all[dice.below(all.len())], g.spec(x).dtype)?;
        let made = match dice.below(9) {
            0 => g.add(x, y)?,
            1 => g.mul(x, y)?,
            2 => g.op1(ops::Dropout { rate: 0.3, stream: 1 + step % 3 }, &[x, cursor])?,
            3 => g.tanh(x)?,
            4 => g.op1(ops::Gelu { approximation: ops::Approximation::Erf }, &[x])?,
            5 => g.cast(x, DTYPES[dice.below(3)])?,
            6 => g.reshape(g.affine(g.reshape(x, flat)?, 0.5, 0.25)?, shape)?,
            7 => g.select(g.op1(ops::Compare { comparison: ops::Comparison::Less }, &[x, y])?, x, y)?,
            _ => g.add(x, x)?,
        };
        all.push(made);
        if dice.below(6) == 0 {
            outputs.push(format!("output {step}"));
            g.output(&outputs[outputs.len() - 1], made);
        }
    }
    // What is fused ends at a reduction.
    for (name, v) in [("sum", g.sum(all[all.len() - 2], All)?), ("last", all[all.len() - 1])] {
        g.output(name, v);
        outputs.push(name.to_owned());
    }
    Ok(Case { graph: g, state, inputs, outputs })
}

/// What a program gives for random inputs, and its plan.
fn run(engine: &Engine, case: &Case, seed: u64) -> Result<(Vec<HostTensor>, Report), Error> {
    let mut state = State::new(engine, &case.state)?;
    let mut program = Program::compile(engine, &state, "chain", &case.graph)?;
    program.write("cursor", &[3i64, 0, 0, 77, 0, 0, 2, 0])?;
    let mut dice = Dice(seed ^ 0xABCD);
    for (name, elements) in &case.inputs {
        let values: Vec<f32> = (0..*elements).map(|_| 3.0 * dice.unit() as f32).collect();
        program.write(name, &values)?;
    }
    program.poison(&mut state, 0xff)?;
    program.run(&mut state)?;
    let outputs = case.outputs.iter().map(|n| program.read_host(n)).collect::<Result<_, Error>>()?;
    Ok((outputs, program.report()))
}

/// Of this many graphs.
fn compared(engine: &Engine, graphs: u64) -> Result<(), Error> {
    let (mut plain, mut fused, mut grown) = (0, 0, 0);
    for seed in 0..graphs {
        let case = random(seed)?;
        let (want, before) = run(&engine.with_fusion(false), &case, seed)?;
        let (got, after) = run(&engine.with_fusion(true), &case, seed)?;
        for ((name, want), got) in case.outputs.iter().zip(&want).zip(&got) {
            let bits = |t: &HostTensor| t.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(got), bits(want), "seed {seed}: {name}, fused {after:#?}");
        }
        (plain, fused) = (plain + before.instructions, fused + after.instructions);
        grown += u64::from(after.live_peak_bytes > before.live_peak_bytes);
    }
    println!("{plain} instructions become {fused}; more memory is live in {grown} of {graphs} graphs");
    assert!(fused * 3 < plain * 2, "{plain} instructions became {fused}");
    assert!(grown * 10 <= graphs, "more memory was live in {grown} of {graphs} graphs");
    Ok(())
}

#[test]
fn chains_give_the_bytes_of_their_ops() -> Result<(), Error> {
    compared(&Engine::cpu_with_threads(2)?, 400)
}

#[test]
fn chains_give_the_bytes_of_their_ops_on_cuda() -> Result<(), Error> {
    // Fewer: each chain is a kernel of its own to compile.
    gpu::gpu()?.map_or(Ok(()), |engine| compared(&engine, 40))
}

/// A chain reads its arguments later than its first op did: never after they were updated.
#[test]
fn nothing_is_read_after_its_update() -> Result<(), Error> {
    let mut spec = StateSpec::new();
    spec.add("slab", DType::F32, &[("w".to_owned(), [16].into())])?;
    let spec = Arc::new(spec);
    let g = Graph::new(&spec);
    let w = g.entry("w")?;
    let old = g.affine(w, 2.0, 0.0)?;
    let ok = g.fill(DType::Bool, [16], 1.0)?;
    let new = g.op1(ops::Assign, &[w, g.fill(DType::F32, [16], 5.0)?, ok])?;
    // The first term is of what w was, the second of what it is.
    g.output("both", g.add(old, g.affine(new, 1.0, 0.5)?)?);
    for fuse in [false, true] {
        let engine = Engine::cpu()?.with_fusion(fuse);
        let mut state = State::new(&engine, &spec)?;
        state.write("w", &[1.0f32; 16])?;
        let mut program = Program::compile(&engine, &state, "update", &g)?;
        program.run(&mut state)?;
        assert_eq!(program.read::<f32>("both")?, [7.5; 16], "fused: {fuse}");
    }
    Ok(())
}
