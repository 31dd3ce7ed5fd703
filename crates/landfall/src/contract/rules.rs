//! Shape rules that many ops share: each refuses with the numbers, and is a line of an op's
//! [`infer`](super::Op::infer). They index the arguments, whose number [`arity`] checks first.
//!
//! ```
//! use landfall::ops::rules;
//! use landfall::{DType, Rule, Spec};
//! /// A matrix of floats, and a row of the same dtype and size.
//! fn infer(args: &[Spec]) -> Result<Spec, Rule> {
//!     rules::float(args, &[0])?;
//!     rules::same_dtype(args, 0, 1)?;
//!     rules::same_dim(args, (0, 1), (1, 0))?;
//!     Ok(args[0])
//! }
//! let (matrix, row) = (Spec::new(DType::F32, [3, 4]), Spec::new(DType::F32, [5]));
//! assert_eq!(infer(&[matrix, row]).unwrap_err().to_string(), "arg 0 axis 1 is 4, arg 1 axis 0 is 5; they must be equal");
//! ```

use super::{Attributes, argument};
use crate::values::{DType, Rule, Shape, Spec};

/// The arguments of an op whose call has this many.
///
/// # Errors
/// [`Rule::Arity`] with the names of the arguments that the op takes.
pub fn arity<const N: usize>(op: &impl Attributes, args: &[Spec]) -> Result<[Spec; N], Rule> {
    argument::arity(op, args)?;
    args.try_into().map_err(|_| Rule::Arity { takes: format!("{N} arguments"), got: args.len() })
}

/// That these arguments are of a float dtype.
///
/// # Errors
/// [`Rule::Dtype`].
pub fn float(args: &[Spec], which: &[usize]) -> Result<(), Rule> {
    for &arg in which {
        let dtype = args[arg].dtype;
        if !dtype.is_float() {
            return Err(Rule::Dtype { arg, dtype, expected: "f32, f64, bf16 or f16" });
        }
    }
    Ok(())
}

/// The argument of an op that takes one, a float.
///
/// # Errors
/// [`Rule::Arity`], [`Rule::Dtype`].
pub fn one_float(op: &impl Attributes, args: &[Spec]) -> Result<Spec, Rule> {
    let args: [Spec; 1] = arity(op, args)?;
    float(&args, &[0])?;
    Ok(args[0])
}

/// That an attribute is finite and at least 0.
///
/// # Errors
/// [`Rule::Attribute`] with its name and value.
pub fn at_least_0(name: &'static str, value: f64) -> Result<(), Rule> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Rule::Attribute { name, value, expected: "finite and at least 0" })
}
/// That an argument is of this dtype.
///
/// # Errors
/// [`Rule::Dtype`].
pub fn dtype(args: &[Spec], arg: usize, want: DType) -> Result<(), Rule> {
    let dtype = args[arg].dtype;
    if dtype == want { Ok(()) } else { Err(Rule::Dtype { arg, dtype, expected: want.name() }) }
}
/// That two arguments are of one dtype.
///
/// # Errors
/// [`Rule::Dtypes`].
pub fn same_dtype(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
    let (a, b) = (args[lhs].dtype, args[rhs].dtype);
    if a == b { Ok(()) } else { Err(Rule::Dtypes { lhs, lhs_dtype: a, rhs, rhs_dtype: b }) }
}
/// That two arguments are of one shape.
///
/// # Errors
/// [`Rule::Shapes`].
pub fn same_shape(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
    let (a, b) = (args[lhs].shape, args[rhs].shape);
    if a == b { Ok(()) } else { Err(Rule::Shapes { lhs, lhs_shape: a, rhs, rhs_shape: b }) }
}
/// That an argument has this shape.
///
/// # Errors
/// [`Rule::ArgShape`].
pub fn shape(args: &[Spec], arg: usize, expected: impl Into<Shape>) -> Result<(), Rule> {
    let (shape, expected) = (args[arg].shape, expected.into());
    if shape == expected { Ok(()) } else { Err(Rule::ArgShape { arg, shape, expected }) }
}
/// That an axis of one argument has the size of an axis of another, each as (argument, axis). An axis that is not there is of size 1.
///
/// # Errors
/// [`Rule::Dim`] with both sizes.
pub fn same_dim(args: &[Spec], lhs: (usize, usize), rhs: (usize, usize)) -> Result<(), Rule> {
    let size = |(arg, axis): (usize, usize)| args[arg].shape.dims().get(axis).copied().unwrap_or(1);
    let (a, b) = (size(lhs), size(rhs));
    if a == b { Ok(()) } else { Err(Rule::Dim { lhs: (lhs.0, lhs.1, a), rhs: (rhs.0, rhs.1, b) }) }
}
