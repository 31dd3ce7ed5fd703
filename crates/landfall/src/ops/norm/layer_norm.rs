//! Layer normalisation over the last axis, and its gradient.

mod apart;
pub(in crate::ops) mod cuda;

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{SavedStat, Slots, TILE, rows, saved_stat_dtype, sum};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Row, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Keep, Rule, Shape, Spec};
use std::ops::Range;
use std::sync::Arc;

op_list! { LayerNorm, LayerNormGrad, LayerNormGradRows, LayerNormGradSums }
pub use apart::{LayerNormGradRows, LayerNormGradSums};

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;
/// Rows whose column sums run in the accumulation dtype before they are added to f64 totals.
const BLOCK: usize = 32;
/// Partial column sums at most, which bounds the scratch memory for wide rows.
const CHUNKS: usize = 64;

/// Rows and columns of `x`.
fn sizes(x: &Shape) -> (usize, usize) {
    (x.without(x.rank().saturating_sub(1)).elements(), x.last())
}

op_attributes! {
    /// `y = (x − mean)·rstd·weight + bias` over the last axis, `rstd = 1/√(variance + eps)`, population variance.
    ///
    /// `x`: `[.., d]`, `weight`, `bias`: `[d]`, of one float dtype, or weight and bias of the accumulation dtype. Results: `y` as
    /// `x`; `mean` and `rstd` `[..]` in the accumulation dtype, kept for the gradient. The variance is the mean square of the differences from the mean (two
    /// passes). Accumulation: f32 in tiles (f64 for f64), f64 over tiles. `y` in place on `x`. Gradient:
    /// [`LayerNormGrad`]; that of `mean` and `rstd` through the body. Errors: `x` has an axis, `weight` and `bias` are `[d]`.
    /// Deterministic, whatever the number of threads. Source: Ba, Kiros and Hinton, "Layer Normalization" (2016).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([1, 2], &[1.0f64, 3.0])?;
    /// let (weight, bias) = (engine.tensor([2], &[1.0f64, 1.0])?, engine.tensor([2], &[0.0f64, 0.0])?);
    /// let (mut y, mut mean, mut rstd) = (engine.empty(F64, [1, 2])?, engine.empty(F64, [1])?, engine.empty(F64, [1])?);
    /// let op = ops::LayerNorm { eps: 0.0 };
    /// let inputs = [x.view(), weight.view(), bias.view()];
    /// engine.call(&op, &inputs, &mut [y.view_mut(), mean.view_mut(), rstd.view_mut()])?;
    /// assert_eq!((y.read::<f64>()?, mean.read::<f64>()?), (vec![-1.0, 1.0], vec![2.0]));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct LayerNorm(x, weight, bias) {
        /// Added to the variance.
        pub eps: f64 = 1e-5,
    }
}

/// Checks that weight or bias `arg` has the dtype of `x`, or the dtype that `x` is accumulated in.
pub(in crate::ops) fn affine_dtype(args: &[Spec], x: usize, arg: usize) -> Result<(), Rule> {
    if args[arg].dtype == args[x].dtype.accumulate() { Ok(()) } else { rules::same_dtype(args, x, arg) }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<LayerNorm>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let spec = g.spec(args[0]);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let (x, axis) = (wide(args[0])?, spec.shape.rank().saturating_sub(1));
    let keep = |v| g.reshape(v, spec.shape.with(axis, 1));
    let mean = g.mean(x, [axis])?;
    let centred = g.sub(x, keep(mean)?)?;
    let variance = g.mean(g.mul(centred, centred)?, [axis])?;
    let rstd = g.rsqrt(g.affine(variance, 1.0, eps)?)?;
    let scaled = g.mul(g.mul(centred, keep(rstd)?)?, wide(args[1])?)?;
    Ok(vec![g.cast(g.add(scaled, wide(args[2])?)?, spec.dtype)?, mean, rstd])
}

/// The results of a normalisation that are kept for its gradient: the statistics.
pub(in crate::ops) const KEPT: &[usize] = &[1, 2];

/// The gradient of a normalisation: its first output's cotangent through `op`, with the statistics.
pub(in crate::ops) fn vjp(op: impl Op, cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let c = cx.cotangent()?;
    let back = cx.graph.op(op, &[c, cx.inputs[0], cx.inputs[1], cx.outputs[1], cx.outputs[2]])?;
    Ok(back.into_iter().map(Some).collect())
}

