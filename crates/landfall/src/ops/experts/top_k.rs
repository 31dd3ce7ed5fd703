//! The choice of each token's experts.

mod cuda;

use super::routing::sizes;
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::{Call, Row, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Keep, Rule, Spec};
use std::cmp::Ordering;

op_list! { TopK, TopKGrad }

op_attributes! {
    /// Chooses the `k` experts of the largest probabilities of each token: `routed[t, e] = 1` for these, and
    /// `weights[t, e] = p[t, e] / Σ_chosen p[t, ·]` for these, with `renormalise` off `p[t, e]`, 0 for the others.
    ///
    /// `p`: `[T, E]`, float, usually of a softmax. Results: `routed [T, E]`, bool; `weights [T, E]` as `p`. Of equal
    /// probabilities the one of the lower index comes first; NaN comes behind every number. The sum runs in the accumulation
    /// dtype, the largest first. Disjoint. Gradient: [`TopKGrad`], of the weights, with the choice held fast. Errors: another
    /// dtype or rank, `k` of 0 or above E. Deterministic. Source: Shazeer et al., "Outrageously Large Neural Networks" (2017).
    ///
    /// ```
    /// use landfall::{DType::{Bool, F32}, Engine, ops::TopK};
    /// let engine = Engine::cpu()?;
    /// let p = engine.tensor([1, 4], &[0.125f32, 0.5, 0.25, 0.125])?;
    /// let (mut routed, mut weights) = (engine.empty(Bool, [1, 4])?, engine.empty(F32, [1, 4])?);
    /// let op = TopK { k: 2, renormalise: true };
    /// engine.call(&op, &[p.view()], &mut [routed.view_mut(), weights.view_mut()])?;
    /// assert_eq!(weights.read::<f32>()?, [0.0, 0.5 / 0.75, 0.25 / 0.75, 0.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct TopK(p) {
        /// Experts of each token.
        pub k: usize = 2 => required,
        /// Whether the chosen probabilities are divided by their sum.
        pub renormalise: bool = true => required,
    }
}

op_attributes! {
    /// Gradient of [`TopK`]'s weights to the probabilities: with `S = Σ_chosen p[t, ·]`,
    /// `out[t, e] = (gw[t, e] − Σ_chosen gw[t, ·] · p[t, ·] / S) / S` where e is chosen, 0 elsewhere; `gw[t, e]` there where the
    /// weights are not divided by their sum.
    ///
    /// `p`: `[T, E]`, float; `routed`: `[T, E]`, bool; `gw`: as `p`. Result as `p`. Sums in the accumulation dtype. Disjoint.
    /// Gradient: through the body. Errors: other dtypes or shapes. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct TopKGrad(p, routed, gw) {
        /// Whether the weights were divided by their sum.
        pub renormalise: bool = true => required,
    }
}

/// Which of two elements comes first.
fn order((a, i): (f64, usize), (b, j): (f64, usize)) -> Ordering {
    // A comparison fails for NaN only.
    let values = b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
    values.then(i.cmp(&j))
}

impl Op for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [p]: [Spec; 1] = rules::arity(self, args)?;
        rules::float(args, &[0])?;
        let [_, experts] = sizes(args, 0, "2")?;
        if self.k == 0 || self.k > experts {
            let expected = "at least 1 and at most the number of experts";
            return Err(Rule::Attribute { name: "k", value: self.k as f64, expected });
        }
        Ok(Outputs::from([Spec { dtype: DType::Bool, ..p }, p]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED; 2]
    }
    fn body(&self) -> Body {
        Body::Opaque("it sorts")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("top_k", &[], None, None))?;
            let Some(gw) = cx.cotangents[1] else { return Ok(vec![None]) };
            let back = TopKGrad { renormalise: op.renormalise };
            Ok(vec![Some(cx.graph.op1(back, &[cx.inputs[0], cx.outputs[0], gw])?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("top_k", |op, call| {
                    let op = attributes::<TopK>(op)?;
                    with_float!(call, 0, T => choose::<T>(op, call))
                }),
                Kernel::cuda("top_k", cuda::top_k),
            ]
        }
    }
}

