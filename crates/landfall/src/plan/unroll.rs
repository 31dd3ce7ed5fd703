//! Unrolling gradient accumulation: several micro-batches of the loop body per replay, each in its own arena. A
//! micro-batch then waits for the previous one only if both touch the state (the sums of gradients, the cursor), so a
//! device that follows edges runs several concurrently. The result is an ordinary program: its edges are derived and
//! verified as for any other, and every value keeps its bytes.

use super::{Plan, Reuse};
use crate::lower::{Arg, Home, Instruction, Lowered, Stored, root};
use crate::values::{Block, DeviceKind, Repeat, StoredId};
use std::collections::HashMap;
use std::ops::Range;

/// The maximum unroll factor: beyond it a GPU is saturated, and only host time and the arena grow.
const MOST: usize = 32;
/// The maximum bytes of all arenas together. Micro-batches exist to save memory, so large ones are not unrolled.
const BYTES: usize = 1 << 30;

/// The unroll factor of a program on a device: a divisor of the number of iterations. The CPU runs instructions one
/// after the other, in caches that several arenas would share; plans without reuse are for memory checkers, which need
/// one micro-batch at a time.
fn factor(lowered: &Lowered, plan: &Plan, device: DeviceKind, reuse: Reuse) -> usize {
    match (device, reuse) {
        (DeviceKind::Cuda(_), Reuse::Tight | Reuse::Most) => {
            let most = MOST.min(BYTES / plan.arena.max(1)).max(1);
            (1..=most).rev().find(|n| lowered.repeat.times.is_multiple_of(*n)).unwrap_or(1)
        }
        (DeviceKind::Cpu | DeviceKind::Null, _) | (DeviceKind::Cuda(_), Reuse::Nothing) => 1,
    }
}

/// Unrolls the loop body by `asked` if that divides the number of iterations, else by the device's factor.
pub(crate) fn unroll(
    lowered: Lowered,
    plan: Plan,
    device: DeviceKind,
    reuse: Reuse,
    asked: Option<usize>,
) -> (Lowered, Plan) {
    let asked = asked.filter(|&n| n > 0 && lowered.repeat.times.is_multiple_of(n));
    let times = asked.unwrap_or_else(|| factor(&lowered, &plan, device, reuse));
    let unrolled = if times > 1 { copies(&lowered, &plan, times) } else { None };
    unrolled.unwrap_or((lowered, plan))
}

/// Unrolls the loop body `count` times, which divides the number of iterations. `None` if that cannot be expressed in
/// instructions: the loop body produces a program output, or reads state that was partially updated.
pub(super) fn copies(lowered: &Lowered, plan: &Plan, count: usize) -> Option<(Lowered, Plan)> {
    let Repeat { instructions: each, times } = lowered.repeat;
    let mut out = Copies { lowered: lowered.clone(), plan: plan.clone(), updates: Vec::new() };
    let body = &lowered.instructions[..each];
    let mut all: Vec<Instruction> = Vec::with_capacity(each * count + lowered.instructions.len() - each);
    let mut workspaces = Vec::with_capacity(all.capacity());
    // The last copy keeps the original values and arena, with which the rest of the program was planned.
    for time in 1..count {
        let values = out.copy_values(body, time)?;
        for (i, workspace) in body.iter().zip(&plan.workspaces) {
            all.push(out.copy(i, &values)?);
            workspaces.push(workspace + time * plan.arena);
        }
        out.end(body, &values);
    }
    let own: HashMap<StoredId, StoredId> = made(body).map(|v| (v, v)).collect();
    for v in made(body) {
        let home = out.home(lowered.values[v.0].home, lowered.values[v.0].spec.bytes(), &own)?;
        out.lowered.values[v.0].home = home;
    }
    for i in body {
        all.push(out.copy(i, &own)?);
    }
    all.extend_from_slice(&lowered.instructions[each..]);
    workspaces.extend_from_slice(&plan.workspaces);
    let Copies { lowered, plan, .. } = out;
    let repeat = Repeat { instructions: each * count, times: times / count };
    let (arena, live_peak, in_place) = (plan.arena * count, plan.live_peak * count, plan.in_place * count);
    Some((
        Lowered { instructions: all, repeat, ..lowered },
        Plan { workspaces, arena, live_peak, in_place, ..plan },
    ))
}

