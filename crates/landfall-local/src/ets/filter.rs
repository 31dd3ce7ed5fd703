//! The recursions of exponential smoothing (Hyndman et al. 2008, table 2.3).
//!
//! With q = ℓ + φ b the forecast is ŷ = q, q + s or q s, s being the season's state a season ago. A row y without its season is P, and
//! then ℓ = q + α (P − q), b = φ b + β (P − q), and s moves by γ towards y − q or y / q.

use serde::{Deserialize, Serialize};

use super::kind::{Kind, Seasonality};

/// What smooths the states.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Smoothing {
    pub(crate) alpha: f64,
    /// 0 without a trend.
    pub(crate) beta: f64,
    /// 0 without a season.
    pub(crate) gamma: f64,
    /// 1 unless the trend is damped.
    pub(crate) phi: f64,
}

/// Level, trend and season before a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) level: f64,
    /// 0 without a trend.
    pub(crate) trend: f64,
    /// One for each row of a season, in the order of the series; empty without one.
    pub(crate) season: Vec<f64>,
    /// Which of `season` is the next row's.
    pub(crate) next: usize,
}

/// A multiplicative model divides by no less.
const TINY: f64 = 1e-10;

/// No smaller in size than `TINY`.
fn safe(x: f64) -> f64 {
    if x.abs() < TINY { TINY.copysign(x) } else { x }
}

impl State {
    /// Filters a row; returns its forecast.
    #[inline]
    pub(crate) fn filter(&mut self, kind: Kind, by: &Smoothing, y: f64) -> f64 {
        let moved = by.phi * self.trend;
        let q = self.level + moved;
        let (forecast, adjusted) = match kind.seasonality {
            Seasonality::None => (q, y),
            Seasonality::Additive => {
                let s = &mut self.season[self.next];
                let old = *s;
                *s += by.gamma * (y - q - old);
                (q + old, y - old)
            }
            Seasonality::Multiplicative => {
                let s = &mut self.season[self.next];
                let old = *s;
                *s += by.gamma * (y / safe(q) - old);
                (q * old, y / safe(old))
            }
        };
        let error = adjusted - q;
        self.level = q + by.alpha * error;
        self.trend = moved + by.beta * error;
        self.advance();
        forecast
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next >= self.season.len() {
            self.next = 0;
        }
    }

    /// The forecasts of the next steps without their season, and the season's state of each (1 or 0 without a season).
    pub(crate) fn ahead(&self, kind: Kind, phi: f64, horizon: usize) -> Vec<(f64, f64)> {
        let (mut damped, mut sum) = (1.0, 0.0);
        (0..horizon)
            .map(|h| {
                damped *= phi;
                sum += damped;
                let season = match kind.seasonality {
                    Seasonality::None => 0.0,
                    Seasonality::Additive | Seasonality::Multiplicative => {
                        self.season[(self.next + h) % self.season.len()]
                    }
                };
                (self.level + sum * self.trend, season)
            })
            .collect()
    }
}

/// Errors below this share of the rows' mean size are rounding.
const ROUNDING: f64 = 1e-12;

/// −2 log likelihood of rows, less what all models share: n log Σe², and twice Σ log |ŷ| for relative errors e = (y − ŷ) / ŷ.
/// `state` ends after the rows. Rows are about 1 in size.
pub(crate) fn cost(kind: Kind, by: &Smoothing, state: &mut State, values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (mut squares, mut logs) = (0.0, 0.0);
    // A product of some factors needs one logarithm.
    let mut product = 1.0_f64;
    for (i, y) in values.iter().enumerate() {
        let forecast = state.filter(kind, by, *y);
        let mut error = y - forecast;
        if kind.relative {
            let size = safe(forecast);
            error /= size;
            product *= size.abs();
            if i % 16 == 15 {
                logs += product.ln();
                product = 1.0;
            }
        }
        squares += error * error;
    }
    n * squares.max(n * ROUNDING * ROUNDING).ln() + 2.0 * (logs + product.ln())
}

#[cfg(test)]
mod tests {
    use super::super::kind::Trend;
    use super::*;

    const BY: Smoothing = Smoothing { alpha: 0.5, beta: 0.2, gamma: 0.1, phi: 0.9 };

    /// A row of 12 at a level of 8, a trend of 2 and a season of `season`.
    fn filtered(seasonality: Seasonality, season: f64) -> (f64, State) {
        let kind = Kind { relative: false, trend: Trend::Damped, seasonality };
        let mut state = State { level: 8.0, trend: 2.0, season: vec![season, 7.0], next: 0 };
        (state.filter(kind, &BY, 12.0), state)
    }

    #[test]
    fn a_row_moves_the_states_by_table_2_3() {
        // q = 8 + 0.9 · 2 = 9.8.
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let check = |seasonality, season, expected: [f64; 4]| {
            let (forecast, state) = filtered(seasonality, season);
            let found = [forecast, state.level, state.trend, state.season[0]];
            found.iter().zip(expected).for_each(|(a, b)| near(*a, b));
            assert_eq!((state.season[1], state.next), (7.0, 1));
        };
        check(Seasonality::None, 7.0, [9.8, 10.9, 1.8 + 0.2 * 2.2, 7.0]);
        check(Seasonality::Additive, 1.2, [11.0, 10.3, 1.8 + 0.2, 1.3]);
        check(Seasonality::Multiplicative, 1.25, [12.25, 9.7, 1.8 - 0.04, 1.25 + 0.1 * (12.0 / 9.8 - 1.25)]);
    }
}
