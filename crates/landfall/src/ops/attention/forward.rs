//! Scaled dot-product attention with residual scores.

pub(in crate::ops) mod cuda;

use crate::contract::{
    AttributeValue, Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested,
    Value, Vjp, arity, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::isa::{Real, dispatch};
use crate::kernel::cpu::lanes::{LANES, Slots, cut};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, with_float};
use crate::ops::attention::cpu_heads::{Forward, forward_lines};
use crate::ops::attention::cpu_tiles::{
    BATCH_PER_PANEL, Matrix, Sizes, add_rows, exponentials, largest, load_lines, load_panel, over_keys,
    scores, store_rows, sums,
};
use crate::ops::attention::grad::AttentionGrad;
use crate::ops::attention::left_out;
use crate::ops::reduce::softmax::Softmax;
use crate::values::{DType, DeviceKind, Element, HostTensor, Math, Rule, Shape, Spec, product};

op_list! { Attention }

op_attributes! {
    /// `out = softmax(S)·v` over the keys, `S = scale·q·kᵀ (+ prev)`, for each batch entry and head.
    ///
    /// `q`, `k`, `v`: `[B, N, h, e]` of one float dtype and any strides (views of one projection, say); with `previous`
    /// also `prev`: `[B, h, N, N]`, the scores of the layer before (residual attention). Results: `out` `[B, N, h, e]`;
    /// `lse` `[B, h, N]`, the logarithm of each row's sum of exponentials, in the accumulation dtype, kept for the
    /// gradient; with `emit_scores` `S` `[B, h, N, N]`, rounded once, the next layer's `prev`. Accumulation: f32 (f64 for
    /// f64); on the processor over more than 512 keys in f64; on a GPU the weights of 16-bit floats are rounded before they are
    /// multiplied. `S` in place on `prev`, else disjoint. Gradient:
    /// [`AttentionGrad`], which computes the scores again; that of `lse` through the body. A row whose scores are all −∞ is NaN.
    /// Errors: rank 4, equal shapes and dtypes. Deterministic, whatever the number of threads. Sources: Vaswani et al.,
    /// "Attention Is All You Need" (2017); He et al., "RealFormer" (2021); Dao et al., "FlashAttention" (2022).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let q = engine.tensor([1, 2, 1, 1], &[0.0f64, 0.0])?;
    /// let v = engine.tensor([1, 2, 1, 1], &[1.0f64, 3.0])?;
    /// let (mut out, mut lse) = (engine.empty(F64, [1, 2, 1, 1])?, engine.empty(F64, [1, 1, 2])?);
    /// let op = ops::Attention { scale: 1.0, previous: false, emit_scores: false };
    /// engine.reserve(engine.workspace(&op, &[q.spec(); 3])?)?;
    /// engine.call(&op, &[q.view(), q.view(), v.view()], &mut [out.view_mut(), lse.view_mut()])?;
    /// assert!(out.read::<f64>()?.iter().all(|o| (o - 2.0).abs() < 1e-12));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Attention(q, k, v, prev if previous) {
        /// Factor of the products; `1/√e` where a call by name leaves it out.
        pub scale: f64 = 1.0 => (AttributeValue::None),
        /// Whether the scores of the layer before are a fourth argument.
        pub previous: bool = false,
        /// Whether the scores are a third result.
        pub emit_scores: bool = false,
    }
}

/// `[B, h, N, N]` and `[B, h, N]` of `[B, N, h, e]`.
pub(in crate::ops) fn score_shapes(q: &Shape) -> (Shape, Shape) {
    let s = Sizes::of(q);
    ([s.batch, s.heads, s.n, s.n].into(), [s.batch, s.heads, s.n].into())
}

