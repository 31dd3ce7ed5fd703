//! Sum, mean, product, maximum and minimum over axes.
//!
//! Elements are added in tiles of [`TILE`] in the accumulation dtype and the tiles' sums in f64, so that an error grows
//! with the tile and not with the number of elements. Work is cut by shape: rows of outputs where there are many,
//! chunks of the reduced range where there are few, whose partial results are then added in order.

mod cuda;
mod fold;
mod group;
mod others;

pub(in crate::ops) use cuda::sum_partials;
pub(in crate::ops) use fold::Fold;
pub(in crate::ops) use group::{BLOCK, Group, across, kept, row_view, single_pass, unit};

use crate::contract::{
    AttributeType, AttributeValue, Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested,
    attribute_choices, attributes, op_attributes, rules,
};
use crate::kernel::cpu::pointwise::pieces;
use crate::kernel::cpu::{Call, Chunks, View, isa, with_float};
use crate::ops::elementwise::scalar::{Compare, Comparison};
use crate::values::{
    DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Math, Rule, Shape, Spec, twice,
};

op_list! { Reduce; Reduction }

/// Elements summed in the accumulation dtype before they are added to the f64 total.
const TILE: usize = 512;
/// Independent sums of a tile: element `i` of it goes to lane `i % LANES`, in a row walk and in a column walk, so that
/// a result does not depend on how the argument lies in memory.
const LANES: usize = 16;
/// Outputs side by side in a column walk: their lanes stay in the first-level cache, 16 KB of f32.
const COLS: usize = 256;
/// Outputs side by side where no more are walked: less to set to zero.
const FEW_COLS: usize = 64;
/// Rows of a column walk between the one that is added and the one that is asked for.
const AHEAD: usize = 8;
/// Reduced elements of one chunk, and the number of elements from which on chunks are made.
const CHUNK: usize = 8 * 1024;

/// What is computed over the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Sum; 0 over no elements.
    Sum,
    /// Sum divided by the number of elements; NaN over none.
    Mean,
    /// Largest element, NaN if there is one; −∞ over no elements, of integers the smallest number of the dtype.
    Max,
    /// Smallest element, NaN if there is one; ∞ over no elements, of integers the largest number of the dtype.
    Min,
    /// Product; 1 over no elements.
    Prod,
}

attribute_choices!(Reduction: Sum = "sum", Mean = "mean", Max = "max", Min = "min", Prod = "prod");

op_attributes! {
    /// `out[kept] = reduction over the axes of x[kept, reduced]`.
    ///
    /// `x`: any shape, a number. Result: its shape without the axes. Accumulation: f32 in tiles, f64 over tiles.
    /// Sums and products of integers are i64 and wrap modulo 2⁶⁴, extremes keep the dtype; a mean is of floats alone. Disjoint.
    /// Gradient: of a sum the cotangent broadcast, of a mean divided by the count, of an extreme shared equally among the
    /// elements that equal it, of a product the product of the others (whose own gradient leaves out what elements
    /// that are exactly 0 add). Errors: no such axis, bool, a mean of
    /// integers. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct Reduce(x) {
        /// What is computed.
        pub reduction: Reduction = Reduction::Sum,
        /// The axes.
        axes of x: Axes = Axes::of(&[0]) => (AttributeValue::None),
        /// Whether the result is of the accumulation dtype, f32 of bf16 and f16, instead of the argument's.
        wide: bool = false,
    }
}

/// A set of axes.
#[derive(Debug, Clone, Copy)]
struct Axes(u16);

/// The bit that stands beside an axis that was named twice, which `infer` refuses.
const TWICE: usize = 14;

impl Axes {
    fn of(axes: &[usize]) -> Self {
        // An axis beyond the largest rank keeps a bit of its own, which `infer` refuses.
        let set = |axes: &[usize]| axes.iter().fold(0, |m, &a| m | 1 << a.min(15));
        Self(twice(axes).map_or_else(|| set(axes), |axis| set(&[axis, TWICE])))
    }

    fn has(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }
}

impl AttributeType for Axes {
    const TAKES: &'static str = "axes";
    fn value(&self) -> AttributeValue {
        AttributeValue::Ints((0..16).filter(|&a| a != TWICE && self.has(a)).map(|a| a as i64).collect())
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Int(axis) => Some(Self::of(&[usize::try_from(*axis).ok()?])),
            AttributeValue::Ints(axes) => {
                let axes = axes.iter().map(|&a| usize::try_from(a).ok()).collect::<Option<Vec<_>>>()?;
                Some(Self::of(&axes))
            }
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Float(_)
            | AttributeValue::Text(_) => None,
        }
    }
}

