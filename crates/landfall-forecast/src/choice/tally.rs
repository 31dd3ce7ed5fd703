//! Errors of candidates on the same windows: baselines, networks, and the mean of a network and a baseline.

use super::folds::Origin;
use crate::data::{Baseline, Prior};
use crate::train::Dataset;
use serde::{Deserialize, Serialize};

/// A forecast that may be chosen: a baseline, a network, or the mean of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the network, in the order of the tally; none for a baseline alone.
    pub network: Option<usize>,
    /// The baseline; none for a network alone.
    pub baseline: Option<Baseline>,
    /// Mean over series and target columns of the mean squared error over scored windows and steps, scaled.
    pub mse: f64,
}

/// What a tally finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The candidate of the smallest error; of equal ones the simplest.
    pub chosen: Candidate,
    /// The network of the smallest error on its own, if there is a network.
    pub network: Option<Candidate>,
    /// The better baseline.
    pub baseline: Candidate,
}

/// Sums of squared errors, each kept for every series and target column: a series with many windows, or with large errors in
/// them, has no more say in the choice than another.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    dataset: &'a Dataset,
    horizon: usize,
    /// Rows of a window that a network sees.
    context: usize,
    baselines: Vec<Baseline>,
    /// What is known of the forecasts of each series and target column.
    priors: Vec<Prior>,
    /// Of each baseline: sum and number of values of each series and column.
    alone: Vec<Vec<Sum>>,
    /// Of each network: those on its own, then those of the mean with each baseline.
    networks: Vec<Vec<Vec<Sum>>>,
}

/// A sum of squared errors, and their number.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    squares: f64,
    values: usize,
}

impl Sum {
    fn add(&mut self, forecast: f64, truth: f32) {
        self.squares += (forecast - f64::from(truth)).powi(2);
        self.values += 1;
    }

    /// The mean over the series and columns that have values of their mean squared errors; infinite where there is none, and
    /// where it is not finite, so that it loses.
    ///
    /// Those that were constant in the training rows, where others are, have no say: what became of them since is no measure of
    /// a forecaster.
    fn mean(all: &[Self], priors: &[Prior]) -> f64 {
        let some = all.iter().zip(priors).any(|(sum, prior)| sum.values > 0 && !prior.constant);
        let counts = |(sum, prior): &(&Self, &Prior)| sum.values > 0 && !(some && prior.constant);
        let scored = || all.iter().zip(priors).filter(counts).map(|(sum, _)| sum);
        let mean = scored().map(|sum| sum.squares / sum.values as f64).sum::<f64>() / scored().count() as f64;
        if mean.is_finite() { mean } else { f64::INFINITY }
    }
}

impl<'a> Tally<'a> {
    /// No windows yet, of these lengths of context and horizon. `priors` has what is known of the forecasts of each series and
    /// target column `[series, targets]`.
    #[must_use]
    pub fn new(
        dataset: &'a Dataset,
        (context, horizon): (usize, usize),
        baselines: &[Baseline],
        priors: &[Prior],
    ) -> Self {
        Self {
            dataset,
            horizon,
            context,
            baselines: baselines.to_vec(),
            priors: priors.to_vec(),
            alone: vec![vec![Sum::default(); priors.len()]; baselines.len()],
            networks: Vec::new(),
        }
    }

    /// Adds the windows of these origins to the baselines' errors.
    pub fn score_baselines(&mut self, origins: &[Origin]) {
        for origin in origins {
            for column in 0..self.dataset.targets() {
                let (cell, _, kept) = self.cell(*origin, column);
                let (history, truth) = self.window(*origin, column);
                for (baseline, sums) in self.baselines.iter().zip(&mut self.alone) {
                    for (y, naive) in truth.iter().zip(baseline.continuation(history)) {
                        sums[cell].add(kept.unwrap_or(f64::from(naive)), *y);
                    }
                }
            }
        }
    }

