//! What a trainer is given: weights that are written beside an average, groups of vectors, numbers outside of their range, steps
//! that are not finite.

use landfall::{DType, Engine, Error, HostTensor};
use landfall_train::nn::{Group, Init, ParameterId, Parameters};
use landfall_train::train::{
    Arrays, Betas, Lion, Optimizer, OptimizerKind, Order, Sgd, Trainer, TrainingOptions, Weights,
};
use std::ops::ControlFlow;

/// `Σ½·w²` of a matrix and a vector.
struct Bowl {
    parameters: Parameters,
    ids: [ParameterId; 2],
}

impl Bowl {
    fn new() -> Self {
        let mut parameters = Parameters::new();
        let w = parameters.add("w", [1, 3], Init::Constant(1.5));
        let b = parameters.add("b", [3], Init::Constant(-0.75));
        Self { parameters, ids: [w, b] }
    }

    fn trainer(&self, options: TrainingOptions, own: Option<&dyn Optimizer>) -> Result<Trainer, Error> {
        self.of(options, own, vec![0.0; 4])
    }

    /// With a number of each sample that is added to the loss.
    fn of(
        &self,
        options: TrainingOptions,
        own: Option<&dyn Optimizer>,
        added: Vec<f64>,
    ) -> Result<Trainer, Error> {
        let data = Arrays::new().with("x", [4], added)?;
        let optimizer = options.optimizer.of(&options);
        let own = own.unwrap_or(optimizer.as_ref());
        Trainer::with_optimizer(
            &Engine::cpu_with_threads(1)?,
            &self.parameters,
            &data,
            options,
            own,
            |cx, batch| {
                let g = cx.graph;
                let mut loss = g.cast(g.sum(batch.get("x")?, 0)?, cx.dtype(cx.parameter(self.ids[0])?))?;
                for id in self.ids {
                    let part = g.sum(g.square(cx.parameter(id)?)?, landfall::All)?;
                    loss = g.add(loss, g.affine(part, 0.5, 0.0)?)?;
                }
                Ok(loss)
            },
        )
    }
}

fn options() -> TrainingOptions {
    TrainingOptions {
        batch: 2,
        epochs: 5,
        lr: 0.1,
        dtype: DType::F64,
        order: Order::Sequential,
        optimizer: OptimizerKind::Sgd,
        betas: Betas { first: 0.0, second: 0.9 },
        ..TrainingOptions::default()
    }
}