impl Reduce {
    /// A reduction over these axes.
    #[must_use]
    pub fn new(reduction: Reduction, axes: &[usize]) -> Self {
        Self { reduction, wide: false, axes: Axes::of(axes) }
    }

    /// The same with a result of the accumulation dtype, f32 of bf16 and f16, instead of the argument's.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    fn reduces(&self, axis: usize) -> bool {
        self.axes.has(axis)
    }

    /// SavedStat and reduced axes as two layouts over the same data, with as few axes as possible.
    fn split(&self, layout: &Layout) -> Result<(Layout, Layout), Rule> {
        let (kept, reduced) = split(layout, |a| self.reduces(a))?;
        Ok((kept.collapsed(), reduced.collapsed()))
    }

    fn counts(&self, shape: &Shape) -> (usize, usize) {
        let count = |reduced: bool| {
            (0..shape.rank()).filter(|&a| self.reduces(a) == reduced).map(|a| shape.dims()[a]).product()
        };
        (count(false), count(true))
    }

    fn chunks(&self, shape: &Shape) -> usize {
        let (outputs, reduced) = self.counts(shape);
        if outputs > 0 && outputs <= 4096 && reduced >= 2 * CHUNK { reduced.div_ceil(CHUNK) } else { 1 }
    }
}

/// The axes that are not `inner`, and those that are, as two layouts over the same data. None may be empty: it has no
/// index 0 to start from.
pub(in crate::ops) fn split(
    layout: &Layout,
    inner: impl Fn(usize) -> bool,
) -> Result<(Layout, Layout), Rule> {
    let pick = |wanted: bool| {
        let mut l = *layout;
        for axis in (0..layout.shape().rank()).rev().filter(|&a| inner(a) != wanted) {
            l = l.slice(axis, 0, 1, 1)?.squeeze(axis)?;
        }
        Ok::<_, Rule>(l)
    };
    Ok((pick(false)?, pick(true)?))
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        match self.reduction {
            Reduction::Sum => "sum",
            Reduction::Mean => "mean",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Prod => "prod",
        }
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        let rank = args[0].shape.rank();
        if self.reduces(TWICE) {
            let axis = (0..16).find(|&a| a != TWICE && self.reduces(a)).unwrap_or(TWICE);
            return Err(Rule::AxisTwice { axis });
        }
        if let Some(axis) = (rank..16).find(|&a| self.reduces(a)) {
            return Err(Rule::Axis { axis: axis as isize, rank });
        }
        if args[0].dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype: DType::Bool, expected: "a number" });
        }
        if self.reduction == Reduction::Mean {
            rules::float(&args, &[0])?;
        }
        let mut shape = Shape::SCALAR;
        (0..rank).filter(|&a| !self.reduces(a)).for_each(|a| shape.push(args[0].shape.dims()[a]));
        let own = args[0].dtype;
        let dtype = if own.is_float() {
            if self.wide { own.accumulate() } else { own }
        } else if matches!(self.reduction, Reduction::Sum | Reduction::Prod) {
            DType::I64
        } else {
            own
        };
        Ok(Outputs::one(Spec::new(dtype, shape)))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
        // Of the axes before the first that is reduced, of rows that are added in one order however many there are.
        let first = (0..args[0].shape.rank()).find(|&a| self.reduces(a))?;
        let alike = Group::alike(self.counts(&args[0].shape).1, args[0].dtype);
        (alike && first > 0).then(|| vec![first; 2])
    }
    fn body(&self) -> Body {
        Body::Primitive("reduction")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = *attributes::<Self>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
            let (g, x) = (cx.graph, cx.inputs[0]);
            let shape = g.shape(x);
            let mut ones = shape;
            (0..shape.rank()).filter(|&a| op.reduces(a)).for_each(|a| ones = ones.with(a, 1));
            let spread = |v| {
                let kept = g.reshape(v, ones)?;
                g.broadcast_to(kept, shape)
            };
            let dtype = g.spec(x).dtype;
            let axes: Vec<usize> = (0..shape.rank()).filter(|&a| op.reduces(a)).collect();
            // Of 16 bits in f32: a number of ties above 2048 is none of f16.
            let wide = |v| g.cast(v, dtype.accumulate());
            Ok(vec![Some(match op.reduction {
                Reduction::Sum => spread(g.cast(cx.cotangent()?, dtype)?)?,
                Reduction::Mean => {
                    let c = spread(g.cast(cx.cotangent()?, dtype)?)?;
                    g.affine(c, 1.0 / op.counts(&shape).1.max(1) as f64, 0.0)?
                }
                Reduction::Prod => {
                    let others = g.others(wide(x)?, wide(cx.cotangent()?)?, &axes)?;
                    g.cast(others, dtype)?
                }
                Reduction::Max | Reduction::Min => {
                    let equal = g.op1(
                        Compare { comparison: Comparison::Equal },
                        &[x, spread(g.cast(cx.outputs[0], dtype)?)?],
                    )?;
                    let equal = wide(equal)?;
                    let many = spread(g.sum(equal, &axes)?)?;
                    g.cast(g.mul(spread(wide(cx.cotangent()?)?)?, g.div(equal, many)?)?, dtype)?
                }
            })])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("reduce", |op, call| {
                    let op = attributes::<Reduce>(op)?;
                    let dtype = call.dtype(0)?;
                    let wide = dtype != call.output_dtype(0)?;
                    match dtype {
                        DType::F64 => run::<f64, f64, f64>(op, call),
                        DType::F32 | DType::BF16 | DType::F16 => with_float!(call, 0, T => if wide {
                            run::<f32, T, f32>(op, call)
                        } else {
                            run::<f32, T, T>(op, call)
                        }),
                        DType::I64 => run::<i64, i64, i64>(op, call),
                        DType::I32 if wide => run::<i64, i32, i64>(op, call),
                        DType::I32 => run::<i64, i32, i32>(op, call),
                        DType::U8 if wide => run::<i64, u8, i64>(op, call),
                        DType::U8 => run::<i64, u8, u8>(op, call),
                        DType::Bool => Err(Rule::Dtype { arg: 0, dtype, expected: "a number" }),
                    }
                })
                .with_workspace(|op, args| {
                    let chunks = attributes::<Reduce>(op).map_or(1, |r| r.chunks(&args[0].shape));
                    let outputs = attributes::<Reduce>(op).map_or(0, |r| r.counts(&args[0].shape).0);
                    if chunks > 1 { chunks * outputs * size_of::<f64>() } else { 0 }
                }),
                Kernel::cuda("reduce", cuda::reduce).with_workspace(cuda::workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements()
    }
}

