//! Save or recompute: a forward value that the backward pass reads is kept in memory until then, or recomputed.
//!
//! The rule uses cost: a forward value is recomputed if its op only moves bytes (at most [`CHEAP`] operations per
//! element) and all its operands are kept for the backward pass anyway, so that recomputing frees memory and costs
//! about the traffic of reading the value back.

use crate::contract::{Body, Inner, Node, Origin, Value, View};
use crate::values::Expression;
use std::collections::HashMap;

/// Maximum operations per element for which recomputing a value is as cheap as reading it.
const CHEAP: usize = 2;

/// Clones cheap forward nodes for their uses in the backward pass. Returns the number of values that are no longer
/// saved.
pub(crate) fn choose_recomputation(inner: &mut Inner) -> usize {
    let Some(first) = inner.backward else { return 0 };
    let base = |inner: &Inner, v: Value| inner.info(v).base;
    // The first backward node that reads each value (by base), and whether another reader keeps it alive.
    let mut late: HashMap<Value, Vec<usize>> = HashMap::new();
    for (n, node) in inner.nodes.iter().enumerate().skip(first) {
        for &v in &node.inputs {
            late.entry(base(inner, v)).or_default().push(n);
        }
    }
    let mut cloned = 0;
    for n in 0..first {
        let node = inner.nodes[n].clone();
        let ([output], None) = (&node.outputs[..], node.block) else { continue };
        let output = *output;
        let Some(users) = late.get(&output).cloned() else { continue };
        let cheap = match node.op.body() {
            Body::Pointwise(write) => Expression::new(|e| write(node.op.as_ref(), e)).flops() <= CHEAP,
            Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => false,
        };
        // A cast to a narrower dtype reads more bytes than it saves: a weight is cast once a step.
        let narrows = node
            .inputs
            .iter()
            .any(|&v| inner.info(v).spec.dtype.size() > inner.info(output).spec.dtype.size());
        let plain = node.updates().next().is_none();
        let kept = !node.inputs.is_empty()
            && node.inputs.iter().all(|&v| {
                let b = base(inner, v);
                late.contains_key(&b) || !matches!(inner.info(b).origin, Origin::Node { .. })
            });
        if !(cheap && plain && kept) || narrows {
            continue;
        }
        let Some(&consumer) = users.iter().min() else { continue };
        let clone = inner.nodes.len();
        let again = inner.add_value(inner.info(output).spec, Origin::Node { node: clone });
        inner.values[again.index()].name = inner.info(output).name.as_ref().map(|n| format!("{n} (again)"));
        inner.nodes.push(Node { outputs: vec![again], order: (consumer, clone), ..node });
        for user in users {
            redirect(inner, user, output, again);
        }
        late.remove(&output);
        cloned += 1;
    }
    cloned
}

/// Redirects a node's reads of `from` and its views to `to`.
pub(super) fn redirect(inner: &mut Inner, node: usize, from: Value, to: Value) {
    for k in 0..inner.nodes[node].inputs.len() {
        let v = inner.nodes[node].inputs[k];
        let info = inner.info(v).clone();
        if info.base != from {
            continue;
        }
        let v = if v == from {
            to
        } else {
            let view = inner.add_value(info.spec, Origin::View { of: to, view: View::Reshape });
            let new = &mut inner.values[view.index()];
            new.base = to;
            new.layout = info.layout;
            view
        };
        inner.nodes[node].inputs[k] = v;
    }
}
