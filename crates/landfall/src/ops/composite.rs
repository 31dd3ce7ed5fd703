//! Functions that are a few ops each: written once here for graphs, with their gradients through those ops.

use crate::contract::{Graph, Value, rules};
use crate::error::Error;
use crate::ops;
use crate::values::{All, Axes, Axis, DType, Keep, Number, Rule, Shape};
use std::panic::Location;

impl Graph {
    /// A function of several ops, computed as one op is: `body` is given the float arguments in their accumulation dtype, f32 of
    /// f16 and bf16, and what it makes is rounded once to theirs. In mixed precision it stays in f32. Gradients alike.
    ///
    /// ```
    /// use landfall::{All, DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F16, [4096]);
    /// // The squares of f16 numbers above 255 are infinite in f16.
    /// let length = g.composed("length", [x], |[x]| g.sqrt(g.sum(g.square(x)?, All)?))?;
    /// assert_eq!(g.spec(length).dtype, DType::F16);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// Float arguments of one dtype; those of `body`.
    #[track_caller]
    pub fn composed<const N: usize>(
        &self,
        name: &'static str,
        args: [Value; N],
        body: impl FnOnce([Value; N]) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let at = Location::caller();
        self.sound(name, &args, at)?;
        let specs = self.specs(&args);
        let refused = |rule: Rule| Error::from(rule.of(name, &specs, None, Some(at)));
        rules::float(&specs, &[0]).map_err(refused)?;
        let dtype = specs[0].dtype;
        let mut wide = args;
        for (arg, value) in wide.iter_mut().enumerate() {
            rules::same_dtype(&specs, 0, arg).map_err(refused)?;
            *value = self.cast(*value, dtype.accumulate())?;
        }
        let result = self.on_behalf(at, || self.full_precision(|| body(wide)))?;
        self.cast(result, dtype)
    }

    /// The index of an axis that may be negative.
    #[track_caller]
    pub(in crate::ops) fn axis(&self, op: &'static str, x: Value, axis: impl Axis) -> Result<usize, Error> {
        let at = Location::caller();
        let index = axis.index(self.shape(x).rank());
        Ok(index.map_err(|r| r.of(op, &self.specs(&[x]), None, Some(at)))?)
    }

    /// A constant in the dtype of `like`, as a scalar.
    ///
    /// # Errors
    /// An integer dtype must hold the value.
    #[track_caller]
    pub fn scalar(&self, like: Value, value: impl Into<Number>) -> Result<Value, Error> {
        self.fill(self.spec(like).dtype, Shape::SCALAR, value)
    }

    /// `x²`.
    ///
    /// # Errors
    /// `x` must be a number.
    #[track_caller]
    pub fn square(&self, x: Value) -> Result<Value, Error> {
        self.mul(x, x)
    }

    /// `x` to a constant power: by multiplications, a root or a reciprocal where that is exact, else [`ops::Pow`].
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn powf(&self, x: Value, exponent: f64) -> Result<Value, Error> {
        match exponent {
            1.0 => Ok(x),
            2.0 => self.square(x),
            3.0 => self.composed("powf", [x], |[x]| self.mul(self.square(x)?, x)),
            0.5 => self.sqrt(x),
            -1.0 => self.recip(x),
            -0.5 => self.rsqrt(x),
            // The exponent is none of 16 bits either.
            _ => self.composed("powf", [x], |[x]| self.pow(x, self.scalar(x, exponent)?)),
        }
    }

    /// `x` where `x > 0`, else `slope · x`.
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn leaky_relu(&self, x: Value, slope: f64) -> Result<Value, Error> {
        self.op1(ops::LeakyRelu { slope }, &[x])
    }

    /// `x` where `x > 0`, else `alpha · (eˣ − 1)` (Clevert et al. 2016).
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn elu(&self, x: Value, alpha: f64) -> Result<Value, Error> {
        self.composed("elu", [x], |[x]| {
            // The exponential of a large x would make the gradient of the side that is not taken infinite. (A minimum of x and 0
            // would halve the gradient at 0.)
            let zero = self.scalar(x, 0.0)?;
            let positive = self.greater(x, zero)?;
            let below = self.affine(self.expm1(self.select(positive, zero, x)?)?, alpha, 0.0)?;
            self.select(positive, x, below)
        })
    }

    /// `¬x`, of bool.
    ///
    /// # Errors
    /// `x` must be bool.
    #[track_caller]
    pub fn not(&self, x: Value) -> Result<Value, Error> {
        self.check_bool("not", &[x], Location::caller())?;
        self.equal(x, self.scalar(x, 0.0)?)
    }

    /// `lhs ∧ rhs`, of bool. Shapes are broadcast.
    ///
    /// # Errors
    /// Both must be bool.
    #[track_caller]
    pub fn and(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
        self.check_bool("and", &[lhs, rhs], Location::caller())?;
        self.minimum(lhs, rhs)
    }

