//! A batch that is cut into micro-batches makes the update of the whole batch, in one replay a step.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;
mod small;

use gpu::on_each_device;
use landfall::{DType, Engine};
use landfall_train::models::{DLinearConfig, ModelConfig, ModelKind};
use landfall_train::nn::NormKind;
use landfall_train::train::{Session, TrainingOptions};
use small::{cross_asset, patchtst};

type Check = Result<(), Box<dyn std::error::Error>>;
const BATCH: usize = 16;

fn session(
    engine: &Engine,
    model: &ModelConfig,
    options: TrainingOptions,
) -> Result<Session, Box<dyn std::error::Error>> {
    small::session(engine, model, TrainingOptions { batch: BATCH, ..options })
}

/// After one step the first moments are a tenth of the clipped gradients: they, the loss and the norm agree with those
/// of the whole batch within rounding.
fn micro_batches_make_the_update_of_the_batch(engine: &Engine) -> Check {
    let models = [
        patchtst(NormKind::Layer, 0.0)?,
        ModelKind::WindowRegressor.config(),
        ModelConfig::Dlinear(DLinearConfig { context: 32, horizon: 8, kernel: 5, outputs: 1 }),
        cross_asset(0.0),
    ];
    for model in &models {
        let mut whole = session(engine, model, TrainingOptions::default())?;
        whole.step()?;
        let expected = whole.records(1, 1)?[0];
        for accumulate in [2, 4, BATCH] {
            let options = TrainingOptions { accumulate, ..TrainingOptions::default() };
            let mut cut = session(engine, model, options)?;
            cut.step()?;
            let got = cut.records(1, 1)?[0];
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
            assert!(near(got.loss, expected.loss), "{accumulate}: {got:?}, {expected:?}");
            assert!(near(got.grad_norm, expected.grad_norm), "{accumulate}: {got:?}, {expected:?}");
            let (mut worst, mut largest) = (0.0f64, 0.0f64);
            for p in whole.model().parameters().list() {
                let name = format!("moment.first.{}", p.name);
                let (a, b) = (cut.state.read_host(&name)?.data, whole.state.read_host(&name)?.data);
                largest = b.iter().fold(largest, |m, x| m.max(x.abs()));
                worst = a.iter().zip(&b).fold(worst, |m, (x, y)| m.max((x - y).abs()));
            }
            assert!(largest > 0.0 && worst <= 1e-6 * largest, "{accumulate}: {worst} of {largest}");
            assert_eq!(cut.position()?, (1, 0, 1));
        }
    }
    Ok(())
}

/// Micro-batches draw masks of their own, batch norm moves its running statistics by the micro-batches' means, and
/// replays give the bytes of issued calls, in every dtype.
fn replays_are_issued_steps(engine: &Engine) -> Check {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for model in [patchtst(NormKind::Batch, 0.2)?, cross_asset(0.2)] {
            let options = || TrainingOptions { accumulate: 4, dtype, ..TrainingOptions::default() };
            let (mut replayed, mut issued) =
                (session(engine, &model, options())?, session(engine, &model, options())?);
            for _ in 0..12 {
                replayed.step()?;
                issued.issue()?;
            }
            for entry in replayed.state.spec().slabs().iter().flat_map(|s| &s.entries) {
                let (a, b) = (replayed.state.read_host(&entry.name)?, issued.state.read_host(&entry.name)?);
                let equal = a.data.iter().zip(&b.data).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(equal, "{dtype} {}", entry.name);
            }
            let losses: Vec<f64> = replayed.records(1, 12)?.iter().map(|r| r.loss).collect();
            assert!(losses.iter().all(|l| l.is_finite() && *l > 0.0), "{dtype}: {losses:?}");
            for b in replayed.model().parameters().buffers() {
                let moved = replayed.state.read_host(&b.name)?.data.iter().any(|x| *x != b.init);
                assert!(moved, "{dtype} {} stands still", b.name);
            }
        }
    }
    Ok(())
}

