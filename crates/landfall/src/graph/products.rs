//! What a product can do as it stores its result: lie transposed. A launch that only rearranges the result
//! afterwards costs more than its bytes do.

use super::{Inner, Origin, Value, ValueInfo, View, live_nodes};
use crate::layout::Layout;
use crate::ops::{MatMul, attributes};
use crate::shape::Spec;

/// Takes over into products what the values that read them only rearrange.
pub(crate) fn extend_products(inner: &mut Inner) {
    transpose(inner);
}

/// A live product: its node, its result, and the values of that memory that something reads.
struct Product {
    node: usize,
    result: Value,
    read: Vec<Value>,
}

fn products(inner: &Inner) -> Vec<Product> {
    let live = live_nodes(inner);
    let mut read: Vec<Vec<Value>> = vec![Vec::new(); inner.values.len()];
    let by_nodes = inner.nodes.iter().zip(&live).filter(|(_, live)| **live).flat_map(|(n, _)| &n.inputs);
    for &v in by_nodes.chain(inner.outputs.iter().map(|(_, v)| v)) {
        read[inner.info(v).base.index()].push(v);
    }
    let product = |node: usize| {
        let [result] = inner.nodes[node].outputs[..] else { return None };
        attributes::<MatMul>(inner.nodes[node].op.as_ref()).ok()?;
        Some(Product { node, result, read: std::mem::take(&mut read[result.index()]) })
    };
    (0..inner.nodes.len()).filter(|&n| live[n]).filter_map(product).collect()
}

/// Axes in order but for the last two, which are exchanged.
fn exchanged(rank: usize) -> Option<Vec<usize>> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank.checked_sub(2)?, rank - 1);
    Some(axes)
}

/// Makes products that are only read transposed as the product of the transposed operands, in the other order: the
/// gradient of a weight that the model reads transposed then lies as the weight does. Each element is the same sum.
fn transpose(inner: &mut Inner) {
    for Product { node, result, read } in products(inner) {
        let [lhs, rhs] = inner.nodes[node].inputs[..] else { continue };
        let made = inner.info(result).layout;
        let Some(turned) = exchanged(made.shape().rank()).and_then(|axes| made.permute(&axes).ok()) else {
            continue;
        };
        if read.is_empty() || read.iter().any(|&v| inner.info(v).layout != turned) {
            continue;
        }
        let (Some(first), Some(second)) = (transposed_view(inner, rhs), transposed_view(inner, lhs)) else {
            continue;
        };
        inner.nodes[node].inputs = vec![first, second];
        let layout = Layout::contiguous(*turned.shape());
        for v in read.into_iter().chain([result]) {
            let info = &mut inner.values[v.index()];
            (info.spec.shape, info.layout) = (*turned.shape(), layout);
        }
    }
}

fn transposed_view(inner: &mut Inner, of: Value) -> Option<Value> {
    let ValueInfo { base, layout, spec, .. } = *inner.info(of);
    let axes = exchanged(layout.shape().rank())?;
    let layout = layout.permute(&axes).ok()?;
    let spec = Spec::new(spec.dtype, *layout.shape());
    let view = inner.add_value(spec, Origin::View { of, view: View::Permute(axes) });
    let info = &mut inner.values[view.index()];
    (info.base, info.layout) = (base, layout);
    Some(view)
}
