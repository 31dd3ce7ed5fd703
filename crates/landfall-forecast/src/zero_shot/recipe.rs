//! The recipe of a pretraining: all that decides which weights come out.

use super::ZeroShotError;
use crate::data::generated::{Part, Parts, Simulator};
use crate::files;
use crate::models::zero_shot::{Crops, ZeroShotConfig};
use crate::train::{Betas, OptimizerKind, TrainingOptions};
use landfall::DType;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A recipe, as `recipes/zero-shot.toml` writes one.
///
/// ```
/// use landfall_forecast::zero_shot::Recipe;
/// let recipe = Recipe::shipped()?;
/// assert_eq!(recipe.network.patch, 8);
/// assert!(recipe.rate(0) < recipe.rate(recipe.optimizer.warm_up));
/// # Ok::<(), landfall_forecast::zero_shot::ZeroShotError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Seed of initial values, order and crops.
    pub seed: u64,
    /// Steps in all.
    pub steps: usize,
    /// Sizes of the network.
    pub network: ZeroShotConfig,
    /// How it is trained.
    pub optimizer: Optimizer,
    /// What it is trained on.
    pub simulation: Simulation,
    /// How series are cut; the windows of its lengths are a batch.
    pub crops: Crops,
    /// On what it is validated.
    pub validation: Validation,
}

/// AdamW and its learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    /// Largest learning rate.
    pub lr: f64,
    /// Steps until it is reached.
    pub warm_up: usize,
    /// Share of the steps after which it falls, along half a cosine to 0.
    pub constant: f64,
    /// Decay rates of the moments.
    pub betas: Betas,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// Largest gradient norm.
    pub clip: f64,
    /// Decay rate of the average of the weights, which is what is kept.
    pub average: f64,
    /// Dtype of arithmetic: bf16, f16 or f32.
    pub dtype: String,
}

/// The simulated series that are trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// Seed of the series.
    pub seed: u64,
    /// Parts of the simulator that are left out.
    pub without: Vec<String>,
    /// Rows of a series.
    pub rows: usize,
    /// Series that are on the device at a time.
    pub series: usize,
    /// Steps until others take their place.
    pub steps: usize,
}

/// The simulated series that are validated on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Their seed, another than that of training.
    pub seed: u64,
    /// How many.
    pub series: usize,
    /// Rows that are forecast of each.
    pub horizon: usize,
    /// Steps from one validation to the next; each writes a checkpoint.
    pub every: usize,
}

impl Recipe {
    /// The recipe of the weights that are shipped.
    ///
    /// # Errors
    /// None, as a test checks.
    pub fn shipped() -> Result<Self, ZeroShotError> {
        Self::parse(include_str!("../../recipes/zero-shot.toml"))
    }

    /// Reads a recipe from a file.
    ///
    /// # Errors
    /// [`ZeroShotError::Recipe`] for a file that cannot be read; as [`Recipe::parse`].
    pub fn read(path: &Path) -> Result<Self, ZeroShotError> {
        let text = files::read_text(path);
        Self::parse(&text.map_err(|why| ZeroShotError::Recipe { path: path.to_owned(), why })?)
    }

    /// Reads a recipe from its text.
    ///
    /// # Errors
    /// [`ZeroShotError::Toml`] for unknown or missing keys, [`ZeroShotError::Unfit`] for values that do not fit each other.
    pub fn parse(text: &str) -> Result<Self, ZeroShotError> {
        let recipe: Self = toml::from_str(text).map_err(|e| ZeroShotError::Toml(e.to_string()))?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Its text.
    ///
    /// # Errors
    /// [`ZeroShotError::Toml`] for a number that TOML cannot hold.
    pub fn text(&self) -> Result<String, ZeroShotError> {
        toml::to_string(self).map_err(|e| ZeroShotError::Toml(e.to_string()))
    }

    /// The learning rate of a step, counted from 0.
    #[must_use]
    pub fn rate(&self, step: usize) -> f64 {
        let Optimizer { lr, warm_up, constant, .. } = self.optimizer;
        let warm = ((step + 1) as f64 / warm_up.max(1) as f64).min(1.0);
        let done = step as f64 / self.steps.max(1) as f64;
        let falling = ((done - constant) / (1.0 - constant)).max(0.0);
        lr * warm * 0.5 * (1.0 + (std::f64::consts::PI * falling).cos())
    }

    /// Crops of a batch.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.crops.lengths.iter().map(|l| l.windows).sum()
    }

