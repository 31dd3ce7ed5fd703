//! A seasonal series forecast by a convolutional and by a recurrent network, both against the value of the day before.
//!
//! Run it with `cargo run --release -p forecast`; it uses a GPU where there is one.

mod data;
mod network;

use data::{FUTURE, PAST, WINDOWS, windows};
use landfall::{Engine, Error, Keep};
use landfall_train::nn::{Parameters, loss};
use landfall_train::train::{Schedule, Trainer, TrainingOptions, Weights};
use network::Network;

/// Mean absolute errors on the last windows: of the network, and of the value of a day before.
fn errors(engine: &Engine, network: fn(&mut Parameters) -> Network) -> Result<[f64; 2], Error> {
    let all = windows()?;
    // The test windows begin where nothing of them was trained on.
    let (training, test) = (all.slice(0, 1_500), all.slice(1_500 + PAST + FUTURE, WINDOWS));
    let mut parameters = Parameters::new();
    let network = network(&mut parameters);
    let options =
        TrainingOptions { schedule: Schedule::Cosine, lr: 0.005, clip: Some(1.0), ..Default::default() };
    let mut trainer = Trainer::new(engine, &parameters, &training, options, |cx, batch| {
        loss::mae(cx.graph, network.forward(cx, batch.get("past")?)?, batch.get("future")?)
    })?;
    trainer.fit()?;
    let mut distances = trainer.predictor(&test, 100, Weights::Last, |cx, batch| {
        let (g, past, future) = (cx.graph, batch.get("past")?, batch.get("future")?);
        let distance = |forecast| g.mean(g.abs(g.sub(forecast, future)?)?, Keep(-1));
        let day_before = g.slice(past, 1, PAST - 24, FUTURE)?;
        g.concat(&[distance(network.forward(cx, past)?)?, distance(day_before)?], 1)
    })?;
    let distances = distances.run(&trainer, &test)?.data;
    Ok([0, 1].map(|i| distances.iter().skip(i).step_by(2).sum::<f64>() / test.rows() as f64))
}

fn main() -> Result<(), Error> {
    let engine = Engine::cuda(0).or_else(|_| Engine::cpu())?;
    let ([cnn, naive], [gru, _]) = (errors(&engine, Network::cnn)?, errors(&engine, Network::gru)?);
    println!("mean absolute errors: convolutions {cnn:.3}, GRU {gru:.3}, the day before {naive:.3}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Network, errors};

    #[test]
    fn both_networks_beat_the_day_before() -> Result<(), landfall::Error> {
        let engine = landfall::Engine::cpu_with_threads(2)?;
        let both = [errors(&engine, Network::cnn)?, errors(&engine, Network::gru)?];
        assert!(both.iter().all(|[own, naive]| *own < 0.8 * naive), "{both:?}");
        Ok(())
    }
}
