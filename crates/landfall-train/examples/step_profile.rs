//! Time of a training step, and where it goes: `cargo run --release --example step_profile -- [preset] [batch] [channels]`.

use landfall::Engine;
use landfall_train::data::{Split, synthetic};
use landfall_train::models::Preset;
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("patchtst-42", String::as_str);
    let preset = Preset::parse(name).ok_or_else(|| format!("unknown preset {name}"))?;
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |t| t.parse());
    let (batch, channels) = (number(1, 128)?, number(2, 7)?);
    let (config, recipe) = (preset.config(), preset.recipe());
    let rows = 4 * (config.context() + config.horizon()) + batch;
    let series = synthetic::demo(rows, channels, 1)?;
    let (dataset, _) =
        Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context(), config.horizon())?;
    let options = TrainingOptions { batch, epochs: 1, max_steps: Some(1000), seed: 1, ..recipe.options() };
    let engine = Engine::cpu()?;
    let (context, horizon) = (config.context(), config.horizon());
    let mut session = Session::new(&engine, config.build()?, &dataset, context, horizon, options)?;
    let report = session.programs()[0].report();
    engine.clone().enter(|| {
        let mut times = Vec::new();
        for _ in 0..12 {
            let start = Instant::now();
            session.step()?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!(
            "{name}, batch {batch}, {channels} channels: {:.2} ms a step (median of 12)",
            median.as_secs_f64() * 1e3
        );
        println!(
            "arena {:.1} MiB, live peak {:.1} MiB, {} instructions",
            report.arena_bytes as f64 / 1048576.0,
            report.live_peak_bytes as f64 / 1048576.0,
            report.instructions
        );
        let mut by_op: BTreeMap<String, (Duration, usize)> = BTreeMap::new();
        session.profile()?;
        for _ in 0..3 {
            for (label, time) in session.profile()? {
                let op = label.split(" -> ").next().unwrap_or("").to_owned();
                let slot = by_op.entry(op).or_default();
                slot.0 += time / 3;
                slot.1 += 1;
            }
        }
        let mut rows: Vec<_> = by_op.into_iter().collect();
        rows.sort_by_key(|(_, (t, _))| std::cmp::Reverse(*t));
        for (op, (time, count)) in rows.iter().take(20) {
            println!("{:9.3} ms  {:4} ×  {op}", time.as_secs_f64() * 1e3, count / 3);
        }
        if std::env::var_os("EACH").is_some() {
            for (label, time) in session.profile()? {
                println!("{:9.3} ms  {label}", time.as_secs_f64() * 1e3);
            }
        }
        Ok::<_, landfall::Error>(())
    })?;
    Ok(())
}
