//! The window-regressor: the model whose loss once froze because an op ignored its destination (regression 1).

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{DType, Engine, HostTensor};
use landfall_forecast::run::Preset;
use landfall_train::data::synthetic::walk;
use landfall_train::models::{ModelKind, PatchTstConfig, WindowRegressor, WindowRegressorConfig};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn options(dtype: DType, batch: usize, epochs: usize) -> TrainingOptions {
    TrainingOptions {
        batch,
        epochs,
        dtype,
        seed: 7,
        ..Preset::of(ModelKind::WindowRegressor).recipe.options()
    }
}

fn session(
    engine: &Engine,
    config: WindowRegressorConfig,
    data: &Dataset,
    options: TrainingOptions,
) -> Result<Session> {
    let context = config.0.context;
    Ok(Session::new(engine, Box::new(WindowRegressor::new(config)?), data, context, 1, options)?)
}

/// Every entry that a step may change.
fn entries(s: &Session) -> Vec<String> {
    let slabs = s.state.spec().slabs().iter().filter(|s| !s.constant && s.name != "reports");
    slabs.flat_map(|s| s.entries.iter().map(|e| e.name.clone())).collect()
}

fn snapshot(s: &Session) -> Result<Vec<(String, HostTensor)>> {
    entries(s).into_iter().map(|n| Ok((n.clone(), s.state.read_host(&n)?))).collect()
}

#[test]
fn has_the_published_number_of_parameters() -> Result<()> {
    for (name, count) in [
        ("window-regressor", 101_185),
        ("patchtst-42", 81_728),
        ("patchtst-64", 115_872),
        ("patchtst-deep", 22_101_600),
        ("dlinear", 2 * (336 * 96 + 96)),
    ] {
        let preset = Preset::named(name).ok_or(name)?;
        assert_eq!(preset.config().build()?.parameters().count(), count, "{name}");
    }
    Ok(())
}

on_each_device!(fifteen_samples_are_learned, r01_each_step_agrees_with_f64);

fn fifteen_samples_are_learned(engine: &Engine) -> Result<()> {
    let WindowRegressorConfig(base) = WindowRegressorConfig::default();
    let config =
        PatchTstConfig { context: 8, patch: 4, stride: 4, d_model: 8, heads: 2, layers: 1, d_ff: 32, ..base };
    let config = WindowRegressorConfig(config);
    let data = Dataset::regression(&walk(15, 1, 8, 1)?);
    let mut s = session(engine, config, &data, options(DType::F32, 15, 10))?;
    for _ in 0..10 {
        s.step()?;
    }
    let losses: Vec<f64> = s.records(1, 10)?.iter().map(|r| r.loss).collect();
    println!("losses {losses:?}");
    assert!(losses[9] < 0.7 * losses[0], "{losses:?}");
    Ok(())
}

/// 50 steps of 5,000 × 10 in f64 on the processor; before each step the f32 session is given the f64 one's state, and must
/// take the same step. (Whole trajectories drift apart by rounding, so they are not compared.)
fn r01_each_step_agrees_with_f64(engine: &Engine) -> Result<()> {
    let data = walk(5000, 10, 24, 3)?;
    let labels = data.labels.clone();
    let data = Dataset::regression(&data);
    let config = WindowRegressorConfig::default();
    let mut reference = session(&Engine::cpu()?, config.clone(), &data, options(DType::F64, 64, 3))?;
    let mut tested = session(engine, config, &data, options(DType::F32, 64, 3))?;
    let steps = 50;
    let start = snapshot(&reference)?;
    let (mut loss, mut norm, mut weight) = (0.0f64, 0.0f64, 0.0f64);
    for step in 1..=steps {
        for (name, value) in snapshot(&reference)? {
            tested.state.write_host(&name, &value)?;
        }
        reference.step()?;
        tested.step()?;
        let (want, got) = (reference.records(step, step)?[0], tested.records(step, step)?[0]);
        assert_eq!(got.step, step);
        loss = loss.max((got.loss - want.loss).abs() / want.loss);
        norm = norm.max((got.grad_norm - want.grad_norm).abs() / want.grad_norm);
        for p in reference.model().parameters().list() {
            let (w, g) = (reference.state.read_host(&p.name)?, tested.state.read_host(&p.name)?);
            // Where the gradient is mere rounding Adam still takes whole steps, so parameters are compared by their sum
            // of squares, not element by element.
            let size = |t: &HostTensor| t.data.iter().map(|x| x * x).sum::<f64>().sqrt();
            weight = weight.max((size(&w) - size(&g)).abs() / size(&w).max(1e-3));
        }
    }
    println!(
        "{}: largest relative errors over {steps} steps: loss {loss:.1e}, gradient norm {norm:.1e}, weights {weight:.1e}",
        engine.device()
    );
    assert!(loss <= LOSS && norm <= NORM && weight <= WEIGHT, "{loss:e} {norm:e} {weight:e}");

    let zero = labels.iter().map(|&y| f64::from(y).powi(2)).sum::<f64>() / labels.len() as f64;
    let last = tested.records(steps, steps)?[0].loss;
    assert!((last - zero).abs() > 0.05 * zero, "loss {last} is that of predicting nothing, {zero}");
    let first = tested.records(1, 1)?[0].loss;
    assert!(last < 0.5 * first, "loss went from {first} to {last}");
    // Softmax takes no notice of a shift of its scores, so keys have no gradient through their bias.
    for p in reference.model().parameters().list() {
        let before =
            start.iter().find(|(n, _)| *n == p.name).map(|(_, v)| v.data.clone()).unwrap_or_default();
        let after = tested.state.read_host(&p.name)?.data;
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(moved * 3 >= after.len(), "{}: {moved} of {} elements moved", p.name, after.len());
    }
    Ok(())
}

// Ten times what was measured on a processor: 1.2e-6, 7.0e-7, 7.2e-6 (weights whose true gradient is zero start from 0 and
// take whole steps of rounding, which the measure of sizes sees).
const LOSS: f64 = 1.2e-5;
const NORM: f64 = 7.0e-6;
const WEIGHT: f64 = 7.2e-5;
