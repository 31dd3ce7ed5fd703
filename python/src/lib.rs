//! Landfall from Python: the extension module `landfall._landfall`.
#![deny(unsafe_code)]

mod forecast;

use pyo3::prelude::*;

/// The compiled part of the package `landfall`.
#[pymodule]
mod _landfall {
    #[pymodule_export]
    use crate::forecast::{check, forecast, keywords, program, resume, train};
}
