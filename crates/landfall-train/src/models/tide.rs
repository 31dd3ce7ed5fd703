//! TiDE: a dense encoder and decoder of each column, with covariates along the lookback window and the horizon (Das et al.
//! 2023).

use super::configuration::{Configuration, Predicts, Reads};
use super::mlp::{ResidualBlock, Widths};
use super::option::configuration;
use super::revin::{ColumnAffine, standardise};
use super::{Columns, Inputs, Model};
use crate::nn::{Context, Init, Linear, ParameterId, Parameters};
use landfall::{Error, Value};

configuration! {
    /// Sizes of a TiDE; by default those of the reference recipe for ETTh1, with a temporal decoder that keeps covariates.
    pub struct TideConfig;
    sizes {
        /// Rows of history L.
        context: usize = 720,
        /// Rows predicted H.
        horizon: usize = 96,
        /// The columns of the data.
        columns: Columns = Columns::only(1),
        /// Dropout rate.
        dropout: f64 = 0.5,
        /// Values predicted for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
        /// Width of the encoder's and the decoder's layers.
        d_model: usize = 512,
        /// Layers of the encoder, and of the decoder: one residual block fewer each (the reference implementation's count).
        layers: usize = 2 => [most 4096],
        /// Values that the decoder makes for each predicted row.
        d_decoder: usize = 32,
        /// Hidden width of the temporal decoder.
        d_temporal: usize = 16,
        /// Whether residual blocks end with a layer norm.
        layer_norm: bool = true,
        /// Whether the temporal decoder ends with one too, as in the reference implementation. Of a single value a layer norm
        /// leaves its bias alone: what is forecast is then the linear map of the window, and no covariate takes part.
        temporal_norm: bool = false,
        /// Whether each window and column is normalised before, and the prediction scaled back.
        revin: bool = true,
    }
}

/// Hidden width of the covariates' encoder, and what it makes of the covariates of a row.
const FEATURES: (usize, usize) = (64, 4);
/// Values that stand for a column, learned.
const EMBEDDING: usize = 16;

impl Configuration for TideConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn reads(&self) -> Reads {
        Reads::Together(self.columns)
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)?;
        super::layers_fit(self.layers)?;
        if self.layers < 2 {
            return Err(format!("layers is {}; a TiDE has at least 2", self.layers));
        }
        if self.temporal_norm && self.columns.known > 0 {
            return Err("temporal-norm is true, and of a single value a layer norm leaves no trace of the columns that are \
                        known in advance; set temporal-norm = false"
                .to_owned());
        }
        super::rate(self.dropout)
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(Tide::new(self.clone())?))
    }
}

/// The model. The covariates of each row, known in advance or not, are encoded to a few values; encoder and decoder see a
/// column's window with those of all rows; the temporal decoder sees those of its row once more. A linear map of the window
/// is added to what it makes.
///
/// ```
/// use landfall_train::models::{Columns, Model, Tide, TideConfig};
/// let model = Tide::new(TideConfig {
///     context: 96,
///     horizon: 24,
///     columns: Columns { targets: 2, past: 0, known: 3 },
///     d_model: 32,
///     layers: 2,
///     d_decoder: 4,
///     d_temporal: 16,
///     layer_norm: true,
///     temporal_norm: false,
///     revin: true,
///     dropout: 0.1,
///     outputs: 1,
/// })?;
/// assert!(model.parameters().count() > 96 * 24);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tide {
    config: TideConfig,
    parameters: Parameters,
    affine: Option<ColumnAffine>,
    known: Option<ResidualBlock>,
    past: Option<ResidualBlock>,
    columns: ParameterId,
    encoder: Vec<ResidualBlock>,
    decoder: Vec<ResidualBlock>,
    temporal: ResidualBlock,
    skip: Linear,
}

