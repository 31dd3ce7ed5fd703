//! A feed-forward layer as a mixture of experts.

use super::context::Context;
use super::layers::gelu;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::ops::{self, Approximation, GroupedMatMul, Index, Permute, RouteMap, TopK, Unpermute};
use landfall::{DType, Error, Rule, Shape, Value};

/// Sizes of a [`MoeFeedForward`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoeConfig {
    /// Experts E.
    pub experts: usize,
    /// Experts k of each token.
    pub chosen: usize,
    /// Features D of a token, in and out.
    pub features: usize,
    /// Features F between an expert's two maps.
    pub hidden: usize,
    /// Rows for all experts together. What goes beyond is dropped: its token's result is that of its other experts. `None`
    /// has room for every pair.
    pub capacity: Option<usize>,
    /// Each expert's rows start at a multiple of this; tensor cores take tiles of rows.
    pub align: usize,
    /// Factor of the load-balancing loss.
    pub balance: f64,
}

/// `y[t] = Σ_e w[t, e] · W2_e · gelu(W1_e · x[t])` over the k experts of the largest router probabilities
/// `p = softmax(x · Rᵀ)`, with `w` these probabilities divided by their sum.
///
/// Sizes are static: tokens are brought to rows by expert, and the number of rows is the configuration's. The
/// load-balancing loss `E · Σ_e f_e · P_e`, with `f_e` the part of the pairs that go to e and `P_e` the mean of `p[·, e]`, is
/// added to a training step's loss, times `balance`: it is least, 1, where experts have equal loads. The router runs in f32
/// whatever the compute dtype. Source: Shazeer et al. 2017; Fedus et al., "Switch Transformers" (2021).
///
/// ```
/// use landfall_train::nn::{Context, Mode, MoeConfig, MoeFeedForward, Parameters};
/// # use landfall::{DType, Graph, StateSpec};
/// # fn graph(p: &Parameters) -> Result<Graph, landfall::Error> {
/// #     let mut spec = StateSpec::new();
/// #     let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
/// #     spec.add("parameters", DType::F32, &entries)?;
/// #     let buffers: Vec<_> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
/// #     spec.add("buffers", DType::F32, &buffers)?;
/// #     Ok(Graph::new(&std::sync::Arc::new(spec)))
/// # }
/// let mut p = Parameters::new();
/// let config =
///     MoeConfig { experts: 4, chosen: 2, features: 8, hidden: 32, capacity: None, align: 1, balance: 0.01 };
/// let layer = MoeFeedForward::new(&mut p, "moe", config);
/// let g = graph(&p)?;
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let out = layer.forward(&cx, g.input("x", DType::F32, [2, 16, 8]))?;
/// assert_eq!(g.shape(out.y).dims(), [2, 16, 8]);
/// assert_eq!(g.shape(out.load).dims(), [4]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct MoeFeedForward {
    pub(super) config: MoeConfig,
    router: ParameterId,
    up: ParameterId,
    down: ParameterId,
}

/// What a forward pass gives.
#[derive(Debug, Clone, Copy)]
pub struct MoeOutput {
    /// The layer's result, as its input.
    pub y: Value,
    /// The load-balancing loss, a scalar, without its factor.
    pub balance: Value,
    /// The rows of each expert that hold a token, `i32 [E]`: of T tokens, `T · k` less their sum are dropped pairs.
    pub load: Value,
    /// The pairs that found no room, `i32`, a scalar: `T · k` less the sum of the loads. In graphs it is called `dropped`.
    pub dropped: Value,
}

