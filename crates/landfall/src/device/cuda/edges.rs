//! What each step of a launch list waits for. An instruction may be several launches of which the first makes one result
//! and the last another (a gradient, then sums over it): who reads the one need not wait for the other. So the edges of
//! a graph are found as the plan's are, by the bytes that are touched, but between steps.

use crate::device::{Launch, Operand};
use crate::plan::{Done, Ranges, direct};

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
    done: Vec<Done>,
}

impl Edges {
    /// The numbers of the steps that each step of the next launch waits for. Its first step waits for all that the
    /// launch needs, the others each for the one before. Others wait for the last of its steps that was given what they
    /// touch: for its last where none was, and for its scratch memory.
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
        let mut after = Vec::new();
        for o in launch.inputs.iter().filter(not_empty) {
            let (start, end) = span(o);
            self.touched.read(start, end, by(o), &mut after);
        }
        for o in launch.outputs.iter().filter(not_empty) {
            let (start, end) = span(o);
            self.touched.write(start, end, by(o), &mut after);
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
    use crate::ops::{Copy, Op};

    /// A gradient in two launches: the first makes `gx`, the second `gw` from what the first left in scratch memory.
    #[test]
    fn a_reader_waits_for_the_step_that_made_what_it_reads() {
        let at = |base: u64| Operand {
            base: Address(base),
            dtype: DType::F32,
            layout: Layout::contiguous(crate::Shape::new(&[16]).expect("a shape")),
        };
        let [x, gx, gw, y, z] = [at(0x1000), at(0x2000), at(0x3000), at(0x4000), at(0x5000)];
        let op = Copy;
        let kernel = &op.kernels(DeviceKind::Cuda(0))[0];
        let mut edges = Edges::default();
        let mut place = |inputs: &[Operand], outputs: &[Operand], scratch: usize, steps: &[Given]| {
            let launch = Launch {
                op: &op,
                kernel,
                inputs,
                outputs,
                workspace: Address(0x6000),
                workspace_bytes: scratch,
            };
            edges.of(&launch, steps)
        };
        let these = |all: &[u64]| Given::These(all.to_vec());
        let one = || [Given::All];
        // Steps 0 and 1.
        assert_eq!(
            place(&[x], &[gx, gw], 64, &[these(&[0x1000, 0x2000]), these(&[0x3000])]),
            [vec![], vec![0]]
        );
        // 2: a reader of gx; 3: of gw; 4: of both.
        assert_eq!(place(&[gx], &[y], 0, &one()), [[0]]);
        assert_eq!(place(&[gw], &[z], 0, &one()), [[1]]);
        assert_eq!(place(&[y, z], &[at(0x7000)], 0, &one()), [[2, 3]]);
        // 5: what overwrites x waits for its reader alone; 6: the next user of the scratch memory for the last step.
        assert_eq!(place(&[], &[x], 0, &one()), [[0]]);
        assert_eq!(place(&[], &[at(0x8000)], 64, &one()), [[1]]);
        // A launch without steps touches nothing. 7 and 8: an operand that no step names is the last one's.
        assert_eq!(place(&[gx], &[gx], 0, &[]), Vec::<Vec<usize>>::new());
        assert_eq!(place(&[gw], &[gx], 0, &[these(&[0x3000]), these(&[])]), [vec![1, 2], vec![7]]);
        assert_eq!(place(&[gx], &[y], 0, &one()), [[4, 8]]);
        // Updated where it is: the update waits for the reader of the same launch only through their order.
        assert_eq!(place(&[y], &[y], 0, &[these(&[0x4000]), these(&[0x4004])]), [vec![9], vec![10]]);
        assert_eq!(place(&[y], &[z], 0, &one()), [[11]]);
    }
}
