//! The numbers of positions.

use crate::contract::{
    Body, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu;
use crate::kernel::cuda::{self, BLOCK, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops;
use crate::values::{
    Axis, DType, DeviceKind, Element, HostTensor, Keep, Number, Rule, Shape, Spec, with_dtype,
};
use std::panic::Location;

/// The integers up to which every one is an `f64`.
const EXACT: u64 = 1 << 53;

op_list! { Iota }

op_attributes! {
    /// `out[.., i, ..] = start + step · i` along an axis: a range.
    ///
    /// No arguments. Result: `spec`, of any number dtype. Disjoint. Computed in f64, of integers exactly as long as every number is below 2⁵³. Not
    /// differentiable. Errors: an integer dtype with a start or step that is no integer, or a number that it does not hold, no such axis.
    ///
    /// ```
    /// use landfall::{DType, Engine, Spec, ops};
    /// let op = ops::Iota { spec: Spec::new(DType::I64, [4]), axis: 0, start: 10.0, step: 2.0 };
    /// assert_eq!(Engine::cpu()?.eval(&op, &[])?.read::<i64>()?, [10, 12, 14, 16]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Iota() {
        /// Dtype and shape of the result.
        pub spec: Spec = Spec { dtype: DType::F32, shape: Shape::SCALAR } => required,
        /// The axis that is counted along.
        pub axis of spec: usize = 0,
        /// The first number.
        pub start: f64 = 0.0,
        /// The difference of neighbours.
        pub step: f64 = 1.0,
    }
}

impl Op for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::arity::<0>(self, args)?;
        let (dtype, rank) = (self.spec.dtype, self.spec.shape.rank());
        let Some(&size) = self.spec.shape.dims().get(self.axis) else {
            return Err(Rule::Axis { axis: self.axis as isize, rank });
        };
        if dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype, expected: "a number" });
        }
        if dtype.is_float() {
            return Ok(Outputs::one(self.spec));
        }
        // The ends hold every number between them.
        let last = self.start + self.step * size.saturating_sub(1) as f64;
        let (least, most) = match dtype {
            DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
            DType::U8 => (0.0, 255.0),
            DType::I64 | DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::Bool => {
                (-2f64.powi(53), 2f64.powi(53))
            }
        };
        let numbers = [self.start, last].into_iter().filter(|_| size > 0);
        if let Some(value) =
            numbers.chain([self.step.fract()]).find(|v| v.fract() != 0.0 || !(least..=most).contains(v))
        {
            return Err(Rule::Attribute { name: "number of the range", value, expected: "one of its dtype" });
        }
        Ok(Outputs::one(self.spec))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Primitive("a range")
    }
    fn vjp(&self) -> Grad {
        Grad::None("it has no arguments")
    }
    fn mixing(&self) -> Mixing {
        // Its dtype is an attribute, which says what is wanted.
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("iota", |op, call| {
                    let op = attributes::<Iota>(op)?;
                    with_dtype!(any op.spec.dtype, T => op.write::<T>(call))
                }),
                Kernel::cuda("iota", Iota::launch),
            ]
        }
    }
}

cuda_kernel! {
    /// A thread writes a number.
    struct Numbers = "iota", BLOCK;
    out: view_out T,
    n: size,
    inner: size,
    size: size,
    rank: u32,
    shape: dims,
    start: f64,
    step: f64,
}

static SOURCE: Source = Source {
    name: "iota",
    pieces: &[Piece::new(
        "iota",
        "KERNEL(iota) {
    u64 at = thread_index();
    double number = start + step * double(at / inner % size);
    if (at < n) out[offset_of<u64>(at, rank, shape, out.stride)] = narrow<T>(number);
}
",
    )],
    entries: &[Numbers::KERNEL],
};

impl Iota {
    /// Elements that one number is repeated for.
    fn inner(&self) -> usize {
        self.spec.shape.dims()[self.axis + 1..].iter().product()
    }

    fn number(&self, inner: usize, at: usize) -> f64 {
        self.start + self.step * (at / inner.max(1) % self.spec.shape.dims()[self.axis].max(1)) as f64
    }

