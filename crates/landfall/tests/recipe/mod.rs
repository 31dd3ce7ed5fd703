//! Random graphs: a recipe is built as a graph for the engine, and worked out step by step with each op's `reference`
//! and with views written here on their own.
#![allow(dead_code, reason = "each test file uses some of it")]

mod dice;
mod evaluate;

pub(crate) use dice::Dice;
pub(crate) use evaluate::Results;

use crate::ops::{Butterfly, Decay, Hungry, ReverseRows, SetEven};
use landfall::ops::{self, Reduction, Tested};
use landfall::{DType, Error, Graph, Shape, Spec, StateSpec, Value};
use std::sync::Arc;

/// How one value of a recipe comes about; numbers are positions in [`Recipe::made`].
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Input(String),
    Entry(String),
    /// A whole slab: its entries behind each other.
    Slab(usize),
    Permute(usize, Vec<usize>),
    Slice(usize, usize, usize, usize),
    Broadcast(usize),
    Reshape(usize),
    Unfold(usize, usize, usize),
    /// Output `.2` of an op on these values.
    Op(Arc<dyn Tested>, Vec<usize>, usize),
}

/// One value of a recipe.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) value: Value,
    pub(crate) spec: Spec,
    pub(crate) step: Step,
    /// A bound of its elements' size, so that products do not grow without end.
    bound: f64,
    /// Whether its elements are copies of what the host wrote: rounding cannot turn a comparison of them.
    exact: bool,
    /// Whether it has been updated since; whoever reads it still gets the value from before.
    old: bool,
    used: bool,
}

/// A graph, and all that is needed to work it out without the engine.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) graph: Graph,
    pub(crate) state: Arc<StateSpec>,
    pub(crate) made: Vec<Made>,
    pub(crate) outputs: Vec<(String, usize)>,
    dice: Dice,
    limit: usize,
    ops: Ops,
}

/// Which ops a recipe takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ops {
    /// Also the tests' own, which have kernels for the processor.
    All,
    /// Those of the op table, which have kernels for every device.
    Table,
}

/// Sizes, from which shapes are put together; equal ones and ones are frequent on purpose.
const SMALL: &[usize] = &[1, 2, 3, 3, 4, 5, 8];
const LARGE: &[usize] = &[1, 4, 8, 8, 16, 24, 32, 64];

impl Recipe {
    /// The recipe of a seed, with about `nodes` of these ops.
    pub(crate) fn new(ops: Ops, seed: u64, nodes: usize, small: bool) -> Result<Self, Error> {
        let mut dice = Dice(seed);
        let mut state = StateSpec::new();
        let shape = |dice: &mut Dice| random_shape(dice, if small { SMALL } else { LARGE });
        // One slab is updated entry by entry, the other as a whole; whole slabs have no gaps between entries.
        let entries: Vec<(String, Shape)> = (0..3).map(|i| (format!("w{i}"), shape(&mut dice))).collect();
        state.add("w", DType::F64, &entries)?;
        state.add("m", DType::F64, &[("m0".into(), [2, 8].into()), ("m1".into(), [4, 4].into())])?;
        state.add_constant("c", DType::F64, &[("c0".into(), shape(&mut dice))])?;
        let state = Arc::new(state);
        let graph = Graph::new(&state);
        let limit = if small { 1 << 10 } else { 1 << 16 };
        let mut r = Self { graph, state, made: Vec::new(), outputs: Vec::new(), dice, limit, ops };
        for i in 0..3 {
            let s = shape(&mut r.dice);
            let value = r.graph.input(&format!("x{i}"), DType::F64, s);
            r.leaf(value, Step::Input(format!("x{i}")));
        }
        for name in ["w0", "w1", "w2", "c0"] {
            let value = r.graph.entry(name)?;
            r.leaf(value, Step::Entry(name.to_owned()));
        }
        let slab = r.graph.slab("m")?;
        let slab = r.leaf(slab, Step::Slab(1));
        let part = r.slice(slab, 0, 16, 16)?;
        r.reshape(part, [4, 4].into())?;
        let mut grown = 0;
        while grown < nodes {
            grown += usize::from(r.grow()?);
        }
        r.finish()?;
        Ok(r)
    }

    fn leaf(&mut self, value: Value, step: Step) -> usize {
        self.push(value, step, 1.0, true)
    }

    fn push(&mut self, value: Value, step: Step, bound: f64, exact: bool) -> usize {
        let spec = self.graph.spec(value);
        self.made.push(Made { value, spec, step, bound, exact, old: false, used: false });
        self.made.len() - 1
    }

