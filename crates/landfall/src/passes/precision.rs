//! Mixed precision: rewrites an f32 graph so that matmul and attention, and the pointwise ops between them, run in a
//! compute dtype.
//!
//! The pass runs on the forward graph, before the backward pass is built: the gradient of [`ops::Cast`] then places the
//! backward casts, and every gradient has the dtype of its value. Each op declares its treatment
//! ([`Op::mixing`](crate::contract::Op::mixing)), so a user's op takes part like the built-in ones. "Product" means
//! matmul or attention:
//!
//! | mixing | the table's ops | runs in |
//! |---|---|---|
//! | product | matmul, grouped matmul, attention | the compute dtype, temperatures in f32 |
//! | between products | one scalar expression per element, dropout, the rows of layer norm, batch norm and L2 norm | the compute dtype between two products, else f32 |
//! | movement | copy, concat, pad, permute | the compute dtype if fewer bytes move |
//! | full | everything else: softmax, losses, reductions, updates, gathers | f32 |
//!
//! "Between" means that an operand depends on a product and a product depends on the result. So the scaling of a window
//! before the first product, and the path of the prediction from the last one to the loss, stay in f32.
//!
//! Only f32 values change. A value is cast once, as stored, and its views are views of the cast: a weight is cast once
//! a step, for all readers.

use crate::contract::{Graph, Inner, Mixing, Node, Origin, Value, View, attributes};
use crate::error::Error;
use crate::ops;
use crate::values::{DType, Precision, Shape};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// A graph in mixed precision, and the map from the values of the f32 graph to its values.
#[derive(Debug)]
pub struct Mixed {
    graph: Graph,
    source: Inner,
    /// The new value of each old one, in the dtype in which it is produced.
    made: Vec<Value>,
    /// Casts of them.
    cast: RefCell<HashMap<(Value, DType), Value>>,
}

/// Rewrites a forward graph of f32 values so that matmul and attention run in `compute`, one of f32, bf16 and f16 (each
/// op's [`Mixing`](crate::ops::Mixing) decides what runs in it), and f32 matmul with the precision `products`. Inputs,
/// outputs, the state and the values that [`Mixed::value`] returns keep their dtypes. Values of other dtypes than f32
/// are unchanged.
///
/// # Errors
/// None for a valid graph.
pub fn mixed_precision(graph: &Graph, compute: DType, products: Precision) -> Result<Mixed, Error> {
    let source = graph.inner.borrow().clone();
    let low = if compute == DType::F32 { vec![false; source.nodes.len()] } else { runs_low(&source) };
    let mut mixed = Mixed {
        graph: Graph::new(graph.state_spec()),
        made: Vec::with_capacity(source.values.len()),
        cast: RefCell::default(),
        source,
    };
    mixed.rewrite(compute, products, &low)?;
    Ok(mixed)
}

impl Mixed {
    /// The new graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The new graph, if no further values are needed.
    #[must_use]
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// A value of the f32 graph in the new one, in its original dtype. Its gradient ([`grad`](crate::grad)) is that of all copies
    /// that ops read.
    ///
    /// # Errors
    /// A value of another graph.
    #[track_caller]
    pub fn value(&self, value: Value) -> Result<Value, Error> {
        let own = self.source.owns(0, value);
        own.map_err(|rule| rule.of("mixed precision", &[], None, Some(std::panic::Location::caller())))?;
        let given = self.in_dtype(value, self.source.info(value).spec.dtype)?;
        let cast = self.cast.borrow();
        let held = cast.iter().filter(|((of, _), _)| *of == value).map(|(_, copy)| *copy);
        let copy = held.chain([self.made[value.index()]]).find(|copy| *copy != given);
        self.graph.inner.borrow_mut().copies.extend(copy.map(|copy| (given, copy)));
        Ok(given)
    }

