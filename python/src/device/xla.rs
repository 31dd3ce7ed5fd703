//! XLA's typed foreign function interface, version 0: the structs of `xla/ffi/api/c_api.h`, which jaxlib ships, and a call as safe
//! code reads it. A struct's `struct_size` says which of its fields the caller knows.

use super::layout::NOWHERE;
use landfall::{DType, DeviceKind, Engine, Error, Foreign, ForeignStream, Layout, Shape, View};
use pyo3::ffi::PyCapsule_New;
use pyo3::prelude::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The major version whose structs these are.
const MAJOR: c_int = 0;
/// The name of capsules that hold a handler.
const CAPSULE: &std::ffi::CStr = c"xla._CUSTOM_CALL_TARGET";
/// `XLA_FFI_Extension_Metadata`.
const METADATA: c_int = 1;
/// `XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE`: a call issues the same work each time, so it may be captured.
const CAPTURABLE: u32 = 1;
/// `XLA_FFI_ExecutionStage_EXECUTE`.
const EXECUTE: c_int = 3;
/// `XLA_FFI_Error_Code`: the caller's mistake, and all others.
const INVALID_ARGUMENT: c_int = 3;
const INTERNAL: c_int = 13;

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Extension,
}

#[repr(C)]
struct Version {
    struct_size: usize,
    extension_start: *mut Extension,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
    traits: u32,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

/// Opaque to handlers.
#[repr(C)]
pub(crate) struct XlaError {
    _opaque: [u8; 0],
}

#[repr(C)]
struct ErrorCreate {
    struct_size: usize,
    extension_start: *mut Extension,
    message: *const c_char,
    code: c_int,
}

#[repr(C)]
struct ErrorDestroy {
    struct_size: usize,
    extension_start: *mut Extension,
    error: *mut XlaError,
}

#[repr(C)]
struct StreamGet {
    struct_size: usize,
    extension_start: *mut Extension,
    context: *mut c_void,
    stream: *mut c_void,
}

#[repr(C)]
struct OrdinalGet {
    struct_size: usize,
    extension_start: *mut Extension,
    context: *mut c_void,
    ordinal: i32,
}

/// `XLA_FFI_Api`: its functions, those that are not called here as pointers.
#[repr(C)]
struct Api {
    struct_size: usize,
    extension_start: *mut Extension,
    version: Version,
    internal: *const c_void,
    error_create: Option<unsafe extern "C" fn(*mut ErrorCreate) -> *mut XlaError>,
    error_details: *const c_void,
    error_destroy: Option<unsafe extern "C" fn(*mut ErrorDestroy)>,
    handler_register: *const c_void,
    stream_get: Option<unsafe extern "C" fn(*mut StreamGet) -> *mut XlaError>,
    between: [*const c_void; 12],
    ordinal_get: Option<unsafe extern "C" fn(*mut OrdinalGet) -> *mut XlaError>,
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    extension_start: *mut Extension,
    dtype: c_int,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extension_start: *mut Extension,
    size: i64,
    kinds: *const c_int,
    buffers: *const *const Buffer,
}

#[repr(C)]
struct Span {
    start: *const c_char,
    len: usize,
}

#[repr(C)]
struct Scalar {
    dtype: c_int,
    value: *const c_void,
}

#[repr(C)]
struct Array {
    dtype: c_int,
    size: usize,
    data: *const c_void,
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension_start: *mut Extension,
    size: i64,
    kinds: *const c_int,
    names: *const *const Span,
    values: *const *const c_void,
}

/// `XLA_FFI_CallFrame`.
#[repr(C)]
pub(crate) struct CallFrame {
    struct_size: usize,
    extension_start: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
    args: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// The sizes and places of the C structs on 64-bit systems, which a test compares with a compiler's reading of the header.
#[pyfunction]
pub(crate) fn _xla_layout() -> Vec<(&'static str, usize)> {
    vec![
        ("sizeof(XLA_FFI_Buffer)", size_of::<Buffer>()),
        ("sizeof(XLA_FFI_Args)", size_of::<Buffers>()),
        ("sizeof(XLA_FFI_Rets)", size_of::<Buffers>()),
        ("sizeof(XLA_FFI_Attrs)", size_of::<Attributes>()),
        ("sizeof(XLA_FFI_Scalar)", size_of::<Scalar>()),
        ("sizeof(XLA_FFI_Array)", size_of::<Array>()),
        ("sizeof(XLA_FFI_ByteSpan)", size_of::<Span>()),
        ("sizeof(XLA_FFI_InternalExtension)", size_of::<Extension>()),
        ("sizeof(XLA_FFI_Api_Version)", size_of::<Version>()),
        ("sizeof(XLA_FFI_Error_Create_Args)", size_of::<ErrorCreate>()),
        ("sizeof(XLA_FFI_Error_Destroy_Args)", size_of::<ErrorDestroy>()),
        ("sizeof(XLA_FFI_Stream_Get_Args)", size_of::<StreamGet>()),
        ("sizeof(XLA_FFI_DeviceOrdinal_Get_Args)", size_of::<OrdinalGet>()),
        ("offsetof(XLA_FFI_Buffer, dims)", std::mem::offset_of!(Buffer, dims)),
        ("offsetof(XLA_FFI_CallFrame, stage)", std::mem::offset_of!(CallFrame, stage)),
        ("offsetof(XLA_FFI_CallFrame, args)", std::mem::offset_of!(CallFrame, args)),
        ("offsetof(XLA_FFI_CallFrame, rets)", std::mem::offset_of!(CallFrame, results)),
        ("offsetof(XLA_FFI_CallFrame, attrs)", std::mem::offset_of!(CallFrame, attributes)),
        ("offsetof(XLA_FFI_Metadata, traits)", std::mem::offset_of!(Metadata, traits)),
        ("offsetof(XLA_FFI_Metadata_Extension, metadata)", std::mem::offset_of!(MetadataExtension, metadata)),
        ("offsetof(XLA_FFI_Api, XLA_FFI_Error_Create)", std::mem::offset_of!(Api, error_create)),
        ("offsetof(XLA_FFI_Api, XLA_FFI_Error_Destroy)", std::mem::offset_of!(Api, error_destroy)),
        ("offsetof(XLA_FFI_Api, XLA_FFI_Stream_Get)", std::mem::offset_of!(Api, stream_get)),
        ("offsetof(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get)", std::mem::offset_of!(Api, ordinal_get)),
    ]
}

/// A value that a call gives an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
}

/// Why a call is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The engine refuses it.
    Error(Box<Error>),
    /// XLA or the caller gave what a handler does not read.
    Text(String),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(Box::new(error))
    }
}

