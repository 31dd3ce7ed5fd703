//! `landfall.ops`: each op of the table by name, with its attributes as keywords.

mod call;
mod doc;
mod samples;

pub(crate) use call::{assign, call, cast, copy};
pub(crate) use samples::{_reference, _samples};

use crate::attribute;
use crate::error::{Class, Raise};
use landfall::ops::{Argument, Attribute, AttributeValue, Body, Given, Named, Tested, by_name_for, named};
use landfall::{Rule, Spec};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An op of the table under one of its names, with the ops that calls made of it.
#[derive(Debug)]
pub(crate) struct Entry {
    named: Named,
    made: Mutex<Vec<Made>>,
}

/// An op with its attributes, for calls that give the same ones to arguments of the same ranks.
#[derive(Debug)]
struct Made {
    attributes: Vec<(&'static str, AttributeValue)>,
    ranks: Vec<usize>,
    op: Arc<dyn Tested>,
}

/// The most ops that an entry keeps; a program that varies an attribute makes more.
const KEPT: usize = 64;

/// The table, by name.
pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        named().into_iter().map(|named| Entry { named, made: Mutex::new(Vec::new()) }).collect()
    })
}

/// The entry of this name.
pub(crate) fn entry(py: Python<'_>, name: &str) -> PyResult<&'static Entry> {
    let all = entries();
    let found = all.binary_search_by(|entry| entry.name().cmp(name)).ok().and_then(|at| all.get(at));
    found.ok_or_else(|| Class::Argument.error(py, format!("no op is called {name:?}; landfall.ops has all")))
}

impl Entry {
    fn op(&self) -> &dyn Tested {
        self.named.op.as_ref()
    }

    fn name(&self) -> &'static str {
        self.op().name()
    }

    /// The attributes that are keywords: all but the one that gives the name.
    fn attributes(&self) -> impl Iterator<Item = &'static Attribute> {
        self.op().declared().iter().filter(|attribute| Some(attribute.name) != self.named.by)
    }

    /// The attributes that are not given and whose values these arguments decide.
    fn decided(
        &self,
        given: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> impl Iterator<Item = (&'static str, AttributeValue)> {
        let open = move |a: &&'static Attribute| {
            given.iter().all(|(name, value)| *name != a.name || *value == AttributeValue::None)
        };
        self.attributes().filter(open).filter_map(|a| Some((a.name, self.op().left_out(a.name, args)?)))
    }

    /// The arguments that calls under this name have.
    fn arguments(&self) -> impl Iterator<Item = Argument> {
        let op = self.op();
        op.arguments().iter().filter_map(move |argument| match argument.given {
            // The name has decided.
            Given::If { attribute, .. } if Some(attribute) == self.named.by => {
                argument.taken(op).then_some(Argument { given: Given::Always, ..*argument })
            }
            Given::Always | Given::If { .. } | Given::Optional | Given::Many { .. } => Some(*argument),
        })
    }

    /// The name that an argument has in Python, where no two parameters have one name.
    fn shown(&self, argument: &Argument) -> String {
        let taken = argument.name == "out" || self.attributes().any(|a| a.name == argument.name);
        format!("{}{}", argument.name, if taken { "_" } else { "" })
    }

    /// The op with these attributes, for arguments of these specs.
    fn made(
        &self,
        py: Python<'_>,
        attributes: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> PyResult<Arc<dyn Tested>> {
        // The exception is made when the lock is free again: that may let another thread run.
        let made = self.find_or_make(attributes, args);
        made.map_err(|rule| rule.of(self.name(), args, None, None)).raised(py)
    }

    fn find_or_make(
        &self,
        attributes: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> Result<Arc<dyn Tested>, Rule> {
        let mut attributes = Cow::Borrowed(attributes);
        let decided: Vec<_> = self.decided(&attributes, args).collect();
        if !decided.is_empty() {
            attributes.to_mut().retain(|(name, _)| decided.iter().all(|(own, _)| own != name));
            attributes.to_mut().extend(decided);
        }
        let ranks = || args.iter().map(|spec| spec.shape.rank());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |m: &&Made| m.attributes == *attributes && m.ranks.iter().copied().eq(ranks());
        if let Some(found) = made.iter().find(same) {
            return Ok(Arc::clone(&found.op));
        }
        let op = by_name_for(self.name(), &attributes, args)?;
        if made.len() == KEPT {
            made.remove(0);
        }
        made.push(Made { attributes: attributes.to_vec(), ranks: ranks().collect(), op: Arc::clone(&op) });
        Ok(op)
    }
}

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
        call::from_python(self.entry, args, keywords)
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
