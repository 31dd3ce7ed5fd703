//! Pointwise ops: one scalar expression each. Shapes must be equal; the graph broadcasts before.
//!
//! Each row of a table below is a whole definition: name, expression, `f64` reference, gradient and the range that
//! samples are drawn from. Sources: the functions' definitions; gradients are elementary calculus.

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::pointwise as tile;
use crate::values::{Binary, DType, DeviceKind, Expression, HostTensor, Reg, Rule, Shape, Spec, Unary};

op_list! { Abs, Add, Div, Erf, Exp, Ln, Maximum, Minimum, Mul, Neg, Recip, Rsqrt, Sign, Sqrt, Sub, Tanh }

/// A pointwise op: everything but its kernel, which is the same for all.
fn run<T: Op>(op: &dyn Op, call: &crate::kernel::cpu::Call<'_>) -> Result<(), Rule> {
    match attributes::<T>(op)?.body() {
        Body::Pointwise(write) => tile::run(&Expression::new(|e| write(op, e)), call),
        Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => {
            Err(Rule::Attribute { name: "body", value: 0.0, expected: "a pointwise expression" })
        }
    }
}

/// The same on a GPU.
fn run_cuda(
    op: &dyn Op,
    call: &mut crate::kernel::cuda::Call<'_>,
) -> Result<(), crate::kernel::cuda::Failure> {
    match op.body() {
        Body::Pointwise(write) => crate::kernel::cuda::pointwise::run(|e| write(op, e), call),
        Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => {
            Err(Rule::Attribute { name: "body", value: 0.0, expected: "a pointwise expression" }.into())
        }
    }
}

/// The kernels of an op whose [`Body`] is a pointwise expression, for every device, also of a user's own op.
///
/// ```
/// use landfall::ops::{self, Kernel, Op};
/// fn kernels<T: Op>() -> &'static [Kernel] {
///     ops::pointwise_kernels::<T>()
/// }
/// # let _ = kernels::<ops::Abs>;
/// ```
#[must_use]
pub fn kernels<T: Op>() -> &'static [Kernel] {
    const { &[Kernel::cpu("pointwise", run::<T>), Kernel::cuda("pointwise", run_cuda)] }
}

/// The reference of a pointwise op: a function of one element of each argument. Of integers the result wraps modulo 2^bits.
pub fn map(args: &[HostTensor], dtype: DType, f: impl Fn(&[f64]) -> f64) -> Vec<HostTensor> {
    let spec = Spec { dtype, shape: args[0].spec.shape };
    let wraps = !args[0].spec.dtype.is_float();
    let at = |i: usize| {
        let exact = f(&args.iter().map(|a| a.data[i]).collect::<Vec<_>>());
        match dtype {
            DType::U8 if wraps => exact.rem_euclid(256.0),
            DType::I32 if wraps => f64::from(exact.rem_euclid(4_294_967_296.0) as u32 as i32),
            DType::U8
            | DType::I32
            | DType::I64
            | DType::Bool
            | DType::F32
            | DType::F64
            | DType::BF16
            | DType::F16 => exact,
        }
    };
    vec![HostTensor::from_fn(spec, at)]
}

/// Shapes that every pointwise op is sampled with: scalar, empty, size 1, tails round a tile, equal sizes.
pub(in crate::ops) const SHAPES: &[&[usize]] =
    &[&[], &[0], &[1], &[7], &[3, 5], &[257], &[4, 1, 4], &[2, 3, 64], &[3, 0, 2]];

/// Sample calls of a pointwise op: scalar, empty, size 1, tails round a tile, each argument uniform in its range.
pub fn samples(op: impl Tested + Clone, ranges: &[(f64, f64)]) -> Vec<Sample> {
    let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
    let args = |shape| ranges.iter().map(|&(lo, hi)| SampleArg::range(shape, lo, hi)).collect();
    shapes.map(|shape: Shape| Sample::new(op.clone(), args(shape))).collect()
}

