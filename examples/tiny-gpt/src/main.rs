//! A causal language model on the bytes of a licence, a text that does not change, which then writes on.
//!
//! Run it with `cargo run --release -p tiny-gpt`; it uses a GPU where there is one. With a file's name as argument it also writes the
//! initial weights, the batches and the losses there, for `bench/peers/tiny_gpt.py`, the same model in PyTorch.

mod model;
mod write_on;

use landfall::{DType, Engine, HostTensor, rng::Rng};
use landfall_train::checkpoint::File;
use landfall_train::nn::{Parameters, loss};
use landfall_train::train::{Arrays, Order, Trainer, TrainingOptions};
use std::{error::Error, ops::ControlFlow, path::Path};
use write_on::write_on;

const TEXT: &[u8] = include_bytes!("../../../LICENSE-APACHE");
const LENGTH: usize = 48;
const STEPS: usize = 300;
const BATCH: usize = 12;

/// Trains, and gives the record of the run, the mean loss of the last ten steps, and what the model writes behind a
/// piece of the text.
fn train(engine: &Engine) -> Result<(File, f64, String), Box<dyn Error>> {
    let rows = STEPS * BATCH;
    let mut rng = Rng::new(1, 0);
    let starts = (0..rows).map(|_| (rng.uniform() * (TEXT.len() - LENGTH) as f64) as usize);
    let bytes: Vec<i64> = starts.flat_map(|at| &TEXT[at..=at + LENGTH]).map(|&b| b.into()).collect();
    let data = Arrays::new().with("bytes", [rows, LENGTH + 1], bytes.clone())?;
    let mut parameters = Parameters::new();
    let model = model::TinyGpt::new(&mut parameters, 64, 2);
    let order = Order::Sequential;
    let options = TrainingOptions { order, batch: BATCH, epochs: 1, lr: 0.003, ..Default::default() };
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
    let last_ten = losses[STEPS - 10..].iter().sum::<f64>() / 10.0;
    add("losses", &HostTensor::new(DType::F64, [STEPS], losses)?);
    add("data.bytes", &HostTensor::from_ints([rows, LENGTH + 1], bytes)?);
    Ok((record, last_ten, write_on(&mut trainer, &model)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (record, loss, text) = train(&Engine::cuda(0).or_else(|_| Engine::cpu())?)?;
    println!("mean loss of the last ten steps: {loss:.3}\n\n{text}");
    Ok(std::env::args().nth(1).map_or(Ok(()), |file| record.write(Path::new(&file)))?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_learns_to_write() -> Result<(), Box<dyn std::error::Error>> {
        let (_, loss, text) = super::train(&landfall::Engine::cpu_with_threads(2)?)?;
        assert!(loss < 1.4, "{loss}");
        assert!(text.len() > super::LENGTH, "{text}");
        Ok(())
    }
}
