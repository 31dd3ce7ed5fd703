//! Happens-before edges: which instructions must be complete before each may start, by the bytes that they touch. A
//! device may run all other instructions concurrently, but for collectives, which ranks must meet in one order.

use super::Plan;
use crate::lower::{Arg, Instruction, Lowered};
use crate::values::{Ancestors, Block, Ranges, StoredId, direct};
use std::collections::HashMap;

/// Fills in `after` of every instruction: the writers of what it reads, and the readers and writers of what it writes,
/// of a collective also the collective before it, without edges that are implied by others.
pub(crate) fn order(lowered: &mut Lowered, plan: &Plan) {
    let mut blocks: HashMap<Block, Ranges> = HashMap::new();
    let mut done: Vec<Ancestors> = Vec::with_capacity(lowered.instructions.len());
    let mut met = None;
    for k in 0..lowered.instructions.len() {
        let mut after = Vec::new();
        for a in accesses(lowered, plan, k, &lowered.instructions[k]).filter(|a| a.start < a.end) {
            let ranges = blocks.entry(a.block).or_default();
            let touch = if a.writes { Ranges::write } else { Ranges::read };
            touch(ranges, a.start, a.end, k, &mut after);
        }
        if lowered.instructions[k].op.collective() {
            after.extend(met.replace(k));
        }
        let (after, before) = direct(after, &done);
        lowered.instructions[k].after = after;
        done.push(before);
    }
}

/// Bytes that an instruction touches.
struct Access {
    block: Block,
    start: usize,
    end: usize,
    writes: bool,
}

/// The bytes that an instruction reads, then those that it writes.
fn accesses<'a>(
    lowered: &'a Lowered,
    plan: &'a Plan,
    k: usize,
    i: &'a Instruction,
) -> impl Iterator<Item = Access> + 'a {
    let whole = |v: StoredId| {
        let place = plan.places[v.0];
        let end = place.offset + lowered.values[v.0].spec.bytes();
        Access { block: place.block, start: place.offset, end, writes: true }
    };
    // Of a slab, only the parameter that is read: updates of adjacent entries do not matter to the reader.
    let seen = |a: &Arg| {
        let (place, span, size) = (plan.places[a.value.0], a.layout.span(), a.dtype.size());
        let (start, end) = (place.offset + span.start * size, place.offset + span.end * size);
        Access { block: place.block, start, end, writes: false }
    };
    let workspace = (i.workspace > 0).then(|| {
        let start = plan.workspaces[k];
        Access { block: Block::Arena, start, end: start + i.workspace, writes: true }
    });
    i.inputs.iter().map(seen).chain(i.outputs.iter().map(move |a| whole(a.value))).chain(workspace)
}
