//! Attention with its projections.

use super::context::Context;
use super::layers::Linear;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{DType, Error, Rule, Value, Visible};
use std::panic::Location;

/// Sizes of a [`MultiHeadAttention`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// Features D of a token, in and out.
    pub features: usize,
    /// Heads h of the queries; each has `e = D/h` features.
    pub heads: usize,
    /// Heads g of keys and values, each read by h/g heads of the queries: h as in Vaswani et al. (2017), 1 as in multi-query
    /// attention, between them as in Ainslie et al. (2023).
    pub key_heads: usize,
    /// Base of rotary positions ([`Graph::rotary`](landfall::Graph::rotary)), commonly 10,000, if queries and keys are turned by
    /// their places: keys count from 0, the last query is at the last key.
    pub rotary: Option<f64>,
}

/// `y = concat_i(softmax(q_i·k_iᵀ/√e)·v_i) · Oᵀ + o` over the heads i, with `q = x·Qᵀ + a`, `k = z·Kᵀ + b`, `v = z·Vᵀ + c` and z the
/// context, which is x in self-attention. [`Visible`] says which keys a query sees ([`Graph::attend`](landfall::Graph::attend)).
///
/// Q, K and V lie behind one another in `in_proj_weight` `[(h + 2g)·e, D]`, their biases in `in_proj_bias`; O is
/// `out_proj.weight` `[D, D]`, its bias `out_proj.bias`. Where g is h these are the names and shapes of PyTorch's
/// `MultiheadAttention`.
///
/// ```
/// use landfall::{DType, Graph, Visible};
/// use landfall_train::nn::{AttentionConfig, Context, Mode, MultiHeadAttention, Parameters};
/// let mut p = Parameters::new();
/// let config = AttentionConfig { features: 64, heads: 4, key_heads: 2, rotary: Some(1e4) };
/// let attention = MultiHeadAttention::new(&mut p, "attention", config);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 32, 64]);
/// let y = attention.forward(&cx, x, Visible { causal: true, ..Visible::default() })?;
/// assert_eq!(g.shape(y).dims(), [8, 32, 64]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct MultiHeadAttention {
    config: AttentionConfig,
    weight: ParameterId,
    bias: ParameterId,
    out: Linear,
}

impl MultiHeadAttention {
    /// A layer with the parameters above under `name.`: in-projections uniform in ±√(6/(rows + columns)), the out-projection in
    /// ±1/√D, biases 0.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, config: AttentionConfig) -> Self {
        let AttentionConfig { features, heads, key_heads, .. } = config;
        // Sizes that do not fit are refused by the forward pass.
        let rows = (heads + 2 * key_heads) * (features / heads.max(1));
        let init = Init::xavier_uniform(features, rows);
        let weight = p.add(&format!("{name}.in_proj_weight"), [rows, features], init);
        let bias = p.add(&format!("{name}.in_proj_bias"), [rows], Init::Constant(0.0));
        let (out, zero) = (Init::fan_in(features), Init::Constant(0.0));
        let out = Linear::with_init(p, &format!("{name}.out_proj"), features, features, out, zero);
        Self { config, weight, bias, out }
    }

    /// Self-attention, `[B, N, D]` → the same shape.
    ///
    /// # Errors
    /// `x` must have three axes, the last of D; h must divide D and g divide h; rotary positions take an even D/h; what
    /// [`Graph::attend`](landfall::Graph::attend) refuses.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value, visible: Visible) -> Result<Value, Error> {
        self.forward_over(cx, x, x, visible)
    }

    /// Cross attention of `x` `[B, M, D]` over the keys and values of a context `[B, N, D]`: `[B, M, D]`.
    ///
    /// # Errors
    /// As of [`MultiHeadAttention::forward`], of both.
    #[track_caller]
    pub fn forward_over(
        &self,
        cx: &Context<'_>,
        x: Value,
        context: Value,
        visible: Visible,
    ) -> Result<Value, Error> {
        let g = cx.graph;
        let AttentionConfig { features, heads: h, key_heads: k, rotary } = self.config;
        let (specs, at) = ([g.spec(x), g.spec(context)], Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("multi_head_attention", &specs, None, Some(at)));
        for (arg, spec) in specs.iter().enumerate() {
            if spec.shape.rank() != 3 {
                let expected = "3: [batch, tokens, features]";
                return Err(refused(Rule::Rank { arg, rank: spec.shape.rank(), expected }));
            }
        }
        for (name, value, of, expected) in [
            ("heads", h, features, "a divisor of the features"),
            ("key_heads", k, h, "a divisor of the heads"),
        ] {
            if value == 0 || of % value != 0 {
                return Err(refused(Rule::Attribute { name, value: value as f64, expected }));
            }
        }
        let part = |x, from, heads| g.slice(x, 2, from, heads);
        let (mut q, mut key, v) = if x == context {
            // One product for all three.
            let all = self.project(cx, x, 0, h + 2 * k)?;
            (part(all, 0, h)?, part(all, h, k)?, part(all, h + k, k)?)
        } else {
            let both = self.project(cx, context, h, 2 * k)?;
            (self.project(cx, x, 0, h)?, part(both, 0, k)?, part(both, k, k)?)
        };
        if let Some(base) = rotary {
            let (queries, keys) = (specs[0].shape.dims()[1], specs[1].shape.dims()[1]);
            let first = keys as f64 - queries as f64;
            q = g.rotary(q, g.arange(DType::I64, first, 1.0, queries)?, base)?;
            key = g.rotary(key, g.arange(DType::I64, 0.0, 1.0, keys)?, base)?;
        }
        let merged = g.reshape(g.attend(q, key, v, visible)?, specs[0].shape)?;
        self.out.forward(cx, merged)
    }

    /// `[B, N, heads, e]` of `[B, N, D]`, by the rows of these heads from `from` on.
    #[track_caller]
    fn project(&self, cx: &Context<'_>, x: Value, from: usize, heads: usize) -> Result<Value, Error> {
        let (g, e) = (cx.graph, self.config.features / self.config.heads);
        let rows = |id| g.slice(cx.parameter(id)?, 0, from * e, heads * e);
        let projected = g.matmul_add(x, g.transpose(rows(self.weight)?)?, rows(self.bias)?)?;
        let [batch, tokens] = [0, 1].map(|axis| g.shape(x).dims()[axis]);
        g.reshape(projected, [batch, tokens, heads, e])
    }
}
