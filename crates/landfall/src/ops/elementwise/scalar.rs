//! Pointwise ops with attributes or mixed dtypes: affine, cast, where, comparisons, fill.

use super::pointwise::{SHAPES, kernels, map, samples};
use crate::contract::{
    Body, Data, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, attribute_choices,
    attributes, op_attributes, rules,
};
use crate::values::{Binary, DType, DeviceKind, HostTensor, Number, Rule, Shape, Spec, Step};

op_list! { Affine, Cast, Compare, Fill, Where; Comparison }

op_attributes! {
    /// `out = x · mul + add` with constants.
    ///
    /// `x`: any shape, float. Result: as `x`, with one rounding. In place on `x`. Gradient: `cotangent · mul`. Errors: `x`
    /// must be a float. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Affine(x) {
        /// Factor.
        pub mul: f64 = 1.0,
        /// Addend.
        pub add: f64 = 0.0,
    }
}

impl Op for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::one_float(self, args).map(Outputs::one)
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let a = attributes::<Self>(op).copied().unwrap_or_default();
            let x = e.arg(0);
            let y = if a.mul == 1.0 { x } else { e.scale(x, a.mul) };
            if a.add == 0.0 && a.mul != 1.0 {
                return y;
            }
            let c = e.constant(a.add);
            e.add(y, c)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            Ok(vec![Some(cx.graph.affine(
                cx.cotangent()?,
                attributes::<Self>(op).map_or(1.0, |a| a.mul),
                0.0,
            )?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Affine {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |x| x[0] * self.mul + self.add)
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(Self { mul: -1.5, add: 0.25 }, &[(-3.0, 3.0)]);
        all.extend(samples(Self { mul: 1.0, add: 0.0 }, &[(-3.0, 3.0)]).into_iter().take(2));
        all.extend(samples(Self { mul: 2.0, add: 0.0 }, &[(-3.0, 3.0)]).into_iter().take(2));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5))],
            "it must be f32, f64, bf16 or f16",
        ));
        all
    }
}

op_attributes! {
    /// `out = x` in another dtype: to floats rounded to nearest; floats to integers truncated, saturated, NaN as 0; integers to
    /// narrower integers modulo 2^bits; to bool `x ≠ 0`.
    ///
    /// `x`: any shape and dtype. Result: of its shape. Disjoint. Gradient: the cotangent cast back; 0 through
    /// integers. Errors: none. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Cast(x) {
        /// The dtype of the result.
        pub dtype: DType = DType::F32 => required,
    }
}

