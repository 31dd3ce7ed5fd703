//! Happens-before edges: which instructions must be done before each may start, by the bytes that they touch. What they
//! leave open a device may run at once.

use super::{Ancestors, Block, Plan};
use crate::lower::{Arg, Instruction, Lowered, StoredId};
use std::collections::{BTreeMap, HashMap};

/// Who wrote a range of bytes last, and who has read it since.
#[derive(Debug, Clone)]
struct Touched {
    end: usize,
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// The bytes of one block: ranges by their start, from 0 on without a gap.
#[derive(Debug)]
pub(crate) struct Ranges(BTreeMap<usize, Touched>);

impl Default for Ranges {
    fn default() -> Self {
        let all = Touched { end: usize::MAX, writer: None, readers: Vec::new() };
        Self(BTreeMap::from([(0, all)]))
    }
}

impl Ranges {
    /// Makes `at` a border between ranges.
    fn cut(&mut self, at: usize) {
        if let Some((&start, before)) = self.0.range_mut(..=at).next_back()
            && start < at
        {
            let behind = before.clone();
            before.end = at;
            self.0.insert(at, behind);
        }
    }

    /// A read waits for the writers of its bytes.
    pub(crate) fn read(&mut self, start: usize, end: usize, by: usize, after: &mut Vec<usize>) {
        self.cut(start);
        self.cut(end);
        for (_, t) in self.0.range_mut(start..end) {
            after.extend(t.writer);
            t.readers.push(by);
        }
    }

    /// A write waits for writers and readers of its bytes; what comes later waits for them through it.
    pub(crate) fn write(&mut self, start: usize, end: usize, by: usize, after: &mut Vec<usize>) {
        self.cut(start);
        self.cut(end);
        while let Some((&at, t)) = self.0.range(start..end).next() {
            after.extend(t.writer.iter().chain(&t.readers).filter(|&&other| other != by));
            self.0.remove(&at);
        }
        self.0.insert(start, Touched { end, writer: Some(by), readers: Vec::new() });
    }
}

/// Fills in `after` of every instruction: the writers of what it reads, and the readers and writers of what it writes,
/// but for those that another of them comes after anyway.
pub(crate) fn order(lowered: &mut Lowered, plan: &Plan) {
    let mut blocks: HashMap<Block, Ranges> = HashMap::new();
    let mut done: Vec<Ancestors> = Vec::with_capacity(lowered.instructions.len());
    for k in 0..lowered.instructions.len() {
        let mut after = Vec::new();
        for a in accesses(lowered, plan, k, &lowered.instructions[k]).filter(|a| a.start < a.end) {
            let ranges = blocks.entry(a.block).or_default();
            let touch = if a.writes { Ranges::write } else { Ranges::read };
            touch(ranges, a.start, a.end, k, &mut after);
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

/// What an instruction reads, then what it writes.
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
    // Of a slab, one parameter: the updates of its neighbours are nothing to the reader.
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

/// Those of `after` that no other of them comes after, in ascending order; and all that is done by then.
pub(crate) fn direct(mut after: Vec<usize>, done: &[Ancestors]) -> (Vec<usize>, Ancestors) {
    after.sort_unstable();
    after.dedup();
    let mut before = Ancestors::default();
    // An instruction comes after smaller ones only: by the time that `a` is looked at, what waits for it has been.
    after.reverse();
    after.retain(|&a| {
        let needed = !before.contains(a);
        if needed {
            before.extend(&done[a]);
            before.insert(a);
        }
        needed
    });
    after.reverse();
    (after, before)
}
