//! From graph to instructions: drops dead nodes, orders readers of a value before its update, selects kernels, places
//! parts of a packed buffer inside it.

use super::{Arg, Home, Instruction, Lowered, Stored, root};
use crate::contract::{Alias, Inner, Origin, Output, Value, alias, check, part_offsets};
use crate::engine::Reuse;
use crate::error::Error;
use crate::passes::{Optimised, live_nodes};
use crate::values::{DeviceKind, Layout, Repeat, Rule, Spec, StoredId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

/// Lowers an optimized graph for a device.
///
/// # Errors
/// [`Rule::Unsupported`] if no kernel accepts an instruction; [`Rule::Update`] if a value is read after its update.
pub(crate) fn lower(graph: &Optimised, device: DeviceKind, reuse: Reuse) -> Result<Lowered, Error> {
    let Optimised { inner, state, recomputed } = graph;
    let order = issue_order(inner)?;
    let repeat = repeat(inner, &order)?;
    let mut out = Lowered { recomputed: *recomputed, repeat, ..Lowered::default() };
    let mut ids: HashMap<Value, StoredId> = HashMap::new();
    for (name, v) in &inner.inputs {
        let info = inner.info(*v);
        let id = add(&mut out, name.clone(), info.spec, Home::Own, true);
        ids.insert(*v, id);
        out.inputs.push((name.clone(), id));
    }
    let mut slabs: Vec<_> = inner.slabs.iter().map(|(&i, &v)| (i, v)).collect();
    slabs.sort_unstable();
    for (index, v) in slabs {
        let slab = &state.slabs()[index];
        let id = add(&mut out, slab.name.clone(), inner.info(v).spec, Home::Slab(index), true);
        out.values[id.0].constant = slab.constant;
        out.values[id.0].kept = true;
        ids.insert(v, id);
    }
    for n in order {
        let node = &inner.nodes[n];
        let specs: Vec<Spec> = node.inputs.iter().map(|&v| inner.info(v).spec).collect();
        let fail = |rule: Rule| Error::from(rule.of(node.op.name(), &specs, Some(device), Some(node.at)));
        let kernel = check::kernel(node.op.as_ref(), device, &specs).map_err(fail)?;
        let workspace = (kernel.workspace)(node.op.as_ref(), &specs);
        let inputs = node.inputs.iter().map(|&v| arg(inner, &ids, v)).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for (j, &o) in node.outputs.iter().enumerate() {
            let spec = inner.info(o).spec;
            let mut home = Home::Arena;
            if let Some(i) = node.op.outputs().get(j).and_then(Output::updated) {
                let takes = || format!("at least {} arguments", i + 1);
                let target: &Arg =
                    inputs.get(i).ok_or_else(|| fail(Rule::Arity { takes: takes(), got: inputs.len() }))?;
                if !target.layout.is_contiguous() {
                    return Err(fail(Rule::Update { input: i, what: "not contiguous" }));
                }
                let span = target.layout.span();
                let also = inputs.iter().enumerate().any(|(k, a)| {
                    let read = a.layout.span();
                    k != i && a.value == target.value && read.start < span.end && span.start < read.end
                });
                if also {
                    return Err(fail(Rule::Update { input: i, what: "another of the op's inputs too" }));
                }
                if out.values[target.value.0].constant {
                    return Err(fail(Rule::Update { input: i, what: "a constant of the state" }));
                }
                home = Home::Within(target.value, target.layout.offset() * target.dtype.size());
            }
            let id = add(&mut out, inner.describe(o), spec, home, false);
            ids.insert(o, id);
            outputs.push(Arg { value: id, dtype: spec.dtype, layout: Layout::contiguous(spec.shape) });
        }
        out.instructions.push(Instruction {
            op: node.op.clone(),
            kernel,
            inputs,
            outputs,
            workspace,
            after: Vec::new(),
            at: Some(node.at),
        });
    }
    for (name, v) in &inner.outputs {
        let arg = arg(inner, &ids, *v)?;
        out.values[arg.value.0].kept = true;
        let (base, _) = root(&out, arg.value);
        let home = &mut out.values[base.0].home;
        if *home == Home::Arena {
            *home = Home::Own;
        }
        out.outputs.push((name.clone(), arg));
    }
    if reuse != Reuse::Nothing {
        land_parts(&mut out);
    }
    Ok(out)
}

fn add(out: &mut Lowered, name: String, spec: Spec, home: Home, initial: bool) -> StoredId {
    out.values.push(Stored { name, spec, home, initial, constant: false, kept: false });
    StoredId(out.values.len() - 1)
}

fn arg(inner: &Inner, ids: &HashMap<Value, StoredId>, v: Value) -> Result<Arg, Error> {
    let info = inner.info(v);
    let value = ids.get(&info.base).copied().ok_or_else(|| Error::NoBinding {
        kind: "value",
        name: inner.describe(v),
        known: "only values made before".to_owned(),
    })?;
    Ok(Arg { value, dtype: info.spec.dtype, layout: info.layout })
}

/// A read of a range of a root's memory.
struct Read {
    span: Range<usize>,
    node: usize,
    /// The maximum end of this read and all that start before it.
    until: usize,
}

impl Read {
    fn sort(reads: &mut [Self]) {
        reads.sort_unstable_by_key(|r| (r.span.start, r.node));
        let mut until = 0;
        for read in reads {
            until = until.max(read.span.end);
            read.until = until;
        }
    }

    /// The nodes that read any of these elements, from sorted reads.
    fn touching<'a>(reads: &'a [Self], written: &'a Range<usize>) -> impl Iterator<Item = usize> + 'a {
        let starts_before = reads.partition_point(|r| r.span.start < written.end);
        let near = reads[..starts_before].iter().rev().take_while(|r| r.until > written.start);
        near.filter(|r| r.span.end > written.start).map(|r| r.node)
    }
}

/// How many nodes before a collective are issued as soon as they can be: the one that packs its argument, and those that make
/// what is packed.
const EARLY: usize = 2;

/// Collectives, and nodes that make nothing but their arguments. Each is issued as soon as its arguments are there: collectives
/// meet in issue order, so one that must wait long would hold up all behind it, and nothing would hide their time.
///
/// None where a part is repeated: what follows it must not move into it.
fn early(inner: &Inner, live: &[bool], after: &[Vec<usize>]) -> Vec<bool> {
    let of = |n: usize| live[n] && inner.repeated.is_none() && inner.nodes[n].op.collective();
    let mut early: Vec<bool> = (0..inner.nodes.len()).map(of).collect();
    for _ in 0..EARLY {
        let serves = |n: usize| {
            let node = &inner.nodes[n];
            live[n] && !node.inputs.is_empty() && !after[n].is_empty() && after[n].iter().all(|&a| early[a])
        };
        let more: Vec<usize> = (0..inner.nodes.len()).filter(|&n| !early[n] && serves(n)).collect();
        more.into_iter().for_each(|n| early[n] = true);
    }
    early
}

/// Live nodes in issue order: by number, but every reader of a value before the instruction that updates it, and what is
/// [`early`] as soon as it can be.
fn issue_order(inner: &Inner) -> Result<Vec<usize>, Error> {
    let live = live_nodes(inner);
    let mut reads: HashMap<Value, Vec<Read>> = HashMap::new();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); inner.nodes.len()];
    for (n, node) in inner.nodes.iter().enumerate().filter(|(n, _)| live[*n]) {
        for &v in &node.inputs {
            let info = inner.info(v);
            reads.entry(info.base).or_default().push(Read { span: info.layout.span(), node: n, until: 0 });
            if let Origin::Node { node } = inner.info(info.base).origin {
                before[n].push(node);
            }
        }
    }
    reads.values_mut().for_each(|reads| Read::sort(reads));
    for (n, node) in inner.nodes.iter().enumerate().filter(|(n, _)| live[*n]) {
        for target in node.updates() {
            let info = inner.info(target);
            let reads = reads.get(&info.base).map_or(&[][..], Vec::as_slice);
            before[n].extend(Read::touching(reads, &info.layout.span()).filter(|&r| r != n));
        }
    }
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); inner.nodes.len()];
    let mut waiting: Vec<usize> = vec![0; inner.nodes.len()];
    for (n, list) in before.iter().enumerate() {
        for &b in list {
            after[b].push(n);
            waiting[n] += 1;
        }
    }
    let early = early(inner, &live, &after);
    let turn = |n: usize| Reverse((!early[n], inner.nodes[n].order, n));
    let ready_now = (0..inner.nodes.len()).filter(|&n| live[n] && waiting[n] == 0);
    let mut ready: BinaryHeap<_> = ready_now.map(turn).collect();
    let mut order = Vec::new();
    while let Some(Reverse((_, _, n))) = ready.pop() {
        order.push(n);
        for &a in &after[n] {
            waiting[a] -= 1;
            if waiting[a] == 0 {
                ready.push(turn(a));
            }
        }
    }
    match (0..inner.nodes.len()).find(|&n| live[n] && waiting[n] > 0) {
        None => Ok(order),
        Some(stuck) => {
            let node = &inner.nodes[stuck];
            let specs: Vec<Spec> = node.inputs.iter().map(|&v| inner.info(v).spec).collect();
            let rule = Rule::Update { input: 0, what: "also read by something that needs the update first" };
            Err(rule.of(node.op.name(), &specs, None, Some(node.at)).into())
        }
    }
}

