//! Scaled dot-product attention over few tokens, with queries and keys of length 1.

pub(in crate::ops) mod cuda;
pub(in crate::ops) mod heads;

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::isa::{Real, dispatch};
use crate::kernel::cpu::lanes::{LANES, Slots};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, View, with_float};
use crate::ops::attention::cosine_grad::CosineAttentionGrad;
use crate::ops::attention::cpu_tiles::Sizes;
use crate::ops::attention::forward::Attention;
use crate::ops::norm::l2_norm::L2Norm;
use crate::ops::norm::layer_norm::affine_dtype;
use crate::values::{DType, DeviceKind, Element, HostTensor, Layout, Rule, Shape, Spec, product};

op_list! { CosineAttention }

op_attributes! {
    /// `out = softmax(S)·v` over the keys, for each batch entry and head, with `S = t·q̂·k̂ᵀ`, `q̂ = q / √(Σ q² + eps)` and
    /// `k̂ = k / √(Σ k² + eps)`: cosines of the angles between queries and keys, times a temperature.
    ///
    /// `qkv`: `[B, N, 3, h, e]`, float, of any strides: queries, keys and values, as one projection gives them. `temperature`:
    /// `[h]`, in the dtype of `qkv` or in the one that it accumulates in. Results: `out` `[B, N, h, e]`; `lse` `[B, h, N]`, the
    /// logarithm of each row's sum of exponentials, in the accumulation dtype, kept for the gradient. Accumulation: f32 (f64
    /// for f64), in which the lengths, the scores and the weights stay. Disjoint. Gradient: [`CosineAttentionGrad`]; that of
    /// `lse` through the body. Errors: rank 5 with an axis of 3, features, and heads that [`fits`](Self::fits) takes; for others there are
    /// [`L2Norm`] and [`Attention`]. Deterministic, whatever the number of threads. Source: Henry et al., "Query-Key
    /// Normalization for Transformers" (2020).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let op = ops::CosineAttention { eps: 0.0 };
    /// // Two tokens, whose queries both point to the first key: its weight is e¹ to e⁻¹ of the second.
    /// let qkv = engine.tensor([1, 2, 3, 1, 1], &[5.0f64, 2.0, 1.0, 5.0, -2.0, 0.0])?;
    /// let temperature = engine.tensor([1], &[1.0f64])?;
    /// let (mut out, mut lse) = (engine.empty(F64, [1, 2, 1, 1])?, engine.empty(F64, [1, 1, 2])?);
    /// engine.reserve(engine.workspace(&op, &[qkv.spec(), temperature.spec()])?)?;
    /// engine.call(&op, &[qkv.view(), temperature.view()], &mut [out.view_mut(), lse.view_mut()])?;
    /// let e = 1f64.exp();
    /// assert!(out.read::<f64>()?.iter().all(|o| (o - e / (e + 1.0 / e)).abs() < 1e-12));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct CosineAttention(qkv, temperature) {
        /// Added to the sums of squares.
        pub eps: f64 = 1e-6,
    }
}

/// Tokens at most, and features of a head.
const MOST: [usize; 2] = [32, 128];
/// Numbers that a block of a GPU may keep of a head in f64: its shared memory of 48 KiB.
const ROOM: usize = 6144;

/// Lanes that share a row of `e` features, four each.
fn lanes(e: usize) -> usize {
    e.div_ceil(4).next_power_of_two().max(8)
}

/// Numbers that the gradient of a head keeps: four rows of each token, two for each pair of tokens, one for each token, and
/// sums of up to eight warps.
fn room(n: usize, e: usize) -> usize {
    4 * n * 4 * lanes(e) + 2 * n * n + n + 8
}

impl CosineAttention {
    /// Whether heads of `n` tokens with `e` features are taken: at most 32 and 128, and so few that on a GPU a block holds
    /// all of a head; 12 tokens of 64 features, say. It is one rule for all devices and dtypes.
    #[must_use]
    pub fn fits(n: usize, e: usize) -> bool {
        check_sizes(n, e).is_ok()
    }
}

fn check_sizes(n: usize, e: usize) -> Result<(), Rule> {
    let within = |name, size: usize, most: usize, expected| match size <= most {
        true => Ok(()),
        false => Err(Rule::Attribute { name, value: size as f64, expected }),
    };
    let [tokens, features] = MOST;
    within("number of tokens", n, tokens, "at most 32; l2_norm and attention take more")?;
    if e == 0 {
        let (name, expected) = ("number of features", "at least 1");
        return Err(Rule::Attribute { name, value: 0.0, expected });
    }
    within("number of features", e, features, "at most 128; l2_norm and attention take more")?;
    let name = "numbers that are kept of a head (16·tokens·lanes + 2·tokens² + tokens + 8)";
    within(name, room(n, e), ROOM, "at most 6144; l2_norm and attention take more")
}

/// `[B, N, h, e]` of `[B, N, 3, h, e]`.
pub(in crate::ops) fn rows_of(qkv: &Shape) -> Shape {
    qkv.without(2)
}

