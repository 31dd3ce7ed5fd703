//! Names of inputs and outputs: each among its own kind, and destinations of a run by name.

use landfall::{Binding, DType, Engine, Error, Graph, Program, Rule, State, StateSpec, View};
use std::sync::Arc;

fn program(engine: &Engine, build: impl Fn(&Graph) -> Result<(), Error>) -> Result<(Program, State), Error> {
    let spec = Arc::new(StateSpec::new());
    let graph = Graph::new(&spec);
    build(&graph)?;
    let state = State::new(engine, &spec)?;
    Ok((Program::compile(engine, &state, "named", &graph)?, state))
}

fn view(engine: &Engine, data: &[f32]) -> Result<View, Error> {
    Ok(View::from(engine.tensor([data.len()], data)?))
}

#[test]
fn an_output_may_have_the_name_of_an_input() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let x = g.input("x", DType::F32, [3]);
        g.output("x", g.neg(x)?);
        Ok(())
    })?;
    p.write("x", &[1.0f32, 2.0, 3.0])?;
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("x")?, [-1.0, -2.0, -3.0]);
    assert_eq!(p.view(Binding::Output("x"))?.read::<f32>()?, [-1.0, -2.0, -3.0]);
    assert_eq!(p.view(Binding::Input("x"))?.read::<f32>()?, [1.0, 2.0, 3.0]);
    let told = p.view("x").expect_err("both have the name").to_string();
    assert!(told.contains("an input and an output have this name"), "{told}");
    let (x, y) = (view(&e, &[4.0, 5.0, 6.0])?, view(&e, &[0.0; 3])?);
    assert!(matches!(p.bind(&[("x", &y)]), Err(Error::Binding { .. })));
    p.bind(&[(Binding::Input("x"), &x), (Binding::Output("x"), &y)])?;
    p.run(&mut state)?;
    assert_eq!(y.read::<f32>()?, [-4.0, -5.0, -6.0]);
    p.write_views(&[("x", &view(&e, &[7.0, 8.0, 9.0])?)])?;
    assert_eq!(x.read::<f32>()?, [7.0, 8.0, 9.0]);
    Ok(())
}

#[test]
fn a_name_of_one_kind_needs_no_more() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let x = g.input("x", DType::F32, [2]);
        // An output that is the input of its name.
        g.output("x", x);
        g.output("y", g.neg(x)?);
        Ok(())
    })?;
    p.write("x", &[1.0f32, 2.0])?;
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("x")?, [1.0, 2.0]);
    assert_eq!(p.view("y")?.read::<f32>()?, [-1.0, -2.0]);
    assert!(matches!(
        p.write_views(&[("y", &view(&e, &[1.0, 2.0])?)]),
        Err(Error::NoBinding { kind: "input", .. })
    ));
    assert!(matches!(p.write("y", &[1.0f32, 2.0]), Err(Error::NoBinding { kind: "input", .. })));
    assert!(matches!(p.view(Binding::Input("y")), Err(Error::NoBinding { kind: "input", .. })));
    Ok(())
}

/// Memory of another dtype or shape is an error with the name of what it was given for, and nothing is written.
#[test]
fn memory_that_does_not_fit_is_named() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let (a, b) = (g.input("a", DType::F32, [2]), g.input("b", DType::F32, [2]));
        g.output("sum", g.add(a, b)?);
        Ok(())
    })?;
    let (ones, long) = (view(&e, &[1.0, 1.0])?, view(&e, &[2.0; 3])?);
    let ints = View::from(e.tensor([2], &[0i32; 2])?);
    p.write_views(&[("a", &ones), ("b", &ones)])?;
    let refused = p.write_views(&[("a", &view(&e, &[5.0, 5.0])?), ("b", &long)]).expect_err("another shape");
    let text = "program named: input b is f32[2], the memory given is f32[3]; give memory of this dtype and shape, \
                or compile the program for the other";
    assert_eq!(refused.to_string(), text);
    assert!(matches!(p.write_views(&[("a", &ints)]), Err(Error::Given { .. })));
    for wrong in [&long, &ints] {
        let refused = p.run_to(&mut state, &[("sum", wrong)]).expect_err("another shape").to_string();
        assert!(refused.starts_with("program named: output sum is f32[2], the memory given is"), "{refused}");
    }
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("sum")?, [2.0, 2.0]);
    Ok(())
}

