//! What a graph refuses: values of another graph, names that are taken, inputs that nobody wrote.

use landfall::{
    All, DType, Engine, Error, Graph, Program, State, StateSpec, Value, grad, mixed_precision, ops,
};
use std::sync::Arc;

fn empty() -> (Arc<StateSpec>, Graph) {
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    (spec, g)
}

fn text<T>(result: Result<T, Error>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

/// A graph of another shape, whose values have the numbers of the first one's.
fn two() -> (Graph, Value, Value) {
    let (_, g) = empty();
    let (_, h) = empty();
    let x = g.input("x", DType::F32, [2]);
    let foreign = h.input("y", DType::F32, [2]);
    (g, x, foreign)
}

#[test]
fn a_value_of_another_graph_is_refused_by_every_method() {
    let (g, x, foreign) = two();
    let calls: [(&str, Result<Value, Error>); 12] = [
        ("neg", g.neg(foreign)),
        ("add", g.add(x, foreign)),
        ("matmul", g.matmul(foreign, x)),
        ("sum", g.sum(foreign, -1)),
        ("reshape", g.reshape(foreign, [2, 1])),
        ("slice", g.slice(foreign, 0, 0, 1)),
        ("cast", g.cast(foreign, DType::F64)),
        ("where", g.select(foreign, x, x)),
        ("add", g.op1(ops::Add, &[x, foreign])),
        ("broadcast_to", g.broadcast_to(foreign, [3, 2])),
        ("reshape", (g.var(x) + g.var(foreign)).map(Value::from)),
        ("grad", grad(&g, foreign, &[]).map(|v| v[0])),
    ];
    for (i, (method, result)) in calls.into_iter().enumerate() {
        let error = text(result);
        let arg = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0][i];
        assert!(error.contains(&format!("arg {arg} is value 0 of graph ")), "{method}: {error}");
        assert!(error.contains("build both with one Graph"), "{method}: {error}");
        assert!(i == 11 || error.contains("graphs.rs"), "{method}: {error}");
    }
}

#[test]
fn methods_without_a_result_leave_the_error_to_the_next_and_to_the_compiler() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    for method in ["spec", "name", "output", "detach"] {
        let (g, x, foreign) = two();
        match method {
            "spec" => assert_eq!(g.shape(foreign).rank(), 0),
            "name" => _ = g.name(foreign, "n"),
            "output" => g.output("o", foreign),
            _ => _ = g.detach(foreign),
        }
        let error = text(g.neg(x));
        assert!(error.contains(method) && error.contains("is value 0 of graph"), "{method}: {error}");
        let state = State::new(&e, g.state_spec())?;
        let error = text(Program::compile(&e, &state, "p", &g));
        assert!(error.contains(method) && error.contains("graphs.rs"), "{method}: {error}");
    }
    let (g, x, foreign) = two();
    g.output("o", g.neg(x)?);
    let mixed = mixed_precision(&g, DType::BF16, ops::Precision::Strict)?;
    assert!(text(mixed.value(foreign)).contains("is value 0 of graph"));
    assert!(mixed.value(x).is_ok());
    Ok(())
}

#[test]
fn a_name_is_given_once() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (spec, g) = empty();
    let state = State::new(&e, &spec)?;
    let x = g.input("x", DType::F32, [2]);
    g.output("o", x);
    // The same value again changes nothing.
    g.output("o", x);
    assert!(Program::compile(&e, &state, "p", &g).is_ok());
    g.output("o", g.neg(x)?);
    let error = text(Program::compile(&e, &state, "p", &g));
    assert!(error.contains("there is another output o") && error.contains("graphs.rs"), "{error}");

    let (_, g) = empty();
    g.input("x", DType::F32, [2]);
    let second = g.input("x", DType::F32, [2]);
    let error = text(g.neg(second));
    assert!(error.contains("there is another input x") && error.contains("graphs.rs"), "{error}");
    Ok(())
}

#[test]
fn an_input_that_was_never_written_does_not_run_as_zeros() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (spec, g) = empty();
    let mut state = State::new(&e, &spec)?;
    let (a, b) = (g.input("a", DType::F32, [2]), g.input("b", DType::F32, [2]));
    g.output("sum", g.sum(g.add(a, b)?, All)?);
    let mut p = Program::compile(&e, &state, "adds", &g)?;
    let read = text(p.read::<f32>("sum"));
    assert_eq!(read, "reading output sum: the program has not run yet; run it first");
    p.write("a", &[1.0f32, 2.0])?;
    for error in [text(p.run(&mut state)), text(p.issue(&mut state)), text(p.profile(&mut state, 1))] {
        assert!(error.starts_with("program adds cannot run: its input b was never written"), "{error}");
    }
    p.write("b", &[10.0f32, 20.0])?;
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("sum")?, [33.0]);
    Ok(())
}