    fn write<T: Element>(&self, call: &cpu::Call<'_>) -> Result<(), Rule> {
        let mut out = call.output::<T>(0)?;
        let inner = self.inner();
        for at in 0..out.elements() {
            out.set_flat(at, T::from_f64(self.number(inner, at)));
        }
        Ok(())
    }

    fn launch(op: &dyn Op, call: &mut cuda::Call<'_>) -> Result<(), Failure> {
        let op = attributes::<Self>(op)?;
        let out = call.output(0)?;
        let shape = out.spec().shape;
        let n = shape.elements();
        if n == 0 {
            return Ok(());
        }
        let args = Numbers {
            out,
            n,
            inner: op.inner(),
            size: shape.dims()[op.axis],
            rank: shape.rank() as u32,
            shape: shape.dims(),
            start: op.start,
            step: op.step,
        };
        call.launch(&Module::new(&SOURCE).of("T", out.dtype()), Geometry::linear(n, BLOCK)?, &args)
    }
}

impl Tested for Iota {
    fn reference(&self, _: &[HostTensor]) -> Vec<HostTensor> {
        let inner = self.inner();
        vec![HostTensor::from_fn(self.spec, |at| self.number(inner, at))]
    }
    fn samples(&self) -> Vec<Sample> {
        let of = |dtype, shape: &[usize], axis, start, step| Self {
            spec: Spec { dtype, shape: Shape::new(shape).unwrap_or(Shape::SCALAR) },
            axis,
            start,
            step,
        };
        let mut all = Vec::new();
        for dtype in DType::ALL.iter().copied().filter(|&d| d != DType::Bool) {
            for (shape, axis) in
                [(&[7][..], 0), (&[1], 0), (&[0], 0), (&[3, 5], 0), (&[3, 5, 4], 1), (&[2, 130], 1)]
            {
                all.push(Sample::new(of(dtype, shape, axis, 3.0, 1.0), vec![]));
            }
        }
        all.push(Sample::new(of(DType::F32, &[9], 0, -1.0, 0.25), vec![]));
        all.push(Sample::new(of(DType::I64, &[9], 0, 5.0, -3.0), vec![]));
        all.push(Sample::bad(of(DType::F32, &[3], 1, 0.0, 1.0), vec![], "axis is 1, the rank is 1"));
        all.push(Sample::bad(of(DType::U8, &[300], 0, 0.0, 1.0), vec![], "number of the range is 299"));
        all.push(Sample::bad(of(DType::I32, &[3], 0, 0.5, 1.0), vec![], "number of the range is 0.5"));
        all.push(Sample::bad(
            of(DType::F32, &[3], 0, 0.0, 1.0),
            vec![SampleArg::any([3])],
            "takes no arguments",
        ));
        all
    }
}

impl Graph {
    /// The shape of a value with one more axis before axis `at`.
    #[track_caller]
    pub(in crate::ops) fn with_axis(
        &self,
        op: &'static str,
        x: Value,
        at: usize,
        size: usize,
    ) -> Result<Shape, Error> {
        let caller = Location::caller();
        let mut sizes = self.shape(x).dims().to_vec();
        sizes.insert(at, size);
        let rule = Rule::Rank { arg: 0, rank: sizes.len() - 1, expected: "below 8" };
        Ok(Shape::new(&sizes).ok_or_else(|| rule.of(op, &self.specs(&[x]), None, Some(caller)))?)
    }

    /// The numbers `start + step · i` for `i < count`; of integers exactly.
    ///
    /// # Errors
    /// As of [`Iota`], but that i64 may hold any of its numbers.
    #[track_caller]
    pub fn arange(
        &self,
        dtype: DType,
        start: impl Into<Number>,
        step: impl Into<Number>,
        count: usize,
    ) -> Result<Value, Error> {
        let (start, step) = (start.into(), step.into());
        let counted =
            |start, step| self.op1(Iota { spec: Spec::new(dtype, [count]), axis: 0, start, step }, &[]);
        if let (Number::Int(first), Number::Int(by)) = (start, step)
            && dtype == DType::I64
            && let Some(last) = i64::try_from(count.saturating_sub(1))
                .ok()
                .and_then(|n| n.checked_mul(by)?.checked_add(first))
            && [first, by, last].iter().any(|v| v.unsigned_abs() > EXACT)
        {
            let places = self.mul(counted(0.0, 1.0)?, self.fill(dtype, Shape::SCALAR, by)?)?;
            return self.add(places, self.fill(dtype, Shape::SCALAR, first)?);
        }
        counted(start.near(), step.near())
    }

