//! Products of the rows of each expert with its own matrix.

mod cuda;

use super::routing::{Numbers, Routed, is_index, sizes};
use crate::contract::{
    Body, Data, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Spread, Tested, op_attributes,
    rules,
};
use crate::kernel::cpu::gemm::{Beta, Gemm, MatMut, Rhs, workspace_len, workspace_up_to};
use crate::kernel::cpu::isa::Real;
use crate::kernel::cpu::{Call, Chunks, with_float};
use crate::ops::experts::route_map::RouteMap;
use crate::ops::matmul::dense::{RowBlocks, matrix};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

op_list! { GroupedMatMul, GroupedMatMulGrad }

op_attributes! {
    /// `y[r, :] = x[r, :] · w[e(r)]`, where e(r) is the expert whose row r is: expert e has the rows `offsets[e]` up to
    /// `offsets[e] + counts[e]`. Other rows are zero.
    ///
    /// `x`: `[N, K]`, float; `w`: `[E, K, F]` of its dtype; `counts`: `[E]` and `offsets`: `[E + 1]`, as
    /// [`RouteMap`](crate::ops::experts::route_map::RouteMap) gives them, i32 or i64. They are read on the device. Result: `[N, F]`. Sums in the
    /// accumulation dtype; f32 is not rounded to TF32. Disjoint. Gradients: by `x` the same with `w` transposed, by `w`
    /// [`GroupedMatMulGrad`]. Where offsets are no growing sequence from 0 to at most N, or a count is more than the rows up to
    /// the next offset, no row has an expert, and the next read on the host returns `Error::Index`, which counts positions in
    /// `counts` and behind them in `offsets`. Errors: other dtypes, ranks or sizes, no expert. Deterministic. Source: Gale et
    /// al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts" (2022).
    #[derive(Debug, Clone, Copy)]
    pub struct GroupedMatMul(x, w, counts, offsets);
}

op_attributes! {
    /// Gradient of [`GroupedMatMul`] to the experts' matrices: `out[e] = Σ_r x[r, :]ᵀ · gy[r, :]` over the rows of e, zeros
    /// where it has none.
    ///
    /// `x`: `[N, K]`, float; `gy`: `[N, F]` of its dtype; `counts` and `offsets` as there. Result: `[E, K, F]`. Sums in the
    /// accumulation dtype, in the order of rows. Disjoint. Gradients: [`GroupedMatMul`] of either with the cotangent. Errors as there. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct GroupedMatMulGrad(x, gy, counts, offsets);
}

/// Checks counts and offsets; the number of experts.
fn experts(args: &[Spec]) -> Result<usize, Rule> {
    is_index(args, 2)?;
    rules::same_dtype(args, 2, 3)?;
    let [experts] = sizes(args, 2, "1")?;
    rules::shape(args, 3, [experts.saturating_add(1)])?;
    if experts == 0 {
        return Err(Rule::Attribute { name: "the number of experts", value: 0.0, expected: "at least 1" });
    }
    Ok(experts)
}

/// The rows of an expert on the host.
fn rows_of(args: &[HostTensor], e: usize) -> Range<usize> {
    let start = args[3].data[e] as usize;
    start..start + args[2].data[e] as usize
}

/// A kernel of the processor with tasks of so many rows, for where it was found to be faster.
macro_rules! variant {
    ($name:literal, $each:literal) => {
        Kernel::cpu($name, |_, call| in_tasks(call, Some($each)))
            .accepting(|_, args| varies(args, $each))
            .with_workspace(|_, args| Tasks::new(args, $each).bytes(args[0].dtype))
    };
}

