//! The samples and references of the op table, for the tests of this package.

use super::entry::{Entry, entry};
use crate::attribute;
use crate::dtype;
use crate::error::Raise;
use crate::operand;
use crate::tensor::Tensor;
use landfall::ops::{AttributeValue, Data, Sample};
use landfall::{DType, DeviceKind, HostTensor, Spec, View};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// The sample calls of an op in each dtype that it takes: keywords, arguments as (dtype, shape, kind of data, numbers), and
/// the text of the error where the call must be refused.
#[pyfunction]
pub(crate) fn _samples<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
    let entry = entry(py, name)?;
    let all = PyList::empty(py);
    for sample in entry.op().samples().iter().filter(|sample| sample.op.name() == name) {
        let open = sample.args.iter().any(|arg| arg.dtype.is_none());
        let dtypes = if open { DType::ALL } else { &[DType::F32] };
        for &dtype in dtypes {
            let specs: Vec<Spec> =
                sample.args.iter().map(|arg| Spec::new(arg.dtype.unwrap_or(dtype), arg.shape)).collect();
            if sample.refused.is_some() != sample.op.infer(&specs).is_err() {
                continue;
            }
            let args = PyList::empty(py);
            for (arg, spec) in sample.args.iter().zip(&specs) {
                let shape = PyTuple::new(py, spec.shape.dims())?;
                let (kind, numbers) = match &arg.data {
                    Data::Range(low, high) => ("range", vec![*low, *high]),
                    Data::Wide => ("wide", Vec::new()),
                    Data::Int(low, high) => ("int", vec![*low as f64, *high as f64]),
                    Data::Exact(values) => ("exact", values.clone()),
                };
                args.append((dtype::numpy_name(spec.dtype), shape, kind, numbers))?;
            }
            all.append((keywords(py, entry, sample)?, args, sample.refused))?;
            if sample.refused.is_some() {
                break;
            }
        }
    }
    Ok(all)
}

/// The attributes of a sample.
fn keywords<'py>(py: Python<'py>, entry: &Entry, sample: &Sample) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    for (index, declared) in sample.op.declared().iter().enumerate() {
        if Some(declared.name) != entry.named.by {
            let value = sample.op.attribute(index).unwrap_or(AttributeValue::None);
            keywords.set_item(declared.name, attribute::object(py, &value)?)?;
        }
    }
    Ok(keywords)
}

/// The results of an op's reference, which computes in f64: floats unrounded, integers in their own dtype.
#[pyfunction]
pub(crate) fn _reference<'py>(
    py: Python<'py>,
    name: &str,
    args: Vec<Bound<'py, PyAny>>,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Vec<Tensor>> {
    let entry = entry(py, name)?;
    let mut attributes = Vec::new();
    for declared in entry.attributes() {
        if let Some(value) = keywords.get_item(declared.name)? {
            attributes.push((declared.name, attribute::value(declared, &value)?));
        }
    }
    let mut hosts = Vec::new();
    for arg in &args {
        hosts.push(operand::required(arg, "argument")?.view.read_host().raised(py)?);
    }
    let specs: Vec<Spec> = hosts.iter().map(|host| host.spec).collect();
    let op = entry.made(py, &attributes, &specs)?;
    let engine = crate::engines::on(py, DeviceKind::Cpu)?;
    let results = op.reference(&hosts).into_iter().map(|host: HostTensor| {
        let host = match host.spec.dtype.is_float() {
            true => HostTensor::new(DType::F64, host.spec.shape, host.data).raised(py)?,
            false => host,
        };
        Ok(Tensor::new(View::from(engine.from_host(&host).raised(py)?)))
    });
    results.collect()
}
