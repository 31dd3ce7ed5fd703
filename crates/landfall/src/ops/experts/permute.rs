//! Rows of tokens brought into the order of a map: forward of the permutation family, and its backward.

mod cuda;

use super::routing::cuda::{Share, shares};
use super::routing::{Factors, Map, Routed, copy_row, grain, map_sizes, pairs, sizes, trial_map};
use super::unpermute::{PairProbs, Unpermute};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Spread, Tested, Value,
    arity, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::{Call, with_float};
use crate::ops::elementwise::scalar::{Affine, Cast, Compare, Comparison};
use crate::ops::experts::route_map::RouteMap;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec};
use cuda::Way;

op_list! { Permute }

op_attributes! {
    /// Copies the row of each token to the rows of its pairs: `y[R(t, e), :] = x[t, :]`, and with probabilities
    /// `py[R(t, e)] = p[t, e]`. Rows without a pair are zero.
    ///
    /// `x`: `[T, H]`, float; `map`: `[T, 2·most + 1]` and `source`: `[N]`, as [`RouteMap`](crate::ops::experts::route_map::RouteMap) gives them, i32 or
    /// i64; `p`: `[T, E]`, float of any dtype, where `probs` is set. Results: `y [N, H]` as `x`, and `py [N]` as `p`. Disjoint,
    /// every result and every argument: blocks write rows that others have yet to read. Gradient: [`Unpermute`] of the
    /// cotangent, a sum in the accumulation dtype from the highest expert down; of `p`, its rows' cotangents. A probability of
    /// 0 leaves its row as it is, so that the gradient is the exact adjoint; `drop_zero` zeroes it, and its gradient. A number
    /// of the map that is out of range is left out, and the next read on the host returns `Error::Index`. Errors: another
    /// dtype, rank or size. Deterministic. Source: Lepikhin et al., "GShard" (2020); Gale et al., "MegaBlocks" (2022).
    ///
    /// ```
    /// use landfall::{DType::F32, Engine, ops::Permute};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// // Token 0 goes to row 1, token 1 to row 0; row 2 is padding.
    /// let map = engine.tensor([2, 3], &[1i32, 1, 1, 0, 0, 1])?;
    /// let source = engine.tensor([3], &[1i32, 0, -1])?;
    /// let mut y = engine.empty(F32, [3, 2])?;
    /// engine.call(&Permute::default(), &[x.view(), map.view(), source.view()], &mut [y.view_mut()])?;
    /// assert_eq!(y.read::<f32>()?, [3.0, 4.0, 1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Permute(x, map, source, p if probs) {
        /// Whether probabilities are brought along.
        pub probs: bool = false,
        /// Whether a pair with a probability of 0 has a row of zeros. (As TransformerEngine does it, for those who come from
        /// there; `probs` must be set.)
        pub drop_zero: bool = false,
    }
}

impl Op for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        if self.drop_zero && !self.probs {
            return Err(Rule::Attribute {
                name: "drop_zero",
                value: 1.0,
                expected: "0 without probabilities",
            });
        }
        rules::float(args, &[0])?;
        let map = map_sizes(args, 1, 2)?;
        let [_, columns] = sizes(args, 0, "2")?;
        rules::same_dim(args, (0, 0), (1, 0))?;
        let y = Spec::new(args[0].dtype, [map.rows, columns]);
        if !self.probs {
            return Ok(Outputs::one(y));
        }
        rules::float(args, &[3])?;
        let [_, _] = sizes(args, 3, "2")?;
        rules::same_dim(args, (0, 0), (3, 0))?;
        Ok(Outputs::from([y, Spec::new(args[3].dtype, [map.rows])]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED; 2][..1 + usize::from(self.probs)]
    }
    fn body(&self) -> Body {
        Body::Opaque("its map lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("permute", &[], None, None))?;
            let (map, source) = (cx.inputs[1], cx.inputs[2]);
            let gx = match (cx.cotangents[0], cx.needs[0]) {
                (Some(gy), true) => {
                    let mut args = vec![gy, map, source];
                    if op.drop_zero {
                        args.push(present(cx.graph, cx.inputs[3])?);
                    }
                    Some(cx.graph.op1(Unpermute, &args)?)
                }
                _ => None,
            };
            let mut all = vec![gx, None, None];
            if op.probs {
                all.push(match (cx.cotangents[1], cx.needs[3]) {
                    (Some(gpy), true) => {
                        let experts = cx.graph.shape(cx.inputs[3]).last();
                        Some(cx.graph.op1(PairProbs { experts }, &[gpy, map])?)
                    }
                    _ => None,
                });
            }
            Ok(all)
        })
    }
    fn mixing(&self) -> Mixing {
        if self.probs { Mixing::Full } else { Mixing::Movement }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("permute", |op, call| {
                    let op = attributes::<Permute>(op)?;
                    with_float!(call, 0, T => rows::<T>(op, call))?;
                    if !op.probs {
                        return Ok(());
                    }
                    with_float!(call, 3, P => probs::<P>(call))
                }),
                Kernel::cuda("permute", |op, call| cuda::permute(op, call, None))
                    .with_workspace(cuda::workspace),
                Kernel::cuda("permute_half", |op, call| {
                    cuda::permute(op, call, Some(Way::Teams(Share::Half)))
                })
                .accepting(shares),
                Kernel::cuda("permute_twice", |op, call| {
                    cuda::permute(op, call, Some(Way::Teams(Share::Twice)))
                })
                .accepting(shares),
                Kernel::cuda("permute_together", |op, call| cuda::permute(op, call, Some(Way::Together)))
                    .accepting(cuda::whole_rows)
                    .with_workspace(cuda::workspace),
            ]
        }
    }
    fn trial(&self, args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
        trial_map(args, spread)
    }
}

