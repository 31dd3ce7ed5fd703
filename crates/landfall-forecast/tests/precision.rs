//! Training in bf16 and f16: near f32, through overflows, with small updates, and resumed with the same bytes.

#[path = "../../landfall-train/examples/own_model.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main runs as an example; here its model is used")]
mod example;

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use example::Drift;
use gpu::on_each_device;
use landfall::{DType, Engine, HostTensor, ops};
use landfall_forecast::run::Preset;
use landfall_train::checkpoint::{File, Progress, load_checkpoint, save};
use landfall_train::data::{Split, TokenSegments, synthetic};
use landfall_train::models::{Columns, ModelConfig, PatchTst, PatchTstConfig, Predicts};
use landfall_train::nn::{Init, Parameters};
use landfall_train::train::{Dataset, Loss, OptimizerKind, Session, TrainingOptions};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

on_each_device!(
    every_preset_stays_near_f32,
    f16_survives_an_overflow,
    bf16_keeps_small_updates,
    resumed_runs_have_the_same_bytes,
);

fn options(dtype: DType) -> TrainingOptions {
    TrainingOptions { batch: 8, epochs: 1000, clip: Some(1.0), dtype, ..TrainingOptions::default() }
}

/// A small PatchTST with batch norm, residual attention and dropout on a generated series.
fn session(engine: &Engine, options: TrainingOptions) -> Result<Session> {
    let config = PatchTstConfig { context: 96, horizon: 24, ..PatchTstConfig::default() };
    let series = synthetic::demo(600, 3, 1)?;
    let (dataset, _) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 96, 24)?;
    Ok(Session::new(engine, Box::new(PatchTst::new(config)?), &dataset, 96, 24, options)?)
}

/// Every entry that a step may change but the loss scale.
fn snapshot(s: &Session) -> Result<Vec<(String, HostTensor)>> {
    let slabs = s.state.spec().slabs().iter();
    let slabs = slabs.filter(|s| !s.constant && s.name != "reports" && s.name != "loss scale");
    let names = slabs.flat_map(|s| s.entries.iter().map(|e| e.name.clone()));
    names.map(|n| Ok((n.clone(), s.state.read_host(&n)?))).collect()
}

fn relative(got: f64, want: f64) -> f64 {
    (got - want).abs() / want.abs()
}

/// Loss and gradient norm of one step of every preset beside f32. The bounds are twice the largest measured.
fn every_preset_stays_near_f32(engine: &Engine) -> Result<()> {
    for preset in Preset::ALL {
        let config = preset.config().with_columns(Columns::only(2));
        let dataset = match config.predicts() {
            Predicts::Rows(_) => {
                let series = synthetic::demo(4 * (config.context() + config.horizon()), 2, 1)?;
                Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context(), config.horizon())?.0
            }
            Predicts::Value => Dataset::regression(&synthetic::walk(64, 10, config.context(), 1)?),
            Predicts::Classes(_) => {
                let data = synthetic::assets(64, config.tokens().unwrap_or(2), config.context(), 1)?;
                Dataset::classification(&data, TokenSegments::new(&data, Split::ratio(0.7, 0.1, 0.2)?)?)
            }
        };
        let loss = if config.tokens().is_some() { Loss::CrossEntropy } else { Loss::Mse };
        // The batch norm of TSMixer divides by the spread of a single value over the batch, which two windows do not determine;
        // of the few hidden values that its dropout of 0.9 leaves, some change their sign.
        let (batch, larger) = if matches!(config, ModelConfig::Tsmixer(_)) { (32, 10.0) } else { (2, 1.0) };
        let step = |dtype| -> Result<(f64, f64)> {
            let (model, options) =
                (config.build()?, TrainingOptions { batch, loss: loss.clone(), ..options(dtype) });
            let mut s =
                Session::new(engine, model, &dataset, config.context(), config.predicts().values(), options)?;
            // The first loss scale may be too large; nothing else keeps a step from going through.
            let mut tried = 0;
            while s.position()?.0 == 0 && tried < if dtype == DType::F16 { 8 } else { 1 } {
                s.step()?;
                tried += 1;
            }
            assert_eq!(s.position()?.0, 1, "{} in {dtype}: {tried} steps, none sound", preset.name);
            let window = vec![0.5; dataset.channels * config.context()];
            assert!(s.predict(&window)?.iter().all(|y| y.is_finite()), "{} in {dtype}", preset.name);
            let record = s.records(1, 1)?[0];
            Ok((record.loss, record.grad_norm))
        };
        let (loss, norm) = step(DType::F32)?;
        for (dtype, bounds) in [(DType::BF16, (4e-3, 2e-3)), (DType::F16, (1e-3, 1e-3))] {
            let got = step(dtype)?;
            let far = (relative(got.0, loss), relative(got.1, norm));
            println!("{} in {dtype}: loss off by {:.1e}, gradient norm by {:.1e}", preset.name, far.0, far.1);
            assert!(far.0 <= bounds.0 && far.1 <= larger * bounds.1, "{} in {dtype}: {far:?}", preset.name);
            assert!(far.0 > 1e-9, "{} in {dtype} is f32", preset.name);
        }
    }
    Ok(())
}

