//! The step graph: SSA form over typed values with known shapes.
//!
//! Model code calls methods of [`Graph`]; each result is a [`Value`]. Shape errors surface at the call, with the
//! caller's line. Views are values too: they move no data and are lowered to layouts of their base.

use super::{Op, StateSpec};
use crate::error::Error;
use crate::values::{DType, Layout, OpError, Rule, Shape, Spec};
use std::cell::{RefCell, RefMut};
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Values of a graph at most: a loop over a size that somebody gave ends there, and not where the memory does.
const MAX_VALUES: usize = 1 << 22;

/// A value of a graph. Of use in the graph that made it, and its copies, alone: any other refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    graph: u32,
    index: u32,
}

impl Value {
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

/// How a view is derived from another value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum View {
    Reshape,
    Permute(Vec<usize>),
    Slice {
        axis: usize,
        start: usize,
    },
    Broadcast,
    Unfold {
        size: usize,
        step: usize,
    },
    /// The value itself, through which no gradient flows.
    Detach,
}

/// The origin of a value.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// An input, written by the host before a run.
    Input,
    /// A slab of the state, with its contents at the start of the program.
    Slab,
    /// An output of a node.
    Node { node: usize },
    /// A view: the memory of another value.
    View { of: Value, view: View },
}

#[derive(Debug, Clone)]
pub(crate) struct ValueInfo {
    pub(crate) spec: Spec,
    pub(crate) origin: Origin,
    /// The value that owns the memory (itself, unless it is a view), and the layout in that memory.
    pub(crate) base: Value,
    pub(crate) layout: Layout,
    pub(crate) name: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) op: Arc<dyn Op>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) at: &'static Location<'static>,
    /// Its position in issue order: its creation number, or just before the node that it was cloned for.
    pub(crate) order: (usize, usize),
    /// Whether it is kept in f32 for any compute dtype.
    pub(crate) full_precision: bool,
    /// The block of [`Graph::checkpoint`] that it was added in, if any.
    pub(crate) block: Option<u32>,
}

impl Node {
    /// The inputs that it updates in place.
    pub(crate) fn updates(&self) -> impl Iterator<Item = Value> + '_ {
        self.op.outputs().iter().filter_map(|o| self.inputs.get(o.updated()?).copied())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Inner {
    /// Which graph it is: its values have this number.
    id: u32,
    /// What methods without a `Result` found wrong first; the next one with a `Result` returns it.
    fault: Option<OpError>,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<(String, Value)>,
    pub(crate) outputs: Vec<(String, Value)>,
    pub(crate) slabs: HashMap<usize, Value>,
    /// State entries in use.
    pub(crate) entries: HashSet<Value>,
    /// In mixed precision: of a value that was asked for, the one that holds its numbers in the other dtype.
    pub(crate) copies: HashMap<Value, Value>,
    /// First node of the backward pass, if there is one.
    pub(crate) backward: Option<usize>,
    /// First node after the loop body, and the number of iterations.
    pub(crate) repeated: Option<(usize, usize)>,
    pub(super) known: HashMap<(String, Vec<Value>), usize>,
    pub(super) known_views: HashMap<(Value, String), Value>,
    pub(super) scope: Vec<String>,
    /// Whether ops added now are kept in f32.
    pub(crate) full_precision: bool,
    /// The block that ops are added to now, and the number of blocks so far.
    pub(crate) block: Option<u32>,
    blocks: u32,
    /// The line that nodes added now are said to be of, where it is not that of the call: a person's, not one of a function of
    /// several ops.
    pub(super) line: Option<&'static Location<'static>>,
    /// Whether fused ops are added as their bodies.
    pub(super) primitives: bool,
    /// Whether what is added now is a value of its own, also where there is an equal one; and whether any was.
    pub(super) distinct: bool,
    pub(crate) unmerged: bool,
}

/// A step under construction. Methods take `&self`, so calls nest.
#[derive(Debug, Clone)]
pub struct Graph {
    state: Arc<StateSpec>,
    pub(crate) inner: RefCell<Inner>,
}

impl Graph {
    /// An empty graph over a state (an empty spec for programs without one).
    #[must_use]
    pub fn new(state: &Arc<StateSpec>) -> Self {
        static GRAPHS: AtomicU32 = AtomicU32::new(0);
        let inner = Inner { id: GRAPHS.fetch_add(1, Ordering::Relaxed), ..Inner::default() };
        Self { state: Arc::clone(state), inner: RefCell::new(inner) }
    }

