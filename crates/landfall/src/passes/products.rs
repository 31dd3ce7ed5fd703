//! Epilogue fusion: matmul can store its result transposed, in the accumulation dtype (so can a reduction), or with a
//! tensor added. A separate launch would read and write the result once more. Also selects the memory order of weights.

use crate::contract::{Inner, Node, Op, Origin, Value, ValueInfo, View, attributes};
use crate::kernel::added;
use crate::ops::{Add, Cast, Copy as CopyOp, MatMul, Reduce};
use crate::passes::simplify::live_nodes;
use crate::values::{DType, Layout, Precision, Spec};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Fuses epilogues into matmul.
pub(crate) fn extend_products(inner: &mut Inner) {
    transpose(inner);
    widen(inner);
    add(inner);
    turn(inner);
}

/// A live product: its node, its result, and the readers of its memory.
struct Product {
    node: usize,
    result: Value,
    readers: Vec<Reader>,
}

/// A read of a product's memory: as an operand of a node, or as an output of the program.
#[derive(Clone, Copy)]
struct Reader {
    value: Value,
    node: Option<usize>,
}

fn products(inner: &Inner) -> Vec<Product> {
    results(inner, &live_nodes(inner), readers(inner), is_product)
}

fn is_product(op: &dyn Op) -> bool {
    attributes::<MatMul>(op).is_ok()
}

/// Readers of the memory of each value: live nodes and outputs of the program.
fn readers(inner: &Inner) -> Vec<Vec<Reader>> {
    let live = live_nodes(inner);
    let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); inner.values.len()];
    let mut note = |value: Value, node| readers[inner.info(value).base.index()].push(Reader { value, node });
    for (n, node) in inner.nodes.iter().enumerate().filter(|(n, _)| live[*n]) {
        node.inputs.iter().for_each(|&v| note(v, Some(n)));
    }
    inner.outputs.iter().for_each(|(_, v)| note(*v, None));
    readers
}

/// The live nodes of these ops with one result.
fn results(
    inner: &Inner,
    live: &[bool],
    mut readers: Vec<Vec<Reader>>,
    of: impl Fn(&dyn Op) -> bool,
) -> Vec<Product> {
    let product = |node: usize| {
        let result = single_result(&inner.nodes[node], &of)?;
        Some(Product { node, result, readers: std::mem::take(&mut readers[result.index()]) })
    };
    (0..inner.nodes.len()).filter(|&n| live[n]).filter_map(product).collect()
}

/// The result of a node of these ops that has only one.
fn single_result(node: &Node, of: impl Fn(&dyn Op) -> bool) -> Option<Value> {
    let [result] = node.outputs[..] else { return None };
    of(node.op.as_ref()).then_some(result)
}

/// The node that is the only reader of a product, and reads it whole and in order.
fn only_reader(inner: &Inner, result: Value, readers: &[Reader]) -> Option<usize> {
    let &[Reader { value, node }] = readers else { return None };
    let (read, made) = (inner.info(value), inner.info(result));
    let whole = read.layout.is_contiguous() && read.spec.shape.elements() == made.spec.shape.elements();
    node.filter(|_| whole)
}

/// The values in the memory of each value: itself and its views.
struct Members(Vec<Vec<Value>>);

impl Members {
    fn of(inner: &Inner) -> Self {
        let mut all = vec![Vec::new(); inner.values.len()];
        for (v, info) in inner.values.iter().enumerate() {
            all[info.base.index()].push(inner.value(v));
        }
        Self(all)
    }

    /// Redirects the result of a node, and its views, to the memory of a product that now gives the same elements.
    fn take_over(&mut self, inner: &mut Inner, result: Value, node: usize) {
        let Some(&old) = inner.nodes[node].outputs.first() else { return };
        let moved = std::mem::take(&mut self.0[old.index()]);
        moved.iter().for_each(|v| inner.values[v.index()].base = result);
        self.0[result.index()].extend(moved);
        let name = inner.info(old).name.clone();
        inner.values[old.index()].origin = Origin::View { of: result, view: View::Reshape };
        let name_of_result = &mut inner.values[result.index()].name;
        *name_of_result = name.or_else(|| name_of_result.take());
    }
}

