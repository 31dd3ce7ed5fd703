//! Errors of candidates on the same windows: networks, partners that need no training of steps, and the mean of one of each.

use super::folds::Origin;
use crate::data::{Baseline, Prior};
use crate::train::Dataset;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// What forecasts without a training of steps, alone or in the mean with a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partner {
    /// A naive forecast.
    Baseline(Baseline),
    /// [`Ensemble`](crate::ensemble::Ensemble).
    Ensemble,
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline(baseline) => baseline.fmt(f),
            Self::Ensemble => f.write_str("ensemble"),
        }
    }
}

/// A forecast that may be chosen: a partner, a network, or the mean of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the network, in the order of the tally; none for a partner alone.
    pub network: Option<usize>,
    /// The partner; none for a network alone.
    pub partner: Option<Partner>,
    /// Mean over series and target columns of the mean squared error over scored windows and steps, scaled.
    pub mse: f64,
    /// The mean over series and columns of the mean absolute error, each in that of the seasonal naive forecast of one season in the
    /// training rows.
    pub mase: f64,
    /// The same of the roots of mean squared errors.
    pub rmsse: f64,
}

/// So many series and columns are a sample, whose standard error means something.
pub const MANY: usize = 20;

/// The error that candidates are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// [`Candidate::rmsse`].
    Rmsse,
    /// [`Candidate::mase`].
    Mase,
    /// [`Candidate::mse`].
    Mse,
}

/// The errors of the seasonal naive forecast in the training rows of a series' column, scaled: what its errors are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// The mean absolute one, of MASE.
    pub absolute: f64,
    /// The root of the mean squared one, of RMSSE.
    pub squared: f64,
}

impl Metric {
    /// That of so many series and columns where none is asked for: of [`MANY`] MASE, by which forecasts of many series are compared; of
    /// fewer RMSSE, which orders those of one column as the squared error does that networks minimise.
    #[must_use]
    pub const fn usual(columns: usize) -> Self {
        if columns < MANY { Self::Rmsse } else { Self::Mase }
    }

    /// The error of a candidate.
    #[must_use]
    pub fn of(self, candidate: &Candidate) -> f64 {
        match self {
            Self::Rmsse => candidate.rmsse,
            Self::Mase => candidate.mase,
            Self::Mse => candidate.mse,
        }
    }

    /// Its name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rmsse => "RMSSE",
            Self::Mase => "MASE",
            Self::Mse => "MSE",
        }
    }
}

/// What a tally finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The candidate of the smallest error, of equal ones the simplest; of [`MANY`] series and columns one with the ensemble, and
    /// that alone unless the mean with a network is better by more than chance.
    pub chosen: Candidate,
    /// The network of the smallest error on its own, if there is a network.
    pub network: Option<Candidate>,
    /// The better baseline.
    pub baseline: Candidate,
    /// The ensemble, where it was scored.
    pub ensemble: Option<Candidate>,
}

/// Sums of errors, each kept for every series and target column: a series with many windows, or with large errors in them, has no
/// more say in the choice than another.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    dataset: &'a Dataset,
    horizon: usize,
    /// Rows of a window that a network sees.
    context: usize,
    baselines: Vec<Baseline>,
    /// The ensemble's forecasts of the windows of this fold `[targets, horizon]`, scaled, by their first predicted row.
    ensemble: Option<HashMap<usize, Vec<f64>>>,
    /// What is known of the forecasts of each series and target column.
    priors: Vec<Prior>,
    /// What the errors of each are divided by.
    units: Vec<Unit>,
    metric: Metric,
    /// Of each partner: sum and number of values of each series and column.
    alone: Vec<Vec<Sum>>,
    /// Of each network: those on its own, then those of the mean with each partner.
    networks: Vec<Vec<Vec<Sum>>>,
}

/// Sums of squared and absolute errors, and their number.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    squares: f64,
    absolutes: f64,
    values: usize,
}

impl Sum {
    fn add(&mut self, forecast: f64, truth: f32) {
        let error = forecast - f64::from(truth);
        self.squares += error.powi(2);
        self.absolutes += error.abs();
        self.values += 1;
    }
}

/// The mean of errors; infinite where there is none, and where it is not finite, so that it loses.
fn mean(errors: &[f64]) -> f64 {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    if mean.is_finite() { mean } else { f64::INFINITY }
}

