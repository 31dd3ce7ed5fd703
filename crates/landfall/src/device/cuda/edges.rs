//! What each step of a launch list waits for. An instruction may be several launches of which the first makes one result
//! and the last another (a gradient, then sums over it): who reads the one need not wait for the other. So the edges of
//! a graph are found as the plan's are, by the bytes that are touched, but between steps.

use crate::device::{Launch, Operand};
use crate::layout::Relation;
use crate::ops::Alias;
use crate::plan::{Ancestors, Ranges, direct};

/// Which operands a step was given.
#[derive(Debug)]
pub(super) enum Given {
    /// All of its launch.
    All,
    /// Those in which these addresses lie.
    These(Vec<u64>),
}

/// The edges of a list, launch by launch.
#[derive(Debug, Default)]
pub(super) struct Edges {
    touched: Ranges,
    /// The steps that are done before each one starts.
    done: Vec<Ancestors>,
}

impl Edges {
    /// The numbers of the steps that each step of the next launch waits for. Its first step waits for all that the
    /// launch needs, the others each for the one before. Others wait for the last of its steps that was given what they
    /// touch: for its last where none was, and for its scratch memory. Of a packing whose parts lie in their places, the
    /// launch touches the gaps alone; who reads it waits for the makers of the parts.
    pub(super) fn of(&mut self, launch: &Launch<'_>, steps: &[Given]) -> Vec<Vec<usize>> {
        let first = self.done.len();
        let Some(last) = steps.len().checked_sub(1) else { return Vec::new() };
        let span = |o: &Operand| {
            let (start, end) = o.span();
            (start as usize, end as usize)
        };
        let by = |o: &Operand| {
            let (start, end) = o.span();
            let given = |step: &Given| match step {
                Given::All => true,
                Given::These(addresses) => addresses.iter().any(|a| (start..end).contains(a)),
            };
            first + steps.iter().rposition(given).unwrap_or(last)
        };
        let not_empty = |o: &&Operand| o.spec().bytes() > 0;
        let packings = launch.outputs.iter().zip(launch.op.alias());
        let packings: Vec<&Operand> =
            packings.filter(|(_, alias)| matches!(alias, Alias::Parts(_))).map(|(o, _)| o).collect();
        let is_part = |i: &&Operand| packings.iter().any(|o| o.relation(i) != Relation::Disjoint);
        let mut after = Vec::new();
        for o in launch.inputs.iter().filter(not_empty).filter(|i| !is_part(i)) {
            let (start, end) = span(o);
            self.touched.read(start, end, by(o), &mut after);
        }
        for o in launch.outputs.iter().filter(not_empty) {
            let (mut start, end) = span(o);
            let parts = launch.inputs.iter().filter(not_empty).filter(is_part).map(span);
            // They lie in order.
            for (from, to) in parts.filter(|p| span(o).0 <= p.0 && p.1 <= end) {
                if start < from {
                    self.touched.write(start, from, by(o), &mut after);
                }
                start = to;
            }
            if start < end {
                self.touched.write(start, end, by(o), &mut after);
            }
        }
        if launch.workspace_bytes > 0 {
            let start = launch.workspace.0 as usize;
            self.touched.write(start, start + launch.workspace_bytes, first + last, &mut after);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::device::{Address, DeviceKind};
    use crate::layout::Layout;
    use crate::ops::{Copy, Op, Pack};

    fn at(base: u64, elements: usize) -> Operand {
        let layout = Layout::contiguous(crate::Shape::new(&[elements]).expect("a shape"));
        Operand { base: Address(base), dtype: DType::F32, layout }
    }

    fn place(
        edges: &mut Edges,
        op: &dyn Op,
        inputs: &[Operand],
        outputs: &[Operand],
        scratch: usize,
        steps: &[Given],
    ) -> Vec<Vec<usize>> {
        let kernel = &op.kernels(DeviceKind::Cuda(0))[0];
        let (workspace, workspace_bytes) = (Address(0x6000), scratch);
        edges.of(&Launch { op, kernel, inputs, outputs, workspace, workspace_bytes }, steps)
    }

    fn these(all: &[u64]) -> Given {
        Given::These(all.to_vec())
    }

    /// Two parts made where a packing has them, with a gap behind each: who reads the packing waits for both and for the
    /// zeros in the gaps, which wait for nothing but who had their bytes before.
    #[test]
    fn a_packing_of_parts_in_their_places_is_its_gaps() {
        let mut edges = Edges::default();
        let mut place = |op: &dyn Op, inputs: &[Operand], outputs: &[Operand]| {
            place(&mut edges, op, inputs, outputs, 0, &[Given::All])
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
        let mut place = |inputs: &[Operand], outputs: &[Operand], scratch: usize, steps: &[Given]| {
            place(&mut edges, &Copy, inputs, outputs, scratch, steps)
        };
        let one = || [Given::All];
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
}
