//! What a user does with a `landfall.Tensor`: its methods and operators, and functions that make one.

pub(crate) mod make;

use crate::device::capsule;
use crate::error::{Class, Raise};
use crate::tensor::cuts::{self, Cut};
use crate::tensor::sizes::{listed, shape};
use crate::tensor::{Tensor, along, elements};
use crate::{attribute, dtype, engines, operand, ops};
use landfall::{DeviceKind, Shape, View};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

impl Tensor {
    /// The view that an index names.
    fn cut(&self, key: &Bound<'_, PyAny>) -> PyResult<View> {
        let py = key.py();
        let mut view = self.view(py)?;
        for cut in cuts::of(view.spec(), key)? {
            view = match cut {
                Cut::NewAxis(axis) => view.unsqueeze(axis),
                Cut::Range { axis, start, len, step } => {
                    let Ok(step) = usize::try_from(step) else {
                        let why = format!(
                            "index of {}: axis {axis} has a negative step; a tensor lies forwards",
                            view.spec()
                        );
                        return Err(Class::Index.error(py, why));
                    };
                    view.strided_slice(axis, start, len, step)
                }
                Cut::At { axis, index } => view.slice(axis, index, 1).and_then(|row| row.squeeze(axis)),
            }
            .raised(py)?;
        }
        Ok(view)
    }

    /// Its one element.
    fn one<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.view.shape().elements() != 1 {
            return Err(Class::Shape.error(
                py,
                format!(
                    "{} has {} elements; a number has one",
                    self.view.spec(),
                    self.view.shape().elements()
                ),
            ));
        }
        elements::number(py, &elements::host(py, &self.view(py)?)?, 0)
    }
}

/// The result of an operator with these arguments; `NotImplemented` where one is neither an array nor a number.
fn operator<'py>(
    py: Python<'py>,
    op: &'static str,
    args: [&Bound<'py, PyAny>; 2],
) -> PyResult<Bound<'py, PyAny>> {
    for arg in args {
        if operand::number(arg)?.is_none() && operand::array(arg)?.is_none() {
            return Ok(py.NotImplemented().into_bound(py));
        }
    }
    ops::call(py, op, &args, None, &[])
}

/// As [`operator`], into the first argument.
fn update<'py>(op: &'static str, target: &Bound<'py, Tensor>, other: &Bound<'py, PyAny>) -> PyResult<()> {
    ops::call(target.py(), op, &[target.as_any(), other], Some(target.as_any()), &[]).map(drop)
}

