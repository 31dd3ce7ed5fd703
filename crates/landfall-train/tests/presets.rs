//! Every preset: its number of parameters, and the memory plan of its programs.

use landfall::{DType, Engine};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{PatchTst, Preset, Task};
use landfall_train::train::{Betas, Dataset, Order, Session, TrainingOptions};
use std::error::Error;

/// No plan can be smaller than the bytes that live at one time; ours stay within 15 % of it. Planned on the null device,
/// which needs no memory for the large ones.
#[test]
fn plans_are_tight() -> Result<(), Box<dyn Error>> {
    for &preset in Preset::ALL {
        let (config, recipe) = (preset.config(), preset.recipe());
        let dataset = match config.task {
            Task::Forecast => {
                let series = synthetic::demo(4 * (config.context + config.horizon), 7, 1)?;
                Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context, config.horizon)?.0
            }
            Task::Regress => Dataset::regression(&synthetic::walk(640, 10, config.context, 1)?),
        };
        let options = TrainingOptions {
            batch: recipe.batch,
            epochs: 1,
            max_steps: None,
            lr: recipe.lr,
            schedule: recipe.schedule,
            optimizer: recipe.optimizer,
            betas: Betas { first: 0.9, second: 0.999 },
            weight_decay: recipe.weight_decay,
            clip: recipe.clip,
            dtype: DType::F32,
            seed: 1,
            order: Order::Shuffle,
        };
        let (context, horizon) = (config.context, config.horizon);
        let model = PatchTst::new(config)?;
        let session = Session::new(&Engine::null(), Box::new(model), &dataset, context, horizon, options)?;
        for program in session.programs() {
            let r = program.report();
            let ratio = r.arena_bytes as f64 / r.live_peak_bytes.max(1) as f64;
            println!(
                "{} {}: arena {} bytes, {ratio:.3} of what lives at one time",
                preset.name(),
                program.name(),
                r.arena_bytes
            );
            assert!(ratio <= 1.15, "{} {}: {ratio}", preset.name(), program.name());
            assert!(r.live_peak_bytes > 0);
        }
    }
    Ok(())
}
