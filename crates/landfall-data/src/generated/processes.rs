//! Gaussian processes, by random features of their spectrum.
//!
//! `f(t) = √(2/M) Σ cos(ω_k t + φ_k)` with ω drawn from the spectral density of a kernel (Rahimi and Recht 2007). The spectrum of a
//! product of kernels is that of ω + ω′; a linear kernel multiplies the path by `(t − c)`.

use crate::generated::draws::Draws;

/// Cosines of one path.
const FEATURES: usize = 40;

/// A stationary kernel, by the distribution of its frequencies.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    /// exp(−d²/2l²): normal frequencies.
    Squared(f64),
    /// Matérn of smoothness ν and length l: Student's t with 2ν degrees of freedom.
    Matern(f64, f64),
    /// Rational quadratic of shape α and length l: normal frequencies of Γ-distributed precision.
    Rational(f64, f64),
    /// exp(−2 sin²(πd/p)/l²) of period p: multiples of 2π/p, geometric as its Bessel weights nearly are.
    Periodic(f64, f64),
}

impl Kernel {
    fn draw(draws: &mut Draws, span: f64, period: f64) -> Self {
        let length = span * draws.log_between(0.03, 2.0);
        match draws.choose(&[0.25, 0.3, 0.15, if period > 1.0 { 0.5 } else { 0.1 }]) {
            0 => Self::Squared(length),
            1 => Self::Matern([0.5, 1.5, 2.5][draws.below(3)], length),
            2 => Self::Rational(draws.log_between(0.2, 5.0), length),
            _ if period > 1.0 => Self::Periodic(period, draws.between(0.2, 0.8)),
            _ => Self::Periodic(span * draws.log_between(0.2, 1.0) + 3.0, draws.between(0.2, 0.8)),
        }
    }

    fn frequency(self, draws: &mut Draws) -> f64 {
        match self {
            Self::Squared(length) => draws.normal() / length,
            Self::Matern(smooth, length) => draws.student(2.0 * smooth) / length,
            Self::Rational(shape, length) => draws.normal() * libm::sqrt(draws.gamma(shape) / shape) / length,
            Self::Periodic(period, keep) => {
                let mut multiple = 1.0;
                while multiple < 0.5 * period - 1.0 && draws.chance(keep) {
                    multiple += 1.0;
                }
                draws.sign() * std::f64::consts::TAU * multiple / period
            }
        }
    }
}

/// Writes a path of a Gaussian process whose kernel is a sum of one to three products of one or two kernels.
pub(crate) fn path(draws: &mut Draws, span: f64, period: f64, out: &mut [f64]) {
    out.fill(0.0);
    let terms = 1 + draws.choose(&[0.35, 0.45, 0.2]);
    for _ in 0..terms {
        let first = Kernel::draw(draws, span, period);
        let second = draws.chance(0.35).then(|| Kernel::draw(draws, 2.0 * span, period));
        let ramp = draws.chance(0.15).then(|| draws.uniform() * out.len() as f64);
        let size = draws.log_between(0.2, 2.0) * libm::sqrt(2.0 / FEATURES as f64);
        for _ in 0..FEATURES / terms {
            let other = second.map_or(0.0, |kernel| kernel.frequency(draws));
            let turn = first.frequency(draws) + other;
            let phase = draws.uniform() * std::f64::consts::TAU;
            add_cosine(out, turn, phase, size, ramp.map(|centre| (centre, span)));
        }
    }
    if draws.chance(0.4) {
        let slope = draws.normal() / span;
        out.iter_mut().enumerate().for_each(|(t, x)| *x += slope * t as f64);
    }
}

/// Adds `size · cos(turn · t + phase)`, by a rotation from row to row.
fn add_cosine(out: &mut [f64], turn: f64, phase: f64, size: f64, ramp: Option<(f64, f64)>) {
    let (sin, cos) = libm::sincos(turn);
    let (mut y, mut x) = libm::sincos(phase);
    for (t, value) in out.iter_mut().enumerate() {
        let factor = ramp.map_or(size, |(centre, span)| size * (t as f64 - centre) / span);
        *value += factor * x;
        (x, y) = (x * cos - y * sin, x * sin + y * cos);
    }
}
