//! A compiled program on a device.

use super::arena::Arena;
use super::compile::ProgramSet;
use super::list::launch_list;
use crate::contract::{Cost, Graph};
use crate::device::{LaunchList, RecordedLaunch, Recording};
use crate::engine::{Engine, Gate, State, StateMemory, View, hold};
use crate::error::Error;
use crate::lower::{Arg, Home, Lowered, root};
use crate::plan::{Plan, Report};
use crate::values::{Address, Block, DType, Element, HostTensor, Operand, Rule, Spec, StoredId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The memory of inputs and outputs.
pub(super) type Own = HashMap<StoredId, View>;

/// A planned, verified and recorded step. It owns its memory for its whole lifetime; running it allocates nothing.
#[derive(Debug)]
pub struct Program {
    pub(super) engine: Engine,
    name: String,
    pub(super) lowered: Lowered,
    plan: Plan,
    state: Arc<StateMemory>,
    // Field order is drop order: the recording is dropped before the memory that it points to.
    pub(super) recording: Box<dyn Recording>,
    pub(super) list: LaunchList,
    arena: Arc<Arena>,
    /// The memory of inputs and outputs: the program's, or what was bound.
    pub(super) own: Own,
    pub(super) gates: Vec<Gate>,
    /// Inputs that were never written.
    pub(super) unwritten: BTreeSet<String>,
    pub(super) runs: u64,
}

/// A planned program with its memory, not recorded yet.
pub(super) struct Placed {
    name: String,
    lowered: Lowered,
    plan: Plan,
    arena: Arc<Arena>,
    own: Own,
    pub(super) list: LaunchList,
}

impl Placed {
    /// Allocates the memory of inputs and outputs, and gives the launches their addresses.
    pub(super) fn new(
        engine: &Engine,
        state: &State,
        name: String,
        lowered: Lowered,
        plan: Plan,
        arena: Arc<Arena>,
    ) -> Result<Self, Error> {
        let mut own = Own::new();
        for (v, value) in lowered.values.iter().enumerate().filter(|(_, v)| v.home == Home::Own) {
            own.insert(StoredId(v), View::from(engine.empty(value.spec.dtype, value.spec.shape)?));
        }
        let list = addressed(&lowered, &plan, &arena, state.memory(), &own);
        Ok(Self { name, lowered, plan, arena, own, list })
    }
}

impl Program {
    /// Compiles one graph with its own arena.
    ///
    /// # Errors
    /// As [`ProgramSet::add`] and [`ProgramSet::build`].
    pub fn compile(engine: &Engine, state: &State, name: &str, graph: &Graph) -> Result<Self, Error> {
        let mut set = ProgramSet::new(engine, state);
        set.add(name, graph)?;
        let none = Error::NoBinding { kind: "program", name: name.to_owned(), known: String::new() };
        set.build()?.pop().ok_or(none)
    }

    /// Records a program that has its memory.
    pub(super) fn record(engine: &Engine, state: &State, placed: Placed) -> Result<Self, Error> {
        let Placed { name, lowered, plan, arena, own, list } = placed;
        // What nobody reads, or holds nothing, need not be written.
        let args = lowered.instructions.iter().flat_map(|i| &i.inputs);
        let read: HashSet<StoredId> =
            args.chain(lowered.outputs.iter().map(|(_, a)| a)).map(|a| a.value).collect();
        let needed = |v: &StoredId| read.contains(v) && lowered.values[v.0].spec.bytes() > 0;
        let inputs = lowered.inputs.iter().filter(|(_, v)| needed(v)).map(|(name, _)| name.clone()).collect();
        let recording = Arc::clone(engine.handle()).record(list.clone())?;
        let gates = gates(&lowered, &own);
        Ok(Self {
            engine: engine.clone(),
            name,
            gates,
            lowered,
            plan,
            state: Arc::clone(state.memory()),
            recording,
            list,
            arena,
            own,
            unwritten: inputs,
            runs: 0,
        })
    }

    /// Runs the recorded program on its state: no allocation, no host write, one replay.
    ///
    /// # Errors
    /// [`Error::ForeignState`] for another state; [`Error::Unwritten`] for an input that was never written; [`Error::Index`] if
    /// an output in memory that another library reads depends on an index out of range ([`View::hand_out`]); a device fault,
    /// with the kernel's name.
    pub fn run(&mut self, state: &mut State) -> Result<(), Error> {
        self.ready(state)?;
        hold(&self.gates, || self.recording.replay())?;
        self.ran()
    }

    /// As [`Program::run`], of a program that only reads its state: several threads then run programs of their own on one state at
    /// the same time, and nobody can write it meanwhile, as that takes `&mut State`.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec};
    /// use std::sync::Arc;
    /// let engine = Engine::cpu()?;
    /// let mut spec = StateSpec::new();
    /// spec.add("weights", DType::F32, &[("w".to_owned(), [2].into())])?;
    /// let spec = Arc::new(spec);
    /// let mut state = State::new(&engine, &spec)?;
    /// state.write("w", &[2.0f32, 3.0])?;
    /// let g = Graph::new(&spec);
    /// g.output("y", g.mul(g.input("x", DType::F32, [2]), g.entry("w")?)?);
    /// let programs = (0..2).map(|_| Program::compile(&engine, &state, "scale", &g)).collect::<Result<Vec<_>, _>>()?;
    ///
    /// let weights = Arc::new(state); // read by all, written by none
    /// let threads = programs.into_iter().enumerate().map(|(n, mut program)| {
    ///     let weights = Arc::clone(&weights);
    ///     std::thread::spawn(move || {
    ///         program.write("x", &[n as f32; 2])?;
    ///         program.run_shared(&weights)?;
    ///         program.read::<f32>("y")
    ///     })
    /// });
    /// let results: Vec<_> = threads.map(|thread| thread.join().expect("no panic")).collect::<Result<_, landfall::Error>>()?;
    /// assert_eq!(results, [[0.0, 0.0], [2.0, 3.0]]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Program::run`]; [`Error::Shared`] for a program that writes an entry of the state, or that shares its arena with others of
    /// a [`ProgramSet`](crate::ProgramSet).
    pub fn run_shared(&mut self, state: &State) -> Result<(), Error> {
        let refused = |why: String| Err(Error::Shared { program: self.name.clone(), why });
        let written = self.lowered.instructions.iter().find_map(|i| {
            let (root, _) = i
                .outputs
                .iter()
                .map(|o| root(&self.lowered, o.value))
                .find(|(root, _)| matches!(self.lowered.values[root.0].home, Home::Slab(_)))?;
            Some((i.op.name(), &self.lowered.values[root.0].name))
        });
        if let Some((op, slab)) = written {
            return refused(format!(
                "its {op} writes the slab {slab}; Program::run takes the state for itself"
            ));
        }
        if Arc::strong_count(&self.arena) > 1 {
            return refused(
                "its arena is that of other programs of its set too; compile it by itself, with Program::compile".to_owned(),
            );
        }
        self.ready(state)?;
        hold(&self.gates, || self.recording.replay())?;
        self.ran()
    }

    /// A run was issued: the faults of outputs that another library would not see.
    fn ran(&mut self) -> Result<(), Error> {
        self.runs += 1;
        self.own
            .iter()
            .filter(|(v, _)| !self.lowered.values[v.0].initial)
            .try_for_each(|(_, view)| view.told())
    }

    /// Runs the program by issuing each instruction through the checked launch of eager calls. Gives the same bytes as
    /// [`Program::run`].
    ///
    /// # Errors
    /// As [`Program::run`]; a rule that an instruction violates.
    pub fn issue(&mut self, state: &mut State) -> Result<(), Error> {
        self.each(state, |_, _| Ok(()))
    }

    /// Runs the program by issuing its prepared launches one by one, unchecked, with one driver call each on a GPU.
    /// Gives the same bytes as [`Program::run`]; the baseline of benches.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn reissue(&mut self, state: &mut State) -> Result<(), Error> {
        self.ready(state)?;
        hold(&self.gates, || self.recording.reissue())?;
        self.ran()
    }

    /// Issues instruction by instruction and stops at the first floating-point value with a non-finite element.
    ///
    /// # Errors
    /// [`Error::NonFinite`] names it; otherwise as [`Program::issue`].
    pub fn find_non_finite(&mut self, state: &mut State) -> Result<(), Error> {
        let engine = self.engine.clone();
        self.each(state, |launch, name| {
            for (o, name) in launch.outputs.iter().zip(name).filter(|(o, _)| o.dtype.is_float()) {
                let values = read_operand(&engine, o)?;
                if let Some((element, &value)) = values.data.iter().enumerate().find(|(_, x)| !x.is_finite())
                {
                    return Err(Error::NonFinite {
                        name: name.clone(),
                        op: launch.op.name(),
                        element,
                        value,
                    });
                }
            }
            Ok(())
        })
    }

    fn each(
        &mut self,
        state: &mut State,
        mut then: impl FnMut(&RecordedLaunch, &[String]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.ready(state)?;
        hold(&self.gates, || {
            for k in self.list.repeat.sequence(self.list.launches.len()) {
                let (launch, i) = (&self.list.launches[k], &self.lowered.instructions[k]);
                crate::contract::check::aliasing(launch.op.as_ref(), &launch.inputs, &launch.outputs)
                    .map_err(|rule| self.fail(launch, i.at, rule))?;
                self.engine.handle().launch(&launch.as_launch())?;
                let names: Vec<String> =
                    i.outputs.iter().map(|o| self.lowered.values[o.value.0].name.clone()).collect();
                then(launch, &names)?;
            }
            Ok::<(), Error>(())
        })?;
        self.ran()
    }

    /// Records the program with its inputs and outputs in this memory.
    pub(super) fn record_at(&mut self, own: Own) -> Result<(), Error> {
        let list = addressed(&self.lowered, &self.plan, &self.arena, &self.state, &own);
        self.recording = Arc::clone(self.engine.handle()).record(list.clone())?;
        (self.list, self.gates) = (list, gates(&self.lowered, &own));
        self.own = own;
        Ok(())
    }

    fn fail(
        &self,
        launch: &RecordedLaunch,
        at: Option<&'static std::panic::Location<'static>>,
        rule: Rule,
    ) -> Error {
        let specs: Vec<Spec> = launch.inputs.iter().map(Operand::spec).collect();
        rule.of(launch.op.name(), &specs, Some(self.engine.device()), at).into()
    }

    /// That it can run on this state: no input runs as what its memory happens to hold.
    pub(super) fn ready(&self, state: &State) -> Result<(), Error> {
        self.owns(state)?;
        match self.unwritten.first() {
            None => Ok(()),
            Some(input) => Err(Error::Unwritten { program: self.name.clone(), input: input.clone() }),
        }
    }

    fn owns(&self, state: &State) -> Result<(), Error> {
        if state.memory().id == self.state.id { Ok(()) } else { Err(Error::ForeignState) }
    }

    /// Sets every byte of the arena and of the outputs: 0xFF is NaN in every float dtype. Runs do not depend on it.
    ///
    /// # Errors
    /// [`Error::ForeignState`] for another state (it guards the arena of programs that were built together); a device
    /// fault.
    pub fn poison(&mut self, state: &mut State, byte: u8) -> Result<(), Error> {
        self.owns(state)?;
        let device = self.engine.handle();
        self.arena.fill(device, byte)?;
        let mut outputs = self.own.iter().filter(|(v, _)| !self.lowered.values[v.0].initial);
        outputs.try_for_each(|(_, v)| {
            hold(&[Gate::of(v, true)], || device.fill(v.operand().base, v.spec().bytes(), byte))
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of runs so far.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Its memory plan.
    #[must_use]
    pub fn report(&self) -> Report {
        let bytes = self.state.spec.slabs().iter().map(|s| s.elements * s.dtype.size()).sum();
        Report::new(&self.lowered, &self.plan, bytes, self.engine.device())
    }

    /// Names of the ops of its instructions, in issue order.
    pub fn ops(&self) -> impl Iterator<Item = &'static str> {
        self.list.launches.iter().map(|launch| launch.op.name())
    }

    /// The recorded launches, each once.
    pub(crate) fn launches(&self) -> &[RecordedLaunch] {
        &self.list.launches
    }

    /// Bytes moved and operations of one run: the sum of its instructions' costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.list.sequence().fold(Cost::default(), |sum, launch| {
            let specs: Vec<Spec> = launch.inputs.iter().map(Operand::spec).collect();
            sum + Cost::of(launch.op.as_ref(), &specs)
        })
    }

    pub(super) fn input(&self, name: &str) -> Result<StoredId, Error> {
        let found = self.lowered.inputs.iter().find(|(n, _)| n == name);
        found
            .map(|(_, id)| *id)
            .ok_or_else(|| self.unknown("input", name, self.lowered.inputs.iter().map(|(n, _)| n)))
    }

    pub(super) fn output(&self, name: &str) -> Result<&Arg, Error> {
        let found = self.lowered.outputs.iter().find(|(n, _)| n == name);
        found
            .map(|(_, a)| a)
            .ok_or_else(|| self.unknown("output", name, self.lowered.outputs.iter().map(|(n, _)| n)))
    }

    fn unknown<'n>(&self, kind: &'static str, name: &str, known: impl Iterator<Item = &'n String>) -> Error {
        Error::NoBinding { kind, name: name.to_owned(), known: known.cloned().collect::<Vec<_>>().join(", ") }
    }

    /// Writes an input for the next run.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; [`Error::HostData`] if dtype or number of elements differ; a device fault.
    pub fn write<T: Element>(&mut self, name: &str, data: &[T]) -> Result<(), Error> {
        let v = self.input(name)?;
        let spec = self.lowered.values[v.0].spec;
        let fits = T::DTYPE == spec.dtype || (T::DTYPE == DType::U8 && spec.dtype == DType::Bool);
        let Some(view) = self.own.get(&v).filter(|_| fits && data.len() == spec.shape.elements()) else {
            let given = Spec::new(T::DTYPE, [data.len()]);
            return Err(Error::HostData { what: format!("input {name}"), expected: spec, given });
        };
        view.write_bytes(bytemuck::cast_slice(data))?;
        self.unwritten.remove(name);
        Ok(())
    }

    /// The operand of an output of the last run.
    fn result(&self, name: &str) -> Result<Operand, Error> {
        let arg = self.output(name)?;
        let stale = || Error::Stale { what: format!("output {name}") };
        if self.runs == 0 {
            return Err(Error::NotRun { what: format!("output {name}") });
        }
        let place = self.plan.places[arg.value.0];
        let base = match place.block {
            Block::Slab(s) => self.state.slab(s),
            Block::Own(o) => start(&self.own, o),
            Block::Arena => return Err(stale()),
        };
        Ok(Operand { base: base.offset(place.offset), dtype: arg.dtype, layout: arg.layout })
    }

    /// Copies an output of the last run to the host as `f64`.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; [`Error::NotRun`] before the first run; [`Error::Stale`] after that of another program; a flagged index; a device fault.
    pub fn read_host(&self, name: &str) -> Result<HostTensor, Error> {
        let result = self.result(name)?;
        hold(&self.gates, || read_operand(&self.engine, &result))
    }

    /// Copies an output of the last run to the host.
    ///
    /// # Errors
    /// As [`Program::read_host`], and [`Error::HostData`] if `T` is not its dtype.
    pub fn read<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let operand = self.result(name)?;
        let spec = operand.spec();
        if T::DTYPE != spec.dtype && !(T::DTYPE == DType::U8 && spec.dtype == DType::Bool) {
            let given = Spec { dtype: T::DTYPE, ..spec };
            return Err(Error::HostData { what: format!("output {name}"), expected: spec, given });
        }
        let span = operand.layout.span();
        let mut flat = vec![T::from_f64(0.0); span.len()];
        hold(&self.gates, || self.engine.handle().download(&operand, bytemuck::cast_slice_mut(&mut flat)))?;
        let layout = operand.layout.at_origin();
        if layout.is_contiguous() {
            return Ok(flat);
        }
        Ok((0..spec.shape.elements()).map(|i| flat[layout.index_flat(i)]).collect())
    }
}

