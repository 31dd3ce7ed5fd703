//! The driver calls that the device uses, each checked, with its name in the error.

use super::probe;
use crate::error::{Absence, Error};
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// Turns a result code into an error that names the call.
#[inline]
pub(super) fn check(call: &'static str, code: sys::CUresult) -> Result<(), Error> {
    if code == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(refused(call, code)) }
}

#[cold]
fn refused(call: &'static str, code: sys::CUresult) -> Error {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver answered a call, so it is loaded; it writes a pointer to a text of its own, or null.
    let described = unsafe { sys::cuGetErrorString(code, &raw mut text) };
    let why = if described == sys::CUresult::CUDA_SUCCESS && !text.is_null() {
        // SAFETY: on success the driver's text is static and ends with a zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    } else {
        "no description".to_owned()
    };
    Error::Cuda { call, code: format!("{code:?}"), why, last: None }
}

/// A GPU's primary context, retained for the lifetime of this value.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: sys::CUdevice,
    context: sys::CUcontext,
    /// Compute capability.
    pub(super) capability: (i32, i32),
    /// Maximum shared memory of a block, in bytes.
    pub(super) shared_max: i32,
}

// SAFETY: contexts may be used from any thread; each call makes it current on its own thread first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it shares.
unsafe impl Sync for Context {}

