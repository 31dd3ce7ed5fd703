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

/// How two GPUs reach each other's memory, as reported by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Directly, with atomic operations: as NVLink does.
    Atomic,
    /// Directly, without atomic operations: as PCIe does.
    Direct,
    /// Not at all: data goes through the host.
    Host,
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
    /// The version of NCCL, which training on several GPUs needs.
    pub nccl: Result<Version, Absence>,
    /// How each two GPUs, the first of a lower index, reach each other.
    pub links: Vec<(u32, u32, Link)>,
    /// The folder of compiled kernels; `None` if there is no cache folder.
    pub cache: Option<PathBuf>,
}
