//! Names of dtypes: Landfall's, numpy's, and what Python objects say.

use crate::error::Class;
use landfall::DType;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The name that numpy and torch have for a dtype.
pub(crate) fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::Bool => "bool",
    }
}

/// The dtype of a name, Landfall's or numpy's.
pub(crate) fn parse(name: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.name() == name || numpy_name(*dtype) == name)
}

/// The names of all dtypes, for errors.
pub(crate) fn all() -> String {
    DType::ALL.iter().map(|dtype| numpy_name(*dtype)).collect::<Vec<_>>().join(", ")
}

/// The dtype that a Python object names: text, a numpy or torch dtype, a scalar type.
pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let name = match given.cast::<PyString>() {
        Ok(text) => text.to_string(),
        // numpy's dtypes have a name, its scalar types one of a class, torch's dtypes their text.
        Err(_) => match given.getattr("name").or_else(|_| given.getattr("__name__")) {
            Ok(name) => name.str()?.to_string(),
            Err(_) => given.str()?.to_string(),
        },
    };
    let name = match name.strip_prefix("torch.").unwrap_or(&name) {
        // Python's types are those of numpy's default arrays.
        "float" => "float64",
        "int" => "int64",
        name => name,
    }
    .to_owned();
    parse(&name).ok_or_else(|| {
        Class::DType.new(given.py(), format!("Landfall has no dtype {name:?}; it has {}", all()))
    })
}
