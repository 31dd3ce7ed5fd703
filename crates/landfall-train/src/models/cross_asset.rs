//! CrossAsset: attention across the tokens of a sample (assets, or time scales), one class for each token.

use super::configuration::{Configuration, Predicts, Reads};
use super::option::configuration;
use super::{Layer, Model};
use crate::nn::{Context, Dropout, Init, Linear, Norm, NormKind, ParameterId, Parameters, gelu};
use landfall::{Error, Graph, Rule, Value, ops};

configuration! {
    /// Sizes and options of a CrossAsset; by default for 12 assets of 193 features, in three classes.
    pub struct CrossAssetConfig;
    sizes {
        /// Dropout rate: after the attention's projection, after GELU, and after the feed-forward's second product.
        dropout: f64 = 0.0,
    }
    options {
        /// Tokens of a sample S.
        tokens: usize = 12,
        /// Features of a token F.
        features: usize = 193,
        /// Classes K.
        classes: usize = 3,
        /// Width of the model d.
        d_model: usize = 256,
        /// Attention heads h.
        heads: usize = 4 => [most 4096],
        /// Layers n.
        layers: usize = 2 => [most 4096],
        /// Width of the feed-forward f.
        d_ff: usize = 1024,
    }
}

impl Configuration for CrossAssetConfig {
    fn context(&self) -> usize {
        self.features
    }

    fn reads(&self) -> Reads {
        Reads::Tokens(self.tokens)
    }

    fn predicts(&self) -> Predicts {
        Predicts::Classes(self.classes)
    }

    fn check(&self) -> Result<(), String> {
        super::positive(self)?;
        super::layers_fit(self.layers)?;
        if self.classes < 2 {
            return Err(format!("classes is {}; there must be at least 2 to choose from", self.classes));
        }
        if !self.d_model.is_multiple_of(self.heads) {
            let (d, h) = (self.d_model, self.heads);
            return Err(format!("d_model is {d}, heads is {h}; heads must divide d_model"));
        }
        super::rate(self.dropout)
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(CrossAsset::new(self.clone())?))
    }
}

/// The model: `[B, S, F]` → logits `[B, S, K]`.
///
/// Each token has a projection of its own, `h_s = x_s·W_s + b_s`. In each layer queries and keys have length 1
/// and a learned temperature per head multiplies their cosines ([`ops::CosineAttention`]); then post-norm residuals around
/// attention and around a feed-forward with exact GELU. One linear map of all tokens gives the logits. No positions: a
/// token is known by its projection. Initial values: linear maps and projections uniform in ±1/√fan_in, norms 1 and 0,
/// temperatures 8.
#[derive(Debug, Clone)]
pub struct CrossAsset {
    config: CrossAssetConfig,
    parameters: Parameters,
    weight: ParameterId,
    bias: ParameterId,
    layers: Vec<Layer>,
    /// Of each layer.
    temperatures: Vec<ParameterId>,
    head: Linear,
}

/// What the cosines of queries and keys are multiplied by at first.
const TEMPERATURE: f64 = 8.0;

/// Added to the sums of squares of queries and keys.
const EPS: f64 = 1e-6;

/// Attention of queries and keys of length 1, `[B, S, 3, h, e]` and `[h]` → `[B, S, h, e]`: in one op where it takes as many
/// tokens and features, else in three.
fn cosine_attention(g: &Graph, qkv: Value, temperature: Value) -> Result<Value, Error> {
    let [b, s, _, h, e] = g.shape(qkv).dims().try_into().unwrap_or([0; 5]);
    if ops::CosineAttention::fits(s, e) {
        return Ok(g.op(ops::CosineAttention { eps: EPS }, &[qkv, temperature])?[0]);
    }
    let part = |i: usize| g.reshape(g.slice(qkv, 2, i, 1)?, [b, s, h, e]);
    let temperature = g.broadcast_to(temperature, [b, s, h])?;
    let norm = |scaled| ops::L2Norm { eps: EPS, scaled };
    let q = g.name(g.op1(norm(true), &[part(0)?, temperature])?, "queries");
    let k = g.name(g.op1(norm(false), &[part(1)?])?, "keys");
    let op = ops::Attention { scale: 1.0, previous: false, emit_scores: false };
    Ok(g.op(op, &[q, k, part(2)?])?[0])
}

