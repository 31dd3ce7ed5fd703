//! Scores of quantile forecasts: CRPS, WQL, and how often values lie below each quantile.

use crate::windows::window_forecast::WindowForecast;
use crate::windows::windowed::WindowedPanel;
use serde::{Deserialize, Serialize};

/// Scores of a forecast of quantiles, over all values of the windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantileScores {
    /// Twice the mean quantile loss over the levels, scaled: an approximation of the continuous ranked probability score, which is
    /// `2 ∫ quantile loss at τ dτ` (Gneiting and Raftery 2007), that is the better the more levels there are and the more evenly
    /// they lie.
    pub crps: f64,
    /// Weighted quantile loss: the mean over the levels of `2 Σ quantile loss / Σ |y|`, in original units (as GluonTS's
    /// `mean_wQuantileLoss`); `None` where all values are 0.
    pub wql: Option<f64>,
    /// The same for each level.
    pub levels: Vec<LevelScores>,
}

/// Scores of the forecast at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LevelScores {
    /// The level τ.
    pub level: f64,
    /// Share of the values that are not above the quantile; τ is right.
    pub below: f64,
    /// `2 Σ quantile loss / Σ |y|`, in original units.
    pub wql: Option<f64>,
}

/// Sums of the quantile losses of forecasts, window after window.
#[derive(Debug, Clone)]
pub struct QuantileSums<'a> {
    panel: &'a WindowedPanel,
    levels: Vec<Level>,
    absolute: f64,
    values: f64,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    level: f64,
    below: f64,
    loss: f64,
    scaled: f64,
}

impl<'a> QuantileSums<'a> {
    /// Empty sums for forecasts of these levels, ascending.
    #[must_use]
    pub fn new(panel: &'a WindowedPanel, levels: &[f64]) -> Self {
        let empty = |&level: &f64| Level { level, below: 0.0, loss: 0.0, scaled: 0.0 };
        Self { panel, levels: levels.iter().map(empty).collect(), absolute: 0.0, values: 0.0 }
    }

    /// Adds the forecast of a window, in the units of the data.
    pub fn add(&mut self, w: &WindowForecast<'_>) {
        let Some(member) = self.panel.members().get(w.series) else { return };
        for (target, std) in member.scaler.std().iter().take(self.panel.targets()).enumerate() {
            let actual = w.actual(&member.series, target);
            self.values += actual.len() as f64;
            self.absolute += actual.iter().map(|y| y.abs()).sum::<f64>();
            for (place, sums) in self.levels.iter_mut().enumerate() {
                for (y, q) in actual.iter().zip(w.level(target, place)) {
                    let d = y - q;
                    let loss = (sums.level * d).max((sums.level - 1.0) * d);
                    sums.loss += loss;
                    sums.scaled += loss / std;
                    sums.below += f64::from(u8::from(y <= q));
                }
            }
        }
    }

    /// The scores; `None` without levels or values.
    #[must_use]
    pub fn finish(&self) -> Option<QuantileScores> {
        if self.levels.is_empty() || self.values == 0.0 {
            return None;
        }
        let n = self.levels.len() as f64;
        let weighted = |loss: f64| Some(2.0 * loss / self.absolute).filter(|x| x.is_finite());
        let level =
            |l: &Level| LevelScores { level: l.level, below: l.below / self.values, wql: weighted(l.loss) };
        Some(QuantileScores {
            crps: 2.0 * self.levels.iter().map(|l| l.scaled).sum::<f64>() / (n * self.values),
            wql: weighted(self.levels.iter().map(|l| l.loss).sum::<f64>() / n),
            levels: self.levels.iter().map(level).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;
    use crate::windows::split::Split;

    #[test]
    fn scores_are_those_of_the_formulas() {
        let values = (0..40).map(|i| f64::from(i % 5) - 1.0).collect();
        let series = Series::new("s", vec!["a".to_owned()], vec![values], None).expect("a series");
        let split = Split::ratio(0.5, 0.25, 0.25).expect("a partition");
        let panel = WindowedPanel::fit(series.into(), split, 4, 2).expect("windows");
        let std = panel.members()[0].scaler.std()[0];
        let mut sums = QuantileSums::new(&panel, &[0.25, 0.5]);
        assert_eq!(sums.finish(), None);
        // Rows 30 and 31 are -1 and 0; quantiles of the levels 0.25: 1 and -2, 0.5: 1 and 0.
        let values = [1.0, -2.0, 1.0, 0.0];
        sums.add(&WindowForecast {
            series: 0,
            window: 0,
            start_row: 30,
            horizon: 2,
            outputs: 2,
            point: 1,
            values: &values,
            bounds: &[],
            widths: &[],
        });
        let scores = sums.finish().expect("scores");
        // Losses: 0.75·2 + 0.25·2 = 2, and 0.5·2 + 0 = 1; Σ|y| = 1.
        assert_eq!(scores.levels[0], LevelScores { level: 0.25, below: 0.5, wql: Some(4.0) });
        assert_eq!(scores.levels[1], LevelScores { level: 0.5, below: 1.0, wql: Some(2.0) });
        assert_eq!(scores.wql, Some(3.0));
        assert!((scores.crps - 2.0 * (2.0 + 1.0) / (2.0 * 2.0) / std).abs() < 1e-12);
    }
}
