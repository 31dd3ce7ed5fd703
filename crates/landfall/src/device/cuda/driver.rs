//! The driver calls that the device uses, each checked, with its name in the error.

use super::probe;
use crate::error::{Absence, Error};
use crate::values::Address;
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{from_mut, from_ref, null_mut};
use std::time::Duration;

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
    device: sys::CUdevice,
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
        let mut current = null_mut();
        // SAFETY: the driver writes the calling thread's context, or null.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        // It usually is; a query takes half the time of a switch.
        if current == self.context {
            return Ok(());
        }
        // SAFETY: the context is retained until this drops.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// Free and total bytes of device memory.
    pub(super) fn memory(&self) -> Result<(usize, usize), Error> {
        self.enter()?;
        memory()
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

/// A private stream: never the NULL stream, which synchronizes with others. The context must be current for every call.
#[derive(Debug)]
pub(super) struct Stream(pub(super) sys::CUstream);

// SAFETY: the driver takes calls on a stream from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; it orders concurrent calls itself.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new() -> Result<Self, Error> {
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; the driver writes a handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        Ok(Self(stream))
    }

    pub(super) fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream lives until this drops.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.0) })
    }

    /// Records an event at the current point of the stream.
    pub(super) fn mark(&self) -> Result<Mark, Error> {
        let mut event = null_mut();
        // SAFETY: a context is current; the driver writes a handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, 0) })?;
        let mark = Mark(event);
        // SAFETY: both live.
        check("cuEventRecord", unsafe { sys::cuEventRecord(mark.0, self.0) })?;
        Ok(mark)
    }

    pub(super) fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        // SAFETY: the device gave `to` out with at least as many bytes; from pageable memory the call returns once
        // the data is staged, so the borrow ends late enough.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.0, data.as_ptr().cast(), data.len(), self.0)
        })
    }

    /// Copies the fault record and data to the host, and waits for both.
    pub(super) fn read_back(
        &self,
        record: Address,
        copy: &mut [u8],
        from: Address,
        data: &mut [u8],
    ) -> Result<(), Error> {
        let mut pieces = [(record, copy), (from, data)];
        let copied = pieces.iter_mut().filter(|p| !p.1.is_empty()).try_for_each(|(from, to)| {
            // SAFETY: the device gave `from` out with at least as many bytes; the copy is waited for below.
            check("cuMemcpyDtoHAsync", unsafe {
                sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.0, to.len(), self.0)
            })
        });
        let waited = self.synchronize();
        copied.and(waited)
    }

    pub(super) fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        // SAFETY: the device gave `to` out with at least as many bytes.
        check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to.0, value, bytes, self.0) })
    }

    /// Launches a function. `params` are addresses of its arguments.
    pub(super) fn launch(
        &self,
        function: Function,
        geometry: &super::Geometry,
        params: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let ([gx, gy, gz], [bx, by, bz]) = (geometry.grid, geometry.block);
        // SAFETY: the function is of a module that stays loaded; the arguments are as many, as large and of the kind
        // that its parameter list, rendered from the same declaration, says; the driver copies them in the call.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                function.0,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                geometry.shared,
                self.0,
                params.as_mut_ptr(),
                null_mut(),
            )
        })
    }

    /// As [`Stream::launch`], with programmatic dependent launch: the kernel may start while the previous one ends, so
    /// it must wait itself, as kernels of our sources do. The stream must not be capturing, where edges express this.
    pub(super) fn launch_early(
        &self,
        function: Function,
        geometry: &super::Geometry,
        params: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let ([gx, gy, gz], [bx, by, bz]) = (geometry.grid, geometry.block);
        let config = sys::CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: geometry.shared,
            hStream: self.0,
            attrs: &raw mut early,
            numAttrs: 1,
        };
        // SAFETY: as for a launch; there is one attribute, and the driver copies it in the call.
        check("cuLaunchKernelEx", unsafe {
            sys::cuLaunchKernelEx(&raw const config, function.0, params.as_mut_ptr(), null_mut())
        })
    }
}

