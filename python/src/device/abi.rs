//! The ABI of DLPack 1.3: the structs, their constants and capsule names.

use landfall::DType;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The latest version that this package speaks.
pub(crate) const MAX_VERSION: (u32, u32) = (1, 3);

/// Device type: main memory.
pub(crate) const CPU: i32 = 1;
/// Device type: a GPU of NVIDIA.
pub(crate) const CUDA: i32 = 2;
/// Device type: main memory that a GPU can read.
pub(super) const CUDA_HOST: i32 = 3;

pub(super) const READ_ONLY: u64 = 1;
pub(super) const IS_COPIED: u64 = 2;

pub(super) const VERSIONED: &CStr = c"dltensor_versioned";
pub(super) const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
pub(super) const LEGACY: &CStr = c"dltensor";
pub(super) const USED_LEGACY: &CStr = c"used_dltensor";
pub(super) const EXCHANGE_API: &CStr = c"dlpack_exchange_api";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Device {
    pub(super) kind: i32,
    pub(super) ordinal: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Tensor {
    pub(super) data: *mut c_void,
    pub(super) device: Device,
    pub(super) rank: i32,
    pub(super) dtype: DataType,
    pub(super) shape: *mut i64,
    /// In elements; null for row-major.
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Managed {
    pub(super) version: Version,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    pub(super) flags: u64,
    pub(super) tensor: Tensor,
}

/// `DLManagedTensor`, of producers before DLPack 1.0.
#[derive(Debug)]
#[repr(C)]
pub(super) struct LegacyManaged {
    pub(super) tensor: Tensor,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut LegacyManaged)>,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`: what a library offers to code that calls it without Python.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ExchangeApi {
    pub(super) version: Version,
    pub(super) previous: *const ExchangeApi,
    _allocate: Option<unsafe extern "C" fn(*mut Tensor, *mut *mut Managed, *mut c_void, SetError) -> c_int>,
    pub(super) managed_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut *mut Managed) -> c_int>,
    _managed_to_object: Option<unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int>,
    _tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    pub(super) current_work_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: functions and constants of a library, which live as long as the process.
unsafe impl Send for ExchangeApi {}
// SAFETY: as above.
unsafe impl Sync for ExchangeApi {}

impl DataType {
    /// The code of a dtype.
    pub(super) const fn of(dtype: DType) -> Self {
        let (code, bits) = match dtype {
            DType::I32 => (0, 32),
            DType::I64 => (0, 64),
            DType::U8 => (1, 8),
            DType::F16 => (2, 16),
            DType::F32 => (2, 32),
            DType::F64 => (2, 64),
            DType::BF16 => (4, 16),
            DType::Bool => (6, 8),
        };
        Self { code, bits, lanes: 1 }
    }

    /// The dtype of this code; its name where Landfall does not have it.
    pub(super) fn dtype(self) -> Result<DType, String> {
        let found = DType::ALL.iter().copied().find(|dtype| Self::of(*dtype) == self);
        found.ok_or_else(|| {
            let Self { code, bits, lanes } = self;
            let kind = match code {
                0 => "int",
                1 => "uint",
                2 => "float",
                4 => "bfloat",
                5 => "complex",
                6 => "bool",
                7..=14 => "float8, of ",
                15..=17 => "float of few bits, of ",
                _ => "an unknown kind of ",
            };
            let lanes = if lanes == 1 { String::new() } else { format!(" in vectors of {lanes}") };
            format!("{kind}{bits}{lanes}")
        })
    }
}

// The sizes of the C structs on 64-bit systems.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    size_of::<Tensor>() == 48
        && size_of::<Managed>() == 80
        && size_of::<LegacyManaged>() == 64
        && size_of::<ExchangeApi>() == 56
);
