//! Scalar expressions: straight-line code on one element, held inline so that ops can carry it without allocating.

use std::hash::{Hash, Hasher};

/// The most steps an expression can have.
pub(crate) const MAX_STEPS: usize = 24;

/// A function of one number.
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
    /// e^(−x²/2): the standard normal density without its factor. Beside [`NormalCdf`](Self::NormalCdf) of the same number it
    /// is almost free on a GPU.
    Bell,
    Sin,
    Cos,
    /// −1, 0 or 1; 0 for NaN.
    Sign,
}

impl Unary {
    /// Operations of its straight-line code, rounded: what decides whether it is made again or kept.
    #[must_use]
    pub const fn flops(self) -> usize {
        match self {
            Self::Neg | Self::Abs | Self::Sqrt | Self::Recip | Self::Sign => 1,
            Self::Rsqrt => 2,
            Self::Exp | Self::Bell => 20,
            Self::Ln | Self::Tanh | Self::Sin | Self::Cos => 25,
            Self::Erf => 35,
            Self::NormalCdf => 50,
        }
    }
}

/// A function of two numbers. Comparisons give 1 or 0.
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
    Equal,
    Less,
    LessEqual,
}

/// The value of an earlier step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reg(pub u8);

/// One step; its value is named by its position. Equal where it is written alike: `0.0` and `−0.0` differ, a NaN is
/// itself.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// An argument of the op.
    Arg(u8),
    /// A constant.
    Const(f64),
    /// A function of an earlier step.
    Unary(Unary, Reg),
    /// A function of two earlier steps.
    Binary(Binary, Reg, Reg),
    /// The second where the first is not 0, else the third.
    Select(Reg, Reg, Reg),
}

impl Step {
    /// Numbers that tell steps apart.
    fn key(&self) -> (u8, u64, [u8; 3]) {
        match *self {
            Self::Arg(i) => (0, 0, [i, 0, 0]),
            Self::Const(c) => (1, c.to_bits(), [0; 3]),
            Self::Unary(f, x) => (2, f as u64, [x.0, 0, 0]),
            Self::Binary(f, a, b) => (3, f as u64, [a.0, b.0, 0]),
            Self::Select(c, a, b) => (4, 0, [c.0, a.0, b.0]),
        }
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Step {}

impl Hash for Step {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Straight-line code on one element; the last step is the result.
#[derive(Debug, Clone, Copy)]
pub struct Expression {
    len: u8,
    steps: [Step; MAX_STEPS],
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.steps() == other.steps()
    }
}

impl Eq for Expression {}

impl Hash for Expression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.steps().hash(state);
    }
}

impl Default for Expression {
    fn default() -> Self {
        Self { len: 0, steps: [Step::Const(0.0); MAX_STEPS] }
    }
}

impl Expression {
    /// The expression that `build` writes; the value it returns must be the last step's.
    #[must_use]
    pub fn new(build: impl FnOnce(&mut Self) -> Reg) -> Self {
        let mut e = Self::default();
        let last = build(&mut e);
        debug_assert_eq!(usize::from(last.0) + 1, usize::from(e.len), "the result must be the last step");
        e
    }

    /// The steps, first to last.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.len.into()]
    }

    /// Appends a step.
    pub fn push(&mut self, step: Step) -> Reg {
        debug_assert!(usize::from(self.len) < MAX_STEPS, "an expression has at most {MAX_STEPS} steps");
        if let Some(slot) = self.steps.get_mut(usize::from(self.len)) {
            *slot = step;
            self.len += 1;
        }
        Reg(self.len - 1)
    }

    /// Argument `i` of the op.
    pub fn arg(&mut self, i: u8) -> Reg {
        self.push(Step::Arg(i))
    }

    /// A constant.
    pub fn constant(&mut self, value: f64) -> Reg {
        self.push(Step::Const(value))
    }

    /// A function of `x`.
    pub fn unary(&mut self, f: Unary, x: Reg) -> Reg {
        self.push(Step::Unary(f, x))
    }

    /// A function of two values.
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

    /// Operations per element.
    #[must_use]
    pub fn flops(&self) -> usize {
        let of = |step: &Step| match step {
            Step::Arg(_) | Step::Const(_) => 0,
            Step::Unary(f, _) => f.flops(),
            Step::Binary(..) | Step::Select(..) => 1,
        };
        self.steps().iter().map(of).sum()
    }
}
