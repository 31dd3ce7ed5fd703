//! Stable seasonal ARIMA processes, from roots inside of the stability region.
//!
//! `φ(B) Φ(Bᵐ) (1 − B)ᵈ (1 − Bᵐ)ᴰ y = θ(B) Θ(Bᵐ) e` (Box and Jenkins 1970). A polynomial is a product of `1 − rB` for real roots and of
//! `1 − 2r cos(ω) B + r²B²` for pairs, all with `r < 1`, as in *Zero-shot forecasting by simulation alone* (arXiv 2601.00970).

use crate::generated::draws::Draws;
use crate::generated::noise;

/// The largest modulus of a root.
const EDGE: f64 = 0.985;

/// An ARMA filter: `y_t = Σ a_k y_{t−k} + e_t + Σ b_k e_{t−k}`.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// a₁, a₂, …
    own: Vec<f64>,
    /// b₁, b₂, …
    shocks: Vec<f64>,
}

impl Filter {
    /// A stable, invertible filter of at most these orders.
    pub(crate) fn draw(draws: &mut Draws, most_own: usize, most_shocks: usize) -> Self {
        let (own, shocks) = (draws.below(most_own + 1), draws.below(most_shocks + 1));
        let own = polynomial(draws, own).iter().map(|c| -c).collect();
        Self { own, shocks: polynomial(draws, shocks) }
    }

    /// Filters shocks in place.
    pub(crate) fn apply(&self, values: &mut [f64]) {
        let mut before = vec![0.0; self.shocks.len()];
        for t in 0..values.len() {
            let shock = values[t];
            let mut sum = shock;
            for (b, e) in self.shocks.iter().zip(&before) {
                sum += b * e;
            }
            for (a, y) in self.own.iter().zip(values[..t].iter().rev()) {
                sum += a * y;
            }
            if before.pop().is_some() {
                before.insert(0, shock);
            }
            values[t] = sum;
        }
    }
}

/// c₁, c₂, … of `1 + c₁B + c₂B² + …`, with all roots outside of the unit circle.
fn polynomial(draws: &mut Draws, order: usize) -> Vec<f64> {
    let mut all = vec![1.0];
    let mut left = order;
    while left > 0 {
        let size = EDGE * libm::sqrt(draws.uniform());
        let factor = if left >= 2 && draws.chance(0.6) {
            let turn = draws.between(0.05, std::f64::consts::PI);
            vec![1.0, -2.0 * size * libm::cos(turn), size * size]
        } else {
            vec![1.0, -size * if draws.chance(0.7) { 1.0 } else { -1.0 }]
        };
        left -= factor.len() - 1;
        let mut product = vec![0.0; all.len() + factor.len() - 1];
        for (i, x) in all.iter().enumerate() {
            for (j, y) in factor.iter().enumerate() {
                product[i + j] += x * y;
            }
        }
        all = product;
    }
    all.split_off(1)
}

/// How often values are summed: (d, weight).
const SUMMED: [(usize, f64); 3] = [(0, 0.3), (1, 0.5), (2, 0.2)];

/// Writes a seasonal ARIMA path; `period` 1 has no season.
pub(crate) fn path(draws: &mut Draws, period: usize, out: &mut [f64]) {
    let times = SUMMED[draws.choose(&SUMMED.map(|(_, weight)| weight))].0;
    let seasonal = period > 1 && draws.chance(0.85);
    let burn = 200 + if seasonal { 2 * period } else { 0 };
    let mut values = vec![0.0; burn + out.len()];
    let filter = Filter::draw(draws, 3, 2);
    noise::shocks(draws, &mut values);
    filter.apply(&mut values);
    noise::unit(&mut values);
    if seasonal {
        season(draws, period, &mut values);
    }
    out.copy_from_slice(&values[burn..]);
    for _ in 0..times {
        sum(draws, times, out);
    }
}

/// The seasonal part: `y_t = Φ y_{t−m} + w_t + Θ w_{t−m}`, with Φ = 1 where seasonal differences are the process, from a first
/// season that is large beside the shocks.
fn season(draws: &mut Draws, period: usize, values: &mut [f64]) {
    let own = if draws.chance(0.5) { 1.0 } else { draws.between(0.1, 0.97) };
    let shock = -draws.between(0.0, 0.95) * f64::from(draws.chance(0.7));
    // What a stationary season varies by; a summed one begins as large as drawn.
    let size = if own < 1.0 { 1.0 / libm::sqrt(1.0 - own * own) } else { draws.log_between(0.5, 30.0) };
    let mut before = vec![0.0; period];
    let start = period.min(values.len());
    for (x, w) in values[..start].iter_mut().zip(&mut before) {
        *w = *x;
        *x = size * draws.normal();
    }
    for t in start..values.len() {
        let w = values[t];
        values[t] = own * values[t - period] + w + shock * before[t % period];
        before[t % period] = w;
    }
}

/// Sums in place. Of two sums the inner one is mostly smoothed, so that its slope changes slowly.
fn sum(draws: &mut Draws, times: usize, values: &mut [f64]) {
    let drift = if draws.chance(0.5) { 0.5 * draws.normal() } else { 0.0 };
    let back = if times > 1 { draws.between(0.3, 0.98) } else { 0.0 };
    let (mut total, mut last) = (0.0, 0.0);
    for x in values {
        let shock = *x;
        total += shock - back * last + drift * (1.0 - back);
        last = shock;
        *x = total;
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, season};
    use crate::generated::draws::Draws;

    /// The root of the mean square.
    fn size(values: &[f64]) -> f64 {
        (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
    }

    #[test]
    fn filters_and_seasons_are_stable_over_many_values() {
        for number in 0..60 {
            let mut draws = Draws::new(5, number, 0);
            let filter = Filter::draw(&mut draws, 4, 3);
            let mut values = vec![0.0; 100_000];
            values.fill_with(|| draws.normal());
            filter.apply(&mut values);
            let (early, late) = (size(&values[20_000..40_000]), size(&values[80_000..]));
            assert!((0.3..3.0).contains(&(late / early)), "filter {number}: {early} becomes {late}");
            season(&mut draws, 12, &mut values);
            let change = size(&values[90_000..]) / size(&values[..10_000]);
            assert!(change.is_finite() && change < 1000.0, "season {number}: {change}");
        }
    }

    #[test]
    fn a_filter_is_its_recursion() {
        let filter = Filter { own: vec![0.5, -0.25], shocks: vec![0.4] };
        let mut values = [1.0, 0.0, 2.0, 0.0];
        filter.apply(&mut values);
        // y₁ = .5·1 + .4·1, y₂ = 2 + .5·.9 − .25·1, y₃ = .5·2.2 − .25·.9 + .4·2
        for (found, expected) in values.iter().zip([1.0, 0.9, 2.2, 1.675]) {
            assert!((found - expected).abs() < 1e-12, "{values:?}");
        }
    }
}
