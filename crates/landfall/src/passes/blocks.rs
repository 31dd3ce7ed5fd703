//! Blocks of [`Graph::checkpoint`](crate::Graph::checkpoint): what a block computes for itself alone is not kept for the backward
//! pass, which computes it a second time from what the block reads.

use super::save::redirect;
use crate::contract::{Inner, Node, Origin, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Clones the nodes of blocks whose results the backward pass reads, just before its first reader of the block. Returns the number
/// of clones.
pub(super) fn compute_again(inner: &mut Inner) -> usize {
    let Some(first) = inner.backward else { return 0 };
    let kept = kept(inner, first);
    let readers = inner.nodes.len();
    // Of each block the nodes that are needed again, and the place of the first reader.
    let mut again: BTreeMap<u32, (BTreeSet<usize>, usize)> = BTreeMap::new();
    for reader in first..readers {
        let place = inner.nodes[reader].order.0;
        for (n, block) in made_in_blocks(inner, reader, &kept) {
            let (nodes, before) = again.entry(block).or_insert((BTreeSet::new(), place));
            *before = place.min(*before);
            add_with_operands(inner, n, block, &kept, nodes);
        }
    }
    let mut clones: HashMap<Value, Value> = HashMap::new();
    let mut count = 0;
    for (nodes, before) in again.into_values() {
        // A value is made of earlier ones.
        for n in nodes {
            let node = inner.nodes[n].clone();
            let clone = inner.nodes.len();
            let outputs: Vec<Value> = node.outputs.iter().map(|&v| same_again(inner, v, clone)).collect();
            clones.extend(node.outputs.iter().copied().zip(outputs.iter().copied()));
            // Before what the reader itself was given: clones are fewer than nodes.
            inner.nodes.push(Node { outputs, order: (before, count), block: None, ..node });
            read_clones(inner, clone, &clones);
            count += 1;
        }
    }
    (first..readers).for_each(|reader| read_clones(inner, reader, &clones));
    count
}

/// The nodes of blocks whose results are kept all the same: those that are read in the forward pass outside of their block, those
/// of outputs, and updates, which cannot be made twice.
fn kept(inner: &Inner, first: usize) -> Vec<bool> {
    let mut kept: Vec<bool> = inner.nodes.iter().map(|node| node.updates().next().is_some()).collect();
    let outputs = inner.outputs.iter().filter_map(|(_, v)| maker(inner, *v));
    outputs.for_each(|n| kept[n] = true);
    for node in &inner.nodes[..first] {
        for n in node.inputs.iter().filter_map(|&v| maker(inner, v)) {
            kept[n] |= inner.nodes[n].block != node.block;
        }
    }
    kept
}

/// The node that makes a value's memory.
fn maker(inner: &Inner, value: Value) -> Option<usize> {
    match inner.info(inner.info(value).base).origin {
        Origin::Node { node } => Some(node),
        Origin::Input | Origin::Slab | Origin::View { .. } => None,
    }
}

/// The nodes that make what a node reads, of those in blocks whose results are not kept, each with its block.
fn made_in_blocks(inner: &Inner, reader: usize, kept: &[bool]) -> Vec<(usize, u32)> {
    let makers = inner.nodes[reader].inputs.iter().filter_map(|&v| maker(inner, v));
    makers.filter(|&n| !kept[n]).filter_map(|n| Some((n, inner.nodes[n].block?))).collect()
}

/// Adds a node of a block and those of the block that make its operands.
fn add_with_operands(inner: &Inner, node: usize, block: u32, kept: &[bool], nodes: &mut BTreeSet<usize>) {
    let mut left = vec![node];
    while let Some(n) = left.pop() {
        if nodes.insert(n) {
            let operands = made_in_blocks(inner, n, kept).into_iter();
            left.extend(operands.filter(|(_, of)| *of == block).map(|(n, _)| n));
        }
    }
}

/// A value like this one, of another node.
fn same_again(inner: &mut Inner, value: Value, node: usize) -> Value {
    let info = inner.info(value).clone();
    let again = inner.add_value(info.spec, Origin::Node { node });
    inner.values[again.index()].name = info.name.map(|name| format!("{name} (again)"));
    again
}

/// Makes a node read the clones of what it reads, where there are any.
fn read_clones(inner: &mut Inner, node: usize, clones: &HashMap<Value, Value>) {
    let bases: BTreeSet<Value> = inner.nodes[node].inputs.iter().map(|&v| inner.info(v).base).collect();
    for from in bases {
        if let Some(&to) = clones.get(&from) {
            redirect(inner, node, from, to);
        }
    }
}
