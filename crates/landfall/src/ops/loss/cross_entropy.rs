//! Cross-entropy of logits with class labels, and its gradient.

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, op_attributes,
    rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{TILE, flat};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Chunks, View, with_float};
use crate::ops::reduce::softmax;
use crate::ops::reduce::softmax::{Exponentials, exponentials, row, rows};
use crate::values::{DType, DeviceKind, Element, HostTensor, Keep, Math, Rule, Shape, Spec};

op_list! { CrossEntropy, CrossEntropyGrad }

/// Elements whose rows' sum is one partial result.
const CHUNK: usize = 16 * 1024;

op_attributes! {
    /// Mean cross-entropy: `out = (1/rows) Σ_r (ln Σ_k exp(logits[r, k]) − logits[r, labels[r]])`.
    ///
    /// `logits`: `[.., K]`, float, K at least 1; `labels`: `i64 [..]`, each in `0..K`; result a scalar of the logits'
    /// dtype in nats, NaN over no rows. The maximum of a row is taken off first, and the label's exponential is summed
    /// apart from the others, so that neither large logits overflow nor the small loss of a likely label cancels.
    /// Accumulation: exponentials in f32 in tiles (f64 for f64), f64 over tiles and rows. Disjoint. Gradient:
    /// [`CrossEntropyGrad`], to the logits; labels carry none. A label out of range is clamped, and the next read on the
    /// host returns `Error::Index` with the position of the first. Errors: another dtype or shape, K of 0. Deterministic,
    /// whatever the number of threads. Source: Bridle, "Probabilistic Interpretation of Feedforward Classification Network
    /// Outputs" (1990).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let logits = engine.tensor([1, 2], &[3.0f64, 3.0])?;
    /// let labels = engine.tensor([1], &[1i64])?;
    /// let mut out = engine.empty(F64, [])?;
    /// engine.reserve(engine.workspace(&ops::CrossEntropy, &[logits.spec(), labels.spec()])?)?;
    /// engine.call(&ops::CrossEntropy, &[logits.view(), labels.view()], &mut [out.view_mut()])?;
    /// assert!((out.read::<f64>()?[0] - 2f64.ln()).abs() < 1e-15);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct CrossEntropy(logits, labels);
}

op_attributes! {
    /// Gradient of [`CrossEntropy`] to the logits:
    /// `out[r, k] = (exp(logits[r, k]) / Σ_j exp(logits[r, j]) − [k = labels[r]]) · cotangent / rows`.
    ///
    /// `logits`: `[.., K]`, float, K at least 1; `labels`: `i64 [..]`; `cotangent`: a scalar of the logits' dtype; result
    /// as the logits. At the label it is computed as less the sum of the other exponentials, which does not cancel.
    /// The sums are made again: for rows of a tile that costs no more exponentials than sums kept by the forward pass.
    /// Arithmetic in the accumulation dtype, rounded once. In place on `logits`. Gradient: through the body. Labels out of range
    /// and errors as [`CrossEntropy`]. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct CrossEntropyGrad(logits, labels, cotangent);
}

