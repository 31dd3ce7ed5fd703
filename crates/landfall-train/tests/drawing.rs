//! Losses and predictors that draw, several values of a predictor, values that a step keeps, buffers that it assigns, predictors of
//! several threads, and blocks that are computed again.

use landfall::{All, DType, Engine, Error, HostTensor, Spec, State, Value};
use landfall_train::nn::{Context, Dropout, Init, Linear, Norm, NormKind, Parameters, loss};
use landfall_train::train::{Arrays, Batch, Order, Predicting, Predictor, Trainer, TrainingOptions, Weights};
use std::sync::Arc;

const ROWS: usize = 12;

fn data() -> Result<Arrays, Error> {
    let x = (0..ROWS * 3).map(|i| (i * 7 % 11) as f32 / 11.0).collect();
    Arrays::new().with("x", [ROWS, 3], x)?.with("y", [ROWS, 1], (0..ROWS).map(|i| i as f32 / 8.0).collect())
}

struct Net {
    parameters: Parameters,
    first: Linear,
    norm: Norm,
    last: Linear,
}

impl Net {
    fn new() -> Self {
        let mut parameters = Parameters::new();
        let first = Linear::new(&mut parameters, "first", 3, 16);
        let norm = Norm::new(&mut parameters, "norm", NormKind::Batch, 16);
        let last = Linear::new(&mut parameters, "last", 16, 1);
        Self { parameters, first, norm, last }
    }

    /// The hidden values and the result.
    fn forward(&self, cx: &Context<'_>, batch: &Batch) -> Result<(Value, Value), Error> {
        let hidden = self.norm.forward(cx, cx.graph.tanh(self.first.forward(cx, batch.get("x")?)?)?)?;
        let hidden = Dropout { rate: 0.5 }.forward(cx, hidden)?;
        Ok((hidden, self.last.forward(cx, hidden)?))
    }

    fn trainer(&self, options: TrainingOptions) -> Result<Trainer, Error> {
        Trainer::new(&Engine::cpu()?, &self.parameters, &data()?, options, |cx, batch| {
            loss::mse(cx.graph, self.forward(cx, batch)?.1, batch.get("y")?)
        })
    }
}

fn options() -> TrainingOptions {
    TrainingOptions { batch: 4, epochs: 4, lr: 0.01, order: Order::Sequential, ..TrainingOptions::default() }
}

#[test]
fn predictors_draw_anew_at_each_run_and_the_same_from_a_seed_on() -> Result<(), Error> {
    let net = Net::new();
    let mut trainer = net.trainer(options())?;
    trainer.advance(5)?;
    let predictor =
        |how| trainer.predictor_with(&data()?, how, |cx, batch| Ok(vec![("y", net.forward(cx, batch)?.1)]));
    let how = Predicting { batch: 5, seed: Some(9), dropout: true, weights: Weights::Last };
    let runs_of = |how| {
        let mut predictor = predictor(how)?;
        let runs = (0..3).map(|_| predictor.run(&trainer, &data()?)).collect::<Result<Vec<_>, Error>>()?;
        predictor.seed(9)?;
        Ok::<_, Error>((runs, predictor.run(&trainer, &data()?)?))
    };
    let (runs, again) = runs_of(how)?;
    assert!(runs[0] != runs[1] && runs[1] != runs[2] && runs[0] != runs[2]);
    assert_eq!(again, runs[0]);
    assert_eq!(runs_of(how)?.0, runs, "another predictor with the same seed");
    assert_ne!(runs_of(Predicting { seed: Some(10), ..how })?.0[0], runs[0], "another seed");
    // Without dropout the seed changes nothing, and the mean of many runs with it comes near.
    let (plain, _) = runs_of(Predicting { dropout: false, ..how })?;
    assert_eq!(plain[0], plain[1]);
    let mut predictor = predictor(how)?;
    let many: Vec<HostTensor> =
        (0..400).map(|_| predictor.run(&trainer, &data()?)).collect::<Result<_, _>>()?;
    for (i, plain) in plain[0].data.iter().enumerate() {
        let mean = many.iter().map(|run| run.data[i]).sum::<f64>() / 400.0;
        let square = many.iter().map(|run| (run.data[i] - mean).powi(2)).sum::<f64>() / 400.0;
        assert!((mean - plain).abs() < 5.0 * (square / 400.0).sqrt() + 1e-6, "{mean} {plain} {square}");
    }
    Ok(())
}

