//! Models: a constructor that names the parameters, and a forward pass.

mod dlinear;
mod patchtst;
mod presets;

pub use dlinear::{DLinear, DLinearConfig};
pub use patchtst::{Approximation, DropoutMasks, Order, PatchTst, PatchTstConfig, Task};
pub use presets::{Preset, Recipe};

use crate::nn::{Context, Parameters};
use landfall::{Error, Value};
use serde::{Deserialize, Serialize};

/// A model that the trainer can train.
pub trait Model: Send + Sync {
    /// Its parameters and buffers.
    fn parameters(&self) -> &Parameters;
    /// Its parameters, for freezing.
    fn parameters_mut(&mut self) -> &mut Parameters;
    /// Adds the forward pass: `[B, C, L]` → `[B, C, H]`, or `[B, C, Q·H]`, quantile by quantile, for a loss over Q
    /// quantiles.
    ///
    /// # Errors
    /// A shape that does not fit the model, with the caller's line.
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error>;
}

/// The configuration of one of this crate's models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelConfig {
    /// A [`PatchTst`].
    Patchtst(PatchTstConfig),
    /// A [`DLinear`].
    Dlinear(DLinearConfig),
}

impl ModelConfig {
    /// Rows of history.
    #[must_use]
    pub const fn context(&self) -> usize {
        match self {
            Self::Patchtst(c) => c.context,
            Self::Dlinear(c) => c.context,
        }
    }

    /// Rows predicted.
    #[must_use]
    pub const fn horizon(&self) -> usize {
        match self {
            Self::Patchtst(c) => c.horizon,
            Self::Dlinear(c) => c.horizon,
        }
    }

    /// A PatchTST's configuration, if it is one.
    #[must_use]
    pub fn patchtst(self) -> Option<PatchTstConfig> {
        match self {
            Self::Patchtst(c) => Some(c),
            Self::Dlinear(_) => None,
        }
    }

    /// What it predicts.
    #[must_use]
    pub const fn task(&self) -> Task {
        match self {
            Self::Patchtst(c) => c.task,
            Self::Dlinear(_) => Task::Forecast,
        }
    }

    /// Checks that the sizes fit together.
    ///
    /// # Errors
    /// A sentence that says which do not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Patchtst(c) => c.patches().map(|_| ()),
            Self::Dlinear(c) => c.check(),
        }
    }

    /// The model.
    ///
    /// # Errors
    /// As [`ModelConfig::check`].
    pub fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(match self {
            Self::Patchtst(c) => Box::new(PatchTst::new(c.clone())?),
            Self::Dlinear(c) => Box::new(DLinear::new(c.clone())?),
        })
    }
}
