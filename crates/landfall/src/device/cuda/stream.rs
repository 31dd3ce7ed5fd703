//! The stream on which a device issues: its own, or one of another library's that it follows.

use super::Geometry;
use super::driver::{Function, check};
use crate::device::ForeignStream;
use crate::error::Error;
use crate::values::Address;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::time::Duration;

/// A private stream, never the NULL stream, which synchronizes with others; or, in its place, another library's. The
/// context must be current for every call.
#[derive(Debug)]
pub(super) struct Stream {
    own: sys::CUstream,
    /// Its own stream or the one that it follows.
    current: AtomicPtr<sys::CUstream_st>,
    /// Whether the followed stream was being captured when it was last followed.
    captured: AtomicBool,
}

// SAFETY: the driver takes calls on a stream from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; it orders concurrent calls itself.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new() -> Result<Self, Error> {
        let mut own = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; the driver writes a handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut own, flags) })?;
        Ok(Self { own, current: AtomicPtr::new(own), captured: AtomicBool::new(false) })
    }

    /// The stream to issue on.
    #[inline]
    pub(super) fn handle(&self) -> sys::CUstream {
        self.current.load(Relaxed)
    }
}

/// Following another library's stream.
impl Stream {
    /// Issues there from now on, after everything issued before; `None` for its own stream.
    pub(super) fn follow(&self, to: Option<ForeignStream>) -> Result<(), Error> {
        let to = to.map_or(self.own, |s| s.handle() as sys::CUstream);
        let from = self.handle();
        let capturing = to != self.own && is_capturing(to)?;
        if from != to {
            let left = from != self.own && is_capturing(from)?;
            match (left, capturing) {
                // An event would make the other stream a part of the capture.
                (true, false) => {
                    let what = "the stream that the engine issued on is being captured; end its capture before \
                                the engine is used on another stream";
                    return Err(Error::Capture { what: what.to_owned() });
                }
                // A captured stream can not wait for work that is not captured.
                (false, true) => idle(from)?,
                (false, false) | (true, true) => wait_for(to, from)?,
            }
            self.current.store(to, Relaxed);
        }
        self.captured.store(capturing, Relaxed);
        Ok(())
    }

    /// Whether the stream to issue on is this one.
    #[inline]
    pub(super) fn is(&self, other: ForeignStream) -> bool {
        self.handle() as u64 == other.handle()
    }

    /// Waits for what was issued on another stream.
    pub(super) fn waits_for(&self, other: ForeignStream) -> Result<(), Error> {
        if self.is(other) { Ok(()) } else { wait_for(self.handle(), other.handle() as sys::CUstream) }
    }

    /// Makes another stream wait for what was issued on this one.
    pub(super) fn is_awaited_by(&self, other: ForeignStream) -> Result<(), Error> {
        if self.is(other) { Ok(()) } else { wait_for(other.handle() as sys::CUstream, self.handle()) }
    }

    /// Whether the stream is being captured by the library whose stream it is.
    pub(super) fn is_captured(&self) -> bool {
        // Asked again only where it was so: the capture may have ended.
        self.captured.load(Relaxed) && is_capturing(self.handle()).unwrap_or(true)
    }

    /// That what is about to be done, which a capture does not allow and would end with, is not done in one.
    pub(super) fn outside_of_capture(&self, what: &'static str) -> Result<(), Error> {
        if !self.is_captured() {
            return Ok(());
        }
        Err(Error::Capture {
            what: format!("{what} while the stream is being captured; do it before the capture begins"),
        })
    }

    /// Adds a whole graph to the capture of the stream, after what was captured so far.
    pub(super) fn capture_graph(&self, graph: sys::CUgraph) -> Result<(), Error> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut into, mut before, mut edges) = (null_mut(), std::ptr::null(), std::ptr::null());
        let mut count = 0;
        let mut node = null_mut();
        // SAFETY: the driver writes what it is given places for, and takes null for what is not asked.
        check("cuStreamGetCaptureInfo", unsafe {
            sys::cuStreamGetCaptureInfo_v3(
                self.handle(),
                &raw mut status,
                null_mut(),
                &raw mut into,
                &raw mut before,
                &raw mut edges,
                &raw mut count,
            )
        })?;
        // SAFETY: the driver's list of nodes of the graph under capture holds until the next call on the stream; the driver
        // copies the child.
        check("cuGraphAddChildGraphNode", unsafe {
            sys::cuGraphAddChildGraphNode(&raw mut node, into, before, count, graph)
        })?;
        let set = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        // SAFETY: the stream is capturing into the graph that the node is of; without data the edge is a whole one.
        check("cuStreamUpdateCaptureDependencies", unsafe {
            sys::cuStreamUpdateCaptureDependencies_v2(self.handle(), &raw mut node, std::ptr::null(), 1, set)
        })
    }
}

fn is_capturing(stream: sys::CUstream) -> Result<bool, Error> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream lives; the driver writes its status.
    check("cuStreamIsCapturing", unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) })?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// That nothing runs on a stream.
