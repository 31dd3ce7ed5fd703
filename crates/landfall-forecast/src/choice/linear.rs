//! NLinear and DLinear as ridge regressions: their weights in one solve instead of many steps.

use super::folds::Origin;
use super::ridge::{Fit, Gram, product};
use crate::data::{Prior, WindowedPanel};
use crate::models::{DLinearConfig, ModelConfig, NLinearConfig};
use crate::train::{Dataset, Session};
use landfall::{DType, Engine, Error, HostTensor, Spec};

/// Products of the normal equations cost windows × (features + targets)²; more windows than fit into this many are
/// sampled evenly.
const OPERATIONS: u64 = 40_000_000_000;
/// Fewest windows that are kept of such a sample.
const FEWEST: usize = 4_000;
/// Windows that are added at once.
const CHUNK: usize = 1024;

/// Windows that are kept of so many features and targets in all.
fn most(all: usize) -> usize {
    let fit = OPERATIONS / (all as u64 * all as u64);
    usize::try_from(fit).unwrap_or(usize::MAX).max(FEWEST)
}

/// A linear network of known sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linear {
    /// [`crate::models::NLinear`].
    NLinear {
        /// Context length.
        context: usize,
        /// Horizon.
        horizon: usize,
    },
    /// [`crate::models::DLinear`].
    DLinear {
        /// Context length.
        context: usize,
        /// Horizon.
        horizon: usize,
        /// Rows of the moving average; odd.
        kernel: usize,
    },
}

impl Linear {
    /// The configuration of its model.
    #[must_use]
    pub fn config(self) -> ModelConfig {
        match self {
            Self::NLinear { context, horizon } => {
                ModelConfig::Nlinear(NLinearConfig { context, horizon, outputs: 1 })
            }
            Self::DLinear { context, horizon, kernel } => {
                ModelConfig::Dlinear(DLinearConfig { context, horizon, kernel, outputs: 1 })
            }
        }
    }

    fn sizes(self) -> (usize, usize) {
        match self {
            Self::NLinear { context, horizon } | Self::DLinear { context, horizon, .. } => (context, horizon),
        }
    }

    fn features(self) -> usize {
        match self {
            Self::NLinear { context, .. } => context,
            Self::DLinear { context, .. } => 2 * context,
        }
    }

    /// What is subtracted from the predicted rows: the last value of the context for NLinear.
    fn level(self, context: &[f32]) -> f64 {
        match self {
            Self::NLinear { .. } => context.last().copied().map_or(0.0, f64::from),
            Self::DLinear { .. } => 0.0,
        }
    }

    /// The features of a context: differences from its last value; or what is left of it without its moving average (the
    /// ends repeated), then that average.
    fn of(self, context: &[f32], row: &mut Vec<f64>) {
        match self {
            Self::NLinear { .. } => {
                let level = self.level(context);
                row.extend(context.iter().map(|&x| f64::from(x) - level));
            }
            Self::DLinear { kernel, .. } => {
                let (side, last) = (kernel / 2, context.len().saturating_sub(1));
                let at = |i: usize| f64::from(context[i.saturating_sub(side).min(last)]);
                let mut sum: f64 = (0..kernel).map(at).sum();
                let begin = row.len();
                row.resize(begin + 2 * context.len(), 0.0);
                for i in 0..context.len() {
                    let trend = sum / kernel as f64;
                    row[begin + i] = f64::from(context[i]) - trend;
                    row[begin + context.len() + i] = trend;
                    sum += at(i + kernel) - at(i);
                }
            }
        }
    }

    /// Products and sums of a fit to so many windows, each of one column.
    #[must_use]
    pub fn operations(self, windows: usize) -> f64 {
        let all = self.features() + self.sizes().1;
        let most = most(all);
        (windows.min(most) * all * all) as f64
    }

