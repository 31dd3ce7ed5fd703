//! Offsets: largest buffers first, each into the tightest gap that is free during its whole life.

use super::lifetime::{Lifetime, Lifetimes, lifetimes};
use super::{Block, Place, Plan, root};
use crate::lower::{Home, Lowered, StoredId};

/// Which buffer is placed before which.
type SortKey = fn(&Lifetime) -> (usize, usize, usize);

/// Plans the memory of a lowered program.
pub(crate) fn assign(lowered: &Lowered) -> Plan {
    let life = lifetimes(lowered, true);
    let live_peak = live_peak(&life.buffers);
    // Which order packs best depends on the program, so a few are tried: the smallest arena wins, the first among equals.
    let orders: [SortKey; 3] = [
        |b| (usize::MAX - b.bytes, b.first, 0),
        |b| (usize::MAX - b.bytes.saturating_mul(b.last - b.first + 1), b.first, 0),
        |b| (usize::MAX - (b.last - b.first), usize::MAX - b.bytes, b.first),
    ];
    let plans = orders.iter().map(|key| offsets(&life, key));
    let (arena, offsets) = plans.min_by_key(|(arena, _)| *arena).unwrap_or_default();
    let place = |v: usize| {
        let (r, at) = root(lowered, StoredId(v));
        match lowered.values[r.0].home {
            Home::Slab(s) => Place { block: Block::Slab(s), offset: at },
            Home::Own => Place { block: Block::Own(r), offset: at },
            Home::Arena | Home::Within(..) => {
                let base = life.of_value[r.0].map_or(0, |b| offsets[b]);
                Place { block: Block::Arena, offset: base + at }
            }
        }
    };
    Plan {
        places: (0..lowered.values.len()).map(place).collect(),
        workspaces: life.of_workspace.iter().map(|w| w.map_or(0, |b| offsets[b])).collect(),
        arena,
        live_peak,
        in_place: life.in_place,
    }
}

/// The largest sum of bytes that exist during one instruction.
fn live_peak(buffers: &[Lifetime]) -> usize {
    let Some(end) = buffers.iter().map(|b| b.last).max() else { return 0 };
    let mut change = vec![0isize; end + 2];
    for b in buffers {
        change[b.first] += b.bytes as isize;
        change[b.last + 1] -= b.bytes as isize;
    }
    let mut live = 0;
    change
        .iter()
        .map(|c| {
            live += c;
            live
        })
        .max()
        .unwrap_or(0)
        .max(0) as usize
}

fn offsets(life: &Lifetimes, key: impl Fn(&Lifetime) -> (usize, usize, usize)) -> (usize, Vec<usize>) {
    let mut order: Vec<usize> = (0..life.buffers.len()).filter(|&b| life.buffers[b].bytes > 0).collect();
    order.sort_by_key(|&b| (key(&life.buffers[b]), b));
    let mut offset = vec![0; life.buffers.len()];
    // Placed buffers by offset, so that gaps are found in one walk.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut arena = 0;
    for b in order {
        let own = life.buffers[b];
        let mut best: Option<(usize, usize)> = None;
        let mut free_from = 0;
        for &p in &placed {
            let other = life.buffers[p];
            if other.last < own.first || own.last < other.first {
                continue;
            }
            if offset[p] >= free_from + own.bytes {
                let gap = offset[p] - free_from;
                if best.is_none_or(|(g, _)| gap < g) {
                    best = Some((gap, free_from));
                }
            }
            free_from = free_from.max(offset[p] + other.bytes);
        }
        offset[b] = best.map_or(free_from, |(_, at)| at);
        arena = arena.max(offset[b] + own.bytes);
        let at = placed.partition_point(|&p| offset[p] <= offset[b]);
        placed.insert(at, b);
    }
    (arena, offset)
}
