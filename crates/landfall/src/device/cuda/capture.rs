//! Captures a launch list as one CUDA graph whose edges are the happens-before edges of its steps' bytes: the device
//! may run unordered steps concurrently, and a kernel of ours is launched while its predecessors end (programmatic
//! dependent launch). Each iteration of a loop body waits for the whole previous one.
//!
//! Everything is compiled and loaded before the capture begins. The capture runs on a private stream, in the mode that
//! only a context-wide synchronization by another thread can invalidate ([`apart`]); frees are deferred until it ends;
//! and it is ended on the error path too, so that the engine stays usable after a failure.

use super::driver::check;
use super::faults::Records;
use super::graph::{Executable, Graph};
use super::join::group;
use super::log::Flow;
use super::nccl::Communicator;
use super::preload::preload;
use super::stream::{Captured, Stream};
use super::{Cuda, Eager, Issued, KernelLaunch, Prepared, PreparedProduct, ProductLaunch, Sink, locked};
use crate::contract::text;
use crate::device::steps::edges::{TouchedOperands, step_edges};
use crate::device::steps::lower;
use crate::device::steps::outline::{implied, touched};
use crate::device::times::Times;
use crate::device::{Device, LaunchList, PartedLaunches, RecordedLaunch, Recording};
use crate::error::Error;
use crate::kernel::Operands;
use crate::kernel::cuda::segment::{Member, SEGMENT};
use crate::kernel::cuda::{Call, CollectiveLaunch, Failure, Seat, TENSOR_MAP_WORDS, Tile, pointwise};
use crate::ranks::World;
use crate::values::{Address, DType, Layout, Operand, Repeat, Spec};
use cudarc::driver::sys;
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// An operation of a graph.
#[derive(Debug)]
enum Step {
    Kernel(Box<Prepared>),
    Product(PreparedProduct),
    Fill { to: Address, bytes: usize, value: u8 },
    Collective { op: &'static str, launch: CollectiveLaunch, by: Arc<Communicator> },
}

impl Step {
    fn issue(&self, stream: &Stream) -> Result<(), Error> {
        match self {
            Self::Collective { launch, by, .. } => by.issue(launch, stream),
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
            Self::Collective { op, .. } => Some(Issued { op, what: "NCCL", of: None }),
        }
    }
}

/// One step of a graph, with the steps that it waits for.
#[derive(Debug)]
pub(super) struct StepNode {
    op: &'static str,
    step: Step,
    /// What a group can do in its place.
    member: Option<Member>,
    pub(super) after: Vec<usize>,
}

impl StepNode {
    /// The function that it launches, or the library's call.
    pub(super) fn kernel(&self) -> &'static str {
        self.step.issued().map_or("fill", |issued| issued.what)
    }

    /// What a group can do in its place.
    pub(super) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// No group can do anything in its place.
    pub(super) fn stays_apart(&mut self) {
        self.member = None;
    }

    /// It becomes this kernel, which no other can take in.
    pub(super) fn becomes(&mut self, op: &'static str, prepared: Prepared) {
        *self = Self {
            op,
            step: Step::Kernel(Box::new(prepared)),
            member: None,
            after: std::mem::take(&mut self.after),
        };
    }

    pub(super) fn issue(&self, stream: &Stream) -> Result<(), Error> {
        let op = self.op;
        let what = |e| Error::Capture { what: format!("{op} could not be captured: {e}") };
        self.step.issue(stream).map_err(what)
    }
}

/// The steps of a launch list.
#[derive(Debug)]
pub(super) struct Captures {
    pub(super) steps: Vec<StepNode>,
    /// The steps of the loop body, and its iterations.
    pub(super) repeat: Repeat,
    /// The number of steps of each launch.
    pub(super) counts: Vec<usize>,
    /// The launches of the loop body, and its iterations.
    pub(super) launches: Repeat,
}

impl Captures {
    /// The steps in replay order.
    pub(super) fn sequence(&self) -> impl Iterator<Item = &StepNode> {
        self.repeat.sequence(self.steps.len()).map(|n| &self.steps[n])
    }

    /// The number of steps of a replay.
    pub(super) fn count(&self) -> usize {
        self.repeat.count(self.steps.len())
    }
}

/// Collects the steps of a launch list.
struct Steps<'a> {
    device: &'a Cuda,
    list: Vec<StepNode>,
    /// The operands of each step of the current launch.
    given: Vec<TouchedOperands>,
    /// Where its ops report an index out of range.
    records: &'a mut Records,
}

