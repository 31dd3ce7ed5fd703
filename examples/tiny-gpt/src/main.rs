//! A causal language model on the bytes of this project's README, which then writes on.
//!
//! Run it with `cargo run --release -p tiny-gpt`; it uses a GPU where there is one. With a file's name as argument it also writes the
//! initial weights, the batches and the losses there, for `bench/peers/tiny_gpt.py`, the same model in PyTorch.

mod model;
mod write_on;

use landfall::{DType, Engine, HostTensor};
use landfall_train::checkpoint::File;
use landfall_train::nn::{Parameters, loss};
use landfall_train::train::{Arrays, OptimizerKind, Order, Trainer, TrainingOptions};
use std::{error::Error, ops::ControlFlow, path::Path};
use write_on::write_on;

const TEXT: &[u8] = include_bytes!("../../../README.md");
const LENGTH: usize = 64;
const STEPS: usize = 300;
const BATCH: usize = 16;

/// Trains, and gives the record of the run, the loss of each step, and what the model writes behind the text's first bytes.
fn train(engine: &Engine) -> Result<(File, Vec<f64>, String), Box<dyn Error>> {
    let rows = STEPS * BATCH;
    let starts = (0..rows).map(|row| row * 7919 % (TEXT.len() - LENGTH));
    let bytes: Vec<i64> = starts.flat_map(|at| &TEXT[at..=at + LENGTH]).map(|&b| b.into()).collect();
    let data = Arrays::new().with("bytes", [rows, LENGTH + 1], bytes.clone())?;
    let mut parameters = Parameters::new();
    let model = model::TinyGpt::new(&mut parameters, 64, 2);
    let (optimizer, order) = (OptimizerKind::AdamW, Order::Sequential);
    let options =
        TrainingOptions { optimizer, order, batch: BATCH, epochs: 1, lr: 0.003, ..Default::default() };
    let mut trainer = Trainer::new(engine, &parameters, &data, options, |cx, batch| {
        let (g, bytes) = (cx.graph, batch.get("bytes")?);
        let logits = model.logits(cx, g.slice(bytes, 1, 0, LENGTH)?)?;
        loss::cross_entropy(g, logits, g.slice(bytes, 1, 1, LENGTH)?)
    })?;
    let mut record = File::default();
    let mut add = |name: &str, values: &HostTensor| record.tensors.insert(name.to_owned(), values.into());
    for parameter in parameters.list() {
        add(&parameter.name, &trainer.state.read_host(&parameter.name)?);
    }
    let mut losses = Vec::new();
    trainer.run(|_, epoch| {
        losses.extend(epoch.steps.iter().map(|step| step.loss));
        Ok::<_, landfall::Error>(ControlFlow::Continue(()))
    })?;
    add("losses", &HostTensor::new(DType::F64, [STEPS], losses.clone())?);
    add("data.bytes", &HostTensor::from_ints([rows, LENGTH + 1], bytes)?);

    let text = write_on(&mut trainer, &model)?;
    Ok((record, losses, text))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (record, losses, text) = train(&Engine::cuda(0).or_else(|_| Engine::cpu())?)?;
    let mean = |ten: &[f64]| ten.iter().sum::<f64>() / 10.0;
    println!(
        "mean loss of ten steps, first {:.3}, last {:.3}\n\n{text}",
        mean(&losses[..10]),
        mean(&losses[STEPS - 10..])
    );
    Ok(std::env::args().nth(1).map_or(Ok(()), |file| record.write(Path::new(&file)))?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_learns_to_write() -> Result<(), Box<dyn std::error::Error>> {
        let (_, losses, text) = super::train(&landfall::Engine::cpu_with_threads(2)?)?;
        let last = losses[super::STEPS - 10..].iter().sum::<f64>() / 10.0;
        assert!(last < 2.0, "{last}");
        assert!(text.len() > super::LENGTH + 100, "{text}");
        Ok(())
    }
}
