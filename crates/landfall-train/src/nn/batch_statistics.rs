//! Batch normalisation by the statistics of all ranks' rows.

use landfall::ops::AllGather;
use landfall::{Error, Graph, Value};

/// What a batch norm makes of its input.
pub(super) struct Normalised {
    /// As the input.
    pub(super) y: Value,
    /// Mean of each feature over the rows of all ranks.
    pub(super) mean: Value,
    /// The biased variance.
    pub(super) variance: Value,
}

/// As [`BatchNorm`](landfall::ops::BatchNorm) of the rows `[.., d]` of all ranks behind one another, of which each has as many: with
/// a rank's own mean `mᵣ` and variance `vᵣ` of n, `mean = Σ mᵣ/n` and `variance = Σ (vᵣ + (mᵣ − mean)²)/n`, which loses no digits where
/// the mean is far from zero.
///
/// One all-gather brings both statistics of all ranks; its gradient, one reduce-scatter, brings the sums over the rows of all.
pub(super) fn across(
    g: &Graph,
    ranks: usize,
    (x, weight, bias): (Value, Value, Value),
    eps: f64,
) -> Result<Normalised, Error> {
    // A norm, so in f32 whatever lies around it.
    g.full_precision(|| {
        let shape = g.shape(x);
        let (d, rows): (usize, Vec<usize>) = (shape.last(), (0..shape.rank().saturating_sub(1)).collect());
        let variance = |differences: Value| g.mean(g.mul(differences, differences)?, &rows);
        let own_mean = g.mean(x, &rows)?;
        let own = g.concat(&[own_mean, variance(g.sub(x, own_mean)?)?], 0)?;
        let all = g.op1(AllGather { ranks }, &[g.reshape(own, [1, 2 * d])?])?;
        let (means, variances) = (g.slice(all, 1, 0, d)?, g.slice(all, 1, d, d)?);
        let mean = g.mean(means, [0])?;
        let apart = g.sub(means, mean)?;
        let variance = g.mean(g.add(variances, g.mul(apart, apart)?)?, [0])?;
        let scaled = g.mul(g.sub(x, mean)?, g.rsqrt(g.affine(variance, 1.0, eps)?)?)?;
        Ok(Normalised { y: g.add(g.mul(scaled, weight)?, bias)?, mean, variance })
    })
}
