//! A step that is replayed gives the bytes of the same step issued call by call, however long, whatever happens to other
//! memory in between, and across a checkpoint.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::rng::Rng;
use landfall::{DType, Engine};
use landfall_train::checkpoint::{File, Progress, load_checkpoint, save};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{PatchTst, PatchTstConfig};
use landfall_train::train::{Betas, Dataset, OptimizerKind, Order, RING, Schedule, Session, TrainingOptions};

type Check = Result<(), Box<dyn std::error::Error>>;

/// What tests vary.
struct Recipe {
    dtype: DType,
    dropout: f64,
    lr: f64,
    schedule: Schedule,
    order: Order,
    /// Windows of a batch.
    batch: usize,
    /// Rows of the series: 96 more than the training windows' share allows for.
    rows: usize,
}

const ADAMW: Recipe = Recipe {
    dtype: DType::F32,
    dropout: 0.2,
    lr: 1e-3,
    schedule: Schedule::OneCycle,
    order: Order::Shuffle,
    batch: 8,
    rows: 300,
};

fn session(engine: &Engine, recipe: &Recipe) -> Result<Session, Box<dyn std::error::Error>> {
    let (context, horizon) = (32, 8);
    let config = PatchTstConfig {
        context,
        horizon,
        patch: 8,
        stride: 4,
        d_model: 16,
        heads: 2,
        layers: 2,
        d_ff: 32,
        dropout: recipe.dropout,
        ..PatchTstConfig::default()
    };
    let series = synthetic::demo(recipe.rows, 2, 5)?;
    let (dataset, _) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, context, horizon)?;
    let options = TrainingOptions {
        batch: recipe.batch,
        epochs: 200,
        max_steps: None,
        lr: recipe.lr,
        schedule: recipe.schedule,
        optimizer: OptimizerKind::AdamW,
        betas: Betas { first: 0.9, second: 0.999 },
        weight_decay: 0.01,
        clip: Some(1.0),
        dtype: recipe.dtype,
        seed: 11,
        order: recipe.order,
        ..TrainingOptions::default()
    };
    Ok(Session::new(engine, Box::new(PatchTst::new(config)?), &dataset, context, horizon, options)?)
}

/// Fails unless every entry of two states is the same, bit for bit: parameters, moments, statistics, cursors, reports.
fn same(step: usize, one: &Session, other: &Session) -> Check {
    for entry in one.state.spec().slabs().iter().flat_map(|s| &s.entries) {
        let (a, b) = (one.state.read_host(&entry.name)?, other.state.read_host(&entry.name)?);
        let differ = a.data.iter().zip(&b.data).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
        if differ > 0 {
            return Err(format!(
                "after step {step}, {differ} of {} elements of {} differ",
                a.data.len(),
                entry.name
            )
            .into());
        }
    }
    Ok(())
}

fn losses(session: &mut Session, steps: usize) -> Result<Vec<f64>, landfall::Error> {
    assert!(steps <= RING, "the ring keeps {RING} steps");
    Ok(session.records(1, steps)?.iter().map(|r| r.loss).collect())
}

/// Regression 17: optimizer step, schedule and masks live on the device, so a replay advances them as issued calls do.
fn r17_adamw_replayed_is_adamw_issued(engine: &Engine) -> Check {
    let (mut replayed, mut issued) = (session(engine, &ADAMW)?, session(engine, &ADAMW)?);
    for step in 1..=1000 {
        replayed.step()?;
        issued.issue()?;
        if step % 100 == 0 || step <= 3 {
            same(step, &replayed, &issued)?;
        }
    }
    // The ring holds every one of the losses (regressions 12 and 28): they were equal, and it trained.
    let losses = losses(&mut replayed, 1000)?;
    let mean = |l: &[f64]| l.iter().sum::<f64>() / l.len() as f64;
    assert!(mean(&losses[900..]) < 0.9 * mean(&losses[..100]), "{:?}", &losses[..10]);
    Ok(())
}