macro_rules! pointwise {
    ($(
        $(#[doc = $doc:literal])*
        $Name:ident $name:literal [$($arg:ident),+] $class:ident in $($range:expr),+;
        expression $build:expr;
        reference $reference:expr;
        vjp $vjp:expr;
    )*) => { $(
        op_attributes! {
            $(#[doc = $doc])*
            ///
            #[doc = pointwise!(@doc $class $($arg)+)]
            /// Arithmetic in the accumulation dtype, rounded once; integers wrap modulo 2^bits, as in numpy.
            /// Deterministic.
            #[derive(Debug, Clone, Copy)]
            pub struct $Name($($arg),+);
        }

        impl Op for $Name {
            fn name(&self) -> &'static str { $name }
            fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
                let args: [Spec; pointwise!(@count $($arg)+)] = rules::arity(self, args)?;
                pointwise!(@class $class args);
                for i in 1..args.len() {
                    rules::same_dtype(&args, 0, i)?;
                    rules::same_shape(&args, 0, i)?;
                }
                Ok(Outputs::one(args[0]))
            }
            fn outputs(&self) -> &[Output] { const { &[Output::in_place(pointwise!(@which $($arg)+))] } }
            fn body(&self) -> Body {
                Body::Pointwise(|_, e| {
                    $(let $arg = e.arg(pointwise!(@index $arg));)+
                    let build: fn(&mut Expression, $(pointwise!(@reg $arg)),+) -> Reg = $build;
                    build(e, $($arg),+)
                })
            }
            fn vjp(&self) -> Grad { $vjp }
            fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
                kernels::<Self>()
            }
}

        impl Tested for $Name {
            fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
                let f: fn(&[f64]) -> f64 = $reference;
                map(args, args[0].spec.dtype, f)
            }
            fn samples(&self) -> Vec<Sample> {
                let mut all = samples(*self, &[$($range),+]);
                pointwise!(@bad all $Name $($arg)+);
                all
            }
        }
    )* };
    (@doc $class:ident x) => {
        concat!(" `x`: any shape, ", pointwise!(@dtype $class), ". Result: as `x`. In place on `x`. Errors: another dtype.")
    };
    (@doc $class:ident lhs rhs) => {
        concat!(
            " `lhs`, `rhs`: one shape and dtype, ", pointwise!(@dtype $class),
            ". Result: as they. In place on `lhs` or `rhs`. Errors: shapes or dtypes that differ, another dtype.",
        )
    };
    (@dtype float) => { "a float" };
    (@dtype number) => { "a number" };
    (@dtype any) => { "any" };
    (@count x) => { 1 };
    (@count lhs rhs) => { 2 };
    (@which x) => { &[0] };
    (@which lhs rhs) => { &[0, 1] };
    (@index x) => { 0 };
    (@index lhs) => { 0 };
    (@index rhs) => { 1 };
    (@reg $arg:ident) => { Reg };
    (@class float $args:ident) => { rules::float(&$args, &[0])? };
    (@class number $args:ident) => {
        if $args[0].dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype: DType::Bool, expected: "a number" });
        }
    };
    (@class any $args:ident) => {};
    (@bad $all:ident $Name:ident x) => { $all.push(Sample::bad($Name, vec![], "takes 1 argument (x), got 0")) };
    (@bad $all:ident $Name:ident lhs rhs) => {
        $all.push(Sample::bad($Name, vec![SampleArg::any([4, 8]), SampleArg::any([4, 6])], "their shapes must be equal"));
        $all.push(Sample::bad(
            $Name,
            vec![SampleArg::any([4]), SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2))],
            "their dtypes must be equal",
        ))
    };
}

/// A gradient rule of one argument: cotangent · derivative, which is made of the argument and not of the result. That is
/// rounded, and near a limit little is left of its distance from it.
macro_rules! times {
    ($derivative:expr) => {
        Grad::Rule(|op, cx| {
            let d: fn(&Graph, Value) -> Result<Value, Error> = $derivative;
            let g = cx.graph;
            let product =
                g.composed(op.name(), [cx.cotangent()?, cx.inputs[0]], |[c, x]| g.mul(c, d(g, x)?))?;
            Ok(vec![Some(product)])
        })
    };
}

