//! Low-rank adapters of any model: what is trained, what a forward pass reads, and what is merged.

use landfall::{Engine, Error, HostTensor, Value};
use landfall_train::nn::{Context, Init, Linear, LowRank, Parameter, Parameters, loss};
use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};

type Done = Result<(), Error>;

/// Two layers: one that checkpoints hold as three, and a head.
struct Model {
    parameters: Parameters,
    stacked: Linear,
    head: Linear,
}

impl Model {
    fn new() -> Self {
        let mut parameters = Parameters::new();
        let parts = ["q", "k", "v"].map(|part| format!("first.attention.{part}"));
        let stacked = Linear::stacked_unbiased(&mut parameters, "first.attention.qkv", &parts, 4, 2);
        let head = Linear::new(&mut parameters, "head", 6, 3);
        Self { parameters, stacked, head }
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        self.head.forward(cx, cx.graph.relu(self.stacked.forward(cx, x)?)?)
    }

    fn trainer(&self, options: TrainingOptions) -> Result<Trainer, Error> {
        Trainer::new(&Engine::cpu_with_threads(1)?, &self.parameters, &data()?, options, |cx, batch| {
            loss::mse(cx.graph, self.forward(cx, batch.get("x")?)?, batch.get("y")?)
        })
    }

    fn predicted(&self, trainer: &Trainer, weights: Weights) -> Result<HostTensor, Error> {
        let data = data()?;
        trainer
            .predictor(&data, 8, weights, |cx, batch| self.forward(cx, batch.get("x")?))?
            .run(trainer, &data)
    }
}

fn data() -> Result<Arrays, Error> {
    let wave = |count: usize| (0..count).map(|i| (i as f32 * 0.9).sin()).collect::<Vec<f32>>();
    Arrays::new().with("x", [8, 4], wave(32))?.with("y", [8, 3], wave(24))
}

fn low_rank(targets: &[&str]) -> LowRank {
    LowRank { rank: 2, alpha: 3.0, targets: targets.iter().map(|&t| t.to_owned()).collect() }
}

fn apart(a: &HostTensor, b: &HostTensor) -> f64 {
    a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn a_model_with_adapters_is_one_with_merged_weights() -> Done {
    let options =
        TrainingOptions { batch: 8, epochs: 30, lr: 0.05, average: Some(0.9), ..TrainingOptions::default() };
    let plain = Model::new();
    let base = plain.trainer(options.clone())?;
    let mut model = Model::new();
    assert_eq!(model.parameters.adapt(&low_rank(&["attention.k", "v", "head"]))?, 3);
    let trained: Vec<&str> = model.parameters.trainable().iter().map(|p| p.parts[0].as_str()).collect();
    let of = |layer: &str, factor: &str| format!("base_model.model.{layer}.lora_{factor}.weight");
    let layers = ["first.attention.k", "first.attention.v", "head"];
    let expected: Vec<String> =
        layers.iter().flat_map(|layer| ["A", "B"].map(|factor| of(layer, factor))).collect();
    assert_eq!(trained, expected);
    let mut trainer = model.trainer(options)?;
    // At first nothing is changed: initial values are by name, so both models have the same.
    assert_eq!(model.predicted(&trainer, Weights::Last)?, plain.predicted(&base, Weights::Last)?);
    let epochs = trainer.fit()?;
    assert!(epochs[29].loss() < 0.7 * epochs[0].loss());
    for weights in [Weights::Last, Weights::Average] {
        let value =
            |p: &Parameter| trainer.parameter(&p.name, if p.frozen { Weights::Last } else { weights });
        let mut merged = plain.trainer(TrainingOptions::default())?;
        for p in model.parameters.base() {
            let own = model.parameters.merged(p, value)?;
            assert_eq!(
                apart(&own, &trainer.parameter(&p.name, Weights::Last)?) > 0.0,
                p.name.ends_with(".weight")
            );
            // The frozen values are those that it began with; of the stacked weight q is.
            assert_eq!(trainer.parameter(&p.name, Weights::Last)?, base.parameter(&p.name, Weights::Last)?);
            if p.parts.len() == 3 {
                assert_eq!(own.data[..8], base.parameter(&p.name, Weights::Last)?.data[..8]);
            }
            merged.state.write_host(&p.name, &own)?;
        }
        let difference =
            apart(&plain.predicted(&merged, Weights::Last)?, &model.predicted(&trainer, weights)?);
        assert!(difference < 1e-6, "{weights:?}: {difference}");
    }
    let [last, average] = [Weights::Last, Weights::Average].map(|w| model.predicted(&trainer, w));
    assert!(apart(&last?, &average?) > 1e-3);
    Ok(())
}

#[test]
fn what_cannot_be_adapted_is_told_and_changes_nothing() -> Done {
    let mut parameters = Model::new().parameters;
    parameters.add("cube.weight", [2, 2, 2], Init::Constant(0.0));
    let before = parameters.clone();
    for (how, text) in [
        (LowRank { rank: 0, ..low_rank(&["head"]) }, "rank"),
        (LowRank { alpha: f64::NAN, ..low_rank(&["head"]) }, "alpha"),
        (low_rank(&[]), "target"),
        (low_rank(&["head", "ead"]), "ead"),
        (low_rank(&["attention.qkv"]), "attention.qkv"),
        (low_rank(&["cube"]), "cube, whose weight is [2, 2, 2]"),
    ] {
        let why = parameters.adapt(&how).expect_err("refused").to_string();
        assert!(why.contains(text), "{text}: {why}");
        assert_eq!(parameters, before);
    }
    parameters.adapt(&low_rank(&["head"]))?;
    let why = parameters.adapt(&low_rank(&["head"])).expect_err("refused").to_string();
    assert!(why.contains("has no adapter yet"), "{why}");
    Ok(())
}
