//! Ranks that share out the optimizer's state: the bytes of ranks that do not, less memory, and checkpoints that any number of ranks
//! goes on from.

mod small;
mod together;

use landfall::{DType, Engine, Error, Graph, Value, World};
use landfall_forecast::run::{
    CheckpointEvery, EvaluationRecord, FitOptions, Observer, Outcome, RunFolder, StepLine, Units, fit,
};
use landfall_train::checkpoint::{File, Progress, load_checkpoint, save};
use landfall_train::data::{Segment, Split, synthetic};
use landfall_train::models::{DLinear, DLinearConfig, ModelConfig};
use landfall_train::nn::{Group, Linear, NormKind, Parameters, loss};
use landfall_train::train::{
    Arrays, Betas, Dataset, Moment, Optimizer, OptimizerKind, Session, Trainer, TrainingOptions, Update,
};
use small::{cross_asset, patchtst};
use std::path::Path;
use std::time::Duration;
use together::{Failed, together};

/// Divided by 2 and 3 ranks of two micro-batches each.
const BATCH: usize = 48;
const STEPS: usize = 6;
/// Below the norms of all steps.
const CLIP: f64 = 0.1;

/// What is trained.
#[derive(Debug, Clone)]
enum Kind {
    Listed(ModelConfig),
    /// A model with a group of its own for the parameters of this name.
    Grouped(ModelConfig, &'static str),
    /// Two maps of 8 MiB each, so that their gradients are several buckets.
    Large,
}

fn kinds() -> Vec<Kind> {
    vec![
        Kind::Grouped(patchtst(NormKind::Batch, 0.2).expect("a PatchTST"), "head"),
        Kind::Grouped(cross_asset(0.2), "norm"),
    ]
}

fn options(sharded: bool) -> TrainingOptions {
    TrainingOptions {
        shard_optimizer: sharded,
        optimizer: OptimizerKind::AdamW,
        weight_decay: 0.01,
        clip: Some(CLIP),
        ..TrainingOptions::default()
    }
}

fn session(engine: &Engine, kind: &Kind, options: TrainingOptions) -> Result<Session, Failed> {
    let options = TrainingOptions { batch: BATCH, ..options };
    match kind {
        Kind::Listed(config) => small::session(engine, config, options).map_err(|e| e.to_string().into()),
        Kind::Grouped(config, pattern) => {
            let mut model = config.build()?;
            let group = Group { lr: 0.5, weight_decay: Some(0.1) };
            assert!(
                model.parameters_mut().group_containing(pattern, group) > 1,
                "{pattern} names parameters"
            );
            let (data, loss) = small::data(config).map_err(|e| e.to_string())?;
            let options = TrainingOptions { loss, ..options };
            Ok(Session::new(engine, model, &data, config.context(), config.predicts().values(), options)?)
        }
        Kind::Large => {
            let model = DLinear::new(DLinearConfig { context: 2048, horizon: 1024, kernel: 25, outputs: 1 })?;
            let series = synthetic::demo(6000, 1, 1)?;
            let data = Dataset::forecast(series, Split::ratio(0.6, 0.2, 0.2)?, 2048, 1024)?.0;
            Ok(Session::new(engine, Box::new(model), &data, 2048, 1024, options)?)
        }
    }
}

/// What training left behind: the bytes of its checkpoint, loss, norm and rate of each step, and the error on the test windows.
#[derive(Debug, Clone, PartialEq)]
struct Left {
    checkpoint: Vec<u8>,
    records: Vec<[f64; 3]>,
    error: f64,
}

impl Left {
    /// Trains up to this step.
    fn at(session: &mut Session, step: usize) -> Result<Self, Failed> {
        let before = session.position()?.0;
        (before..step).try_for_each(|_| session.step())?;
        let records: Vec<_> =
            session.records(before + 1, step)?.iter().map(|r| [r.loss, r.grad_norm, r.lr]).collect();
        let (step, epoch, batch) = session.position()?;
        let file = tempfile::NamedTempFile::new()?;
        save(file.path(), session, "", &Progress { step, epoch, batch, ..Progress::default() }, true)?;
        let error = session.evaluate(Segment::Test)?.errors().0;
        Ok(Self { checkpoint: std::fs::read(file.path())?, records, error })
    }

