//! Values with their graph: operators and methods, so that model code reads as formulas.

use crate::contract::{Graph, Op, Value};
use crate::error::Error;
use crate::values::{Axes, Axis, DType, Shape, Spec};
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Not, Rem, Sub};

/// A value together with its graph. Operators take values and `f64` constants, broadcast, and give a `Result`, because shapes may
/// not fit; the error has the line of the operator.
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use std::sync::Arc;
/// let g = Graph::new(&Arc::new(StateSpec::new()));
/// let x = g.var(g.input("x", DType::F32, [8, 4]));
/// let w = g.var(g.input("w", DType::F32, [4, 2]));
/// let b = g.var(g.input("b", DType::F32, [2]));
/// let y = (x.matmul(w)? + b)?.relu()?;
/// let scaled = ((y - y.mean(landfall::Keep(-1))?)? * 0.5)?;
/// assert_eq!(scaled.shape().dims(), [8, 2]);
/// let wrong = (x + w).err().map(|e| e.to_string()).unwrap_or_default();
/// assert!(wrong.starts_with("add(f32[8, 4], f32[4, 2]): shape [4, 2] cannot be broadcast to [8, 4]"), "{wrong}");
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Var<'g> {
    graph: &'g Graph,
    value: Value,
}

impl Graph {
    /// A value of this graph with operators and methods.
    #[must_use]
    pub fn var(&self, value: Value) -> Var<'_> {
        Var { graph: self, value }
    }
}

impl From<Var<'_>> for Value {
    fn from(var: Var<'_>) -> Self {
        var.value
    }
}

impl fmt::Debug for Var<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.value, self.spec())
    }
}

/// Methods of the graph with the value as their first argument.
macro_rules! methods {
    ($($name:ident($($arg:ident: $T:ty),*);)*) => { $(
        #[doc = concat!("As [`Graph::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// The rule that the arguments break, with the caller's line.
        #[track_caller]
        pub fn $name(self, $($arg: $T),*) -> Result<Self, Error> {
            Ok(self.graph.var(self.graph.$name(self.value, $($arg),*)?))
        }
    )* };
}

/// The same for methods of two values.
macro_rules! binary_methods {
    ($($name:ident)*) => { $(
        #[doc = concat!("As [`Graph::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// The rule that the arguments break, with the caller's line.
        #[track_caller]
        pub fn $name(self, rhs: impl Into<Value>) -> Result<Self, Error> {
            Ok(self.graph.var(self.graph.$name(self.value, rhs.into())?))
        }
    )* };
}

impl<'g> Var<'g> {
    /// The graph.
    #[must_use]
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// The value without its graph.
    #[must_use]
    pub fn value(self) -> Value {
        self.value
    }

    /// Dtype and shape.
    #[must_use]
    pub fn spec(self) -> Spec {
        self.graph.spec(self.value)
    }

    /// Dimension sizes.
    #[must_use]
    pub fn shape(self) -> Shape {
        self.spec().shape
    }

    /// An op with this value as its first argument and `others` as the rest.
    ///
    /// # Errors
    /// The rule that the arguments break, with the caller's line.
    #[track_caller]
    pub fn op(self, op: impl Op, others: &[Value]) -> Result<Self, Error> {
        let mut args = vec![self.value];
        args.extend_from_slice(others);
        Ok(self.graph.var(self.graph.op1(op, &args)?))
    }

    /// As [`Graph::detach`].
    #[must_use]
    pub fn detach(self) -> Self {
        self.graph.var(self.graph.detach(self.value))
    }

    /// Elements of `lhs` where this value (bool) holds, of `rhs` elsewhere.
    ///
    /// # Errors
    /// As [`Graph::select`].
    #[track_caller]
    pub fn select(self, lhs: impl Into<Value>, rhs: impl Into<Value>) -> Result<Self, Error> {
        Ok(self.graph.var(self.graph.select(self.value, lhs.into(), rhs.into())?))
    }

