//! Element types: one table, from which all dtype properties are derived.

use half::{bf16, f16};
use std::fmt;
use std::ops::{Add, Mul, Sub};

/// The class of a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Binary floating point.
    Float,
    /// Signed or unsigned integer.
    Int,
    /// Boolean, stored as one byte that is 0 or 1.
    Bool,
}

/// Host element of a [`DType`]: the Rust type that holds one element in memory.
///
/// `Acc` is the type in which sums over elements run (`f32` for the 16-bit floats), which is part of every
/// op's contract.
pub trait Element: bytemuck::Pod + Send + Sync + fmt::Debug + PartialEq + PartialOrd {
    /// The dtype that this type stores.
    const DTYPE: DType;
    /// The type in which arithmetic on this dtype runs.
    type Acc: Accumulate;
    /// Widens to the arithmetic type, exactly.
    fn widen(self) -> Self::Acc;
    /// Rounds from the arithmetic type (to nearest, ties to even; integers truncate).
    fn narrow(value: Self::Acc) -> Self;
    /// Nearest element to `value`; integers truncate and saturate.
    fn from_f64(value: f64) -> Self;
    /// The value in `f64` (exact for every dtype but large `i64`).
    fn to_f64(self) -> f64;
    /// The value as an integer: exact for integers; floats truncate and saturate.
    fn to_i64(self) -> i64;
    /// The element of an integer: integers wrap modulo 2^bits, floats round to nearest.
    fn from_i64(value: i64) -> Self;
}

/// A type for arithmetic: `f32` or `f64`, or an integer unchanged.
pub trait Accumulate:
    Element<Acc = Self> + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
}
impl Accumulate for f32 {}
impl Accumulate for f64 {}
impl Accumulate for i32 {}
impl Accumulate for i64 {}
impl Accumulate for u8 {}

macro_rules! dtypes {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $rust:ty, $acc:ty, $class:ident, epsilon $eps:expr, safetensors $st:literal; )*) => {
        /// Element type of a tensor. It stays exhaustive, as [`DeviceKind`](crate::DeviceKind) does: every op says what it
        /// does with each, so a new one is a breaking change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType { $( $(#[$doc])* $variant, )* }

        impl DType {
            /// Every dtype.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];
            /// Name in texts, files and on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $( Self::$variant => $name, )* } }
            /// Bytes of one element.
            #[must_use]
            pub const fn size(self) -> usize { match self { $( Self::$variant => size_of::<$rust>(), )* } }
            /// Its class.
            #[must_use]
            pub const fn class(self) -> Class { match self { $( Self::$variant => Class::$class, )* } }
            /// Distance from 1 to the next larger element; 0 for integers.
            #[must_use]
            pub const fn epsilon(self) -> f64 { match self { $( Self::$variant => $eps, )* } }
            /// Name of the dtype in a safetensors header.
            #[must_use]
            pub const fn safetensors_name(self) -> &'static str { match self { $( Self::$variant => $st, )* } }
        }
    };
}

dtypes! {
    /// IEEE binary32.
    F32 = "f32", f32, f32, Float, epsilon f32::EPSILON as f64, safetensors "F32";
    /// IEEE binary64.
    F64 = "f64", f64, f64, Float, epsilon f64::EPSILON, safetensors "F64";
    /// The upper 16 bits of a binary32; arithmetic in f32.
    BF16 = "bf16", bf16, f32, Float, epsilon 0.0078125, safetensors "BF16";
    /// IEEE binary16; arithmetic in f32.
    F16 = "f16", f16, f32, Float, epsilon 0.0009765625, safetensors "F16";
    /// 32-bit signed integer.
    I32 = "i32", i32, i32, Int, epsilon 0.0, safetensors "I32";
    /// 64-bit signed integer.
    I64 = "i64", i64, i64, Int, epsilon 0.0, safetensors "I64";
    /// 8-bit unsigned integer.
    U8 = "u8", u8, u8, Int, epsilon 0.0, safetensors "U8";
    /// Boolean, one byte: 0 or 1. Ops write no other, and read every other that memory of others holds as 1.
    Bool = "bool", u8, u8, Bool, epsilon 0.0, safetensors "BOOL";
}

impl DType {
    /// Whether it is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// The dtype of arithmetic and sums: f32 for bf16 and f16, itself otherwise.
    #[must_use]
    pub const fn accumulate(self) -> Self {
        match self {
            Self::BF16 | Self::F16 => Self::F32,
            Self::F32 | Self::F64 | Self::I32 | Self::I64 | Self::U8 | Self::Bool => self,
        }
    }

    /// The dtype of this name, if there is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! element {
    ($($rust:ty, $variant:ident, $acc:ty, $widen:expr, $narrow:expr, $from:expr, $to:expr, $to_int:expr, $from_int:expr;)*) => { $(
        impl Element for $rust {
            const DTYPE: DType = DType::$variant;
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc { let f: fn($rust) -> $acc = $widen; f(self) }
            #[inline(always)]
            fn narrow(value: $acc) -> Self { let f: fn($acc) -> $rust = $narrow; f(value) }
            #[inline(always)]
            fn from_f64(value: f64) -> Self { let f: fn(f64) -> $rust = $from; f(value) }
            #[inline(always)]
            fn to_f64(self) -> f64 { let f: fn($rust) -> f64 = $to; f(self) }
            #[inline(always)]
            fn to_i64(self) -> i64 { let f: fn($rust) -> i64 = $to_int; f(self) }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { let f: fn(i64) -> $rust = $from_int; f(value) }
        }
    )* };
}