#[test]
fn a_predictor_without_a_seed_draws_nothing() -> Result<(), Error> {
    let net = Net::new();
    let trainer = net.trainer(options())?;
    let given = data()?;
    let draw = |cx: &Context<'_>| Ok(vec![("noise", cx.normal(Spec::new(DType::F32, [1, 2]))?)]);
    let refused = trainer
        .predictor_with(&given, Predicting::default(), |cx, _| draw(cx))
        .expect_err("it is refused")
        .to_string();
    assert!(
        refused.starts_with("normal(): needs a cursor to draw from, which a training step has"),
        "{refused}"
    );
    let how = Predicting { dropout: true, ..Predicting::default() };
    let refused =
        trainer.predictor_with(&given, how, |cx, _| draw(cx)).expect_err("it is refused").to_string();
    assert!(refused.contains("needs a seed"), "{refused}");
    let mut drawing =
        trainer.predictor_with(&given, Predicting { seed: Some(0), ..how }, |cx, _| draw(cx))?;
    let noise = drawing.run(&trainer, &given)?;
    assert_eq!(noise.spec.to_string(), "f32[12, 2]");
    assert!((1..ROWS).all(|row| noise.data[2 * row] != noise.data[0]), "each batch draws other numbers");
    let mut plain = trainer.predictor(&given, 3, Weights::Last, |_, batch| batch.get("x"))?;
    assert!(matches!(plain.seed(1), Err(Error::NoBinding { .. })));
    Ok(())
}

#[test]
fn a_predictor_gives_several_values_by_name() -> Result<(), Error> {
    let net = Net::new();
    let trainer = net.trainer(options())?;
    let (given, how) = (data()?, Predicting { batch: 5, ..Predicting::default() });
    let mut both = trainer.predictor_with(&given, how, |cx, batch| {
        let (hidden, y) = net.forward(cx, batch)?;
        Ok(vec![("y", y), ("hidden", hidden)])
    })?;
    let mut one = trainer.predictor(&given, 12, Weights::Last, |cx, batch| Ok(net.forward(cx, batch)?.0))?;
    let all = both.run_all(&trainer, &given)?;
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["y", "hidden"]);
    assert_eq!(both.run(&trainer, &given)?, all[0].1);
    assert_eq!(one.run(&trainer, &given)?, all[1].1);
    for (twice, text) in [(vec!["y", "y"], "y"), (vec![], "needs a value")] {
        let of = |cx: &Context<'_>, batch: &Batch| {
            twice.iter().map(|name| Ok((*name, net.forward(cx, batch)?.1))).collect::<Result<Vec<_>, Error>>()
        };
        let refused = trainer.predictor_with(&given, how, of).expect_err("it is refused").to_string();
        assert!(refused.contains(text), "{refused}");
    }
    Ok(())
}

#[test]
fn a_loss_draws_anew_at_each_step_and_again_after_a_resumption() -> Result<(), Error> {
    let build = || {
        let mut p = Parameters::new();
        let w = p.add("w", [1], Init::Constant(0.0));
        let options = TrainingOptions { batch: 4, max_steps: Some(6), accumulate: 1, ..options() };
        Trainer::new(&Engine::cpu()?, &p, &data()?, options, |cx, _| {
            let noise = cx.normal(Spec::new(DType::F32, [4]))?;
            let other = cx.uniform(Spec::new(DType::F32, [4]), 2.0, 3.0)?;
            cx.keep("noise", noise);
            cx.keep("other", other);
            cx.graph.mean(cx.graph.square(cx.graph.sub(noise, cx.parameter(w)?)?)?, All)
        })
    };
    let mut trainer = build()?;
    let mut drawn = Vec::new();
    let path = std::env::temp_dir().join(format!("landfall-drawing-{}.safetensors", std::process::id()));
    for step in 0..6 {
        trainer.step()?;
        drawn.push(trainer.kept("noise")?.data);
        assert!(trainer.kept("other")?.data.iter().all(|u| (2.0..=3.0).contains(u)));
        if step == 2 {
            trainer.save(&path).expect("a file");
        }
    }
    assert!((0..6).all(|a| (0..a).all(|b| drawn[a] != drawn[b])), "{drawn:?}");
    let mut resumed = build()?;
    resumed.load(&path).expect("the file");
    std::fs::remove_file(&path).ok();
    resumed.step()?;
    assert_eq!(resumed.kept("noise")?.data, drawn[3]);
    Ok(())
}