/// Checks `q`, `k`, `v` and, where there is one, `prev`.
pub(in crate::ops) fn check(args: &[Spec], previous: bool) -> Result<(), Rule> {
    rules::float(args, &[0])?;
    let rank = args[0].shape.rank();
    if rank != 4 {
        return Err(Rule::Rank { arg: 0, rank, expected: "4: [batch, tokens, heads, features]" });
    }
    for i in [1, 2] {
        rules::same_dtype(args, 0, i)?;
        rules::same_shape(args, 0, i)?;
    }
    if previous {
        rules::same_dtype(args, 0, 3)?;
        rules::shape(args, 3, score_shapes(&args[0].shape).0)?;
    }
    Ok(())
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let op = attributes::<Attention>(op).map_err(|r| r.of("attention", &[], None, None))?;
    let dtype = g.spec(args[0]).dtype;
    let wide = |v| g.cast(v, dtype.accumulate());
    let heads = |v| g.permute(wide(v)?, &[0, 2, 1, 3]);
    let (q, k, v) = (heads(args[0])?, heads(args[1])?, heads(args[2])?);
    let mut scores = g.affine(g.matmul(q, g.transpose(k)?)?, op.scale, 0.0)?;
    if let (true, Some(&previous)) = (op.previous, args.get(3)) {
        scores = g.add(scores, wide(previous)?)?;
    }
    let weights = g.op1(Softmax { axis: 3 }, &[scores])?;
    let out = g.permute(g.matmul(weights, v)?, &[0, 2, 1, 3])?;
    let max = g.max(scores, [3])?;
    let kept = g.reshape(max, g.shape(scores).with(3, 1))?;
    let sum = g.sum(g.exp(g.sub(scores, kept)?)?, [3])?;
    let mut outputs = vec![g.cast(out, dtype)?, g.add(max, g.ln(sum)?)?];
    if op.emit_scores {
        outputs.push(g.cast(scores, dtype)?);
    }
    Ok(outputs)
}

fn vjp(op: &dyn Op, cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let fail = |rule: Rule| Error::from(rule.of("attention", &[], None, None));
    let op = attributes::<Attention>(op).map_err(fail)?;
    let [out, _, scores @ ..] = cx.cotangents else {
        return Err(fail(Rule::Outputs { expected: 2, got: cx.cotangents.len() }));
    };
    let spec = cx.graph.spec(cx.outputs[0]);
    let out = match *out {
        Some(c) => c,
        // Only the scores are used.
        None => cx.graph.fill(spec.dtype, spec.shape, 0.0)?,
    };
    let mut args = cx.inputs.to_vec();
    args.extend([cx.outputs[0], cx.outputs[1], out]);
    let scores = scores.first().copied().flatten();
    args.extend(scores);
    let grad = AttentionGrad { scale: op.scale, previous: op.previous, score_cotangent: scores.is_some() };
    Ok(cx.graph.op(grad, &args)?.into_iter().map(Some).collect())
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        check(args, self.previous)?;
        let (scores, rows) = score_shapes(&args[0].shape);
        let (out, lse) = (args[0], Spec { dtype: args[0].dtype.accumulate(), shape: rows });
        Ok(if self.emit_scores {
            [out, lse, Spec { shape: scores, ..out }].into()
        } else {
            [out, lse].into()
        })
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        match (self.emit_scores, self.previous) {
            (false, _) => &[Output::FULL; 2],
            (true, false) => &[Output::FULL; 3],
            (true, true) => const { &[Output::FULL, Output::FULL, Output::in_place(&[3])] },
        }
    }
    fn independent(&self, args: &[Spec], outputs: &[Spec]) -> Option<Vec<usize>> {
        // Of the first axis: the heads of a batch entry lie interleaved.
        Some(vec![1; args.len() + outputs.len()])
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Keeping { rule: vjp, kept: &[1] }
    }
    fn accumulate(&self, dtype: DType) -> DType {
        // On tensor cores weights are rounded to 16 bits before they are multiplied; sums run in f32.
        dtype
    }
    fn mixing(&self) -> Mixing {
        Mixing::Product { operands: usize::MAX }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("attention", |op, call| {
                    let op = attributes::<Attention>(op)?;
                    with_float!(call, 0, T => run::<T>(op, call))
                })
                .with_workspace(|_, args| {
                    let s = Sizes::of(&args[0].shape);
                    product([s.tasks().1, slot(&s), args[0].dtype.accumulate().size()])
                }),
                Kernel::cuda("attention", |op, call| cuda::attention(op, call, None)),
                Kernel::cuda("attention_head", |op, call| cuda::attention(op, call, Some(cuda::Way::Head)))
                    .accepting(|op, args| cuda::Way::Head.varies(op, args)),
                Kernel::cuda("attention_block", |op, call| cuda::attention(op, call, Some(cuda::Way::Block)))
                    .accepting(|op, args| cuda::Way::Block.varies(op, args)),
                Kernel::cuda("attention_rows", |op, call| cuda::attention(op, call, Some(cuda::Way::Rows)))
                    .accepting(|op, args| cuda::Way::Rows.varies(op, args)),
            ]
        }
    }
    fn flops(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // Two products; scale, maximum, difference, exponential and sum of each score.
        let rows = outputs[1].shape.elements().saturating_mul(args[0].shape.dims()[1]);
        Sizes::of(&args[0].shape).flops().saturating_mul(2).saturating_add(rows.saturating_mul(5))
    }
}

