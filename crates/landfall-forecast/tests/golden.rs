//! The official PatchTST's training trace on ETTh1, step by step. Skipped, visibly, where the shared files are absent.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::{gpu, on_each_device};
use landfall::Engine;
use landfall_forecast::run::Precision;
use landfall_train::checkpoint::{File, load_weights};
use landfall_train::data::{self, Split};
use landfall_train::models::{PatchTst, PatchTstConfig};
use landfall_train::train::{Betas, Dataset, OptimizerKind, Order, Schedule, Session, TrainingOptions};
use std::error::Error;
use std::path::PathBuf;

fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("LANDFALL_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    if folder.join("golden").is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {} has no golden files (LANDFALL_SHARED names the folder)", folder.display());
    None
}

fn session(
    engine: &Engine,
    folder: &std::path::Path,
    precision: Precision,
    weights: &str,
) -> Result<Session, Box<dyn Error>> {
    let series = data::read(folder.join("data/ETTh1.csv"), &data::ReadOptions::default())?;
    let config = PatchTstConfig { dropout: 0.0, ..PatchTstConfig::default() };
    let (context, horizon) = (config.context, config.horizon);
    let (dataset, _) = Dataset::forecast(series, Split::Ett, context, horizon)?;
    let (dtype, products) = precision.parts();
    let options = TrainingOptions {
        batch: 128,
        epochs: 1,
        max_steps: Some(20),
        lr: 1e-4,
        schedule: Schedule::Constant,
        optimizer: OptimizerKind::Adam,
        betas: Betas { first: 0.9, second: 0.999 },
        weight_decay: 0.0,
        clip: None,
        dtype,
        products,
        seed: 2021,
        order: Order::Sequential,
        ..TrainingOptions::default()
    };
    let mut session =
        Session::new(engine, Box::new(PatchTst::new(config)?), &dataset, context, horizon, options)?;
    let path = folder.join("golden").join(weights);
    load_weights(&path, &File::read(&path)?, &mut session)?;
    Ok(session)
}

/// Largest relative error of a trace.
fn worst(got: &[f64], want: &[f64]) -> f64 {
    got.iter().zip(want).map(|(g, w)| (g - w).abs() / w.abs()).fold(0.0, f64::max)
}

/// How far a trace may be off: losses and gradient norms relatively, final weights absolutely, those whose true gradient
/// is zero apart.
struct Bounds {
    loss: f64,
    norm: f64,
    weights: f64,
    idle: f64,
}

fn trace(engine: &Engine, precision: Precision, bounds: &Bounds) -> Result<(), Box<dyn Error>> {
    let Some(folder) = shared() else { return Ok(()) };
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("golden/patchtst42_etth1_h96.json"))?)?;
    let series = |name: &str| -> Vec<f64> {
        golden[name]
            .as_array()
            .map(|a| a.iter().filter_map(serde_json::Value::as_f64).collect())
            .unwrap_or_default()
    };
    let mut s = session(engine, &folder, precision, "patchtst42_etth1_h96.init.safetensors")?;
    for _ in 0..20 {
        s.step()?;
    }
    let records = s.records(1, 20)?;
    let losses: Vec<f64> = records.iter().map(|r| r.loss).collect();
    let norms: Vec<f64> = records.iter().map(|r| r.grad_norm).collect();
    let (loss, norm) = (worst(&losses, &series("loss")), worst(&norms, &series("grad_norm")));
    println!(
        "{precision:?} on {}: largest relative error of 20 losses {loss:.2e}, of 20 gradient norms {norm:.2e}",
        engine.device()
    );
    assert_eq!(series("loss").len(), 20);
    assert!(loss <= bounds.loss && norm <= bounds.norm, "losses {losses:?}\nnorms {norms:?}");

    // True gradients of these are zero, and Adam makes whole steps of rounding; the running means follow them.
    let loose = ["W_K.bias", "W_V.bias", "to_out.0.bias", "ff.3.bias", "running_mean"];
    let file = File::read(&folder.join("golden/patchtst42_etth1_h96.final.safetensors"))?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("final.safetensors");
    landfall_train::checkpoint::save(&path, &s, "", &landfall_train::checkpoint::Progress::default(), false)?;
    let ours = File::read(&path)?;
    let (mut tight, mut wide) = (0.0f64, 0.0f64);
    for (name, want) in &file.tensors {
        if name.ends_with("num_batches_tracked") {
            continue;
        }
        let got = ours.tensors.get(name).ok_or_else(|| format!("{name} is not in our checkpoint"))?;
        assert_eq!(got.spec.shape, want.spec.shape, "{name}");
        let error = got
            .host()
            .expect("whole")
            .data
            .iter()
            .zip(&want.host().expect("whole").data)
            .map(|(g, w)| (g - w).abs())
            .fold(0.0, f64::max);
        let slot = if loose.iter().any(|l| name.ends_with(l)) { &mut wide } else { &mut tight };
        *slot = slot.max(error);
    }
    println!(
        "{precision:?}: largest error of final weights {tight:.2e}, of those with a zero gradient {wide:.2e}"
    );
    assert!(tight <= bounds.weights && wide <= bounds.idle);
    Ok(())
}

