//! Landfall from Python: the extension module `landfall._landfall`.
//!
//! Exceptions, engines and dtypes below; `device` shares memory with other libraries, and alone has unsafe code; `tensor`,
//! `graph`, `ops`, `methods`, `xla` and `forecast`, from the ground up, are what a user sees.
#![deny(unsafe_code)]

mod attribute;
mod chronos;
mod columns;
#[allow(unsafe_code, reason = "the memory of other libraries becomes the engine's here; nothing else may")]
mod device;
mod dtype;
mod engines;
mod error;
mod failure;
mod forecast;
mod graph;
mod keyword;
mod methods;
mod operand;
mod ops;
mod tensor;
mod xla;

use pyo3::prelude::*;

/// The compiled part of the package `landfall`.
#[pymodule]
mod _landfall {
    #[pymodule_export]
    use crate::chronos::{PyChronos, low_rank, means, places};
    #[pymodule_export]
    use crate::columns::Columns;
    #[pymodule_export]
    use crate::device::_xla_layout;
    #[pymodule_export]
    use crate::engines::{counters, forget, synchronize};
    #[pymodule_export]
    use crate::forecast::{
        check, check_comparison, check_pretrained, compare_frame, contenders, forecast, forecast_without_run,
        keywords, program, resume, train,
    };
    #[pymodule_export]
    use crate::graph::files::{load, save};
    #[pymodule_export]
    use crate::graph::optimizer::{_rates, PyMinimiser, PyOptimizer};
    #[pymodule_export]
    use crate::graph::program::{_compile, Compiled, Trace};
    #[pymodule_export]
    use crate::graph::train::{_training_options, PyTrainer};
    #[pymodule_export]
    use crate::graph::value::Value;
    #[pymodule_export]
    use crate::methods::make::{_from_bytes, empty, from_dlpack, from_numpy, tensor, zeros};
    #[pymodule_export]
    use crate::ops::{_ops, _reference, _samples, OpFunction};
    #[pymodule_export]
    use crate::tensor::{Memory, Tensor};
    #[pymodule_export]
    use crate::xla::{_xla_handler, _xla_results};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::graph::method::install(module.py())
    }
}