impl Tide {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: TideConfig) -> Result<Self, String> {
        config.check()?;
        let (context, horizon, c) = (config.context, config.horizon, &config);
        let mut p = Parameters::new();
        let affine = c.revin.then(|| ColumnAffine::new(&mut p, "affine", c.columns.targets));
        let (hidden, outputs) = FEATURES;
        let features = |p: &mut Parameters, name: &str, inputs: usize| {
            (inputs > 0).then(|| {
                ResidualBlock::new(p, name, Widths { inputs, hidden, outputs }, c.layer_norm, c.dropout)
            })
        };
        let known = features(&mut p, "known", c.columns.known);
        let past = features(&mut p, "past", c.columns.past);
        let columns = p.add("columns", [c.columns.targets, EMBEDDING], Init::Uniform(0.05));
        let rows = known.as_ref().map_or(0, |_| context + horizon) + past.as_ref().map_or(0, |_| context);
        let seen = context + rows * outputs + EMBEDDING;
        let block = |p: &mut Parameters, name: String, inputs, outputs| {
            let widths = Widths { inputs, hidden: c.d_model, outputs };
            ResidualBlock::new(p, &name, widths, c.layer_norm, c.dropout)
        };
        let blocks = c.layers - 1;
        let encoder = (0..blocks)
            .map(|i| block(&mut p, format!("encoder.{i}"), if i == 0 { seen } else { c.d_model }, c.d_model))
            .collect();
        let made = c.d_decoder * horizon;
        let decoder = (0..blocks)
            .map(|i| {
                block(
                    &mut p,
                    format!("decoder.{i}"),
                    c.d_model,
                    if i + 1 == blocks { made } else { c.d_model },
                )
            })
            .collect();
        let widths = Widths {
            inputs: c.d_decoder + known.as_ref().map_or(0, |_| outputs),
            hidden: c.d_temporal,
            outputs: c.outputs,
        };
        let temporal = ResidualBlock::new(&mut p, "temporal", widths, c.temporal_norm, c.dropout);
        let width = c.outputs * horizon;
        let skip = Linear::with_init(
            &mut p,
            "skip",
            context,
            width,
            Init::xavier_uniform(context, width),
            Init::Constant(0.0),
        );
        Ok(Self { parameters: p, affine, known, past, columns, encoder, decoder, temporal, skip, config })
    }

    /// Encoded covariates `[B, rows, 4]` of `[B, columns, rows]`.
    fn features(cx: &Context<'_>, block: &ResidualBlock, x: Value) -> Result<Value, Error> {
        block.forward(cx, cx.graph.permute(x, &[0, 2, 1])?)
    }
}

impl Model for Tide {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        self.forecast(cx, &Inputs { x, known: None })
    }

    fn forecast(&self, cx: &Context<'_>, inputs: &Inputs) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let (targets, horizon) = (c.columns.targets, c.horizon);
        let b = c.columns.check(g, inputs, "tide", (c.context, horizon))?;
        let y = g.slice(inputs.x, 1, 0, targets)?;
        let standardised = if c.revin { Some(standardise(g, y)?) } else { None };
        let mut y = standardised.map_or(y, |s| s.x);
        if let Some(affine) = &self.affine {
            y = affine.apply(cx, y)?;
        }
        // What encoder and decoder see: the window, the covariates of its rows and of the horizon's, the column.
        let every = |x: Value| {
            let width = g.shape(x).elements() / b;
            g.broadcast_to(g.reshape(x, [b, 1, width])?, [b, targets, width])
        };
        let mut seen = vec![y];
        if let Some(past) = &self.past {
            let x = g.slice(inputs.x, 1, targets, c.columns.past)?;
            seen.push(every(Self::features(cx, past, x)?)?);
        }
        let mut ahead = None;
        if let (Some(block), Some(known)) = (&self.known, inputs.known) {
            let features = Self::features(cx, block, known)?;
            seen.push(every(features)?);
            let rows = g.slice(features, 1, c.context, horizon)?;
            let rows = g.reshape(rows, [b, 1, horizon, FEATURES.1])?;
            ahead = Some(g.broadcast_to(rows, [b, targets, horizon, FEATURES.1])?);
        }
        let columns = g.reshape(cx.parameter(self.columns)?, [1, targets, EMBEDDING])?;
        seen.push(g.broadcast_to(columns, [b, targets, EMBEDDING])?);
        let mut hidden = g.name(g.concat(&seen, 2)?, "seen");
        for block in self.encoder.iter().chain(&self.decoder) {
            hidden = block.forward(cx, hidden)?;
        }
        let rows = g.reshape(hidden, [b, targets, c.d_decoder, horizon])?;
        let mut rows = g.permute(rows, &[0, 1, 3, 2])?;
        if let Some(ahead) = ahead {
            rows = g.concat(&[rows, ahead], 3)?;
        }
        // `[B, targets, H, Q]`; a prediction has its rows level by level.
        let made = g.permute(self.temporal.forward(cx, rows)?, &[0, 1, 3, 2])?;
        let made = g.reshape(made, [b, targets, c.outputs * horizon])?;
        let mut y = g.add(made, self.skip.forward(cx, y)?)?;
        if let Some(affine) = &self.affine {
            y = affine.undo(cx, y, targets)?;
        }
        let y = match standardised {
            Some(s) => s.restore(g, y)?,
            None => y,
        };
        Ok(g.name(y, "prediction"))
    }
}
