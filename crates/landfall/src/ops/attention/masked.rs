//! Attention over the keys that each query may see: causal, by a mask, by a number of keys, with grouped heads.

mod cpu;
pub(in crate::ops) mod cuda;

use super::masked_grad::MaskedAttentionGrad;
use crate::contract::{
    AttributeValue, Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested,
    Value, Vjp, arity, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::with_float;
use crate::ops::attention::{left_out, scale_of};
use crate::ops::reduce::softmax::Softmax;
use crate::values::{DType, DeviceKind, HostTensor, Keep, Rule, Shape, Spec};

pub(in crate::ops) use cpu::gradient;

op_list! { MaskedAttention; Visible }

op_attributes! {
    /// `out = softmax(S)·v` over the keys that a query sees, `S = scale·q·kᵀ (+ mask)`, for each batch entry and head.
    ///
    /// The axes are batch, tokens, heads, features (PyTorch's have heads before tokens:
    /// [`Graph::scaled_dot_product_attention`]). `q`: `[B, M, h, e]`; `k`, `v`: `[B, N, g, e]` with `g` a divisor of `h`: query head `i` reads key head `i·g/h` (grouped
    /// heads; one key head for all is multi-query attention). With `mask` also `mask`: `[B, h, M, N]`, bool (true where the query
    /// sees the key) or of the dtype of `q` (added to the scores; −∞ hides a key); broadcast axes have stride 0 and cost nothing.
    /// With `lengths` also `lengths`: `i64[B]`, the number of keys that are there, the first ones. `causal`: query `i` of `M` sees
    /// the keys up to `i + n − M` of `n`, the number of keys: the last query sees the last key. Results: `out` `[B, M, h, e]`,
    /// `lse` `[B, h, M]`, the logarithm of the sum of a row's exponentials, in the accumulation dtype, kept for the gradient. A
    /// query that sees no key gets zeros, and −∞. What a hidden key and its value hold, NaN among it, reaches no result and no
    /// gradient.
    ///
    /// Memory: no matrix of scores, forward or backward. Accumulation: f32 (f64 for f64). Disjoint. Gradient:
    /// [`MaskedAttentionGrad`]; that of an added mask is computed only where it is used, by products that keep the scores; `lse`
    /// carries none. Errors: shapes and dtypes as above; a length out of `0..=N` is reported when a result is read. Deterministic,
    /// whatever the number of threads. Sources: Vaswani et al. (2017); Ainslie et al., "GQA" (2023); Dao et al.,
    /// "FlashAttention" (2022).
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let q = engine.tensor([1, 2, 1, 1], &[0.0f64, 0.0])?;
    /// let v = engine.tensor([1, 2, 1, 1], &[1.0f64, 3.0])?;
    /// let op = ops::MaskedAttention { scale: 1.0, causal: true, mask: false, lengths: false };
    /// let results = engine.eval_all(&op, &[q.view(), q.view(), v.view()])?;
    /// assert_eq!(results[0].read::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct MaskedAttention(q, k, v, mask if mask, lengths if lengths) {
        /// Factor of the products; `1/√e` where a call by name leaves it out.
        pub scale: f64 = 1.0 => (AttributeValue::None),
        /// Whether a query sees no key behind its own place.
        pub causal: bool = false,
        /// Whether a mask is an argument.
        pub mask: bool = false,
        /// Whether the numbers of keys are the last argument.
        pub lengths: bool = false,
    }
}

/// Sizes of a call.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Sizes {
    pub(in crate::ops) batch: usize,
    pub(in crate::ops) queries: usize,
    pub(in crate::ops) heads: usize,
    pub(in crate::ops) features: usize,
    pub(in crate::ops) keys: usize,
    pub(in crate::ops) key_heads: usize,
}

impl Sizes {
    pub(in crate::ops) fn of(q: &Shape, k: &Shape) -> Self {
        let (q, k) = (q.dims(), k.dims());
        Self { batch: q[0], queries: q[1], heads: q[2], features: q[3], keys: k[1], key_heads: k[2] }
    }

