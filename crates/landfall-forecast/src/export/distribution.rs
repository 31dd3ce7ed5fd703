//! The forecast of a predicted distribution as a graph: its quantiles at fixed levels, and its mean.
//!
//! A normal distribution's quantile is `a + s·z` with a constant z. Student's t has `a + s·t(ν)`, and for a fixed level `t` is a
//! smooth function of u = 1/ν alone: a Chebyshev series, whose coefficients are computed from the function that the program
//! itself takes. A negative binomial's quantiles have no such form; its parameters are an output instead.

use super::ExportError;
use crate::nn::{Distribution, Family, MOST_INVERSE_FREEDOM};
use landfall::{DType, Error, Graph, HostTensor, Value};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::f64::consts::PI;
use std::path::Path;

/// The entry of the graph's state with what the quantiles are made of.
pub(super) const QUANTILES: &str = "distribution.quantiles";

/// Terms of a Chebyshev series.
const TERMS: usize = 48;

/// The largest error of a series that is accepted, relative to the quantile where that is above 1.
const MOST: f64 = 1e-7;

/// What a distribution's forecast is made of.
pub(super) struct Forecasts {
    /// `[B, T, levels + 1, H]`, the mean behind the quantiles; of a negative binomial the mean alone, `[B, T, 1, H]`.
    pub(super) values: Value,
    /// How many of them are quantiles.
    pub(super) quantiles: usize,
    /// Mean and shape of a negative binomial, `[B, T, 2, H]`.
    pub(super) parameters: Option<Value>,
}

/// The numbers that quantiles at these levels are made of: z of a normal distribution, `[levels, 1]`; the coefficients of the
/// series of Student's t, `[levels, terms, 1]`; none of a negative binomial.
///
/// # Errors
/// [`ExportError::Level`] for a level whose series is not accurate enough.
pub(super) fn constants(
    family: Family,
    levels: &[f64],
    path: &Path,
) -> Result<Option<HostTensor>, ExportError> {
    let made = match family {
        Family::Normal => {
            let z = levels.iter().map(|level| Normal::standard().inverse_cdf(*level)).collect();
            HostTensor::new(DType::F64, [levels.len(), 1], z)
        }
        Family::StudentT => {
            let mut all = Vec::with_capacity(levels.len() * TERMS);
            for level in levels {
                let (series, error) = series(*level);
                if error.is_nan() || error > MOST {
                    let path = path.to_owned();
                    return Err(ExportError::Level { path, level: *level, error, most: MOST });
                }
                all.extend(series);
            }
            HostTensor::new(DType::F64, [levels.len(), TERMS, 1], all)
        }
        Family::NegativeBinomial => return Ok(None),
    };
    Ok(Some(made.map_err(Error::from)?))
}

/// The quantile of Student's t distribution at a level, of u = 1/ν; of the normal one at 0.
fn quantile(level: f64, u: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, 1.0 / u) {
        Ok(of) if u > 1e-9 => of.inverse_cdf(level),
        Ok(_) | Err(_) => Normal::standard().inverse_cdf(level),
    }
}

/// The Chebyshev series of a quantile over u from 0 to [`MOST_INVERSE_FREEDOM`], and its largest error on a grid.
fn series(level: f64) -> (Vec<f64>, f64) {
    let u = |x: f64| (x + 1.0) / 2.0 * MOST_INVERSE_FREEDOM;
    let node = |k: usize| PI * (k as f64 + 0.5) / TERMS as f64;
    let values: Vec<f64> = (0..TERMS).map(|k| quantile(level, u(node(k).cos()))).collect();
    let coefficient = |j: usize| {
        let sum: f64 = values.iter().enumerate().map(|(k, y)| y * (j as f64 * node(k)).cos()).sum();
        sum * if j == 0 { 1.0 } else { 2.0 } / TERMS as f64
    };
    let series: Vec<f64> = (0..TERMS).map(coefficient).collect();
    const GRID: usize = 1000;
    let error = |i: usize| {
        let x = 2.0 * i as f64 / GRID as f64 - 1.0;
        let (expected, angle) = (quantile(level, u(x)), x.acos());
        let found: f64 = series.iter().enumerate().map(|(j, c)| c * (j as f64 * angle).cos()).sum();
        (found - expected).abs() / expected.abs().max(1.0)
    };
    // A quantile that is no number has an error that is none.
    let worst =
        (0..=GRID).map(error).fold(0.0, |worst: f64, e| if e > worst || e.is_nan() { e } else { worst });
    (series, worst)
}

/// Adds the forecasts to a graph, of what a network predicts, `f64 [B, T, P, H]`. The graph's state has the entry
/// [`QUANTILES`] where [`constants`] has any.
///
/// # Errors
/// What the engine refuses.
pub(super) fn forecasts(
    g: &Graph,
    family: Family,
    levels: usize,
    predicted: Value,
) -> Result<Forecasts, Error> {
    let behind = |quantiles: Value, mean: Value| -> Result<Forecasts, Error> {
        Ok(Forecasts { values: g.concat(&[quantiles, mean], 2)?, quantiles: levels, parameters: None })
    };
    match family.of_predicted(g, &|i| g.slice(predicted, 2, i, 1))? {
        Distribution::Normal { mean, s } => behind(g.add(mean, g.mul(s, g.entry(QUANTILES)?)?)?, mean),
        Distribution::StudentT { mean, s, nu } => {
            let [b, t, h] = [0, 1, 3].map(|axis| g.shape(mean).dims()[axis]);
            // T₀ = 1, T₁ = x, Tₖ₊₁ = 2x·Tₖ − Tₖ₋₁.
            let x = g.affine(g.recip(nu)?, 2.0 / MOST_INVERSE_FREEDOM, -1.0)?;
            let mut basis = vec![g.affine(x, 0.0, 1.0)?, x];
            while let (Some(&before), Some(&last), true) =
                (basis.iter().nth_back(1), basis.last(), basis.len() < TERMS)
            {
                basis.push(g.sub(g.affine(g.mul(x, last)?, 2.0, 0.0)?, before)?);
            }
            let basis = g.reshape(g.concat(&basis, 2)?, [b, t, 1, TERMS, h])?;
            let quantiles = g.sum(g.mul(basis, g.entry(QUANTILES)?)?, [3])?;
            behind(g.add(mean, g.mul(s, quantiles)?)?, mean)
        }
        Distribution::NegativeBinomial { mean, r } => {
            let parameters = Some(g.concat(&[mean, r], 2)?);
            Ok(Forecasts { values: mean, quantiles: 0, parameters })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_usual_levels_are_accurate_and_others_are_told() {
        for level in [0.005, 0.025, 0.1, 0.25, 0.5, 0.9, 0.99] {
            let (_, error) = series(level);
            assert!(error < MOST, "{level}: {error:e}");
        }
        let (_, error) = series(1e-60);
        assert!(error.is_nan() || error > MOST, "{error:e}");
    }
}
