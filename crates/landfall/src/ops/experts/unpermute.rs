//! Rows of a map brought back to their tokens, and what flows back through it.

mod cuda;

use super::permute::Permute;
use super::routing::cuda::{Share, shares};
use super::routing::{
    Factors, Map, Numbers, Pairs, Routed, grain, is_index, map_sizes, pairs, sizes, trial_map,
};
use crate::contract::{
    Body, Cost, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Spread, Tested, Value,
    arity, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{TILE, sum2};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, with_float};
use crate::ops::experts::route_map::RouteMap;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, with_dtype};

op_list! { PairProbs, Unpermute, UnpermuteGrad }

op_attributes! {
    /// Adds up the rows of each token: `z[t, :] = Σ_e w[t, e] · y[R(t, e), :]`, without weights `Σ_e y[R(t, e), :]`; a token
    /// without a pair has zeros. Forward of the merging, and backward of [`Permute`].
    ///
    /// `y`: `[N, H]`, float; `map`: `[T, 2·most + 1]` and `source`: `[N]`, as [`RouteMap`](crate::ops::experts::route_map::RouteMap) gives them, i32 or
    /// i64; `w`: `[T, E]`, float of any dtype, or left out. Result: `[T, H]` as `y`. (`source` is for the gradient.) The sum
    /// runs in the accumulation dtype from the highest expert down, and is rounded once. Disjoint. Gradient:
    /// [`UnpermuteGrad`], without weights [`Permute`] of the cotangent. A number of the map that is out of range is left out,
    /// and the next read on the host returns `Error::Index`. Errors: another dtype, rank or size. Deterministic.
    ///
    /// ```
    /// use landfall::{DType::F32, Engine, ops::Unpermute};
    /// let engine = Engine::cpu()?;
    /// let y = engine.tensor([3, 2], &[3.0f32, 4.0, 1.0, 2.0, 0.0, 0.0])?;
    /// let map = engine.tensor([2, 3], &[1i32, 1, 1, 0, 0, 1])?;
    /// let source = engine.tensor([3], &[1i32, 0, -1])?;
    /// let mut z = engine.empty(F32, [2, 2])?;
    /// engine.call(&Unpermute, &[y.view(), map.view(), source.view()], &mut [z.view_mut()])?;
    /// assert_eq!(z.read::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Unpermute(y, map, source, w or none);
}

op_attributes! {
    /// Gradient of a weighted [`Unpermute`]: `gy[R(t, e), :] = w[t, e] · gz[t, :]`, zero in rows without a pair, and
    /// `gw[t, e] = Σ_h y[R(t, e), h] · gz[t, h]`, 0 where t does not go to e.
    ///
    /// Arguments: `y`, `map`, `source`, `w` as there, and `gz [T, H]` as `y`. Results: `gy` as `y`, `gw` as `w`. Sums in the
    /// accumulation dtype. Disjoint, every result and every argument. Gradient: through the body. Errors and numbers out of range as
    /// there. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct UnpermuteGrad(y, map, source, w, gz);
}

op_attributes! {
    /// The values of rows, by token and expert: `out[t, e] = v[R(t, e)]`, 0 where t does not go to e. Gradient of
    /// [`Permute`]'s probabilities.
    ///
    /// `v`: `[N]`, float; `map`: `[T, 2·most + 1]`, i32 or i64. Result: `[T, experts]` as `v`. Disjoint. Gradient: through the body.
    /// Errors and numbers out of range as [`Permute`]. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct PairProbs(v, map) {
        /// Number of experts.
        pub experts: usize = 4 => required,
    }
}

