//! Presets: named sizes with the recipe that goes with them, a line of a table each.

use crate::models::{ModelConfig, ModelKind, OptionValue};
use crate::train::{Draws, OptimizerKind, Schedule, TrainingOptions};
use ModelKind::{CrossAsset, Dlinear, Patchtst, Tide, Tsmixer, WindowRegressor};
use OptionValue::{Choice, Count, Flag, Number};

/// The networks that the default recipe chooses among where no model is asked for.
pub(super) const CANDIDATES: [ModelKind; 3] = [Patchtst, Dlinear, ModelKind::Nlinear];

/// How a preset is trained unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// Windows of a batch.
    pub batch: usize,
    /// Passes over the training windows.
    pub epochs: usize,
    /// Learning rate.
    pub lr: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// Which optimizer.
    pub optimizer: OptimizerKind,
    /// Weight decay.
    pub weight_decay: f64,
    /// Largest global gradient norm, if gradients are clipped.
    pub clip: Option<f64>,
    /// Validations without a better one after which training ends, if it does.
    pub patience: Option<usize>,
    /// Where initial values and orders are drawn from.
    pub draws: Draws,
}

impl Recipe {
    /// Options of a run by this recipe; what it does not say is as in the default options.
    #[must_use]
    pub fn options(&self) -> TrainingOptions {
        TrainingOptions {
            batch: self.batch,
            epochs: self.epochs,
            lr: self.lr,
            schedule: self.schedule,
            optimizer: self.optimizer,
            weight_decay: self.weight_decay,
            clip: self.clip,
            draws: self.draws,
            ..TrainingOptions::default()
        }
    }
}

/// A preset: a model, the sizes and options in which it differs from the model's defaults, and a recipe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its model; none for the default recipe, which chooses one.
    pub model: Option<ModelKind>,
    /// Sizes and options other than the model's defaults.
    pub options: &'static [(&'static str, OptionValue)],
    /// How it is trained.
    pub recipe: Recipe,
}

/// The recipe of the official PatchTST.
const OFFICIAL: Recipe = Recipe {
    batch: 128,
    epochs: 100,
    lr: 1e-4,
    schedule: Schedule::Official,
    optimizer: OptimizerKind::Adam,
    weight_decay: 0.0,
    clip: None,
    patience: None,
    draws: Draws::Philox,
};

/// The program that DLinear's figures come from: the same seed gives the same run.
const DLINEAR: Recipe = Recipe {
    batch: 32,
    epochs: 10,
    lr: 5e-3,
    schedule: Schedule::Halving,
    patience: Some(3),
    draws: Draws::PyTorch,
    ..OFFICIAL
};

/// The reference code trains TiDE on a batch of one window, by a half cosine, at 9.8e-4 and 2.24e-4. Of a batch of 32 Adam's
/// rate is up to √32 times that (Malladi et al. 2022, "On the SDEs and scaling rules for adaptive gradient algorithms").
const TIDE: Recipe = Recipe { batch: 32, epochs: 20, lr: 5.5e-3, schedule: Schedule::Cosine, ..OFFICIAL };

const TSMIXER: Recipe = Recipe { batch: 32, schedule: Schedule::Constant, patience: Some(5), ..OFFICIAL };

/// AdamW at a constant rate, with clipping.
const ADAMW: Recipe = Recipe {
    batch: 64,
    epochs: 10,
    lr: 1e-3,
    schedule: Schedule::Constant,
    optimizer: OptimizerKind::AdamW,
    clip: Some(1.0),
    ..OFFICIAL
};

/// The default recipe: sizes and number of steps from the data, and a choice among networks and baselines by validation. Rate
/// and schedule hold from a hundred windows to millions.
const AUTO: Preset = Preset {
    name: "auto",
    model: None,
    options: &[],
    recipe: Recipe { lr: 1e-3, schedule: Schedule::OneCycle, patience: Some(5), ..OFFICIAL },
};

const fn preset(
    name: &'static str,
    model: ModelKind,
    recipe: Recipe,
    options: &'static [(&'static str, OptionValue)],
) -> Preset {
    Preset { name, model: Some(model), options, recipe }
}

