//! Graph building: inputs, state entries, nodes and views.

use crate::contract::graph::{Graph, Node, Origin, Value, View};
use crate::contract::{Body, Op, inferred};
use crate::error::Error;
use crate::values::{Axis, DType, Layout, Rule, Shape, Spec};
use std::panic::Location;
use std::sync::Arc;

impl Graph {
    /// Appends an op. An equal op on the same arguments returns the existing values.
    ///
    /// # Errors
    /// The violated rule, with the caller's line.
    #[track_caller]
    pub fn op(&self, op: impl Op, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.op_dyn(Arc::new(op), inputs)
    }

    /// Appends an op with one output.
    ///
    /// # Errors
    /// The violated rule, with the caller's line.
    #[track_caller]
    pub fn op1(&self, op: impl Op, inputs: &[Value]) -> Result<Value, Error> {
        let at = Location::caller();
        let (name, count) = (op.name(), inputs.len());
        let outputs = self.append(Arc::new(op), inputs, at)?;
        match outputs[..] {
            [one] => Ok(one),
            _ => Err(Rule::Outputs { expected: outputs.len(), got: 1 }
                .of(name, &self.specs(&inputs[..count]), None, Some(at))
                .into()),
        }
    }

    /// Appends a boxed op.
    ///
    /// # Errors
    /// The violated rule, with the caller's line.
    #[track_caller]
    pub fn op_dyn(&self, op: Arc<dyn Op>, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.append(op, inputs, Location::caller())
    }

    pub(crate) fn specs(&self, values: &[Value]) -> Vec<Spec> {
        let inner = self.inner.borrow();
        let scalar = Spec::new(DType::F32, Shape::SCALAR);
        // A value of another graph has no spec here; the method that was given it is refused.
        values.iter().map(|&v| inner.owns(0, v).map_or(scalar, |()| inner.info(v).spec)).collect()
    }