    fn view(&mut self, of: usize, value: Value, step: Step) -> usize {
        let Made { bound, exact, old, .. } = self.made[of];
        self.made[of].used = true;
        let v = self.push(value, step, bound, exact);
        self.made[v].old = old;
        v
    }

    fn slice(&mut self, of: usize, axis: usize, start: usize, len: usize) -> Result<usize, Error> {
        let v = self.graph.slice(self.made[of].value, axis, start, len)?;
        Ok(self.view(of, v, Step::Slice(of, axis, start, len)))
    }

    fn reshape(&mut self, of: usize, shape: Shape) -> Result<usize, Error> {
        let v = self.graph.reshape(self.made[of].value, shape)?;
        Ok(self.view(of, v, Step::Reshape(of)))
    }

    fn permute(&mut self, of: usize, axes: Vec<usize>) -> Result<usize, Error> {
        let v = self.graph.permute(self.made[of].value, &axes)?;
        Ok(self.view(of, v, Step::Permute(of, axes)))
    }

    fn broadcast(&mut self, of: usize, shape: Shape) -> Result<usize, Error> {
        let v = self.graph.broadcast_to(self.made[of].value, shape)?;
        Ok(self.view(of, v, Step::Broadcast(of)))
    }

    /// Appends an op; elements of each output are at most `bound`, or are scaled until they are.
    fn op(&mut self, op: impl Tested, on: &[usize], bound: f64) -> Result<usize, Error> {
        let exact = op.name() == "copy" && self.made[on[0]].exact;
        let op: Arc<dyn Tested> = Arc::new(op);
        let values: Vec<Value> = on.iter().map(|&i| self.made[i].value).collect();
        on.iter().for_each(|&i| self.made[i].used = true);
        let outputs = self.graph.op_dyn(op.clone(), &values)?;
        let mut first = 0;
        for (j, v) in outputs.into_iter().enumerate() {
            let made = self.push(v, Step::Op(Arc::clone(&op), on.to_vec(), j), bound, exact);
            first = if j == 0 { made } else { first };
        }
        if bound > 1e3 {
            return self.op(ops::Affine { mul: 1.0 / bound, add: 0.0 }, &[first], 1.0);
        }
        Ok(first)
    }

    /// A float value that fits, mostly one that has not been updated since.
    fn any(&mut self, fits: impl Fn(&Made) -> bool) -> Option<usize> {
        let allow_old = self.dice.one_in(12);
        let float = |m: &Made| m.spec.dtype == DType::F64 && (allow_old || !m.old) && fits(m);
        let all: Vec<usize> = (0..self.made.len()).filter(|&i| float(&self.made[i])).collect();
        // Recent values more often, so that graphs get deep.
        let recent = all.len().saturating_sub(6);
        let from = if self.dice.one_in(3) { 0 } else { recent };
        self.dice.pick(&all[from..]).copied()
    }

