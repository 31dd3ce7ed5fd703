//! Runs of rows brought into another order: what an exchange of tokens between devices needs around it.

mod cuda;

use super::routing::cuda::{Share, shares};
use super::routing::{Numbers, copy_row, grain, is_index, sizes};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Spread, Tested, arity, attributes,
    op_attributes, rules,
};
use crate::kernel::cpu::{Call, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec};

op_list! { ChunkMap, SortChunks }

/// Chunks at most: a block on a GPU keeps the first row of each, before and after, in shared memory.
const CHUNKS: usize = 2048;

op_attributes! {
    /// Where each row goes when chunks of rows change their order: chunk j of the result is chunk `order[j]` of the input, so
    /// `D(r)` = the first row of r's chunk in the result + r's place in the chunk. Rows behind the last chunk stay: `D(r) = r`.
    ///
    /// `sizes`: `[S]`, the rows of each chunk of the input; `order`: `[S]`, each of `0..S` once; both i32 or both i64. Result:
    /// `[rows]` as `sizes`, a permutation of the rows. Where `order` is none, a size is negative, or the sizes are more than
    /// `rows` together, the result leaves each row in its place, and the next read on the host returns `Error::Index`: with the
    /// entry of `order` that is out of range, with −1 at the number of a chunk that has no place, with the negative size, or
    /// with the sum behind the last size. Disjoint. No gradient: row numbers are integers. Errors: other dtypes, ranks or
    /// sizes, more than 2,048 chunks, more rows than the dtype numbers. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct ChunkMap(sizes, order) {
        /// Number of rows.
        pub rows: usize = 8 => required,
    }
}

op_attributes! {
    /// Brings rows to where a map sends them: `y[D(r), :] = x[r, :]`, and with probabilities `py[D(r)] = p[r]`; or back,
    /// `y[r, :] = x[D(r), :]` and `py[r] = p[D(r)]`, with `inverse`.
    ///
    /// `x`: `[N, H]`, float; `d`: `[N]`, i32 or i64, a permutation as [`ChunkMap`] gives it; `p`: `[N]`, float of any dtype,
    /// where `probs` is set. Results: `y` as `x` and `py` as `p`. Disjoint, every result and every argument: blocks write rows
    /// that others have yet to read. Gradient: the same with the other direction. A number out of range is left out, its row
    /// of the inverse is zero, and the next read on the host returns `Error::Index`. Errors: other dtypes, ranks or sizes.
    /// Deterministic.
    ///
    /// ```
    /// use landfall::{DType::{F32, I32}, Engine, ops::{ChunkMap, SortChunks}};
    /// let engine = Engine::cpu()?;
    /// let (sizes, order) = (engine.tensor([2], &[1i32, 2])?, engine.tensor([2], &[1i32, 0])?);
    /// let op = ChunkMap { rows: 3 };
    /// let mut d = engine.empty(I32, [3])?;
    /// engine.reserve(engine.workspace(&op, &[sizes.spec(), order.spec()])?)?;
    /// engine.call(&op, &[sizes.view(), order.view()], &mut [d.view_mut()])?;
    /// assert_eq!(d.read::<i32>()?, [2, 0, 1]);
    /// let x = engine.tensor([3, 1], &[1.0f32, 2.0, 3.0])?;
    /// let mut y = engine.empty(F32, [3, 1])?;
    /// engine.call(&SortChunks::default(), &[x.view(), d.view()], &mut [y.view_mut()])?;
    /// assert_eq!(y.read::<f32>()?, [2.0, 3.0, 1.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct SortChunks(x, d, p if probs) {
        /// Whether probabilities are brought along.
        pub probs: bool = false,
        /// Whether rows are brought back.
        pub inverse: bool = false,
    }
}