    /// `count` numbers from `first` to `last`, both included, in equal steps.
    ///
    /// # Errors
    /// As of [`Iota`]; a float dtype.
    #[track_caller]
    pub fn linspace(&self, dtype: DType, first: f64, last: f64, count: usize) -> Result<Value, Error> {
        let step = if count > 1 { (last - first) / (count - 1) as f64 } else { 0.0 };
        self.arange(dtype, first, step, count)
    }

    /// `[.., classes]`: 1 where the last index is that of `ids` (i64 `[..]`), else 0. An id out of range gives zeros.
    ///
    /// # Errors
    /// `ids` must be i64.
    #[track_caller]
    pub fn one_hot(&self, ids: Value, classes: usize, dtype: DType) -> Result<Value, Error> {
        let at = Location::caller();
        let dtype_of_ids = self.spec(ids).dtype;
        if dtype_of_ids != DType::I64 {
            let rule = Rule::Dtype { arg: 0, dtype: dtype_of_ids, expected: "i64" };
            return Err(rule.of("one_hot", &self.specs(&[ids]), None, Some(at)).into());
        }
        let column = self.with_axis("one_hot", ids, self.shape(ids).rank(), 1)?;
        let classes = self.arange(DType::I64, 0.0, 1.0, classes)?;
        self.cast(self.equal(self.reshape(ids, column)?, classes)?, dtype)
    }

    /// Whether `column ≤ row + diagonal`, as bool `[rows, columns]`: the lower triangle.
    ///
    /// # Errors
    /// None that valid sizes can cause.
    #[track_caller]
    pub fn lower_triangle(&self, rows: usize, columns: usize, diagonal: i64) -> Result<Value, Error> {
        let row = self.arange(DType::I64, diagonal, 1, rows)?;
        let column = self.arange(DType::I64, 0.0, 1.0, columns)?;
        self.less_equal(column, self.reshape(row, [rows, 1])?)
    }

    /// The matrix `[n, n]` with ones on its diagonal.
    ///
    /// # Errors
    /// None that a valid size can cause.
    #[track_caller]
    pub fn eye(&self, dtype: DType, n: usize) -> Result<Value, Error> {
        self.one_hot(self.arange(DType::I64, 0.0, 1.0, n)?, n, dtype)
    }

    /// The elements in reverse order along an axis.
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn flip(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let axis = self.axis("flip", x, axis)?;
        let n = self.shape(x).dims()[axis];
        let back = self.arange(DType::I64, n.saturating_sub(1) as f64, -1.0, n)?;
        self.take(x, axis, back)
    }

    /// The elements moved by `shift` places along an axis, those past the end to the front.
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn roll(&self, x: Value, axis: impl Axis, shift: isize) -> Result<Value, Error> {
        let axis = self.axis("roll", x, axis)?;
        let n = self.shape(x).dims()[axis];
        let by = shift.rem_euclid(n.max(1) as isize).unsigned_abs();
        if by == 0 {
            return Ok(x);
        }
        self.concat(&[self.slice(x, axis, n - by, by)?, self.slice(x, axis, 0, n - by)?], axis)
    }

    /// The tensor `times` times behind itself along an axis.
    ///
    /// # Errors
    /// The axis must exist; at least once.
    #[track_caller]
    pub fn tile(&self, x: Value, axis: impl Axis, times: usize) -> Result<Value, Error> {
        let (axis, at) = (self.axis("tile", x, axis)?, Location::caller());
        if times == 0 {
            let rule = Rule::Attribute { name: "times", value: 0.0, expected: "at least 1" };
            return Err(rule.of("tile", &self.specs(&[x]), None, Some(at)).into());
        }
        self.repeated(x, axis, axis, times)
    }

