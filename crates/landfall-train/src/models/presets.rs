//! Presets: named sizes with the recipe that goes with them.

use super::patchtst::{Approximation, DropoutMasks, Order, PatchTstConfig, Task};
use super::{Columns, CrossAssetConfig, DLinearConfig, ModelConfig, TideConfig, TsMixerConfig};
use crate::nn::NormKind;
use crate::train::{Draws, OptimizerKind, Schedule, TrainingOptions};
use serde::{Deserialize, Serialize};

/// How a preset is trained unless told otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl PatchTstConfig {
    /// The paper's model for ETTh1 and ETTh2, with 336 rows of history and 96 rows predicted.
    #[must_use]
    pub const fn paper() -> Self {
        Self {
            context: 336,
            horizon: 96,
            patch: 16,
            stride: 8,
            d_model: 16,
            heads: 4,
            layers: 3,
            d_ff: 128,
            norm: NormKind::Batch,
            order: Order::Post,
            residual_attention: true,
            gelu: Approximation::Erf,
            padding: true,
            drop_first_rows: false,
            revin: true,
            dropout: 0.3,
            dropout_masks: DropoutMasks::Official,
            outputs: 1,
            task: Task::Forecast,
        }
    }
}

/// The presets of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// The default recipe: sizes and number of steps from the data, and a choice among networks and baselines by
    /// validation.
    Auto,
    /// The paper's model for ETTh1 and ETTh2 with 336 rows of history.
    PatchTst42,
    /// The same with 512 rows.
    PatchTst64,
    /// The paper's model for ETTm, weather, electricity and traffic.
    PatchTstWide,
    /// A large model for speed.
    PatchTstDeep,
    /// One value for a window of 24 rows.
    WindowRegressor,
    /// DLinear with the official recipe for ETTh1.
    DLinear,
    /// The same with the learning rate of the official recipe for ETTh2.
    DLinearEtth2,
    /// TiDE with the reference recipe for ETTh1.
    Tide,
    /// The same with the one for ETTh2.
    TideEtth2,
    /// TSMixer with the reference recipe for ETTh1.
    TsMixer,
    /// The same with the one for ETTh2.
    TsMixerEtth2,
    /// Attention across 12 assets of 193 features, in three classes.
    CrossAsset,
}