    /// Query heads that read one key head.
    pub(in crate::ops) fn group(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// The keys that query `i` may see of `n`: the first ones.
    pub(in crate::ops) fn visible(&self, causal: bool, i: usize, n: usize) -> usize {
        if causal { (n + i + 1).saturating_sub(self.queries).min(n) } else { n }
    }

    /// `[B, h, M, N]`.
    pub(in crate::ops) fn scores(&self) -> Shape {
        [self.batch, self.heads, self.queries, self.keys].into()
    }

    /// `[B, h, M]`.
    pub(in crate::ops) fn rows(&self) -> Shape {
        [self.batch, self.heads, self.queries].into()
    }
}

impl MaskedAttention {
    /// Arguments of the forward op.
    pub(in crate::ops) fn operands(&self) -> usize {
        3 + usize::from(self.mask) + usize::from(self.lengths)
    }

    /// Position of the lengths, if there are any.
    pub(in crate::ops) fn lengths_at(&self) -> Option<usize> {
        self.lengths.then_some(3 + usize::from(self.mask))
    }

    /// Checks the arguments of the forward op.
    pub(in crate::ops) fn check(&self, args: &[Spec]) -> Result<Sizes, Rule> {
        self.fits(args).map_err(|rule| suspect(rule, args))
    }

    fn fits(&self, args: &[Spec]) -> Result<Sizes, Rule> {
        rules::float(args, &[0])?;
        for (arg, spec) in args.iter().enumerate().take(3) {
            let rank = spec.shape.rank();
            if rank != 4 {
                return Err(Rule::Rank { arg, rank, expected: "4: [batch, tokens, heads, features]" });
            }
            rules::same_dtype(args, 0, arg)?;
        }
        let s = Sizes::of(&args[0].shape, &args[1].shape);
        if s.heads != s.key_heads * s.group() {
            let expected = "a divisor of the number of query heads";
            return Err(Rule::Attribute { name: "number of key heads", value: s.key_heads as f64, expected });
        }
        rules::shape(args, 1, [s.batch, s.keys, s.key_heads, s.features])?;
        rules::same_shape(args, 1, 2)?;
        if self.mask {
            rules::shape(args, 3, s.scores())?;
            if args[3].dtype != DType::Bool && args[3].dtype != args[0].dtype {
                return Err(Rule::Dtype { arg: 3, dtype: args[3].dtype, expected: "bool or the dtype of q" });
            }
        }
        if let Some(at) = self.lengths_at() {
            rules::dtype(args, at, DType::I64)?;
            rules::shape(args, at, [s.batch])?;
        }
        Ok(s)
    }

    /// The scores `[B, h, M, N]` in the accumulation dtype, −∞ where a query does not see a key.
    pub(in crate::ops) fn scores(&self, g: &Graph, args: &[Value]) -> Result<Value, Error> {
        let s = Sizes::of(&g.shape(args[0]), &g.shape(args[1]));
        let wide = |v| g.cast(v, g.spec(args[0]).dtype.accumulate());
        let q = g.permute(wide(args[0])?, &[0, 2, 1, 3])?;
        let k = g.permute(self.spread(g, &s, wide(args[1])?)?, &[0, 2, 3, 1])?;
        let mut scores = g.affine(g.matmul(q, k)?, self.scale, 0.0)?;
        let hidden = f64::NEG_INFINITY;
        if self.mask {
            scores = if g.spec(args[3]).dtype == DType::Bool {
                g.masked_fill(scores, g.not(args[3])?, hidden)?
            } else {
                g.add(scores, wide(args[3])?)?
            };
        }
        let places = g.reshape(g.arange(DType::I64, 0.0, 1.0, s.keys)?, [1, 1, 1, s.keys])?;
        let ends = match self.lengths_at() {
            Some(at) => g.reshape(args[at], [s.batch, 1, 1, 1])?,
            None => g.fill(DType::I64, [1, 1, 1, 1], s.keys as f64)?,
        };
        if self.lengths {
            scores = g.masked_fill(scores, g.greater_equal(places, ends)?, hidden)?;
        }
        if self.causal {
            let own = g.arange(DType::I64, 1.0 - s.queries as f64, 1.0, s.queries)?;
            let ends = g.add(g.reshape(own, [1, 1, s.queries, 1])?, ends)?;
            scores = g.masked_fill(scores, g.greater_equal(places, ends)?, hidden)?;
        }
        Ok(scores)
    }