    fn rewrite(&mut self, compute: DType, products: Precision, low: &[bool]) -> Result<(), Error> {
        let inputs = self.source.inputs.clone();
        for index in 0..self.source.values.len() {
            let old = self.source.value(index);
            let info = self.source.info(old).clone();
            let new = match &info.origin {
                Origin::Input => {
                    let name = inputs.iter().find(|(_, v)| *v == old).map_or("", |(name, _)| name);
                    self.graph.input(name, info.spec.dtype, info.spec.shape)
                }
                Origin::Slab => self.graph.slab(info.name.as_deref().unwrap_or_default())?,
                Origin::View { of, view } => {
                    self.graph.view_again(self.made[of.index()], view, info.spec.shape)?
                }
                // The outputs of a node are numbered consecutively, and all are created with the first.
                Origin::Node { node } => {
                    let node = self.source.nodes[*node].clone();
                    if node.outputs.first() == Some(&old) {
                        // A cast of its operands is a part of its block too.
                        self.graph.inner.borrow_mut().block = node.block;
                        let made = self.node(&node, low, compute, products)?;
                        self.graph.inner.borrow_mut().block = None;
                        self.made.extend(made);
                    }
                    continue;
                }
            };
            self.made.push(new);
            self.rename(old, new);
        }
        if let Some((first, times)) = self.source.repeated
            && first == self.source.nodes.len()
        {
            self.graph.repeat_so_far(times)?;
        }
        let outputs = self.source.outputs.clone();
        outputs.iter().try_for_each(|(name, v)| {
            self.graph.output(name, self.value(*v)?);
            Ok(())
        })
    }

