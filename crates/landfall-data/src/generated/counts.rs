//! Counts and intermittent demand.

use crate::generated::draws::Draws;

/// Writes counts of a rate whose logarithm follows `signal`, of about unit spread.
///
/// Poisson; negative binomial, as a Poisson of Γ-distributed rate; either with rows of no demand in between; demand at Γ-distributed
/// intervals (Croston 1972).
pub(crate) fn counts(draws: &mut Draws, signal: &[f64], out: &mut [f64]) {
    let swing = draws.log_between(0.05, 1.2);
    let rate = |x: f64, base: f64| base * libm::exp((swing * x).clamp(-5.0, 5.0));
    let base = draws.log_between(0.05, 200.0);
    let shape = draws.log_between(0.3, 20.0);
    match draws.choose(&[0.35, 0.3, 0.15, 0.2]) {
        0 => pairs(signal, out, |x| draws.poisson(rate(x, base))),
        1 => pairs(signal, out, |x| draws.negative_binomial(rate(x, base), shape)),
        2 => {
            let closed = draws.between(0.1, 0.8);
            pairs(signal, out, |x| {
                if draws.chance(closed) { 0.0 } else { draws.negative_binomial(rate(x, base), shape) }
            });
        }
        _ => intervals(draws, rate, signal, out),
    }
}

fn pairs(signal: &[f64], out: &mut [f64], mut count: impl FnMut(f64) -> f64) {
    out.iter_mut().zip(signal).for_each(|(y, x)| *y = count(*x));
}

fn intervals(draws: &mut Draws, rate: impl Fn(f64, f64) -> f64, signal: &[f64], out: &mut [f64]) {
    let (interval, regular) = (draws.log_between(1.5, 20.0), draws.log_between(0.5, 20.0));
    let size = draws.log_between(0.3, 100.0);
    let real = draws.chance(0.3);
    let mut left = interval * draws.uniform();
    for (y, x) in out.iter_mut().zip(signal) {
        left -= 1.0;
        *y = 0.0;
        if left <= 0.0 {
            left += interval * draws.gamma(regular) / regular;
            left = left.max(-1.0);
            let mean = rate(*x, size);
            *y = if real { mean * libm::exp(0.5 * draws.normal()) } else { 1.0 + draws.poisson(mean) };
        }
    }
}