/// A scale that overflows f16: the step changes nothing but the scale, which halves until the step goes through.
fn f16_survives_an_overflow(engine: &Engine) -> Result<()> {
    let mut s = session(engine, options(DType::F16))?;
    assert_eq!(s.loss_scale()?, Some([65536.0, 0.0]));
    (0..3).try_for_each(|_| s.step())?;
    assert_eq!(s.position()?.0, 3);
    assert_eq!(s.loss_scale()?, Some([65536.0, 3.0]));
    let before = snapshot(&s)?;
    assert!(before.iter().any(|(name, _)| name.ends_with("running_mean")), "running statistics are compared");
    let injected = 2f32.powi(60);
    s.state.write("loss scale", &[injected, 3.0])?;
    s.step()?;
    assert_eq!(s.loss_scale()?, Some([injected / 2.0, 0.0]));
    for ((name, was), (_, is)) in before.iter().zip(snapshot(&s)?) {
        assert_eq!(*was, is, "{name}");
    }
    let mut skipped = 1;
    while s.position()?.0 == 3 {
        s.step()?;
        skipped += 1;
        assert!(skipped < 60, "no scale is small enough: {:?}", s.loss_scale()?);
    }
    let [scale, run] = s.loss_scale()?.ok_or("f16 has a scale")?;
    assert_eq!((scale, run), (injected / 2f32.powi(skipped - 1), 1.0));
    let (frozen, moved) = (&before, snapshot(&s)?);
    let still: Vec<&String> =
        frozen.iter().zip(&moved).filter(|(a, b)| a.1 == b.1).map(|(a, _)| &a.0).collect();
    assert!(
        still.iter().all(|n| n.as_str() == "cursor.evaluation" || n.starts_with("evaluation.")),
        "{still:?}"
    );
    // What the scale is does not show in what is learned.
    let mut undisturbed = session(engine, options(DType::F16))?;
    (0..4).try_for_each(|_| undisturbed.step())?;
    let (a, b) = (s.records(4, 4)?[0], undisturbed.records(4, 4)?[0]);
    assert_eq!(a.loss, b.loss);
    assert!(relative(a.grad_norm, b.grad_norm) < 2e-3, "{} {}", a.grad_norm, b.grad_norm);
    Ok(())
}

