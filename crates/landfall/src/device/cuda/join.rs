//! Steps as one kernel: the launches of a segment, and small launches that wait for the same steps.

use super::capture::StepNode;
use super::{Cuda, Prepared};
use crate::error::Error;
use crate::kernel::cuda::segment::{GROUP, Joined, Member};

/// Blocks at most of a launch in a group: more keep a GPU busy by themselves.
const SMALL: u64 = 264;

impl Cuda {
    /// The kernel of several launches; none where the compiler refuses it, as one that would need more shared memory than a block
    /// has. They stay apart then.
    pub(super) fn joined(
        &self,
        op: &'static str,
        joined: Option<&Joined>,
    ) -> Result<Option<Prepared>, Error> {
        match joined.map(|j| self.prepare(op, &j.launch())).transpose() {
            Err(Error::Compile { .. }) => Ok(None),
            other => other,
        }
    }
}

/// Joins small launches that wait for the same steps, again and again until there are none: those that waited for them then wait
/// for one step. `counts` are the steps of each launch of the list.
pub(super) fn group(device: &Cuda, steps: &mut Vec<StepNode>, counts: &mut [usize]) -> Result<(), Error> {
    while let Some((of, members)) = next(steps) {
        match device.joined(GROUP, Joined::group(&members).as_ref())? {
            Some(prepared) => {
                steps[of[0]].becomes(GROUP, prepared);
                remove(steps, &of, counts);
            }
            None => of.into_iter().for_each(|n| steps[n].stays_apart()),
        }
    }
    Ok(())
}

/// The first steps, two or more, that can be one.
fn next(steps: &[StepNode]) -> Option<(Vec<usize>, Vec<Member>)> {
    let small = |s: &StepNode| s.member().filter(|m| m.blocks() <= SMALL).cloned();
    (0..steps.len()).find_map(|first| {
        let after = &steps[first].after;
        small(&steps[first])?;
        let alike = (first..steps.len()).filter(|&n| steps[n].after == *after);
        let (of, members): (Vec<usize>, Vec<Member>) =
            alike.filter_map(|n| small(&steps[n]).map(|m| (n, m))).unzip();
        (of.len() > 1).then_some((of, members))
    })
}

/// Removes all of these steps but the first, for which those wait that waited for one of them.
fn remove(steps: &mut Vec<StepNode>, of: &[usize], counts: &mut [usize]) {
    let mut launch = 0;
    let mut end = 0;
    let mut less = vec![0; counts.len()];
    for n in 0..steps.len() {
        while n >= end {
            end += counts[launch];
            launch += 1;
        }
        less[launch - 1] += usize::from(of[1..].contains(&n));
    }
    counts.iter_mut().zip(less).for_each(|(count, less)| *count -= less);
    let place =
        |n: usize| if of.contains(&n) { of[0] } else { n - of[1..].iter().filter(|&&o| o < n).count() };
    let mut n = 0;
    steps.retain(|_| {
        n += 1;
        !of[1..].contains(&(n - 1))
    });
    for step in steps {
        step.after = step.after.iter().map(|&a| place(a)).collect();
        step.after.sort_unstable();
        step.after.dedup();
    }
}
