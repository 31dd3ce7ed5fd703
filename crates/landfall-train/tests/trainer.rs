//! Training of the user's own graphs: optimizers against their formulas in f64, groups, averages, data, the loop.

use landfall::{DType, Engine, Error, Graph, Value};
use landfall_train::nn::{Group, Init, Linear, ParameterId, Parameters, loss};
use landfall_train::train::{
    Arrays, Betas, Moment, Optimizer, OptimizerKind, Order, Schedule, Sgd, Trainer, TrainingOptions, Update,
    Weights,
};
use std::ops::ControlFlow;

/// A loss whose gradient is known: `Σ½·curvature·w²` over a matrix `w` and a vector `b`, whatever the data.
const CURVATURE: [f64; 3] = [1.0, 0.5, 2.0];

fn bowl(
    kind: OptimizerKind,
    groups: bool,
    change: impl FnOnce(&mut TrainingOptions),
    own: Option<&dyn Optimizer>,
) -> Result<Trainer, Error> {
    Ok(bowl_of(kind, groups, change, own)?.0)
}

/// The same with its matrix.
fn bowl_of(
    kind: OptimizerKind,
    groups: bool,
    change: impl FnOnce(&mut TrainingOptions),
    own: Option<&dyn Optimizer>,
) -> Result<(Trainer, ParameterId), Error> {
    let mut p = Parameters::default();
    let w = p.add("w", [1, 3], Init::Constant(1.5));
    let b = p.add("b", [3], Init::Constant(-0.75));
    if groups {
        assert_eq!(p.group("b", Group { lr: 0.5, weight_decay: Some(0.0) }), 1);
    }
    let mut options = TrainingOptions {
        optimizer: kind,
        betas: kind.betas(),
        batch: 2,
        epochs: 5,
        lr: 0.1,
        weight_decay: 0.2,
        dtype: DType::F64,
        order: Order::Sequential,
        ..TrainingOptions::default()
    };
    change(&mut options);
    let data = Arrays::new().with("x", [4, 3], vec![0.0f64; 12])?;
    let optimizer = options.optimizer.of(&options);
    let engine = Engine::cpu_with_threads(2)?;
    let own = own.unwrap_or(optimizer.as_ref());
    let trainer = Trainer::with_optimizer(&engine, &p, &data, options, own, |cx, batch| {
        let g = cx.graph;
        // Adds 0 of the data, so that the batch is part of the graph.
        let zero = g.sum(batch.get("x")?, landfall::All)?;
        let half = |v: Value| {
            let index = g.arange(DType::F64, 0.0, 1.0, 3)?;
            // 1 − ½·i + ... through the three points of the curvature.
            let curve = g.add(g.affine(g.mul(index, index)?, 1.0, 1.0)?, g.affine(index, -1.5, 0.0)?)?;
            g.affine(g.sum(g.mul(curve, g.square(v)?)?, landfall::All)?, 0.5, 0.0)
        };
        g.add(zero, g.add(half(cx.parameter(w)?)?, half(cx.parameter(b)?)?)?)
    })?;
    Ok((trainer, w))
}

/// What `step(parameter, gradient, moment, weight decay, lr)` makes of the six parameters in `steps` steps.
fn by_hand(steps: usize, groups: bool, step: impl Fn(&mut f64, f64, &mut f64, f64, f64)) -> Vec<f64> {
    let mut all: Vec<f64> = vec![1.5, 1.5, 1.5, -0.75, -0.75, -0.75];
    let mut moments = [0.0; 6];
    for _ in 0..steps {
        for (i, (p, m)) in all.iter_mut().zip(&mut moments).enumerate() {
            // Vectors do not decay.
            let (lr, decay) = if i < 3 { (0.1, 0.2) } else { (if groups { 0.05 } else { 0.1 }, 0.0) };
            let gradient = CURVATURE[i % 3] * *p;
            step(p, gradient, m, decay, lr);
        }
    }
    all
}

fn close(trainer: &mut Trainer, want: &[f64], name: &str) -> Result<(), Error> {
    let mut got = trainer.state.read::<f64>("w")?;
    got.extend(trainer.state.read::<f64>("b")?);
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-12, "{name}: {got:?}, it must be {want:?}");
    }
    Ok(())
}

fn whole(trainer: &mut Trainer) -> Result<(), Error> {
    trainer.run(|_, _| Ok::<_, Error>(ControlFlow::Continue(())))
}