/// Micro-batches that are laid out next to each other, 2 or 4 or as the device does by itself, give the bytes of those
/// that are not.
fn unrolled_or_not_gives_the_same_bytes(engine: &Engine) -> Check {
    for (dtype, model) in [
        (DType::F32, patchtst(NormKind::Batch, 0.2)?),
        (DType::BF16, cross_asset(0.2)),
        (DType::F16, cross_asset(0.0)),
    ] {
        let options = || TrainingOptions { accumulate: 8, dtype, ..TrainingOptions::default() };
        let mut plain = session(&engine.with_unroll(1), &model, options())?;
        (0..6).try_for_each(|_| plain.step())?;
        let (each, times) = plain.programs()[0].report().repeated;
        assert_eq!(times, 8);
        for engine in [engine.with_unroll(2), engine.with_unroll(4), engine.clone()] {
            let mut laid_out = session(&engine, &model, options())?;
            let repeated = laid_out.programs()[0].report().repeated;
            let count = repeated.0 / each;
            assert_eq!((repeated.0, repeated.1), (each * count, 8 / count));
            assert!(engine.unroll().is_none_or(|asked| asked == count), "{count}");
            (0..6).try_for_each(|_| laid_out.step())?;
            for entry in plain.state.spec().slabs().iter().flat_map(|s| &s.entries) {
                let (a, b) = (plain.state.read_host(&entry.name)?, laid_out.state.read_host(&entry.name)?);
                let equal = a.data.iter().zip(&b.data).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(equal, "{dtype}, {count} times: {}", entry.name);
            }
        }
    }
    Ok(())
}

/// Whole batches and all windows are scored the same, whatever a batch is cut into.
fn evaluation_does_not_depend_on_the_cut(engine: &Engine) -> Check {
    use landfall_train::data::Segment;
    for model in [patchtst(NormKind::Layer, 0.0)?, cross_asset(0.0)] {
        let mut whole = session(engine, &model, TrainingOptions::default())?;
        let expected = whole.evaluate(Segment::Test)?;
        let options = TrainingOptions { accumulate: 8, ..TrainingOptions::default() };
        let got = session(engine, &model, options)?.evaluate(Segment::Test)?;
        assert_eq!((got.windows, got.windows_drop_last), (expected.windows, expected.windows_drop_last));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs();
        assert!(near(got.errors().0, expected.errors().0), "{got:?} {expected:?}");
        let whole = |e: &landfall_train::train::Evaluation| e.errors_drop_last().map_or(0.0, |e| e.0);
        assert!(near(whole(&got), whole(&expected)) && whole(&got) > 0.0, "{got:?} {expected:?}");
        match (got.classes, expected.classes) {
            (Some(a), Some(b)) => {
                assert!(near(a.cross_entropy, b.cross_entropy) && near(a.accuracy, b.accuracy));
            }
            (a, b) => assert_eq!(a, b),
        }
    }
    Ok(())
}

on_each_device!(
    micro_batches_make_the_update_of_the_batch,
    replays_are_issued_steps,
    unrolled_or_not_gives_the_same_bytes,
    evaluation_does_not_depend_on_the_cut,
);

#[test]
fn one_replay_does_all_micro_batches_in_the_memory_of_one() -> Check {
    let engine = Engine::null();
    let model = cross_asset(0.0);
    let mut arena = Vec::new();
    for accumulate in [1, BATCH] {
        let options = TrainingOptions { accumulate, ..TrainingOptions::default() };
        let mut s = session(&engine, &model, options)?;
        let report = s.programs()[0].report();
        let before = engine.counters();
        s.step()?;
        let after = engine.counters();
        assert_eq!(after.replays - before.replays, 1);
        assert_eq!((after.launches - before.launches) as usize, report.launches);
        let (repeated, times) = report.repeated;
        assert_eq!(report.launches, repeated * times + report.instructions - repeated);
        assert_eq!(times, accumulate);
        arena.push(report.arena_bytes);
    }
    assert!(arena[1] < arena[0], "{arena:?}");
    Ok(())
}

#[test]
fn a_batch_is_cut_into_equal_parts() -> Check {
    let engine = Engine::null();
    for accumulate in [0, 3, 2 * BATCH] {
        let options = TrainingOptions { accumulate, ..TrainingOptions::default() };
        let told = session(&engine, &cross_asset(0.0), options).err().ok_or("refused")?.to_string();
        let expected = format!("accumulate is {accumulate}; it must be a divisor of the batch");
        assert!(told.contains(&expected), "{told}");
    }
    Ok(())
}