impl Preset {
    /// Every preset: the default recipe, then those of papers. The first of a model is what the model alone stands for, where
    /// the default recipe has no place for it.
    pub const ALL: &'static [Self] = &[
        AUTO,
        // For ETTh1 and ETTh2 with 336 rows of history.
        preset("patchtst-42", Patchtst, OFFICIAL, &[]),
        // The same with 512 rows.
        preset("patchtst-64", Patchtst, OFFICIAL, &[("context", Count(512))]),
        // For ETTm, weather, electricity and traffic.
        preset(
            "patchtst-wide",
            Patchtst,
            Recipe { batch: 32, ..OFFICIAL },
            &[("d_model", Count(128)), ("heads", Count(16)), ("d_ff", Count(256)), ("dropout", Number(0.2))],
        ),
        // A large model for speed.
        preset(
            "patchtst-deep",
            Patchtst,
            Recipe { batch: 32, ..OFFICIAL },
            &[
                ("context", Count(512)),
                ("d_model", Count(512)),
                ("heads", Count(8)),
                ("layers", Count(6)),
                ("d_ff", Count(2048)),
                ("norm", Choice("layer")),
                ("residual_attention", Flag(false)),
                ("dropout", Number(0.0)),
            ],
        ),
        preset("window-regressor", WindowRegressor, ADAMW, &[]),
        // For ETTh1, and with the learning rate of the official recipe for ETTh2.
        preset("dlinear", Dlinear, DLINEAR, &[]),
        preset("dlinear-etth2", Dlinear, Recipe { lr: 5e-2, ..DLINEAR }, &[]),
        // With the reference recipes for ETTh1 and ETTh2.
        preset("tide", Tide, TIDE, &[("temporal_norm", Flag(true))]),
        preset(
            "tide-etth2",
            Tide,
            Recipe { epochs: 40, lr: 9e-4, ..TIDE },
            &[("temporal_norm", Flag(true)), ("dropout", Number(0.2))],
        ),
        preset("tsmixer", Tsmixer, TSMIXER, &[]),
        preset("tsmixer-etth2", Tsmixer, TSMIXER, &[("layers", Count(2)), ("d_ff", Count(64))]),
        preset(
            "cross-asset",
            CrossAsset,
            Recipe { batch: 256, epochs: 40, weight_decay: 0.01, ..ADAMW },
            &[],
        ),
    ];

    /// The preset of this name, in letters of any case.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|preset| preset.name.eq_ignore_ascii_case(name))
    }

    /// The default recipe.
    #[must_use]
    pub const fn auto() -> &'static Self {
        &AUTO
    }

    /// The first preset of a model; the default recipe where a model has none.
    #[must_use]
    pub fn of(model: ModelKind) -> &'static Self {
        Self::ALL.iter().find(|preset| preset.model == Some(model)).unwrap_or(&AUTO)
    }

    /// Whether it is the default recipe.
    #[must_use]
    pub const fn is_auto(&self) -> bool {
        self.model.is_none()
    }

    /// The model that it is of: by the default recipe the one that is trained by steps.
    #[must_use]
    pub const fn kind(&self) -> ModelKind {
        match self.model {
            Some(model) => model,
            None => Patchtst,
        }
    }

    /// Its sizes and options, with 96 rows predicted.
    ///
    /// ```
    /// use landfall_forecast::run::Preset;
    /// let wide = Preset::named("patchtst-wide").expect("a preset");
    /// assert_eq!(wide.config().build()?.parameters().count(), 921_184);
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn config(&self) -> ModelConfig {
        let start = self.kind().config();
        self.options.iter().fold(start, |config, (name, value)| config.with(name, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_differ_from_their_models_in_options_that_these_have() {
        for preset in Preset::ALL {
            let mut config = preset.kind().config();
            for (name, value) in preset.options {
                assert_ne!(config.value(name), Some(*value), "{}: {name} is the default", preset.name);
                assert_eq!(config.set(name, *value), Ok(()), "{}: {name}", preset.name);
            }
            assert_eq!(config, preset.config());
            assert_eq!(config.check(), Ok(()), "{}", preset.name);
            assert_eq!(Preset::named(&preset.name.to_uppercase()), Some(preset));
        }
    }
}