/// What XLA calls.
pub(crate) trait Handler {
    /// Whether it runs on GPUs.
    const CUDA: bool;
    /// Does the work of a call.
    fn execute(call: &Call<'_>) -> Result<(), Refused>;
}

/// A call that XLA makes, while it makes it.
pub(crate) struct Call<'a> {
    frame: &'a CallFrame,
    api: &'a Api,
    cuda: bool,
}

/// A capsule of a handler, for `jax.ffi.register_ffi_target`.
pub(crate) fn capsule<H: Handler>(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let function: unsafe extern "C" fn(*mut CallFrame) -> *mut XlaError = handle::<H>;
    // SAFETY: the interpreter's lock is held, and the name lives for ever.
    let capsule = unsafe { PyCapsule_New(function as *mut c_void, CAPSULE.as_ptr(), None) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
}

/// The function that XLA calls.
///
/// # Safety
/// The frame is one of XLA's, alive for the call.
unsafe extern "C" fn handle<H: Handler>(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: as this function's.
    let Some(frame) = (unsafe { frame.as_ref() }) else { return std::ptr::null_mut() };
    // SAFETY: a frame has its API, but for one that only asks for metadata.
    let api = unsafe { frame.api.as_ref() };
    // SAFETY: an extension is a struct of XLA's, alive for the call.
    if let Some(extension) = unsafe { frame.extension_start.as_ref() }
        && extension.kind == METADATA
    {
        // SAFETY: an extension of this kind is the head of this struct.
        let asked = unsafe { &*frame.extension_start.cast::<MetadataExtension>() };
        // SAFETY: XLA gives a place for the answer.
        if let Some(metadata) = unsafe { asked.metadata.as_mut() } {
            metadata.version.major = MAJOR;
            // The minor version only says which fields are known, and `struct_size` is read for that.
            metadata.version.minor = api.map_or(0, |api| api.version.minor);
            metadata.traits = CAPTURABLE;
        }
        return std::ptr::null_mut();
    }
    let Some(api) = api else { return std::ptr::null_mut() };
    let call = Call { frame, api, cuda: H::CUDA };
    let done = catch_unwind(AssertUnwindSafe(|| {
        if api.version.major != MAJOR {
            let (given, minor) = (api.version.major, api.version.minor);
            return Err(Refused::Text(format!(
                "XLA speaks version {given}.{minor} of its foreign function interface, this landfall version {MAJOR}; update landfall"
            )));
        }
        if frame.struct_size < std::mem::offset_of!(CallFrame, attributes) {
            let size = frame.struct_size;
            return Err(Refused::Text(format!(
                "XLA's call frame has {size} bytes, too few for a call's attributes"
            )));
        }
        match frame.stage {
            EXECUTE => H::execute(&call),
            _ => Ok(()),
        }
    }));
    let (text, code) = match done {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(Refused::Error(error))) => {
            (error.to_string(), if matches!(*error, Error::Op(_)) { INVALID_ARGUMENT } else { INTERNAL })
        }
        Ok(Err(Refused::Text(text))) => (text, INVALID_ARGUMENT),
        Err(_) => ("landfall: a fault of its own ended the call".to_owned(), INTERNAL),
    };
    call.error(&text, code)
}

