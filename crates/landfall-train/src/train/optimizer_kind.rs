//! Optimizers by name, and what each takes where nothing is asked for.

use serde::{Deserialize, Serialize};

/// Decay rates of Adam's moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Betas {
    /// Of the first moment.
    pub first: f64,
    /// Of the second moment.
    pub second: f64,
}

/// An optimizer by name. One of your own is an [`Optimizer`](super::Optimizer), which [`Trainer::with_optimizer`](super::Trainer::with_optimizer)
/// takes.
///
/// ```
/// use landfall_train::train::{OptimizerKind, TrainingOptions};
/// let kind = OptimizerKind::Lion;
/// let options = TrainingOptions {
///     optimizer: kind,
///     betas: kind.betas(),
///     weight_decay: kind.weight_decay(),
///     lr: 1e-4,
///     ..TrainingOptions::default()
/// };
/// assert_eq!(options.betas.second, 0.99);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OptimizerKind {
    /// [`Adam`](super::Adam); weight decay is added to the gradient.
    Adam,
    /// [`Adam`](super::Adam) with decoupled weight decay, which shrinks the parameters (Loshchilov & Hutter 2019).
    AdamW,
    /// [`Sgd`](super::Sgd); the first of the betas is its momentum.
    Sgd,
    /// [`Lion`](super::Lion).
    Lion,
}

impl OptimizerKind {
    /// Its decay rates, where none are asked for.
    #[must_use]
    pub const fn betas(self) -> Betas {
        match self {
            Self::Adam | Self::AdamW | Self::Sgd => Betas { first: 0.9, second: 0.999 },
            Self::Lion => Betas { first: 0.9, second: 0.99 },
        }
    }

    /// Its weight decay, where none is asked for.
    #[must_use]
    pub const fn weight_decay(self) -> f64 {
        match self {
            Self::Adam | Self::Sgd => 0.0,
            Self::AdamW | Self::Lion => 0.01,
        }
    }
}