    /// Fits it to these windows of the target columns, once for each strength. `priors` are those of each series and target
    /// column: those that were constant in the training rows teach the others nothing, and are left out.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn fit(
        self,
        engine: &Engine,
        dataset: &Dataset,
        (origins, priors): (&[Origin], &[Prior]),
        strengths: &[f64],
    ) -> Result<Vec<Fit>, Error> {
        let (context, horizon) = self.sizes();
        let (targets, all) = (dataset.targets(), self.features() + horizon);
        let most = most(all);
        let every = (origins.len() * targets).div_ceil(most).max(1);
        let mut gram = Gram::new(engine, self.features(), horizon)?;
        let mut rows = Vec::with_capacity(CHUNK * all);
        for column in 0..targets {
            let values = &dataset.values[column * dataset.rows..][..dataset.rows];
            // Columns begin at different windows, so that a sample of few windows still holds most of them.
            for origin in origins.iter().skip(column % every).step_by(every) {
                let window = &values[origin.at - context..origin.at];
                if priors[origin.series * targets + column].constant {
                    continue;
                }
                self.of(window, &mut rows);
                let level = self.level(window);
                rows.extend(values[origin.at..origin.at + horizon].iter().map(|&y| f64::from(y) - level));
                if rows.len() == CHUNK * all {
                    gram.add(&rows)?;
                    rows.clear();
                }
            }
        }
        if !rows.is_empty() {
            gram.add(&rows)?;
        }
        gram.solve(strengths)
    }

    /// Predictions `[origins, targets, horizon]` of a fit, scaled.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn predict(
        self,
        engine: &Engine,
        dataset: &Dataset,
        origins: &[Origin],
        fit: &Fit,
    ) -> Result<Vec<f64>, Error> {
        let (context, horizon) = self.sizes();
        let (targets, features) = (dataset.targets(), self.features());
        let weights = engine.tensor([features, horizon], &fit.weights)?;
        let intercept = engine.tensor([horizon], &fit.intercept)?;
        let mut all = Vec::with_capacity(origins.len() * targets * horizon);
        for some in origins.chunks(CHUNK) {
            let (mut rows, mut levels) = (Vec::new(), Vec::new());
            for origin in some {
                for column in 0..targets {
                    let values = &dataset.values[column * dataset.rows..][..dataset.rows];
                    let window = &values[origin.at - context..origin.at];
                    self.of(window, &mut rows);
                    levels.push(self.level(window));
                }
            }
            let x = engine.tensor([levels.len(), features], &rows)?;
            let mut y = engine.empty(DType::F64, [levels.len(), horizon])?;
            product(engine, &[x.view(), weights.view(), intercept.view()], &mut y)?;
            let y = y.read::<f64>()?;
            all.extend(y.iter().enumerate().map(|(i, y)| y + levels[i / horizon]));
        }
        Ok(all)
    }

    /// A session of its model with the weights of a fit, on this data.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn write(self, fit: &Fit, session: &mut Session) -> Result<(), Error> {
        let (context, horizon) = self.sizes();
        let weights = |from: usize| {
            let at = |i: usize| fit.weights[(from + i % context) * horizon + i / context];
            HostTensor::from_fn(Spec::new(DType::F64, [horizon, context]), at)
        };
        let intercept = HostTensor::new(DType::F64, [horizon], fit.intercept.clone())?;
        match self {
            Self::NLinear { .. } => {
                session.state.write_host("Linear.weight", &weights(0))?;
                session.state.write_host("Linear.bias", &intercept)
            }
            Self::DLinear { .. } => {
                session.state.write_host("Linear_Seasonal.weight", &weights(0))?;
                session.state.write_host("Linear_Seasonal.bias", &intercept)?;
                session.state.write_host("Linear_Trend.weight", &weights(context))?;
                let zeros = HostTensor::from_fn(Spec::new(DType::F64, [horizon]), |_| 0.0);
                session.state.write_host("Linear_Trend.bias", &zeros)
            }
        }
    }
}

/// All origins of windows of a panel that start at these rows of each series.
#[must_use]
pub fn origins(panel: &WindowedPanel, starts: &[std::ops::Range<usize>]) -> Vec<Origin> {
    super::Fold::origins(panel, starts).collect()
}
