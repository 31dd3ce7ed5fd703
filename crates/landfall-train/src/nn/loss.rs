//! Losses as graph functions: a prediction and a target in, a scalar out.

use landfall::{Error, Graph, Labels, Rule, Value, ops};
use std::panic::Location;

fn mean_of_all(g: &Graph, x: Value) -> Result<Value, Error> {
    let axes: Vec<usize> = (0..g.shape(x).rank()).collect();
    g.mean(x, &axes)
}

/// Mean of `(prediction − target)²`, over equal shapes.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # use landfall_train::nn::loss;
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// let prediction = g.input("prediction", DType::F32, [2]);
/// let target = g.input("target", DType::F32, [2]);
/// g.output("loss", loss::mse(&g, prediction, target)?);
/// # let mut program = Program::compile(&engine, &state, "loss", &g)?;
/// program.write("prediction", &[1.0f32, 3.0])?;
/// program.write("target", &[1.0f32, 1.0])?;
/// program.run(&mut state)?;
/// assert_eq!(program.read::<f32>("loss")?, [2.0]);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn mse(g: &Graph, prediction: Value, target: Value) -> Result<Value, Error> {
    g.op1(ops::Mse, &[prediction, target])
}

/// Mean of `|prediction − target|`, over equal shapes.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # use landfall_train::nn::loss;
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// let prediction = g.input("prediction", DType::F32, [2]);
/// let target = g.input("target", DType::F32, [2]);
/// g.output("loss", loss::mae(&g, prediction, target)?);
/// # let mut program = Program::compile(&engine, &state, "loss", &g)?;
/// program.write("prediction", &[1.0f32, 4.0])?;
/// program.write("target", &[1.0f32, 1.0])?;
/// program.run(&mut state)?;
/// assert_eq!(program.read::<f32>("loss")?, [1.5]);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn mae(g: &Graph, prediction: Value, target: Value) -> Result<Value, Error> {
    g.op1(ops::Mae, &[prediction, target])
}

/// Mean of `½d²` where `|d| ≤ delta` and of `delta·(|d| − ½delta)` beyond, `d = prediction − target` (Huber 1964).
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # use landfall_train::nn::loss;
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// let prediction = g.input("prediction", DType::F32, [2]);
/// let target = g.input("target", DType::F32, [2]);
/// g.output("loss", loss::huber(&g, prediction, target, 1.0)?);
/// # let mut program = Program::compile(&engine, &state, "loss", &g)?;
/// program.write("prediction", &[1.5f32, 4.0])?;
/// program.write("target", &[1.0f32, 1.0])?;
/// program.run(&mut state)?;
/// assert_eq!(program.read::<f32>("loss")?, [(0.125 + 2.5) / 2.0]);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Shapes or dtypes that differ; `delta` must be above 0.
#[track_caller]
pub fn huber(g: &Graph, prediction: Value, target: Value, delta: f64) -> Result<Value, Error> {
    if !(delta > 0.0 && delta.is_finite()) {
        let rule = Rule::Attribute { name: "delta", value: delta, expected: "above 0" };
        return Err(rule
            .of("huber", &[g.spec(prediction), g.spec(target)], None, Some(Location::caller()))
            .into());
    }
    equal_shapes(g, "huber", prediction, target)?;
    g.composed("huber", [prediction, target], |[prediction, target]| {
        let size = g.abs(g.sub(prediction, target)?)?;
        // With m = min(|d|, delta) both branches are m·(|d| − ½m).
        let inner = g.minimum(size, g.scalar(size, delta)?)?;
        mean_of_all(g, g.mul(inner, g.sub(size, g.affine(inner, 0.5, 0.0)?)?)?)
    })
}

/// Mean of `max(τ·d, (τ − 1)·d)`, `d = target − prediction`, over the levels τ and all elements (Koenker & Bassett 1978).
///
/// `prediction`: `[B, C, Q·H]`, level by level; `target`: `[B, C, H]`.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # use landfall_train::nn::loss;
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// // Two levels of one value: the prediction is twice as wide as the target.
/// let prediction = g.input("prediction", DType::F32, [1, 1, 2]);
/// let target = g.input("target", DType::F32, [1, 1, 1]);
/// g.output("loss", loss::quantile(&g, prediction, target, &[0.25, 0.75])?);
/// # let mut program = Program::compile(&engine, &state, "loss", &g)?;
/// program.write("prediction", &[0.0f32, 8.0])?;
/// program.write("target", &[4.0f32])?;
/// program.run(&mut state)?;
/// assert_eq!(program.read::<f32>("loss")?, [(0.25 * 4.0 + 0.25 * 4.0) / 2.0]);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// A prediction that is not Q times as wide as the target; levels must be between 0 and 1.
#[track_caller]
pub fn quantile(g: &Graph, prediction: Value, target: Value, levels: &[f64]) -> Result<Value, Error> {
    let specs = [g.spec(prediction), g.spec(target)];
    if let Some(&value) = levels.iter().find(|l| !(0.0 < **l && **l < 1.0)) {
        let rule = Rule::Attribute { name: "level", value, expected: "between 0 and 1" };
        return Err(rule.of("quantile", &specs, None, Some(Location::caller())).into());
    }
    let (shape, rows) = (g.shape(target), g.shape(target).last());
    let axis = shape.rank().saturating_sub(1);
    let expected = shape.with(axis, levels.len() * rows);
    if levels.is_empty() || g.shape(prediction) != expected {
        let rule = Rule::ArgShape { arg: 0, shape: g.shape(prediction), expected };
        return Err(rule.of("quantile", &specs, None, Some(Location::caller())).into());
    }
    g.composed("quantile", [prediction, target], |[prediction, target]| {
        let mut total = None;
        for (i, &level) in levels.iter().enumerate() {
            let d = g.sub(target, g.slice(prediction, axis, i * rows, rows)?)?;
            let one = mean_of_all(g, g.maximum(g.affine(d, level, 0.0)?, g.affine(d, level - 1.0, 0.0)?)?)?;
            total = Some(match total {
                Some(sum) => g.add(sum, one)?,
                None => one,
            });
        }
        let total = total.unwrap_or(target);
        g.affine(total, 1.0 / levels.len() as f64, 0.0)
    })
}

