//! PatchTST: a transformer over patches of each channel on its own (Nie et al. 2023).

use super::configuration::{Configuration, Predicts};
use super::option::{configuration, option_choices};
use super::{Layer, Model};
use crate::nn::{Context, Dropout, Init, Linear, Norm, NormKind, ParameterId, Parameters, gelu};
use landfall::{Error, Value, ops};

/// Where the norm stands in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `norm(x + f(x))`.
    Post,
    /// `x + f(norm(x))`, no final norm.
    Pre,
}

/// Which form of GELU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approximation {
    /// `x · Φ(x)`.
    Erf,
    /// `½x(1 + tanh(√(2/π)(x + 0.044715x³)))`.
    Tanh,
}

/// Where dropout stands in training; the parameters are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DropoutMasks {
    /// The official implementation's: after the embedding, twice in series after the attention's projection, after
    /// GELU, and after the feed-forward's second product.
    #[default]
    Official,
    /// Once on each branch and once within the feed-forward, as in most transformers: after the attention's
    /// projection, after GELU, and after the feed-forward's second product.
    Branches,
}

configuration! {
    /// Sizes and options of a PatchTST; by default the paper's for ETTh1 and ETTh2, with 336 rows of history and 96 rows
    /// predicted.
    pub struct PatchTstConfig;
    sizes {
        /// Rows of history L.
        context: usize = 336,
        /// Rows predicted H.
        horizon: usize = 96,
        /// Dropout rate.
        dropout: f64 = 0.3,
        /// Values that the head predicts for each row: 1, or one for each quantile.
        outputs: usize = 1,
    }
    options {
        /// Rows of a patch P.
        patch: usize = 16,
        /// Rows between patches S.
        stride: usize = 8,
        /// Width of the model d.
        d_model: usize = 16,
        /// Attention heads h.
        heads: usize = 4 => [most 4096],
        /// Encoder layers n.
        layers: usize = 3 => [most 4096],
        /// Width of the feed-forward f.
        d_ff: usize = 128,
        /// Which norm.
        norm: NormKind = NormKind::Batch,
        /// Where it stands.
        order: Order = Order::Post,
        /// Whether a layer's attention scores are added to the running sum of the earlier layers'.
        residual_attention: bool = true,
        /// Which form of GELU.
        gelu: Approximation = Approximation::Erf,
        /// Whether the end is padded with `stride` copies of the last value.
        padding: bool = true,
        /// Whether rows that fill no whole patch are left out at the start of the window, as Hugging Face's PatchTST does,
        /// instead of at its end.
        drop_first_rows: bool = false => [omitted true],
        /// Whether each window and column is normalised before, and the prediction scaled back.
        revin: bool = true,
        /// Where dropout stands.
        dropout_masks: DropoutMasks = DropoutMasks::Official,
    }
}

option_choices! { NormKind { Batch = "batch", Layer = "layer" } }
option_choices! { Order { Post = "post", Pre = "pre" } }
option_choices! { Approximation { Erf = "erf", Tanh = "tanh" } }
option_choices! { DropoutMasks { Official = "official", Branches = "branches" } }

impl PatchTstConfig {
    /// Number of patches N: ⌊(L − P)/S⌋ + 1, and one more with padding.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn patches(&self) -> Result<usize, String> {
        super::positive(self)?;
        super::layers_fit(self.layers)?;
        if self.patch > self.context {
            return Err(format!(
                "context ({1}) must be at least the patch length ({0}); raise the context or set the patch",
                self.patch, self.context
            ));
        }
        if !self.d_model.is_multiple_of(self.heads) {
            return Err(format!(
                "d_model is {}, heads is {}; heads must divide d_model",
                self.d_model, self.heads
            ));
        }
        if self.padding && self.drop_first_rows {
            return Err("padding and drop_first_rows are both true; a padded window ends with its last patch, so leave \
                        one of them out"
                .to_owned());
        }
        super::rate(self.dropout)?;
        Ok((self.context - self.patch) / self.stride + 1 + usize::from(self.padding))
    }

    /// Rows that fill no whole patch, of a window without padding: (L − P) mod S.
    #[must_use]
    pub const fn rows_left_out(&self) -> usize {
        self.context.saturating_sub(self.patch) % self.stride
    }
}

/// The model, with the official implementation's parameter names.
#[derive(Debug, Clone)]
pub struct PatchTst {
    config: PatchTstConfig,
    patches: usize,
    parameters: Parameters,
    embed: Linear,
    positions: ParameterId,
    layers: Vec<Layer>,
    head: Linear,
}

