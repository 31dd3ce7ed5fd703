//! A model and a loss of your own, the library's trainer: `cargo run --release -p landfall-train --example own_model`.
use landfall::{Engine, Error, Graph, Value};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use landfall_train::{checkpoint, data, models::Model, nn};

/// `y = (x − last)·Wᵀ + last`: a linear map of what a window does before its last value.
pub(crate) struct Drift(pub(crate) nn::Parameters, pub(crate) nn::ParameterId);

impl Model for Drift {
    fn parameters(&self) -> &nn::Parameters {
        &self.0
    }
    fn parameters_mut(&mut self) -> &mut nn::Parameters {
        &mut self.0
    }
    fn forward(&self, cx: &nn::Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, last) = (cx.graph, cx.graph.slice(x, 2, 47, 1)?);
        g.add(g.matmul(g.sub(x, last)?, g.transpose(cx.parameter(self.1)?)?)?, last)
    }
}

/// The mean of `ln(1 + d²)`: large errors weigh little more than middling ones.
pub(crate) fn cauchy(g: &Graph, prediction: Value, target: Value) -> Result<Value, Error> {
    let d = g.sub(prediction, target)?;
    g.mean(g.ln(g.affine(g.mul(d, d)?, 1.0, 1.0)?)?, [0, 1, 2])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (rows, split) = (data::synthetic::demo(2000, 3, 1)?, data::Split::ratio(0.7, 0.1, 0.2)?);
    let (data, _) = Dataset::forecast(rows, split, 48, 12)?;
    let mut p = nn::Parameters::new();
    let weight = p.add("drift.weight", [12, 48], nn::Init::Constant(0.0));
    let (model, options) = (Box::new(Drift(p, weight)), TrainingOptions::default());
    let mut session = Session::with_loss(&Engine::cpu()?, model, &data, 48, 12, options, &cauchy)?;
    (0..400).try_for_each(|_| session.step())?;
    checkpoint::write_weights(&std::env::temp_dir().join("drift.safetensors"), &session)?;
    println!("test MSE and MAE: {:?}", session.evaluate(data::Segment::Test)?.errors());
    Ok(())
}
