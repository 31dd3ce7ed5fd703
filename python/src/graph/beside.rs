//! What stands beside values of a traced function: numbers, and what is refused.

use super::trace::{Step, Tracer};
use crate::error::{Class, Raise};
use crate::keyword;
use crate::operand::Number;
use landfall::DType;
use landfall::ops::AttributeValue;
use pyo3::prelude::*;

/// A number as a value of this dtype.
pub(crate) fn constant(
    py: Python<'_>,
    tracer: &Tracer,
    dtype: DType,
    (number, axes): (Number, usize),
    what: &str,
) -> PyResult<usize> {
    let value = match number.of(dtype, what, py)? {
        landfall::Number::Int(value) => AttributeValue::Int(value),
        landfall::Number::Float(value) => AttributeValue::Float(value),
    };
    let shape = AttributeValue::Ints(vec![1; axes]);
    let given = vec![("shape", shape), ("value", value), ("dtype", dtype.name().into())];
    let step = Step::Method { name: "fill", args: Vec::new(), given };
    tracer.add(step).raised(py).map(|range| range.start)
}

/// The dtype that numbers have where no value beside them says it: as in numpy and PyTorch.
pub(crate) fn default_dtype(numbers: impl IntoIterator<Item = Number>) -> DType {
    let is_float = |number: Number| matches!(number, Number::Float(_));
    if numbers.into_iter().any(is_float) { DType::F32 } else { DType::I64 }
}

/// An argument beside values of a traced function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traced {
    /// A value, by its number.
    Value(usize),
    /// A number of Python, or of an array with one element, and how many axes that has.
    Number((Number, usize)),
}

/// What is neither a value nor a number, such as an array or a function, beside a value.
pub(crate) fn no_operand(py: Python<'_>, what: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let class = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    let why = match keyword::uncalled(given).as_str() {
        "" if given.hasattr("__dlpack__").unwrap_or(false) => {
            ", beside a value of a traced function; pass arrays to the function as arguments, or as params of landfall.compile"
                .to_owned()
        }
        "" if keyword::is_list(given) => "; it must be a value or a number: give each by itself".to_owned(),
        call => format!("; it must be a value or a number{call}"),
    };
    Class::Argument.error(py, format!("{what} is a {class}{why}"))
}
