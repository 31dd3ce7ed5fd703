//! A training step allocates nothing, neither on the device nor on the heap, and its memory stays flat (regression 2).

#[path = "../../landfall/tests/device/heap.rs"]
mod heap;

use landfall::{DType, Engine};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{PatchTst, PatchTstConfig, Preset};
use landfall_train::train::{Betas, Dataset, OptimizerKind, Schedule, Session, TrainingOptions};
use std::error::Error;

/// Without the test harness, whose threads allocate when they like.
fn main() -> Result<(), Box<dyn Error>> {
    let config = PatchTstConfig {
        context: 96,
        horizon: 24,
        ..Preset::PatchTst42.config().patchtst().ok_or("a PatchTST")?
    };
    let series = synthetic::demo(600, 3, 1)?;
    let (dataset, _) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 96, 24)?;
    let options = TrainingOptions {
        batch: 8,
        epochs: 100,
        max_steps: None,
        lr: 1e-3,
        schedule: Schedule::OneCycle,
        optimizer: OptimizerKind::AdamW,
        betas: Betas { first: 0.9, second: 0.999 },
        weight_decay: 0.01,
        clip: Some(1.0),
        dtype: DType::F32,
        seed: 1,
        ..TrainingOptions::default()
    };
    // Both live to the end: threads of a pool that starts up or winds down allocate too.
    let engines = [Engine::cpu_with_threads(1)?, Engine::cpu_with_threads(2)?];
    std::thread::sleep(std::time::Duration::from_millis(300));
    for (threads, engine) in (1..).zip(&engines) {
        let model = PatchTst::new(config.clone())?;
        let mut session = Session::new(engine, Box::new(model), &dataset, 96, 24, options.clone())?;
        let (heap, before, after) = engine.clone().enter(|| {
            session.step()?;
            session.step()?;
            let (heap, before) = (heap::allocations(), engine.counters());
            for _ in 0..500 {
                session.step()?;
            }
            Ok::<_, landfall::Error>((heap::allocations() - heap, before, engine.counters()))
        })?;
        println!(
            "{threads} threads: {heap} heap allocations and {} on the device in 500 steps",
            after.allocations - before.allocations
        );
        assert_eq!(heap, 0, "heap allocations on {threads} threads");
        assert_eq!(after.allocations, before.allocations, "device allocations on {threads} threads");
        assert_eq!(after.bytes_in_use, before.bytes_in_use);
        assert_eq!(after.replays - before.replays, 500);
        assert_eq!(after.host_transfers, before.host_transfers);
        assert_eq!(session.position()?.0, 502);
    }
    println!("test r02_five_hundred_steps_allocate_nothing ... ok");
    Ok(())
}
