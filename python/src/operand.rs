//! Arguments of calls: tensors, arrays of other libraries, and Python numbers.

use crate::device::{CPU, CUDA, Imported, MAX_VERSION, from_array, from_capsule, from_exchange_api};
use crate::dtype;
use crate::engines;
use crate::error::Class;
use crate::keyword;
use crate::tensor::Tensor;
use landfall::{DType, DeviceKind, Element, View, with_dtype};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyFloat, PyInt, PyType};

/// Classes of numpy.
struct Numpy {
    array: Py<PyType>,
    scalar: Py<PyType>,
    masked: Py<PyType>,
}

fn numpy(py: Python<'_>) -> PyResult<&Numpy> {
    static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
    NUMPY.get_or_try_init(py, || {
        let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
            Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        Ok(Numpy {
            array: class("numpy", "ndarray")?,
            scalar: class("numpy", "generic")?,
            masked: class("numpy.ma", "MaskedArray")?,
        })
    })
}

/// The array that an object is, without a copy; `None` if it is no array.
pub(crate) fn array(object: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    imported(object, true)
}

/// An array that a call writes to, and whether the call waits for checks of indices where the array is of another library.
pub(crate) fn destination(object: &Bound<'_, PyAny>, what: &str, waits: bool) -> PyResult<Imported> {
    imported(object, waits)?.ok_or_else(|| no_array(object, what))
}

fn imported(object: &Bound<'_, PyAny>, waits: bool) -> PyResult<Option<Imported>> {
    let py = object.py();
    if let Ok(tensor) = object.cast::<Tensor>() {
        return Ok(Some(Imported { view: tensor.get().view(py)?, stream: None }));
    }
    let numpy = numpy(py)?;
    if object.is_instance(numpy.array.bind(py))? {
        if object.is_instance(numpy.masked.bind(py))? {
            return Err(Class::Exchange.error(
                py,
                "a masked array would lose its mask; fill it first, x.filled(value), or pass x.data",
            ));
        }
        return Ok(Some(Imported { view: from_array(object)?, stream: None }));
    }
    if object.is_instance(numpy.scalar.bind(py))? {
        return Ok(None);
    }
    let imported = match from_exchange_api(object, waits)? {
        Some(imported) => imported,
        None if object.hasattr(pyo3::intern!(py, "__dlpack__"))? => {
            return Ok(Some(Imported { view: from_protocol(object)?, stream: None }));
        }
        None => return Ok(None),
    };
    // `__dlpack__` of torch refuses the one; its exchange API leaves that to the caller.
    if let Some(needs) = object.getattr_opt(pyo3::intern!(py, "requires_grad"))?
        && needs.is_truthy()?
    {
        return Err(Class::Exchange.error(
            py,
            "the array requires a gradient, which would be lost here; pass x.detach(), or wrap the call in a torch op",
        ));
    }
    // The memory of the other holds the opposite of its numbers.
    if let Some(is_neg) = object.getattr_opt(pyo3::intern!(py, "is_neg"))?
        && is_neg.call0()?.is_truthy()?
    {
        return Err(Class::Exchange.error(
            py,
            "the memory of the array holds its numbers negated, as torch leaves them of x.conj().imag; pass x.resolve_neg()",
        ));
    }
    Ok(Some(imported))
}

/// The array that an object is.
pub(crate) fn required(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Imported> {
    array(object)?.ok_or_else(|| no_array(object, what))
}

/// The exception of an object that is no array.
pub(crate) fn no_array(object: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let class = object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    Class::Argument.error(
        object.py(),
        format!(
            "{what} is a {class}; it must be a landfall.Tensor, a numpy array or anything with __dlpack__{}",
            match keyword::uncalled(object).as_str() {
                "" => ": make one of a list or a frame with landfall.tensor(..)",
                call => call,
            }
        ),
    )
}

/// An array by `__dlpack__`.
fn from_protocol(object: &Bound<'_, PyAny>) -> PyResult<View> {
    let py = object.py();
    let (kind, ordinal): (i32, i32) =
        object.call_method0(pyo3::intern!(py, "__dlpack_device__"))?.extract()?;
    let wishes = PyDict::new(py);
    if let (CUDA, Ok(ordinal)) = (kind, u32::try_from(ordinal)) {
        // The producer has this stream wait for its work. The legacy default stream is 1 here.
        let stream = engines::on(py, DeviceKind::Cuda(ordinal))?.stream();
        wishes.set_item("stream", stream.map(|stream| stream.max(1)))?;
    }
    let newest = wishes.copy()?;
    newest.set_item("max_version", MAX_VERSION)?;
    let name = pyo3::intern!(py, "__dlpack__");
    let capsule = match object.call_method(name, (), Some(&newest)) {
        // Producers before DLPack 1.0 do not know the keyword.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            object.call_method(name, (), Some(&wishes))?
        }
        made => made?,
    };
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|error| {
        Class::Exchange.error(py, format!("__dlpack__ returned {error}; it must return a capsule"))
    })?;
    from_capsule(&capsule)
}

