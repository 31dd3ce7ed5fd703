//! Models: a constructor that names the parameters, and a forward pass.

mod columns;
mod cross_asset;
mod dlinear;
mod mlp;
mod nlinear;
mod patchtst;
mod presets;
mod regression;
mod revin;
mod tide;
mod tsmixer;

pub use columns::{Columns, Inputs};
pub use cross_asset::{CrossAsset, CrossAssetConfig};
pub use dlinear::{DLinear, DLinearConfig};
pub use nlinear::{NLinear, NLinearConfig};
pub use patchtst::{Approximation, DropoutMasks, Order, PatchTst, PatchTstConfig, Task};
pub use presets::{Preset, Recipe};
pub use tide::{Tide, TideConfig};
pub use tsmixer::{TsMixer, TsMixerConfig};

use crate::nn::{Context, Linear, Norm, NormKind, Parameters};
use landfall::{Error, Graph, Rule, Value};
use serde::{Deserialize, Serialize};

/// A model that the trainer can train.
///
/// ```
/// use landfall::{Error, Value};
/// use landfall_train::models::Model;
/// use landfall_train::nn::{Context, Linear, Parameters};
///
/// /// One linear map from the context to the horizon, the same for every channel.
/// struct Map {
///     parameters: Parameters,
///     map: Linear,
/// }
///
/// impl Model for Map {
///     fn parameters(&self) -> &Parameters {
///         &self.parameters
///     }
///     fn parameters_mut(&mut self) -> &mut Parameters {
///         &mut self.parameters
///     }
///     fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
///         self.map.forward(cx, x)
///     }
/// }
///
/// let mut parameters = Parameters::new();
/// let map = Linear::new(&mut parameters, "map", 96, 24);
/// let model = Map { parameters, map }; // `Session::new` takes it in a box
/// assert_eq!(model.parameters().list().len(), 2);
/// ```
pub trait Model: Send + Sync {
    /// Its parameters and buffers.
    fn parameters(&self) -> &Parameters;
    /// Its parameters, for freezing.
    fn parameters_mut(&mut self) -> &mut Parameters;
    /// Adds the forward pass: `[B, C, L]` → `[B, C, H]`, or `[B, C, Q·H]`, quantile by quantile, for a loss over Q
    /// quantiles; of samples with classes, `[B, S, F]` → logits `[B, S, K]`.
    ///
    /// # Errors
    /// A shape that does not fit the model, with the caller's line.
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error>;

    /// The same with columns known in advance. A model that reads none needs no definition of its own.
    ///
    /// # Errors
    /// As [`Model::forward`]; columns known in advance, for a model that reads none.
    fn forecast(&self, cx: &Context<'_>, inputs: &Inputs) -> Result<Value, Error> {
        match inputs.known {
            None => self.forward(cx, inputs.x),
            Some(known) => {
                let takes = "1: this model reads no columns known in advance".to_owned();
                let args = [cx.graph.spec(inputs.x), cx.graph.spec(known)];
                Err(Rule::Arity { takes, got: 2 }.of("forecast", &args, None, None).into())
            }
        }
    }
}

/// The configuration of one of this crate's models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelConfig {
    /// A [`PatchTst`].
    Patchtst(PatchTstConfig),
    /// A [`DLinear`].
    Dlinear(DLinearConfig),
    /// An [`NLinear`].
    Nlinear(NLinearConfig),
    /// A [`Tide`].
    Tide(TideConfig),
    /// A [`TsMixer`].
    Tsmixer(TsMixerConfig),
    /// A [`CrossAsset`].
    CrossAsset(CrossAssetConfig),
}

impl ModelConfig {
    /// Rows of history, or features of a token.
    #[must_use]
    pub const fn context(&self) -> usize {
        match self {
            Self::Patchtst(c) => c.context,
            Self::Dlinear(c) => c.context,
            Self::Nlinear(c) => c.context,
            Self::Tide(c) => c.context,
            Self::Tsmixer(c) => c.context,
            Self::CrossAsset(c) => c.features,
        }
    }

