//! A classifier on arrays of one's own: which of two interleaved arcs does a point lie on?
//!
//! Run it with `cargo run --release -p your-own-model`; it uses a GPU where there is one.

use landfall::{Engine, Error, Value};
use landfall_train::nn::{Context, Linear, Parameters, loss};
use landfall_train::train::{Arrays, OptimizerKind, Schedule, Trainer, TrainingOptions, Weights};
use std::ops::ControlFlow;

/// `n` points on two arcs, with the arc of each.
fn arcs(n: usize) -> Result<Arrays, Error> {
    let point = |i: usize| {
        let angle = std::f32::consts::PI * (i * 7 % n) as f32 / n as f32;
        if i.is_multiple_of(2) { [angle.cos(), angle.sin()] } else { [1.0 - angle.cos(), 0.5 - angle.sin()] }
    };
    Arrays::new().with("point", [n, 2], (0..n).flat_map(point).collect::<Vec<f32>>())?.with(
        "arc",
        [n],
        (0..n).map(|i| (i % 2) as i64).collect::<Vec<i64>>(),
    )
}

/// The share of held-out points that a small network classifies correctly.
fn accuracy(engine: &Engine) -> Result<f64, Error> {
    let (test, training) = arcs(2_000)?.split(500);
    let mut parameters = Parameters::default();
    let hidden = Linear::new(&mut parameters, "hidden", 2, 64);
    let last = Linear::new(&mut parameters, "last", 64, 2);
    let logits = |cx: &Context<'_>, point: Value| {
        let hidden = cx.graph.var(hidden.forward(cx, point)?).silu()?;
        last.forward(cx, hidden.value())
    };
    let options = TrainingOptions {
        optimizer: OptimizerKind::AdamW,
        schedule: Schedule::Cosine,
        batch: 50,
        epochs: 40,
        lr: 0.01,
        average: Some(0.99),
        ..TrainingOptions::default()
    };
    let mut trainer = Trainer::new(engine, &parameters, &training, options, |cx, batch| {
        loss::cross_entropy(cx.graph, logits(cx, batch.get("point")?)?, batch.get("arc")?)
    })?;
    trainer.run(|_, epoch| {
        println!("epoch {:2}: loss {:.4}", epoch.number, epoch.loss());
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    let mut right = trainer.predictor(&test, 100, Weights::Average, |cx, batch| {
        let chosen = cx.graph.argmax(logits(cx, batch.get("point")?)?, -1)?;
        cx.graph.cast(cx.graph.equal(chosen, batch.get("arc")?)?, landfall::DType::F32)
    })?;
    let right = right.run(&trainer, &test)?.data;
    Ok(right.iter().sum::<f64>() / right.len() as f64)
}

fn main() -> Result<(), Error> {
    let engine = Engine::cuda(0).or_else(|_| Engine::cpu())?;
    println!("{:.1} % of 500 held-out points are right", 100.0 * accuracy(&engine)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_learns() -> Result<(), landfall::Error> {
        let accuracy = super::accuracy(&landfall::Engine::cpu_with_threads(2)?)?;
        assert!(accuracy >= 0.99, "{accuracy}");
        Ok(())
    }
}
