//! Fuses chains of pointwise ops and dropouts: a value that only one op reads, element by element, is computed where it is
//! read and never stored. Every result keeps its bytes: a fused value is rounded as if it had been stored.

use super::live_nodes;
use crate::contract::{Body, Inner, Node, Origin, Value, View, attributes};
use crate::ops::{Dropout, PointwiseChain};
use crate::values::{DType, Expression, MAX_STEPS, Reg, Spec, Step, Unary};
use std::collections::HashMap;
use std::sync::Arc;

/// Arrays that a chain reads at most: as many as the kernels take.
const MAX_ARRAYS: usize = 8;

/// A node as one scalar expression.
struct Chain {
    expression: Expression,
    arrays: Vec<Value>,
    /// Where random numbers come from, if there are any.
    cursor: Option<Value>,
    result: Value,
}

/// Fuses what can be fused.
pub(super) fn fuse_pointwise(inner: &mut Inner) {
    let live = live_nodes(inner);
    let mut order: Vec<usize> = (0..inner.nodes.len()).filter(|&n| live[n]).collect();
    order.sort_by_key(|&n| (inner.nodes[n].order, n));
    let place: HashMap<usize, usize> = order.iter().enumerate().map(|(place, &n)| (n, place)).collect();
    let mut readers = Readers::of(inner, &order);
    for &n in &order {
        let Some(mut chain) = Chain::of(inner, n) else { continue };
        let mut fused = false;
        let mut arg = 0;
        while arg < chain.arrays.len() {
            let from = chain.arrays[arg];
            let made = producer(inner, from)
                .filter(|&p| readers.only(from, inner) == Some(n) && same_body(inner, p, n));
            let part = made.and_then(|p| Some((p, Chain::of(inner, p)?)));
            match part {
                Some((p, part)) if readers.allow(inner, &place, &part, p, n) => {
                    if let Some(joined) = chain.joined(inner, arg, &part) {
                        readers.take_over(inner, &part, p, n);
                        (chain, fused) = (joined, true);
                        // What the part reads has come in its place, and may be fused too.
                        continue;
                    }
                    arg += 1;
                }
                _ => arg += 1,
            }
        }
        if fused {
            let dtype = inner.info(chain.result).spec.dtype;
            let op = PointwiseChain::new(chain.expression, chain.arrays.len(), dtype);
            let inputs = chain.arrays.into_iter().chain(chain.cursor).collect();
            inner.nodes[n] = Node { op: Arc::new(op), inputs, ..inner.nodes[n].clone() };
        }
    }
}

/// The node that makes a value's memory.
fn producer(inner: &Inner, value: Value) -> Option<usize> {
    match inner.info(inner.info(value).base).origin {
        Origin::Node { node } => Some(node),
        Origin::Input | Origin::Slab | Origin::View { .. } => None,
    }
}

/// Whether two nodes both run in each iteration of the loop, or both after it.
fn same_body(inner: &Inner, a: usize, b: usize) -> bool {
    let inside = |n: usize| inner.repeated.is_some_and(|(first, _)| inner.nodes[n].order.0 < first);
    inside(a) == inside(b)
}

impl Chain {
    /// A node that is one expression of arrays of one shape, in f32 arithmetic.
    fn of(inner: &Inner, n: usize) -> Option<Self> {
        let node = &inner.nodes[n];
        let &[result] = &node.outputs[..] else { return None };
        let op = node.op.as_ref();
        let (expression, arrays, cursor) = if let Ok(chain) = attributes::<PointwiseChain>(op) {
            let (expression, arrays) = chain.expression();
            (expression.clone(), &node.inputs[..arrays], node.inputs.get(arrays).copied())
        } else if let Ok(dropout) = attributes::<Dropout>(op) {
            let mut expression = Expression::default();
            let x = expression.arg(0);
            dropout.write(&mut expression, x)?;
            (expression, &node.inputs[..1], node.inputs.get(1).copied())
        } else {
            let Body::Pointwise(write) = op.body() else { return None };
            if node.updates().next().is_some() {
                return None;
            }
            (Expression::new(|e| write(op, e)), &node.inputs[..], None)
        };
        let spec = inner.info(result).spec;
        let fits = |v: &Value| {
            let of = inner.info(*v).spec;
            of.shape == spec.shape && matches!(of.dtype, DType::F32 | DType::BF16 | DType::F16 | DType::Bool)
        };
        let float = matches!(spec.dtype, DType::F32 | DType::BF16 | DType::F16);
        if !float || arrays.is_empty() || !arrays.iter().all(fits) || spec.shape.elements() == 0 {
            return None;
        }
        Some(Self { expression, arrays: arrays.to_vec(), cursor, result })
    }

