//! The engine: a device, its workspace, and the single entry point for eager calls.

mod agree;
mod buffer;
mod choices;
mod eval;
mod read;
mod reuse;
mod state;
mod tensor;
mod view;
mod workspace;

pub use agree::agree;
pub(crate) use buffer::Buffer;
pub use choices::Choices;
pub(crate) use choices::{SOURCES, Seen, alike, exact};
pub use reuse::Reuse;
pub use state::State;
pub(crate) use state::StateMemory;
pub use tensor::{Tensor, TensorMut, TensorRef};
pub use view::View;
pub(crate) use view::{Gate, hold};

use crate::contract::{MAX_OUTPUTS, Op, check};
use crate::device::{Counters, Device, Foreign, ForeignStream, Launch, cpu, cuda, null, steps};
use crate::error::{Allocator, Error};
use crate::ranks::World;
use crate::sanitizer::Sanitizer;
use crate::values::{
    Address, DType, DeviceKind, Element, HostTensor, Layout, Operand, Relation, Rule, Shape, Spec,
};
use arrayvec::ArrayVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

/// Parts of a segment: up to two for each multiprocessor of a large GPU, each of which hides the other's waits.
const PARTS: Range<usize> = 66..265;

/// A device with its workspace. A clone is another handle to the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    device: Arc<dyn Device>,
    /// The underlying device, if `device` is a sanitizer around it.
    bare: Arc<dyn Device>,
    workspace: Arc<Mutex<Option<Buffer>>>,
    reuse: Reuse,
    unroll: Option<usize>,
    fuse: Option<bool>,
    parts: Option<Range<usize>>,
    choices: Arc<Choices>,
}

