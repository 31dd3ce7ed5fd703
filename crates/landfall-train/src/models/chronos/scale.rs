//! What both models see of values, and what they are trained by.

use crate::models::zero_shot::{asinh, sinh};
use landfall::{Error, Graph, Keep, Value};

/// The deviation of a constant, of which the authors divide by this.
const FLAT: f64 = 1e-5;

/// Mean and deviation of contexts, and whether scaled values go through asinh.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    mean: Value,
    deviation: Value,
    arcsinh: bool,
}

/// The scale of contexts `x` `[B, R]` over the values that are `known` `[B, R]` (1, else 0): mean 0 and deviation 1 where none is,
/// deviation 1e-5 where all are equal, as the authors have it.
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn scale(g: &Graph, x: Value, known: Value, arcsinh: bool) -> Result<Scale, Error> {
    let (zero, one) = (g.scalar(x, 0.0)?, g.scalar(x, 1.0)?);
    let there = g.greater(known, zero)?;
    let rows = g.sum(known, Keep(1))?;
    let count = g.maximum(rows, one)?;
    let mean = g.div(g.sum(g.select(there, x, zero)?, Keep(1))?, count)?;
    let distance = g.select(there, g.sub(x, mean)?, zero)?;
    let deviation = g.sqrt(g.div(g.sum(g.square(distance)?, Keep(1))?, count)?)?;
    let deviation = g.select(g.greater(deviation, zero)?, deviation, g.scalar(x, FLAT)?)?;
    let deviation = g.select(g.greater(rows, zero)?, deviation, one)?;
    Ok(Scale { mean, deviation, arcsinh })
}

impl Scale {
    /// Values `[B, R]` in these units, 0 where they are not `known`.
    ///
    /// # Errors
    /// Shapes or dtypes that differ.
    #[track_caller]
    pub fn scaled(&self, g: &Graph, x: Value, known: Value) -> Result<Value, Error> {
        let zero = g.scalar(x, 0.0)?;
        let there = g.greater(known, zero)?;
        let far = g.div(g.sub(g.select(there, x, self.mean)?, self.mean)?, self.deviation)?;
        let own = if self.arcsinh { asinh(g, far)? } else { far };
        g.select(there, own, zero)
    }

    /// Scaled values `[B, Q, R]` in the units of the contexts.
    ///
    /// # Errors
    /// Shapes or dtypes that differ.
    #[track_caller]
    pub fn original(&self, g: &Graph, scaled: Value) -> Result<Value, Error> {
        let batch = g.shape(scaled).dims().first().copied().unwrap_or(0);
        let wide = |v: Value| g.reshape(v, [batch, 1, 1]);
        let far = if self.arcsinh { sinh(g, scaled)? } else { scaled };
        g.add(g.mul(far, wide(self.deviation)?)?, wide(self.mean)?)
    }
}

/// The authors' loss of each series, `[B]`: of scaled quantiles `[B, Q, R]` at these levels, with scaled targets and what counts of them
/// (1, else 0), `[B, R]`: `2·max(τ·d, (τ − 1)·d)`, `d` the target less the quantile, in the mean over all rows, summed over levels. Rows
/// that do not count are 0, and are part of the mean. The loss of a batch is the mean over its series.
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn quantile_loss(
    g: &Graph,
    quantiles: Value,
    [targets, counts]: [Value; 2],
    levels: &[f64],
) -> Result<Value, Error> {
    let [batch, _, rows] = g.shape(quantiles).dims().try_into().unwrap_or([0; 3]);
    let wide = |v: Value| g.reshape(v, [batch, 1, rows]);
    let d = g.sub(wide(targets)?, quantiles)?;
    let each = levels.iter().enumerate().map(|(i, level)| {
        let own = g.slice(d, 1, i, 1)?;
        g.maximum(g.affine(own, *level, 0.0)?, g.affine(own, level - 1.0, 0.0)?)
    });
    let each: Vec<Value> = each.collect::<Result<_, Error>>()?;
    let all = g.mul(g.concat(&each, 1)?, wide(counts)?)?;
    g.affine(g.sum(all, [1, 2])?, 2.0 / rows.max(1) as f64, 0.0)
}