    /// Tries one random step; says whether it added an op.
    fn grow(&mut self) -> Result<bool, Error> {
        let before = self.made.len();
        let limit = self.limit;
        let Some(x) = self.any(|m| m.spec.shape.elements() <= limit) else { return Ok(false) };
        let Made { spec, bound, .. } = self.made[x].clone();
        let (shape, rank) = (spec.shape, spec.shape.rank());
        let axis = self.dice.below(rank.max(1));
        match self.dice.below(22) {
            0 => self.op(ops::Neg, &[x], bound)?,
            1 => self.op(ops::Tanh, &[x], 1.0)?,
            2 => self.op(ops::Abs, &[x], bound)?,
            3 => self.op(ops::Affine { mul: 0.5, add: 0.25 }, &[x], 0.5 * bound + 0.25)?,
            4 | 5 => {
                let Some(y) = self.any(|m| m.spec.shape.broadcast(&shape) == Some(shape)) else {
                    return Ok(false);
                };
                let y = if self.made[y].spec.shape == shape { y } else { self.broadcast(y, shape)? };
                let other = self.made[y].bound;
                match self.dice.below(6) {
                    0 | 1 => self.op(ops::Add, &[x, y], bound + other)?,
                    2 => self.op(ops::Sub, &[y, x], bound + other)?,
                    3 => self.op(ops::Mul, &[x, y], bound * other)?,
                    4 => self.op(ops::Maximum, &[x, y], bound.max(other))?,
                    _ if self.ops == Ops::Table => self.op(ops::Minimum, &[x, y], bound.max(other))?,
                    _ => self.op(Butterfly, &[x, y], bound + other)?,
                }
            }
            6 if rank >= 2 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(axis, (axis + 1) % rank);
                let t = self.permute(x, axes)?;
                if self.dice.one_in(2) { self.op(ops::Copy, &[t], bound)? } else { t }
            }
            7 if rank >= 1 => {
                let size = shape.dims()[axis];
                let start = self.dice.below(size);
                let len = self.dice.below(size - start + 1).max(usize::from(size > start));
                self.slice(x, axis, start, len)?
            }
            8 => {
                let mut to = vec![shape.elements()];
                if let Some(d) = (2..5).find(|d| shape.elements() % d == 0) {
                    to = vec![d, shape.elements() / d];
                }
                let Some(to) = Shape::new(&to) else { return Ok(false) };
                self.reshape(x, to)?
            }
            9 if rank < 4 => {
                let mut dims = vec![self.dice.below(3) + 1];
                dims.extend_from_slice(shape.dims());
                let Some(to) = Shape::new(&dims) else { return Ok(false) };
                let wide = self.broadcast(x, to)?;
                if self.dice.one_in(3) { self.op(ops::Copy, &[wide], bound)? } else { wide }
            }
            10 if (1..4).contains(&rank) && shape.last() >= 2 => {
                let (size, step) = (self.dice.below(shape.last()) + 1, self.dice.below(2) + 1);
                let v = self.graph.unfold(self.made[x].value, size, step)?;
                self.view(x, v, Step::Unfold(x, size, step))
            }
            11 if rank >= 1 && shape.elements() > 0 => {
                let axes: Vec<usize> = (0..rank).filter(|&a| a == axis || self.dice.one_in(4)).collect();
                let count: usize = axes.iter().map(|&a| shape.dims()[a]).product();
                let kinds = [Reduction::Sum, Reduction::Mean, Reduction::Max];
                let kind = self.dice.pick(&kinds).copied().unwrap_or(Reduction::Sum);
                let grown = if kind == Reduction::Sum { bound * count as f64 } else { bound };
                self.op(ops::Reduce::new(kind, &axes), &[x], grown)?
            }
            12 | 13 if rank >= 2 => return self.product(x),
            14 if rank >= 1 => {
                let (before, after) = (self.dice.below(3), self.dice.below(3));
                self.op(ops::Pad { axis, before, after }, &[x], bound)?
            }
            15 => {
                let more = self.dice.below(3);
                let mut parts = vec![x];
                for _ in 0..more {
                    parts.extend(self.any(|m| m.spec.shape.elements() <= limit));
                }
                let bound = parts.iter().map(|&p| self.made[p].bound).fold(0.0, f64::max);
                self.op(ops::Pack, &parts, bound)?
            }
            // A permutation, and a permutation of that: copies must not run in place of what they copy.
            16 | 17 if self.ops == Ops::Table && rank >= 2 => {
                let axes: Vec<usize> = (0..rank).rev().collect();
                let t = self.permute(x, axes.clone())?;
                let copied = self.op(ops::Copy, &[t], bound)?;
                let back = self.permute(copied, axes)?;
                self.op(ops::Copy, &[back], bound)?
            }
            16 if self.ops == Ops::All && rank >= 2 => {
                let axes: Vec<usize> = (1..rank).collect();
                let p = self.op(ops::Reduce::new(Reduction::Max, &axes), &[x], bound)?;
                if shape.elements() == 0 {
                    return Ok(true);
                }
                self.op(ReverseRows, &[x, p], bound)?
            }
            17 if self.ops == Ops::All => self.op(Hungry, &[x], bound)?,
            18 | 19 => return self.update(),
            20 if self.made[x].exact => {
                let Some(y) = self.any(|m| m.exact && m.spec.shape == shape) else { return Ok(false) };
                let compare = ops::Compare { comparison: ops::Comparison::LessEqual };
                let c = self.op(compare, &[x, y], 1.0)?;
                self.op(ops::Where, &[c, y, x], bound)?
            }
            21 if self.dice.one_in(4) => self.op(ops::Fill { spec, value: 0.75 }, &[], 1.0)?,
            _ => return Ok(false),
        };
        Ok(self.made[before..].iter().any(|m| matches!(m.step, Step::Op(..))))
    }

    fn product(&mut self, x: usize) -> Result<bool, Error> {
        let (shape, bound) = (self.made[x].spec.shape, self.made[x].bound);
        let rank = shape.rank();
        let k = shape.dims()[rank - 1];
        let fits = |m: &Made| {
            let d = m.spec.shape.dims();
            d.len() == rank && d[rank - 2] == k && d[..rank - 2] == shape.dims()[..rank - 2]
        };
        let y = match self.any(fits) {
            Some(y) => y,
            None => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(rank - 1, rank - 2);
                self.permute(x, axes)?
            }
        };
        let grown = bound * self.made[y].bound * k as f64;
        self.op(ops::MatMul::default(), &[x, y], grown)?;
        Ok(true)
    }

    /// An update of the state or of a value of the arena, whole or in part.
    fn update(&mut self) -> Result<bool, Error> {
        let updatable = |m: &Made, state: bool| match &m.step {
            Step::Entry(name) => state && !name.starts_with('c'),
            Step::Slab(_) => state,
            Step::Op(..) => m.bound <= 1e3,
            Step::Input(_)
            | Step::Permute(..)
            | Step::Slice(..)
            | Step::Broadcast(_)
            | Step::Reshape(_)
            | Step::Unfold(..) => false,
        };
        let state = self.dice.one_in(2);
        let Some(target) = self.any(|m| !m.old && updatable(m, state)) else { return Ok(false) };
        let Made { spec, bound, .. } = self.made[target].clone();
        let Some(x) = self.any(|m| !m.old && m.spec.shape.broadcast(&spec.shape) == Some(spec.shape)) else {
            return Ok(false);
        };
        if self.base(x).1 == self.base(target).1 {
            return Ok(false);
        }
        let x = if self.made[x].spec.shape == spec.shape { x } else { self.broadcast(x, spec.shape)? };
        let grown = 0.5 * bound + self.made[x].bound;
        if grown > 1e3 {
            return Ok(false);
        }
        let base = self.base(target).1;
        if self.ops == Ops::Table {
            let ok = self.op(ops::Fill { spec: Spec::new(DType::Bool, []), value: 1.0 }, &[], 1.0)?;
            let half = ops::RunningUpdate { momentum: 0.5, unbiased_count: None };
            self.op(half, &[target, x, ok], grown)?;
        } else if self.dice.one_in(3) {
            self.op(SetEven, &[target, x], grown)?;
        } else {
            self.op(Decay { keep: 0.5 }, &[target, x], grown)?;
        }
        let new = self.made.len() - 1;
        for i in 0..new {
            if self.base(i).1 == base {
                self.made[i].old = true;
            }
        }
        Ok(true)
    }

    /// The value that this one is a view of; equal ops give one graph value.
    fn base(&self, i: usize) -> (usize, Value) {
        match self.made[i].step {
            Step::Permute(of, _)
            | Step::Slice(of, ..)
            | Step::Broadcast(of)
            | Step::Reshape(of)
            | Step::Unfold(of, ..) => self.base(of),
            Step::Input(_) | Step::Entry(_) | Step::Slab(_) | Step::Op(..) => (i, self.made[i].value),
        }
    }

    /// Outputs: some values as they are, and everything unused, summed and packed, so that nothing is dead.
    fn finish(&mut self) -> Result<(), Error> {
        for i in 0..1 + self.dice.below(3) {
            if let Some(v) = self.any(|_| true) {
                self.made[v].used = true;
                self.graph.output(&format!("y{i}"), self.made[v].value);
                self.outputs.push((format!("y{i}"), v));
            }
        }
        let mut sums = Vec::new();
        for i in 0..self.made.len() {
            let Made { spec, bound, old, used, .. } = self.made[i].clone();
            if !used && !old && spec.dtype == DType::F64 && spec.shape.elements() > 0 {
                let axes: Vec<usize> = (0..spec.shape.rank()).collect();
                sums.push(self.op(ops::Reduce::new(Reduction::Mean, &axes), &[i], bound)?);
            }
        }
        if !sums.is_empty() {
            let all = self.op(ops::Pack, &sums, 1.0)?;
            self.graph.output("rest", self.made[all].value);
            self.outputs.push(("rest".to_owned(), all));
        }
        Ok(())
    }
}

fn random_shape(dice: &mut Dice, sizes: &[usize]) -> Shape {
    let rank = 1 + dice.below(3);
    let mut dims: Vec<usize> = (0..rank).map(|_| sizes[dice.below(sizes.len())]).collect();
    if dice.one_in(40) {
        dims[0] = 0;
    }
    Shape::new(&dims).unwrap_or(Shape::SCALAR)
}