impl Engine {
    /// An engine on the CPU, with one thread per core.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if its threads cannot be started.
    pub fn cpu() -> Result<Self, Error> {
        Self::cpu_with_threads(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// An engine on the CPU with this many threads. Results do not depend on their number.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if its threads cannot be started.
    pub fn cpu_with_threads(threads: usize) -> Result<Self, Error> {
        Self::as_asked(cpu::Cpu::new(threads)?)
    }

    /// An engine on the NVIDIA GPU of this index.
    ///
    /// # Errors
    /// [`Error::Absent`] names the missing part (driver, GPU, NVRTC) and what to install, or says that this build lacks
    /// the feature `cuda`.
    pub fn cuda(ordinal: u32) -> Result<Self, Error> {
        Self::as_asked(cuda::open(ordinal)?)
    }

    /// An engine that checks and counts everything and computes nothing.
    #[must_use]
    pub fn null() -> Self {
        Self::on(null::Null::new())
    }

    /// An engine that plans for a GPU without one: programs take GPU kernels, are planned and verified, and are lowered
    /// to the step graph, whose edges are checked to imply every edge of the plan. It computes nothing.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec};
    /// let engine = Engine::planning_for_cuda();
    /// let spec = std::sync::Arc::new(StateSpec::new());
    /// let graph = Graph::new(&spec);
    /// let x = graph.input("x", DType::F32, [4]);
    /// graph.output("y", graph.tanh(x)?);
    /// let state = State::new(&engine, &spec)?;
    /// assert_eq!(Program::compile(&engine, &state, "step", &graph)?.runs(), 0);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[must_use]
    pub fn planning_for_cuda() -> Self {
        Self::on(null::Null::planning(DeviceKind::Cuda(0), steps::prove))
    }

    fn on(device: Arc<dyn Device>) -> Self {
        let workspace = Arc::new(Mutex::new(None));
        let (reuse, choices) = (Reuse::default(), Arc::default());
        Self {
            bare: Arc::clone(&device),
            device,
            workspace,
            reuse,
            unroll: None,
            fuse: None,
            parts: None,
            choices,
        }
    }

    /// An engine over a test's device.
    #[cfg(test)]
    pub(crate) fn over(device: Arc<dyn Device>) -> Self {
        Self::on(device)
    }

    /// Applies the environment variables.
    fn as_asked(device: Arc<dyn Device>) -> Result<Self, Error> {
        let engine = Self { unroll: asked_unroll()?, ..Self::on(device).with_reuse(Reuse::asked()?) };
        Ok(Allocator::asked()?.map_or_else(|| engine.clone(), |allocator| engine.sanitized(allocator)))
    }

    /// A new engine on the same device that checks every launch, of eager calls and of programs: it writes its outputs
    /// in full and nothing else, and they depend on its operands only ([`sanitize`](crate::sanitize)). The first op
    /// that violates this is named by [`Error::Sanitizer`], an index out of range at once by [`Error::Index`]. Its
    /// tensors, states and programs have memory between guard bands. Slow: every launch copies all memory that it
    /// touches to the host and back, several times. The null device computes nothing, so nothing is checked there.
    #[must_use]
    pub fn sanitized(&self, allocator: Allocator) -> Self {
        match self.device.kind() {
            DeviceKind::Null => self.clone(),
            DeviceKind::Cpu | DeviceKind::Cuda(_) => {
                let checked = Self::on(Sanitizer::new(Arc::clone(&self.bare), allocator));
                let (bare, choices) = (Arc::clone(&self.bare), Arc::clone(&self.choices));
                Self { bare, reuse: allocator.reuse(), choices, ..checked }
            }
        }
    }

    /// Joins other ranks: collective ops of this engine, and of its clones, are computed with theirs from now on. An engine joins
    /// one world, before its first collective op; without one it is the only rank, and every collective op is a copy.
    ///
    /// ```
    /// use landfall::{Engine, World, ops};
    /// use std::time::Duration;
    /// let worlds = World::threads(2, Duration::from_secs(10));
    /// let sums: Vec<Vec<f32>> = std::thread::scope(|s| {
    ///     let rank = |world: World| -> Result<Vec<f32>, landfall::Error> {
    ///         let engine = Engine::cpu_with_threads(1)?;
    ///         let x = engine.tensor([2], &[1.0f32, world.rank() as f32])?;
    ///         engine.join(world)?;
    ///         engine.eval(&ops::AllReduce { reduction: ops::Reduction::Sum }, &[x.view()])?.read()
    ///     };
    ///     let ranks: Vec<_> = worlds.into_iter().map(|w| s.spawn(move || rank(w))).collect();
    ///     ranks.into_iter().map(|r| r.join().expect("a rank")).collect::<Result<_, _>>()
    /// })?;
    /// assert_eq!(sums, [[2.0, 1.0], [2.0, 1.0]]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ranks`] if it has joined a world already, or its device cannot.
    pub fn join(&self, world: World) -> Result<(), Error> {
        self.device.join(world)
    }

    /// The ranks that it computes with; by itself it is the only one.
    #[must_use]
    pub fn world(&self) -> &World {
        self.device.world()
    }

    /// The same engine; programs compiled with this handle reuse memory as `reuse` says.
    #[must_use]
    pub fn with_reuse(&self, reuse: Reuse) -> Self {
        Self { reuse, ..self.clone() }
    }

    /// How programs compiled with this handle reuse memory.
    #[must_use]
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// The same engine; programs compiled with this handle fuse chains of pointwise ops into one kernel, or do not. The default
    /// is that they do on a GPU, where each op would be a launch and move its arguments through memory. On a CPU a chain is
    /// slower: its ops work in the cache anyway. Results do not change a bit.
    #[must_use]
    pub fn with_fusion(&self, fuse: bool) -> Self {
        Self { fuse: Some(fuse), ..self.clone() }
    }

    /// Whether programs compiled with this handle fuse chains of pointwise ops.
    #[must_use]
    pub fn fuses(&self) -> bool {
        self.fuse.unwrap_or(matches!(self.device(), DeviceKind::Cuda(_)))
    }

    /// The same engine; programs compiled with this handle do runs of instructions that keep to a part of the rows as one kernel, and
    /// small launches that wait for the same ones as another, or do not. The default is that they do on a GPU;
    /// `LANDFALL_SEGMENTS=0` changes it. Results are those of the same instructions one by one ([`Program::issue`](crate::Program::issue));
    /// small 16-bit products are by another kernel than without segments.
    #[must_use]
    pub fn with_segments(&self, segments: bool) -> Self {
        self.with_parts(if segments { PARTS } else { 0..0 })
    }

    /// The same with so many parts of the rows: few are for tests of small programs.
    #[must_use]
    pub fn with_parts(&self, parts: Range<usize>) -> Self {
        Self { parts: Some(parts), ..self.clone() }
    }

    /// Numbers of parts that programs compiled with this handle may have; none are no segments.
    pub(crate) fn parts(&self) -> Range<usize> {
        let asked = || std::env::var_os("LANDFALL_SEGMENTS").is_none_or(|v| v != "0");
        match (self.device(), &self.parts) {
            (DeviceKind::Cuda(_), Some(parts)) => parts.clone(),
            (DeviceKind::Cuda(_), None) if asked() => PARTS,
            (DeviceKind::Cuda(_) | DeviceKind::Cpu | DeviceKind::Null, _) => 0..0,
        }
    }

    /// The same engine with an unroll factor: programs compiled with this handle run `times` unrolled micro-batches per
    /// replay, each in its own arena, if `times` divides their number (see [`crate::contract::Graph::repeat_so_far`]).
    /// The default is up to 32 on a GPU, as memory allows, and 1 elsewhere; `LANDFALL_UNROLL` sets it. Results do not
    /// depend on it, to the last bit.
    #[must_use]
    pub fn with_unroll(&self, times: usize) -> Self {
        Self { unroll: Some(times), ..self.clone() }
    }

    /// The unroll factor, if one was set.
    #[must_use]
    pub fn unroll(&self) -> Option<usize> {
        self.unroll
    }

    /// The same engine; programs compiled with this handle use the kernels chosen for their instructions
    /// ([`tune`](crate::tune)), and the ops' defaults for all others. Eager calls always use the defaults.
    #[must_use]
    pub fn with_choices(&self, choices: Choices) -> Self {
        Self { choices: Arc::new(choices), ..self.clone() }
    }

    /// The kernel choices of programs compiled with this handle.
    #[must_use]
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// The underlying device, if this engine's is a sanitizer around it.
    pub(crate) fn bare(&self) -> &Arc<dyn Device> {
        &self.bare
    }

    /// A new engine on the same device without a sanitizer: nothing of this engine's may be used with it.
    pub(crate) fn unchecked(&self) -> Self {
        Self::on(Arc::clone(&self.bare))
    }

    /// The kind of device.
    #[must_use]
    pub fn device(&self) -> DeviceKind {
        self.device.kind()
    }

    pub(crate) fn handle(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Waits until the device has completed all issued work.
    ///
    /// # Errors
    /// A device fault.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device.synchronize()
    }

    /// The device's counters since the engine was created.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.device.counters()
    }

    /// Runs `work` on the engine's threads. Run a loop of many steps inside: launches then find the threads at hand and
    /// skip the hand-over, which costs time and, now and then, an allocation.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let mut work = Some(work);
        let mut result = None;
        self.device.enter(&mut || result = work.take().map(|w| w()));
        match result {
            Some(r) => r,
            // `enter` of every device calls its argument exactly once.
            None => unreachable!("the device did not run the work it was given"),
        }
    }

