//! The autotuner: which of an op's kernels is the fastest for an instruction, where it has several.
//!
//! It runs when it is asked to and never else. What it is given are [`TuningCase`]s: instructions without their memory. Each
//! trial works in private memory between guard bands: operands lie, overlap and are updated in it as the program's are,
//! and hold numbers made for the purpose, valid indices where the op reads any. Before each launch what a launch wrote is
//! restored. So no trial can reach what a program or a person holds, whatever shares memory with what.
//!
//! A candidate is first run as under the sanitizer: poisoned memory wherever it may not read, twice, guard bands and read
//! operands unchanged after. Its whole outputs are compared with those of the op's own choice; one that differs by more
//! than rounding is rejected and reported. The others are timed in turn, with cold caches, several times; one is chosen
//! only if it is faster than the op's own choice by more than the noise.
//!
//! The choice is a name: programs take it from [`Engine::with_choices`], plans show it, a run keeps it, and the
//! [`Cache`] holds it on disk. An entry of the cache is not believed: its kernel is run against the op's own choice
//! before it is pinned.

mod cache;
mod case;
mod trial;

pub use crate::engine::Choices;
pub use cache::{Cache, Notice};
pub use case::TuningCase;

use crate::contract::{Kernel, check};
use crate::device::{Device, Hardware};
use crate::engine::{Buffer, Engine};
use crate::error::Error;
use crate::values::{Address, DeviceKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trial::Bench;

/// Launches of each candidate that are timed.
const ROUNDS: usize = 9;
/// What of the time must be gained at least: less is not worth another order of sums.
const GAIN: f64 = 0.03;

/// What the tuner found.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// A kernel for every instruction that has several.
    pub choices: Choices,
    /// How each was found.
    pub rows: Vec<Row>,
    /// What a person has to know of.
    pub notices: Vec<Notice>,
}

/// How the kernel of an instruction was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The instruction, as [`Choices`] names it.
    pub instruction: String,
    /// How many instructions of the programs it stands for.
    pub count: usize,
    /// The op's own choice first.
    pub candidates: Vec<Candidate>,
    /// Which of them was chosen.
    pub chosen: usize,
    /// Whether the cache had it, and a trial confirmed it.
    pub cached: bool,
}

/// A kernel that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Its name.
    pub kernel: String,
    /// What became of it.
    pub verdict: Verdict,
}

impl Candidate {
    /// Whether it does not give the right results.
    #[must_use]
    pub fn rejected(&self) -> bool {
        matches!(self.verdict, Verdict::Rejected(_))
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It gives the right results, in this many microseconds (the median).
    Microseconds(f64),
    /// It gives the right results and was not timed.
    Right,
    /// It does not, for this reason.
    Rejected(String),
    /// It was not tried, because the cache had a choice.
    Untried,
}

/// Finds a kernel for every case that has several: from the cache, if there is one and its choice still gives the right
/// results, else by trials, whose choice the cache then keeps. With `again` the cache is written and not read.
///
/// ```
/// use landfall::{DType, Engine, Graph, Program, State, StateSpec, tune};
/// use std::sync::Arc;
/// let engine = Engine::cpu_with_threads(1)?;
/// let spec = Arc::new(StateSpec::new());
/// let state = State::new(&engine, &spec)?;
/// let graph = Graph::new(&spec);
/// let (x, w) = (graph.input("x", DType::F32, [200, 8]), graph.input("w", DType::F32, [8, 8]));
/// graph.output("y", graph.matmul(x, w)?);
/// let plain = Program::compile(&engine, &state, "plain", &graph)?;
/// let tuned = tune::tune(&engine, &plain.tuning_cases(), None, false)?;
/// let pinned = Program::compile(&engine.with_choices(tuned.choices), &state, "pinned", &graph)?;
/// assert_eq!(pinned.report().instructions, plain.report().instructions);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// Not enough memory for a case's private copies; a device fault.
pub fn tune(
    engine: &Engine,
    cases: &[TuningCase],
    cache: Option<&Cache>,
    again: bool,
) -> Result<Tuned, Error> {
    // As a program's steps: the engine's threads are at hand, so that no hand-over is timed.
    engine.enter(|| search(engine, cases, cache, again))
}

fn search(engine: &Engine, cases: &[TuningCase], cache: Option<&Cache>, again: bool) -> Result<Tuned, Error> {
    let mut tuner = Tuner {
        device: engine.bare(),
        hardware: engine.bare().hardware()?,
        cache,
        again,
        tuned: Tuned { choices: Choices::of(engine)?, rows: Vec::new(), notices: Vec::new() },
    };
    if engine.device() == DeviceKind::Null {
        tuner.tuned.notices.push(Notice::Null);
        return Ok(tuner.tuned);
    }
    let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
    for case in cases {
        let group = groups.entry(case.exact()).or_default();
        group.count += 1;
        if !group.cases.iter().any(|p| p.same(case)) {
            group.cases.push(case);
        }
    }
    for (key, group) in groups {
        tuner.group(key, &group)?;
    }
    Ok(tuner.tuned)
}

/// Instructions of one key. Those that share memory otherwise are tried too: the choice is one for all.
#[derive(Default)]
struct Group<'a> {
    cases: Vec<&'a TuningCase>,
    count: usize,
}