impl Context {
    /// Finds the driver and a GPU, and retains its context.
    pub(super) fn new(ordinal: u32) -> Result<Self, Error> {
        probe::driver()?;
        let count = probe::devices()?;
        let index = c_int::try_from(ordinal).ok().filter(|&i| i < count);
        let Some(index) = index else {
            return Err(Absence::Gpu { ordinal, count: count.try_into().unwrap_or(0) }.into());
        };
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: the driver is initialised, the index is below its count, and both pointers are to our variables.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index) })?;
        // SAFETY: as above.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut context, device)
        })?;
        let mut this = Self { device, context, capability: (0, 0), shared_max: 0 };
        use sys::CUdevice_attribute as A;
        this.capability = (
            this.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            this.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        this.shared_max = this.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        if this.attribute(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(Absence::Pools { ordinal }.into());
        }
        this.enter()?;
        Ok(this)
    }

    fn attribute(&self, which: sys::CUdevice_attribute) -> Result<i32, Error> {
        let mut value = 0;
        // SAFETY: the device exists; the driver writes one int.
        check("cuDeviceGetAttribute", unsafe {
            sys::cuDeviceGetAttribute(&raw mut value, which, self.device)
        })?;
        Ok(value)
    }

    /// Whether its kernels support programmatic dependent launch (see `after_others` in the prelude).
    pub(super) fn waits(&self) -> bool {
        self.capability >= (9, 0)
    }

    /// The GPU's name.
    pub(super) fn name(&self) -> Result<String, Error> {
        let mut text = [0u8; 128];
        // SAFETY: the driver writes at most as many bytes as it is told, with a zero at the end.
        check("cuDeviceGetName", unsafe {
            sys::cuDeviceGetName(text.as_mut_ptr().cast(), text.len() as c_int, self.device)
        })?;
        Ok(CStr::from_bytes_until_nul(&text).map(|t| t.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// Bytes of the L2 cache.
    pub(super) fn cache(&self) -> Result<usize, Error> {
        let bytes = self.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Makes the context current on this thread: required before every other call.
    pub(super) fn enter(&self) -> Result<(), Error> {
        self.handle().enter()
    }

    /// A handle for other threads, which end before this drops.
    pub(super) fn handle(&self) -> Current {
        Current(self.context)
    }

    /// Free and total bytes of device memory.
    pub(super) fn memory(&self) -> Result<(usize, usize), Error> {
        self.enter()?;
        memory()
    }
}

/// A context that a thread can make current.
#[derive(Debug, Clone, Copy)]
pub(super) struct Current(sys::CUcontext);

// SAFETY: a handle; each thread makes the context current for itself.
unsafe impl Send for Current {}

impl Current {
    /// Makes the context current on this thread.
    pub(super) fn enter(self) -> Result<(), Error> {
        let mut current = null_mut();
        // SAFETY: the driver writes the calling thread's context, or null.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        // It usually is; a query takes half the time of a switch.
        if current == self.0 {
            return Ok(());
        }
        // SAFETY: the context is retained as long as its owner lives.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.0) })
    }
}

/// Free and total bytes of the current context's device memory.
pub(super) fn memory() -> Result<(usize, usize), Error> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the driver writes two numbers, or says that no context is current.
    check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
    Ok((free, total))
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once, released once; nothing of the context is used after. There is nobody to tell of a failure.
        _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A kernel in a loaded module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function(pub(super) sys::CUfunction);

// SAFETY: a handle; the driver takes it from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A loaded module, with all of its kernels resolved.
#[derive(Debug)]
pub(super) struct Loaded {
    module: sys::CUmodule,
    pub(super) functions: Box<[Function]>,
}

// SAFETY: handles; the driver takes them from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Loads machine code and resolves every kernel that its source declares. The context must be current.
    ///
    /// # Errors
    /// [`Error::Cuda`] for code that the device refuses; [`Error::Symbol`] for a missing kernel.
    pub(super) fn new(context: &Context, module: &super::Module, code: &[u8]) -> Result<Self, Error> {
        let mut handle = null_mut();
        // SAFETY: the image is a whole ELF file, as the compiler made it or the cache proved it.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&raw mut handle, code.as_ptr().cast()) })?;
        let mut this = Self { module: handle, functions: Box::default() };
        this.functions = (module.source().entries.iter())
            .map(|e| this.function(context, module, e.name))
            .collect::<Result<_, _>>()?;
        Ok(this)
    }

    fn function(
        &self,
        context: &Context,
        module: &super::Module,
        name: &'static str,
    ) -> Result<Function, Error> {
        let missing = || Error::Symbol { module: module.label(), kernel: name };
        let symbol = std::ffi::CString::new(name).map_err(|_| missing())?;
        let mut function = null_mut();
        // SAFETY: the module is loaded; the name ends with a zero; the driver writes a handle.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, self.module, symbol.as_ptr()) };
        if found == sys::CUresult::CUDA_ERROR_NOT_FOUND || function.is_null() {
            return Err(missing());
        }
        check("cuModuleGetFunction", found)?;
        use sys::CUfunction_attribute_enum as A;
        let mut fixed = 0;
        // SAFETY: the function exists; the driver writes one int.
        check("cuFuncGetAttribute", unsafe {
            sys::cuFuncGetAttribute(&raw mut fixed, A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
        })?;
        let dynamic = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // More than 48 KB must be requested. Setting the attribute also makes the driver load the kernel now, not at
        // its first launch, which may be inside a capture.
        // SAFETY: the function exists; the sum is what the device allows.
        check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(function, dynamic, (context.shared_max - fixed).max(0))
        })?;
        Ok(Function(function))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once; the engine that held it has waited for its stream.
        _ = unsafe { sys::cuModuleUnload(self.module) };
    }
}

/// Pinned host memory, from which the device copies without staging.
#[derive(Debug)]
pub(super) struct Pinned {
    data: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let mut data = null_mut();
        // SAFETY: a context is current; the driver writes an address.
        check("cuMemAllocHost", unsafe { sys::cuMemAllocHost_v2(&raw mut data, bytes) })?;
        let this = Self { data: data.cast(), bytes };
        // SAFETY: the driver gave out as many bytes.
        unsafe { this.data.write_bytes(0, bytes) };
        Ok(this)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as many bytes, initialised above, and borrowed as long as this.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once.
        _ = unsafe { sys::cuMemFreeHost(self.data.cast()) };
    }
}
