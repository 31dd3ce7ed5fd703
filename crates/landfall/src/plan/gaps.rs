//! Gaps between placed buffers that are free for another buffer's lifetime.

use super::lifetime::Lifetime;

/// Buffers per group; a full group is split.
const GROUP: usize = 64;

/// Placed buffers by offset, in groups whose summaries let a search skip a group in one step.
#[derive(Debug, Default)]
pub(super) struct Placed(Vec<Group>);

/// A placed buffer.
#[derive(Debug, Clone, Copy)]
struct Block {
    start: usize,
    end: usize,
    first: usize,
    last: usize,
}

/// Buffers with adjacent offsets.
#[derive(Debug)]
struct Group {
    blocks: Vec<Block>,
    /// The earliest and latest instruction at which any of them is alive.
    any: (usize, usize),
    /// The latest first and the earliest last instruction: all are alive between these.
    all: (usize, usize),
    /// The largest gap between them if all conflict.
    gap: usize,
    /// The end of their bytes.
    end: usize,
}

impl Group {
    fn of(blocks: Vec<Block>) -> Self {
        let mut group = Self { blocks, any: (usize::MAX, 0), all: (0, usize::MAX), gap: 0, end: 0 };
        for (n, b) in group.blocks.iter().enumerate() {
            group.any = (group.any.0.min(b.first), group.any.1.max(b.last));
            group.all = (group.all.0.max(b.first), group.all.1.min(b.last));
            let free = if n == 0 { b.start } else { group.end };
            group.gap = group.gap.max(b.start.saturating_sub(free));
            group.end = group.end.max(b.end);
        }
        group
    }
}

impl Placed {
    /// The start of the smallest gap that fits a buffer and is free for its whole lifetime, the lowest of equals; the
    /// end of all conflicting buffers if there is none.
    pub(super) fn tightest_gap(&self, own: &Lifetime) -> usize {
        let mut best: Option<(usize, usize)> = None;
        let mut free_from = 0;
        let mut pass = |start: usize, end: usize| {
            if start >= free_from + own.bytes {
                let gap = start - free_from;
                if best.is_none_or(|(smallest, _)| gap < smallest) {
                    best = Some((gap, free_from));
                }
            }
            free_from = free_from.max(end);
        };
        for group in &self.0 {
            if group.any.1 < own.first || own.last < group.any.0 {
                continue;
            }
            let all_alive = group.all.0 <= own.last && own.first <= group.all.1;
            if all_alive && group.gap < own.bytes {
                // There may be room before the first of them, but none between them.
                pass(group.blocks[0].start, group.end);
                continue;
            }
            for b in group.blocks.iter().filter(|b| own.first <= b.last && b.first <= own.last) {
                pass(b.start, b.end);
            }
        }
        best.map_or(free_from, |(_, at)| at)
    }

    /// Adds a buffer. Buffers with the same offset are sorted by time, so that a search skips most of them by group.
    pub(super) fn insert(&mut self, start: usize, own: Lifetime) {
        let block = Block { start, end: start + own.bytes, first: own.first, last: own.last };
        let before = |b: &Block| (b.start, b.first) <= (start, own.first);
        let at = self.0.partition_point(|g| before(&g.blocks[0])).saturating_sub(1);
        if self.0.is_empty() {
            self.0.push(Group::of(vec![block]));
            return;
        }
        let mut blocks = std::mem::take(&mut self.0[at].blocks);
        blocks.insert(blocks.partition_point(before), block);
        if blocks.len() > GROUP {
            let upper = blocks.split_off(GROUP / 2);
            self.0.insert(at + 1, Group::of(upper));
        }
        self.0[at] = Group::of(blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same search by one walk over all placed buffers.
    fn plainly(placed: &[(usize, Lifetime)], own: &Lifetime) -> usize {
        let (mut best, mut free_from) = (None, 0);
        for (start, other) in placed {
            if other.last < own.first || own.last < other.first {
                continue;
            }
            if *start >= free_from + own.bytes && best.is_none_or(|(gap, _)| start - free_from < gap) {
                best = Some((start - free_from, free_from));
            }
            free_from = free_from.max(start + other.bytes);
        }
        best.map_or(free_from, |(_, at)| at)
    }

    proptest! {
        #[test]
        fn groups_find_what_a_walk_over_all_finds(
            buffers in prop::collection::vec((1..40usize, 0..60usize, 0..60usize), 1..600)
        ) {
            let (mut groups, mut all): (_, Vec<(usize, Lifetime)>) = (Placed::default(), Vec::new());
            for (bytes, first, length) in buffers {
                let own = Lifetime { bytes, first, last: first + length };
                let start = groups.tightest_gap(&own);
                prop_assert_eq!(start, plainly(&all, &own));
                groups.insert(start, own);
                all.insert(all.partition_point(|(s, _)| *s <= start), (start, own));
            }
        }
    }
}