    /// A tensor with uninitialized contents.
    ///
    /// # Errors
    /// [`Error::Memory`] if the device is out of memory.
    pub fn empty(&self, dtype: DType, shape: impl Into<Shape>) -> Result<Tensor, Error> {
        Tensor::new(&self.device, Spec::new(dtype, shape))
    }

    /// A tensor with this data, row-major.
    ///
    /// # Errors
    /// [`Error::HostData`] if the number of elements differs from the shape's; [`Error::Memory`].
    pub fn tensor<T: Element>(&self, shape: impl Into<Shape>, data: &[T]) -> Result<Tensor, Error> {
        let mut t = self.empty(T::DTYPE, shape)?;
        t.write(data)?;
        Ok(t)
    }

    /// A tensor with the elements of a host tensor, rounded to its dtype.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn from_host(&self, host: &HostTensor) -> Result<Tensor, Error> {
        let t = Tensor::new(&self.device, host.spec)?;
        self.device.upload(t.view().operand().base, &host.to_bytes())?;
        Ok(t)
    }

    /// A view of another library's memory, in its place: nothing is copied.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the memory is of another device, the address is no multiple of the element size, or the layout
    /// leaves the memory, and from an engine with the sanitizer, which checks memory of its own; a device fault.
    pub fn wrap(&self, memory: Foreign, dtype: DType, layout: Layout) -> Result<View, Error> {
        View::wrap(&self.device, memory, dtype, layout)
    }

    /// Issues all work on another library's CUDA stream from now on, so that its work and the engine's are ordered without
    /// waiting; `None` for the engine's own stream. What was issued before comes first. While that stream is being captured,
    /// calls and programs become part of the capture; allocating, copying from or to the host and waiting are refused.
    ///
    /// # Errors
    /// [`Error::NoStream`] unless the device is a GPU; [`Error::Capture`] where a capture stands between the two streams; a
    /// device fault.
    pub fn follow(&self, stream: Option<ForeignStream>) -> Result<(), Error> {
        self.device.follow(stream)
    }

    /// Orders all work from now on after what was issued on another library's CUDA stream, without waiting.
    ///
    /// # Errors
    /// [`Error::NoStream`] unless the device is a GPU; a device fault.
    pub fn wait_for(&self, stream: ForeignStream) -> Result<(), Error> {
        self.device.wait_for(stream)
    }

    /// The handle of the CUDA stream on which work is issued; `None` unless the device is a GPU.
    #[must_use]
    pub fn stream(&self) -> Option<u64> {
        self.device.stream()
    }

    /// Calls an op: it writes its results to `outputs`, allocates nothing and stays on the device.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let a = engine.tensor([3], &[1.0f32, 2.0, 3.0])?;
    /// let b = engine.tensor([3], &[10.0f32, 20.0, 30.0])?;
    /// let mut out = engine.empty(landfall::DType::F32, [3])?;
    /// engine.call(&ops::Add, &[a.view(), b.view()], &mut [out.view_mut()])?;
    /// assert_eq!(out.read::<f32>()?, [11.0, 22.0, 33.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Op`] with the violated rule, before anything runs.
    #[track_caller]
    pub fn call(
        &self,
        op: &dyn Op,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), Error> {
        self.bind(op, inputs.len(), |i| Ok(inputs[i]), outputs, Location::caller())
    }

    /// Calls an op with input `operand` in place: output 0 is that input. `inputs` are the other inputs, in order.
    ///
    /// # Errors
    /// As [`Engine::call`]; the op must allow that input in place.
    #[track_caller]
    pub fn call_in_place(
        &self,
        op: &dyn Op,
        operand: usize,
        target: &mut TensorMut<'_>,
        inputs: &[TensorRef<'_>],
    ) -> Result<(), Error> {
        self.call_updating(op, &[operand], std::slice::from_mut(target), inputs)
    }

    /// Calls an op whose outputs are the inputs `operands` themselves, in order (in-place update of several tensors at
    /// once, such as a parameter and its moments). `inputs` are the other inputs, in order.
    ///
    /// # Errors
    /// As [`Engine::call`]; the op must allow those inputs in place.
    #[track_caller]
    pub fn call_updating(
        &self,
        op: &dyn Op,
        operands: &[usize],
        targets: &mut [TensorMut<'_>],
        inputs: &[TensorRef<'_>],
    ) -> Result<(), Error> {
        if operands.len() != targets.len() {
            let rule = Rule::Outputs { expected: operands.len(), got: targets.len() };
            return Err(rule.of(op.name(), &[], Some(self.device()), Some(Location::caller())).into());
        }
        let output_of = |input| operands.iter().position(|&o| o == input);
        self.sharing(op, operands.len(), output_of, targets, inputs, Location::caller())
    }

    /// Calls an op some of whose outputs are inputs: each pair of `shared` is an input and the output that aliases it.
    /// `inputs` are the other inputs, in order.
    ///
    /// # Errors
    /// As [`Engine::call`]; the op must allow those inputs in place.
    #[track_caller]
    pub fn call_sharing(
        &self,
        op: &dyn Op,
        shared: &[(usize, usize)],
        outputs: &mut [TensorMut<'_>],
        inputs: &[TensorRef<'_>],
    ) -> Result<(), Error> {
        let output_of = |input| shared.iter().find(|s| s.0 == input).map(|s| s.1);
        self.sharing(op, shared.len(), output_of, outputs, inputs, Location::caller())
    }

    /// A call whose `shared` inputs alias outputs, as `output_of` maps them, with the others in `inputs`.
    fn sharing(
        &self,
        op: &dyn Op,
        shared: usize,
        output_of: impl Fn(usize) -> Option<usize>,
        outputs: &[TensorMut<'_>],
        inputs: &[TensorRef<'_>],
        at: &'static Location<'static>,
    ) -> Result<(), Error> {
        let count = inputs.len() + shared;
        let mut rest = inputs.iter();
        let input = |i| match output_of(i) {
            Some(j) => {
                let output = outputs.get(j).ok_or(Rule::Outputs { expected: j + 1, got: outputs.len() })?;
                Ok(output.as_ref())
            }
            None => rest
                .next()
                .copied()
                .ok_or_else(|| Rule::Arity { takes: format!("{count} arguments"), got: i }),
        };
        self.bind(op, count, input, outputs, at)
    }

    /// Calls an op on operands of this engine: `count` inputs as `input` gives them, in order, and the outputs.
    fn bind<'t>(
        &self,
        op: &dyn Op,
        count: usize,
        mut input: impl FnMut(usize) -> Result<TensorRef<'t>, Rule>,
        outputs: &[TensorMut<'_>],
        at: &'static Location<'static>,
    ) -> Result<(), Error> {
        // Pushed one by one in place: a collected list would be moved there afterwards, with its whole capacity.
        let (mut ins, mut outs) = (Inputs::new(), Destinations::new());
        let mut stranger = None;
        let mut own = |operand: usize, device: &Arc<dyn Device>| {
            if stranger.is_none() && !Arc::ptr_eq(device, &self.device) {
                stranger = Some(Rule::Device { operand, found: device.kind(), expected: self.device() });
            }
        };
        let mut collect = || {
            if count > check::MAX_INPUTS {
                let takes = format!("at most {} arguments in an eager call", check::MAX_INPUTS);
                return Err(Rule::Arity { takes, got: count });
            }
            if outputs.len() > MAX_OUTPUTS {
                return Err(Rule::Outputs { expected: MAX_OUTPUTS, got: outputs.len() });
            }
            for i in 0..count {
                let view = input(i)?;
                own(i, view.device());
                ins.push(*view.operand());
            }
            for (j, output) in outputs.iter().enumerate() {
                own(count + j, output.device());
                outs.push(*output.operand());
            }
            Ok(())
        };
        let collected = collect();
        let done = match (collected, stranger) {
            (Err(rule), _) | (Ok(()), Some(rule)) => Err(Issue::Rule(rule)),
            (Ok(()), None) => self.issue(op, &ins, &outs),
        };
        done.map_err(|e| match e {
            Issue::Rule(rule) => {
                let specs: Vec<Spec> = ins.iter().map(Operand::spec).collect();
                rule.of(op.name(), &specs, Some(self.device()), Some(at)).into()
            }
            Issue::Fault(error) => error,
        })
    }

    /// The checked launch with the engine's workspace.
    pub(crate) fn issue(&self, op: &dyn Op, inputs: &[Operand], outputs: &[Operand]) -> Result<(), Issue> {
        if let Some(done) = self.device.repeat(op, inputs, outputs) {
            return done.map_err(Issue::Fault);
        }
        let mut specs = ArrayVec::<Spec, { check::MAX_INPUTS }>::new();
        inputs.iter().for_each(|i| specs.push(i.spec()));
        check::call(op, &specs, inputs, outputs).map_err(Issue::Rule)?;
        let kernel = check::kernel(op, self.device(), &specs).map_err(Issue::Rule)?;
        let needed = (kernel.workspace)(op, &specs);
        let launch = Launch { op, kernel, inputs, outputs, workspace: Address(0), workspace_bytes: needed };
        if needed == 0 {
            return self.device.call(&launch).map_err(Issue::Fault);
        }
        // Held while the launch is issued: two concurrent calls must not use the same workspace.
        let slot = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved = slot.as_ref().map_or(0, Buffer::bytes);
        if needed > reserved {
            return Err(Issue::Rule(Rule::Workspace { needed, reserved }));
        }
        let workspace = slot.as_ref().map_or(Address(0), Buffer::address);
        let all = Operand { base: workspace, dtype: DType::U8, layout: Layout::contiguous([needed].into()) };
        let mut operands = inputs.iter().chain(outputs).enumerate();
        if let Some((operand, met)) = operands.find(|(_, o)| o.relation(&all) != Relation::Disjoint) {
            return Err(Issue::Rule(Rule::WorkspaceOverlaps { operand, bytes: met.overlap(&all) }));
        }
        self.device.launch(&Launch { workspace, ..launch }).map_err(Issue::Fault)
    }
}

/// Why a checked launch did not run.
pub(crate) enum Issue {
    /// A rule was violated; nothing ran.
    Rule(Rule),
    /// The device failed.
    Fault(Error),
}

/// The operands of an eager call, inline: it allocates nothing.
type Inputs = ArrayVec<Operand, { check::MAX_INPUTS }>;
type Destinations = ArrayVec<Operand, { MAX_OUTPUTS }>;

/// The unroll factor that `LANDFALL_UNROLL` sets.
fn asked_unroll() -> Result<Option<usize>, Error> {
    if let Ok(value) = std::env::var("LANDFALL_ABREAST") {
        return Err(Error::Setting {
            name: "LANDFALL_ABREAST",
            value,
            expected: "not set: its name is LANDFALL_UNROLL",
        });
    }
    let Ok(value) = std::env::var("LANDFALL_UNROLL") else { return Ok(None) };
    match value.parse() {
        Ok(times) if times > 0 => Ok(Some(times)),
        Ok(_) | Err(_) => Err(Error::Setting {
            name: "LANDFALL_UNROLL",
            value,
            expected: "a number of at least 1, or not set",
        }),
    }
}
