//! Metrics as graph functions: a prediction and a target in, a scalar out. They carry no gradient that a loss would use.

use super::loss;
use landfall::{All, Error, Graph, Value};

/// A function of a prediction and a target that gives a scalar: a loss or a metric.
pub type Measure = fn(&Graph, Value, Value) -> Result<Value, Error>;

/// The losses and metrics that [`by_name`] knows, for a choice in a configuration or on a command line.
pub const NAMES: &[(&str, Measure)] = &[
    ("accuracy", accuracy),
    ("binary_cross_entropy", loss::binary_cross_entropy),
    ("cross_entropy", loss::cross_entropy),
    ("kl_divergence", loss::kl_divergence),
    ("mae", loss::mae),
    ("mse", loss::mse),
    ("rmse", rmse),
];

/// The loss or metric of this name.
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::nn::metric;
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let (logits, labels) = (g.input("logits", DType::F32, [8, 10]), g.input("labels", DType::I64, [8]));
/// let accuracy = metric::by_name("accuracy").expect("a metric of the list")(&g, logits, labels)?;
/// assert_eq!(g.shape(accuracy).rank(), 0);
/// assert!(metric::by_name("acuracy").is_none());
/// # Ok::<(), landfall::Error>(())
/// ```
#[must_use]
pub fn by_name(name: &str) -> Option<Measure> {
    NAMES.iter().find(|(own, _)| *own == name).map(|(_, measure)| *measure)
}

/// The part of rows whose largest logit is the label's, the first of equal ones.
///
/// `logits`: `[.., K]`, float; `labels`: i64 `[..]`. Result: a scalar of the dtype of the logits.
///
/// # Errors
/// Labels of another dtype or shape; no classes.
#[track_caller]
pub fn accuracy(g: &Graph, logits: Value, labels: Value) -> Result<Value, Error> {
    let right = g.equal(g.argmax(logits, -1)?, labels)?;
    g.mean(g.cast(right, g.spec(logits).dtype)?, All)
}

/// `√(mean (prediction − target)²)`, over equal shapes.
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn rmse(g: &Graph, prediction: Value, target: Value) -> Result<Value, Error> {
    g.sqrt(loss::mse(g, prediction, target)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall::{DType, Engine, Program, State, StateSpec};
    use std::sync::Arc;

    /// Each measure of the list of one pair of numbers or of logits and labels, against its formula.
    #[test]
    fn each_name_is_its_formula() -> Result<(), Error> {
        let spec = Arc::new(StateSpec::new());
        let engine = Engine::cpu_with_threads(1)?;
        let mut state = State::new(&engine, &spec)?;
        let g = Graph::new(&spec);
        let (x, t) = (g.input("x", DType::F64, [2, 2]), g.input("t", DType::F64, [2, 2]));
        let labels = g.input("labels", DType::I64, [2]);
        for (name, measure) in NAMES {
            let of_labels = matches!(*name, "accuracy" | "cross_entropy");
            g.output(name, measure(&g, x, if of_labels { labels } else { t })?);
        }
        let mut program = Program::compile(&engine, &state, "measures", &g)?;
        program.write("x", &[1.0, 2.0, -1.0, -3.0])?;
        program.write("t", &[1.0, 0.0, 0.5, 0.5])?;
        program.write("labels", &[1i64, 1])?;
        program.run(&mut state)?;
        let squares: f64 = (4.0 + 2.25 + 12.25) / 4.0;
        let soft = |x: f64| x.exp().ln_1p();
        let half = 0.5 * 0.5f64.ln();
        for (name, want) in [
            ("accuracy", 0.5),
            (
                "binary_cross_entropy",
                (soft(1.0) - 1.0 + soft(2.0) + soft(-1.0) + 0.5 + soft(-3.0) + 1.5) / 4.0,
            ),
            ("cross_entropy", (soft(-1.0) + soft(2.0)) / 2.0),
            ("kl_divergence", (-1.0 + 2.0 * half + 0.5 + 1.5) / 2.0),
            ("mae", (2.0 + 1.5 + 3.5) / 4.0),
            ("mse", squares),
            ("rmse", squares.sqrt()),
        ] {
            let got = program.read::<f64>(name)?[0];
            assert!((got - want).abs() < 1e-12, "{name}: {got}, it must be {want}");
        }
        Ok(())
    }
}
