//! Matrix product.

mod block;
mod cuda;
mod cut;
mod join;
mod lines;

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, arity,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::added;
use crate::kernel::cpu::gemm::{
    BLOCK_ROWS, Beta, Gemm, MatMut, MatRef, Rhs, pays_to_pack, shared_len, workspace_len,
};
use crate::kernel::cpu::isa::Real;
use crate::kernel::cpu::pack::PackedB;
use crate::kernel::cpu::{Call, Chunks, Split, View, ViewMut};
use crate::values::{
    DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Precision, Rule, Shape, Spec, with_dtype,
};
use std::sync::{Mutex, PoisonError};

op_list! { MatMul }

op_attributes! {
    /// `out[.., i, j] = Σ_p lhs[.., i, p] · rhs[.., p, j]` (+ `addend[.., i, j]`) (+ `bias[j]`).
    ///
    /// `lhs`: `[batch.., m, k]`, `rhs`: `[batch.., k, n]` of one float dtype and equal batch axes; result `[batch.., m, n]`.
    /// Behind them optionally `addend`, of the result's shape, and `bias`: `[n]`, both of the result's dtype.
    /// Any strides: a transposed operand is a view. Accumulation in f32 (f64 for f64) in blocks over `k`; what is added is
    /// added before the one rounding to the result's dtype. Disjoint. Errors: ranks below 2, inner or batch sizes or dtypes that
    /// differ, an addend or bias that does not fit.
    /// Gradients: `cotangent · rhsᵀ`, `lhsᵀ · cotangent` (of the same precision, of the cotangent in the factors' dtype), the
    /// cotangent, and that summed over all but the last axis. Deterministic, whatever the number of threads; on a GPU the
    /// order of a sum also depends on how operands lie.
    #[derive(Debug, Clone, Copy)]
    pub struct MatMul(lhs, rhs, addend or none, bias or none) {
        /// How f32 factors are multiplied.
        pub precision: Precision = Precision::default(),
        /// Whether the result is of the accumulation dtype, f32 of bf16 and f16, instead of the factors'.
        pub wide: bool = false,
    }
}

/// Batch count, m, n and k of a product.
fn sizes(args: &[Spec]) -> (usize, usize, usize, usize) {
    let (l, r) = (args[0].shape.dims(), args[1].shape.dims());
    let [batch @ .., m, k] = l else { return (0, 0, 0, 0) };
    (batch.iter().product(), *m, r[r.len() - 1], *k)
}

fn added_of(args: &[Spec]) -> (Option<usize>, Option<usize>) {
    added(args.len(), |i| args[i].shape.rank())
}

impl MatMul {
    fn result(self, dtype: DType) -> DType {
        if self.wide { dtype.accumulate() } else { dtype }
    }

    fn product(self, g: &Graph, lhs: Value, rhs: Value, transpose: [bool; 2]) -> Result<Value, Error> {
        let lhs = if transpose[0] { g.transpose(lhs)? } else { lhs };
        let rhs = if transpose[1] { g.transpose(rhs)? } else { rhs };
        g.op1(self, &[lhs, rhs])
    }
}

/// How a product is cut into tasks: by shape alone, so that the bytes do not depend on the number of threads.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    cut: Cut,
    tasks: usize,
    /// Elements of scratch memory and of partial results for each task, and of the right-hand operand packed for all.
    scratch: usize,
    partial: usize,
    packed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Groups of this many products of a batch.
    Batch(usize),
    /// This many rows of the result.
    Rows(usize),
    /// This much of the inner axis; the partial results are added in order.
    Inner(usize),
}

/// The most tasks: enough for the threads of one machine, few enough that each has scratch memory of its own.
const TASKS: usize = 32;
/// Inner elements of one task, at least, of a product with a small result and a long inner axis (a weight gradient).
const INNER: usize = 768;
/// Elements of such a result at most: adding the partial results is then little beside the product.
const RESULT: usize = 64 * 1024;
/// Elements of such a result that a task adds up, about, and how many of them at a time.
const JOINED: usize = 4096;
const LINE: usize = 64;
/// Rows of a task at least, where there are few.
const FEW_ROWS: usize = 48;

