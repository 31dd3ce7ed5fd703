//! Pointwise functions beyond arithmetic: trigonometric, rounding, powers, activations.
//!
//! Rows of the table that [`pointwise`](super::pointwise) explains.

use super::pointwise::{ANY, POSITIVE, both, kernels, map, pointwise, samples, times};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::values::{Binary, DType, DeviceKind, Expression, HostTensor, Reg, Rule, Shape, Spec, Step, Unary};

op_list! {
    Ceil, Cos, Expm1, Floor, LeakyRelu, Log1p, Pow, Relu, Rem, Round, Sigmoid, Silu, Sin, Softplus, Swiglu
}

/// 1 / (1 + e⁻ˣ); no term overflows to NaN.
fn sigmoid(e: &mut Expression, x: Reg) -> Reg {
    let below = one_plus_exp_neg(e, x);
    e.unary(Unary::Recip, below)
}

fn one_plus_exp_neg(e: &mut Expression, x: Reg) -> Reg {
    let negated = e.unary(Unary::Neg, x);
    let power = e.unary(Unary::Exp, negated);
    let one = e.constant(1.0);
    e.add(power, one)
}

/// The derivative of [`Silu`]; no term of it cancels but where it is 0.
fn silu_slope(g: &Graph, x: Value) -> Result<Value, Error> {
    // Far within these limits it is 0 or 1; beyond them products with x overflow.
    let x = g.clamp(x, -1024.0, 1024.0)?;
    let rest = g.mul(x, g.sigmoid(g.neg(x)?)?)?;
    g.mul(g.sigmoid(x)?, g.affine(rest, 1.0, 1.0)?)
}

/// The gradient rule of an op that multiplies negative numbers by a constant; the slope at 0 is the constant.
fn rectified(cx: &Vjp<'_>, slope: f64) -> Result<Vec<Option<Value>>, Error> {
    let (g, c) = (cx.graph, cx.cotangent()?);
    let below =
        if slope == 0.0 { g.fill(g.spec(c).dtype, Shape::SCALAR, 0.0)? } else { g.affine(c, slope, 0.0)? };
    let zero = g.fill(g.spec(c).dtype, Shape::SCALAR, 0.0)?;
    let positive = g.greater(cx.inputs[0], zero)?;
    Ok(vec![Some(g.select(positive, c, below)?)])
}