impl Op for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::at_least_0("eps", self.eps)?;
        rules::float(&args, &[0])?;
        let x = args[0];
        if x.shape.rank() == 0 {
            return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" });
        }
        for i in [1, 2] {
            affine_dtype(&args, 0, i)?;
            rules::shape(&args, i, [x.shape.last()])?;
        }
        rules::same_dtype(&args, 1, 2)?;
        let each = Spec { dtype: x.dtype.accumulate(), shape: x.shape.without(x.shape.rank() - 1) };
        Ok([x, each, each].into())
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0]), Output::FULL, Output::FULL] }
    }
    fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
        let rows = args[0].shape.rank() - 1;
        Some(vec![rows, 0, 0, rows, rows, rows])
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Keeping { rule: |_, cx| vjp(LayerNormGrad, cx), kept: KEPT }
    }
    fn mixing(&self) -> Mixing {
        // It rounds once, whatever the dtype of its weights.
        Mixing::BetweenProducts { operands: 1 }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("layer_norm", |op, call| {
                    let op = attributes::<LayerNorm>(op)?;
                    with_float!(call, 0, T, W as 1 => forward::<T, W>(op.eps, call))
                }),
                Kernel::cuda("layer_norm", cuda::forward),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Sum, difference, square, sum, difference, two products, sum.
        args[0].shape.elements().saturating_mul(8)
    }
}

impl Tested for LayerNorm {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let Ok(outputs) = self.infer(&[args[0].spec, args[1].spec, args[2].spec]) else { return Vec::new() };
        let d = args[0].spec.shape.last();
        let row = |r: usize| &args[0].data[r * d..(r + 1) * d];
        let mean = HostTensor::from_fn(outputs[1], |r| row(r).iter().sum::<f64>() / d as f64);
        let rstd = HostTensor::from_fn(outputs[2], |r| {
            let squares: f64 = row(r).iter().map(|v| (v - mean.data[r]).powi(2)).sum();
            1.0 / (squares / d as f64 + self.eps).sqrt()
        });
        let y = HostTensor::from_fn(outputs[0], |i| {
            let (r, j) = (i / d, i % d);
            (args[0].data[i] - mean.data[r]) * rstd.data[r] * args[1].data[j] + args[2].data[j]
        });
        vec![y, mean, rstd]
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |s: &Shape| {
            let w = [s.last()];
            vec![SampleArg::any(*s), SampleArg::range(w, 0.5, 1.5), SampleArg::any(w)]
        };
        let mut all: Vec<Sample> = SHAPES
            .iter()
            .filter_map(|s| Shape::new(s))
            .map(|s| Sample::new(Self { eps: 1e-5 }, args(&s)))
            .collect();
        all.push(Sample::new(Self { eps: 0.1 }, args(&[6, 16].into())));
        all.push(Sample::bad(
            Self { eps: -1.0 },
            args(&[6, 16].into()),
            "eps is -1; it must be finite and at least 0",
        ));
        // A mean far from zero: E[x²] − E[x]² would lose the variance.
        let far = vec![SampleArg::range([5, 64], 20.0, 21.0), SampleArg::any([64]), SampleArg::any([64])];
        all.push(Sample::new(Self { eps: 1e-5 }, far));
        // Weights in f32 of rows in 16 bits, as mixed precision has them: whole units, and others.
        for (half, shape) in mixed_shapes() {
            let mut mixed = args(&shape);
            mixed[0] = SampleArg::with(Some(half), shape, Data::Range(-2.0, 2.0));
            mixed[1] = SampleArg::with(Some(DType::F32), [shape.last()], Data::Range(0.5, 1.5));
            mixed[2] = SampleArg::with(Some(DType::F32), [shape.last()], Data::Range(-1.0, 1.0));
            all.push(Sample::new(Self { eps: 1e-5 }, mixed));
        }
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4, 8]), SampleArg::any([6]), SampleArg::any([8])],
            "arg 1 is [6]; it must be [8]",
        ));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([]), SampleArg::any([1]), SampleArg::any([1])],
            "arg 0 has rank 0; it must be at least 1",
        ));
        let other = SampleArg::with(Some(DType::Bool), [8], Data::Int(0, 2));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4, 8]), SampleArg::any([8]), other],
            "their dtypes must be equal",
        ));
        all
    }
}

const SHAPES: &[&[usize]] = &[
    &[8],
    &[1, 1],
    &[3, 5],
    &[4, 4],
    &[2, 3, 16],
    &[0, 8],
    &[70, 33],
    &[5, 1300],
    &[700, 64],
    &[3, 2, 7],
    &[9, 512],
    // The widest row that a warp holds; and more rows than the blocks of one launch take at once.
    &[9, 1024],
    &[102_000, 8],
];