impl Tested for Attention {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let Sizes { batch, n, heads, e, .. } = Sizes::of(&specs[0].shape);
        let at = |b: usize, i: usize, h: usize, c: usize| ((b * n + i) * heads + h) * e + c;
        let mut out: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        for row in 0..batch * heads * n {
            let (b, h, i) = (row / n / heads, row / n % heads, row % n);
            let score = |j: usize| {
                let dot: f64 =
                    (0..e).map(|c| args[0].data[at(b, i, h, c)] * args[1].data[at(b, j, h, c)]).sum();
                self.scale * dot + if self.previous { args[3].data[row * n + j] } else { 0.0 }
            };
            let s: Vec<f64> = (0..n).map(score).collect();
            let max = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = s.iter().map(|s| (s - max).exp()).sum();
            for c in 0..e {
                out[0].data[at(b, i, h, c)] =
                    (0..n).map(|j| (s[j] - max).exp() / sum * args[2].data[at(b, j, h, c)]).sum();
            }
            out[1].data[row] = max + sum.ln();
            if let Some(scores) = out.get_mut(2) {
                scores.data[row * n..(row + 1) * n].copy_from_slice(&s);
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for &shape in SHAPES {
            for (previous, emit_scores) in [(false, false), (true, false), (false, true), (true, true)] {
                // Of many features and keys the scores would be large, and their rounding with them.
                let most = match shape[1].min(shape[3]) {
                    0..=35 => 2.0,
                    36..=127 => 1.0,
                    _ => 0.5,
                };
                let scale = if emit_scores { 0.5 } else { 0.25 };
                // Averages of many values in f32 are off by more of their units than of few; long heads matter in 16 bits.
                let long = [Some(DType::BF16), Some(DType::F16)];
                for &dtype in if shape[1].min(shape[3]) >= 128 { &long[..] } else { &[None] } {
                    let of =
                        |shape: Shape, most: f64| SampleArg::with(dtype, shape, Data::Range(-most, most));
                    let mut args = vec![of(shape.into(), most); 3];
                    if previous {
                        args.push(of(score_shapes(&shape.into()).0, 2.0));
                    }
                    all.push(Sample::new(Self { scale, previous, emit_scores }, args));
                }
            }
        }
        let any = SampleArg::any([2, 5, 2, 4]);
        all.push(Sample::bad(
            *self,
            vec![any.clone(), any.clone(), SampleArg::any([2, 6, 2, 4])],
            "their shapes must be equal",
        ));
        all.push(Sample::bad(*self, vec![SampleArg::any([5, 2, 4]); 3], "arg 0 has rank 3; it must be 4"));
        all.push(Sample::bad(
            Self { previous: true, ..*self },
            vec![any.clone(), any.clone(), any.clone(), SampleArg::any([2, 2, 5, 4])],
            "arg 3 is [2, 2, 5, 4]; it must be [2, 2, 5, 5]",
        ));
        all.push(Sample::bad(*self, vec![any.clone(), any.clone()], "takes 3 arguments (q, k, v), got 2"));
        let other = SampleArg::with(Some(DType::I32), [2, 5, 2, 4], Data::Int(0, 2));
        all.push(Sample::bad(*self, vec![any.clone(), any, other], "their dtypes must be equal"));
        all
    }
}

/// Shapes `[B, N, h, e]` of samples: few keys, whole panels, tails, several tiles, wide and very wide heads, few tokens with
/// wide heads, nothing, sixteen heads at a time and some, a head of middle size; for tensor cores the most tokens, features that
/// are no multiple of eight, one and several warps a head, and neighbouring heads.
pub(in crate::ops) const SHAPES: &[[usize; 4]] = &[
    [1, 1, 1, 1],
    [2, 5, 2, 4],
    [3, 4, 4, 3],
    [2, 16, 1, 8],
    [1, 42, 2, 4],
    [2, 33, 1, 17],
    [1, 300, 1, 2],
    [2, 150, 2, 64],
    [1, 131, 1, 128],
    [1, 35, 1, 70],
    [3, 12, 2, 64],
    [2, 3, 3, 22],
    [0, 5, 2, 4],
    [5, 64, 2, 8],
    [5, 42, 4, 4],
    [9, 42, 2, 3],
    [1, 64, 1, 64],
    [1, 128, 1, 32],
    [2, 50, 3, 20],
    [5, 6, 4, 16],
    [1, 42, 16, 8],
];

/// Elements of a task's scratch memory.
fn slot(s: &Sizes) -> usize {
    if s.heads_in_lanes() { forward_lines(s) * LANES } else { 2 * s.lines() + s.panel() + s.tile() }
}

fn run<T: Element>(op: &Attention, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith + Real,
{
    let (q, k, v) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?);
    let previous = if op.previous { call.input_or_in_place::<T>(3)? } else { None };
    let (out, lse) = (call.output::<T>(0)?, call.output::<T::Acc>(1)?);
    let emitted = if op.emit_scores { Some(call.output::<T>(2)?) } else { None };
    let s = Sizes::of(q.layout().shape());
    if out.elements() == 0 {
        return Ok(());
    }
    let (each, tasks) = s.tasks();
    let width = slot(&s);
    let slots = Slots { data: &mut call.workspace::<T::Acc>()?[..tasks * width], each, width };
    let (scale, one) = (T::Acc::of_f64(op.scale), T::Acc::of_f64(1.0));
    call.parallel(
        (out, lse, emitted, slots),
        s.batch,
        each,
        #[inline(always)]
        |start, (mut out, mut lse, mut emitted, slots)| {
            let mut rest = &mut slots.data[..width];
            if s.heads_in_lanes() {
                return dispatch(Forward {
                    s,
                    start,
                    scale: op.scale,
                    q,
                    k,
                    v,
                    previous,
                    in_place: op.previous,
                    out,
                    lse,
                    emitted,
                    scratch: rest,
                });
            }
            // The padding, which nothing below writes.
            rest.fill(T::Acc::default());
            let (keys, values) = (cut(&mut rest, s.lines()), cut(&mut rest, s.lines()));
            let (panel, tile) = (cut(&mut rest, s.panel()), cut(&mut rest, s.tile()));
            for index in 0..out.outer() * s.heads {
                let (b, head) = (index / s.heads, index % s.heads);
                let of = |layout| Matrix::features(layout, start + b, head);
                load_lines(&k, of(k.layout()), (0, s.n, s.e), one, keys, s.features);
                load_lines(&v, of(v.layout()), (0, s.n, s.e), one, values, s.features);
                let (to, rows) =
                    (Matrix::features(out.layout(), b, head), Matrix::scores(lse.layout(), b, head));
                for (from, len) in s.panels() {
                    load_panel(&q, of(q.layout()), &s, (from, len), scale, panel);
                    scores(keys, panel, &s, tile);
                    if op.previous {
                        match (&previous, &emitted) {
                            (Some(p), _) => {
                                let m = Matrix::scores(p.layout(), start + b, head);
                                add_rows(p, m, &s, (from, len), tile);
                            }
                            (None, Some(own)) => {
                                let m = Matrix::scores(own.layout(), b, head);
                                add_rows(&own.read(), m, &s, (from, len), tile);
                            }
                            (None, None) => {}
                        }
                    }
                    if let Some(emitted) = &mut emitted {
                        let m = Matrix::scores(emitted.layout(), b, head);
                        store_rows(tile, m, &s, (from, len), emitted);
                    }
                    let top = largest(tile);
                    exponentials(tile, &top);
                    let sum = sums(tile);
                    let (mut level, mut inverse) = ([0.0; LANES], [T::Acc::default(); LANES]);
                    for l in 0..LANES {
                        level[l] = top[l].as_f64() + Math::ln(sum[l]);
                    }
                    for l in 0..LANES {
                        inverse[l] = T::Acc::of_f64(1.0 / sum[l]);
                    }
                    for (lane, &level) in level[..len].iter().enumerate() {
                        lse.data()[rows.at(from + lane, 0)] = T::Acc::of_f64(level);
                    }
                    for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                        let part = over_keys(values, c, &s, tile);
                        for (i, part) in part[..BATCH_PER_PANEL.min(s.e - c)].iter().enumerate() {
                            for (lane, &v) in part[..len].iter().enumerate() {
                                let v = T::Acc::of_f64(v) * inverse[lane];
                                out.data()[to.at(from + lane, c + i)] = T::narrow(v);
                            }
                        }
                    }
                }
            }
        },
    );
    Ok(())
}
