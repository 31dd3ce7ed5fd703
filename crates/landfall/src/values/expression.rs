//! Scalar expressions: straight-line code on one element, stored inline so that ops hold them without allocating.

use super::DType;
use arrayvec::ArrayVec;
use std::hash::{Hash, Hasher};

/// Maximum number of steps of an expression.
pub(crate) const MAX_STEPS: usize = 24;

/// A unary function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Unary {
    Neg,
    Abs,
    Exp,
    Ln,
    Sqrt,
    Rsqrt,
    Recip,
    Tanh,
    Erf,
    /// The standard normal distribution function, accurate in its lower tail.
    NormalCdf,
    /// e^(−x²/2): the standard normal density without its factor. Next to [`NormalCdf`](Self::NormalCdf) of the same
    /// argument it is almost free on a GPU.
    Bell,
    Sin,
    Cos,
    /// e^x − 1, accurate near 0.
    Expm1,
    /// ln(1 + x), accurate near 0.
    Log1p,
    Floor,
    Ceil,
    /// To the nearest integer, the even one of two.
    Round,
    /// −1, 0 or 1; 0 for NaN.
    Sign,
}

impl Unary {
    /// Whether its value for an integer is an integer, so that it is computed in integers.
    const fn of_integers(self) -> bool {
        matches!(self, Self::Neg | Self::Abs | Self::Sign | Self::Floor | Self::Ceil | Self::Round)
    }

    /// Approximate number of operations: decides whether it is recomputed or saved.
    #[must_use]
    pub const fn flops(self) -> usize {
        match self {
            Self::Neg
            | Self::Abs
            | Self::Sqrt
            | Self::Recip
            | Self::Sign
            | Self::Floor
            | Self::Ceil
            | Self::Round => 1,
            Self::Rsqrt => 2,
            Self::Exp | Self::Bell | Self::Expm1 => 20,
            Self::Log1p | Self::Ln | Self::Tanh | Self::Sin | Self::Cos => 25,
            Self::Erf => 35,
            Self::NormalCdf => 50,
        }
    }
}

/// A binary function. Comparisons give 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// lhs to the power of rhs, with the special cases of IEEE 754.
    Pow,
    /// The remainder with the sign of the divisor: lhs − ⌊lhs / rhs⌋·rhs. For integers 0 if the divisor is 0.
    Rem,
    Equal,
    Less,
    LessEqual,
}

/// A reference to the value of an earlier step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reg(pub u8);

/// One step, identified by its position. Equality is bitwise for constants: `0.0` and `−0.0` differ, a NaN equals
/// itself.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// An argument of the op.
    Arg(u8),
    /// A constant.
    Const(f64),
    /// A unary function of an earlier step.
    Unary(Unary, Reg),
    /// A binary function of two earlier steps.
    Binary(Binary, Reg, Reg),
    /// Select: the second if the first is not 0, else the third.
    Select(Reg, Reg, Reg),
    /// An earlier step, rounded to a dtype: where a chain of ops would have stored it.
    Rounded(DType, Reg),
    /// 1 with a probability, else 0: the element's random word of a stream is at most the limit. Words are those of the cursor,
    /// which is the last argument of the op, and are numbered as the elements of the result, row-major.
    Kept {
        /// Which numbers.
        stream: u32,
        /// The largest word for which it is 1.
        last: u32,
    },
}

impl Step {
    /// A hash that distinguishes most steps.
    #[inline]
    fn key(&self) -> u64 {
        let code = match *self {
            Self::Const(c) => return c.to_bits() ^ 1,
            Self::Arg(i) => [0, 0, i, 0],
            Self::Unary(f, x) => [2, f as u8, x.0, 0],
            Self::Binary(f, a, b) => [3, f as u8, a.0, b.0],
            Self::Select(c, a, b) => [4, c.0, a.0, b.0],
            Self::Rounded(dtype, x) => [5, dtype as u8, x.0, 0],
            Self::Kept { stream, last } => return u64::from(stream) << 32 | u64::from(last) | 1 << 63,
        };
        u32::from_le_bytes(code).into()
    }
}

impl PartialEq for Step {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Arg(i), Self::Arg(j)) => i == j,
            (Self::Const(c), Self::Const(d)) => c.to_bits() == d.to_bits(),
            (Self::Unary(f, x), Self::Unary(g, y)) => f == g && x == y,
            (Self::Binary(f, a, b), Self::Binary(g, c, d)) => f == g && (a, b) == (c, d),
            (Self::Select(c, a, b), Self::Select(d, x, y)) => (c, a, b) == (d, x, y),
            (Self::Rounded(d, x), Self::Rounded(e, y)) => (d, x) == (e, y),
            (Self::Kept { stream, last }, Self::Kept { stream: s, last: l }) => (stream, last) == (s, l),
            (
                Self::Arg(_)
                | Self::Const(_)
                | Self::Unary(..)
                | Self::Binary(..)
                | Self::Select(..)
                | Self::Rounded(..)
                | Self::Kept { .. },
                _,
            ) => false,
        }
    }
}

impl Eq for Step {}

/// Straight-line code on one element; the last step is the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expression {
    steps: ArrayVec<Step, MAX_STEPS>,
}

