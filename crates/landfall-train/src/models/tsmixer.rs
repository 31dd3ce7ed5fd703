//! TSMixer: layers that mix the rows of a window and its columns in turn (Chen et al. 2023).

use super::configuration::{Configuration, Predicts, Reads};
use super::option::configuration;
use super::revin::{ColumnAffine, standardise};
use super::{Columns, Inputs, Model};
use crate::nn::{Context, Dropout, Init, Linear, Norm, NormKind, Parameters};
use landfall::{Error, Value};

configuration! {
    /// Sizes of a TSMixer; by default those of the reference recipe for ETTh1.
    pub struct TsMixerConfig;
    sizes {
        /// Rows of history L.
        context: usize = 512,
        /// Rows predicted H.
        horizon: usize = 96,
        /// The columns of the data.
        columns: Columns = Columns::only(1),
        /// Dropout rate.
        dropout: f64 = 0.9,
        /// Values predicted for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
        /// Mixing layers.
        layers: usize = 6 => [most 4096],
        /// Hidden width of the layers that mix columns.
        d_ff: usize = 512,
        /// Which norm; over all rows and columns of a window together.
        norm: NormKind = NormKind::Batch,
        /// Whether each window and column is normalised before, and the prediction scaled back.
        revin: bool = true,
    }
}

impl Configuration for TsMixerConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn reads(&self) -> Reads {
        Reads::Together(self.columns)
    }

    fn has_batch_norm(&self) -> bool {
        self.norm == NormKind::Batch
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)?;
        super::layers_fit(self.layers)?;
        super::rate(self.dropout)
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(TsMixer::new(self.clone())?))
    }
}

/// Mixes rows, then columns, of `[B, columns, rows]`, each beside a skip connection.
#[derive(Debug, Clone)]
struct Mixer {
    norm_rows: Norm,
    rows: Linear,
    norm_columns: Norm,
    expand: Linear,
    contract: Linear,
    dropout: Dropout,
}

/// A layer with Glorot's uniform initial values and zero bias, as the reference implementation's.
fn dense(p: &mut Parameters, name: &str, inputs: usize, outputs: usize) -> Linear {
    Linear::with_init(p, name, inputs, outputs, Init::xavier_uniform(inputs, outputs), Init::Constant(0.0))
}

impl Mixer {
    fn new(p: &mut Parameters, name: &str, (columns, rows): (usize, usize), c: &TsMixerConfig) -> Self {
        let norm = |p: &mut Parameters, part| Norm::new(p, &format!("{name}.{part}"), c.norm, columns * rows);
        Self {
            norm_rows: norm(p, "norm_rows"),
            rows: dense(p, &format!("{name}.rows"), rows, rows),
            norm_columns: norm(p, "norm_columns"),
            expand: dense(p, &format!("{name}.expand"), columns, c.d_ff),
            contract: dense(p, &format!("{name}.contract"), c.d_ff, columns),
            dropout: Dropout { rate: c.dropout },
        }
    }

    /// `[B, columns, rows]` → the same shape.
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let [b, columns, rows] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
        let normalised = |norm: &Norm, x| {
            let flat = norm.forward(cx, g.reshape(x, [b, columns * rows])?)?;
            g.reshape(flat, [b, columns, rows])
        };
        let mixed = g.relu(self.rows.forward(cx, normalised(&self.norm_rows, x)?)?)?;
        let x = g.add(self.dropout.forward(cx, mixed)?, x)?;
        let by_row = g.permute(normalised(&self.norm_columns, x)?, &[0, 2, 1])?;
        let hidden = self.dropout.forward(cx, g.relu(self.expand.forward(cx, by_row)?)?)?;
        let mixed = self.dropout.forward(cx, self.contract.forward(cx, hidden)?)?;
        g.add(g.permute(mixed, &[0, 2, 1])?, x)
    }
}

/// The model. Without columns known in advance the layers mix the lookback window, and a linear map of its rows predicts.
/// With them it is the paper's extended form: the window is mapped to as many rows as are predicted, the known columns stand
/// beside it, and the layers mix both.
///
/// ```
/// use landfall_train::models::{Columns, Model, TsMixer, TsMixerConfig};
/// use landfall_train::nn::NormKind;
/// let model = TsMixer::new(TsMixerConfig {
///     context: 96,
///     horizon: 24,
///     columns: Columns { targets: 7, past: 0, known: 0 },
///     layers: 2,
///     d_ff: 16,
///     norm: NormKind::Batch,
///     revin: true,
///     dropout: 0.1,
///     outputs: 1,
/// })?;
/// assert!(model.parameters().count() > 2 * 96 * 96);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct TsMixer {
    config: TsMixerConfig,
    parameters: Parameters,
    affine: Option<ColumnAffine>,
    /// The map of the window's rows to those predicted: before the layers with known columns, after them without.
    rows: Linear,
    layers: Vec<Mixer>,
    /// The map of the mixed columns to the targets, with known columns.
    head: Option<Linear>,
}

impl TsMixer {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: TsMixerConfig) -> Result<Self, String> {
        config.check()?;
        let c = &config;
        let (seen, known) = (c.columns.seen(), c.columns.known);
        let mut p = Parameters::new();
        let affine = c.revin.then(|| ColumnAffine::new(&mut p, "affine", seen));
        let (width, rows) = if known > 0 { (seen + 2 * known, c.horizon) } else { (seen, c.context) };
        let mapped = if known > 0 { c.horizon } else { c.outputs * c.horizon };
        let to_horizon = dense(&mut p, "horizon", c.context, mapped);
        let layers =
            (0..c.layers).map(|i| Mixer::new(&mut p, &format!("layers.{i}"), (width, rows), c)).collect();
        let head = (known > 0).then(|| dense(&mut p, "head", width, c.columns.targets * c.outputs));
        Ok(Self { parameters: p, affine, rows: to_horizon, layers, head, config })
    }
}

impl Model for TsMixer {
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
        let b = c.columns.check(g, inputs, "tsmixer", (c.context, horizon))?;
        let x = inputs.x;
        let standardised = if c.revin { Some(standardise(g, x)?) } else { None };
        let mut x = standardised.map_or(x, |s| s.x);
        if let Some(affine) = &self.affine {
            x = affine.apply(cx, x)?;
        }
        if let Some(known) = inputs.known {
            let past = self.rows.forward(cx, g.slice(known, 2, 0, c.context)?)?;
            let ahead = g.slice(known, 2, c.context, horizon)?;
            x = g.concat(&[self.rows.forward(cx, x)?, past, ahead], 1)?;
        }
        for (i, layer) in self.layers.iter().enumerate() {
            x = g.scope(&format!("layers.{i}"), || layer.forward(cx, x))?;
        }
        let mut y = match &self.head {
            Some(head) => {
                let by_row = head.forward(cx, g.permute(x, &[0, 2, 1])?)?;
                let levels = g.reshape(by_row, [b, horizon, targets, c.outputs])?;
                g.reshape(g.permute(levels, &[0, 2, 3, 1])?, [b, targets, c.outputs * horizon])?
            }
            None => self.rows.forward(cx, g.slice(x, 1, 0, targets)?)?,
        };
        if let Some(affine) = &self.affine {
            y = affine.undo(cx, y, targets)?;
        }
        let y = match standardised {
            Some(s) => s.of_first(g, targets)?.restore(g, y)?,
            None => y,
        };
        Ok(g.name(y, "prediction"))
    }
}
