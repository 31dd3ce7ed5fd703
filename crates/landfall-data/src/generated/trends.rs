//! Trends: level and slope over time, of unit spread within windows of a given span.
//!
//! State-space trends after Hyndman, Koehler, Ord and Snyder, *Forecasting with Exponential Smoothing* (2008), chapter 2.

use crate::generated::draws::Draws;

/// The shapes of a trend, and how often each is.
const SHAPES: [(Shape, f64); 7] = [
    (Shape::Level, 0.26),
    (Shape::Slope, 0.22),
    (Shape::Pieces, 0.14),
    (Shape::Damped, 0.12),
    (Shape::Saturating, 0.10),
    (Shape::Line, 0.08),
    (Shape::Flat, 0.08),
];

/// The shape of a trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// Random walk with a drift that changes now and then: `l ← l + b + ση`.
    Level,
    /// The slope reverts to a mean: `b ← b̄ + φ(b − b̄) + σζ`, `l ← l + b + ση`.
    Slope,
    /// Straight pieces that join, of Γ-distributed lengths.
    Pieces,
    /// Slopes that begin at random times and fade: `b ← φb`, plus a new slope at each beginning.
    Damped,
    /// A sum of logistic curves.
    Saturating,
    /// One straight line, at times with a curvature.
    Line,
    /// None.
    Flat,
}

/// Writes a trend whose mean standard deviation within windows of `span` rows is 1, or zeros.
pub(crate) fn trend(draws: &mut Draws, span: f64, out: &mut [f64]) {
    match SHAPES[draws.choose(&SHAPES.map(|(_, weight)| weight))].0 {
        Shape::Level => level(draws, span, out),
        Shape::Slope => slope(draws, span, out),
        Shape::Pieces => pieces(draws, span, out),
        Shape::Damped => damped(draws, span, out),
        Shape::Saturating => saturating(draws, span, out),
        Shape::Line => line(draws, span, out),
        Shape::Flat => out.fill(0.0),
    }
    let spread = spread(out, span as usize);
    if spread > 1e-9 {
        out.iter_mut().for_each(|x| *x /= spread);
    }
}

/// Drift beside σ is what makes a short series a trend or a walk: from far below 1 to far above.
fn level(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let size = if draws.chance(0.85) { draws.log_between(0.1, 3.0) } else { 0.0 };
    let (persistent, heavy) = (draws.chance(0.5), draws.chance(0.25));
    let breaks = if persistent { 0.05 / span } else { draws.log_between(0.1, 1.0) / span };
    let mean = draws.sign();
    let mut drift = size * mean;
    let mut value = 0.0;
    for x in out {
        if draws.chance(breaks) {
            drift = size * (0.5 * mean + draws.normal());
        }
        value += drift + if heavy { draws.student(3.5) } else { draws.normal() };
        *x = value;
    }
}

fn slope(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let memory = draws.log_between(2.0, 3.0 * span + 4.0);
    let keep = libm::exp(-1.0 / memory);
    let stir = libm::sqrt(1.0 - keep * keep);
    let rough = if draws.chance(0.7) { draws.log_between(0.05, 2.0) } else { 0.0 };
    let mean = if draws.chance(0.6) { draws.normal() } else { 0.0 };
    let (mut value, mut around) = (0.0, draws.normal());
    for x in out {
        around = keep * around + stir * draws.normal();
        value += mean + around + rough * draws.normal();
        *x = value;
    }
}

fn pieces(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let length = span * draws.log_between(0.4, 3.0);
    let (mean, jump) = (draws.normal(), if draws.chance(0.2) { span * 0.3 } else { 0.0 });
    let (mut value, mut left, mut slope) = (0.0, 0.0, 0.0);
    for x in out {
        if left <= 0.0 {
            left = length * 0.5 * draws.gamma(2.0) + 2.0;
            slope = 0.7 * mean + draws.normal();
            value += jump * draws.normal();
        }
        left -= 1.0;
        value += slope;
        *x = value;
    }
}

fn damped(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let keep = libm::exp(-1.0 / (span * draws.log_between(0.1, 1.5)));
    let rate = draws.log_between(0.3, 2.0) / span;
    let (mut value, mut slope) = (0.0, draws.normal());
    for x in out {
        slope *= keep;
        if draws.chance(rate) {
            slope += draws.normal();
        }
        value += slope;
        *x = value;
    }
}

fn saturating(draws: &mut Draws, span: f64, out: &mut [f64]) {
    out.fill(0.0);
    let rows = out.len() as f64;
    let count = (rows / (span * draws.between(1.0, 4.0))).ceil().clamp(1.0, 40.0) as usize;
    for _ in 0..count {
        let (centre, width) = (draws.between(-0.1, 1.1) * rows, span * draws.log_between(0.05, 0.6));
        let (height, step) = (draws.normal(), libm::exp(-1.0 / width));
        // exp((centre − t) / width), by a product from row to row; beyond 1e12 the curve is 0.
        let mut power = libm::exp((centre / width).min(700.0));
        for (t, x) in out.iter_mut().enumerate() {
            if power > 1e200 {
                power = libm::exp(((centre - t as f64) / width).min(700.0));
            }
            *x += height / (1.0 + power);
            power *= step;
        }
    }
}

fn line(draws: &mut Draws, span: f64, out: &mut [f64]) {
    let curve = if draws.chance(0.3) { draws.normal() } else { 0.0 };
    let (centre, slope) = (draws.uniform() * out.len() as f64, draws.normal());
    for (t, x) in out.iter_mut().enumerate() {
        let at = (t as f64 - centre) / span;
        *x = slope * at + 0.2 * curve * at * at;
    }
}

/// The root of the mean variance within windows of `span` rows.
pub(crate) fn spread(values: &[f64], span: usize) -> f64 {
    let width = span.clamp(4, values.len().max(4));
    let (mut sum, mut count) = (0.0, 0.0);
    for window in values.chunks(width).filter(|w| w.len() > 1) {
        let n = window.len() as f64;
        let mean = window.iter().sum::<f64>() / n;
        sum += window.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        count += 1.0;
    }
    if count > 0.0 { libm::sqrt(sum / count) } else { 0.0 }
}

/// Mirrors values at ±limit as often as needed, which keeps steps and bounds the range.
pub(crate) fn fold(values: &mut [f64], limit: f64) {
    for x in values {
        let turn = (*x / limit + 1.0).rem_euclid(4.0);
        *x = limit * if turn <= 2.0 { turn - 1.0 } else { 3.0 - turn };
    }
}
