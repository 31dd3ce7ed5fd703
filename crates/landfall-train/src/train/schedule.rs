//! Learning-rate schedules, as tables of one rate for each step: the step looks its rate up on the device.

use serde::{Deserialize, Serialize};

/// How the learning rate changes over a run.
///
/// ```
/// use landfall_train::train::Schedule;
/// // Warm-up over the first 5 of 100 steps, then a half cosine.
/// let rates = Schedule::Cosine.table(0.1, 100, 10);
/// assert!(rates[0] < rates[4] && rates[4] == 0.1 && rates[99] < 1e-3);
/// assert_eq!(Schedule::parse("one-cycle"), Some(Schedule::OneCycle));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Schedule {
    /// The same rate throughout.
    Constant,
    /// The official PatchTST recipe, by epoch: 1/25 of the rate in epoch 1 (the start of a one-cycle schedule that is
    /// then overridden), the rate in epochs 2 to 4, 0.9 of the previous epoch's afterwards.
    Official,
    /// Linear warm-up over the first 5 % of the steps, then a half cosine to 0 (Loshchilov & Hutter 2017).
    Cosine,
    /// One cycle (Smith & Topin 2018): a half cosine from 1/25 of the rate up to it over 30 % of the steps, then one
    /// down to 1/250,000 of it.
    OneCycle,
    /// The rate in epochs 1 and 2, then half of the epoch before's (the official DLinear recipe, whose first adjustment,
    /// after epoch 1, sets the rate that it had).
    Halving,
}

impl Schedule {
    /// Every schedule.
    pub const ALL: &'static [Self] =
        &[Self::Constant, Self::Official, Self::Cosine, Self::OneCycle, Self::Halving];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Official => "official",
            Self::Cosine => "cosine",
            Self::OneCycle => "one-cycle",
            Self::Halving => "halving",
        }
    }

    /// The schedule of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|s| s.name() == name)
    }

    /// The rate of each of `steps` steps, `per_epoch` of which are an epoch.
    #[must_use]
    pub fn table(self, lr: f64, steps: usize, per_epoch: usize) -> Vec<f64> {
        (0..steps.max(1)).map(|s| self.rate(lr, s, steps.max(1), per_epoch.max(1))).collect()
    }

    fn rate(self, lr: f64, step: usize, steps: usize, per_epoch: usize) -> f64 {
        let half_cosine =
            |from: f64, to: f64, t: f64| to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * t).cos());
        match self {
            Self::Constant => lr,
            Self::Official => match step / per_epoch + 1 {
                1 => lr / 25.0,
                2..=4 => lr,
                epoch => lr * 0.9f64.powi(i32::try_from(epoch - 4).unwrap_or(i32::MAX)),
            },
            Self::Halving => {
                let halvings = (step / per_epoch).saturating_sub(1);
                lr * 0.5f64.powi(i32::try_from(halvings).unwrap_or(i32::MAX))
            }
            Self::Cosine => {
                let warm = (steps / 20).max(1);
                if step < warm {
                    lr * (step + 1) as f64 / warm as f64
                } else {
                    half_cosine(lr, 0.0, (step - warm) as f64 / (steps - warm).max(1) as f64)
                }
            }
            Self::OneCycle => {
                // PyTorch's phases end at the last step of each, counted from 0.
                let up = 0.3 * steps as f64 - 1.0;
                let last = steps as f64 - 1.0;
                let at = step as f64;
                if at <= up {
                    half_cosine(lr / 25.0, lr, at / up.max(1.0))
                } else {
                    half_cosine(lr, lr / 25.0 / 1e4, (at - up) / (last - up).max(1.0))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs().max(1e-12)
    }

    #[test]
    fn official_rates_by_epoch() {
        let table = Schedule::Official.table(1e-4, 60, 10);
        let epochs: Vec<f64> = table.iter().step_by(10).copied().collect();
        let want = [4e-6, 1e-4, 1e-4, 1e-4, 9e-5, 8.1e-5];
        assert!(epochs.iter().zip(want).all(|(&a, b)| close(a, b)), "{epochs:?}");
    }

    #[test]
    fn halving_by_epoch() {
        let table = Schedule::Halving.table(5e-3, 40, 10);
        let epochs: Vec<f64> = table.iter().step_by(10).copied().collect();
        assert_eq!(epochs, [5e-3, 5e-3, 2.5e-3, 1.25e-3]);
    }

    #[test]
    fn one_cycle_matches_its_corner_values() {
        // PyTorch's OneCycleLR(max_lr=1, total_steps=100) at steps 0, 29, 64 and 99.
        let t = Schedule::OneCycle.table(1.0, 100, 10);
        assert!(close(t[0], 0.04) && close(t[29], 1.0) && close(t[99], 4e-6), "{} {} {}", t[0], t[29], t[99]);
        assert!((t[64] - 0.500_002).abs() < 1e-9, "{}", t[64]);
    }

    #[test]
    fn cosine_warms_up_and_ends_near_zero() {
        let t = Schedule::Cosine.table(1.0, 100, 10);
        assert!(close(t[0], 0.2) && close(t[4], 1.0) && t[99] < 1e-3 && t[5] <= 1.0);
    }
}
