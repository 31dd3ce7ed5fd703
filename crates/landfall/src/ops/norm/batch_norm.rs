//! Batch normalisation over all axes but the last, its gradient, and the update of running statistics.

mod cuda;

use super::layer_norm::{KEPT, affine_dtype, mixed_shapes, vjp};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::columns::{Columns, LINE};
use crate::kernel::cpu::lanes::{SavedStat, rows, saved_stat_dtype};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Chunks, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec};

op_list! { BatchNorm, BatchNormGrad }

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;
/// Partial column sums at most, which bounds the scratch memory for wide rows.
const CHUNKS: usize = 64;

/// Rows and columns of `x`.
fn sizes(x: &Shape) -> (usize, usize) {
    (x.without(x.rank().saturating_sub(1)).elements(), x.last())
}

/// Rows whose column sums are one partial result.
fn chunk_rows(n: usize, d: usize) -> usize {
    (GRAIN / d.max(1)).max(n.div_ceil(CHUNKS)).max(1)
}

fn chunks(n: usize, d: usize) -> usize {
    n.div_ceil(chunk_rows(n, d))
}

op_attributes! {
    /// Training-mode batch normalisation: `y = (x − mean)/√(variance + eps)·weight + bias` with the mean and the biased
    /// variance of each feature over all rows.
    ///
    /// `x`: `[.., d]`, `weight`, `bias`: `[d]`, of one float dtype, or weight and bias of the accumulation dtype. Results: `y` as `x`; `mean` and `variance` `[d]` in the
    /// accumulation dtype, kept for the gradient and for [`RunningUpdate`](crate::ops::norm::running_update::RunningUpdate). The variance is the mean square of the
    /// differences from the mean (two passes). Accumulation: f32 in tiles (f64 for f64), f64 over tiles. Disjoint.
    /// Gradient: [`BatchNormGrad`]; `mean` and `variance` carry none. Errors: `x` has an axis, `weight` and `bias` are
    /// `[d]`. Deterministic, whatever the number of threads. Source: Ioffe and Szegedy, "Batch Normalization" (2015).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([2, 1], &[1.0f64, 3.0])?;
    /// let (weight, bias) = (engine.tensor([1], &[2.0f64])?, engine.tensor([1], &[0.5f64])?);
    /// let (mut y, mut mean, mut variance) = (engine.empty(F64, [2, 1])?, engine.empty(F64, [1])?, engine.empty(F64, [1])?);
    /// let op = ops::BatchNorm { eps: 0.0 };
    /// engine.reserve(engine.workspace(&op, &[x.spec(), weight.spec(), bias.spec()])?)?;
    /// let inputs = [x.view(), weight.view(), bias.view()];
    /// engine.call(&op, &inputs, &mut [y.view_mut(), mean.view_mut(), variance.view_mut()])?;
    /// assert_eq!((y.read::<f64>()?, variance.read::<f64>()?), (vec![-1.5, 2.5], vec![1.0]));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct BatchNorm(x, weight, bias) {
        /// Added to the variance.
        pub eps: f64 = 1e-5,
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<BatchNorm>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let spec = g.spec(args[0]);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let x = wide(args[0])?;
    let axes: Vec<usize> = (0..spec.shape.rank().saturating_sub(1)).collect();
    let mean = g.mean(x, &axes)?;
    let centred = g.sub(x, mean)?;
    let variance = g.mean(g.mul(centred, centred)?, &axes)?;
    let rstd = g.rsqrt(g.affine(variance, 1.0, eps)?)?;
    let scaled = g.mul(g.mul(centred, rstd)?, wide(args[1])?)?;
    Ok(vec![g.cast(g.add(scaled, wide(args[2])?)?, spec.dtype)?, mean, variance])
}