impl PatchTst {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: PatchTstConfig) -> Result<Self, String> {
        Self::starting(config, Start::Official)
    }

    /// The same with other initial values.
    pub(super) fn starting(config: PatchTstConfig, start: Start) -> Result<Self, String> {
        let patches = config.patches()?;
        let (d, f) = (config.d_model, config.d_ff);
        let mut p = Parameters::new();
        let xavier = start == Start::Xavier;
        let linear = |p: &mut Parameters, name: &str, i: usize, o: usize| {
            if xavier {
                Linear::with_init(p, name, i, o, Init::xavier_normal(i, o), Init::Constant(0.0))
            } else {
                Linear::new(p, name, i, o)
            }
        };
        let embed = linear(&mut p, "model.backbone.W_P", config.patch, d);
        let positions =
            if xavier { Init::Normal((2.0 / d as f64).sqrt() * 0.02) } else { Init::Uniform(0.02) };
        let positions = p.add("model.backbone.W_pos", [patches, d], positions);
        let mut layers = Vec::with_capacity(config.layers);
        for i in 0..config.layers {
            let name = format!("model.backbone.encoder.layers.{i}");
            let attention = format!("{name}.self_attn");
            let parts: Vec<String> =
                ["W_Q", "W_K", "W_V"].iter().map(|w| format!("{attention}.{w}")).collect();
            let (weight, bias) = if xavier {
                (Init::xavier_normal(d, d), Init::Constant(0.0))
            } else {
                (Init::fan_in(d), Init::fan_in(d))
            };
            let qkv = Linear::stacked(&mut p, &format!("{attention}.W_QKV"), &parts, d, d, weight, bias);
            p.add_constant(&format!("{attention}.sdp_attn.scale"), (config.head_size() as f64).powf(-0.5));
            // The official batch norm sits between two transpositions, as number 1 of a sequence.
            let norm = if config.norm == NormKind::Batch { ".1" } else { "" };
            layers.push(Layer {
                qkv,
                out: linear(&mut p, &format!("{attention}.to_out.0"), d, d),
                norm_attention: Norm::new(&mut p, &format!("{name}.norm_attn{norm}"), config.norm, d),
                expand: linear(&mut p, &format!("{name}.ff.0"), d, f),
                contract: linear(&mut p, &format!("{name}.ff.3"), f, d),
                norm_feed_forward: Norm::new(&mut p, &format!("{name}.norm_ffn{norm}"), config.norm, d),
            });
        }
        let head = linear(&mut p, "model.head.linear", d * patches, config.outputs * config.horizon);
        Ok(Self { config, patches, parameters: p, embed, positions, layers, head })
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &PatchTstConfig {
        &self.config
    }

    /// Attention of one layer: `[R, N, d]` → `[R, N, d]`, and the running sum of scores for the next layer.
    fn attention(
        &self,
        cx: &Context<'_>,
        layer: &Layer,
        x: Value,
        previous: Option<Value>,
        last: bool,
    ) -> Result<(Value, Option<Value>), Error> {
        let (g, c) = (cx.graph, &self.config);
        let [rows, n, d] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
        let (h, e) = (c.heads, c.head_size());
        let qkv = g.name(layer.qkv.forward(cx, x)?, "qkv");
        let part = |i: usize| {
            let third = g.slice(qkv, 2, i * d, d)?;
            g.reshape(third, [rows, n, h, e])
        };
        let mut inputs = vec![part(0)?, part(1)?, part(2)?];
        inputs.extend(previous);
        let emit_scores = c.residual_attention && !last;
        let op = ops::Attention { scale: (e as f64).powf(-0.5), previous: previous.is_some(), emit_scores };
        let outputs = g.op(op, &inputs)?;
        let scores = emit_scores.then(|| g.name(outputs[2], "scores"));
        let joined = g.reshape(g.name(outputs[0], "attended"), [rows, n, d])?;
        let projected = g.name(layer.out.forward(cx, joined)?, "projected");
        let dropout = Dropout { rate: c.dropout };
        let mut dropped = dropout.forward(cx, projected)?;
        if c.dropout_masks == DropoutMasks::Official {
            // The official module drops after the projection, and its caller drops again on the residual branch.
            dropped = dropout.forward(cx, dropped)?;
        }
        Ok((dropped, scores))
    }

    fn feed_forward(&self, cx: &Context<'_>, layer: &Layer, x: Value) -> Result<Value, Error> {
        let dropout = Dropout { rate: self.config.dropout };
        let approximation = match self.config.gelu {
            Approximation::Erf => ops::Approximation::Erf,
            Approximation::Tanh => ops::Approximation::Tanh,
        };
        let expanded = cx.graph.name(layer.expand.forward(cx, x)?, "expanded");
        let hidden = cx.graph.name(gelu(cx, expanded, approximation)?, "gelu");
        let contracted = layer.contract.forward(cx, dropout.forward(cx, hidden)?)?;
        dropout.forward(cx, cx.graph.name(contracted, "contracted"))
    }

    /// Patches of normalised windows `[B, C, L]` → hidden `[B·C, N, d]`.
    fn encode(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let [b, channels, rows] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
        let left_out = c.rows_left_out();
        let x = if c.padding {
            g.op1(ops::PadEdge { after: c.stride }, &[x])?
        } else if c.drop_first_rows && left_out > 0 {
            g.slice(x, 2, left_out, rows - left_out)?
        } else {
            x
        };
        let patches = g.unfold(x, c.patch, c.stride)?;
        let embedded = g.name(self.embed.forward(cx, patches)?, "embedded");
        let embedded = g.reshape(embedded, [b * channels, self.patches, c.d_model])?;
        let placed = g.add(embedded, cx.parameter(self.positions)?)?;
        let mut x = match c.dropout_masks {
            DropoutMasks::Official => Dropout { rate: c.dropout }.forward(cx, placed)?,
            DropoutMasks::Branches => placed,
        };
        let mut scores = None;
        for (i, layer) in self.layers.iter().enumerate() {
            let last = i + 1 == self.layers.len();
            (x, scores) = g.scope(&format!("layers.{i}"), || {
                let attended = |x| self.attention(cx, layer, x, scores, last);
                Ok::<_, Error>(match c.order {
                    Order::Post => {
                        let (a, s) = attended(x)?;
                        let x = layer.norm_attention.forward(cx, g.add(x, a)?)?;
                        let f = self.feed_forward(cx, layer, x)?;
                        (layer.norm_feed_forward.forward(cx, g.add(x, f)?)?, s)
                    }
                    Order::Pre => {
                        let (a, s) = attended(layer.norm_attention.forward(cx, x)?)?;
                        let x = g.add(x, a)?;
                        let f = self.feed_forward(cx, layer, layer.norm_feed_forward.forward(cx, x)?)?;
                        (g.add(x, f)?, s)
                    }
                })
            })?;
        }
        Ok(x)
    }
}