    /// The weights `P = exp(S − lse)` and the gradient of the scores, `P∘(g_out·vᵀ − rowsum(g_out∘out))`, from the forward op's
    /// arguments and from `out`, `lse` and `g_out`; in the accumulation dtype.
    pub(super) fn slopes(
        &self,
        g: &Graph,
        args: &[Value],
        [out, lse, g_out]: [Value; 3],
    ) -> Result<(Value, Value), Error> {
        let s = Sizes::of(&g.shape(args[0]), &g.shape(args[1]));
        let wide = |v| g.cast(v, g.spec(args[0]).dtype.accumulate());
        let lse = g.reshape(wide(lse)?, [s.batch, s.heads, s.queries, 1])?;
        let seen = g.select(g.is_finite(lse)?, lse, g.scalar(lse, 0.0)?)?;
        let weights = g.exp(g.sub(self.scores(g, args)?, seen)?)?;
        let v = g.permute(self.spread(g, &s, wide(args[2])?)?, &[0, 2, 3, 1])?;
        let slope = g.matmul(g.permute(wide(g_out)?, &[0, 2, 1, 3])?, v)?;
        let level = g.sum(g.mul(wide(g_out)?, wide(out)?)?, Keep(3))?;
        let level = g.permute(level, &[0, 2, 1, 3])?;
        let none = g.equal(weights, g.scalar(weights, 0.0)?)?;
        let slopes = g.masked_fill(g.mul(weights, g.sub(slope, level)?)?, none, 0.0)?;
        Ok((weights, slopes))
    }

    /// The gradients of queries, keys, values and scores, from the same, where the scores have a cotangent with that; in the
    /// accumulation dtype.
    pub(super) fn pulled(
        &self,
        g: &Graph,
        args: &[Value],
        saved: [Value; 3],
        g_scores: Option<Value>,
    ) -> Result<[Value; 4], Error> {
        let s = Sizes::of(&g.shape(args[0]), &g.shape(args[1]));
        let wide = |v| g.cast(v, g.spec(args[0]).dtype.accumulate());
        let (weights, mut slopes) = self.slopes(g, args, saved)?;
        if let Some(more) = g_scores {
            slopes = g.add(slopes, wide(more)?)?;
        }
        let heads = |v| g.permute(wide(v)?, &[0, 2, 1, 3]);
        let k = g.permute(self.spread(g, &s, wide(args[1])?)?, &[0, 2, 1, 3])?;
        let gq = g.affine(g.matmul(slopes, k)?, self.scale, 0.0)?;
        // Of a key head the sum over the query heads that read it.
        let of_keys = |factor, rows| {
            let each = g.matmul(g.transpose(factor)?, heads(rows)?)?;
            let groups = [s.batch, s.key_heads, s.group(), s.keys, s.features];
            g.permute(g.sum(g.reshape(each, groups)?, 2)?, &[0, 2, 1, 3])
        };
        let gk = g.affine(of_keys(slopes, args[0])?, self.scale, 0.0)?;
        Ok([g.permute(gq, &[0, 2, 1, 3])?, gk, of_keys(weights, saved[2])?, slopes])
    }

