//! A training step allocates nothing, neither on the device nor on the heap, and its memory stays flat (regression 2).

#[path = "../../landfall/tests/device/heap.rs"]
mod heap;

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use landfall::{DType, DeviceKind, Engine};
use landfall_train::data::{Split, TokenSegments, synthetic};
use landfall_train::models::{CrossAsset, CrossAssetConfig, PatchTst, PatchTstConfig};
use landfall_train::train::{Betas, Dataset, Loss, OptimizerKind, Schedule, Session, TrainingOptions};
use std::error::Error;

/// Without the test harness, whose threads allocate when they like. The first argument selects by name, as there.
fn main() -> Result<(), Box<dyn Error>> {
    let filter = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    let mut passed = 0;
    if "r02_steps_allocate_nothing_cpu".contains(&filter) {
        // Both live to the end: threads of a pool that starts up or winds down allocate too.
        let engines = [Engine::cpu_with_threads(1)?, Engine::cpu_with_threads(2)?];
        std::thread::sleep(std::time::Duration::from_millis(300));
        for engine in &engines {
            check(engine, patchtst(engine)?, 500)?;
        }
        println!("test r02_steps_allocate_nothing_cpu ... ok");
        passed += 1;
    }
    if "r02_steps_allocate_nothing_cuda".contains(&filter)
        && let Some(engine) = gpu::gpu()?
    {
        check(&engine, patchtst(&engine)?, 5000)?;
        println!("test r02_steps_allocate_nothing_cuda ... ok");
        passed += 1;
    }
    if "bf16_steps_of_cross_asset_need_nothing_of_the_host_cpu".contains(&filter) {
        let engine = Engine::cpu_with_threads(2)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        for engine in [&engine, &Engine::null()] {
            for accumulate in [1, 4] {
                check(engine, cross_asset(engine, accumulate)?, 1000)?;
            }
        }
        println!("test bf16_steps_of_cross_asset_need_nothing_of_the_host_cpu ... ok");
        passed += 1;
    }
    if "bf16_steps_of_cross_asset_need_nothing_of_the_host_cuda".contains(&filter)
        && let Some(engine) = gpu::gpu()?
    {
        for accumulate in [1, 4] {
            check(&engine, cross_asset(&engine, accumulate)?, 1000)?;
        }
        println!("test bf16_steps_of_cross_asset_need_nothing_of_the_host_cuda ... ok");
        passed += 1;
    }
    println!("test result: ok. {passed} passed");
    Ok(())
}

/// A small CrossAsset in bf16; what its steps ask of the host does not depend on sizes.
fn cross_asset(engine: &Engine, accumulate: usize) -> Result<Session, Box<dyn Error>> {
    let config = CrossAssetConfig {
        tokens: 3,
        features: 7,
        classes: 3,
        d_model: 16,
        heads: 2,
        layers: 2,
        d_ff: 32,
        dropout: 0.1,
    };
    let data = synthetic::assets(200, config.tokens, config.features, 1)?;
    let segments = TokenSegments::new(&data, Split::ratio(0.7, 0.1, 0.2)?)?;
    let dataset = Dataset::classification(&data, segments);
    let options = TrainingOptions {
        batch: 8,
        accumulate,
        epochs: 200,
        optimizer: OptimizerKind::AdamW,
        clip: Some(1.0),
        dtype: DType::BF16,
        loss: Loss::CrossEntropy,
        ..TrainingOptions::default()
    };
    let (features, classes) = (config.features, config.classes);
    let model = Box::new(CrossAsset::new(config)?);
    Ok(Session::new(engine, model, &dataset, features, classes, options)?)
}

fn patchtst(engine: &Engine) -> Result<Session, Box<dyn Error>> {
    let config = PatchTstConfig { context: 96, horizon: 24, ..PatchTstConfig::default() };
    let series = synthetic::demo(600, 3, 1)?;
    let (dataset, _) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 96, 24)?;
    let options = TrainingOptions {
        batch: 8,
        epochs: 200,
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
    Ok(Session::new(engine, Box::new(PatchTst::new(config)?), &dataset, 96, 24, options)?)
}

/// Counts over this many steps, each one replay.
fn check(engine: &Engine, mut session: Session, steps: u64) -> Result<(), Box<dyn Error>> {
    let (heap, before, after) = engine.clone().enter(|| {
        session.step()?;
        session.step()?;
        engine.synchronize()?;
        let (heap, before) = (heap::allocations(), engine.counters());
        for _ in 0..steps {
            session.step()?;
        }
        engine.synchronize()?;
        Ok::<_, landfall::Error>((heap::allocations() - heap, before, engine.counters()))
    })?;
    let on = engine.device();
    let allocations = after.allocations - before.allocations;
    println!("{on}: {heap} heap allocations and {allocations} on the device in {steps} steps");
    assert_eq!(heap, 0, "heap allocations on {on}");
    assert_eq!(allocations, 0, "device allocations on {on}");
    assert_eq!(after.bytes_in_use, before.bytes_in_use);
    assert_eq!(after.replays - before.replays, steps);
    assert_eq!(after.host_transfers, before.host_transfers);
    let launches = match on {
        DeviceKind::Cuda(_) => steps,
        DeviceKind::Cpu | DeviceKind::Null => steps * session.programs()[0].report().launches as u64,
    };
    assert_eq!(after.launches - before.launches, launches, "launches on {on}");
    if on != DeviceKind::Null {
        assert_eq!(session.position()?.0 as u64, steps + 2);
        let losses = session.records(steps as usize - 9, steps as usize)?;
        assert!(losses.iter().all(|r| r.loss.is_finite()), "{losses:?}");
    }
    Ok(())
}