impl Hash for Expression {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.steps().iter().fold(0, |word: u64, s| word.rotate_left(7) ^ s.key()));
    }
}

impl Expression {
    /// The expression that `build` writes; it must return the last step's value.
    #[must_use]
    pub fn new(build: impl FnOnce(&mut Self) -> Reg) -> Self {
        let mut e = Self::default();
        e.write(build);
        e
    }

    /// Writes it with `build` in place, to avoid a move of its full capacity. `build` must return the last step's
    /// value.
    #[inline]
    pub(crate) fn write(&mut self, build: impl FnOnce(&mut Self) -> Reg) {
        let last = build(self);
        debug_assert_eq!(usize::from(last.0) + 1, self.steps.len(), "the result must be the last step");
    }

    /// The steps, first to last.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Appends a step.
    #[inline]
    pub fn push(&mut self, step: Step) -> Reg {
        let pushed = self.steps.try_push(step);
        debug_assert!(pushed.is_ok(), "an expression has at most {MAX_STEPS} steps");
        Reg(self.steps.len() as u8 - 1)
    }

    /// Argument `i` of the op.
    pub fn arg(&mut self, i: u8) -> Reg {
        self.push(Step::Arg(i))
    }

    /// A constant.
    pub fn constant(&mut self, value: f64) -> Reg {
        self.push(Step::Const(value))
    }

    /// A unary function of `x`.
    pub fn unary(&mut self, f: Unary, x: Reg) -> Reg {
        self.push(Step::Unary(f, x))
    }

    /// A binary function of two values.
    pub fn binary(&mut self, f: Binary, lhs: Reg, rhs: Reg) -> Reg {
        self.push(Step::Binary(f, lhs, rhs))
    }

    /// `lhs + rhs`.
    pub fn add(&mut self, lhs: Reg, rhs: Reg) -> Reg {
        self.binary(Binary::Add, lhs, rhs)
    }

    /// `lhs · rhs`.
    pub fn mul(&mut self, lhs: Reg, rhs: Reg) -> Reg {
        self.binary(Binary::Mul, lhs, rhs)
    }

    /// `x · factor`.
    pub fn scale(&mut self, x: Reg, factor: f64) -> Reg {
        let c = self.constant(factor);
        self.mul(x, c)
    }

    /// The dtype in which the expression runs over operands of these dtypes: i64, wrapping, if all are integers or bool and so
    /// is every function of it; else f64 if an f64 or an integer of 32 bits or more is among them; else f32.
    #[must_use]
    pub fn arithmetic(&self, operands: impl Iterator<Item = DType> + Clone) -> DType {
        let wide = |d: DType| matches!(d, DType::F64 | DType::I64 | DType::I32);
        let of_integers = |step: &Step| match *step {
            Step::Unary(f, _) => f.of_integers(),
            Step::Binary(f, ..) => !matches!(f, Binary::Div | Binary::Pow),
            Step::Const(c) => c.fract() == 0.0,
            Step::Rounded(dtype, _) => !dtype.is_float(),
            Step::Arg(_) | Step::Select(..) | Step::Kept { .. } => true,
        };
        if !operands.clone().any(DType::is_float) && self.steps().iter().all(of_integers) {
            DType::I64
        } else if operands.clone().any(wide) {
            DType::F64
        } else {
            DType::F32
        }
    }

    /// The random streams that it draws from, each once.
    pub(crate) fn streams(&self) -> impl Iterator<Item = u32> + '_ {
        let stream = |step: &Step| if let Step::Kept { stream, .. } = *step { Some(stream) } else { None };
        let steps = &self.steps;
        let first = move |at: usize, s: u32| !steps[..at].iter().any(|step| stream(step) == Some(s));
        steps.iter().enumerate().filter_map(move |(at, step)| stream(step).filter(|&s| first(at, s)))
    }

    /// Operations per element.
    #[must_use]
    pub fn flops(&self) -> usize {
        let of = |step: &Step| match step {
            Step::Arg(_) | Step::Const(_) | Step::Rounded(..) => 0,
            Step::Unary(f, _) => f.flops(),
            Step::Binary(..) | Step::Select(..) | Step::Kept { .. } => 1,
        };
        self.steps().iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_computed_in_integers_where_every_function_is_of_integers() {
        use DType::{Bool, F16, F32, F64, I32, I64, U8};
        let whole = Expression::new(|e| {
            let (x, y) = (e.arg(0), e.arg(1));
            let sum = e.add(x, y);
            e.unary(Unary::Abs, sum)
        });
        let root = Expression::new(|e| {
            let x = e.arg(0);
            e.unary(Unary::Sqrt, x)
        });
        let half = Expression::new(|e| {
            let x = e.arg(0);
            e.scale(x, 0.5)
        });
        for (e, operands, want) in [
            (&whole, &[I64, I32][..], I64),
            (&whole, &[U8, Bool], I64),
            (&whole, &[I32, F32], F64),
            (&whole, &[U8, F16], F32),
            (&root, &[I64, I64], F64),
            (&root, &[U8, U8], F32),
            (&half, &[I32, I32], F64),
            (&half, &[F64, F64], F64),
        ] {
            assert_eq!(e.arithmetic(operands.iter().copied()), want, "{operands:?}");
        }
    }
}
