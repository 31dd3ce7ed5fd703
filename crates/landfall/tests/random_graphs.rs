//! Random graphs: every plan passes the checker, is close to the least memory possible, and gives what the ops'
//! references give, however often the program runs, whatever its memory held before, and however much of it is shared.
#[path = "device/gpu.rs"]
mod gpu;
mod ops;
mod recipe;

use landfall::plan::{Report, Reuse};
use landfall::{Engine, Error, HostTensor, Program, ProgramSet, Rule, State};
use recipe::{Dice, Ops, Recipe, Results};
use std::collections::HashMap;

/// Whether a graph asks for a value from before an update after the update, which lowering must refuse.
fn is_cyclic(e: &Error) -> bool {
    matches!(e, Error::Op(e) if matches!(e.rule, Rule::Update { .. }))
}

/// How much values share.
const MODES: [Reuse; 3] = [Reuse::Tight, Reuse::Most, Reuse::Nothing];

/// How many pairs of values have memory in common.
fn sharing(report: &Report) -> usize {
    let rows: Vec<_> = report.rows.iter().filter(|r| r.bytes > 0).collect();
    let meets = |a: usize, b: usize| {
        let (a, b) = (rows[a], rows[b]);
        a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
    };
    (0..rows.len()).map(|b| (0..b).filter(|&a| meets(a, b)).count()).sum()
}

/// Each mode plans what the others plan; one shares more than the tightest plans do, one nothing.
#[test]
fn modes_of_reuse_differ_in_what_they_share() -> Result<(), Error> {
    let (mut in_place, mut pairs, mut planned) = ([0; 3], [0; 3], [0; 3]);
    for seed in 0..300 {
        let recipe = Recipe::new(Ops::All, seed, 5 + seed as usize * 7 % 56, false)?;
        for (m, mode) in MODES.into_iter().enumerate() {
            let engine = Engine::null().with_reuse(mode);
            let state = State::new(&engine, &recipe.state)?;
            match ProgramSet::new(&engine, &state).add("random", &recipe.graph) {
                Ok(report) => {
                    planned[m] += 1;
                    in_place[m] += report.in_place;
                    pairs[m] += sharing(&report);
                }
                Err(e) if is_cyclic(&e) => {}
                Err(e) => panic!("seed {seed}, {mode:?}: {e}"),
            }
        }
    }
    println!(
        "{MODES:?}: planned {planned:?}, in place {in_place:?}, pairs of values that share memory {pairs:?}"
    );
    assert!(planned[0] > 250 && planned.iter().all(|&n| n == planned[0]), "{planned:?}");
    assert!(in_place[1] > in_place[0] && in_place[2] == 0, "{in_place:?}");
    assert!(pairs[1] > pairs[0], "{pairs:?}");
    Ok(())
}

#[test]
fn a_thousand_random_graphs_plan_tightly_and_verify() -> Result<(), Error> {
    let engine = Engine::null();
    let (mut ratios, mut refused, mut in_place) = (Vec::new(), 0, 0);
    for seed in 0..1000 {
        let recipe = Recipe::new(Ops::All, seed, 5 + seed as usize * 7 % 56, false)?;
        let state = State::new(&engine, &recipe.state)?;
        match ProgramSet::new(&engine, &state).add("random", &recipe.graph) {
            Ok(report) => {
                assert!(report.arena_bytes >= report.live_peak_bytes, "seed {seed}: a plan below its peak");
                ratios.push(report.arena_bytes as f64 / report.live_peak_bytes.max(64) as f64);
                in_place += report.in_place;
            }
            Err(e) if is_cyclic(&e) => refused += 1,
            Err(e) => {
                panic!("seed {seed}: {e}")
            }
        }
    }
    ratios.sort_by(f64::total_cmp);
    let at = |p: f64| ratios[((ratios.len() - 1) as f64 * p) as usize];
    println!(
        "arena / live peak over {} graphs: median {:.3}, 90% {:.3}, 99% {:.3}, max {:.3}; {refused} refused, {in_place} in place",
        ratios.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    assert!(refused <= 50, "{refused} graphs asked for a value after its update: the generator is off");
    assert!(in_place > 1000, "only {in_place} outputs took over an input's memory");
    assert!(at(0.99) <= 1.15, "99% of arenas must be within 1.15 of the peak, it is {:.3}", at(0.99));
    Ok(())
}

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Run,
    Issue,
}

fn write(
    recipe: &Recipe,
    program: &mut Program,
    state: &mut State,
    data: &HashMap<String, HostTensor>,
) -> Result<(), Error> {
    for name in ["x0", "x1", "x2"] {
        program.write(name, &data[name].data)?;
    }
    for entry in recipe.state.slabs().iter().flat_map(|s| &s.entries) {
        state.write(&entry.name, &data[&entry.name].data)?;
    }
    Ok(())
}

fn results(recipe: &Recipe, program: &Program, state: &State) -> Result<Results, Error> {
    let read = |(name, _): &(String, usize)| Ok((name.clone(), program.read_host(name)?));
    let entries = recipe.state.slabs().iter().flat_map(|s| &s.entries);
    Ok(Results {
        outputs: recipe.outputs.iter().map(read).collect::<Result<_, Error>>()?,
        state: entries
            .map(|e| Ok((e.name.clone(), state.read_host(&e.name)?)))
            .collect::<Result<_, Error>>()?,
    })
}