    /// The simulator of training.
    ///
    /// # Errors
    /// [`ZeroShotError::Unfit`] for the name of no part.
    pub fn simulator(&self) -> Result<Simulator, ZeroShotError> {
        let mut parts = Parts::ALL;
        for name in &self.simulation.without {
            let part = Part::named(name).ok_or_else(|| {
                let all: Vec<&str> = Part::ALL.into_iter().map(Part::name).collect();
                ZeroShotError::Unfit(format!(
                    "simulation.without names {name}, the parts are {}",
                    all.join(", ")
                ))
            })?;
            parts = parts.without(part);
        }
        Ok(Simulator::new(self.simulation.seed).with_parts(parts))
    }

    /// What the trainer is made with.
    pub(super) fn options(&self) -> Result<TrainingOptions, ZeroShotError> {
        let o = &self.optimizer;
        let dtype = DType::parse(&o.dtype).ok_or_else(|| {
            ZeroShotError::Unfit(format!("optimizer.dtype is {}; it must be bf16, f16 or f32", o.dtype))
        })?;
        Ok(TrainingOptions {
            batch: self.batch(),
            max_steps: Some(self.steps),
            lr: o.lr,
            optimizer: OptimizerKind::AdamW,
            betas: o.betas,
            weight_decay: o.weight_decay,
            average: Some(o.average),
            clip: Some(o.clip),
            dtype,
            seed: self.seed,
            ..TrainingOptions::default()
        })
    }

    fn check(&self) -> Result<(), ZeroShotError> {
        let (s, v) = (&self.simulation, &self.validation);
        self.network.check().map_err(ZeroShotError::Unfit)?;
        self.simulator()?;
        self.options()?;
        let unfit = |why: String| Err(ZeroShotError::Unfit(why));
        if !(0.0..1.0).contains(&self.optimizer.constant) {
            return unfit(format!("optimizer.constant is {}; it must be in [0, 1)", self.optimizer.constant));
        }
        for l in &self.crops.lengths {
            if l.context > self.network.context || l.horizon > self.network.horizon {
                return unfit(format!(
                    "crops.lengths has a context of {} and a horizon of {}, the network {} and {} at most",
                    l.context, l.horizon, self.network.context, self.network.horizon
                ));
            }
            if l.context + l.horizon > s.rows || l.shortest == 0 || l.shortest > l.context {
                return unfit(format!(
                    "crops.lengths has contexts of {} to {} and {} rows ahead; they must begin at 1 and fit in simulation.rows, {}",
                    l.shortest, l.context, l.horizon, s.rows
                ));
            }
        }
        if self.batch() == 0 || s.series < self.batch() || s.steps == 0 || v.every == 0 || v.series == 0 {
            return unfit(format!(
                "a batch of {}, {} series for {} steps, {} validated every {} steps: none may be 0, and the series must fill a batch",
                self.batch(),
                s.series,
                s.steps,
                v.series,
                v.every
            ));
        }
        if v.horizon == 0 || v.horizon > self.network.horizon || v.horizon % self.network.patch != 0 {
            return unfit(format!(
                "validation.horizon is {}; it must be a multiple of the patch, up to network.horizon, {}",
                v.horizon, self.network.horizon
            ));
        }
        if v.seed == s.seed {
            return unfit(format!("validation.seed is {}, that of training; give another", v.seed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_recipe_is_sound_and_its_text_reads_back() {
        let recipe = Recipe::shipped().expect("a sound recipe");
        assert_eq!(Recipe::parse(&recipe.text().expect("a text")).expect("the same"), recipe);
        assert_eq!(recipe.batch(), 1024);
        // Warm-up, constant, then down to 0.
        let (lr, last) = (recipe.optimizer.lr, recipe.steps - 1);
        assert!(recipe.rate(0) < lr / 100.0);
        assert_eq!(recipe.rate(recipe.steps / 5), lr);
        assert!(recipe.rate(last) < lr * 1e-4 && recipe.rate(last) > 0.0);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told = |change: fn(&mut Recipe)| {
            let mut recipe = Recipe::shipped().expect("a sound recipe");
            change(&mut recipe);
            Recipe::parse(&recipe.text().expect("a text")).expect_err("what does not fit").to_string()
        };
        assert!(
            told(|r| r.simulation.without.push("moon".to_owned()))
                .contains("names moon, the parts are trends")
        );
        assert!(told(|r| r.validation.seed = r.simulation.seed).contains("that of training"));
        assert!(told(|r| r.crops.lengths[0].context = 4096).contains("a context of 4096"));
        assert!(told(|r| r.simulation.rows = 1024).contains("fit in simulation.rows, 1024"));
        assert!(told(|r| r.optimizer.dtype = "int".to_owned()).contains("dtype is int"));
        let unknown = Recipe::parse("seed = 1\nsteps = 2\nmoon = 3").expect_err("an unknown key").to_string();
        assert!(unknown.contains("moon"), "{unknown}");
    }
}
