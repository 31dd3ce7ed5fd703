//! A Wasserstein GAN with gradient penalty: `cargo run --release -p landfall-train --example wgan`.
use landfall::{All, DType, Engine, Error, Graph, Program, State, StateSpec, Value, grad, rng::Rng};
use landfall_train::nn::{Context, Linear, Mode, Parameters};
use landfall_train::train::{Adam, Betas, Minimiser};
use std::f64::consts::TAU;

/// Three layers, and their parameters.
type Network = (Parameters, [Linear; 3]);

fn network(name: &str, outputs: usize) -> Network {
    let (mut p, sizes) = (Parameters::new(), [(0, 2, 32), (1, 32, 32), (2, 32, outputs)]);
    let layers = sizes.map(|(i, from, to)| Linear::new(&mut p, &format!("{name}.{i}"), from, to));
    (p, layers)
}

fn forward(g: &Graph, (p, [first, second, last]): &Network, x: Value) -> Result<Value, Error> {
    let cx = &Context::new(g, p, Mode::Evaluate);
    let hidden = g.leaky_relu(first.forward(cx, x)?, 0.2)?;
    last.forward(cx, g.leaky_relu(second.forward(cx, hidden)?, 0.2)?)
}

/// 128 points around eight centres on a circle.
fn ring(rng: &mut Rng) -> Vec<f32> {
    let mut point = || ((8.0 * rng.uniform()).floor() / 8.0 * TAU, 0.05 * rng.normal(), 0.05 * rng.normal());
    (0..128).map(|_| point()).flat_map(|(a, x, y)| [(a.cos() + x) as f32, (a.sin() + y) as f32]).collect()
}

/// The Chamfer distance: how far the nearest point of the other set is, both ways.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let near = |p: &[f32], b: &[f32]| b.chunks(2).map(|q| (p[0] - q[0]).hypot(p[1] - q[1])).reduce(f32::min);
    let one_way = |a: &[f32], b: &[f32]| a.chunks(2).filter_map(|p| near(p, b)).sum::<f32>() / 128.0;
    one_way(a, b) + one_way(b, a)
}

/// Trains by so many updates of the generator; the distance of generated points after each.
pub(crate) fn train(updates: usize) -> Result<Vec<f32>, Error> {
    let (engine, critic, generator) = (Engine::cpu()?, network("critic", 1), network("generator", 2));
    let adam = Adam { betas: Betas { first: 0.5, second: 0.9 }, eps: 1e-8, decoupled: false };
    let both = [Minimiser::new("a", &critic.0, &adam), Minimiser::new("b", &generator.0, &adam)];
    let mut spec = StateSpec::new();
    both.iter().try_for_each(|of| of.add_entries(&mut spec, DType::F32))?;
    let mut state = State::new(&engine, &spec.into())?;
    [&critic.0, &generator.0].iter().try_for_each(|p| p.initialise(&mut state, 1))?;
    let program = |number: usize, state: &State| {
        let g = &Graph::new(state.spec());
        let fake = forward(g, &generator, g.input("codes", DType::F32, [128, 2]))?;
        let mut loss = g.neg(g.mean_all(forward(g, &critic, fake)?)?)?;
        if number == 0 {
            let (real, mix) = (g.input("real", DType::F32, [128, 2]), g.input("mix", DType::F32, [128, 1]));
            let between = g.add(fake, g.mul(mix, g.sub(real, fake)?)?)?;
            let slope = grad(g, g.sum(forward(g, &critic, between)?, All)?, &[("x".into(), between)])?[0];
            let norm = g.sqrt(g.affine(g.sum(g.square(slope)?, 1)?, 1.0, 1e-12)?)?;
            let penalty = g.mean_all(g.square(g.affine(norm, 1.0, -1.0)?)?)?;
            loss = g.sub(g.sub(penalty, loss)?, g.mean_all(forward(g, &critic, real)?)?)?;
        }
        both[number].minimise(g, loss, g.fill(DType::F64, [], 2e-3)?)?;
        g.output("fake", fake);
        Program::compile(&engine, state, "step", g)
    };
    let (mut first, mut second, mut rng) = (program(0, &state)?, program(1, &state)?, Rng::new(1, 0));
    let mut distances = Vec::new();
    for step in 1..=4 * updates {
        first.write("real", &ring(&mut rng))?;
        first.write("mix", &[0; 128].map(|_| rng.uniform() as f32))?;
        let codes = [0; 256].map(|_| rng.normal() as f32);
        first.write("codes", &codes)?;
        first.run(&mut state)?;
        if step % 4 == 0 {
            second.write("codes", &codes)?;
            second.run(&mut state)?;
            distances.push(distance(&second.read("fake")?, &ring(&mut Rng::new(2, 0))));
        }
    }
    Ok(distances)
}

fn main() -> Result<(), Error> {
    train(1000).map(|all| all.iter().step_by(100).for_each(|d| println!("distance of the points: {d:.3}")))
}