fn assert_close(got: &HashMap<String, HostTensor>, want: &HashMap<String, HostTensor>, context: &str) {
    for (name, want) in want {
        let got = &got[name];
        assert_eq!(got.spec, want.spec, "{context}: {name}");
        for (i, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
            let near = (g - w).abs() <= 1e-9 * w.abs().max(1.0);
            assert!(near, "{context}: {name}[{i}] is {g}, the reference gives {w}");
        }
    }
}

/// The graph that a GPU would capture implies the plan, in each mode of reuse; the engine refuses the program otherwise.
#[test]
fn captured_random_graphs_imply_their_plans() -> Result<(), Error> {
    let mut planned = 0;
    for seed in 0..300 {
        let recipe = Recipe::new(Ops::Table, 1 << 32 | seed, 5 + seed as usize % 30, true)?;
        for mode in MODES {
            let engine = Engine::planning_for_cuda().with_reuse(mode);
            let state = State::new(&engine, &recipe.state)?;
            match Program::compile(&engine, &state, "random", &recipe.graph) {
                Ok(_) => planned += 1,
                Err(e) if is_cyclic(&e) => {}
                Err(e) => panic!("seed {seed}, {mode:?}: {e}"),
            }
        }
    }
    assert!(planned > 600, "{planned} programs");
    Ok(())
}

/// With segments of few parts, each of which the checker and the planning engine try to refuse.
#[test]
fn segments_of_random_graphs_keep_their_parts_apart() -> Result<(), Error> {
    let (mut programs, mut members) = (0, 0);
    for seed in 0..400 {
        let recipe = Recipe::new(Ops::Table, 1 << 32 | seed, 5 + seed as usize % 30, true)?;
        let engine = Engine::planning_for_cuda().with_reuse(MODES[seed as usize % 3]).with_parts(2..7);
        let state = State::new(&engine, &recipe.state)?;
        match Program::compile(&engine, &state, "random", &recipe.graph) {
            Ok(program) => {
                let segments = program.report().segments;
                programs += usize::from(!segments.is_empty());
                members += segments.iter().map(|s| s.1).sum::<usize>();
            }
            Err(e) if is_cyclic(&e) => {}
            Err(e) => panic!("seed {seed}: {e}"),
        }
    }
    println!("{programs} programs with segments of {members} instructions");
    assert!(programs > 40, "{programs} programs with segments");
    Ok(())
}

#[test]
fn two_hundred_random_graphs_give_what_their_references_give() -> Result<(), Error> {
    compared(&Engine::cpu_with_threads(2)?, Ops::All, 220)
}

#[test]
fn two_hundred_random_graphs_of_the_table() -> Result<(), Error> {
    compared(&Engine::cpu_with_threads(2)?, Ops::Table, 220)
}

#[test]
fn two_hundred_random_graphs_of_the_table_on_cuda() -> Result<(), Error> {
    gpu::gpu()?.map_or(Ok(()), |engine| compared(&engine.with_segments(false), Ops::Table, 220))
}

/// Each segment is compiled, which takes a second.
#[test]
fn random_graphs_with_segments_of_few_parts_on_cuda() -> Result<(), Error> {
    gpu::gpu()?.map_or(Ok(()), |engine| compared(&engine.with_parts(2..7), Ops::Table, 24))
}

/// Runs random graphs under each mode, again and again, and compares with their references and with the first run.
fn compared(engine: &Engine, ops: Ops, seeds: u64) -> Result<(), Error> {
    let mut compared = 0;
    for seed in 0..seeds {
        let recipe = Recipe::new(ops, 1 << 32 | seed, 5 + seed as usize % 30, true)?;
        let mut dice = Dice(seed);
        let mut data: HashMap<String, HostTensor> = HashMap::new();
        for m in &recipe.made {
            if let recipe::Step::Input(name) = &m.step {
                data.insert(name.clone(), HostTensor::from_fn(m.spec, |_| dice.unit()));
            }
        }
        for slab in recipe.state.slabs() {
            for e in &slab.entries {
                let random = HostTensor::from_fn(landfall::Spec::new(slab.dtype, e.shape), |_| dice.unit());
                data.insert(e.name.clone(), random);
            }
        }
        let want = recipe.evaluate(&data);
        let mut first: Option<Results> = None;
        for mode in MODES {
            let engine = engine.with_reuse(mode);
            let mut state = State::new(&engine, &recipe.state)?;
            let mut program = match Program::compile(&engine, &state, "random", &recipe.graph) {
                Err(e) if is_cyclic(&e) => continue,
                other => other?,
            };
            for (way, poison) in [(Way::Run, 0xff), (Way::Run, 0x5a), (Way::Issue, 0xff), (Way::Run, 0)] {
                program.poison(&mut state, poison)?;
                write(&recipe, &mut program, &mut state, &data)?;
                match way {
                    Way::Run => program.run(&mut state)?,
                    Way::Issue => program.issue(&mut state)?,
                }
                let got = results(&recipe, &program, &state)?;
                let context = format!("seed {seed}, {mode:?}, {way:?} over memory of {poison:#x}");
                let first = first.get_or_insert_with(|| got.clone());
                assert_close(&got.outputs, &want.outputs, &context);
                assert_close(&got.state, &want.state, &context);
                assert!(*first == got, "{context}: not the bytes of the first run");
            }
        }
        compared += usize::from(first.is_some());
    }
    assert!(compared * 11 >= seeds as usize * 10, "only {compared} graphs of {seeds} were compared");
    Ok(())
}