impl Op for Unpermute {
    fn name(&self) -> &'static str {
        "unpermute"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let (tokens, columns) = merged(args)?;
        Ok(Outputs::one(Spec::new(args[0].dtype, [tokens, columns])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("its map lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (map, source, gz) = (cx.inputs[1], cx.inputs[2], cx.cotangent()?);
            let Some(&w) = cx.inputs.get(3) else {
                let gy = cx.graph.op1(Permute::default(), &[gz, map, source])?;
                return Ok(vec![Some(gy), None, None]);
            };
            let both = cx.graph.op(UnpermuteGrad, &[cx.inputs[0], map, source, w, gz])?;
            Ok(vec![Some(both[0]), None, None, Some(both[1])])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("unpermute", |_, call| with_float!(call, 0, T => merge::<T>(call))),
                Kernel::cuda("unpermute", cuda::unpermute),
                Kernel::cuda("unpermute_half", |op, call| cuda::unpermute_by(op, call, Share::Half))
                    .accepting(shares),
                Kernel::cuda("unpermute_twice", |op, call| cuda::unpermute_by(op, call, Share::Twice))
                    .accepting(shares),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // A product and a sum for each element of a row.
        args[0].shape.elements().saturating_mul(2)
    }
    fn bytes(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // The kernel does not read `source`.
        Cost::bytes_of(args, outputs) - args[2].bytes()
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        trial_map(args, spread)
    }
}

impl Tested for Unpermute {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (h, t) = (args[0].spec.shape.last(), args[1].dims()[0]);
        let mut z = HostTensor::from_fn(Spec::new(args[0].spec.dtype, [t, h]), |_| 0.0);
        for pair in pairs(&args[1]) {
            let w = args.get(3).map_or(1.0, |w| w.data[pair.token * w.spec.shape.last() + pair.expert]);
            (0..h).for_each(|i| z.data[pair.token * h + i] += w * args[0].data[pair.row * h + i]);
        }
        vec![z]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for (y, rest, w) in arguments() {
            all.push(Sample::new(*self, [vec![y.clone()], rest.clone()].concat()));
            all.push(Sample::new(*self, [vec![y], rest, vec![w]].concat()));
        }
        let int = |shape: [usize; 2]| SampleArg::with(Some(DType::I32), shape, Data::Int(0, 1));
        let source = |n: usize| SampleArg::with(Some(DType::I32), [n], Data::Int(0, 1));
        let any = |rows: usize| SampleArg::any([rows, 8]);
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![any(5), int([4, 3]), source(6)], "arg 0 axis 0 is 5, arg 2 axis 0 is 6"),
            bad(vec![any(6), int([4, 2]), source(6)], "the width of the map is 2; it must be 2 · most + 1"),
            bad(vec![any(6), int([4, 3]), source(6), any(5)], "arg 1 axis 0 is 4, arg 3 axis 0 is 5"),
            bad(vec![any(6), int([4, 3]), source(6), int([4, 2])], "it must be f32, f64, bf16 or f16"),
            bad(vec![any(6)], "takes 3 or 4 arguments (y, map, source, w), got 1"),
        ]);
        all
    }
}

/// Checks rows, a map, its inverse and, where there are any, weights; the numbers of tokens and columns.
fn merged(args: &[Spec]) -> Result<(usize, usize), Rule> {
    rules::float(args, &[0])?;
    let map = map_sizes(args, 1, 2)?;
    let [_, columns] = sizes(args, 0, "2")?;
    rules::same_dim(args, (0, 0), (2, 0))?;
    if args.len() > 3 {
        rules::float(args, &[3])?;
        let [_, _] = sizes(args, 3, "2")?;
        rules::same_dim(args, (1, 0), (3, 0))?;
    }
    Ok((map.tokens, columns))
}

/// Rows, map and inverse, and weights of samples.
fn arguments() -> Vec<(SampleArg, Vec<SampleArg>, SampleArg)> {
    let case = |routed: &Routed, h, dtype| {
        let w = SampleArg::with(dtype, [routed.tokens, routed.experts], Data::Range(-1.0, 1.0));
        (SampleArg::any([routed.rows, h]), vec![routed.map(), routed.source()], w)
    };
    let several = Routed::several().into_iter().zip([3, 1, 8, 40, 24, 16, 7]);
    let mut all: Vec<_> = several.map(|(routed, h)| case(&routed, h, None)).collect();
    // Rows of several units for each thread; many pairs of a token; weights of another dtype, some 0 and −0.
    let routed = Routed::new([9, 14], RouteMap { most: 11, rows: 130, align: 4, ..Default::default() });
    all.push(case(&routed, 2304, Some(DType::F32)));
    let (y, rest, _) = case(&routed, 9, None);
    let zeros = (0..9 * 14).map(|i| [0.25, 0.0, -0.0, 0.75, -1.0][i % 5]).collect();
    all.push((y, rest, SampleArg::with(None, [9, 14], Data::Exact(zeros))));
    all
}

impl Op for UnpermuteGrad {
    fn name(&self) -> &'static str {
        "unpermute_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 5] = rules::arity(self, args)?;
        let (tokens, columns) = merged(&args[..4])?;
        rules::same_dtype(&args, 0, 4)?;
        rules::shape(&args, 4, [tokens, columns])?;
        Ok(Outputs::from([args[0], args[3]]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED; 2]
    }
    fn body(&self) -> Body {
        Body::Fused(|_, g, args| gradient_body(g, args))
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("unpermute_grad", |_, call| {
                    with_float!(call, 0, T => spread::<T>(call))?;
                    with_float!(call, 0, T => products::<T>(call))
                }),
                Kernel::cuda("unpermute_grad", cuda::unpermute_grad),
                Kernel::cuda("unpermute_grad_half", |op, call| {
                    cuda::unpermute_grad_by(op, call, Share::Half)
                })
                .accepting(shares),
                Kernel::cuda("unpermute_grad_twice", |op, call| {
                    cuda::unpermute_grad_by(op, call, Share::Twice)
                })
                .accepting(shares),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // A product for each element, and a product and a sum for the weights.
        args[0].shape.elements().saturating_mul(3)
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        trial_map(args, spread)
    }
}

