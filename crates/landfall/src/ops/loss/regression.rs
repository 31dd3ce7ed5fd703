//! Regression losses: mean squared and mean absolute error, each with its gradient in one pass.

mod cuda;

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{TILE, flat, load, store};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Chunks, lanes, with_float};
use crate::values::{All, DType, DeviceKind, Element, HostTensor, Math, Rule, Shape, Spec};
use std::sync::Arc;

op_list! { Mae, MaeGrad, Mse, MseGrad }

/// Elements whose sum is one partial result.
const CHUNK: usize = 16 * 1024;

/// A term of a loss, and its derivative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Square,
    Absolute,
}

impl Term {
    #[inline(always)]
    fn value<A: Arith>(self, difference: A) -> A {
        match self {
            Self::Square => difference * difference,
            Self::Absolute => Math::abs(difference),
        }
    }

    #[inline(always)]
    fn slope<A: Arith>(self, difference: A) -> A {
        let (zero, one) = (A::default(), A::of_f64(1.0));
        match self {
            Self::Square => difference + difference,
            Self::Absolute if difference > zero => one,
            Self::Absolute if difference < zero => zero - one,
            Self::Absolute => zero,
        }
    }
}

fn pair(args: &[Spec]) -> Result<(), Rule> {
    rules::float(args, &[0])?;
    rules::same_dtype(args, 0, 1)?;
    rules::same_shape(args, 0, 1)
}

/// The mean of the terms in other ops.
fn mean(g: &Graph, term: Term, args: &[Value]) -> Result<Vec<Value>, Error> {
    let loss = g.composed("loss", [args[0], args[1]], |[prediction, target]| {
        let d = g.sub(prediction, target)?;
        let terms = match term {
            Term::Square => g.mul(d, d)?,
            Term::Absolute => g.abs(d)?,
        };
        g.mean(terms, All)
    });
    Ok(vec![loss?])
}

/// Both gradients: to the target it is the one to the prediction with the two exchanged.
fn vjp<G: Op + Default>(cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let c = cx.cotangent()?;
    let side = |own: usize, other: usize| {
        let build = || cx.graph.op1(G::default(), &[cx.inputs[own], cx.inputs[other], c]);
        if cx.needs[own] { build().map(Some) } else { Ok(None) }
    };
    Ok(vec![side(0, 1)?, side(1, 0)?])
}

