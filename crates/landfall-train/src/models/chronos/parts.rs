//! Layers that both models have.

use super::activation::Activation;
use crate::nn::{Context, Linear, Parameters, RmsNorm};
use landfall::{DType, Error, Graph, Shape, Value, ops};

/// `output(f(hidden(x))) + residual(x)`, which takes patches to tokens and tokens to quantiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResidualBlock {
    hidden: Linear,
    output: Linear,
    residual: Linear,
    activation: Activation,
}

impl ResidualBlock {
    pub(super) fn new(
        p: &mut Parameters,
        name: &str,
        [inputs, hidden, outputs]: [usize; 3],
        activation: Activation,
    ) -> Self {
        let mut linear =
            |part: &str, inputs, outputs| Linear::new(p, &format!("{name}.{part}_layer"), inputs, outputs);
        Self {
            hidden: linear("hidden", inputs, hidden),
            output: linear("output", hidden, outputs),
            residual: linear("residual", inputs, outputs),
            activation,
        }
    }

    pub(super) fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let hidden = self.activation.forward(cx, self.hidden.forward(cx, x)?)?;
        cx.graph.add(self.output.forward(cx, hidden)?, self.residual.forward(cx, x)?)
    }
}

/// `x + wo(f(wi(norm(x))))`; gated `x + wo(f(wi_0(norm(x))) · wi_1(norm(x)))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedForward {
    norm: RmsNorm,
    /// Gated, what is activated and what it is multiplied by, one behind the other.
    expand: Linear,
    contract: Linear,
    activation: Activation,
    gated: bool,
}

impl FeedForward {
    pub(super) fn new(p: &mut Parameters, [name, maps]: [&str; 2], sizes: &Sizes) -> Self {
        let Sizes { width, hidden, eps, activation, gated, .. } = *sizes;
        let wi = format!("{name}.{maps}.wi");
        let parts = if gated { vec![format!("{wi}_0"), format!("{wi}_1")] } else { vec![wi.clone()] };
        Self {
            expand: Linear::stacked_unbiased(p, &wi, &parts, width, hidden),
            contract: Linear::unbiased(p, &format!("{name}.{maps}.wo"), hidden, width),
            norm: RmsNorm::with_eps(p, &format!("{name}.layer_norm"), width, eps),
            activation,
            gated,
        }
    }

    pub(super) fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let mut expanded = self.expand.forward(cx, self.norm.forward(cx, x)?)?;
        if self.gated {
            let (axis, hidden) = (g.shape(expanded).rank() - 1, g.shape(expanded).last() / 2);
            let part = |from| g.slice(expanded, axis, from, hidden);
            expanded = g.mul(self.activation.forward(cx, part(0)?)?, part(hidden)?)?;
        } else {
            expanded = self.activation.forward(cx, expanded)?;
        }
        g.add(x, self.contract.forward(cx, expanded)?)
    }
}

/// What layers agree on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) width: usize,
    pub(super) features: usize,
    pub(super) heads: usize,
    pub(super) hidden: usize,
    pub(super) eps: f64,
    pub(super) activation: Activation,
    pub(super) gated: bool,
}

/// T5's attention behind a norm, and the residual: products without scale and bias.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attention {
    norm: RmsNorm,
    /// Queries, keys and values, one behind the other.
    qkv: Linear,
    out: Linear,
    heads: usize,
    features: usize,
}

/// What a query sees.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sight {
    /// All keys.
    All,
    /// Those that are true, bool, to be broadcast to `[B, h, M, N]`.
    Keys(Value),
    /// All keys, with this added to the scores, to be broadcast likewise.
    Biased(Value),
}

impl Attention {
    pub(super) fn new(p: &mut Parameters, [name, maps]: [&str; 2], sizes: &Sizes) -> Self {
        let Sizes { width, features, heads, eps, .. } = *sizes;
        let inner = heads * features;
        let parts = ["q", "k", "v"].map(|part| format!("{name}.{maps}.{part}"));
        let qkv = Linear::stacked_unbiased(p, &format!("{name}.{maps}.qkv"), &parts, width, inner);
        let out = Linear::unbiased(p, &format!("{name}.{maps}.o"), inner, width);
        let norm = RmsNorm::with_eps(p, &format!("{name}.layer_norm"), width, eps);
        Self { norm, qkv, out, heads, features }
    }

    /// Self-attention of tokens `[B, N, D]`, with rotary positions of this base where one is given: the same shape.
    pub(super) fn forward(
        &self,
        cx: &Context<'_>,
        x: Value,
        rope: Option<f64>,
        sight: Sight,
    ) -> Result<Value, Error> {
        let (g, shape) = (cx.graph, cx.graph.shape(x));
        let [batch, tokens, _] = shape.dims().try_into().unwrap_or([0; 3]);
        let all = self.qkv.forward(cx, self.norm.forward(cx, x)?)?;
        let inner = self.heads * self.features;
        let part = |part: usize| {
            let own = g.slice(all, 2, part * inner, inner)?;
            g.reshape(own, [batch, tokens, self.heads, self.features])
        };
        let (mut q, mut k, v) = (part(0)?, part(1)?, part(2)?);
        if let Some(base) = rope {
            let places = g.arange(DType::I64, 0.0, 1.0, tokens)?;
            (q, k) = (g.rotary(q, places, base)?, g.rotary(k, places, base)?);
        }
        let attended = attention(g, [q, k, v], sight)?;
        added(cx, x, attended, self.out)
    }

