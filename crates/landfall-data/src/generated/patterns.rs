//! The values of a season at the places of its period.

use crate::generated::draws::Draws;
use crate::generated::noise::unit;

/// How the values of a season differ from place to place.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Any value at every place.
    Sharp,
    /// A few harmonics.
    Smooth,
    /// Few places that stand out.
    Spiky,
    /// Two levels.
    Blocks,
    /// Random values, averaged with their neighbours.
    Rounded,
}

/// The shapes, for short periods (at most 12 rows) and for longer ones.
const SHAPES: [(Shape, f64, f64); 5] = [
    (Shape::Sharp, 0.5, 0.2),
    (Shape::Smooth, 0.25, 0.4),
    (Shape::Spiky, 0.1, 0.12),
    (Shape::Blocks, 0.05, 0.08),
    (Shape::Rounded, 0.1, 0.2),
];

/// The places of a period: a pattern of zero mean and unit standard deviation.
pub(crate) fn pattern(draws: &mut Draws, places: usize) -> Vec<f64> {
    let weights = SHAPES.map(|(_, short, long)| if places <= 12 { short } else { long });
    let mut values = match SHAPES[draws.choose(&weights)].0 {
        Shape::Sharp => sharp(draws, places),
        Shape::Smooth => smooth(draws, places),
        Shape::Spiky => spiky(draws, places),
        Shape::Blocks => blocks(draws, places),
        Shape::Rounded => rounded(draws, places),
    };
    let mean = values.iter().sum::<f64>() / places.max(1) as f64;
    values.iter_mut().for_each(|x| *x -= mean);
    unit(&mut values);
    values
}

fn sharp(draws: &mut Draws, places: usize) -> Vec<f64> {
    let skew = if draws.chance(0.4) { draws.between(0.2, 1.0) * draws.sign() } else { 0.0 };
    let one = |draws: &mut Draws| {
        let z = draws.normal();
        if skew == 0.0 { z } else { libm::exp(skew * z) * skew.signum() }
    };
    (0..places).map(|_| one(draws)).collect()
}

fn smooth(draws: &mut Draws, places: usize) -> Vec<f64> {
    let (most, fall) = ((places / 2).clamp(1, 1 + draws.below(8)), draws.between(0.0, 2.0));
    let mut values = vec![0.0; places];
    for k in 1..=most {
        let size = draws.normal() * libm::pow(k as f64, -fall);
        let phase = draws.uniform() * std::f64::consts::TAU;
        let turn = std::f64::consts::TAU * k as f64 / places as f64;
        for (t, x) in values.iter_mut().enumerate() {
            *x += size * libm::sin(turn * t as f64 + phase);
        }
    }
    values
}

fn spiky(draws: &mut Draws, places: usize) -> Vec<f64> {
    let sign = if draws.chance(0.8) { 1.0 } else { -1.0 };
    let mut values: Vec<f64> = (0..places).map(|_| 0.1 * draws.normal()).collect();
    for _ in 0..1 + draws.below(1 + places / 6) {
        values[draws.below(places)] += sign * draws.log_between(0.5, 4.0);
    }
    values
}

fn blocks(draws: &mut Draws, places: usize) -> Vec<f64> {
    let (start, length) = (draws.below(places), 1 + draws.below(places.saturating_sub(1).max(1)));
    let mut values: Vec<f64> = (0..places).map(|_| 0.05 * draws.normal()).collect();
    for k in start..start + length {
        values[k % places] += 1.0;
    }
    values
}

fn rounded(draws: &mut Draws, places: usize) -> Vec<f64> {
    let mut values = sharp(draws, places);
    for _ in 0..1 + draws.below(1 + places / 4) {
        let before = values.clone();
        for (k, x) in values.iter_mut().enumerate() {
            *x = 0.5 * before[k] + 0.25 * (before[(k + 1) % places] + before[(k + places - 1) % places]);
        }
    }
    values
}