impl Tested for TopK {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (p, experts) = (&args[0], args[0].spec.shape.last());
        let spec = Spec { dtype: DType::Bool, ..p.spec };
        let mut out = vec![HostTensor::from_fn(spec, |_| 0.0), HostTensor::from_fn(p.spec, |_| 0.0)];
        for (t, row) in p.data.chunks(experts).enumerate() {
            let mut ordered: Vec<usize> = (0..experts).collect();
            ordered.sort_by(|&i, &j| order((row[i], i), (row[j], j)));
            let sum: f64 = ordered[..self.k].iter().map(|&e| row[e]).sum();
            for &e in &ordered[..self.k] {
                out[0].data[t * experts + e] = 1.0;
                out[1].data[t * experts + e] = if self.renormalise { row[e] / sum } else { row[e] };
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let p = |t: usize, e: usize| SampleArg::range([t, e], 0.01, 1.0);
        let case = |k, renormalise, arg| Sample::new(Self { k, renormalise }, vec![arg]);
        // Equal values beside each other, and far apart.
        let ties = (0..3 * 40).map(|i| [0.5, 0.25, 0.5, 0.125][i % 4]).collect();
        vec![
            case(2, true, p(0, 3)),
            case(1, true, p(1, 1)),
            case(1, true, p(5, 4)),
            case(2, true, p(7, 5)),
            case(2, false, p(7, 5)),
            case(4, true, p(3, 4)),
            case(8, true, p(20, 33)),
            case(6, false, p(9, 256)),
            case(7, true, SampleArg::with(None, [3, 40], Data::Exact(ties))),
            Sample::bad(Self { k: 5, ..*self }, vec![p(2, 4)], "k is 5; it must be at least 1 and at most"),
            Sample::bad(Self { k: 0, ..*self }, vec![p(2, 4)], "k is 0; it must be at least 1"),
            Sample::bad(*self, vec![SampleArg::any([4])], "arg 0 has rank 1; it must be 2"),
            Sample::bad(
                *self,
                vec![SampleArg::with(Some(DType::I32), [4, 4], Data::Int(0, 9))],
                "it must be f32, f64, bf16 or f16",
            ),
        ]
    }
}

impl Op for TopKGrad {
    fn name(&self) -> &'static str {
        "top_k_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::dtype(&args, 1, DType::Bool)?;
        rules::same_dtype(&args, 0, 2)?;
        let [_, _] = sizes(&args, 0, "2")?;
        rules::same_shape(&args, 0, 1)?;
        rules::same_shape(&args, 0, 2)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Fused(|op, g, args| {
            let Self { renormalise } =
                *attributes::<Self>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
            let dtype = g.spec(args[0]).dtype;
            let routed = args[1];
            let chosen =
                |v| g.select(routed, g.cast(v, dtype.accumulate())?, g.fill(dtype.accumulate(), [], 0.0)?);
            let (p, gw) = (chosen(args[0])?, chosen(args[2])?);
            if !renormalise {
                return Ok(vec![g.cast(gw, dtype)?]);
            }
            let sum = g.sum(p, Keep(-1))?;
            // A token that chose none has no sum to divide by.
            let sum = g.masked_fill(sum, g.equal(sum, g.scalar(sum, 0.0)?)?, 1.0)?;
            let mean = g.div(g.sum(g.mul(gw, p)?, Keep(-1))?, sum)?;
            Ok(vec![g.cast(chosen(g.div(g.sub(gw, mean)?, sum)?)?, dtype)?])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("top_k_grad", |op, call| {
                    let op = attributes::<TopKGrad>(op)?;
                    with_float!(call, 0, T => backward::<T>(op, call))
                }),
                Kernel::cuda("top_k_grad", cuda::top_k_grad),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(6)
    }
}

impl Tested for TopKGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (p, routed, gw) = (&args[0].data, &args[1].data, &args[2].data);
        let experts = args[0].spec.shape.last();
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let row = i / experts * experts..(i / experts + 1) * experts;
            let chosen = || row.clone().filter(|&j| routed[j] != 0.0);
            let sum: f64 = chosen().map(|j| p[j]).sum();
            let others: f64 = chosen().map(|j| p[j] * (gw[i] - gw[j])).sum();
            match (routed[i] != 0.0, self.renormalise) {
                (false, _) => 0.0,
                (true, false) => gw[i],
                (true, true) => others / sum / sum,
            }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |t: usize, e: usize, each: usize, renormalise| {
            // One of `each` is chosen, and in each row the first.
            let chosen =
                (0..t * e).map(|i| f64::from(u8::from(i % e == 0 || (i * 7 + i / e).is_multiple_of(each))));
            let routed = SampleArg::with(Some(DType::Bool), [t, e], Data::Exact(chosen.collect()));
            let args = vec![SampleArg::range([t, e], 0.1, 1.0), routed, SampleArg::any([t, e])];
            Sample::new(Self { renormalise }, args)
        };
        let bools = |t: usize, e: usize| SampleArg::with(Some(DType::Bool), [t, e], Data::Int(0, 2));
        let any = || SampleArg::any([3, 4]);
        vec![
            case(0, 3, 2, true),
            // Divided by their sum the result of one is 0, whose differences are rounding alone.
            case(1, 1, 1, false),
            case(7, 5, 2, true),
            case(7, 5, 2, false),
            case(4, 256, 32, true),
            Sample::bad(*self, vec![any(), bools(3, 5), any()], "their shapes must be equal"),
            Sample::bad(*self, vec![any(), any(), any()], "it must be bool"),
            Sample::bad(*self, vec![any(), bools(3, 4)], "takes 3 arguments (p, routed, gw), got 2"),
        ]
    }
}

