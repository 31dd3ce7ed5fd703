//! CrossAsset: its number of parameters, its formula, and that it learns what one token alone does not tell.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{DType, Engine};
use landfall_train::data::{Segment, Split, TokenData, TokenSegments, synthetic};
use landfall_train::models::{CrossAsset, CrossAssetConfig, Model};
use landfall_train::train::{Dataset, Loss, OptimizerKind, Session, TrainingOptions};

type Check = Result<(), Box<dyn std::error::Error>>;

const SMALL: CrossAssetConfig = CrossAssetConfig {
    tokens: 4,
    features: 7,
    classes: 3,
    d_model: 8,
    heads: 2,
    layers: 2,
    d_ff: 12,
    dropout: 0.0,
};

fn session(
    engine: &Engine,
    config: &CrossAssetConfig,
    data: &TokenData,
    options: TrainingOptions,
) -> Result<Session, Box<dyn std::error::Error>> {
    let segments = TokenSegments::new(data, Split::ratio(0.7, 0.1, 0.2)?)?;
    let dataset = Dataset::classification(data, segments);
    let model = Box::new(CrossAsset::new(config.clone())?);
    let options = TrainingOptions {
        loss: Loss::CrossEntropy,
        optimizer: OptimizerKind::AdamW,
        weight_decay: 0.01,
        clip: Some(1.0),
        ..options
    };
    Ok(Session::new(engine, model, &dataset, config.features, config.classes, options)?)
}

#[test]
fn the_preset_has_the_published_number_of_parameters() -> Check {
    let model = CrossAsset::new(CrossAssetConfig::default())?;
    assert_eq!(model.parameters().count(), 2_174_219);
    let decaying: usize =
        model.parameters().list().iter().filter(|p| p.decay).map(|p| p.shape.elements()).sum();
    // Matrices: 12 projections, and in each of 2 layers q, k, v, out and the two of the feed-forward; the head.
    assert_eq!(decaying, 12 * 193 * 256 + 2 * (4 * 256 * 256 + 2 * 256 * 1024) + 3 * 256);
    Ok(())
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let cases = [
        (CrossAssetConfig { heads: 3, ..SMALL }, "d_model is 8, heads is 3; heads must divide d_model"),
        (CrossAssetConfig { classes: 1, ..SMALL }, "classes is 1; there must be at least 2 to choose from"),
        (CrossAssetConfig { tokens: 0, ..SMALL }, "tokens is 0; it must be at least 1"),
        (CrossAssetConfig { dropout: 1.0, ..SMALL }, "dropout is 1; it must be in [0, 1)"),
    ];
    for (config, text) in cases {
        assert_eq!(CrossAsset::new(config).map(|_| ()).expect_err(text), text);
    }
}

/// Rows of `x` times a matrix `[inputs, outputs]`.
fn product(x: &[Vec<f64>], w: impl Fn(usize, usize) -> f64, outputs: usize) -> Vec<Vec<f64>> {
    let row =
        |x: &Vec<f64>| (0..outputs).map(|o| x.iter().enumerate().map(|(i, v)| v * w(i, o)).sum()).collect();
    x.iter().map(row).collect()
}

/// `norm(x + y)` with the learned weight and bias.
fn add_norm(x: &[Vec<f64>], y: &[Vec<f64>], weight: &[f64], bias: &[f64]) -> Vec<Vec<f64>> {
    let row = |(x, y): (&Vec<f64>, &Vec<f64>)| {
        let sum: Vec<f64> = x.iter().zip(y).map(|(a, b)| a + b).collect();
        let mean = sum.iter().sum::<f64>() / sum.len() as f64;
        let var = sum.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / sum.len() as f64;
        let each = sum.iter().zip(weight).zip(bias);
        each.map(|((v, w), b)| (v - mean) / (var + 1e-5).sqrt() * w + b).collect()
    };
    x.iter().zip(y).map(row).collect()
}

/// The error function by its series: beyond ±4 it is ±1 within 2e-8.
fn erf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - top).exp()).collect();
    let total: f64 = e.iter().sum();
    e.into_iter().map(|v| v / total).collect()
}

