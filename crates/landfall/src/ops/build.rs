//! Calls of ops on graph values, with the passes that op files never do themselves (broadcasting, making contiguous).

use crate::contract::{Graph, Op, Origin, Value, View};
use crate::error::Error;
use crate::ops;
use crate::values::{Axes, Axis, DType, Number, Rule, Shape, Spec};
use std::panic::Location;

/// Methods that append one op and give its one output.
macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident = $op:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// The rule that the argument breaks, with the caller's line.
        #[track_caller]
        pub fn $method(&self, x: Value) -> Result<Value, Error> {
            self.op1($op, &[x])
        }
    )* };
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident = $op:expr;)*) => { $(
        $(#[$doc])*
        /// Shapes are broadcast.
        ///
        /// # Errors
        /// The rule that the arguments break, with the caller's line.
        #[track_caller]
        pub fn $method(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
            let [lhs, rhs] = self.broadcast_together($op.name(), [lhs, rhs])?;
            self.op1($op, &[lhs, rhs])
        }
    )* };
}

impl Graph {
    /// The same elements in the same order under another shape: a view where the strides allow it, else of a copy.
    ///
    /// # Errors
    /// The element counts must be equal.
    #[track_caller]
    pub fn reshape(&self, x: Value, shape: impl Into<Shape>) -> Result<Value, Error> {
        let (shape, at) = (shape.into(), Location::caller());
        self.sound("reshape", &[x], at)?;
        let fits = {
            let inner = self.inner.borrow();
            let layout = inner.info(x).layout;
            !matches!(layout.reshape(shape), Err(Rule::ReshapeStrides { .. }))
        };
        let x = if fits { x } else { self.copy(x)? };
        self.view("reshape", x, View::Reshape, |l| l.reshape(shape), at)
    }

    /// The same elements with one more axis, of size 1, which `axis` counts in the result: a view.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [8, 3]);
    /// assert_eq!(g.shape(g.unsqueeze(x, 1)?).dims(), [8, 1, 3]);
    /// assert_eq!(g.shape(g.unsqueeze(x, -1)?).dims(), [8, 3, 1]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result must have such an axis, and at most 8 of them.
    #[track_caller]
    pub fn unsqueeze(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let at = Location::caller();
        let axis = axis.index(self.shape(x).rank() + 1);
        let axis = axis.map_err(|rule| rule.of("unsqueeze", &self.specs(&[x]), None, Some(at)))?;
        self.reshape(x, self.with_axis("unsqueeze", x, axis, 1)?)
    }

    /// The same elements without an axis of size 1: a view.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [8, 1, 3]);
    /// assert_eq!(g.shape(g.squeeze(x, 1)?).dims(), [8, 3]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The axis must exist and have size 1.
    #[track_caller]
    pub fn squeeze(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let at = Location::caller();
        let axis = self.axis("squeeze", x, axis)?;
        let shape = self.shape(x);
        match shape.dims()[axis] {
            1 => self.reshape(x, shape.without(axis)),
            size => {
                let rule = Rule::Squeeze { axis, size };
                Err(rule.of("squeeze", &self.specs(&[x]), None, Some(at)).into())
            }
        }
    }

    /// The values broadcast to their common shape.
    #[track_caller]
    pub(in crate::ops) fn broadcast_together<const N: usize>(
        &self,
        op: &'static str,
        values: [Value; N],
    ) -> Result<[Value; N], Error> {
        let at = Location::caller();
        self.sound(op, &values, at)?;
        let specs = self.specs(&values);
        let mut shape = specs[0].shape;
        for s in &specs[1..] {
            let rule = Rule::Broadcast { from: s.shape, to: shape };
            shape = shape.broadcast(&s.shape).ok_or_else(|| rule.of(op, &specs, None, Some(at)))?;
        }
        let mut out = values;
        for v in &mut out {
            *v = self.broadcast_to(*v, shape)?;
        }
        Ok(out)
    }

    unary_methods! {
        /// `−x`.
        neg = ops::Neg;
        /// `|x|`.
        abs = ops::Abs;
        /// `eˣ`.
        exp = ops::Exp;
        /// Natural logarithm.
        ln = ops::Ln;
        /// `√x`.
        sqrt = ops::Sqrt;
        /// `1/√x`.
        rsqrt = ops::Rsqrt;
        /// `1/x`.
        recip = ops::Recip;
        /// Hyperbolic tangent.
        tanh = ops::Tanh;
        /// Error function.
        erf = ops::Erf;
        /// −1, 0 or 1.
        sign = ops::Sign;
        /// Sine.
        sin = ops::Sin;
        /// Cosine.
        cos = ops::Cos;
        /// `eˣ − 1`.
        expm1 = ops::Expm1;
        /// `ln(1 + x)`.
        log1p = ops::Log1p;
        /// The largest integer that is not greater.
        floor = ops::Floor;
        /// The smallest integer that is not less.
        ceil = ops::Ceil;
        /// The nearest integer, the even one of two.
        round = ops::Round;
        /// `1 / (1 + e⁻ˣ)`.
        sigmoid = ops::Sigmoid;
        /// `max(x, 0)`.
        relu = ops::Relu;
        /// `x / (1 + e⁻ˣ)`.
        silu = ops::Silu;
        /// `ln(1 + eˣ)`.
        softplus = ops::Softplus;
        /// The elements in row-major order without gaps.
        copy = ops::Copy;
    }

