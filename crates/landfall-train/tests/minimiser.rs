//! Optimizers in graphs of the caller's: the bytes of a trainer, several on one state, subsets of parameters, and what is refused.

use landfall::{All, DType, Engine, Error, Graph, HostTensor, Program, State, StateSpec, Value};
use landfall_train::nn::{Group, Init, ParameterId, Parameters};
use landfall_train::train::{
    Adam, Arrays, Betas, Lion, Minimiser, Optimizer, Order, Sgd, Trainer, TrainingOptions, Weights,
};
use std::sync::Arc;

const STEPS: usize = 5;

/// A matrix, a vector of a group of its own, one that is frozen, and one more vector.
fn parameters() -> (Parameters, Vec<ParameterId>) {
    let mut p = Parameters::new();
    let ids = vec![
        p.add("body.w", [3, 2], Init::Normal(0.5)),
        p.add("body.b", [2], Init::Normal(0.5)),
        p.add("head.b", [5], Init::Normal(0.5)),
        p.add("fixed.b", [2], Init::Constant(0.25)),
    ];
    assert_eq!(p.freeze("fixed"), 1);
    assert_eq!(p.group("head", Group { lr: 3.0, weight_decay: Some(0.2) }), 1);
    (p, ids)
}

/// A loss of all parameters, `values` by their order.
fn loss(g: &Graph, values: &[Value]) -> Result<Value, Error> {
    let mut sum = g.mul(g.sum(values[1], All)?, g.sum(values[3], All)?)?;
    for &value in values {
        sum = g.add(sum, g.sum(g.square(g.affine(g.tanh(value)?, 1.0, -0.25)?)?, All)?)?;
    }
    Ok(sum)
}

fn entries(g: &Graph, p: &Parameters) -> Result<Vec<Value>, Error> {
    p.list().iter().map(|p| g.entry(&p.name)).collect()
}

fn optimizers() -> Vec<Box<dyn Optimizer>> {
    let betas = Betas { first: 0.9, second: 0.99 };
    vec![
        Box::new(Adam { betas, eps: 1e-8, decoupled: true }),
        Box::new(Adam { betas, eps: 1e-8, decoupled: false }),
        Box::new(Sgd { momentum: 0.9, nesterov: true }),
        Box::new(Lion { betas }),
    ]
}

/// A graph of one's own, and a trainer: the same bytes of parameters, moments and averages after some steps.
#[test]
fn a_graph_of_ones_own_trains_as_a_trainer() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    for optimizer in optimizers() {
        let (p, ids) = parameters();
        let options = TrainingOptions {
            batch: 1,
            max_steps: Some(STEPS),
            lr: 0.05,
            weight_decay: 0.1,
            clip: Some(0.5),
            average: Some(0.75),
            order: Order::Sequential,
            seed: 7,
            ..TrainingOptions::default()
        };
        let data = Arrays::new().with("x", [1], vec![0.0f32])?;
        let mut trainer =
            Trainer::with_optimizer(&engine, &p, &data, options, optimizer.as_ref(), |cx, _| {
                loss(cx.graph, &ids.iter().map(|&id| cx.parameter(id)).collect::<Result<Vec<_>, _>>()?)
            })?;

        let minimiser =
            Minimiser::new("own", &p, optimizer.as_ref()).weight_decay(0.1).clip(0.5).average(0.75);
        let mut spec = StateSpec::new();
        minimiser.add_entries(&mut spec, DType::F32)?;
        let mut state = State::new(&engine, &Arc::new(spec))?;
        p.initialise(&mut state, 7)?;
        let g = Graph::new(state.spec());
        let lr = g.fill(DType::F64, [], 0.05)?;
        let minimised = minimiser.minimise(&g, loss(&g, &entries(&g, &p)?)?, lr)?;
        g.output("norm", minimised.norm);
        let mut program = Program::compile(&engine, &state, "own", &g)?;
        for step in 0..STEPS {
            trainer.step()?;
            program.run(&mut state)?;
            let record = &trainer.records(step + 1, step + 1)?[0];
            assert_eq!(f64::from(program.read::<f32>("norm")?[0]), record.grad_norm);
        }
        for parameter in p.list() {
            let name = &parameter.name;
            assert_eq!(
                state.read_host(name)?,
                trainer.parameter(name, Weights::Last)?,
                "{optimizer:?} {name}"
            );
        }
        for parameter in p.trainable() {
            let kept = |prefix: &str, of: &str| format!("{prefix}{of}.{}", parameter.name);
            let moments = ["moment.first", "moment.second"].into_iter().take(optimizer.moments().len());
            for of in moments.chain(["average"]) {
                let expected = trainer.state.read_host(&kept("", of))?;
                assert_eq!(state.read_host(&kept("own.", of))?, expected, "{optimizer:?} {of}");
                assert!(expected.data.iter().any(|x| *x != 0.0));
            }
        }
        assert_eq!(state.read::<i64>("own.cursor")?[0], STEPS as i64);
    }
    Ok(())
}