    /// Keys or values with a head for each query head.
    pub(in crate::ops) fn spread(&self, g: &Graph, s: &Sizes, x: Value) -> Result<Value, Error> {
        if s.group() == 1 { Ok(x) } else { g.repeat_interleave(x, 2, s.group()) }
    }
}

/// The fault of arguments that would fit with the axes of heads and tokens exchanged, with that said.
fn suspect(rule: Rule, args: &[Spec]) -> Rule {
    let mut turned = args.to_vec();
    if args.iter().take(3).any(|arg| arg.shape.rank() != 4) {
        return rule;
    }
    for arg in turned.iter_mut().take(3) {
        let d = arg.shape.dims();
        arg.shape = [d[0], d[2], d[1], d[3]].into();
    }
    if let [q, k, _, mask] = &mut turned[..]
        && mask.dtype != DType::I64
    {
        let scores = Sizes::of(&q.shape, &k.shape).scores();
        mask.shape = mask.shape.broadcast(&scores).unwrap_or(mask.shape);
    }
    let op = MaskedAttention { mask: turned.len() > 3, ..MaskedAttention::default() };
    if op.fits(&turned).is_ok() { Rule::HeadsFirst { rule: Box::new(rule) } } else { rule }
}

fn suspected(error: Error, args: &[Spec]) -> Error {
    let Error::Op(mut fault) = error else { return error };
    fault.rule = suspect(fault.rule, args);
    fault.into()
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let op = attributes::<MaskedAttention>(op).map_err(|r| r.of("masked_attention", &[], None, None))?;
    let dtype = g.spec(args[0]).dtype;
    let s = Sizes::of(&g.shape(args[0]), &g.shape(args[1]));
    let scores = op.scores(g, args)?;
    let most = g.max(scores, [3])?;
    let hidden = f64::NEG_INFINITY;
    let blind = g.equal(most, g.scalar(most, hidden)?)?;
    // A row of −∞ alone has no softmax, and no slope.
    let rows = g.reshape(blind, [s.batch, s.heads, s.queries, 1])?;
    let scores = g.masked_fill(scores, rows, 0.0)?;
    let lse = g.masked_fill(g.logsumexp(scores, [3])?, blind, hidden)?;
    let weights = g.op1(Softmax { axis: 3 }, &[scores])?;
    let weights = g.masked_fill(weights, rows, 0.0)?;
    let v = g.permute(op.spread(g, &s, g.cast(args[2], dtype.accumulate())?)?, &[0, 2, 1, 3])?;
    let out = g.permute(g.matmul(weights, v)?, &[0, 2, 1, 3])?;
    Ok(vec![g.cast(out, dtype)?, lse])
}

fn vjp(op: &dyn Op, cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let fail = |rule: Rule| Error::from(rule.of("masked_attention", &[], None, None));
    let op = attributes::<MaskedAttention>(op).map_err(fail)?;
    let (g, inputs, g_out) = (cx.graph, cx.inputs, cx.cotangent()?);
    let mut args = inputs.to_vec();
    args.extend([cx.outputs[0], cx.outputs[1], g_out]);
    let MaskedAttention { scale, causal, mask, lengths } = *op;
    let grads = g.op(MaskedAttentionGrad { scale, causal, mask, lengths }, &args)?;
    let mut grads: Vec<Option<Value>> = grads.into_iter().map(Some).collect();
    grads.resize(inputs.len(), None);
    if mask && cx.needs[3] && g.spec(inputs[3]).dtype != DType::Bool {
        // That of the scores, to which the mask is added.
        let (_, slopes) = op.slopes(g, inputs, [cx.outputs[0], cx.outputs[1], g_out])?;
        grads[3] = Some(g.cast(slopes, g.spec(inputs[0]).dtype)?);
    }
    Ok(grads)
}

impl Op for MaskedAttention {
    fn name(&self) -> &'static str {
        "masked_attention"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let s = self.check(args)?;
        Ok([args[0], Spec { dtype: args[0].dtype.accumulate(), shape: s.rows() }].into())
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 2]
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Keeping { rule: vjp, kept: &[1] }
    }
    fn mixing(&self) -> Mixing {
        Mixing::Product { operands: usize::MAX }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("masked_attention", |op, call| {
                    let op = attributes::<MaskedAttention>(op)?;
                    with_float!(call, 0, T => cpu::forward::<T>(op, call))
                })
                .with_workspace(|_, args| cpu::workspace(args, cpu::forward_slot)),
                Kernel::cuda("masked_attention", cuda::forward),
            ]
        }
    }
    fn flops(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // Two products; scale, maximum, difference, exponential and sum of each score.
        let s = Sizes::of(&args[0].shape, &args[1].shape);
        outputs[1].shape.elements().saturating_mul(s.keys).saturating_mul(4 * s.features + 5)
    }
}

/// The reference of one query's weights: of each key `exp(S − lse)`, and `lse`.
pub(super) struct Row {
    pub(super) weights: Vec<f64>,
    pub(super) lse: f64,
}

