//! One pass over the test windows: sums for all of them, forecasts of the few that are shown.

use super::histogram::Histogram;
use crate::data::{
    Baseline, MetricSums, QuantileScores, QuantileSums, Segment, WindowForecast, WindowedPanel,
};
use crate::run::{Intervals, Run, RunError, window_forecasts};
use crate::train::Session;

/// Charts of forecasts at most: pairs of a series and a target column.
const PAIRS: usize = 8;
/// Evenly spaced windows among which the one of median error is found.
const CANDIDATES: usize = 101;
/// Places over time at which residuals are summed up.
const PLACES: usize = 240;

/// The forecast of a window that is shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) window: usize,
    pub(super) start_row: usize,
    /// Mean squared error, scaled.
    pub(super) mse: f64,
    /// `[Q, H]`, original units.
    pub(super) values: Vec<f64>,
    /// Bounds of the intervals `[intervals, 2, H]`, original units.
    pub(super) bounds: Vec<f64>,
}

/// A series and a target column with the windows that are shown.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) series: usize,
    pub(super) target: usize,
    pub(super) first: Option<Shown>,
    pub(super) last: Option<Shown>,
    pub(super) worst: Option<Shown>,
    candidates: Vec<Shown>,
    every: usize,
}

impl Pair {
    fn add(&mut self, w: &WindowForecast<'_>, mse: f64) {
        let size = w.outputs * w.horizon;
        let shown = || Shown {
            window: w.window,
            start_row: w.start_row,
            mse,
            values: w
                .values
                .get(self.target * size..)
                .unwrap_or_default()
                .iter()
                .take(size)
                .copied()
                .collect(),
            bounds: w
                .bounds
                .chunks_exact((w.bounds.len() * size / w.values.len()).max(1))
                .nth(self.target)
                .unwrap_or_default()
                .to_vec(),
        };
        if self.worst.as_ref().is_none_or(|worst| mse > worst.mse) {
            self.worst = Some(shown());
        }
        if w.window.is_multiple_of(self.every) {
            self.candidates.push(shown());
        }
        if self.first.is_none() {
            self.first = Some(shown());
        }
        self.last = Some(shown());
    }

    /// The candidate of median error.
    pub(super) fn median(&self) -> Option<&Shown> {
        let mut all: Vec<&Shown> = self.candidates.iter().collect();
        all.sort_by(|a, b| a.mse.total_cmp(&b.mse));
        all.get(all.len().saturating_sub(1) / 2).copied()
    }

    /// Windows from one candidate to the next; 1 where all are.
    pub(super) fn every(&self) -> usize {
        self.every
    }
}

/// Squared errors of one forecast, scaled.
#[derive(Debug, Clone)]
struct Sums {
    steps: Vec<f64>,
    series: Vec<f64>,
    targets: Vec<f64>,
}

/// Mean squared errors of one forecast, scaled.
#[derive(Debug, Clone)]
pub(super) struct Errors {
    pub(super) steps: Vec<f64>,
    pub(super) series: Vec<f64>,
    pub(super) targets: Vec<f64>,
}

/// Residuals (actual value minus forecast, scaled) of the rows at one place of time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squared: f64,
}

/// What is known of the test windows. Its size does not depend on their number.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) pairs: Vec<Pair>,
    /// Pairs that are not shown.
    pub(super) left_out: usize,
    pub(super) baselines: Vec<Baseline>,
    pub(super) residuals: Histogram,
    /// First test row, rows of a place, and the places.
    pub(super) over_time: (usize, usize, Vec<Place>),
    /// Scores of the quantiles, where there are any.
    pub(super) quantiles: Option<QuantileScores>,
    sums: Vec<Sums>,
    windows: Vec<usize>,
    horizon: usize,
}

