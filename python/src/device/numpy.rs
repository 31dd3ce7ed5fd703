//! Arrays of numpy by their `__array_struct__`: it is there in every version, says whether memory may be written, and gives
//! the pointer of dtypes that numpy's DLPack refuses, such as bfloat16 of ml_dtypes.

use super::layout::{NOWHERE, layout};
use crate::dtype;
use crate::engines;
use crate::error::{Class, Raise};
use landfall::{DType, DeviceKind, Foreign, View};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::{c_char, c_int, c_void};

/// `PyArrayInterface`.
#[repr(C)]
struct ArrayStruct {
    two: c_int,
    rank: c_int,
    kind: c_char,
    item_size: c_int,
    flags: c_int,
    shape: *const isize,
    /// In bytes.
    strides: *const isize,
    data: *const c_void,
    _descr: *const c_void,
}

const ALIGNED: c_int = 0x100;
const NATIVE: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

/// A view of the memory of a `numpy.ndarray`.
pub(crate) fn from_array(array: &Bound<'_, PyAny>) -> PyResult<View> {
    let py = array.py();
    let capsule = array.getattr(pyo3::intern!(py, "__array_struct__"))?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(None)?.cast::<ArrayStruct>();
    // SAFETY: the capsule of an ndarray holds this struct, and lives until the end of this function.
    let given = unsafe { pointer.as_ref() };
    let described = || array.getattr("dtype").map_or_else(|_| String::new(), |dtype| dtype.to_string());
    let refused = |class: Class, why: &str| {
        Err(class.error(py, format!("the numpy array of dtype {} {why}", described())))
    };
    let Some(dtype) = dtype_of(given).or_else(|| bfloat16(array, given)) else {
        return refused(
            Class::DType,
            &format!("has no counterpart in Landfall; it has {}: convert it with x.astype(..)", dtype::all()),
        );
    };
    if given.flags & NATIVE == 0 {
        return refused(
            Class::Exchange,
            "has the byte order of other machines; convert it with x.astype(x.dtype.newbyteorder(\"=\"))",
        );
    }
    if given.flags & ALIGNED == 0 {
        return refused(Class::Exchange, "is not aligned to its elements; copy it with x.copy()");
    }
    let rank = usize::try_from(given.rank).unwrap_or(0);
    let list = |start: *const isize| match start.is_null() || rank == 0 {
        true => Vec::new(),
        // SAFETY: shape and strides have one number for each axis.
        false => unsafe { std::slice::from_raw_parts(start, rank) }.to_vec(),
    };
    let size = dtype.size() as isize;
    let (shape, bytes) = (list(given.shape), list(given.strides));
    if shape.iter().zip(&bytes).any(|(d, s)| *d > 1 && s % size != 0) {
        return refused(
            Class::Exchange,
            "has elements at distances that are no multiple of their size, as a field of records; copy it with x.copy()",
        );
    }
    let shape: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let strides: Vec<i64> = bytes.iter().map(|&s| (s / size) as i64).collect();
    let layout = layout(py, &shape, Some(&strides))?;
    let bytes = layout.span().end * dtype.size();
    let address = if bytes == 0 { NOWHERE } else { given.data as u64 };
    // SAFETY: the array keeps its memory as long as it lives, and is dropped with the last view.
    let mut foreign = unsafe { Foreign::new(DeviceKind::Cpu, address, bytes, array.clone().unbind()) };
    if given.flags & WRITEABLE == 0 {
        foreign = foreign.read_only();
    }
    engines::on(py, DeviceKind::Cpu)?.wrap(foreign, dtype, layout).raised(py)
}

/// A number that numpy has arrays of.
pub(crate) trait Element: Copy {
    /// numpy's kind and size of it.
    const KIND: (u8, c_int);
}

impl Element for f32 {
    const KIND: (u8, c_int) = (b'f', 4);
}

impl Element for f64 {
    const KIND: (u8, c_int) = (b'f', 8);
}

impl Element for i64 {
    const KIND: (u8, c_int) = (b'i', 8);
}

/// The elements of a `numpy.ndarray` of one axis; `None` of an array of other elements.
pub(crate) fn elements<T: Element>(array: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    let capsule = array.getattr(pyo3::intern!(array.py(), "__array_struct__"))?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(None)?.cast::<ArrayStruct>();
    // SAFETY: the capsule of an ndarray holds this struct, and lives until the end of this function.
    let given = unsafe { pointer.as_ref() };
    let usual = given.flags & NATIVE != 0 && given.flags & ALIGNED != 0;
    if given.two != 2 || given.rank != 1 || (given.kind as u8, given.item_size) != T::KIND || !usual {
        return Ok(None);
    }
    // SAFETY: shape and strides have one number for the one axis.
    let (rows, stride) = unsafe { (*given.shape, *given.strides) };
    let data = given.data.cast::<T>();
    let size = size_of::<T>() as isize;
    // SAFETY: an aligned array of these elements has one at each of its places, and the array lives until the end of this function;
    // without the interpreter's lock given up nobody changes it.
    let at = |row: isize| unsafe { data.byte_offset(row * stride).read() };
    Ok(Some(if stride == size && rows > 0 {
        // SAFETY: as above; the elements lie behind each other.
        unsafe { std::slice::from_raw_parts(data, rows.unsigned_abs()) }.to_vec()
    } else {
        (0..rows).map(at).collect()
    }))
}

fn dtype_of(given: &ArrayStruct) -> Option<DType> {
    if given.two != 2 {
        return None;
    }
    match (given.kind as u8, given.item_size) {
        (b'f', 4) => Some(DType::F32),
        (b'f', 8) => Some(DType::F64),
        (b'f', 2) => Some(DType::F16),
        (b'i', 4) => Some(DType::I32),
        (b'i', 8) => Some(DType::I64),
        (b'u', 1) => Some(DType::U8),
        (b'b', 1) => Some(DType::Bool),
        _ => None,
    }
}

/// numpy has no kind for bfloat16; ml_dtypes registers it by name.
fn bfloat16(array: &Bound<'_, PyAny>, given: &ArrayStruct) -> Option<DType> {
    if given.item_size != 2 {
        return None;
    }
    let name = array.getattr("dtype").and_then(|dtype| dtype.getattr("name")).ok()?;
    (name.str().ok()?.to_str().ok()? == "bfloat16").then_some(DType::BF16)
}
