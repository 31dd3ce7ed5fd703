//! Handwritten digits of 8x8 pixels by a network of two hidden layers.
//!
//! Run it with `cargo run --release -p digits`; it uses a GPU where there is one.

mod data;

use landfall::{DType, Engine, Error, Value};
use landfall_train::nn::{Context, Dropout, Linear, Parameters, loss};
use landfall_train::train::{OptimizerKind, Schedule, Trainer, TrainingOptions, Weights};
use std::ops::ControlFlow;

/// The share of held-out digits that the network classifies correctly.
fn accuracy(engine: &Engine) -> Result<f64, Error> {
    let (test, training) = data::digits()?.split(360);
    let mut parameters = Parameters::new();
    let layers = [
        Linear::new(&mut parameters, "first", 64, 128),
        Linear::new(&mut parameters, "second", 128, 64),
        Linear::new(&mut parameters, "last", 64, 10),
    ];
    let logits = |cx: &Context<'_>, pixels: Value| {
        let mut x = layers[0].forward(cx, pixels)?;
        for layer in &layers[1..] {
            x = layer.forward(cx, Dropout { rate: 0.2 }.forward(cx, cx.graph.relu(x)?)?)?;
        }
        Ok::<_, Error>(x)
    };
    let options = TrainingOptions {
        optimizer: OptimizerKind::AdamW,
        schedule: Schedule::Cosine,
        epochs: 20,
        lr: 0.003,
        ..TrainingOptions::default()
    };
    let mut trainer = Trainer::new(engine, &parameters, &training, options, |cx, batch| {
        loss::cross_entropy(cx.graph, logits(cx, batch.get("pixels")?)?, batch.get("label")?)
    })?;
    trainer.run(|_, epoch| {
        println!("epoch {:2}: loss {:.4}", epoch.number, epoch.loss());
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    let mut right = trainer.predictor(&test, 120, Weights::Last, |cx, batch| {
        let chosen = cx.graph.argmax(logits(cx, batch.get("pixels")?)?, -1)?;
        cx.graph.cast(cx.graph.equal(chosen, batch.get("label")?)?, DType::F32)
    })?;
    let right = right.run(&trainer, &test)?.data;
    Ok(right.iter().sum::<f64>() / right.len() as f64)
}

fn main() -> Result<(), Error> {
    let engine = Engine::cuda(0).or_else(|_| Engine::cpu())?;
    println!("{:.1} % of 360 held-out digits are right", 100.0 * accuracy(&engine)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_reads_digits() -> Result<(), landfall::Error> {
        let accuracy = super::accuracy(&landfall::Engine::cpu_with_threads(2)?)?;
        assert!(accuracy >= 0.95, "{accuracy}");
        Ok(())
    }
}
