//! The steps of a launch list without a GPU: the operands of each, and its predecessors in a captured graph.

use super::edges::{TouchedOperands, step_edges, unordered};
use super::{Address, KernelLaunch, LaunchList, ProductLaunch, Sink, lower};
use crate::error::Error;
use crate::kernel::cuda::{TENSOR_MAP_WORDS, Tile};
use crate::values::DeviceKind;

/// Collects the operands of steps; runs nothing.
#[derive(Default)]
struct Outline(Vec<TouchedOperands>);

impl Sink for Outline {
    fn kernel(&mut self, _: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        self.0.push(TouchedOperands::These(launch.addresses().collect()));
        Ok(())
    }

    fn product(&mut self, _: &'static str, _: &ProductLaunch) -> Result<bool, Error> {
        self.0.push(TouchedOperands::All);
        Ok(true)
    }

    fn fill(&mut self, _: &'static str, to: Address, _: usize, _: u8) -> Result<(), Error> {
        self.0.push(TouchedOperands::These(vec![to.0]));
        Ok(())
    }

    fn tensor_map(&self, _: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        Ok([0; TENSOR_MAP_WORDS])
    }

    fn faults(&mut self, _: &'static str) -> (Address, u32) {
        (Address(0), 0)
    }

    fn architecture(&self) -> Option<&str> {
        None
    }
}

/// The operands of the steps of each launch, and the predecessors of each step.
pub(crate) type StepGraph = (Vec<Vec<TouchedOperands>>, Vec<Vec<usize>>);

/// The steps of a list as they are captured.
pub(crate) fn outline(list: &LaunchList, device: DeviceKind) -> Result<StepGraph, Error> {
    let mut steps = Vec::with_capacity(list.launches.len());
    for launch in &list.launches {
        let mut outline = Outline::default();
        lower(&launch.as_launch(), device, &mut outline)?;
        steps.push(outline.0);
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