fn forward<T: Element>(term: Term, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (p, t) = (flat(&call.input::<T>(0)?), flat(&call.input::<T>(1)?));
    let mut out = call.output::<T>(0)?;
    let n = p.elements();
    let chunks = n.div_ceil(CHUNK);
    let partial = &mut call.workspace::<f64>()?[..chunks];
    call.parallel(
        Chunks { data: partial, width: 1 },
        chunks,
        1,
        #[inline(always)]
        |first, part| {
            let (mut a, mut b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            for (c, total) in part.data.iter_mut().enumerate() {
                let start = (first + c) * CHUNK;
                *total = 0.0;
                for from in (start..n.min(start + CHUNK)).step_by(TILE) {
                    let len = TILE.min(n - from);
                    load(&p, from, &mut a[..len]);
                    load(&t, from, &mut b[..len]);
                    *total += lanes::sum2(&a[..len], &b[..len], |x, y| term.value(x - y)).as_f64();
                }
            }
        },
    );
    out.set_flat(0, T::from_f64(partial.iter().sum::<f64>() / n as f64));
    Ok(())
}

fn backward<T: Element>(term: Term, parts: usize, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let inputs = [call.input_or_in_place::<T>(0)?, call.input_or_in_place::<T>(1)?];
    let c = call.input::<T>(2)?;
    let out = call.output::<T>(0)?;
    let n = out.elements();
    if n == 0 {
        return Ok(());
    }
    let factor = T::Acc::of_f64(c.flat(0).to_f64() / n.saturating_mul(parts) as f64);
    let inputs = inputs.map(|x| x.map(|x| flat(&x)));
    let layout = out.layout().collapsed();
    let out = out.relaid(layout);
    let outer = out.outer();
    let each = n / outer;
    call.parallel(
        out,
        outer,
        (CHUNK / each).max(1),
        #[inline(always)]
        |start, mut part| {
            let (mut a, mut b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            let (base, len) = (start * each, part.elements());
            for at in (0..len).step_by(TILE) {
                let some = TILE.min(len - at);
                for (x, to) in inputs.iter().zip([&mut a, &mut b]) {
                    match x {
                        Some(x) => load(x, base + at, &mut to[..some]),
                        None => load(&part.read(), at, &mut to[..some]),
                    }
                }
                for (x, y) in a[..some].iter_mut().zip(&b[..some]) {
                    *x = term.slope(*x - *y) * factor;
                }
                store(&mut part, at, &a[..some]);
            }
        },
    );
    Ok(())
}

macro_rules! loss {
    ($(
        $(#[doc = $doc:literal])*
        $Name:ident $name:literal $term:expr, $value:expr;
        $(#[doc = $grad_doc:literal])*
        $Grad:ident $grad_name:literal, $slope:expr;
    )*) => { $(
        op_attributes! {
            $(#[doc = $doc])*
            #[derive(Debug, Clone, Copy)]
            pub struct $Name(prediction, target);
        }

        impl Op for $Name {
            fn name(&self) -> &'static str { $name }
            fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
                let args: [Spec; 2] = rules::arity(self, args)?;
                pair(&args)?;
                Ok(Outputs::one(Spec { shape: Shape::SCALAR, ..args[0] }))
            }
            fn outputs(&self) -> &[Output] { &[Output::FULL] }
            fn body(&self) -> Body { Body::Fused(|_, g, args| mean(g, $term, args)) }
            fn vjp(&self) -> Grad { Grad::Rule(|_, cx| vjp::<$Grad>(cx)) }
            fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
                const { &[
                    Kernel::cpu($name, |_, call| {
                            with_float!(call, 0, T => forward::<T>($term, call))
                        }).with_workspace(|_, args| args[0].shape.elements().div_ceil(CHUNK) * size_of::<f64>()),
                    Kernel::cuda($name, |_, call| cuda::forward($term, call)).with_workspace(cuda::workspace),
                ] }
            }
            fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
                args[0].shape.elements().saturating_mul(3)
            }
}

        impl Tested for $Name {
            fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
                let value: fn(f64) -> f64 = $value;
                let n = args[0].data.len() as f64;
                let total: f64 = args[0].data.iter().zip(&args[1].data).map(|(p, t)| value(p - t)).sum();
                let spec = Spec { shape: Shape::SCALAR, ..args[0].spec };
                vec![HostTensor::from_fn(spec, |_| total / n)]
            }
            fn samples(&self) -> Vec<Sample> { loss_samples(*self) }
        }

        op_attributes! {
            $(#[doc = $grad_doc])*
            #[derive(Debug, Clone, Copy)]
            pub struct $Grad(prediction, target, cotangent) {
                /// The operands are one of so many equal parts: the loss is the mean over all of them.
                pub parts: usize = 1,
            }
        }

        impl Op for $Grad {
            fn name(&self) -> &'static str { $grad_name }
            fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
                let args: [Spec; 3] = rules::arity(self, args)?;
                if self.parts == 0 {
                    return Err(Rule::Attribute { name: "parts", value: 0.0, expected: "at least 1" });
                }
                pair(&args)?;
                rules::same_dtype(&args, 0, 2)?;
                rules::shape(&args, 2, Shape::SCALAR)?;
                Ok(Outputs::one(args[0]))
            }
            fn outputs(&self) -> &[Output] { const { &[Output::in_place(&[0, 1])] } }
            fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
                let all = args[0].shape.rank();
                Some(vec![all, all, 0, all])
            }
            fn of_part(&self, parts: usize) -> Option<Arc<dyn Op>> {
                Some(Arc::new(Self { parts: self.parts.saturating_mul(parts) }))
            }
            fn body(&self) -> Body {
                Body::Fused(|op, g, args| {
                    let parts = attributes::<$Grad>(op).map_err(|r| r.of(op.name(), &[], None, None))?.parts;
                    slope(g, $term, parts, args)
                })
            }
            fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
                const { &[
                    Kernel::cpu($grad_name, |op, call| {
                        let parts = attributes::<$Grad>(op)?.parts;
                        with_float!(call, 0, T => backward::<T>($term, parts, call))
                    }),
                    Kernel::cuda($grad_name, |op, call| {
                        cuda::backward($term, attributes::<$Grad>(op)?.parts, call)
                    }),
                ] }
            }
            fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
                args[0].shape.elements().saturating_mul(3)
            }
}

        impl Tested for $Grad {
            fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
                let slope: fn(f64) -> f64 = $slope;
                let (p, t, c) = (&args[0].data, &args[1].data, args[2].data[0]);
                vec![HostTensor::from_fn(args[0].spec, |i| slope(p[i] - t[i]) * c / (p.len() as f64 * self.parts as f64))]
            }
            fn samples(&self) -> Vec<Sample> { grad_samples(*self) }
        }
    )* };
}