    /// Each element `times` times along an axis.
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn repeat_interleave(&self, x: Value, axis: impl Axis, times: usize) -> Result<Value, Error> {
        let axis = self.axis("repeat_interleave", x, axis)?;
        self.repeated(x, axis, axis + 1, times)
    }

    /// The elements of the axes from `inner` on `times` times behind each other, which makes `axis` so many times as long. A view
    /// that is copied once, however many times.
    #[track_caller]
    fn repeated(&self, x: Value, axis: usize, inner: usize, times: usize) -> Result<Value, Error> {
        let shape = self.shape(x);
        let (rows, each) = shape.dims().split_at(inner);
        let [rows, each] = [rows, each].map(|sizes| sizes.iter().product());
        let many = self.broadcast_to(self.reshape(x, [rows, 1, each])?, [rows, times, each])?;
        self.reshape(many, shape.with(axis, shape.dims()[axis].saturating_mul(times)))
    }

    /// Index of the largest element along an axis, the first of equal ones, as i64. NaN counts as larger than every number.
    ///
    /// # Errors
    /// The axis must exist and have an element.
    #[track_caller]
    pub fn argmax(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        self.first_extreme("argmax", ops::Reduction::Max, x, axis)
    }

    /// Index of the smallest element along an axis, the first of equal ones, as i64. NaN counts as smaller than every number.
    ///
    /// # Errors
    /// As of [`Graph::argmax`].
    #[track_caller]
    pub fn argmin(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        self.first_extreme("argmin", ops::Reduction::Min, x, axis)
    }

    /// Index of the first element that is the extreme of its axis.
    #[track_caller]
    fn first_extreme(
        &self,
        op: &'static str,
        reduction: ops::Reduction,
        x: Value,
        axis: impl Axis,
    ) -> Result<Value, Error> {
        let axis = self.axis(op, x, axis)?;
        let n = self.shape(x).dims()[axis];
        if n == 0 {
            let rule = Rule::Attribute { name: "size of the axis", value: 0.0, expected: "at least 1" };
            return Err(rule.of(op, &[self.spec(x)], None, Some(Location::caller())).into());
        }
        // The largest of n − position among those that hold the extreme. NaN equals nothing, but is one.
        let extreme = self.reduced(reduction, x, Keep(axis))?;
        let holds = self.maximum(self.equal(x, extreme)?, self.is_nan(x)?)?;
        let spec = Spec { dtype: DType::I64, shape: self.shape(x) };
        let rank = self.op1(Iota { spec, axis, start: n as f64, step: -1.0 }, &[])?;
        let first = self.max(self.select(holds, rank, self.scalar(rank, 0.0)?)?, axis)?;
        self.sub(self.scalar(first, n as f64)?, first)
    }

    /// Draws from a normal distribution with mean 0 and standard deviation 1, by Box and Muller's transform of uniform draws
    /// ([`ops::Uniform`]), two for each element, all of this one stream of the cursor's random numbers.
    ///
    /// # Errors
    /// As of [`ops::Uniform`]; a float dtype.
    #[track_caller]
    pub fn normal(&self, spec: Spec, stream: u32, cursor: Value) -> Result<Value, Error> {
        // In f32 at least: a draw that a narrow dtype rounds to 1 would give the logarithm of 0.
        let n = spec.shape.elements();
        let wide = Spec::new(spec.dtype.accumulate(), [n.saturating_mul(2)]);
        let drawn = self.op1(ops::Uniform { spec: wide, low: 0.0, high: 1.0, stream }, &[cursor])?;
        let half = |start| self.reshape(self.slice(drawn, 0, start, n)?, spec.shape);
        let (u, v) = (self.affine(half(0)?, -1.0, 1.0)?, half(n)?);
        let radius = self.sqrt(self.affine(self.ln(u)?, -2.0, 0.0)?)?;
        let drawn = self.mul(radius, self.cos(self.affine(v, std::f64::consts::TAU, 0.0)?)?)?;
        self.cast(drawn, spec.dtype)
    }
}