impl MaskedAttention {
    /// The weights of query `i` of head `h` of batch entry `b`.
    pub(super) fn row(&self, args: &[HostTensor], b: usize, h: usize, i: usize) -> Row {
        let s = Sizes::of(&args[0].spec.shape, &args[1].spec.shape);
        let n = self.lengths_at().map_or(s.keys, |at| args[at].int(b).clamp(0, s.keys as i64) as usize);
        let visible = s.visible(self.causal, i, n);
        let q = &args[0].data[((b * s.queries + i) * s.heads + h) * s.features..][..s.features];
        let score = |j: usize| {
            let at = ((b * s.keys + j) * s.key_heads + h / s.group()) * s.features;
            let dot: f64 = q.iter().zip(&args[1].data[at..]).map(|(q, k)| q * k).sum();
            let mask =
                if self.mask { args[3].data[((b * s.heads + h) * s.queries + i) * s.keys + j] } else { 0.0 };
            let boolean = self.mask && args[3].spec.dtype == DType::Bool;
            if j >= visible || (boolean && mask == 0.0) {
                f64::NEG_INFINITY
            } else {
                self.scale * dot + if boolean { 0.0 } else { mask }
            }
        };
        let scores: Vec<f64> = (0..s.keys).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            return Row { weights: vec![0.0; s.keys], lse: max };
        }
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        Row { weights: scores.iter().map(|s| (s - max).exp() / sum).collect(), lse: max + sum.ln() }
    }
}