/// The gradient to the first argument in other ops.
fn slope(g: &Graph, term: Term, parts: usize, args: &[Value]) -> Result<Vec<Value>, Error> {
    let slopes = g.composed("loss", [args[0], args[1], args[2]], |[prediction, target, cotangent]| {
        let d = g.sub(prediction, target)?;
        let n = g.shape(d).elements().max(1).saturating_mul(parts) as f64;
        let slope = match term {
            Term::Square => g.affine(d, 2.0 / n, 0.0)?,
            Term::Absolute => g.affine(g.sign(d)?, 1.0 / n, 0.0)?,
        };
        g.mul(slope, cotangent)
    });
    Ok(vec![slopes?])
}

const SIZES: &[&[usize]] =
    &[&[], &[0], &[1], &[7], &[3, 5], &[257], &[4, 1, 4], &[3, 700], &[40_000], &[130, 2, 151]];

fn loss_samples(op: impl Tested + Clone) -> Vec<Sample> {
    let two = |s: Shape| vec![SampleArg::any(s), SampleArg::any(s)];
    let shapes = SIZES.iter().filter_map(|s| Shape::new(s));
    let mut all: Vec<Sample> = shapes.map(|s| Sample::new(op.clone(), two(s))).collect();
    all.push(Sample::bad(
        op.clone(),
        vec![SampleArg::any([4, 8]), SampleArg::any([4, 6])],
        "their shapes must be equal",
    ));
    let ints = || SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
    all.push(Sample::bad(op, vec![ints(), ints()], "it must be f32, f64, bf16 or f16"));
    all
}

fn grad_samples(op: impl Tested + Clone) -> Vec<Sample> {
    let args = |s: Shape| vec![SampleArg::any(s), SampleArg::any(s), SampleArg::range([], 1.0, 3.0)];
    let shapes = SIZES.iter().filter_map(|s| Shape::new(s));
    let mut all: Vec<Sample> = shapes.map(|s| Sample::new(op.clone(), args(s))).collect();
    all.push(Sample::bad(
        op,
        vec![SampleArg::any([4]), SampleArg::any([4]), SampleArg::any([1])],
        "arg 2 is [1]; it must be []",
    ));
    all
}

loss! {
    /// Mean squared error: `out = (1/n) Σ (prediction − target)²` over all `n` elements.
    ///
    /// `prediction`, `target`: one shape and float dtype; result a scalar of that dtype, NaN over no elements.
    /// Accumulation: f32 in tiles (f64 for f64), f64 over tiles. Disjoint. Gradient: [`MseGrad`], to the target only
    /// where it is needed. Errors: shapes and dtypes must be equal. Deterministic, whatever the number of threads.
    /// Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let p = engine.tensor([2], &[1.0f32, 3.0])?;
    /// let t = engine.tensor([2], &[0.0f32, 1.0])?;
    /// let mut out = engine.empty(landfall::DType::F32, [])?;
    /// engine.reserve(engine.workspace(&ops::Mse, &[p.spec(), t.spec()])?)?;
    /// engine.call(&ops::Mse, &[p.view(), t.view()], &mut [out.view_mut()])?;
    /// assert_eq!(out.read::<f32>()?, [2.5]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    Mse "mse" Term::Square, |d| d * d;
    /// Gradient of [`Mse`] to its first argument: `out = 2(prediction − target)·cotangent/n`.
    ///
    /// `prediction`, `target`: one shape and float dtype, which are the result's; `cotangent`: a scalar of that dtype.
    /// Arithmetic in the accumulation dtype, rounded once. In place on `prediction` or `target`. Gradient:
    /// through the body. Errors: shapes and dtypes must be equal. Deterministic.
    MseGrad "mse_grad", |d| 2.0 * d;
    /// Mean absolute error: `out = (1/n) Σ |prediction − target|` over all `n` elements.
    ///
    /// `prediction`, `target`: one shape and float dtype; result a scalar of that dtype, NaN over no elements.
    /// Accumulation: f32 in tiles (f64 for f64), f64 over tiles. Disjoint. Gradient: [`MaeGrad`], to the target only
    /// where it is needed; 0 where both are equal. Errors: shapes and dtypes must be equal. Deterministic, whatever
    /// the number of threads. Source: the definition.
    Mae "mae" Term::Absolute, f64::abs;
    /// Gradient of [`Mae`] to its first argument: `out = sign(prediction − target)·cotangent/n`.
    ///
    /// `prediction`, `target`: one shape and float dtype, which are the result's; `cotangent`: a scalar of that dtype.
    /// Arithmetic in the accumulation dtype, rounded once. In place on `prediction` or `target`. Gradient:
    /// through the body. Errors: shapes and dtypes must be equal. Deterministic.
    MaeGrad "mae_grad", |d| if d > 0.0 { 1.0 } else if d < 0.0 { -1.0 } else { 0.0 };
}