/// Calls during a capture.
impl Stream {
    /// The nodes of the most recent call, which the next call would wait for.
    pub(super) fn captured(&self) -> Result<Vec<Captured>, Error> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut nodes, mut count) = (std::ptr::null(), 0);
        // SAFETY: the driver writes what it is given places for, and takes null for what is not asked.
        check("cuStreamGetCaptureInfo", unsafe {
            sys::cuStreamGetCaptureInfo_v3(
                self.0,
                &raw mut status,
                null_mut(),
                null_mut(),
                &raw mut nodes,
                null_mut(),
                &raw mut count,
            )
        })?;
        if nodes.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the driver's list holds so many nodes until the next call on the stream; they are copied.
        let nodes = unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec();
        let kernel = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
        nodes.into_iter().map(|node| Ok(Captured { node, kernel: node_type(node)? == kernel })).collect()
    }

    /// Makes the next call wait for exactly these nodes. A kernel that waits itself, as those of our sources do, may
    /// start `early`: while its predecessors end.
    pub(super) fn capture_after(&self, after: &[Captured], early: bool) -> Result<(), Error> {
        let set = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        let mut nodes: Vec<sys::CUgraphNode> = after.iter().map(|c| c.node).collect();
        let programmatic = sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8;
        let edges: Vec<sys::CUgraphEdgeData> = after
            .iter()
            .map(|c| match early && c.kernel {
                // From the programmatic port of a kernel: all its blocks have allowed dependents to launch, or have
                // ended.
                true => {
                    sys::CUgraphEdgeData { from_port: 1, to_port: 0, type_: programmatic, reserved: [0; 5] }
                }
                // The whole previous node.
                false => sys::CUgraphEdgeData { from_port: 0, to_port: 0, type_: 0, reserved: [0; 5] },
            })
            .collect();
        // SAFETY: the stream is capturing, the nodes are of its graph, each has its edge's data, and the driver copies both
        // lists; edges of a kernel's port lead from kernels to kernels.
        check("cuStreamUpdateCaptureDependencies", unsafe {
            sys::cuStreamUpdateCaptureDependencies_v2(
                self.0,
                nodes.as_mut_ptr(),
                edges.as_ptr(),
                nodes.len(),
                set,
            )
        })
    }
}

/// A node of a graph under capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Captured {
    node: sys::CUgraphNode,
    kernel: bool,
}

/// The kind of a node of an existing graph.
pub(super) fn node_type(node: sys::CUgraphNode) -> Result<sys::CUgraphNodeType, Error> {
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node is of a graph that exists; the driver writes its kind.
    check("cuGraphNodeGetType", unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) })?;
    Ok(kind)
}

/// An event of a stream, with the device's time there.
#[derive(Debug)]
pub(super) struct Mark(sys::CUevent);

impl Mark {
    /// The time from an earlier event to this one, after waiting for it.
    pub(super) fn since(&self, earlier: &Self) -> Result<Duration, Error> {
        // SAFETY: the event was recorded.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.0) })?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both events were recorded, on one stream, and are over; the driver writes one number.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime_v2(&raw mut milliseconds, earlier.0, self.0)
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; the driver waits with it until it is over. Nobody to tell of a failure.
        _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver finishes what is queued.
        _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// Device memory: from the engine's private pool, which keeps freed memory, or one driver allocation per buffer.
#[derive(Debug)]
pub(super) struct Memory(Option<sys::CUmemoryPool>);

// SAFETY: the driver takes calls on a pool from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above; it locks the pool itself.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates from a pool.
    pub(super) fn pool(context: &Context) -> Result<Self, Error> {
        // SAFETY: the struct holds numbers and a pointer; zero is the driver's "not used" for each.
        let mut props: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        props.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
        props.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = context.device;
        let mut pool = null_mut();
        // SAFETY: the properties are filled; the driver writes a handle.
        check("cuMemPoolCreate", unsafe { sys::cuMemPoolCreate(&raw mut pool, from_ref(&props)) })?;
        let this = Self(Some(pool));
        // With the default threshold of 0, memory returns to the system at every synchronization and is mapped again by
        // the next allocation: 31 ms instead of 1.3 us for 1 GiB.
        let mut keep = u64::MAX;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute is a 64-bit number.
        check("cuMemPoolSetAttribute", unsafe {
            sys::cuMemPoolSetAttribute(pool, attribute, from_mut(&mut keep).cast())
        })?;
        Ok(this)
    }

    /// One driver allocation per buffer: slow, but memory checkers see its bounds and its lifetime.
    pub(super) fn pieces() -> Self {
        Self(None)
    }

    /// Memory that is usable in stream order; `None` if the device is out of memory.
    pub(super) fn allocate(&self, stream: &Stream, bytes: usize) -> Result<Option<Address>, Error> {
        let (mut address, bytes) = (0, bytes.max(1));
        let (call, code) = match self.0 {
            // SAFETY: pool and stream live; the driver writes an address.
            Some(pool) => ("cuMemAllocFromPoolAsync", unsafe {
                sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, pool, stream.0)
            }),
            // SAFETY: a context is current; the driver writes an address.
            None => ("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) }),
        };
        if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Ok(None);
        }
        check(call, code)?;
        Ok(Some(Address(address)))
    }

    /// Frees memory: in stream order, or after the device has completed all issued work.
    pub(super) fn free(&self, stream: &Stream, address: Address) -> Result<(), Error> {
        match self.0 {
            // SAFETY: a pool gave the address out, and its owner drops.
            Some(_) => check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(address.0, stream.0) }),
            // SAFETY: the driver gave the address out, and its owner drops; the call waits for what uses it.
            None => check("cuMemFree", unsafe { sys::cuMemFree_v2(address.0) }),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(pool) = self.0 {
            // SAFETY: created once, destroyed once; the driver waits for what is still in use.
            _ = unsafe { sys::cuMemPoolDestroy(pool) };
        }
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
