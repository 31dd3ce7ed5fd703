//! Gaussian error linear unit and its gradient.

use super::pointwise::{SHAPES, kernels, map, samples, sech_squared};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    attribute_choices, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::values::{Binary, DType, DeviceKind, Expression, HostTensor, Math, Reg, Rule, Spec, Unary};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

op_list! { Gelu, GeluGrad; Approximation }

/// How the normal distribution function in a [`Gelu`] is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approximation {
    /// Exactly, through the error function.
    #[default]
    Erf,
    /// `½(1 + tanh(√(2/π)(x + 0.044715x³)))`.
    Tanh,
}

attribute_choices!(Approximation: Erf = "erf", Tanh = "tanh");

/// `√(2/π)` and `0.044715·√(2/π)`.
const LINEAR: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const CUBIC: f64 = 0.044_715 * LINEAR;

/// The greatest `x²` that counts in `u`: from far below it on, `tanh u` is ±1 in f64, and a larger one overflows.
const MOST: f64 = 1024.0;

/// `½(1 + tanh u)` as `1/(1 + e^(−2u))`, which is accurate in the lower tail, with `u = x(LINEAR + CUBIC·x²)`; also
/// `−2·CUBIC·x²`, the constant `−2·LINEAR` and the constant 1.
fn gate(e: &mut Expression, x: Reg) -> (Reg, Reg, Reg, Reg) {
    let square = e.mul(x, x);
    let most = e.constant(MOST);
    let square = e.binary(Binary::Min, square, most);
    let cubic = e.scale(square, -2.0 * CUBIC);
    let linear = e.constant(-2.0 * LINEAR);
    let slope = e.add(linear, cubic);
    let power = e.mul(x, slope);
    let power = e.unary(Unary::Exp, power);
    let one = e.constant(1.0);
    let under = e.add(one, power);
    (e.unary(Unary::Recip, under), cubic, linear, one)
}

op_attributes! {
    /// `out = x·Φ(x)`, Φ the normal distribution function, exact or by its tanh approximation.
    ///
    /// `x`: any shape, float; result the same. Arithmetic in the accumulation dtype, rounded once. In place on `x`.
    /// Gradient: [`GeluGrad`]. Errors: `x` must be a float. Deterministic. Source: Hendrycks and Gimpel, "Gaussian Error
    /// Linear Units" (2016).
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([2], &[0.0f64, 1.0])?;
    /// let mut out = engine.empty(landfall::DType::F64, [2])?;
    /// engine.call(&ops::Gelu::default(), &[x.view()], &mut [out.view_mut()])?;
    /// assert!((out.read::<f64>()?[1] - 0.841_344_746_068_543).abs() < 1e-12);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Gelu(x) {
        /// How Φ is computed.
        pub approximation: Approximation = Approximation::default(),
    }
}