impl Tested for Reduce {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let x = &args[0];
        let Ok(outputs) = self.infer(&[x.spec]) else { return Vec::new() };
        let (_, count) = self.counts(&x.spec.shape);
        let start = <f64 as Fold>::start(self.reduction);
        let mut out = HostTensor::from_fn(outputs[0], |_| start);
        for (i, &v) in x.data.iter().enumerate() {
            let (mut rest, mut at, mut step) = (i, 0, 1);
            for axis in (0..x.dims().len()).rev() {
                let d = x.dims()[axis];
                if !self.reduces(axis) {
                    at += rest % d * step;
                    step *= d;
                }
                rest /= d;
            }
            out.data[at] = match self.reduction {
                Reduction::Sum | Reduction::Mean => out.data[at] + v,
                Reduction::Max => Math::max(out.data[at], v),
                Reduction::Min => Math::min(out.data[at], v),
                Reduction::Prod => out.data[at] * v,
            };
        }
        if self.reduction == Reduction::Mean {
            out.data.iter_mut().for_each(|x| *x /= count as f64);
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize])] = &[
            (&[7], &[0]),
            (&[3, 5], &[0]),
            (&[3, 5], &[1]),
            (&[3, 5], &[0, 1]),
            (&[2, 3, 4, 5], &[1, 3]),
            (&[2, 3, 4, 5], &[0, 2]),
            (&[1, 1], &[0]),
            (&[0, 3], &[0]),
            (&[3, 0], &[0]),
            (&[4], &[]),
            (&[3, 2100], &[1]),
            (&[2100, 3], &[0]),
            (&[40_000], &[0]),
            (&[17_000, 5], &[0]),
            (&[2, 300, 2], &[1]),
            (&[40, 1100], &[1]),
            (&[4, 4, 4], &[2]),
            (&[2100, 48], &[0]),
            (&[6, 70, 3, 16], &[0, 2]),
        ];
        // A product of many numbers is a normal number only where they are near 1.
        let arg = |reduction, shape: Shape| {
            let many = reduction == Reduction::Prod && shape.elements() > 100;
            if many { SampleArg::range(shape, 0.9, 1.1) } else { SampleArg::any(shape) }
        };
        let mut all = Vec::new();
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min, Reduction::Prod] {
            for &(shape, axes) in cases {
                let Some(shape) = Shape::new(shape) else { continue };
                all.push(Sample::new(Self::new(reduction, axes), vec![arg(reduction, shape)]));
            }
            for (shape, axis) in [([3, 5], 0), ([3, 2100], 1), ([17_000, 6], 0), ([0, 3], 0)] {
                let op = Self::new(reduction, &[axis]).wide();
                all.push(Sample::new(op, vec![arg(reduction, shape.into())]));
            }
            all.push(Sample::bad(
                Self::new(reduction, &[2]),
                vec![SampleArg::any([4, 8])],
                "axis is 2, the rank is 2; axis must be < rank",
            ));
        }
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::Bool), [3], Data::Int(0, 2))],
            "it must be a number",
        ));
        all
    }
}

