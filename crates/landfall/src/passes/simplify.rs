//! Dead-code elimination: nodes that no output and no update of the state depends on.
//!
//! (Equal ops on equal values are merged when they are appended, and a view of a view becomes one layout then.)

use crate::contract::{Inner, Origin};

/// The nodes that an output or an update of the state depends on.
pub(crate) fn live_nodes(inner: &Inner) -> Vec<bool> {
    let mut live = vec![false; inner.nodes.len()];
    let mut stack: Vec<usize> = Vec::new();
    let node_of = |v| match inner.info(inner.info(v).base).origin {
        Origin::Node { node } => Some(node),
        Origin::Input | Origin::Slab | Origin::View { .. } => None,
    };
    stack.extend(inner.outputs.iter().filter_map(|(_, v)| node_of(*v)));
    stack.extend((0..inner.nodes.len()).filter(|&n| updates_state(inner, n)));
    while let Some(n) = stack.pop() {
        if !std::mem::replace(&mut live[n], true) {
            stack.extend(inner.nodes[n].inputs.iter().filter_map(|&v| node_of(v)));
        }
    }
    live
}

/// Whether a node updates memory of the state, directly or through an earlier update.
fn updates_state(inner: &Inner, node: usize) -> bool {
    let node = &inner.nodes[node];
    node.updates().any(|v| match inner.info(inner.info(v).base).origin {
        Origin::Slab => true,
        Origin::Node { node } => updates_state(inner, node),
        Origin::Input | Origin::View { .. } => false,
    })
}
