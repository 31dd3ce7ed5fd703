//! Chains of pointwise ops in one kernel, which the passes make of them.

use crate::contract::cursor;
use crate::contract::{
    Body, Data, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes, rules,
};
use crate::kernel::cpu::pointwise as tile;
use crate::ops::random::distributions::{Words, sample_cursor};
use crate::ops::random::dropout::Dropout;
use crate::values::{
    Binary, DType, DeviceKind, Expression, HostTensor, Math, Reg, Rule, Shape, Spec, Step, Unary,
};

op_list! { PointwiseChain }

/// One scalar expression: that of a chain of pointwise ops and dropouts, each rounded as if it had stored its result. The
/// chain gives the same bytes as its ops.
///
/// Arguments: the arrays that the chain reads, of one shape, floats of up to 32 bits or bool; `cursor` `i64[8]`, if a dropout is
/// among its ops. Result: of their shape. Arithmetic in f32. In place on an argument of the result's dtype. No gradient: chains
/// are made after the backward pass is built. Deterministic. Errors: shapes that differ, another number of arguments.
#[derive(Debug, Clone)]
pub struct PointwiseChain {
    expression: Expression,
    /// Arrays that it reads.
    arrays: usize,
    dtype: DType,
}

op_attributes! {
    impl PointwiseChain();
}

/// Of one array, which it copies.
impl Default for PointwiseChain {
    fn default() -> Self {
        Self { expression: Expression::new(|e| e.arg(0)), arrays: 1, dtype: DType::F32 }
    }
}

impl PointwiseChain {
    /// An expression of `arrays` arguments and, if it draws random numbers, a cursor; the result is of `dtype`.
    pub(crate) fn new(expression: Expression, arrays: usize, dtype: DType) -> Self {
        Self { expression, arrays, dtype }
    }

    /// What it computes, and of how many arrays.
    pub(crate) fn expression(&self) -> (&Expression, usize) {
        (&self.expression, self.arrays)
    }

    fn random(&self) -> bool {
        self.expression.streams().next().is_some()
    }
}

impl Op for PointwiseChain {
    fn name(&self) -> &'static str {
        "pointwise_chain"
    }
    fn internal(&self) -> bool {
        true
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let wanted = self.arrays.saturating_add(usize::from(self.random()));
        if args.len() != wanted || self.arrays == 0 {
            return Err(Rule::Arity { takes: format!("{wanted} arguments"), got: args.len() });
        }
        for (arg, spec) in args[..self.arrays].iter().enumerate() {
            if !matches!(spec.dtype, DType::F32 | DType::BF16 | DType::F16 | DType::Bool) {
                let expected = "f32, bf16, f16 or bool";
                return Err(Rule::Dtype { arg, dtype: spec.dtype, expected });
            }
            rules::same_shape(args, 0, arg)?;
        }
        if self.random() {
            cursor::rule(args, self.arrays)?;
        }
        Ok(Outputs::one(Spec { dtype: self.dtype, shape: args[0].shape }))
    }
    fn outputs(&self) -> &[Output] {
        // Of another dtype an argument can not lie where the result does.
        const { &[Output::in_place(&[0, 1, 2, 3, 4, 5, 6, 7])] }
    }
    fn accumulate(&self, dtype: DType) -> DType {
        let rounded = |step: &Step| if let Step::Rounded(to, _) = *step { Some(to) } else { None };
        let coarser = |a: DType, b: DType| if b.epsilon() > a.epsilon() { b } else { a };
        self.expression.steps().iter().filter_map(rounded).fold(dtype.accumulate(), coarser)
    }
    fn independent(&self, args: &[Spec], outputs: &[Spec]) -> Option<Vec<usize>> {
        // Random words are numbered by the elements of the whole.
        (!self.random()).then(|| args.iter().chain(outputs).map(|s| s.shape.rank()).collect())
    }
    fn body(&self) -> Body {
        Body::Opaque("it was made of ops that have bodies")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("pointwise_chain", |op, call| {
                    let op = attributes::<PointwiseChain>(op)?;
                    if !op.random() {
                        return tile::run(&op.expression, call);
                    }
                    let cursor = cursor::read(call, op.arrays)?;
                    let draw = |stream, first, out: &mut [u32]| Words::new(&cursor, stream).fill(first, out);
                    tile::run_random(&op.expression, call, &draw)
                }),
                Kernel::cuda("pointwise_chain", |op, call| {
                    let op = attributes::<PointwiseChain>(op)?;
                    let write = |e: &mut Expression| {
                        e.clone_from(&op.expression);
                        Reg(e.steps().len() as u8 - 1)
                    };
                    if op.random() {
                        crate::kernel::cuda::pointwise::run_random(write, call)
                    } else {
                        crate::kernel::cuda::pointwise::run(write, call)
                    }
                }),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements().saturating_mul(self.expression.flops())
    }
}