fn idle(stream: sys::CUstream) -> Result<(), Error> {
    let _relaxed = Relaxation::begin()?;
    // SAFETY: the stream lives.
    let code = unsafe { sys::cuStreamQuery(stream) };
    if code == sys::CUresult::CUDA_ERROR_NOT_READY {
        let what = "the engine's work before the capture still runs on another stream; synchronize before the capture \
                    begins";
        return Err(Error::Capture { what: what.to_owned() });
    }
    check("cuStreamQuery", code)
}

/// Makes `stream` wait for everything issued on `other`.
fn wait_for(stream: sys::CUstream, other: sys::CUstream) -> Result<(), Error> {
    let mut event = null_mut();
    let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    // SAFETY: a context is current; the driver writes a handle.
    check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
    let mark = Mark(event);
    // SAFETY: event and stream live.
    check("cuEventRecord", unsafe { sys::cuEventRecord(mark.0, other) })?;
    // SAFETY: as above; the driver keeps what it needs of an event that is destroyed meanwhile.
    check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, mark.0, 0) })
}

/// While it lives, this thread may make calls that a capture by another library in global mode would forbid.
pub(super) struct Relaxation(sys::CUstreamCaptureMode);

impl Relaxation {
    pub(super) fn begin() -> Result<Self, Error> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the driver exchanges the calling thread's mode.
        check("cuThreadExchangeStreamCaptureMode", unsafe {
            sys::cuThreadExchangeStreamCaptureMode(&raw mut mode)
        })?;
        Ok(Self(mode))
    }
}

impl Drop for Relaxation {
    fn drop(&mut self) {
        // SAFETY: as above. There is nobody to tell of a failure.
        _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut self.0) };
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver finishes what is queued.
        _ = unsafe { sys::cuStreamDestroy_v2(self.own) };
    }
}

impl Stream {
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream lives until this drops.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.handle()) })
    }

    /// Records a new event at the current point of the stream.
    pub(super) fn mark(&self) -> Result<Mark, Error> {
        let mark = Mark::new()?;
        self.mark_again(&mark)?;
        Ok(mark)
    }

    /// Records an event at the current point of the stream, in the place of its last recording.
    pub(super) fn mark_again(&self, mark: &Mark) -> Result<(), Error> {
        // SAFETY: both live.
        check("cuEventRecord", unsafe { sys::cuEventRecord(mark.0, self.handle()) })
    }

    pub(super) fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        // SAFETY: the device gave `to` out with at least as many bytes; from pageable memory the call returns once
        // the data is staged, so the borrow ends late enough.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.0, data.as_ptr().cast(), data.len(), self.handle())
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
                sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.0, to.len(), self.handle())
            })
        });
        let waited = self.synchronize();
        copied.and(waited)
    }

    pub(super) fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        // SAFETY: the device gave `to` out with at least as many bytes.
        check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to.0, value, bytes, self.handle()) })
    }

    /// Launches a function. `params` are addresses of its arguments.
    pub(super) fn launch(
        &self,
        function: Function,
        geometry: &Geometry,
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
                self.handle(),
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
        geometry: &Geometry,
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
            hStream: self.handle(),
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
    /// Captures a node that records an event, at each launch of the graph. Without the flag the event would be no node, but
    /// an edge to whoever waits for it.
    pub(super) fn capture_mark(&self, mark: &Mark) -> Result<(), Error> {
        let external = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: the stream is capturing, and the event lives as long as the graph is launched.
        check("cuEventRecordWithFlags", unsafe {
            sys::cuEventRecordWithFlags(mark.0, self.handle(), external)
        })
    }

    /// The nodes of the most recent call, which the next call would wait for.
    pub(super) fn captured(&self) -> Result<Vec<Captured>, Error> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut nodes, mut count) = (std::ptr::null(), 0);
        // SAFETY: the driver writes what it is given places for, and takes null for what is not asked.
        check("cuStreamGetCaptureInfo", unsafe {
            sys::cuStreamGetCaptureInfo_v3(
                self.handle(),
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
                self.handle(),
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

impl Captured {
    /// Successors wait for the whole node.
    pub(super) fn whole(&mut self) {
        self.kernel = false;
    }
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

// SAFETY: a handle; the driver takes it from any thread.
unsafe impl Send for Mark {}

impl Mark {
    /// An event with the device's time, not yet recorded.
    pub(super) fn new() -> Result<Self, Error> {
        let mut event = null_mut();
        // SAFETY: a context is current; the driver writes a handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, 0) })?;
        Ok(Self(event))
    }

    /// Whether everything before it is complete.
    pub(super) fn is_over(&self) -> Result<bool, Error> {
        // SAFETY: the event was recorded.
        let code = unsafe { sys::cuEventQuery(self.0) };
        if code == sys::CUresult::CUDA_ERROR_NOT_READY {
            return Ok(false);
        }
        check("cuEventQuery", code).map(|()| true)
    }

    /// The time from an earlier event to this one, after waiting for it.
    pub(super) fn since(&self, earlier: &Self) -> Result<Duration, Error> {
        // SAFETY: the event was recorded.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.0) })?;
        self.after(earlier)
    }

    /// The time from an earlier event to this one. The device has completed both.
    pub(super) fn after(&self, earlier: &Self) -> Result<Duration, Error> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events live; the driver writes one number, or says that one of them is not recorded or not over.
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