/// The axes in order, with the last two exchanged.
fn exchanged(rank: usize) -> Option<Vec<usize>> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank.checked_sub(2)?, rank - 1);
    Some(axes)
}

/// A product that is only read transposed becomes the product of the transposed operands in the other order: the
/// gradient of a weight that the model reads transposed then has the layout of the weight. Each element is the same
/// sum.
fn transpose(inner: &mut Inner) {
    for Product { node, result, readers } in products(inner) {
        let [lhs, rhs] = inner.nodes[node].inputs[..] else { continue };
        let made = inner.info(result).layout;
        let Some(turned) = exchanged(made.shape().rank()).and_then(|axes| made.permute(&axes).ok()) else {
            continue;
        };
        if readers.is_empty() || readers.iter().any(|r| inner.info(r.value).layout != turned) {
            continue;
        }
        let (Some(first), Some(second)) = (transposed_view(inner, rhs), transposed_view(inner, lhs)) else {
            continue;
        };
        inner.nodes[node].inputs = vec![first, second];
        let layout = Layout::contiguous(*turned.shape());
        for v in readers.into_iter().map(|r| r.value).chain([result]) {
            let info = &mut inner.values[v.index()];
            (info.spec.shape, info.layout) = (*turned.shape(), layout);
        }
    }
}

/// The same op with a result in the accumulation dtype.
fn wide(op: &dyn Op) -> Option<Arc<dyn Op>> {
    if let Ok(&op) = attributes::<MatMul>(op) {
        return Some(Arc::new(MatMul { wide: true, ..op }));
    }
    attributes::<Reduce>(op).ok().map(|&op| Arc::new(op.wide()) as Arc<dyn Op>)
}

/// A product of 16-bit factors, or a sum of 16-bit elements, that is only cast to f32 returns its f32 accumulator: one
/// rounding less. (The gradients of parameters that are kept in f32.)
fn widen(inner: &mut Inner) {
    let mut members = Members::of(inner);
    let wideable = results(inner, &live_nodes(inner), readers(inner), |op| wide(op).is_some());
    for Product { node, result, readers } in wideable {
        let Some(reader) = only_reader(inner, result, &readers) else { continue };
        let Some(op) = wide(inner.nodes[node].op.as_ref()) else { continue };
        let made = inner.info(result).spec.dtype;
        let dtype = made.accumulate();
        let cast = attributes::<Cast>(inner.nodes[reader].op.as_ref()).is_ok_and(|cast| cast.dtype == dtype);
        // The addend has the result's dtype.
        if !cast || made == dtype || inner.nodes[node].inputs.len() > 2 {
            continue;
        }
        inner.nodes[node].op = op;
        inner.values[result.index()].spec.dtype = dtype;
        members.take_over(inner, result, reader);
    }
}

/// A product whose only reader adds another tensor computes the sum itself, at the position of the sum. Of two products
/// the later one adds the earlier one.
fn add(inner: &mut Inner) {
    let (mut members, mut readers, live) = (Members::of(inner), readers(inner), live_nodes(inner));
    let mut updated = AfterUpdates::of(inner, &readers, &live);
    // The addend of an earlier product changes nothing for a later one, so one walk finds all.
    for node in (0..inner.nodes.len()).rev().filter(|&n| live[n]) {
        let Some(result) = single_result(&inner.nodes[node], is_product) else { continue };
        let Some(sum) = only_reader(inner, result, &readers[result.index()]) else { continue };
        let Some(addend) = addend_of(inner, &updated, (node, result), sum) else { continue };
        let base = inner.info(addend).base;
        let view = relaid(inner, addend, result);
        members.0[base.index()].push(view);
        inner.nodes[node].inputs.insert(2, view);
        inner.nodes[node].order = inner.nodes[sum].order;
        // The product reads the addend now, and readers of the sum read the product.
        let of_sum = readers[base.index()].iter_mut().filter(|r| r.node == Some(sum));
        of_sum.for_each(|r| *r = Reader { value: view, node: Some(node) });
        let total = inner.nodes[sum].outputs[0];
        readers[result.index()] = std::mem::take(&mut readers[total.index()]);
        updated.join(node, sum);
        members.take_over(inner, result, sum);
    }
}

