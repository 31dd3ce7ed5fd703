//! Happens-before edges: which instructions must be done before each may start, by the bytes that they touch. A
//! captured program is a graph of these edges, so what they leave open runs at once.

use super::{Block, Plan};
use crate::lower::{Arg, Lowered, StoredId};
use std::collections::HashSet;

struct Access {
    instruction: usize,
    block: Block,
    start: usize,
    end: usize,
    writes: bool,
}

/// Fills in `after` of every instruction: the writers of what it reads, and the readers and writers of what it writes,
/// but for those that another of them comes after anyway.
pub(crate) fn order(lowered: &mut Lowered, plan: &Plan) {
    let mut accesses: Vec<Access> = Vec::new();
    for k in 0..lowered.instructions.len() {
        let i = &lowered.instructions[k];
        let whole = |v: StoredId| {
            let place = plan.places[v.0];
            (place.block, place.offset, place.offset + lowered.values[v.0].spec.bytes())
        };
        // Of a slab, one parameter: the updates of its neighbours are nothing to the reader.
        let seen = |a: &Arg| {
            let (place, span, size) = (plan.places[a.value.0], a.layout.span(), a.dtype.size());
            (place.block, place.offset + span.start * size, place.offset + span.end * size)
        };
        let access = |(block, start, end), writes| Access { instruction: k, block, start, end, writes };
        let mut own: Vec<Access> = i.inputs.iter().map(|a| access(seen(a), false)).collect();
        own.extend(i.outputs.iter().map(|a| access(whole(a.value), true)));
        if i.workspace > 0 {
            own.push(access((Block::Arena, plan.workspaces[k], plan.workspaces[k] + i.workspace), true));
        }
        let mut after = Vec::new();
        for a in &own {
            for earlier in
                accesses.iter().rev().filter(|e| e.block == a.block && e.start < a.end && a.start < e.end)
            {
                if earlier.writes || a.writes {
                    after.push(earlier.instruction);
                }
                // A write of the whole range is itself ordered after everything older in it.
                if earlier.writes && earlier.start <= a.start && a.end <= earlier.end {
                    break;
                }
            }
        }
        lowered.instructions[k].after = direct(after, |a| &lowered.instructions[a].after);
        accesses.extend(own);
    }
}

/// Those of `after` that no other of them is reached from, in ascending order.
fn direct<'a>(mut after: Vec<usize>, before: impl Fn(usize) -> &'a [usize]) -> Vec<usize> {
    after.sort_unstable();
    after.dedup();
    let Some(&first) = after.first() else { return after };
    let mut reached = HashSet::new();
    let mut kept = Vec::with_capacity(after.len());
    let mut walk = Vec::new();
    // An instruction comes after smaller ones only, so what reaches `a` has been walked before `a` is looked at.
    for &a in after.iter().rev() {
        if reached.contains(&a) {
            continue;
        }
        kept.push(a);
        walk.push(a);
        while let Some(at) = walk.pop() {
            walk.extend(before(at).iter().copied().filter(|&b| b >= first && reached.insert(b)));
        }
    }
    kept.reverse();
    kept
}
