//! Gradient of scaled dot-product attention.

use crate::contract::{
    AttributeValue, Body, Data, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, arity,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::isa::{Real, dispatch};
use crate::kernel::cpu::lanes::{LANES, SavedStat, Slots, cut, saved_stat_dtype};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, ViewMut, with_float};
use crate::ops::attention::cpu_heads::{Gradient, gradient_lines};
use crate::ops::attention::cpu_tiles::{
    BATCH_PER_PANEL, Matrix, Sizes, add_rows, exponentials, load_lines, load_panel, over_keys, over_queries,
    rows, scores, store_rows,
};
use crate::ops::attention::forward::{SHAPES, check, cuda, score_shapes};
use crate::ops::attention::left_out;
use crate::ops::attention::masked::MaskedAttention;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, product};

op_list! { AttentionGrad }

op_attributes! {
    /// Gradient of [`Attention`](crate::ops::attention::forward::Attention). The scores `S` are computed again, tile by tile; then
    /// `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out)) (+ g_scores)`, `gq = scale·dS·k`, `gk = scale·dSᵀ·q`,
    /// `gv = Pᵀ·g_out` and, with `previous`, `g_prev = dS`.
    ///
    /// Arguments: `q`, `k`, `v`: `[B, N, h, e]`; with `previous` `prev`: `[B, h, N, N]`; `out`: `[B, N, h, e]`; `lse`:
    /// `[B, h, N]` in f32 or f64; `g_out`: `[B, N, h, e]`; with `score_cotangent` `g_scores`: `[B, h, N, N]`. All but `lse` of
    /// one float dtype and any strides. Results: `gq`, `gk`, `gv` as `q`; with `previous` `g_prev` as `prev`. Accumulation:
    /// f32 (f64 for f64) in tiles; sums over the keys, on the processor, in f64 over tiles. `g_prev` in place on `prev` or
    /// `g_scores`, else disjoint. Gradient: through the body. Errors: as the forward op. Deterministic, whatever the number of
    /// threads. Source: Dao et al., "FlashAttention" (2022), algorithm 4.
    #[derive(Debug, Clone, Copy)]
    pub struct AttentionGrad(q, k, v, prev if previous, out, lse, g_out, g_scores if score_cotangent) {
        /// Factor of the products, as in the forward pass.
        pub scale: f64 = 1.0 => (AttributeValue::None),
        /// Whether the scores of the layer before are an argument, and their gradient a result.
        pub previous: bool = false,
        /// Whether a cotangent of the scores is the last argument.
        pub score_cotangent: bool = false,
    }
}

