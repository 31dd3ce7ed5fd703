//! The checker of segments: it knows neither how they were found nor how they are done. It lays out what every part of every
//! instruction touches, byte by byte, and looks for bytes that two different parts touch of which one writes.

use super::Plan;
use crate::device::steps::parts::part_of;
use crate::error::PlanError;
use crate::lower::segments::specs;
use crate::lower::{Lowered, Segment};
use crate::values::Block;
use std::collections::HashMap;

/// Bytes that a part of an instruction touches. All parts touch what has no part.
struct Touch {
    end: usize,
    part: Option<usize>,
    writes: bool,
    instruction: usize,
}

pub(super) fn verify(lowered: &Lowered, plan: &Plan, segment: &Segment) -> Result<(), PlanError> {
    let mut blocks: HashMap<Block, Vec<(usize, Touch)>> = HashMap::new();
    for instruction in segment.range() {
        let Some(i) = lowered.instructions.get(instruction) else { continue };
        let (op, parts) = (i.op.name(), segment.parts);
        let member = |why| PlanError::Member { instruction, op, parts, why };
        let (inputs, outputs) = specs(i);
        let axes = i.op.independent(&inputs, &outputs);
        let axes = axes.ok_or_else(|| member("its results depend on each other"))?;
        if axes.len() != inputs.len() + outputs.len() || i.workspace > 0 {
            return Err(member("not every byte that it touches has a part"));
        }
        let read = i.inputs.iter().map(|a| (a, false));
        for ((arg, writes), &axes) in read.chain(i.outputs.iter().map(|a| (a, true))).zip(&axes) {
            let place = plan.places[arg.value.0];
            let touched = blocks.entry(place.block).or_default();
            let mut touch = |part: Option<usize>| {
                let own = part_of(&arg.layout, part.map_or(0, |_| axes), part.unwrap_or(0), parts);
                let span = own.ok_or_else(|| member("an operand has no such parts"))?.span();
                let byte = |element: usize| place.offset + element * arg.dtype.size();
                touched.push((byte(span.start), Touch { end: byte(span.end), part, writes, instruction }));
                Ok(())
            };
            if axes == 0 { touch(None)? } else { (0..parts).try_for_each(|p| touch(Some(p)))? }
        }
    }
    blocks.into_values().try_for_each(|touched| apart(lowered, touched))
}

/// Checks that no two parts touch bytes that one of them writes.
fn apart(lowered: &Lowered, mut touched: Vec<(usize, Touch)>) -> Result<(), PlanError> {
    touched.sort_by_key(|(start, t)| (*start, t.end));
    let mut open: Vec<&Touch> = Vec::new();
    for (start, touch) in &touched {
        open.retain(|t| t.end > *start);
        // What no part owns is shared by all of them, with itself too.
        let differ = |t: &&&Touch| (t.writes || touch.writes) && (t.part.is_none() || t.part != touch.part);
        let shared = (touch.writes && touch.part.is_none()).then_some(touch);
        if let Some(other) = open.iter().find(differ).copied().or(shared) {
            return Err(PlanError::Parts {
                instruction: touch.instruction,
                op: lowered.instructions[touch.instruction].op.name(),
                part: touch.part.unwrap_or(0),
                other: other.instruction,
                other_part: other.part.unwrap_or(0),
            });
        }
        if touch.end > *start {
            open.push(touch);
        }
    }
    Ok(())
}
