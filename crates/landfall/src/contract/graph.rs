//! The step graph: SSA form over typed values with known shapes.
//!
//! Model code calls methods of [`Graph`]; each result is a [`Value`]. Shape errors surface at the call, with the
//! caller's line. Views are values too: they move no data and are lowered to layouts of their base.

use super::{Op, StateSpec};
use crate::error::Error;
use crate::values::{Layout, Rule, Shape, Spec};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

/// A value of a graph. Valid only for the graph that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub(crate) u32);

impl Value {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
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
}

impl Node {
    /// The inputs that it updates in place.
    pub(crate) fn updates(&self) -> impl Iterator<Item = Value> + '_ {
        self.op.outputs().iter().filter_map(|o| self.inputs.get(o.updated()?).copied())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Inner {
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<(String, Value)>,
    pub(crate) outputs: Vec<(String, Value)>,
    pub(crate) slabs: HashMap<usize, Value>,
    /// State entries in use.
    pub(crate) entries: HashSet<Value>,
    /// First node of the backward pass, if there is one.
    pub(crate) backward: Option<usize>,
    /// First node after the loop body, and the number of iterations.
    pub(crate) repeated: Option<(usize, usize)>,
    pub(super) known: HashMap<(String, Vec<Value>), usize>,
    pub(super) known_views: HashMap<(Value, String), Value>,
    pub(super) scope: Vec<String>,
    /// Whether ops added now are kept in f32.
    pub(crate) full_precision: bool,
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
        Self { state: Arc::clone(state), inner: RefCell::default() }
    }

    /// The state that the graph reads and updates.
    #[must_use]
    pub fn state_spec(&self) -> &Arc<StateSpec> {
        &self.state
    }

    /// Dtype and shape of a value.
    #[must_use]
    pub fn spec(&self, value: Value) -> Spec {
        self.inner.borrow().values[value.index()].spec
    }

    /// Dimension sizes of a value.
    #[must_use]
    pub fn shape(&self, value: Value) -> Shape {
        self.spec(value).shape
    }

    /// Names a value for plans, errors and the search for a non-finite value.
    pub fn name(&self, value: Value, name: &str) -> Value {
        let mut inner = self.inner.borrow_mut();
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

    /// Marks a value as an output of the program, readable by this name after a run.
    pub fn output(&self, name: &str, value: Value) {
        self.inner.borrow_mut().outputs.push((name.to_owned(), value));
    }
}

impl Inner {
    pub(crate) fn info(&self, value: Value) -> &ValueInfo {
        &self.values[value.index()]
    }

    pub(crate) fn add_value(&mut self, spec: Spec, origin: Origin) -> Value {
        let v = Value(self.values.len() as u32);
        self.values.push(ValueInfo {
            spec,
            origin,
            base: v,
            layout: Layout::contiguous(spec.shape),
            name: None,
        });
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
            (None, Origin::Input | Origin::Slab) => format!("value#{}", value.0),
        }
    }
}
