//! Draws of different streams, steps and micro-batches are independent, whatever ops draw: no number that one op makes tells
//! anything about one of another. Ops share no words of the generator, which shows in squares and in conditional means first.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{self, cursor};
use landfall::{DType, Engine, Error, Graph, Program, Spec, State, StateSpec, Value};
use std::sync::Arc;

on_each_device!(all_pairs_of_draws_are_independent, draws_of_a_step_are_those_of_eager_calls);

/// Elements of a draw.
const N: usize = 1 << 14;

/// An op that draws, with its stream and the cursor.
type Draw = fn(&Graph, u32, Value) -> Result<Value, Error>;

fn uniform(g: &Graph, dtype: DType, stream: u32, cursor: Value) -> Result<Value, Error> {
    g.op1(ops::Uniform { spec: Spec::new(dtype, [N]), low: -1.0, high: 1.0, stream }, &[cursor])
}

fn normal(g: &Graph, dtype: DType, stream: u32, cursor: Value) -> Result<Value, Error> {
    g.normal(Spec::new(dtype, [N / 8, 8]), stream, cursor)
}

fn dropout(g: &Graph, stream: u32, cursor: Value) -> Result<Value, Error> {
    g.op1(ops::Dropout { rate: 0.3, stream }, &[g.fill(DType::F32, [N], 1.0)?, cursor])
}

const DRAWS: [(&str, Draw); 8] = [
    ("uniform f32", |g, s, c| uniform(g, DType::F32, s, c)),
    ("uniform f64", |g, s, c| uniform(g, DType::F64, s, c)),
    ("uniform bf16", |g, s, c| uniform(g, DType::BF16, s, c)),
    ("normal f32", |g, s, c| normal(g, DType::F32, s, c)),
    ("normal f64", |g, s, c| normal(g, DType::F64, s, c)),
    ("normal f16", |g, s, c| normal(g, DType::F16, s, c)),
    ("bernoulli", |g, s, c| {
        let op = ops::Bernoulli { shape: [N].into(), keep: 0.6, stream: s };
        g.cast(g.op1(op, &[c])?, DType::F32)
    }),
    ("dropout", dropout),
];

/// Where a draw is made: step, micro-batch, stream.
type At = (i64, i64, u32);

/// Every draw at each of these places.
fn drawn(e: &Engine, places: &[At]) -> Result<Vec<Vec<Vec<f64>>>, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    for (p, (step, micro, stream)) in places.iter().enumerate() {
        let cursor = g.input(&format!("cursor {step} {micro} {stream}"), DType::I64, [cursor::LEN]);
        for (k, (_, draw)) in DRAWS.iter().enumerate() {
            g.output(&format!("{p} {k}"), draw(&g, *stream, cursor)?);
        }
    }
    let mut program = Program::compile(e, &state, "draws", &g)?;
    for (step, micro, stream) in places {
        let mut cursor = [0i64; cursor::LEN];
        (cursor[cursor::STEP], cursor[cursor::MICRO], cursor[cursor::SEED]) = (*step, *micro, 2021);
        program.write(&format!("cursor {step} {micro} {stream}"), &cursor)?;
    }
    program.run(&mut state)?;
    let of = |p: usize| (0..DRAWS.len()).map(|k| Ok(program.read_host(&format!("{p} {k}"))?.data)).collect();
    (0..places.len()).map(of).collect()
}

/// The numbers, their sizes, their squares, and whether they are large: each with mean 0 and length 1. Of a constant, such as the size
/// of what is 1 or −1, there is nothing to tell: zeros.
fn features(x: &[f64]) -> [Vec<f64>; 4] {
    let each = |f: &dyn Fn(f64) -> f64| {
        let mean = x.iter().map(|&x| f(x)).sum::<f64>() / x.len() as f64;
        let about: Vec<f64> = x.iter().map(|&x| f(x) - mean).collect();
        let length = about.iter().map(|x| x * x).sum::<f64>().sqrt();
        about.iter().map(|x| if length < 1e-9 { 0.0 } else { x / length }).collect()
    };
    [each(&|x| x), each(&f64::abs), each(&|x| x * x), each(&|x| f64::from(u8::from(x.abs() > 0.9)))]
}

fn independent(a: &[Vec<f64>; 4], b: &[Vec<f64>; 4], context: &str) {
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let r: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            // Six standard errors.
            assert!(r.abs() < 6.0 / (a.len() as f64).sqrt(), "{context}: features {i} and {j}: {r}");
        }
    }
}

fn all_pairs_of_draws_are_independent(e: &Engine) -> Result<(), Error> {
    // The same draw at the next streams, the next step, the next micro-batch.
    let places = [(4, 2, 1), (4, 2, 2), (4, 2, 3), (5, 2, 1), (4, 3, 1)];
    let all = drawn(e, &places)?;
    let told: Vec<Vec<_>> = all.iter().map(|draws| draws.iter().map(|x| features(x)).collect()).collect();
    for (k, (name, _)) in DRAWS.iter().enumerate() {
        for (p, place) in places.iter().enumerate().skip(1) {
            for (l, (other, _)) in DRAWS.iter().enumerate() {
                independent(
                    &told[0][k],
                    &told[p][l],
                    &format!("{name} at {:?}, {other} at {place:?}", places[0]),
                );
            }
        }
        // Of one draw, elements that are neighbours, and the two halves.
        for shift in [1, 2, 4, N / 2] {
            let [a, b] = [&all[0][k][..N - shift], &all[0][k][shift..]].map(features);
            independent(&a, &b, &format!("{name}, elements {shift} apart"));
        }
    }
    Ok(())
}

/// What a program draws an eager call draws.
fn draws_of_a_step_are_those_of_eager_calls(e: &Engine) -> Result<(), Error> {
    let mut at = vec![0i64; cursor::LEN];
    (at[cursor::STEP], at[cursor::MICRO], at[cursor::SEED]) = (4, 2, 2021);
    let at = e.tensor([cursor::LEN], &at)?;
    let mut made = e.empty(DType::F32, [N])?;
    let op = ops::Uniform { spec: Spec::new(DType::F32, [N]), low: -1.0, high: 1.0, stream: 2 };
    e.call(&op, &[at.view()], &mut [made.view_mut()])?;
    let all = drawn(e, &[(4, 2, 2)])?;
    assert_eq!(made.read_host()?.data, all[0][0]);
    Ok(())
}