impl Tested for MaskedAttention {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let s = Sizes::of(&specs[0].shape, &specs[1].shape);
        let mut out: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        for at in 0..s.rows().elements() {
            let (b, h, i) = (at / s.queries / s.heads, at / s.queries % s.heads, at % s.queries);
            let row = self.row(args, b, h, i);
            out[1].data[at] = row.lse;
            for c in 0..s.features {
                let v = |j: usize| {
                    args[2].data[((b * s.keys + j) * s.key_heads + h / s.group()) * s.features + c]
                };
                out[0].data[((b * s.queries + i) * s.heads + h) * s.features + c] =
                    (0..s.keys).map(|j| row.weights[j] * v(j)).sum();
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = cases().into_iter().map(|(op, args)| Sample::new(op, args)).collect();
        let x = |shape: [usize; 4]| SampleArg::any(shape);
        let three = |q, k, v| vec![x(q), x(k), x(v)];
        let same = [2, 5, 2, 4];
        let masked = |mask| {
            let mut args = three(same, same, same);
            args.push(mask);
            args
        };
        let op = Self { mask: true, ..*self };
        let int = |dtype, shape: &[usize]| {
            SampleArg::with(Some(dtype), Shape::new(shape).unwrap_or(Shape::SCALAR), Data::Int(0, 2))
        };
        all.extend([
            Sample::bad(*self, three(same, same, [2, 6, 2, 4]), "their shapes must be equal"),
            Sample::bad(
                *self,
                three([2, 5, 3, 4], same, same),
                "number of key heads is 2; it must be a divisor",
            ),
            Sample::bad(*self, three(same, [2, 5, 2, 3], [2, 5, 2, 3]), "arg 1 is [2, 5, 2, 3]"),
            Sample::bad(*self, vec![SampleArg::any([5, 2, 4]); 3], "arg 0 has rank 3; it must be 4"),
            Sample::bad(*self, vec![x(same); 2], "takes 3 arguments (q, k, v), got 2"),
            Sample::bad(
                op,
                masked(int(DType::Bool, &[2, 2, 5, 4])),
                "arg 3 is [2, 2, 5, 4]; it must be [2, 2, 5, 5]",
            ),
            Sample::bad(op, masked(int(DType::I32, &[2, 2, 5, 5])), "it must be bool or the dtype of q"),
            Sample::bad(
                Self { lengths: true, ..*self },
                masked(int(DType::I64, &[3])),
                "arg 3 is [3]; it must be [2]",
            ),
        ]);
        all
    }
}

/// Sample calls: equal and unequal lengths, grouped heads, every kind of mask, queries that see nothing, tails, wide heads.
pub(super) fn cases() -> Vec<(MaskedAttention, Vec<SampleArg>)> {
    /// What a case has beside its shapes.
    #[derive(Clone, Copy)]
    enum Mask {
        None,
        Bool,
        Added,
    }
    let case = |q: [usize; 4], keys: usize, key_heads: usize, causal: bool, mask: Mask, lengths: &[f64]| {
        let most = if q[3] > 35 { 1.0 } else { 2.0 };
        let k = [q[0], keys, key_heads, q[3]];
        let mut args: Vec<SampleArg> = [q, k, k].map(|s| SampleArg::range(s, -most, most)).into();
        let scores = [q[0], q[2], q[1], keys];
        match mask {
            Mask::None => {}
            Mask::Bool => args.push(SampleArg::with(Some(DType::Bool), scores, Data::Int(0, 2))),
            Mask::Added => args.push(SampleArg::any(scores)),
        }
        if !lengths.is_empty() {
            args.push(SampleArg::with(Some(DType::I64), [lengths.len()], Data::Exact(lengths.to_vec())));
        }
        let masked = !matches!(mask, Mask::None);
        (MaskedAttention { scale: 0.25, causal, mask: masked, lengths: !lengths.is_empty() }, args)
    };
    vec![
        case([1, 1, 1, 1], 1, 1, false, Mask::None, &[]),
        case([2, 5, 2, 4], 5, 2, true, Mask::None, &[]),
        case([1, 7, 4, 3], 9, 2, false, Mask::Bool, &[]),
        case([2, 3, 6, 8], 20, 1, true, Mask::Added, &[]),
        case([2, 40, 2, 17], 33, 1, true, Mask::None, &[]),
        case([3, 1, 4, 16], 50, 2, true, Mask::None, &[50.0, 1.0, 0.0]),
        case([2, 6, 2, 5], 70, 2, false, Mask::Bool, &[3.0, 70.0]),
        case([1, 5, 1, 70], 600, 1, true, Mask::None, &[550.0]),
        case([1, 33, 2, 130], 35, 2, false, Mask::Added, &[]),
        case([1, 3, 1, 300], 4, 1, true, Mask::None, &[]),
        case([0, 5, 2, 4], 5, 2, true, Mask::None, &[]),
        case([2, 3, 2, 4], 0, 2, false, Mask::None, &[]),
    ]
}

impl Graph {
    /// Attention `[B, M, h, e]` of queries `[B, M, h, e]` over keys and values `[B, N, g, e]` that a query may see
    /// ([`MaskedAttention`]); `scale` is `1/√e`. The axes are batch, tokens, heads, features: with those of PyTorch, where heads stand before
    /// tokens, take [`Graph::scaled_dot_product_attention`].
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec, Visible};
    /// let graph = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let q = graph.input("q", DType::F32, [8, 64, 4, 16]);
    /// let k = graph.input("k", DType::F32, [8, 64, 2, 16]);
    /// let v = graph.input("v", DType::F32, [8, 64, 2, 16]);
    /// let out = graph.attend(q, k, v, Visible { causal: true, ..Default::default() })?;
    /// assert_eq!(graph.shape(out).dims(), [8, 64, 4, 16]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes and dtypes of [`MaskedAttention`]; the mask must be broadcastable to `[B, h, M, N]`.
    #[track_caller]
    pub fn attend(&self, q: Value, k: Value, v: Value, visible: Visible) -> Result<Value, Error> {
        let (queries, keys) = (self.shape(q), self.shape(k));
        let mut args = vec![q, k, v];
        let whole = queries.rank() == 4 && keys.rank() == 4;
        if let Some(mask) = visible.mask {
            let scores = Sizes::of(&queries, &keys).scores();
            let spread = || self.broadcast_to(mask, scores);
            args.push(if whole {
                spread().map_err(|e| suspected(e, &self.specs(&[q, k, v, mask])))?
            } else {
                mask
            });
        }
        args.extend(visible.lengths);
        let scale = scale_of(queries.last());
        let Visible { causal, mask, lengths } = visible;
        let op = MaskedAttention { scale, causal, mask: mask.is_some(), lengths: lengths.is_some() };
        Ok(self.op(op, &args)?[0])
    }
}

/// Which keys a query sees in [`Graph::attend`]: without anything, all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Visible {
    /// Those up to the query's own place, the last query at the last key. Of more queries than keys the first see none, and give
    /// zeros.
    pub causal: bool,
    /// A bool mask, true where the query sees the key (as in PyTorch's `scaled_dot_product_attention`, the reverse of its
    /// `nn.MultiheadAttention`); or a mask of the dtype of the queries, which is added to the scores. Broadcast to `[B, h, M, N]`.
    pub mask: Option<Value>,
    /// The number of valid keys of each batch entry, the first ones: `i64[B]`; in cross-attention those of the context.
    pub lengths: Option<Value>,
}