    fn node(
        &self,
        node: &Node,
        low: &[bool],
        compute: DType,
        products: Precision,
    ) -> Result<Vec<Value>, Error> {
        let number = match self.source.info(node.outputs[0]).origin {
            Origin::Node { node } => node,
            Origin::Input | Origin::Slab | Origin::View { .. } => 0,
        };
        let made_low = |v: &Value| self.graph.spec(self.made[v.index()]).dtype == compute;
        let (operands, moves) = match mixing(node) {
            Mixing::Product { operands } | Mixing::BetweenProducts { operands } => (operands, false),
            Mixing::Movement => (node.inputs.len(), true),
            Mixing::Full => (node.inputs.len(), false),
        };
        let dtype =
            if low[number] || (moves && node.inputs.iter().all(made_low)) { compute } else { DType::F32 };
        let inputs = node.inputs.iter().enumerate().map(|(k, &v)| match self.source.info(v).spec.dtype {
            DType::F32 => self.in_dtype(v, if k < operands { dtype } else { DType::F32 }),
            DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => {
                Ok(self.made[v.index()])
            }
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let op = match attributes::<ops::MatMul>(node.op.as_ref()) {
            Ok(product) if product.precision == Precision::Strict => {
                Arc::new(ops::MatMul { precision: products, ..*product })
            }
            Ok(_) | Err(_) => node.op.clone(),
        };
        {
            let mut inner = self.graph.inner.borrow_mut();
            let next = inner.nodes.len();
            if self.source.backward == Some(number) {
                inner.backward = Some(next);
            }
            if let Some((first, times)) = self.source.repeated
                && first == number
            {
                inner.repeated = Some((next, times));
            }
        }
        let made = self.graph.append(op, &inputs, node.at)?;
        node.outputs.iter().zip(&made).for_each(|(&old, &new)| self.rename(old, new));
        Ok(made)
    }

    /// A value in a dtype: as produced, or cast. The cast is of the whole value, or of an entry of the state, and views
    /// are taken of the cast: all readers share it, and broadcast elements are cast once.
    fn in_dtype(&self, old: Value, dtype: DType) -> Result<Value, Error> {
        let new = self.made[old.index()];
        if self.graph.spec(new).dtype == dtype {
            return Ok(new);
        }
        if let Some(&cast) = self.cast.borrow().get(&(old, dtype)) {
            return Ok(cast);
        }
        let info = self.source.info(old);
        let cast = match &info.origin {
            Origin::View { of, view } if !self.source.entries.contains(&old) && !self.is_slab(*of) => {
                self.graph.view_again(self.in_dtype(*of, dtype)?, view, info.spec.shape)?
            }
            Origin::Input | Origin::Slab | Origin::Node { .. } | Origin::View { .. } => {
                let cast = self.graph.recast(new, dtype)?;
                if let Some(name) = &info.name {
                    self.graph.inner.borrow_mut().values[cast.index()].name =
                        Some(format!("{name} ({dtype})"));
                }
                cast
            }
        };
        self.cast.borrow_mut().insert((old, dtype), cast);
        Ok(cast)
    }

    fn is_slab(&self, value: Value) -> bool {
        matches!(self.source.info(value).origin, Origin::Slab)
    }

    fn rename(&self, old: Value, new: Value) {
        let mut inner = self.graph.inner.borrow_mut();
        if let Some(name) = &self.source.info(old).name {
            inner.values[new.index()].name = Some(name.clone());
        }
        if self.source.entries.contains(&old) {
            inner.entries.insert(new);
        }
    }
}

/// The op's own mixing, unless the node is kept in f32.
fn mixing(node: &Node) -> Mixing {
    if node.full_precision { Mixing::Full } else { node.op.mixing() }
}

fn is_product(node: &Node) -> bool {
    matches!(mixing(node), Mixing::Product { .. })
}

/// The nodes that run in the compute dtype, by their mixing and their readers.
fn runs_low(g: &Inner) -> Vec<bool> {
    let nodes = g.nodes.len();
    let maker = |v: Value| match g.info(g.info(v).base).origin {
        Origin::Node { node } => Some(node),
        Origin::Input | Origin::Slab | Origin::View { .. } => None,
    };
    // Operands depend on a product.
    let (mut after, mut before) = (vec![false; nodes], vec![false; nodes]);
    for n in 0..nodes {
        let from_product = |m: usize| after[m] || is_product(&g.nodes[m]);
        after[n] = g.nodes[n].inputs.iter().filter_map(|&v| maker(v)).any(from_product);
    }
    // A product depends on the result.
    for n in (0..nodes).rev() {
        let leads = before[n] || is_product(&g.nodes[n]);
        for m in g.nodes[n].inputs.iter().filter_map(|&v| maker(v)) {
            before[m] |= leads;
        }
    }
    let mut low = vec![false; nodes];
    let (mut read, mut read_wide) = (vec![false; nodes], vec![false; nodes]);
    for m in g.outputs.iter().filter_map(|(_, v)| maker(*v)) {
        read_wide[m] = true;
    }
    for n in (0..nodes).rev() {
        low[n] = match mixing(&g.nodes[n]) {
            Mixing::Product { .. } => true,
            Mixing::BetweenProducts { .. } => after[n] && before[n],
            // Casting and moving commute, bit for bit.
            Mixing::Movement => read[n] && !read_wide[n],
            Mixing::Full => false,
        };
        for m in g.nodes[n].inputs.iter().filter_map(|&v| maker(v)) {
            read[m] = true;
            read_wide[m] |= !low[n];
        }
    }
    low
}

impl Graph {
    /// Applies `view`, a view of a value of this shape, to the new value.
    fn view_again(&self, of: Value, view: &View, shape: Shape) -> Result<Value, Error> {
        match view {
            View::Reshape => self.reshape(of, shape),
            View::Permute(axes) => self.permute(of, axes),
            View::Slice { axis, start } => self.slice(of, *axis, *start, shape.dims()[*axis]),
            View::Broadcast => self.broadcast_to(of, shape),
            View::Unfold { size, step } => self.unfold(of, *size, *step),
            View::Detach => Ok(self.detach(of)),
        }
    }
}