/// Regression 17: with weights that stand still and one batch, losses differ by the masks alone.
fn r17_masks_differ_from_replay_to_replay(engine: &Engine) -> Check {
    // 70 % of 67 rows hold 7 windows of 40: one batch is an epoch, always in the same order.
    let still = |dropout| Recipe {
        dtype: DType::F32,
        dropout,
        lr: 0.0,
        schedule: Schedule::Constant,
        order: Order::Sequential,
        batch: 7,
        rows: 67,
    };
    const STEPS: usize = 32;
    let run = |dropout, replay: bool| -> Result<Vec<f64>, Box<dyn std::error::Error>> {
        let mut s = session(engine, &still(dropout))?;
        assert_eq!(s.steps_per_epoch(), 1);
        for _ in 0..STEPS {
            if replay { s.step()? } else { s.issue()? }
        }
        Ok(losses(&mut s, STEPS)?)
    };
    let without = run(0.0, true)?;
    assert!(without.iter().all(|l| *l == without[0]), "without masks nothing changes: {without:?}");
    let mut replayed = run(0.5, true)?;
    assert_eq!(replayed, run(0.5, false)?, "masks of replays and of issued calls");
    replayed.sort_by(f64::total_cmp);
    replayed.dedup();
    assert_eq!(replayed.len(), STEPS, "each replay has masks of its own");
    Ok(())
}

/// Regressions 11 and 12: what happens to other memory between replays changes nothing in a program's.
fn r11_bf16_replays_survive_allocation_churn(engine: &Engine) -> Check {
    const REPLAYS: usize = 2560;
    let recipe = Recipe { dtype: DType::BF16, ..ADAMW };
    let (mut replayed, mut issued) = (session(engine, &recipe)?, session(engine, &recipe)?);
    let mut rng = Rng::new(3, 0);
    let mut kept = Vec::new();
    for step in 1..=REPLAYS {
        // New tensors of many sizes, every byte NaN; some stay, one of those kept goes, poisoned as it is freed.
        for _ in 0..3 {
            let size = 1usize << rng.range(4..18);
            let mut tensor = engine.empty(DType::F32, [size])?;
            tensor.poison(0xFF)?;
            kept.push(tensor);
        }
        while kept.len() > 32 {
            let mut freed = kept.swap_remove(rng.range(0..kept.len()));
            freed.poison(0xFF)?;
        }
        replayed.step()?;
        issued.issue()?;
        if step.is_power_of_two() || step % 512 == 0 {
            same(step, &replayed, &issued)?;
        }
    }
    assert_eq!(replayed.programs()[0].runs(), REPLAYS as u64);
    Ok(())
}

/// A run that goes on from its checkpoint gives the bytes of one that was never interrupted.
fn a_resumed_run_is_the_same_run(engine: &Engine) -> Check {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("checkpoint.safetensors");
    let mut whole = session(engine, &ADAMW)?;
    for _ in 0..37 {
        whole.step()?;
    }
    let (step, epoch, batch) = whole.position()?;
    save(&path, &whole, "", &Progress { step, epoch, batch, ..Progress::default() }, true)?;
    let mut resumed = session(engine, &ADAMW)?;
    load_checkpoint(&path, &File::read(&path)?, &mut resumed)?;
    for _ in 0..30 {
        whole.step()?;
        resumed.step()?;
    }
    for p in whole.model().parameters().list() {
        let bits = |s: &Session| -> Result<Vec<u32>, landfall::Error> {
            Ok(s.state.read::<f32>(&p.name)?.into_iter().map(f32::to_bits).collect())
        };
        assert_eq!(bits(&whole)?, bits(&resumed)?, "{}", p.name);
    }
    assert_eq!(whole.position()?, resumed.position()?);
    assert_eq!(whole.records(38, 67)?, resumed.records(38, 67)?);
    Ok(())
}

on_each_device!(
    r17_adamw_replayed_is_adamw_issued,
    r17_masks_differ_from_replay_to_replay,
    r11_bf16_replays_survive_allocation_churn,
    a_resumed_run_is_the_same_run,
);
