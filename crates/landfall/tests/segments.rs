//! Segments: runs of instructions that one kernel does by parts give the bytes that the instructions give one by one.
#[path = "device/gpu.rs"]
mod gpu;

use landfall::{DType, Engine, Error, Graph, HostTensor, Program, Shape, State, StateSpec, Value, grad, ops};
use std::sync::Arc;

const SAMPLES: usize = 24;
const TOKENS: usize = 5;
const WIDTH: usize = 32;
const WIDE: usize = 64;
const HEADS: usize = 2;
const INPUTS: [(&str, &[usize]); 8] = [
    ("x", &[SAMPLES, TOKENS, WIDTH]),
    ("place", &[TOKENS, WIDTH]),
    ("qkv", &[3 * WIDTH, WIDTH]),
    ("out", &[WIDTH, WIDTH]),
    ("up", &[WIDE, WIDTH]),
    ("bias", &[WIDE]),
    ("down", &[WIDTH, WIDE]),
    ("target", &[SAMPLES, TOKENS, WIDTH]),
];

/// A layer of a transformer with its gradients: what it has of each sample is independent of the others, the gradients of its
/// weights are not.
fn layer(dtype: DType) -> Result<Graph, Error> {
    let state = Arc::new(StateSpec::new());
    let g = Graph::new(&state);
    let mut inputs: Vec<Value> = Vec::new();
    for (name, shape) in INPUTS {
        inputs.push(g.cast(g.input(name, DType::F32, Shape::new(shape).expect("a shape")), dtype)?);
    }
    let &[x, place, qkv, out, up, bias, down, target] = &inputs[..] else { panic!("eight inputs") };
    let rows = |v| g.reshape(v, [SAMPLES * TOKENS, g.spec(v).shape.last()]);
    let product = |v, w: Value| g.matmul(rows(v)?, g.transpose(w)?);
    let tokens = |v| g.reshape(v, [SAMPLES, TOKENS, g.spec(v).shape.last()]);
    let ones = g.fill(DType::F32, [WIDTH], 1.0)?;
    let zeros = g.fill(DType::F32, [WIDTH], 0.0)?;
    let norm = |v| Ok::<_, Error>(g.op(ops::LayerNorm { eps: 1e-5 }, &[v, ones, zeros])?[0]);
    let x = g.add(x, g.broadcast_to(place, [SAMPLES, TOKENS, WIDTH])?)?;
    let all = g.reshape(product(x, qkv)?, [SAMPLES, TOKENS, 3 * HEADS, WIDTH / HEADS])?;
    let third = |n| g.slice(all, 2, n * HEADS, HEADS);
    let attention = ops::Attention { scale: 0.25, previous: false, emit_scores: false };
    let attended = g.op(attention, &[third(0)?, third(1)?, third(2)?])?[0];
    let attended = g.reshape(attended, [SAMPLES, TOKENS, WIDTH])?;
    let x = norm(g.add(x, tokens(product(attended, out)?)?)?)?;
    let wide = g.add(product(x, up)?, g.broadcast_to(bias, [SAMPLES * TOKENS, WIDE])?)?;
    let wide = g.op1(ops::Gelu { approximation: ops::Approximation::Erf }, &[wide])?;
    let y = norm(g.add(x, tokens(product(wide, down)?)?)?)?;
    let loss = g.op1(ops::Mse, &[g.cast(y, DType::F32)?, g.cast(target, DType::F32)?])?;
    g.output("y", y);
    g.output("loss", loss);
    let wrt: Vec<(String, Value)> =
        INPUTS.iter().zip(&inputs[..7]).map(|((name, _), &v)| ((*name).to_owned(), v)).collect();
    for ((name, _), gradient) in wrt.iter().zip(grad(&g, loss, &wrt)?) {
        g.output(&format!("g{name}"), gradient);
    }
    Ok(g)
}

const OUTPUTS: [&str; 9] = ["y", "loss", "gx", "gplace", "gqkv", "gout", "gup", "gbias", "gdown"];

fn compile(engine: &Engine, dtype: DType) -> Result<(Program, State), Error> {
    let graph = layer(dtype)?;
    let state = State::new(engine, graph.state_spec())?;
    Ok((Program::compile(engine, &state, "layer", &graph)?, state))
}

/// What a program gives, by one way to run it, over memory of these bytes.
fn run(
    (program, state): &mut (Program, State),
    poison: u8,
    by: fn(&mut Program, &mut State) -> Result<(), Error>,
) -> Result<Vec<HostTensor>, Error> {
    program.poison(state, poison)?;
    for (n, (name, shape)) in INPUTS.iter().enumerate() {
        let value = |i: usize| ((i * 37 + n * 101) % 97) as f32 / 97.0 - 0.5;
        let elements: usize = shape.iter().product();
        program.write(name, &(0..elements).map(value).collect::<Vec<f32>>())?;
    }
    by(program, state)?;
    OUTPUTS.iter().map(|name| program.read_host(name)).collect()
}

#[test]
fn a_layer_and_its_gradients_are_few_segments_of_a_gpu() -> Result<(), Error> {
    for dtype in [DType::BF16, DType::F16] {
        // Both are refused by the planning engine where a part could not do a launch, or would meet another part.
        let (program, _) = compile(&Engine::planning_for_cuda().with_parts(2..9), dtype)?;
        let report = program.report();
        let members: usize = report.segments.iter().map(|s| s.1).sum();
        println!("{dtype}: {} of {} instructions in {:?}", members, report.instructions, report.segments);
        assert!(report.segments.iter().any(|s| s.1 >= 10), "no long one: {:?}", report.segments);
        assert!(report.segments.iter().all(|s| (2..9).contains(&s.2)), "{:?}", report.segments);
        let (alone, _) = compile(&Engine::planning_for_cuda().with_segments(false), dtype)?;
        assert_eq!(alone.report().segments, []);
    }
    Ok(())
}

#[test]
fn a_cpu_has_none() -> Result<(), Error> {
    let (program, _) = compile(&Engine::cpu_with_threads(1)?.with_parts(2..9), DType::BF16)?;
    assert_eq!(program.report().segments, []);
    Ok(())
}

/// As one kernel, one by one, and without segments.
#[test]
fn segments_give_the_bytes_of_their_instructions_on_cuda() -> Result<(), Error> {
    let Some(engine) = gpu::gpu()? else { return Ok(()) };
    for dtype in [DType::BF16, DType::F16] {
        for parts in [2..3, 3..9, 24..25] {
            let mut joined = compile(&engine.with_parts(parts.clone()), dtype)?;
            assert!(!joined.0.report().segments.is_empty(), "{dtype}, {parts:?}");
            let want = run(&mut joined, 0xff, Program::issue)?;
            for poison in [0xff, 0x5a, 0] {
                let got = run(&mut joined, poison, Program::run)?;
                for (name, (got, want)) in OUTPUTS.iter().zip(got.iter().zip(&want)) {
                    assert!(got == want, "{dtype}, {parts:?}: {name} differs from that of single launches");
                }
            }
            let apart = run(&mut compile(&engine.with_segments(false), dtype)?, 0xff, Program::run)?;
            let mut worst: f64 = 0.0;
            for (a, b) in apart.iter().zip(&want) {
                let size = b.data.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
                let far = a.data.iter().zip(&b.data).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
                worst = worst.max(far / size);
            }
            println!(
                "{dtype}, {parts:?}: within {worst:.1e} of the program without segments, whose products are the library's"
            );
            assert!(worst < 2.0 * dtype.epsilon(), "{worst}");
        }
    }
    Ok(())
}
