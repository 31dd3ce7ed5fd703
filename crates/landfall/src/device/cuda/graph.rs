//! CUDA graphs, as a capture returns them.

use super::capture::filling;
use super::driver::check;
use super::stream::{Stream, node_type};
use super::{Address, Cuda, Prepared};
use crate::error::Error;
use cudarc::driver::sys;
use std::ptr::{null, null_mut};

/// A captured graph.
#[derive(Debug)]
pub(super) struct Graph(sys::CUgraph);

impl Graph {
    /// The graph of this handle; `None` for null, which the driver returns for an invalidated capture.
    pub(super) fn captured(handle: sys::CUgraph) -> Self {
        Self(handle)
    }

    fn nodes(&self) -> Result<Vec<sys::CUgraphNode>, Error> {
        let mut count = 0;
        // SAFETY: the graph exists; with no list to fill, the driver writes the number.
        check("cuGraphGetNodes", unsafe { sys::cuGraphGetNodes(self.0, null_mut(), &raw mut count) })?;
        let mut nodes = vec![null_mut(); count];
        if count > 0 {
            // SAFETY: the list has room for as many as the driver said.
            check("cuGraphGetNodes", unsafe {
                sys::cuGraphGetNodes(self.0, nodes.as_mut_ptr(), &raw mut count)
            })?;
        }
        Ok(nodes)
    }

    /// The kind of each node.
    pub(super) fn kinds(&self) -> Result<Vec<sys::CUgraphNodeType>, Error> {
        self.nodes()?.into_iter().map(node_type).collect()
    }

    /// Replaces each memset node, those of cuBLASLt among them, by a kernel node: one more memset costs the host 1.5 us
    /// per launch of the graph, one more kernel nothing measurable.
    pub(super) fn fills_by_kernels(&self, device: &Cuda) -> Result<(), Error> {
        for node in self.nodes()? {
            if node_type(node)? != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET {
                continue;
            }
            // SAFETY: numbers alone, which the driver writes next.
            let mut fill: sys::CUDA_MEMSET_NODE_PARAMS = unsafe { std::mem::zeroed() };
            // SAFETY: the node is a fill; the driver writes what it does.
            check("cuGraphMemsetNodeGetParams", unsafe {
                sys::cuGraphMemsetNodeGetParams(node, &raw mut fill)
            })?;
            let size = fill.elementSize as usize;
            let bytes = fill.value.to_le_bytes();
            // A 2-D memset, or one whose elements have unequal bytes, is kept.
            if fill.height > 1 || size > bytes.len() || bytes[..size].iter().any(|&b| b != bytes[0]) {
                continue;
            }
            let kernel = filling(device, Address(fill.dst), fill.width * size, bytes[0])?;
            let before = neighbours("cuGraphNodeGetDependencies", |nodes, edges, count| {
                // SAFETY: the node exists; the lists are null, or have room for as many as the driver said.
                unsafe { sys::cuGraphNodeGetDependencies_v2(node, nodes, edges, count) }
            })?;
            let after = neighbours("cuGraphNodeGetDependentNodes", |nodes, edges, count| {
                // SAFETY: as above.
                unsafe { sys::cuGraphNodeGetDependentNodes_v2(node, nodes, edges, count) }
            })?;
            let new = kernel.node_of(self.0, &before)?;
            let from = vec![new; after.len()];
            // SAFETY: nodes of this graph, as many on either list; without data the edges are whole ones.
            check("cuGraphAddDependencies", unsafe {
                let (from, to) = (from.as_ptr(), after.as_ptr());
                sys::cuGraphAddDependencies_v2(self.0, from, to, null(), after.len())
            })?;
            // SAFETY: the node is of this graph, which nothing runs; its edges go with it.
            check("cuGraphDestroyNode", unsafe { sys::cuGraphDestroyNode(node) })?;
        }
        Ok(())
    }

    /// Adds a copy to the capture of a stream, as one node.
    pub(super) fn captured_by(&self, stream: &Stream) -> Result<(), Error> {
        stream.capture_graph(self.0)
    }

    /// Instantiates the graph.
    pub(super) fn instantiate(&self) -> Result<Executable, Error> {
        let mut handle = null_mut();
        // SAFETY: the graph exists; the driver writes a handle.
        check("cuGraphInstantiate", unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, self.0, 0) })?;
        // It is not uploaded ahead (cuGraphUpload): when several processes shared a GPU, the first launch of a graph of
        // several branches then hung now and then, with an idle GPU; the first launch uploads it itself.
        Ok(Executable(handle))
    }
}

// SAFETY: a handle; nothing changes the graph after its capture, and the driver copies it from any thread.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made once, destroyed once; an executable graph does not need it any more.
            _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

/// An executable graph.
#[derive(Debug)]
pub(super) struct Executable(sys::CUgraphExec);

impl Executable {
    /// Launches it on a stream. All memory that it references must live until it is complete.
    pub(super) fn launch(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: graph and stream live, and so does all memory that the graph names: its program owns it.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.0, stream.handle()) })
    }
}

// SAFETY: a handle; the driver takes it from any thread, and a program replays it from one at a time.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, after its last launch was waited for.
        _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// The predecessors or successors of a node, by one of the driver's calls.
fn neighbours(
    name: &'static str,
    call: impl Fn(*mut sys::CUgraphNode, *mut sys::CUgraphEdgeData, *mut usize) -> sys::CUresult,
) -> Result<Vec<sys::CUgraphNode>, Error> {
    let mut count = 0;
    check(name, call(null_mut(), null_mut(), &raw mut count))?;
    let mut nodes = vec![null_mut(); count];
    let whole = sys::CUgraphEdgeData { from_port: 0, to_port: 0, type_: 0, reserved: [0; 5] };
    let mut edges = vec![whole; count];
    if count > 0 {
        check(name, call(nodes.as_mut_ptr(), edges.as_mut_ptr(), &raw mut count))?;
    }
    Ok(nodes)
}

impl Prepared {
    /// Adds the launch to a graph, as a node that waits for these nodes.
    fn node_of(&self, graph: sys::CUgraph, after: &[sys::CUgraphNode]) -> Result<sys::CUgraphNode, Error> {
        let ([gx, gy, gz], [bx, by, bz]) = (self.geometry.grid, self.geometry.block);
        let mut params = self.values.pointers();
        let launch = sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.loaded.functions[self.entry].0,
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: self.geometry.shared,
            kernelParams: params.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let mut node = null_mut();
        // SAFETY: the nodes are of this graph; the function is of a module that the device keeps, and takes such arguments,
        // which the driver copies in the call.
        check("cuGraphAddKernelNode", unsafe {
            sys::cuGraphAddKernelNode_v2(&raw mut node, graph, after.as_ptr(), after.len(), &raw const launch)
        })?;
        Ok(node)
    }
}