impl Call<'_> {
    /// An error of XLA's.
    fn error(&self, text: &str, code: c_int) -> *mut XlaError {
        let message = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut args = ErrorCreate {
            struct_size: size_of::<ErrorCreate>(),
            extension_start: std::ptr::null_mut(),
            message: message.as_ptr(),
            code,
        };
        // SAFETY: XLA copies the message; the error is its to destroy.
        self.api.error_create.map_or(std::ptr::null_mut(), |create| unsafe { create(&raw mut args) })
    }

    /// Destroys an error of a function of XLA's; whether there was one.
    fn failed(&self, error: *mut XlaError) -> bool {
        if error.is_null() {
            return false;
        }
        let mut args = ErrorDestroy {
            struct_size: size_of::<ErrorDestroy>(),
            extension_start: std::ptr::null_mut(),
            error,
        };
        if let Some(destroy) = self.api.error_destroy {
            // SAFETY: the error was given to this caller, and is not used again.
            unsafe { destroy(&raw mut args) };
        }
        true
    }

    /// The device of the call.
    pub(crate) fn device(&self) -> Result<DeviceKind, Refused> {
        if !self.cuda {
            return Ok(DeviceKind::Cpu);
        }
        let known = self.api.struct_size >= std::mem::offset_of!(Api, ordinal_get) + size_of::<usize>();
        let Some(get) = self.api.ordinal_get.filter(|_| known) else {
            return Err(Refused::Text(
                "this XLA does not say on which GPU a call is; update jaxlib".to_owned(),
            ));
        };
        let mut args = OrdinalGet {
            struct_size: size_of::<OrdinalGet>(),
            extension_start: std::ptr::null_mut(),
            context: self.frame.context,
            ordinal: 0,
        };
        // SAFETY: the context is the call's.
        let failed = self.failed(unsafe { get(&raw mut args) });
        match u32::try_from(args.ordinal) {
            Ok(ordinal) if !failed => Ok(DeviceKind::Cuda(ordinal)),
            Ok(_) | Err(_) => Err(Refused::Text("XLA did not say on which GPU the call is".to_owned())),
        }
    }

    /// The stream of the call; none on the CPU.
    pub(crate) fn stream(&self) -> Result<Option<ForeignStream>, Refused> {
        if !self.cuda {
            return Ok(None);
        }
        let mut args = StreamGet {
            struct_size: size_of::<StreamGet>(),
            extension_start: std::ptr::null_mut(),
            context: self.frame.context,
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the context is the call's.
        let failed = self.api.stream_get.is_none_or(|get| self.failed(unsafe { get(&raw mut args) }));
        if failed {
            return Err(Refused::Text("XLA gave no stream for the call".to_owned()));
        }
        // SAFETY: XLA's streams are of the primary context, and outlive the executable that calls.
        Ok(Some(unsafe { ForeignStream::new(args.stream as u64) }))
    }

    /// How many arguments there are.
    pub(crate) fn arguments(&self) -> usize {
        usize::try_from(self.frame.args.size).unwrap_or(0)
    }

    /// How many results there are.
    pub(crate) fn results(&self) -> usize {
        usize::try_from(self.frame.results.size).unwrap_or(0)
    }

    /// The memory of an argument, which an op that updates it may write.
    pub(crate) fn argument(&self, engine: &Engine, index: usize) -> Result<View, Refused> {
        self.view(engine, &self.frame.args, index)
    }

    /// The memory of a result.
    pub(crate) fn result(&self, engine: &Engine, index: usize) -> Result<View, Refused> {
        self.view(engine, &self.frame.results, index)
    }

    fn view(&self, engine: &Engine, of: &Buffers, index: usize) -> Result<View, Refused> {
        let (memory, dtype, layout) = self.memory(engine.device(), of, index)?;
        Ok(engine.wrap(memory, dtype, layout)?)
    }

    /// The memory of the last result, as a workspace.
    pub(crate) fn workspace(&self, device: DeviceKind) -> Result<Foreign, Refused> {
        let last = self.results().saturating_sub(1);
        Ok(self.memory(device, &self.frame.results, last)?.0)
    }

    fn memory(
        &self,
        device: DeviceKind,
        of: &Buffers,
        index: usize,
    ) -> Result<(Foreign, DType, Layout), Refused> {
        let refused = |why: String| Err(Refused::Text(why));
        if usize::try_from(of.size).is_ok_and(|size| index >= size) {
            return refused(format!("the call has {} buffers, and no number {index}", of.size));
        }
        // SAFETY: the list has so many buffers, alive for the call; only kind 1, a buffer, exists.
        let buffer = unsafe { &**of.buffers.add(index) };
        let Some(dtype) = dtype(buffer.dtype) else {
            return refused(format!(
                "buffer {index} is of XLA's dtype {}, which landfall does not have",
                buffer.dtype
            ));
        };
        let rank = usize::try_from(buffer.rank).unwrap_or(0);
        let sizes = match rank {
            0 => &[][..],
            // SAFETY: there is a size for each axis.
            _ => unsafe { std::slice::from_raw_parts(buffer.dims, rank) },
        };
        let dims: Vec<usize> = sizes.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        let Some(shape) = Shape::new(&dims) else {
            return refused(format!("buffer {index} has {rank} axes, more than a tensor has"));
        };
        let layout = Layout::contiguous(shape);
        let bytes = layout.span().end * dtype.size();
        let address = if bytes == 0 { NOWHERE } else { buffer.data as u64 };
        if address == 0 {
            return refused(format!("buffer {index} has elements but no memory"));
        }
        // SAFETY: XLA keeps the memory for the call, and on a GPU until what the call issues on its stream is done.
        let memory = unsafe { Foreign::new(device, address, bytes, ()) }.unwaited();
        Ok((if let Some(stream) = self.stream()? { memory.on_stream(stream) } else { memory }, dtype, layout))
    }

    /// Names and values of the attributes.
    pub(crate) fn attributes(&self) -> Result<Vec<(String, Given)>, Refused> {
        let of = &self.frame.attributes;
        let mut all = Vec::new();
        for i in 0..usize::try_from(of.size).unwrap_or(0) {
            // SAFETY: the lists have so many kinds, names and values, alive for the call.
            let (kind, name, value) =
                unsafe { (*of.kinds.add(i), text(*of.names.add(i)), *of.values.add(i)) };
            // SAFETY: a value is what its kind says.
            let Some(given) = (unsafe { given(kind, value) }) else {
                return Err(Refused::Text(format!(
                    "attribute {name} is of a kind that landfall does not read"
                )));
            };
            all.push((name, given));
        }
        Ok(all)
    }
}