/// Minimum rows of the result and elements of a weight for which a copy of it pays; minimum rows if the result is wider
/// than the other factor, for which cuBLASLt has no fast kernel.
const MANY_ROWS: usize = 1 << 13;
const WIDE_ROWS: usize = 1 << 11;
const LARGE_WEIGHT: usize = 1 << 17;

/// Gives large TF32 products that read a state weight by rows (in a gradient: one that the model reads transposed) a
/// column-major copy of it. Tensor cores take 32-bit factors along the inner axis only, so cuBLASLt has slower kernels
/// for the other order; the copies depend on the weights only.
fn turn(inner: &mut Inner) {
    let mut turned: HashMap<(Value, Layout), Value> = HashMap::new();
    for Product { node, .. } in products(inner) {
        let Node { op, inputs, at, .. } = &inner.nodes[node];
        let (at, [lhs, rhs]) = (*at, [inputs[0], inputs[1]]);
        let tf32 = attributes::<MatMul>(op.as_ref()).is_ok_and(|op| op.precision == Precision::Tf32);
        let ValueInfo { base, layout, spec, .. } = *inner.info(rhs);
        let ([k, n], [down, along]) = (layout.shape().dims(), layout.strides()) else { continue };
        let many = if n > k { WIDE_ROWS } else { MANY_ROWS };
        let large = inner.info(lhs).spec.shape.dims()[0] >= many && k * n >= LARGE_WEIGHT;
        let by_rows = *along == 1 && *down != 1;
        let weight = matches!(inner.info(base).origin, Origin::Slab);
        if !(tf32 && spec.dtype == DType::F32 && large && by_rows && weight) {
            continue;
        }
        let copy = match turned.get(&(base, layout)) {
            Some(&copy) => copy,
            None => {
                let Some(columns) = transposed_view(inner, rhs) else { continue };
                let made = inner.nodes.len();
                let copy = inner.add_value(inner.info(columns).spec, Origin::Node { node: made });
                inner.nodes.push(Node {
                    op: Arc::new(CopyOp),
                    inputs: vec![columns],
                    outputs: vec![copy],
                    at,
                    // First in issue order: reused memory would add an edge.
                    order: (0, 0),
                    full_precision: true,
                    block: None,
                });
                turned.insert((base, layout), copy);
                copy
            }
        };
        let Some(view) = transposed_view(inner, copy) else { continue };
        inner.nodes[node].inputs[1] = view;
    }
}

/// The addend of a product's only reader, if the product can fuse it.
fn addend_of(
    inner: &Inner,
    updated: &AfterUpdates,
    (node, result): (usize, Value),
    sum: usize,
) -> Option<Value> {
    attributes::<Add>(inner.nodes[sum].op.as_ref()).ok()?;
    let inputs = &inner.nodes[node].inputs;
    let (adds, bias) = added(inputs.len(), |i| inner.info(inputs[i]).spec.shape.rank());
    let dtype = inner.info(result).spec.dtype;
    // cuBLASLt cannot add both to 16 bits with one rounding.
    let adds = adds.is_some() || bias.is_some() && dtype != dtype.accumulate();
    let addend = *inner.nodes[sum].inputs.iter().find(|&&v| inner.info(v).base != result)?;
    let repeated = |n: usize| inner.repeated.is_some_and(|(first, _)| inner.nodes[n].order.0 < first);
    let moves = repeated(node) == repeated(sum) && !updated.needed_by(inner, addend, inputs);
    (!adds && inner.info(addend).layout.is_contiguous() && moves).then_some(addend)
}

/// For memory that a product reads and some node updates: the nodes that depend on such an update. Readers of the
/// memory before the update cannot wait for them.
struct AfterUpdates(HashMap<Value, Vec<bool>>);

