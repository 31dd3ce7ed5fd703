//! Offset assignment. Tight plans place the largest buffers first, each into the smallest gap that is free for its
//! whole lifetime.

use super::gaps::Placed;
use super::lifetime::{Lifetime, Lifetimes, lifetimes};
use super::{Place, Plan, Reuse};
use crate::lower::{Home, Lowered, root};
use crate::values::{Block, StoredId};
use std::cmp::Reverse;

/// The placement order of buffers.
type SortKey = fn(&Lifetime) -> (usize, usize, usize);

/// Plans the memory of a lowered program.
pub(crate) fn assign(lowered: &Lowered, reuse: Reuse) -> Plan {
    let life = lifetimes(lowered, reuse);
    let live_peak = live_peak(&life.buffers);
    let (arena, offsets) = match reuse {
        Reuse::Tight => tightest(&life),
        Reuse::Most => last_given_up(&life),
        Reuse::Nothing => behind_each_other(&life),
    };
    let cuts = match reuse {
        Reuse::Tight | Reuse::Most => Vec::new(),
        Reuse::Nothing => (offsets.iter().zip(&life.buffers))
            .filter(|&(&at, b)| at > 0 && b.bytes > 0)
            .map(|(&at, _)| at)
            .collect(),
    };
    let place = |v: usize| {
        let (r, at) = root(lowered, StoredId(v));
        match lowered.values[r.0].home {
            Home::Slab(s) => Place { block: Block::Slab(s), offset: at },
            Home::Own => Place { block: Block::Own(r), offset: at },
            Home::Arena | Home::Within(..) => {
                let base = life.of_value[r.0].map_or(0, |(b, within)| offsets[b] + within);
                Place { block: Block::Arena, offset: base + at }
            }
        }
    };
    Plan {
        places: (0..lowered.values.len()).map(place).collect(),
        workspaces: life.of_workspace.iter().map(|w| w.map_or(0, |b| offsets[b])).collect(),
        arena,
        cuts,
        live_peak,
        in_place: life.in_place,
    }
}

/// The peak number of bytes alive during one instruction.
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

/// The best placement order depends on the program, so a few are tried: the smallest arena wins, the first of equals.
fn tightest(life: &Lifetimes) -> (usize, Vec<usize>) {
    let orders: [SortKey; 3] = [
        |b| (usize::MAX - b.bytes, b.first, 0),
        |b| (usize::MAX - b.bytes.saturating_mul(b.last - b.first + 1), b.first, 0),
        |b| (usize::MAX - (b.last - b.first), usize::MAX - b.bytes, b.first),
    ];
    let plans = orders.iter().map(|key| best_fit(life, key));
    plans.min_by_key(|(arena, _)| *arena).unwrap_or_default()
}

/// In order of first use, places each buffer where the most recently freed buffer was, if it fits there.
fn last_given_up(life: &Lifetimes) -> (usize, Vec<usize>) {
    let mut order: Vec<usize> = (0..life.buffers.len()).filter(|&b| life.buffers[b].bytes > 0).collect();
    order.sort_by_key(|&b| (life.buffers[b].first, b));
    let mut offset = vec![0; life.buffers.len()];
    let (mut live, mut ended): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut arena = 0;
    for b in order {
        let own = life.buffers[b];
        ended.extend(live.extract_if(.., |p| life.buffers[*p].last < own.first));
        ended.sort_by_key(|&p| Reverse((life.buffers[p].last, p)));
        let end = |p: usize| offset[p] + life.buffers[p].bytes;
        let free = |&at: &usize| live.iter().all(|&p| at + own.bytes <= offset[p] || end(p) <= at);
        let behind = || live.iter().map(|&p| end(p)).filter(free).min();
        let at = ended.iter().map(|&p| offset[p]).find(free);
        offset[b] = at.or_else(behind).unwrap_or(0);
        arena = arena.max(offset[b] + own.bytes);
        live.push(b);
    }
    (arena, offset)
}

/// Places each buffer in memory that no other buffer uses.
fn behind_each_other(life: &Lifetimes) -> (usize, Vec<usize>) {
    let mut arena = 0;
    let next = |b: &Lifetime| {
        arena += b.bytes;
        arena - b.bytes
    };
    let offsets = life.buffers.iter().map(next).collect();
    (arena, offsets)
}

fn best_fit(life: &Lifetimes, key: impl Fn(&Lifetime) -> (usize, usize, usize)) -> (usize, Vec<usize>) {
    let mut order: Vec<usize> = (0..life.buffers.len()).filter(|&b| life.buffers[b].bytes > 0).collect();
    order.sort_by_key(|&b| (key(&life.buffers[b]), b));
    let mut offset = vec![0; life.buffers.len()];
    let mut placed = Placed::default();
    let mut arena = 0;
    for b in order {
        let own = life.buffers[b];
        offset[b] = placed.tightest_gap(&own);
        arena = arena.max(offset[b] + own.bytes);
        placed.insert(offset[b], own);
    }
    (arena, offset)
}