impl Steps<'_> {
    fn push(&mut self, op: &'static str, step: Step, given: TouchedOperands) {
        self.list.push(StepNode { op, step, member: None, after: Vec::new() });
        self.given.push(given);
    }

    /// Pushes the kernel of a segment, if there can be one: memory that was bound to a program may be aligned otherwise than its own.
    fn push_segment(&mut self, list: &LaunchList, segment: &PartedLaunches) -> Result<bool, Error> {
        let Ok(joined) = segment.of(list, self.device.kind()) else { return Ok(false) };
        let Some(prepared) = self.device.joined(SEGMENT, Some(&joined))? else { return Ok(false) };
        let step = Step::Kernel(Box::new(prepared));
        self.list.push(StepNode { op: SEGMENT, step, member: None, after: Vec::new() });
        Ok(true)
    }

    /// The steps of a list of launches.
    fn of(device: &Cuda, of: &LaunchList, records: &mut Records) -> Result<Captures, Error> {
        let (launches, mut repeat) = (&of.launches, of.repeat);
        let list = Vec::with_capacity(launches.len());
        let mut steps = Steps { device, list, given: Vec::new(), records };
        let mut given = Vec::with_capacity(launches.len());
        let mut counts = Vec::with_capacity(launches.len());
        // The node of each step; those of a segment have one.
        let mut nodes: Vec<usize> = Vec::with_capacity(launches.len());
        let mut segments = of.segments.iter().peekable();
        let (mut joined, mut ends) = (false, 0);
        for (n, launch) in launches.iter().enumerate() {
            let before = steps.list.len();
            if let Some(segment) = segments.next_if(|s| s.launches.start == n) {
                joined = steps.push_segment(of, segment)?;
                ends = segment.launches.end;
            }
            if joined && n < ends {
                steps.given = touched(launch, device.kind())?;
                nodes.extend(std::iter::repeat_n(steps.list.len() - 1, steps.given.len()));
            } else {
                lower(&launch.as_launch(), device.kind(), &mut steps)?;
                nodes.extend(before..steps.list.len());
            }
            counts.push(steps.list.len() - before);
            given.push(std::mem::take(&mut steps.given));
            if n + 1 == of.repeat.instructions {
                repeat.instructions = steps.list.len();
            }
        }
        let after = step_edges(of, &given);
        implied(of, &given, &after)?;
        for (waits, &node) in after.iter().zip(&nodes) {
            let waits = waits.iter().map(|&w| nodes[w]).filter(|&w| w != node);
            steps.list[node].after.extend(waits);
        }
        for step in &mut steps.list {
            step.after.sort_unstable();
            step.after.dedup();
        }
        let mut list = steps.list;
        if of.grouped && of.repeat.times <= 1 {
            group(device, &mut list, &mut counts)?;
        }
        Ok(Captures { steps: list, repeat, counts, launches: of.repeat })
    }
}

/// A memset as a kernel.
pub(super) fn filling(device: &Cuda, to: Address, bytes: usize, value: u8) -> Result<Prepared, Error> {
    let spec = Spec::new(DType::U8, [bytes]);
    let outputs = [Operand { base: to, dtype: spec.dtype, layout: Layout::contiguous(spec.shape) }];
    let why = || Error::Capture { what: "a fill has no kernel".to_owned() };
    let operands =
        Operands { op: "fill", inputs: &[], outputs: &outputs, workspace: Address(0), workspace_bytes: 0 };
    let mut steps = Steps { device, list: Vec::new(), given: Vec::new(), records: &mut Vec::new() };
    pointwise::run(|e| e.constant(f64::from(value)), &mut Call::new(operands, &mut steps)).map_err(|f| {
        match f {
            Failure::Device(error) => error,
            Failure::Rule(rule) => rule.of("fill", &[], Some(device.kind()), None).into(),
        }
    })?;
    match steps.list.pop().map(|node| node.step) {
        Some(Step::Kernel(prepared)) => Ok(*prepared),
        Some(Step::Product(_) | Step::Fill { .. } | Step::Collective { .. }) | None => Err(why()),
    }
}

impl Sink for Steps<'_> {
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        let prepared = self.device.prepare(op, &launch)?;
        self.push(op, Step::Kernel(Box::new(prepared)), TouchedOperands::These(launch.addresses().collect()));
        if let Some(step) = self.list.last_mut() {
            step.member = Member::new(&launch);
        }
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

    fn seat(&self) -> Seat {
        self.device.seat()
    }

    fn collective(&mut self, op: &'static str, launch: &CollectiveLaunch) -> Result<(), Error> {
        let by = Arc::clone(self.device.communicator()?);
        self.push(op, Step::Collective { op, launch: *launch, by }, TouchedOperands::of(launch));
        Ok(())
    }

    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        Eager::new(self.device, false).tensor_map(tile)
    }

    fn faults(&mut self, op: &'static str) -> Result<[Address; 2], Error> {
        // One for each op of the list, whatever the number of its launches.
        let known = self.records.iter().find(|(_, o)| *o == op).map(|(taken, _)| *taken);
        let taken = known.map_or_else(|| self.device.faults.take(&self.device.stream), Ok)?;
        if known.is_none() {
            self.records.push((taken, op));
        }
        Ok(self.device.faults.addresses(taken))
    }

    fn architecture(&self) -> Option<&str> {
        Some(self.device.compiler.arch())
    }
}