#[test]
fn trace_f32_cpu() -> Result<(), Box<dyn Error>> {
    let bounds = Bounds { loss: 2e-6, norm: 2e-6, weights: 2e-5, idle: 2e-3 };
    trace(&Engine::cpu()?, Precision::F32, &bounds)
}

#[test]
fn trace_f32_cuda() -> Result<(), Box<dyn Error>> {
    let bounds = Bounds { loss: 5e-6, norm: 5e-6, weights: 2e-5, idle: 2e-3 };
    gpu()?.map_or(Ok(()), |engine| trace(&engine, Precision::F32, &bounds))
}

/// Only a GPU has it.
#[test]
fn trace_tf32_cuda() -> Result<(), Box<dyn Error>> {
    let bounds = Bounds { loss: 2e-4, norm: 6e-4, weights: 4e-3, idle: 4e-3 };
    gpu()?.map_or(Ok(()), |engine| trace(&engine, Precision::Tf32, &bounds))
}

#[test]
fn trace_f64() -> Result<(), Box<dyn Error>> {
    let bounds = Bounds { loss: 1e-7, norm: 1e-7, weights: 2e-5, idle: 2e-3 };
    trace(&Engine::cpu()?, Precision::F64, &bounds)
}

/// Adam's first steps have the length of the learning rate whatever the gradient's size, so where rounding turns its sign a
/// weight is twice the way of 20 steps of 10⁻⁴ off.
const HALF: Bounds = Bounds { loss: 2e-3, norm: 5e-3, weights: 4e-3, idle: 4e-3 };

fn trace_bf16(engine: &Engine) -> Result<(), Box<dyn Error>> {
    trace(engine, Precision::Bf16, &HALF)
}

fn trace_f16(engine: &Engine) -> Result<(), Box<dyn Error>> {
    trace(engine, Precision::F16, &HALF)
}

on_each_device!(trace_bf16, trace_f16, predictions_of_the_final_weights);

fn predictions_of_the_final_weights(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let Some(folder) = shared() else { return Ok(()) };
    let want = File::read(&folder.join("golden/patchtst42_etth1_h96.predict.safetensors"))?;
    let starts = want.tensors["windows_start"].host().expect("whole").data;
    let predictions = want.tensors["prediction"].host().expect("whole").data;
    let mut s = session(engine, &folder, Precision::F32, "patchtst42_etth1_h96.final.safetensors")?;
    let values = s.state.read_host("data.values")?;
    let (channels, rows) = (values.dims()[0], values.dims()[1]);
    let mut worst = 0.0f64;
    for (w, &start) in starts.iter().enumerate() {
        let start = start as usize;
        let context: Vec<f64> =
            (0..channels).flat_map(|c| values.data[c * rows + start..][..336].to_vec()).collect();
        let got = s.predict(&context)?;
        for c in 0..channels {
            for h in 0..96 {
                worst = worst.max((got[c * 96 + h] - predictions[(w * 96 + h) * channels + c]).abs());
            }
        }
    }
    println!("largest error of {} predictions: {worst:.2e}", predictions.len());
    assert!(worst <= 1e-5);
    Ok(())
}
