//! Elements and rows of a table by index.

mod cuda;

use super::parts::{Indexing, flag_first, left_out};
use super::scatter_add::ScatterAdd;
use crate::contract::{
    AttributeValue, Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Spread,
    Tested, Value, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::Call;
use crate::values::{Axis, DType, DeviceKind, Element, HostTensor, Layout, Rule, Shape, Spec, with_dtype};

op_list! { Gather }

/// Elements that one task moves.
const GRAIN: usize = 32 * 1024;

op_attributes! {
    /// Elements of `x` by index along an axis.
    ///
    /// Of single elements `out[.., j, ..] = x[.., index[.., j, ..], ..]`, index and result of one shape, that of `x` but for the
    /// axis (PyTorch's `gather`). Of `rows` `out[.., j.., ..] = x[.., index[j..], ..]`, the axis replaced by those of the index
    /// (PyTorch's `index_select`; of axis 0 an embedding).
    ///
    /// `x`: any dtype; `index`: i64. Result: of the dtype of `x`. Disjoint. Gradient: [`ScatterAdd`] of the cotangent into zeros. An index out of range is
    /// reported when the result is read. Errors: no such axis, an index of another dtype or shape. Deterministic. Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let index = engine.tensor([2], &[2i64, 0])?;
    /// let rows = engine.eval(&ops::Gather { axis: 0, rows: true }, &[x.view(), index.view()])?;
    /// assert_eq!(rows.read::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Gather(x, index) {
        /// The axis.
        pub axis of x: usize = 0 => required,
        /// Whether an index names a whole row; where it is left out, if the index has not as many axes as the table.
        pub rows: bool = true => (AttributeValue::None),
    }
}

impl Gather {
    fn indexing(&self) -> Indexing {
        Indexing { axis: self.axis, rows: self.rows }
    }
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        let shape = self.indexing().picked(&args[0], &args[1], 1)?;
        Ok(Outputs::one(Spec { shape, ..args[0] }))
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("its indices lie on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Self { axis, rows } = attributes::<Self>(op).copied().unwrap_or_default();
            let g = cx.graph;
            let zeros = g.fill(g.spec(cx.inputs[0]).dtype, g.shape(cx.inputs[0]), 0.0)?;
            let scatter = ScatterAdd { axis, rows };
            Ok(vec![Some(g.op1(scatter, &[zeros, cx.inputs[1], cx.cotangent()?])?), None])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("gather", |op, call| {
                    let op = attributes::<Gather>(op)?;
                    with_dtype!(any call.dtype(0)?, T => gather::<T>(op, call))
                }),
                Kernel::cuda("gather", cuda::gather),
            ]
        }
    }
    fn bytes(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // What is picked is read and written; the rest of the table is not touched.
        2 * outputs[0].bytes() + args[1].bytes()
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        vec![None, trial_index(args, self.axis, spread)]
    }
}

/// Indices for a trial: each row of a table named as often as the distribution says.
pub(super) fn trial_index(args: &[Spec], axis: usize, spread: Spread) -> Option<HostTensor> {
    let size = *args[0].shape.dims().get(axis)?;
    let parts = spread.parts(args[1].shape.elements(), size.max(1));
    let all: Vec<i64> =
        parts.iter().enumerate().flat_map(|(r, &n)| std::iter::repeat_n(r as i64, n)).collect();
    HostTensor::from_ints(args[1].shape, all).ok()
}

/// The position in the table, row-major, of every picked element, in the order of the result; indices are clamped.
pub(super) fn positions(at: &Indexing, table: &HostTensor, index: &HostTensor) -> Vec<usize> {
    let Ok(shape) = at.picked(&table.spec, &index.spec, 1) else { return Vec::new() };
    let dims = table.dims();
    let (size, inner): (usize, usize) = (dims[at.axis], dims[at.axis + 1..].iter().product());
    let count = if at.rows { index.data.len() } else { index.dims()[at.axis] };
    let of = |i: usize| {
        let (outer, j, rest) = (i / (count * inner), i / inner % count, i % inner);
        let named = if at.rows { index.int(j) } else { index.int(i) };
        (outer * size + named.clamp(0, size as i64 - 1) as usize) * inner + rest
    };
    (0..shape.elements()).map(of).collect()
}

/// Tables and indices: rows and elements, each axis, one row, tails, several axes of an index, repeated and no indices.
pub(super) fn cases() -> Vec<(Indexing, Vec<SampleArg>)> {
    let case = |axis: usize, rows: bool, table: &[usize], index: &[usize]| {
        let shape = |s: &[usize]| Shape::new(s).unwrap_or(Shape::SCALAR);
        let data = Data::Int(0, table.get(axis).map_or(1, |&n| n as i64));
        let index = SampleArg::with(Some(DType::I64), shape(index), data);
        (Indexing { axis, rows }, vec![SampleArg::any(shape(table)), index])
    };
    vec![
        case(0, true, &[5], &[7]),
        case(0, true, &[1], &[]),
        case(0, true, &[7, 3], &[4]),
        case(0, true, &[50, 64], &[6, 5]),
        case(1, true, &[3, 9, 4], &[2, 2]),
        case(2, true, &[2, 3, 5], &[33]),
        case(0, true, &[3, 4], &[0]),
        case(0, true, &[0, 4], &[0]),
        case(1, true, &[300, 2], &[40]),
        case(0, false, &[6], &[40]),
        case(0, false, &[4, 3], &[2, 3]),
        case(1, false, &[4, 3], &[4, 8]),
        case(1, false, &[2, 5, 7], &[2, 3, 7]),
        case(2, false, &[2, 3, 70], &[2, 3, 5]),
        case(0, false, &[2, 3], &[0, 3]),
    ]
}