impl Op for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        Ok(Outputs::one(Spec { dtype: self.dtype, ..args[0] }))
    }
    fn outputs(&self) -> &[Output] {
        // Elements change size, so blocks of the kernel would overwrite what others have not read.
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let to = attributes::<Self>(op).map_or(DType::F32, |a| a.dtype);
            let x = e.arg(0);
            if to != DType::Bool {
                return x;
            }
            let zero = e.constant(0.0);
            let one = e.constant(1.0);
            let is_zero = e.binary(Binary::Equal, x, zero);
            e.binary(Binary::Sub, one, is_zero)
        })
    }
    fn vjp(&self) -> Grad {
        if !self.dtype.is_float() {
            return Grad::Zero;
        }
        Grad::Rule(|_, cx| {
            let dtype = cx.graph.spec(cx.inputs[0]).dtype;
            Ok(vec![if dtype.is_float() { Some(cx.graph.recast(cx.cotangent()?, dtype)?) } else { None }])
        })
    }
    fn mixing(&self) -> Mixing {
        // Its dtype is an attribute, which says what is wanted.
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Cast {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, self.dtype, |x| match self.dtype {
            DType::Bool => f64::from(u8::from(x[0] != 0.0)),
            DType::I32 | DType::I64 => x[0].trunc(),
            DType::U8 if args[0].spec.dtype.is_float() => x[0].trunc().clamp(0.0, 255.0),
            DType::U8 => x[0],
            DType::F32 | DType::F64 | DType::BF16 | DType::F16 => x[0],
        })
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> =
            DType::ALL.iter().flat_map(|&dtype| samples(Self { dtype }, &[(-3.0, 3.0)])).collect();
        all.push(Sample::new(Self { dtype: DType::U8 }, vec![SampleArg::range([40], -500.0, 500.0)]));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

op_attributes! {
    /// `out = condition ? lhs : rhs`.
    ///
    /// `condition`: bool; `lhs`, `rhs`: one dtype, any; all of one shape. Result: as `lhs`. In place on `lhs` or `rhs`.
    /// Gradients of `lhs` and `rhs`: the cotangent where each was taken, zero elsewhere. Errors: shapes or dtypes that
    /// differ, a condition that is not bool. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Where(condition, lhs, rhs);
}

impl Op for Where {
    fn name(&self) -> &'static str {
        "where"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::dtype(&args, 0, DType::Bool)?;
        rules::same_dtype(&args, 1, 2)?;
        rules::same_shape(&args, 0, 1)?;
        rules::same_shape(&args, 0, 2)?;
        Ok(Outputs::one(args[1]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[1, 2])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|_, e| {
            let (c, a, b) = (e.arg(0), e.arg(1), e.arg(2));
            e.push(Step::Select(c, a, b))
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let c = cx.cotangent()?;
            let zero = cx.graph.fill(cx.graph.spec(c).dtype, cx.graph.shape(c), 0.0)?;
            let taken = cx.graph.select(cx.inputs[0], c, zero)?;
            Ok(vec![None, Some(taken), Some(cx.graph.select(cx.inputs[0], zero, c)?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Where {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[1].spec.dtype, |x| if x[0] != 0.0 { x[1] } else { x[2] })
    }
    fn samples(&self) -> Vec<Sample> {
        let condition = |shape: Shape| SampleArg::with(Some(DType::Bool), shape, Data::Int(0, 2));
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes
            .map(|s| Sample::new(*self, vec![condition(s), SampleArg::any(s), SampleArg::any(s)]))
            .collect();
        all.push(Sample::bad(
            *self,
            vec![
                SampleArg::with(Some(DType::F32), [2], Data::Int(0, 2)),
                SampleArg::any([2]),
                SampleArg::any([2]),
            ],
            "it must be bool",
        ));
        all
    }
}

/// Which comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `lhs = rhs`.
    Equal,
    /// `lhs < rhs`.
    Less,
    /// `lhs ≤ rhs`.
    LessEqual,
    /// `lhs ≠ rhs`; true where either is NaN.
    NotEqual,
    /// `lhs > rhs`.
    Greater,
    /// `lhs ≥ rhs`.
    GreaterEqual,
}

attribute_choices!(Comparison: Equal = "equal", Less = "less", LessEqual = "less_equal", NotEqual = "not_equal",
    Greater = "greater", GreaterEqual = "greater_equal");

op_attributes! {
    /// `out = lhs (=, <, ≤, ≠, >, ≥) rhs` as bool, integers exactly. Comparisons with NaN are false, `≠` is true.
    ///
    /// `lhs`, `rhs`: one shape and dtype, any. Result: bool, of that shape. Disjoint. Gradient: 0. Errors: shapes or
    /// dtypes that differ. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Compare(lhs, rhs) {
        /// Which comparison.
        pub comparison: Comparison = Comparison::Less => required,
    }
}

impl Comparison {
    /// Every comparison.
    pub const ALL: &'static [Self] =
        &[Self::Equal, Self::Less, Self::LessEqual, Self::NotEqual, Self::Greater, Self::GreaterEqual];
}

impl Op for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        Ok(Outputs::one(Spec { dtype: DType::Bool, ..args[0] }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let (a, b) = (e.arg(0), e.arg(1));
            match attributes::<Self>(op).copied().unwrap_or_default().comparison {
                Comparison::Equal => e.binary(Binary::Equal, a, b),
                Comparison::Less => e.binary(Binary::Less, a, b),
                Comparison::LessEqual => e.binary(Binary::LessEqual, a, b),
                Comparison::Greater => e.binary(Binary::Less, b, a),
                Comparison::GreaterEqual => e.binary(Binary::LessEqual, b, a),
                Comparison::NotEqual => {
                    let (one, equal) = (e.constant(1.0), e.binary(Binary::Equal, a, b));
                    e.binary(Binary::Sub, one, equal)
                }
            }
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Zero
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Compare {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, DType::Bool, |x| {
            f64::from(u8::from(match self.comparison {
                Comparison::Equal => x[0] == x[1],
                Comparison::Less => x[0] < x[1],
                Comparison::LessEqual => x[0] <= x[1],
                Comparison::NotEqual => x[0] != x[1],
                Comparison::Greater => x[0] > x[1],
                Comparison::GreaterEqual => x[0] >= x[1],
            }))
        })
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = (Comparison::ALL.iter())
            .flat_map(|&comparison| {
                let whole = |n: usize| SampleArg::with(None, [n], Data::Int(0, 3));
                let mut s = samples(Self { comparison }, &[(-3.0, 3.0), (-3.0, 3.0)]);
                s.push(Sample::new(Self { comparison }, vec![whole(50), whole(50)]));
                s
            })
            .collect();
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4]), SampleArg::any([5])],
            "their shapes must be equal",
        ));
        all
    }
}

op_attributes! {
    /// `out = value` everywhere.
    ///
    /// No arguments. Result: `spec`, any dtype and shape. Disjoint. Not differentiable. Errors: a value that the dtype does not
    /// hold: one that is no integer of an integer dtype, or one that is finite and beyond the largest of a float dtype.
    #[derive(Debug, Clone, Copy)]
    pub struct Fill() {
        /// Dtype and shape of the result.
        pub spec: Spec = Spec { dtype: DType::F32, shape: Shape::SCALAR } => required,
        /// The value; rounded to a float dtype.
        pub value: f64 = 1.0 => required,
    }
}

impl Op for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::arity::<0>(self, args)?;
        Number::Float(self.value).held_by(self.spec.dtype)?;
        Ok(Outputs::one(self.spec))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let value = attributes::<Self>(op).copied().unwrap_or_default().value;
            e.constant(value)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::None("it has no arguments")
    }
    fn mixing(&self) -> Mixing {
        // Its dtype is an attribute, which says what is wanted.
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Fill {
    fn reference(&self, _: &[HostTensor]) -> Vec<HostTensor> {
        vec![HostTensor::from_fn(self.spec, |_| self.value)]
    }
    fn samples(&self) -> Vec<Sample> {
        let specs = DType::ALL.iter().flat_map(|&dtype| {
            SHAPES.iter().filter_map(move |s| Some(Spec { dtype, shape: Shape::new(s)? }))
        });
        let mut all: Vec<Sample> = specs.map(|spec| Sample::new(Self { spec, value: 1.0 }, vec![])).collect();
        all.push(Sample::bad(*self, vec![SampleArg::any([4])], "takes no arguments, got 1"));
        let bad =
            |dtype, value| Sample::bad(Self { spec: Spec::new(dtype, [2]), value }, vec![], "value is ");
        all.extend([
            bad(DType::U8, 300.0),
            bad(DType::I32, 0.5),
            bad(DType::Bool, 2.0),
            bad(DType::I64, f64::NAN),
            bad(DType::F16, 70_000.0),
            bad(DType::F32, -1e39),
            bad(DType::BF16, 3.4e38),
        ]);
        all
    }
}
