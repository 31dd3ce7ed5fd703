//! Seasonal ARIMA processes of stable filters.
//!
//! `φ(B) Φ(Bᵐ) (1 − B)ᵈ (1 − Bᵐ)ᴰ y = θ(B) Θ(Bᵐ) e` (Box and Jenkins 1970).

use crate::generated::draws::Draws;
use crate::generated::filter::Filter;
use crate::generated::noise;

/// How often values are summed: weights of d = 0, 1, 2 beside a season, and without one.
const SUMMED: [[f64; 3]; 2] = [[0.45, 0.46, 0.09], [0.15, 0.5, 0.35]];

/// Writes a seasonal ARIMA path; `period` 1 has no season.
pub(crate) fn path(draws: &mut Draws, period: usize, out: &mut [f64]) {
    let times = draws.choose(&SUMMED[usize::from(period <= 1)]);
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
    use super::season;
    use crate::generated::draws::Draws;
    use crate::generated::filter::Filter;

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
}
