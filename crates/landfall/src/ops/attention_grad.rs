//! Gradient of scaled dot-product attention.

use super::attention::{SHAPES, check, score_shapes};
use super::attention_tile::{
    Matrix, Queries, Sizes, add_rows, block, cut, dots, exponentials, gather, pack, scores, store_rows,
    unpack,
};
use super::lanes::{Kept, LANES, Slots, kept_dtype};
use super::{
    Alias, Body, Cost, Coverage, Data, Grad, Kernel, Op, Outputs, Sample, SampleArg, attributes, rules,
};
use crate::codegen::tile::Arith;
use crate::cpu::Call;
use crate::device::DeviceKind;
use crate::error::Rule;
use crate::host::HostTensor;
use crate::shape::Spec;
use crate::{DType, Element, with_dtype};

/// Gradient of [`Attention`](super::Attention). The scores `S` are computed again, tile by tile; then
/// `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out)) (+ g_scores)`, `gq = scale·dS·k`, `gk = scale·dSᵀ·q`,
/// `gv = Pᵀ·g_out` and, with `previous`, `g_prev = dS`.
///
/// Arguments: `q`, `k`, `v`: `[B, N, h, e]`; with `previous` `prev`: `[B, h, N, N]`; `out`: `[B, N, h, e]`; `lse`:
/// `[B, h, N]` in f32 or f64; `g_out`: `[B, N, h, e]`; with `score_cotangent` `g_scores`: `[B, h, N, N]`. All but
/// `lse` of one float dtype and any strides. Results: `gq`, `gk`, `gv` as `q`; with `previous` `g_prev` as `prev`.
/// Accumulation: f32 (f64 for f64) in tiles; sums over the keys in f64 over tiles. `g_prev` in place on `prev` or
/// `g_scores`, else disjoint. No second derivatives. Errors: as the forward op. Deterministic, whatever the number
/// of threads. Source: Dao et al., "FlashAttention" (2022), algorithm 4.
#[derive(Debug, Clone, Copy)]
pub struct AttentionGrad {
    /// Factor of the products.
    pub scale: f64,
    /// Whether the scores of the layer before are an argument, and their gradient a result.
    pub previous: bool,
    /// Whether a cotangent of the scores is the last argument.
    pub score_cotangent: bool,
}

impl Default for AttentionGrad {
    fn default() -> Self {
        Self { scale: 0.5, previous: false, score_cotangent: false }
    }
}

impl AttentionGrad {
    /// Position of `out`; `lse`, `g_out` and `g_scores` follow.
    fn saved(&self) -> usize {
        3 + usize::from(self.previous)
    }
}

impl Op for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let expected = self.saved() + 3 + usize::from(self.score_cotangent);
        if args.len() != expected {
            return Err(Rule::Arity { expected, got: args.len() });
        }
        check(args, self.previous)?;
        let (scores, rows) = score_shapes(&args[0].shape);
        let at = self.saved();
        for i in [at, at + 2] {
            rules::same_dtype(args, 0, i)?;
            rules::same_shape(args, 0, i)?;
        }
        kept_dtype(args, at + 1)?;
        rules::shape(args, at + 1, rows)?;
        if self.score_cotangent {
            rules::same_dtype(args, 0, at + 3)?;
            rules::shape(args, at + 3, scores)?;
        }
        let q = args[0];
        Ok(if self.previous { [q, q, q, Spec { shape: scores, ..q }].into() } else { [q, q, q].into() })
    }
    fn alias(&self) -> &[Alias] {
        match (self.previous, self.score_cotangent) {
            (false, _) => &[Alias::Disjoint; 3],
            (true, false) => &[Alias::Disjoint, Alias::Disjoint, Alias::Disjoint, Alias::InPlace(&[3])],
            (true, true) => &[Alias::Disjoint, Alias::Disjoint, Alias::Disjoint, Alias::InPlace(&[3, 7])],
        }
    }
    fn coverage(&self) -> &[Coverage] {
        if self.previous { &[Coverage::Full; 4] } else { &[Coverage::Full; 3] }
    }
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    fn body(&self) -> Body {
        Body::Opaque("its results share one pass over tiles of scores that are never stored")
    }
    fn vjp(&self) -> Grad {
        Grad::None("second derivatives are not provided")
    }
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
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[Kernel {
                workspace: |_, args| {
                    let s = Sizes::of(&args[0].shape);
                    s.tasks().1 * slot(&s) * args[0].dtype.accumulate().size()
                },
                ..Kernel::cpu("attention_grad", |op, call| {
                    let (op, dtype) = (attributes::<AttentionGrad>(op)?, call.dtype(0)?);
                    with_dtype!(float dtype, T => run::<T>(op, call),
                        else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }))
                })
            }]
        }
    }
    fn cost(&self, args: &[Spec]) -> Cost {
        let Ok(outputs) = self.infer(args) else { return Cost::default() };
        // Five products; scale, difference, exponential, difference and product of each score.
        let scores = score_shapes(&args[0].shape).0.elements();
        let flops = Sizes::of(&args[0].shape).flops().saturating_mul(5);
        Cost::of(args, &outputs, flops.saturating_add(scores.saturating_mul(5)))
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
                all.push(Sample::new(Self { scale: 0.5, previous, score_cotangent }, args));
            }
        }
        let any = SampleArg::any([2, 5, 2, 4]);
        all.push(Sample::bad(*self, vec![any.clone(); 5], "takes 6 arguments, got 5"));
        let mut bad = vec![any; 6];
        bad[4] = SampleArg::with(Some(DType::F32), [2, 2, 4], Data::Range(1.0, 3.0));
        all.push(Sample::bad(*self, bad, "arg 4 is [2, 2, 4]; it must be [2, 2, 5]"));
        all
    }
}

