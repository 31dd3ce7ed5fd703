//! What a run of the default recipe forecasts with: a network, a partner that needs no training of steps, or the mean of both.

use super::RunError;
use super::ensembles::{Rows, Scaled, ahead, scaled};
use crate::choice::linear::Linear;
use crate::choice::{Candidate, Partner};
use crate::data::{Baseline, Part, Prior, Scaler, Series, WindowedPanel};
use crate::ensemble::{Ahead, Ensemble, Members};
use crate::models::ModelKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A forecast that was chosen, as the run directory's `config.toml` keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Forecaster {
    /// The network whose weights the run keeps; its best one where the baseline alone was chosen.
    pub network: ModelKind,
    /// Share of the network in a forecast: 1, or 0.5 beside a partner, or 0 for the partner alone.
    pub share: f64,
    /// Rows that a baseline as partner repeats: 1 for the last value, the period for seasonal naive.
    pub repeats: Option<usize>,
    /// Whether the ensemble is the partner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ensemble: bool,
    /// The only member of that ensemble, where it has one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Members>,
    /// The name of that ensemble's pretrained network, where it is not the one that the library carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pretrained: Option<String>,
    /// Strength of the ridge regression that the network's weights come from; none for one that was trained by steps.
    pub ridge: Option<f64>,
    /// Whether validation rows were fit on in the end, and errors made before that are in `errors.safetensors`.
    #[serde(default)]
    pub refit: bool,
    /// Target columns without a negative value in any training row: their forecasts are never below 0.
    pub non_negative: Vec<String>,
    /// The run's ensemble: as partner, and for the series that are too short for windows.
    #[serde(skip)]
    pub models: Option<Arc<Ensemble>>,
}

impl Forecaster {
    /// A candidate, with the network that the run keeps.
    #[must_use]
    pub fn new(
        chosen: &Candidate,
        network: ModelKind,
        ridge: Option<f64>,
        non_negative: Vec<String>,
    ) -> Self {
        let share = match (chosen.network, chosen.partner) {
            (Some(_), None) => 1.0,
            (Some(_), Some(_)) => 0.5,
            (None, _) => 0.0,
        };
        let (repeats, ensemble) = match chosen.partner {
            Some(Partner::Baseline(baseline)) => (Some(baseline.period()), false),
            Some(Partner::Ensemble) => (None, true),
            None => (None, false),
        };
        let (member, pretrained, models) = (None, None, None);
        Self {
            network,
            share,
            repeats,
            ensemble,
            member,
            pretrained,
            ridge,
            refit: false,
            non_negative,
            models,
        }
    }

    /// The same, by an ensemble of these members, whose pretrained network is of this name where it is not the one that the library
    /// carries.
    #[must_use]
    pub fn of_members(mut self, members: Members, network: Option<&str>) -> Self {
        self.member = members.alone().filter(|_| self.ensemble);
        let has_it = self.ensemble && members.share() > 0.0;
        self.pretrained = network.filter(|_| has_it).map(str::to_owned);
        self
    }

    /// What takes part beside the network, or alone.
    #[must_use]
    pub fn partner(&self) -> Option<Partner> {
        match self.repeats {
            _ if self.ensemble => Some(Partner::Ensemble),
            Some(1) => Some(Partner::Baseline(Baseline::LastValue)),
            Some(period) => Some(Partner::Baseline(Baseline::SeasonalNaive { period })),
            None => None,
        }
    }

    /// The baseline that takes part.
    #[must_use]
    pub fn baseline(&self) -> Option<Baseline> {
        match self.partner()? {
            Partner::Baseline(baseline) => Some(baseline),
            Partner::Ensemble => None,
        }
    }

