//! N-BEATS: dense blocks in a row, each of which forecasts a part and takes what it explains from the window (Oreshkin et al.
//! 2020).

use super::configuration::{Configuration, Predicts};
use super::option::configuration;
use super::{Model, windows};
use crate::nn::{Context, Dropout, Linear, Parameters};
use landfall::{Error, Value};

configuration! {
    /// Sizes of an N-BEATS in its generic form.
    pub struct NBeatsConfig;
    sizes {
        /// Rows of history L.
        context: usize = 96,
        /// Rows predicted H.
        horizon: usize = 24,
        /// Dropout rate, behind each hidden layer.
        dropout: f64 = 0.0,
        /// Values predicted for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
        /// Blocks in a row.
        blocks: usize = 6 => [most 4096],
        /// Hidden layers of a block.
        layers: usize = 4 => [most 4096],
        /// Width of the hidden layers.
        d_ff: usize = 128,
        /// Whether each window and column is normalised before, and the prediction scaled back.
        revin: bool = true,
    }
}

impl Configuration for NBeatsConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)?;
        super::layers_fit(self.blocks.saturating_mul(self.layers))?;
        super::rate(self.dropout)
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(NBeats::new(self.clone())?))
    }
}

#[derive(Debug, Clone)]
struct Block {
    hidden: Vec<Linear>,
    /// What the block explains of the window; the last block has no successor that would read the rest.
    backcast: Option<Linear>,
    forecast: Linear,
}

/// The model, shared over the columns. With `x₀` the window and `hᵢ` the hidden layers (linear, ReLU) of block i:
/// `y = Σᵢ Fᵢ·hᵢ(xᵢ)` and `xᵢ₊₁ = xᵢ − Bᵢ·hᵢ(xᵢ)`. Initial values: uniform in ±1/√fan_in.
///
/// ```
/// use landfall_train::models::{Model, NBeats, NBeatsConfig};
/// let small = NBeatsConfig { context: 24, horizon: 6, blocks: 2, layers: 1, d_ff: 8, ..NBeatsConfig::default() };
/// let (hidden, backcast, forecast) = (8 * 24 + 8, 24 * 8 + 24, 6 * 8 + 6);
/// assert_eq!(NBeats::new(small)?.parameters().count(), 2 * (hidden + forecast) + backcast);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct NBeats {
    config: NBeatsConfig,
    parameters: Parameters,
    blocks: Vec<Block>,
}

impl NBeats {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: NBeatsConfig) -> Result<Self, String> {
        config.check()?;
        let (context, width) = (config.context, config.d_ff);
        let mut p = Parameters::new();
        let mut blocks = Vec::with_capacity(config.blocks);
        for i in 0..config.blocks {
            let mut hidden = Vec::with_capacity(config.layers);
            for layer in 0..config.layers {
                let inputs = if layer == 0 { context } else { width };
                hidden.push(Linear::new(&mut p, &format!("blocks.{i}.hidden.{layer}"), inputs, width));
            }
            let followed = i + 1 < config.blocks;
            let backcast =
                followed.then(|| Linear::new(&mut p, &format!("blocks.{i}.backcast"), width, context));
            let rows = config.outputs * config.horizon;
            let forecast = Linear::new(&mut p, &format!("blocks.{i}.forecast"), width, rows);
            blocks.push(Block { hidden, backcast, forecast });
        }
        Ok(Self { config, parameters: p, blocks })
    }
}

impl Model for NBeats {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        windows(g, x, "nbeats", c.context)?;
        let standardised = if c.revin { Some(super::revin::standardise(g, x)?) } else { None };
        let mut rest = standardised.map_or(x, |s| s.x);
        let mut sum = None;
        for (i, block) in self.blocks.iter().enumerate() {
            let (forecast, backcast) = g.scope(&format!("blocks.{i}"), || {
                let mut hidden = rest;
                for layer in &block.hidden {
                    hidden = g.relu(layer.forward(cx, hidden)?)?;
                    hidden = Dropout { rate: c.dropout }.forward(cx, hidden)?;
                }
                let backcast = block.backcast.as_ref().map(|map| map.forward(cx, hidden)).transpose()?;
                Ok::<_, Error>((block.forecast.forward(cx, hidden)?, backcast))
            })?;
            sum = Some(match sum {
                Some(sum) => g.add(sum, forecast)?,
                None => forecast,
            });
            if let Some(backcast) = backcast {
                rest = g.sub(rest, backcast)?;
            }
        }
        // There is at least one block.
        let y = sum.unwrap_or(rest);
        let y = match standardised {
            Some(s) => s.restore(g, y)?,
            None => y,
        };
        Ok(g.name(y, "prediction"))
    }
}