op_attributes! {
    /// Gradient of [`LayerNorm`]: with `h = (x − mean)·rstd` and `g = gy·weight` in each row,
    /// `gx = rstd·(g − mean(g) − h·mean(g·h))`, `gweight = Σ gy·h` and `gbias = Σ gy` over all rows.
    ///
    /// `gy`, `x`: `[.., d]`, `weight`: `[d]`, of one float dtype, or the weight of the accumulation dtype; `mean`, `rstd`: `[..]`
    /// in f32 or f64. Results: `gx` as `x`, `gweight` and `gbias` `[d]` as `weight`. Accumulation: f32 in tiles (f64 for f64), f64 over tiles. Disjoint.
    /// Gradient: through the body. Errors: dtypes or shapes that differ from these. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct LayerNormGrad(gy, x, weight, mean, rstd);
}

impl Op for LayerNormGrad {
    fn name(&self) -> &'static str {
        "layer_norm_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 5] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        affine_dtype(&args, 0, 2)?;
        rules::same_shape(&args, 0, 1)?;
        let x = args[1];
        if x.shape.rank() == 0 {
            return Err(Rule::Rank { arg: 1, rank: 0, expected: "at least 1" });
        }
        rules::shape(&args, 2, [x.shape.last()])?;
        for i in [3, 4] {
            saved_stat_dtype(&args, i)?;
            rules::shape(&args, i, x.shape.without(x.shape.rank() - 1))?;
        }
        Ok([x, args[2], args[2]].into())
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Fused(|_, g, args| gradient_body(g, args))
    }
    fn apart(&self) -> Vec<(Arc<dyn Op>, Range<usize>)> {
        vec![(Arc::new(LayerNormGradRows), 0..1), (Arc::new(LayerNormGradSums), 1..3)]
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu(
                    "layer_norm_grad",
                    |_, call| with_float!(call, 0, T, W as 2 => backward::<T, W>(call)),
                )
                .with_workspace(|_, args| {
                    let (rows, d) = sizes(&args[1].shape);
                    rows.div_ceil(chunk_rows(rows, d)) * 2 * d * size_of::<f64>()
                }),
                Kernel::cuda("layer_norm_grad", cuda::backward)
                    .with_workspace(|_, args| cuda::workspace(&args[1])),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[1].shape.elements().saturating_mul(14)
    }
}

impl Tested for LayerNormGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let [gy, x, weight, mean, rstd] = args else { return Vec::new() };
        let d = weight.data.len();
        let h = |i: usize| (x.data[i] - mean.data[i / d]) * rstd.data[i / d];
        let g = |i: usize| gy.data[i] * weight.data[i % d];
        let mut out = [x, weight, weight].map(|t| HostTensor::from_fn(t.spec, |_| 0.0));
        for r in 0..mean.data.len() {
            let row = || r * d..(r + 1) * d;
            let mean_g = row().map(g).sum::<f64>() / d as f64;
            let mean_gh = row().map(|i| g(i) * h(i)).sum::<f64>() / d as f64;
            for i in row() {
                out[0].data[i] = rstd.data[r] * (g(i) - mean_g - h(i) * mean_gh);
                out[1].data[i % d] += gy.data[i] * h(i);
                out[2].data[i % d] += gy.data[i];
            }
        }
        out.to_vec()
    }
    fn samples(&self) -> Vec<Sample> {
        grad_samples(*self)
    }
}

/// Calls of an op that takes the arguments of the gradient.
fn grad_samples(op: impl Tested + Clone) -> Vec<Sample> {
    let mut all = Vec::new();
    for shape in SHAPES.iter().filter_map(|s| Shape::new(s)) {
        all.push(Sample::new(op.clone(), grad_args(&shape)));
    }
    for (half, shape) in mixed_shapes() {
        let mut mixed = grad_args(&shape);
        for x in &mut mixed[..2] {
            *x = SampleArg::with(Some(half), shape, Data::Range(-2.0, 2.0));
        }
        mixed[2] = SampleArg::with(Some(DType::F32), [shape.last()], Data::Range(-1.0, 1.0));
        all.push(Sample::new(op.clone(), mixed));
    }
    let mut bad = grad_args(&[4, 8].into());
    bad[1] = SampleArg::any([4, 6]);
    all.push(Sample::bad(op, bad, "their shapes must be equal"));
    all
}