impl Op for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
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
        let each = Spec::new(x.dtype.accumulate(), [x.shape.last()]);
        Ok([x, each, each].into())
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Keeping {
            rule: |op, cx| {
                let eps = attributes::<BatchNorm>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
                vjp(BatchNormGrad { eps }, cx)
            },
            kept: KEPT,
        }
    }
    fn mixing(&self) -> Mixing {
        // It rounds once, whatever the dtype of its weights.
        Mixing::BetweenProducts { operands: 1 }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("batch_norm", |op, call| {
                    let op = attributes::<BatchNorm>(op)?;
                    with_float!(call, 0, T, W as 1 => forward::<T, W>(op.eps, call))
                })
                .with_workspace(|_, args| {
                    let (n, d) = sizes(&args[0].shape);
                    (chunks(n, d) + 2) * d * size_of::<f64>()
                }),
                Kernel::cuda("batch_norm", cuda::forward).with_workspace(|_, args| cuda::workspace(&args[0])),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(8)
    }
}

impl Tested for BatchNorm {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let Ok(outputs) = self.infer(&[args[0].spec, args[1].spec, args[2].spec]) else { return Vec::new() };
        let (n, d) = sizes(&args[0].spec.shape);
        let x = &args[0].data;
        let column = |j: usize| (0..n).map(move |r| x[r * d + j]);
        let mean = HostTensor::from_fn(outputs[1], |j| column(j).sum::<f64>() / n as f64);
        let variance = HostTensor::from_fn(outputs[2], |j| {
            column(j).map(|v| (v - mean.data[j]).powi(2)).sum::<f64>() / n as f64
        });
        let y = HostTensor::from_fn(outputs[0], |i| {
            let j = i % d;
            (x[i] - mean.data[j]) / (variance.data[j] + self.eps).sqrt() * args[1].data[j] + args[2].data[j]
        });
        vec![y, mean, variance]
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |s: &Shape| {
            let w = [s.last()];
            vec![SampleArg::any(*s), SampleArg::range(w, 0.5, 1.5), SampleArg::any(w)]
        };
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(Self { eps: 1e-5 }, args(&s))).collect();
        all.push(Sample::new(Self { eps: 0.1 }, args(&[6, 16].into())));
        all.push(Sample::bad(Self { eps: f64::NAN }, args(&[6, 16].into()), "eps is NaN; it must be finite"));
        // A mean far from zero: E[x²] − E[x]² would lose the variance.
        let far = vec![SampleArg::range([90, 3], 20.0, 21.0), SampleArg::any([3]), SampleArg::any([3])];
        all.push(Sample::new(Self { eps: 1e-5 }, far));
        // Weights in f32 of rows in 16 bits, as mixed precision has them.
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
        all
    }
}

const SHAPES: &[&[usize]] =
    &[&[3, 5], &[4, 4], &[2, 3, 16], &[5, 1], &[0, 4], &[1300, 3], &[40, 300], &[6400, 8], &[3, 2, 7]];

op_attributes! {
    /// Gradient of [`BatchNorm`]: with `h = (x − mean)/√(variance + eps)` and `n` rows, `gbias = Σ gy`,
    /// `gweight = Σ gy·h` and `gx = weight/√(variance + eps)·(gy − gbias/n − h·gweight/n)`.
    ///
    /// `gy`, `x`: `[.., d]`, `weight`: `[d]`, of one float dtype, or the weight of the accumulation dtype; `mean`, `variance`: `[d]` in f32 or f64. Results: `gx` as
    /// `x`, `gweight` and `gbias` `[d]` as `weight`. Accumulation: f32 in tiles (f64 for f64), f64 over tiles. Disjoint. Gradient:
    /// through the body. Errors: dtypes or shapes that differ from these. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct BatchNormGrad(gy, x, weight, mean, variance) {
        /// Added to the variance.
        pub eps: f64 = 1e-5,
    }
}

impl Op for BatchNormGrad {
    fn name(&self) -> &'static str {
        "batch_norm_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 5] = rules::arity(self, args)?;
        rules::at_least_0("eps", self.eps)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        affine_dtype(&args, 0, 2)?;
        rules::same_shape(&args, 0, 1)?;
        let x = args[1];
        if x.shape.rank() == 0 {
            return Err(Rule::Rank { arg: 1, rank: 0, expected: "at least 1" });
        }
        for i in [2, 3, 4] {
            rules::shape(&args, i, [x.shape.last()])?;
        }
        saved_stat_dtype(&args, 3)?;
        saved_stat_dtype(&args, 4)?;
        Ok([x, args[2], args[2]].into())
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Fused(gradient_body)
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("batch_norm_grad", |op, call| {
                    let op = attributes::<BatchNormGrad>(op)?;
                    with_float!(call, 0, T, W as 2 => backward::<T, W>(op.eps, call))
                })
                .with_workspace(|_, args| {
                    let (n, d) = sizes(&args[1].shape);
                    chunks(n, d) * 2 * d * size_of::<f64>()
                }),
                Kernel::cuda("batch_norm_grad", cuda::backward)
                    .with_workspace(|_, args| cuda::workspace(&args[1])),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[1].shape.elements().saturating_mul(10)
    }
}