impl<'a> Tally<'a> {
    /// No windows yet, of these lengths of context and horizon. `priors` has what is known of the forecasts of each series and
    /// target column `[series, targets]`, `units` what their errors are divided by; `with_ensemble` says whether the ensemble is a partner.
    #[must_use]
    pub fn new(
        dataset: &'a Dataset,
        (context, horizon): (usize, usize),
        (baselines, with_ensemble): (&[Baseline], bool),
        (priors, units): (&[Prior], &[Unit]),
        metric: Metric,
    ) -> Self {
        let partners = baselines.len() + usize::from(with_ensemble);
        Self {
            dataset,
            horizon,
            context,
            baselines: baselines.to_vec(),
            ensemble: with_ensemble.then(HashMap::new),
            priors: priors.to_vec(),
            units: units.to_vec(),
            metric,
            alone: vec![vec![Sum::default(); priors.len()]; partners],
            networks: Vec::new(),
        }
    }

    /// The partners, in their order.
    fn partners(&self) -> impl Iterator<Item = Partner> {
        let ensemble = self.ensemble.as_ref().map(|_| Partner::Ensemble);
        self.baselines.iter().copied().map(Partner::Baseline).chain(ensemble)
    }

    /// Begins a fold of these windows, and adds them to the partners' errors. `ensemble` are its forecasts of them `[origins,
    /// targets, horizon]`, scaled, where it takes part.
    pub fn score_partners(&mut self, origins: &[Origin], ensemble: &[f64]) {
        let each = (self.dataset.targets() * self.horizon).max(1);
        if let Some(of) = &mut self.ensemble {
            *of =
                origins.iter().map(|o| o.at).zip(ensemble.chunks_exact(each).map(<[f64]>::to_vec)).collect();
        }
        for origin in origins {
            for column in 0..self.dataset.targets() {
                let (cell, lowest, kept) = self.cell(*origin, column);
                let (_, truth) = self.window(*origin, column);
                for (way, ahead) in self.ahead(*origin, column).into_iter().enumerate() {
                    // Baselines repeat known values, which are never below what is known.
                    let lowest = if way < self.baselines.len() { f64::NEG_INFINITY } else { lowest };
                    for (y, p) in truth.iter().zip(ahead) {
                        self.alone[way][cell].add(kept.unwrap_or(p.max(lowest)), *y);
                    }
                }
            }
        }
    }

    /// What each partner forecasts of a column of a window.
    fn ahead(&self, origin: Origin, column: usize) -> Vec<Vec<f64>> {
        let (history, truth) = self.window(origin, column);
        let naive = |baseline: &Baseline| {
            baseline.continuation(history).take(truth.len()).map(f64::from).collect::<Vec<f64>>()
        };
        let own = self.ensemble.as_ref().map(|of| {
            let all = of.get(&origin.at).map_or(&[][..], Vec::as_slice);
            all.get(column * self.horizon..).map_or_else(Vec::new, |own| own[..self.horizon].to_vec())
        });
        self.baselines.iter().map(naive).chain(own).collect()
    }

    /// Adds windows to the errors of network `number`: its predictions `[origins, targets, horizon]`, scaled.
    pub fn score_network(&mut self, number: usize, origins: &[Origin], predictions: &[f64]) {
        let (targets, ways) = (self.dataset.targets(), 1 + self.alone.len());
        if self.networks.len() <= number {
            self.networks.resize(number + 1, vec![vec![Sum::default(); self.priors.len()]; ways]);
        }
        for (i, predicted) in predictions.chunks_exact(self.horizon).enumerate() {
            let Some(origin) = origins.get(i / targets) else { break };
            let column = i % targets;
            let (cell, lowest, kept) = self.cell(*origin, column);
            let ahead = self.ahead(*origin, column);
            let (_, truth) = self.window(*origin, column);
            let [alone, means @ ..] = self.networks[number].as_mut_slice() else { break };
            for (p, y) in predicted.iter().zip(truth) {
                alone[cell].add(kept.unwrap_or(p.max(lowest)), *y);
            }
            for (ahead, sums) in ahead.iter().zip(means) {
                for ((p, y), partner) in predicted.iter().zip(truth).zip(ahead) {
                    let mean = 0.5 * (p + partner);
                    sums[cell].add(kept.unwrap_or(mean.max(lowest)), *y);
                }
            }
        }
    }

