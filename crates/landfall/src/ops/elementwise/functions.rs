//! Pointwise functions beyond arithmetic: trigonometric, rounding, powers, activations.
//!
//! Rows of the table that [`pointwise`](super::pointwise) explains.

use super::pointwise::{ANY, POSITIVE, both, cotangent, kernels, map, pointwise, samples, times};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::values::{Binary, DType, DeviceKind, Expression, HostTensor, Reg, Rule, Shape, Spec, Step, Unary};

op_list! {
    Ceil, Cos, Expm1, Floor, LeakyRelu, Log1p, Pow, Relu, Rem, Round, Sigmoid, Silu, Sin, Softplus
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

/// The gradient rule of an op that multiplies negative numbers by a constant; the slope at 0 is the constant.
fn rectified(cx: &Vjp<'_>, slope: f64) -> Result<Vec<Option<Value>>, Error> {
    let (g, c) = (cx.graph, cotangent(cx)?);
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
    vjp times!(|cx, x, _| cx.graph.cos(x));

    /// `out = cos x`, in radians. Gradient: `−cotangent · sin x`.
    Cos "cos" [x] float in (-9.0, 9.0);
    expression |e, x| e.unary(Unary::Cos, x);
    reference |x| x[0].cos();
    vjp times!(|cx, x, _| { let s = cx.graph.sin(x)?; cx.graph.neg(s) });

    /// `out = eˣ − 1`, accurate near 0. Gradient: `cotangent · (out + 1)`.
    Expm1 "expm1" [x] float in (-2.0, 2.0);
    expression |e, x| e.unary(Unary::Expm1, x);
    reference |x| x[0].exp_m1();
    vjp times!(|cx, _, y| cx.graph.affine(y, 1.0, 1.0));

    /// `out = ln(1 + x)`, accurate near 0; −∞ at −1, NaN below. Gradient: `cotangent / (1 + x)`.
    Log1p "log1p" [x] float in (-0.75, 4.0);
    expression |e, x| e.unary(Unary::Log1p, x);
    reference |x| x[0].ln_1p();
    vjp times!(|cx, x, _| { let below = cx.graph.affine(x, 1.0, 1.0)?; cx.graph.recip(below) });

    /// `out = ⌊x⌋`: the largest integer that is not greater. No gradient.
    Floor "floor" [x] number in ANY;
    expression |e, x| e.unary(Unary::Floor, x);
    reference |x| x[0].floor();
    vjp Grad::None("it is constant between its steps");

    /// `out = ⌈x⌉`: the smallest integer that is not less. No gradient.
    Ceil "ceil" [x] number in ANY;
    expression |e, x| e.unary(Unary::Ceil, x);
    reference |x| x[0].ceil();
    vjp Grad::None("it is constant between its steps");

    /// `out` = the integer nearest to `x`, the even one of two, as in numpy and PyTorch. No gradient.
    Round "round" [x] number in ANY;
    expression |e, x| e.unary(Unary::Round, x);
    reference |x| x[0].round_ties_even();
    vjp Grad::None("it is constant between its steps");

    /// `out = 1 / (1 + e⁻ˣ)`. Gradient: `cotangent · (out − out²)`.
    Sigmoid "sigmoid" [x] float in (-9.0, 9.0);
    expression sigmoid;
    reference |x| 1.0 / (1.0 + (-x[0]).exp());
    vjp times!(|cx, _, y| { let q = cx.graph.mul(y, y)?; cx.graph.sub(y, q) });

    /// `out = max(x, 0)`, NaN stays NaN. Gradient: the cotangent where `x > 0`, else 0, also at 0, as in PyTorch.
    Relu "relu" [x] float in ANY;
    expression |e, x| { let zero = e.constant(0.0); e.binary(Binary::Max, x, zero) };
    reference |x| if x[0] > 0.0 || x[0].is_nan() { x[0] } else { 0.0 };
    vjp Grad::Rule(|_, cx| rectified(cx, 0.0));

    /// `out = x / (1 + e⁻ˣ)`: x · sigmoid x, also called swish. Gradient: `cotangent · (s + out · (1 − s))` with
    /// `s = sigmoid x`.
    Silu "silu" [x] float in (-9.0, 9.0);
    expression |e, x| { let below = one_plus_exp_neg(e, x); e.binary(Binary::Div, x, below) };
    reference |x| x[0] / (1.0 + (-x[0]).exp());
    vjp times!(|cx, x, y| {
        // σ + y·(1 − σ)
        let s = cx.graph.sigmoid(x)?;
        let rest = cx.graph.affine(s, -1.0, 1.0)?;
        let rest = cx.graph.mul(y, rest)?;
        cx.graph.add(s, rest)
    });

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
    vjp times!(|cx, x, _| cx.graph.sigmoid(x));

    /// `out = lhs^rhs`, with the special cases of IEEE 754: NaN for a negative number to a fractional power.
    /// Gradients: `cotangent · rhs · lhs^(rhs − 1)` and `cotangent · out · ln lhs`; 0 of a power of 0.
    Pow "pow" [lhs, rhs] float in POSITIVE, ANY;
    expression |e, a, b| e.binary(Binary::Pow, a, b);
    reference |x| x[0].powf(x[1]);
    vjp both!(|cx, c| {
        // rhs · lhs^(rhs − 1); of a power of 0, which is 1 everywhere, 0.
        let g = cx.graph;
        let less = g.affine(cx.inputs[1], 1.0, -1.0)?;
        let power = g.pow(cx.inputs[0], less)?;
        let zero = g.scalar(c, 0.0)?;
        let constant = g.equal(cx.inputs[1], zero)?;
        let slope = g.select(constant, zero, g.mul(cx.inputs[1], power)?)?;
        g.mul(c, slope)
    }, |cx, c| {
        // lhs^rhs · ln lhs; of a power of 0 that is finite 0: its logarithm's −∞ would give NaN.
        let g = cx.graph;
        let ln = g.ln(cx.inputs[0])?;
        let slope = g.mul(cx.outputs[0], ln)?;
        let zero = g.scalar(c, 0.0)?;
        let of_zero = g.equal(cx.inputs[0], zero)?;
        let vanishes = g.equal(cx.outputs[0], zero)?;
        let slope = g.select(vanishes, zero, slope)?;
        let flat = g.minimum(of_zero, g.less_equal(zero, cx.inputs[1])?)?;
        let slope = g.select(flat, zero, slope)?;
        g.mul(c, slope)
    });

    /// `out = lhs − ⌊lhs / rhs⌋ · rhs`: the remainder with the sign of `rhs`, 0 too, as `%` in Python and numpy. Of
    /// integers 0 where `rhs` is 0, of floats NaN. Gradients: `cotangent` and `−cotangent · ⌊lhs / rhs⌋`.
    Rem "rem" [lhs, rhs] number in (-1.9, -1.1), (2.0, 3.0);
    expression |e, a, b| e.binary(Binary::Rem, a, b);
    reference |x| x[0] - (x[0] / x[1]).floor() * x[1];
    vjp both!(|_, c| Ok(c), |cx, c| {
        let quotient = cx.graph.div(cx.inputs[0], cx.inputs[1])?;
        let whole = cx.graph.floor(quotient)?;
        let slope = cx.graph.neg(whole)?;
        cx.graph.mul(c, slope)
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
