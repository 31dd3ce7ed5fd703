//! Lifetimes: from the first instruction that writes any part of a buffer to the last that reads any.

use super::root;
use crate::device::align;
use crate::lower::{Home, Lowered, StoredId};
use crate::ops::Alias;

/// One piece of arena memory: one or more values that share it, or an instruction's scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// Bytes, rounded to slots.
    pub(super) bytes: usize,
    /// First and last instruction during which it must exist.
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Buffers of the arena.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    pub(super) buffers: Vec<Lifetime>,
    /// Buffer of each value whose root lies in the arena.
    pub(super) of_value: Vec<Option<usize>>,
    /// Buffer of each instruction's scratch memory.
    pub(super) of_workspace: Vec<Option<usize>>,
    pub(super) in_place: usize,
}

/// The lifetimes of a program's arena values, outputs sharing an input's buffer where the op's alias rule allows it
/// and the input ends there.
pub(super) fn lifetimes(lowered: &Lowered, reuse: bool) -> Lifetimes {
    let n = lowered.values.len();
    let end = lowered.instructions.len();
    let mut span: Vec<Option<(usize, usize)>> = vec![None; n];
    let touch = |span: &mut Vec<Option<(usize, usize)>>, id: StoredId, at: usize| {
        let r = root(lowered, id).0.0;
        let (a, b) = span[r].unwrap_or((at, at));
        span[r] = Some((a.min(at), b.max(at)));
    };
    for (k, i) in lowered.instructions.iter().enumerate() {
        i.inputs.iter().chain(&i.outputs).for_each(|a| touch(&mut span, a.value, k));
    }
    for (v, value) in lowered.values.iter().enumerate() {
        let r = root(lowered, StoredId(v)).0;
        if value.kept && lowered.values[r.0].home == Home::Arena {
            touch(&mut span, StoredId(v), end);
        }
    }
    let mut out = Lifetimes { of_value: vec![None; n], ..Lifetimes::default() };
    let arena_root = |v: usize| lowered.values[v].home == Home::Arena;
    for v in (0..n).filter(|&v| arena_root(v)) {
        if let Some((first, last)) = span[v] {
            out.of_value[v] = Some(out.buffers.len());
            out.buffers.push(Lifetime { bytes: align(lowered.values[v].spec.bytes()), first, last });
        }
    }
    if reuse {
        share_in_place(lowered, &mut out);
    }
    for v in 0..n {
        out.of_value[v] = out.of_value[root(lowered, StoredId(v)).0.0];
    }
    out.of_workspace = (lowered.instructions.iter().enumerate())
        .map(|(k, i)| {
            (i.workspace > 0).then(|| {
                out.buffers.push(Lifetime { bytes: align(i.workspace), first: k, last: k });
                out.buffers.len() - 1
            })
        })
        .collect();
    out
}

fn share_in_place(lowered: &Lowered, out: &mut Lifetimes) {
    for (k, i) in lowered.instructions.iter().enumerate() {
        for (j, o) in i.outputs.iter().enumerate() {
            let Some(Alias::InPlace(allowed)) = i.op.alias().get(j).copied() else { continue };
            if lowered.values[o.value.0].home != Home::Arena {
                continue;
            }
            let Some(own) = out.of_value[o.value.0].filter(|&b| out.buffers[b].first == k) else { continue };
            let taken = |b: usize| i.outputs.iter().any(|p| out.of_value[p.value.0] == Some(b));
            let candidate = allowed.iter().find_map(|&a| {
                let arg = i.inputs.get(a)?;
                let buffer = out.of_value[arg.value.0]?;
                let whole = lowered.values[arg.value.0].home == Home::Arena
                    && arg.layout.is_contiguous()
                    && arg.layout.offset() == 0
                    && arg.spec() == o.spec()
                    && arg.spec().bytes() == lowered.values[arg.value.0].spec.bytes()
                    && out.buffers[buffer].bytes == out.buffers[own].bytes;
                // Any other operand in that memory would be overwritten while it is read.
                let alone = (i.inputs.iter().enumerate()).all(|(b, other)| {
                    b == a
                        || root_buffer(lowered, out, other.value) != Some(buffer)
                        || (allowed.contains(&b) && *other == *arg)
                });
                (whole && alone && out.buffers[buffer].last == k && !taken(buffer)).then_some(buffer)
            });
            if let Some(buffer) = candidate {
                out.buffers[buffer].last = out.buffers[own].last;
                out.buffers[own].bytes = 0;
                out.of_value[o.value.0] = Some(buffer);
                out.in_place += 1;
            }
        }
    }
}

fn root_buffer(lowered: &Lowered, lifetimes: &Lifetimes, id: StoredId) -> Option<usize> {
    lifetimes.of_value[root(lowered, id).0.0]
}
