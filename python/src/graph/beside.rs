//! What stands beside values of a traced function: numbers, arrays, and what is refused.

use super::trace::{Step, Tracer};
use crate::error::{Class, Raise};
use crate::keyword;
use crate::operand::{self, Number};
use crate::tensor::elements::host;
use landfall::ops::AttributeValue;
use landfall::{DType, HostTensor};
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

/// An array, with the numbers that it holds now, as a value; a list of numbers is an array of this dtype. `None` of anything else.
pub(crate) fn array(tracer: &Tracer, dtype: DType, given: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let py = given.py();
    let value = match operand::array(given)? {
        Some(array) => host(py, &array.view)?,
        None if keyword::is_list(given) => {
            let Ok(list) = py.import("numpy")?.call_method1("asarray", (given,)) else { return Ok(None) };
            // Of text or objects there is no array.
            let kind: String = list.getattr("dtype")?.getattr("kind")?.extract()?;
            if !matches!(kind.as_str(), "b" | "i" | "f") {
                return Ok(None);
            }
            let numbers = host(py, &operand::required(&list, "a list")?.view)?;
            if numbers.spec.dtype == dtype {
                numbers
            } else {
                HostTensor::new(dtype, numbers.spec.shape, numbers.data).raised(py)?
            }
        }
        None => return Ok(None),
    };
    tracer.constant(value).raised(py).map(Some)
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

/// What is neither a value nor a number or an array, such as a function, beside a value.
pub(crate) fn no_operand(py: Python<'_>, what: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let class = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    let call = keyword::uncalled(given);
    Class::Argument.error(py, format!("{what} is a {class}; it must be a value, a number or an array{call}"))
}