impl AfterUpdates {
    fn of(inner: &Inner, readers: &[Vec<Reader>], live: &[bool]) -> Self {
        let nodes = || inner.nodes.iter().enumerate().filter(|(n, _)| live[*n]);
        let base = |v: &Value| inner.info(*v).base;
        let read: HashSet<Value> = nodes()
            .filter(|(_, node)| is_product(node.op.as_ref()))
            .flat_map(|(_, node)| node.inputs.iter().map(base))
            .collect();
        let mut updates: HashMap<Value, Vec<usize>> = HashMap::new();
        for (n, node) in nodes() {
            for target in node.updates().map(|v| base(&v)).filter(|t| read.contains(t)) {
                updates.entry(target).or_default().push(n);
            }
        }
        let reached = |mut stack: Vec<usize>| {
            let mut seen = vec![false; inner.nodes.len()];
            while let Some(n) = stack.pop() {
                if !std::mem::replace(&mut seen[n], true) {
                    let outputs = inner.nodes[n].outputs.iter();
                    stack.extend(outputs.flat_map(|o| &readers[o.index()]).filter_map(|r| r.node));
                }
            }
            seen
        };
        Self(updates.into_iter().map(|(base, nodes)| (base, reached(nodes))).collect())
    }

    /// Whether a value depends on an update of the memory of `read`.
    fn needed_by(&self, inner: &Inner, value: Value, read: &[Value]) -> bool {
        let Origin::Node { node } = inner.info(inner.info(value).base).origin else { return false };
        read.iter().any(|&r| self.0.get(&inner.info(r).base).is_some_and(|after| after[node]))
    }

    /// A node now depends on everything that another one depended on.
    fn join(&mut self, node: usize, other: usize) {
        self.0.values_mut().for_each(|after| after[node] |= after[other]);
    }
}

/// A contiguous value under the shape of another.
fn relaid(inner: &mut Inner, of: Value, like: Value) -> Value {
    let ValueInfo { base, layout, spec, .. } = *inner.info(of);
    let shape = inner.info(like).spec.shape;
    let at = layout.offset();
    let view = inner.add_value(Spec::new(spec.dtype, shape), Origin::View { of, view: View::Reshape });
    let info = &mut inner.values[view.index()];
    (info.base, info.layout) = (base, Layout::contiguous(shape).shifted(at));
    view
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Graph, StateSpec};
    use crate::error::Error;

    /// Large products read a weight along its inner axis, two of them from the same copy; a product that does so
    /// anyway, a small one and a strict one read the weight itself.
    #[test]
    fn large_tf32_products_read_weights_along_the_inner_axis() -> Result<(), Error> {
        let mut state = StateSpec::new();
        let entries = [("w".to_owned(), [512, 256].into()), ("wide".to_owned(), [256, 512].into())];
        state.add("parameters", DType::F32, &entries)?;
        let g = Graph::new(&Arc::new(state));
        let (x, few) = (g.input("x", DType::F32, [8192, 512]), g.input("few", DType::F32, [8, 512]));
        let w = g.entry("w")?;
        let tf32 = MatMul { precision: Precision::Tf32, ..MatMul::default() };
        let y = g.op1(tf32, &[x, w])?;
        let back = g.op1(tf32, &[y, g.transpose(w)?])?;
        let others = [g.op1(tf32, &[few, w])?, g.op1(MatMul::default(), &[x, w])?];
        // Fewer rows suffice if the result is wider than the other factor.
        let [some, narrow] = [("some", 256), ("narrow", 512)].map(|(n, k)| g.input(n, DType::F32, [2048, k]));
        let wide = [g.op1(tf32, &[some, g.entry("wide")?])?, g.op1(tf32, &[narrow, w])?];
        let all = [y, back, g.op1(tf32, &[back, w])?, others[0], others[1], wide[0], wide[1]];
        for (i, &v) in all.iter().enumerate() {
            g.output(&format!("y{i}"), v);
        }
        let mut inner = g.inner.borrow().clone();
        extend_products(&mut inner);
        let weight = |v: Value| {
            let Origin::Node { node } = inner.info(v).origin else { panic!("made by a product") };
            inner.info(inner.nodes[node].inputs[1])
        };
        let [y, back, again, few, strict, wide, narrow] = all.map(weight);
        assert_eq!((y.layout.shape().dims(), y.layout.strides()), (&[512, 256][..], &[1, 512][..]));
        assert_eq!((y.base, y.layout), (again.base, again.layout));
        assert_ne!(y.base, few.base);
        assert_eq!([back.base, few.base, strict.base, narrow.base], [inner.info(w).base; 4]);
        assert_eq!((wide.layout.shape().dims(), wide.layout.strides()), (&[256, 512][..], &[1, 256][..]));
        Ok(())
    }
}
