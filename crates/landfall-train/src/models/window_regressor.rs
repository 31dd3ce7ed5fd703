//! The window-regressor: a PatchTST whose predictions of all columns are averaged to one value for a window.

use super::configuration::{Configuration, Predicts, Reads};
use super::option::{Declared, ModelOption, OptionError, OptionValue};
use super::patchtst::Start;
use super::{Approximation, Model, Order, PatchTst, PatchTstConfig};
use crate::nn::{Context, NormKind, Parameters};
use landfall::{Error, Value};

/// Sizes and options of a window-regressor: those of its PatchTST, with a horizon of 1.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowRegressorConfig(pub PatchTstConfig);

impl Default for WindowRegressorConfig {
    fn default() -> Self {
        Self(PatchTstConfig {
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
            revin: false,
            dropout: 0.0,
            ..PatchTstConfig::default()
        })
    }
}

impl Declared for WindowRegressorConfig {
    fn options(&self) -> &'static [ModelOption] {
        self.0.options()
    }

    fn counts(&self) -> Vec<(&'static str, usize)> {
        self.0.counts()
    }

    fn value(&self, name: &str) -> Option<OptionValue> {
        self.0.value(name)
    }

    fn set(&mut self, name: &str, value: OptionValue) -> Result<(), OptionError> {
        self.0.set(name, value)
    }
}

impl Configuration for WindowRegressorConfig {
    fn context(&self) -> usize {
        self.0.context
    }

    fn reads(&self) -> Reads {
        Reads::Labelled
    }

    fn predicts(&self) -> Predicts {
        Predicts::Value
    }

    fn has_batch_norm(&self) -> bool {
        self.0.has_batch_norm()
    }

    fn check(&self) -> Result<(), String> {
        if self.0.horizon != 1 {
            return Err(format!("horizon is {}; a window-regressor predicts one value", self.0.horizon));
        }
        self.0.check()
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(WindowRegressor::new(self.clone())?))
    }
}

/// The model. It starts from Xavier normal weights, zero biases and small positions.
///
/// ```
/// use landfall_train::models::{Model, WindowRegressor, WindowRegressorConfig};
/// let model = WindowRegressor::new(WindowRegressorConfig::default())?;
/// assert_eq!(model.parameters().count(), 101_185);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct WindowRegressor(PatchTst);

impl WindowRegressor {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: WindowRegressorConfig) -> Result<Self, String> {
        config.check()?;
        Ok(Self(PatchTst::starting(config.0, Start::Xavier)?))
    }
}

impl Model for WindowRegressor {
    fn parameters(&self) -> &Parameters {
        self.0.parameters()
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.0.parameters_mut()
    }

    /// `[B, C, L]` → `[B, 1, 1]`, the mean over the columns.
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let rows = self.0.rows(cx, x)?;
        let [b, _, width] = g.shape(rows).dims().try_into().unwrap_or([0; 3]);
        let mean = g.mean(rows, [1])?;
        Ok(g.name(g.reshape(mean, [b, 1, width])?, "prediction"))
    }
}