/// Checks the logits and the labels.
fn check(args: &[Spec]) -> Result<(), Rule> {
    rules::float(args, &[0])?;
    rules::dtype(args, 1, DType::I64)?;
    let shape = args[0].shape;
    let Some(axis) = shape.rank().checked_sub(1) else {
        return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" });
    };
    rules::shape(args, 1, shape.without(axis))?;
    if shape.last() == 0 {
        return Err(Rule::Attribute { name: "the number of classes", value: 0.0, expected: "at least 1" });
    }
    Ok(())
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        check(&args)?;
        Ok(Outputs::one(Spec { shape: Shape::SCALAR, ..args[0] }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("its labels lie on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let args = [cx.inputs[0], cx.inputs[1], cx.cotangent()?];
            Ok(vec![Some(cx.graph.op1(CrossEntropyGrad, &args)?), None])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("cross_entropy", |_, call| with_float!(call, 0, T => forward::<T>(call)))
                    .with_workspace(|_, args| {
                        let k = args[0].shape.last();
                        args[1].shape.elements().div_ceil(chunk_rows(k)) * size_of::<f64>()
                    }),
                Kernel::cuda("cross_entropy", softmax::cross_entropy).with_workspace(softmax::loss_workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Maximum, difference, exponential, sum.
        args[0].shape.elements().saturating_mul(4)
    }
}

impl Tested for CrossEntropy {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, labels) = (&args[0].data, &args[1].data);
        let k = args[0].spec.shape.last();
        let loss = |(x, &label): (&[f64], &f64)| {
            let label = label.clamp(0.0, (k - 1) as f64) as usize;
            let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // The sum less 1, of which the largest element's part is left out and not taken off.
            let first = x.iter().position(|&v| v == top);
            let rest: f64 = (0..k).filter(|&j| Some(j) != first).map(|j| (x[j] - top).exp()).sum();
            top - x[label] + rest.ln_1p()
        };
        let total: f64 = x.chunks(k).zip(labels).map(loss).sum();
        let spec = Spec { shape: Shape::SCALAR, ..args[0].spec };
        vec![HostTensor::from_fn(spec, |_| total / labels.len() as f64)]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = arguments().into_iter().map(|args| Sample::new(*self, args)).collect();
        let any = || SampleArg::any([4, 8]);
        let labels = |dtype, n: usize| SampleArg::with(Some(dtype), [n], Data::Int(0, 2));
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![any(), labels(DType::I64, 8)], "arg 1 is [8]; it must be [4]"),
            bad(vec![any(), labels(DType::I32, 4)], "arg 1 is i32; it must be i64"),
            bad(vec![labels(DType::I64, 4), labels(DType::I64, 4)], "it must be f32, f64, bf16 or f16"),
            bad(
                vec![SampleArg::any([]), SampleArg::with(Some(DType::I64), [], Data::Int(0, 1))],
                "arg 0 has rank 0; it must be at least 1",
            ),
            bad(
                vec![SampleArg::any([4, 0]), labels(DType::I64, 4)],
                "the number of classes is 0; it must be at least 1",
            ),
            bad(vec![any()], "takes 2 arguments (logits, labels), got 1"),
        ]);
        all
    }
}

impl Op for CrossEntropyGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        check(&args)?;
        rules::same_dtype(&args, 0, 2)?;
        rules::shape(&args, 2, Shape::SCALAR)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Fused(|_, g, args| gradient_body(g, args))
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("cross_entropy_grad", |_, call| with_float!(call, 0, T => backward::<T>(call))),
                Kernel::cuda("cross_entropy_grad", softmax::cross_entropy_grad),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Maximum, difference, exponential, sum, quotient.
        args[0].shape.elements().saturating_mul(5)
    }
}

/// The gradient in other ops.
fn gradient_body(g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let spec = g.spec(args[0]);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let (classes, rows) = (spec.shape.last(), g.shape(args[1]).elements().max(1));
    let labels = g.reshape(args[1], spec.shape.with(spec.shape.rank() - 1, 1))?;
    let own = g.equal(labels, g.arange(DType::I64, 0.0, 1.0, classes)?)?;
    let probabilities = g.softmax(wide(args[0])?, -1)?;
    // Of the label less the sum of the others: 1 taken off a probability near 1 cancels.
    let others = g.sum(g.masked_fill(probabilities, own, 0.0)?, Keep(-1))?;
    let slope = g.select(own, g.neg(others)?, probabilities)?;
    let slope = g.mul(slope, g.affine(wide(args[2])?, 1.0 / rows as f64, 0.0)?)?;
    Ok(vec![g.cast(slope, spec.dtype)?])
}

