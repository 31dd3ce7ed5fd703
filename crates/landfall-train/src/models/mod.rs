//! Models: a constructor that names the parameters, and a forward pass.

mod columns;
mod cross_asset;
mod dlinear;
mod list;
mod mlp;
mod nbeats;
mod nlinear;
mod option;
mod patchtst;
mod regression;
mod revin;
mod tide;
mod tsmixer;
mod window_regressor;
pub mod zero_shot;

pub use columns::{Columns, Inputs};
pub use cross_asset::{CrossAsset, CrossAssetConfig};
pub use dlinear::{DLinear, DLinearConfig};
pub use list::{Configuration, ModelConfig, ModelKind, Predicts, Reads};
pub use nbeats::{NBeats, NBeatsConfig};
pub use nlinear::{NLinear, NLinearConfig};
pub use option::{Declared, ModelOption, OptionError, OptionKind, OptionType, OptionValue};
pub use patchtst::{Approximation, DropoutMasks, Order, PatchTst, PatchTstConfig};
pub use tide::{Tide, TideConfig};
pub use tsmixer::{TsMixer, TsMixerConfig};
pub use window_regressor::{WindowRegressor, WindowRegressorConfig};

use crate::nn::{Context, Linear, Norm, Parameters};
use landfall::{Error, Graph, Rule, Value};

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

/// Refuses a size or a number of things that is 0.
fn positive(config: &impl Declared) -> Result<(), String> {
    match config.counts().iter().find(|(_, size)| *size == 0) {
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