    methods! {
        abs(); exp(); ln(); sqrt(); rsqrt(); recip(); tanh(); erf(); sign(); sin(); cos(); expm1(); log1p();
        floor(); ceil(); round(); gelu(); sigmoid(); relu(); silu(); softplus(); square(); is_nan(); is_finite(); copy();
        mean_all(); transpose();
        powf(exponent: f64); leaky_relu(slope: f64); elu(alpha: f64); clamp(low: f64, high: f64);
        affine(mul: f64, add: f64); cast(dtype: DType);
        argmax(axis: impl Axis); argmin(axis: impl Axis); flip(axis: impl Axis); roll(axis: impl Axis, shift: isize);
        tile(axis: impl Axis, times: usize); take(axis: impl Axis, index: Value); gather(axis: impl Axis, index: Value);
        masked_fill(mask: Value, value: f64); pad(axis: impl Axis, before: usize, after: usize);
        cumsum(axis: impl Axis); sum(axes: impl Axes); mean(axes: impl Axes); max(axes: impl Axes); min(axes: impl Axes);
        prod(axes: impl Axes); any(axes: impl Axes); all(axes: impl Axes);
        variance(axes: impl Axes, correction: usize); standard_deviation(axes: impl Axes, correction: usize);
        norm(axes: impl Axes); logsumexp(axes: impl Axes); softmax(axis: impl Axis); log_softmax(axis: impl Axis);
        reshape(shape: impl Into<Shape>); broadcast_to(shape: impl Into<Shape>); permute(axes: &[usize]);
        slice(axis: impl Axis, start: usize, len: usize); squeeze(axis: impl Axis); unsqueeze(axis: impl Axis);
        slice_step(axis: impl Axis, start: usize, len: usize, step: usize);
        unfold(size: usize, step: usize);
    }
    binary_methods! {
        matmul maximum minimum pow equal not_equal less less_equal greater greater_equal
    }
}

/// What stands on one side of an operator: a value, or a constant in the dtype of the other side.
trait Side {
    fn beside(self, other: Var<'_>) -> Result<Value, Error>;
}

impl Side for Var<'_> {
    fn beside(self, _: Var<'_>) -> Result<Value, Error> {
        Ok(self.value)
    }
}

impl Side for f64 {
    #[track_caller]
    fn beside(self, other: Var<'_>) -> Result<Value, Error> {
        other.graph.scalar(other.value, self)
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident;)*) => { $(
        operators!(@of $Trait $method: Var<'g>, Var<'g>, |l, r| l, r);
        operators!(@of $Trait $method: Var<'g>, &Var<'g>, |l, r| l, *r);
        operators!(@of $Trait $method: &Var<'g>, Var<'g>, |l, r| *l, r);
        operators!(@of $Trait $method: &Var<'g>, &Var<'g>, |l, r| *l, *r);
        operators!(@of $Trait $method: Var<'g>, f64, |l, r| l, r);
        operators!(@of $Trait $method: &Var<'g>, f64, |l, r| *l, r);

        impl<'g> $Trait<Var<'g>> for f64 {
            type Output = Result<Var<'g>, Error>;
            #[track_caller]
            fn $method(self, rhs: Var<'g>) -> Self::Output {
                let lhs = self.beside(rhs)?;
                Ok(rhs.graph.var(rhs.graph.$method(lhs, rhs.value)?))
            }
        }
    )* };
    (@of $Trait:ident $method:ident: $L:ty, $R:ty, |$l:ident, $r:ident| $lhs:expr, $rhs:expr) => {
        impl<'g> $Trait<$R> for $L {
            type Output = Result<Var<'g>, Error>;
            #[track_caller]
            fn $method(self, rhs: $R) -> Self::Output {
                let ($l, $r) = (self, rhs);
                let (lhs, rhs): (Var<'g>, _) = ($lhs, $rhs);
                let rhs = rhs.beside(lhs)?;
                Ok(lhs.graph.var(lhs.graph.$method(lhs.value, rhs)?))
            }
        }
    };
}

operators! { Add add; Sub sub; Mul mul; Div div; Rem rem; }

macro_rules! prefix_operators {
    ($($Trait:ident $method:ident;)*) => { $(
        impl<'g> $Trait for Var<'g> {
            type Output = Result<Var<'g>, Error>;
            #[track_caller]
            fn $method(self) -> Self::Output {
                Ok(self.graph.var(self.graph.$method(self.value)?))
            }
        }

        impl<'g> $Trait for &Var<'g> {
            type Output = Result<Var<'g>, Error>;
            #[track_caller]
            fn $method(self) -> Self::Output {
                $Trait::$method(*self)
            }
        }
    )* };
}

prefix_operators! { Neg neg; Not not; }