/// Elements of a task's scratch memory.
fn slot(s: &Sizes) -> usize {
    4 * s.panels() + 4 * s.queries() + s.scores() + s.room() + 2 * s.rows
}

fn run<T: Element>(op: &AttentionGrad, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (q, k, v) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?);
    let at = op.saved();
    let (out, lse, g) = (call.input::<T>(at)?, Kept::of(call, at + 1)?, call.input::<T>(at + 2)?);
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
            // The padding, which nothing below writes.
            rest.fill(zero);
            let (keys, values) = (cut(&mut rest, s.panels()), cut(&mut rest, s.panels()));
            let (key_sums, value_sums) = (cut(&mut rest, s.panels()), cut(&mut rest, s.panels()));
            let mut queries =
                Queries { lines: cut(&mut rest, s.queries()), turned: cut(&mut rest, s.queries()) };
            let mut outer =
                Queries { lines: cut(&mut rest, s.queries()), turned: cut(&mut rest, s.queries()) };
            let (tile, levels) = (cut(&mut rest, s.scores()), cut(&mut rest, s.rows));
            let (less, room) = (cut(&mut rest, s.rows), cut(&mut rest, s.room()));
            for index in 0..gq.outer() * s.heads {
                let (b, head) = (index / s.heads, index % s.heads);
                let of = |layout| Matrix::features(layout, start + b, head);
                pack(&k, of(k.layout()), &s, keys);
                pack(&v, of(v.layout()), &s, values);
                key_sums.fill(zero);
                value_sums.fill(zero);
                for from in (0..s.n).step_by(s.rows) {
                    let len = s.rows.min(s.n - from);
                    queries.load(&q, of(q.layout()), &s, (from, len), scale);
                    outer.load(&g, of(g.layout()), &s, (from, len), one);
                    levels.fill(zero);
                    less.fill(zero);
                    let kept = of(out.layout());
                    let first = ((start + b) * s.heads + head) * s.n + from;
                    for r in 0..len {
                        let mut level = 0.0;
                        for (c, g) in outer.lines[r * s.features..][..s.e].iter().enumerate() {
                            level += g.as_f64() * out.data()[kept.at(from + r, c)].to_f64();
                        }
                        levels[r] = T::Acc::of_f64(level);
                        less[r] = lse.get(first + r);
                    }
                    scores(queries.turned, keys, &s, tile);
                    if op.previous {
                        match (&previous, &g_previous) {
                            (Some(p), _) => {
                                add_rows(
                                    p,
                                    Matrix::scores(p.layout(), start + b, head),
                                    &s,
                                    (from, len),
                                    tile,
                                );
                            }
                            (None, Some(own)) => {
                                let m = Matrix::scores(own.layout(), b, head);
                                add_rows(&own.read(), m, &s, (from, len), tile);
                            }
                            (None, None) => {}
                        }
                    }
                    exponentials(tile, less, &s);
                    gather(tile, outer.lines, &s, value_sums);
                    slopes(tile, outer.turned, values, levels, &s);
                    if op.score_cotangent {
                        match (&cotangent, &g_previous) {
                            (Some(c), _) => {
                                add_rows(
                                    c,
                                    Matrix::scores(c.layout(), start + b, head),
                                    &s,
                                    (from, len),
                                    tile,
                                );
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
                    gather(tile, queries.lines, &s, key_sums);
                    let to = Matrix::features(gq.layout(), b, head);
                    dots(tile, keys, &s, len, room, |r, c, part| {
                        for (i, v) in part[..4.min(s.e - c)].iter().enumerate() {
                            gq.data()[to.at(from + r, c + i)] = T::narrow(T::Acc::of_f64(v * op.scale));
                        }
                    });
                }
                let (to_k, to_v) =
                    (Matrix::features(gk.layout(), b, head), Matrix::features(gv.layout(), b, head));
                unpack(key_sums, to_k, &s, &mut gk);
                unpack(value_sums, to_v, &s, &mut gv);
            }
        },
    );
    Ok(())
}

/// Turns the weights of a tile into the gradient of its scores: `tile ← tile·(g·vᵀ − level)`.
#[inline(always)]
fn slopes<A: Arith>(tile: &mut [A], turned: &[A], values: &[A], levels: &[A], s: &Sizes) {
    for (panel, tile) in values.chunks_exact(s.features * LANES).zip(tile.chunks_exact_mut(s.rows * LANES)) {
        for (r, tile) in (0..s.rows).step_by(4).zip(tile.chunks_exact_mut(4 * LANES)) {
            let part = block(turned, s.rows, r, panel);
            for ((line, part), &level) in tile.chunks_exact_mut(LANES).zip(&part).zip(&levels[r..r + 4]) {
                for l in 0..LANES {
                    line[l] = line[l] * (part[l] - level);
                }
            }
        }
    }
}