    fn resume(&self, session: &mut Session) -> Result<(), Failed> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), &self.checkpoint)?;
        load_checkpoint(file.path(), &File::read(file.path())?, session)?;
        Ok(())
    }
}

/// What every rank makes.
fn all<T: Send>(size: usize, work: impl Fn(&Engine) -> Result<T, Failed> + Sync) -> Vec<T> {
    together(size, work).into_iter().map(|got| got.expect("every rank trains")).collect()
}

/// With and without the choice, of every rank.
fn same_bytes(kind: &Kind, size: usize, options: &TrainingOptions, steps: usize) {
    let run = |shard_optimizer| {
        all(size, |engine| {
            let options = TrainingOptions { shard_optimizer, ..options.clone() };
            Left::at(&mut session(engine, kind, options)?, steps)
        })
    };
    let (whole, shared) = (run(false), run(true));
    for (rank, (whole, shared)) in whole.iter().zip(&shared).enumerate() {
        let of = format!("{kind:?}, rank {rank} of {size}, {options:?}");
        assert_eq!(shared.records, whole.records, "{of}");
        assert!(shared.checkpoint == whole.checkpoint, "{of}");
        assert_eq!(shared.error, whole.error, "{of}");
        assert!(shared.records.iter().all(|[loss, norm, _]| loss.is_finite() && *norm > CLIP), "{shared:?}");
    }
}

#[test]
fn ranks_that_share_the_state_have_the_bytes_of_those_that_do_not() {
    for kind in kinds() {
        for size in [2, 3] {
            for dtype in [DType::F32, DType::BF16] {
                for accumulate in [1, 2] {
                    same_bytes(&kind, size, &TrainingOptions { dtype, accumulate, ..options(false) }, STEPS);
                }
            }
        }
    }
}

#[test]
fn every_optimizer_can_be_shared_out() {
    let kind = &kinds()[0];
    for optimizer in [OptimizerKind::Adam, OptimizerKind::Sgd, OptimizerKind::Lion] {
        same_bytes(kind, 3, &TrainingOptions { optimizer, ..options(false) }, STEPS);
    }
    // Without momentum nothing is kept, and the update is still shared out.
    let betas = Betas { first: 0.0, second: 0.0 };
    same_bytes(kind, 2, &TrainingOptions { optimizer: OptimizerKind::Sgd, betas, ..options(false) }, STEPS);
    // Overflowing steps change nothing but the loss scale, on all ranks.
    same_bytes(kind, 2, &TrainingOptions { dtype: DType::F16, ..options(false) }, STEPS);
}

/// Blocks of several buckets, the first of which is two stretches of the slab.
#[test]
fn several_buckets_are_shared_out() {
    for size in [2, 3] {
        same_bytes(&Kind::Large, size, &options(false), 3);
    }
}

/// In f64 the order of the sums in the norm may be seen.
#[test]
fn f64_agrees_within_rounding() {
    let kind = &kinds()[0];
    let run = |sharded| {
        all(3, |engine| {
            let options = TrainingOptions { dtype: DType::F64, ..options(sharded) };
            Left::at(&mut session(engine, kind, options)?, STEPS)
        })
    };
    let (whole, shared) = (run(false), run(true));
    for (a, b) in whole[1].records.iter().flatten().zip(shared[1].records.iter().flatten()) {
        assert!((a - b).abs() <= 1e-13 * a.abs(), "{a} {b}");
    }
}

/// Bytes of the moments of one rank, and of all that its step needs, as planned.
fn planned(kind: &Kind, size: usize, sharded: bool) -> (usize, usize) {
    let engine = Engine::null();
    engine.join(World::threads(size, Duration::from_secs(60)).swap_remove(0)).expect("a world");
    let planned = session(&engine, kind, options(sharded)).expect("a session");
    let spec = planned.state.spec();
    let bytes = spec.slabs().iter().zip(spec.slab_bytes());
    let moments = bytes.filter(|(slab, _)| slab.name.starts_with("moment.")).map(|(_, bytes)| bytes).sum();
    let report = planned.programs()[0].report();
    (moments, report.state_bytes + report.arena_bytes)
}