impl Tested for Gather {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let places = positions(&self.indexing(), &args[0], &args[1]);
        let specs = [args[0].spec, args[1].spec];
        let shape = self.infer(&specs).map_or(Shape::SCALAR, |o| o[0].shape);
        vec![args[0].picked(shape, |i| places[i])]
    }
    fn samples(&self) -> Vec<Sample> {
        let sample = |(at, args): (Indexing, _)| Sample::new(Self { axis: at.axis, rows: at.rows }, args);
        let mut all: Vec<Sample> = cases().into_iter().map(sample).collect();
        let ids = |dtype, n: usize| SampleArg::with(Some(dtype), [n], Data::Int(0, 2));
        let bad = |axis, rows, args, text| Sample::bad(Self { axis, rows }, args, text);
        all.extend([
            bad(2, true, vec![SampleArg::any([4, 3]), ids(DType::I64, 2)], "axis is 2, the rank is 2"),
            bad(0, true, vec![SampleArg::any([4, 3]), ids(DType::I32, 2)], "arg 1 is i32; it must be i64"),
            bad(0, false, vec![SampleArg::any([4, 3]), ids(DType::I64, 2)], "arg 1 has rank 1; it must be"),
            bad(
                0,
                true,
                vec![SampleArg::any([0, 3]), ids(DType::I64, 2)],
                "size of the indexed axis is 0; it must be at least 1",
            ),
            bad(
                1,
                false,
                vec![SampleArg::any([4, 3]), SampleArg::with(Some(DType::I64), [5, 3], Data::Int(0, 2))],
                "arg 1 is [5, 3]; it must be [4, 3]",
            ),
            bad(0, true, vec![SampleArg::any([4])], "takes 2 arguments (x, index), got 1"),
        ]);
        all
    }
}

fn gather<T: Element>(op: &Gather, call: &Call<'_>) -> Result<(), Rule> {
    let (x, index, out) = (call.input::<T>(0)?, call.input::<i64>(1)?, call.output::<T>(0)?);
    let p = op.indexing().parts(x.layout(), index.layout(), out.layout())?;
    if p.picked.shape().elements() == 0 {
        return Ok(());
    }
    flag_first(call, index.data(), index.layout(), p.size);
    let out = out.relaid(p.picked);
    let (outer, run) = (out.outer(), out.cols());
    let each = out.elements() / outer;
    let last = |l: &Layout| l.strides().last().copied().unwrap_or(0);
    let (step_x, step_i) = (last(&p.table), last(&p.index));
    call.parallel(out, outer, (GRAIN / each).max(1), |start, mut part| {
        let layout = *part.layout();
        let step_out = last(&layout);
        let data = part.data();
        for at in (0..layout.shape().elements()).step_by(run) {
            let flat = start * each + at;
            let (to, from, by) = (layout.index_flat(at), p.table.index_flat(flat), p.index.index_flat(flat));
            let named =
                |k: usize| index.data()[by + k * step_i].clamp(0, p.size as i64 - 1) as usize * p.step;
            if step_i == 0 && step_x == 1 && step_out == 1 {
                let from = from + named(0);
                data[to..to + run].copy_from_slice(&x.data()[from..from + run]);
            } else {
                (0..run).for_each(|k| data[to + k * step_out] = x.data()[from + named(k) + k * step_x]);
            }
        }
    });
    Ok(())
}

impl Graph {
    /// Elements along an axis by an index of the result's shape ([`Gather`]); its sizes of 1 are broadcast to those of `x`, so that
    /// one index picks a whole row of each sample.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let tokens = g.input("tokens", DType::F32, [8, 16, 32]);
    /// let seen = g.input("seen", DType::I64, [8, 6]);
    /// let rows = g.gather(tokens, 1, g.unsqueeze(seen, -1)?)?; // of each sample other tokens
    /// assert_eq!(g.shape(rows).dims(), [8, 6, 32]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The axis must exist; `index` must be i64, of the shape of `x` but for the axis and for sizes of 1.
    #[track_caller]
    pub fn gather(&self, x: Value, axis: impl Axis, index: Value) -> Result<Value, Error> {
        let axis = self.axis("gather", x, axis)?;
        let (shape, given) = (self.shape(x), self.shape(index));
        // An index that cannot be broadcast is left for the op to refuse.
        let wide = given.dims().get(axis).map(|&count| shape.with(axis, count));
        let wide = wide.filter(|wide| given.rank() == shape.rank() && given.broadcast(wide) == Some(*wide));
        let index = wide.map_or(Ok(index), |wide| self.broadcast_to(index, wide))?;
        self.op1(Gather { axis, rows: false }, &[x, index])
    }

    /// Whole rows along an axis by index: the axis is replaced by those of the index ([`Gather`] of rows).
    ///
    /// # Errors
    /// The axis must exist; `index` must be i64.
    #[track_caller]
    pub fn take(&self, x: Value, axis: impl Axis, index: Value) -> Result<Value, Error> {
        let axis = self.axis("take", x, axis)?;
        self.op1(Gather { axis, rows: true }, &[x, index])
    }

    /// Rows `[.., d]` of a table `[n, d]` by ids `[..]`.
    ///
    /// # Errors
    /// `ids` must be i64.
    #[track_caller]
    pub fn embedding(&self, table: Value, ids: Value) -> Result<Value, Error> {
        self.op1(Gather { axis: 0, rows: true }, &[table, ids])
    }
}