    /// Its name, such as `mean of nlinear and seasonal naive (12)`.
    #[must_use]
    pub fn name(&self) -> String {
        let partner = match (self.partner(), self.member) {
            (None, _) => return self.network.name().to_owned(),
            (Some(Partner::Ensemble), member) => {
                member.unwrap_or_default().name_with(self.pretrained.as_deref())
            }
            (Some(partner), _) => partner.to_string(),
        };
        match self.share {
            0.0 => partner,
            _ => format!("mean of {} and {partner}", self.network.name()),
        }
    }

    /// Rows of history that a forecast needs, with a network of this context.
    #[must_use]
    pub fn history(&self, context: usize) -> usize {
        self.repeats.map_or(context, |period| period.max(context))
    }

    /// Makes forecasts of a network's predictions of one column `[levels, horizon]`, scaled: `share·network +
    /// (1 − share)·partner`, at least the smallest value that is known of the column. `history` are the scaled values before the
    /// first predicted row, of which the network sees the last `context` ones; `ensemble` is the ensemble's forecast, scaled, where
    /// it takes part. A column that keeps its value ([`Prior::kept`]) is forecast by that.
    pub fn combine<T: Copy + Into<f64>>(
        &self,
        (history, ensemble): (&[T], &[f64]),
        prior: Prior,
        (context, horizon): (usize, usize),
        predicted: &mut [f64],
    ) {
        if let Some(kept) = prior.kept(&history[history.len().saturating_sub(context)..]) {
            predicted.fill(kept);
            return;
        }
        for level in predicted.chunks_exact_mut(horizon.max(1)) {
            let mix = |p: &mut f64, partner: f64| {
                // A network that predicts infinity must not spoil a forecast that it has no share in.
                *p = if self.share == 0.0 { partner } else { self.share * *p + (1.0 - self.share) * partner };
            };
            match self.partner() {
                Some(Partner::Baseline(baseline)) => {
                    let naive = baseline.continuation(history);
                    level.iter_mut().zip(naive).for_each(|(p, naive)| mix(p, naive.into()));
                }
                Some(Partner::Ensemble) => level.iter_mut().zip(ensemble).for_each(|(p, own)| mix(p, *own)),
                None => {}
            }
            level.iter_mut().for_each(|p| *p = p.max(prior.lowest));
        }
    }