impl Op for GroupedMatMul {
    fn name(&self) -> &'static str {
        "grouped_matmul"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 4] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        let [rows, k] = sizes(&args, 0, "2")?;
        let [_, _, n] = sizes(&args, 1, "3")?;
        rules::shape(&args, 1, [experts(&args)?, k, n])?;
        Ok(Outputs::one(Spec::new(args[0].dtype, [rows, n])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Opaque("where experts' rows start lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (x, w, gy) = (cx.inputs[0], cx.inputs[1], cx.cotangent()?);
            let rows = &cx.inputs[2..];
            let gx = if cx.needs[0] {
                Some(cx.graph.op1(Self, &[gy, cx.graph.transpose(w)?, rows[0], rows[1]])?)
            } else {
                None
            };
            let gw = if cx.needs[1] {
                Some(cx.graph.op1(GroupedMatMulGrad, &[x, gy, rows[0], rows[1]])?)
            } else {
                None
            };
            Ok(vec![gx, gw, None, None])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Product { operands: usize::MAX }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("grouped_matmul", |_, call| in_tasks(call, None))
                    .with_workspace(|_, args| Tasks::new(args, each(args)).bytes(args[0].dtype)),
                variant!("grouped_matmul_48", 48),
                variant!("grouped_matmul_96", 96),
                variant!("grouped_matmul_240", 240),
                variant!("grouped_matmul_960", 960),
                Kernel::cuda("grouped_matmul", |_, call| cuda::product(call, None))
                    .with_workspace(cuda::workspace),
                Kernel::cuda("grouped_matmul_wgmma", |_, call| cuda::product(call, Some(cuda::Way::Wgmma)))
                    .accepting(cuda::short_chunks)
                    .with_workspace(cuda::workspace),
                Kernel::cuda("grouped_matmul_mma", |_, call| cuda::product(call, Some(cuda::Way::Mma)))
                    .accepting(cuda::short_chunks)
                    .with_workspace(cuda::workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // As many as where every row has an expert.
        args[0].shape.elements().saturating_mul(2).saturating_mul(args[1].shape.last())
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        trial(args, spread)
    }
}

impl Tested for GroupedMatMul {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (rows, k) = (args[0].dims()[0], args[0].dims()[1]);
        let (experts, n) = (args[1].dims()[0], args[1].dims()[2]);
        let mut y = HostTensor::from_fn(Spec::new(args[0].spec.dtype, [rows, n]), |_| 0.0);
        for e in 0..experts {
            for r in rows_of(args, e) {
                for j in 0..n {
                    let terms = (0..k).map(|p| args[0].data[r * k + p] * args[1].data[(e * k + p) * n + j]);
                    y.data[r * n + j] = terms.sum();
                }
            }
        }
        vec![y]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |Routing { rows, counts, offsets, sizes: [k, n] }| {
            let w = SampleArg::any([counts.shape.elements(), k, n]);
            Sample::new(*self, vec![SampleArg::any([rows, k]), w, counts, offsets])
        };
        // At the ends of units of 16 rows and of parts of 256, with pad rows inside and outside of the last 16.
        let ends = [[0, 0], [1, 1], [15, 16], [16, 16], [17, 24], [100, 128], [257, 264]];
        // In one dtype, so that properties that call it many times do so in one that tensor cores take.
        let mut ends = case(Routing::of(480, &ends, [72, 264]));
        ends.args[..2].iter_mut().for_each(|factor| factor.dtype = Some(DType::BF16));
        let mut all: Vec<Sample> = routings().into_iter().map(case).collect();
        all.push(ends);
        let any = || SampleArg::any([6, 4]);
        let w = |e: usize, k: usize| SampleArg::any([e, k, 3]);
        let int = |n: usize| SampleArg::with(Some(DType::I32), [n], Data::Int(0, 1));
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![any(), w(2, 5), int(2), int(3)], "arg 1 is [2, 5, 3]; it must be [2, 4, 3]"),
            bad(vec![any(), w(2, 4), int(2), int(2)], "arg 3 is [2]; it must be [3]"),
            bad(vec![any(), w(3, 4), int(2), int(3)], "arg 1 is [3, 4, 3]; it must be [2, 4, 3]"),
            bad(vec![any(), w(0, 4), int(0), int(1)], "the number of experts is 0; it must be at least 1"),
            bad(vec![any(), w(2, 4), any(), int(3)], "it must be i32 or i64"),
            bad(vec![any(), any(), int(2), int(3)], "arg 1 has rank 2; it must be 3"),
            bad(vec![any()], "takes 4 arguments (x, w, counts, offsets), got 1"),
        ]);
        all
    }
}

/// Rows by expert, with the sizes of a matrix.
struct Routing {
    rows: usize,
    counts: SampleArg,
    offsets: SampleArg,
    sizes: [usize; 2],
}