#[test]
fn a_rank_keeps_its_part_of_the_state() {
    for (kind, buckets) in [(kinds()[0].clone(), 1), (kinds()[1].clone(), 1), (Kind::Large, 2)] {
        let (whole, _) = planned(&kind, 1, false);
        assert_eq!(planned(&kind, 1, true), planned(&kind, 1, false), "one rank keeps all");
        for size in [2, 3, 8] {
            let ((kept, before), (shared, after)) = (planned(&kind, size, false), planned(&kind, size, true));
            println!("{kind:?} on {size} ranks: moments {whole} to {shared}, all {before} to {after} bytes");
            assert_eq!(kept, whole);
            // Of each bucket and moment at most 16 elements more than its part, of 4 bytes.
            assert!(shared >= whole / size && shared <= whole / size + buckets * 2 * 16 * 4, "{shared}");
            // The copies around the update lie where activations did, or take little.
            assert!(4 * before.saturating_sub(after) >= 3 * (whole - shared), "{before} {after}");
        }
    }
}

/// A checkpoint is the same, whoever wrote it, and any number of ranks goes on from it, with and without the choice.
#[test]
fn any_ranks_go_on_from_a_checkpoint() {
    let kind = &Kind::Listed(patchtst(NormKind::Batch, 0.2).expect("a PatchTST"));
    let alone = |accumulate| TrainingOptions { accumulate, ..options(false) };
    let one = || Engine::cpu_with_threads(1).expect("an engine");
    let start = Left::at(&mut session(&one(), kind, alone(2)).expect("a session"), 4).expect("steps");
    let shared = all(2, |engine| Left::at(&mut session(engine, kind, options(true))?, 4));
    for (rank, got) in shared.iter().enumerate() {
        assert!(*got == start, "the checkpoint of rank {rank}");
    }
    for size in [1, 2, 3] {
        let mut single = session(&one(), kind, alone(size)).expect("a session");
        start.resume(&mut single).expect("a checkpoint");
        let expected = Left::at(&mut single, 8).expect("steps");
        for sharded in [false, true] {
            let resumed = all(size, |engine| {
                let mut session = session(engine, kind, options(sharded))?;
                shared[0].resume(&mut session)?;
                Left::at(&mut session, 8)
            });
            assert!(resumed.iter().all(|got| *got == expected), "{size} ranks, shared out: {sharded}");
        }
    }
}

/// Notes nothing and stops nothing.
struct Silent;

impl Observer for Silent {
    fn step(&mut self, _: &StepLine) {}
    fn progress(&mut self, _: usize, _: usize) {}
    fn evaluation(&mut self, _: &EvaluationRecord, _: bool) {}
    fn stop(&self) -> bool {
        false
    }
}

fn trained(engine: &Engine, path: &Path, sharded: bool, minutes: f64) -> Result<Outcome, Failed> {
    let series = synthetic::demo(200, 2, 5)?;
    let (dataset, panel) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 16, 4)?;
    let model = DLinear::new(DLinearConfig { context: 16, horizon: 4, kernel: 5, outputs: 1 })?;
    let training = TrainingOptions { epochs: 3, ..options(sharded) };
    let mut session = Session::new(engine, Box::new(model), &dataset, 16, 4, training)?;
    let options = FitOptions {
        epochs: 3,
        max_steps: None,
        validate_every: None,
        weights_given: false,
        patience: None,
        checkpoint: CheckpointEvery { steps: usize::MAX, minutes },
        log_every: 2,
        units: Units::of(&panel),
        test: None,
        intervals: Vec::new(),
        configuration: "seed = 3\n".to_owned(),
    };
    let mut folder = RunFolder::create(path, "seed = 3\n")?;
    Ok(fit(&mut session, &mut folder, Progress::default(), &options, &mut Silent)?)
}

/// Clocks differ: a rank that finds a checkpoint due asks the others, and all write it.
#[test]
fn ranks_agree_when_a_checkpoint_is_due() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = |rank: usize, sharded: bool| folder.path().join(format!("{rank}-{sharded}"));
    for sharded in [false, true] {
        let outcomes = all(2, |engine| {
            let rank = engine.world().rank();
            trained(engine, &path(rank, sharded), sharded, if rank == 0 { 1e-9 } else { 1e9 })
        });
        assert!(matches!(outcomes[0], Outcome::Finished { .. }) && outcomes[0] == outcomes[1]);
    }
    for name in ["metrics.jsonl", "checkpoint.safetensors", "best.safetensors"] {
        let read = |rank, sharded| std::fs::read(path(rank, sharded).join(name));
        assert!(read(0, true)? == read(1, true)? && read(0, true)? == read(0, false)?, "{name}");
    }
    Ok(())
}