    binary_methods! {
        /// `lhs + rhs`.
        add = ops::Add;
        /// `lhs − rhs`.
        sub = ops::Sub;
        /// `lhs · rhs`.
        mul = ops::Mul;
        /// `lhs / rhs`.
        div = ops::Div;
        /// The larger of both.
        maximum = ops::Maximum;
        /// The smaller of both.
        minimum = ops::Minimum;
        /// `lhs^rhs`.
        pow = ops::Pow;
        /// The remainder with the sign of `rhs`.
        rem = ops::Rem;
        /// `lhs = rhs` as bool.
        equal = ops::Compare { comparison: ops::Comparison::Equal };
        /// `lhs ≠ rhs` as bool.
        not_equal = ops::Compare { comparison: ops::Comparison::NotEqual };
        /// `lhs < rhs` as bool.
        less = ops::Compare { comparison: ops::Comparison::Less };
        /// `lhs ≤ rhs` as bool.
        less_equal = ops::Compare { comparison: ops::Comparison::LessEqual };
        /// `lhs > rhs` as bool.
        greater = ops::Compare { comparison: ops::Comparison::Greater };
        /// `lhs ≥ rhs` as bool.
        greater_equal = ops::Compare { comparison: ops::Comparison::GreaterEqual };
    }

    /// `x · mul + add` with constants.
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn affine(&self, x: Value, mul: f64, add: f64) -> Result<Value, Error> {
        self.op1(ops::Affine { mul, add }, &[x])
    }

    /// A tensor filled with one value; of an integer that no `f64` is, in i64, a view of one element.
    ///
    /// # Errors
    /// An integer dtype must hold the value.
    #[track_caller]
    pub fn fill(
        &self,
        dtype: DType,
        shape: impl Into<Shape>,
        value: impl Into<Number>,
    ) -> Result<Value, Error> {
        let (number, shape, at) = (value.into(), shape.into(), Location::caller());
        number.held_by(dtype).map_err(|rule| rule.of("fill", &[], None, Some(at)))?;
        let filled = |shape, value| self.op1(ops::Fill { spec: Spec { dtype, shape }, value }, &[]);
        let (near, rest) = number.parts();
        if rest == 0 || dtype.is_float() {
            return filled(shape, number.near());
        }
        let one = self.op1(ops::Add, &[filled(Shape::SCALAR, near)?, filled(Shape::SCALAR, rest as f64)?])?;
        self.broadcast_to(one, shape)
    }

    /// The same values in another dtype.
    ///
    /// # Errors
    /// None that a valid value can cause.
    #[track_caller]
    pub fn cast(&self, x: Value, dtype: DType) -> Result<Value, Error> {
        self.sound("cast", &[x], Location::caller())?;
        if self.spec(x).dtype == dtype { Ok(x) } else { self.op1(ops::Cast { dtype }, &[x]) }
    }

    /// As [`Graph::cast`], of a value that a cast has widened those that it was widened from: for the casts that passes place. Of a
    /// user's it would leave the wide value out of what is made of it.
    pub(crate) fn recast(&self, x: Value, dtype: DType) -> Result<Value, Error> {
        self.cast(self.before_widening(x), dtype)
    }

    /// What a cast that loses nothing was given, if `x` is the result of one: from bf16 or f16, whose every value the wide
    /// floats have.
    fn before_widening(&self, x: Value) -> Value {
        let inner = self.inner.borrow();
        let Origin::Node { node } = inner.info(x).origin else { return x };
        let node = &inner.nodes[node];
        let from = node.inputs.first().map_or(x, |&v| v);
        let widens = matches!(inner.info(from).spec.dtype, DType::BF16 | DType::F16)
            && matches!(inner.info(x).spec.dtype, DType::F32 | DType::F64);
        if widens && ops::attributes::<ops::Cast>(node.op.as_ref()).is_ok() { from } else { x }
    }

