//! Seasons of the calendar, each of unit standard deviation over its period.

use crate::generated::draws::Draws;
use crate::generated::kinds::Kind;
use crate::generated::patterns::pattern;
use crate::generated::weeks;

/// Rows of a year of days, and of weeks.
const YEAR: f64 = 365.2425;

/// A season: a period in rows and its weight beside the others of its series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Season {
    pub(crate) period: f64,
    weight: f64,
}

/// The seasons of a series of this kind; the first is the main one.
pub(crate) fn seasons(draws: &mut Draws, kind: Kind) -> Vec<Season> {
    let mut all = Vec::new();
    let mut add = |period: f64, weight: f64| all.push(Season { period, weight });
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
            weeks::write(draws, season.period as usize, &mut one);
        } else {
            single(draws, *season, &mut one);
        }
        out.iter_mut().zip(&one).for_each(|(x, y)| *x += season.weight * y);
    }
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
    let places = (season.period.ceil() as usize).max(2);
    let mut values = pattern(draws, places);
    let change = Change::draw(draws);
    let (mut at, mut size) = (draws.uniform() * season.period, 1.0_f64);
    let mut last = usize::MAX;
    for x in out {
        let place = (at as usize).min(places - 1);
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