    /// The place of a series' column, the smallest value of its forecasts, and the value that it keeps in this window, if it does.
    fn cell(&self, origin: Origin, column: usize) -> (usize, f64, Option<f64>) {
        let cell = origin.series * self.dataset.targets() + column;
        let (history, _) = self.window(origin, column);
        let prior = self.priors[cell];
        (cell, prior.lowest, prior.kept(&history[history.len().saturating_sub(self.context)..]))
    }

    /// History before a window's first predicted row, from the first row of its series on, and the predicted rows.
    fn window(&self, origin: Origin, column: usize) -> (&'a [f32], &'a [f32]) {
        let values = &self.dataset.values[column * self.dataset.rows..][..self.dataset.rows];
        (&values[origin.begin..origin.at], &values[origin.at..origin.at + self.horizon])
    }

    /// All candidates, the simplest first: baselines, the ensemble, means of a network and the better baseline or the ensemble,
    /// networks. An error that is not finite is infinite, so that it loses.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        let alone = self.partners().zip(&self.alone).map(|(partner, sums)| Candidate {
            network: None,
            partner: Some(partner),
            mse: mean(&self.errors(sums, Metric::Mse)),
            mase: mean(&self.errors(sums, Metric::Mase)),
            rmsse: mean(&self.errors(sums, Metric::Rmsse)),
        });
        let alone: Vec<Candidate> = alone.collect();
        let better = self.least(&alone[..self.baselines.len()]).and_then(|b| b.partner);
        let of = |way: usize, partner| {
            let each = self.networks.iter().enumerate();
            each.map(move |(n, ways)| Candidate {
                network: Some(n),
                partner,
                mse: mean(&self.errors(&ways[way], Metric::Mse)),
                mase: mean(&self.errors(&ways[way], Metric::Mase)),
                rmsse: mean(&self.errors(&ways[way], Metric::Rmsse)),
            })
        };
        let mixed = |p: &(usize, Partner)| p.1 == Partner::Ensemble || Some(p.1) == better;
        let means = self.partners().enumerate().filter(mixed).flat_map(|(way, p)| of(1 + way, Some(p)));
        alone.iter().copied().chain(means).chain(of(0, None)).collect()
    }

    /// The choice; none without a window to choose by.
    #[must_use]
    pub fn winner(&self) -> Option<Winner> {
        let all = self.candidates();
        let with_ensemble = |c: &&Candidate| c.partner == Some(Partner::Ensemble);
        // The errors of many short series before their last rows say more of those years than of the next: the ensemble always takes
        // part in their forecast.
        let many = all.iter().find(with_ensemble).is_some_and(|c| self.errors_of(c).len() >= MANY);
        let open: Vec<Candidate> = all.iter().filter(|c| !many || with_ensemble(c)).copied().collect();
        let of = |keep: fn(&Candidate) -> bool| all.iter().copied().filter(keep).collect::<Vec<_>>();
        let best = self.least(&open).filter(|c| self.metric.of(c).is_finite())?;
        let network = self.least(&of(|c| c.network.is_some() && c.partner.is_none()));
        let naive = |c: &Candidate| c.network.is_none() && c.partner != Some(Partner::Ensemble);
        let baseline = self.least(&of(naive))?;
        let ensemble = self.least(&of(|c| c.network.is_none() && c.partner == Some(Partner::Ensemble)));
        let as_good = ensemble.filter(|ensemble| !self.is_better_beyond_chance(&best, ensemble));
        Some(Winner { chosen: as_good.unwrap_or(best), network, baseline, ensemble })
    }

    /// Whether one candidate's error is smaller than another's: of [`MANY`] series and columns by more than two standard errors of the
    /// mean of their differences.
    fn is_better_beyond_chance(&self, one: &Candidate, other: &Candidate) -> bool {
        let (one, other) = (self.errors_of(one), self.errors_of(other));
        let differences: Vec<f64> = one.iter().zip(&other).map(|(a, b)| b - a).collect();
        let (n, mean) = (differences.len() as f64, mean(&differences));
        let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
        let many = differences.len() >= MANY;
        let standard_error = if many { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
        mean > 2.0 * standard_error
    }

    /// The errors of a candidate in the series and columns that count.
    fn errors_of(&self, candidate: &Candidate) -> Vec<f64> {
        let way = candidate.partner.and_then(|partner| self.partners().position(|p| p == partner));
        let sums = match (candidate.network, way) {
            (Some(network), way) => &self.networks[network][way.map_or(0, |way| 1 + way)],
            (None, way) => &self.alone[way.unwrap_or(0)],
        };
        self.errors(sums, self.metric)
    }

    /// The errors of the series and columns that have values. Those that were constant in the training rows, where others are, have
    /// no say: what became of them since is no measure of a forecaster.
    fn errors(&self, sums: &[Sum], metric: Metric) -> Vec<f64> {
        let some = sums.iter().zip(&self.priors).any(|(sum, prior)| sum.values > 0 && !prior.constant);
        let all = sums.iter().zip(&self.priors).zip(&self.units);
        let counted = all.filter(|((sum, prior), _)| sum.values > 0 && !(some && prior.constant));
        let error = |((sum, _), unit): ((&Sum, &Prior), &Unit)| match metric {
            Metric::Mse => sum.squares / sum.values as f64,
            Metric::Mase => sum.absolutes / sum.values as f64 / unit.absolute,
            Metric::Rmsse => (sum.squares / sum.values as f64).sqrt() / unit.squared,
        };
        counted.map(error).collect()
    }

    /// The first candidate of the smallest error.
    fn least(&self, candidates: &[Candidate]) -> Option<Candidate> {
        let error = |c: &Candidate| self.metric.of(c);
        candidates.iter().copied().reduce(|best, c| if error(&c) < error(&best) { c } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Unit = Unit { absolute: 1.0, squared: 1.0 };

    /// One series of one column, and its origins with two rows of history.
    fn dataset(values: &[f32]) -> (Dataset, Vec<Origin>) {
        let mut dataset = Dataset::blank(1, 2, 2, values.len() - 3);
        dataset.values = values.to_vec();
        let at = |at| Origin { series: 0, begin: 0, at };
        (dataset, (2..=values.len() - 2).map(at).collect())
    }

    #[test]
    fn errors_are_those_of_each_forecast() {
        let (dataset, origins) = dataset(&[1.0, 3.0, 1.0, 4.0, 1.0]);
        let seasonal = Baseline::SeasonalNaive { period: 2 };
        let mut tally = Tally::new(
            &dataset,
            (2, 2),
            (&[Baseline::LastValue, seasonal], false),
            (&[Prior::default()], &[ONE]),
            Metric::Mse,
        );
        tally.score_partners(&origins, &[]);
        // Two windows, rows 2 and 3 and rows 3 and 4; a network that predicts 2 everywhere, and one that is right.
        tally.score_network(0, &origins[..1], &[2.0; 2]);
        tally.score_network(0, &origins[1..], &[2.0; 2]);
        tally.score_network(1, &origins, &[1.0, 4.0, 4.0, 1.0]);
        let found: Vec<f64> = tally.candidates().iter().map(|c| c.mse).collect();
        // Last value: (3 - 1)² + (3 - 4)² and (1 - 4)² + 0; season of two: 0 + (3 - 4)² and (3 - 4)² + 0.
        assert_eq!(found[..2], [14.0 / 4.0, 2.0 / 4.0]);
        // Means with the season of two: 1.5, 2.5 of 1, 4, and 2.5, 1.5 of 4, 1; of the right one .., 3.5 and 3.5, ...
        assert_eq!(found[2..4], [2.0 * (0.25 + 2.25) / 4.0, 2.0 * 0.25 / 4.0]);
        assert_eq!(found[4..], [2.0 * (1.0 + 4.0) / 4.0, 0.0]);
        let winner = tally.winner().expect("windows");
        assert_eq!((winner.chosen.network, winner.chosen.partner), (Some(1), None));
        assert_eq!(
            (winner.network.expect("networks").network, winner.baseline.partner),
            (Some(1), Some(Partner::Baseline(seasonal)))
        );
    }

    #[test]
    fn floors_hold_and_what_is_not_finite_loses() {
        let (dataset, origins) = dataset(&[0.0, 0.0, 0.0, 0.0]);
        let floor = Prior { lowest: 0.0, ..Prior::default() };
        let mut tally =
            Tally::new(&dataset, (2, 2), (&[Baseline::LastValue], false), (&[floor], &[ONE]), Metric::Mse);
        tally.score_partners(&origins, &[]);
        tally.score_network(0, &origins, &[f64::INFINITY, 0.0]);
        tally.score_network(1, &origins, &[-5.0, -5.0]);
        let all = tally.candidates();
        assert_eq!(
            all.iter().map(|c| c.mse).collect::<Vec<_>>(),
            [0.0, f64::INFINITY, 0.0, f64::INFINITY, 0.0]
        );
        // Of equal errors the baseline's.
        assert_eq!(tally.winner().expect("windows").chosen.network, None);
        assert_eq!(
            Tally::new(&dataset, (2, 2), (&[Baseline::LastValue], false), (&[floor], &[ONE]), Metric::Mse)
                .winner(),
            None
        );
    }

    #[test]
    fn each_series_counts_alike_and_a_constant_one_chooses_nothing() {
        // Three series of five rows: one where the network is right, one with ten times the windows' weight in its errors if
        // they were pooled, and one constant.
        let mut dataset = Dataset::blank(1, 1, 1, 14);
        dataset.values = [vec![0.0, 2.0, 0.0, 2.0, 0.0], vec![0.0; 5], vec![3.0; 5]].concat();
        dataset.series = 3;
        let at = |series: usize, at: usize| Origin { series, begin: 5 * series, at: 5 * series + at };
        let mut origins = vec![at(0, 1)];
        origins.extend([1, 2, 3, 4].map(|row| at(1, row)));
        origins.extend([1, 2, 3, 4].map(|row| at(2, row)));
        let constant = Prior { constant: true, ..Prior::default() };
        let priors = [Prior::default(), Prior::default(), constant];
        let mut tally =
            Tally::new(&dataset, (1, 1), (&[Baseline::LastValue], false), (&priors, &[ONE; 3]), Metric::Mse);
        tally.score_partners(&origins, &[]);
        // Right in the first series, off by 1 in each window of the second, and by 100 in the third, which keeps its value.
        let predictions = [vec![2.0], vec![1.0; 4], vec![103.0; 4]].concat();
        tally.score_network(0, &origins, &predictions);
        let found: Vec<f64> = tally.candidates().iter().map(|c| c.mse).collect();
        // Last value: 4, 0. The network: 0, 1. Over the five windows it would be 4 / 5 against 4 / 5.
        assert_eq!([found[0], found[2]], [2.0, 0.5]);
    }

    /// Series of one column and four rows, the last two forecast by the ensemble with an error of 1 each and by a network with errors of
    /// `network`, of which the mean of both has half: what wins.
    fn winner_of(network: &[f64]) -> Candidate {
        let series = network.len();
        let mut dataset = Dataset::blank(1, 2, 2, 4 * series - 3);
        // The last value is 3, the truth 1, and the ensemble says 2.
        dataset.values = [3.0, 3.0, 1.0, 1.0].repeat(series);
        dataset.series = series;
        let priors = vec![Prior::default(); series];
        let baselines = (&[Baseline::LastValue][..], true);
        let mut tally = Tally::new(&dataset, (2, 2), baselines, (&priors, &vec![ONE; series]), Metric::Mase);
        let origins: Vec<Origin> =
            (0..series).map(|series| Origin { series, begin: 4 * series, at: 4 * series + 2 }).collect();
        tally.score_partners(&origins, &vec![2.0; 2 * series]);
        let predictions: Vec<f64> = network.iter().flat_map(|error| [1.0 + error; 2]).collect();
        tally.score_network(0, &origins, &predictions);
        tally.winner().expect("windows").chosen
    }

    #[test]
    fn the_ensemble_of_many_series_stays_unless_a_mean_with_it_is_better_beyond_chance() {
        let alone = |c: Candidate| (c.network, c.partner) == (None, Some(Partner::Ensemble));
        // The mean's errors differ from the ensemble's by 0 on average.
        let chance: Vec<f64> = (0..MANY).map(|i| if i % 2 == 0 { 0.8 } else { 1.1 }).collect();
        assert!(alone(winner_of(&chance)));
        // By a quarter in each series, though the network alone is better still.
        let better: Vec<f64> = (0..MANY).map(|i| if i % 2 == 0 { 0.4 } else { 0.6 }).collect();
        let chosen = winner_of(&better);
        assert_eq!((chosen.network, chosen.partner), (Some(0), Some(Partner::Ensemble)));
        // Of fewer the smallest error wins.
        assert_eq!(winner_of(&better[1..]).partner, None);
        assert_eq!(winner_of(&[0.99; MANY - 1]).partner, None);
    }
}
