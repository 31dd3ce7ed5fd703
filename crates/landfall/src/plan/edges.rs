//! Happens-before edges: which instructions must be done before each may start, by the bytes that they touch.

use super::{Block, Plan};
use crate::lower::{Lowered, StoredId};

struct Access {
    instruction: usize,
    block: Block,
    start: usize,
    end: usize,
    writes: bool,
}

/// Fills in `after` of every instruction: the writers of what it reads, and the readers and writers of what it writes.
pub(crate) fn order(lowered: &mut Lowered, plan: &Plan) {
    let mut accesses: Vec<Access> = Vec::new();
    for k in 0..lowered.instructions.len() {
        let i = &lowered.instructions[k];
        let range = |v: StoredId| {
            let place = plan.places[v.0];
            (place.block, place.offset, place.offset + lowered.values[v.0].spec.bytes())
        };
        let access = |(block, start, end), writes| Access { instruction: k, block, start, end, writes };
        let mut own: Vec<Access> = i.inputs.iter().map(|a| access(range(a.value), false)).collect();
        own.extend(i.outputs.iter().map(|a| access(range(a.value), true)));
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
        after.sort_unstable();
        after.dedup();
        lowered.instructions[k].after = after;
        accesses.extend(own);
    }
}