/// The gradient in other ops.
fn gradient_body(g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let (spec, weights) = (g.spec(args[1]), g.spec(args[2]).dtype);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let axis = spec.shape.rank().saturating_sub(1);
    let each = |v| g.reshape(wide(v)?, spec.shape.with(axis, 1));
    let (gy, rstd) = (wide(args[0])?, each(args[4])?);
    let h = g.mul(g.sub(wide(args[1])?, each(args[3])?)?, rstd)?;
    let scaled = g.mul(gy, wide(args[2])?)?;
    let along = g.mul(h, g.mean(g.mul(scaled, h)?, Keep(axis))?)?;
    let gx = g.mul(rstd, g.sub(g.sub(scaled, g.mean(scaled, Keep(axis))?)?, along)?)?;
    let rows: Vec<usize> = (0..axis).collect();
    let gweight = g.sum(g.mul(gy, h)?, &rows)?;
    Ok(vec![g.cast(gx, spec.dtype)?, g.cast(gweight, weights)?, g.cast(g.sum(gy, &rows)?, weights)?])
}

/// Rows in 16 bits whose weight is in f32.
pub(super) fn mixed_shapes() -> impl Iterator<Item = (DType, Shape)> {
    [(DType::BF16, [6, 64]), (DType::F16, [70, 24]), (DType::BF16, [5, 33])]
        .map(|(d, s)| (d, s.into()))
        .into_iter()
}

/// Arguments of the gradient for an `x` of this shape.
fn grad_args(s: &Shape) -> Vec<SampleArg> {
    let each = s.without(s.rank() - 1);
    let kept = |lo, hi| SampleArg::with(Some(DType::F32), each, Data::Range(lo, hi));
    vec![SampleArg::any(*s), SampleArg::any(*s), SampleArg::any([s.last()]), kept(-0.5, 0.5), kept(0.5, 2.0)]
}

fn forward<T: Element, W: Element<Acc = T::Acc>>(eps: f64, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input_or_in_place::<T>(0)?;
    let (weight, bias) = (call.input::<W>(1)?.row(0), call.input::<W>(2)?.row(0));
    let y = call.output::<T>(0)?;
    let (n, d) = sizes(y.layout().shape());
    let (y, cut_y) = rows(y, &[n, d]);
    let (mean, cut_mean) = rows(call.output::<T::Acc>(1)?, &[n]);
    let (rstd, cut_rstd) = rows(call.output::<T::Acc>(2)?, &[n]);
    let grain = if cut_y && cut_mean && cut_rstd { (GRAIN / d.max(1)).max(1) } else { n };
    let x = x.map(|x| x.merge_outer());
    call.parallel(
        (y, mean, rstd),
        n,
        grain,
        #[inline(always)]
        |start, (mut y, mut mean, mut rstd)| {
            let mut tile = [T::Acc::default(); TILE];
            let (mut w, mut b) = (tile, tile);
            let wide = d > TILE;
            if !wide {
                weight.widen(0, &mut w[..d]);
                bias.widen(0, &mut b[..d]);
            }
            for r in 0..mean.elements() {
                let mut out = y.row_mut(r);
                let read = |from: usize, own: Row<'_, T>, tile: &mut [T::Acc]| match &x {
                    Some(x) => x.row(start + r).widen(from, tile),
                    None => own.widen(from, tile),
                };
                let mut total = 0.0;
                for from in (0..d).step_by(TILE) {
                    let tile = &mut tile[..TILE.min(d - from)];
                    read(from, out.read(), tile);
                    total += sum(tile, |v| v).as_f64();
                }
                // The mean is rounded: the differences from it sum to what rounding left out, which counts where the mean is
                // far from zero.
                let centre = T::Acc::of_f64(total / d as f64);
                let (mut left, mut squares) = (0.0, 0.0);
                for from in (0..d).step_by(TILE) {
                    let tile = &mut tile[..TILE.min(d - from)];
                    if wide {
                        read(from, out.read(), tile);
                    }
                    left += sum(tile, |v| v - centre).as_f64();
                    squares += sum(tile, |v| (v - centre) * (v - centre)).as_f64();
                }
                let left = left / d as f64;
                let scale = T::Acc::of_f64(1.0 / (squares / d as f64 - left * left + eps).sqrt());
                let rest = T::Acc::of_f64(left);
                for from in (0..d).step_by(TILE) {
                    let len = TILE.min(d - from);
                    let tile = &mut tile[..len];
                    if wide {
                        read(from, out.read(), tile);
                        weight.widen(from, &mut w[..len]);
                        bias.widen(from, &mut b[..len]);
                    }
                    for ((v, &w), &b) in tile.iter_mut().zip(&w[..len]).zip(&b[..len]) {
                        *v = (*v - centre - rest) * scale * w + b;
                    }
                    out.narrow(from, tile);
                }
                mean.set_flat(r, centre);
                rstd.set_flat(r, scale);
            }
        },
    );
    Ok(())
}