impl Cut {
    /// The cut of a product that nobody has tuned.
    fn of(args: &[Spec]) -> Self {
        let (batch, m, n, k) = sizes(args);
        if batch > 1 {
            return Self::Batch(batch.div_ceil(TASKS));
        }
        if k >= 2 * INNER && m.saturating_mul(n) <= RESULT {
            // Tasks of equal length: the last one waits for the longest.
            return Self::Inner(k.div_ceil((k / INNER).min(TASKS)).next_multiple_of(16));
        }
        let (parts, least) = if m < 4 * BLOCK_ROWS { (8, FEW_ROWS) } else { (TASKS, BLOCK_ROWS) };
        Self::Rows(m.div_ceil(parts).next_multiple_of(16).max(least))
    }

    /// Whether it is another cut than the product's own, into two tasks at least and not more than there may be.
    fn varies(self, args: &[Spec]) -> bool {
        let (batch, m, n, k) = sizes(args);
        let (whole, each) = match self {
            Self::Batch(each) if batch > 1 => (batch, each),
            Self::Rows(each) if batch == 1 => (m, each),
            // Beyond this, adding up the parts is as much as the product.
            Self::Inner(each) if batch == 1 && m.saturating_mul(n) <= 4 * RESULT => (k, each),
            Self::Batch(_) | Self::Rows(_) | Self::Inner(_) => return false,
        };
        ![m, n, k].contains(&0) && (2..=8 * TASKS).contains(&whole.div_ceil(each)) && self != Self::of(args)
    }
}

impl Schedule {
    fn new(args: &[Spec], cut: Cut) -> Self {
        let (batch, m, n, k) = sizes(args);
        match cut {
            Cut::Batch(each) => Self {
                cut,
                tasks: batch.div_ceil(each),
                scratch: workspace_len(m, n, k),
                partial: 0,
                packed: 0,
            },
            Cut::Inner(each) => {
                let scratch = workspace_len(m, n, each);
                Self { cut, tasks: k.div_ceil(each), scratch, partial: m * n, packed: 0 }
            }
            Cut::Rows(each) => {
                let scratch = workspace_len(m.min(each), n, k);
                Self { cut, tasks: m.div_ceil(each).max(1), scratch, partial: 0, packed: shared_len(m, n, k) }
            }
        }
    }
}

/// Bytes of scratch memory of a product that is cut like this.
fn workspace(args: &[Spec], cut: Cut) -> usize {
    let (schedule, size) = (Schedule::new(args, cut), args[0].dtype.accumulate().size());
    let bias = added_of(args).1.map_or(0, |b| args[b].shape.elements());
    schedule
        .tasks
        .saturating_mul(schedule.scratch.saturating_add(schedule.partial))
        .saturating_add(schedule.packed)
        .saturating_add(bias)
        .saturating_mul(size)
}

fn strict(op: &dyn Op) -> bool {
    attributes::<MatMul>(op).is_ok_and(|op| op.precision == Precision::Strict)
}

/// A product on the processor that is cut like this; by its sizes alone where nothing is said.
fn product(call: &Call<'_>, cut: Option<Cut>) -> Result<(), Rule> {
    let (dtype, result) = (call.dtype(0)?, call.output_dtype(0)?);
    with_dtype!(
        float dtype,
        T => if dtype == result { run::<T, T>(call, cut) } else { run::<T, <T as Element>::Acc>(call, cut) },
        else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" })
    )
}

/// A kernel of the processor with a cut of its own, for where it was found to be faster.
macro_rules! variant {
    ($name:literal, $cut:expr) => {
        Kernel::cpu($name, |_, call| product(call, Some($cut)))
            .accepting(|op, args| strict(op) && $cut.varies(args))
            .with_workspace(|_, args| workspace(args, $cut))
    };
}

/// The one matrix of a view whose outer axes are of size 1.
fn flat<'a, T: Element>(v: &View<'a, T>) -> Result<MatRef<'a, T>, Rule> {
    matrix(&v.with_layout(v.layout().reshape([v.rows(), v.cols()].into())?))
}

/// The matrix of the last two axes of a view, from its first element on.
pub(in crate::ops) fn matrix<'a, T: Element>(view: &View<'a, T>) -> Result<MatRef<'a, T>, Rule> {
    let (l, rank) = (view.layout(), view.dims().len());
    let (d, s) = (l.shape().dims(), l.strides());
    Ok(MatRef::new(view.data(), l.offset(), (d[rank - 2], d[rank - 1]), (s[rank - 2], s[rank - 1]))?)
}