impl Tested for CrossEntropyGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, labels, c) = (&args[0].data, &args[1].data, args[2].data[0]);
        let k = args[0].spec.shape.last();
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let (r, j) = (i / k, i % k);
            let label = labels[r].clamp(0.0, (k - 1) as f64) as usize;
            let row = &x[r * k..][..k];
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e = |j: usize| (row[j] - max).exp();
            let others: f64 = (0..k).filter(|&j| j != label).map(e).sum();
            let slope = if j == label { -others } else { e(j) };
            slope / (others + e(label)) * c / labels.len() as f64
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let with = |mut args: Vec<SampleArg>| {
            args.push(SampleArg::range([], 1.0, 3.0));
            args
        };
        let mut all: Vec<Sample> =
            arguments().into_iter().map(|args| Sample::new(*self, with(args))).collect();
        let labels = |n: usize| SampleArg::with(Some(DType::I64), [n], Data::Int(0, 2));
        all.push(Sample::bad(
            *self,
            with(vec![SampleArg::any([4, 8]), labels(3)]),
            "arg 1 is [3]; it must be [4]",
        ));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4, 8]), labels(4), SampleArg::any([1])],
            "arg 2 is [1]; it must be []",
        ));
        all
    }
}

/// Logits and labels of samples: one class, tails, several tiles, rows longer than a block holds, several chunks, several
/// axes, no rows; a wide range; labels that are all but certain.
fn arguments() -> Vec<Vec<SampleArg>> {
    let shapes: &[&[usize]] = &[
        &[7],
        &[1],
        &[0, 3],
        &[5, 1],
        &[3, 5],
        &[4, 4],
        &[2, 3, 17],
        &[3, 2, 0, 4],
        &[2, 512],
        &[3, 1300],
        &[2, 2100],
        &[1200, 42],
    ];
    let labels = |shape: &Shape| {
        let each = shape.without(shape.rank() - 1);
        SampleArg::with(Some(DType::I64), each, Data::Int(0, shape.last() as i64))
    };
    let shapes = shapes.iter().filter_map(|s| Shape::new(s));
    let mut all: Vec<Vec<SampleArg>> =
        shapes.map(|s| vec![SampleArg::range(s, -6.0, 6.0), labels(&s)]).collect();
    all.push(vec![SampleArg::with(None, [6, 40], Data::Wide), labels(&[6, 40].into())]);
    let certain = Data::Exact(vec![20.0, 0.0, 1.0, -2.0, 0.5, 16.0]);
    let chosen = SampleArg::with(Some(DType::I64), [2], Data::Exact(vec![0.0, 2.0]));
    all.push(vec![SampleArg::with(None, [2, 3], certain), chosen]);
    all
}

/// Rows of one partial result.
fn chunk_rows(k: usize) -> usize {
    (CHUNK / k).max(1)
}

/// The labels, the first outside of `0..k` reported.
fn labels<'a>(call: &Call<'a>, k: usize) -> Result<View<'a, i64>, Rule> {
    let labels = flat(&call.input::<i64>(1)?);
    let outside = (0..labels.elements()).find(|&i| !(0..k as i64).contains(&labels.flat(i)));
    if let Some(i) = outside {
        call.flag(i, labels.flat(i), k);
    }
    Ok(labels)
}

/// The label of row `i`, clamped.
#[inline(always)]
fn label(labels: &View<'_, i64>, i: usize, k: usize) -> usize {
    labels.flat(i).clamp(0, k as i64 - 1) as usize
}

/// `ln(1 + x)` to the precision of `x`: the quotient makes up for what rounding `1 + x` lost. (Goldberg, "What Every
/// Computer Scientist Should Know About Floating-Point Arithmetic", 1991, theorem 4.)
#[inline(always)]
fn ln_1p(x: f64) -> f64 {
    let sum = 1.0 + x;
    if sum == 1.0 { x } else { Math::ln(sum) * x / (sum - 1.0) }
}

