//! Where the time of a run goes: each instruction with its launches, bytes, operations, and the time that the device needs
//! for those at least.

mod json;
mod rates;
mod table;

pub use json::trace;
pub use rates::{ProductRate, Rates};
pub use table::Group;

use super::run::Program;
use crate::contract::Cost;
use crate::device::times::{Times, median};
use crate::device::{LaunchList, RecordedLaunch, Recording};
use crate::engine::{Engine, State, hold};
use crate::error::Error;
use crate::lower::Arg;
use crate::values::{Operand, Spec};
use std::time::{Duration, Instant};

pub use crate::device::times::{Node, Timed};

/// Where the time of a run of a program goes ([`Program::profile`]). Its [`Display`](std::fmt::Display) is a table,
/// [`trace`] a timeline, and its serialization has every node.
///
/// A run is memory traffic and arithmetic, and takes at least its **floor**: the larger of `bytes / copy rate` and
/// `operations / product rate`, of each instruction. Both rates are measured on the same device in the same way
/// ([`Rates`]), and the **distance** of an instruction is its time divided by its floor. A distance below 1 is possible:
/// bytes that are still in a cache are read faster than a large copy reads them.
///
/// ```
/// use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// let engine = Engine::cpu()?;
/// let nothing = std::sync::Arc::new(StateSpec::new());
/// let mut state = State::new(&engine, &nothing)?;
/// let g = Graph::new(&nothing);
/// let x = g.input("x", DType::F32, [64, 64]);
/// g.output("y", g.softmax(g.matmul(x, x)?, -1)?);
/// let mut program = Program::compile(&engine, &state, "layer", &g)?;
/// program.write("x", &[0.0f32; 64 * 64])?;
///
/// let profile = program.profile(&mut state, 5)?;
/// println!("{profile}");
/// let product = profile.rows.iter().find(|row| row.op == "matmul").expect("a product");
/// assert_eq!(product.cost.flops, 2 * 64 * 64 * 64);
/// assert_eq!(profile.cost(), program.cost());
/// let timeline = landfall::profile::trace([("layer", &profile)]); // a file for Perfetto
/// assert!(timeline.starts_with('{'));
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name of the program.
    pub program: String,
    /// The device, with the versions of its driver and libraries.
    pub device: String,
    /// How the nodes were timed.
    pub timed: Timed,
    /// The number of runs that each time is the median of.
    pub runs: usize,
    /// Time of one ordinary run ([`Program::run`]). On a GPU nodes that do not depend on each other run at once, and a node
    /// starts while the previous one ends, so this may be less than the sum of the nodes.
    pub step: Duration,
    /// What is measured where nothing is done. It is not subtracted from any time.
    pub resolution: Duration,
    /// The rates that floors are computed with.
    pub rates: Rates,
    /// One row for each instruction of a run, in issue order; an instruction of a loop body has one for each iteration.
    pub rows: Vec<Row>,
}

/// An instruction of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number in the program.
    pub instruction: usize,
    /// Name of the op.
    pub op: &'static str,
    /// The op's kernel.
    pub kernel: &'static str,
    /// Names of its outputs.
    pub names: Vec<String>,
    /// Dtypes and shapes of its inputs.
    pub inputs: Vec<Spec>,
    /// Dtypes and shapes of its outputs.
    pub outputs: Vec<Spec>,
    /// Its launches, in order: one on a CPU; on a GPU the nodes of the graph, of which an instruction may have none or several. Of
    /// instructions that one kernel does, a segment or a group, the first has its node.
    pub nodes: Vec<Node>,
    /// Bytes and operations of the whole instruction.
    pub cost: Cost,
    /// The time that the device needs for these at least.
    pub floor: Duration,
}

impl Row {
    /// The time of its launches.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.nodes.iter().map(|node| node.time).sum()
    }
}

/// A count in a nanosecond, so that bytes become GB/s and operations GFLOP/s; 0 where no time was measured.
fn per_ns(count: usize, time: Duration) -> f64 {
    let ns = time.as_secs_f64() * 1e9;
    if ns > 0.0 { count as f64 / ns } else { 0.0 }
}

/// How many times the floor a time is; `None` without a floor.
fn distance(time: Duration, floor: Duration) -> Option<f64> {
    (!floor.is_zero()).then(|| time.as_secs_f64() / floor.as_secs_f64())
}