    /// `lhs ∨ rhs`, of bool. Shapes are broadcast.
    ///
    /// # Errors
    /// Both must be bool.
    #[track_caller]
    pub fn or(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
        self.check_bool("or", &[lhs, rhs], Location::caller())?;
        self.maximum(lhs, rhs)
    }

    /// Refuses arguments that are not bool.
    fn check_bool(
        &self,
        op: &'static str,
        args: &[Value],
        at: &'static Location<'static>,
    ) -> Result<(), Error> {
        let specs = self.specs(args);
        match specs.iter().position(|s| s.dtype != DType::Bool) {
            None => Ok(()),
            Some(arg) => {
                let rule = Rule::Dtype { arg, dtype: specs[arg].dtype, expected: "bool" };
                Err(rule.of(op, &specs, None, Some(at)).into())
            }
        }
    }

    /// Whether `x` is NaN, as bool.
    ///
    /// # Errors
    /// None that a valid value can cause.
    #[track_caller]
    pub fn is_nan(&self, x: Value) -> Result<Value, Error> {
        self.not_equal(x, x)
    }

    /// Whether `x` is neither NaN nor infinite, as bool.
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn is_finite(&self, x: Value) -> Result<Value, Error> {
        self.less(self.abs(x)?, self.scalar(x, f64::INFINITY)?)
    }

    /// `value` where `mask` (bool, broadcast) holds, `x` elsewhere.
    ///
    /// # Errors
    /// `mask` must be bool; an integer dtype must hold the value.
    #[track_caller]
    pub fn masked_fill(&self, x: Value, mask: Value, value: impl Into<Number>) -> Result<Value, Error> {
        self.select(mask, self.scalar(x, value)?, x)
    }

    /// Whether any element over `axes` is true, of bool.
    ///
    /// # Errors
    /// `x` must be bool, each axis exist.
    #[track_caller]
    pub fn any(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        let most = self.max(self.cast(x, DType::U8)?, axes)?;
        self.cast(most, DType::Bool)
    }

    /// Whether all elements over `axes` are true, of bool.
    ///
    /// # Errors
    /// `x` must be bool, each axis exist.
    #[track_caller]
    pub fn all(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.not(self.any(self.not(x)?, axes)?)
    }

    /// Mean of the squared distances from the mean over `axes`, divided by `n − correction` instead of `n`: 0 for the variance
    /// of a population, 1 for an estimate from a sample.
    ///
    /// # Errors
    /// Each axis must exist; more elements than `correction`.
    #[track_caller]
    pub fn variance<A: Axes>(&self, x: Value, axes: A, correction: usize) -> Result<Value, Error> {
        let (shape, at) = (self.shape(x), Location::caller());
        let refused = |rule: Rule| rule.of("variance", &self.specs(&[x]), None, Some(at));
        let indices = axes.indices(shape.rank()).map_err(refused)?;
        let n = indices.iter().fold(1usize, |n, &a| n.saturating_mul(shape.dims()[a]));
        if n <= correction {
            let value = correction as f64;
            let expected = "less than the number of elements";
            return Err(refused(Rule::Attribute { name: "correction", value, expected }).into());
        }
        self.composed("variance", [x], |[x]| {
            let centered = self.sub(x, self.mean(x, Keep(&indices))?)?;
            let mean = self.mean(self.square(centered)?, axes)?;
            if correction == 0 {
                Ok(mean)
            } else {
                self.affine(mean, n as f64 / (n - correction) as f64, 0.0)
            }
        })
    }

    /// Square root of the [`variance`](Graph::variance).
    ///
    /// # Errors
    /// As of the variance.
    #[track_caller]
    pub fn standard_deviation(&self, x: Value, axes: impl Axes, correction: usize) -> Result<Value, Error> {
        self.composed("standard_deviation", [x], |[x]| {
            self.sqrt_flat_at_zero(self.variance(x, axes, correction)?)
        })
    }

    /// `√Σx²` over `axes`.
    ///
    /// # Errors
    /// Each axis must exist; `x` must be of a float dtype.
    #[track_caller]
    pub fn norm(&self, x: Value, axes: impl Axes) -> Result<Value, Error> {
        self.composed("norm", [x], |[x]| self.sqrt_flat_at_zero(self.sum(self.square(x)?, axes)?))
    }

    /// The square root, with a slope of 0 at 0, where that of a sum of squares has no direction.
    #[track_caller]
    fn sqrt_flat_at_zero(&self, x: Value) -> Result<Value, Error> {
        let zero = self.scalar(x, 0.0)?;
        let none = self.equal(x, zero)?;
        self.select(none, zero, self.sqrt(self.masked_fill(x, none, 1.0)?)?)
    }