    /// What the ensemble forecasts of windows `[windows, targets, horizon]`, scaled.
    pub(super) fn of_windows(&self, parts: &[Part<'_>], sizes: (usize, usize)) -> Result<Scaled, RunError> {
        let mut rows = Vec::new();
        for Part { series, scaler, windows } in parts {
            let of = |start| Rows { series, scaler, known: windows.target(start).start };
            rows.extend(windows.starts().map(of));
        }
        Ok(scaled(&self.ahead(&rows, sizes, parts.len() == 1)?, &rows, sizes.0))
    }

    /// What the ensemble forecasts after these rows `[rows, targets]`.
    pub(super) fn ahead(
        &self,
        rows: &[Rows<'_>],
        sizes: (usize, usize),
        only: bool,
    ) -> Result<Arc<Vec<Ahead>>, RunError> {
        let models = self.models.as_deref().ok_or(RunError::NoModels)?;
        ahead(models, rows, sizes, only)
    }

    /// What is known of the forecasts of a column.
    #[must_use]
    pub fn prior(&self, column: &str, scaler: &Scaler, index: usize) -> Prior {
        Prior { lowest: self.floor(column, scaler, index), constant: scaler.is_constant(index) }
    }

    /// The smallest value of a forecast of a column in its own unit, minus infinity where it may be negative.
    #[must_use]
    pub fn lowest(&self, column: &str) -> f64 {
        if self.non_negative.iter().any(|name| name == column) { 0.0 } else { f64::NEG_INFINITY }
    }

    /// The smallest scaled value of a forecast of a column, minus infinity where it may be negative.
    #[must_use]
    pub fn floor(&self, column: &str, scaler: &Scaler, index: usize) -> f64 {
        if self.non_negative.iter().any(|name| name == column) {
            zero(scaler, index)
        } else {
            f64::NEG_INFINITY
        }
    }
}

/// Rows of DLinear's moving average (Zeng et al. 2023).
const KERNEL: usize = 25;

/// The linear network of a kind, if it is one.
#[must_use]
pub(super) fn linear(kind: ModelKind, context: usize, horizon: usize) -> Option<Linear> {
    if kind == ModelKind::Nlinear {
        Some(Linear::NLinear { context, horizon })
    } else if kind == ModelKind::Dlinear {
        Some(Linear::DLinear { context, horizon, kernel: KERNEL })
    } else {
        None
    }
}

/// What 0 is in the scale of a column.
fn zero(scaler: &Scaler, column: usize) -> f64 {
    match (scaler.mean().get(column), scaler.std().get(column)) {
        (Some(mean), Some(std)) => -mean / std,
        _ => f64::NEG_INFINITY,
    }
}

/// The target columns without a negative value in the rows before the test part, in any series.
#[must_use]
pub fn non_negative(panel: &WindowedPanel) -> Vec<String> {
    let before_test = |m: &crate::data::Member| {
        let context = m.segments.windows(crate::data::Segment::Test).context();
        m.segments.rows(crate::data::Segment::Test).start + context
    };
    let never = |s: &Series, c: usize, rows: usize| {
        s.values().get(c).is_some_and(|values| values.iter().take(rows).all(|v| *v >= 0.0))
    };
    let targets = panel.columns().iter().take(panel.targets()).enumerate();
    let kept =
        |(c, _): &(usize, &String)| panel.members().iter().all(|m| never(&m.series, *c, before_test(m)));
    targets.filter(kept).map(|(_, name)| name.clone()).collect()
}

/// What is known of the forecasts of each series and target column.
#[must_use]
pub fn priors(panel: &WindowedPanel, non_negative: &[String]) -> Vec<Prior> {
    let of = |m: &crate::data::Member| -> Vec<Prior> {
        let one = |(c, name): (usize, &String)| {
            let lowest = if non_negative.contains(name) { zero(&m.scaler, c) } else { f64::NEG_INFINITY };
            Prior { lowest, constant: m.scaler.is_constant(c) }
        };
        panel.columns().iter().take(panel.targets()).enumerate().map(one).collect()
    };
    panel.members().iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_shares_of_both_and_never_below_the_floor() {
        let chosen = |network, baseline: Option<Baseline>| Candidate {
            network,
            partner: baseline.map(Partner::Baseline),
            mse: 0.0,
            mase: 0.0,
            rmsse: 0.0,
        };
        let forecast = |chosen: &Candidate| {
            let f = Forecaster::new(chosen, ModelKind::Nlinear, Some(0.1), Vec::new());
            let mut predicted = [4.0, f64::INFINITY, -9.0];
            let prior = Prior { lowest: -1.0, ..Prior::default() };
            f.combine((&[0.0, 1.0, 3.0], &[]), prior, (3, 3), &mut predicted);
            (f.name(), predicted)
        };
        let seasonal = Some(Baseline::SeasonalNaive { period: 2 });
        assert_eq!(forecast(&chosen(Some(0), None)), ("nlinear".to_owned(), [4.0, f64::INFINITY, -1.0]));
        let mean = ("mean of nlinear and seasonal naive (2)".to_owned(), [2.5, f64::INFINITY, -1.0]);
        assert_eq!(forecast(&chosen(Some(0), seasonal)), mean);
        assert_eq!(forecast(&chosen(None, Some(Baseline::LastValue))), ("last value".to_owned(), [3.0; 3]));
        // A column that was constant in training, and is in the context, keeps its value.
        let f = Forecaster::new(&chosen(Some(0), None), ModelKind::Nlinear, Some(0.1), Vec::new());
        let (mut predicted, prior) = ([4.0, 5.0], Prior { constant: true, ..Prior::default() });
        f.combine((&[0.0, 3.0, 3.0], &[]), prior, (2, 2), &mut predicted);
        assert_eq!(predicted, [3.0; 2]);
    }
}