/// What is refused was refused before anything ran.
#[test]
fn destinations_are_checked_before_a_run() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let x = g.input("x", DType::F32, [2]);
        g.output("more", g.affine(x, 1.0, 1.0)?);
        g.output("less", g.affine(x, 1.0, -1.0)?);
        Ok(())
    })?;
    p.write("x", &[1.0f32, 2.0])?;
    let memory = view(&e, &[0.0; 8])?;
    let part = |from| memory.slice(0, from, 2);
    let bound = part(6)?;
    p.bind(&[("more", &bound)])?;
    let mut rule = |to: &[(&str, &View)]| match p.run_to(&mut state, to) {
        Err(Error::Op(error)) => error.rule,
        other => panic!("{other:?}"),
    };
    let (low, high) = (part(0)?, part(1)?);
    let both = rule(&[("more", &low), ("less", &low)]);
    assert!(matches!(both, Rule::OutputsOverlap { first: 0, second: 1, .. }), "{both:?}");
    let crossing = rule(&[("more", &low), ("less", &high)]);
    assert!(matches!(crossing, Rule::OutputsOverlap { .. }), "{crossing:?}");
    let of_another = rule(&[("less", &bound)]);
    assert!(matches!(of_another, Rule::OutputsOverlap { .. }), "{of_another:?}");
    let one = memory.slice(0, 0, 1)?.broadcast_to([2])?;
    assert!(matches!(rule(&[("more", &one)]), Rule::SelfOverlap { output: 0, .. }));
    let unknown = p.run_to(&mut state, &[("nothing", &low)]);
    assert!(matches!(unknown, Err(Error::NoBinding { kind: "output", .. })), "{unknown:?}");
    assert_eq!(p.runs(), 0);
    assert_eq!(memory.read::<f32>()?, [0.0; 8]);
    // What is bound is its own destination.
    p.run_to(&mut state, &[("less", &part(2)?), ("more", &bound)])?;
    assert_eq!(memory.read::<f32>()?, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn an_input_that_a_run_updates_needs_memory_of_its_own() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let (a, b) = (g.input("a", DType::F32, [2]), g.input("b", DType::F32, [2]));
        let ok = g.fill(DType::Bool, landfall::Shape::SCALAR, 1.0)?;
        let changed = g.assign(a, g.neg(b)?, g.broadcast_to(ok, [2])?)?;
        g.output("c", g.add(changed, b)?);
        Ok(())
    })?;
    let memory = view(&e, &[1.0, 2.0, 3.0])?;
    let (a, b) = (memory.slice(0, 0, 2)?, memory.slice(0, 1, 2)?);
    let told = p.bind(&[("a", &a), ("b", &b)]).expect_err("b is read while a is written").to_string();
    assert!(told.contains("overlap (bytes "), "{told}");
    let other = view(&e, &[5.0, 6.0])?;
    p.bind(&[("a", &a), ("b", &other)])?;
    p.run(&mut state)?;
    assert_eq!((memory.read::<f32>()?, p.read::<f32>("c")?), (vec![-5.0, -6.0, 3.0], vec![0.0, 0.0]));
    Ok(())
}

/// An update is not for an output alone: what was bound is written, though nothing reads it.
#[test]
fn an_update_of_an_input_that_nothing_reads_is_made() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let (mut p, mut state) = program(&e, |g| {
        let (a, b) = (g.input("a", DType::F32, [1, 2]), g.input("b", DType::F32, [2]));
        let ok = g.fill(DType::Bool, landfall::Shape::SCALAR, 1.0)?;
        let flat = g.reshape(a, [2])?;
        g.assign(flat, g.add(flat, b)?, ok)?;
        g.output("before", g.neg(a)?);
        Ok(())
    })?;
    let a = View::from(e.tensor([1, 2], &[1.0f32, 2.0])?);
    p.bind(&[("a", &a), ("b", &view(&e, &[10.0, 20.0])?)])?;
    p.run(&mut state)?;
    p.run(&mut state)?;
    assert_eq!((a.read::<f32>()?, p.read::<f32>("before")?), (vec![21.0, 42.0], vec![-11.0, -22.0]));
    Ok(())
}