/// `x` rounded to odd: what lies between two numbers of f32 becomes the one whose last bit is 1. Rounding that to 16 bits is as
/// rounding `x` itself (Boldo and Melquiond 2008); by way of the nearest f32, or with the low bits of `x` left out, what lies
/// just above the middle of two numbers would go down.
#[inline(always)]
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let below = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}

/// An integer rounded to odd, as [`to_odd`] rounds an f64.
#[inline(always)]
fn integer_to_odd(x: i64) -> f32 {
    let near = x as f32;
    // Whole, and at most 2⁶³.
    let (whole, x) = (near as i128, i128::from(x));
    if whole == x {
        return near;
    }
    let below = if whole.abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}

element! {
    f32, F32, f32, |x| x, |x| x, |x| x as f32, f64::from, |x| x as i64, |x| x as f32;
    f64, F64, f64, |x| x, |x| x, |x| x, |x| x, |x| x as i64, |x| x as f64;
    bf16, BF16, f32, bf16::to_f32, bf16::from_f32, |x| bf16::from_f32(to_odd(x)), f64::from, |x| x.to_f32() as i64, |x| bf16::from_f32(integer_to_odd(x));
    f16, F16, f32, f16::to_f32, f16::from_f32, |x| f16::from_f32(to_odd(x)), f64::from, |x| x.to_f32() as i64, |x| f16::from_f32(integer_to_odd(x));
    i32, I32, i32, |x| x, |x| x, |x| x as i32, f64::from, i64::from, |x| x as i32;
    i64, I64, i64, |x| x, |x| x, |x| x as i64, |x| x as f64, |x| x, |x| x;
    u8, U8, u8, |x| x, |x| x, |x| x as u8, f64::from, i64::from, |x| x as u8;
}

/// Runs `$body` with the type alias `$T` bound to the Rust element type of a dtype.
///
/// The first word selects the dtypes: `float` (f32 f64 bf16 f16), `int` (i32 i64 u8, `bool` as bytes), `narrow`
/// (those that f32 holds exactly: f32 bf16 f16 u8, `bool` as bytes), `any` (all, `bool` as bytes), or `wide` (f32 f64, the
/// types of arithmetic). The other dtypes run `$other`.
#[macro_export]
macro_rules! with_dtype {
    (float $dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        $crate::with_dtype!(@of $dtype, $T => $body;
            F32 f32, F64 f64, BF16 $crate::half::bf16, F16 $crate::half::f16;
            I32 I64 U8 Bool => $other)
    };
    (wide $dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        $crate::with_dtype!(@of $dtype, $T => $body; F32 f32, F64 f64; BF16 F16 I32 I64 U8 Bool => $other)
    };
    (narrow $dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        $crate::with_dtype!(@of $dtype, $T => $body;
            F32 f32, BF16 $crate::half::bf16, F16 $crate::half::f16, U8 u8, Bool u8;
            F64 I32 I64 => $other)
    };
    (int $dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        $crate::with_dtype!(@of $dtype, $T => $body; I32 i32, I64 i64, U8 u8, Bool u8; F32 F64 BF16 F16 => $other)
    };
    (any $dtype:expr, $T:ident => $body:expr) => {
        $crate::with_dtype!(@of $dtype, $T => $body;
            F32 f32, F64 f64, BF16 $crate::half::bf16, F16 $crate::half::f16, I32 i32, I64 i64, U8 u8, Bool u8;)
    };
    (@of $dtype:expr, $T:ident => $body:expr; $($D:ident $E:ty),+; $($($O:ident)+ => $other:expr)?) => {
        match $dtype {
            $($crate::DType::$D => {
                type $T = $E;
                $body
            })+
            $($($crate::DType::$O)|+ => $other,)?
        }
    };
}

pub(crate) use with_dtype;

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles just beside the middle of two numbers of 16 bits, and the ends of both dtypes.
    #[test]
    fn sixteen_bits_are_rounded_once() {
        for (x, want) in [
            (61.125_022_899_248_826, 61.25),
            (61.125, 61.0),
            (61.124_999_999_9, 61.0),
            (-61.125_022_899_248_826, -61.25),
            (1e39, f64::INFINITY),
            (3.39e38, 3.389_531_389_251_535_5e38),
            (0.0, 0.0),
        ] {
            assert_eq!(<bf16 as Element>::from_f64(x).to_f64(), want, "{x}");
        }
        for (x, want) in [
            (2_049.000_000_001, 2050.0),
            (2049.0, 2048.0),
            (1.0 + 2f64.powi(-11) + 1e-12, 1.0 + 2f64.powi(-10)),
            (65_519.999, 65_504.0),
            (65_520.0, f64::INFINITY),
            (2f64.powi(-25) * 1.000_000_001, 2f64.powi(-24)),
            (2f64.powi(-25), 0.0),
            (1e-300, 0.0),
        ] {
            assert_eq!(<f16 as Element>::from_f64(x).to_f64(), want, "{x}");
        }
        assert!(<bf16 as Element>::from_f64(f64::NAN).to_f64().is_nan());
    }
}