/// Held during a capture, by any engine of the process, and by [`apart`].
static CAPTURES: Mutex<()> = Mutex::new(());

/// Makes a context-wide synchronizing call while nothing is captured: from any thread it invalidates the captures of
/// its GPU, those of other engines too. Creating and destroying a cuBLASLt handle is such a call. Nothing else that an
/// engine creates or destroys is: memory of the device and of the host, pools, streams, modules and graphs were created
/// and released by two threads, hundreds of times each and more, during captures of a third, and invalidated none; nor
/// did another retain and release of the context. The calling thread must not be capturing.
pub(super) fn apart<R>(call: impl FnOnce() -> R) -> R {
    let _nothing_is_captured = locked(&CAPTURES);
    call()
}

/// Captures a launch list. The context must be current.
pub(super) fn record(device: &Arc<Cuda>, list: LaunchList) -> Result<Replay, Error> {
    let mut records = Records::new();
    let recorded = replay_of(device, list, &mut records);
    if recorded.is_err() {
        device.faults.give_back(&records);
    }
    recorded
}

/// The captured list, which takes over the records of its ops.
fn replay_of(device: &Arc<Cuda>, list: LaunchList, records: &mut Records) -> Result<Replay, Error> {
    same_collectives(device.world(), &list)?;
    preload(device, &[&list])?;
    let captures = Steps::of(device, &list, records)?;
    let meets = captures.steps.iter().find_map(|s| match &s.step {
        Step::Collective { by, .. } => Some(Arc::clone(by)),
        Step::Kernel(_) | Step::Product(_) | Step::Fill { .. } => None,
    });
    let early = device.context.waits();
    let graph = graph_of(device, &captures.steps, |stream| {
        issue_all(&captures.steps, captures.repeat, early, stream)
    })?;
    let nodes = graph.kinds()?;
    // A graph with allocation nodes would use addresses unknown to the plan.
    let memory = nodes.iter().filter(|k| MEMORY.contains(k)).count();
    if memory > 0 {
        return Err(Error::Capture {
            what: format!("the graph has {memory} nodes that allocate or free memory"),
        });
    }
    let executable = graph.instantiate()?;
    let flow = Arc::new(Flow::new(list, std::mem::take(records)));
    Ok(Replay { executable, graph, nodes: nodes.len(), captures, meets, flow, device: Arc::clone(device) })
}

/// Checks that the collectives of a list are those of the other ranks: on a GPU nothing would tell them apart later.
fn same_collectives(world: &World, list: &LaunchList) -> Result<(), Error> {
    if world.is_single() {
        return Ok(());
    }
    let one = |launch: &RecordedLaunch| {
        let specs: Vec<String> = launch.inputs.iter().map(|o| o.spec().to_string()).collect();
        format!("{} of {}\n", text(launch.op.as_ref()), specs.join(", "))
    };
    let all: String = list.launches.iter().filter(|l| l.op.collective()).map(one).collect();
    Ok(world.agree("collectives of the programs", &all)?)
}

/// Captures what `issue` does with these steps on a private stream, and puts kernels in the place of memsets.
pub(super) fn graph_of(
    device: &Cuda,
    steps: &[StepNode],
    issue: impl FnOnce(&Stream) -> Result<(), Error>,
) -> Result<Graph, Error> {
    let stream = Stream::new()?;
    let (graph, freed) = {
        let _one_at_a_time = locked(&CAPTURES);
        locked(&device.frees).capturing = true;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let graph = rehearse(steps).and_then(|()| capture(&stream, mode, issue));
        (graph, std::mem::take(&mut *locked(&device.frees)))
    };
    freed.waiting.into_iter().try_for_each(|a| device.memory.free(&device.stream, a))?;
    let graph = graph?;
    graph.fills_by_kernels(device)?;
    Ok(graph)
}

const MEMORY: [sys::CUgraphNodeType; 2] =
    [sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE];

/// cuBLASLt loads a kernel at its first use, and NCCL connects the ranks, which the mode of the real capture may refuse: their
/// calls are captured before, in a mode that allows loading, into a discarded graph. Nothing runs.
fn rehearse(steps: &[StepNode]) -> Result<(), Error> {
    let of_libraries = |s: &&StepNode| matches!(s.step, Step::Product(_) | Step::Collective { .. });
    let calls: Vec<&StepNode> = steps.iter().filter(of_libraries).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let issue = |stream: &Stream| calls.iter().try_for_each(|s| s.issue(stream));
    capture(&Stream::new()?, relaxed, issue).map(drop)
}

