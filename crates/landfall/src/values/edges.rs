//! Who touched which bytes last, and which of the instructions before must therefore be done first.

use super::Ancestors;
use std::collections::BTreeMap;

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