    /// `ln Σ eˣ` over `axes`, without overflow: the largest element is subtracted first.
    ///
    /// # Errors
    /// Each axis must exist; `x` must be of a float dtype.
    #[track_caller]
    pub fn logsumexp<A: Axes>(&self, x: Value, axes: A) -> Result<Value, Error> {
        let (shape, at) = (self.shape(x), Location::caller());
        let indices = axes.indices(shape.rank());
        let indices = indices.map_err(|r| r.of("logsumexp", &self.specs(&[x]), None, Some(at)))?;
        self.composed("logsumexp", [x], |[x]| {
            let (below, most) = self.minus_max(x, &indices)?;
            let sum = self.sum(self.exp(below)?, axes)?;
            self.add(self.ln(sum)?, self.reshape(most, self.shape(sum))?)
        })
    }

    /// `x − max x` over axes, and the maximum. The derivative with respect to what is subtracted and added again is 0. Where it is
    /// infinite the difference would be NaN.
    #[track_caller]
    fn minus_max(&self, x: Value, axes: &[usize]) -> Result<(Value, Value), Error> {
        let most = self.detach(self.max(x, Keep(axes))?);
        let most = self.select(self.is_finite(most)?, most, self.scalar(most, 0.0)?)?;
        Ok((self.sub(x, most)?, most))
    }

    /// `e^(x − logsumexp x)` along an axis ([`ops::Softmax`]).
    ///
    /// # Errors
    /// The axis must exist; `x` must be of a float dtype.
    #[track_caller]
    pub fn softmax(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let axis = self.axis("softmax", x, axis)?;
        self.op1(ops::Softmax { axis }, &[x])
    }

    /// `x − logsumexp x` along an axis.
    ///
    /// # Errors
    /// The axis must exist; `x` must be of a float dtype.
    #[track_caller]
    pub fn log_softmax(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let axis = self.axis("log_softmax", x, axis)?;
        self.composed("log_softmax", [x], |[x]| {
            // Not x less its logsumexp: of large numbers that difference has lost its digits.
            let (below, _) = self.minus_max(x, &[axis])?;
            let sum = self.sum(self.exp(below)?, Keep(axis))?;
            self.sub(below, self.ln(sum)?)
        })
    }

    /// `Σ lhs·rhs / (max(|lhs|, eps)·max(|rhs|, eps))` along an axis of the common shape, to which both are broadcast.
    ///
    /// # Errors
    /// The axis must exist in the common shape; float arguments of one dtype whose shapes can be broadcast.
    #[track_caller]
    pub fn cosine_similarity(
        &self,
        lhs: Value,
        rhs: Value,
        axis: impl Axis,
        eps: f64,
    ) -> Result<Value, Error> {
        let both = self.broadcast_together("cosine_similarity", [lhs, rhs])?;
        let axis = self.axis("cosine_similarity", both[0], axis)?;
        self.composed("cosine_similarity", both, |[lhs, rhs]| {
            let length = |x| {
                let own = self.norm(x, axis)?;
                let least = self.scalar(own, eps)?;
                self.select(self.less(own, least)?, least, own)
            };
            // Two quotients: the product of two lengths overflows before they do.
            let part = self.div(self.sum(self.mul(lhs, rhs)?, axis)?, length(lhs)?)?;
            self.div(part, length(rhs)?)
        })
    }

    /// Mean of all elements.
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn mean_all(&self, x: Value) -> Result<Value, Error> {
        self.mean(x, All)
    }

    /// Every `step`-th of the elements from `start` on along an axis, `len` in all: a view.
    ///
    /// # Errors
    /// The range must be within the axis, `step` at least 1.
    #[track_caller]
    pub fn slice_step(
        &self,
        x: Value,
        axis: impl Axis,
        start: usize,
        len: usize,
        step: usize,
    ) -> Result<Value, Error> {
        let (shape, at) = (self.shape(x), Location::caller());
        let axis = self.axis("slice_step", x, axis)?;
        let size = shape.dims()[axis];
        let last = len.saturating_sub(1).saturating_mul(step).saturating_add(start);
        if step == 0 || (len > 0 && last >= size) {
            let rule = Rule::Slice { axis, start, len, step, size };
            return Err(rule.of("slice_step", &self.specs(&[x]), None, Some(at)).into());
        }
        if step == 1 || len < 2 {
            return self.slice(x, axis, start, len);
        }
        // Windows of one element: views whose gradient is known.
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        order.swap(axis, shape.rank() - 1);
        let range = self.permute(self.slice(x, axis, start, last + 1 - start)?, &order)?;
        let picked = self.unfold(range, 1, step)?;
        let picked = self.slice(picked, shape.rank() - 1, 0, len)?;
        let kept = shape.with(axis, len);
        let mut swapped = kept;
        for (to, &from) in order.iter().enumerate() {
            swapped = swapped.with(to, kept.dims()[from]);
        }
        self.permute(self.reshape(picked, swapped)?, &order)
    }
}