fn forward<T: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input::<T>(0)?.merge_outer();
    let mut out = call.output::<T>(0)?;
    let (n, k) = (x.rows(), x.cols());
    let labels = labels(call, k)?;
    let each = chunk_rows(k);
    let chunks = n.div_ceil(each);
    let partial = &mut call.workspace::<f64>()?[..chunks];
    call.parallel(
        Chunks { data: partial, width: 1 },
        chunks,
        1,
        #[inline(always)]
        |first, part| {
            let mut tile = [T::Acc::default(); TILE];
            for (c, total) in part.data.iter_mut().enumerate() {
                let start = (first + c) * each;
                *total = 0.0;
                for r in start..n.min(start + each) {
                    let (row, label) = (x.row(r), label(&labels, r, k));
                    let Exponentials { max, own, others } = exponentials(
                        k,
                        Some(label),
                        &mut tile,
                        #[inline(always)]
                        |from, tile| row.widen(from, tile),
                    );
                    let below = max.as_f64() - row.get(label).widen().as_f64();
                    // Of the label's own exponential, 1 is taken off before the others are added: where it is the
                    // largest, they alone are left.
                    *total += below + ln_1p(own - 1.0 + others);
                }
            }
        },
    );
    out.set_flat(0, T::from_f64(partial.iter().sum::<f64>() / n as f64));
    Ok(())
}

fn backward<T: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input_or_in_place::<T>(0)?;
    let c = call.input::<T>(2)?.flat(0).to_f64();
    let out = call.output::<T>(0)?;
    let k = out.cols();
    let labels = labels(call, k)?;
    let scale = c / labels.elements() as f64;
    rows(
        call,
        x,
        out,
        #[inline(always)]
        |i, x, out| row(x, out, Some(label(&labels, i, k)), scale),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Error};

    #[test]
    fn a_label_out_of_range_is_reported_forward_and_backward() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let logits = engine.tensor([3, 2], &[0.0f64; 6])?;
        let labels = engine.tensor([3], &[1i64, 2, -1])?;
        let mut loss = engine.empty(DType::F64, [])?;
        engine.reserve(engine.workspace(&CrossEntropy, &[logits.spec(), labels.spec()])?)?;
        engine.call(&CrossEntropy, &[logits.view(), labels.view()], &mut [loss.view_mut()])?;
        let fault = |op| Error::Index { op, position: 1, value: 2, limit: 2 };
        assert_eq!(loss.read::<f64>(), Err(fault("cross_entropy")));
        let copy = engine.eval(&crate::ops::Copy, &[loss.view()])?;
        assert_eq!(copy.item::<f64>(), Err(fault("cross_entropy")));
        let cotangent = engine.tensor([], &[6.0f64])?;
        let mut out = engine.empty(DType::F64, [3, 2])?;
        let args = [logits.view(), labels.view(), cotangent.view()];
        engine.call(&CrossEntropyGrad, &args, &mut [out.view_mut()])?;
        assert_eq!(out.read::<f64>(), Err(fault("cross_entropy_grad")));
        Ok(())
    }

    #[test]
    fn a_class_that_is_masked_out_costs_nothing_and_a_masked_label_everything() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let mask = f32::NEG_INFINITY;
        let logits = engine.tensor([1, 3], &[3e38f32, 3e38, mask])?;
        for (label, want, slopes) in
            [(0i64, 2f32.ln(), [-0.5, 0.5, 0.0]), (2, f32::INFINITY, [0.5, 0.5, -1.0])]
        {
            let labels = engine.tensor([1], &[label])?;
            let mut loss = engine.empty(DType::F32, [])?;
            engine.reserve(engine.workspace(&CrossEntropy, &[logits.spec(), labels.spec()])?)?;
            engine.call(&CrossEntropy, &[logits.view(), labels.view()], &mut [loss.view_mut()])?;
            assert_eq!(loss.read::<f32>()?, [want]);
            let one = engine.tensor([], &[1.0f32])?;
            let mut out = engine.empty(DType::F32, [1, 3])?;
            let args = [logits.view(), labels.view(), one.view()];
            engine.call(&CrossEntropyGrad, &args, &mut [out.view_mut()])?;
            assert_eq!(out.read::<f32>()?, slopes);
        }
        Ok(())
    }
}
