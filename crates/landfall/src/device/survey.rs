//! What a survey of a CUDA installation says.

use crate::error::{Absence, Error, Version};
use std::path::PathBuf;

/// One GPU, as reported by the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gpu {
    /// Its index.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Free bytes of its memory.
    pub free: usize,
    /// Total bytes of its memory.
    pub total: usize,
}

/// The CUDA installation of this machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Survey {
    /// The CUDA version of the driver.
    pub driver: Result<Version, Absence>,
    /// The GPUs, or why they cannot be listed.
    pub gpus: Result<Vec<Gpu>, Error>,
    /// The version of NVRTC, which kernels need.
    pub nvrtc: Result<Version, Absence>,
    /// The version of cuBLASLt, which matmul needs.
    pub cublaslt: Result<Version, Absence>,
    /// The folder of compiled kernels; `None` if there is no cache folder.
    pub cache: Option<PathBuf>,
}