    /// The state that the graph reads and updates.
    #[must_use]
    pub fn state_spec(&self) -> &Arc<StateSpec> {
        &self.state
    }

    /// Dtype and shape of a value. Of a value of another graph those of an f32 scalar; then the next method that returns a
    /// `Result`, or the compiler, returns the error.
    #[must_use]
    #[track_caller]
    pub fn spec(&self, value: Value) -> Spec {
        self.noted("spec", value).map_or(Spec::new(DType::F32, Shape::SCALAR), |inner| inner.info(value).spec)
    }

    /// Dimension sizes of a value; of a value of another graph as of [`Graph::spec`].
    #[must_use]
    #[track_caller]
    pub fn shape(&self, value: Value) -> Shape {
        self.spec(value).shape
    }

    /// Names a value for plans, errors and the search for a non-finite value. A value of another graph is refused as by
    /// [`Graph::spec`].
    #[track_caller]
    pub fn name(&self, value: Value, name: &str) -> Value {
        let Some(mut inner) = self.noted("name", value) else { return value };
        let full = inner.scope.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        let base = inner.values[value.index()].base;
        inner.values[base.index()].name.get_or_insert_with(|| full.clone());
        inner.values[value.index()].name = Some(full);
        value
    }

    /// Runs `build` with `name` as a prefix of the names given inside.
    pub fn scope<R>(&self, name: &str, build: impl FnOnce() -> R) -> R {
        self.inner.borrow_mut().scope.push(name.to_owned());
        let result = build();
        self.inner.borrow_mut().scope.pop();
        result
    }

    /// Adds the fused ops that `build` calls (norms, attention, recurrent layers and others) as the primitive ops that their bodies are
    /// written in. Intermediate results then lie in memory.
    ///
    /// ```
    /// use landfall::{All, DType, Graph, StateSpec, grad};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F64, [3, 5]);
    /// let weight = g.fill(DType::F64, [5], 1.0)?;
    /// let y = g.in_primitives(|| g.rms_norm(x, weight, 1e-6))?;
    /// let named = [("x".to_owned(), x)];
    /// let slope = grad(&g, g.sum(g.square(y)?, All)?, &named)?[0];
    /// assert_eq!(g.shape(slope).dims(), [3, 5]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    pub fn in_primitives<R>(&self, build: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.inner.borrow_mut().primitives, true);
        let result = build();
        self.inner.borrow_mut().primitives = outer;
        result
    }

    /// Keeps nothing of what `build` adds for the backward pass but the values that are read outside of it: the others are computed a
    /// second time, just before the gradients of the block. That takes less memory and more time; the gradients are the same bytes,
    /// and so are random numbers, which are a function of cursor and stream. A block within another is a part of it.
    ///
    /// ```
    /// use landfall::{All, DType, Engine, Graph, Program, State, StateSpec, grad};
    /// let spec = std::sync::Arc::new(StateSpec::new());
    /// let g = Graph::new(&spec);
    /// let x = g.input("x", DType::F32, [64, 64]);
    /// let mut y = x;
    /// for _ in 0..8 {
    ///     y = g.checkpoint(|| g.matmul(g.tanh(g.exp(y)?)?, x))?;
    /// }
    /// g.output("slope", grad(&g, g.sum(y, All)?, &[("x".to_owned(), x)])?[0]);
    /// let engine = Engine::cpu()?;
    /// let program = Program::compile(&engine, &State::new(&engine, &spec)?, "step", &g)?;
    /// assert!(program.report().recomputed >= 14); // of each block exp and tanh, where their results are read
    /// # Ok::<(), landfall::Error>(())
    /// ```
    pub fn checkpoint<R>(&self, build: impl FnOnce() -> R) -> R {
        let outer = {
            let mut inner = self.inner.borrow_mut();
            inner.blocks += 1;
            let block = inner.block.unwrap_or(inner.blocks);
            inner.block.replace(block)
        };
        let result = build();
        self.inner.borrow_mut().block = outer;
        result
    }

