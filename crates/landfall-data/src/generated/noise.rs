//! Noise of observations, of about unit standard deviation.

use crate::generated::draws::Draws;
use crate::generated::filter::Filter;

/// What shocks are.
#[derive(Debug, Clone, Copy)]
enum Shocks {
    /// N(0, 1).
    Normal,
    /// Student's t with 2.5 to 8 degrees of freedom.
    Student,
    /// GARCH(1, 1): `h ← ω + αe² + βh`, `e = √h·η` (Bollerslev 1986).
    Garch,
    /// Bursts: at a low rate the noise becomes several times as large, for a geometric number of rows.
    Bursts,
    /// Γ-distributed and so lopsided.
    Lopsided,
}

/// The shocks, and how often each is.
const SHOCKS: [(Shocks, f64); 5] = [
    (Shocks::Normal, 0.58),
    (Shocks::Student, 0.17),
    (Shocks::Garch, 0.08),
    (Shocks::Bursts, 0.09),
    (Shocks::Lopsided, 0.08),
];

/// Writes independent or bursty shocks of about unit variance.
pub(crate) fn shocks(draws: &mut Draws, out: &mut [f64]) {
    match SHOCKS[draws.choose(&SHOCKS.map(|(_, weight)| weight))].0 {
        Shocks::Normal => out.fill_with(|| draws.normal()),
        Shocks::Student => {
            let df = draws.between(2.5, 8.0);
            let scale = libm::sqrt((df - 2.0) / df);
            out.fill_with(|| scale * draws.student(df));
        }
        Shocks::Garch => garch(draws, out),
        Shocks::Bursts => bursts(draws, out),
        Shocks::Lopsided => {
            let shape = draws.log_between(0.4, 8.0);
            let (sign, scale) = (draws.sign(), 1.0 / libm::sqrt(shape));
            out.fill_with(|| sign * scale * (draws.gamma(shape) - shape));
        }
    }
}

fn garch(draws: &mut Draws, out: &mut [f64]) {
    let total = draws.between(0.8, 0.99);
    let alpha = draws.between(0.05, 0.35_f64.min(total));
    let (mut variance, mut last) = (1.0_f64, 1.0);
    for x in out {
        variance = ((1.0 - total) + alpha * last * last + (total - alpha) * variance).min(400.0);
        last = libm::sqrt(variance) * draws.normal();
        *x = last;
    }
}

fn bursts(draws: &mut Draws, out: &mut [f64]) {
    let (rate, length) = (draws.log_between(0.003, 0.05), draws.log_between(1.5, 40.0));
    let size = draws.log_between(2.0, 8.0);
    let quiet = 1.0 / libm::sqrt(1.0 + size * size * rate * length / (1.0 + rate * length));
    let mut burst = false;
    for x in out {
        burst = if burst { !draws.chance(1.0 / length) } else { draws.chance(rate) };
        *x = quiet * draws.normal() * if burst { size } else { 1.0 };
    }
}

/// Writes noise: shocks as they are, or through a stable ARMA filter.
pub(crate) fn noise(draws: &mut Draws, out: &mut [f64]) {
    let filtered = draws.chance(0.4);
    let filter = Filter::draw(draws, 2, 1);
    shocks(draws, out);
    if filtered {
        filter.apply(out);
        unit(out);
    }
}

/// Divides by the standard deviation about 0, where there is one.
pub(crate) fn unit(values: &mut [f64]) {
    let square = values.iter().map(|x| x * x).sum::<f64>() / values.len().max(1) as f64;
    if square > 1e-18 {
        let scale = 1.0 / libm::sqrt(square);
        values.iter_mut().for_each(|x| *x *= scale);
    }
}