/// The DLPack number of a device.
pub(crate) fn dlpack_device(device: DeviceKind) -> (i32, u32) {
    match device {
        DeviceKind::Cpu | DeviceKind::Null => (CPU, 0),
        DeviceKind::Cuda(ordinal) => (CUDA, ordinal),
    }
}

/// A number of Python or numpy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The number for elements of a dtype, which holds it, or rounds it if it is one of floats.
    /// `what` is what an error calls it.
    pub(crate) fn of(self, dtype: DType, what: &str, py: Python<'_>) -> PyResult<landfall::Number> {
        let number = match self {
            Self::Float(value) => landfall::Number::Float(value),
            Self::Int(value) if dtype.is_float() => {
                // Rounded once; what the dtype does not hold is refused as it is.
                let once = |value| with_dtype!(any dtype, T => T::from_i64(value).to_f64());
                let near = i64::try_from(value).map_or(value as f64, once);
                landfall::Number::Float(if near.is_finite() { near } else { value as f64 })
            }
            Self::Int(value) => match i64::try_from(value) {
                Ok(value) => landfall::Number::Int(value),
                Err(_) => return Err(unheld(py, what, &value, dtype)),
            },
        };
        number.held_by(dtype).map_err(|_| unheld(py, what, &number, dtype))?;
        Ok(number)
    }
}

/// The exception of a number beside elements of a dtype that does not hold it.
fn unheld(py: Python<'_>, what: &str, number: &dyn std::fmt::Display, dtype: DType) -> PyErr {
    Class::DType.error(
        py,
        format!(
            "{what} is {number} beside an array of {0}, which does not hold it; convert the array, or give a number of {0}",
            dtype::numpy_name(dtype)
        ),
    )
}

/// A scalar of numpy as Python's own; anything else as it is.
pub(crate) fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match object.is_instance(numpy(object.py())?.scalar.bind(object.py()))? {
        true => object.call_method0("item"),
        false => Ok(object.clone()),
    }
}

/// The number that an object is; `None` if it is none.
pub(crate) fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    let py = object.py();
    // A truth value is an integer of Python.
    if object.is_instance_of::<PyInt>() {
        if let Ok(value) = object.extract::<i64>() {
            return Ok(Some(Number::Int(value.into())));
        }
        let value = object.extract().map_err(|_| {
            Class::AttributeValue
                .error(py, format!("the number {object} is beyond 128-bit integers; give a float"))
        })?;
        return Ok(Some(Number::Int(value)));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(Number::Float(object.extract()?)));
    }
    if !object.is_instance(numpy(py)?.scalar.bind(py))? {
        return Ok(None);
    }
    let own = plain(object)?;
    // One of ml_dtypes stays what it is, and one of text or time is no number.
    match own.is(object) || own.get_type().is(object.get_type()) {
        true => Ok(own.extract().ok().map(Number::Float)),
        false => number(&own),
    }
}

/// The number that an object is beside a value of a traced function, and how many axes it has: also that of a numpy array with
/// one element.
pub(crate) fn lone(object: &Bound<'_, PyAny>) -> PyResult<Option<(Number, usize)>> {
    let py = object.py();
    if let Some(number) = number(object)? {
        return Ok(Some((number, 0)));
    }
    let numpy = numpy(py)?;
    let is_plain = object.is_instance(numpy.array.bind(py))? && !object.is_instance(numpy.masked.bind(py))?;
    if !is_plain || object.getattr("size")?.extract::<usize>()? != 1 {
        return Ok(None);
    }
    let axes: usize = object.getattr("ndim")?.extract()?;
    Ok(number(&object.call_method0("item")?)?.map(|number| (number, axes)))
}