    /// Whether a GPU computes some functions of it in less than f32, because no operand has more digits.
    fn coarse(&self, inner: &Inner) -> Option<bool> {
        let coarse = |s: &Step| matches!(s, Step::Unary(Unary::Exp | Unary::NormalCdf | Unary::Bell, _));
        let narrow = |v: &Value| inner.info(*v).spec.dtype.size() <= 2;
        let any = self.expression.steps().iter().any(coarse);
        any.then(|| self.arrays.iter().chain([&self.result]).all(narrow))
    }

    /// This chain with what `part` computes in place of array `arg`; nothing if it would be too long, or differ in its bytes.
    fn joined(&self, inner: &mut Inner, arg: usize, part: &Self) -> Option<Self> {
        let cursor = match (self.cursor, part.cursor) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        let (made, shape) = (inner.info(part.result).spec, inner.info(self.result).spec.shape);
        let mut all =
            Self { expression: Expression::default(), arrays: Vec::new(), cursor, result: self.result };
        let read: Vec<Value> =
            part.arrays.iter().map(|&v| reshaped(inner, v, shape)).collect::<Option<_>>()?;
        let value = all.append(&part.expression, &|i| Source::Array(read[i]))?;
        let value = all.push(Step::Rounded(made.dtype, value))?;
        let replaced = inner.info(self.arrays[arg]).base;
        let source = |i: usize| match self.arrays[i] {
            v if inner.info(v).base == replaced => Source::Made(value),
            v => Source::Array(v),
        };
        all.append(&self.expression, &source)?;
        // Whether all digits are wanted is decided once for the whole kernel.
        let alike = |of: Option<bool>| of.is_none_or(|coarse| all.coarse(inner) == Some(coarse));
        (alike(self.coarse(inner)) && alike(part.coarse(inner))).then_some(all)
    }

    /// Appends an expression, whose argument `i` is `source(i)`; its value.
    fn append(&mut self, expression: &Expression, source: &dyn Fn(usize) -> Source) -> Option<Reg> {
        let mut at: Vec<Reg> = Vec::new();
        for step in expression.steps() {
            let reg = |r: Reg| at.get(usize::from(r.0)).copied();
            let moved = match *step {
                Step::Arg(i) => match source(usize::from(i)) {
                    Source::Made(value) => {
                        at.push(value);
                        continue;
                    }
                    Source::Array(v) => {
                        let known = self.arrays.iter().position(|&a| a == v);
                        let index = known.unwrap_or(self.arrays.len());
                        if known.is_none() {
                            self.arrays.push(v);
                        }
                        if index >= MAX_ARRAYS {
                            return None;
                        }
                        Step::Arg(index as u8)
                    }
                },
                Step::Unary(f, x) => Step::Unary(f, reg(x)?),
                Step::Binary(f, a, b) => Step::Binary(f, reg(a)?, reg(b)?),
                Step::Select(c, a, b) => Step::Select(reg(c)?, reg(a)?, reg(b)?),
                Step::Rounded(dtype, x) => Step::Rounded(dtype, reg(x)?),
                own @ (Step::Const(_) | Step::Kept { .. }) => own,
            };
            let value = self.push(moved)?;
            at.push(value);
        }
        at.last().copied()
    }

    /// A step, or the same one that is there already.
    fn push(&mut self, step: Step) -> Option<Reg> {
        let steps = self.expression.steps();
        // The value of the expression is its last step, which is always new.
        let known = steps.iter().position(|s| *s == step && matches!(s, Step::Arg(_)));
        match known {
            Some(at) => Some(Reg(at as u8)),
            None => (steps.len() < MAX_STEPS).then(|| self.expression.push(step)),
        }
    }
}