impl Routing {
    /// Experts with so many rows that hold pairs, of so many.
    fn of(rows: usize, experts: &[[usize; 2]], sizes: [usize; 2]) -> Self {
        let numbers = |all: Vec<f64>| SampleArg::with(Some(DType::I32), [all.len()], Data::Exact(all));
        let counts = numbers(experts.iter().map(|e| e[0] as f64).collect());
        let ends = experts.iter().scan(0, |end, e| {
            *end += e[1];
            Some(*end as f64)
        });
        Self { rows, counts, offsets: numbers(std::iter::once(0.0).chain(ends).collect()), sizes }
    }
}

/// Routings of samples: one row; odd sizes; padded rows and idle experts; sizes of whole chunks of 16 bytes, less and more
/// than a tile; a long inner axis; rows behind the last expert's; few that are enough for Hopper's own way.
fn routings() -> Vec<Routing> {
    let op = |most, rows, align| RouteMap { most, rows, align, ..Default::default() };
    let mapped = |tokens, op, sizes| {
        let routed = Routed::new(tokens, op);
        Routing { rows: routed.rows, counts: routed.counts(), offsets: routed.offsets(), sizes }
    };
    vec![
        mapped([0, 3], op(2, 4, 1), [3, 2]),
        mapped([1, 1], op(1, 1, 1), [1, 1]),
        mapped([33, 5], op(3, 128, 8), [7, 5]),
        mapped([40, 6], op(2, 300, 16), [16, 24]),
        mapped([70, 4], op(2, 100, 1), [72, 136]),
        mapped([200, 3], op(2, 400, 8), [40, 8]),
        mapped([12, 2], op(1, 12, 1), [700, 16]),
        Routing::of(70, &[[50, 64]], [24, 136]),
    ]
}

impl Op for GroupedMatMulGrad {
    fn name(&self) -> &'static str {
        "grouped_matmul_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 4] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        let [_, k] = sizes(&args, 0, "2")?;
        let [_, n] = sizes(&args, 1, "2")?;
        rules::same_dim(&args, (0, 0), (1, 0))?;
        Ok(Outputs::one(Spec::new(args[0].dtype, [experts(&args)?, k, n])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Opaque("where experts' rows start lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (x, gy, c, rows) = (cx.inputs[0], cx.inputs[1], cx.cotangent()?, &cx.inputs[2..]);
            let product = |lhs, matrices| cx.graph.op1(GroupedMatMul, &[lhs, matrices, rows[0], rows[1]]);
            let of_x = if cx.needs[0] { Some(product(gy, cx.graph.transpose(c)?)?) } else { None };
            let of_gy = if cx.needs[1] { Some(product(x, c)?) } else { None };
            Ok(vec![of_x, of_gy, None, None])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("grouped_matmul_grad", |_, call| with_float!(call, 0, T => weights::<T>(call)))
                    .with_workspace(|_, args| {
                        let each = each_expert(args);
                        each.saturating_mul(args[2].shape.last() * args[0].dtype.accumulate().size())
                    }),
                Kernel::cuda("grouped_matmul_grad", |_, call| cuda::weights(call, None))
                    .with_workspace(cuda::workspace),
                Kernel::cuda("grouped_matmul_grad_wgmma", |_, call| {
                    cuda::weights(call, Some(cuda::Way::Wgmma))
                })
                .accepting(cuda::short_chunks)
                .with_workspace(cuda::workspace),
                Kernel::cuda("grouped_matmul_grad_mma", |_, call| cuda::weights(call, Some(cuda::Way::Mma)))
                    .accepting(cuda::short_chunks)
                    .with_workspace(cuda::workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(2).saturating_mul(args[1].shape.last())
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        trial(args, spread)
    }
}

impl Tested for GroupedMatMulGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (k, n) = (args[0].dims()[1], args[1].dims()[1]);
        let spec = Spec::new(args[0].spec.dtype, [args[2].dims()[0], k, n]);
        vec![HostTensor::from_fn(spec, |i| {
            let (e, p, j) = (i / (k * n), i / n % k, i % n);
            rows_of(args, e).map(|r| args[0].data[r * k + p] * args[1].data[r * n + j]).sum()
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |Routing { rows, counts, offsets, sizes: [k, n] }| {
            Sample::new(*self, vec![SampleArg::any([rows, k]), SampleArg::any([rows, n]), counts, offsets])
        };
        let mut all: Vec<Sample> = routings().into_iter().map(case).collect();
        let any = |rows: usize| SampleArg::any([rows, 4]);
        let int = |n: usize| SampleArg::with(Some(DType::I32), [n], Data::Int(0, 1));
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![any(6), any(5), int(2), int(3)], "arg 0 axis 0 is 6, arg 1 axis 0 is 5"),
            bad(vec![any(6), any(6), int(2), int(4)], "arg 3 is [4]; it must be [3]"),
            bad(vec![any(6), any(6), int(2)], "takes 4 arguments (x, gy, counts, offsets), got 3"),
        ]);
        all
    }
}

/// Where the experts' rows are, on the processor.
struct Segments<'a> {
    counts: Numbers<'a>,
    offsets: Numbers<'a>,
    sound: bool,
}