impl AttentionGrad {
    /// Position of `out`; `lse`, `g_out` and `g_scores` follow.
    pub(in crate::ops) fn saved(&self) -> usize {
        3 + usize::from(self.previous)
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let op = *attributes::<AttentionGrad>(op).map_err(|r| r.of("attention_grad", &[], None, None))?;
    let dtype = g.spec(args[0]).dtype;
    // Scores that are added are what a mask of floats is.
    let forward = MaskedAttention { scale: op.scale, causal: false, mask: op.previous, lengths: false };
    let at = op.saved();
    let saved = [args[at], args[at + 1], args[at + 2]];
    let slopes = forward.pulled(g, &args[..at], saved, args.get(at + 3).copied())?;
    slopes[..at].iter().map(|&slope| g.cast(slope, dtype)).collect()
}

impl Op for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        check(args, self.previous)?;
        let (scores, rows) = score_shapes(&args[0].shape);
        let at = self.saved();
        for i in [at, at + 2] {
            rules::same_dtype(args, 0, i)?;
            rules::same_shape(args, 0, i)?;
        }
        saved_stat_dtype(args, at + 1)?;
        rules::shape(args, at + 1, rows)?;
        if self.score_cotangent {
            rules::same_dtype(args, 0, at + 3)?;
            rules::shape(args, at + 3, scores)?;
        }
        let q = args[0];
        Ok(if self.previous { [q, q, q, Spec { shape: scores, ..q }].into() } else { [q, q, q].into() })
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        match (self.previous, self.score_cotangent) {
            (false, _) => &[Output::FULL; 3],
            (true, false) => const { &[Output::FULL, Output::FULL, Output::FULL, Output::in_place(&[3])] },
            (true, true) => const { &[Output::FULL, Output::FULL, Output::FULL, Output::in_place(&[3, 7])] },
        }
    }
    fn independent(&self, args: &[Spec], outputs: &[Spec]) -> Option<Vec<usize>> {
        Some(vec![1; args.len() + outputs.len()])
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn accumulate(&self, dtype: DType) -> DType {
        // As of the forward op: weights and the slopes of scores are rounded.
        dtype
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("attention_grad", |op, call| {
                    let op = attributes::<AttentionGrad>(op)?;
                    with_float!(call, 0, T => run::<T>(op, call))
                })
                .with_workspace(|_, args| {
                    let s = Sizes::of(&args[0].shape);
                    product([s.tasks().1, slot(&s), args[0].dtype.accumulate().size()])
                }),
                Kernel::cuda("attention_grad", |op, call| cuda::attention_grad(op, call, None))
                    .with_workspace(cuda::own_grad_workspace),
                Kernel::cuda("attention_grad_head", |op, call| {
                    cuda::attention_grad(op, call, Some(cuda::Way::Head))
                })
                .accepting(|op, args| cuda::Way::Head.varies(op, args))
                .with_workspace(cuda::grad_workspace),
                Kernel::cuda("attention_grad_block", |op, call| {
                    cuda::attention_grad(op, call, Some(cuda::Way::Block))
                })
                .accepting(|op, args| cuda::Way::Block.varies(op, args))
                .with_workspace(cuda::grad_workspace),
                Kernel::cuda("attention_grad_rows", |op, call| {
                    cuda::attention_grad(op, call, Some(cuda::Way::Rows))
                })
                .accepting(|op, args| cuda::Way::Rows.varies(op, args))
                .with_workspace(cuda::grad_workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Five products; scale, difference, exponential, difference and product of each score.
        let scores = score_shapes(&args[0].shape).0.elements();
        Sizes::of(&args[0].shape).flops().saturating_mul(5).saturating_add(scores.saturating_mul(5))
    }
}

impl Tested for AttentionGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let Sizes { batch, n, heads, e, .. } = Sizes::of(&specs[0].shape);
        let at = |b: usize, i: usize, h: usize, c: usize| ((b * n + i) * heads + h) * e + c;
        let (q, k, v) = (&args[0].data, &args[1].data, &args[2].data);
        let [out, lse, g] = [0, 1, 2].map(|i| &args[self.saved() + i].data);
        let mut grads: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        for row in 0..batch * heads * n {
            let (b, h, i) = (row / n / heads, row / n % heads, row % n);
            let level: f64 = (0..e).map(|c| g[at(b, i, h, c)] * out[at(b, i, h, c)]).sum();
            for j in 0..n {
                let dot = |x: &[f64], y: &[f64]| -> f64 {
                    (0..e).map(|c| x[at(b, i, h, c)] * y[at(b, j, h, c)]).sum()
                };
                let previous = if self.previous { args[3].data[row * n + j] } else { 0.0 };
                let p = (self.scale * dot(q, k) + previous - lse[row]).exp();
                let mut ds = p * (dot(g, v) - level);
                if self.score_cotangent {
                    ds += args[self.saved() + 3].data[row * n + j];
                }
                for c in 0..e {
                    grads[0].data[at(b, i, h, c)] += self.scale * ds * k[at(b, j, h, c)];
                    grads[1].data[at(b, j, h, c)] += self.scale * ds * q[at(b, i, h, c)];
                    grads[2].data[at(b, j, h, c)] += p * g[at(b, i, h, c)];
                }
                if let Some(previous) = grads.get_mut(3) {
                    previous.data[row * n + j] = ds;
                }
            }
        }
        grads
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for &shape in SHAPES {
            for (previous, score_cotangent) in [(false, false), (true, false), (false, true), (true, true)] {
                let (scores, rows) = score_shapes(&shape.into());
                let small = || SampleArg::range(shape, -1.0, 1.0);
                let mut args = vec![small(), small(), small()];
                if previous {
                    args.push(SampleArg::range(scores, -1.0, 1.0));
                }
                args.push(small());
                args.push(SampleArg::with(Some(DType::F32), rows, Data::Range(1.0, 3.0)));
                args.push(small());
                if score_cotangent {
                    args.push(SampleArg::range(scores, -1.0, 1.0));
                }
                // As commonly: of many features the products are large.
                let scale = if shape[3] > 32 { 0.125 } else { 0.5 };
                all.push(Sample::new(Self { scale, previous, score_cotangent }, args));
            }
        }
        let any = SampleArg::any([2, 5, 2, 4]);
        all.push(Sample::bad(
            *self,
            vec![any.clone(); 5],
            "takes 6 arguments (q, k, v, out, lse, g_out), got 5",
        ));
        let mut bad = vec![any; 6];
        bad[4] = SampleArg::with(Some(DType::F32), [2, 2, 4], Data::Range(1.0, 3.0));
        all.push(Sample::bad(*self, bad, "arg 4 is [2, 2, 4]; it must be [2, 2, 5]"));
        all
    }
}