/// The model as its formula says, in plain loops: probabilities of one sample.
fn by_formula(s: &Session, c: &CrossAssetConfig, x: &[f64]) -> Result<Vec<f64>, landfall::Error> {
    let p = |name: &str| s.state.read_host(name).map(|h| h.data);
    let (d, h, e) = (c.d_model, c.heads, c.d_model / c.heads);
    let (weight, bias) = (p("tokens.weight")?, p("tokens.bias")?);
    let mut hidden: Vec<Vec<f64>> = (0..c.tokens)
        .map(|t| {
            let own = &x[t * c.features..][..c.features];
            let w = |i: usize, o: usize| weight[(t * c.features + i) * d + o];
            let projected = product(&[own.to_vec()], w, d).remove(0);
            projected.iter().zip(&bias[t * d..]).map(|(v, b)| v + b).collect()
        })
        .collect();
    for layer in 0..c.layers {
        let at = |name: &str| p(&format!("layers.{layer}.{name}"));
        let (qkv, out) = (at("attention.qkv.weight")?, at("attention.out.weight")?);
        let temperature = at("attention.temperature")?;
        let all = product(&hidden, |i, o| qkv[o * d + i], 3 * d);
        let head = |t: usize, part: usize, k: usize| all[t][part * d + k * e..][..e].to_vec();
        let unit = |v: Vec<f64>| {
            let length = (v.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
            v.into_iter().map(|x| x / length).collect::<Vec<f64>>()
        };
        let attended: Vec<Vec<f64>> = (0..c.tokens)
            .map(|t| {
                let each = (0..h).flat_map(|k| {
                    let q = unit(head(t, 0, k));
                    let score = |other: usize| {
                        let key = unit(head(other, 1, k));
                        temperature[k] * q.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>()
                    };
                    let weights = softmax(&(0..c.tokens).map(score).collect::<Vec<_>>());
                    let value = |i: usize| (0..c.tokens).map(|o| weights[o] * head(o, 2, k)[i]).sum::<f64>();
                    (0..e).map(value).collect::<Vec<_>>()
                });
                each.collect()
            })
            .collect();
        let projected = product(&attended, |i, o| out[o * d + i], d);
        hidden = add_norm(&hidden, &projected, &at("norm_attention.weight")?, &at("norm_attention.bias")?);
        let (expand, contract) = (at("expand.weight")?, at("contract.weight")?);
        let (b1, b2) = (at("expand.bias")?, at("contract.bias")?);
        let mut inner = product(&hidden, |i, o| expand[o * d + i], c.d_ff);
        for row in &mut inner {
            for (v, b) in row.iter_mut().zip(&b1) {
                let x = *v + b;
                *v = 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
            }
        }
        let mut back = product(&inner, |i, o| contract[o * c.d_ff + i], d);
        back.iter_mut().for_each(|row| row.iter_mut().zip(&b2).for_each(|(v, b)| *v += b));
        let (w, b) = (at("norm_feed_forward.weight")?, at("norm_feed_forward.bias")?);
        hidden = add_norm(&hidden, &back, &w, &b);
    }
    let (weight, bias) = (p("head.weight")?, p("head.bias")?);
    let mut logits = product(&hidden, |i, o| weight[o * d + i], c.classes);
    logits.iter_mut().for_each(|row| row.iter_mut().zip(&bias).for_each(|(v, b)| *v += b));
    Ok(logits.iter().flat_map(|row| softmax(row)).collect())
}

/// Predictions are the formula's after some training, when no temperature, norm or bias is what it was at first; and an
/// evaluation scores what is predicted. Of few tokens, whose attention is one op, and of more.
fn predictions_follow_the_formula(engine: &Engine) -> Check {
    for tokens in [SMALL.tokens, 33] {
        follows_the_formula(engine, &CrossAssetConfig { tokens, ..SMALL })
            .map_err(|e| format!("{tokens} tokens: {e}"))?;
    }
    Ok(())
}

fn follows_the_formula(engine: &Engine, config: &CrossAssetConfig) -> Check {
    let data = synthetic::assets(60, config.tokens, config.features, 3)?;
    let options = TrainingOptions { dtype: DType::F64, batch: 6, lr: 0.02, ..TrainingOptions::default() };
    let mut s = session(engine, config, &data, options)?;
    for _ in 0..30 {
        s.step()?;
    }
    let temperatures = s.state.read_host("layers.1.attention.temperature")?.data;
    assert!(temperatures.iter().all(|t| (t - 8.0).abs() > 1e-3), "{temperatures:?}");
    let width = config.tokens * config.features;
    let (mut entropy, mut right, mut brier) = (0.0, 0usize, 0.0);
    let test = TokenSegments::new(&data, Split::ratio(0.7, 0.1, 0.2)?)?.samples(Segment::Test);
    let tokens = (test.len() * config.tokens) as f64;
    for n in test {
        let sample: Vec<f64> = data.inputs[n * width..][..width].iter().map(|&x| f64::from(x)).collect();
        let (got, want) = (s.predict(&sample)?, by_formula(&s, config, &sample)?);
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 1e-9, "sample {n}: {got:?}, {want:?}");
        }
        for (t, each) in want.chunks_exact(config.classes).enumerate() {
            let label = usize::try_from(data.labels[n * config.tokens + t])?;
            entropy -= each[label].ln();
            right += usize::from(each.iter().all(|p| *p <= each[label]));
            let error = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == label))).powi(2);
            brier += each.iter().enumerate().map(error).sum::<f64>();
        }
    }
    let e = s.evaluate(Segment::Test)?;
    let classes = e.classes.ok_or("scores of classes")?;
    assert!((classes.cross_entropy - entropy / tokens).abs() < 1e-9, "{classes:?}, {}", entropy / tokens);
    assert_eq!(classes.accuracy, right as f64 / tokens);
    assert!((e.errors().0 - brier / tokens / config.classes as f64).abs() < 1e-9, "{e:?}");
    Ok(())
}