impl Op for ChunkMap {
    fn name(&self) -> &'static str {
        "chunk_map"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        is_index(&args, 0)?;
        rules::same_dtype(&args, 0, 1)?;
        let [chunks] = sizes(&args, 0, "1")?;
        rules::same_shape(&args, 0, 1)?;
        let attribute = |name, value, expected| Rule::Attribute { name, value: value as f64, expected };
        if !(1..=CHUNKS).contains(&chunks) {
            return Err(attribute("the number of chunks", chunks, "from 1 to 2048"));
        }
        if args[0].dtype == DType::I32 && self.rows >= 1 << 31 {
            return Err(attribute("rows", self.rows, "less than 2^31 for i32"));
        }
        Ok(Outputs::one(Spec::new(args[0].dtype, [self.rows])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("a chunk's place is a sum over the chunks before it")
    }
    fn vjp(&self) -> Grad {
        Grad::Zero
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("chunk_map", |_, call| {
                    let wide = call.dtype(0)? == DType::I64;
                    if wide { places::<i64>(call) } else { places::<i32>(call) }
                })
                .with_workspace(|_, args| args[0].shape.elements() * size_of::<i64>()),
                Kernel::cuda("chunk_map", cuda::chunk_map),
            ]
        }
    }
}

impl Tested for ChunkMap {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (sizes, order) = (&args[0].data, &args[1].data);
        let mut d: Vec<f64> = (0..self.rows).map(|r| r as f64).collect();
        let mut place = 0.0;
        for &chunk in order {
            let from: f64 = sizes[..chunk as usize].iter().sum();
            for i in 0..sizes[chunk as usize] as usize {
                d[from as usize + i] = place + i as f64;
            }
            place += sizes[chunk as usize];
        }
        vec![HostTensor::from_fn(Spec::new(args[0].spec.dtype, [self.rows]), |i| d[i])]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |(sizes, order, rows), dtype| {
            let (sizes, order) = (chunks(sizes, dtype), chunks(order, dtype));
            Sample::new(Self { rows }, vec![sizes, order])
        };
        let mut all: Vec<Sample> = several().into_iter().map(|c| case(c, DType::I32)).collect();
        all.push(case((vec![3.0, 0.0, 4.0, 1.0], vec![2.0, 3.0, 1.0, 0.0], 11), DType::I64));
        let arg = |n: usize, dtype| SampleArg::with(Some(dtype), [n], Data::Int(0, 1));
        let bad = |rows, args, text| Sample::bad(Self { rows }, args, text);
        all.extend([
            bad(4, vec![arg(2, DType::I32), arg(3, DType::I32)], "their shapes must be equal"),
            bad(4, vec![arg(2, DType::I32), arg(2, DType::I64)], "their dtypes must be equal"),
            bad(4, vec![arg(2, DType::U8), arg(2, DType::U8)], "arg 0 is u8; it must be i32 or i64"),
            bad(
                4,
                vec![arg(0, DType::I32), arg(0, DType::I32)],
                "the number of chunks is 0; it must be from 1",
            ),
            bad(1 << 31, vec![arg(2, DType::I32), arg(2, DType::I32)], "it must be less than 2^31 for i32"),
            bad(4, vec![arg(2, DType::I32)], "takes 2 arguments (sizes, order), got 1"),
        ]);
        all
    }
}

fn chunks(values: Vec<f64>, dtype: DType) -> SampleArg {
    SampleArg::with(Some(dtype), [values.len()], Data::Exact(values))
}

/// Sizes, order and number of rows of samples: one chunk; chunks of no row, at both ends too; rows behind the last chunk;
/// no row at all; more chunks than threads.
fn several() -> Vec<(Vec<f64>, Vec<f64>, usize)> {
    let many: Vec<f64> = (0..300).map(|i| f64::from(i % 7)).collect();
    let rows = many.iter().sum::<f64>() as usize;
    let order = (0..300).map(|i| f64::from(i * 7 % 300)).collect();
    vec![
        (vec![5.0], vec![0.0], 5),
        (vec![5.0], vec![0.0], 9),
        (vec![0.0], vec![0.0], 3),
        (vec![0.0, 0.0], vec![1.0, 0.0], 0),
        (vec![3.0, 0.0, 4.0, 1.0], vec![2.0, 3.0, 1.0, 0.0], 8),
        (vec![0.0, 2.0, 0.0, 0.0, 5.0, 0.0], vec![4.0, 5.0, 0.0, 3.0, 1.0, 2.0], 7),
        (vec![4.0, 4.0, 4.0], vec![2.0, 0.0, 1.0], 20),
        (many, order, rows + 3),
    ]
}

