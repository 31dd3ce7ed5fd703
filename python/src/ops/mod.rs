//! `landfall.ops`: each op of the table by name, with its attributes as keywords.

mod call;
mod doc;
mod entry;
mod samples;

pub(crate) use call::{assign, call, cast, copy};
pub(crate) use entry::{Entry, entry, found};
pub(crate) use samples::{_reference, _samples};

use crate::attribute;
use entry::entries;
use landfall::ops::{Body, Given};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

// An op of the table. The class has no docstring of its own: it would hide those of its objects.
#[pyclass(frozen, module = "landfall", name = "Op")]
pub(crate) struct OpFunction {
    entry: &'static Entry,
}

#[pymethods]
impl OpFunction {
    #[pyo3(signature = (*args, **keywords))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call::from_python(self.entry, args, keywords, true)
    }

    // The same, which waits for no check of indices: what a GPU finds is reported by `landfall.synchronize`.
    #[pyo3(signature = (*args, **keywords))]
    fn _unwaited<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call::from_python(self.entry, args, keywords, false)
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.entry.name()
    }

    #[getter]
    fn __qualname__(&self) -> &'static str {
        self.entry.name()
    }

    #[getter]
    fn __module__(&self) -> &'static str {
        "landfall.ops"
    }

    /// The signature, then what the op computes, with its arguments, keywords, rules of memory and dtypes.
    #[getter]
    fn __doc__(&self, py: Python<'_>) -> PyResult<String> {
        let signature = self.__signature__(py)?;
        Ok(format!("{}{signature}\n\n{}", self.entry.name(), doc::text(self.entry)))
    }

    /// Arguments are given by position; attributes, and `out`, by keyword.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inspect = py.import("inspect")?;
        let (parameter, kind) = (inspect.getattr("Parameter")?, inspect.getattr("Parameter")?);
        let parameters = PyList::empty(py);
        let mut optional = false;
        for argument in self.entry.arguments() {
            let many = matches!(argument.given, Given::Many { .. });
            // Behind an argument that some calls lack Python has no place for one that all have.
            optional |= matches!(argument.given, Given::If { .. } | Given::Optional);
            let by = if many { "VAR_POSITIONAL" } else { "POSITIONAL_ONLY" };
            let default = (optional && !many).then(|| py.None());
            let keywords = PyDict::new(py);
            if let Some(default) = default {
                keywords.set_item("default", default)?;
            }
            parameters
                .append(parameter.call((self.entry.shown(&argument), kind.getattr(by)?), Some(&keywords))?)?;
        }
        let keyword = |name: &str, default: Option<Bound<'py, PyAny>>| {
            let keywords = PyDict::new(py);
            if let Some(default) = default {
                keywords.set_item("default", default)?;
            }
            parameters.append(parameter.call((name, kind.getattr("KEYWORD_ONLY")?), Some(&keywords))?)
        };
        for attribute in self.entry.attributes() {
            let default = attribute.default().map(|value| attribute::object(py, &value)).transpose()?;
            keyword(attribute.name, default)?;
        }
        keyword("out", Some(py.None().into_bound(py)))?;
        inspect.getattr("Signature")?.call1((parameters,))
    }

    /// The types of the keywords, for stubs.
    #[getter]
    fn _annotations(&self) -> Vec<(&'static str, String)> {
        self.entry.attributes().map(|attribute| (attribute.name, attribute::annotation(attribute))).collect()
    }

    /// The type of an argument, for stubs.
    #[getter]
    fn _takes(&self) -> &'static str {
        match self.entry.op().body() {
            Body::Pointwise(_) => "Array | float",
            Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => "Array",
        }
    }

    /// The type of the results, for stubs.
    #[getter]
    fn _gives(&self) -> &'static str {
        match self.entry.op().outputs() {
            // The arguments that it updates.
            outputs if outputs.iter().any(|output| output.updated().is_some()) => "Any",
            [_] => "Tensor",
            _ => "tuple[Tensor, ...]",
        }
    }

    fn __repr__(&self) -> String {
        format!("<op {}>", self.entry.name())
    }

    /// Pickled by name.
    fn __reduce__(&self) -> &'static str {
        self.entry.name()
    }
}

/// Every op, by name.
#[pyfunction]
pub(crate) fn _ops(py: Python<'_>) -> PyResult<Vec<(&'static str, Py<OpFunction>)>> {
    entries().iter().map(|entry| Ok((entry.name(), Py::new(py, OpFunction { entry })?))).collect()
}
