//! Argument checks that many ops share.

use super::{Attributes, argument};
use crate::values::{DType, Rule, Shape, Spec};

/// The arguments of an op whose call has this many.
pub(crate) fn arity<const N: usize>(op: &impl Attributes, args: &[Spec]) -> Result<[Spec; N], Rule> {
    argument::arity(op, args)?;
    args.try_into().map_err(|_| Rule::Arity { takes: format!("{N} arguments"), got: args.len() })
}

pub(crate) fn float(args: &[Spec], which: &[usize]) -> Result<(), Rule> {
    for &arg in which {
        let dtype = args[arg].dtype;
        if !dtype.is_float() {
            return Err(Rule::Dtype { arg, dtype, expected: "f32, f64, bf16 or f16" });
        }
    }
    Ok(())
}

/// The argument of an op that takes one, a float.
pub(crate) fn one_float(op: &impl Attributes, args: &[Spec]) -> Result<Spec, Rule> {
    let args: [Spec; 1] = arity(op, args)?;
    float(&args, &[0])?;
    Ok(args[0])
}

/// An attribute that must be finite and at least 0.
pub(crate) fn at_least_0(name: &'static str, value: f64) -> Result<(), Rule> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Rule::Attribute { name, value, expected: "finite and at least 0" })
}

pub(crate) fn dtype(args: &[Spec], arg: usize, want: DType) -> Result<(), Rule> {
    let dtype = args[arg].dtype;
    if dtype == want { Ok(()) } else { Err(Rule::Dtype { arg, dtype, expected: want.name() }) }
}

pub(crate) fn same_dtype(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
    let (a, b) = (args[lhs].dtype, args[rhs].dtype);
    if a == b { Ok(()) } else { Err(Rule::Dtypes { lhs, lhs_dtype: a, rhs, rhs_dtype: b }) }
}

pub(crate) fn same_shape(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
    let (a, b) = (args[lhs].shape, args[rhs].shape);
    if a == b { Ok(()) } else { Err(Rule::Shapes { lhs, lhs_shape: a, rhs, rhs_shape: b }) }
}

pub(crate) fn shape(args: &[Spec], arg: usize, expected: impl Into<Shape>) -> Result<(), Rule> {
    let (shape, expected) = (args[arg].shape, expected.into());
    if shape == expected { Ok(()) } else { Err(Rule::ArgShape { arg, shape, expected }) }
}

pub(crate) fn same_dim(args: &[Spec], lhs: (usize, usize), rhs: (usize, usize)) -> Result<(), Rule> {
    let size = |(arg, axis): (usize, usize)| args[arg].shape.dims().get(axis).copied().unwrap_or(1);
    let (a, b) = (size(lhs), size(rhs));
    if a == b { Ok(()) } else { Err(Rule::Dim { lhs: (lhs.0, lhs.1, a), rhs: (rhs.0, rhs.1, b) }) }
}