/// The text of a span.
///
/// # Safety
/// The span is one of XLA's, alive for the call.
unsafe fn text(span: *const Span) -> String {
    // SAFETY: as this function's.
    let span = unsafe { &*span };
    if span.len == 0 {
        return String::new();
    }
    // SAFETY: it has so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(span.start.cast::<u8>(), span.len) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of an attribute of this kind.
///
/// # Safety
/// The value is one of XLA's, of this kind, alive for the call.
unsafe fn given(kind: c_int, value: *const c_void) -> Option<Given> {
    match kind {
        // SAFETY: an array.
        1 => unsafe {
            let array = &*value.cast::<Array>();
            (array.dtype == dtype_code(DType::I64)).then(|| {
                let len = array.size;
                let list = if len == 0 {
                    &[][..]
                } else {
                    std::slice::from_raw_parts(array.data.cast::<i64>(), len)
                };
                Given::Ints(list.to_vec())
            })
        },
        // SAFETY: a scalar, of the dtype that it says.
        3 => unsafe {
            let scalar = &*value.cast::<Scalar>();
            match dtype(scalar.dtype)? {
                DType::Bool => Some(Given::Bool(*scalar.value.cast::<u8>() != 0)),
                DType::I64 => Some(Given::Int(*scalar.value.cast::<i64>())),
                DType::F64 => Some(Given::Float(*scalar.value.cast::<f64>())),
                DType::I32 | DType::U8 | DType::F16 | DType::BF16 | DType::F32 => None,
            }
        },
        // SAFETY: a text.
        4 => Some(Given::Text(unsafe { text(value.cast::<Span>()) })),
        _ => None,
    }
}

/// `XLA_FFI_DataType` of a dtype.
const fn dtype_code(dtype: DType) -> c_int {
    match dtype {
        DType::Bool => 1,
        DType::I32 => 4,
        DType::I64 => 5,
        DType::U8 => 6,
        DType::F16 => 10,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::BF16 => 16,
    }
}

fn dtype(code: c_int) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype_code(*dtype) == code)
}
