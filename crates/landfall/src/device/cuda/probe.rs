//! Probes for driver, GPUs, NVRTC and cuBLASLt. Absence is an error that says what to install; a library is called only
//! after it was found.

use crate::device::{Gpu, Link, Survey};
use crate::error::{Absence, Error, Version};
use cudarc::driver::sys as driver_sys;
use cudarc::nvrtc::sys as nvrtc_sys;
use std::ffi::c_int;
use std::sync::OnceLock;

/// The oldest driver and compiler with all required calls.
const OLDEST: Version = Version { major: 12, minor: 0 };

fn version(of: c_int) -> Version {
    let of = of.unsigned_abs();
    Version { major: of / 1000, minor: of % 1000 / 10 }
}

/// Finds and initializes the driver, once.
pub(super) fn driver() -> Result<Version, Absence> {
    static FOUND: OnceLock<Result<Version, Absence>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: loads the library and runs its initialisers, as any use of the driver does.
            if !unsafe { driver_sys::is_culib_present() } {
                return Err(Absence::Driver);
            }
            let mut number = 0;
            // SAFETY: the library is there; this call needs no initialisation and writes one int.
            let asked = unsafe { driver_sys::cuDriverGetVersion(&raw mut number) };
            let found = version(number);
            if asked != driver_sys::CUresult::CUDA_SUCCESS || found < OLDEST {
                return Err(Absence::DriverVersion { found, needed: OLDEST });
            }
            // SAFETY: the library is there; it may be initialised any number of times.
            let started = unsafe { driver_sys::cuInit(0) };
            if started != driver_sys::CUresult::CUDA_SUCCESS {
                return Err(Absence::DriverStart { why: format!("{started:?}") });
            }
            Ok(found)
        })
        .clone()
}

/// The number of GPUs. The driver must have been found.
pub(super) fn devices() -> Result<c_int, Error> {
    let mut count = 0;
    // SAFETY: the driver was found and started; it writes one int.
    super::driver::check("cuDeviceGetCount", unsafe { driver_sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(count)
}

/// Finds NVRTC, once.
pub(super) fn nvrtc() -> Result<Version, Absence> {
    static FOUND: OnceLock<Result<Version, Absence>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: loads the library and runs its initialisers, as any use of the compiler does.
            if !unsafe { nvrtc_sys::is_culib_present() } {
                return Err(Absence::Nvrtc);
            }
            let (mut major, mut minor) = (0, 0);
            // SAFETY: the library is there; it writes two ints.
            let asked = unsafe { nvrtc_sys::nvrtcVersion(&raw mut major, &raw mut minor) };
            let found = Version { major: major.unsigned_abs(), minor: minor.unsigned_abs() };
            if asked != nvrtc_sys::nvrtcResult::NVRTC_SUCCESS || found < OLDEST {
                return Err(Absence::NvrtcVersion { found, needed: OLDEST });
            }
            Ok(found)
        })
        .clone()
}

/// Whether cuBLASLt is present. It is large, so it is loaded only when a matmul needs it.
pub(super) fn cublaslt() -> Result<(), Absence> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the library and runs its initialisers, as any use of it does.
    if *FOUND.get_or_init(|| unsafe { cudarc::cublaslt::sys::is_culib_present() }) {
        Ok(())
    } else {
        Err(Absence::CublasLt)
    }
}

/// The version number of cuBLASLt.
pub(super) fn cublaslt_version() -> Result<u32, Absence> {
    // SAFETY: the library was found; the call takes nothing and returns a number.
    cublaslt().map(|()| unsafe { cudarc::cublaslt::sys::cublasLtGetVersion() } as u32)
}

/// Probes the machine. Never panics, needs no GPU.
#[must_use]
pub fn survey() -> Survey {
    let gpus = || {
        driver()?;
        (0..devices()?.unsigned_abs()).map(gpu).collect()
    };
    Survey {
        driver: driver(),
        gpus: gpus(),
        nvrtc: nvrtc(),
        cublaslt: cublaslt_version()
            .map(|number| Version { major: number / 10_000, minor: number % 10_000 / 100 }),
        nccl: super::nccl::found(),
        links: links().unwrap_or_default(),
        cache: crate::device::cache::folder(),
    }
}

/// The number of GPUs that this process sees.
///
/// # Errors
/// The driver's absence, or a fault of it.
pub fn count() -> Result<u32, Error> {
    driver()?;
    Ok(devices()?.unsigned_abs())
}

/// How each two GPUs reach each other.
fn links() -> Result<Vec<(u32, u32, Link)>, Error> {
    driver()?;
    let count = devices()?;
    let pairs = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
    pairs.map(|(a, b)| Ok((a.unsigned_abs(), b.unsigned_abs(), link(a, b)?))).collect()
}

fn link(first: c_int, second: c_int) -> Result<Link, Error> {
    use driver_sys::CUdevice_P2PAttribute as P;
    let has = |attribute| {
        let mut value = 0;
        // SAFETY: the driver was found and started, both numbers are below its count and differ; it writes one int.
        super::driver::check("cuDeviceGetP2PAttribute", unsafe {
            driver_sys::cuDeviceGetP2PAttribute(&raw mut value, attribute, first, second)
        })?;
        Ok::<_, Error>(value != 0)
    };
    if !has(P::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? {
        return Ok(Link::Host);
    }
    let atomic = has(P::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)?;
    Ok(if atomic { Link::Atomic } else { Link::Direct })
}

fn gpu(ordinal: u32) -> Result<Gpu, Error> {
    let context = super::driver::Context::new(ordinal)?;
    let (free, total) = context.memory()?;
    Ok(Gpu { ordinal, name: context.name()?, capability: context.capability, free, total })
}