#[pymethods]
impl Tensor {
    /// The dtype's name, such as "float32".
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype::numpy_name(self.view.dtype())
    }

    /// The size of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        elements::tuple(py, self.view.shape().dims().iter().copied())
    }

    /// The distance of neighbours along each axis, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        elements::tuple(py, self.view.layout().strides().iter().copied())
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.view.shape().rank()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.view.shape().elements()
    }

    /// The bytes of the elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.view.spec().bytes()
    }

    /// The device's name: "cpu" or "cuda:N".
    #[getter]
    fn device(&self) -> String {
        self.view.device().to_string()
    }

    /// The address of the first element in the device's memory.
    #[getter]
    fn data_ptr(&self) -> u64 {
        self.view.address()
    }

    /// Whether calls must not write it.
    #[getter]
    fn readonly(&self) -> bool {
        !self.view.is_writable()
    }

    /// Whether the elements lie row-major without gaps.
    #[getter]
    fn is_contiguous(&self) -> bool {
        self.view.layout().is_contiguous()
    }

    /// The view with its axes in the opposite order.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        let view = self.view(py)?;
        let axes: Vec<usize> = (0..view.shape().rank()).rev().collect();
        view.permute(&axes).raised(py).map(Self::new)
    }

    /// A view of the same elements with another shape; one size may be -1, which the others leave.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let py = shape.py();
        let given = listed(shape)?;
        let elements = self.view.shape().elements();
        let known = given.iter().filter(|d| **d >= 0).fold(1i64, |n, d| n.saturating_mul(*d));
        let rest = if known == 0 { 0 } else { elements as i64 / known };
        let open = given.iter().filter(|d| **d == -1).count();
        let sizes: Option<Vec<usize>> =
            given.iter().map(|&d| usize::try_from(if d == -1 { rest } else { d }).ok()).collect();
        let Some(to) = sizes.filter(|_| open < 2).and_then(|sizes| Shape::new(&sizes)) else {
            return Err(Class::Shape.error(
                py,
                format!(
                    "{} cannot have shape {given:?}; it has at most 8 axes, one of them -1",
                    self.view.spec()
                ),
            ));
        };
        self.view(py)?.reshape(to).raised(py).map(Self::new)
    }

    /// A view with its axes in this order; negative axes count from the end.
    #[pyo3(signature = (*axes))]
    fn permute(&self, axes: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (py, rank) = (axes.py(), self.view.shape().rank());
        let given = listed(axes)?;
        let index = |&axis: &i64| {
            // One that is none stays none, and is refused below.
            let from_front = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
            usize::try_from(from_front).unwrap_or(usize::MAX)
        };
        self.view(py)?.permute(&given.iter().map(index).collect::<Vec<_>>()).raised(py).map(Self::new)
    }

    /// A view that repeats axes of size 1, for reading.
    fn broadcast_to(&self, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = shape.py();
        self.view(py)?.broadcast_to(self::shape(shape)?).raised(py).map(Self::new)
    }

    /// Itself where its elements lie row-major without gaps, else a copy.
    fn contiguous(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let (py, tensor) = (slf.py(), slf.get());
        if tensor.is_contiguous() { Ok(slf.clone().unbind()) } else { Py::new(py, tensor.copied(py)?) }
    }

    /// A copy in memory of its own, row-major.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.copied(py)
    }

    /// On a device: a view of the same memory where it is there, else a copy.
    fn to(&self, py: Python<'_>, device: &str) -> PyResult<Self> {
        self.on(py, engines::device(py, Some(device))?)
    }

    /// The elements in another dtype, as a copy.
    fn astype(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        ops::cast(py, &self.view(py)?, dtype::of(dtype)?).map(Self::new)
    }

    /// A numpy array over the same memory. bfloat16 is that of `ml_dtypes`.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        elements::array(py, self.view(py)?)
    }

    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py)?;
        let same = match dtype {
            None => true,
            Some(dtype) => array.getattr("dtype")?.eq(dtype)?,
        };
        match (same, copy) {
            (true, Some(true)) => array.call_method0("copy"),
            (true, _) => Ok(array),
            (false, Some(false)) => Err(Class::Exchange.error(
                py,
                format!(
                    "{} becomes an array of another dtype only by a copy, and copy=False",
                    self.view.spec()
                ),
            )),
            (false, _) => array.call_method1("astype", (dtype,)),
        }
    }

    /// Has numpy leave `array * tensor` to the tensor.
    #[classattr]
    #[pyo3(name = "__array_priority__")]
    const ARRAY_PRIORITY: i32 = 1000;

    /// The elements as nested lists of numbers; a number for a scalar.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        elements::list(py, &elements::host(py, &self.view(py)?)?)
    }

    /// The one element as a number.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.one(py)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.one(py)?.is_truthy()
    }

    fn __float__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<pyo3::types::PyFloat>().call1((self.one(py)?,))
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<pyo3::types::PyInt>().call1((self.one(py)?,))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.view
            .shape()
            .dims()
            .first()
            .copied()
            .ok_or_else(|| Class::DType.error(py, format!("{} has no axis, so no length", self.view.spec())))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        along(slf.as_any())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if cuts::has_arrays(key)? {
            return cuts::index(slf.as_any(), key);
        }
        Ok(Bound::new(slf.py(), Self::new(slf.get().cut(key)?))?.into_any())
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = key.py();
        if cuts::has_arrays(key)? {
            return Err(Class::Argument.error(
                py,
                "elements at an array of indices are not assigned; assign to slices, add with ops.scatter_add, or choose with ops.where",
            ));
        }
        ops::assign(py, &self.cut(key)?, value)
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let elsewhere: String = py.import("landfall.names")?.call_method1("elsewhere", (name,))?.extract()?;
        let text = format!("a landfall.Tensor has no {name:?}{elsewhere}");
        Err(pyo3::exceptions::PyAttributeError::new_err(text))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let host = elements::host(py, &self.view(py)?)?;
        let (dtype, device) = (self.dtype(), self.device());
        let shape = if self.size() == 0 { format!(", shape={}", self.shape(py)?) } else { String::new() };
        let text = host.to_string().replace('\n', "\n       ");
        Ok(format!("Tensor({text}{shape}, dtype={dtype}, device={device})"))
    }

    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        // By identity, as `==` compares elements.
        (slf.as_ptr() as isize) >> 4
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if operand::number(other)?.is_none() && operand::array(other)?.is_none() {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let name = attribute::comparison(op);
        ops::call(py, "compare", &[slf.as_any(), other], None, &[("comparison", name.into())])
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        ops::call(slf.py(), "neg", &[slf.as_any()], None, &[])
    }

    fn __abs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        ops::call(slf.py(), "abs", &[slf.as_any()], None, &[])
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "add", [slf.as_any(), other])
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "add", [other, slf.as_any()])
    }

    fn __iadd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        update("add", slf, other)
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "sub", [slf.as_any(), other])
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "sub", [other, slf.as_any()])
    }

    fn __isub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        update("sub", slf, other)
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "mul", [slf.as_any(), other])
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "mul", [other, slf.as_any()])
    }

    fn __imul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        update("mul", slf, other)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "div", [slf.as_any(), other])
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "div", [other, slf.as_any()])
    }

    fn __itruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        update("div", slf, other)
    }

    fn __pow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match modulo {
            None => operator(slf.py(), "pow", [slf.as_any(), other]),
            Some(_) => Ok(slf.py().NotImplemented().into_bound(slf.py())),
        }
    }

    fn __rpow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match modulo {
            None => operator(slf.py(), "pow", [other, slf.as_any()]),
            Some(_) => Ok(slf.py().NotImplemented().into_bound(slf.py())),
        }
    }

    fn __matmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "matmul", [slf.as_any(), other])
    }

    fn __rmatmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        operator(slf.py(), "matmul", [other, slf.as_any()])
    }

    /// Device type and number of DLPack.
    fn __dlpack_device__(&self) -> (i32, u32) {
        operand::dlpack_device(self.view.device())
    }

    /// A DLPack capsule of the same memory, for consumers that speak DLPack 1.0 or later.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let refused = |why: String| Err(Class::Exchange.error(py, why));
        if max_version.is_none_or(|(major, _)| major < 1) {
            return refused(format!(
                "the consumer asks for a capsule of DLPack {}, which cannot say what is read-only; this package speaks 1.x: \
                 pass max_version=(1, 0), use a consumer of this decade (numpy 2.1, torch 2.9), or x.numpy()",
                max_version.map_or_else(|| "0.x".to_owned(), |(major, minor)| format!("{major}.{minor}"))
            ));
        }
        let (mut view, mut copied) = (self.view(py)?, false);
        if let Some(wanted) = dl_device {
            let own = self.__dlpack_device__();
            let here = (own.0, i64::from(own.1)) == (wanted.0, i64::from(wanted.1));
            match wanted {
                _ if here => {}
                (crate::device::CPU, _) if copy != Some(false) => {
                    (view, copied) = (self.on(py, DeviceKind::Cpu)?.view, true);
                }
                _ => {
                    return refused(format!(
                        "the consumer wants device {wanted:?} and the tensor is on {} {own:?}; copy it before: x.to(..)",
                        self.view.device()
                    ));
                }
            }
        }
        if copy == Some(true) && !copied {
            (view, copied) = (ops::copy(py, &view)?, true);
        }
        let stream = match (view.device(), stream) {
            (DeviceKind::Cpu | DeviceKind::Null, None) | (_, Some(-1)) => None,
            (DeviceKind::Cpu | DeviceKind::Null, Some(stream)) => {
                return refused(format!(
                    "the tensor is on the CPU, which has no stream {stream}; pass stream=None"
                ));
            }
            // 1 is the legacy default stream.
            (DeviceKind::Cuda(_), stream) => match u64::try_from(stream.unwrap_or(1)) {
                Ok(stream) if stream != 0 => Some(stream),
                Ok(_) | Err(_) => {
                    return refused(format!(
                        "stream {stream:?}; 0 is ambiguous: 1 and 2 are the default streams, -1 is none"
                    ));
                }
            },
        };
        capsule(py, view, copied, stream)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let make = py.import("landfall._landfall")?.getattr("_from_bytes")?;
        let view = self.view(py)?;
        let bytes = PyBytes::new(py, &elements::bytes(py, &view)?);
        Ok((make, (bytes, self.dtype(), self.shape(py)?, self.device()).into_pyobject(py)?))
    }
}