/// `[B, h, N]` of `[B, N, 3, h, e]`.
pub(in crate::ops) fn levels_of(qkv: &Shape) -> Shape {
    let s = Sizes::of(&rows_of(qkv));
    [s.batch, s.heads, s.n].into()
}

/// Checks `qkv` and the temperatures.
pub(in crate::ops) fn check(args: &[Spec]) -> Result<(), Rule> {
    rules::float(args, &[0])?;
    let shape = args[0].shape;
    let &[_, n, three, h, e] = shape.dims() else {
        let expected = "5: [batch, tokens, 3, heads, features]";
        return Err(Rule::Rank { arg: 0, rank: shape.rank(), expected });
    };
    if three != 3 {
        return Err(Rule::ArgShape { arg: 0, shape, expected: shape.with(2, 3) });
    }
    check_sizes(n, e)?;
    affine_dtype(args, 0, 1)?;
    rules::shape(args, 1, [h])
}

/// Queries, keys or values of `[B, N, 3, h, e]`, and the temperature of each row; in the accumulation dtype.
pub(in crate::ops) fn parts(g: &Graph, args: &[Value]) -> Result<([Value; 3], Value), Error> {
    let spec = g.spec(args[0]);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let rows = rows_of(&spec.shape);
    let part = |i| g.reshape(g.slice(wide(args[0])?, 2, i, 1)?, rows);
    let temperature = g.broadcast_to(wide(args[1])?, rows.without(3))?;
    Ok(([part(0)?, part(1)?, part(2)?], temperature))
}

/// Queries, keys or values of `[B, N, 3, h, e]`.
fn part(qkv: &Layout, i: usize) -> Layout {
    // The axis has three, and one of them is taken.
    qkv.slice(2, i, 1, 1).and_then(|one| one.squeeze(2)).unwrap_or(Layout::SCALAR)
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<CosineAttention>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let ([q, k, v], temperature) = parts(g, args)?;
    let q = g.op1(L2Norm { eps, scaled: true }, &[q, temperature])?;
    let k = g.op1(L2Norm { eps, scaled: false }, &[k])?;
    let op = Attention { scale: 1.0, previous: false, emit_scores: false };
    let made = g.op(op, &[q, k, v])?;
    Ok(vec![g.cast(made[0], g.spec(args[0]).dtype)?, made[1]])
}

fn vjp(op: &dyn Op, cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let fail = |rule: Rule| Error::from(rule.of(op.name(), &[], None, None));
    let eps = attributes::<CosineAttention>(op).map_err(fail)?.eps;
    let args = [cx.inputs[0], cx.inputs[1], cx.outputs[0], cx.outputs[1], cx.cotangent()?];
    Ok(cx.graph.op(CosineAttentionGrad { eps }, &args)?.into_iter().map(Some).collect())
}

impl Op for CosineAttention {
    fn name(&self) -> &'static str {
        "cosine_attention"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::at_least_0("eps", self.eps)?;
        check(&args)?;
        let qkv = args[0];
        let lse = Spec { dtype: qkv.dtype.accumulate(), shape: levels_of(&qkv.shape) };
        Ok([Spec { shape: rows_of(&qkv.shape), ..qkv }, lse].into())
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
        // Temperatures are factors of f32 scores.
        Mixing::Product { operands: 1 }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("cosine_attention", |op, call| {
                    let op = attributes::<Self>(op)?;
                    with_float!(call, 0, T, W as 1 => run::<T, W>(op, call))
                })
                .with_workspace(|_, args| {
                    let s = Sizes::of(&rows_of(&args[0].shape));
                    let size = args[0].dtype.accumulate().size();
                    product([s.tasks().1, heads::forward_lines(&s), LANES, size])
                }),
                Kernel::cuda("cosine_attention", cuda::forward),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        // Two products; temperature, maximum, difference, exponential and sum of each score; square, sum and product of
        // each element of queries and keys.
        let s = Sizes::of(&outputs[0].shape);
        let pairs = outputs[1].shape.elements().saturating_mul(s.n).saturating_mul(5);
        let norms = outputs[0].shape.elements().saturating_mul(6);
        s.flops().saturating_mul(2).saturating_add(pairs).saturating_add(norms)
    }
}

