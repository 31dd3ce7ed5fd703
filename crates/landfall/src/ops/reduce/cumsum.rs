//! Running sums along an axis.

mod cuda;

use super::reduction::{Fold, Reduction};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::{Call, with_float};
use crate::values::{Axis, DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Rule, Shape, Spec};
use arrayvec::ArrayVec;

op_list! { CumSum }

/// Neighbouring rows that are walked side by side.
const LANES: usize = 16;
/// Elements that one task adds at least.
const GRAIN: usize = 16 * 1024;

op_attributes! {
    /// `out[.., i, ..] = Σ_{j ≤ i} x[.., j, ..]` along an axis; in `reverse` `Σ_{j ≥ i}`.
    ///
    /// `x`: a number, any shape. Result as `x`, of integers i64, which wraps modulo 2⁶⁴. Accumulation: f64, so that each element
    /// is rounded once. Disjoint. Gradient: the running sum of the cotangent in the other direction. Errors: no such axis, bool. Deterministic, whatever the
    /// number of threads. Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([4], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let sums = engine.eval(&ops::CumSum { axis: 0, reverse: false }, &[x.view()])?;
    /// assert_eq!(sums.read::<f32>()?, [1.0, 3.0, 6.0, 10.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct CumSum(x) {
        /// The axis.
        pub axis of x: usize = 0 => required,
        /// Whether sums run from the end.
        pub reverse: bool = false,
    }
}

impl CumSum {
    /// A layout as rows: the axes but this one, and the step along it.
    fn rows(&self, layout: &Layout) -> Result<(Layout, usize), Rule> {
        let step = layout.strides()[self.axis];
        let start =
            if layout.shape().dims()[self.axis] == 0 { *layout } else { layout.slice(self.axis, 0, 1, 1)? };
        Ok((if start.shape().dims()[self.axis] == 1 { start.squeeze(self.axis)? } else { start }, step))
    }
}

impl Op for CumSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        let Spec { dtype, shape } = args[0];
        if self.axis >= shape.rank() {
            return Err(Rule::Axis { axis: self.axis as isize, rank: shape.rank() });
        }
        if dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype, expected: "a number" });
        }
        Ok(Outputs::one(Spec { dtype: if dtype.is_float() { dtype } else { DType::I64 }, shape }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Primitive("running sum")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = *attributes::<Self>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
            let back = Self { reverse: !op.reverse, ..op };
            Ok(vec![Some(cx.graph.op1(back, &[cx.cotangent()?])?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("cumsum", |op, call| {
                    let op = attributes::<CumSum>(op)?;
                    match call.dtype(0)? {
                        DType::I64 => run::<i64, i64, i64>(op, call),
                        DType::I32 => run::<i64, i32, i64>(op, call),
                        DType::U8 => run::<i64, u8, i64>(op, call),
                        DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::Bool => {
                            with_float!(call, 0, T => run::<f64, T, T>(op, call))
                        }
                    }
                }),
                Kernel::cuda("cumsum", cuda::cumsum),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements()
    }
}

impl Tested for CumSum {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let x = &args[0];
        let Ok(outputs) = self.infer(&[x.spec]) else { return Vec::new() };
        let (n, inner): (usize, usize) = (x.dims()[self.axis], x.dims()[self.axis + 1..].iter().product());
        let mut out = HostTensor::from_fn(outputs[0], |i| x.data[i]);
        for i in 0..x.data.len() / n.max(1) {
            let at =
                |k: usize| (i / inner * n + if self.reverse { n - 1 - k } else { k }) * inner + i % inner;
            for k in 1..n {
                out.data[at(k)] += out.data[at(k - 1)];
            }
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(&[usize], usize)] = &[
            (&[7], 0),
            (&[1], 0),
            (&[3, 5], 0),
            (&[3, 5], 1),
            (&[2, 3, 4], 1),
            (&[0, 3], 0),
            (&[3, 0], 1),
            (&[2, 300, 3], 1),
            (&[3, 2100], 1),
            (&[2100, 40], 0),
            (&[9000], 0),
        ];
        let mut all = Vec::new();
        for reverse in [false, true] {
            for &(shape, axis) in cases {
                let Some(shape) = Shape::new(shape) else { continue };
                all.push(Sample::new(Self { axis, reverse }, vec![SampleArg::any(shape)]));
            }
        }
        all.push(Sample::bad(
            Self { axis: 2, ..*self },
            vec![SampleArg::any([4, 8])],
            "axis is 2, the rank is 2",
        ));
        let truth = SampleArg::with(Some(DType::Bool), [3], Data::Int(0, 2));
        all.push(Sample::bad(*self, vec![truth], "it must be a number"));
        all
    }
}

fn run<A: Fold, T: Element, R: Element>(op: &CumSum, call: &Call<'_>) -> Result<(), Rule> {
    let (x, out) = (call.input::<T>(0)?, call.output::<R>(0)?);
    let n = x.layout().shape().dims()[op.axis];
    if out.elements() == 0 {
        return Ok(());
    }
    let ((from, step), (_, step_out)) = (op.rows(x.layout())?, op.rows(out.layout())?);
    // Rows first, so that they can be shared between threads.
    let rank = x.layout().shape().rank();
    let others = (0..rank).filter(|&a| a != op.axis);
    let order: ArrayVec<usize, MAX_RANK> = others.chain([op.axis]).collect();
    let layout = out.layout().permute(&order)?;
    let out = out.relaid(layout);
    let outer = out.outer();
    let rows = from.shape().elements();
    // Of one axis alone there is one row, and nothing to share.
    let (count, each) = if rank == 1 { (1, 1) } else { (outer, rows / outer) };
    let run = from.shape().last().max(1);
    call.parallel(
        out,
        count,
        (GRAIN / (n * each)).max(1),
        #[inline(always)]
        |start, mut part| {
            let last = part.layout().shape().rank() - 1;
            let own =
                part.layout().slice(last, 0, 1, 1).and_then(|l| l.squeeze(last)).unwrap_or(*part.layout());
            let rows = own.shape().elements();
            let step_row = |l: &Layout| l.strides().last().copied().unwrap_or(0);
            let (aside, aside_out) = (step_row(&from), step_row(&own));
            let mut first = 0;
            while first < rows {
                let lanes = LANES.min(rows - first).min(run - first % run);
                let (at, to) = (from.index_flat(start * each + first), own.index_flat(first));
                let mut totals = [A::start(Reduction::Sum); LANES];
                for k in 0..n {
                    let k = if op.reverse { n - 1 - k } else { k };
                    for (l, total) in totals[..lanes].iter_mut().enumerate() {
                        *total = total.join(A::load(x.data()[at + k * step + l * aside]), Reduction::Sum);
                        part.data()[to + k * step_out + l * aside_out] = total.result(Reduction::Sum, 1);
                    }
                }
                first += lanes;
            }
        },
    );
    Ok(())
}

impl Graph {
    /// Running sums along an axis ([`CumSum`]); of integers i64.
    ///
    /// # Errors
    /// The axis must exist; `x` must be a number.
    #[track_caller]
    pub fn cumsum(&self, x: Value, axis: impl Axis) -> Result<Value, Error> {
        let axis = self.axis("cumsum", x, axis)?;
        self.op1(CumSum { axis, reverse: false }, &[x])
    }
}
