//! Program outputs keep the values that were named.

use super::live_nodes;
use crate::contract::{Inner, Node, Origin, Output, Value};
use crate::ops::Copy;
use std::panic::Location;
use std::sync::Arc;

/// Copies each output that is in the state, or that is updated later: an output keeps the named value, and neither the
/// rest of this program nor another program changes it.
pub(super) fn copy_outputs(inner: &mut Inner) {
    let live = live_nodes(inner);
    for k in 0..inner.outputs.len() {
        let (name, v) = inner.outputs[k].clone();
        let (base, read) = (inner.info(v).base, inner.info(v).layout.span());
        let updates = |node: &Node| -> bool {
            node.updates().any(|target| {
                let written = inner.info(target).layout.span();
                inner.info(target).base == base && read.start < written.end && written.start < read.end
            })
        };
        let updated = inner.nodes.iter().zip(&live).find(|(node, live)| **live && updates(node));
        if updated.is_none() && !in_state(inner, base) {
            continue;
        }
        let at = updated.map_or_else(Location::caller, |(node, _)| node.at);
        let node = inner.nodes.len();
        let copy = inner.add_value(inner.info(v).spec, Origin::Node { node });
        inner.values[copy.index()].name = Some(name);
        inner.nodes.push(Node {
            op: Arc::new(Copy),
            inputs: vec![v],
            outputs: vec![copy],
            at,
            order: (node, usize::MAX),
            full_precision: true,
            block: None,
        });
        inner.outputs[k].1 = copy;
    }
}

/// Whether a value is in the state, or an update of it.
fn in_state(inner: &Inner, base: Value) -> bool {
    match inner.info(base).origin {
        Origin::Slab => true,
        Origin::Input | Origin::View { .. } => false,
        Origin::Node { node } => {
            let node = &inner.nodes[node];
            let output = node.outputs.iter().position(|&o| o == base).and_then(|j| node.op.outputs().get(j));
            let updated = output.and_then(Output::updated).and_then(|i| node.inputs.get(i));
            updated.is_some_and(|&v| in_state(inner, inner.info(v).base))
        }
    }
}
