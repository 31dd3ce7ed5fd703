//! How far actual values lie from the forecasts of exponential smoothing (Hyndman et al. 2008, chapter 6).

use super::filter::Smoothing;
use super::kind::{Kind, Seasonality};

/// The standard deviation of each step. An error moves the forecast of j steps later by c(j) = α + β (φ + … + φʲ), and by γ more where j is
/// a whole number of seasons. The variance is σ² (1 + Σ c²) with additive errors. With relative ones it is (1 + σ²) θ(h) − μ(h)²
/// where θ(h) = μ(h)² + σ² Σ c(j)² θ(h − j); a multiplicative season takes no part in μ and θ and multiplies the deviation, which holds
/// for a small σ.
pub(crate) fn spread(
    kind: Kind,
    by: &Smoothing,
    sigma: f64,
    ahead: &[(f64, f64)],
    season: usize,
) -> Vec<f64> {
    let (mut damped, mut sum) = (1.0, 0.0);
    let moved: Vec<f64> = (1..=ahead.len())
        .map(|j| {
            damped *= by.phi;
            sum += damped;
            let again = if kind.has_season() && j.is_multiple_of(season) { by.gamma } else { 0.0 };
            by.alpha + by.beta * sum + again
        })
        .collect();
    if !kind.relative {
        let grown = moved.iter().scan(1.0, |total, c| {
            let now: f64 = *total;
            *total += c * c;
            Some(sigma * now.sqrt())
        });
        return grown.collect();
    }
    let variance = sigma * sigma;
    let mut theta: Vec<f64> = Vec::with_capacity(ahead.len());
    let deviation = |(h, (q, s)): (usize, &(f64, f64))| {
        let (mean, size) = match kind.seasonality {
            Seasonality::None => (*q, 1.0),
            Seasonality::Additive => (q + s, 1.0),
            Seasonality::Multiplicative => (*q, s.abs()),
        };
        let past: f64 = (1..=h).map(|j| moved[j - 1] * moved[j - 1] * theta[h - j]).sum();
        theta.push(mean * mean + variance * past);
        size * ((1.0 + variance) * theta[h] - mean * mean).max(0.0).sqrt()
    };
    ahead.iter().enumerate().map(deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::super::filter::State;
    use super::super::kind::Trend;
    use super::*;

    /// About a standard normal value: twelve uniform ones.
    fn normal(seed: &mut u64) -> f64 {
        let uniform = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform(seed)).sum::<f64>() - 6.0
    }

    #[test]
    fn simulated_series_lie_as_far_from_the_forecast() {
        let by = Smoothing { alpha: 0.4, beta: 0.1, gamma: 0.3, phi: 0.9 };
        let plain = Smoothing { phi: 1.0, ..by };
        let kind = |relative, trend, seasonality| Kind { relative, trend, seasonality };
        for (kind, by) in [
            (kind(false, Trend::Damped, Seasonality::Additive), by),
            (kind(false, Trend::Additive, Seasonality::None), plain),
            (kind(true, Trend::Additive, Seasonality::Additive), plain),
            (kind(true, Trend::Damped, Seasonality::Multiplicative), by),
        ] {
            let season = match kind.seasonality {
                Seasonality::None => Vec::new(),
                Seasonality::Additive => vec![3.0, -1.0, -2.0],
                Seasonality::Multiplicative => vec![1.3, 0.8, 0.9],
            };
            let sigma = if kind.relative { 0.05 } else { 0.5 };
            let trend = if kind.trend == Trend::None { 0.0 } else { 0.3 };
            let start = State { level: 10.0, trend, season, next: 0 };
            let ahead = start.ahead(kind, by.phi, 9);
            let found = spread(kind, &by, sigma, &ahead, 3);
            let (mut sums, mut seed, paths) = (vec![(0.0, 0.0); 9], 7, 8000);
            for _ in 0..paths {
                let mut state = start.clone();
                for sum in &mut sums {
                    let expected = state.clone().filter(kind, &by, 0.0);
                    let error = sigma * normal(&mut seed);
                    let y = if kind.relative { expected * (1.0 + error) } else { expected + error };
                    state.filter(kind, &by, y);
                    sum.0 += y;
                    sum.1 += y * y;
                }
            }
            for (h, (sum, square)) in sums.iter().enumerate() {
                let mean = sum / f64::from(paths);
                let simulated = (square / f64::from(paths) - mean * mean).sqrt();
                assert!(
                    (found[h] / simulated - 1.0).abs() < 0.04,
                    "{kind}, step {}: {} {simulated}",
                    h + 1,
                    found[h]
                );
            }
        }
    }
}