#[test]
fn a_step_keeps_values_of_its_batch_and_of_the_last_micro_batch() -> Result<(), Error> {
    // With its micro-batches one by one, and both at once.
    for (accumulate, unroll) in [(1, 1), (2, 1), (2, 2)] {
        let mut p = Parameters::new();
        let w = p.add("w", [1], Init::Constant(1.0));
        let options = TrainingOptions { accumulate, ..options() };
        let engine = Engine::cpu()?.with_unroll(unroll);
        let mut trainer = Trainer::new(&engine, &p, &data()?, options, |cx, batch| {
            let y = batch.get("y")?;
            cx.keep("twice y", cx.graph.affine(y, 2.0, 0.0)?);
            cx.graph.mean(cx.graph.square(cx.graph.mul(y, cx.parameter(w)?)?)?, All)
        })?;
        assert!(matches!(trainer.kept("twice y"), Err(Error::NotRun { .. })));
        for step in 0..3 {
            trainer.step()?;
            let size = 4 / accumulate;
            let first = 4 * step + (accumulate - 1) * size;
            let want: Vec<f64> = (first..first + size).map(|i| i as f64 / 4.0).collect();
            assert_eq!(trainer.kept("twice y")?.data, want, "{accumulate} {step}");
        }
        let unknown = trainer.kept("y").expect_err("it is refused").to_string();
        assert_eq!(unknown, "program has no kept value y; it has twice y");
    }
    Ok(())
}

/// A queue of the last eight targets, of which a file of the trainer keeps the contents.
#[test]
fn a_loss_assigns_buffers_that_a_file_keeps() -> Result<(), Error> {
    let build = |accumulate| {
        let mut p = Parameters::new();
        let w = p.add("w", [1], Init::Constant(1.0));
        p.add_buffer("queue", [8, 1], -1.0);
        Trainer::new(
            &Engine::cpu()?,
            &p,
            &data()?,
            TrainingOptions { accumulate, ..options() },
            |cx, batch| {
                let (g, queue, y) = (cx.graph, cx.buffer("queue")?, batch.get("y")?);
                cx.assign("queue", g.concat(&[g.slice(queue, 0, 4, 4)?, y], 0)?);
                let distance = g.sub(g.mul(y, cx.parameter(w)?)?, g.mean(queue, All)?)?;
                g.mean(g.square(distance)?, All)
            },
        )
    };
    let queue = |trainer: &Trainer| trainer.state.read::<f32>("queue");
    let mut trainer = build(1)?;
    assert_eq!(queue(&trainer)?, [-1.0; 8]);
    let mut losses = Vec::new();
    trainer.step()?;
    let newest: Vec<f32> = (0..4).map(|i| i as f32 / 8.0).collect();
    assert_eq!(queue(&trainer)?, [vec![-1.0; 4], newest].concat());
    let path = std::env::temp_dir().join(format!("landfall-queue-{}.safetensors", std::process::id()));
    trainer.save(&path).expect("a file");
    losses.extend(trainer.advance(3)?);
    let kept = queue(&trainer)?;
    let mut resumed = build(1)?;
    resumed.load(&path).expect("the file");
    std::fs::remove_file(&path).ok();
    assert_eq!(resumed.advance(3)?, losses);
    assert_eq!(queue(&resumed)?, kept);
    let refused = build(2).expect_err("it is refused").to_string();
    assert!(
        refused.contains("accumulate · ranks is 2; it must be 1 where a loss assigns a buffer"),
        "{refused}"
    );
    Ok(())
}