    /// Makes what `build` adds values of their own, also where equal ops on the same values, or equal views, are there: a gradient with
    /// respect to one of them is then not that of the others. Elsewhere equal ones are one value while a graph is built; these
    /// become one when it is compiled, so that nothing is computed twice.
    ///
    /// ```
    /// use landfall::{All, DType, Engine, Graph, Program, State, StateSpec, grad};
    /// use std::sync::Arc;
    /// let (engine, spec) = (Engine::cpu()?, Arc::new(StateSpec::new()));
    /// let (mut state, g) = (State::new(&engine, &spec)?, Graph::new(&spec));
    /// let x = g.input("x", DType::F64, [1]);
    /// let (a, b) = g.distinct(|| Ok::<_, landfall::Error>((g.exp(x)?, g.exp(x)?)))?;
    /// let loss = g.sum(g.mul(a, b)?, All)?;
    /// g.output("slope", grad(&g, loss, &[("a".to_owned(), a)])?[0]);
    /// let mut program = Program::compile(&engine, &state, "distinct", &g)?;
    /// program.write("x", &[0.0f64])?;
    /// program.run(&mut state)?;
    /// assert_eq!(program.read::<f64>("slope")?, [1.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    pub fn distinct<R>(&self, build: impl FnOnce() -> R) -> R {
        let outer = {
            let mut inner = self.inner.borrow_mut();
            inner.unmerged = true;
            std::mem::replace(&mut inner.distinct, true)
        };
        let result = build();
        self.inner.borrow_mut().distinct = outer;
        result
    }

    /// Gives what `build` adds the line of a person's call, unless a call around it has given one.
    pub(crate) fn on_behalf<R>(&self, at: &'static Location<'static>, build: impl FnOnce() -> R) -> R {
        let outer = {
            let mut inner = self.inner.borrow_mut();
            let outer = inner.line;
            inner.line.get_or_insert(at);
            outer
        };
        let result = build();
        self.inner.borrow_mut().line = outer;
        result
    }

    /// Keeps the ops that `build` adds in f32: [`mixed_precision`](crate::mixed_precision) does not change them.
    pub fn full_precision<R>(&self, build: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.inner.borrow_mut().full_precision, true);
        let result = build();
        self.inner.borrow_mut().full_precision = outer;
        result
    }

    /// Marks the nodes so far as a loop body that runs `times` times before the later nodes run once: gradient accumulation over
    /// micro-batches, then the update. Each iteration reads the state that the previous one wrote. The later nodes read the
    /// values of the last iteration. The last call counts.
    ///
    /// # Errors
    /// [`Rule::Attribute`] if `times` is 0.
    #[track_caller]
    pub fn repeat_so_far(&self, times: usize) -> Result<(), Error> {
        if times == 0 {
            let rule = Rule::Attribute { name: "times", value: 0.0, expected: "at least 1" };
            return Err(rule.of("repeat_so_far", &[], None, Some(Location::caller())).into());
        }
        let mut inner = self.inner.borrow_mut();
        inner.repeated = Some((inner.nodes.len(), times));
        Ok(())
    }

    /// Marks a value as an output of the program, readable by this name after a run. A name that is taken, or a value of another
    /// graph, is refused by the next method that returns a `Result`, or by the compiler.
    #[track_caller]
    pub fn output(&self, name: &str, value: Value) {
        let at = Location::caller();
        let Some(mut inner) = self.noted("output", value) else { return };
        let taken = inner.outputs.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        if taken.is_some_and(|other| other != value) {
            inner.refuse(Rule::Name { kind: "output", name: name.to_owned() }.of(
                "output",
                &[],
                None,
                Some(at),
            ));
        } else if taken.is_none() {
            inner.outputs.push((name.to_owned(), value));
        }
    }

    /// The graph's contents, if the value is its own; else the error is noted.
    #[track_caller]
    pub(super) fn noted(&self, method: &'static str, value: Value) -> Option<RefMut<'_, Inner>> {
        let mut inner = self.inner.borrow_mut();
        match inner.owns(0, value) {
            Ok(()) => Some(inner),
            Err(rule) => {
                inner.refuse(rule.of(method, &[], None, Some(Location::caller())));
                None
            }
        }
    }

    /// That all values are the graph's own, that nothing was refused before, and that there is room for more values.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn sound(
        &self,
        op: &'static str,
        values: &[Value],
        at: &'static Location<'static>,
    ) -> Result<(), Error> {
        let inner = self.inner.borrow();
        if let Some(fault) = &inner.fault {
            return Err(fault.clone().into());
        }
        if inner.values.len() >= MAX_VALUES {
            let (value, expected) =
                (inner.values.len() as f64, "below 4194304; use an op that works on all of them");
            let rule = Rule::Attribute { name: "number of values of the graph", value, expected };
            return Err(rule.of(op, &[], None, Some(at)).into());
        }
        let all = values.iter().enumerate().try_for_each(|(arg, &v)| inner.owns(arg, v));
        Ok(all.map_err(|rule| rule.of(op, &[], None, Some(at)))?)
    }
}

