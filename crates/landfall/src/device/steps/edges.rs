//! The edges of a step graph. An instruction may be several launches, of which the first writes one result and the last
//! another (a gradient, then sums over it): a reader of the first result need not wait for the last launch. So the
//! edges of the graph are derived as the plan's are, by bytes touched and from one collective to the next, but between
//! steps. [`unordered`] then checks that they imply every edge of the plan, which the checker has verified.

use crate::contract::Alias;
use crate::device::{Launch, LaunchList};
use crate::kernel::cuda::CollectiveLaunch;
use crate::values::{Ancestors, Operand, Ranges, Relation, direct};

/// The operands of a step.
#[derive(Debug, Clone)]
pub(crate) enum TouchedOperands {
    /// All operands of its launch.
    All,
    /// The operands that contain these addresses.
    These(Vec<u64>),
}

impl TouchedOperands {
    /// Those of a collective.
    pub(crate) fn of(collective: &CollectiveLaunch) -> Self {
        Self::These(vec![collective.from.0, collective.to.0])
    }

    fn has(&self, start: u64, end: u64) -> bool {
        match self {
            Self::All => true,
            Self::These(addresses) => addresses.iter().any(|a| (start..end).contains(a)),
        }
    }
}

/// Number of the last step of a launch that has an operand: its last step if none has it.
fn last_given(steps: &[TouchedOperands], operand: &Operand) -> usize {
    let (start, end) = operand.span();
    steps.iter().rposition(|s| s.has(start, end)).unwrap_or(steps.len().saturating_sub(1))
}

fn not_empty(operand: &&Operand) -> bool {
    operand.spec().bytes() > 0
}

fn bytes_of(operand: &Operand) -> (usize, usize) {
    let (start, end) = operand.span();
    (start as usize, end as usize)
}

/// The inputs of a packed buffer that are in its output already.
fn parts_in_place<'a>(launch: &Launch<'a>) -> impl Iterator<Item = &'a Operand> + use<'a> {
    let outputs = launch.outputs.iter().zip(launch.op.outputs());
    let packings: Vec<&Operand> =
        outputs.filter(|(_, says)| matches!(says.alias, Alias::Parts(_))).map(|(o, _)| o).collect();
    let inputs = launch.inputs.iter().filter(not_empty);
    inputs.filter(move |i| packings.iter().any(|o| o.relation(i) != Relation::Disjoint))
}

/// Visits the bytes that a launch touches, in order: the range, whether it is written, and the operand, or none for the
/// workspace. A packed buffer whose parts are in place touches the gaps only.
fn touches<'a>(launch: &Launch<'a>, mut visit: impl FnMut(usize, usize, bool, Option<&'a Operand>)) {
    let parts: Vec<&Operand> = parts_in_place(launch).collect();
    let is_part = |i: &&Operand| parts.iter().any(|&part| std::ptr::eq(part, *i));
    for o in launch.inputs.iter().filter(not_empty).filter(|i| !is_part(i)) {
        let (start, end) = bytes_of(o);
        visit(start, end, false, Some(o));
    }
    for o in launch.outputs.iter().filter(not_empty) {
        let (whole, end) = bytes_of(o);
        let mut start = whole;
        // They are in order.
        for (from, to) in parts.iter().map(|p| bytes_of(p)).filter(|p| whole <= p.0 && p.1 <= end) {
            if start < from {
                visit(start, from, true, Some(o));
            }
            start = to;
        }
        if start < end {
            visit(start, end, true, Some(o));
        }
    }
    if launch.workspace_bytes > 0 {
        let start = launch.workspace.0 as usize;
        visit(start, start + launch.workspace_bytes, true, None);
    }
}

/// The edges of a list, launch by launch.
#[derive(Debug, Default)]
pub(super) struct Edges {
    touched: Ranges,
    /// The predecessors of each step.
    done: Vec<Ancestors>,
    /// The last step of the most recent collective.
    met: Option<usize>,
}

impl Edges {
    /// The numbers of the steps that each step of the next launch waits for. Its first step waits for all predecessors
    /// of the launch, the others each for the previous step. Later launches wait for the last of its steps with an
    /// operand that they touch: for its last step if none has it, or if it is the workspace. A reader of a packed
    /// buffer waits for the producers of the parts that were in place.
    pub(super) fn of(&mut self, launch: &Launch<'_>, steps: &[TouchedOperands]) -> Vec<Vec<usize>> {
        let first = self.done.len();
        let Some(last) = steps.len().checked_sub(1) else { return Vec::new() };
        let mut after = Vec::new();
        touches(launch, |start, end, writes, operand| {
            let by = first + operand.map_or(last, |o| last_given(steps, o));
            let touch = if writes { Ranges::write } else { Ranges::read };
            touch(&mut self.touched, start, end, by, &mut after);
        });
        if launch.op.collective() {
            after.extend(self.met.replace(first + last));
        }
        after.retain(|&step| step < first);
        (first..=first + last)
            .map(|step| {
                let waits = if step == first { std::mem::take(&mut after) } else { vec![step - 1] };
                let (waits, done) = direct(waits, &self.done);
                self.done.push(done);
                waits
            })
            .collect()
    }
}