    /// Self-attention of a lone token, which sees itself alone: `[.., D]` → the same shape.
    pub(super) fn alone(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, inner) = (cx.graph, self.heads * self.features);
        let weight = g.slice(cx.parameter(self.qkv.weight())?, 0, 2 * inner, inner)?;
        let value = g.matmul(self.norm.forward(cx, x)?, g.transpose(weight)?)?;
        g.add(x, self.out.forward(cx, value)?)
    }
}

/// Attention of a token to those of the encoder behind a norm, and the residual: products without scale and bias.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrossAttention {
    norm: RmsNorm,
    query: Linear,
    /// Keys and values, one behind the other.
    kv: Linear,
    out: Linear,
    heads: usize,
    features: usize,
}

impl CrossAttention {
    pub(super) fn new(p: &mut Parameters, [name, maps]: [&str; 2], sizes: &Sizes) -> Self {
        let Sizes { width, features, heads, eps, .. } = *sizes;
        let inner = heads * features;
        let parts = ["k", "v"].map(|part| format!("{name}.{maps}.{part}"));
        let query = Linear::unbiased(p, &format!("{name}.{maps}.q"), width, inner);
        let kv = Linear::stacked_unbiased(p, &format!("{name}.{maps}.kv"), &parts, width, inner);
        let out = Linear::unbiased(p, &format!("{name}.{maps}.o"), inner, width);
        let norm = RmsNorm::with_eps(p, &format!("{name}.layer_norm"), width, eps);
        Self { norm, query, kv, out, heads, features }
    }

    /// Attention of tokens `[B, M, D]` to `[B, N, D]`: the shape of the first.
    pub(super) fn forward(
        &self,
        cx: &Context<'_>,
        x: Value,
        seen: Value,
        sight: Sight,
    ) -> Result<Value, Error> {
        let g = cx.graph;
        let [batch, tokens, _] = g.shape(seen).dims().try_into().unwrap_or([0; 3]);
        let inner = self.heads * self.features;
        let q = self.query.forward(cx, self.norm.forward(cx, x)?)?;
        let q = g.reshape(q, [batch, g.shape(x).dims()[1], self.heads, self.features])?;
        let both = self.kv.forward(cx, seen)?;
        let part = |part: usize| {
            let own = g.slice(both, 2, part * inner, inner)?;
            g.reshape(own, [batch, tokens, self.heads, self.features])
        };
        let attended = attention(g, [q, part(0)?, part(1)?], sight)?;
        added(cx, x, attended, self.out)
    }
}

/// `x + out(attended)`, the heads one behind the other.
fn added(cx: &Context<'_>, x: Value, attended: Value, out: Linear) -> Result<Value, Error> {
    let (g, shape) = (cx.graph, cx.graph.shape(x));
    let heads: usize = g.shape(attended).dims()[2..].iter().product();
    let merged = g.reshape(attended, shape.with(shape.rank() - 1, heads))?;
    g.add(x, out.forward(cx, merged)?)
}

/// `softmax(q·kᵀ (+ bias))·v` of `[B, M, h, e]` and `[B, N, h, e]`, with a bias M = N.
fn attention(g: &Graph, [q, k, v]: [Value; 3], sight: Sight) -> Result<Value, Error> {
    let ([batch, queries, heads, _], keys) =
        (g.shape(q).dims().try_into().unwrap_or([0; 4]), g.shape(k).dims()[1]);
    let wide = |v: Value| g.broadcast_to(v, Shape::from([batch, heads, queries, keys]));
    let whole = |previous| ops::Attention { scale: 1.0, previous, emit_scores: false };
    let masked = |mask| ops::MaskedAttention { scale: 1.0, causal: false, mask, lengths: false };
    let all = match sight {
        Sight::All if queries == keys => g.op(whole(false), &[q, k, v])?,
        Sight::All => g.op(masked(false), &[q, k, v])?,
        // Added to the scores it is for tensor cores, too: a step of fine-tuning on 2,048 rows took five times as long.
        Sight::Keys(mask) if queries == keys => g.op(whole(true), &[q, k, v, wide(hiding(g, mask, q)?)?])?,
        Sight::Keys(mask) => g.op(masked(true), &[q, k, v, wide(mask)?])?,
        Sight::Biased(bias) => g.op(whole(true), &[q, k, v, wide(bias)?])?,
    };
    Ok(all[0])
}

/// What is added to the score of a token that nobody sees: its weight is 0 in every dtype. Not infinite: a query that sees none has numbers, too.
const HIDDEN: f64 = -3e4;

/// What hides keys where a mask is false, in the dtype of `like`.
pub(super) fn hiding(g: &Graph, mask: Value, like: Value) -> Result<Value, Error> {
    g.select(mask, g.scalar(like, 0.0)?, g.scalar(like, HIDDEN)?)
}

/// Which of so many tokens something is known of, bool `[B, N]`: the first are patches of `known` `[B, R]`, the others always count.
pub(super) fn there(g: &Graph, known: Value, patch: usize, tokens: usize) -> Result<Value, Error> {
    let [batch, rows] = g.shape(known).dims().try_into().unwrap_or([0; 2]);
    let past = rows / patch;
    let most = g.max(g.reshape(known, [batch, past, patch])?, 2)?;
    let there = g.greater(most, g.scalar(most, 0.0)?)?;
    if tokens == past {
        return Ok(there);
    }
    let rest = g.broadcast_to(g.fill(DType::Bool, [1, 1], 1.0)?, [batch, tokens - past])?;
    g.concat(&[there, rest], 1)
}
