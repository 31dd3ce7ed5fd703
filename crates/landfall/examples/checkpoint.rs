//! What `Graph::checkpoint` saves of memory and costs in time: gradients of a deep feed-forward network, with every so many of its
//! layers as one block. `cargo run --release -p landfall --example checkpoint` prints memory, operations and the median time of 5
//! runs; with the argument 0 it runs nothing, and with `5 cuda` on a GPU.

use landfall::ops::{self, cursor};
use landfall::{All, DType, Engine, Error, Graph, Program, State, StateSpec, Value, grad};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LAYERS: usize = 48;
const ROWS: usize = 2048;
const WIDTH: usize = 64;
const HIDDEN: usize = 256;

/// `x + dropout(gelu(norm(x)·wide))·narrow`.
fn layer(g: &Graph, x: Value, number: usize, draws: Value) -> Result<Value, Error> {
    let (one, zero) = (g.fill(DType::F32, [WIDTH], 1.0)?, g.fill(DType::F32, [WIDTH], 0.0)?);
    let norm = g.op(ops::LayerNorm { eps: 1e-5 }, &[x, one, zero])?[0];
    let hidden = g.gelu(g.matmul(norm, g.entry(&format!("wide{number}"))?)?)?;
    let dropped = g.op1(ops::Dropout { rate: 0.1, stream: number as u32 }, &[hidden, draws])?;
    g.add(x, g.matmul(dropped, g.entry(&format!("narrow{number}"))?)?)
}

/// Bytes of the arena, operations, and the median time of so many runs, with `each` layers in a block, or none.
fn measured(
    engine: &Engine,
    each: Option<usize>,
    runs: usize,
) -> Result<(usize, usize, Option<Duration>), Error> {
    let mut spec = StateSpec::new();
    let named = (0..LAYERS).flat_map(|i| {
        [(format!("wide{i}"), [WIDTH, HIDDEN].into()), (format!("narrow{i}"), [HIDDEN, WIDTH].into())]
    });
    let named: Vec<_> = named.collect();
    spec.add("parameters", DType::F32, &named)?;
    let (spec, names) = (Arc::new(spec), named.into_iter().map(|(name, _)| name));
    let g = Graph::new(&spec);
    let draws = g.draws("draws")?;
    let mut x = g.input("x", DType::F32, [ROWS, WIDTH]);
    let numbers: Vec<usize> = (0..LAYERS).collect();
    for block in numbers.chunks(each.unwrap_or(1)) {
        let add = || block.iter().try_fold(x, |x, &number| layer(&g, x, number, draws));
        x = if each.is_some() { g.checkpoint(add)? } else { add()? };
    }
    let wrt = names.map(|name| Ok((name.clone(), g.entry(&name)?))).collect::<Result<Vec<_>, Error>>()?;
    // One number of all gradients, so that they need not lie in memory together.
    let gradients = grad(&g, g.mean(g.square(x)?, All)?, &wrt)?;
    let sums = gradients.into_iter().map(|v| g.sum(g.square(v)?, All)).collect::<Result<Vec<_>, _>>()?;
    g.output("norm", sums.iter().skip(1).try_fold(sums[0], |sum, &next| g.add(sum, next))?);
    let mut state = State::new(engine, &spec)?;
    let mut program = Program::compile(engine, &state, "gradients", &g)?;
    for (name, _) in &wrt {
        let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 1600.0;
        state.write(name, &(0..WIDTH * HIDDEN).map(value).collect::<Vec<_>>())?;
    }
    program.write("x", &(0..ROWS * WIDTH).map(|i| (i % 17) as f32 / 17.0).collect::<Vec<_>>())?;
    program.write("draws", &cursor::seeded(1))?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        program.run(&mut state)?;
        engine.synchronize()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok((program.report().arena_bytes, program.cost().flops, times.get(runs / 2).copied()))
}

fn main() -> Result<(), Error> {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let on_gpu = std::env::args().nth(2).is_some_and(|device| device == "cuda");
    let engine = if on_gpu { Engine::cuda(0)? } else { Engine::cpu_with_threads(1)? };
    println!(
        "| layers of a block | intermediate values, MB | operations, 10^9 | time of a run, ms |\n|---|---|---|---|"
    );
    for each in [None, Some(1), Some(4), Some(8)] {
        let (bytes, flops, time) = measured(&engine, each, runs)?;
        let block = each.map_or("no blocks".to_owned(), |each| each.to_string());
        let time = time.map_or("".to_owned(), |time| format!("{:.2}", 1e3 * time.as_secs_f64()));
        println!("| {block} | {:.1} | {:.1} | {time} |", bytes as f64 / 1e6, flops as f64 / 1e9);
    }
    Ok(())
}