/// Half of the evidence for a class lies in another token: with attention the model passes what one token tells.
fn it_learns_across_tokens(engine: &Engine) -> Check {
    let config = CrossAssetConfig { d_model: 32, heads: 4, d_ff: 64, ..SMALL };
    let data = synthetic::assets(6000, config.tokens, config.features, 3)?;
    let options = TrainingOptions { batch: 64, lr: 2e-3, epochs: 8, ..TrainingOptions::default() };
    let mut s = session(engine, &config, &data, options)?;
    for _ in 0..8 * s.steps_per_epoch() {
        s.step()?;
    }
    let accuracy = s.evaluate(Segment::Test)?.classes.ok_or("scores of classes")?.accuracy;
    let (alone, best) = (synthetic::bayes_accuracy(1.5), data.bayes.ok_or("known")?);
    println!("accuracy {accuracy:.4}, {alone:.4} of a token alone, {best:.4} at best");
    // 1,200 samples of 4 tokens: a standard error of about half a point.
    assert!(accuracy > alone + 0.03, "{accuracy}: {alone} needs no attention");
    assert!(accuracy < best + 0.025, "{accuracy} is above the best possible {best}");
    Ok(())
}

/// What is learnt does not depend on the dtype that it is learnt in: accuracies within half a point of the processor's in f64.
fn every_dtype_learns_what_f64_does(engine: &Engine) -> Check {
    let config = CrossAssetConfig { d_model: 32, heads: 4, d_ff: 64, ..SMALL };
    let data = synthetic::assets(10_000, config.tokens, config.features, 3)?;
    let best = data.bayes.ok_or("known")?;
    let accuracy = |engine: &Engine, dtype| -> Result<f64, Box<dyn std::error::Error>> {
        let options = TrainingOptions { batch: 64, lr: 2e-3, epochs: 5, dtype, ..TrainingOptions::default() };
        let mut s = session(engine, &config, &data, options)?;
        let steps = 5 * s.steps_per_epoch();
        engine.enter(|| (0..steps).try_for_each(|_| s.step()))?;
        Ok(s.evaluate(Segment::Test)?.classes.ok_or("scores of classes")?.accuracy)
    };
    let exact = accuracy(&Engine::cpu()?, DType::F64)?;
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let got = accuracy(engine, dtype)?;
        println!("{dtype}: accuracy {got:.4}, {exact:.4} in f64, {best:.4} at best");
        assert!((got - exact).abs() <= 0.005, "{dtype}: {got}, {exact} in f64");
    }
    Ok(())
}

/// Replayed steps give the bytes of issued ones, in every dtype.
fn replays_are_issued_steps(engine: &Engine) -> Check {
    let data = synthetic::assets(100, SMALL.tokens, SMALL.features, 3)?;
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        let config = CrossAssetConfig { dropout: 0.1, ..SMALL };
        let options = || TrainingOptions { dtype, batch: 8, ..TrainingOptions::default() };
        let (mut replayed, mut issued) =
            (session(engine, &config, &data, options())?, session(engine, &config, &data, options())?);
        for _ in 0..20 {
            replayed.step()?;
            issued.issue()?;
        }
        for entry in replayed.state.spec().slabs().iter().flat_map(|s| &s.entries) {
            let (a, b) = (replayed.state.read_host(&entry.name)?, issued.state.read_host(&entry.name)?);
            let equal = a.data.iter().zip(&b.data).all(|(x, y)| x.to_bits() == y.to_bits());
            assert!(equal, "{dtype} {}", entry.name);
        }
        let losses: Vec<f64> = replayed.records(1, 20)?.iter().map(|r| r.loss).collect();
        assert!(losses.iter().all(|l| l.is_finite()) && losses[19] < losses[0], "{dtype}: {losses:?}");
    }
    Ok(())
}

on_each_device!(
    predictions_follow_the_formula,
    it_learns_across_tokens,
    every_dtype_learns_what_f64_does,
    replays_are_issued_steps
);
