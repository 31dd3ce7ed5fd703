//! Elements in order, with the indices that they came from.

mod cuda;

use super::scatter_add::ScatterAdd;
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::Call;
use crate::values::{Axis, DType, DeviceKind, Element, HostTensor, Layout, Rule, Shape, Spec, with_dtype};
use std::cmp::Ordering;
use std::panic::Location;

op_list! { Sort }

op_attributes! {
    /// The elements of `x` along an axis in ascending (or `descending`) order, and the index of each in `x` as i64:
    /// `values[.., j, ..] = x[.., indices[.., j, ..], ..]`.
    ///
    /// `x`: any dtype. Results: values and indices of its shape. Stable: equal elements keep their order. NaN counts as greater than
    /// every number, −0 equals 0. Disjoint. Gradient of the values: the cotangent, put back by the indices. Errors: no such axis. Deterministic. On a GPU
    /// a radix sort of all rows at once, 8 bits of the element and of the row's number a pass. Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([4], &[3.0f32, -1.0, 2.0, -1.0])?;
    /// let sorted = engine.eval_all(&ops::Sort { axis: 0, descending: false }, &[x.view()])?;
    /// assert_eq!(sorted[0].read::<f32>()?, [-1.0, -1.0, 2.0, 3.0]);
    /// assert_eq!(sorted[1].read::<i64>()?, [1, 3, 2, 0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Sort(x) {
        /// The axis.
        pub axis of x: usize = 0 => (-1),
        /// Whether the greatest comes first.
        pub descending: bool = false,
    }
}

impl Sort {
    /// The order of two elements, NaN the greatest.
    fn order<T: PartialOrd>(&self, a: &T, b: &T) -> Ordering {
        // Only NaN is not equal to itself.
        let nan = |x: &T| x.partial_cmp(x).is_none();
        let ascending = a.partial_cmp(b).unwrap_or_else(|| nan(a).cmp(&nan(b)));
        if self.descending { ascending.reverse() } else { ascending }
    }

    /// A layout with the axis last.
    fn rows(&self, layout: &Layout) -> Result<Layout, Rule> {
        let rank = layout.shape().rank();
        let mut axes = [0, 1, 2, 3, 4, 5, 6, 7];
        axes[self.axis..rank].rotate_left(1);
        layout.permute(&axes[..rank])
    }
}

