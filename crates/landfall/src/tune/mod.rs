//! The autotuner: finds the fastest kernel of each instruction that has several.
//!
//! It runs only on request. Its input are [`TuningCase`]s: instructions without their memory. Each trial uses private
//! memory between guard bands: operands have the same layouts, overlaps and updates as in the program, and hold
//! generated data, with valid indices if the op reads any. Before each launch the bytes that a launch wrote are
//! restored. So no trial can reach live memory, whatever shares memory with what.
//!
//! A candidate first runs as under the sanitizer: twice, with poison wherever it may not read; guard bands and inputs
//! must be unchanged. Its complete outputs are compared with those of the op's default kernel; a candidate that differs
//! by more than rounding is rejected and reported. The others are timed in turn, with cold caches, several times; one
//! is chosen only if it is faster than the default by more than the noise.
//!
//! A choice is a kernel name: programs take it from [`Engine::with_choices`], plans show it, a run stores it, and the
//! [`Cache`] holds it on disk. Cache entries are not trusted: the kernel is compared with the op's default before it is
//! pinned.

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

/// Timed launches per candidate.
const ROUNDS: usize = 9;
/// Minimum relative gain: less is not worth another order of summation.
const GAIN: f64 = 0.03;

/// The result of tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// A kernel for every instruction that has several.
    pub choices: Choices,
    /// How each was found.
    pub rows: Vec<Row>,
    /// Messages for the user.
    pub notices: Vec<Notice>,
}

/// How the kernel of an instruction was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The instruction, as [`Choices`] names it.
    pub instruction: String,
    /// The number of the programs' instructions with this key.
    pub count: usize,
    /// The op's default first.
    pub candidates: Vec<Candidate>,
    /// Index of the chosen one.
    pub chosen: usize,
    /// Whether it came from the cache, and a trial confirmed it.
    pub cached: bool,
}

/// A tried kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Its name.
    pub kernel: String,
    /// Its verdict.
    pub verdict: Verdict,
}

impl Candidate {
    /// Whether its results are wrong.
    #[must_use]
    pub fn rejected(&self) -> bool {
        matches!(self.verdict, Verdict::Rejected(_))
    }
}

/// The verdict on a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Correct, in this many microseconds (the median).
    Microseconds(f64),
    /// Correct, not timed.
    Right,
    /// Rejected, for this reason.
    Rejected(String),
    /// Not tried, because the cache had a choice.
    Untried,
}

/// Finds a kernel for every case that has several: from the cache, if it has a choice that still gives correct results,
/// else by trials, whose choice is then cached. With `again` the cache is written and not read.
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
/// Out of memory for a case's private copies; a device fault.
pub fn tune(
    engine: &Engine,
    cases: &[TuningCase],
    cache: Option<&Cache>,
    again: bool,
) -> Result<Tuned, Error> {
    // Like a program's steps: the engine's threads are at hand, so that no hand-over is timed.
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

/// Instructions of one key. All variants of their memory overlap are tried, because they share one choice.
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

    /// The cached choice; its defects become a notice.
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

    /// Compares every candidate with the op's default, and selects one.
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
        // Twice the size of the caches, so that no operand stays cached.
        let flush = Buffer::new(self.device, 2 * self.hardware.cache.max(1))?;
        let timed: Vec<&'static Kernel> = right.iter().map(|&k| kernels[k]).collect();
        let flush: (Address, usize) = (flush.address(), flush.bytes());
        let times = benches[0].times(&timed, ROUNDS, flush)?;
        for (&k, times) in right.iter().zip(&times) {
            verdicts[k] = Verdict::Microseconds(quartiles(times)[1].as_secs_f64() * 1e6);
        }
        let mut chosen = right[faster(&times)];
        // Checked again after all those launches: intermittent errors have left their traces by now.
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

/// Whether a candidate differs from the op's default for any overlap of operands.
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
    /// With the reason, if there was a choice.
    No(Option<String>),
}

/// Compares a cached choice with the op's default.
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

/// The candidate to take: the one with the lowest median, if its third quartile is below the first quartile of the
/// default and its gain is large enough; else the default.
fn faster(times: &[Vec<Duration>]) -> usize {
    let all: Vec<[Duration; 3]> = times.iter().map(|t| quartiles(t)).collect();
    let best = (0..all.len()).min_by_key(|&k| all[k][1]).unwrap_or(0);
    let clear = all[best][2] < all[0][0];
    let gains = all[best][1].as_secs_f64() < (1.0 - GAIN) * all[0][1].as_secs_f64();
    if clear && gains { best } else { 0 }
}

#[cfg(test)]
mod tests;