impl Tested for BatchNormGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let [gy, x, weight, mean, variance] = args else { return Vec::new() };
        let (n, d) = sizes(&x.spec.shape);
        let rstd = |j: usize| 1.0 / (variance.data[j] + self.eps).sqrt();
        let h = |i: usize| (x.data[i] - mean.data[i % d]) * rstd(i % d);
        let column = |j: usize| (0..n).map(move |r| r * d + j);
        let gbias = HostTensor::from_fn(weight.spec, |j| column(j).map(|i| gy.data[i]).sum());
        let gweight = HostTensor::from_fn(weight.spec, |j| column(j).map(|i| gy.data[i] * h(i)).sum());
        let gx = HostTensor::from_fn(x.spec, |i| {
            let (j, n) = (i % d, n as f64);
            weight.data[j] * rstd(j) * (gy.data[i] - gbias.data[j] / n - h(i) * gweight.data[j] / n)
        });
        vec![gx, gweight, gbias]
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |s: &Shape| {
            let w = [s.last()];
            let kept = |lo, hi| SampleArg::with(Some(DType::F32), w, Data::Range(lo, hi));
            vec![SampleArg::any(*s), SampleArg::any(*s), SampleArg::any(w), kept(-0.5, 0.5), kept(0.5, 2.0)]
        };
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(Self { eps: 1e-5 }, args(&s))).collect();
        for (half, shape) in mixed_shapes() {
            let mut mixed = args(&shape);
            for x in &mut mixed[..2] {
                *x = SampleArg::with(Some(half), shape, Data::Range(-2.0, 2.0));
            }
            mixed[2] = SampleArg::with(Some(DType::F32), [shape.last()], Data::Range(-1.0, 1.0));
            all.push(Sample::new(*self, mixed));
        }
        let mut bad = args(&[4, 8].into());
        bad[1] = SampleArg::any([4, 6]);
        all.push(Sample::bad(*self, bad, "their shapes must be equal"));
        let mut bad = args(&[4, 8].into());
        bad[3] = SampleArg::with(Some(DType::I32), [8], Data::Int(0, 2));
        all.push(Sample::bad(*self, bad, "it must be f32 or f64"));
        all
    }
}

/// The gradient in other ops.
fn gradient_body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<BatchNormGrad>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let (spec, weights) = (g.spec(args[1]), g.spec(args[2]).dtype);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let gy = wide(args[0])?;
    let rstd = g.rsqrt(g.affine(wide(args[4])?, 1.0, eps)?)?;
    let h = g.mul(g.sub(wide(args[1])?, wide(args[3])?)?, rstd)?;
    let axes: Vec<usize> = (0..spec.shape.rank().saturating_sub(1)).collect();
    let (gbias, gweight) = (g.sum(gy, &axes)?, g.sum(g.mul(gy, h)?, &axes)?);
    let mean = |sum| g.affine(sum, 1.0 / sizes(&spec.shape).0.max(1) as f64, 0.0);
    let rest = g.sub(g.sub(gy, mean(gbias)?)?, g.mul(h, mean(gweight)?)?)?;
    let gx = g.mul(g.mul(wide(args[2])?, rstd)?, rest)?;
    Ok(vec![g.cast(gx, spec.dtype)?, g.cast(gweight, weights)?, g.cast(gbias, weights)?])
}

/// Adds the partial results of chunks in order.
fn total(partial: &[f64], width: usize, out: &mut [f64]) {
    out.fill(0.0);
    for chunk in partial.chunks(width.max(1)) {
        for (o, v) in out.iter_mut().zip(chunk) {
            *o += v;
        }
    }
}

