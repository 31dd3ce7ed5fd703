//! A launch list as one CUDA graph, whose edges are those of the bytes that its steps touch: what they leave open the
//! device runs at once, and a kernel of ours is launched while those that it waits for end. Of a part that is repeated,
//! each time waits for the whole of the time before.
//!
//! Everything is compiled and loaded before the capture begins. It runs on a stream that nothing else knows, in the
//! mode in which of other threads only what waits for the whole context could spoil it ([`apart`]); frees wait until it
//! is over; and it is ended on the error path too, so that a failure leaves the engine usable.

use super::driver::{Captured, Stream, check};
use super::edges::{TouchedOperands, step_edges};
use super::graph::{Executable, Graph};
use super::outline::implied;
use super::{Cuda, Eager, Issued, KernelLaunch, Prepared, PreparedProduct, ProductLaunch, Sink, locked};
use crate::device::{Device, LaunchList, Recording};
use crate::error::Error;
use crate::kernel::Operands;
use crate::kernel::cuda::{Call, Failure, TENSOR_MAP_WORDS, Tile, pointwise};
use crate::values::{Address, DType, Layout, Operand, Repeat, Spec};
use cudarc::driver::sys;
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// One thing that a graph does.
#[derive(Debug)]
enum Step {
    Kernel(Box<Prepared>),
    Product(PreparedProduct),
    Fill { to: Address, bytes: usize, value: u8 },
}

impl Step {
    fn issue(&self, stream: &Stream) -> Result<(), Error> {
        match self {
            Self::Kernel(prepared) => prepared.issue(stream),
            Self::Product(prepared) => prepared.product.issue(&prepared.addresses, stream),
            Self::Fill { to, bytes, value } => stream.fill(*to, *bytes, *value),
        }
    }

    fn issued(&self) -> Option<Issued> {
        match self {
            Self::Kernel(prepared) => Some(prepared.issued),
            Self::Product(prepared) => Some(prepared.issued),
            Self::Fill { .. } => None,
        }
    }
}

/// One step of a graph, with the steps before it that it waits for.
#[derive(Debug)]
struct StepNode {
    op: &'static str,
    step: Step,
    after: Vec<usize>,
}

impl StepNode {
    fn issue(&self, stream: &Stream) -> Result<(), Error> {
        let op = self.op;
        let what = |e| Error::Capture { what: format!("{op} could not be captured: {e}") };
        self.step.issue(stream).map_err(what)
    }
}

/// Collects the steps of a launch list.
struct Steps<'a> {
    device: &'a Cuda,
    list: Vec<StepNode>,
    /// What each step of the launch at hand was given.
    given: Vec<TouchedOperands>,
}

impl Steps<'_> {
    fn push(&mut self, op: &'static str, step: Step, given: TouchedOperands) {
        self.list.push(StepNode { op, step, after: Vec::new() });
        self.given.push(given);
    }

    /// The steps of a list of launches, and how many of them are repeated how often.
    fn of(device: &Cuda, of: &LaunchList) -> Result<(Vec<StepNode>, Repeat), Error> {
        let (launches, mut repeat) = (&of.launches, of.repeat);
        let mut steps = Steps { device, list: Vec::with_capacity(launches.len()), given: Vec::new() };
        let mut given = Vec::with_capacity(launches.len());
        for (n, launch) in launches.iter().enumerate() {
            super::lower(&launch.as_launch(), device.kind(), &mut steps)?;
            given.push(std::mem::take(&mut steps.given));
            if n + 1 == of.repeat.instructions {
                repeat.instructions = steps.list.len();
            }
        }
        let after = step_edges(of, &given);
        implied(of, &given, &after)?;
        steps.list.iter_mut().zip(after).for_each(|(step, after)| step.after = after);
        Ok((steps.list, repeat))
    }
}

