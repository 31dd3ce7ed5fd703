//! Exponential smoothing with the error, trend and season that AICc chooses (Hyndman, Koehler, Ord & Snyder 2008).
//!
//! `kind` names the models, `filter` has their recursions, `initial` and `fit` find parameters and initial states, `spread` the
//! variance of a forecast.

mod filter;
mod fit;
mod initial;
mod kind;
mod spread;

use serde::{Deserialize, Serialize};

use crate::rows::{Prediction, Rows, deviation};
use filter::{Smoothing, State};
use fit::{Fit, parameters, refit_state};
use initial::{from_season, turned};
use kind::{Kind, Seasonality};

/// The longest season that has a state for each row; a longer one is taken out by a classical decomposition.
pub(crate) const LONGEST_SEASON: usize = 24;
/// Level and trend of other rows than those of the fit are searched from so many on.
const SEARCHED: usize = 5;

/// The exponential smoothing of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ets {
    kind: Kind,
    by: Smoothing,
    /// Before the first row of the fit.
    initial: State,
    /// The trend and the season after the last row of the fit, for rows that begin elsewhere; the season from the first row of one on.
    trend: f64,
    season: Vec<f64>,
    /// The deviation of one step, a share of the forecast where the error is relative.
    sigma: f64,
}

impl Ets {
    /// The kind with the smallest AICc; `None` where the rows are too few for any.
    pub(crate) fn fit(values: &[f64], season: usize) -> Option<Self> {
        let positive = values.iter().all(|y| *y > 0.0);
        let fits = Kind::tried(positive, season > 1).filter_map(|k| fit::fit(k, values, season));
        let best = fits.reduce(|best, one| if one.criterion < best.criterion { one } else { best })?;
        Some(Self::of(best, values))
    }

    fn of(fit: Fit, values: &[f64]) -> Self {
        let Fit { kind, by, initial, .. } = fit;
        let mut state = initial.clone();
        let errors = values.iter().map(|y| {
            let forecast = state.filter(kind, &by, *y);
            // A forecast of 0 has no share; the likelihood keeps away from it.
            if kind.relative && forecast != 0.0 { (y - forecast) / forecast } else { y - forecast }
        });
        let errors: Vec<f64> = errors.collect();
        let sigma = deviation(&errors, parameters(kind, initial.season.len()));
        Self { kind, by, initial, trend: state.trend, season: state.season, sigma }
    }

    /// The name of the kind, as ETS(M,Ad,N).
    pub(crate) fn name(&self) -> String {
        self.kind.to_string()
    }

    /// The state before `rows`: that of the fit where they begin with its rows, otherwise the fit's last season with a level and
    /// trend of these rows.
    fn before(&self, rows: Rows) -> State {
        if rows.start == 0 {
            return self.initial.clone();
        }
        let mut guess = from_season(self.kind, rows.values, turned(&self.season, rows));
        if rows.values.len() < SEARCHED {
            guess.level += (guess.trend - self.trend) * (rows.values.len() as f64 + 1.0) / 2.0;
            guess.trend = self.trend;
            return guess;
        }
        refit_state(self.kind, &self.by, guess, rows.values)
    }

    pub(crate) fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        let mut state = self.before(rows);
        for y in rows.values {
            state.filter(self.kind, &self.by, *y);
        }
        let ahead = state.ahead(self.kind, self.by.phi, horizon);
        let value = |(q, s): &(f64, f64)| match self.kind.seasonality {
            Seasonality::None => *q,
            Seasonality::Additive => q + s,
            Seasonality::Multiplicative => q * s,
        };
        let values = ahead.iter().map(value).collect();
        Prediction {
            values,
            spread: spread::spread(self.kind, &self.by, self.sigma, &ahead, self.initial.season.len().max(1)),
        }
    }
}