/// Moves each group along its whole gradient's direction: an element needs all others.
#[derive(Debug)]
struct Normed;

impl Optimizer for Normed {
    fn moments(&self) -> &'static [Moment] {
        &[]
    }
    fn update(&self, g: &Graph, u: &Update) -> Result<Value, Error> {
        let gradients = u.scaled_gradients(g)?;
        let norm = g.sqrt(g.sum(g.square(gradients)?, [0])?)?;
        let step = g.mul(g.div(gradients, norm)?, u.rate(g)?)?;
        g.assign(u.parameters, g.sub(u.parameters, step)?, u.ok)
    }
}

/// A trainer of two layers on 24 samples.
fn trainer(
    engine: &Engine,
    hidden: usize,
    options: TrainingOptions,
    own: Option<&dyn Optimizer>,
) -> Result<Trainer, Error> {
    let values = |n: usize, k: usize| (0..n).map(|i| ((i * k) % 17) as f32 / 8.0 - 1.0).collect::<Vec<_>>();
    let data = Arrays::new().with("x", [24, 5], values(120, 7))?.with("y", [24, 3], values(72, 5))?;
    let mut p = Parameters::new();
    let layers = [Linear::new(&mut p, "a", 5, hidden), Linear::new(&mut p, "b", hidden, 3)];
    let options = TrainingOptions { batch: 12, epochs: 9, ..options };
    let optimizer = options.optimizer.of(&options);
    let optimizer = own.unwrap_or(optimizer.as_ref());
    Trainer::with_optimizer(engine, &p, &data, options, optimizer, |cx, batch| {
        let hidden = cx.graph.relu(layers[0].forward(cx, batch.get("x")?)?)?;
        loss::mse(cx.graph, layers[1].forward(cx, hidden)?, batch.get("y")?)
    })
}

/// A trainer's file is the same with and without the choice but for the rank that wrote it, and every rank goes on from any. Of 22
/// aligned blocks of 16 elements the last of three ranks has 6 instead of 8; of 4 the last two of six ranks have none.
#[test]
fn a_trainer_shares_the_state_out_and_goes_on() {
    for (size, hidden) in [(2, 33), (3, 33), (6, 1)] {
        let started = |engine: &Engine, sharded| {
            trainer(engine, hidden, TrainingOptions { average: Some(0.9), ..options(sharded) }, None)
        };
        let saved = |t: &mut Trainer| -> Result<Vec<u8>, Failed> {
            (0..3).try_for_each(|_| t.step())?;
            let file = tempfile::NamedTempFile::new()?;
            t.save(file.path())?;
            Ok(std::fs::read(file.path())?)
        };
        let run = |sharded| {
            all(size, |engine| {
                let mut t = started(engine, sharded)?;
                Ok((saved(&mut t)?, saved(&mut t)?))
            })
        };
        let (whole, shared) = (run(false), run(true));
        assert!(whole == shared, "{size} ranks");
        assert!(whole[0] != whole[1], "the cursor holds the rank's part of a batch");
        for sharded in [false, true] {
            let resumed = all(size, |engine| {
                let mut t = started(engine, sharded)?;
                let file = tempfile::NamedTempFile::new()?;
                // The first rank's, on all.
                std::fs::write(file.path(), &shared[0].0)?;
                t.load(file.path())?;
                saved(&mut t)
            });
            assert!(resumed.iter().eq(whole.iter().map(|(_, last)| last)), "{size}, shared out: {sharded}");
        }
    }
}

#[test]
fn an_optimizer_that_needs_a_whole_group_is_refused() {
    for size in [1, 2] {
        for got in together(size, |engine| Ok(trainer(engine, 33, options(true), Some(&Normed))?)) {
            let error = got.expect_err("no shards of it").to_string();
            let told = "shard_optimizer is 1; it must be off with an optimizer that may need all elements of a group";
            assert!(error.contains(told), "{error}");
        }
    }
    assert!(
        together(2, |engine| Ok(trainer(engine, 33, options(false), Some(&Normed))?.step()?))
            .iter()
            .all(Result::is_ok)
    );
}