impl Op for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [x] = rules::arity(self, args)?;
        if self.axis >= x.shape.rank() {
            return Err(Rule::Axis { axis: self.axis as isize, rank: x.shape.rank() });
        }
        Ok(Outputs::from([x, Spec { dtype: DType::I64, ..x }]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL, Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it is no composition of other ops")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let (g, axis) = (cx.graph, attributes::<Self>(op).map_or(0, |op| op.axis));
            let Some(c) = cx.cotangents[0] else { return Ok(vec![None]) };
            let zeros = g.fill(g.spec(c).dtype, g.shape(c), 0.0)?;
            Ok(vec![Some(g.op1(ScatterAdd { axis, rows: false }, &[zeros, cx.outputs[1], c])?)])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("sort", |op, call| {
                    let op = attributes::<Sort>(op)?;
                    with_dtype!(any call.dtype(0)?, T => sort::<T>(op, call))
                })
                .with_workspace(|_, args| args[0].shape.elements() * size_of::<i64>()),
                Kernel::cuda("sort", cuda::sort).with_workspace(cuda::workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Comparisons of a merge sort.
        let n = args[0].shape.dims().get(self.axis).copied().unwrap_or(1);
        args[0].shape.elements().saturating_mul(n.max(2).ilog2() as usize)
    }
}

impl Tested for Sort {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, dims) = (&args[0], args[0].dims());
        let (n, inner): (usize, usize) = (dims[self.axis], dims[self.axis + 1..].iter().product());
        let mut from = vec![0usize; x.data.len()];
        for row in 0..x.data.len() / n.max(1) {
            let at = |j: usize| (row / inner * n + j) * inner + row % inner;
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|&a, &b| self.order(&x.data[at(a)], &x.data[at(b)]));
            order.iter().enumerate().for_each(|(j, &k)| from[at(j)] = k);
        }
        let place = |i: usize| (i / (n * inner) * n + from[i]) * inner + i % inner;
        let indices = Spec { dtype: DType::I64, ..x.spec };
        vec![x.picked(x.spec.shape, place), HostTensor::from_fn(indices, |i| from[i] as f64)]
    }
    fn samples(&self) -> Vec<Sample> {
        let shapes: &[(&[usize], usize)] = &[
            (&[7], 0),
            (&[1], 0),
            (&[0], 0),
            (&[3, 5], 1),
            (&[5, 3], 0),
            (&[2, 4, 3], 1),
            (&[3, 1100], 1),
            (&[0, 3], 1),
        ];
        let mut all = Vec::new();
        for descending in [false, true] {
            for &(shape, axis) in shapes {
                let shape = Shape::new(shape).unwrap_or(Shape::SCALAR);
                let op = Self { axis, descending };
                all.push(Sample::new(op, vec![SampleArg::any(shape)]));
                // Equal elements, whose order the indices show.
                all.push(Sample::new(op, vec![SampleArg::with(None, shape, Data::Int(0, 3))]));
            }
            all.push(Sample::new(Self { axis: 0, descending }, vec![SampleArg::range([300], -1e3, 1e3)]));
        }
        all.push(Sample::bad(
            Self { axis: 1, ..*self },
            vec![SampleArg::any([3])],
            "axis is 1, the rank is 1",
        ));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

fn sort<T: Element>(op: &Sort, call: &Call<'_>) -> Result<(), Rule> {
    let (x, mut values, mut indices) = (call.input::<T>(0)?, call.output::<T>(0)?, call.output::<i64>(1)?);
    let (from, to, by) = (op.rows(x.layout())?, op.rows(values.layout())?, op.rows(indices.layout())?);
    let (n, count) = (from.shape().last(), from.shape().elements());
    if count == 0 {
        return Ok(());
    }
    // Positions of a row's elements; positions in the row break ties, so that a sort that is not stable needs no memory.
    let places = &mut call.workspace::<i64>()?[..count];
    let rows = count / n;
    call.parallel(crate::kernel::cpu::Chunks { data: &mut *places, width: n }, rows, 1, |first, part| {
        for (r, row) in part.data.chunks_mut(n).enumerate() {
            let at = |j: i64| x.data()[from.index_flat((first + r) * n + j as usize)];
            row.iter_mut().enumerate().for_each(|(j, place)| *place = j as i64);
            row.sort_unstable_by(|&a, &b| op.order(&at(a), &at(b)).then(a.cmp(&b)));
        }
    });
    for (i, &place) in places.iter().enumerate() {
        let source = x.data()[from.index_flat(i / n * n + place as usize)];
        values.data()[to.index_flat(i)] = source;
        indices.data()[by.index_flat(i)] = place;
    }
    Ok(())
}

impl Graph {
    /// The elements along an axis in order, and their indices ([`Sort`]).
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn sort(&self, x: Value, axis: impl Axis, descending: bool) -> Result<(Value, Value), Error> {
        let axis = self.axis("sort", x, axis)?;
        let sorted = self.op(Sort { axis, descending }, &[x])?;
        Ok((sorted[0], sorted[1]))
    }

    /// The indices of the elements along an axis in order, as i64.
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn argsort(&self, x: Value, axis: impl Axis, descending: bool) -> Result<Value, Error> {
        Ok(self.sort(x, axis, descending)?.1)
    }

    /// The `k` largest elements along an axis, the largest first, and their indices.
    ///
    /// # Errors
    /// The axis must exist and have at least `k` elements.
    #[track_caller]
    pub fn largest(&self, x: Value, axis: impl Axis, k: usize) -> Result<(Value, Value), Error> {
        let at = Location::caller();
        let axis = self.axis("largest", x, axis)?;
        if k > self.shape(x).dims()[axis] {
            let (name, expected) = ("k", "at most the size of the axis");
            let rule = Rule::Attribute { name, value: k as f64, expected };
            return Err(rule.of("largest", &self.specs(&[x]), None, Some(at)).into());
        }
        let (values, indices) = self.sort(x, axis, true)?;
        Ok((self.slice(values, axis, 0, k)?, self.slice(indices, axis, 0, k)?))
    }
}
