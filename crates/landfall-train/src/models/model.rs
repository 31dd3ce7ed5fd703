//! A model that can be trained.

use super::columns::Inputs;
use crate::nn::{Context, Parameters};
use landfall::{Error, Rule, Value};

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