    /// Rows predicted, or classes.
    #[must_use]
    pub const fn horizon(&self) -> usize {
        match self {
            Self::Patchtst(c) => c.horizon,
            Self::Dlinear(c) => c.horizon,
            Self::Nlinear(c) => c.horizon,
            Self::Tide(c) => c.horizon,
            Self::Tsmixer(c) => c.horizon,
            Self::CrossAsset(c) => c.classes,
        }
    }

    /// A PatchTST's configuration, if it is one.
    #[must_use]
    pub fn patchtst(self) -> Option<PatchTstConfig> {
        match self {
            Self::Patchtst(c) => Some(c),
            Self::Dlinear(_) | Self::Nlinear(_) | Self::Tide(_) | Self::Tsmixer(_) | Self::CrossAsset(_) => {
                None
            }
        }
    }

    /// Whether it has batch norms.
    ///
    /// ```
    /// use landfall_train::models::Preset;
    /// assert!(Preset::PatchTst42.config().has_batch_norm() && !Preset::DLinear.config().has_batch_norm());
    /// ```
    #[must_use]
    pub fn has_batch_norm(&self) -> bool {
        match self {
            Self::Patchtst(c) => c.norm == NormKind::Batch,
            Self::Tsmixer(c) => c.norm == NormKind::Batch,
            Self::Dlinear(_) | Self::Nlinear(_) | Self::Tide(_) | Self::CrossAsset(_) => false,
        }
    }

    /// Dropout rate, of a model that drops.
    #[must_use]
    pub const fn dropout(&self) -> Option<f64> {
        match self {
            Self::Patchtst(c) => Some(c.dropout),
            Self::Tide(c) => Some(c.dropout),
            Self::Tsmixer(c) => Some(c.dropout),
            Self::CrossAsset(c) => Some(c.dropout),
            Self::Dlinear(_) | Self::Nlinear(_) => None,
        }
    }

    /// Tokens of a sample, of a model that reads samples.
    #[must_use]
    pub const fn tokens(&self) -> Option<usize> {
        match self {
            Self::CrossAsset(c) => Some(c.tokens),
            Self::Patchtst(_) | Self::Dlinear(_) | Self::Nlinear(_) | Self::Tide(_) | Self::Tsmixer(_) => {
                None
            }
        }
    }

    /// What it predicts.
    #[must_use]
    pub const fn task(&self) -> Task {
        match self {
            Self::Patchtst(c) => c.task,
            Self::Dlinear(_) | Self::Nlinear(_) | Self::Tide(_) | Self::Tsmixer(_) => Task::Forecast,
            Self::CrossAsset(_) => Task::Classify,
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
            Self::Nlinear(c) => c.check(),
            Self::Tide(c) => c.check(),
            Self::Tsmixer(c) => c.check(),
            Self::CrossAsset(c) => c.check(),
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
            Self::Nlinear(c) => Box::new(NLinear::new(c.clone())?),
            Self::Tide(c) => Box::new(Tide::new(c.clone())?),
            Self::Tsmixer(c) => Box::new(TsMixer::new(c.clone())?),
            Self::CrossAsset(c) => Box::new(CrossAsset::new(c.clone())?),
        })
    }

    /// The same sizes for data of these columns, where they depend on them.
    #[must_use]
    pub fn with_columns(self, columns: Columns) -> Self {
        match self {
            Self::Tide(c) => Self::Tide(TideConfig { columns, ..c }),
            Self::Tsmixer(c) => Self::Tsmixer(TsMixerConfig { columns, ..c }),
            Self::Patchtst(_) | Self::Dlinear(_) | Self::Nlinear(_) | Self::CrossAsset(_) => self,
        }
    }

    /// The same sizes with so many rows predicted; of a model that classifies nothing changes.
    #[must_use]
    pub fn with_horizon(self, horizon: usize) -> Self {
        match self {
            Self::Patchtst(c) => Self::Patchtst(PatchTstConfig { horizon, ..c }),
            Self::Dlinear(c) => Self::Dlinear(DLinearConfig { horizon, ..c }),
            Self::Nlinear(c) => Self::Nlinear(NLinearConfig { horizon, ..c }),
            Self::Tide(c) => Self::Tide(TideConfig { horizon, ..c }),
            Self::Tsmixer(c) => Self::Tsmixer(TsMixerConfig { horizon, ..c }),
            Self::CrossAsset(c) => Self::CrossAsset(c),
        }
    }

    /// The model for data of these columns. TiDE and TSMixer read covariates themselves; around a forecaster of single columns
    /// stands a regression on them.
    ///
    /// # Errors
    /// As [`ModelConfig::check`]; covariates for a model that forecasts no columns, or other columns than a model was sized
    /// for.
    pub fn build_for(&self, columns: &Columns) -> Result<Box<dyn Model>, String> {
        let outputs = match self {
            Self::Patchtst(c) => c.outputs,
            Self::Dlinear(c) => c.outputs,
            Self::Nlinear(c) => c.outputs,
            Self::Tide(TideConfig { columns: own, .. })
            | Self::Tsmixer(TsMixerConfig { columns: own, .. }) => {
                if own != columns {
                    return Err(format!("the model is sized for {own:?}, and the data has {columns:?}"));
                }
                return self.build();
            }
            Self::CrossAsset(_) => return self.build(),
        };
        let inner = self.build()?;
        if !columns.covariates() {
            return Ok(inner);
        }
        if self.task() != Task::Forecast {
            return Err("a window-regressor has no covariates; leave them out".to_owned());
        }
        let sizes = (self.context(), self.horizon(), outputs);
        Ok(Box::new(regression::WithCovariates::new(inner, *columns, sizes)))
    }
}