    /// Elements of `lhs` where `condition` holds, of `rhs` elsewhere. Shapes are broadcast.
    ///
    /// # Errors
    /// `condition` must be bool, `lhs` and `rhs` of one dtype.
    #[track_caller]
    pub fn select(&self, condition: Value, lhs: Value, rhs: Value) -> Result<Value, Error> {
        let args = self.broadcast_together("where", [condition, lhs, rhs])?;
        self.op1(ops::Where, &args)
    }

    /// Sum over `axes`, which are taken out of the shape, or kept with size 1 ([`Keep`](crate::Keep)); of integers i64.
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn sum(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Sum, x, axes)
    }

    /// Mean over `axes`, as [`Graph::sum`].
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn mean(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Mean, x, axes)
    }

    /// Largest element over `axes`, as [`Graph::sum`].
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn max(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Max, x, axes)
    }

    /// Smallest element over `axes`, as [`Graph::sum`].
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn min(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Min, x, axes)
    }

    /// Product over `axes`, as [`Graph::sum`]; of integers i64.
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn prod(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Prod, x, axes)
    }

    /// A reduction over `axes`. Over sizes of 1 alone there is nothing to join: a view, of integers that a sum widens a cast.
    #[track_caller]
    pub(in crate::ops) fn reduced<A: Axes>(
        &self,
        reduction: ops::Reduction,
        x: Value,
        axes: A,
    ) -> Result<Value, Error> {
        let op = ops::Reduce::new(reduction, &[]).name();
        let at = Location::caller();
        self.sound(op, &[x], at)?;
        let shape = self.shape(x);
        let axes = axes.indices(shape.rank()).map_err(|r| r.of(op, &self.specs(&[x]), None, Some(at)))?;
        let mut kept = Shape::SCALAR;
        let sizes = shape.dims().iter().enumerate();
        for (axis, &size) in sizes {
            match axes.contains(&axis) {
                true if A::KEEPS => kept.push(1),
                true => {}
                false => kept.push(size),
            }
        }
        let joins = axes.iter().any(|&a| shape.dims()[a] != 1);
        let reduce = ops::Reduce::new(reduction, &axes);
        let result = if joins {
            self.op1(reduce, &[x])?
        } else {
            let specs = self.specs(&[x]);
            let outputs = reduce.infer(&specs).map_err(|r| r.of(op, &specs, None, Some(at)))?;
            self.cast(x, outputs[0].dtype)?
        };
        self.reshape(result, kept)
    }

    /// Matrix product over the last two axes; the leading axes are a batch and are broadcast.
    ///
    /// # Errors
    /// Inner sizes must agree, ranks be at least 2.
    #[track_caller]
    pub fn matmul(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
        self.product(&[lhs, rhs])
    }

    /// `lhs · rhs + bias` with a bias `[n]` for the last axis: one pass over the result.
    ///
    /// # Errors
    /// As [`Graph::matmul`]; the bias must have the last size of `rhs`.
    #[track_caller]
    pub fn matmul_add(&self, lhs: Value, rhs: Value, bias: Value) -> Result<Value, Error> {
        self.product(&[lhs, rhs, bias])
    }

    #[track_caller]
    fn product(&self, args: &[Value]) -> Result<Value, Error> {
        let at = Location::caller();
        self.sound("matmul", args, at)?;
        let specs = self.specs(args);
        let (l, r) = (specs[0].shape, specs[1].shape);
        let mut args = args.to_vec();
        // A batch times one matrix is one product with more rows.
        if l.rank() > 2 && r.rank() == 2 && l.last() > 0 {
            let inner = [l.last(), r.dims()[0]];
            if inner[0] != inner[1] {
                let rule = Rule::Dim { lhs: (0, l.rank() - 1, inner[0]), rhs: (1, 0, inner[1]) };
                return Err(rule.of("matmul", &specs, None, Some(at)).into());
            }
            args[0] = self.reshape(args[0], [l.elements() / l.last(), l.last()])?;
            let product = self.op1(ops::MatMul::default(), &args)?;
            return self.reshape(product, l.with(l.rank() - 1, r.last()));
        }
        if l.rank() >= 2 && r.rank() >= 2 && l.rank() + r.rank() > 4 {
            let batch = |s: &Shape| Shape::new(&s.dims()[..s.rank() - 2]).unwrap_or(Shape::SCALAR);
            let rule = Rule::Broadcast { from: r, to: l };
            let common =
                batch(&l).broadcast(&batch(&r)).ok_or_else(|| rule.of("matmul", &specs, None, Some(at)))?;
            let with = |s: &Shape| {
                let mut full = common;
                s.dims()[s.rank() - 2..].iter().for_each(|&d| full.push(d));
                full
            };
            args[0] = self.broadcast_to(args[0], with(&l))?;
            args[1] = self.broadcast_to(args[1], with(&r))?;
        }
        self.op1(ops::MatMul::default(), &args)
    }
}