/// A fill with a byte as a kernel.
pub(super) fn filling(device: &Cuda, to: Address, bytes: usize, value: u8) -> Result<Prepared, Error> {
    let spec = Spec::new(DType::U8, [bytes]);
    let outputs = [Operand { base: to, dtype: spec.dtype, layout: Layout::contiguous(spec.shape) }];
    let why = || Error::Capture { what: "a fill has no kernel".to_owned() };
    let operands =
        Operands { op: "fill", inputs: &[], outputs: &outputs, workspace: Address(0), workspace_bytes: 0 };
    let mut steps = Steps { device, list: Vec::new(), given: Vec::new() };
    pointwise::run(|e| e.constant(f64::from(value)), &mut Call::new(operands, &mut steps)).map_err(|f| {
        match f {
            Failure::Device(error) => error,
            Failure::Rule(rule) => rule.of("fill", &[], Some(device.kind()), None).into(),
        }
    })?;
    match steps.list.pop().map(|node| node.step) {
        Some(Step::Kernel(prepared)) => Ok(*prepared),
        Some(Step::Product(_) | Step::Fill { .. }) | None => Err(why()),
    }
}

impl Sink for Steps<'_> {
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        let prepared = self.device.prepare(op, &launch)?;
        self.push(op, Step::Kernel(Box::new(prepared)), TouchedOperands::These(launch.addresses().collect()));
        Ok(())
    }

    fn product(&mut self, op: &'static str, launch: &ProductLaunch) -> Result<bool, Error> {
        let prepared = self.device.prepare_product(op, launch)?;
        Ok(prepared.map(|p| self.push(op, Step::Product(p), TouchedOperands::All)).is_some())
    }

    fn fill(&mut self, op: &'static str, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        self.push(op, Step::Fill { to, bytes, value }, TouchedOperands::These(vec![to.0]));
        Ok(())
    }

    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        Eager::new(self.device, false).tensor_map(tile)
    }

    fn faults(&mut self, op: &'static str) -> (Address, u32) {
        Eager::new(self.device, false).faults(op)
    }

    fn architecture(&self) -> Option<&str> {
        Some(self.device.compiler.arch())
    }
}

/// Held while a graph is captured, by whatever engine of the process, and by [`apart`].
static CAPTURES: Mutex<()> = Mutex::new(());

/// Makes a call that waits for the whole context while nothing is captured: by any thread it spoils the captures of its
/// GPU, those of other engines too. To make and to end a handle of the matrix library is such a call. What else comes and
/// goes with an engine is not: memory of the device and of the host, pools, streams, modules and graphs were made and
/// released by two threads, hundreds of times each and more, beside captures of a third, and spoilt none; nor did another
/// hold on the context that came and went. The thread must not be capturing.
pub(super) fn apart<R>(call: impl FnOnce() -> R) -> R {
    let _nothing_is_captured = locked(&CAPTURES);
    call()
}

/// Captures a launch list. The context must be current.
pub(super) fn record(device: &Arc<Cuda>, list: &LaunchList) -> Result<Replay, Error> {
    let (steps, repeat) = Steps::of(device, list)?;
    let stream = Stream::new()?;
    let early = device.context.waits();
    let (graph, freed) = {
        let _one_at_a_time = locked(&CAPTURES);
        locked(&device.frees).capturing = true;
        let graph = rehearse(&steps).and_then(|()| {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            capture(&stream, mode, |stream| issue_all(&steps, repeat, early, stream))
        });
        (graph, std::mem::take(&mut *locked(&device.frees)))
    };
    freed.waiting.into_iter().try_for_each(|a| device.memory.free(&device.stream, a))?;
    let graph = graph?;
    graph.fills_by_kernels(device)?;
    let nodes = graph.kinds()?;
    // A graph that allocates would hand out addresses that the plan knows nothing of.
    let memory = nodes.iter().filter(|k| MEMORY.contains(k)).count();
    if memory > 0 {
        return Err(Error::Capture {
            what: format!("the graph has {memory} nodes that allocate or free memory"),
        });
    }
    let executable = graph.instantiate()?;
    Ok(Replay { executable, nodes: nodes.len(), steps, repeat, device: Arc::clone(device) })
}

const MEMORY: [sys::CUgraphNodeType; 2] =
    [sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE];

/// The matrix library loads a kernel when it is first issued, which the mode of the real capture may refuse: products
/// are captured before, in a mode that lets them load, into a graph that is thrown away. Nothing runs.
fn rehearse(steps: &[StepNode]) -> Result<(), Error> {
    let products: Vec<&StepNode> = steps.iter().filter(|s| matches!(s.step, Step::Product(_))).collect();
    if products.is_empty() {
        return Ok(());
    }
    let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let issue = |stream: &Stream| products.iter().try_for_each(|s| s.issue(stream));
    capture(&Stream::new()?, relaxed, issue).map(drop)
}

