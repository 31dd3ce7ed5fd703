//! The network over windows of a data set, to be trained further on it.

use super::{LEVELS, Seen, ZeroShot, ZeroShotConfig, scaled};
use crate::models::configuration::{Configuration, Predicts};
use crate::models::option::configuration;
use crate::models::{Model, positive, windows};
use crate::nn::{Context, Parameters};
use landfall::{Error, Graph, Value};

configuration! {
    /// Sizes of a [`ZeroShotForecaster`]; the defaults are those of the weights that are shipped.
    pub struct ZeroShotForecasterConfig;
    sizes {
        /// Rows of history L, no more than the longest context.
        context: usize = 512,
        /// Rows predicted H. Beyond those of a pass the medians become context of the next pass.
        horizon: usize = 96,
        /// Values predicted for each row: 1, the median, or 9, the quantiles 0.1 to 0.9.
        outputs: usize = 1,
    }
    options {
        /// Rows of a patch.
        patch: usize = 8,
        /// Width of the model.
        d_model: usize = 160,
        /// Attention heads.
        heads: usize = 5,
        /// Layers.
        layers: usize = 6,
        /// Rows of the longest context.
        longest_context: usize = 1024,
        /// Rows that are forecast in one pass at most.
        pass: usize = 128,
    }
}

impl ZeroShotForecasterConfig {
    /// The sizes of the network.
    fn network(&self) -> ZeroShotConfig {
        ZeroShotConfig {
            patch: self.patch,
            context: self.longest_context,
            horizon: self.pass,
            width: self.d_model,
            layers: self.layers,
            heads: self.heads,
        }
    }
}

impl Configuration for ZeroShotForecasterConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        positive(self)?;
        self.network().check()?;
        let (levels, Self { context, horizon, longest_context, pass, .. }) = (LEVELS.len(), self);
        if context > longest_context {
            return Err(format!(
                "context is {context}; it must be at most {longest_context}, the longest that the network reads"
            ));
        }
        match self.outputs {
            1 => Ok(()),
            outputs if outputs != levels => Err(format!(
                "outputs is {outputs}; the network has the median alone, or the {levels} quantiles 0.1 to 0.9"
            )),
            _ if horizon > pass => Err(format!(
                "horizon is {horizon}; with quantiles it must be at most {pass}, the rows of one pass"
            )),
            _ => Ok(()),
        }
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(ZeroShotForecaster::new(self.clone())?))
    }
}

/// A [`ZeroShot`] as a model of windows `[B, C, L]`, shared over the columns: `[B, C, H]` medians, or `[B, C, 9·H]` quantiles. All rows of a window are known, and each
/// window has its own scale ([`scaled`]). No gradient goes from a pass into the one before it.
///
/// ```
/// use landfall_train::models::{Model, ZeroShotForecaster, ZeroShotForecasterConfig};
/// let model = ZeroShotForecaster::new(ZeroShotForecasterConfig::default())?;
/// assert_eq!(model.parameters().count(), 1_929_192);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct ZeroShotForecaster {
    config: ZeroShotForecasterConfig,
    network: ZeroShot,
}

impl ZeroShotForecaster {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: ZeroShotForecasterConfig) -> Result<Self, String> {
        config.check()?;
        let network = ZeroShot::new(config.network())?;
        Ok(Self { config, network })
    }

    /// The quantiles `[W, 9, R]` of the next rows of windows `[W, R]`, in their units.
    fn pass(&self, cx: &Context<'_>, [x, known]: [Value; 2], rows: usize) -> Result<Value, Error> {
        let (g, network) = (cx.graph, self.network.config());
        let count = g.shape(x).dims()[0];
        let (queries, levels) = (network.queries(rows), LEVELS.len());
        let scale = scaled(g, x, known)?;
        let seen = Seen { values: scale.context, known, queries };
        let quantiles = self.network.forward(cx, &[seen])?;
        let by_patch = g.reshape(quantiles, [count, queries, levels, network.patch])?;
        let by_level = g.permute(by_patch, &[0, 2, 1, 3])?;
        scale.original(g, g.reshape(by_level, [count, levels, queries * network.patch])?)
    }
}

impl Model for ZeroShotForecaster {
    fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.network.parameters_mut()
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let (batch, columns) = windows(g, x, "zero_shot", c.context)?;
        let count = batch * columns;
        let ones = |rows: usize| g.broadcast_to(g.fill(g.spec(x).dtype, [1, 1], 1.0)?, [count, rows]);
        let before = c.context.next_multiple_of(c.patch) - c.context;
        let mut values = g.pad(g.reshape(x, [count, c.context])?, 1, before, 0)?;
        let mut known = g.pad(ones(c.context)?, 1, before, 0)?;
        let (mut parts, mut done) = (Vec::new(), 0);
        loop {
            let rows = (c.horizon - done).min(c.pass);
            let quantiles = self.pass(cx, [values, known], rows)?;
            let level = if c.outputs == 1 { (LEVELS.len() / 2, 1) } else { (0, LEVELS.len()) };
            let asked = g.slice(g.slice(quantiles, 1, level.0, level.1)?, 2, 0, rows)?;
            parts.push(g.reshape(asked, [batch, columns, c.outputs * rows])?);
            done += rows;
            if done == c.horizon {
                break;
            }
            // More follow: this pass was a whole one.
            let median = g.reshape(g.slice(quantiles, 1, LEVELS.len() / 2, 1)?, [count, rows])?;
            let last = |v: Value, next: Value| {
                let all = g.concat(&[v, next], 1)?;
                let length = g.shape(all).dims()[1];
                let kept = length.min(c.longest_context);
                g.slice(all, 1, length - kept, kept)
            };
            (values, known) = (last(values, g.detach(median))?, last(known, ones(rows)?)?);
        }
        joined(g, &parts)
    }
}

/// The rows of all passes.
fn joined(g: &Graph, parts: &[Value]) -> Result<Value, Error> {
    let all = if let [one] = parts { *one } else { g.concat(parts, 2)? };
    Ok(g.name(all, "prediction"))
}