impl<'a> Segments<'a> {
    /// Reads counts and offsets, and reports the first that is not as it must be.
    fn new(call: &Call<'a>, experts: usize, rows: usize) -> Result<Self, Rule> {
        let (counts, offsets) = (Numbers::of(call, 2)?, Numbers::of(call, 3)?);
        let wrong = (0..experts).find_map(|e| {
            let (start, end, count) = (offsets.at(&[e]), offsets.at(&[e + 1]), counts.at(&[e]));
            if e == 0 && start != 0 {
                Some((experts, start, 1))
            } else if end < start || end > rows as i64 {
                Some((experts + e + 1, end, rows + 1))
            } else if count < 0 || count > end - start {
                Some((e, count, (end - start) as usize + 1))
            } else {
                None
            }
        });
        if let Some((position, value, limit)) = wrong {
            call.flag(position, value, limit);
        }
        Ok(Self { counts, offsets, sound: wrong.is_none() })
    }

    /// The rows of an expert that are among these.
    fn rows(&self, e: usize, among: Range<usize>) -> Range<usize> {
        if !self.sound {
            return 0..0;
        }
        let start = self.offsets.at(&[e]) as usize;
        let end = start + self.counts.at(&[e]) as usize;
        start.max(among.start)..end.min(among.end)
    }
}

/// Rows of the result in tasks: by sizes alone.
struct Tasks {
    each: usize,
    count: usize,
    scratch: usize,
}

/// Rows of a task of a product that nobody has tuned.
fn each(args: &[Spec]) -> usize {
    args[0].shape.dims()[0].div_ceil(32).next_multiple_of(16).max(48)
}

/// Whether tasks of `each` rows are another way to make a product, of not more tasks than there may be.
fn varies(args: &[Spec], each: usize) -> bool {
    let rows = args[0].shape.dims()[0];
    (2..=256).contains(&rows.div_ceil(each)) && each != self::each(args)
}

/// A product on the processor in tasks of `each` rows.
fn in_tasks(call: &Call<'_>, each: Option<usize>) -> Result<(), Rule> {
    with_float!(call, 0, T => product::<T>(call, each))
}

/// Valid counts and offsets: every row has an expert, and they are spread over the experts as is asked.
fn trial(args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
    let (rows, counts, offsets) = (args[0].shape.dims()[0], args[2], args[3]);
    let parts = spread.parts(rows, counts.shape.elements());
    let starts = parts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n)));
    let tensor = |spec: Spec, data: Vec<usize>| HostTensor::from_fn(spec, |i| data[i] as f64);
    let offsets = tensor(offsets, starts.chain([rows]).collect());
    vec![None, None, Some(tensor(counts, parts)), Some(offsets)]
}

impl Tasks {
    fn new(args: &[Spec], each: usize) -> Self {
        let (rows, k, n) = (args[0].shape.dims()[0], args[0].shape.last(), args[1].shape.last());
        Self { each, count: rows.div_ceil(each), scratch: workspace_len(each, n, k) }
    }

    fn bytes(&self, dtype: DType) -> usize {
        self.count.saturating_mul(self.scratch).saturating_mul(dtype.accumulate().size())
    }
}