impl Inner {
    pub(crate) fn info(&self, value: Value) -> &ValueInfo {
        &self.values[value.index()]
    }

    /// The value of this number.
    pub(crate) fn value(&self, index: usize) -> Value {
        Value { graph: self.id, index: index as u32 }
    }

    /// That a value is one of this graph.
    pub(crate) fn owns(&self, arg: usize, value: Value) -> Result<(), Rule> {
        if value.graph == self.id && value.index() < self.values.len() {
            return Ok(());
        }
        Err(Rule::ForeignValue { arg, value: value.index, of: value.graph, graph: self.id })
    }

    /// Notes a fault, if it is the first.
    pub(super) fn refuse(&mut self, fault: OpError) {
        self.fault.get_or_insert(fault);
    }

    pub(crate) fn add_value(&mut self, spec: Spec, origin: Origin) -> Value {
        let v = self.value(self.values.len());
        self.values.push(ValueInfo {
            spec,
            origin,
            base: v,
            layout: Layout::contiguous(spec.shape),
            name: None,
        });
        v
    }

    /// The same value under another number, one for each `copy`: what is made of it is not what was made of `value`.
    pub(crate) fn apart(&mut self, value: Value, copy: usize) -> Value {
        let key = (value, format!("apart {copy}"));
        // Arguments of one fused op that are equal stay so.
        if let Some(&v) = self.known_views.get(&key) {
            return v;
        }
        let ValueInfo { spec, base, layout, .. } = *self.info(value);
        let v = self.add_value(spec, Origin::View { of: value, view: View::Reshape });
        let info = &mut self.values[v.index()];
        (info.base, info.layout) = (base, layout);
        self.known_views.insert(key, v);
        v
    }

    /// The text of a value in plans and errors.
    pub(crate) fn describe(&self, value: Value) -> String {
        let info = self.info(value);
        match (&info.name, &info.origin) {
            (Some(name), _) => name.clone(),
            (None, Origin::Node { node }) => {
                let n = &self.nodes[*node];
                match n.outputs.iter().position(|&o| o == value) {
                    Some(k) if n.outputs.len() > 1 => format!("{}#{node}.{k}", n.op.name()),
                    _ => format!("{}#{node}", n.op.name()),
                }
            }
            (None, Origin::View { of, .. }) => self.describe(*of),
            (None, Origin::Input | Origin::Slab) => format!("value#{}", value.index),
        }
    }
}
