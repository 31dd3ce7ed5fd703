//! What is no sum of trend, season and noise: regimes, thresholds, maps, walks, cycles and constants.

use crate::generated::draws::Draws;

/// Writes one such path.
pub(crate) fn path(draws: &mut Draws, span: f64, out: &mut [f64]) {
    match draws.choose(&[0.22, 0.16, 0.12, 0.2, 0.12, 0.12, 0.06]) {
        0 => regimes(draws, span, out),
        1 => threshold(draws, out),
        2 => logistic(draws, out),
        3 => walk(draws, out),
        4 => out.fill_with(|| draws.normal()),
        5 => cycle(draws, span, out),
        _ => constant(draws, span, out),
    }
}

/// Markov switching between two or three means, each with its own spread and memory (Hamilton 1989).
fn regimes(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let count = 2 + draws.below(2);
    let mut states = Vec::new();
    for _ in 0..count {
        states.push((2.0 * draws.normal(), draws.log_between(0.05, 1.5), draws.between(0.0, 0.95)));
    }
    let stay = 1.0 - 1.0 / (span * draws.log_between(0.1, 1.0) + 2.0);
    let (mut at, mut value) = (0, 0.0);
    for x in out {
        if !draws.chance(stay) {
            at = draws.below(count);
        }
        let (mean, spread, keep) = states[at];
        value = mean + keep * (value - mean) + spread * draws.normal();
        *x = value;
    }
}

/// Self-exciting threshold autoregression (Tong 1978): another line on either side of 0.
fn threshold(draws: &mut Draws, out: &mut [f64]) {
    let mut side = || (draws.normal(), draws.between(-0.9, 0.95));
    let (low, high) = (side(), side());
    let mut value = 0.0;
    for x in out {
        let (mean, keep) = if value < 0.0 { low } else { high };
        value = mean + keep * value + 0.6 * draws.normal();
        *x = value;
    }
}

/// The logistic map `x ← rx(1 − x)`, from cycles to chaos, observed with little noise.
fn logistic(draws: &mut Draws, out: &mut [f64]) {
    let (rate, noise) = (draws.between(3.3, 3.99), draws.log_between(1e-4, 0.05));
    let mut value = draws.between(0.1, 0.9);
    for x in out {
        value = rate * value * (1.0 - value);
        *x = value + noise * draws.normal();
    }
}

/// A random walk, of normal or heavy-tailed steps, at times on a logarithmic scale.
fn walk(draws: &mut Draws, out: &mut [f64]) {
    let (heavy, relative) = (draws.chance(0.3), draws.chance(0.4));
    let step = if relative { draws.log_between(0.002, 0.1) } else { 1.0 };
    let mut value = 0.0_f64;
    for x in out {
        value += step * if heavy { draws.student(3.0) } else { draws.normal() };
        value = if relative { value.clamp(-8.0, 8.0) } else { value };
        *x = if relative { libm::exp(value) } else { value };
    }
}

/// A cycle of no fixed length: phase and height wander, and rises may be faster than falls.
fn cycle(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let length = (span * draws.log_between(0.2, 1.0)).max(4.0);
    let (jitter, skew) = (draws.between(0.0, 0.4), draws.between(-0.6, 0.6));
    let (noise, sharp) = (draws.log_between(0.01, 0.4), draws.chance(0.4));
    let (mut phase, mut height) = (draws.uniform() * std::f64::consts::TAU, 0.0);
    for x in out {
        phase += std::f64::consts::TAU / length * (1.0 + jitter * draws.normal()).max(0.0);
        height += -0.05 * height + 0.08 * draws.normal();
        let wave = libm::sin(phase + skew * libm::sin(phase));
        *x = libm::exp(height) * if sharp { libm::exp(1.5 * wave) } else { wave } + noise * draws.normal();
    }
}

/// A constant with a few changes, or none.
fn constant(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let rate = if draws.chance(0.3) { 0.0 } else { draws.log_between(0.2, 2.0) / span };
    let mut value = draws.normal();
    for x in out {
        if draws.chance(rate) {
            value = draws.normal();
        }
        *x = value;
    }
}
