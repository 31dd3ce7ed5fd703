//! The plan as data: for `landfall plan`, run folders and tests.

use super::{Block, Plan};
use crate::device::DeviceKind;
use crate::lower::{Arg, Instruction, Lowered, StoredId};
use crate::ops::check;
use crate::shape::Spec;
use serde::Serialize;

/// A program's memory plan, printable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// The largest sum of bytes alive in the arena at one time.
    pub live_peak_bytes: usize,
    /// Bytes of the state.
    pub state_bytes: usize,
    /// Bytes of inputs and outputs.
    pub own_bytes: usize,
    /// Instructions of the program.
    pub instructions: usize,
    /// How many of them, the first ones, run several times, and how often.
    pub repeated: (usize, usize),
    /// Launches of a run whose instructions are issued one by one.
    pub launches: usize,
    /// Outputs that took over an input's memory.
    pub in_place: usize,
    /// Forward values made again for the backward pass instead of being kept.
    pub recomputed: usize,
    /// The instruction during which most bytes are alive.
    pub peak_instruction: usize,
    /// Instructions whose kernel is not their op's own choice: number, op and kernel.
    pub pinned: Vec<(usize, String, String)>,
    /// Every value of the arena, in the order it is made.
    pub rows: Vec<ReportRow>,
}

/// One value of the arena.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportRow {
    /// Its name.
    pub name: String,
    /// Dtype and shape.
    pub spec: String,
    /// The instruction that makes it.
    pub op: String,
    /// Its kernel.
    pub kernel: String,
    /// Number of that instruction.
    pub first: usize,
    /// Number of the last instruction that reads it.
    pub last: usize,
    /// Bytes from the arena's start.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

impl Report {
    pub(crate) fn new(lowered: &Lowered, plan: &Plan, state_bytes: usize, device: DeviceKind) -> Self {
        let mut rows = Vec::new();
        for (k, i) in lowered.instructions.iter().enumerate() {
            for o in &i.outputs {
                let place = plan.places[o.value.0];
                if place.block != Block::Arena {
                    continue;
                }
                let reads = |v: StoredId| {
                    lowered.instructions.iter().rposition(|i| i.inputs.iter().any(|a| a.value == v))
                };
                rows.push(ReportRow {
                    name: lowered.values[o.value.0].name.clone(),
                    spec: o.spec().to_string(),
                    op: i.op.name().to_owned(),
                    kernel: i.kernel.name.to_owned(),
                    first: k,
                    last: reads(o.value).unwrap_or(k),
                    offset: place.offset,
                    bytes: o.spec().bytes(),
                });
            }
        }
        let live =
            |k: usize| rows.iter().filter(|r| r.first <= k && k <= r.last).map(|r| r.bytes).sum::<usize>();
        let peak_instruction = (0..lowered.instructions.len()).max_by_key(|&k| live(k)).unwrap_or(0);
        // A kernel is the op's own choice where it is the first that takes the operands.
        let chosen = |i: &Instruction| {
            let specs: Vec<Spec> = i.inputs.iter().map(Arg::spec).collect();
            check::kernel(i.op.as_ref(), device, &specs).is_ok_and(|own| own.name == i.kernel.name)
        };
        let pinned = lowered.instructions.iter().enumerate().filter(|(_, i)| !chosen(i));
        let own = lowered.values.iter().filter(|v| v.home == crate::lower::Home::Own);
        Self {
            arena_bytes: plan.arena,
            live_peak_bytes: plan.live_peak,
            state_bytes,
            own_bytes: own.map(|v| v.spec.bytes()).sum(),
            instructions: lowered.instructions.len(),
            repeated: (lowered.repeat.instructions, lowered.repeat.times),
            launches: lowered.repeat.count(lowered.instructions.len()),
            in_place: plan.in_place,
            recomputed: lowered.recomputed,
            peak_instruction,
            pinned: pinned.map(|(k, i)| (k, i.op.name().to_owned(), i.kernel.name.to_owned())).collect(),
            rows,
        }
    }
}
