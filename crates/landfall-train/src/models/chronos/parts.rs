//! Layers that both models have.

use crate::nn::{Context, Linear, Parameters, RmsNorm};
use landfall::{Error, Shape, Value, ops};

/// `output(relu(hidden(x))) + residual(x)`, which takes patches to tokens and tokens to quantiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResidualBlock {
    hidden: Linear,
    output: Linear,
    residual: Linear,
}

impl ResidualBlock {
    pub(super) fn new(p: &mut Parameters, name: &str, [inputs, hidden, outputs]: [usize; 3]) -> Self {
        let mut linear =
            |part: &str, inputs, outputs| Linear::new(p, &format!("{name}.{part}_layer"), inputs, outputs);
        Self {
            hidden: linear("hidden", inputs, hidden),
            output: linear("output", hidden, outputs),
            residual: linear("residual", inputs, outputs),
        }
    }

    pub(super) fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let hidden = g.relu(self.hidden.forward(cx, x)?)?;
        g.add(self.output.forward(cx, hidden)?, self.residual.forward(cx, x)?)
    }
}

/// `x + wo(relu(wi(norm(x))))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedForward {
    norm: RmsNorm,
    expand: Linear,
    contract: Linear,
}

impl FeedForward {
    pub(super) fn new(p: &mut Parameters, [name, maps]: [&str; 2], sizes: &Sizes) -> Self {
        let Sizes { width, hidden, eps, .. } = *sizes;
        Self {
            expand: Linear::unbiased(p, &format!("{name}.{maps}.wi"), width, hidden),
            contract: Linear::unbiased(p, &format!("{name}.{maps}.wo"), hidden, width),
            norm: RmsNorm::with_eps(p, &format!("{name}.layer_norm"), width, eps),
        }
    }

    pub(super) fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let expanded = g.relu(self.expand.forward(cx, self.norm.forward(cx, x)?)?)?;
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
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sight {
    /// Base of rotary positions.
    pub(super) rope: Option<f64>,
    /// Which keys, bool, or what is added to the scores, to be broadcast to `[B, h, M, N]`; all if left out.
    pub(super) mask: Option<Value>,
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

    /// Self-attention of tokens `[B, N, D]`: the same shape.
    pub(super) fn forward(&self, cx: &Context<'_>, x: Value, sight: Sight) -> Result<Value, Error> {
        let (g, shape) = (cx.graph, cx.graph.shape(x));
        let [batch, tokens, _] = shape.dims().try_into().unwrap_or([0; 3]);
        let all = self.qkv.forward(cx, self.norm.forward(cx, x)?)?;
        let inner = self.heads * self.features;
        let part = |part: usize| {
            let own = g.slice(all, 2, part * inner, inner)?;
            g.reshape(own, [batch, tokens, self.heads, self.features])
        };
        let (mut q, mut k, v) = (part(0)?, part(1)?, part(2)?);
        if let Some(base) = sight.rope {
            let places = g.arange(landfall::DType::I64, 0.0, 1.0, tokens)?;
            (q, k) = (g.rotary(q, places, base)?, g.rotary(k, places, base)?);
        }
        let attended = attention(cx, [q, k, v], sight.mask)?;
        self.added(cx, x, attended)
    }

    /// Self-attention of a lone token, which sees itself alone: `[.., D]` → the same shape.
    pub(super) fn alone(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, inner) = (cx.graph, self.heads * self.features);
        let weight = g.slice(cx.parameter(self.qkv.weight())?, 0, 2 * inner, inner)?;
        let value = g.matmul(self.norm.forward(cx, x)?, g.transpose(weight)?)?;
        g.add(x, self.out.forward(cx, value)?)
    }

    fn added(&self, cx: &Context<'_>, x: Value, attended: Value) -> Result<Value, Error> {
        let (g, shape) = (cx.graph, cx.graph.shape(x));
        let inner = self.heads * self.features;
        let merged = g.reshape(attended, shape.with(shape.rank() - 1, inner))?;
        g.add(x, self.out.forward(cx, merged)?)
    }
}

/// `softmax(q·kᵀ (+ mask))·v` of `[B, M, h, e]` and `[B, N, h, e]`.
fn attention(cx: &Context<'_>, [q, k, v]: [Value; 3], mask: Option<Value>) -> Result<Value, Error> {
    let g = cx.graph;
    let Some(mask) = mask else {
        let op = ops::Attention { scale: 1.0, previous: false, emit_scores: false };
        return Ok(g.op(op, &[q, k, v])?[0]);
    };
    let ([batch, queries, heads, _], keys) =
        (g.shape(q).dims().try_into().unwrap_or([0; 4]), g.shape(k).dims()[1]);
    let mask = g.broadcast_to(mask, Shape::from([batch, heads, queries, keys]))?;
    let op = ops::MaskedAttention { scale: 1.0, causal: false, mask: true, lengths: false };
    Ok(g.op(op, &[q, k, v, mask])?[0])
}
