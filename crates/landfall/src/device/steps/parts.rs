//! The launches of a call part by part, along the axes along which its results are independent of each other.

use super::dry::{Dry, Notes};
use super::lower;
use crate::contract::{Kernel, Op};
use crate::device::{Launch, LaunchList, PartedLaunches, RecordedLaunch};
use crate::error::Error;
use crate::kernel::cuda::segment::{Joined, Member};
use crate::kernel::cuda::{CollectiveLaunch, KernelLaunch, ProductLaunch};
use crate::values::{Address, DeviceKind, Layout, Operand};
use std::ops::Range;

/// A call by parts: its operands, and of each how many leading axes count what is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut<'a> {
    pub(crate) op: &'a dyn Op,
    pub(crate) kernel: &'static Kernel,
    pub(crate) inputs: &'a [Operand],
    pub(crate) outputs: &'a [Operand],
    pub(crate) axes: &'a [usize],
    pub(crate) parts: usize,
}

/// One of `parts` parts of a layout along its first `axes` axes, in row-major order: one slice of each axis. The whole of it where there
/// are none. `None` if the parts are no slices of one shape.
pub(crate) fn part_of(layout: &Layout, axes: usize, part: usize, parts: usize) -> Option<Layout> {
    let sizes = layout.shape().dims().get(..axes)?;
    if axes == 0 {
        return Some(*layout);
    }
    let count: usize = sizes.iter().product();
    if count == 0 || !count.is_multiple_of(parts) {
        return None;
    }
    let each = count / parts;
    let (mut out, mut start, mut inner) = (*layout, part * each, 1);
    for axis in (0..axes).rev() {
        let size = sizes[axis];
        // What a part has of this axis: all of it, some, or one.
        let own = (each / inner).clamp(1, size);
        let whole = each >= inner * size && each.is_multiple_of(inner * size);
        let some = each.is_multiple_of(inner) && size.is_multiple_of(own) || each < inner;
        if !(whole || some) {
            return None;
        }
        out = out.slice(axis, start % size, own, 1).ok()?;
        start /= size;
        inner *= size;
    }
    (out.shape().dims()[..axes].iter().product::<usize>() == each).then_some(out)
}

impl Cut<'_> {
    /// The operands of a part, inputs first.
    pub(crate) fn operands(&self, part: usize) -> Option<Vec<Operand>> {
        if self.axes.len() != self.inputs.len() + self.outputs.len() {
            return None;
        }
        let all = self.inputs.iter().chain(self.outputs);
        all.zip(self.axes)
            .map(|(o, &axes)| part_of(o.layout(), axes, part, self.parts).map(|layout| o.relaid(layout)))
            .collect()
    }

    /// The launches that a part's block makes, if these parts are enough to tell and can be members of a segment.
    pub(crate) fn members(
        &self,
        device: DeviceKind,
        parts: impl IntoIterator<Item = usize>,
    ) -> Option<Vec<Member>> {
        let mut found = Dry(Recorded::default());
        let own = self.op.of_part(self.parts);
        for part in parts {
            let operands = self.operands(part)?;
            let (inputs, outputs) = operands.split_at(self.inputs.len());
            found.0.part = part;
            found.0.at = 0;
            let (op, kernel) = (own.as_deref().unwrap_or(self.op), self.kernel);
            let launch = Launch { op, kernel, inputs, outputs, workspace: Address(0), workspace_bytes: 0 };
            lower(&launch, device, &mut found).ok()?;
            if found.0.refused || found.0.at != found.0.members.len() {
                return None;
            }
        }
        let members = found.0.members;
        (!members.is_empty() && members.iter().all(Member::is_regular)).then_some(members)
    }
}

impl PartedLaunches {
    /// The one kernel that does these launches of a list by parts; each part of each is recorded, to see that it can.
    ///
    /// # Errors
    /// [`Error::Capture`] if it can not, although the plan has it.
    pub(crate) fn of(&self, list: &LaunchList, device: DeviceKind) -> Result<Joined, Error> {
        let launches = &list.launches[self.launches.clone()];
        let mut members = Vec::new();
        for RecordedLaunch { op, kernel, inputs, outputs, .. } in launches {
            let specs = |of: &[Operand]| of.iter().map(Operand::spec).collect::<Vec<_>>();
            let axes = op.independent(&specs(inputs), &specs(outputs)).unwrap_or_default();
            let cut = Cut { op: op.as_ref(), kernel, inputs, outputs, axes: &axes, parts: self.parts };
            members.extend(cut.members(device, 0..self.parts).ok_or_else(|| self.refused(op.name()))?);
        }
        let parts = u32::try_from(self.parts).ok();
        parts.and_then(|parts| Joined::segment(&members, parts)).ok_or_else(|| self.refused("all of them"))
    }

    fn refused(&self, op: &str) -> Error {
        let (Range { start, end }, parts) = (&self.launches, self.parts);
        let what = format!(
            "one kernel can not do launches {start} to {end} by {parts} parts, because of {op}; please report it"
        );
        Error::Capture { what }
    }
}

/// Takes note of the launches of one part after the other, the first one first.
#[derive(Default)]
struct Recorded {
    part: usize,
    /// Launches of this part so far.
    at: usize,
    members: Vec<Member>,
    refused: bool,
}

impl Notes for Recorded {
    fn kernel(&mut self, launch: &KernelLaunch<'_>) {
        let taken = if self.part == 0 {
            Member::new(launch).map(|m| self.members.push(m)).is_some()
        } else {
            self.members.get_mut(self.at).is_some_and(|m| m.continues(self.part, launch))
        };
        self.at += 1;
        self.refused |= !taken;
    }

    fn product(&mut self, _: &ProductLaunch) -> bool {
        self.refused = true;
        true
    }

    fn collective(&mut self, _: &CollectiveLaunch) {
        self.refused = true;
    }

    fn fill(&mut self, _: Address) {
        self.refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts and sizes of each part.
    fn slices(shape: &[usize], axes: usize, parts: usize) -> Option<Vec<(usize, Vec<usize>)>> {
        let layout = Layout::contiguous(crate::values::Shape::new(shape)?);
        (0..parts)
            .map(|p| part_of(&layout, axes, p, parts).map(|l| (l.offset(), l.shape().dims().to_vec())))
            .collect()
    }

    #[test]
    fn parts_are_slices_that_follow_each_other() {
        assert_eq!(slices(&[4, 3], 1, 2), Some(vec![(0, vec![2, 3]), (6, vec![2, 3])]));
        let halves = slices(&[2, 4, 3], 2, 4).expect("half an inner axis each");
        assert_eq!(halves, [0, 6, 12, 18].map(|at| (at, vec![1, 2, 3])));
        let rows = slices(&[4, 2, 3], 2, 2).expect("two of the outer axis each");
        assert_eq!(rows, [0, 12].map(|at| (at, vec![2, 2, 3])));
        assert_eq!(slices(&[3, 4], 2, 2), None, "six of rows of four");
        assert_eq!(slices(&[5], 1, 2), None);
        assert_eq!(slices(&[5], 0, 2), Some(vec![(0, vec![5]); 2]), "each has the whole");
    }
}
