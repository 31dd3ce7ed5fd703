//! Elements and rows added to a table by index.

mod cuda;

use super::gather::{Gather, cases, positions, trial_index};
use super::parts::{Indexing, flag_first, left_out};
use crate::contract::{
    AttributeValue, Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Spread, Tested,
    Value, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::{Call, Chunks};
use crate::values::{
    Accumulate, Axis, DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Rule, Spec, with_dtype,
};
use arrayvec::ArrayVec;

op_list! { ScatterAdd }

/// Parts that a table's rows are divided into at most: each reads all indices, so more would read them more often.
const PARTS: usize = 16;

op_attributes! {
    /// `out = into`, then each element of `source` is added where its index leads: the transpose of [`Gather`].
    ///
    /// Of single elements `out[.., index[.., j, ..], ..] += source[.., j, ..]` (PyTorch's `scatter_add`), of `rows`
    /// `out[.., index[j..], ..] += source[.., j.., ..]` (PyTorch's `index_add`).
    ///
    /// `into`, `source`: one dtype, a number; `index`: i64. Result: as `into`. In place on `into`. Sums in the accumulation dtype, integers wrap.
    /// Deterministic: into each element sources are added in row-major order of the index, whatever the number of threads.
    /// Gradient: of `into` the cotangent, of `source` its [`Gather`]. An index out of range is reported when the result is read.
    /// Errors: no such axis, dtypes or shapes that do not fit.
    /// Cost on a GPU: a stable radix sort of the indices, 8 bits a pass, then one read of the source. Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let into = engine.tensor([3], &[10.0f32, 20.0, 30.0])?;
    /// let index = engine.tensor([4], &[2i64, 0, 2, 2])?;
    /// let source = engine.tensor([4], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let op = ops::ScatterAdd { axis: 0, rows: true };
    /// let out = engine.eval(&op, &[into.view(), index.view(), source.view()])?;
    /// assert_eq!(out.read::<f32>()?, [12.0, 20.0, 38.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct ScatterAdd(into, index, source) {
        /// The axis.
        pub axis of into: usize = 0 => required,
        /// Whether an index names a whole row; where it is left out, if the index has not as many axes as the table.
        pub rows: bool = true => (AttributeValue::None),
    }
}

impl ScatterAdd {
    fn indexing(&self) -> Indexing {
        Indexing { axis: self.axis, rows: self.rows }
    }
}

impl Op for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        if args[0].dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype: DType::Bool, expected: "a number" });
        }
        rules::same_dtype(&args, 0, 2)?;
        let shape = self.indexing().picked(&args[0], &args[1], 1)?;
        rules::shape(&args, 2, shape)?;
        Ok(Outputs::one(args[0]))
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Opaque("its indices lie on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Self { axis, rows } = attributes::<Self>(op).copied().unwrap_or_default();
            let c = cx.cotangent()?;
            let source = match cx.needs[2] {
                true => Some(cx.graph.op1(Gather { axis, rows }, &[c, cx.inputs[1]])?),
                false => None,
            };
            Ok(vec![Some(c), None, source])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("scatter_add", |op, call| {
                    let op = attributes::<ScatterAdd>(op)?;
                    with_dtype!(any call.dtype(2)?, T => scatter_add::<T>(op, call))
                })
                .with_workspace(|_, args| args[0].shape.elements() * args[0].dtype.accumulate().size()),
                Kernel::cuda("scatter_add", cuda::scatter_add).with_workspace(cuda::workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[2].shape.elements()
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        vec![None, trial_index(args, self.axis, spread), None]
    }
}

impl Tested for ScatterAdd {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let mut out = args[0].clone();
        for (i, at) in positions(&self.indexing(), &args[0], &args[1]).into_iter().enumerate() {
            out.data[at] += args[2].data[i];
        }
        if out.spec.dtype == DType::U8 {
            out.data.iter_mut().for_each(|x| *x = x.rem_euclid(256.0));
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let sample = |(at, mut args): (Indexing, Vec<SampleArg>)| {
            let [table, index] =
                [0, 1].map(|i| Spec::new(args[i].dtype.unwrap_or(DType::F32), args[i].shape));
            args.extend(at.picked(&table, &index, 1).map(SampleArg::any));
            Sample::new(Self { axis: at.axis, rows: at.rows }, args)
        };
        let mut all: Vec<Sample> = cases().into_iter().map(sample).collect();
        // One row that takes all, and more rows than a radix has digits.
        let many = |rows: usize, count: usize, data: Vec<f64>| {
            let index = SampleArg::with(Some(DType::I64), [count], Data::Exact(data));
            Sample::new(*self, vec![SampleArg::any([rows, 3]), index, SampleArg::any([count, 3])])
        };
        all.push(many(4, 600, vec![2.0; 600]));
        all.push(many(70_000, 700, (0..700).map(|i| f64::from(i * 7919 % 70_000)).collect()));
        let bad = |args, text| Sample::bad(*self, args, text);
        let ids = || SampleArg::with(Some(DType::I64), [2], Data::Int(0, 2));
        all.extend([
            bad(
                vec![SampleArg::any([4, 3]), ids(), SampleArg::any([3, 3])],
                "arg 2 is [3, 3]; it must be [2, 3]",
            ),
            bad(
                vec![SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2)), ids(), ids()],
                "arg 0 is bool; it must be a number",
            ),
            bad(vec![SampleArg::any([4, 3]), ids()], "takes 3 arguments (into, index, source), got 2"),
        ]);
        all
    }
}

