//! Cheap forward values are made again for the backward pass, with the same gradient.

use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, grad};
use std::sync::Arc;

#[test]
fn a_cheap_value_whose_operands_are_kept_is_made_again() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let mut spec = StateSpec::new();
    spec.add("parameters", DType::F64, &[("w".to_owned(), [5].into())])?;
    let spec = Arc::new(spec);
    let mut state = State::new(&engine, &spec)?;
    let values = [0.5f64, -1.0, 0.0, 2.0, -0.25];
    state.write("w", &values)?;
    let g = Graph::new(&spec);
    let w = g.entry("w")?;
    // The product's gradient reads both factors; the second is one negation of the first.
    let kept = g.exp(w)?;
    let cheap = g.neg(kept)?;
    let loss = g.sum(g.mul(kept, cheap)?, [0])?;
    let gradient = grad(&g, loss, &[("w".to_owned(), w)])?;
    g.output("gradient", gradient[0]);
    let mut program = Program::compile(&engine, &state, "step", &g)?;
    assert_eq!(program.report().recomputed, 1);
    program.run(&mut state)?;
    for (got, x) in program.read::<f64>("gradient")?.iter().zip(values) {
        let want = -2.0 * (2.0 * x).exp();
        assert!((got - want).abs() <= 1e-14 * want.abs(), "{got} {want}");
    }
    Ok(())
}