/// A gradient rule of two arguments; each side is built only where it is needed.
macro_rules! both {
    ($lhs:expr, $rhs:expr) => {
        Grad::Rule(|_, cx| {
            let l: fn(&Vjp<'_>, Value) -> Result<Value, Error> = $lhs;
            let r: fn(&Vjp<'_>, Value) -> Result<Value, Error> = $rhs;
            let c = cx.cotangent()?;
            let lhs = if cx.needs[0] { Some(l(cx, c)?) } else { None };
            let rhs = if cx.needs[1] { Some(r(cx, c)?) } else { None };
            Ok(vec![lhs, rhs])
        })
    };
}

pub(super) use {both, pointwise, times};

pub(super) const ANY: (f64, f64) = (-3.0, 3.0);
pub(super) const POSITIVE: (f64, f64) = (0.25, 4.0);
const WIDE: (f64, f64) = (-120.0, 120.0);

pointwise! {
    /// `out = −x`. Gradient: `−cotangent`.
    Neg "neg" [x] number in ANY;
    expression |e, x| e.unary(Unary::Neg, x);
    reference |x| -x[0];
    vjp Grad::Rule(|_, cx| Ok(vec![Some(cx.graph.neg(cx.cotangent()?)?)]));

    /// `out = |x|`. Gradient: `cotangent · sign x`, 0 at 0.
    Abs "abs" [x] number in ANY;
    expression |e, x| e.unary(Unary::Abs, x);
    reference |x| x[0].abs();
    vjp Grad::Rule(|_, cx| Ok(vec![Some(cx.graph.mul(cx.cotangent()?, cx.graph.sign(cx.inputs[0])?)?)]));

    /// `out = −1, 0 or 1`, the sign of `x`. Gradient: 0.
    Sign "sign" [x] number in ANY;
    expression |e, x| e.unary(Unary::Sign, x);
    reference |x| if x[0] > 0.0 { 1.0 } else if x[0] < 0.0 { -1.0 } else { 0.0 };
    vjp Grad::Zero;

    /// `out = eˣ`. Gradient: `cotangent · out`.
    Exp "exp" [x] float in (-9.0, 9.0);
    expression |e, x| e.unary(Unary::Exp, x);
    reference |x| x[0].exp();
    vjp times!(|g, x| g.exp(x));

    /// `out = ln x`. Gradient: `cotangent / x`.
    Ln "ln" [x] float in POSITIVE;
    expression |e, x| e.unary(Unary::Ln, x);
    reference |x| x[0].ln();
    vjp times!(|g, x| g.recip(x));

    /// `out = √x`. Gradient: `cotangent / (2 · out)`.
    Sqrt "sqrt" [x] float in POSITIVE;
    expression |e, x| e.unary(Unary::Sqrt, x);
    reference |x| x[0].sqrt();
    vjp times!(|g, x| g.affine(g.recip(g.sqrt(x)?)?, 0.5, 0.0));

    /// `out = 1/√x`. Gradient: `−cotangent · out / (2 · x)`.
    Rsqrt "rsqrt" [x] float in POSITIVE;
    expression |e, x| e.unary(Unary::Rsqrt, x);
    reference |x| 1.0 / x[0].sqrt();
    vjp times!(|g, x| g.affine(g.div(g.rsqrt(x)?, x)?, -0.5, 0.0));

    /// `out = 1/x`. Gradient: `−cotangent · out²`.
    Recip "recip" [x] float in POSITIVE;
    expression |e, x| e.unary(Unary::Recip, x);
    reference |x| 1.0 / x[0];
    vjp times!(|g, x| g.neg(g.square(g.recip(x)?)?));

    /// `out = tanh x`. Gradient: `cotangent · 4·σ(2x)·σ(−2x)` with the sigmoid σ: `1 − out²`, which does not cancel so.
    Tanh "tanh" [x] float in WIDE;
    expression |e, x| e.unary(Unary::Tanh, x);
    reference |x| x[0].tanh();
    vjp times!(sech_squared);

    /// `out = 2/√π · ∫₀ˣ e^(−t²) dt`. Gradient: `cotangent · 2/√π · e^(−x²)`.
    Erf "erf" [x] float in (-4.0, 4.0);
    expression |e, x| e.unary(Unary::Erf, x);
    reference |x| Math::erf(x[0]);
    vjp times!(|g, x| g.affine(g.exp(g.neg(g.square(x)?)?)?, std::f64::consts::FRAC_2_SQRT_PI, 0.0));

    /// `out = lhs + rhs`. Gradients: `cotangent` and `cotangent`.
    Add "add" [lhs, rhs] number in ANY, ANY;
    expression |e, a, b| e.binary(Binary::Add, a, b);
    reference |x| x[0] + x[1];
    vjp both!(|_, c| Ok(c), |_, c| Ok(c));

    /// `out = lhs − rhs`. Gradients: `cotangent` and `−cotangent`.
    Sub "sub" [lhs, rhs] number in ANY, ANY;
    expression |e, a, b| e.binary(Binary::Sub, a, b);
    reference |x| x[0] - x[1];
    vjp both!(|_, c| Ok(c), |cx, c| cx.graph.neg(c));

    /// `out = lhs · rhs`. Gradients: `cotangent · rhs` and `cotangent · lhs`.
    Mul "mul" [lhs, rhs] number in ANY, ANY;
    expression |e, a, b| e.binary(Binary::Mul, a, b);
    reference |x| x[0] * x[1];
    vjp both!(|cx, c| cx.graph.mul(c, cx.inputs[1]), |cx, c| cx.graph.mul(c, cx.inputs[0]));

    /// `out = lhs / rhs`. Gradients: `cotangent / rhs` and `−cotangent · out / rhs`.
    Div "div" [lhs, rhs] float in ANY, POSITIVE;
    expression |e, a, b| e.binary(Binary::Div, a, b);
    reference |x| x[0] / x[1];
    vjp both!(|cx, c| cx.graph.div(c, cx.inputs[1]), |cx, c| {
        let g = cx.graph;
        g.composed("div", [c, cx.inputs[0], cx.inputs[1]], |[c, lhs, rhs]| {
            g.neg(g.mul(c, g.div(g.div(lhs, rhs)?, rhs)?)?)
        })
    });

    /// `out = max(lhs, rhs)`, NaN if either is; of bool: or. The gradient goes to the larger, to both by halves where they are equal.
    Maximum "maximum" [lhs, rhs] any in ANY, ANY;
    expression |e, a, b| e.binary(Binary::Max, a, b);
    reference |x| x[0].max(x[1]);
    vjp both!(|cx, c| share(cx, c, 0, 1), |cx, c| share(cx, c, 1, 0));

    /// `out = min(lhs, rhs)`, NaN if either is; of bool: and. The gradient goes to the smaller, to both by halves where they are equal.
    Minimum "minimum" [lhs, rhs] any in ANY, ANY;
    expression |e, a, b| e.binary(Binary::Min, a, b);
    reference |x| x[0].min(x[1]);
    vjp both!(|cx, c| share(cx, c, 1, 0), |cx, c| share(cx, c, 0, 1));
}

/// `1 − tanh² x`.
pub(super) fn sech_squared(g: &Graph, x: Value) -> Result<Value, Error> {
    let twice = g.affine(x, 2.0, 0.0)?;
    g.affine(g.mul(g.sigmoid(twice)?, g.sigmoid(g.neg(twice)?)?)?, 4.0, 0.0)
}

/// `cotangent · (½ + ½·sign(own − other))`: all of it to the larger argument, halves where they are equal.
fn share(cx: &Vjp<'_>, cotangent: Value, larger: usize, other: usize) -> Result<Value, Error> {
    // For the smaller argument `larger` and `other` are exchanged by the caller.
    let difference = cx.graph.sub(cx.inputs[larger], cx.inputs[other])?;
    let sign = cx.graph.sign(difference)?;
    let part = cx.graph.affine(sign, 0.5, 0.5)?;
    cx.graph.mul(cotangent, part)
}

use crate::values::Math;
