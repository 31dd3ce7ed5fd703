//! A planned program as launches with addresses.

use crate::device::{LaunchList, PartedLaunches, RecordedLaunch};
use crate::lower::{Arg, Lowered};
use crate::plan::Plan;
use crate::values::{Address, Block, Operand};
use std::sync::Arc;

/// The launches of a program; `address` maps a block and a byte offset to an address.
pub(crate) fn launch_list(
    lowered: &Lowered,
    plan: &Plan,
    address: impl Fn(Block, usize) -> Address,
) -> LaunchList {
    let operand = |a: &Arg| {
        let place = plan.places[a.value.0];
        Operand { base: address(place.block, place.offset), dtype: a.dtype, layout: a.layout }
    };
    let launches = (lowered.instructions.iter().zip(&plan.workspaces))
        .map(|(i, &workspace)| RecordedLaunch {
            op: Arc::clone(&i.op),
            kernel: i.kernel,
            inputs: i.inputs.iter().map(operand).collect(),
            outputs: i.outputs.iter().map(operand).collect(),
            workspace: address(Block::Arena, workspace),
            workspace_bytes: i.workspace,
            after: i.after.clone(),
        })
        .collect();
    let segments =
        lowered.segments.iter().map(|s| PartedLaunches { launches: s.range(), parts: s.parts }).collect();
    LaunchList { launches, repeat: lowered.repeat, segments, grouped: lowered.grouped }
}