#[test]
fn sgd_and_lion_are_their_formulas() -> Result<(), Error> {
    for groups in [false, true] {
        let mut sgd = bowl(OptimizerKind::Sgd, groups, |_| {}, None)?;
        whole(&mut sgd)?;
        let want = by_hand(10, groups, |p, gradient, m, decay, lr| {
            *m = 0.9 * *m + gradient + decay * *p;
            *p -= lr * *m;
        });
        close(&mut sgd, &want, "sgd")?;

        let plain = Sgd { momentum: 0.0, nesterov: false };
        let mut own = bowl(OptimizerKind::Adam, groups, |_| {}, Some(&plain))?;
        whole(&mut own)?;
        close(&mut own, &by_hand(10, groups, |p, g, _, decay, lr| *p -= lr * (g + decay * *p)), "plain sgd")?;

        let nesterov = Sgd { momentum: 0.9, nesterov: true };
        let mut own = bowl(OptimizerKind::Adam, groups, |_| {}, Some(&nesterov))?;
        whole(&mut own)?;
        let want = by_hand(10, groups, |p, gradient, m, decay, lr| {
            let gradient = gradient + decay * *p;
            *m = 0.9 * *m + gradient;
            *p -= lr * (gradient + 0.9 * *m);
        });
        close(&mut own, &want, "nesterov")?;

        let mut lion = bowl(OptimizerKind::Lion, groups, |_| {}, None)?;
        whole(&mut lion)?;
        let want = by_hand(10, groups, |p, gradient, m, decay, lr| {
            let step = (0.9 * *m + 0.1 * gradient).signum() + decay * *p;
            *m = 0.99 * *m + 0.01 * gradient;
            *p -= lr * step;
        });
        close(&mut lion, &want, "lion")?;
    }
    Ok(())
}

#[test]
fn groups_scale_the_rate_of_adam_too() -> Result<(), Error> {
    let betas = Betas { first: 0.9, second: 0.999 };
    let mut adam = bowl(OptimizerKind::AdamW, true, |o| o.max_steps = Some(1), None)?;
    whole(&mut adam)?;
    // The first step of Adam is the sign of the gradient, whatever its size.
    let want = by_hand(1, true, |p, gradient, _, decay, lr| {
        let (m, v) = (1.0 - betas.first, 1.0 - betas.second);
        let step = (m * gradient / m) / ((v * gradient * gradient / v).sqrt() + 1e-8);
        *p = *p * (1.0 - lr * decay) - lr * step;
    });
    close(&mut adam, &want, "adamw")
}

#[test]
fn the_average_follows_the_weights() -> Result<(), Error> {
    let (mut t, w) = bowl_of(OptimizerKind::Sgd, true, |o| o.average = Some(0.8), None)?;
    let mut averages = [1.5f64; 3];
    for _ in 0..t.steps() {
        t.step()?;
        let now = t.state.read::<f64>("w")?;
        averages.iter_mut().zip(now).for_each(|(a, w)| *a = 0.8 * *a + 0.2 * w);
    }
    let given = Arrays::new().with("x", [1, 3], vec![1.0f64; 3])?;
    for (weights, want) in [(Weights::Average, averages.to_vec()), (Weights::Last, t.state.read::<f64>("w")?)]
    {
        let mut p =
            t.predictor(&given, 1, weights, |cx, batch| cx.graph.mul(batch.get("x")?, cx.parameter(w)?))?;
        let got = p.run(&t, &given)?.data;
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?}, it must be {want:?}");
    }
    Ok(())
}