/// The predecessors of each step of a list; `steps` are those of each launch.
pub(crate) fn step_edges(list: &LaunchList, steps: &[Vec<TouchedOperands>]) -> Vec<Vec<usize>> {
    let mut edges = Edges::default();
    list.launches.iter().zip(steps).flat_map(|(l, steps)| edges.of(&l.as_launch(), steps)).collect()
}

/// The first launch that does not wait for one that it must come after, with the number of that one: by the plan's proved
/// edges ([`RecordedLaunch::after`](crate::device::RecordedLaunch)), or because both touch the same bytes and one of them
/// writes them. Of a launch of several steps, the wait must be for the last that was given the bytes in common. A launch without
/// steps touches nothing: nobody waits for it, and those before and after it that share bytes wait for each other. A packing need not wait for the makers and the readers of parts that lie in their
/// places: whoever touches those bytes next waits for them.
pub(super) fn unordered(
    list: &LaunchList,
    steps: &[Vec<TouchedOperands>],
    after: &[Vec<usize>],
) -> Option<(usize, usize)> {
    let first: Vec<usize> =
        steps.iter().scan(0, |next, launch| Some(std::mem::replace(next, *next + launch.len()))).collect();
    let mut done: Vec<Ancestors> = Vec::with_capacity(after.len());
    for waits in after {
        let mut before = Ancestors::default();
        for &step in waits {
            before.extend(&done[step]);
            before.insert(step);
        }
        done.push(before);
    }
    let mut touched = Ranges::default();
    for (n, recorded) in list.launches.iter().enumerate().filter(|(n, _)| !steps[*n].is_empty()) {
        let launch = recorded.as_launch();
        let of = |a: usize| list.launches[a].as_launch();
        let touches_part = |a: usize| {
            let (other, mut parts) = (of(a), parts_in_place(&launch));
            let operands = || other.inputs.iter().chain(other.outputs).filter(not_empty);
            parts.any(|part| operands().any(|o| o.relation(part) != Relation::Disjoint))
        };
        let planned = recorded.after.iter().copied();
        let mut needed: Vec<usize> = planned.filter(|&a| !steps[a].is_empty() && !touches_part(a)).collect();
        touches(&launch, |start, end, writes, _| {
            let touch = if writes { Ranges::write } else { Ranges::read };
            touch(&mut touched, start, end, n, &mut needed);
        });
        needed.retain(|&a| a != n);
        needed.sort_unstable();
        let waits = |a: usize| done[first[n]].contains(first[a] + last_in_common(&of(a), &steps[a], &launch));
        if let Some(&missing) = needed.iter().find(|&&a| !waits(a)) {
            return Some((n, missing));
        }
    }
    None
}