/// The most layers of a network. A training step of PatchTST has 39 instructions for each, so that this is 390,000 of
/// them, each with memory of the host for its names, operands and place.
pub const MOST_LAYERS: usize = 10_000;

/// Refuses more layers than [`MOST_LAYERS`], before anything is made for each of them.
fn layers_fit(layers: usize) -> Result<(), String> {
    if layers > MOST_LAYERS {
        return Err(format!("layers is {layers}; it must be at most {MOST_LAYERS}"));
    }
    Ok(())
}

/// Refuses a dropout rate outside of [0, 1).
fn rate(dropout: f64) -> Result<(), String> {
    if (0.0..1.0).contains(&dropout) {
        Ok(())
    } else {
        Err(format!("dropout is {dropout}; it must be in [0, 1)"))
    }
}

/// Refuses a size that is 0.
fn positive(named: &[(&str, usize)]) -> Result<(), String> {
    match named.iter().find(|(_, size)| *size == 0) {
        Some((name, _)) => Err(format!("{name} is 0; it must be at least 1")),
        None => Ok(()),
    }
}

/// Batch size and channels of the windows `[B, C, context]` that a model is given.
///
/// # Errors
/// Another shape.
fn windows(g: &Graph, x: Value, model: &'static str, context: usize) -> Result<(usize, usize), Error> {
    let shape = g.shape(x);
    let rule = match *shape.dims() {
        [batch, channels, length] if length == context => return Ok((batch, channels)),
        [batch, channels, _] => Rule::ArgShape { arg: 0, shape, expected: [batch, channels, context].into() },
        _ => Rule::Rank { arg: 0, rank: shape.rank(), expected: "3: [batch, channels, context]" },
    };
    Err(rule.of(model, &[g.spec(x)], None, None).into())
}

/// What every layer of attention and feed-forward has.
#[derive(Debug, Clone)]
struct Layer {
    qkv: Linear,
    out: Linear,
    norm_attention: Norm,
    expand: Linear,
    contract: Linear,
    norm_feed_forward: Norm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_layers_than_a_step_holds_are_refused() {
        assert_eq!(layers_fit(MOST_LAYERS), Ok(()));
        let refused = Err("layers is 1000000000; it must be at most 10000".to_owned());
        assert_eq!(layers_fit(1_000_000_000), refused);
    }
}