#[test]
fn a_schedule_of_ones_own_and_a_run_that_ends_early() -> Result<(), Error> {
    let mut t = bowl(OptimizerKind::Sgd, false, |o| o.schedule = Schedule::Cosine, None)?;
    t.schedule(|step| 0.01 * (step + 1) as f64)?;
    let mut epochs = Vec::new();
    t.run(|trainer, epoch| {
        epochs.push((epoch.number, epoch.steps.len(), epoch.loss() > 0.0));
        assert_eq!(trainer.position()?, 2 * epoch.number);
        assert!((epoch.steps[1].lr - 0.01 * epoch.steps[1].step as f64).abs() < 1e-15);
        Ok::<_, Error>(if epoch.number == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    assert_eq!(epochs, [(1, 2, true), (2, 2, true), (3, 2, true)]);
    // It goes on where it ended.
    whole(&mut t)?;
    assert_eq!(t.position()?, 10);
    Ok(())
}

/// An optimizer as a user writes one: the sign of the gradient, times the rate.
#[derive(Debug)]
struct Signs;

impl Optimizer for Signs {
    fn moments(&self) -> &'static [Moment] {
        &[]
    }
    fn update(&self, g: &Graph, u: &Update) -> Result<Value, Error> {
        let step = g.mul(g.sign(u.scaled_gradients(g)?)?, u.rate(g)?)?;
        g.assign(u.parameters, g.sub(u.parameters, step)?, u.ok)
    }
}

#[test]
fn an_optimizer_of_ones_own() -> Result<(), Error> {
    let mut t = bowl(OptimizerKind::Adam, true, |_| {}, Some(&Signs))?;
    whole(&mut t)?;
    close(&mut t, &by_hand(10, true, |p, gradient, _, _, lr| *p -= lr * gradient.signum()), "signs")
}

/// Points on two arcs: which arc is learned by a small network from bytes and labels.
#[test]
fn classes_are_learned_from_bytes_and_predicted_in_batches() -> Result<(), Error> {
    let (n, held) = (600, 101);
    let mut points = Vec::new();
    let mut labels = Vec::new();
    for i in 0..n {
        let (t, arc) = (std::f64::consts::PI * (i * 7 % n) as f64 / n as f64, i % 2);
        let (x, y) = if arc == 0 { (t.cos(), t.sin()) } else { (1.0 - t.cos(), 0.5 - t.sin()) };
        points.extend([x, y].map(|v| (100.0 + 50.0 * v) as u8));
        labels.push(arc as i64);
    }
    let all = Arrays::new().with("point", [n, 2], points)?.with("label", [n], labels.clone())?;
    let (test, training) = all.split(held);
    let mut p = Parameters::default();
    let (first, last) = (Linear::new(&mut p, "first", 2, 32), Linear::new(&mut p, "last", 32, 2));
    let logits = |cx: &landfall_train::nn::Context<'_>, x: Value| {
        let x = cx.graph.affine(cx.graph.cast(x, DType::F32)?, 0.02, -2.0)?;
        last.forward(cx, cx.graph.relu(first.forward(cx, x)?)?)
    };
    let options = TrainingOptions { batch: 50, epochs: 60, lr: 0.01, ..TrainingOptions::default() };
    let mut t = Trainer::new(&Engine::cpu_with_threads(2)?, &p, &training, options, |cx, batch| {
        loss::cross_entropy(cx.graph, logits(cx, batch.get("point")?)?, batch.get("label")?)
    })?;
    whole(&mut t)?;
    // Batches that do not divide the samples.
    let mut predictor = t.predictor(&test, 16, Weights::Last, |cx, batch| {
        cx.graph.argmax(logits(cx, batch.get("point")?)?, -1)
    })?;
    let classes = predictor.run(&t, &test)?;
    assert_eq!(classes.dims(), [held]);
    let right = (0..held).filter(|&i| classes.int(i) == labels[i]).count();
    assert!(right >= held - 3, "{right} of {held} are right");
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let text = |r: Result<Arrays, Error>| r.err().map(|e| e.to_string()).unwrap_or_default();
    let data = || Arrays::new().with("x", [4, 3], vec![0.0f32; 12]);
    assert!(text(Arrays::new().with("x", [4, 3], vec![0.0f32; 11])).contains("11"), "elements");
    assert!(text(data()?.with("y", [5], vec![0i64; 5])).contains("arg 1 is [5]; it must be [4]"), "rows");
    assert!(text(data()?.with("x", [4], vec![0i64; 4])).contains('x'), "names");
    assert!(text(Arrays::new().with("x", [0, 3], Vec::<f32>::new())).contains("rows is 0"), "no rows");
    let mut p = Parameters::default();
    let layer = Linear::new(&mut p, "layer", 3, 1);
    let e = Engine::cpu_with_threads(1)?;
    let built = |options: TrainingOptions, name: &str| {
        let made = Trainer::new(&e, &p, &data()?, options, |cx, batch| {
            cx.graph.mean_all(layer.forward(cx, batch.get(name)?)?)
        });
        Ok::<_, Error>(made.err().map(|e| e.to_string()).unwrap_or_default())
    };
    let wrong = built(TrainingOptions::default(), "z")?;
    assert!(wrong.contains('z') && wrong.contains('x'), "{wrong}");
    let wrong = built(TrainingOptions { accumulate: 3, ..TrainingOptions::default() }, "x")?;
    assert!(wrong.contains("accumulate is 3; it must be a divisor of the batch"), "{wrong}");
    Ok(())
}

/// Micro-batches, clipping and f16 are the session's: the mean of halves is the whole.
#[test]
fn micro_batches_give_the_step_of_the_batch() -> Result<(), Error> {
    let data = Arrays::new().with("x", [8, 2], (0..16).map(|i| f64::from(i) / 8.0 - 1.0).collect())?.with(
        "y",
        [8, 1],
        (0..8).map(|i| f64::from(i % 3)).collect(),
    )?;
    let run = |accumulate| {
        let mut p = Parameters::default();
        let layer = Linear::new(&mut p, "layer", 2, 1);
        let options = TrainingOptions {
            batch: 8,
            accumulate,
            epochs: 4,
            clip: Some(0.05),
            dtype: DType::F64,
            ..TrainingOptions::default()
        };
        let mut t = Trainer::new(&Engine::cpu_with_threads(2)?, &p, &data, options, |cx, batch| {
            loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
        })?;
        whole(&mut t)?;
        t.state.read::<f64>("layer.weight")
    };
    let (whole, halves) = (run(1)?, run(2)?);
    assert!(whole.iter().zip(&halves).all(|(a, b)| (a - b).abs() < 1e-14), "{whole:?} {halves:?}");
    Ok(())
}

#[test]
fn embeddings_train_by_rows() -> Result<(), Error> {
    // Each id has a value of its own; ids that never occur keep theirs.
    let ids: Vec<i64> = (0..64).map(|i| i * 5 % 7).collect();
    let y: Vec<f32> = ids.iter().map(|&i| i as f32 - 3.0).collect();
    let data = Arrays::new().with("id", [64], ids)?.with("y", [64], y)?;
    let mut p = Parameters::default();
    let table = p.add("table", [9, 1], Init::Constant(0.25));
    let options = TrainingOptions { batch: 16, epochs: 150, lr: 0.05, ..TrainingOptions::default() };
    let mut t = Trainer::new(&Engine::cpu_with_threads(2)?, &p, &data, options, |cx, batch| {
        let rows = cx.graph.embedding(cx.parameter(table)?, batch.get("id")?)?;
        loss::mse(cx.graph, cx.graph.reshape(rows, [16])?, batch.get("y")?)
    })?;
    whole(&mut t)?;
    let learned = t.state.read::<f32>("table")?;
    for (i, value) in learned.iter().take(7).enumerate() {
        assert!((value - (i as f32 - 3.0)).abs() < 0.05, "{learned:?}");
    }
    assert_eq!(learned[7..], [0.25, 0.25]);
    Ok(())
}

/// Six steps at once, and three before and three after a file, leave the same bytes; a file of another trainer changes nothing.
#[test]
fn a_file_goes_on_where_it_was_written() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("trainer.safetensors");
    let options = |o: &mut TrainingOptions| {
        o.order = Order::Shuffle;
        o.average = Some(0.9);
        o.schedule = Schedule::Cosine;
    };
    let new = |kind| bowl(kind, true, options, None);
    let entries = ["w", "b"];
    let bytes = |t: &Trainer| entries.map(|name| t.state.read_host(name).map(|h| h.to_bytes()));
    let mut whole = new(OptimizerKind::Adam)?;
    (0..6).try_for_each(|_| whole.step())?;
    let mut first = new(OptimizerKind::Adam)?;
    (0..3).try_for_each(|_| first.step())?;
    first.save(&path)?;
    let mut second = new(OptimizerKind::Adam)?;
    second.load(&path)?;
    assert_eq!(second.position()?, 3);
    (0..3).try_for_each(|_| second.step())?;
    assert_eq!((second.position()?, bytes(&second)), (6, bytes(&whole)));
    // Without moments the file does not fit, and the trainer is as it was.
    let mut other = new(OptimizerKind::Sgd)?;
    other.step()?;
    let before = bytes(&other);
    let refused = other.load(&path).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("trainer.safetensors: tensor "), "{refused}");
    assert_eq!(bytes(&other), before);
    let cut = std::fs::read(&path)?;
    std::fs::write(&path, &cut[..cut.len() - 9])?;
    let refused = second.load(&path).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("is not a whole safetensors file"), "{refused}");
    assert_eq!(bytes(&second), bytes(&whole));
    Ok(())
}

/// A profile trains: what it leaves is what as many steps leave.
#[test]
fn a_profile_is_steps() -> Result<(), Error> {
    const RUNS: usize = 2;
    let mut profiled = bowl(OptimizerKind::AdamW, false, |_| {}, None)?;
    let mut stepped = bowl(OptimizerKind::AdamW, false, |_| {}, None)?;
    let profile = profiled.profile(RUNS)?;
    let steps = 2 * (RUNS + 1);
    for _ in 0..steps {
        stepped.step()?;
    }
    assert_eq!(profiled.position()?, steps);
    assert_eq!(profiled.records(1, steps)?, stepped.records(1, steps)?);
    let parameters = |trainer: &Trainer| trainer.state.read::<f64>("w");
    assert_eq!(parameters(&profiled)?, parameters(&stepped)?);
    let report = profiled.program().report();
    assert_eq!((profile.rows.len(), profile.cost()), (report.launches, profiled.program().cost()));
    assert!(profile.rows.iter().any(|row| row.op == "adam"), "{profile}");
    Ok(())
}