/// Maximum number of root steps. Each root begins a branch, which costs the host about a microsecond per launch, and
/// the device time too; further roots are chained.
const MAX_ROOTS: usize = 2;

/// Issues every step after its edges; kernels of ours start early.
pub(super) fn issue_all(
    steps: &[StepNode],
    repeat: Repeat,
    early: bool,
    stream: &Stream,
) -> Result<(), Error> {
    // Sinks: of the whole list, and of the loop body.
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
        if matches!(s.step, Step::Collective { .. }) {
            // Its kernels are not known to wait for the end of those before them.
            nodes[n].iter_mut().for_each(Captured::whole);
        }
        if n + 1 == repeat.instructions {
            time_before = of(&nodes, &part_ends);
        }
    }
    // The capture ends with all branches joined.
    stream.capture_after(&of(&nodes, &ends), false)
}

fn capture(
    stream: &Stream,
    mode: sys::CUstreamCaptureMode,
    issue: impl FnOnce(&Stream) -> Result<(), Error>,
) -> Result<Graph, Error> {
    // SAFETY: the stream lives; nobody else has it.
    check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream.handle(), mode) })?;
    let issued = issue(stream);
    let mut graph = null_mut();
    // SAFETY: the stream is capturing; the driver writes a handle, or null where the capture was spoilt.
    let ended =
        check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(stream.handle(), &raw mut graph) });
    let graph = Graph::captured(graph);
    issued?;
    ended?;
    Ok(graph)
}

/// A captured launch list. Field order is drop order.
pub(super) struct Replay {
    executable: Executable,
    /// What another library's capture takes in.
    graph: Graph,
    nodes: usize,
    /// Keeps the graph's code loaded.
    pub(super) captures: Captures,
    /// The ranks that it meets, if it has collectives.
    meets: Option<Arc<Communicator>>,
    flow: Arc<Flow>,
    pub(super) device: Arc<Cuda>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay {{ nodes: {}, steps: {} }}", self.nodes, self.captures.steps.len())
    }
}

impl Recording for Replay {
    fn replay(&self) -> Result<(), Error> {
        let device = &self.device;
        if device.graphs_disabled {
            return self.reissue();
        }
        device.enter()?;
        // After an abort the graph names memory that is gone.
        self.meets.as_ref().map_or(Ok(()), |by| by.fault())?;
        device.counting.replays.fetch_add(1, Relaxed);
        device.counted(1, self.captures.steps.last().and_then(|s| s.step.issued()));
        if device.stream.is_captured() {
            device.annotate_error(self.graph.captured_by(&device.stream))?;
            device.faults.lent(&self.flow);
            return Ok(());
        }
        let looks = device.faults.looks();
        device.annotate_error(self.executable.launch(&device.stream))?;
        self.wrote(looks)?;
        self.watched()
    }

    fn reissue(&self) -> Result<(), Error> {
        let device = &self.device;
        device.enter()?;
        let looks = device.faults.looks();
        self.issue_each(|_| Ok(()))?;
        self.wrote(looks)?;
        self.watched()
    }

    fn timed(&self, runs: usize) -> Result<Option<Times>, Error> {
        self.times(runs.max(1)).map(Some)
    }
}

impl Replay {
    /// Issues the steps one by one, and after each calls `then` with its place in the sequence.
    pub(super) fn issue_each(&self, mut then: impl FnMut(usize) -> Result<(), Error>) -> Result<(), Error> {
        let device = &self.device;
        self.meets.as_ref().map_or(Ok(()), |by| by.fault())?;
        device.counted(self.captures.count() as u64, None);
        self.captures.sequence().enumerate().try_for_each(|(n, s)| {
            let issued = s.step.issue(&device.stream);
            if issued.is_err() {
                locked(&device.issuing).last = s.step.issued();
            }
            device.annotate_error(issued.and_then(|()| then(n)))
        })
    }

    /// Has the collectives that were issued watched over, if the list has any.
    fn watched(&self) -> Result<(), Error> {
        let Some(by) = &self.meets else { return Ok(()) };
        self.device.annotate_error(by.issued(&self.device.stream))
    }

    /// A run was issued, after so many looks.
    pub(super) fn wrote(&self, looks: u64) -> Result<(), Error> {
        let device = &self.device;
        device.annotate_error(device.faults.replayed(&device.stream, &self.flow, looks))
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // The driver must not be running what is destroyed next. A failure in Drop cannot be reported.
        _ = self.device.context.enter().and_then(|()| self.device.faults.look(&self.device.stream));
        self.device.faults.give_back(&self.flow.records);
    }
}