    pub(crate) fn append(
        &self,
        op: Arc<dyn Op>,
        inputs: &[Value],
        at: &'static Location<'static>,
    ) -> Result<Vec<Value>, Error> {
        let at = self.inner.borrow().line.unwrap_or(at);
        self.sound(op.name(), inputs, at)?;
        let specs = self.specs(inputs);
        let outputs = inferred(op.as_ref(), &specs).map_err(|r| r.of(op.name(), &specs, None, Some(at)))?;
        let primitives = self.inner.borrow().primitives;
        if primitives && let Body::Fused(body) = op.body() {
            return self.on_behalf(at, || body(op.as_ref(), self, inputs));
        }
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let updates = op.outputs().iter().any(|o| o.updated().is_some());
        let key = (format!("{} {op:?}", op.name()), inputs.to_vec());
        if !updates
            && !inner.distinct
            && let Some(&node) = inner.known.get(&key)
        {
            inner.nodes[node].full_precision |= inner.full_precision;
            return Ok(inner.nodes[node].outputs.clone());
        }
        let node = inner.nodes.len();
        let outputs: Vec<Value> =
            outputs.iter().map(|&s| inner.add_value(s, Origin::Node { node })).collect();
        inner.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
            at,
            order: (node, usize::MAX),
            full_precision: inner.full_precision,
            block: inner.block,
        });
        inner.known.insert(key, node);
        Ok(outputs)
    }

    pub(crate) fn view(
        &self,
        op: &'static str,
        of: Value,
        view: View,
        layout: impl FnOnce(&Layout) -> Result<Layout, Rule>,
        at: &'static Location<'static>,
    ) -> Result<Value, Error> {
        let at = self.inner.borrow().line.unwrap_or(at);
        self.sound(op, &[of], at)?;
        let mut inner = self.inner.borrow_mut();
        let source = inner.info(of).clone();
        let layout = layout(&source.layout).map_err(|r| r.of(op, &[source.spec], None, Some(at)))?;
        if layout == source.layout && !inner.distinct {
            return Ok(of);
        }
        let spec = Spec { dtype: source.spec.dtype, shape: *layout.shape() };
        let key = (of, format!("{view:?} {}", spec.shape));
        if let Some(&v) = inner.known_views.get(&key).filter(|_| !inner.distinct) {
            return Ok(v);
        }
        let v = inner.add_value(spec, Origin::View { of, view });
        let info = &mut inner.values[v.index()];
        info.base = source.base;
        info.layout = layout;
        inner.known_views.insert(key, v);
        Ok(v)
    }

    /// An input, which the host writes before the first run. A name that is taken, or a shape that no tensor can have, is refused by the
    /// next method that returns a `Result`, or by the compiler.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Value {
        let at = Location::caller();
        let mut inner = self.inner.borrow_mut();
        if inner.inputs.iter().any(|(n, _)| n == name) {
            inner.refuse(Rule::Name { kind: "input", name: name.to_owned() }.of(
                "input",
                &[],
                None,
                Some(at),
            ));
        }
        let spec = Spec::new(dtype, shape);
        if let Err(rule) = spec.shape.bounded() {
            inner.refuse(rule.of("input", &[], None, Some(at)));
        }
        let v = inner.add_value(spec, Origin::Input);
        inner.inputs.push((name.to_owned(), v));
        inner.values[v.index()].name = Some(name.to_owned());
        v
    }

    /// A whole slab of the state, flat, with its contents at the start of the program.
    ///
    /// # Errors
    /// [`Error::NoEntry`] if the state has no such slab.
    pub fn slab(&self, name: &str) -> Result<Value, Error> {
        let (index, slab) = self.state_spec().find_slab(name)?;
        let mut inner = self.inner.borrow_mut();
        if let Some(&v) = inner.slabs.get(&index) {
            return Ok(v);
        }
        let v = inner.add_value(Spec::new(slab.dtype, [slab.elements]), Origin::Slab);
        inner.values[v.index()].name = Some(name.to_owned());
        inner.slabs.insert(index, v);
        Ok(v)
    }

    /// A state entry by name, with its contents at the start of the program: a view of its slab.
    ///
    /// # Errors
    /// [`Error::NoEntry`] if the state has no such entry.
    #[track_caller]
    pub fn entry(&self, name: &str) -> Result<Value, Error> {
        // An entry is one value, however often it is asked for.
        let distinct = std::mem::replace(&mut self.inner.borrow_mut().distinct, false);
        let entry = self.entry_of(name, Location::caller());
        self.inner.borrow_mut().distinct = distinct;
        entry
    }

    fn entry_of(&self, name: &str, at: &'static Location<'static>) -> Result<Value, Error> {
        let spec = Arc::clone(self.state_spec());
        let (slab, entry) = spec.find(name)?;
        let whole = self.slab(&slab.name)?;
        let part = self.slice(whole, 0, entry.offset, entry.shape.elements())?;
        let v = self.view("reshape", part, View::Reshape, |l| l.reshape(entry.shape), at)?;
        let mut inner = self.inner.borrow_mut();
        inner.entries.insert(v);
        if v != whole {
            inner.values[v.index()].name = Some(name.to_owned());
        }
        Ok(v)
    }

    /// Permutes the axes: a view.
    ///
    /// # Errors
    /// `axes` must name each axis once.
    #[track_caller]
    pub fn permute(&self, x: Value, axes: &[usize]) -> Result<Value, Error> {
        self.view("permute", x, View::Permute(axes.to_vec()), |l| l.permute(axes), Location::caller())
    }

    /// Transposes the last two axes: a view.
    ///
    /// # Errors
    /// The rank must be at least 2.
    #[track_caller]
    pub fn transpose(&self, x: Value) -> Result<Value, Error> {
        let rank = self.shape(x).rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        if rank < 2 {
            let rule = Rule::Rank { arg: 0, rank, expected: "at least 2" };
            return Err(rule.of("transpose", &self.specs(&[x]), None, Some(Location::caller())).into());
        }
        axes.swap(rank - 1, rank - 2);
        self.permute(x, &axes)
    }

    /// Slices elements `start..start + len` along an axis: a view.
    ///
    /// # Errors
    /// The axis must exist, the range be within it.
    #[track_caller]
    pub fn slice(&self, x: Value, axis: impl Axis, start: usize, len: usize) -> Result<Value, Error> {
        let at = Location::caller();
        self.sound("slice", &[x], at)?;
        let axis = axis.index(self.shape(x).rank());
        let axis = axis.map_err(|rule| rule.of("slice", &self.specs(&[x]), None, Some(at)))?;
        self.view("slice", x, View::Slice { axis, start }, |l| l.slice(axis, start, len, 1), at)
    }

    /// Broadcasts: stretches axes of size 1 and prepends axes. A view.
    ///
    /// # Errors
    /// Each size, aligned at the last axis, must be 1 or equal.
    #[track_caller]
    pub fn broadcast_to(&self, x: Value, shape: impl Into<Shape>) -> Result<Value, Error> {
        let shape = shape.into();
        self.view("broadcast_to", x, View::Broadcast, |l| l.broadcast_to(shape), Location::caller())
    }

    /// The same value, as a constant to [`grad`](crate::grad): no gradient flows through it. A view.
    #[track_caller]
    pub fn detach(&self, x: Value) -> Value {
        let Some(mut inner) = self.noted("detach", x) else { return x };
        let source = inner.info(x).clone();
        let key = (x, format!("{:?}", View::Detach));
        if let Some(&v) = inner.known_views.get(&key).filter(|_| !inner.distinct) {
            return v;
        }
        let v = inner.add_value(source.spec, Origin::View { of: x, view: View::Detach });
        let info = &mut inner.values[v.index()];
        (info.base, info.layout) = (source.base, source.layout);
        inner.known_views.insert(key, v);
        v
    }

    /// Windows of `size` elements every `step` along the last axis: a view whose windows may overlap.
    ///
    /// # Errors
    /// The window must fit.
    #[track_caller]
    pub fn unfold(&self, x: Value, size: usize, step: usize) -> Result<Value, Error> {
        self.view("unfold", x, View::Unfold { size, step }, |l| l.unfold(size, step), Location::caller())
    }
}
