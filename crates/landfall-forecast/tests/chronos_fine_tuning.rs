//! Chronos-2 trained further: choice by validation, resumption to the byte, adapters merged and apart. Beside the authors' model and PyTorch
//! it is tested in Python.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{DeviceKind, Engine};
use landfall_forecast::chronos::{
    Adapter, ChronosError, FineTuning, FineTuningOptions, Forecaster, Group, Known, Verdict, Weights,
};
use landfall_forecast::run::Precision;
use landfall_train::checkpoint::File;
use landfall_train::models::chronos::Chronos2Config;
use landfall_train::nn::LowRank;
use serde_json::json;
use std::path::Path;

type Done = Result<(), Box<dyn std::error::Error>>;

on_each_device!(
    the_loss_falls_and_the_best_weights_are_kept,
    a_training_of_rounded_products_is_near_that_in_f32,
    weights_that_no_step_makes_better_stay,
    a_training_that_was_stopped_has_the_bytes_of_one_without_a_break,
    an_adapter_apart_is_the_merged_one,
);

/// Initial weights in a folder.
fn weights(path: &Path) -> Result<Weights, Box<dyn std::error::Error>> {
    let sizes = Chronos2Config {
        patch: 4,
        context: 32,
        patches: 2,
        levels: vec![0.1, 0.5, 0.9],
        width: 16,
        features: 4,
        heads: 2,
        hidden: 24,
        layers: 2,
        arcsinh: true,
        time_scale: 32.0,
        eps: 1e-6,
        rope: 1e4,
    };
    Weights::initial(sizes, 1)?.write(path)?;
    Ok(Weights::read(path)?)
}

fn engine() -> Result<Engine, landfall::Error> {
    Engine::cpu_with_threads(2)
}

fn wave(rows: usize, first: usize) -> Vec<f64> {
    (first..first + rows).map(|i| 10.0 + (i as f64 * 0.7).sin() * 3.0).collect()
}

/// Groups with missing values and all kinds of series; some shorter than the context.
fn groups() -> Vec<Group> {
    let of = |(number, rows): (usize, usize)| {
        let mut group = Group {
            targets: vec![wave(rows, number), wave(rows, number + 4)],
            past: vec![wave(rows, number + 2)],
            known: vec![Known { past: wave(rows, 3 * number), future: Vec::new() }],
        };
        group.targets[0][rows / 2] = f64::NAN;
        group.targets[1][..8].fill(f64::NAN);
        group
    };
    [60, 25, 90, 31, 12].into_iter().enumerate().map(of).collect()
}

fn options() -> FineTuningOptions {
    let lr = Some(3e-3);
    FineTuningOptions { steps: 24, batch: 16, every: 8, lr, ..FineTuningOptions::new(6) }
}

fn low_rank() -> LowRank {
    LowRank { rank: 2, ..FineTuningOptions::low_rank() }
}

fn written(weights: &Weights, folder: &Path) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    weights.write(folder)?;
    Ok(std::fs::read(folder.join("model.safetensors"))?)
}

fn the_loss_falls_and_the_best_weights_are_kept(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let base = weights(temporary.path())?;
    for adapter in [None, Some(low_rank())] {
        let own = FineTuningOptions { adapter, steps: 60, lr: Some(1e-2), ..options() };
        let mut training = FineTuning::new(engine, &base, own, groups(), &groups()[..2], None)?;
        assert_eq!(training.run(|| false, |_| ())?, Verdict::Complete);
        let losses: Vec<f64> = training.points().iter().flat_map(|p| p.losses.clone()).collect();
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        assert_eq!(losses.len(), 60);
        assert!(mean(&losses[50..]) < 0.7 * mean(&losses[..10]), "{losses:?}");
        let validations: Vec<f64> = training.points().iter().filter_map(|p| p.validation).collect();
        assert_eq!(validations.len(), 1 + 60_usize.div_ceil(8));
        let least = validations.iter().copied().fold(f64::INFINITY, f64::min);
        let (step, loss) = training.chosen().ok_or("a choice")?;
        assert_eq!(loss, least);
        assert!(step > 0 && loss < validations[0]);
        // What was written is what was chosen: the same loss before the first step of another training.
        training.weights()?.write(&temporary.path().join("tuned"))?;
        let tuned = Weights::read(&temporary.path().join("tuned"))?;
        let again = FineTuningOptions { steps: 1, ..options() };
        let mut again = FineTuning::new(engine, &tuned, again, groups(), &groups()[..2], None)?;
        again.run(|| false, |_| ())?;
        let first = again.points()[0].validation.ok_or("a validation")?;
        assert!((first - loss).abs() < 1e-5 * loss, "{first} {loss}");
    }
    Ok(())
}

