//! The steps of a launch list without a GPU: the operands of each, and its predecessors in a captured graph.

use super::dry::{Dry, Notes};
use super::edges::{TouchedOperands, step_edges, unordered};
use super::lower;
use crate::device::LaunchList;
use crate::error::Error;
use crate::kernel::cuda::{CollectiveLaunch, KernelLaunch, ProductLaunch};
use crate::values::{Address, DeviceKind};

/// Collects the operands of steps; runs nothing.
#[derive(Default)]
struct Outline(Vec<TouchedOperands>);

impl Notes for Outline {
    fn kernel(&mut self, launch: &KernelLaunch<'_>) {
        self.0.push(TouchedOperands::These(launch.addresses().collect()));
    }

    fn product(&mut self, _: &ProductLaunch) -> bool {
        self.0.push(TouchedOperands::All);
        true
    }

    fn collective(&mut self, launch: &CollectiveLaunch) {
        self.0.push(TouchedOperands::of(launch));
    }

    fn fill(&mut self, to: Address) {
        self.0.push(TouchedOperands::These(vec![to.0]));
    }
}

/// The operands of the steps of each launch, and the predecessors of each step.
pub(crate) type StepGraph = (Vec<Vec<TouchedOperands>>, Vec<Vec<usize>>);

/// The steps of a list as they are captured.
pub(crate) fn outline(list: &LaunchList, device: DeviceKind) -> Result<StepGraph, Error> {
    let mut steps = Vec::with_capacity(list.launches.len());
    for launch in &list.launches {
        let mut outline = Dry(Outline::default());
        lower(&launch.as_launch(), device, &mut outline)?;
        steps.push(outline.0.0);
    }
    let after = step_edges(list, &steps);
    Ok((steps, after))
}

/// Checks that the steps of a list, as captured, imply every edge that the checker verified in the plan.
///
/// # Errors
/// [`Error::Capture`] with the first launch that would not wait for a required predecessor.
pub(crate) fn prove(list: &LaunchList, device: DeviceKind) -> Result<(), Error> {
    let (steps, after) = outline(list, device)?;
    implied(list, &steps, &after)
}

/// As [`prove`], for given steps.
pub(crate) fn implied(
    list: &LaunchList,
    steps: &[Vec<TouchedOperands>],
    after: &[Vec<usize>],
) -> Result<(), Error> {
    let Some((launch, needed)) = unordered(list, steps, after) else { return Ok(()) };
    let name = |n: usize| list.launches[n].op.name();
    Err(Error::Capture {
        what: format!(
            "launch {launch} ({}) does not wait for launch {needed} ({}), which the plan has before it; please report it",
            name(launch),
            name(needed)
        ),
    })
}