/// Elements of a task's scratch memory.
fn slot(s: &Sizes) -> usize {
    if s.heads_in_lanes() {
        return gradient_lines(s) * LANES;
    }
    2 * s.lines() + 2 * s.sums() + 3 * s.panel() + 2 * LANES * s.width + s.tile()
}

fn run<T: Element>(op: &AttentionGrad, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith + Real,
{
    let (q, k, v) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?);
    let at = op.saved();
    let (out, lse, g) = (call.input::<T>(at)?, SavedStat::of(call, at + 1)?, call.input::<T>(at + 2)?);
    let previous = if op.previous { call.input_or_in_place::<T>(3)? } else { None };
    let cotangent = if op.score_cotangent { call.input_or_in_place::<T>(at + 3)? } else { None };
    let (gq, gk, gv) = (call.output::<T>(0)?, call.output::<T>(1)?, call.output::<T>(2)?);
    let g_previous = if op.previous { Some(call.output::<T>(3)?) } else { None };
    let s = Sizes::of(q.layout().shape());
    if gq.elements() == 0 {
        return Ok(());
    }
    let (each, tasks) = s.tasks();
    let width = slot(&s);
    let slots = Slots { data: &mut call.workspace::<T::Acc>()?[..tasks * width], each, width };
    let scale = T::Acc::of_f64(op.scale);
    let (zero, one) = (T::Acc::default(), T::Acc::of_f64(1.0));
    call.parallel(
        (gq, gk, gv, (g_previous, slots)),
        s.batch,
        each,
        #[inline(always)]
        |start, (mut gq, mut gk, mut gv, rest)| {
            let (mut g_previous, slots) = rest;
            let mut rest = &mut slots.data[..width];
            if s.heads_in_lanes() {
                return dispatch(Gradient {
                    s,
                    start,
                    scale: op.scale,
                    q,
                    k,
                    v,
                    out,
                    lse,
                    g,
                    previous,
                    previous_in_place: op.previous,
                    cotangent,
                    cotangent_in_place: op.score_cotangent,
                    gq,
                    gk,
                    gv,
                    g_previous,
                    scratch: rest,
                });
            }
            // The padding, which nothing below writes.
            rest.fill(zero);
            let (keys, values) = (cut(&mut rest, s.lines()), cut(&mut rest, s.lines()));
            let (key_sums, value_sums) = (cut(&mut rest, s.sums()), cut(&mut rest, s.sums()));
            let (panel, outer) = (cut(&mut rest, s.panel()), cut(&mut rest, s.panel()));
            let kept = cut(&mut rest, s.panel());
            let (queries, slopes) = (cut(&mut rest, LANES * s.width), cut(&mut rest, LANES * s.width));
            let tile = cut(&mut rest, s.tile());
            for index in 0..gq.outer() * s.heads {
                let (b, head) = (index / s.heads, index % s.heads);
                let of = |layout| Matrix::features(layout, start + b, head);
                load_lines(&k, of(k.layout()), (0, s.n, s.e), one, keys, s.features);
                load_lines(&v, of(v.layout()), (0, s.n, s.e), one, values, s.features);
                key_sums.fill(zero);
                value_sums.fill(zero);
                let to = Matrix::features(gq.layout(), b, head);
                for (from, len) in s.panels() {
                    load_panel(&q, of(q.layout()), &s, (from, len), scale, panel);
                    load_panel(&g, of(g.layout()), &s, (from, len), one, outer);
                    load_panel(&out, of(out.layout()), &s, (from, len), one, kept);
                    if len < LANES {
                        queries.fill(zero);
                        slopes.fill(zero);
                    }
                    load_lines(&q, of(q.layout()), (from, len, s.e), scale, queries, s.width);
                    load_lines(&g, of(g.layout()), (from, len, s.e), one, slopes, s.width);
                    let first = ((start + b) * s.heads + head) * s.n + from;
                    let mut less = [zero; LANES];
                    for (lane, less) in less[..len].iter_mut().enumerate() {
                        *less = lse.get(first + lane);
                    }
                    scores(keys, panel, &s, tile);
                    if op.previous {
                        match (&previous, &g_previous) {
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
                    exponentials(tile, &less);
                    over_queries(tile, slopes, &s, value_sums);
                    slope(tile, values, outer, &levels(outer, kept), &s);
                    if op.score_cotangent {
                        match (&cotangent, &g_previous) {
                            (Some(c), _) => {
                                let m = Matrix::scores(c.layout(), start + b, head);
                                add_rows(c, m, &s, (from, len), tile);
                            }
                            (None, Some(own)) => {
                                let m = Matrix::scores(own.layout(), b, head);
                                add_rows(&own.read(), m, &s, (from, len), tile);
                            }
                            (None, None) => {}
                        }
                    }
                    if let Some(g_previous) = &mut g_previous {
                        let m = Matrix::scores(g_previous.layout(), b, head);
                        store_rows(tile, m, &s, (from, len), g_previous);
                    }
                    over_queries(tile, queries, &s, key_sums);
                    for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                        let part = over_keys(keys, c, &s, tile);
                        for (i, part) in part[..BATCH_PER_PANEL.min(s.e - c)].iter().enumerate() {
                            for (lane, &v) in part[..len].iter().enumerate() {
                                let v = T::Acc::of_f64(v * op.scale);
                                gq.data()[to.at(from + lane, c + i)] = T::narrow(v);
                            }
                        }
                    }
                }
                store_lines(key_sums, Matrix::features(gk.layout(), b, head), &s, &mut gk);
                store_lines(value_sums, Matrix::features(gv.layout(), b, head), &s, &mut gv);
            }
        },
    );
    Ok(())
}

/// `Σ_c outer[c][lane]·kept[c][lane]`, in f64.
#[inline(always)]
fn levels<A: Arith>(outer: &[A], kept: &[A]) -> [A; LANES] {
    let mut totals = [0.0; LANES];
    for (g, o) in outer.as_chunks::<LANES>().0.iter().zip(kept.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            totals[l] += g[l].as_f64() * o[l].as_f64();
        }
    }
    totals.map(A::of_f64)
}

/// Turns the weights of a tile into the gradient of its scores: `tile ← tile·(v·g − level)`, 0 past the last key.
#[inline(always)]
fn slope<A: Arith>(tile: &mut [A], values: &[A], outer: &[A], level: &[A; LANES], s: &Sizes) {
    let blocks =
        values.chunks_exact(BATCH_PER_PANEL * s.features).zip(tile.chunks_exact_mut(BATCH_PER_PANEL * LANES));
    for (values, tile) in blocks {
        let part = rows(values, s.features, outer, LANES);
        for (line, part) in tile.as_chunks_mut::<LANES>().0.iter_mut().zip(&part) {
            for l in 0..LANES {
                line[l] = line[l] * (part[l] - level[l]);
            }
        }
    }
}

/// Rounds lines of sums into the rows of a matrix.
#[inline(always)]
fn store_lines<T: Element>(sums: &[T::Acc], m: Matrix, s: &Sizes, out: &mut ViewMut<'_, T>) {
    for (row, line) in sums.chunks_exact(s.width).take(s.n).enumerate() {
        for (c, &v) in line[..s.e].iter().enumerate() {
            out.data()[m.at(row, c)] = T::narrow(v);
        }
    }
}