/// Products in 16 bits, or of TF32, weights in 32.
fn a_training_of_rounded_products_is_near_that_in_f32(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let base = weights(temporary.path())?;
    let losses = |dtype: Precision, adapter| -> Result<Vec<f64>, Box<dyn std::error::Error>> {
        let own = FineTuningOptions { dtype, adapter, ..options() };
        let mut training = FineTuning::new(engine, &base, own, groups(), &[], None)?;
        training.run(|| false, |_| ())?;
        Ok(training.points().iter().flat_map(|p| p.losses.clone()).collect())
    };
    // Measured at most, on a CPU and an H200: 2.0e-3 and 1.2e-2.
    let both = [(Precision::Tf32, 4e-3), (Precision::Bf16, 2e-2)];
    let rounded = match engine.device() {
        DeviceKind::Cuda(_) => &both[..],
        DeviceKind::Cpu | DeviceKind::Null => &both[1..],
    };
    for adapter in [None, Some(low_rank())] {
        let wide = losses(Precision::F32, adapter.clone())?;
        for (dtype, bound) in rounded {
            let narrow = losses(*dtype, adapter.clone())?;
            let apart = wide.iter().zip(&narrow).map(|(a, b)| (a - b).abs() / a).fold(0.0, f64::max);
            println!("{}: losses {apart:.1e} apart", dtype.name());
            assert!(apart > 0.0 && apart < *bound, "{}: {apart}", dtype.name());
        }
    }
    Ok(())
}

fn weights_that_no_step_makes_better_stay(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let base = weights(temporary.path())?;
    // Trained on one thing at a rate that ruins it, validated on another.
    let own = FineTuningOptions { lr: Some(3.0), ..options() };
    let falling = |rows: usize| Group::of((0..rows).map(|i| -((i * i) as f64)).collect());
    let validation = [Group::of(wave(40, 0))];
    let mut training = FineTuning::new(engine, &base, own, vec![falling(50)], &validation, None)?;
    training.run(|| false, |_| ())?;
    assert_eq!(training.chosen().map(|(step, _)| step), Some(0));
    let (first, second) = (temporary.path().join("first"), temporary.path().join("second"));
    base.with(|p| base.value(p))?.write(&first)?;
    training.weights()?.write(&second)?;
    assert_eq!(
        std::fs::read(first.join("model.safetensors"))?,
        std::fs::read(second.join("model.safetensors"))?
    );
    Ok(())
}

fn a_training_that_was_stopped_has_the_bytes_of_one_without_a_break(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let at = |name: &str| temporary.path().join(name);
    let base = weights(&at("base"))?;
    for (adapter, validation) in [(None, &groups()[2..3]), (Some(low_rank()), &[])] {
        let own = FineTuningOptions { adapter, ..options() };
        let made =
            |folder: Option<&Path>| FineTuning::new(engine, &base, own.clone(), groups(), validation, folder);
        let mut whole = made(None)?;
        whole.run(|| false, |_| ())?;
        let folder = tempfile::tempdir()?;
        let mut runs = 0;
        let broken = loop {
            let mut part = made(Some(folder.path()))?;
            runs += 1;
            // After one step, after three, and so on: the first look comes after one.
            let mut looks = 0;
            let stop = || {
                looks += 1;
                looks == runs
            };
            if part.run(stop, |_| ())? == Verdict::Complete {
                break part;
            }
        };
        assert!(runs > 3, "{runs}");
        assert_eq!(written(&broken.weights()?, &at("broken"))?, written(&whole.weights()?, &at("whole"))?);
        assert_eq!(broken.chosen(), whole.chosen());
        assert_eq!(broken.points(), whole.points());
        // The checkpoint is of an earlier step than the curve, as after a crash between the two.
        let mut early = made(Some(&folder.path().join("early")))?;
        let mut looks = 0;
        early.run(
            || {
                looks += 1;
                looks == 2
            },
            |_| (),
        )?;
        let kept = std::fs::read(folder.path().join("early/checkpoint.safetensors"))?;
        early.run(|| false, |_| ())?;
        std::fs::write(folder.path().join("early/checkpoint.safetensors"), kept)?;
        let mut again = made(Some(&folder.path().join("early")))?;
        assert_eq!(again.points().last().map(|p| p.step), Some(3));
        again.run(|| false, |_| ())?;
        assert_eq!(again.points(), whole.points());
        assert_eq!(again.chosen(), whole.chosen());
        // Another training does not go on there.
        let other = FineTuningOptions { seed: 5, ..own.clone() };
        let why = FineTuning::new(engine, &base, other, groups(), validation, Some(folder.path()));
        assert!(why.err().ok_or("refused")?.to_string().contains("training of other options"));
    }
    Ok(())
}

