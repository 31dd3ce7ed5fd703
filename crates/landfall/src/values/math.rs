//! Elementary functions on the arithmetic types, written so that a loop over a slice vectorizes.
//!
//! The functions here replace std's because those are calls into the platform's libm: a call per element keeps
//! LLVM from vectorising the loop, and its last bit depends on the libm (glibc even picks another variant where
//! the CPU has FMA). Everything below except `f64::pow` is straight-line arithmetic: selects instead of
//! branches, bit operations instead of table look-ups, and separate multiplications and additions (never
//! `mul_add`, which without an FMA instruction is a slow libm call; Rust does not contract `a * b + c` by
//! itself). The result is therefore the same number on every instruction set and for every vector width. Only
//! the payload and sign of a NaN are left to the hardware.
//!
//! Rounding to an integer is done by adding 1.5·2^(mantissa bits), because the `round` instruction is missing
//! from baseline x86-64 and would become a call there; the integer can then be read from the low bits.
//!
//! The polynomials are minimax fits made for this file: a weighted Remez exchange in 45 to 60 decimal digits with
//! mpmath (weight: the error relative to the function's own value), each coefficient then rounded to the type.
//! The reductions are the textbook ones (Cody & Waite, "Software Manual for the Elementary Functions", 1980;
//! Muller, "Elementary Functions", 2006). The measured errors quoted below are those that the tests assert.

use crate::values::dtype::Accumulate;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Real arithmetic for generic kernels: the operators and elementary functions of `f32` and `f64`.
///
/// In generic code `x.exp()` is the function of this trait; on a concrete `f32` or `f64` the inherent method of
/// the same name wins, so call `Math::exp(x)` there.
///
/// Every function maps NaN to NaN unless documented otherwise, and gives the same result on every CPU (except the
/// payload of a NaN, and `pow` on `f64`, which is the platform's).
pub trait Math:
    Accumulate
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// Nearest value to a constant.
    #[must_use]
    fn of(value: f64) -> Self;

    /// e to the power of `self`; overflows to infinity, underflows gradually to 0. Within 8·10⁻⁸ (`f32`)
    /// and 2.3·10⁻¹⁶ (`f64`) relative.
    #[must_use]
    fn exp(self) -> Self;

    /// e to the power of `self` for weights: as [`exp`](Math::exp) where the result is a normal number, else 0, or
    /// infinity (which may begin at the largest number over √2). `mul_add(a, b, c)` is a·b + c, rounded once or twice.
    #[must_use]
    fn weight(self, mul_add: impl Fn(Self, Self, Self) -> Self) -> Self;

    /// Natural logarithm; −∞ at 0 and NaN below. Within 8.4·10⁻⁸ (`f32`) and 2.3·10⁻¹⁶
    /// (`f64`) relative.
    #[must_use]
    fn ln(self) -> Self;

    /// `e^self − 1` with relative accuracy, also near 0. Within 1.8·10⁻⁷ (`f32`) and 3.4·10⁻¹⁶ (`f64`) relative.
    #[must_use]
    fn expm1(self) -> Self;

    /// `ln(1 + self)` with relative accuracy, also near 0; −∞ at −1 and NaN below. Within 2.4·10⁻⁷ (`f32`) and
    /// 4.5·10⁻¹⁶ (`f64`) relative.
    #[must_use]
    fn log1p(self) -> Self;

    /// Hyperbolic tangent; exactly ±1 once it rounds to that, exactly `self` near 0. Within 1.8·10⁻⁷
    /// (`f32`) and 5.2·10⁻¹⁶ (`f64`) relative.
    #[must_use]
    fn tanh(self) -> Self;

    /// Error function; exactly ±1 once it rounds to that. Within 9.1·10⁻⁸ (`f32`) and 3.1·10⁻¹⁶
    /// (`f64`) relative, so also for tiny arguments.
    ///
    /// For the GELU, x·½(1 + erf(x/√2)), use [`normal_cdf`](Math::normal_cdf) instead: for negative x the sum
    /// 1 + erf cancels, and has no correct digit left below −5.
    #[must_use]
    fn erf(self) -> Self;

    /// Standard normal distribution function Φ(x) = ½·erfc(−x/√2), accurate also where it is tiny.
    ///
    /// The exact GELU is `x * x.normal_cdf()`. Relative error within 3.8·10⁻⁷ (`f32`)
    /// and 5.4·10⁻¹⁶ (`f64`) as long as the result is a normal number; beyond (`f32`: x < −12.9, `f64`:
    /// x < −37.5) it underflows gradually to 0.
    #[must_use]
    fn normal_cdf(self) -> Self;

    /// Square root, correctly rounded.
    #[must_use]
    fn sqrt(self) -> Self;

    /// 1/`self`, correctly rounded.
    #[must_use]
    fn recip(self) -> Self;

    /// 1/√`self`: two correctly rounded operations, not the CPU's estimate.
    #[must_use]
    fn rsqrt(self) -> Self;

    /// Sine; NaN at ±∞. Relative error within 1.2·10⁻⁷ (`f32`) and 3.2·10⁻¹⁶ (`f64`) for
    /// |x| ≤ 10⁶, near the zeros too.
    ///
    /// Beyond that the reduction loses digits: the absolute error grows as |x|·2⁻⁵² (both types; `f32` reduces
    /// in `f64`), so from about 10¹⁵ on the result is some number in [−1, 1].
    #[must_use]
    fn sin(self) -> Self;

    /// Cosine; range and accuracy as of [`sin`](Math::sin).
    #[must_use]
    fn cos(self) -> Self;

    /// `self` to the power of `exponent`, with the special cases of IEEE 754 `pow`: 1 where `self` is 1 or
    /// `exponent` is 0 (even with NaN), NaN for a negative number to a fractional power.
    ///
    /// On `f32` computed in `f64` and within 6·10⁻⁸ relative. On `f64` the platform's libm, as its accuracy
    /// takes a logarithm in double-double: neither vectorised nor the same on every platform.
    #[must_use]
    fn pow(self, exponent: Self) -> Self;

    /// Absolute value.
    #[must_use]
    fn abs(self) -> Self;

    /// The largest integer that is not greater.
    #[must_use]
    fn floor(self) -> Self;

    /// The smallest integer that is not less.
    #[must_use]
    fn ceil(self) -> Self;

    /// The nearest integer, the even one of two.
    #[must_use]
    fn round(self) -> Self;

    /// The remainder with the sign of `divisor`, 0 too, exact before its sign is chosen; NaN if `divisor` is 0. Not vectorised.
    #[must_use]
    fn rem(self, divisor: Self) -> Self;

    /// The larger of the two, NaN if either is NaN (unlike the inherent `max`). Of +0 and −0, `other`.
    #[must_use]
    fn max(self, other: Self) -> Self;

    /// The smaller of the two, NaN if either is NaN (unlike the inherent `min`). Of +0 and −0, `other`.
    #[must_use]
    fn min(self, other: Self) -> Self;

    /// Neither infinite nor NaN.
    #[must_use]
    fn is_finite(self) -> bool;
}

