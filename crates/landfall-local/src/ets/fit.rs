//! The parameters and initial states of one kind: of the largest likelihood, with a prior that prefers steady trends.

use super::filter::{Smoothing, State, cost};
use super::initial::initial;
use super::kind::{Kind, Seasonality, Trend};
use crate::simplex::{Limits, minimise};

/// α, β and γ lie between this and 1 less this, with β < α and γ < 1 − α.
const EDGE: f64 = 1e-4;
/// φ lies here: more is a trend without damping, less none (Hyndman et al. 2008, section 2.3).
const PHI: (f64, f64) = (0.8, 0.98);
/// A search of −2 log likelihood, in which far larger differences than this decide nothing; longer ones forecast M1 no better.
const SEARCH: Limits = Limits { evaluations: 1000, tolerance: 1e-3 };
/// How far the neighbours of the first point are. Trend and season have small steps: of several maxima of the likelihood, which short
/// series often have, the one near a steady trend and a steady season forecasts better (decision 0056).
const ALPHA_STEP: f64 = 0.1;
const STEADY_STEP: f64 = 0.01;
/// What a trend costs that follows the rows: −2 log of the prior density 4 exp(−4 β / α), less a constant. Without it a short series is taken
/// below 0 or far above by the slope of its last rows (decision 0056).
const TREND_COST: f64 = 8.0;

/// A kind that was fit.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    pub(crate) kind: Kind,
    pub(crate) by: Smoothing,
    /// Before the first row.
    pub(crate) initial: State,
    /// −2 log L + 2 k + 2 k (k + 1) / (n − k − 1) and the cost of the trend, less what all kinds share.
    pub(crate) criterion: f64,
}

/// How many parameters a kind has: smoothing, initial states, the variance.
pub(crate) fn parameters(kind: Kind, season: usize) -> usize {
    let trend = match kind.trend {
        Trend::None => 0,
        Trend::Additive => 2,
        Trend::Damped => 3,
    };
    let seasons = if kind.has_season() { season } else { 0 };
    3 + trend + seasons
}

/// Fits a kind; `None` where the rows are too few for its parameters. Rows are about 1 in size.
pub(crate) fn fit(kind: Kind, values: &[f64], season: usize) -> Option<Fit> {
    let (n, k) = (values.len() as f64, parameters(kind, season) as f64);
    if n <= k + 1.0 || kind.has_season() && values.len() < 2 * season {
        return None;
    }
    let guess = initial(kind, values, season);
    let (start, steps) = start(kind, &guess, season);
    let mut state = guess.clone();
    let objective = |x: &[f64]| match read(kind, x, &mut state) {
        Some(by) => cost(kind, &by, &mut state, values) + TREND_COST * (by.beta - EDGE).max(0.0) / by.alpha,
        None => f64::INFINITY,
    };
    let (best, value) = minimise(objective, &start, &steps, SEARCH);
    let mut initial = guess;
    let by = read(kind, &best, &mut initial)?;
    let criterion = value + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0);
    criterion.is_finite().then_some(Fit { kind, by, initial, criterion })
}

/// The point where the search begins, and how far its neighbours are.
fn start(kind: Kind, guess: &State, season: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = if kind.has_season() { season as f64 } else { 1.0 };
    let alpha = 0.5 / rows;
    let mut x = vec![(alpha, ALPHA_STEP)];
    if kind.has_trend() {
        x.push((0.1 * alpha + EDGE, STEADY_STEP));
    }
    if kind.has_season() {
        x.push((0.05 * (1.0 - alpha), 0.05));
    }
    if kind.trend == Trend::Damped {
        x.push((PHI.0 + 0.99 * (PHI.1 - PHI.0), -0.05));
    }
    x.push((guess.level, 0.1 * guess.level.abs().max(0.1)));
    if kind.has_trend() {
        x.push((guess.trend, 0.1 * guess.trend.abs().max(0.02)));
    }
    x.extend(guess.season.iter().skip(1).map(|s| (*s, STEADY_STEP)));
    x.into_iter().unzip()
}