/// Scratch elements of one expert's product, however many rows it has.
fn each_expert(args: &[Spec]) -> usize {
    workspace_up_to(args[0].shape.last(), args[1].shape.last(), args[0].shape.dims()[0])
}

/// The first error of several tasks.
struct First(Mutex<Result<(), Rule>>);

impl First {
    fn keep(&self, result: Result<(), Rule>) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_ok() {
            *first = result;
        }
    }

    fn result(self) -> Result<(), Rule> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn product<T: Element<Acc: Real>>(call: &Call<'_>, each: Option<usize>) -> Result<(), Rule> {
    let (x, w, y) = (call.input::<T>(0)?, call.input::<T>(1)?, call.output::<T>(0)?);
    let specs = [Spec::new(T::DTYPE, *x.layout().shape()), Spec::new(T::DTYPE, *w.layout().shape())];
    let tasks = Tasks::new(&specs, each.unwrap_or_else(|| self::each(&specs)));
    let (experts, n) = (w.outer(), y.cols());
    let segments = Segments::new(call, experts, x.outer())?;
    let rooms = Chunks { data: call.workspace::<T::Acc>()?, width: tasks.scratch };
    let failed = First(Mutex::new(Ok(())));
    let multiply = |task: usize, mut part: RowBlocks<'_, T>, room: &mut [T::Acc]| {
        let first = task * tasks.each;
        let all = first..first + part.view.outer();
        part.view.fill(T::from_f64(0.0));
        for e in 0..experts {
            let rows = segments.rows(e, all.clone());
            if rows.is_empty() {
                continue;
            }
            let a = matrix(&x.narrow(rows.start, rows.len()))?;
            let b = Rhs::View(matrix(&w.select(e))?);
            let gemm = Gemm::<T, T> { alpha: T::Acc::ONE, a, b, beta: Beta::Zero, bias: None };
            let (l, data) = (*part.view.layout(), part.view.data());
            let (row, column) = (l.strides()[0], l.strides()[1]);
            let from = l.offset() + (rows.start - first) * row;
            gemm.run(&mut MatMut::new(data, from, (rows.len(), n), (row, column))?, room)?;
        }
        Ok(())
    };
    let parts = RowBlocks { view: y, each: tasks.each };
    if tasks.count > 0 && n > 0 {
        call.parallel((parts, rooms), tasks.count, 1, |task, (part, room)| {
            failed.keep(multiply(task, part, room.data));
        });
    }
    failed.result()
}

fn weights<T: Element<Acc: Real>>(call: &Call<'_>) -> Result<(), Rule> {
    let (x, gy, out) = (call.input::<T>(0)?, call.input::<T>(1)?, call.output::<T>(0)?);
    let specs = [Spec::new(T::DTYPE, *x.layout().shape()), Spec::new(T::DTYPE, *gy.layout().shape())];
    let (experts, rows) = (out.outer(), x.outer());
    let segments = Segments::new(call, experts, rows)?;
    let rooms = Chunks { data: call.workspace::<T::Acc>()?, width: each_expert(&specs) };
    let failed = First(Mutex::new(Ok(())));
    call.parallel((out, rooms), experts, 1, |start, (mut part, room)| {
        let mut multiply = || {
            let each = each_expert(&specs);
            for i in 0..part.outer() {
                let rows = segments.rows(start + i, 0..rows);
                let mut to = part.reborrow().select(i);
                if rows.is_empty() {
                    to.fill(T::from_f64(0.0));
                    continue;
                }
                let a = matrix(&x.narrow(rows.start, rows.len()))?.transposed();
                let b = Rhs::View(matrix(&gy.narrow(rows.start, rows.len()))?);
                let gemm = Gemm::<T, T> { alpha: T::Acc::ONE, a, b, beta: Beta::Zero, bias: None };
                let (l, data) = (*to.layout(), to.data());
                let (dims, strides) = (l.shape().dims(), l.strides());
                let mut c = MatMut::new(data, l.offset(), (dims[0], dims[1]), (strides[0], strides[1]))?;
                gemm.run(&mut c, &mut room.data[i * each..(i + 1) * each])?;
            }
            Ok(())
        };
        failed.keep(multiply());
    });
    failed.result()
}