fn choose<T: Element>(op: &TopK, call: &Call<'_>) -> Result<(), Rule> {
    let p = call.input::<T>(0)?;
    let (routed, weights) = (call.output::<u8>(0)?, call.output::<T>(1)?);
    let (tokens, experts) = (p.outer(), p.cols());
    call.parallel((routed, weights), tokens, 64, |start, (mut routed, mut weights)| {
        for t in 0..routed.outer() {
            let row = p.row(start + t);
            let (mut chosen, mut out) = (routed.row_mut(t), weights.row_mut(t));
            chosen.fill(0);
            out.fill(T::from_f64(0.0));
            let first = (0..op.k).scan(None, |last, _| {
                *last = next(&row, experts, *last);
                *last
            });
            let sum: f64 = first.map(|(value, _)| value).sum();
            let mut last = None;
            for _ in 0..op.k {
                last = next(&row, experts, last);
                if let Some((value, e)) = last {
                    chosen.set(e, 1);
                    out.set(e, T::from_f64(if op.renormalise { value / sum } else { value }));
                }
            }
        }
    });
    Ok(())
}

/// The first element of a row behind the last one.
fn next<T: Element>(row: &Row<'_, T>, experts: usize, last: Option<(f64, usize)>) -> Option<(f64, usize)> {
    let all = (0..experts).map(|e| (row.get(e).to_f64(), e));
    let behind = all.filter(|&x| last.is_none_or(|last| order(last, x) == Ordering::Less));
    behind.min_by(|&a, &b| order(a, b))
}

fn backward<T: Element>(op: &TopKGrad, call: &Call<'_>) -> Result<(), Rule> {
    let (p, routed, gw) = (call.input::<T>(0)?, call.input::<u8>(1)?, call.input::<T>(2)?);
    let out = call.output::<T>(0)?;
    let (tokens, experts) = (p.outer(), p.cols());
    call.parallel(out, tokens, 64, |start, mut part| {
        for t in 0..part.outer() {
            let at = start + t;
            let (p, routed, gw) = (p.row(at), routed.row(at), gw.row(at));
            // Cotangents count from the first chosen one's: of equal ones nothing is left over.
            let chosen = |e: &usize| routed.get(*e) != 0;
            let base = (0..experts).find(chosen).map_or(0.0, |e| gw.get(e).to_f64());
            let (mut sum, mut along) = (0.0, 0.0);
            for e in (0..experts).filter(chosen) {
                sum += p.get(e).to_f64();
                along += p.get(e).to_f64() * (gw.get(e).to_f64() - base);
            }
            let mut out = part.row_mut(t);
            for e in 0..experts {
                let g = gw.get(e).to_f64();
                let slope = match (routed.get(e) != 0, op.renormalise) {
                    (false, _) => 0.0,
                    (true, false) => g,
                    (true, true) => (g - base - along / sum) / sum,
                };
                out.set(e, T::from_f64(slope));
            }
        }
    });
    Ok(())
}