struct Tuner<'a> {
    device: &'a Arc<dyn Device>,
    hardware: Hardware,
    cache: Option<&'a Cache>,
    again: bool,
    tuned: Tuned,
}

impl Tuner<'_> {
    fn group(&mut self, instruction: String, group: &Group<'_>) -> Result<(), Error> {
        let first = group.cases[0];
        let specs = first.specs();
        let kernels: Vec<&'static Kernel> =
            check::kernels(first.op.as_ref(), self.device.kind(), &specs).collect();
        let [own, _, ..] = kernels[..] else { return Ok(()) };
        let Some(spreads) = first.spreads() else {
            self.tuned.notices.push(Notice::NoDomain { instruction });
            return Ok(());
        };
        let bench = |p| Bench::new(p, self.device, own, &kernels, spreads);
        let benches: Vec<Bench<'_>> = group.cases.iter().copied().map(bench).collect::<Result<_, _>>()?;
        let known = self.known(first, &kernels);
        let (candidates, chosen, cached) = match confirmed(&benches, &kernels, known)? {
            Confirmed::Yes(chosen) => (untried(&kernels, chosen), chosen, true),
            Confirmed::No(why) => {
                if let Some(why) = why {
                    let instruction = instruction.clone();
                    self.tuned.notices.push(Notice::Stale { instruction, why });
                }
                let (candidates, chosen) = self.trials(&benches, &kernels)?;
                (candidates, chosen, false)
            }
        };
        let name = kernels[chosen].name;
        if let (Some(cache), false) = (self.cache, cached)
            && let Err(notice) = cache.put(&first.alike(), &self.hardware, name)
        {
            self.tuned.notices.push(notice);
        }
        self.tuned.choices.kernels.insert(instruction.clone(), name.to_owned());
        self.tuned.rows.push(Row { instruction, count: group.count, candidates, chosen, cached });
        Ok(())
    }

    /// The choice that the cache has; what is wrong with it becomes a notice.
    fn known(&mut self, case: &TuningCase, kernels: &[&'static Kernel]) -> Option<usize> {
        let cache = self.cache.filter(|_| !self.again)?;
        let instruction = case.alike();
        match cache.get(&instruction, &self.hardware) {
            Ok(None) => None,
            Ok(Some(name)) => {
                let found = kernels.iter().position(|k| k.name == name);
                if found.is_none() {
                    let why = format!("there is no kernel {name} for these operands");
                    self.tuned.notices.push(Notice::Stale { instruction, why });
                }
                found
            }
            Err(notice) => {
                self.tuned.notices.push(notice);
                None
            }
        }
    }

    /// Every candidate against the op's own choice; which one to take.
    fn trials(
        &self,
        benches: &[Bench<'_>],
        kernels: &[&'static Kernel],
    ) -> Result<(Vec<Candidate>, usize), Error> {
        let mut verdicts = vec![Verdict::Right];
        for kernel in &kernels[1..] {
            verdicts.push(differs(benches, kernel)?.map_or(Verdict::Right, Verdict::Rejected));
        }
        let right: Vec<usize> = (0..kernels.len()).filter(|&k| verdicts[k] == Verdict::Right).collect();
        // Larger than the caches by as much again: nothing of an operand is left in them.
        let flush = Buffer::new(self.device, 2 * self.hardware.cache.max(1))?;
        let timed: Vec<&'static Kernel> = right.iter().map(|&k| kernels[k]).collect();
        let flush: (Address, usize) = (flush.address(), flush.bytes());
        let times = benches[0].times(&timed, ROUNDS, flush)?;
        for (&k, times) in right.iter().zip(&times) {
            verdicts[k] = Verdict::Microseconds(quartiles(times)[1].as_secs_f64() * 1e6);
        }
        let mut chosen = right[faster(&times)];
        // Once more after all those launches: also what only some of them do wrong has left its traces by now.
        if let Some(why) = differs(benches, kernels[chosen])? {
            if chosen == 0 {
                return Err(Error::Untunable { instruction: benches[0].instruction(), why });
            }
            (verdicts[chosen], chosen) = (Verdict::Rejected(why), 0);
        }
        let candidate =
            |(k, verdict): (&&'static Kernel, Verdict)| Candidate { kernel: k.name.to_owned(), verdict };
        Ok((kernels.iter().zip(verdicts).map(candidate).collect(), chosen))
    }
}

/// Whether a candidate differs from the op's own choice in any of the ways to share memory.
fn differs(benches: &[Bench<'_>], kernel: &'static Kernel) -> Result<Option<String>, Error> {
    for bench in benches {
        if let Some(why) = bench.differs(kernel)? {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

enum Confirmed {
    Yes(usize),
    /// With the reason, where there was a choice.
    No(Option<String>),
}

/// Runs a choice of the cache against the op's own.
fn confirmed(
    benches: &[Bench<'_>],
    kernels: &[&'static Kernel],
    known: Option<usize>,
) -> Result<Confirmed, Error> {
    let Some(known) = known else { return Ok(Confirmed::No(None)) };
    Ok(match differs(benches, kernels[known])? {
        None => Confirmed::Yes(known),
        Some(why) => Confirmed::No(Some(format!("{}: {why}", kernels[known].name))),
    })
}

fn untried(kernels: &[&'static Kernel], chosen: usize) -> Vec<Candidate> {
    let verdict = |k: usize| if k == 0 || k == chosen { Verdict::Right } else { Verdict::Untried };
    let candidate = |(k, kernel): (usize, &&'static Kernel)| Candidate {
        kernel: kernel.name.to_owned(),
        verdict: verdict(k),
    };
    kernels.iter().enumerate().map(candidate).collect()
}

/// The quartiles of some times.
fn quartiles(times: &[Duration]) -> [Duration; 3] {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    [1, 2, 3].map(|q| sorted[(sorted.len() - 1) * q / 4])
}

/// Which candidate to take, by their times: the one with the least median, if three quarters of its launches are faster
/// than three quarters of those of the first, and by enough; else the first.
fn faster(times: &[Vec<Duration>]) -> usize {
    let all: Vec<[Duration; 3]> = times.iter().map(|t| quartiles(t)).collect();
    let best = (0..all.len()).min_by_key(|&k| all[k][1]).unwrap_or(0);
    let clear = all[best][2] < all[0][0];
    let gains = all[best][1].as_secs_f64() < (1.0 - GAIN) * all[0][1].as_secs_f64();
    if clear && gains { best } else { 0 }
}

#[cfg(test)]
mod tests;
