//! Errors of candidates on the same windows: baselines, networks, and the mean of a network and a baseline.

use super::folds::Origin;
use crate::data::Baseline;
use crate::train::Dataset;
use serde::{Deserialize, Serialize};

/// A forecast that may be chosen: a baseline, a network, or the mean of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the network, in the order of the tally; none for a baseline alone.
    pub network: Option<usize>,
    /// The baseline; none for a network alone.
    pub baseline: Option<Baseline>,
    /// Mean squared error over all scored windows, steps and target columns, scaled.
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

/// Sums of squared errors.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    dataset: &'a Dataset,
    horizon: usize,
    baselines: Vec<Baseline>,
    /// Smallest scaled value that a forecast may have, for each series and target column.
    floors: Vec<f64>,
    /// Of each baseline: sum and number of values.
    alone: Vec<(f64, usize)>,
    /// Of each network: the sum on its own, then those of the mean with each baseline; number of values.
    networks: Vec<(Vec<f64>, usize)>,
}

impl<'a> Tally<'a> {
    /// No windows yet. `floors` has the smallest scaled value of a forecast for each series and target column
    /// `[series, targets]`, minus infinity where there is none.
    #[must_use]
    pub fn new(dataset: &'a Dataset, horizon: usize, baselines: &[Baseline], floors: &[f64]) -> Self {
        Self {
            dataset,
            horizon,
            baselines: baselines.to_vec(),
            floors: floors.to_vec(),
            alone: vec![(0.0, 0); baselines.len()],
            networks: Vec::new(),
        }
    }

    /// Adds the windows of these origins to the baselines' errors.
    pub fn score_baselines(&mut self, origins: &[Origin]) {
        for origin in origins {
            for column in 0..self.dataset.targets() {
                let (history, truth) = self.window(*origin, column);
                for (baseline, (sum, values)) in self.baselines.iter().zip(&mut self.alone) {
                    for (y, naive) in truth.iter().zip(baseline.continuation(history)) {
                        *sum += (f64::from(naive) - f64::from(*y)).powi(2);
                        *values += 1;
                    }
                }
            }
        }
    }

    /// Adds windows to the errors of network `number`: its predictions `[origins, targets, horizon]`, scaled.
    pub fn score_network(&mut self, number: usize, origins: &[Origin], predictions: &[f64]) {
        let (targets, ways) = (self.dataset.targets(), 1 + self.baselines.len());
        if self.networks.len() <= number {
            self.networks.resize(number + 1, (vec![0.0; ways], 0));
        }
        let mut sums = vec![0.0; ways];
        let mut values = 0;
        for (i, predicted) in predictions.chunks_exact(self.horizon).enumerate() {
            let Some(origin) = origins.get(i / targets) else { break };
            let column = i % targets;
            let (history, truth) = self.window(*origin, column);
            let floor = self.floors[origin.series * targets + column];
            for (p, y) in predicted.iter().zip(truth) {
                sums[0] += (p.max(floor) - f64::from(*y)).powi(2);
            }
            for (baseline, sum) in self.baselines.iter().zip(&mut sums[1..]) {
                for ((p, y), naive) in predicted.iter().zip(truth).zip(baseline.continuation(history)) {
                    let mean = 0.5 * (p + f64::from(naive));
                    *sum += (mean.max(floor) - f64::from(*y)).powi(2);
                }
            }
            values += truth.len();
        }
        let (total, count) = &mut self.networks[number];
        total.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
        *count += values;
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
        let mse = |sum: f64, values: usize| {
            let mse = sum / values.max(1) as f64;
            if values > 0 && mse.is_finite() { mse } else { f64::INFINITY }
        };
        let baselines = self.baselines.iter().zip(&self.alone).map(|(baseline, (sum, values))| Candidate {
            network: None,
            baseline: Some(*baseline),
            mse: mse(*sum, *values),
        });
        let baselines: Vec<Candidate> = baselines.collect();
        let better =
            least(&baselines).and_then(|b| self.baselines.iter().position(|x| Some(*x) == b.baseline));
        let of = |way: usize, baseline| {
            let each = self.networks.iter().enumerate();
            each.map(move |(n, (sums, values))| Candidate {
                network: Some(n),
                baseline,
                mse: mse(sums[way], *values),
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
        let mut tally = Tally::new(&dataset, 2, &[Baseline::LastValue, seasonal], &[f64::NEG_INFINITY]);
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
        let mut tally = Tally::new(&dataset, 2, &[Baseline::LastValue], &[0.0]);
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
        assert_eq!(Tally::new(&dataset, 2, &[Baseline::LastValue], &[0.0]).winner(), None);
    }
}
