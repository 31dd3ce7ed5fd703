//! Errors of the engine as Python exceptions: the classes are in `landfall/errors.py`.

use landfall::{Error, Overlap, Rule};
use pyo3::prelude::*;

/// A class of `landfall.errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Error,
    Alias,
    Shape,
    DType,
    Argument,
    AttributeValue,
    Index,
    Memory,
    Device,
    ReadOnly,
    Exchange,
    NonFinite,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Alias => "AliasError",
            Self::Shape => "ShapeError",
            Self::DType => "DTypeError",
            Self::Argument => "ArgumentError",
            Self::AttributeValue => "AttributeValueError",
            Self::Index => "IndexOutOfRangeError",
            Self::Memory => "OutOfMemoryError",
            Self::Device => "DeviceError",
            Self::ReadOnly => "ReadOnlyError",
            Self::Exchange => "ExchangeError",
            Self::NonFinite => "NonFiniteError",
        }
    }

    /// An exception of this class.
    pub(crate) fn error(self, py: Python<'_>, text: impl Into<String>) -> PyErr {
        match self.exception(py, text.into()) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }

    fn exception(self, py: Python<'_>, text: String) -> PyResult<Bound<'_, PyAny>> {
        py.import("landfall.errors")?.getattr(self.name())?.call1((text,))
    }

    /// The class of a violated rule.
    fn of_rule(rule: &Rule) -> Self {
        if overlap(rule).is_some() || matches!(rule, Rule::SelfOverlap { .. }) {
            return Self::Alias;
        }
        if matches!(rule, Rule::Dtype { .. } | Rule::Dtypes { .. } | Rule::Unsupported { .. }) {
            return Self::DType;
        }
        if matches!(
            rule,
            Rule::Arity { .. }
                | Rule::Outputs { .. }
                | Rule::OpName { .. }
                | Rule::AttributeName { .. }
                | Rule::Missing { .. }
                | Rule::Name { .. }
        ) {
            return Self::Argument;
        }
        if matches!(rule, Rule::Attribute { .. } | Rule::AttributeValue { .. } | Rule::Number { .. }) {
            return Self::AttributeValue;
        }
        if matches!(rule, Rule::Device { .. }) {
            return Self::Device;
        }
        if matches!(rule, Rule::ReadOnly { .. }) {
            return Self::ReadOnly;
        }
        Self::Shape
    }

    fn of(error: &Error) -> Self {
        if let Error::Op(error) = error {
            return Self::of_rule(&error.rule);
        }
        if let Error::Given { expected, given, .. } = error {
            return if expected.dtype == given.dtype { Self::Shape } else { Self::DType };
        }
        if matches!(error, Error::Memory { .. } | Error::HostMemory { .. }) {
            return Self::Memory;
        }
        if matches!(error, Error::Index { .. }) {
            return Self::Index;
        }
        if matches!(error, Error::Foreign { .. }) {
            return Self::Exchange;
        }
        if matches!(error, Error::NonFinite { .. }) {
            return Self::NonFinite;
        }
        if matches!(
            error,
            Error::Absent(_)
                | Error::Cuda { .. }
                | Error::NoDevice { .. }
                | Error::NoStream { .. }
                | Error::Compile { .. }
                | Error::Capture { .. }
        ) {
            return Self::Device;
        }
        Self::Error
    }
}

/// The bytes that a rule says meet.
fn overlap(rule: &Rule) -> Option<&Overlap> {
    if let Rule::Alias { bytes, .. } | Rule::OutputsOverlap { bytes, .. } = rule { Some(bytes) } else { None }
}

/// An error of the engine as an exception.
pub(crate) fn raise(py: Python<'_>, error: impl Into<Error>) -> PyErr {
    let error = without_line(error.into());
    let exception = Class::of(&error).error(py, text_of(&error));
    match details(exception.value(py), &error) {
        Ok(()) => exception,
        Err(failed) => failed,
    }
}

/// The error without its line, which is one of this package: Python's traceback shows the caller's.
fn without_line(mut error: Error) -> Error {
    if let Error::Op(op) = &mut error {
        op.at = None;
    }
    if let Error::Gradient { cause, .. } = &mut error {
        cause.at = None;
    }
    if let Error::NoPath { at, .. } | Error::Unused { at, .. } | Error::Loss { at, .. } = &mut error {
        *at = None;
    }
    error
}

/// The text of an error, with what a caller in Python can do.
fn text_of(error: &Error) -> String {
    if let Error::Unused { name, .. } = error {
        return format!(
            "the loss does not depend on the parameter {name}: no gradient path leads to it; use it, or leave it out of the parameters"
        );
    }
    if let Error::Loss { spec, .. } = error {
        return format!(
            "gradients are those of a scalar of a float dtype, and this value is {spec}; take a sum or a mean of it"
        );
    }
    error.to_string()
}

/// What an `AliasError` says beside its text.
fn details(exception: &Bound<'_, PyAny>, error: &Error) -> PyResult<()> {
    let Error::Op(error) = error else { return Ok(()) };
    exception.setattr("op", error.op)?;
    exception.setattr("shapes", error.args.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    if let Some(Overlap { first, second }) = overlap(&error.rule) {
        exception.setattr("byte_ranges", [(first.start, first.end), (second.start, second.end)])?;
    }
    Ok(())
}

/// Adds what a result of the engine is to Python.
pub(crate) trait Raise<T> {
    /// The value, or the exception.
    fn raised(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> Raise<T> for Result<T, E> {
    fn raised(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, error))
    }
}

/// A Python object as text, for errors.
pub(crate) fn text(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "an object without text".to_owned(), |text| text.to_string())
}