/// What an argument is.
enum Source {
    Array(Value),
    Made(Reg),
}

/// A value in another shape of as many elements, if it can be viewed so.
fn reshaped(inner: &mut Inner, value: Value, shape: crate::values::Shape) -> Option<Value> {
    let info = inner.info(value).clone();
    if info.spec.shape == shape {
        return Some(value);
    }
    let layout = info.layout.reshape(shape).ok()?;
    let view = Origin::View { of: value, view: View::Reshape };
    let viewed = inner.add_value(Spec { shape, ..info.spec }, view);
    let new = &mut inner.values[viewed.index()];
    (new.base, new.layout) = (info.base, layout);
    Some(viewed)
}

/// The live nodes that read each value's memory, and those that update it; of an output of the program, none that could be
/// fused.
struct Readers {
    nodes: Vec<Vec<(Value, Option<usize>)>>,
    updates: Vec<Vec<usize>>,
}

impl Readers {
    fn of(inner: &Inner, live: &[usize]) -> Self {
        let mut all = Self {
            nodes: vec![Vec::new(); inner.values.len()],
            updates: vec![Vec::new(); inner.values.len()],
        };
        for &n in live {
            let node = &inner.nodes[n];
            node.inputs.iter().for_each(|&v| all.nodes[inner.info(v).base.index()].push((v, Some(n))));
            node.updates().for_each(|v| all.updates[inner.info(v).base.index()].push(n));
        }
        inner.outputs.iter().for_each(|(_, v)| all.nodes[inner.info(*v).base.index()].push((*v, None)));
        all
    }

    /// The node that alone reads the memory of a value, whole and in order, however often.
    fn only(&self, value: Value, inner: &Inner) -> Option<usize> {
        let base = inner.info(value).base;
        let made = inner.info(base).spec.shape.elements();
        let readers = self.nodes.get(base.index())?;
        let node = readers.first()?.1?;
        let whole = |&(v, reader): &(Value, Option<usize>)| {
            let read = inner.info(v);
            reader == Some(node) && read.layout.is_contiguous() && read.spec.shape.elements() == made
        };
        (readers.iter().all(whole) && self.updates[base.index()].is_empty()).then_some(node)
    }

    /// Whether node `to` may read what `part`, made by node `from`, reads: nothing of it is updated before, and not more
    /// memory is kept for longer than the part's result takes.
    fn allow(
        &self,
        inner: &Inner,
        place: &HashMap<usize, usize>,
        part: &Chain,
        from: usize,
        to: usize,
    ) -> bool {
        let (Some(&at), Some(&until)) = (place.get(&from), place.get(&to)) else { return false };
        let bases = part.arrays.iter().chain(&part.cursor).map(|&v| inner.info(v).base);
        let later = |node: &usize| place.get(node).is_some_and(|&p| p > until);
        if !bases.clone().all(|base| self.updates_of(base).iter().all(later)) {
            return false;
        }
        let dies = |base: &Value| {
            let kept = |&(_, reader): &(Value, Option<usize>)| {
                reader.is_none_or(|n| n != from && place.get(&n).is_some_and(|&p| p >= until))
            };
            matches!(inner.info(*base).origin, Origin::Node { .. })
                && !self.nodes.get(base.index()).is_some_and(|readers| readers.iter().any(kept))
        };
        let longer: usize = bases.filter(dies).map(|base| inner.info(base).spec.bytes()).sum();
        until == at + 1 || longer <= inner.info(part.result).spec.bytes()
    }

    fn updates_of(&self, base: Value) -> &[usize] {
        self.updates.get(base.index()).map_or(&[], Vec::as_slice)
    }

    /// Node `to` reads what `part`, made by node `from`, read.
    fn take_over(&mut self, inner: &Inner, part: &Chain, from: usize, to: usize) {
        for &v in part.arrays.iter().chain(&part.cursor) {
            for reader in &mut self.nodes[inner.info(v).base.index()] {
                if reader.1 == Some(from) {
                    reader.1 = Some(to);
                }
            }
        }
        if let Some(own) = self.nodes.get_mut(inner.info(part.result).base.index()) {
            own.clear();
        }
    }
}