macro_rules! math {
    ($($t:ident in $module:ident, pow $pow:path;)*) => { $(
        impl Math for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $module::exp(self)
            }
            #[inline(always)]
            fn weight(self, mul_add: impl Fn(Self, Self, Self) -> Self) -> Self {
                $module::weight(self, mul_add)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $module::ln(self)
            }
            #[inline(always)]
            fn expm1(self) -> Self {
                $module::expm1(self)
            }
            #[inline(always)]
            fn log1p(self) -> Self {
                $module::log1p(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $module::tanh(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                $module::erf(self)
            }
            #[inline(always)]
            fn normal_cdf(self) -> Self {
                $module::normal_cdf(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn recip(self) -> Self {
                1.0 / self
            }
            #[inline(always)]
            fn rsqrt(self) -> Self {
                1.0 / $t::sqrt(self)
            }
            #[inline(always)]
            fn sin(self) -> Self {
                $module::sin(self)
            }
            #[inline(always)]
            fn cos(self) -> Self {
                $module::cos(self)
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                $pow(self, exponent)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $t::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $t::ceil(self)
            }
            #[inline(always)]
            fn round(self) -> Self {
                $t::round_ties_even(self)
            }
            #[inline(always)]
            fn rem(self, divisor: Self) -> Self {
                let r = self % divisor;
                if r == 0.0 {
                    $t::copysign(0.0, divisor)
                } else if (r < 0.0) != (divisor < 0.0) {
                    r + divisor
                } else {
                    r
                }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // A comparison with NaN is false: a NaN in `other` falls through to `other`.
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
        }
    )* };
}

math! {
    f32 in single, pow single::pow;
    f64 in double, pow f64::powf;
}

/// c0 + x·(c1 + x·(c2 + …)), expanded at compile time: no loop for the vectorizer to unroll first.
macro_rules! horner {
    ($x:expr, [$c:expr $(,)?]) => { $c };
    ($x:expr, [$c:expr, $($rest:expr),+ $(,)?]) => { $c + $x * horner!($x, [$($rest),+]) };
    // With `a·b + c` as a function.
    ($mul_add:ident, $x:expr, [$c:expr $(,)?]) => { $c };
    ($mul_add:ident, $x:expr, [$c:expr, $($rest:expr),+ $(,)?]) => {
        $mul_add($x, horner!($mul_add, $x, [$($rest),+]), $c)
    };
}

/// The kernels with the same method in both types: only the constants and polynomials differ.
macro_rules! kernels {
    (
        $t:ident as $bits:ident,
        // e^x rounds to 0 below the first and to infinity above the second.
        exp_range $exp_min:literal, $exp_max:literal,
        // tanh rounds to 1 from here on.
        tanh_max $tanh_max:literal,
        // Φ(−x) rounds to 0 from here on.
        cdf_max $cdf_max:literal,
        // Upper part of ln 2 with few enough digits that its product with any exponent is exact; the rest.
        ln2 $ln2_hi:expr, $ln2_lo:expr,
        expm1 $expm1:tt,
        log $log:tt,
        mills $k:literal, $mills:tt,
    ) => {
        const MANTISSA: u32 = $t::MANTISSA_DIGITS - 1;
        const BIAS: $bits = $t::MAX_EXP as $bits - 1;
        /// 1.5·2^MANTISSA: adding it leaves no fractional digits, so that the sum is rounded to an integer.
        pub(super) const ROUNDER: $t = 1.5 * (1u64 << MANTISSA) as $t;
        const LN2_HI: $t = $ln2_hi;
        const LN2_LO: $t = $ln2_lo;
        const LOG2_E: $t = std::$t::consts::LOG2_E;

        /// `limit` where `x` is larger; a NaN stays.
        #[inline(always)]
        fn at_most(x: $t, limit: $t) -> $t {
            if x > limit { limit } else { x }
        }

        /// `limit` where `x` is smaller; a NaN stays.
        #[inline(always)]
        fn at_least(x: $t, limit: $t) -> $t {
            if x < limit { limit } else { x }
        }

        /// The integer in the low bits of `t`, a sum with [`ROUNDER`], plus `bias` (modulo 2^bits).
        #[inline(always)]
        fn integer(t: $t, bias: $bits) -> $bits {
            t.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(bias)
        }

        /// e^r − 1 for |r| ≤ ½ ln 2, with relative accuracy: r + r²·q(r).
        #[inline(always)]
        fn expm1_reduced(r: $t) -> $t {
            r + r * r * horner!(r, $expm1)
        }

        /// 2^n for the integer n in `t`, which must be the exponent of a normal number.
        #[inline(always)]
        fn power(t: $t) -> $t {
            $t::from_bits(integer(t, BIAS) << MANTISSA)
        }

        /// `p`·2^n for the integer n in `t`. In two factors, as 2^n alone may be out of range while the product
        /// is not; the first is exact, so that a denormal result is rounded once.
        #[inline(always)]
        fn scale(p: $t, t: $t) -> $t {
            let n = integer(t, 2 * BIAS);
            let half = n >> 1;
            let rest = n.wrapping_sub(half);
            p * $t::from_bits(half << MANTISSA) * $t::from_bits(rest << MANTISSA)
        }

        /// Cody & Waite: x = n·ln 2 + r, so that e^x = 2^n·e^r; returns r, and n as the low bits of a sum.
        #[inline(always)]
        fn reduce_exp(x: $t) -> ($t, $t) {
            let t = x * LOG2_E + ROUNDER;
            let n = t - ROUNDER;
            ((x - n * LN2_HI) - n * LN2_LO, t)
        }

        /// e^x, with gradual underflow and overflow at the ends of the range; see [`reduce_exp`] and [`scale`].
        #[inline(always)]
        pub(super) fn exp(x: $t) -> $t {
            let x = at_least(at_most(x, $exp_max), $exp_min);
            let (r, t) = reduce_exp(x);
            scale(1.0 + expm1_reduced(r), t)
        }

        /// e^x where that is a normal number; below 0, above (or up to √2 below the largest number) infinity. The
        /// exponent is one factor then, and `mul_add` may round once: half the operations of [`exp`].
        #[inline(always)]
        pub(super) fn weight(x: $t, mul_add: impl Fn($t, $t, $t) -> $t) -> $t {
            const LEAST: $t = 1.0 - BIAS as $t;
            let y = at_least(at_most(x, $exp_max), $exp_min);
            let t = mul_add(y, LOG2_E, ROUNDER);
            let n = t - ROUNDER;
            let r = mul_add(n, -LN2_LO, mul_add(n, -LN2_HI, y));
            let q = horner!(mul_add, r, $expm1);
            let p = 1.0 + mul_add(r * r, q, r);
            if n < LEAST { 0.0 } else { p * power(t) }
        }

        /// x = m·2^e with m in [√½, √2); with f = m − 1 (exact) and s = f/(2 + f),
        /// ln(1 + f) = 2 artanh s = 2s + s·R(s²) = f − s·(f − R(s²)), the last form having f exact in front.
        #[inline(always)]
        pub(super) fn ln(x: $t) -> $t {
            const ONE: $bits = (1.0 as $t).to_bits();
            const SQRT_HALF: $bits = std::$t::consts::FRAC_1_SQRT_2.to_bits();
            // A denormal has no exponent to read: multiplied into the normal range first.
            let denormal = x < $t::MIN_POSITIVE;
            let lift = (1u64 << MANTISSA) as $t;
            let y = if denormal { x * lift } else { x };
            let bits = y.to_bits().wrapping_add(ONE - SQRT_HALF);
            let exponent = $t::from_bits(ROUNDER.to_bits() + (bits >> MANTISSA)) - ROUNDER;
            let e = exponent - if denormal { BIAS as $t + MANTISSA as $t } else { BIAS as $t };
            let m = $t::from_bits((bits & ((1 << MANTISSA) - 1)) + SQRT_HALF);
            let f = m - 1.0;
            let s = f / (2.0 + f);
            let z = s * s;
            let log = f - s * (f - z * horner!(z, $log));
            let finite = e * LN2_HI + (log + e * LN2_LO);
            let positive = if x < $t::INFINITY { finite } else { x };
            let nonnegative = if x == 0.0 { $t::NEG_INFINITY } else { positive };
            if x < 0.0 { $t::NAN } else { nonnegative }
        }

        /// 2^n·(e^r − 1) + (2^n − 1), each sum with relative accuracy. Beyond 40 the 1 is less than half a unit in the last
        /// place of both types, and below −40 the result rounds to −1.
        #[inline(always)]
        pub(super) fn expm1(x: $t) -> $t {
            let (r, t) = reduce_exp(at_least(at_most(x, 40.0), -40.0));
            let power = power(t);
            // The sum turns −0 into +0, copysign back.
            let near = (power * expm1_reduced(r) + (power - 1.0)).copysign(x);
            if x > 40.0 { exp(x) } else { near }
        }

        /// ln u · x/(u − 1) with u = 1 + x rounded: ln u/(u − 1) varies slowly, so it hardly matters that u is not 1 + x
        /// (Kahan's method; Goldberg, "What every computer scientist should know about floating-point arithmetic", 1991,
        /// theorem 4).
        #[inline(always)]
        pub(super) fn log1p(x: $t) -> $t {
            let u = 1.0 + x;
            let d = u - 1.0;
            let far = ln(u) * (x / d);
            // x itself where it is too small to change 1, and at infinity.
            if d == 0.0 || u == $t::INFINITY { x } else { far }
        }

        /// tanh x = E/(E + 2) with E = e^(2x) − 1 for x ≥ 0. E has relative accuracy, also near 0, where
        /// the quotient becomes x itself.
        #[inline(always)]
        pub(super) fn tanh(x: $t) -> $t {
            let a = 2.0 * at_most(x.abs(), $tanh_max);
            let (r, t) = reduce_exp(a);
            let power = power(t);
            let e = power * expm1_reduced(r) + (power - 1.0);
            (e / (e + 2.0)).copysign(x)
        }

        /// Φ(−a) for a ≥ 0 as e^(−a²/2)·M(a), where M(a) = ½·e^(a²/2)·erfc(a/√2) (Mills' ratio/√2π) falls
        /// slowly, as 1/a. (a + k)·M(a) is a polynomial in (a − k)/(a + k), which maps [0, ∞) to [−1, 1) (the
        /// substitution of Shepherd & Laframboise, "Chebyshev approximation of (1 + 2x)exp(x²)erfc x",
        /// Math. Comp. 36, 1981).
        #[inline(always)]
        fn tail(a: $t) -> $t {
            let a = at_most(a, $cdf_max);
            // The exponential turns the absolute error of its argument into a relative one, so a²/2 is needed
            // beyond its last digit: the square of the upper half of a's digits is exact, the rest comes extra.
            let upper = $t::from_bits(a.to_bits() & ($bits::MAX << $t::MANTISSA_DIGITS.div_ceil(2)));
            let rest = 0.5 * (a - upper) * (a + upper);
            let t = ROUNDER - 0.5 * a * a * LOG2_E;
            let n = t - ROUNDER;
            let r = ((-0.5 * upper * upper - n * LN2_HI) - rest) - n * LN2_LO;
            let w = 1.0 / (a + $k);
            let u = (a - $k) * w;
            scale((1.0 + expm1_reduced(r)) * (w * horner!(u, $mills)), t)
        }

        #[inline(always)]
        pub(super) fn normal_cdf(x: $t) -> $t {
            let tail = tail(x.abs());
            if x > 0.0 { 1.0 - tail } else { tail }
        }
    };
}

/// π/2 to 32 bits, so that its product with an integer of up to 21 bits is exact in `f64`.
const HALF_PI_1: f64 = 1.5707963267341256;
/// The next 32 bits of π/2.
const HALF_PI_2: f64 = 6.077100506303966e-11;
/// The remainder of π/2.
const HALF_PI_3: f64 = 2.0222662487959506e-21;

mod single;

mod double;

#[cfg(test)]
mod tests;