/// Of elements of `T`, summed in `A`, into results of `R`.
fn run<A: Fold, T: Element, R: Element>(op: &Reduce, call: &Call<'_>) -> Result<(), Rule> {
    let x = call.input::<T>(0)?;
    let mut out = call.output::<R>(0)?;
    let shape = *x.layout().shape();
    let (outputs, reduced) = op.counts(&shape);
    let reduction = op.reduction;
    if outputs == 0 {
        return Ok(());
    }
    if reduced == 0 {
        // Of integers the ends of the dtype.
        out.fill(R::from_f64(if reduction == Reduction::Mean { f64::NAN } else { f64::start(reduction) }));
        return Ok(());
    }
    let job = Job { x, axes: op.split(x.layout())?, reduction };
    let chunks = op.chunks(&shape);
    if chunks > 1 {
        let partial = call.workspace::<A::Total>()?;
        let whole = Chunks { data: &mut partial[..chunks * outputs], width: outputs };
        call.parallel(
            whole,
            chunks,
            1,
            #[inline(always)]
            |chunk, part| {
                for (c, row) in part.data.chunks_mut(outputs).enumerate() {
                    let from = (chunk + c) * CHUNK;
                    job.range::<A>(0, row, from, CHUNK.min(reduced - from));
                }
            },
        );
        for o in 0..outputs {
            let rows = partial.chunks(outputs).take(chunks);
            let total = rows.fold(A::Total::start(reduction), |total, row| total.join(row[o], reduction));
            out.set_flat(o, total.result(reduction, reduced));
        }
        return Ok(());
    }
    let out = out.merge_outer();
    let (outer, each) = (out.outer(), outputs / out.outer());
    let grain = (CHUNK / (reduced * each).max(1)).max(1);
    call.parallel(
        out,
        outer,
        grain,
        #[inline(always)]
        |start, mut part| {
            let n = part.elements();
            let mut totals = [A::Total::start(reduction); COLS];
            for at in (0..n).step_by(COLS) {
                let some = &mut totals[..COLS.min(n - at)];
                job.range::<A>(start * each + at, some, 0, reduced);
                some.iter()
                    .enumerate()
                    .for_each(|(i, t)| part.set_flat(at + i, t.result(reduction, reduced)));
            }
        },
    );
    Ok(())
}

struct Job<'a, T> {
    x: View<'a, T>,
    axes: (Layout, Layout),
    reduction: Reduction,
}