/// The instructions of the loop body, which must all precede the others.
fn repeat(inner: &Inner, order: &[usize]) -> Result<Repeat, Error> {
    let Some((first, times)) = inner.repeated else { return Ok(Repeat::default()) };
    let is_repeated = |&&n: &&usize| inner.nodes[n].order.0 < first;
    let instructions = order.iter().take_while(is_repeated).count();
    match order[instructions..].iter().find(is_repeated) {
        None => Ok(Repeat { instructions, times }),
        Some(&late) => {
            let node = &inner.nodes[late];
            let specs: Vec<Spec> = node.inputs.iter().map(|&v| inner.info(v).spec).collect();
            let what = "read by what runs after the repeated part, which needs the update's result";
            Err(Rule::Update { input: 0, what }.of(node.op.name(), &specs, None, Some(node.at)).into())
        }
    }
}

/// Places inputs of a packed buffer at their offsets in it, so that their producers write there and nothing is copied.
/// Only for whole arena values that are packed once and not read later (from then on the memory belongs to the packed
/// buffer, which may overwrite or update it); all others are copied.
fn land_parts(out: &mut Lowered) {
    let mut packed: HashMap<StoredId, usize> = HashMap::new();
    let packings: Vec<usize> = (0..out.instructions.len())
        .filter(|&i| out.instructions[i].op.outputs().iter().any(|o| matches!(o.alias, Alias::Parts(_))))
        .collect();
    for &i in &packings {
        for a in &out.instructions[i].inputs {
            *packed.entry(a.value).or_default() += 1;
        }
    }
    let made: HashSet<StoredId> =
        out.instructions.iter().flat_map(|i| i.outputs.iter().map(|o| o.value)).collect();
    let mut last: HashMap<StoredId, usize> = HashMap::new();
    for (k, i) in out.instructions.iter().enumerate() {
        i.inputs.iter().for_each(|a| _ = last.insert(a.value, k));
    }
    for &i in &packings {
        let Instruction { op, inputs, outputs, .. } = &out.instructions[i];
        let (Some(target), Alias::Parts(align)) = (outputs.first(), alias(op.as_ref(), 0)) else {
            continue;
        };
        let target = target.value;
        let parts = part_offsets(inputs.iter().map(Arg::spec), align);
        let lands: Vec<(StoredId, usize)> = inputs
            .iter()
            .zip(parts)
            .filter(|(a, _)| {
                let v = &out.values[a.value.0];
                v.home == Home::Arena
                    && a.layout.is_contiguous()
                    && a.layout.offset() == 0
                    && a.spec().bytes() == v.spec.bytes()
                    && packed[&a.value] == 1
                    && last[&a.value] == i
                    && made.contains(&a.value)
            })
            .map(|(a, offset)| (a.value, offset * a.dtype.size()))
            .collect();
        for (value, offset) in lands {
            out.values[value.0].home = Home::Within(target, offset);
        }
    }
}