impl MoeFeedForward {
    /// A layer whose parameters are `name.router [E, D]`, `name.up [E, D, F]` and `name.down [E, F, D]`, uniform in
    /// ±1/√inputs.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, config: MoeConfig) -> Self {
        let MoeConfig { experts, features, hidden, .. } = config;
        let router = p.add(&format!("{name}.router"), [experts, features], Init::fan_in(features));
        let up = p.add(&format!("{name}.up"), [experts, features, hidden], Init::fan_in(features));
        let down = p.add(&format!("{name}.down"), [experts, hidden, features], Init::fan_in(hidden));
        Self { config, router, up, down }
    }

    /// `[.., D]` → the same shape. In training the load-balancing loss is added to the step's.
    ///
    /// # Errors
    /// The last size of `x` must be D; the experts of a token at least 1 and at most E; the capacity above 0.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<MoeOutput, Error> {
        let (g, c) = (cx.graph, self.config);
        let shape = g.shape(x);
        let (flat, tokens) = self.tokens(cx, x)?;
        let (chosen, balance) = g.full_precision(|| self.route(cx, flat, tokens))?;
        let room = (tokens * c.chosen).saturating_add(c.experts * c.align.saturating_sub(1));
        let rows = c.capacity.unwrap_or(room);
        let op = RouteMap { most: c.chosen, rows, align: c.align, index: Index::I32 };
        let maps = g.op(op, &[chosen[0]])?;
        let (map, source, counts, offsets) = (maps[0], maps[1], maps[2], maps[3]);
        let inside = g.op1(Permute::default(), &[flat, map, source])?;
        let out = self.experts(cx, inside, |x, w| g.op1(GroupedMatMul, &[x, w, counts, offsets]))?;
        let merged = g.op1(Unpermute, &[out, map, source, chosen[1]])?;
        self.output(cx, (g.reshape(merged, shape)?, balance, counts), tokens)
    }

    /// The tokens behind one another, `[T, D]`, and T.
    #[track_caller]
    pub(super) fn tokens(&self, cx: &Context<'_>, x: Value) -> Result<(Value, usize), Error> {
        let (g, c) = (cx.graph, self.config);
        let shape = g.shape(x);
        let tokens = shape.elements() / shape.last().max(1);
        if shape.last() != c.features {
            let size = shape.rank().saturating_sub(1);
            let rule = Rule::Dim { lhs: (0, size, shape.last()), rhs: (1, 1, c.features) };
            let specs = [g.spec(x), g.spec(cx.parameter(self.router)?)];
            return Err(rule.of("moe", &specs, None, Some(std::panic::Location::caller())).into());
        }
        Ok((g.reshape(x, [tokens, c.features])?, tokens))
    }

    /// The two maps of the experts, each by `matmul` with the weights of all.
    pub(super) fn experts(
        &self,
        cx: &Context<'_>,
        x: Value,
        matmul: impl Fn(Value, Value) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let hidden = gelu(cx, matmul(x, cx.parameter(self.up)?)?, Approximation::Tanh)?;
        matmul(hidden, cx.parameter(self.down)?)
    }

    /// The layer's output for T tokens, of its result, the load-balancing loss and the loads.
    pub(super) fn output(
        &self,
        cx: &Context<'_>,
        (y, balance, load): (Value, Value, Value),
        tokens: usize,
    ) -> Result<MoeOutput, Error> {
        let (g, c) = (cx.graph, self.config);
        if c.balance != 0.0 {
            cx.penalise(g.affine(balance, c.balance, 0.0)?);
        }
        let pairs = g.fill(DType::I32, Shape::SCALAR, (tokens * c.chosen) as f64)?;
        let dropped = g.name(g.sub(pairs, g.cast(g.sum(load, [0])?, DType::I32)?)?, "dropped");
        Ok(MoeOutput { y, balance, load, dropped })
    }

    /// The choice with its weights, and the load-balancing loss.
    pub(super) fn route(
        &self,
        cx: &Context<'_>,
        x: Value,
        tokens: usize,
    ) -> Result<(Vec<Value>, Value), Error> {
        let (g, c) = (cx.graph, self.config);
        let logits = g.matmul(x, g.transpose(cx.parameter(self.router)?)?)?;
        let p = g.op1(ops::Softmax { axis: 1 }, &[logits])?;
        let chosen = g.op(TopK { k: c.chosen, renormalise: true }, &[p])?;
        let routed = g.cast(chosen[0], g.spec(p).dtype)?;
        let products = g.mul(g.sum(routed, [0])?, g.mean(p, [0])?)?;
        let pairs = (tokens * c.chosen).max(1) as f64;
        Ok((chosen, g.affine(g.sum(products, [0])?, c.experts as f64 / pairs, 0.0)?))
    }
}