impl<T: Element> Job<'_, T> {
    /// Results of outputs `first..first + totals.len()` over reduced elements `from..from + len`.
    #[inline(always)]
    fn range<A: Fold>(&self, first: usize, totals: &mut [A::Total], from: usize, len: usize) {
        // A choice for each element would take several times as long as its sum.
        match self.reduction {
            Reduction::Sum | Reduction::Mean => self.range_by::<A, true>(first, totals, from, len),
            Reduction::Max | Reduction::Min | Reduction::Prod => {
                self.range_by::<A, false>(first, totals, from, len);
            }
        }
    }

    #[inline(always)]
    fn join<F: Fold, const SUM: bool>(&self, a: F, x: F) -> F {
        a.join(x, if SUM { Reduction::Sum } else { self.reduction })
    }

    #[inline(always)]
    fn range_by<A: Fold, const SUM: bool>(
        &self,
        first: usize,
        totals: &mut [A::Total],
        from: usize,
        len: usize,
    ) {
        let (kept, reduced) = &self.axes;
        let run = |l: &Layout| l.strides().last().copied().unwrap_or(0);
        // Whichever side is contiguous is walked innermost; columns also where neither does.
        if run(reduced) == 1 || kept.shape().elements() == 1 {
            for (i, t) in totals.iter_mut().enumerate() {
                *t = self.row::<A, SUM>(kept.index_flat(first + i), from, len);
            }
        } else {
            let width = kept.shape().last();
            let mut done = 0;
            while done < totals.len() {
                let col = (first + done) % width;
                let n = (width - col).min(totals.len() - done).min(COLS);
                let (start, stride) = (kept.index_flat(first + done), run(kept));
                let totals = &mut totals[done..done + n];
                if n > FEW_COLS {
                    self.columns::<A, SUM, COLS>((start, stride), totals, from, len);
                } else {
                    self.columns::<A, SUM, FEW_COLS>((start, stride), totals, from, len);
                }
                done += n;
            }
        }
    }

    #[inline(always)]
    fn row<A: Fold, const SUM: bool>(&self, start: usize, from: usize, len: usize) -> A::Total {
        let (data, reduced) = (self.x.data(), &self.axes.1);
        let mut total = A::Total::start(self.reduction);
        for done in (0..len).step_by(TILE) {
            let mut lanes = [A::start(self.reduction); LANES];
            pieces(reduced, from + done, TILE.min(len - done), |first, at, n, stride| {
                let at = at - reduced.offset() + start;
                if stride == 1 {
                    // A piece goes on in the lane where the one before it ended.
                    let (head, rest) = data[at..at + n].split_at((LANES - first % LANES).min(n));
                    for (l, &v) in lanes[first % LANES..].iter_mut().zip(head) {
                        *l = self.join::<A, SUM>(*l, A::load(v));
                    }
                    let whole = rest.chunks_exact(LANES);
                    let tail = whole.remainder();
                    for c in whole {
                        for l in 0..LANES {
                            lanes[l] = self.join::<A, SUM>(lanes[l], A::load(c[l]));
                        }
                    }
                    for (l, &v) in lanes.iter_mut().zip(tail) {
                        *l = self.join::<A, SUM>(*l, A::load(v));
                    }
                } else {
                    for j in 0..n {
                        let l = &mut lanes[(first + j) % LANES];
                        *l = self.join::<A, SUM>(*l, A::load(data[at + j * stride]));
                    }
                }
            });
            for l in lanes {
                total = total.join(l.total(), self.reduction);
            }
        }
        total
    }

    #[inline(always)]
    fn columns<A: Fold, const SUM: bool, const COLS: usize>(
        &self,
        (start, stride): (usize, usize),
        totals: &mut [A::Total],
        from: usize,
        len: usize,
    ) {
        let (data, reduced) = (self.x.data(), &self.axes.1);
        let n = totals.len();
        let nothing = A::start(self.reduction);
        totals.fill(A::Total::start(self.reduction));
        let mut sums = [[nothing; COLS]; LANES];
        for done in (0..len).step_by(TILE) {
            let m = TILE.min(len - done);
            pieces(reduced, from + done, m, |first, at, rows, step| {
                for r in 0..rows {
                    let at = at - reduced.offset() + start + r * step;
                    let sums = &mut sums[(first + r) % LANES][..n];
                    if stride == 1 {
                        isa::read_ahead(data, at + AHEAD * step, n);
                        for (s, &v) in sums.iter_mut().zip(&data[at..at + n]) {
                            *s = self.join::<A, SUM>(*s, A::load(v));
                        }
                    } else {
                        for (j, s) in sums.iter_mut().enumerate() {
                            *s = self.join::<A, SUM>(*s, A::load(data[at + j * stride]));
                        }
                    }
                }
            });
            for lane in &mut sums[..LANES.min(m)] {
                for (t, s) in totals.iter_mut().zip(&mut lane[..n]) {
                    *t = self.join::<A::Total, SUM>(*t, s.total());
                    *s = nothing;
                }
            }
        }
    }
}

const _: () = assert!(MAX_RANK < 15, "axis bits must hold every axis and one beyond");
