//! Building: nodes, views, and the generic passes that op files never do themselves (broadcasting, making contiguous).

use super::{Graph, Node, Origin, Value, View};
use crate::DType;
use crate::error::{Error, Rule};
use crate::layout::Layout;
use crate::ops::{self, Op};
use crate::shape::{Shape, Spec};
use std::panic::Location;
use std::sync::Arc;

/// Methods that append one op and give its one output.
macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident = $op:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// The rule that the argument breaks, with the caller's line.
        #[track_caller]
        pub fn $method(&self, x: Value) -> Result<Value, Error> {
            self.op1($op, &[x])
        }
    )* };
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident = $op:expr;)*) => { $(
        $(#[$doc])*
        /// Shapes are broadcast.
        ///
        /// # Errors
        /// The rule that the arguments break, with the caller's line.
        #[track_caller]
        pub fn $method(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
            let [lhs, rhs] = self.broadcast_together($op.name(), [lhs, rhs])?;
            self.op1($op, &[lhs, rhs])
        }
    )* };
}

impl Graph {
    /// Appends an op. An equal op on the same values gives the values that are already there.
    ///
    /// # Errors
    /// The rule that the arguments break, with the caller's line.
    #[track_caller]
    pub fn op(&self, op: impl Op, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.op_dyn(Arc::new(op), inputs)
    }

    /// Appends an op with one output.
    ///
    /// # Errors
    /// The rule that the arguments break, with the caller's line.
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

    /// Appends an op held behind a pointer.
    ///
    /// # Errors
    /// The rule that the arguments break, with the caller's line.
    #[track_caller]
    pub fn op_dyn(&self, op: Arc<dyn Op>, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.append(op, inputs, Location::caller())
    }

    pub(crate) fn specs(&self, values: &[Value]) -> Vec<Spec> {
        let inner = self.inner.borrow();
        values.iter().map(|&v| inner.info(v).spec).collect()
    }