impl Tested for Permute {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let mut out: Vec<HostTensor> = outputs.iter().map(|&s| HostTensor::from_fn(s, |_| 0.0)).collect();
        let h = args[0].spec.shape.last();
        for pair in pairs(&args[1]) {
            let p = args.get(3).map(|p| p.data[pair.token * p.spec.shape.last() + pair.expert]);
            if !(self.drop_zero && p == Some(0.0)) {
                out[0].data[pair.row * h..][..h].copy_from_slice(&args[0].data[pair.token * h..][..h]);
            }
            if let Some(p) = p {
                out[1].data[pair.row] = p;
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let plain = Self::default();
        let with = Self { probs: true, drop_zero: false };
        let mut all = Vec::new();
        for (routed, h) in Routed::several().into_iter().zip([3, 1, 8, 40, 24, 16, 7]) {
            let args = vec![SampleArg::any([routed.tokens, h]), routed.map(), routed.source()];
            all.push(Sample::new(plain, args.clone()));
            let p = SampleArg::range([routed.tokens, routed.experts], 0.0, 1.0);
            all.push(Sample::new(with, [args, vec![p]].concat()));
        }
        // Rows of several units for each thread; probabilities of another dtype, of which many are 0 and −0.
        let routed = Routed::new([12, 6], RouteMap { most: 2, rows: 40, align: 4, ..Default::default() });
        let args = vec![SampleArg::any([12, 2304]), routed.map(), routed.source()];
        all.push(Sample::new(plain, args));
        let args = vec![SampleArg::any([12, 9]), routed.map(), routed.source()];
        let zeros = (0..72).map(|i| [0.25, 0.0, -0.0, 0.75, 1.0][i % 5]).collect();
        let p = SampleArg::with(Some(DType::F32), [12, 6], Data::Exact(zeros));
        for op in [with, Self { drop_zero: true, ..with }] {
            all.push(Sample::new(op, [args.clone(), vec![p.clone()]].concat()));
        }
        let int = |shape: [usize; 2]| SampleArg::with(Some(DType::I32), shape, Data::Int(0, 1));
        let source = |n: usize| SampleArg::with(Some(DType::I32), [n], Data::Int(0, 1));
        let any = || SampleArg::any([4, 8]);
        let p = |shape: [usize; 2]| SampleArg::range(shape, 0.0, 1.0);
        all.extend([
            Sample::bad(plain, vec![any(), int([3, 3]), source(4)], "arg 0 axis 0 is 4, arg 1 axis 0 is 3"),
            Sample::bad(
                plain,
                vec![any(), int([4, 4]), source(4)],
                "the width of the map is 4; it must be 2 · most",
            ),
            Sample::bad(plain, vec![any(), any(), source(4)], "it must be i32 or i64"),
            Sample::bad(plain, vec![any(), int([4, 3]), int([4, 1])], "arg 2 has rank 2; it must be 1"),
            Sample::bad(plain, vec![int([4, 3]), int([4, 3]), source(4)], "it must be f32, f64, bf16 or f16"),
            Sample::bad(plain, vec![any()], "takes 3 arguments (x, map, source), got 1"),
            Sample::bad(
                with,
                vec![any(), int([4, 3]), source(4)],
                "takes 4 arguments (x, map, source, p), got 3",
            ),
            Sample::bad(
                with,
                vec![any(), int([4, 3]), source(4), p([5, 2])],
                "arg 0 axis 0 is 4, arg 3 axis 0 is 5",
            ),
            Sample::bad(
                Self { probs: false, drop_zero: true },
                vec![any(), int([4, 3]), source(4)],
                "drop_zero is 1; it must be 0 without probabilities",
            ),
        ]);
        all
    }
}

/// 1 where a probability is not 0, else 0.
fn present(graph: &Graph, p: Value) -> Result<Value, Error> {
    let spec = graph.spec(p);
    let zero = graph.fill(spec.dtype, spec.shape, 0.0)?;
    let absent = graph.op1(Compare { comparison: Comparison::Equal }, &[p, zero])?;
    let absent = graph.op1(Cast { dtype: spec.dtype }, &[absent])?;
    graph.op1(Affine { mul: -1.0, add: 1.0 }, &[absent])
}

fn rows<T: Element>(op: &Permute, call: &Call<'_>) -> Result<(), Rule> {
    let (x, y) = (call.input::<T>(0)?, call.output::<T>(0)?);
    let p = if op.probs { Some(Factors::of(call, 3)?) } else { None };
    let map = Map::new(call, [1, 2], p.as_ref())?;
    let (rows, columns) = (y.outer(), y.cols());
    let dropped = |token, expert| op.drop_zero && p.is_some_and(|p| p.at(&[token, expert]) == 0.0);
    call.parallel(y, rows, grain(columns), |start, mut part| {
        for r in 0..part.outer() {
            let mut to = part.row_mut(r);
            match map.of_row(start + r) {
                Some(pair) if !dropped(pair.token, pair.expert) => copy_row(x.row(pair.token), &mut to),
                _ => to.fill(T::from_f64(0.0)),
            }
        }
    });
    Ok(())
}

fn probs<P: Element>(call: &Call<'_>) -> Result<(), Rule> {
    let (p, mut py) = (call.input::<P>(3)?, call.output::<P>(1)?);
    let map = Map::new(call, [1, 2], Some(&Factors::of(call, 3)?))?;
    for r in 0..py.elements() {
        let value = map.of_row(r).map_or(P::from_f64(0.0), |pair| p.at(&[pair.token, pair.expert]));
        py.set_flat(r, value);
    }
    Ok(())
}
