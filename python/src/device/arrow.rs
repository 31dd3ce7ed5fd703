//! Arrow's C stream interface: tables of polars and pyarrow.

use crate::error::Class;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The batches of an object that has `__arrow_c_stream__`.
pub(crate) fn batches(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let py = object.py();
    let capsule = object.call_method0(pyo3::intern!(py, "__arrow_c_stream__"))?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream that nobody has used; it is moved out, and a released one is left behind,
    // which the capsule's own destructor takes for used up.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(|e| {
        Class::Exchange.error(py, format!("the table cannot be read by Arrow's C interface: {e}"))
    })
}