    pub(super) fn append(
        &self,
        op: Arc<dyn Op>,
        inputs: &[Value],
        at: &'static Location<'static>,
    ) -> Result<Vec<Value>, Error> {
        let specs = self.specs(inputs);
        let outputs = op.infer(&specs).map_err(|r| r.of(op.name(), &specs, None, Some(at)))?;
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let updates = op.alias().iter().any(|a| matches!(a, ops::Alias::Must(_)));
        let key = (format!("{} {op:?}", op.name()), inputs.to_vec());
        if !updates && let Some(&node) = inner.known.get(&key) {
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
        });
        inner.known.insert(key, node);
        Ok(outputs)
    }

    fn view(
        &self,
        op: &'static str,
        of: Value,
        view: View,
        layout: impl FnOnce(&Layout) -> Result<Layout, Rule>,
        at: &'static Location<'static>,
    ) -> Result<Value, Error> {
        let mut inner = self.inner.borrow_mut();
        let source = inner.info(of).clone();
        let layout = layout(&source.layout).map_err(|r| r.of(op, &[source.spec], None, Some(at)))?;
        if layout == source.layout {
            return Ok(of);
        }
        let spec = Spec { dtype: source.spec.dtype, shape: *layout.shape() };
        let key = (of, format!("{view:?} {}", spec.shape));
        if let Some(&v) = inner.known_views.get(&key) {
            return Ok(v);
        }
        let v = inner.add_value(spec, Origin::View { of, view });
        let info = &mut inner.values[v.index()];
        info.base = source.base;
        info.layout = layout;
        inner.known_views.insert(key, v);
        Ok(v)
    }

    /// A value that the host writes before a run.
    pub fn input(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Value {
        let mut inner = self.inner.borrow_mut();
        let v = inner.add_value(Spec::new(dtype, shape), Origin::Input);
        inner.inputs.push((name.to_owned(), v));
        inner.values[v.index()].name = Some(name.to_owned());
        v
    }

    /// A whole slab of the state, flat, as it is when the program starts.
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the state has no such slab.
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

    /// An entry of the state by its name, as it is when the program starts: a view of its slab.
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the state has no such entry.
    #[track_caller]
    pub fn entry(&self, name: &str) -> Result<Value, Error> {
        let spec = Arc::clone(self.state_spec());
        let (slab, entry) = spec.find(name)?;
        let whole = self.slab(&slab.name)?;
        let part = self.slice(whole, 0, entry.offset, entry.shape.elements())?;
        let v = self.reshape(part, entry.shape)?;
        let mut inner = self.inner.borrow_mut();
        inner.entries.insert(v);
        if v != whole {
            inner.values[v.index()].name = Some(name.to_owned());
        }
        Ok(v)
    }

    /// The same elements in the same order under another shape: a view where the strides allow it, else of a copy.
    ///
    /// # Errors
    /// The element counts must be equal.
    #[track_caller]
    pub fn reshape(&self, x: Value, shape: impl Into<Shape>) -> Result<Value, Error> {
        let (shape, at) = (shape.into(), Location::caller());
        let fits = {
            let inner = self.inner.borrow();
            let layout = inner.info(x).layout;
            !matches!(layout.reshape(shape), Err(Rule::ReshapeStrides { .. }))
        };
        let x = if fits { x } else { self.copy(x)? };
        self.view("reshape", x, View::Reshape, |l| l.reshape(shape), at)
    }

    /// Axes in another order: a view.
    ///
    /// # Errors
    /// `axes` must name each axis once.
    #[track_caller]
    pub fn permute(&self, x: Value, axes: &[usize]) -> Result<Value, Error> {
        self.view("permute", x, View::Permute(axes.to_vec()), |l| l.permute(axes), Location::caller())
    }

    /// The last two axes exchanged: a view.
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

    /// Elements `start..start + len` along an axis: a view.
    ///
    /// # Errors
    /// They must lie inside.
    #[track_caller]
    pub fn slice(&self, x: Value, axis: usize, start: usize, len: usize) -> Result<Value, Error> {
        self.view(
            "slice",
            x,
            View::Slice { axis, start },
            |l| l.slice(axis, start, len, 1),
            Location::caller(),
        )
    }

    /// Sizes of 1 stretched and axes put in front: a view.
    ///
    /// # Errors
    /// Each size, aligned at the end, must be 1 or equal.
    #[track_caller]
    pub fn broadcast_to(&self, x: Value, shape: impl Into<Shape>) -> Result<Value, Error> {
        let shape = shape.into();
        self.view("broadcast_to", x, View::Broadcast, |l| l.broadcast_to(shape), Location::caller())
    }

    /// Windows of `size` elements every `step` along the last axis: a view, its windows may share elements.
    ///
    /// # Errors
    /// The window must fit.
    #[track_caller]
    pub fn unfold(&self, x: Value, size: usize, step: usize) -> Result<Value, Error> {
        self.view("unfold", x, View::Unfold { size, step }, |l| l.unfold(size, step), Location::caller())
    }

    /// Both values broadcast to their common shape.
    #[track_caller]
    fn broadcast_together<const N: usize>(
        &self,
        op: &'static str,
        values: [Value; N],
    ) -> Result<[Value; N], Error> {
        let at = Location::caller();
        let specs = self.specs(&values);
        let mut shape = specs[0].shape;
        for s in &specs[1..] {
            let rule = Rule::Broadcast { from: s.shape, to: shape };
            shape = shape.broadcast(&s.shape).ok_or_else(|| rule.of(op, &specs, None, Some(at)))?;
        }
        let mut out = values;
        for v in &mut out {
            *v = self.broadcast_to(*v, shape)?;
        }
        Ok(out)
    }

    unary_methods! {
        /// `−x`.
        neg = ops::Neg;
        /// `|x|`.
        abs = ops::Abs;
        /// `eˣ`.
        exp = ops::Exp;
        /// Natural logarithm.
        ln = ops::Ln;
        /// `√x`.
        sqrt = ops::Sqrt;
        /// `1/√x`.
        rsqrt = ops::Rsqrt;
        /// `1/x`.
        recip = ops::Recip;
        /// Hyperbolic tangent.
        tanh = ops::Tanh;
        /// Error function.
        erf = ops::Erf;
        /// −1, 0 or 1.
        sign = ops::Sign;
        /// The elements in row-major order without gaps.
        copy = ops::Copy;
    }

    binary_methods! {
        /// `lhs + rhs`.
        add = ops::Add;
        /// `lhs − rhs`.
        sub = ops::Sub;
        /// `lhs · rhs`.
        mul = ops::Mul;
        /// `lhs / rhs`.
        div = ops::Div;
        /// The larger of both.
        maximum = ops::Maximum;
        /// The smaller of both.
        minimum = ops::Minimum;
    }

    /// `x · mul + add` with constants.
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn affine(&self, x: Value, mul: f64, add: f64) -> Result<Value, Error> {
        self.op1(ops::Affine { mul, add }, &[x])
    }

    /// A tensor filled with one value.
    ///
    /// # Errors
    /// None that a valid spec can cause.
    #[track_caller]
    pub fn fill(&self, dtype: DType, shape: impl Into<Shape>, value: f64) -> Result<Value, Error> {
        self.op1(ops::Fill { spec: Spec::new(dtype, shape), value }, &[])
    }

    /// The same values in another dtype. Of a value that a cast has widened, those that it was widened from.
    ///
    /// # Errors
    /// None that a valid value can cause.
    #[track_caller]
    pub fn cast(&self, x: Value, dtype: DType) -> Result<Value, Error> {
        let x = self.before_widening(x);
        if self.spec(x).dtype == dtype { Ok(x) } else { self.op1(ops::Cast { dtype }, &[x]) }
    }

    /// What a cast that loses nothing was given, if `x` is the result of one: from bf16 or f16, whose every value the wide
    /// floats have.
    fn before_widening(&self, x: Value) -> Value {
        let inner = self.inner.borrow();
        let Origin::Node { node } = inner.info(x).origin else { return x };
        let node = &inner.nodes[node];
        let from = node.inputs.first().map_or(x, |&v| v);
        let widens = matches!(inner.info(from).spec.dtype, DType::BF16 | DType::F16)
            && matches!(inner.info(x).spec.dtype, DType::F32 | DType::F64);
        if widens && ops::attributes::<ops::Cast>(node.op.as_ref()).is_ok() { from } else { x }
    }

    /// Elements of `lhs` where `condition` holds, of `rhs` elsewhere. Shapes are broadcast.
    ///
    /// # Errors
    /// `condition` must be bool, `lhs` and `rhs` of one dtype.
    #[track_caller]
    pub fn select(&self, condition: Value, lhs: Value, rhs: Value) -> Result<Value, Error> {
        let args = self.broadcast_together("where", [condition, lhs, rhs])?;
        self.op1(ops::Where, &args)
    }

    /// Sum over `axes`, which are taken out.
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn sum(&self, x: Value, axes: &[usize]) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Sum, x, axes)
    }

    /// Mean over `axes`, which are taken out.
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn mean(&self, x: Value, axes: &[usize]) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Mean, x, axes)
    }

    /// Largest element over `axes`, which are taken out.
    ///
    /// # Errors
    /// Each axis must exist.
    #[track_caller]
    pub fn max(&self, x: Value, axes: &[usize]) -> Result<Value, Error> {
        self.reduced(ops::Reduction::Max, x, axes)
    }

    /// A reduction over `axes`. Over sizes of 1 alone there is nothing to join: a view.
    #[track_caller]
    fn reduced(&self, reduction: ops::Reduction, x: Value, axes: &[usize]) -> Result<Value, Error> {
        let shape = self.shape(x);
        if axes.iter().any(|&a| shape.dims().get(a).is_none_or(|&d| d != 1)) {
            return self.op1(ops::Reduce::new(reduction, axes), &[x]);
        }
        let mut kept = Shape::SCALAR;
        (0..shape.rank()).filter(|a| !axes.contains(a)).for_each(|a| kept.push(shape.dims()[a]));
        self.reshape(x, kept)
    }

    /// Matrix product over the last two axes; the leading axes are a batch and are broadcast.
    ///
    /// # Errors
    /// Inner sizes must agree, ranks be at least 2.
    #[track_caller]
    pub fn matmul(&self, lhs: Value, rhs: Value) -> Result<Value, Error> {
        self.product(&[lhs, rhs])
    }

    /// `lhs · rhs + bias` with a bias `[n]` for the last axis: one pass over the result.
    ///
    /// # Errors
    /// As [`Graph::matmul`]; the bias must have the last size of `rhs`.
    #[track_caller]
    pub fn matmul_add(&self, lhs: Value, rhs: Value, bias: Value) -> Result<Value, Error> {
        self.product(&[lhs, rhs, bias])
    }

    #[track_caller]
    fn product(&self, args: &[Value]) -> Result<Value, Error> {
        let at = Location::caller();
        let specs = self.specs(args);
        let (l, r) = (specs[0].shape, specs[1].shape);
        let mut args = args.to_vec();
        // A batch times one matrix is one product with more rows.
        if l.rank() > 2 && r.rank() == 2 && l.last() > 0 {
            args[0] = self.reshape(args[0], [l.elements() / l.last(), l.last()])?;
            let product = self.op1(ops::MatMul::default(), &args)?;
            return self.reshape(product, l.with(l.rank() - 1, r.last()));
        }
        if l.rank() >= 2 && r.rank() >= 2 && l.rank() + r.rank() > 4 {
            let batch = |s: &Shape| Shape::new(&s.dims()[..s.rank() - 2]).unwrap_or(Shape::SCALAR);
            let rule = Rule::Broadcast { from: r, to: l };
            let common =
                batch(&l).broadcast(&batch(&r)).ok_or_else(|| rule.of("matmul", &specs, None, Some(at)))?;
            let with = |s: &Shape| {
                let mut full = common;
                s.dims()[s.rank() - 2..].iter().for_each(|&d| full.push(d));
                full
            };
            args[0] = self.broadcast_to(args[0], with(&l))?;
            args[1] = self.broadcast_to(args[1], with(&r))?;
        }
        self.op1(ops::MatMul::default(), &args)
    }
}
