//! The dynamic optimised Theta model (DOTM).

use serde::{Deserialize, Serialize};

use super::{ALPHA, best_level, growth};
use crate::rows::{Prediction, Rows, deviation};
use crate::simplex::{Limits, minimise};

/// The errors of the first rows have no weight: their line goes through one or two rows.
const WARM_UP: usize = 3;
/// θ lies here: 1 is exponential smoothing alone, and beyond 100 the line's share, 1 − 1/θ, changes by less than a hundredth.
const THETA: (f64, f64) = (1.0, 100.0);

/// Exponential smoothing ℓ with a line A + B t that is fit to the rows so far, weighed by 1 − 1/θ:
/// ŷ(t + 1) = ℓ(t) + (1 − 1/θ) ((1 − α)ᵗ A + B (1 − (1 − α)ᵗ⁺¹) / α), rows t from 1; beyond the rows the line goes through its own
/// forecasts (Fiorucci et al. 2016, equations 8 to 13).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dynamic {
    alpha: f64,
    theta: f64,
    /// The level before the first row of the fit.
    level: f64,
    /// The deviation of one step.
    sigma: f64,
}

/// What follows from a row: the level, and the sums of the line.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Rows so far.
    rows: f64,
    level: f64,
    /// (1 − α) to the power of the rows.
    power: f64,
    /// Mean of the rows so far.
    mean: f64,
    /// Intercept and slope of the line through the rows so far, at 1, 2, ….
    line: (f64, f64),
}

impl Dynamic {
    pub(crate) fn fit(values: &[f64]) -> Self {
        let squares = |x: &[f64]| {
            let inside = (ALPHA.0..=ALPHA.1).contains(&x[0]) && (THETA.0..=THETA.1).contains(&x[1]);
            if !inside {
                return f64::INFINITY;
            }
            let one = Self::of(x, values);
            one.errors(values, one.level).skip(WARM_UP).map(|(e, _)| e * e).sum()
        };
        // The scale of the series, so that the end of the search is relative.
        let total: f64 = values.iter().map(|y| y * y).sum();
        let limits = Limits { evaluations: 200, tolerance: 1e-9 * total.max(f64::MIN_POSITIVE) };
        let starts = [[0.5, 2.0], [0.1, 2.0], [0.9, 2.0]];
        let fits = starts.iter().map(|s| minimise(squares, s, &[0.05, 0.5], limits));
        let (best, _) = fits.fold((starts[0].to_vec(), f64::INFINITY), |a, b| if b.1 < a.1 { b } else { a });
        let mut found = Self::of(&best, values);
        let errors: Vec<f64> = found.errors(values, found.level).skip(WARM_UP).map(|(e, _)| e).collect();
        found.sigma = deviation(&errors, 3);
        found
    }

    /// The model of these α and θ, with the best level.
    fn of(x: &[f64], values: &[f64]) -> Self {
        let mut one = Self { alpha: x[0], theta: x[1], level: 0.0, sigma: 0.0 };
        one.level = one.best_level(values);
        one
    }

    /// The level before rows; of few rows that at which the first one's forecast of the second is the first, y / θ.
    fn best_level(&self, values: &[f64]) -> f64 {
        if values.len() <= 2 * WARM_UP {
            return values.first().map_or(0.0, |y| y / self.theta);
        }
        best_level(self.errors(values, 0.0).skip(WARM_UP))
    }

    /// The errors one step ahead, and what each loses for a level that is higher by 1.
    fn errors(&self, values: &[f64], level: f64) -> impl Iterator<Item = (f64, f64)> {
        let mut state = State::before(level);
        values.iter().map(move |y| {
            let weight = state.power;
            let error = y - self.ahead(&state);
            state = self.after(&state, *y);
            (error, weight)
        })
    }

    /// The next value.
    fn ahead(&self, state: &State) -> f64 {
        let (a, b) = state.line;
        let lagged = b * (1.0 - state.power * (1.0 - self.alpha)) / self.alpha;
        state.level + (1.0 - 1.0 / self.theta) * (state.power * a + lagged)
    }

    /// The state after a row.
    fn after(&self, state: &State, y: f64) -> State {
        let rows = state.rows + 1.0;
        let mean = state.mean + (y - state.mean) / rows;
        // Of the first row the line is its value.
        let slope = if rows > 1.0 {
            ((rows - 2.0) * state.line.1 + 6.0 * (y - state.mean) / rows) / (rows + 1.0)
        } else {
            0.0
        };
        State {
            rows,
            level: state.level + self.alpha * (y - state.level),
            power: state.power * (1.0 - self.alpha),
            mean,
            line: (mean - slope * (rows + 1.0) / 2.0, slope),
        }
    }

    pub(crate) fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        let start = if rows.start == 0 { self.level } else { self.best_level(rows.values) };
        let mut state = rows.values.iter().fold(State::before(start), |s, y| self.after(&s, *y));
        let values = (0..horizon).map(|_| {
            let y = self.ahead(&state);
            state = self.after(&state, y);
            y
        });
        let values = values.collect();
        Prediction {
            values,
            spread: (1..=horizon).map(|h| self.sigma * growth(self.alpha, h).sqrt()).collect(),
        }
    }
}

impl State {
    fn before(level: f64) -> Self {
        Self { rows: 0.0, level, power: 1.0, mean: 0.0, line: (0.0, 0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::line;

    #[test]
    fn the_running_line_is_the_least_squares_line() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let one = Dynamic { alpha: 0.3, theta: 2.0, level: 1.0, sigma: 0.0 };
        let end = values.iter().fold(State::before(1.0), |s, y| one.after(&s, *y));
        let (at_zero, slope) = line(&values);
        assert!((end.line.1 - slope).abs() < 1e-12, "{end:?} {slope}");
        assert!((end.line.0 - (at_zero - slope)).abs() < 1e-12, "rows count from 1: {end:?} {at_zero}");
    }
}