/// Which initial values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Those of the official implementation.
    Official,
    /// Xavier normal weights, zero biases and small positions.
    Xavier,
}

impl Configuration for PatchTstConfig {
    fn context(&self) -> usize {
        self.context
    }

    fn predicts(&self) -> Predicts {
        Predicts::Rows(self.horizon)
    }

    fn has_batch_norm(&self) -> bool {
        self.norm == NormKind::Batch
    }

    fn check(&self) -> Result<(), String> {
        self.patches().map(|_| ())
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(PatchTst::new(self.clone())?))
    }
}

impl PatchTstConfig {
    fn head_size(&self) -> usize {
        self.d_model / self.heads
    }
}

impl Model for PatchTst {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        Ok(cx.graph.name(self.rows(cx, x)?, "prediction"))
    }
}

impl PatchTst {
    /// The predicted rows of each column, `[B, C, L]` → `[B, C, Q·H]`.
    pub(super) fn rows(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let (b, channels) = super::windows(g, x, "patchtst", c.context)?;
        let standardised = if c.revin { Some(super::revin::standardise(g, x)?) } else { None };
        let hidden = self.encode(cx, standardised.map_or(x, |s| s.x))?;
        // The official head flattens [d, N]; its weight in the order of [N, d] is a far smaller copy than the hidden values'.
        let width = c.outputs * c.horizon;
        let weight = g.reshape(cx.parameter(self.head.weight())?, [width, c.d_model, self.patches])?;
        let weight = g.reshape(g.permute(weight, &[0, 2, 1])?, [width, self.patches * c.d_model])?;
        let flat = g.reshape(hidden, [b * channels, self.patches * c.d_model])?;
        let y = self.head.forward_with(cx, flat, weight)?;
        let y = g.reshape(y, [b, channels, width])?;
        match standardised {
            Some(s) => s.restore(g, y),
            None => Ok(y),
        }
    }
}