/// 400 updates of 10⁻⁵ to weights of 1: in bf16, whose values near 1 are 2⁻⁸ apart, each rounds to nothing.
fn bf16_keeps_small_updates(engine: &Engine) -> Result<()> {
    const STEPS: usize = 400;
    const LR: f64 = 1e-5;
    // Adam on weights that are bf16 themselves, with a gradient that always points one way.
    let four = |dtype, value| engine.from_host(&HostTensor::new(dtype, [4], vec![value; 4])?);
    let scalar = |dtype, value| engine.from_host(&HostTensor::new(dtype, [], vec![value])?);
    let (mut weight, gradient) = (four(DType::BF16, 1.0)?, four(DType::F32, 0.5)?);
    let (mut first, mut second) = (four(DType::F32, 0.0)?, four(DType::F32, 0.0)?);
    let (lr, one, ok) = (scalar(DType::F64, LR)?, scalar(DType::F32, 1.0)?, scalar(DType::Bool, 1.0)?);
    let op = ops::Adam { weight_decay: 0.0, ..ops::Adam::default() };
    for step in 0..STEPS {
        let cursor = engine.tensor([ops::cursor::LEN], &[step as i64, 0, 0, 0, 0, 0, 0, 0])?;
        engine.call_updating(
            &op,
            &[0, 2, 3],
            &mut [weight.view_mut(), first.view_mut(), second.view_mut()],
            &[gradient.view(), cursor.view(), lr.view(), one.view(), ok.view()],
        )?;
    }
    assert_eq!(weight.read::<landfall::half::bf16>()?, [landfall::half::bf16::ONE; 4], "pure bf16 stalls");

    let series = synthetic::demo(2000, 3, 1)?;
    let data = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 48, 12)?.0;
    let mut p = Parameters::new();
    let id = p.add("drift.weight", [12, 48], Init::Constant(1.0));
    let options = TrainingOptions {
        lr: LR,
        optimizer: OptimizerKind::Adam,
        dtype: DType::BF16,
        ..options(DType::BF16)
    };
    let mut s = Session::new(engine, Box::new(Drift(p, id)), &data, 48, 12, options)?;
    (0..STEPS).try_for_each(|_| s.step())?;
    let weights = s.state.read::<f32>("drift.weight")?;
    let moved = weights.iter().map(|w| f64::from((w - 1.0).abs())).sum::<f64>() / weights.len() as f64;
    println!("mean way of a weight in {STEPS} steps of {LR}: {moved:.2e}");
    assert!(moved > 0.25 * STEPS as f64 * LR, "{moved}");
    Ok(())
}

/// A run that is saved and loaded goes on with the bytes that it would have had.
fn resumed_runs_have_the_same_bytes(engine: &Engine) -> Result<()> {
    for dtype in [DType::BF16, DType::F16] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("checkpoint.safetensors");
        let mut s = session(engine, options(dtype))?;
        (0..2).try_for_each(|_| s.step())?;
        if dtype == DType::F16 {
            // A scale that only the state knows.
            s.state.write("loss scale", &[2f32.powi(11), 1234.0])?;
        }
        s.step()?;
        let (step, epoch, batch) = s.position()?;
        save(&path, &s, "", &Progress { step, epoch, batch, ..Progress::default() }, true)?;
        (0..3).try_for_each(|_| s.step())?;
        let mut again = session(engine, options(dtype))?;
        load_checkpoint(&path, &File::read(&path)?, &mut again)?;
        (0..3).try_for_each(|_| again.step())?;
        assert_eq!(s.loss_scale()?, again.loss_scale()?);
        assert_eq!(s.loss_scale()?, (dtype == DType::F16).then_some([2f32.powi(11), 1238.0]));
        for ((name, a), (_, b)) in snapshot(&s)?.iter().zip(snapshot(&again)?) {
            assert_eq!(a.data, b.data, "{dtype}: {name}");
        }
        assert_eq!(s.records(4, 6)?, again.records(4, 6)?);
        // A file without the scale is refused, and the session stays as it was.
        if dtype == DType::F16 {
            let mut file = File::read(&path)?;
            file.metadata.remove("loss scale");
            let before = snapshot(&again)?;
            let told = load_checkpoint(&path, &file, &mut again).map_err(|e| e.to_string());
            assert!(told.as_ref().is_err_and(|t| t.contains("loss scale")), "{told:?}");
            assert_eq!(before, snapshot(&again)?);
        }
    }
    Ok(())
}