fn forward<T: Element, W: Element<Acc = T::Acc>>(eps: f64, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input::<T>(0)?.merge_outer();
    let (weight, bias) = (call.input::<W>(1)?, call.input::<W>(2)?);
    let (n, d) = sizes(x.layout().shape());
    let (y, cut) = rows(call.output::<T>(0)?, &[n, d]);
    let (mut mean, mut variance) = (call.output::<T::Acc>(1)?, call.output::<T::Acc>(2)?);
    let (each, count) = (chunk_rows(n, d), chunks(n, d));
    let (stats, partial) = call.workspace::<f64>()?.split_at_mut(2 * d);
    let (means, variances) = stats.split_at_mut(d);
    let partial = &mut partial[..count * d];
    // Sums of `term(x − centre)`: the values first, their squares then.
    let pass = |partial: &mut [f64], centre: Option<&[f64]>| {
        call.parallel(
            Chunks { data: partial, width: d },
            count,
            1,
            #[inline(always)]
            |first, part| {
                for (c, totals) in part.data.chunks_mut(d.max(1)).enumerate() {
                    totals.fill(0.0);
                    let from = (first + c) * each;
                    for columns in Columns::of(d) {
                        let centre = centre.map(|c| centres::<T::Acc>(columns, c));
                        let mut line = [T::Acc::default(); LINE];
                        columns.sums::<T::Acc, 1>(
                            (from, each.min(n - from)),
                            totals,
                            d,
                            |row, rows, [sum]| {
                                let len = rows * columns.count;
                                columns.load(&x, row, rows, &mut line);
                                let (line, sum) = (&line[..len], &mut sum[..len]);
                                match &centre {
                                    None => {
                                        for (s, &v) in sum.iter_mut().zip(line) {
                                            *s = *s + v;
                                        }
                                    }
                                    Some((high, low)) => {
                                        for (((s, &v), &high), &low) in
                                            sum.iter_mut().zip(line).zip(high).zip(low)
                                        {
                                            let v = v - high - low;
                                            *s = *s + v * v;
                                        }
                                    }
                                }
                            },
                        );
                    }
                }
            },
        );
    };
    for (centred, out) in [(false, &mut mean), (true, &mut variance)] {
        pass(partial, if centred { Some(means) } else { None });
        let target: &mut [f64] = if centred { variances } else { means };
        total(partial, d, target);
        for (j, t) in target.iter_mut().enumerate() {
            *t /= n as f64;
            out.set_flat(j, T::Acc::of_f64(*t));
        }
    }
    let (means, variances) = (&*means, &*variances);
    call.parallel(
        y,
        n,
        if cut { each } else { n },
        #[inline(always)]
        |start, mut part| {
            let rows_here = if cut { part.outer() } else { n };
            for columns in Columns::of(d) {
                let (high, low) = centres::<T::Acc>(columns, means);
                let scale =
                    columns.spread(|j| T::Acc::of_f64(weight.flat(j).to_f64() / (variances[j] + eps).sqrt()));
                let shift = columns.spread(|j| bias.flat(j).widen());
                let mut line = [T::Acc::default(); LINE];
                for row in (0..rows_here).step_by(columns.rows) {
                    let rows = columns.rows.min(rows_here - row);
                    columns.load(&x, start + row, rows, &mut line);
                    for ((((v, &high), &low), &scale), &shift) in
                        line.iter_mut().zip(&high).zip(&low).zip(&scale).zip(&shift)
                    {
                        *v = (*v - high - low) * scale + shift;
                    }
                    for (r, part_line) in line[..rows * columns.count].chunks(columns.count).enumerate() {
                        part.row_mut(row + r).narrow(columns.first, part_line);
                    }
                }
            }
        },
    );
    Ok(())
}

/// The mean over a line, and what rounding it leaves out: far from zero as much as the differences themselves.
#[inline(always)]
fn centres<A: Arith>(columns: Columns, mean: &[f64]) -> ([A; LINE], [A; LINE]) {
    let high = columns.spread(|j| A::of_f64(mean[j]));
    let low = columns.spread(|j| A::of_f64(mean[j] - A::of_f64(mean[j]).as_f64()));
    (high, low)
}

