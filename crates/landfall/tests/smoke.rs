//! The whole way once: graph, gradient, plan, program, and the same op eagerly.
use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, grad};
use std::sync::Arc;

#[test]
fn linear_regression_gradient() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let mut spec = StateSpec::new();
    spec.add("params", DType::F64, &[("w".into(), [2, 3].into()), ("b".into(), [2].into())])?;
    let spec = Arc::new(spec);
    let mut state = State::new(&engine, &spec)?;
    state.write("w", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    state.write("b", &[0.5, -0.5])?;
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F64, [4, 3]);
    let w = g.entry("w")?;
    let b = g.entry("b")?;
    let wt = g.transpose(w)?;
    let y = g.matmul(x, wt)?;
    let y = g.add(y, b)?;
    let sq = g.mul(y, y)?;
    let loss = g.mean(sq, &[0, 1])?;
    let grads = grad(&g, loss, &[("w".into(), w), ("b".into(), b)])?;
    g.output("loss", loss);
    g.output("gw", grads[0]);
    g.output("gb", grads[1]);
    let mut p = Program::compile(&engine, &state, "step", &g)?;
    let xs: Vec<f64> = (0..12).map(|i| f64::from(i) * 0.1 - 0.5).collect();
    p.write("x", &xs)?;
    p.run(&mut state)?;
    let w = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let b = [0.5, -0.5];
    let (mut loss, mut gb) = (0.0, [0.0; 2]);
    for r in 0..4 {
        for o in 0..2 {
            let y: f64 = (0..3).map(|k| xs[r * 3 + k] * w[o][k]).sum::<f64>() + b[o];
            loss += y * y / 8.0;
            gb[o] += 2.0 * y / 8.0;
        }
    }
    assert!((p.read::<f64>("loss")?[0] - loss).abs() < 1e-12);
    let got = p.read::<f64>("gb")?;
    assert!((got[0] - gb[0]).abs() < 1e-12 && (got[1] - gb[1]).abs() < 1e-12, "{got:?} {gb:?}");
    println!("{:#?}", p.report());
    Ok(())
}