impl Tested for PointwiseChain {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let spec = Spec { dtype: self.dtype, shape: args[0].spec.shape };
        let cursor = self.random().then(|| cursor::of(&args[self.arrays]));
        vec![HostTensor::from_fn(spec, |i| {
            let mut values: Vec<f64> = Vec::new();
            for step in self.expression.steps() {
                let of = |r: Reg| values[usize::from(r.0)];
                let value = match *step {
                    Step::Arg(a) => args[usize::from(a)].data[i],
                    Step::Const(c) => c,
                    Step::Unary(f, x) => unary(f, of(x)),
                    Step::Binary(f, a, b) => binary(f, of(a), of(b)),
                    Step::Select(c, a, b) => of(if of(c) != 0.0 { a } else { b }),
                    Step::Rounded(dtype, x) => {
                        let one = Spec { dtype, shape: Shape::SCALAR };
                        HostTensor::from_fn(one, |_| of(x)).rounded().data[0]
                    }
                    Step::Kept { stream, last } => {
                        let word = cursor.as_ref().map_or(0, |c| Words::new(c, stream).get(i));
                        f64::from(u8::from(word <= last))
                    }
                };
                values.push(value);
            }
            values.last().copied().unwrap_or(0.0)
        })]
    }

    fn samples(&self) -> Vec<Sample> {
        let shapes: [&[usize]; 7] = [&[], &[0], &[7], &[3, 5], &[2, 3, 64], &[257], &[5, 1111]];
        let mut all = Vec::new();
        for shape in shapes.into_iter().filter_map(Shape::new) {
            for (dtype, result) in
                [(DType::BF16, DType::BF16), (DType::F32, DType::F32), (DType::F16, DType::F32)]
            {
                let x = || SampleArg::with(Some(dtype), shape, Data::Range(-3.0, 3.0));
                // A residual and a dropped branch.
                let dropped = Expression::new(|e| {
                    let (x, y) = (e.arg(0), e.arg(1));
                    let x = drop(e, x, 3);
                    let x = e.push(Step::Rounded(dtype, x));
                    e.add(x, y)
                });
                all.push(Sample::new(Self::new(dropped, 2, result), vec![x(), x(), sample_cursor()]));
                // Dropped twice, and scaled by what is in f32.
                let twice = Expression::new(|e| {
                    let (x, y) = (e.arg(0), e.arg(1));
                    let x = drop(e, x, 3);
                    let x = e.push(Step::Rounded(dtype, x));
                    let x = drop(e, x, 4);
                    e.mul(x, y)
                });
                let wide = SampleArg::with(Some(DType::F32), shape, Data::Range(-1.0, 1.0));
                all.push(Sample::new(Self::new(twice, 2, result), vec![x(), wide, sample_cursor()]));
                // No random numbers.
                let plain = Expression::new(|e| {
                    let x = e.arg(0);
                    let t = e.unary(Unary::Tanh, x);
                    let t = e.push(Step::Rounded(dtype, t));
                    let t = e.mul(t, x);
                    let t = e.push(Step::Rounded(dtype, t));
                    let half = e.constant(0.5);
                    e.add(t, half)
                });
                all.push(Sample::new(Self::new(plain, 1, result), vec![x()]));
            }
        }
        let any = || SampleArg::with(Some(DType::F32), [4], Data::Range(-1.0, 1.0));
        all.push(Sample::bad(Self::default(), vec![any(), any()], "takes 1 arguments, got 2"));
        all.push(Sample::bad(
            Self::default(),
            vec![SampleArg::with(Some(DType::I32), [4], Data::Int(0, 5))],
            "it must be f32, bf16, f16 or bool",
        ));
        all
    }
}

/// A dropout of a quarter.
fn drop(e: &mut Expression, x: Reg, stream: u32) -> Reg {
    Dropout { rate: 0.25, stream }.write(e, x).unwrap_or(x)
}

fn unary(f: Unary, x: f64) -> f64 {
    match f {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Exp => x.exp(),
        Unary::Ln => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => x.sqrt().recip(),
        Unary::Recip => x.recip(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => Math::erf(x),
        Unary::NormalCdf => Math::normal_cdf(x),
        Unary::Bell => (-0.5 * x * x).exp(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log1p => x.ln_1p(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
    }
}

fn binary(f: Binary, a: f64, b: f64) -> f64 {
    match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Max => Math::max(a, b),
        Binary::Min => Math::min(a, b),
        Binary::Pow => a.powf(b),
        Binary::Rem => Math::rem(a, b),
        Binary::Equal => f64::from(u8::from(a == b)),
        Binary::Less => f64::from(u8::from(a < b)),
        Binary::LessEqual => f64::from(u8::from(a <= b)),
    }
}
