//! The steps of a launch list without a GPU: the operands of each, and its predecessors in a captured graph.

use super::dry::{Dry, Notes};
use super::edges::{TouchedOperands, step_edges, unordered};
use super::lower;
use crate::device::{LaunchList, RecordedLaunch};
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

/// The operands of each step of a launch.
pub(crate) fn touched(launch: &RecordedLaunch, device: DeviceKind) -> Result<Vec<TouchedOperands>, Error> {
    let mut outline = Dry(Outline::default());
    lower(&launch.as_launch(), device, &mut outline)?;
    Ok(outline.0.0)
}

/// The steps of a list as they are captured.
pub(crate) fn outline(list: &LaunchList, device: DeviceKind) -> Result<StepGraph, Error> {
    let steps = list.launches.iter().map(|launch| touched(launch, device)).collect::<Result<Vec<_>, _>>()?;
    let after = step_edges(list, &steps);
    Ok((steps, after))
}

/// Checks that the steps of a list, as captured, imply every edge that the checker verified in the plan, and that there is a kernel
/// for each of its segments.
///
/// # Errors
/// [`Error::Capture`] with the first launch that would not wait for a required predecessor, or that no part of a segment can do.
pub(crate) fn prove(list: &LaunchList, device: DeviceKind) -> Result<(), Error> {
    let (steps, after) = outline(list, device)?;
    implied(list, &steps, &after)?;
    list.segments.iter().try_for_each(|segment| segment.of(list, device).map(drop))
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
