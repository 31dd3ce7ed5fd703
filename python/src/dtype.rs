//! Names of dtypes: Landfall's, numpy's, and what Python objects say.

use crate::error::Class;
use landfall::DType;
use pyo3::prelude::*;

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

/// The dtype that a Python object names: text, a torch dtype, or what numpy makes a dtype of.
pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let text = given.str()?.to_string();
    if let Some(dtype) = parse(text.strip_prefix("torch.").unwrap_or(&text)) {
        return Ok(dtype);
    }
    // numpy's default, for None, is no choice of the caller's.
    let numpy = given.py().import("numpy")?.call_method1("dtype", (given,)).ok().filter(|_| !given.is_none());
    let name = numpy.and_then(|dtype| dtype.getattr("name").ok()?.extract::<String>().ok());
    name.as_deref().and_then(parse).ok_or_else(|| {
        let name = name.unwrap_or(text);
        Class::DType.error(given.py(), format!("Landfall has no dtype {name:?}; it has {}", all()))
    })
}
