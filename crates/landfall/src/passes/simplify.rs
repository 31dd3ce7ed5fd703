//! Dead-code elimination: nodes that no output and no update of the state depends on. Merging of equal values.
//!
//! (Equal ops on equal values are merged when they are appended, but for those of [`Graph::distinct`](crate::Graph::distinct), and a
//! view of a view becomes one layout then.)

use crate::contract::{Inner, Origin, Value, View};
use std::collections::HashMap;

/// Makes equal ops on equal values, and equal views, the first of them, as they are where a graph is built without
/// [`Graph::distinct`](crate::Graph::distinct). What is replaced is dead.
pub(crate) fn merge_equal(inner: &mut Inner) {
    let mut first: HashMap<Value, Value> = HashMap::new();
    let mut nodes: HashMap<(String, Vec<Value>), usize> = HashMap::new();
    let mut views: HashMap<(Value, String), Value> = HashMap::new();
    // A value is made of earlier ones.
    for index in 0..inner.values.len() {
        let value = inner.value(index);
        match inner.info(value).origin.clone() {
            Origin::Input | Origin::Slab => {}
            Origin::Node { node } if inner.nodes[node].outputs.first() == Some(&value) => {
                let node_inputs =
                    inner.nodes[node].inputs.iter().map(|v| *first.get(v).unwrap_or(v)).collect();
                inner.nodes[node].inputs = node_inputs;
                let n = &inner.nodes[node];
                if n.op.outputs().iter().any(|o| o.updated().is_some()) {
                    continue;
                }
                let key = (format!("{} {:?}", n.op.name(), n.op), n.inputs.clone());
                let other = *nodes.entry(key).or_insert(node);
                if other != node {
                    first.extend(n.outputs.clone().into_iter().zip(inner.nodes[other].outputs.clone()));
                    inner.nodes[other].full_precision |= inner.nodes[node].full_precision;
                }
            }
            Origin::Node { .. } => {}
            Origin::View { of, view } => {
                let of = *first.get(&of).unwrap_or(&of);
                let (source, this) = (inner.info(of).clone(), inner.info(value).clone());
                let info = &mut inner.values[index];
                (info.base, info.origin) = (source.base, Origin::View { of, view: view.clone() });
                let same = this.layout == source.layout && this.spec == source.spec && view != View::Detach;
                let key = (of, format!("{view:?} {}", this.spec.shape));
                let other = if same { of } else { *views.entry(key).or_insert(value) };
                if other != value {
                    first.insert(value, other);
                }
            }
        }
    }
    for (_, value) in &mut inner.outputs {
        *value = *first.get(value).unwrap_or(value);
    }
}

/// The nodes that an output or an update of the state depends on.
pub(crate) fn live_nodes(inner: &Inner) -> Vec<bool> {
    let mut live = vec![false; inner.nodes.len()];
    let mut stack: Vec<usize> = Vec::new();
    let node_of = |v| match inner.info(inner.info(v).base).origin {
        Origin::Node { node } => Some(node),
        Origin::Input | Origin::Slab | Origin::View { .. } => None,
    };
    stack.extend(inner.outputs.iter().filter_map(|(_, v)| node_of(*v)));
    stack.extend((0..inner.nodes.len()).filter(|&n| updates_lasting(inner, n)));
    while let Some(n) = stack.pop() {
        if !std::mem::replace(&mut live[n], true) {
            stack.extend(inner.nodes[n].inputs.iter().filter_map(|&v| node_of(v)));
        }
    }
    live
}

/// Whether a node updates memory that lasts, of the state or of an input, directly or through an earlier update.
fn updates_lasting(inner: &Inner, node: usize) -> bool {
    let node = &inner.nodes[node];
    node.updates().any(|v| match inner.info(inner.info(v).base).origin {
        Origin::Slab | Origin::Input => true,
        Origin::Node { node } => updates_lasting(inner, node),
        Origin::View { .. } => false,
    })
}