/// The gradient of a weighted merging in other ops.
fn gradient_body(g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let (rows, weights) = (g.spec(args[0]), g.spec(args[3]));
    let wide = |v| g.cast(v, rows.dtype.accumulate());
    let pairs = Pairs::of(g, args[1])?;
    let cells = g.shape(pairs.rows);
    let column = |v| g.reshape(v, [cells.dims()[0], cells.last(), 1]);
    let gz = g.reshape(wide(args[4])?, [cells.dims()[0], 1, rows.shape.last()])?;
    let factors = pairs.picked(g, wide(args[3])?)?;
    let zeros = g.fill(rows.dtype.accumulate(), rows.shape, 0.0)?;
    let gy = g.index_add(zeros, 0, pairs.rows, g.mul(column(factors)?, gz)?)?;
    let products = g.sum(g.mul(g.take(wide(args[0])?, 0, pairs.rows)?, gz)?, -1)?;
    let gw = pairs.placed(g, products, weights.shape.last())?;
    Ok(vec![g.cast(gy, rows.dtype)?, g.cast(gw, weights.dtype)?])
}

impl Tested for UnpermuteGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (y, w, gz) = (&args[0], &args[3], &args[4]);
        let (h, e) = (y.spec.shape.last(), w.spec.shape.last());
        let mut out = vec![HostTensor::from_fn(y.spec, |_| 0.0), HostTensor::from_fn(w.spec, |_| 0.0)];
        for pair in pairs(&args[1]) {
            let at = pair.token * e + pair.expert;
            for i in 0..h {
                let g = gz.data[pair.token * h + i];
                out[0].data[pair.row * h + i] = w.data[at] * g;
                out[1].data[at] += y.data[pair.row * h + i] * g;
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |(y, rest, w): (SampleArg, Vec<SampleArg>, SampleArg)| {
            let gz = SampleArg::any([rest[0].shape.dims()[0], y.shape.last()]);
            Sample::new(*self, [vec![y], rest, vec![w, gz]].concat())
        };
        let mut all: Vec<Sample> = arguments().into_iter().map(case).collect();
        let int = |shape: [usize; 2]| SampleArg::with(Some(DType::I32), shape, Data::Int(0, 1));
        let source = SampleArg::with(Some(DType::I32), [6], Data::Int(0, 1));
        let any = |rows: usize| SampleArg::any([rows, 8]);
        let bad = |args, text| Sample::bad(*self, args, text);
        all.push(bad(
            vec![any(6), int([4, 3]), source.clone(), any(4), any(5)],
            "arg 4 is [5, 8]; it must be [4, 8]",
        ));
        all.push(bad(
            vec![any(6), int([4, 3]), source, any(4)],
            "takes 5 arguments (y, map, source, w, gz), got 4",
        ));
        all
    }
}

impl Op for PairProbs {
    fn name(&self) -> &'static str {
        "pair_probs"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        is_index(&args, 1)?;
        let [_] = sizes(&args, 0, "1")?;
        let [tokens, _] = sizes(&args, 1, "2")?;
        map_sizes(&[args[1], Spec { shape: args[0].shape, ..args[1] }], 0, 1)?;
        Ok(Outputs::one(Spec::new(args[0].dtype, [tokens, self.experts])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Fused(|op, g, args| {
            let Self { experts } =
                *attributes::<Self>(op).map_err(|r| r.of("pair_probs", &[], None, None))?;
            let pairs = Pairs::of(g, args[1])?;
            Ok(vec![pairs.placed(g, g.take(args[0], 0, pairs.rows)?, experts)?])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("pair_probs", |op, call| {
                    let op = attributes::<PairProbs>(op)?;
                    with_float!(call, 0, T => by_pair::<T>(op, call))
                }),
                Kernel::cuda("pair_probs", cuda::pair_probs),
            ]
        }
    }
}

impl Tested for PairProbs {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let spec = Spec::new(args[0].spec.dtype, [args[1].dims()[0], self.experts]);
        let mut out = HostTensor::from_fn(spec, |_| 0.0);
        for pair in pairs(&args[1]) {
            out.data[pair.token * self.experts + pair.expert] = args[0].data[pair.row];
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = Routed::several()
            .iter()
            .map(|routed| {
                let op = Self { experts: routed.experts };
                Sample::new(op, vec![SampleArg::any([routed.rows]), routed.map()])
            })
            .collect();
        let int = |shape: [usize; 2]| SampleArg::with(Some(DType::I32), shape, Data::Int(0, 1));
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![SampleArg::any([4, 1]), int([4, 3])], "arg 0 has rank 2; it must be 1"),
            bad(vec![SampleArg::any([4]), int([4, 4])], "the width of the map is 4"),
            bad(vec![SampleArg::any([4]), SampleArg::any([4, 3])], "it must be i32 or i64"),
        ]);
        all
    }
}