/// A sum; of integers modulo 2^bits.
fn plus<A: Accumulate>(a: A, b: A) -> A {
    if A::DTYPE.is_float() { a + b } else { A::from_i64(a.to_i64().wrapping_add(b.to_i64())) }
}

fn scatter_add<T: Element>(op: &ScatterAdd, call: &Call<'_>) -> Result<(), Rule> {
    let into = call.input_or_in_place::<T>(0)?;
    let (index, source) = (call.input::<i64>(1)?, call.input::<T>(2)?);
    let out = call.output::<T>(0)?;
    let p = op.indexing().parts(out.layout(), index.layout(), source.layout())?;
    flag_first(call, index.data(), index.layout(), p.size);
    let n = out.elements();
    if n == 0 {
        return Ok(());
    }
    // The table with the indexed axis first, as the sums lie.
    let first = |l: &Layout| {
        let axes = (0..l.shape().rank()).filter(|&a| a != op.axis);
        l.permute(&std::iter::once(op.axis).chain(axes).collect::<ArrayVec<usize, MAX_RANK>>())
    };
    let sums = &mut call.workspace::<T::Acc>()?[..n];
    let old = match &into {
        Some(into) => into.with_layout(first(into.layout())?),
        None => out.read().with_layout(first(out.layout())?),
    };
    let (positions, run) = (p.picked.shape().elements(), p.picked.shape().last().max(1));
    let last = |l: &Layout| l.strides().last().copied().unwrap_or(0);
    let (step, step_i) = (last(&p.picked), last(&p.index));
    call.parallel(
        Chunks { data: &mut *sums, width: p.rest },
        p.size,
        p.size.div_ceil(PARTS),
        |start, part| {
            let rows = part.data.len() / p.rest.max(1);
            for (i, sum) in part.data.iter_mut().enumerate() {
                *sum = old.flat(start * p.rest + i).widen();
            }
            for at in (0..positions).step_by(run) {
                let (by, from) = (p.index.index_flat(at), p.picked.index_flat(at));
                let row_of = |k: usize| {
                    let named = index.data()[by + k * step_i].clamp(0, p.size as i64 - 1) as usize;
                    named.checked_sub(start).filter(|&r| r < rows)
                };
                let column = at % p.rest;
                let mut add = |row: usize, k: usize| {
                    // Without other axes the run is of the index itself.
                    let column = if p.rest == 1 { 0 } else { column + k };
                    let sum = &mut part.data[row * p.rest + column];
                    *sum = plus(*sum, source.data()[from + k * step].widen());
                };
                if step_i == 0 {
                    let Some(row) = row_of(0) else { continue };
                    (0..run).for_each(|k| add(row, k));
                } else {
                    (0..run).filter_map(|k| Some((row_of(k)?, k))).for_each(|(row, k)| add(row, k));
                }
            }
        },
    );
    let mut out = out;
    let layout = first(out.layout())?;
    let data = out.data();
    sums.iter().enumerate().for_each(|(i, &sum)| data[layout.index_flat(i)] = T::narrow(sum));
    Ok(())
}

impl Graph {
    /// Adds elements of `source` to `into` along an axis, by an index of the shape of `source` ([`ScatterAdd`]).
    ///
    /// # Errors
    /// The axis must exist; `index` must be i64.
    #[track_caller]
    pub fn scatter_add(
        &self,
        into: Value,
        axis: impl Axis,
        index: Value,
        source: Value,
    ) -> Result<Value, Error> {
        let axis = self.axis("scatter_add", into, axis)?;
        self.op1(ScatterAdd { axis, rows: false }, &[into, index, source])
    }

    /// Adds whole rows of `source` to `into` along an axis, by index ([`ScatterAdd`] of rows).
    ///
    /// # Errors
    /// The axis must exist; `index` must be i64.
    #[track_caller]
    pub fn index_add(
        &self,
        into: Value,
        axis: impl Axis,
        index: Value,
        source: Value,
    ) -> Result<Value, Error> {
        let axis = self.axis("index_add", into, axis)?;
        self.op1(ScatterAdd { axis, rows: true }, &[into, index, source])
    }
}