impl Op for SortChunks {
    fn name(&self) -> &'static str {
        "sort_chunks"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        rules::float(args, &[0])?;
        is_index(args, 1)?;
        let [rows, _] = sizes(args, 0, "2")?;
        rules::shape(args, 1, [rows])?;
        if !self.probs {
            return Ok(Outputs::one(args[0]));
        }
        rules::float(args, &[2])?;
        rules::shape(args, 2, [rows])?;
        Ok(Outputs::from([args[0], args[2]]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 2][..1 + usize::from(self.probs)]
    }
    fn body(&self) -> Body {
        Body::Opaque("its map lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("sort_chunks", &[], None, None))?;
            let back = Self { probs: false, inverse: !op.inverse };
            let d = cx.inputs[1];
            let needed = |output: usize, input: usize| match cx.needs.get(input) {
                Some(true) => cx.cotangents[output],
                _ => None,
            };
            Ok(match (needed(0, 0), if op.probs { needed(1, 2) } else { None }) {
                (Some(gy), Some(gp)) => {
                    let both = cx.graph.op(Self { probs: true, ..back }, &[gy, d, gp])?;
                    vec![Some(both[0]), None, Some(both[1])]
                }
                (Some(gy), None) => vec![Some(cx.graph.op1(back, &[gy, d])?), None, None],
                (None, Some(gp)) => {
                    let shape = cx.graph.shape(gp);
                    let column = cx.graph.reshape(gp, [shape.elements(), 1])?;
                    let moved = cx.graph.op1(back, &[column, d])?;
                    vec![None, None, Some(cx.graph.reshape(moved, shape)?)]
                }
                (None, None) => vec![None; 3],
            })
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("sort_chunks", |op, call| {
                    let op = attributes::<SortChunks>(op)?;
                    with_float!(call, 0, T => rows::<T>(op, call))?;
                    if !op.probs {
                        return Ok(());
                    }
                    with_float!(call, 2, P => probs::<P>(op, call))
                }),
                Kernel::cuda("sort_chunks", cuda::sort_chunks),
                Kernel::cuda("sort_chunks_half", |op, call| cuda::sort_chunks_by(op, call, Share::Half))
                    .accepting(shares),
                Kernel::cuda("sort_chunks_twice", |op, call| cuda::sort_chunks_by(op, call, Share::Twice))
                    .accepting(shares),
            ]
        }
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        let (rows, index) = (args[1].shape.elements(), args[1].dtype);
        let sizes = spread.parts(rows, rows.clamp(1, 64));
        // Chunks in the other order.
        let spec = Spec::new(index, [sizes.len()]);
        let order = HostTensor::from_fn(spec, |j| (sizes.len() - 1 - j) as f64);
        let made = ChunkMap { rows }.reference(&[HostTensor::from_fn(spec, |j| sizes[j] as f64), order]);
        vec![None, made.into_iter().next()]
    }
}