/// A step that is not finite leaves buffers as they are.
#[test]
fn a_step_that_is_not_finite_assigns_nothing() -> Result<(), Error> {
    let mut p = Parameters::new();
    let w = p.add("w", [1], Init::Constant(-1.0));
    p.add_buffer("count", [], 0.0);
    let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data()?, options(), |cx, _| {
        cx.assign("count", cx.graph.affine(cx.buffer("count")?, 1.0, 1.0)?);
        cx.graph.mean(cx.graph.ln(cx.parameter(w)?)?, All)
    })?;
    trainer.step()?;
    assert_eq!(trainer.state.read::<f32>("count")?, [0.0]);
    trainer.state.write("w", &[1.0f32])?;
    trainer.step()?;
    assert_eq!(trainer.state.read::<f32>("count")?, [1.0]);
    Ok(())
}

/// What 20 runs give.
fn runs(predictor: &mut Predictor, weights: &impl AsRef<State>) -> Result<Vec<HostTensor>, Error> {
    (0..20).map(|_| predictor.run(weights, &data()?)).collect()
}

#[test]
fn predictors_of_several_threads_share_weights() -> Result<(), Error> {
    let net = Net::new();
    let mut trainer = net.trainer(options())?;
    trainer.advance(4)?;
    let predictor = |seed| {
        let how = Predicting { batch: 5, seed: Some(seed), dropout: true, ..Predicting::default() };
        trainer.predictor_with(&data()?, how, |cx, batch| Ok(vec![("y", net.forward(cx, batch)?.1)]))
    };
    let predictors = || (0..3).map(predictor).collect::<Result<Vec<_>, Error>>();
    let expected: Vec<_> =
        predictors()?.iter_mut().map(|predictor| runs(predictor, &trainer)).collect::<Result<_, Error>>()?;
    // Threads borrow a trainer that lives on.
    let borrowed = std::thread::scope(|scope| {
        let spawn = |mut predictor: Predictor| {
            let trainer = &trainer;
            scope.spawn(move || runs(&mut predictor, trainer))
        };
        let threads: Vec<_> = predictors()?.into_iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, Error>>()
    })?;
    assert_eq!(borrowed, expected);
    // And they share the state of one that has done its work.
    let predictors = predictors()?;
    let weights = Arc::new(trainer.state);
    let spawn = |mut predictor: Predictor| {
        let weights = Arc::clone(&weights);
        std::thread::spawn(move || runs(&mut predictor, &weights))
    };
    let threads: Vec<_> = predictors.into_iter().map(spawn).collect();
    for (thread, expected) in threads.into_iter().zip(expected) {
        assert_eq!(thread.join().expect("no panic")?, expected);
    }
    Ok(())
}

/// Blocks of a deep model with dropout: the same bytes of all weights after some steps, also of micro-batches and in bf16.
#[test]
fn training_with_blocks_computed_again_gives_the_same_bytes() -> Result<(), Error> {
    let train = |accumulate, dtype, again: bool| {
        let mut p = Parameters::new();
        let first = Linear::new(&mut p, "first", 3, 24);
        let layers: Vec<Linear> = (0..8).map(|i| Linear::new(&mut p, &format!("l{i}"), 24, 24)).collect();
        let last = Linear::new(&mut p, "last", 24, 1);
        let options = TrainingOptions { accumulate, dtype, ..options() };
        let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data()?, options, |cx, batch| {
            let g = cx.graph;
            let mut x = first.forward(cx, batch.get("x")?)?;
            for layer in &layers {
                let block = || {
                    let hidden = g.gelu(layer.forward(cx, x)?)?;
                    g.add(x, g.tanh(Dropout { rate: 0.2 }.forward(cx, hidden)?)?)
                };
                x = if again { g.checkpoint(block)? } else { block()? };
            }
            loss::mse(g, last.forward(cx, x)?, batch.get("y")?)
        })?;
        trainer.advance(6)?;
        let weights = p.list().iter().map(|p| trainer.parameter(&p.name, Weights::Last));
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>((weights, trainer.program().report()))
    };
    for (accumulate, dtype) in [(1, DType::F32), (2, DType::F32), (1, DType::BF16)] {
        let (kept, plain) = train(accumulate, dtype, false)?;
        let (again, report) = train(accumulate, dtype, true)?;
        assert_eq!(kept, again, "{accumulate} {dtype}");
        assert!(report.recomputed >= plain.recomputed + 16, "{} {}", plain.recomputed, report.recomputed);
    }
    Ok(())
}