    /// Adds windows to the errors of network `number`: its predictions `[origins, targets, horizon]`, scaled.
    pub fn score_network(&mut self, number: usize, origins: &[Origin], predictions: &[f64]) {
        let (targets, ways) = (self.dataset.targets(), 1 + self.baselines.len());
        if self.networks.len() <= number {
            self.networks.resize(number + 1, vec![vec![Sum::default(); self.priors.len()]; ways]);
        }
        for (i, predicted) in predictions.chunks_exact(self.horizon).enumerate() {
            let Some(origin) = origins.get(i / targets) else { break };
            let column = i % targets;
            let (cell, lowest, kept) = self.cell(*origin, column);
            let (history, truth) = self.window(*origin, column);
            let [alone, means @ ..] = self.networks[number].as_mut_slice() else { break };
            for (p, y) in predicted.iter().zip(truth) {
                alone[cell].add(kept.unwrap_or(p.max(lowest)), *y);
            }
            for (baseline, sums) in self.baselines.iter().zip(means) {
                for ((p, y), naive) in predicted.iter().zip(truth).zip(baseline.continuation(history)) {
                    let mean = 0.5 * (p + f64::from(naive));
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

    /// All candidates, the simplest first: baselines, means of a network and the better baseline, networks. An error that
    /// is not finite is infinite, so that it loses.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        let baselines = self.baselines.iter().zip(&self.alone).map(|(baseline, sums)| Candidate {
            network: None,
            baseline: Some(*baseline),
            mse: Sum::mean(sums, &self.priors),
        });
        let baselines: Vec<Candidate> = baselines.collect();
        let better =
            least(&baselines).and_then(|b| self.baselines.iter().position(|x| Some(*x) == b.baseline));
        let of = |way: usize, baseline| {
            let each = self.networks.iter().enumerate();
            each.map(move |(n, ways)| {
                let mse = Sum::mean(&ways[way], &self.priors);
                Candidate { network: Some(n), baseline, mse }
            })
        };
        let means = better.into_iter().flat_map(|b| of(1 + b, self.baselines.get(b).copied()));
        baselines.iter().copied().chain(means).chain(of(0, None)).collect()
    }

    /// The choice; none without a window to choose by.
    #[must_use]
    pub fn winner(&self) -> Option<Winner> {
        let all = self.candidates();
        let of = |keep: fn(&Candidate) -> bool| all.iter().copied().filter(keep).collect::<Vec<_>>();
        let chosen = least(&all).filter(|c| c.mse.is_finite())?;
        let network = least(&of(|c| c.network.is_some() && c.baseline.is_none()));
        let baseline = least(&of(|c| c.network.is_none()))?;
        Some(Winner { chosen, network, baseline })
    }
}

/// The first candidate of the smallest error.
fn least(candidates: &[Candidate]) -> Option<Candidate> {
    candidates.iter().copied().reduce(|best, c| if c.mse < best.mse { c } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut tally = Tally::new(&dataset, (2, 2), &[Baseline::LastValue, seasonal], &[Prior::default()]);
        tally.score_baselines(&origins);
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
        assert_eq!((winner.chosen.network, winner.chosen.baseline), (Some(1), None));
        assert_eq!(
            (winner.network.expect("networks").network, winner.baseline.baseline),
            (Some(1), Some(seasonal))
        );
    }

    #[test]
    fn floors_hold_and_what_is_not_finite_loses() {
        let (dataset, origins) = dataset(&[0.0, 0.0, 0.0, 0.0]);
        let floor = Prior { lowest: 0.0, ..Prior::default() };
        let mut tally = Tally::new(&dataset, (2, 2), &[Baseline::LastValue], &[floor]);
        tally.score_baselines(&origins);
        tally.score_network(0, &origins, &[f64::INFINITY, 0.0]);
        tally.score_network(1, &origins, &[-5.0, -5.0]);
        let all = tally.candidates();
        assert_eq!(
            all.iter().map(|c| c.mse).collect::<Vec<_>>(),
            [0.0, f64::INFINITY, 0.0, f64::INFINITY, 0.0]
        );
        // Of equal errors the baseline's.
        assert_eq!(tally.winner().expect("windows").chosen.network, None);
        assert_eq!(Tally::new(&dataset, (2, 2), &[Baseline::LastValue], &[floor]).winner(), None);
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
        let mut tally = Tally::new(&dataset, (1, 1), &[Baseline::LastValue], &priors);
        tally.score_baselines(&origins);
        // Right in the first series, off by 1 in each window of the second, and by 100 in the third, which keeps its value.
        let predictions = [vec![2.0], vec![1.0; 4], vec![103.0; 4]].concat();
        tally.score_network(0, &origins, &predictions);
        let found: Vec<f64> = tally.candidates().iter().map(|c| c.mse).collect();
        // Last value: 4, 0. The network: 0, 1. Over the five windows it would be 4 / 5 against 4 / 5.
        assert_eq!([found[0], found[2]], [2.0, 0.5]);
    }
}