/// The launches with the addresses of their operands.
fn addressed(lowered: &Lowered, plan: &Plan, arena: &Arena, state: &StateMemory, own: &Own) -> LaunchList {
    launch_list(lowered, plan, |block, offset| match block {
        Block::Arena => arena.address(offset),
        Block::Slab(s) => state.slab(s).offset(offset),
        Block::Own(o) => start(own, o).offset(offset),
    })
}

/// The gates of what a run reads and writes, which a view may share with others.
fn gates(lowered: &Lowered, own: &Own) -> Vec<Gate> {
    let written = lowered.written();
    let mut gates: Vec<Gate> = own.iter().map(|(id, view)| Gate::of(view, written.contains(id))).collect();
    Gate::sort(&mut gates);
    gates
}

/// The first byte of an input's or output's memory.
fn start(own: &Own, of: StoredId) -> Address {
    own.get(&of).map_or(Address(0), |view| Address(view.address()))
}

/// The elements of an operand on the host, row-major.
fn read_operand(engine: &Engine, operand: &Operand) -> Result<HostTensor, Error> {
    let span = operand.layout.span();
    let mut bytes = vec![0; span.len() * operand.dtype.size()];
    engine.handle().download(operand, &mut bytes)?;
    let spec = Spec::new(operand.dtype, [span.len()]);
    let flat = HostTensor::from_bytes(spec, &bytes)?;
    let layout = operand.layout.at_origin();
    Ok(flat.picked(operand.spec().shape, |i| layout.index_flat(i)))
}