impl Tested for SortChunks {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let h = args[0].spec.shape.last();
        let mut out = vec![args[0].clone()];
        out.extend(args.get(2).cloned());
        for (r, &d) in args[1].data.iter().enumerate() {
            let (from, to) = if self.inverse { (d as usize, r) } else { (r, d as usize) };
            out[0].data[to * h..][..h].copy_from_slice(&args[0].data[from * h..][..h]);
            if let Some(p) = args.get(2) {
                out[1].data[to] = p.data[from];
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for ((sizes, order, rows), h) in several().into_iter().zip([1, 3, 8, 16, 40, 7, 24, 3]) {
            let ints = |v: &[f64]| HostTensor::from_fn(Spec::new(DType::I32, [v.len()]), |i| v[i]);
            let map = ChunkMap { rows }.reference(&[ints(&sizes), ints(&order)]);
            for inverse in [false, true] {
                let dtype = if inverse { DType::I64 } else { DType::I32 };
                let d = chunks(map[0].data.clone(), dtype);
                let args = vec![SampleArg::any([rows, h]), d];
                all.push(Sample::new(Self { probs: false, inverse }, args.clone()));
                let p = SampleArg::range([rows], 0.0, 1.0);
                all.push(Sample::new(Self { probs: true, inverse }, [args, vec![p]].concat()));
            }
        }
        // Rows of several units for each thread; probabilities of another dtype.
        let d = chunks((0..9).map(|r| f64::from((r + 4) % 9)).collect(), DType::I32);
        let p = SampleArg::with(Some(DType::F32), [9], Data::Range(0.0, 1.0));
        all.push(Sample::new(Self { probs: true, inverse: false }, vec![SampleArg::any([9, 2304]), d, p]));
        let d = |n: usize| SampleArg::with(Some(DType::I32), [n], Data::Int(0, 1));
        let any = || SampleArg::any([4, 8]);
        let with = Self { probs: true, inverse: false };
        all.extend([
            Sample::bad(*self, vec![any(), d(3)], "arg 1 is [3]; it must be [4]"),
            Sample::bad(*self, vec![any(), SampleArg::any([4])], "it must be i32 or i64"),
            Sample::bad(*self, vec![SampleArg::any([4]), d(4)], "arg 0 has rank 1; it must be 2"),
            Sample::bad(*self, vec![any()], "takes 2 arguments (x, d), got 1"),
            Sample::bad(with, vec![any(), d(4), SampleArg::any([3])], "arg 2 is [3]; it must be [4]"),
        ]);
        all
    }
}

fn places<I: Element>(call: &Call<'_>) -> Result<(), Rule> {
    let (sizes, order, mut d) = (Numbers::of(call, 0)?, Numbers::of(call, 1)?, call.output::<I>(0)?);
    let (chunks, rows) = (call.elements(0)?, d.elements());
    let place = &mut call.workspace::<i64>()?[..chunks];
    let number = |n: i64| I::from_f64(n as f64);
    for r in 0..rows {
        d.set_flat(r, number(r as i64));
    }
    place.fill(-1);
    let mut next = 0i64;
    for j in 0..chunks {
        let chunk = order.at(&[j]);
        let Some(index) = usize::try_from(chunk).ok().filter(|&c| c < chunks) else {
            call.flag(j, chunk, chunks);
            return Ok(());
        };
        let size = sizes.at(&[index]);
        if size < 0 {
            call.flag(index, size, rows + 1);
            return Ok(());
        }
        place[index] = next;
        next = next.saturating_add(size);
    }
    if let Some(missed) = place.iter().position(|&p| p < 0) {
        call.flag(missed, -1, chunks);
        return Ok(());
    }
    if next > rows as i64 {
        call.flag(chunks, next, rows + 1);
        return Ok(());
    }
    let mut from = 0;
    for (chunk, &place) in place.iter().enumerate() {
        let size = sizes.at(&[chunk]);
        for i in 0..size {
            d.set_flat((from + i) as usize, number(place + i));
        }
        from += size;
    }
    Ok(())
}

/// A number of the map, if it is one of `0..rows`.
fn target(d: &Numbers<'_>, r: usize, rows: usize) -> Option<usize> {
    usize::try_from(d.at(&[r])).ok().filter(|&n| n < rows)
}

fn rows<T: Element>(op: &SortChunks, call: &Call<'_>) -> Result<(), Rule> {
    let (x, d, mut y) = (call.input::<T>(0)?, Numbers::of(call, 1)?, call.output::<T>(0)?);
    let (rows, columns) = (x.outer(), x.cols());
    if let Some(r) = (0..rows).find(|&r| target(&d, r, rows).is_none()) {
        call.flag(r, d.at(&[r]), rows);
    }
    if op.inverse {
        call.parallel(y, rows, grain(columns), |start, mut part| {
            for r in 0..part.outer() {
                match target(&d, start + r, rows) {
                    Some(from) => copy_row(x.row(from), &mut part.row_mut(r)),
                    None => part.row_mut(r).fill(T::from_f64(0.0)),
                }
            }
        });
        return Ok(());
    }
    for r in 0..rows {
        if let Some(to) = target(&d, r, rows) {
            copy_row(x.row(r), &mut y.row_mut(to));
        }
    }
    Ok(())
}

fn probs<P: Element>(op: &SortChunks, call: &Call<'_>) -> Result<(), Rule> {
    let (d, p, mut py) = (Numbers::of(call, 1)?, call.input::<P>(2)?, call.output::<P>(1)?);
    let rows = p.elements();
    for r in 0..rows {
        match target(&d, r, rows) {
            Some(other) if op.inverse => py.set_flat(r, p.flat(other)),
            Some(other) => py.set_flat(other, p.flat(r)),
            None if op.inverse => py.set_flat(r, P::from_f64(0.0)),
            None => {}
        }
    }
    Ok(())
}