/// Steps at most that nothing precedes. Each begins a branch, which costs the host about a microsecond a launch, and the
/// device time too; of more, one begins after another.
const MAX_ROOTS: usize = 2;

/// Issues every step where its edges put it; where kernels know how to wait, they start early.
fn issue_all(steps: &[StepNode], repeat: Repeat, early: bool, stream: &Stream) -> Result<(), Error> {
    // Those that nothing waits for: in all, and in the part that is repeated.
    let ends_of = |part: &[StepNode]| {
        let mut last = vec![true; part.len()];
        part.iter().flat_map(|s| &s.after).for_each(|&a| last[a] = false);
        (0..part.len()).filter(|&n| last[n]).collect::<Vec<usize>>()
    };
    let (ends, part_ends) = (ends_of(steps), ends_of(&steps[..repeat.instructions]));
    let mut nodes: Vec<Vec<Captured>> = vec![Vec::new(); steps.len()];
    let of = |nodes: &[Vec<Captured>], steps: &[usize]| -> Vec<Captured> {
        steps.iter().flat_map(|&s| nodes[s].iter().copied()).collect()
    };
    let (mut time_before, mut roots) = (Vec::new(), Vec::new());
    for n in repeat.sequence(steps.len()) {
        let s = &steps[n];
        let mut before = of(&nodes, &s.after);
        if n < repeat.instructions && before.is_empty() {
            before.clone_from(&time_before);
        }
        if before.is_empty() {
            let earlier = roots.len().checked_sub(MAX_ROOTS).map(|i| roots[i]);
            before = of(&nodes, earlier.as_slice());
            roots.push(n);
        }
        stream.capture_after(&before, early && matches!(s.step, Step::Kernel(_)))?;
        s.issue(stream)?;
        nodes[n] = stream.captured()?;
        if n + 1 == repeat.instructions {
            time_before = of(&nodes, &part_ends);
        }
    }
    // The capture ends with everything joined.
    stream.capture_after(&of(&nodes, &ends), false)
}

fn capture(
    stream: &Stream,
    mode: sys::CUstreamCaptureMode,
    issue: impl FnOnce(&Stream) -> Result<(), Error>,
) -> Result<Graph, Error> {
    // SAFETY: the stream lives; nobody else has it.
    check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream.0, mode) })?;
    let issued = issue(stream);
    let mut graph = null_mut();
    // SAFETY: the stream is capturing; the driver writes a handle, or null where the capture was spoilt.
    let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(stream.0, &raw mut graph) });
    let graph = Graph::captured(graph);
    issued?;
    ended?;
    Ok(graph)
}

/// A captured launch list. Field order is drop order.
pub(super) struct Replay {
    executable: Executable,
    nodes: usize,
    /// Keeps the code loaded that the graph runs.
    steps: Vec<StepNode>,
    repeat: Repeat,
    device: Arc<Cuda>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay {{ nodes: {}, steps: {} }}", self.nodes, self.steps.len())
    }
}

impl Recording for Replay {
    fn replay(&self) -> Result<(), Error> {
        let device = &self.device;
        if device.graphs_disabled {
            return self.reissue();
        }
        device.enter()?;
        device.counting.replays.fetch_add(1, Relaxed);
        device.counted(1, self.steps.last().and_then(|s| s.step.issued()));
        device.annotate_error(self.executable.launch(&device.stream))
    }

    fn reissue(&self) -> Result<(), Error> {
        let device = &self.device;
        device.enter()?;
        device.counted(self.repeat.count(self.steps.len()) as u64, None);
        self.repeat.sequence(self.steps.len()).try_for_each(|n| {
            let s = &self.steps[n];
            let issued = s.step.issue(&device.stream);
            if issued.is_err() {
                locked(&device.issuing).last = s.step.issued();
            }
            device.annotate_error(issued)
        })
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // The driver must not be running what is destroyed next. Nobody can be told of a failure here.
        _ = self.device.context.enter().and_then(|()| self.device.stream.synchronize());
    }
}
