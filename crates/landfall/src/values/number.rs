//! A number for elements of any dtype: a whole one stays exact, which of an `f64` ends at 2⁵³.

use super::{DType, Element, Rule, with_dtype};
use std::fmt;

/// A number that a caller gives for elements of a dtype: [`Graph::scalar`](crate::Graph::scalar) and others take integers and floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer, exactly.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl Number {
    /// The nearest `f64`.
    pub(crate) fn near(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Two numbers that `f64` holds, whose sum in integers of 64 bits it is: a float by itself.
    pub(crate) fn parts(self) -> (f64, i64) {
        match self {
            Self::Float(value) => (value, 0),
            Self::Int(value) => {
                // Rounded towards 0, so that the near one is an integer of 64 bits too.
                let near =
                    if value as f64 as i128 == i128::from(value) { value } else { value / 2048 * 2048 };
                (near as f64, value - near)
            }
        }
    }

    /// That a dtype holds the number: one of integers has it, a float dtype rounds it to a number that is infinite only if it is.
    ///
    /// # Errors
    /// [`Rule::AttributeValue`] with the number and the dtype.
    pub fn held_by(self, dtype: DType) -> Result<(), Rule> {
        let (least, greatest, takes) = match dtype {
            DType::F32 | DType::F64 | DType::BF16 | DType::F16 => return self.rounded_by(dtype),
            DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX), "an integer that i32 holds"),
            DType::I64 => (i64::MIN, i64::MAX, "an integer that i64 holds"),
            DType::U8 => (0, 255, "an integer from 0 to 255, which u8 holds"),
            DType::Bool => (0, 1, "0 or 1, which bool holds"),
        };
        let held = match self {
            Self::Int(value) => (least..=greatest).contains(&value),
            // The range is of exact integers: 2^63, the nearest float of the largest i64, is one too large.
            Self::Float(value) => {
                value.fract() == 0.0 && (i128::from(least)..=i128::from(greatest)).contains(&(value as i128))
            }
        };
        if held {
            return Ok(());
        }
        Err(Rule::AttributeValue { name: "value", value: self.to_string(), takes, choices: &[] })
    }

    /// That a float dtype rounds the number to a finite one, if it is finite.
    fn rounded_by(self, dtype: DType) -> Result<(), Rule> {
        let nearest = with_dtype!(any dtype, T => match self {
            Self::Int(value) => T::from_i64(value).to_f64(),
            Self::Float(value) => T::from_f64(value).to_f64(),
        });
        if nearest.is_finite() || !self.near().is_finite() {
            return Ok(());
        }
        let takes = match dtype {
            DType::F16 => "at most 65504 in size, the largest of f16, or infinite",
            DType::BF16 => "at most 3.3895314e38 in size, the largest of bf16, or infinite",
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => {
                "at most 3.4028235e38 in size, the largest of f32, or infinite"
            }
        };
        Err(Rule::AttributeValue { name: "value", value: self.to_string(), takes, choices: &[] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_are_exact() {
        for value in
            [0, 1, -1, (1 << 53) + 1, -(1 << 53) - 1, (1 << 60) + 1, i64::MAX, i64::MIN, i64::MIN + 1]
        {
            let (near, rest) = Number::Int(value).parts();
            assert_eq!(near as i128 + i128::from(rest), i128::from(value), "{value}");
            assert_eq!(rest as f64 as i64, rest);
        }
    }

    #[test]
    fn a_dtype_holds_its_own_numbers() {
        let holds = |number: Number, dtype| number.held_by(dtype).is_ok();
        assert!(
            holds(Number::Int(i64::MAX), DType::I64) && holds(Number::Float(-(2f64.powi(63))), DType::I64)
        );
        assert!(
            !holds(Number::Float(2f64.powi(63)), DType::I64) && !holds(Number::Float(f64::NAN), DType::I64)
        );
        assert!(!holds(Number::Float(0.5), DType::I32) && !holds(Number::Int(1 << 31), DType::I32));
        assert!(!holds(Number::Int(256), DType::U8) && !holds(Number::Float(f64::INFINITY), DType::U8));
        assert!(!holds(Number::Int(2), DType::Bool) && holds(Number::Float(f64::INFINITY), DType::F16));
        assert!(!holds(Number::Int(70_000), DType::F16) && !holds(Number::Float(65_520.0), DType::F16));
        assert!(holds(Number::Float(65_519.0), DType::F16) && !holds(Number::Float(1e39), DType::F32));
        let told = Number::Int(300).held_by(DType::U8).expect_err("too large").to_string();
        assert_eq!(told, "value is 300; it must be an integer from 0 to 255, which u8 holds");
    }
}