impl Tested for CosineAttention {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let mut all: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        let Sizes { n, heads, e, .. } = Sizes::of(&outputs[0].shape);
        for row in 0..outputs[1].shape.elements() {
            let (b, h, i) = (row / n / heads, row / n % heads, row % n);
            let of = |j: usize, part: usize| &args[0].data[(((b * n + j) * 3 + part) * heads + h) * e..][..e];
            let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            let length = |x: &[f64]| (dot(x, x) + self.eps).sqrt();
            let score = |j: usize| {
                let (q, k) = (of(i, 0), of(j, 1));
                args[1].data[h] * dot(q, k) / length(q) / length(k)
            };
            let s: Vec<f64> = (0..n).map(score).collect();
            let max = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = s.iter().map(|s| (s - max).exp()).sum();
            for c in 0..e {
                all[0].data[((b * n + i) * heads + h) * e + c] =
                    (0..n).map(|j| (s[j] - max).exp() / sum * of(j, 2)[c]).sum();
            }
            all[1].data[row] = max + sum.ln();
        }
        all
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = SHAPES
            .iter()
            .map(|&[b, n, h, e]| Sample::new(self.of_sample(e), arguments(b, n, h, e).into()))
            .collect();
        all.extend(mixed().map(|args| Sample::new(*self, args.into())));
        let any = |n, e| vec![SampleArg::any([2, n, 3, 2, e]), SampleArg::any([2])];
        let bad = |args, text| Sample::bad(*self, args, text);
        let whole = SampleArg::with(Some(DType::I32), [2], Data::Int(0, 5));
        all.push(Sample::bad(Self { eps: -1.0 }, any(4, 4), "eps is -1; it must be finite and at least 0"));
        all.extend([
            bad(any(33, 4), "number of tokens is 33; it must be at most 32"),
            bad(any(4, 129), "number of features is 129; it must be at most 128"),
            bad(any(4, 0), "number of features is 0; it must be at least 1"),
            bad(any(24, 64), "is 7328; it must be at most 6144; l2_norm and attention take more"),
            bad(vec![SampleArg::any([2, 5, 2, 2, 4]), SampleArg::any([2])], "it must be [2, 5, 3, 2, 4]"),
            bad(vec![SampleArg::any([2, 5, 2, 4]), SampleArg::any([2])], "arg 0 has rank 4; it must be 5"),
            bad(vec![SampleArg::any([2, 5, 3, 2, 4]), SampleArg::any([3])], "arg 1 is [3]; it must be [2]"),
            bad(vec![SampleArg::any([2, 5, 3, 2, 4]), whole], "arg 1 is i32"),
            bad(vec![SampleArg::any([2, 5, 3, 2, 4])], "takes 2 arguments (qkv, temperature), got 1"),
        ]);
        all
    }
}

impl CosineAttention {
    /// A row of one feature is all along itself: without an eps of its size nothing but rounding is left of its slope.
    fn of_sample(self, e: usize) -> Self {
        if e == 1 { Self { eps: 0.5 } } else { self }
    }
}

/// Arguments of these sizes.
pub(in crate::ops) fn arguments(b: usize, n: usize, h: usize, e: usize) -> [SampleArg; 2] {
    [SampleArg::any([b, n, 3, h, e]), SampleArg::range([h], 0.5, 8.0)]
}

/// Rows in 16 bits with temperatures in f32.
pub(in crate::ops) fn mixed() -> impl Iterator<Item = [SampleArg; 2]> {
    let of = |dtype, shape: Shape, lo, hi| SampleArg::with(Some(dtype), shape, Data::Range(lo, hi));
    [(DType::BF16, [3, 12, 2, 64]), (DType::F16, [2, 7, 3, 24])].into_iter().map(
        move |(dtype, [b, n, h, e])| {
            [of(dtype, [b, n, 3, h, e].into(), -2.0, 2.0), of(DType::F32, [h].into(), 0.5, 8.0)]
        },
    )
}

/// Shapes `[B, N, h, e]` of samples: one token, tokens and features in every power of two of lanes and keys and between them,
/// as many as are taken, nothing, sixteen heads at a time and some.
pub(in crate::ops) const SHAPES: &[[usize; 4]] = &[
    [1, 1, 1, 1],
    [2, 1, 3, 8],
    [3, 2, 2, 5],
    [2, 3, 3, 22],
    [2, 5, 2, 4],
    [9, 8, 2, 32],
    [3, 12, 4, 64],
    [2, 13, 3, 33],
    [2, 17, 1, 40],
    [1, 31, 2, 30],
    [2, 10, 1, 128],
    [0, 5, 2, 4],
    [3, 0, 2, 4],
];

/// The temperatures as `[B, h, 1]`.
pub(in crate::ops) fn by_head<'a, W: Element>(x: &View<'a, W>, batch: usize) -> Result<View<'a, W>, Rule> {
    let heads = x.dims().first().copied().unwrap_or(0);
    Ok(x.with_layout(x.layout().unsqueeze(1)?.broadcast_to([batch, heads, 1].into())?))
}

fn run<T: Element, W: Element<Acc = T::Acc>>(op: &CosineAttention, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith + Real,
{
    let (qkv, temperature) = (call.input::<T>(0)?, call.input::<W>(1)?);
    let (out, lse) = (call.output::<T>(0)?, call.output::<T::Acc>(1)?);
    if out.elements() == 0 {
        return Ok(());
    }
    let s = Sizes::of(out.layout().shape());
    let temperature = by_head(&temperature, s.batch)?;
    let (each, tasks) = s.tasks();
    let width = heads::forward_lines(&s) * LANES;
    let slots = Slots { data: &mut call.workspace::<T::Acc>()?[..tasks * width], each, width };
    call.parallel(
        (out, lse, slots),
        s.batch,
        each,
        #[inline(always)]
        |start, (out, lse, slots)| {
            let scratch = &mut slots.data[..width];
            dispatch(heads::Forward { s, start, eps: op.eps, qkv, temperature, out, lse, scratch });
        },
    );
    Ok(())
}
