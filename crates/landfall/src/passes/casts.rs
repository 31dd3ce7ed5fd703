//! Merges casts: the weights of a model are entries of one slab, and each is cast to the compute dtype once a step. One
//! launch per cast costs more than its bytes.

use crate::contract::{Inner, Node, Origin, Value, View, attributes};
use crate::ops::Cast;
use crate::passes::simplify::live_nodes;
use crate::values::{DType, Layout, Spec};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A cast of a range of a slab: its node, its result, and the range.
struct Part {
    node: usize,
    result: Value,
    at: Range<usize>,
}

/// Replaces casts of entries of one slab to one dtype by views of one cast of the range that holds them all, if they
/// are at least half of it. Every result keeps its bytes.
pub(crate) fn share_casts(inner: &mut Inner) {
    let live = live_nodes(inner);
    let mut groups: BTreeMap<(Value, usize), (DType, Vec<Part>)> = BTreeMap::new();
    for (node, n) in inner.nodes.iter().enumerate().filter(|(node, _)| live[*node]) {
        let (Ok(cast), [from], [result]) = (attributes::<Cast>(n.op.as_ref()), &n.inputs[..], &n.outputs[..])
        else {
            continue;
        };
        let of = inner.info(*from);
        let slab = matches!(inner.info(of.base).origin, Origin::Slab);
        if slab && of.layout.is_contiguous() && of.spec.shape.elements() > 0 {
            let (dtype, parts) =
                groups.entry((of.base, cast.dtype as usize)).or_insert((cast.dtype, Vec::new()));
            debug_assert_eq!(*dtype, cast.dtype, "a key is of one dtype");
            parts.push(Part { node, result: *result, at: of.layout.span() });
        }
    }
    for ((slab, _), (dtype, parts)) in groups {
        let (Some(start), Some(end)) =
            (parts.iter().map(|p| p.at.start).min(), parts.iter().map(|p| p.at.end).max())
        else {
            continue;
        };
        let wanted: usize = parts.iter().map(|p| p.at.len()).sum();
        if parts.len() > 1 && 2 * wanted >= end - start {
            share(inner, slab, start..end, dtype, &parts);
        }
    }
}

fn share(inner: &mut Inner, slab: Value, stretch: Range<usize>, dtype: DType, parts: &[Part]) {
    let shape = [stretch.len()].into();
    let view = View::Slice { axis: 0, start: stretch.start };
    let from =
        inner.add_value(Spec::new(inner.info(slab).spec.dtype, shape), Origin::View { of: slab, view });
    let info = &mut inner.values[from.index()];
    (info.base, info.layout) = (slab, Layout::contiguous(shape).shifted(stretch.start));
    let node = inner.nodes.len();
    let whole = inner.add_value(Spec::new(dtype, shape), Origin::Node { node });
    inner.values[whole.index()].name = inner.info(slab).name.as_ref().map(|n| format!("{n} ({dtype})"));
    let Some(first) = parts.iter().map(|p| p.node).min_by_key(|&n| inner.nodes[n].order) else { return };
    inner.nodes.push(Node { inputs: vec![from], outputs: vec![whole], ..inner.nodes[first].clone() });
    let mut moved: HashMap<Value, usize> = HashMap::new();
    for part in parts {
        let by = part.at.start - stretch.start;
        let view = View::Slice { axis: 0, start: by };
        inner.values[part.result.index()].origin = Origin::View { of: whole, view };
        moved.insert(part.result, by);
    }
    // The result had its own memory from element 0 on, and so did its views.
    for info in &mut inner.values {
        if let Some(&by) = moved.get(&info.base) {
            (info.base, info.layout) = (whole, info.layout.shifted(by));
        }
    }
}