fn an_adapter_apart_is_the_merged_one(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let at = |name: &str| temporary.path().join(name);
    let base = weights(&at("base"))?;
    let own = FineTuningOptions { adapter: Some(low_rank()), lr: Some(1e-2), ..options() };
    let mut training = FineTuning::new(engine, &base, own, groups(), &[], None)?;
    training.run(|| false, |_| ())?;
    let merged = training.weights()?;
    training.adapter()?.ok_or("an adapter")?.write(&at("adapter"))?;
    let read = Adapter::read(&at("adapter"))?;
    assert_eq!(read, training.adapter()?.ok_or("an adapter")?);
    // Two layers with two attentions of four products, and the head: A and B of each.
    assert_eq!(
        File::read(&at("adapter").join("adapter_model.safetensors"))?.tensors.len(),
        2 * (2 * 2 * 4 + 1)
    );
    let apart = Weights::read(&at("base"))?.merged(&read)?;
    assert_eq!(written(&apart, &at("apart"))?, written(&merged, &at("merged"))?);
    let of = |weights: &Weights| -> Result<_, Box<dyn std::error::Error>> {
        Ok(Forecaster::new(engine, weights)?.forecast(&[Group::of(wave(30, 0))], 8)?)
    };
    assert_ne!(of(&merged)?, of(&base)?);
    // What belongs to another model, or is another form, is told.
    for (key, value, text) in [
        ("r", json!(3), "it must be"),
        ("use_dora", json!(true), "use_dora is true"),
        ("rank_pattern", json!({"q": 3}), "rank_pattern is"),
        ("bias", json!("all"), "bias is \"all\""),
        ("target_modules", json!(["moon"]), "moon"),
        ("target_modules", json!(["self_attention.q"]), "its layers take 8"),
        ("peft_type", json!("IA3"), "only LORA is read"),
    ] {
        let path = at("adapter").join("adapter_config.json");
        let whole = std::fs::read_to_string(&path)?;
        let mut changed: serde_json::Value = serde_json::from_str(&whole)?;
        changed[key] = value;
        std::fs::write(&path, changed.to_string())?;
        let why = Adapter::read(&at("adapter")).and_then(|adapter| base.merged(&adapter));
        std::fs::write(&path, whole)?;
        let why = why.err().ok_or(key)?.to_string();
        assert!(why.contains(text), "{key}: {why}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_trained_on_is_told() -> Done {
    let temporary = tempfile::tempdir()?;
    let base = weights(temporary.path())?;
    let told = |options: FineTuningOptions, groups: Vec<Group>, validation: &[Group]| {
        let made = FineTuning::new(&engine()?, &base, options, groups, validation, None);
        Ok::<_, ChronosError>(made.err().map_or_else(String::new, |why| why.to_string()))
    };
    let one = || vec![Group::of(wave(40, 0))];
    let two = || Group { targets: vec![wave(40, 0), wave(40, 1)], ..Group::default() };
    for (options, groups, validation, text) in [
        (options(), Vec::new(), Vec::new(), "there is no group"),
        (options(), vec![one().remove(0), two()], Vec::new(), "group 1, counted from 0, has 2 targets"),
        (options(), one(), vec![two()], "groups of validation have 2 targets"),
        (options(), vec![Group::of(wave(11, 0))], Vec::new(), "has 11 rows, and a window takes 12"),
        (options(), one(), vec![Group::of(wave(6, 0))], "has 6 rows, and a window takes 7"),
        (
            FineTuningOptions { horizon: 9, ..options() },
            one(),
            Vec::new(),
            "the horizon is 9; it must be 1 to 8",
        ),
        (FineTuningOptions { context: Some(33), ..options() }, one(), Vec::new(), "the context is 33 rows"),
        (FineTuningOptions { steps: 0, ..options() }, one(), Vec::new(), "steps is 0"),
        (FineTuningOptions { dtype: Precision::F64, ..options() }, one(), Vec::new(), "the dtype is f64"),
        (
            FineTuningOptions { dtype: Precision::Tf32, ..options() },
            one(),
            Vec::new(),
            "on the CPU compute in 32-bit floats",
        ),
        (FineTuningOptions { lr: Some(-1.0), ..options() }, one(), Vec::new(), "lr"),
        (options(), vec![Group::of(vec![f64::INFINITY; 40])], Vec::new(), "target 0 has inf in row 0"),
    ] {
        let why = told(options, groups, &validation)?;
        assert!(why.contains(text), "{text}: {why}");
    }
    Ok(())
}

/// The graph that a GPU would capture of a step implies every edge of its plan; the engine refuses otherwise. No GPU is needed.
#[test]
fn a_step_is_one_captured_graph() -> Done {
    let temporary = tempfile::tempdir()?;
    let base = weights(temporary.path())?;
    let planning = Engine::planning_for_cuda();
    for dtype in [Precision::F32, Precision::Tf32, Precision::Bf16, Precision::F16] {
        for adapter in [None, Some(low_rank())] {
            let own = FineTuningOptions { dtype, adapter, ..options() };
            let training = FineTuning::new(&planning, &base, own, groups(), &groups(), None)?;
            let rows = training.program().report().rows.len();
            assert!(rows > 100, "{}: {rows} instructions", dtype.name());
        }
    }
    Ok(())
}
