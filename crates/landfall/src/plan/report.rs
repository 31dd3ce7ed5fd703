//! The plan as data: for `landfall plan`, run folders and tests.

use super::Plan;
use crate::contract::check;
use crate::lower::{Arg, Home, Instruction, Lowered};
use crate::values::{Block, DeviceKind, Repeat, Spec, StoredId};
use serde::Serialize;
use std::collections::HashMap;

/// A program's memory plan, printable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// The peak number of bytes alive in the arena.
    pub live_peak_bytes: usize,
    /// Bytes of the state.
    pub state_bytes: usize,
    /// Bytes of inputs and outputs.
    pub own_bytes: usize,
    /// Instructions of the program.
    pub instructions: usize,
    /// Number of instructions in the loop body (the first ones), and of its iterations.
    pub repeated: (usize, usize),
    /// Launches of a run without a CUDA graph.
    pub launches: usize,
    /// Instructions on the longest chain of edges in a run: the critical path of a device that runs by edges.
    pub longest_chain: usize,
    /// Outputs that reuse an input's memory.
    pub in_place: usize,
    /// Forward values recomputed for the backward pass instead of being saved.
    pub recomputed: usize,
    /// The instruction with the peak number of bytes alive.
    pub peak_instruction: usize,
    /// Instructions outside of segments whose kernel is not their op's default: number, op and kernel.
    pub pinned: Vec<(usize, String, String)>,
    /// Runs of instructions that one kernel does by parts: the first, how many, and how many parts.
    pub segments: Vec<(usize, usize, usize)>,
    /// Every value of the arena, in the order of production.
    pub rows: Vec<ReportRow>,
}

/// One value of the arena.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportRow {
    /// Its name.
    pub name: String,
    /// Dtype and shape.
    pub spec: String,
    /// The instruction that produces it.
    pub op: String,
    /// Its kernel.
    pub kernel: String,
    /// Number of that instruction.
    pub first: usize,
    /// Number of the last instruction that reads it.
    pub last: usize,
    /// Byte offset in the arena.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// The instruction with the peak number of bytes alive; the last of several.
fn peak(rows: &[ReportRow], instructions: usize) -> usize {
    let mut change = vec![0isize; instructions + 1];
    for r in rows {
        change[r.first] += r.bytes as isize;
        change[r.last + 1] -= r.bytes as isize;
    }
    let mut live = 0;
    let bytes = change[..instructions].iter().map(|c| {
        live += c;
        live
    });
    bytes.enumerate().max_by_key(|&(_, bytes)| bytes).map_or(0, |(k, _)| k)
}

/// Each iteration of the loop body waits for the whole previous one.
fn longest_chain(lowered: &Lowered) -> usize {
    let mut chain: Vec<usize> = Vec::with_capacity(lowered.instructions.len());
    for i in &lowered.instructions {
        chain.push(1 + i.after.iter().map(|&a| chain[a]).max().unwrap_or(0));
    }
    let most = |part: &[usize]| part.iter().copied().max().unwrap_or(0);
    let Repeat { instructions, times } = lowered.repeat;
    times.saturating_sub(1) * most(&chain[..instructions]) + most(&chain)
}

impl Report {
    pub(crate) fn new(lowered: &Lowered, plan: &Plan, state_bytes: usize, device: DeviceKind) -> Self {
        let mut rows = Vec::new();
        let mut last: HashMap<StoredId, usize> = HashMap::new();
        for (k, i) in lowered.instructions.iter().enumerate() {
            i.inputs.iter().for_each(|a| _ = last.insert(a.value, k));
        }
        for (k, i) in lowered.instructions.iter().enumerate() {
            for o in &i.outputs {
                let place = plan.places[o.value.0];
                if place.block != Block::Arena {
                    continue;
                }
                rows.push(ReportRow {
                    name: lowered.values[o.value.0].name.clone(),
                    spec: o.spec().to_string(),
                    op: i.op.name().to_owned(),
                    kernel: i.kernel.name.to_owned(),
                    first: k,
                    last: last.get(&o.value).map_or(k, |&l| l),
                    offset: place.offset,
                    bytes: o.spec().bytes(),
                });
            }
        }
        let peak_instruction = peak(&rows, lowered.instructions.len());
        // A kernel is the op's default if it is the first that accepts the operands.
        let chosen = |i: &Instruction| {
            let specs: Vec<Spec> = i.inputs.iter().map(Arg::spec).collect();
            check::kernel(i.op.as_ref(), device, &specs).is_ok_and(|own| own.name == i.kernel.name)
        };
        let member = |k: usize| lowered.segments.iter().any(|s| s.range().contains(&k));
        let pinned = lowered.instructions.iter().enumerate().filter(|&(k, i)| !member(k) && !chosen(i));
        let own = lowered.values.iter().filter(|v| v.home == Home::Own);
        Self {
            arena_bytes: plan.arena,
            live_peak_bytes: plan.live_peak,
            state_bytes,
            own_bytes: own.map(|v| v.spec.bytes()).sum(),
            instructions: lowered.instructions.len(),
            repeated: (lowered.repeat.instructions, lowered.repeat.times),
            launches: lowered.repeat.count(lowered.instructions.len()),
            longest_chain: longest_chain(lowered),
            in_place: plan.in_place,
            recomputed: lowered.recomputed,
            peak_instruction,
            pinned: pinned.map(|(k, i)| (k, i.op.name().to_owned(), i.kernel.name.to_owned())).collect(),
            segments: lowered.segments.iter().map(|s| (s.first, s.count, s.parts)).collect(),
            rows,
        }
    }
}
