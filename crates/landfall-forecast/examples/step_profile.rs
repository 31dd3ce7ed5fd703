//! Time of a training step, and where it goes: `cargo run --release --example step_profile -- [preset] [batch] [channels]`.

use landfall::Engine;
use landfall_forecast::run::Preset;
use landfall_train::data::{Split, synthetic};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("patchtst-42", String::as_str);
    let preset = Preset::named(name).ok_or_else(|| format!("unknown preset {name}"))?;
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |t| t.parse());
    let (batch, channels) = (number(1, 128)?, number(2, 7)?);
    let (config, recipe) = (preset.config(), preset.recipe);
    let rows = 4 * (config.context() + config.horizon()) + batch;
    let series = synthetic::demo(rows, channels, 1)?;
    let (dataset, _) =
        Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context(), config.horizon())?;
    let options = TrainingOptions { batch, epochs: 1, max_steps: Some(1000), seed: 1, ..recipe.options() };
    let engine = Engine::cpu()?;
    let (context, horizon) = (config.context(), config.horizon());
    let mut session = Session::new(&engine, config.build()?, &dataset, context, horizon, options)?;
    let report = session.programs()[0].report();
    println!(
        "{name}, batch {batch}, {channels} channels: arena {:.1} MiB, live peak {:.1} MiB",
        report.arena_bytes as f64 / 1048576.0,
        report.live_peak_bytes as f64 / 1048576.0
    );
    let profile = session.profile(12)?;
    println!("{profile}");
    if std::env::var_os("EACH").is_some() {
        for row in &profile.rows {
            let time = row.time().as_secs_f64() * 1e3;
            println!("{time:9.3} ms  {} -> {}", row.name(), row.names.join(", "));
        }
    }
    Ok(())
}