impl CrossAsset {
    /// A model of this configuration.
    ///
    /// # Errors
    /// A sentence that says which sizes do not fit.
    pub fn new(config: CrossAssetConfig) -> Result<Self, String> {
        config.check()?;
        let (s, features, d) = (config.tokens, config.features, config.d_model);
        let mut p = Parameters::new();
        let weight = p.add("tokens.weight", [s, features, d], Init::fan_in(features));
        // A vector, because vectors do not decay.
        let bias = p.add("tokens.bias", [s * d], Init::fan_in(features));
        let (mut layers, mut temperatures) = (Vec::new(), Vec::new());
        for i in 0..config.layers {
            let name = format!("layers.{i}");
            let attention = format!("{name}.attention");
            let parts = ["q", "k", "v"].map(|part| format!("{attention}.{part}"));
            let qkv = Linear::stacked_unbiased(&mut p, &format!("{attention}.qkv"), &parts, d, d);
            let temperature = format!("{attention}.temperature");
            temperatures.push(p.add(&temperature, [config.heads], Init::Constant(TEMPERATURE)));
            layers.push(Layer {
                qkv,
                out: {
                    let out = format!("{attention}.out");
                    Linear::unbiased(&mut p, &out, d, d)
                },
                norm_attention: Norm::new(&mut p, &format!("{name}.norm_attention"), NormKind::Layer, d),
                expand: Linear::new(&mut p, &format!("{name}.expand"), d, config.d_ff),
                contract: Linear::new(&mut p, &format!("{name}.contract"), config.d_ff, d),
                norm_feed_forward: Norm::new(
                    &mut p,
                    &format!("{name}.norm_feed_forward"),
                    NormKind::Layer,
                    d,
                ),
            });
        }
        let head = Linear::new(&mut p, "head", d, config.classes);
        Ok(Self { config, parameters: p, weight, bias, layers, temperatures, head })
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &CrossAssetConfig {
        &self.config
    }

    /// Each token's own projection, all in one batched product: `[B, S, F]` → `[B, S, d]`.
    fn project(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let by_token = g.matmul(g.permute(x, &[1, 0, 2])?, cx.parameter(self.weight)?)?;
        let bias = g.reshape(cx.parameter(self.bias)?, [c.tokens, c.d_model])?;
        // The sum is written in the order of samples, so that putting tokens second takes no pass of its own.
        Ok(g.name(g.add(g.permute(by_token, &[1, 0, 2])?, bias)?, "projected"))
    }

    /// Attention of one layer: `[B, S, d]` → the same shape.
    fn attention(&self, cx: &Context<'_>, index: usize, x: Value) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let [b, s, d] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
        let (h, e) = (c.heads, c.d_model / c.heads);
        let layer = &self.layers[index];
        let qkv = g.name(layer.qkv.forward(cx, x)?, "qkv");
        let temperature = cx.parameter(self.temperatures[index])?;
        let attended = cosine_attention(g, g.reshape(qkv, [b, s, 3, h, e])?, temperature)?;
        let joined = g.reshape(g.name(attended, "attended"), [b, s, d])?;
        Dropout { rate: c.dropout }.forward(cx, layer.out.forward(cx, joined)?)
    }

    fn feed_forward(&self, cx: &Context<'_>, layer: &Layer, x: Value) -> Result<Value, Error> {
        let dropout = Dropout { rate: self.config.dropout };
        let expanded = cx.graph.name(layer.expand.forward(cx, x)?, "expanded");
        let hidden = dropout.forward(cx, gelu(cx, expanded, ops::Approximation::Erf)?)?;
        dropout.forward(cx, layer.contract.forward(cx, hidden)?)
    }
}

impl Model for CrossAsset {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, c, shape) = (cx.graph, &self.config, cx.graph.shape(x));
        let &[b, ..] = shape.dims() else {
            let rule = Rule::Rank { arg: 0, rank: 0, expected: "3: [batch, tokens, features]" };
            return Err(rule.of("cross_asset", &[g.spec(x)], None, None).into());
        };
        if shape.dims() != [b, c.tokens, c.features] {
            let expected = [b, c.tokens, c.features].into();
            let rule = Rule::ArgShape { arg: 0, shape, expected };
            return Err(rule.of("cross_asset", &[g.spec(x)], None, None).into());
        }
        let mut x = self.project(cx, x)?;
        for (i, layer) in self.layers.iter().enumerate() {
            x = g.scope(&format!("layers.{i}"), || {
                let x = layer.norm_attention.forward(cx, g.add(x, self.attention(cx, i, x)?)?)?;
                layer.norm_feed_forward.forward(cx, g.add(x, self.feed_forward(cx, layer, x)?)?)
            })?;
        }
        Ok(g.name(self.head.forward(cx, x)?, "logits"))
    }
}