/// Mean over all rows of `ln Σ_k exp(logits[k]) − logits[label]`: the negative logarithm of the label's probability.
///
/// `logits`: `[.., K]`; `labels`: i64 `[..]`, each in `0..K`.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # use landfall_train::nn::loss;
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// let logits = g.input("logits", DType::F32, [2, 4]);
/// let labels = g.input("labels", DType::I64, [2]);
/// g.output("loss", loss::cross_entropy(&g, logits, labels)?);
/// # let mut program = Program::compile(&engine, &state, "loss", &g)?;
/// program.write("logits", &[0.0f32; 8])?;
/// program.write("labels", &[3i64, 0])?;
/// program.run(&mut state)?;
/// assert!((program.read::<f32>("loss")?[0] - 4.0f32.ln()).abs() < 1e-6);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Labels of another dtype or shape; no classes.
#[track_caller]
pub fn cross_entropy(g: &Graph, logits: Value, labels: Value) -> Result<Value, Error> {
    g.op1(ops::CrossEntropy, &[logits, labels])
}

/// As [`cross_entropy`], with factors of the classes, a label that does not count, or smoothed labels
/// ([`Graph::cross_entropy`]).
///
/// ```
/// use landfall::{DType, Graph, Labels, StateSpec};
/// use landfall_train::nn::loss;
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let logits = g.input("logits", DType::F32, [8, 32, 10]);
/// let labels = g.input("labels", DType::I64, [8, 32]);
/// let options = Labels { ignored: Some(-1), smoothing: 0.1, ..Labels::default() };
/// let loss = loss::cross_entropy_with(&g, logits, labels, options)?;
/// assert_eq!(g.shape(loss).rank(), 0);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// As of [`cross_entropy`]; the factors must be `[K]`, the smoothing in [0, 1).
#[track_caller]
pub fn cross_entropy_with(g: &Graph, logits: Value, labels: Value, options: Labels) -> Result<Value, Error> {
    g.cross_entropy(logits, labels, options)
}

/// Mean of `−(t·ln σ(x) + (1 − t)·ln(1 − σ(x)))` with x the logits, t the targets in [0, 1] and σ the sigmoid
/// ([`Graph::binary_cross_entropy`]).
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::nn::loss;
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let logits = g.input("logits", DType::F32, [8, 3]);
/// let targets = g.input("targets", DType::F32, [8, 3]);
/// assert_eq!(g.shape(loss::binary_cross_entropy(&g, logits, targets)?).rank(), 0);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn binary_cross_entropy(g: &Graph, logits: Value, targets: Value) -> Result<Value, Error> {
    equal_shapes(g, "binary_cross_entropy", logits, targets)?;
    g.binary_cross_entropy(logits, targets)
}

/// Mean over rows of `Σ_k p_k·(ln p_k − log_q_k)`, the Kullback–Leibler divergence of the distribution p from the predicted one,
/// of which `log_q` are the logarithms ([`Graph::kl_divergence`]).
///
/// `log_q`, `p`: `[.., K]`, such as [`Graph::log_softmax`] and [`Graph::softmax`] of the last axis give.
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::nn::loss;
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let logits = g.input("logits", DType::F32, [8, 10]);
/// let teacher = g.input("teacher", DType::F32, [8, 10]);
/// let loss = loss::kl_divergence(&g, g.log_softmax(logits, -1)?, g.softmax(teacher, -1)?)?;
/// assert_eq!(g.shape(loss).rank(), 0);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Shapes or dtypes that differ; scalars.
#[track_caller]
pub fn kl_divergence(g: &Graph, log_q: Value, p: Value) -> Result<Value, Error> {
    equal_shapes(g, "kl_divergence", log_q, p)?;
    g.kl_divergence(log_q, p)
}

/// Refuses a prediction and a target of different shapes: broadcasting would pair each with all of the other's.
#[track_caller]
fn equal_shapes(g: &Graph, op: &'static str, lhs: Value, rhs: Value) -> Result<(), Error> {
    let (lhs_shape, rhs_shape) = (g.shape(lhs), g.shape(rhs));
    if lhs_shape == rhs_shape {
        return Ok(());
    }
    let rule = Rule::Shapes { lhs: 0, lhs_shape, rhs: 1, rhs_shape };
    Err(rule.of(op, &[g.spec(lhs), g.spec(rhs)], None, Some(Location::caller())).into())
}