/// Rows whose column sums are one partial result: a task's worth, more where that would make too many.
fn chunk_rows(rows: usize, d: usize) -> usize {
    (GRAIN / d.max(1)).max(rows.div_ceil(CHUNKS)).max(1).next_multiple_of(BLOCK)
}

/// A row's part of the gradient, saved between the two passes over a block.
#[derive(Clone, Copy, Default)]
struct RowSums<A> {
    mean: A,
    rstd: A,
    mean_g: A,
    mean_gh: A,
}

fn backward<T: Element, W: Element<Acc = T::Acc>>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (gy, x) = (call.input::<T>(0)?.merge_outer(), call.input::<T>(1)?.merge_outer());
    let weight = call.input::<W>(2)?.row(0);
    let (mean, rstd) = (SavedStat::of(call, 3)?, SavedStat::of(call, 4)?);
    let (n, d) = sizes(x.layout().shape());
    let (gx, cut) = rows(call.output::<T>(0)?, &[n, d]);
    let (mut gweight, mut gbias) = (call.output::<W>(1)?, call.output::<W>(2)?);
    let each = chunk_rows(n, d);
    let partial = &mut call.workspace::<f64>()?[..n.div_ceil(each) * 2 * d];
    let slots = Slots { data: partial, each, width: 2 * d };
    call.parallel(
        (gx, slots),
        n,
        if cut { each } else { n },
        #[inline(always)]
        |start, (mut gx, slots)| {
            let count = if cut { gx.outer() } else { n };
            let (mut a, mut b, mut w) =
                ([T::Acc::default(); TILE], [T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            let mut sums = [RowSums::default(); BLOCK];
            slots.data.fill(0.0);
            for from in (0..count).step_by(BLOCK) {
                let len = BLOCK.min(count - from);
                let totals = from / each * 2 * d;
                let (total_w, total_b) = slots.data[totals..totals + 2 * d].split_at_mut(d);
                for (r, s) in sums[..len].iter_mut().enumerate() {
                    let row = start + from + r;
                    (s.mean, s.rstd) = (mean.get(row), rstd.get(row));
                    let (mut g_sum, mut gh_sum) = (0.0, 0.0);
                    for col in (0..d).step_by(TILE) {
                        let cols = TILE.min(d - col);
                        let (a, b, w) = (&mut a[..cols], &mut b[..cols], &mut w[..cols]);
                        gy.row(row).widen(col, a);
                        x.row(row).widen(col, b);
                        weight.widen(col, w);
                        for ((g, h), &w) in a.iter_mut().zip(&mut *b).zip(&*w) {
                            *g = *g * w;
                            *h = *g * ((*h - s.mean) * s.rstd);
                        }
                        g_sum += sum(a, |v| v).as_f64();
                        gh_sum += sum(b, |v| v).as_f64();
                    }
                    s.mean_g = T::Acc::of_f64(g_sum / d as f64);
                    s.mean_gh = T::Acc::of_f64(gh_sum / d as f64);
                }
                for col in (0..d).step_by(TILE) {
                    let cols = TILE.min(d - col);
                    let (a, b, w) = (&mut a[..cols], &mut b[..cols], &mut w[..cols]);
                    weight.widen(col, w);
                    let (mut sum_w, mut sum_b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
                    for (r, s) in sums[..len].iter().enumerate() {
                        let row = start + from + r;
                        gy.row(row).widen(col, a);
                        x.row(row).widen(col, b);
                        let together =
                            a.iter().zip(&mut *b).zip(&*w).zip(&mut sum_w[..cols]).zip(&mut sum_b[..cols]);
                        for ((((&g, x), &w), sum_w), sum_b) in together {
                            let h = (*x - s.mean) * s.rstd;
                            *x = s.rstd * (g * w - s.mean_g - h * s.mean_gh);
                            *sum_w = *sum_w + g * h;
                            *sum_b = *sum_b + g;
                        }
                        gx.row_mut(from + r).narrow(col, b);
                    }
                    for (total, sum) in [(&mut *total_w, &sum_w), (&mut *total_b, &sum_b)] {
                        for (t, s) in total[col..col + cols].iter_mut().zip(sum) {
                            *t += s.as_f64();
                        }
                    }
                }
            }
        },
    );
    for j in 0..d {
        let total = |first: usize| partial[first..].iter().step_by(2 * d).sum::<f64>();
        let (w, b) = if partial.is_empty() { (0.0, 0.0) } else { (total(j), total(d + j)) };
        gweight.set_flat(j, W::from_f64(w));
        gbias.set_flat(j, W::from_f64(b));
    }
    Ok(())
}