/// Two optimizers on the same parameters, each with moments and steps of its own, and one on a part of them.
#[test]
fn several_work_on_one_state() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let mut p = Parameters::new();
    p.add("a.w", [2], Init::Constant(4.0));
    p.add("b.w", [2], Init::Constant(8.0));
    let mut part = p.clone();
    part.freeze("a");
    let (plain, heavy) = (Sgd { momentum: 0.0, nesterov: false }, Sgd { momentum: 0.5, nesterov: false });
    let minimisers = [Minimiser::new("all", &p, &plain), Minimiser::new("part", &part, &heavy)];
    let mut spec = StateSpec::new();
    minimisers.iter().try_for_each(|m| m.add_entries(&mut spec, DType::F64))?;
    let mut state = State::new(&engine, &Arc::new(spec))?;
    p.initialise(&mut state, 1)?;
    let mut programs = Vec::new();
    for m in &minimisers {
        let g = Graph::new(state.spec());
        let mut sum = g.fill(DType::F64, [], 0.0)?;
        for value in entries(&g, &p)? {
            sum = g.add(sum, g.affine(g.sum(g.square(value)?, All)?, 0.5, 0.0)?)?;
        }
        m.minimise(&g, sum, g.fill(DType::F64, [], 0.5)?)?;
        programs.push(Program::compile(&engine, &state, "step", &g)?);
    }
    let mut after = |number: usize, state: &mut State| -> Result<[f64; 2], Error> {
        programs[number].run(state)?;
        Ok([state.read::<f64>("a.w")?[0], state.read::<f64>("b.w")?[1]])
    };
    assert_eq!(after(0, &mut state)?, [2.0, 4.0]);
    assert_eq!(after(1, &mut state)?, [2.0, 2.0]); // sum 4, step 2
    assert_eq!(after(0, &mut state)?, [1.0, 1.0]);
    assert_eq!(after(1, &mut state)?, [1.0, -0.5]); // sum 0.5·4 + 1, step 1.5
    assert_eq!((state.read::<i64>("all.cursor")?[0], state.read::<i64>("part.cursor")?[0]), (2, 2));
    assert!(state.read_host("part.moment.first.a.w").is_err(), "what is frozen has no moments");
    // Entries go to a file and come back by name.
    let kept = state.read_host("part.moment.first.b.w")?;
    assert_eq!(kept.data, [3.0, 3.0]);
    state.write_host("part.moment.first.b.w", &HostTensor::new(DType::F64, [2], vec![0.0; 2])?)?;
    assert_eq!(after(1, &mut state)?, [1.0, -0.25]);
    Ok(())
}

/// A step that is not finite changes nothing, its number included.
#[test]
fn a_step_that_is_not_finite_changes_nothing() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    for optimizer in optimizers() {
        let mut p = Parameters::new();
        p.add("w", [2, 2], Init::Constant(1.0));
        let minimiser = Minimiser::new("m", &p, optimizer.as_ref()).average(0.5);
        let mut spec = StateSpec::new();
        minimiser.add_entries(&mut spec, DType::F32)?;
        let mut state = State::new(&engine, &Arc::new(spec))?;
        p.initialise(&mut state, 1)?;
        let g = Graph::new(state.spec());
        let scaled = g.mul(g.entry("w")?, g.input("x", DType::F32, []))?;
        let done = minimiser.minimise(&g, g.sum(scaled, All)?, g.fill(DType::F64, [], 0.1)?)?;
        g.output("ok", done.ok);
        let mut program = Program::compile(&engine, &state, "step", &g)?;
        for (x, moves) in [(f32::NAN, false), (f32::INFINITY, false), (1.0, true)] {
            program.write("x", &[x])?;
            program.run(&mut state)?;
            let changed = state.read::<f32>("w")? != [1.0; 4];
            assert_eq!((changed, program.read::<u8>("ok")?[0] == 1), (moves, moves), "{optimizer:?} {x}");
            assert_eq!(state.read::<i64>("m.cursor")?[0], i64::from(moves));
        }
        assert_ne!(state.read::<f32>("m.average.w")?, [1.0; 4]);
    }
    Ok(())
}

fn refusal<T>(made: Result<T, Error>) -> String {
    made.err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn what_is_refused_says_why() -> Result<(), Error> {
    let mut p = Parameters::new();
    p.add("a", [2], Init::Constant(1.0));
    p.add("b", [2], Init::Constant(1.0));
    let sgd = Sgd { momentum: 0.0, nesterov: false };
    let plain = Minimiser::new("m", &p, &sgd);
    let added = |m: &Minimiser<'_>| m.add_entries(&mut StateSpec::new(), DType::F32);
    for (m, text) in [
        (plain.clip(0.0), "clip is 0; it must be finite and above 0"),
        (plain.weight_decay(-1.0), "weight_decay is -1; it must be finite and at least 0"),
        (plain.average(1.0), "average is 1; it must be in [0, 1)"),
    ] {
        assert!(refusal(added(&m)).contains(text), "{}", refusal(added(&m)));
    }
    let mut spec = StateSpec::new();
    plain.add_entries(&mut spec, DType::F32)?;
    assert!(refusal(plain.add_entries(&mut spec, DType::F32)).contains("m.cursor"), "one prefix, twice");
    let averaged = Minimiser::new("n", &p, &sgd).average(0.5);
    assert!(refusal(averaged.add_entries(&mut spec, DType::F32)).contains("average is asked for"));
    let (mut frozen, mut spec) = (p.clone(), StateSpec::new());
    frozen.freeze("b");
    Minimiser::new("n", &frozen, &sgd).add_entries(&mut spec, DType::F32)?;
    let text = refusal(plain.add_entries(&mut spec, DType::F32));
    assert!(text.contains("parameter is b, which is frozen"), "{text}");

    let mut spec = StateSpec::new();
    plain.add_entries(&mut spec, DType::F32)?;
    let g = Graph::new(&Arc::new(spec));
    let total = g.sum(g.add(g.entry("a")?, g.entry("b")?)?, All)?;
    let text = refusal(plain.minimise(&g, total, g.fill(DType::F32, [], 0.1)?));
    assert!(text.contains("lr is f32[]; it must be a value of f64[]"), "{text}");
    let of_a = g.sum(g.entry("a")?, All)?;
    let text = refusal(plain.minimise(&g, of_a, g.fill(DType::F64, [], 0.1)?));
    assert!(text.contains("parameter b is trainable, but no gradient path"), "{text}");
    Ok(())
}
