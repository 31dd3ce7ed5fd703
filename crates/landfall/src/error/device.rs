//! Device faults: missing components, and an index out of range.

use super::Error;
use std::fmt;

/// What the system calls CUDA's libraries, and the variable that lists the folders where it looks for them.
#[cfg(not(windows))]
mod library {
    pub(super) const DRIVER: &str = "libcuda.so.1";
    pub(super) const NVRTC: &str = "libnvrtc.so";
    pub(super) const CUBLASLT: &str = "libcublasLt.so";
    pub(super) const FOLDERS: &str = "LD_LIBRARY_PATH";
}
#[cfg(windows)]
mod library {
    pub(super) const DRIVER: &str = "nvcuda.dll";
    pub(super) const NVRTC: &str = "nvrtc64_130_0.dll";
    pub(super) const CUBLASLT: &str = "cublasLt64_13.dll";
    pub(super) const FOLDERS: &str = "PATH";
}
use library::{CUBLASLT, DRIVER, FOLDERS, NVRTC};

/// A missing CUDA component, and what to do about it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Absence {
    #[error("this build has no CUDA; build with the feature `cuda`")]
    Feature,
    #[error("no NVIDIA driver: {DRIVER} was not found; install the NVIDIA driver (580 or newer for CUDA 13)")]
    Driver,
    #[error("the NVIDIA driver does not start: {why}; check that a GPU is visible (nvidia-smi)")]
    DriverStart { why: String },
    #[error("the NVIDIA driver is for CUDA {found}; at least {needed} is needed: install a newer driver")]
    DriverVersion { found: Version, needed: Version },
    #[error("there is no GPU {ordinal}: {count} are visible (CUDA_VISIBLE_DEVICES selects them)")]
    Gpu { ordinal: u32, count: u32 },
    #[error("GPU {ordinal} has no memory pools; a GPU and driver of the last years are needed")]
    Pools { ordinal: u32 },
    #[error(
        "no run-time compiler: {NVRTC} was not found; install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, \
         and have its folder in {FOLDERS}"
    )]
    Nvrtc,
    #[error("the run-time compiler is of CUDA {found}; at least {needed} is needed: install a newer NVRTC")]
    NvrtcVersion { found: Version, needed: Version },
    #[error("the run-time compiler of CUDA {version} does not know {arch}; install a newer NVRTC")]
    Architecture { version: Version, arch: String },
    #[error(
        "no matrix library: {CUBLASLT} was not found; install the CUDA toolkit or `pip install nvidia-cublas`, and \
         have its folder in {FOLDERS}"
    )]
    CublasLt,
    // There is none for Windows.
    #[error(
        "no NCCL, which several GPUs need: libnccl.so.2 was not found ({why}); install it or `pip install nvidia-nccl-cu13`, and \
         have its folder in {FOLDERS}"
    )]
    Nccl { why: String },
    #[error("NCCL is of version {found}; at least {needed} is needed: install a newer one")]
    NcclVersion { found: Version, needed: Version },
}

crate::values::debug_as_text!(Absence);

/// A version of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An index value that a kernel found out of range and clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexFault {
    /// The op that read it.
    pub(crate) op: &'static str,
    /// Its position in the index operand, row-major.
    pub(crate) position: usize,
    /// The value.
    pub(crate) value: i64,
    /// One past the largest valid value.
    pub(crate) limit: usize,
}

impl From<IndexFault> for Error {
    fn from(f: IndexFault) -> Self {
        Self::Index { op: f.op, position: f.position, value: f.value, limit: f.limit }
    }
}