/// Reads a point of the search into parameters and initial states; `None` outside of their bounds. The first season follows from the
/// others, whose sum is the number of rows of a season, or 0.
fn read(kind: Kind, x: &[f64], state: &mut State) -> Option<Smoothing> {
    let mut x = x.iter().copied();
    let alpha = x.next()?;
    let beta = if kind.has_trend() { x.next()? } else { 0.0 };
    let gamma = if kind.has_season() { x.next()? } else { 0.0 };
    let phi = if kind.trend == Trend::Damped { x.next()? } else { 1.0 };
    let inside = |v: f64, most: f64| (EDGE..=most).contains(&v);
    if !inside(alpha, 1.0 - EDGE)
        || kind.has_trend() && !inside(beta, alpha)
        || kind.has_season() && !inside(gamma, 1.0 - alpha)
    {
        return None;
    }
    if kind.trend == Trend::Damped && !(PHI.0..=PHI.1).contains(&phi) {
        return None;
    }
    state.level = x.next()?;
    state.trend = if kind.has_trend() { x.next()? } else { 0.0 };
    state.next = 0;
    if kind.has_season() {
        let mut left =
            if kind.seasonality == Seasonality::Multiplicative { state.season.len() as f64 } else { 0.0 };
        for s in state.season.iter_mut().skip(1) {
            *s = x.next()?;
            left -= *s;
        }
        state.season[0] = left;
        if kind.seasonality == Seasonality::Multiplicative && state.season.iter().any(|s| *s <= 0.0) {
            return None;
        }
    }
    Some(Smoothing { alpha, beta, gamma, phi })
}

/// The level and trend before `values` of a model whose parameters and season are known.
pub(crate) fn refit_state(kind: Kind, by: &Smoothing, guess: State, values: &[f64]) -> State {
    let mut state = guess.clone();
    let mut start = vec![guess.level];
    let mut steps = vec![0.1 * guess.level.abs().max(0.1)];
    if kind.has_trend() {
        start.push(guess.trend);
        steps.push(0.1 * guess.trend.abs().max(0.02));
    }
    let objective = |x: &[f64]| {
        state.clone_from(&guess);
        state.level = x[0];
        state.trend = x.get(1).copied().unwrap_or(0.0);
        cost(kind, by, &mut state, values)
    };
    let (best, _) = minimise(objective, &start, &steps, SEARCH);
    State { level: best[0], trend: best.get(1).copied().unwrap_or(0.0), ..guess }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_at_least_as_good_as_the_reference() {
        // AICc of statsforecast 2.1.1, whose search can end earlier; a smaller criterion is a larger likelihood.
        let season = [10.0, -4.0, -12.0, 6.0];
        let values: Vec<f64> = (0..40)
            .map(|t| 100.0 + 2.0 * f64::from(t) + season[t as usize % 4] + 1.3 * f64::from(t * 37 % 11 - 5))
            .collect();
        let unit = values.iter().sum::<f64>() / 40.0;
        let scaled: Vec<f64> = values.iter().map(|y| y / unit).collect();
        let kind = |relative, trend, seasonality| Kind { relative, trend, seasonality };
        use Seasonality::{Additive, None};
        for (kind, reference, within) in [
            (kind(false, Trend::Additive, None), 339.0615, 0.1),
            (kind(true, Trend::Additive, None), 340.8480, 0.1),
            (kind(false, Trend::Additive, Additive), 284.8872, 3.0),
            (kind(false, Trend::None, Additive), 313.6415, 15.0),
        ] {
            let found = fit(kind, &scaled, 4).expect("a fit").criterion + 80.0 * unit.ln();
            assert!(found < reference + 0.2 && found > reference - within, "{kind}: {found}, {reference}");
        }
    }

    #[test]
    fn few_rows_have_no_fit() {
        let kind = Kind { relative: false, trend: Trend::None, seasonality: Seasonality::None };
        assert!(fit(kind, &[1.0, 1.1, 0.9, 1.0], 1).is_none());
        assert!(fit(kind, &[1.0, 1.1, 0.9, 1.0, 1.2], 1).is_some());
    }
}
