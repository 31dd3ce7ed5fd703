//! Programs of several threads that read one state at the same time, and programs that may not.

use landfall::{DType, Engine, Error, Graph, Program, ProgramSet, Spec, State, StateSpec};
use std::sync::Arc;

const WIDTH: usize = 48;

fn weights(engine: &Engine) -> Result<State, Error> {
    let mut spec = StateSpec::new();
    spec.add("weights", DType::F32, &[("w".to_owned(), [WIDTH, WIDTH].into())])?;
    let mut state = State::new(engine, &Arc::new(spec))?;
    state.write("w", &(0..WIDTH * WIDTH).map(|i| (i * 7 % 31) as f32 / 31.0 - 0.5).collect::<Vec<_>>())?;
    Ok(state)
}

/// `y = tanh(tanh(x·w)·w)`, plus noise of the program's own cursor.
fn graph(state: &State) -> Result<Graph, Error> {
    let g = Graph::new(state.spec());
    let (x, w) = (g.input("x", DType::F32, [16, WIDTH]), g.entry("w")?);
    let y = g.tanh(g.matmul(g.tanh(g.matmul(x, w)?)?, w)?)?;
    let noise = g.normal(Spec::new(DType::F32, [16, WIDTH]), 0, g.draws("draws")?)?;
    g.output("y", g.add(y, noise)?);
    Ok(g)
}

fn inputs(n: usize) -> Vec<f32> {
    (0..16 * WIDTH).map(|i| ((i + n) % 13) as f32 / 13.0).collect()
}

#[test]
fn threads_read_one_state_at_the_same_time() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let mut state = weights(&engine)?;
    let g = graph(&state)?;
    let program = || Program::compile(&engine, &state, "predict", &g);
    let (threads, runs) = (4, 50);
    let programs = (0..threads).map(|_| program()).collect::<Result<Vec<_>, _>>()?;
    let mut alone = program()?;
    let mut expected = Vec::new();
    for n in 0..threads {
        alone.write("x", &inputs(n))?;
        alone.write("draws", &landfall::ops::cursor::seeded(n as u64))?;
        let mut all = Vec::new();
        for _ in 0..runs {
            alone.run(&mut state)?;
            all.push(alone.read::<f32>("y")?);
        }
        expected.push(all);
    }
    let weights = Arc::new(state);
    let start = Arc::new(std::sync::Barrier::new(threads));
    let handles = programs.into_iter().enumerate().map(|(n, mut program)| {
        let (weights, start) = (Arc::clone(&weights), Arc::clone(&start));
        std::thread::spawn(move || {
            program.write("x", &inputs(n))?;
            program.write("draws", &landfall::ops::cursor::seeded(n as u64))?;
            start.wait();
            let run = |_| {
                program.run_shared(&weights)?;
                program.read::<f32>("y")
            };
            (0..runs).map(run).collect::<Result<Vec<_>, Error>>()
        })
    });
    let handles: Vec<_> = handles.collect();
    for (handle, expected) in handles.into_iter().zip(expected) {
        assert_eq!(handle.join().expect("no panic")?, expected);
    }
    Ok(())
}

#[test]
fn a_program_that_writes_needs_the_state_for_itself() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let mut state = weights(&engine)?;
    let g = Graph::new(state.spec());
    let w = g.entry("w")?;
    g.assign(w, g.affine(w, 0.5, 0.0)?, g.fill(DType::Bool, [], 1.0)?)?;
    let mut halve = Program::compile(&engine, &state, "halve", &g)?;
    let before = state.read::<f32>("w")?;
    let refused = halve.run_shared(&state).expect_err("it is refused").to_string();
    assert_eq!(
        refused,
        "program halve cannot run on a state that others read at the same time: its assign writes the slab weights; \
         Program::run takes the state for itself"
    );
    assert_eq!(state.read::<f32>("w")?, before);
    halve.run(&mut state)
}

#[test]
fn programs_of_one_arena_do_not_run_at_the_same_time() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let state = weights(&engine)?;
    let mut set = ProgramSet::new(&engine, &state);
    let g = graph(&state)?;
    set.add("first", &g)?;
    set.add("second", &g)?;
    let mut both = set.build()?;
    both[0].write("x", &inputs(0))?;
    both[0].write("draws", &landfall::ops::cursor::seeded(0))?;
    let refused = both[0].run_shared(&state).expect_err("it is refused");
    assert!(
        matches!(&refused, Error::Shared { program, why } if program == "first" && why.contains("arena")),
        "{refused}"
    );
    both.truncate(1);
    both[0].run_shared(&state)
}