/// The values that instructions produce.
fn made(body: &[Instruction]) -> impl Iterator<Item = StoredId> + '_ {
    body.iter().flat_map(|i| i.outputs.iter().map(|o| o.value))
}

/// The program under construction.
struct Copies {
    lowered: Lowered,
    plan: Plan,
    /// State updates by the copies so far: the root, its byte range, and the value that it holds.
    updates: Vec<(StoredId, Range<usize>, StoredId)>,
}

impl Copies {
    /// New values for those that the loop body produces, in this copy's arena.
    fn copy_values(&mut self, body: &[Instruction], time: usize) -> Option<HashMap<StoredId, StoredId>> {
        let first = self.lowered.values.len();
        let values: HashMap<StoredId, StoredId> =
            made(body).enumerate().map(|(n, v)| (v, StoredId(first + n))).collect();
        for v in made(body) {
            let of = self.lowered.values[v.0].clone();
            let home = self.home(of.home, of.spec.bytes(), &values)?;
            let mut place = self.plan.places[v.0];
            if place.block == Block::Arena {
                place.offset += time * self.plan.arena;
            }
            self.lowered.values.push(Stored { name: format!("{} ({time} before)", of.name), home, ..of });
            self.plan.places.push(place);
        }
        Some(values)
    }

    fn copy(&self, i: &Instruction, values: &HashMap<StoredId, StoredId>) -> Option<Instruction> {
        let inputs = i.inputs.iter().map(|a| self.read(a, values)).collect::<Option<Vec<_>>>()?;
        let outputs = i.outputs.iter().map(|o| Arg { value: values[&o.value], ..*o }).collect();
        Some(Instruction { inputs, outputs, ..i.clone() })
    }

    /// An operand of this copy: its own value, or the one that the previous copy left in the state.
    fn read(&self, a: &Arg, values: &HashMap<StoredId, StoredId>) -> Option<Arg> {
        if let Some(&value) = values.get(&a.value) {
            return Some(Arg { value, ..*a });
        }
        let (span, size) = (a.layout.span(), a.dtype.size());
        let (value, start) = self.current(a.value, span.start * size..span.end * size)?;
        let layout = a.layout.at_origin().shifted(a.layout.offset() - start / size);
        Some(Arg { value, layout, ..*a })
    }

    fn home(&self, home: Home, bytes: usize, values: &HashMap<StoredId, StoredId>) -> Option<Home> {
        match home {
            Home::Arena => Some(Home::Arena),
            Home::Own | Home::Slab(_) => None,
            Home::Within(of, at) => match values.get(&of) {
                Some(&of) => Some(Home::Within(of, at)),
                None => {
                    let (value, start) = self.current(of, at..at + bytes)?;
                    Some(Home::Within(value, at - start))
                }
            },
        }
    }

    /// The value that now holds these bytes of a slab, and its start in the slab. `None` if several do.
    fn current(&self, slab: StoredId, bytes: Range<usize>) -> Option<(StoredId, usize)> {
        let meets = |r: &Range<usize>| r.start < bytes.end && bytes.start < r.end;
        match self.updates.iter().rev().find(|(of, r, _)| *of == slab && meets(r)) {
            None => Some((slab, 0)),
            Some((_, r, value)) if r.start <= bytes.start && bytes.end <= r.end => Some((*value, r.start)),
            Some(_) => None,
        }
    }

    /// Records the state updates of a copy.
    fn end(&mut self, body: &[Instruction], values: &HashMap<StoredId, StoredId>) {
        for v in made(body).map(|v| values[&v]) {
            let (of, at) = root(&self.lowered, v);
            if let Home::Slab(_) = self.lowered.values[of.0].home {
                self.updates.push((of, at..at + self.lowered.values[v.0].spec.bytes(), v));
            }
        }
    }
}