/// Of factors of `T` into a result of `R`.
fn run<T, R>(call: &Call<'_>, cut: Option<Cut>) -> Result<(), Rule>
where
    T: Element<Acc: Real>,
    R: Element<Acc = T::Acc>,
{
    let (a, b, c) = (call.input::<T>(0)?, call.input::<T>(1)?, call.output::<R>(0)?);
    let specs = [Spec::new(T::DTYPE, *a.layout().shape()), Spec::new(T::DTYPE, *b.layout().shape())];
    let rank = a.dims().len();
    let (batch, m, n, k) = sizes(&specs);
    if batch * m * n == 0 {
        return Ok(());
    }
    let cut = cut.unwrap_or_else(|| Cut::of(&specs));
    let Schedule { cut, tasks, scratch, partial, packed } = Schedule::new(&specs, cut);
    let (rooms, rest) = call.workspace::<T::Acc>()?.split_at_mut(tasks * scratch);
    let (partials, rest) = rest.split_at_mut(tasks * partial);
    let (packed, row) = rest.split_at_mut(packed);
    // The product reads a bias as a slice, so one that is not contiguous is gathered first.
    let (addend, bias) = added(call.inputs(), |i| call.rank(i).unwrap_or(0));
    let bias = if let Some(bias) = bias {
        let bias = call.input::<R>(bias)?;
        let row = &mut bytemuck::cast_slice_mut::<T::Acc, R>(row)[..n];
        row.iter_mut().enumerate().for_each(|(j, b)| *b = bias.flat(j));
        Some(&*row)
    } else {
        None
    };
    let addend = addend.map(|i| call.input::<R>(i)).transpose()?;
    let failed = Mutex::new(Ok(()));
    let keep = |result: Result<(), Rule>| {
        if result.is_err() {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = result;
        }
    };
    let rooms = Chunks { data: rooms, width: scratch };
    match cut {
        Cut::Rows(each) => {
            let (a, b, c) = (flat(&a)?, flat(&b)?, c.merge_outer());
            let addend = addend.as_ref().map(flat).transpose()?;
            // Once for all tasks: each would else pack it for itself.
            let rhs = if pays_to_pack(m, b) { Rhs::Packed(PackedB::new(b, packed)?) } else { Rhs::View(b) };
            // Tasks of whole row blocks: the output is cut at their rows, the scratch memory at their numbers.
            let parts = (RowBlocks { view: c, each }, rooms);
            call.parallel(parts, tasks, 1, |task, (mut c, room)| {
                let rows = c.view.outer();
                let mut work = || {
                    let a = a.block((task * each, 0), (rows, k))?;
                    let beta = match addend {
                        Some(m) => Beta::Matrix(m.block((task * each, 0), (rows, n))?),
                        None => Beta::Zero,
                    };
                    let gemm = Gemm { alpha: T::Acc::ONE, a, b: rhs, beta, bias };
                    let (l, data) = (*c.view.layout(), c.view.data());
                    let mut c = MatMut::new(data, l.offset(), (rows, n), (l.strides()[0], l.strides()[1]))?;
                    Ok(gemm.run(&mut c, room.data)?)
                };
                keep(work());
            });
        }
        Cut::Inner(each) => {
            let (a, b) = (flat(&a)?, flat(&b)?);
            let whole = Chunks { data: &mut partials[..tasks * partial], width: partial };
            call.parallel((whole, rooms), tasks, 1, |task, (out, room)| {
                let (from, len) = (task * each, each.min(k - task * each));
                let mut work = || {
                    let (a, b) = (a.block((0, from), (m, len))?, b.block((from, 0), (len, n))?);
                    let gemm = Gemm::<T, T::Acc> {
                        alpha: T::Acc::ONE,
                        a,
                        b: Rhs::View(b),
                        beta: Beta::Zero,
                        bias: None,
                    };
                    let mut c = MatMut::new(out.data, 0, (m, n), (n, 1))?;
                    Ok(gemm.run(&mut c, room.data)?)
                };
                keep(work());
            });
            let partials = &partials[..tasks * partial];
            let each = JOINED.div_ceil(n);
            let rows = RowBlocks { view: c.merge_outer(), each };
            call.parallel(rows, m.div_ceil(each), 1, |block, mut c| {
                for row in 0..c.view.outer() {
                    let i = block * each + row;
                    let added = addend.as_ref().map(|x| x.row(i));
                    let mut line = c.view.row_mut(row);
                    for first in (0..n).step_by(LINE) {
                        let mut sums = [T::Acc::default(); LINE];
                        let sums = &mut sums[..LINE.min(n - first)];
                        for part in partials.chunks_exact(partial) {
                            let part = &part[i * n + first..][..sums.len()];
                            sums.iter_mut().zip(part).for_each(|(sum, &x)| *sum = *sum + x);
                        }
                        if let Some(x) = &added {
                            (first..).zip(&mut *sums).for_each(|(j, sum)| *sum = x.get(j).widen() + *sum);
                        }
                        if let Some(bias) = bias {
                            sums.iter_mut().zip(&bias[first..]).for_each(|(sum, b)| *sum = *sum + b.widen());
                        }
                        line.narrow(first, sums);
                    }
                }
            });
        }
        Cut::Batch(each) => {
            let joined = |l: &Layout, i: usize| {
                let d = l.shape().dims();
                let mut at = [0; MAX_RANK];
                let mut rest = i;
                for axis in (0..rank - 2).rev() {
                    at[axis] = rest % d[axis];
                    rest /= d[axis];
                }
                (0..rank - 2).try_fold(*l, |l, axis| l.slice(axis, at[axis], 1, 1))
            };
            let outer = c.outer();
            let per = batch / outer;
            // Cut along the first axis only where a task is a whole number of its indices.
            let (parts, len) = if each % per == 0 {
                (RowBlocks { view: c, each: each / per }, tasks)
            } else {
                (RowBlocks { view: c, each: outer }, 1)
            };
            call.parallel((parts, rooms), len, 1, |task, (mut c, room)| {
                let first = task * each;
                let mine = c.view.outer() * per;
                for i in 0..mine {
                    let mut work = || {
                        let a = a.with_layout(joined(a.layout(), first + i)?);
                        let b = b.with_layout(joined(b.layout(), first + i)?);
                        let added = match &addend {
                            Some(x) => Some(x.with_layout(joined(x.layout(), first + i)?)),
                            None => None,
                        };
                        let beta = match &added {
                            Some(x) => Beta::Matrix(matrix(x)?),
                            None => Beta::Zero,
                        };
                        let gemm = Gemm {
                            alpha: T::Acc::ONE,
                            a: matrix(&a)?,
                            b: Rhs::View(matrix(&b)?),
                            beta,
                            bias,
                        };
                        let l = joined(c.view.read().layout(), i)?;
                        let (r, s) = (rank - 2, l.strides());
                        let strides = (s[r], s[r + 1]);
                        let mut c = MatMut::new(c.view.data(), l.offset(), (m, n), strides)?;
                        Ok(gemm.run(&mut c, room.data)?)
                    };
                    keep(work());
                }
            });
        }
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// An output cut at every `each` indices of its first axis.
#[derive(Debug)]
pub(in crate::ops) struct RowBlocks<'a, T> {
    pub(in crate::ops) view: ViewMut<'a, T>,
    pub(in crate::ops) each: usize,
}

impl<T: Element> Split for RowBlocks<'_, T> {
    fn splits(&self) -> bool {
        self.view.splits()
    }
    fn split(self, at: usize) -> (Self, Self) {
        let (a, b) = self.view.split(at * self.each);
        (Self { view: a, each: self.each }, Self { view: b, each: self.each })
    }
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let (addend, bias) = added_of(args);
        let given = args;
        let args = [args[0], args[1]];
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        let rank = args[0].shape.rank();
        for (arg, spec) in args.iter().enumerate() {
            let own = spec.shape.rank();
            if own < 2 {
                return Err(Rule::Rank { arg, rank: own, expected: "at least 2" });
            }
            if own != rank {
                let expected = "that of arg 0; broadcast the argument of fewer axes to the other's batch";
                return Err(Rule::Rank { arg, rank: own, expected });
            }
        }
        (0..rank - 2).try_for_each(|axis| rules::same_dim(&args, (0, axis), (1, axis)))?;
        rules::same_dim(&args, (0, rank - 1), (1, rank - 2))?;
        let shape = args[0].shape.with(rank - 1, args[1].shape.last());
        let result = Spec::new(self.result(args[0].dtype), shape);
        for arg in addend.into_iter().chain(bias) {
            rules::dtype(given, arg, result.dtype)?;
        }
        addend.map_or(Ok(()), |arg| rules::shape(given, arg, shape))?;
        bias.map_or(Ok(()), |arg| rules::shape(given, arg, [shape.last()]))?;
        Ok(Outputs::one(result))
    }
    fn outputs(&self) -> &[Output] {
        // Not in place of the addend either: which algorithm the matrix library takes, and with it the order of a sum,
        // depends on how the result lies, so that memory would decide the last bit.
        &[Output::FULL]
    }
    fn accumulate(&self, dtype: DType) -> DType {
        match (self.precision, dtype) {
            // As many digits as TF32's.
            (Precision::Tf32, DType::F32) => DType::F16,
            _ => dtype.accumulate(),
        }
    }
    fn body(&self) -> Body {
        Body::Primitive("product")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = *attributes::<Self>(op).map_err(|rule| rule.of("matmul", &[], None, None))?;
            let (g, wide) = (cx.graph, cx.cotangent()?);
            let (op, c) = (Self { wide: false, ..op }, g.cast(wide, g.spec(cx.inputs[0]).dtype)?);
            let mut all = vec![None; cx.inputs.len()];
            if cx.needs[0] {
                all[0] = Some(op.product(g, c, cx.inputs[1], [false, true])?);
            }
            if cx.needs[1] {
                all[1] = Some(op.product(g, cx.inputs[0], c, [true, false])?);
            }
            let (addend, bias) = added_of(&g.specs(cx.inputs));
            if let Some(i) = addend.filter(|&i| cx.needs[i]) {
                all[i] = Some(wide);
            }
            if let Some(i) = bias.filter(|&i| cx.needs[i]) {
                let axes: Vec<usize> = (0..g.shape(wide).rank() - 1).collect();
                all[i] = Some(g.sum(wide, &axes)?);
            }
            Ok(all)
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Product { operands: usize::MAX }
    }
    fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
        // Of rows, where a block does what a part of them takes. A bias has one axis.
        block::fits(args).then(|| {
            let (addend, rows) = (added_of(args).0, args[0].shape.rank() - 1);
            let of = |i: usize| if i == 0 || addend == Some(i) { rows } else { 0 };
            (0..args.len()).map(of).chain([rows]).collect()
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("product", |_, call| product(call, None))
                    .accepting(|op, _| strict(op))
                    .with_workspace(|_, args| workspace(args, Cut::of(args))),
                variant!("product_rows_48", Cut::Rows(48)),
                variant!("product_rows_96", Cut::Rows(96)),
                variant!("product_rows_240", Cut::Rows(BLOCK_ROWS)),
                variant!("product_rows_960", Cut::Rows(4 * BLOCK_ROWS)),
                variant!("product_inner_512", Cut::Inner(512)),
                variant!("product_inner_1536", Cut::Inner(1536)),
                variant!("product_inner_3072", Cut::Inner(3072)),
                variant!("product_batch_1", Cut::Batch(1)),
                variant!("product_batch_4", Cut::Batch(4)),
                variant!("product_batch_16", Cut::Batch(16)),
                Kernel::cuda("product", cuda::run).with_workspace(cuda::workspace),
                cuda::library::<0>("product_library_0"),
                cuda::library::<1>("product_library_1"),
                cuda::library::<2>("product_library_2"),
                cuda::library::<3>("product_library_3"),
                cuda::library::<4>("product_library_4"),
                cuda::library::<5>("product_library_5"),
                cuda::library::<6>("product_library_6"),
                cuda::library::<7>("product_library_7"),
                cuda::cut::<128>("product_cut_128"),
                cuda::cut::<256>("product_cut_256"),
                cuda::cut::<512>("product_cut_512"),
                cuda::cut::<1024>("product_cut_1024"),
                cuda::parts::<256>("product_parts_256"),
                cuda::parts::<1024>("product_parts_1024"),
                cuda::parts::<4096>("product_parts_4096"),
                block::kernel("product_block"),
                cuda::strided("product_strided"),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        let (batch, m, n, k) = sizes(args);
        [2, batch, m, n, k].into_iter().fold(1, usize::saturating_mul)
    }
}

impl Tested for MatMul {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let (_, m, n, k) = sizes(&specs);
        let (addend, bias) = added_of(&specs);
        let at = |i: usize| {
            let (b, row, col) = (i / (m * n), i / n % m, i % n);
            let added = addend.map_or(0.0, |a| args[a].data[i]) + bias.map_or(0.0, |b| args[b].data[col]);
            added
                + (0..k)
                    .map(|p| args[0].data[(b * m + row) * k + p] * args[1].data[(b * k + p) * n + col])
                    .sum::<f64>()
        };
        vec![HostTensor::from_fn(outputs[0], at)]
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize])] = &[
            (&[3, 5], &[5, 4]),
            (&[1, 1], &[1, 1]),
            (&[7, 16], &[16, 16]),
            (&[2, 3, 4], &[2, 4, 5]),
            (&[2, 2, 9, 8], &[2, 2, 8, 9]),
            (&[0, 4], &[4, 3]),
            (&[4, 0], &[0, 3]),
            (&[3, 4], &[4, 0]),
            (&[70, 33], &[33, 65]),
            (&[16, 3000], &[3000, 16]),
            (&[5, 4500], &[4500, 40]),
            (&[300, 16], &[16, 128]),
        ];
        let shapes = cases.iter().filter_map(|&(l, r)| Some((Shape::new(l)?, Shape::new(r)?)));
        let mut all: Vec<Sample> =
            shapes.map(|(l, r)| Sample::new(*self, vec![SampleArg::any(l), SampleArg::any(r)])).collect();
        let wide = Self { wide: true, ..*self };
        for &(l, r) in &cases[1..] {
            let (Some(l), Some(r)) = (Shape::new(l), Shape::new(r)) else { continue };
            let bias = SampleArg::any([r.last()]);
            let out = l.with(l.rank() - 1, r.last());
            let factors = || vec![SampleArg::any(l), SampleArg::any(r)];
            let with = |more: Vec<SampleArg>| factors().into_iter().chain(more).collect();
            all.push(Sample::new(*self, with(vec![SampleArg::any(out)])));
            all.push(Sample::new(*self, with(vec![SampleArg::any(out), bias.clone()])));
            all.push(Sample::new(*self, with(vec![bias])));
            all.push(Sample::new(wide, factors()));
        }
        // Of 16-bit factors what is added is of the result's dtype, which a sample of any dtype cannot say.
        for low in [DType::BF16, DType::F16] {
            let of = |dtype, dims: [usize; 2]| SampleArg::with(Some(dtype), dims, Data::Range(-2.0, 2.0));
            let (lhs, rhs, addend) = (of(low, [37, 70]), of(low, [70, 21]), of(DType::F32, [37, 21]));
            let bias = SampleArg::with(Some(DType::F32), [21], Data::Range(-2.0, 2.0));
            all.push(Sample::new(wide, vec![lhs, rhs, addend, bias]));
        }
        // For parts of 256 inner elements and what is left over.
        let factors = [Shape::from([70, 300]), [300, 65].into()].map(SampleArg::any);
        let more = [Shape::from([70, 65]), [65].into()].map(SampleArg::any);
        all.push(Sample::new(*self, factors.to_vec()));
        all.push(Sample::new(*self, factors.into_iter().chain(more).collect()));
        // Of few inner elements, with rows of the result in whole chunks.
        let factors = [Shape::from([2, 9, 3]), [2, 3, 8].into()].map(SampleArg::any);
        let more = [Shape::from([2, 9, 8]), [8].into()].map(SampleArg::any);
        all.push(Sample::new(*self, factors.to_vec()));
        all.push(Sample::new(*self, factors.into_iter().chain(more).collect()));
        let bad =
            |l: Shape, r: Shape, text| Sample::bad(*self, vec![SampleArg::any(l), SampleArg::any(r)], text);
        all.push(bad(
            [4, 8].into(),
            [6, 5].into(),
            "arg 0 axis 1 is 8, arg 1 axis 0 is 6; they must be equal",
        ));
        all.push(bad([4].into(), [4].into(), "arg 0 has rank 1; it must be at least 2"));
        all.push(bad(
            [2, 4, 8].into(),
            [3, 8, 5].into(),
            "arg 0 axis 0 is 2, arg 1 axis 0 is 3; they must be equal",
        ));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [2, 2], Data::Int(0, 3)), SampleArg::any([2, 2])],
            "it must be f32",
        ));
        let three = |more: Shape, text| {
            let args = [[4, 8].into(), [8, 5].into(), more].map(SampleArg::any);
            Sample::bad(*self, args.to_vec(), text)
        };
        all.push(three([4].into(), "arg 2 is [4]; it must be [5]"));
        all.push(three([5, 4].into(), "arg 2 is [5, 4]; it must be [4, 5]"));
        // Of many rows and few columns, in whole units and not.
        for (rows, inner, columns) in [(530, 40, 7), (515, 19, 1)] {
            let factors = [Shape::from([rows, inner]), [inner, columns].into()].map(SampleArg::any);
            let more = [Shape::from([rows, columns]), [columns].into()].map(SampleArg::any);
            all.push(Sample::new(*self, factors.to_vec()));
            all.push(Sample::new(*self, factors.into_iter().chain(more).collect()));
        }
        all
    }
}
