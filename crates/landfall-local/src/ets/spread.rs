//! How far actual values lie from the forecasts of exponential smoothing (Hyndman et al. 2008, chapter 6).

use super::filter::Smoothing;
use super::kind::{Kind, Seasonality};

/// The standard deviation of each step. An error moves the forecast of j steps later by c(j) = α + β (φ + … + φʲ), and by γ more where j is
/// a whole number of seasons. The variance is σ² (1 + Σ c²) with additive errors; with relative ones
/// θ(h) = μ(h)² + σ² Σ c(j)² θ(h − j) and (1 + σ²) θ(h) − μ(h)², exact but for a multiplicative season, where it holds for a
/// small σ and (1 + γ² σ²) to the power of the whole seasons before a step multiplies θ.
pub(crate) fn spread(
    kind: Kind,
    by: &Smoothing,
    sigma: f64,
    ahead: &[(f64, f64)],
    season: usize,
) -> Vec<f64> {
    let inside = kind.seasonality == Seasonality::Additive;
    let (mut damped, mut sum) = (1.0, 0.0);
    let moved: Vec<f64> = (1..=ahead.len())
        .map(|j| {
            damped *= by.phi;
            sum += damped;
            let again = if inside && j.is_multiple_of(season) { by.gamma } else { 0.0 };
            by.alpha + by.beta * sum + again
        })
        .collect();
    let variance = sigma * sigma;
    if !kind.relative {
        let grown = moved.iter().scan(1.0, |total, c| {
            let now: f64 = *total;
            *total += c * c;
            Some(sigma * now.sqrt())
        });
        return grown.collect();
    }
    let mut theta: Vec<f64> = Vec::with_capacity(ahead.len());
    let mut found = Vec::with_capacity(ahead.len());
    for (h, (q, s)) in ahead.iter().enumerate() {
        let mean = if inside { q + s } else { *q };
        let past: f64 = (1..=h).map(|j| moved[j - 1] * moved[j - 1] * theta[h - j]).sum();
        theta.push(mean * mean + variance * past);
        let (again, size) = if kind.seasonality == Seasonality::Multiplicative {
            ((1.0 + by.gamma * by.gamma * variance).powf((h / season) as f64), s.abs())
        } else {
            (1.0, 1.0)
        };
        found.push(size * ((1.0 + variance) * again * theta[h] - mean * mean).max(0.0).sqrt());
    }
    found
}
