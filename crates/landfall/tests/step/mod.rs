//! A training step that tests run many times.
use crate::dice::Dice;
use crate::ops::Decay;
use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, grad};
use std::sync::Arc;

/// A step of gradient descent with products of transposed operands, reductions, a packing and updates.
pub(crate) fn step(engine: &Engine) -> Result<(Program, State), Error> {
    let mut spec = StateSpec::new();
    let shapes = [("w1".into(), [24, 16].into()), ("w2".into(), [8, 24].into())];
    spec.add("params", DType::F64, &shapes)?;
    let spec = Arc::new(spec);
    let mut state = State::new(engine, &spec)?;
    let mut dice = Dice(1);
    for (name, n) in [("w1", 24 * 16), ("w2", 8 * 24)] {
        let w: Vec<f64> = (0..n).map(|_| dice.unit() * 0.2).collect();
        state.write(name, &w)?;
    }
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F64, [600, 16]);
    let (w1, w2) = (g.entry("w1")?, g.entry("w2")?);
    let h = g.tanh(g.matmul(x, g.transpose(w1)?)?)?;
    let y = g.matmul(h, g.transpose(w2)?)?;
    let one = g.affine(y, 1.0, -1.0)?;
    let loss = g.mean(g.mul(one, one)?, [0, 1])?;
    let grads = grad(&g, loss, &[("w1".into(), w1), ("w2".into(), w2)])?;
    let packed = g.op1(landfall::ops::Pack, &grads)?;
    let scaled = g.affine(packed, -0.1, 0.0)?;
    g.op1(Decay { keep: 1.0 }, &[g.slab("params")?, scaled])?;
    g.output("loss", loss);
    let mut program = Program::compile(engine, &state, "step", &g)?;
    let xs: Vec<f64> = (0..600 * 16).map(|_| dice.unit()).collect();
    program.write("x", &xs)?;
    Ok((program, state))
}