pointwise! {
    /// `out = sin x`, in radians. Gradient: `cotangent · cos x`.
    Sin "sin" [x] float in (-9.0, 9.0);
    expression |e, x| e.unary(Unary::Sin, x);
    reference |x| x[0].sin();
    vjp times!(|g, x| g.cos(x));

    /// `out = cos x`, in radians. Gradient: `−cotangent · sin x`.
    Cos "cos" [x] float in (-9.0, 9.0);
    expression |e, x| e.unary(Unary::Cos, x);
    reference |x| x[0].cos();
    vjp times!(|g, x| g.neg(g.sin(x)?));

    /// `out = eˣ − 1`, accurate near 0. Gradient: `cotangent · eˣ`.
    Expm1 "expm1" [x] float in (-2.0, 2.0);
    expression |e, x| e.unary(Unary::Expm1, x);
    reference |x| x[0].exp_m1();
    vjp times!(|g, x| g.exp(x));

    /// `out = ln(1 + x)`, accurate near 0; −∞ at −1, NaN below. Gradient: `cotangent / (1 + x)`.
    Log1p "log1p" [x] float in (-0.75, 4.0);
    expression |e, x| e.unary(Unary::Log1p, x);
    reference |x| x[0].ln_1p();
    vjp times!(|g, x| g.recip(g.affine(x, 1.0, 1.0)?));

    /// `out = ⌊x⌋`: the largest integer that is not greater. Gradient: 0.
    Floor "floor" [x] number in ANY;
    expression |e, x| e.unary(Unary::Floor, x);
    reference |x| x[0].floor();
    vjp Grad::Zero;

    /// `out = ⌈x⌉`: the smallest integer that is not less. Gradient: 0.
    Ceil "ceil" [x] number in ANY;
    expression |e, x| e.unary(Unary::Ceil, x);
    reference |x| x[0].ceil();
    vjp Grad::Zero;

    /// `out` = the integer nearest to `x`, the even one of two, as in numpy and PyTorch. Gradient: 0.
    Round "round" [x] number in ANY;
    expression |e, x| e.unary(Unary::Round, x);
    reference |x| x[0].round_ties_even();
    vjp Grad::Zero;

    /// `out = σ(x) = 1 / (1 + e⁻ˣ)`. Gradient: `cotangent · σ(x)·σ(−x)`: `out − out²`, which does not cancel so.
    Sigmoid "sigmoid" [x] float in (-9.0, 9.0);
    expression sigmoid;
    reference |x| 1.0 / (1.0 + (-x[0]).exp());
    vjp times!(|g, x| g.mul(g.sigmoid(x)?, g.sigmoid(g.neg(x)?)?));

    /// `out = max(x, 0)`, NaN stays NaN. Gradient: the cotangent where `x > 0`, else 0, also at 0, as in PyTorch.
    Relu "relu" [x] float in ANY;
    expression |e, x| { let zero = e.constant(0.0); e.binary(Binary::Max, x, zero) };
    reference |x| if x[0] > 0.0 || x[0].is_nan() { x[0] } else { 0.0 };
    vjp Grad::Rule(|_, cx| rectified(cx, 0.0));

    /// `out = x / (1 + e⁻ˣ)`: x · σ(x) with the sigmoid σ, also called swish. Gradient: `cotangent · σ(x)·(1 + x·σ(−x))`.
    Silu "silu" [x] float in (-9.0, 9.0);
    expression |e, x| { let below = one_plus_exp_neg(e, x); e.binary(Binary::Div, x, below) };
    reference |x| x[0] / (1.0 + (-x[0]).exp());
    vjp times!(silu_slope);

    /// `out = lhs·σ(lhs)·rhs` with the sigmoid σ: SwiGLU with the gate first (Shazeer 2020). Gradients:
    /// `cotangent · rhs · σ(lhs)·(1 + lhs·σ(−lhs))` and `cotangent · lhs·σ(lhs)`.
    Swiglu "swiglu" [lhs, rhs] float in (-9.0, 9.0), ANY;
    expression |e, gate, x| {
        let below = one_plus_exp_neg(e, gate);
        let open = e.binary(Binary::Div, gate, below);
        e.mul(open, x)
    };
    reference |x| x[0] / (1.0 + (-x[0]).exp()) * x[1];
    vjp both!(|cx, c| {
        let g = cx.graph;
        g.composed("swiglu", [c, cx.inputs[0], cx.inputs[1]], |[c, gate, x]| {
            g.mul(g.mul(c, x)?, silu_slope(g, gate)?)
        })
    }, |cx, c| cx.graph.swiglu(cx.inputs[0], c));

    /// `out = ln(1 + eˣ)`, as `max(x, 0) + ln(1 + e^(−|x|))`, which never overflows. Gradient:
    /// `cotangent · sigmoid x`.
    Softplus "softplus" [x] float in (-9.0, 9.0);
    expression |e, x| {
        let magnitude = e.unary(Unary::Abs, x);
        let negated = e.unary(Unary::Neg, magnitude);
        let power = e.unary(Unary::Exp, negated);
        let rest = e.unary(Unary::Log1p, power);
        let zero = e.constant(0.0);
        let line = e.binary(Binary::Max, x, zero);
        e.add(line, rest)
    };
    reference |x| x[0].max(0.0) + (-x[0].abs()).exp().ln_1p();
    vjp times!(|g, x| g.sigmoid(x));

    /// `out = lhs^rhs`, with the special cases of IEEE 754: NaN for a negative number to a fractional power.
    /// Gradients: `cotangent · rhs · lhs^(rhs − 1)` and `cotangent · out · ln lhs`; 0 of a power of 0.
    Pow "pow" [lhs, rhs] float in POSITIVE, ANY;
    expression |e, a, b| e.binary(Binary::Pow, a, b);
    reference |x| x[0].powf(x[1]);
    vjp both!(|cx, c| {
        // rhs · lhs^(rhs − 1); of a power of 0, which is 1 everywhere, 0.
        let g = cx.graph;
        g.composed("pow", [c, cx.inputs[0], cx.inputs[1]], |[c, lhs, rhs]| {
            let power = g.pow(lhs, g.affine(rhs, 1.0, -1.0)?)?;
            let zero = g.scalar(c, 0.0)?;
            let constant = g.equal(rhs, zero)?;
            g.mul(c, g.select(constant, zero, g.mul(rhs, power)?)?)
        })
    }, |cx, c| {
        // lhs^rhs · ln lhs; of a power of 0 that is finite 0: its logarithm's −∞ would give NaN.
        let g = cx.graph;
        g.composed("pow", [c, cx.inputs[0], cx.inputs[1]], |[c, lhs, rhs]| {
            let power = g.pow(lhs, rhs)?;
            let slope = g.mul(power, g.ln(lhs)?)?;
            let zero = g.scalar(c, 0.0)?;
            let (of_zero, vanishes) = (g.equal(lhs, zero)?, g.equal(power, zero)?);
            let slope = g.select(vanishes, zero, slope)?;
            let flat = g.minimum(of_zero, g.less_equal(zero, rhs)?)?;
            g.mul(c, g.select(flat, zero, slope)?)
        })
    });

    /// `out = lhs − ⌊lhs / rhs⌋ · rhs`: the remainder with the sign of `rhs`, 0 too, as `%` in Python and numpy. Of
    /// integers 0 where `rhs` is 0, of floats NaN. Gradients: `cotangent` and `−cotangent · ⌊lhs / rhs⌋`.
    Rem "rem" [lhs, rhs] number in (-1.9, -1.1), (2.0, 3.0);
    expression |e, a, b| e.binary(Binary::Rem, a, b);
    reference |x| x[0] - (x[0] / x[1]).floor() * x[1];
    vjp both!(|_, c| Ok(c), |cx, c| {
        let g = cx.graph;
        g.composed("rem", [c, cx.inputs[0], cx.inputs[1]], |[c, lhs, rhs]| {
            g.mul(c, g.neg(g.floor(g.div(lhs, rhs)?)?)?)
        })
    });
}

op_attributes! {
    /// `out = x` where `x > 0`, else `slope · x`.
    ///
    /// `x`: any shape, float. Result: as `x`. In place on `x`. Gradient: the cotangent where `x > 0`, else `slope` times
    /// it, also at 0. Errors: `x` must be a float. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct LeakyRelu(x) {
        /// The factor of negative numbers.
        pub slope: f64 = 0.01,
    }
}

impl Op for LeakyRelu {
    fn name(&self) -> &'static str {
        "leaky_relu"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::one_float(self, args).map(Outputs::one)
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let slope = attributes::<Self>(op).map_or(0.01, |a| a.slope);
            let x = e.arg(0);
            let zero = e.constant(0.0);
            let positive = e.binary(Binary::Less, zero, x);
            let scaled = e.scale(x, slope);
            e.push(Step::Select(positive, x, scaled))
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| rectified(cx, attributes::<Self>(op).map_or(0.01, |a| a.slope)))
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for LeakyRelu {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |x| if x[0] > 0.0 { x[0] } else { self.slope * x[0] })
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, &[ANY]);
        all.extend(samples(Self { slope: 0.5 }, &[ANY]).into_iter().take(4));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}