/// The last step of `launch` with bytes that `other` touches too, if one of both writes them; its last step if there
/// are none, or if they are workspace.
fn last_in_common(launch: &Launch<'_>, steps: &[TouchedOperands], other: &Launch<'_>) -> usize {
    let mut last = None;
    let end = steps.len().saturating_sub(1);
    touches(launch, |start, stop, writes, operand| {
        touches(other, |from, to, also_writes, _| {
            if (writes || also_writes) && start < to && from < stop {
                last = last.max(Some(operand.map_or(end, |o| last_given(steps, o))));
            }
        });
    });
    last.unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Op;
    use crate::ops::{AllReduce, Copy, Pack, Reduction};
    use crate::values::{Address, DType, DeviceKind, Layout};

    fn at(base: u64, elements: usize) -> Operand {
        let layout = Layout::contiguous(crate::values::Shape::new(&[elements]).expect("a shape"));
        Operand { base: Address(base), dtype: DType::F32, layout }
    }

    fn place(
        edges: &mut Edges,
        op: &dyn Op,
        inputs: &[Operand],
        outputs: &[Operand],
        scratch: usize,
        steps: &[TouchedOperands],
    ) -> Vec<Vec<usize>> {
        let kernel = &op.kernels(DeviceKind::Cuda(0))[0];
        let (workspace, workspace_bytes) = (Address(0x6000), scratch);
        edges.of(&Launch { op, kernel, inputs, outputs, workspace, workspace_bytes }, steps)
    }

    fn these(all: &[u64]) -> TouchedOperands {
        TouchedOperands::These(all.to_vec())
    }

    /// Two parts made where a packing has them, with a gap behind each: who reads the packing waits for both and for the
    /// zeros in the gaps, which wait for nothing but who had their bytes before.
    #[test]
    fn a_packing_of_parts_in_their_places_is_its_gaps() {
        let mut edges = Edges::default();
        let mut place = |op: &dyn Op, inputs: &[Operand], outputs: &[Operand]| {
            place(&mut edges, op, inputs, outputs, 0, &[TouchedOperands::All])
        };
        let [whole, left, right] = [at(0x9000, 21), at(0x9000, 5), at(0x9040, 4)];
        let [x, y, elsewhere] = [at(0x1000, 16), at(0x2000, 16), at(0x3000, 4)];
        // 0: what had the bytes before. 1 and 2: the parts. 3: the packing. 4: its reader.
        assert_eq!(place(&Copy, &[x], &[at(0x9000, 16)]), [[0usize; 0]]);
        assert_eq!(place(&Copy, &[x], &[left]), [[0]]);
        assert_eq!(place(&Copy, &[x], &[right]), [[0usize; 0]]);
        assert_eq!(place(&Pack, &[left, right], &[whole]), [[0]]);
        assert_eq!(place(&Copy, &[whole], &[y]), [[1, 2, 3]]);
        // 5 and 6: a part that lies elsewhere is read, and its place written.
        assert_eq!(place(&Copy, &[x], &[elsewhere]), [[0usize; 0]]);
        assert_eq!(place(&Pack, &[left, elsewhere], &[whole]), [[4, 5]]);
    }

    /// A gradient in two launches: the first makes `gx`, the second `gw` from what the first left in scratch memory.
    #[test]
    fn a_reader_waits_for_the_step_that_made_what_it_reads() {
        let [x, gx, gw, y, z] = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(|base| at(base, 16));
        let mut edges = Edges::default();
        let mut place =
            |inputs: &[Operand], outputs: &[Operand], scratch: usize, steps: &[TouchedOperands]| {
                place(&mut edges, &Copy, inputs, outputs, scratch, steps)
            };
        let one = || [TouchedOperands::All];
        // Steps 0 and 1.
        assert_eq!(
            place(&[x], &[gx, gw], 64, &[these(&[0x1000, 0x2000]), these(&[0x3000])]),
            [vec![], vec![0]]
        );
        // 2: a reader of gx; 3: of gw; 4: of both.
        assert_eq!(place(&[gx], &[y], 0, &one()), [[0]]);
        assert_eq!(place(&[gw], &[z], 0, &one()), [[1]]);
        assert_eq!(place(&[y, z], &[at(0x7000, 16)], 0, &one()), [[2, 3]]);
        // 5: what overwrites x waits for its reader alone; 6: the next user of the scratch memory for the last step.
        assert_eq!(place(&[], &[x], 0, &one()), [[0]]);
        assert_eq!(place(&[], &[at(0x8000, 16)], 64, &one()), [[1]]);
        // A launch without steps touches nothing. 7 and 8: an operand that no step names is the last one's.
        assert_eq!(place(&[gx], &[gx], 0, &[]), Vec::<Vec<usize>>::new());
        assert_eq!(place(&[gw], &[gx], 0, &[these(&[0x3000]), these(&[])]), [vec![1, 2], vec![7]]);
        assert_eq!(place(&[gx], &[y], 0, &one()), [[4, 8]]);
        // Updated where it is: the update waits for the reader of the same launch only through their order.
        assert_eq!(place(&[y], &[y], 0, &[these(&[0x4000]), these(&[0x4004])]), [vec![9], vec![10]]);
        assert_eq!(place(&[y], &[z], 0, &one()), [[11]]);
    }

    /// Two launches of a kernel after a collective of two steps, then another collective: bytes order none of them.
    #[test]
    fn a_collective_waits_for_the_last_step_of_the_one_before_it() {
        let sum = AllReduce { reduction: Reduction::Sum };
        let mut edges = Edges::default();
        let mut place = |op: &dyn Op, from: u64, steps: usize| {
            let all = vec![TouchedOperands::All; steps];
            place(&mut edges, op, &[at(from, 16)], &[at(from + 0x800, 16)], 0, &all)
        };
        assert_eq!(place(&sum, 0x1000, 2), [vec![], vec![0]]);
        assert_eq!(place(&Copy, 0x2000, 1), [[0usize; 0]]);
        assert_eq!(place(&sum, 0x3000, 1), [[1]]);
        assert_eq!(place(&sum, 0x4000, 1), [[3]]);
    }
}