impl Profile {
    /// The sum of the nodes' times: what a run takes in which one follows the other.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.rows.iter().map(Row::time).sum()
    }

    /// Bytes and operations of a run.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.rows.iter().fold(Cost::default(), |sum, row| sum + row.cost)
    }

    /// The sum of the floors of a run.
    #[must_use]
    pub fn floor(&self) -> Duration {
        self.rows.iter().map(|row| row.floor).sum()
    }

    /// The number of launches of a run.
    #[must_use]
    pub fn launches(&self) -> usize {
        self.rows.iter().map(|row| row.nodes.len()).sum()
    }
}

impl Program {
    /// Times a run and each of its nodes over `runs` runs (at least one), medians, and measures the device's [`Rates`].
    ///
    /// On a GPU nodes are timed by events in a replay of a second graph: the nodes of the program's own, each after the one
    /// before it. Where the driver refuses such a graph, the host issues the launches one by one with events between them
    /// ([`Timed`]). On a CPU each launch is timed by the host's clock.
    ///
    /// All runs are real ones: they advance the state as [`Program::run`] does, and [`Program::runs`] counts them. They are
    /// `2·(runs + 1)`: ordinary replays, then timed runs, each after one warm-up run.
    ///
    /// # Errors
    /// As [`Program::run`]; [`Error::Capture`] while another library captures the stream; [`Error::Memory`] if there is no
    /// room for what the rates are measured on.
    pub fn profile(&mut self, state: &mut State, runs: usize) -> Result<Profile, Error> {
        self.ready(state)?;
        let runs = runs.max(1);
        let hardware = self.engine.handle().hardware()?;
        let versions = if hardware.driver.is_empty() { "" } else { ", " };
        let device = format!("{}{versions}{}", hardware.name, hardware.driver);
        let rates = Rates::measure(&self.engine, &self.list)?;
        let times = hold(&self.gates, || times(&self.engine, self.recording.as_ref(), &self.list, runs))?;
        self.runs += times.runs;
        let rows = self.list.repeat.sequence(self.list.launches.len()).zip(times.launches);
        let rows = rows.map(|(instruction, nodes)| {
            let (launch, lowered) =
                (&self.list.launches[instruction], &self.lowered.instructions[instruction]);
            let specs = |operands: &[Operand]| operands.iter().map(Operand::spec).collect::<Vec<Spec>>();
            let (inputs, outputs) = (specs(&launch.inputs), specs(&launch.outputs));
            let cost = Cost::of(launch.op.as_ref(), &inputs);
            let name = |of: &Arg| self.lowered.values[of.value.0].name.clone();
            Row {
                instruction,
                op: launch.op.name(),
                kernel: launch.kernel.name,
                names: lowered.outputs.iter().map(name).collect(),
                inputs,
                outputs,
                nodes,
                cost,
                floor: rates.floor(cost, launch),
            }
        });
        Ok(Profile {
            program: self.name().to_owned(),
            device,
            timed: times.timed,
            runs,
            step: times.whole,
            resolution: times.resolution,
            rows: rows.collect(),
            rates,
        })
    }
}

/// The times of a recorded list: the device's, or by the host's clock where a launch is complete when its call returns.
fn times(engine: &Engine, recording: &dyn Recording, list: &LaunchList, runs: usize) -> Result<Times, Error> {
    match recording.timed(runs)? {
        Some(times) => Ok(times),
        // Inside, as in a replay, launches find the engine's threads ready.
        None => engine.enter(|| by_host(engine, recording, list, runs)),
    }
}

fn by_host(
    engine: &Engine,
    recording: &dyn Recording,
    list: &LaunchList,
    runs: usize,
) -> Result<Times, Error> {
    let (mut whole, mut empty) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    let mut samples = vec![Vec::new(); list.repeat.count(list.launches.len())];
    // The first of each is the warm-up.
    for run in 0..=runs {
        let start = Instant::now();
        recording.replay()?;
        let time = start.elapsed();
        if run > 0 {
            whole.push(time);
        }
    }
    for run in 0..=runs {
        let start = Instant::now();
        let mut last = Instant::now();
        if run > 0 {
            empty.push(last - start);
        }
        for (launch, samples) in list.sequence().zip(&mut samples) {
            engine.handle().launch(&launch.as_launch())?;
            let now = Instant::now();
            if run > 0 {
                samples.push(now - last);
            }
            last = now;
        }
    }
    let node = |(launch, samples): (&RecordedLaunch, Vec<Duration>)| {
        vec![Node { kernel: launch.kernel.name, time: median(samples) }]
    };
    Ok(Times {
        timed: Timed::Host,
        whole: median(whole),
        resolution: median(empty),
        launches: list.sequence().zip(samples).map(node).collect(),
        runs: 2 * (1 + runs as u64),
    })
}