fn refusal<T>(result: Result<T, Error>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

/// An average begins as the weights, those that are drawn and those that are written, at the start and later.
#[test]
fn an_average_begins_as_the_weights_that_are_written() -> Result<(), Error> {
    let bowl = Bowl::new();
    for before in [0, 3] {
        let mut trainer = bowl.trainer(TrainingOptions { average: Some(0.75), ..options() }, None)?;
        for name in ["w", "b"] {
            assert_eq!(trainer.parameter(name, Weights::Average)?, trainer.parameter(name, Weights::Last)?);
        }
        (0..before).try_for_each(|_| trainer.step())?;
        let kept = trainer.parameter("b", Weights::Average)?;
        trainer.state.write_host("w", &HostTensor::new(DType::F64, [1, 3], vec![4.0, 5.0, 6.0])?)?;
        assert_eq!(trainer.parameter("w", Weights::Average)?.data, [4.0, 5.0, 6.0]);
        assert_eq!(trainer.parameter("b", Weights::Average)?, kept);
        trainer.state.write("b", &[1.0f64, 2.0, 3.0])?;
        assert_eq!(trainer.parameter("b", Weights::Average)?.data, [1.0, 2.0, 3.0]);
        trainer.step()?;
        for (name, begun) in [("w", [4.0, 5.0, 6.0]), ("b", [1.0, 2.0, 3.0])] {
            let want = begun.map(|x| 0.75 * x + 0.25 * (0.9 * x));
            for (got, want) in trainer.parameter(name, Weights::Average)?.data.iter().zip(want) {
                assert!((got - want).abs() < 1e-12, "{name} after {before} steps: {got}, it must be {want}");
            }
        }
    }
    Ok(())
}

/// A file restores the average that it holds.
#[test]
fn a_saved_average_is_restored() -> Result<(), Box<dyn std::error::Error>> {
    let (bowl, dir) = (Bowl::new(), tempfile::tempdir()?);
    let new = || bowl.trainer(TrainingOptions { average: Some(0.9), ..options() }, None);
    let (mut first, mut second) = (new()?, new()?);
    (0..4).try_for_each(|_| first.step())?;
    first.save(&dir.path().join("state.safetensors"))?;
    second.load(&dir.path().join("state.safetensors"))?;
    let average = first.parameter("w", Weights::Average)?;
    assert_eq!(second.parameter("w", Weights::Average)?, average);
    assert_ne!(average, first.parameter("w", Weights::Last)?);
    Ok(())
}

/// A weight decay that a group names is that of all its parameters.
#[test]
fn a_group_of_a_vector_decays() -> Result<(), Error> {
    for decay in [None, Some(0.0), Some(0.5)] {
        for kind in [OptimizerKind::Sgd, OptimizerKind::AdamW, OptimizerKind::Adam, OptimizerKind::Lion] {
            let mut bowl = Bowl::new();
            assert_eq!(bowl.parameters.group("b", Group { lr: 0.5, weight_decay: decay }), 1);
            let given = TrainingOptions { optimizer: kind, weight_decay: 0.2, ..options() };
            let mut trainer = bowl.trainer(given, None)?;
            trainer.step()?;
            let decay = decay.unwrap_or(0.0);
            // The gradient of a weight is the weight; b is -0.75 and its rate 0.05.
            let slope = if kind == OptimizerKind::Sgd {
                0.75 + decay * 0.75
            } else if kind == OptimizerKind::Adam {
                // The first step is the sign of the gradient.
                1.0
            } else {
                1.0 + decay * 0.75
            };
            let want = -0.75 + 0.05 * slope;
            let got = trainer.state.read::<f64>("b")?;
            assert!((got[0] - want).abs() < 1e-6, "{kind:?}, {decay}: {got:?}, it must be {want}");
        }
    }
    Ok(())
}

#[test]
fn numbers_outside_of_their_range_are_refused_by_name() -> Result<(), Error> {
    let bowl = Bowl::new();
    type Change = fn(&mut TrainingOptions);
    let rows: [(&str, Change); 22] = [
        ("epochs is 0", |o| o.epochs = 0),
        ("max_steps is 0", |o| o.max_steps = Some(0)),
        ("lr is -1", |o| o.lr = -1.0),
        ("lr is NaN", |o| o.lr = f64::NAN),
        ("lr is inf", |o| o.lr = f64::INFINITY),
        ("betas.first is 1", |o| o.betas.first = 1.0),
        ("betas.first is -0.1", |o| o.betas.first = -0.1),
        ("betas.second is NaN", |o| o.betas.second = f64::NAN),
        ("betas.second is 1.5", |o| o.betas.second = 1.5),
        ("weight_decay is -0.1", |o| o.weight_decay = -0.1),
        ("weight_decay is inf", |o| o.weight_decay = f64::INFINITY),
        ("average is 2", |o| o.average = Some(2.0)),
        ("average is 1", |o| o.average = Some(1.0)),
        ("average is -0.5", |o| o.average = Some(-0.5)),
        ("average is NaN", |o| o.average = Some(f64::NAN)),
        ("clip is 0", |o| o.clip = Some(0.0)),
        ("clip is -1", |o| o.clip = Some(-1.0)),
        ("clip is inf", |o| o.clip = Some(f64::INFINITY)),
        ("dtype is i32", |o| o.dtype = DType::I32),
        ("delta is 0", |o| o.loss = landfall_train::train::Loss::Huber(0.0)),
        ("level is 1", |o| o.loss = landfall_train::train::Loss::Quantile(vec![0.5, 1.0])),
        ("level is 0.1", |o| o.loss = landfall_train::train::Loss::Quantile(vec![0.5, 0.1])),
    ];
    for kind in [OptimizerKind::Adam, OptimizerKind::AdamW, OptimizerKind::Sgd, OptimizerKind::Lion] {
        for (text, change) in rows {
            let mut given = TrainingOptions { optimizer: kind, ..options() };
            change(&mut given);
            let told = refusal(bowl.trainer(given, None));
            assert!(told.contains(text), "{kind:?}: {told:?} must say {text}");
        }
    }
    // A rate of 0 trains nothing, and is one.
    bowl.trainer(TrainingOptions { lr: 0.0, ..options() }, None)?;
    for (text, group) in [
        ("lr of a group is -1", Group { lr: -1.0, weight_decay: None }),
        ("lr of a group is NaN", Group { lr: f64::NAN, weight_decay: None }),
        ("weight_decay of a group is -2", Group { lr: 1.0, weight_decay: Some(-2.0) }),
    ] {
        let mut bowl = Bowl::new();
        bowl.parameters.group("b", group);
        let told = refusal(bowl.trainer(options(), None));
        assert!(told.contains(text), "{told:?} must say {text}");
    }
    let own: [(&str, &dyn Optimizer); 4] = [
        ("momentum is 2", &Sgd { momentum: 2.0, nesterov: false }),
        ("momentum is NaN", &Sgd { momentum: f64::NAN, nesterov: false }),
        ("momentum is 0", &Sgd { momentum: 0.0, nesterov: true }),
        ("betas.second is 1", &Lion { betas: Betas { first: 0.9, second: 1.0 } }),
    ];
    for (text, optimizer) in own {
        let told = refusal(bowl.trainer(options(), Some(optimizer)));
        assert!(told.contains(text), "{told:?} must say {text}");
    }
    let mut trainer = bowl.trainer(options(), None)?;
    let told = refusal(trainer.schedule(|step| if step == 3 { f64::NAN } else { 0.1 }));
    assert!(told.contains("learning rate of a step is NaN"), "{told}");
    Ok(())
}

#[test]
fn only_steps_that_ran_have_records() -> Result<(), Error> {
    let bowl = Bowl::new();
    let mut trainer = bowl.trainer(TrainingOptions { epochs: 2000, ..options() }, None)?;
    assert_eq!(trainer.records(0, 5)?, []);
    assert_eq!(trainer.advance(3)?.len(), 3);
    let steps = |t: &mut Trainer, from, to| {
        Ok::<_, Error>(t.records(from, to)?.iter().map(|r| r.step).collect::<Vec<_>>())
    };
    assert_eq!(steps(&mut trainer, 0, 9)?, [1, 2, 3]);
    assert!(trainer.records(1, 3)?.iter().all(|r| r.lr == 0.1 && r.loss > 0.0));
    assert_eq!(trainer.advance(1100)?.len(), 1100);
    // Those of the first steps were overwritten.
    assert_eq!(steps(&mut trainer, 1, 82)?, [80, 81, 82]);
    Ok(())
}

/// A step that is not finite ends the loops that would wait for it.
#[test]
fn a_step_that_is_not_finite_is_an_error() -> Result<(), Error> {
    let bowl = Bowl::new();
    for dtype in [DType::F64, DType::F16] {
        let given = TrainingOptions { dtype, epochs: 3, ..options() };
        // The third sample, and so the second step of each epoch.
        let mut trainer = bowl.of(given, None, vec![0.0, 0.0, f64::NAN, 0.0])?;
        let told = refusal(trainer.advance(6));
        assert!(told.contains("NaN"), "{dtype}: {told}");
        assert_eq!(trainer.position()?, 1);
        assert_eq!(trainer.records(1, 6)?.len(), 1);
        let told = refusal(trainer.run(|_, _| Ok::<_, Error>(ControlFlow::Continue(()))));
        assert!(told.contains("NaN"), "{dtype}: {told}");
    }
    Ok(())
}
