//! NLinear: one linear map of a window whose last value is subtracted first (Zeng et al. 2023).

use super::configuration::{Configuration, Predicts};
use super::option::configuration;
use super::{Model, windows};
use crate::nn::{Context, Linear, Parameters};
use landfall::{Error, Value};

configuration! {
    /// Sizes of an NLinear.
    pub struct NLinearConfig;
    sizes {
        /// Rows of history L.
        context: usize = 336,
        /// Rows predicted H.
        horizon: usize = 96,
        /// Values predicted for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
    }
}

impl Configuration for NLinearConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(NLinear::new(self.clone())?))
    }
}

/// The model, with the official implementation's parameter names.
///
/// With `l = x[L − 1]`: `y = W·(x − l) + b + l`, shared over the channels. The level of a window passes through unchanged,
/// so a series whose level drifts away from the training rows' is forecast as well as before.
///
/// ```
/// use landfall_train::models::{Model, NLinear, NLinearConfig};
/// let model = NLinear::new(NLinearConfig { context: 96, horizon: 24, outputs: 1 })?;
/// assert_eq!(model.parameters().count(), 96 * 24 + 24);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct NLinear {
    config: NLinearConfig,
    parameters: Parameters,
    linear: Linear,
}

impl NLinear {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which size is 0.
    pub fn new(config: NLinearConfig) -> Result<Self, String> {
        config.check()?;
        let mut p = Parameters::new();
        let linear = Linear::new(&mut p, "Linear", config.context, config.outputs * config.horizon);
        Ok(Self { config, parameters: p, linear })
    }
}

impl Model for NLinear {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, context) = (cx.graph, self.config.context);
        windows(g, x, "nlinear", context)?;
        let last = g.name(g.slice(x, 2, context - 1, 1)?, "last value");
        let change = self.linear.forward(cx, g.sub(x, last)?)?;
        Ok(g.name(g.add(change, last)?, "prediction"))
    }
}
