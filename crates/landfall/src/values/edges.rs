//! Last accesses of byte ranges, and the happens-before edges that follow from them.

use super::Ancestors;
use std::collections::BTreeMap;

/// The last writer of a byte range, and its readers since.
#[derive(Debug, Clone)]
struct Touched {
    end: usize,
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// The bytes of one block: contiguous ranges by their start, from 0 on.
#[derive(Debug)]
pub(crate) struct Ranges(BTreeMap<usize, Touched>);

impl Default for Ranges {
    fn default() -> Self {
        let all = Touched { end: usize::MAX, writer: None, readers: Vec::new() };
        Self(BTreeMap::from([(0, all)]))
    }
}

impl Ranges {
    /// Splits the range that contains `at`.
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

    /// A write waits for writers and readers of its bytes; later accesses wait for them through it.
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

/// The members of `after` that are not implied by others, in ascending order; and all transitive predecessors.
pub(crate) fn direct(mut after: Vec<usize>, done: &[Ancestors]) -> (Vec<usize>, Ancestors) {
    after.sort_unstable();
    after.dedup();
    let mut before = Ancestors::default();
    // Instructions depend on smaller numbers only: when `a` is visited, all its dependents have been.
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
