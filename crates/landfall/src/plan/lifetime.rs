//! Lifetimes: from the first instruction that writes any part of a buffer to the last that reads any part.

use super::Reuse;
use crate::contract::{Alias, alias};
use crate::lower::{Arg, Home, Lowered, root};
use crate::values::{ALIGNMENT, StoredId, align};
use std::ops::Range;

/// One range of the arena: one or more values that share it, or an instruction's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// Bytes, rounded up to slots.
    pub(super) bytes: usize,
    /// First and last instruction at which it is alive.
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The buffers of the arena.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    pub(super) buffers: Vec<Lifetime>,
    /// Buffer of each root in the arena, and its byte range in the buffer.
    pub(super) of_value: Vec<Option<(usize, usize)>>,
    /// Buffer of each instruction's workspace.
    pub(super) of_workspace: Vec<Option<usize>>,
    pub(super) in_place: usize,
}

/// The lifetimes of a program's arena values; outputs share an input's buffer if the op's alias rule allows it and the
/// input's lifetime ends there.
pub(super) fn lifetimes(lowered: &Lowered, reuse: Reuse) -> Lifetimes {
    let n = lowered.values.len();
    let end = lowered.instructions.len();
    let mut span: Vec<Option<(usize, usize)>> = vec![None; n];
    let touch = |span: &mut Vec<Option<(usize, usize)>>, id: StoredId, at: usize| {
        let r = root(lowered, id).0.0;
        let (a, b) = span[r].unwrap_or((at, at));
        span[r] = Some((a.min(at), b.max(at)));
    };
    // The parts of a segment run at their own pace: while one is at its last instruction another may be at the first.
    let mut alive: Vec<(usize, usize)> = (0..end).map(|k| (k, k)).collect();
    for segment in &lowered.segments {
        alive[segment.range()].fill((segment.first, segment.range().end - 1));
    }
    for (i, (from, to)) in lowered.instructions.iter().zip(alive) {
        for a in i.inputs.iter().chain(&i.outputs) {
            touch(&mut span, a.value, from);
            touch(&mut span, a.value, to);
        }
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
            out.of_value[v] = Some((out.buffers.len(), 0));
            out.buffers.push(Lifetime { bytes: align(lowered.values[v].spec.bytes()), first, last });
        }
    }
    match reuse {
        Reuse::Tight => share_in_place(lowered, &mut out, false),
        Reuse::Most => share_in_place(lowered, &mut out, true),
        Reuse::Nothing => {}
    }
    let lasts = workspace_lasts(lowered);
    out.of_workspace = (lowered.instructions.iter().zip(lasts).enumerate())
        .map(|(k, (i, last))| {
            (i.workspace > 0).then(|| {
                out.buffers.push(Lifetime { bytes: align(i.workspace), first: k, last });
                out.buffers.len() - 1
            })
        })
        .collect();
    out
}

/// Workspaces that lie apart, at most: instructions that wait for nothing else of each other run at once then.
const APART: usize = 32;
/// Bytes of them at most.
const APART_BYTES: usize = 64 << 20;

/// The last instruction that does not have each instruction's workspace. Behind a segment stand many that need nothing of each
/// other but its results: with one workspace for all they would run one after the other.
fn workspace_lasts(lowered: &Lowered) -> Vec<usize> {
    let n = lowered.instructions.len();
    let Some(first) = lowered.segments.first() else { return (0..n).collect() };
    let mut lasts: Vec<usize> = (0..n).collect();
    let bytes = |k: usize| align(lowered.instructions[k].workspace);
    for k in first.range().end..n {
        let mut total = 0;
        let near = (k..n.min(k + APART)).take_while(|&j| {
            total += bytes(j);
            total <= APART_BYTES
        });
        lasts[k] = near.last().unwrap_or(k);
    }
    lasts
}

/// Places outputs in the buffers of inputs whose lifetime ends. `within` also if such an input is only part of its
/// buffer, which extends the lifetime of the whole buffer.
fn share_in_place(lowered: &Lowered, out: &mut Lifetimes, within: bool) {
    for (k, i) in lowered.instructions.iter().enumerate() {
        for (j, o) in i.outputs.iter().enumerate() {
            let Alias::InPlace(allowed) = alias(i.op.as_ref(), j) else { continue };
            if lowered.values[o.value.0].home != Home::Arena {
                continue;
            }
            let Some((own, _)) = out.of_value[o.value.0].filter(|&(b, _)| out.buffers[b].first == k) else {
                continue;
            };
            let candidate = allowed.iter().find_map(|&a| {
                let arg = i.inputs.get(a)?;
                let (buffer, bytes) = bytes_of(lowered, out, arg)?;
                let whole = lowered.values[arg.value.0].home == Home::Arena
                    && bytes.start == 0
                    && arg.spec().bytes() == lowered.values[arg.value.0].spec.bytes()
                    && out.buffers[buffer].bytes == out.buffers[own].bytes;
                let part = within && bytes.start.is_multiple_of(ALIGNMENT) && !bytes.is_empty();
                let fits = (whole || part) && arg.layout.is_contiguous() && arg.spec() == o.spec();
                let apart = |other: &Arg| {
                    let there = bytes_of(lowered, out, other).filter(|(b, _)| *b == buffer);
                    there.is_none_or(|(_, r)| r.end <= bytes.start || bytes.end <= r.start)
                };
                // Any other operand in those bytes would be overwritten while it is read.
                let alone = (i.inputs.iter().enumerate())
                    .all(|(b, other)| b == a || apart(other) || (allowed.contains(&b) && *other == *arg));
                let taken = i.outputs.iter().any(|p| !apart(p));
                let ends = out.buffers[buffer].last == k;
                (fits && alone && ends && !taken).then_some((buffer, bytes.start))
            });
            if let Some((buffer, at)) = candidate {
                out.buffers[buffer].last = out.buffers[own].last;
                out.buffers[own].bytes = 0;
                out.of_value[o.value.0] = Some((buffer, at));
                out.in_place += 1;
            }
        }
    }
}

/// The buffer of an operand, and its byte range there; `None` outside of the arena.
fn bytes_of(lowered: &Lowered, lifetimes: &Lifetimes, arg: &Arg) -> Option<(usize, Range<usize>)> {
    let (root, at) = root(lowered, arg.value);
    let (buffer, within) = lifetimes.of_value[root.0]?;
    let (span, size, base) = (arg.layout.span(), arg.dtype.size(), within + at);
    Some((buffer, base + span.start * size..base + span.end * size))
}