impl Preset {
    /// Every preset.
    pub const ALL: &'static [Self] = &[
        Self::Auto,
        Self::PatchTst42,
        Self::PatchTst64,
        Self::PatchTstWide,
        Self::PatchTstDeep,
        Self::WindowRegressor,
        Self::DLinear,
        Self::DLinearEtth2,
        Self::Tide,
        Self::TideEtth2,
        Self::TsMixer,
        Self::TsMixerEtth2,
        Self::CrossAsset,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::PatchTst42 => "patchtst-42",
            Self::PatchTst64 => "patchtst-64",
            Self::PatchTstWide => "patchtst-wide",
            Self::PatchTstDeep => "patchtst-deep",
            Self::WindowRegressor => "window-regressor",
            Self::DLinear => "dlinear",
            Self::DLinearEtth2 => "dlinear-etth2",
            Self::Tide => "tide",
            Self::TideEtth2 => "tide-etth2",
            Self::TsMixer => "tsmixer",
            Self::TsMixerEtth2 => "tsmixer-etth2",
            Self::CrossAsset => "cross-asset",
        }
    }

    /// The preset of this name, in letters of any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|p| p.name().eq_ignore_ascii_case(name))
    }

    /// Its sizes and options, with 96 rows predicted.
    #[must_use]
    pub fn config(self) -> ModelConfig {
        let paper = PatchTstConfig::paper();
        ModelConfig::Patchtst(match self {
            Self::DLinear | Self::DLinearEtth2 => {
                return ModelConfig::Dlinear(DLinearConfig {
                    context: 336,
                    horizon: 96,
                    kernel: 25,
                    outputs: 1,
                });
            }
            Self::CrossAsset => {
                return ModelConfig::CrossAsset(CrossAssetConfig {
                    tokens: 12,
                    features: 193,
                    classes: 3,
                    d_model: 256,
                    heads: 4,
                    layers: 2,
                    d_ff: 1024,
                    dropout: 0.0,
                });
            }
            Self::Tide | Self::TideEtth2 => {
                return ModelConfig::Tide(TideConfig {
                    context: 720,
                    horizon: 96,
                    columns: Columns::only(1),
                    d_model: 512,
                    layers: 2,
                    d_decoder: 32,
                    d_temporal: 16,
                    layer_norm: true,
                    temporal_norm: true,
                    revin: true,
                    dropout: if self == Self::Tide { 0.5 } else { 0.2 },
                    outputs: 1,
                });
            }
            Self::TsMixer | Self::TsMixerEtth2 => {
                let (layers, d_ff) = if self == Self::TsMixer { (6, 512) } else { (2, 64) };
                return ModelConfig::Tsmixer(TsMixerConfig {
                    context: 512,
                    horizon: 96,
                    columns: Columns::only(1),
                    layers,
                    d_ff,
                    norm: NormKind::Batch,
                    revin: true,
                    dropout: 0.9,
                    outputs: 1,
                });
            }
            Self::Auto | Self::PatchTst42 => paper,
            Self::PatchTst64 => PatchTstConfig { context: 512, ..paper },
            Self::PatchTstWide => {
                PatchTstConfig { d_model: 128, heads: 16, d_ff: 256, dropout: 0.2, ..paper }
            }
            Self::PatchTstDeep => PatchTstConfig {
                context: 512,
                d_model: 512,
                heads: 8,
                layers: 6,
                d_ff: 2048,
                norm: NormKind::Layer,
                residual_attention: false,
                dropout: 0.0,
                ..paper
            },
            Self::WindowRegressor => PatchTstConfig {
                context: 24,
                horizon: 1,
                patch: 8,
                stride: 4,
                d_model: 64,
                heads: 4,
                layers: 2,
                d_ff: 256,
                norm: NormKind::Layer,
                order: Order::Pre,
                residual_attention: false,
                gelu: Approximation::Tanh,
                padding: false,
                drop_first_rows: false,
                revin: false,
                dropout: 0.0,
                dropout_masks: DropoutMasks::Official,
                outputs: 1,
                task: Task::Regress,
            },
        })
    }

    /// Its recipe.
    #[must_use]
    pub fn recipe(self) -> Recipe {
        let official = Recipe {
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
        // The program that its figures come from: the same seed gives the same run.
        let dlinear = Recipe {
            batch: 32,
            epochs: 10,
            lr: 5e-3,
            schedule: Schedule::Halving,
            patience: Some(3),
            draws: Draws::PyTorch,
            ..official.clone()
        };
        match self {
            // Rate and schedule hold from a hundred windows to millions; steps and batch follow the data.
            Self::Auto => Recipe { lr: 1e-3, schedule: Schedule::OneCycle, patience: Some(5), ..official },
            Self::DLinear => dlinear,
            Self::DLinearEtth2 => Recipe { lr: 5e-2, ..dlinear },
            // The reference code trains on a batch of one window, by a half cosine, at 9.8e-4 and 2.24e-4. Of a batch of 32 Adam's
            // rate is up to √32 times that (Malladi et al. 2022, "On the SDEs and scaling rules for adaptive gradient algorithms").
            Self::Tide => {
                Recipe { batch: 32, epochs: 20, lr: 5.5e-3, schedule: Schedule::Cosine, ..official }
            }
            Self::TideEtth2 => {
                Recipe { batch: 32, epochs: 40, lr: 9e-4, schedule: Schedule::Cosine, ..official }
            }
            Self::TsMixer | Self::TsMixerEtth2 => {
                Recipe { batch: 32, schedule: Schedule::Constant, patience: Some(5), ..official }
            }
            Self::PatchTst42 | Self::PatchTst64 => official,
            Self::PatchTstWide | Self::PatchTstDeep => Recipe { batch: 32, ..official },
            Self::CrossAsset => Recipe {
                batch: 256,
                epochs: 40,
                lr: 1e-3,
                schedule: Schedule::Constant,
                optimizer: OptimizerKind::AdamW,
                weight_decay: 0.01,
                clip: Some(1.0),
                patience: None,
                draws: Draws::Philox,
            },
            Self::WindowRegressor => Recipe {
                batch: 64,
                epochs: 10,
                lr: 1e-3,
                schedule: Schedule::Constant,
                optimizer: OptimizerKind::AdamW,
                weight_decay: 0.0,
                clip: Some(1.0),
                patience: None,
                draws: Draws::Philox,
            },
        }
    }
}
