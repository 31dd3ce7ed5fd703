//! Steps as one kernel: the launches of a segment, and small launches that wait for the same steps.

use super::capture::StepNode;
use super::preload::load;
use super::{Cuda, Prepared};
use crate::error::Error;
use crate::kernel::cuda::segment::{GROUP, Joined, Member};
use std::collections::HashMap;

/// Blocks at most of a launch in a group: more keep a GPU busy by themselves.
const SMALL: u64 = 264;

impl Cuda {
    /// The kernel of several launches, if it is loaded: the compiler refuses one that would need more shared memory than a block has.
    /// They stay apart then.
    pub(super) fn joined(
        &self,
        op: &'static str,
        joined: Option<&Joined>,
    ) -> Result<Option<Prepared>, Error> {
        let loaded = joined.filter(|j| self.has(j.launch().module));
        loaded.map(|j| self.prepare(op, &j.launch())).transpose()
    }
}

/// Joins small launches that wait for the same steps, again and again until there are none: those that waited for them then wait
/// for one step. `counts` are the steps of each launch of the list.
pub(super) fn group(device: &Cuda, steps: &mut Vec<StepNode>, counts: &mut [usize]) -> Result<(), Error> {
    loop {
        let groups = all(steps);
        if groups.is_empty() {
            return Ok(());
        }
        let made: Vec<Option<Joined>> = groups.iter().map(|(_, members)| Joined::group(members)).collect();
        load(device, made.iter().flatten().map(|joined| joined.launch().module.clone()).collect())?;
        let mut removed = Vec::new();
        for ((of, _), joined) in groups.into_iter().zip(&made) {
            match device.joined(GROUP, joined.as_ref())? {
                Some(prepared) => {
                    steps[of[0]].becomes(GROUP, prepared);
                    removed.push(of);
                }
                None => of.into_iter().for_each(|n| steps[n].stays_apart()),
            }
        }
        remove(steps, &removed, counts);
    }
}

/// All groups of two steps or more that can be one.
fn all(steps: &[StepNode]) -> Vec<(Vec<usize>, Vec<Member>)> {
    let mut groups: Vec<(Vec<usize>, Vec<Member>)> = Vec::new();
    let mut places: HashMap<&[usize], usize> = HashMap::new();
    for (n, step) in steps.iter().enumerate() {
        let Some(member) = step.member().filter(|m| m.blocks() <= SMALL) else { continue };
        let place = *places.entry(&step.after).or_insert_with(|| {
            groups.push((Vec::new(), Vec::new()));
            groups.len() - 1
        });
        groups[place].0.push(n);
        groups[place].1.push(member.clone());
    }
    groups.retain(|(of, _)| of.len() > 1);
    groups
}

/// Removes all steps of each group but its first, for which those wait that waited for one of them.
fn remove(steps: &mut Vec<StepNode>, groups: &[Vec<usize>], counts: &mut [usize]) {
    let mut first: Vec<usize> = (0..steps.len()).collect();
    for of in groups {
        of.iter().for_each(|&n| first[n] = of[0]);
    }
    let stays = |n: usize| first[n] == n;
    let mut from = 0;
    for count in counts {
        let own = from..from + *count;
        from = own.end;
        *count = own.filter(|&n| stays(n)).count();
    }
    // How many stay before each step.
    let places: Vec<usize> = (0..steps.len())
        .scan(0, |before, n| {
            let place = *before;
            *before += usize::from(stays(n));
            Some(place)
        })
        .collect();
    let mut n = 0;
    steps.retain(|_| {
        n += 1;
        stays(n - 1)
    });
    for step in steps {
        step.after = step.after.iter().map(|&a| places[first[a]]).collect();
        step.after.sort_unstable();
        step.after.dedup();
    }
}
