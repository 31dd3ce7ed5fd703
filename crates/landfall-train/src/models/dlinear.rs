//! DLinear: one linear map of a window's trend and one of what is left (Zeng et al. 2023).

use super::configuration::{Configuration, Predicts};
use super::option::configuration;
use super::{Model, windows};
use crate::nn::{Context, Linear, Parameters};
use landfall::{Error, Value, ops};

configuration! {
    /// Sizes of a DLinear; by default those of the paper for ETTh1.
    pub struct DLinearConfig;
    sizes {
        /// Rows of history L.
        context: usize = 336,
        /// Rows predicted H.
        horizon: usize = 96,
        /// Values predicted for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
        /// Rows of the moving average that is the trend; odd.
        kernel: usize = 25,
    }
}

impl Configuration for DLinearConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)?;
        if self.kernel.is_multiple_of(2) {
            return Err(format!("kernel is {}; it must be odd, to have a middle row", self.kernel));
        }
        Ok(())
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(DLinear::new(self.clone())?))
    }
}

/// The model, with the official implementation's parameter names.
///
/// With `trend` the moving average over `kernel` rows (the ends repeated) and `rest = x − trend`:
/// `y = W_s·rest + b_s + W_t·trend + b_t`, shared over the channels. Initial values: uniform in ±1/√L.
///
/// ```
/// use landfall_train::models::{DLinear, DLinearConfig, Model};
/// let model = DLinear::new(DLinearConfig { context: 96, horizon: 24, kernel: 25, outputs: 1 })?;
/// assert_eq!(model.parameters().count(), 2 * (96 * 24 + 24));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct DLinear {
    config: DLinearConfig,
    parameters: Parameters,
    seasonal: Linear,
    trend: Linear,
}

impl DLinear {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: DLinearConfig) -> Result<Self, String> {
        config.check()?;
        let mut p = Parameters::new();
        let outputs = config.outputs * config.horizon;
        let seasonal = Linear::new(&mut p, "Linear_Seasonal", config.context, outputs);
        let trend = Linear::new(&mut p, "Linear_Trend", config.context, outputs);
        Ok(Self { config, parameters: p, seasonal, trend })
    }
}

impl Model for DLinear {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, context) = (cx.graph, self.config.context);
        let (b, channels) = windows(g, x, "dlinear", context)?;
        let side = self.config.kernel / 2;
        let padded = if side == 0 {
            x
        } else {
            let first = g.broadcast_to(g.slice(x, 2, 0, 1)?, [b, channels, side])?;
            g.op1(ops::PadEdge { after: side }, &[g.op1(ops::Concat { axis: 2 }, &[first, x])?])?
        };
        let trend = g.name(g.mean(g.unfold(padded, self.config.kernel, 1)?, [3])?, "trend");
        let rest = self.seasonal.forward(cx, g.sub(x, trend)?)?;
        Ok(g.name(g.add(rest, self.trend.forward(cx, trend)?)?, "prediction"))
    }
}
