//! Keywords of ops: objects of Python as values of attributes, and back.

use crate::error::{Class, text};
use crate::tensor::sizes::sizes;
use crate::{dtype, operand};
use landfall::ops::{Attribute, AttributeType, AttributeValue};
use landfall::{DType, Number, Spec};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PySequence, PyString, PyTuple};

/// The value that an object gives an attribute.
pub(crate) fn value(attribute: &Attribute, given: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    let refused = || {
        Class::AttributeValue.error(
            given.py(),
            format!("{} is {}; it must be {}", attribute.name, text(given), attribute.accepts()),
        )
    };
    let given = &operand::plain(given)?;
    if attribute.takes == DType::TAKES {
        return Ok(dtype::of(given)?.name().into());
    }
    if attribute.takes == Spec::TAKES && !given.is_instance_of::<PyString>() {
        let (dtype, shape): (Bound<'_, PyAny>, Bound<'_, PyAny>) = given.extract().map_err(|_| refused())?;
        return Ok(AttributeValue::Text(format!("{}{:?}", dtype::of(&dtype)?.name(), sizes(&shape)?)));
    }
    if given.is_none() {
        return Ok(AttributeValue::None);
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(AttributeValue::Bool(truth.is_true()));
    }
    if let Ok(name) = given.cast::<PyString>() {
        let name = name.to_str().map_err(|_| refused())?;
        // A choice between dtypes takes their names of either kind.
        let own = dtype::parse(name).map(DType::name).filter(|own| attribute.choices.contains(own));
        return Ok(own.unwrap_or(name).into());
    }
    match operand::number(given)? {
        // Beyond 64 bits a number is of use where floats are.
        Some(operand::Number::Int(value)) if attribute.takes == f64::TAKES && value as f64 as i128 != value => {
            Err(Class::AttributeValue.error(
                given.py(),
                format!(
                    "{} is {value}; it is a float, which holds integers up to 2**53 exactly, and beyond only some",
                    attribute.name
                ),
            ))
        }
        Some(operand::Number::Int(value)) => {
            Ok(i64::try_from(value).map_or(AttributeValue::Float(value as f64), AttributeValue::Int))
        }
        Some(operand::Number::Float(value)) => Ok(AttributeValue::Float(value)),
        None if given.is_instance_of::<PySequence>() && attribute.several() => {
            Ok(AttributeValue::Ints(sizes(given).map_err(|_| refused())?))
        }
        None if given.is_instance_of::<PySequence>() => Err(Class::AttributeValue.error(
            given.py(),
            format!("{} is {}; it must be {}, one and no list", attribute.name, text(given), attribute.accepts()),
        )),
        None => Err(refused()),
    }
}

/// A value as an object of Python, for signatures.
pub(crate) fn object<'py>(py: Python<'py>, value: &AttributeValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        AttributeValue::None => py.None().into_bound(py),
        AttributeValue::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        AttributeValue::Int(v) => v.into_pyobject(py)?.into_any(),
        AttributeValue::Float(v) => PyFloat::new(py, *v).into_any(),
        AttributeValue::Text(v) => PyString::new(py, named(v)).into_any(),
        AttributeValue::Ints(v) => PyTuple::new(py, v)?.into_any(),
    })
}

/// A name as Python's libraries have it: dtypes as numpy names them.
fn named(name: &str) -> &str {
    match DType::parse(name) {
        Some(dtype) => dtype::numpy_name(dtype),
        None => name,
    }
}

/// The type of an attribute in stubs.
pub(crate) fn annotation(attribute: &Attribute) -> String {
    let optional = attribute.default() == Some(AttributeValue::None);
    let kind = if attribute.takes == DType::TAKES {
        "DTypeLike".to_owned()
    } else if attribute.takes == Spec::TAKES {
        "str | tuple[DTypeLike, int | Sequence[int]]".to_owned()
    } else if attribute.takes == bool::TAKES {
        "bool".to_owned()
    } else if !attribute.choices.is_empty() {
        let choices: Vec<String> =
            attribute.choices.iter().map(|choice| format!("{:?}", named(choice))).collect();
        format!("Literal[{}]", choices.join(", "))
    } else if attribute.takes == f64::TAKES || attribute.takes == Number::TAKES {
        "float".to_owned()
    } else if attribute.several() {
        "int | Sequence[int]".to_owned()
    } else {
        "int".to_owned()
    };
    if optional { format!("{kind} | None") } else { kind }
}

/// The comparison that an operator of Python is: a value of the attribute of `compare`, and the name of a graph's method.
pub(crate) fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "less",
        CompareOp::Le => "less_equal",
        CompareOp::Eq => "equal",
        CompareOp::Ne => "not_equal",
        CompareOp::Gt => "greater",
        CompareOp::Ge => "greater_equal",
    }
}