fn backward<T: Element, W: Element<Acc = T::Acc>>(eps: f64, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (gy, x) = (call.input::<T>(0)?.merge_outer(), call.input::<T>(1)?.merge_outer());
    let weight = call.input::<W>(2)?;
    let (mean, variance) = (SavedStat::of(call, 3)?, SavedStat::of(call, 4)?);
    let (n, d) = sizes(x.layout().shape());
    let (gx, cut) = rows(call.output::<T>(0)?, &[n, d]);
    let (mut gweight, mut gbias) = (call.output::<W>(1)?, call.output::<W>(2)?);
    let (each, count) = (chunk_rows(n, d), chunks(n, d));
    let partial = &mut call.workspace::<f64>()?[..count * 2 * d];
    let rstd = |j: usize| 1.0 / (variance.get::<f64>(j) + eps).sqrt();
    let statistics = |columns: Columns| {
        (columns.spread(|j| mean.get::<T::Acc>(j)), columns.spread(|j| T::Acc::of_f64(rstd(j))))
    };
    call.parallel(
        Chunks { data: partial, width: 2 * d },
        count,
        1,
        #[inline(always)]
        |first, part| {
            for (c, totals) in part.data.chunks_mut(2 * d.max(1)).enumerate() {
                totals.fill(0.0);
                let from = (first + c) * each;
                for columns in Columns::of(d) {
                    let (mean, rstd) = statistics(columns);
                    let (mut a, mut b) = ([T::Acc::default(); LINE], [T::Acc::default(); LINE]);
                    columns.sums::<T::Acc, 2>(
                        (from, each.min(n - from)),
                        totals,
                        d,
                        |row, rows, [sum_w, sum_b]| {
                            let len = rows * columns.count;
                            columns.load(&gy, row, rows, &mut a);
                            columns.load(&x, row, rows, &mut b);
                            let sums = sum_w[..len].iter_mut().zip(&mut sum_b[..len]);
                            for ((((sums, &g), &x), &mean), &rstd) in
                                sums.zip(&a).zip(&b).zip(&mean).zip(&rstd)
                            {
                                *sums.0 = *sums.0 + g * ((x - mean) * rstd);
                                *sums.1 = *sums.1 + g;
                            }
                        },
                    );
                }
            }
        },
    );
    // The first chunk's slot takes the totals.
    for j in 0..2 * d {
        let all = partial.get(j..).unwrap_or(&[]).iter().step_by(2 * d).sum::<f64>();
        if let Some(slot) = partial.get_mut(j) {
            *slot = all;
        }
        let out = if j < d { &mut gweight } else { &mut gbias };
        out.set_flat(j % d, W::from_f64(all));
    }
    let totals = &*partial;
    call.parallel(
        gx,
        n,
        if cut { each } else { n },
        #[inline(always)]
        |start, mut part| {
            let rows_here = if cut { part.outer() } else { n };
            for columns in Columns::of(d).filter(|_| rows_here > 0) {
                let (mean, rstd_line) = statistics(columns);
                let of_rows = |j: usize| T::Acc::of_f64(totals[j] / n as f64);
                let (along, level) = (columns.spread(of_rows), columns.spread(|j| of_rows(d + j)));
                let scale = columns.spread(|j| T::Acc::of_f64(weight.flat(j).to_f64() * rstd(j)));
                let (mut a, mut b) = ([T::Acc::default(); LINE], [T::Acc::default(); LINE]);
                for row in (0..rows_here).step_by(columns.rows) {
                    let rows = columns.rows.min(rows_here - row);
                    columns.load(&gy, start + row, rows, &mut a);
                    columns.load(&x, start + row, rows, &mut b);
                    for i in 0..LINE {
                        let h = (b[i] - mean[i]) * rstd_line[i];
                        b[i] = scale[i] * (a[i] - level[i] - h * along[i]);
                    }
                    for (r, line) in b[..rows * columns.count].chunks(columns.count).enumerate() {
                        part.row_mut(row + r).narrow(columns.first, line);
                    }
                }
            }
        },
    );
    Ok(())
}