impl Op for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::one_float(self, args).map(Outputs::one)
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let approximation = attributes::<Self>(op).copied().unwrap_or_default().approximation;
            let x = e.arg(0);
            let phi = match approximation {
                Approximation::Erf => e.unary(Unary::NormalCdf, x),
                Approximation::Tanh => gate(e, x).0,
            };
            e.mul(x, phi)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Self { approximation } = attributes::<Self>(op).copied().unwrap_or_default();
            Ok(vec![Some(cx.graph.op1(GeluGrad { approximation }, &[cx.inputs[0], cx.cotangent()?])?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Gelu {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |x| match self.approximation {
            Approximation::Erf => x[0] * Math::normal_cdf(x[0]),
            Approximation::Tanh => {
                // ½(1 + tanh u) = 1 / (1 + e^−2u), without cancellation in the tail.
                let u = LINEAR * (x[0] + 0.044_715 * x[0].powi(3));
                x[0] / (1.0 + (-2.0 * u).exp())
            }
        })
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(Self { approximation: Approximation::Erf }, &[(-6.0, 6.0)]);
        all.extend(samples(Self { approximation: Approximation::Tanh }, &[(-6.0, 6.0)]));
        let ints = SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
        all.push(Sample::bad(*self, vec![ints], "it must be f32, f64, bf16 or f16"));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

op_attributes! {
    /// Gradient of [`Gelu`]: `out = cotangent·(Φ(x) + x·Φ′(x))`.
    ///
    /// `x`, `cotangent`: one shape and float dtype, which are the result's. Arithmetic in the accumulation dtype, rounded
    /// once. In place on either. Gradient: by ops, from the second derivative. Errors: shapes
    /// or dtypes that differ, no float. Deterministic. Source: as [`Gelu`].
    #[derive(Debug, Clone, Copy)]
    pub struct GeluGrad(x, cotangent) {
        /// How Φ is computed.
        pub approximation: Approximation = Approximation::default(),
    }
}

impl Op for GeluGrad {
    fn name(&self) -> &'static str {
        "gelu_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0, 1])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let approximation = attributes::<Self>(op).copied().unwrap_or_default().approximation;
            let (x, c) = (e.arg(0), e.arg(1));
            let slope = match approximation {
                Approximation::Erf => {
                    let phi = e.unary(Unary::NormalCdf, x);
                    let bell = e.unary(Unary::Bell, x);
                    let density = e.scale(bell, 0.5 * LINEAR);
                    let edge = e.mul(x, density);
                    e.add(phi, edge)
                }
                // With s = 1/(1 + e^(−2u)): s + x·2u′·s(1 − s), where u′ = LINEAR + 3·CUBIC·x². First s(1 − s), which is 0
                // where x·u′ overflows.
                Approximation::Tanh => {
                    let (s, cubic, linear, one) = gate(e, x);
                    let upper = e.binary(Binary::Sub, one, s);
                    let edge = e.mul(s, upper);
                    let edge = e.mul(x, edge);
                    let triple = e.scale(cubic, 3.0);
                    let slope = e.add(linear, triple);
                    let edge = e.mul(edge, slope);
                    e.binary(Binary::Sub, s, edge)
                }
            };
            e.mul(c, slope)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Self { approximation } = attributes::<Self>(op).copied().unwrap_or_default();
            let (g, x, c) = (cx.graph, cx.inputs[0], cx.cotangent()?);
            let of_x = if cx.needs[0] {
                let factors = [c, cx.inputs[1], x];
                Some(g.composed("gelu_grad", factors, |[c, outer, x]| {
                    g.mul(c, g.mul(outer, second(g, x, approximation)?)?)
                })?)
            } else {
                None
            };
            let of_cotangent = if cx.needs[1] { Some(g.op1(Self { approximation }, &[x, c])?) } else { None };
            Ok(vec![of_x, of_cotangent])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for GeluGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |a| {
            let (x, c) = (a[0], a[1]);
            c * match self.approximation {
                Approximation::Erf => Math::normal_cdf(x) + x * (-0.5 * x * x).exp() * 0.5 * LINEAR,
                Approximation::Tanh => {
                    // s = ½(1 + tanh u) = 1 / (1 + e^−2u) and 1 − tanh² u = 4·s·(1 − s), without cancellation in the tail.
                    let u = LINEAR * (x + 0.044_715 * x.powi(3));
                    let (s, rest) = (1.0 / (1.0 + (-2.0 * u).exp()), 1.0 / (1.0 + (2.0 * u).exp()));
                    s + 2.0 * x * s * rest * LINEAR * (1.0 + 3.0 * 0.044_715 * x * x)
                }
            }
        })
    }
    fn samples(&self) -> Vec<Sample> {
        let ranges = [(-6.0, 6.0), (-2.0, 2.0)];
        let mut all = samples(Self { approximation: Approximation::Erf }, &ranges);
        all.extend(
            samples(Self { approximation: Approximation::Tanh }, &ranges).into_iter().take(SHAPES.len()),
        );
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4, 8]), SampleArg::any([4, 6])],
            "their shapes must be equal",
        ));
        all
    }
}

/// The second derivative of [`Gelu`]: `Φ′(x)·(2 − x²)`; of the approximation with `u = LINEAR·(x + 0.044715·x³)` and
/// `t = tanh u`: `(1 − t²)·(u′ + x·(½·u″ − t·u′²))`. Both are 0 from far below the limit of x on, where their factors overflow.
fn second(g: &Graph, x: Value, approximation: Approximation) -> Result<Value, Error> {
    let most = 2.0 * MOST.sqrt();
    let x = g.clamp(x, -most, most)?;
    let square = g.square(x)?;
    match approximation {
        Approximation::Erf => {
            let density = g.affine(g.exp(g.affine(square, -0.5, 0.0)?)?, 0.5 * LINEAR, 0.0)?;
            g.mul(density, g.affine(square, -1.0, 2.0)?)
        }
        Approximation::Tanh => {
            let cubic = 0.044_715 * LINEAR;
            let u = g.mul(x, g.affine(square, cubic, LINEAR)?)?;
            let slope = g.affine(square, 3.0 * cubic, LINEAR)?;
            let bend = g.sub(g.affine(x, 3.0 * cubic, 0.0)?, g.mul(g.tanh(u)?, g.square(slope)?)?)?;
            g.mul(sech_squared(g, u)?, g.add(slope, g.mul(x, bend)?)?)
        }
    }
}
