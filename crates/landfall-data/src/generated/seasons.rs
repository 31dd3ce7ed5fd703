//! Seasons of the calendar, each of unit standard deviation over its period.

use crate::generated::draws::Draws;
use crate::generated::kinds::Kind;
use crate::generated::noise::unit;

/// Rows of a year of days, and of weeks.
const YEAR: f64 = 365.2425;

/// A season: a period in rows and its weight beside the others of its series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Season {
    pub(crate) period: f64,
    weight: f64,
    /// The rows of its places: 1, or those of a day in a week of days.
    step: usize,
}

/// The seasons of a series of this kind; the first is the main one.
pub(crate) fn seasons(draws: &mut Draws, kind: Kind) -> Vec<Season> {
    let mut all = Vec::new();
    let mut add = |period: f64, weight: f64| all.push(Season { period, weight, step: 1 });
    match kind {
        Kind::Yearly => {}
        Kind::Quarterly => add(4.0, 1.0),
        Kind::Monthly => add(12.0, 1.0),
        Kind::Weekly => {
            add(if draws.chance(0.5) { 52.0 } else { YEAR / 7.0 }, 1.0);
            if draws.chance(0.2) {
                add(if draws.chance(0.5) { 13.0 } else { YEAR / 84.0 }, draws.between(0.1, 0.8));
            }
        }
        Kind::Daily => {
            let year = draws.chance(0.35).then(|| draws.log_between(0.2, 3.0));
            add(if draws.chance(0.8) { 7.0 } else { 5.0 }, 1.0);
            if let Some(weight) = year {
                add(YEAR, weight);
            }
            if draws.chance(0.15) {
                add(YEAR / 12.0, draws.between(0.1, 0.7));
            }
        }
        Kind::Hourly => add(24.0, 1.0),
        Kind::Minutely => add([48.0, 96.0, 144.0, 288.0][draws.choose(&[0.4, 0.3, 0.15, 0.15])], 1.0),
        Kind::Other => add((draws.log_between(2.0, 400.0)).round(), 1.0),
    }
    all
}

/// Writes the superposed seasons of a series, of about unit spread, or zeros where there are none.
pub(crate) fn write(draws: &mut Draws, kind: Kind, seasons: &[Season], out: &mut [f64]) {
    out.fill(0.0);
    let mut one = vec![0.0; out.len()];
    for (at, season) in seasons.iter().enumerate() {
        let days = at == 0 && matches!(kind, Kind::Hourly | Kind::Minutely);
        if days && draws.chance(0.65) {
            crate::generated::weeks::write(draws, season.period as usize, &mut one);
        } else {
            single(draws, *season, &mut one);
        }
        out.iter_mut().zip(&one).for_each(|(x, y)| *x += season.weight * y);
    }
}

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

/// How a season changes from period to period.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Not at all.
    Steady,
    /// Its size wanders slowly, by this share a period.
    Size(f64),
    /// Each place wanders by this share a period, as in exponential smoothing.
    Places(f64),
}

impl Change {
    fn draw(draws: &mut Draws) -> Self {
        match draws.choose(&[0.5, 0.2, 0.3]) {
            0 => Self::Steady,
            1 => Self::Size(draws.log_between(0.02, 0.3)),
            _ => Self::Places(draws.log_between(0.01, 0.4)),
        }
    }
}

fn single(draws: &mut Draws, season: Season, out: &mut [f64]) {
    let places = ((season.period / season.step as f64).ceil() as usize).max(2);
    let mut values = pattern(draws, places);
    let change = Change::draw(draws);
    let (mut at, mut size) = (draws.uniform() * season.period, 1.0_f64);
    let mut last = usize::MAX;
    for x in out {
        let place = (at as usize / season.step).min(places - 1);
        if place != last {
            last = place;
            match change {
                Change::Steady => {}
                Change::Size(share) if place == 0 => {
                    size = 1.0 + 0.95 * (size - 1.0) + share * draws.normal();
                }
                Change::Size(_) => {}
                Change::Places(share) => {
                    // Reverts so far that its variance stays 1.
                    values[place] =
                        values[place] * libm::sqrt((1.0 - share * share).max(0.0)) + share * draws.normal();
                }
            }
        }
        *x = size * values[place];
        at += 1.0;
        if at >= season.period {
            at -= season.period;
        }
    }
}