impl Collected {
    /// Nothing yet.
    pub(super) fn new(run: &Run, panel: &WindowedPanel) -> Self {
        let (parts, targets) = (panel.parts(Segment::Test), panel.targets());
        let begin = |w: &crate::data::Windows| w.target(w.base()).start;
        let first = parts.iter().map(|p| begin(&p.windows)).min().unwrap_or(0);
        let end = parts.iter().map(|p| p.windows.end()).max().unwrap_or(0);
        let period = run.resolved().period;
        let mut baselines = vec![Baseline::LastValue];
        baselines.extend((period > 1 && period <= first).then_some(Baseline::SeasonalNaive { period }));
        let horizon = run.resolved().network.horizon();
        let windows: Vec<usize> = parts.iter().map(|p| p.windows.count()).collect();
        let all = (0..parts.len()).flat_map(|series| (0..targets).map(move |target| (series, target)));
        let pair = |(series, target): (usize, usize)| {
            let every = windows[series].div_ceil(CANDIDATES).max(1);
            Pair { series, target, first: None, last: None, worst: None, candidates: Vec::new(), every }
        };
        let sums =
            Sums { steps: vec![0.0; horizon], series: vec![0.0; parts.len()], targets: vec![0.0; targets] };
        let rows = (end - first).div_ceil(PLACES).max(1);
        Self {
            pairs: all.take(PAIRS).map(pair).collect(),
            left_out: (parts.len() * targets).saturating_sub(PAIRS),
            sums: vec![sums; 1 + baselines.len()],
            baselines,
            residuals: Histogram::default(),
            over_time: (first, rows, vec![Place::default(); (end - first).div_ceil(rows)]),
            quantiles: None,
            windows,
            horizon,
        }
    }

    /// Forecasts all test windows, and adds their errors to `sums`.
    ///
    /// # Errors
    /// A device fault; a value that cannot be scaled.
    pub(super) fn of(
        run: &Run,
        session: &mut Session,
        panel: &WindowedPanel,
        intervals: Option<&Intervals>,
        sums: &mut MetricSums<'_>,
    ) -> Result<Self, RunError> {
        let mut all = Self::new(run, panel);
        let mut rolling = intervals.map(|of| of.rolling(panel));
        let mut quantiles = QuantileSums::new(panel, run.levels());
        let mut add = |w: WindowForecast<'_>| -> Result<(), RunError> {
            quantiles.add(&w);
            sums.add(&w);
            for target in 0..panel.targets() {
                all.add(panel, &w, target);
            }
            Ok(())
        };
        window_forecasts(session, panel, Segment::Test, run.forecaster(), |w| match &mut rolling {
            Some(rolling) => rolling.window(w, &mut add),
            None => add(w),
        })?;
        all.quantiles = quantiles.finish();
        Ok(all)
    }

    fn add(&mut self, panel: &WindowedPanel, w: &WindowForecast<'_>, target: usize) {
        let member = &panel.members()[w.series];
        let std = member.scaler.std()[target];
        let actual = w.actual(&member.series, target);
        let history = member.series.values()[target].get(..w.start_row).unwrap_or_default();
        let mut total = 0.0;
        for (step, (y, p)) in actual.iter().zip(w.of(target)).enumerate() {
            let residual = (y - p) / std;
            total += residual * residual;
            self.residuals.add(residual);
            let (first, rows, places) = &mut self.over_time;
            if let Some(place) = places.get_mut((w.start_row + step - *first) / *rows) {
                place.count += 1.0;
                place.sum += residual;
                place.squared += residual * residual;
            }
            self.sums[0].steps[step] += residual * residual;
        }
        self.sums[0].add(w.series, target, total);
        for (baseline, sums) in self.baselines.iter().zip(&mut self.sums[1..]) {
            let mut total = 0.0;
            for (step, (y, p)) in actual.iter().zip(baseline.continuation(history)).enumerate() {
                let squared = ((y - p) / std).powi(2);
                total += squared;
                sums.steps[step] += squared;
            }
            sums.add(w.series, target, total);
        }
        if let Some(pair) = self.pairs.iter_mut().find(|p| (p.series, p.target) == (w.series, target)) {
            pair.add(w, total / self.horizon.max(1) as f64);
        }
    }

    /// Mean squared errors: those of the run's forecasts, then those of each baseline.
    pub(super) fn errors(&self) -> Vec<Errors> {
        let (windows, horizon) = (self.windows.iter().sum::<usize>() as f64, self.horizon as f64);
        let of = |s: &Sums| {
            let targets = s.targets.len() as f64;
            let series = s.series.iter().zip(&self.windows);
            Errors {
                steps: s.steps.iter().map(|x| x / (windows * targets)).collect(),
                series: series.map(|(x, n)| x / (*n as f64 * targets * horizon)).collect(),
                targets: s.targets.iter().map(|x| x / (windows * horizon)).collect(),
            }
        };
        self.sums.iter().map(of).collect()
    }
}

impl Sums {
    fn add(&mut self, series: usize, target: usize, total: f64) {
        self.series[series] += total;
        self.targets[target] += total;
    }
}