fn merge<T: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (y, z) = (call.input::<T>(0)?, call.output::<T>(0)?);
    let w = if call.inputs() > 3 { Some(Factors::of(call, 3)?) } else { None };
    let map = Map::new(call, [1, 2], w.as_ref())?;
    let (tokens, columns) = (z.outer(), z.cols());
    call.parallel(
        z,
        tokens,
        grain(columns),
        #[inline(always)]
        |start, mut part| {
            let (mut sum, mut tile) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            for t in 0..part.outer() {
                let mut to = part.row_mut(t);
                for from in (0..columns).step_by(TILE) {
                    let n = TILE.min(columns - from);
                    sum[..n].fill(T::Acc::default());
                    for pair in map.pairs(start + t) {
                        let factor = w.map_or(1.0, |w| w.at(&[pair.token, pair.expert]));
                        let factor = T::Acc::of_f64(factor);
                        y.row(pair.row).widen(from, &mut tile[..n]);
                        for (s, &v) in sum[..n].iter_mut().zip(&tile[..n]) {
                            *s = *s + factor * v;
                        }
                    }
                    to.narrow(from, &sum[..n]);
                }
            }
        },
    );
    Ok(())
}

/// `gy`.
fn spread<T: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (w, gz, gy) = (Factors::of(call, 3)?, call.input::<T>(4)?, call.output::<T>(0)?);
    let map = Map::new(call, [1, 2], Some(&w))?;
    let (rows, columns) = (gy.outer(), gy.cols());
    call.parallel(
        gy,
        rows,
        grain(columns),
        #[inline(always)]
        |start, mut part| {
            let mut tile = [T::Acc::default(); TILE];
            for r in 0..part.outer() {
                let mut to = part.row_mut(r);
                let Some(pair) = map.of_row(start + r) else {
                    to.fill(T::from_f64(0.0));
                    continue;
                };
                let factor = T::Acc::of_f64(w.at(&[pair.token, pair.expert]));
                for from in (0..columns).step_by(TILE) {
                    let tile = &mut tile[..TILE.min(columns - from)];
                    gz.row(pair.token).widen(from, tile);
                    tile.iter_mut().for_each(|v| *v = factor * *v);
                    to.narrow(from, tile);
                }
            }
        },
    );
    Ok(())
}

/// `gw`.
fn products<T: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let dtype = call.output_dtype(1)?;
    with_dtype!(float dtype, P => products_as::<T, P>(call),
        else Err(Rule::Dtype { arg: 3, dtype, expected: "a float" }))
}

fn products_as<T: Element, P: Element>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (y, gz, mut gw) = (call.input::<T>(0)?, call.input::<T>(4)?, call.output::<P>(1)?);
    let map = Map::new(call, [1, 2], Some(&Factors::of(call, 3)?))?;
    let columns = gz.cols();
    let (mut a, mut b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
    for t in 0..gw.outer() {
        let mut to = gw.row_mut(t);
        to.fill(P::from_f64(0.0));
        for pair in map.pairs(t) {
            let mut sum = 0.0;
            for from in (0..columns).step_by(TILE) {
                let n = TILE.min(columns - from);
                y.row(pair.row).widen(from, &mut a[..n]);
                gz.row(t).widen(from, &mut b[..n]);
                sum += sum2(&a[..n], &b[..n], |a, b| a * b).as_f64();
            }
            to.set(pair.expert, P::from_f64(sum));
        }
    }
    Ok(())
}

fn by_pair<T: Element>(op: &PairProbs, call: &Call<'_>) -> Result<(), Rule> {
    let (v, mut out) = (call.input::<T>(0)?, call.output::<T>(0)?);
    let map = Numbers::of(call, 1)?;
    let (&[tokens, width], rows) = (map.dims(), v.elements()) else { return Ok(()) };
    let most = width / 2;
    for t in 0..tokens {
        let mut to = out.row_mut(t);
        to.fill(T::from_f64(0.0));
        let number = |cell: usize, limit: usize| {
            let number = map.at(&[t, cell]);
            let known = usize::try_from(number).ok().filter(|&n| n < limit);
            if known.is_none() {
                call.flag(t * width + cell, number, limit);
            }
            known
        };
        // Where there cannot be as many pairs, those that can be are taken.
        let clamped = || map.at(&[t, 2 * most]).clamp(0, most as i64) as usize;
        for j in 0..number(2 * most, most + 1).unwrap_or_else(clamped) {
            if let (Some(row), Some(expert)) = (number(j, rows), number(most + j, op.experts)) {
                to.set(expert, v.flat(row));
            }
        }
    }
    Ok(())
}
