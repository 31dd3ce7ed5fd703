//! A tensor combined with those of the other ranks.

use super::cuda;
use super::exchange::{copied, elements, exchange, typed, write};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, ViewMut};
use crate::kernel::cuda::Collective;
use crate::ops::reduce::reduction::{Fold, Reduction};
use crate::values::{DType, DeviceKind, Element, HostTensor, Layout, Rule, Shape, Spec, with_dtype};
use std::borrow::Cow;
use std::sync::Arc;

op_list! { AllReduce }

/// Elements that one task combines.
const GRAIN: usize = 16 * 1024;

op_attributes! {
    /// `out[i] = x₀[i] ∘ x₁[i] ∘ … ` over the ranks' tensors: sum, mean, maximum, minimum or product. Every rank gets the same bytes.
    ///
    /// `x`: any shape, a number; result as `x`. In the order of the ranks in the accumulation dtype, rounded once; a mean is
    /// `Σ xᵣ/n`, the order and the rounding of [`MicroBatchMean`](crate::ops::MicroBatchMean), so that n ranks compute the bytes
    /// of n micro-batches on one. Sums and products of integers wrap. In place on `x`. Gradient: of a sum the sum of the ranks'
    /// cotangents, of a mean their mean; of the others none. Errors: bool, a mean of integers; a rank that does not come, or
    /// calls another op. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct AllReduce(x) {
        /// What is computed.
        pub reduction: Reduction = Reduction::Sum,
    }
}

/// Checks the dtype of what ranks combine.
pub(super) fn check(reduction: Reduction, args: &[Spec]) -> Result<(), Rule> {
    let dtype = args[0].dtype;
    match (dtype, reduction) {
        (DType::Bool, _) => Err(Rule::Dtype { arg: 0, dtype, expected: "a number" }),
        (_, Reduction::Mean) if !dtype.is_float() => Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }),
        _ => Ok(()),
    }
}

impl Op for AllReduce {
    fn name(&self) -> &'static str {
        "all_reduce"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        check(self.reduction, &args)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Opaque("other ranks take part")
    }
    fn collective(&self) -> bool {
        true
    }
    fn vjp(&self) -> Grad {
        match self.reduction {
            Reduction::Sum | Reduction::Mean => Grad::Rule(|op, cx| {
                let op = *attributes::<Self>(op).map_err(|r| r.of("all_reduce", &[], None, None))?;
                Ok(vec![Some(cx.graph.op1(op, &[cx.cotangent()?])?)])
            }),
            Reduction::Max | Reduction::Min | Reduction::Prod => {
                Grad::None("only sums and means over ranks have gradients")
            }
        }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("all_reduce", |op, call| {
                    let reduction = attributes::<AllReduce>(op)?.reduction;
                    with_dtype!(any call.dtype(0)?, T => run::<T>(op, reduction, call))
                }),
                Kernel::cuda("all_reduce", |op, call| {
                    let of = cuda::combination(attributes::<AllReduce>(op)?.reduction);
                    cuda::run(call, Collective::AllReduce(of), None)
                }),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements()
    }
}

impl Tested for AllReduce {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let shapes: &[&[usize]] = &[&[], &[0], &[1], &[3, 5], &[2, 3, 7], &[40_001]];
        let mut all = Vec::new();
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            for shape in shapes.iter().filter_map(|s| Shape::new(s)) {
                all.push(Sample::new(Self { reduction }, vec![SampleArg::any(shape)]));
            }
        }
        let whole = |dtype| SampleArg::with(Some(dtype), [5], Data::Int(0, 2));
        all.push(Sample::new(Self { reduction: Reduction::Prod }, vec![whole(DType::I64)]));
        all.push(Sample::bad(*self, vec![whole(DType::Bool)], "it must be a number"));
        let mean = Self { reduction: Reduction::Mean };
        all.push(Sample::bad(mean, vec![whole(DType::I32)], "it must be a float"));
        all
    }
}

/// Gives the argument to all ranks, and writes the combination.
fn run<T: Element>(op: &dyn Op, reduction: Reduction, call: &Call<'_>) -> Result<(), Rule> {
    if call.world().is_single() {
        return copied::<T>(call);
    }
    let mut out = call.output::<T>(0)?;
    let parts = match call.input_or_in_place::<T>(0)? {
        Some(x) => exchange(op, call, &elements(&x))?,
        None => exchange(op, call, &elements(&out.read()))?,
    };
    let combined = combined::<T>(call, reduction, &parts, 0, out.elements())?;
    write(&mut out, 0, &combined);
    Ok(())
}

/// Elements `from..from + len` of what ranks gave, combined in the order of the ranks.
pub(super) fn combined<T: Element>(
    call: &Call<'_>,
    reduction: Reduction,
    parts: &[Arc<[u8]>],
    from: usize,
    len: usize,
) -> Result<Vec<T>, Rule> {
    match T::DTYPE {
        DType::I64 | DType::I32 | DType::U8 => Ok(folded::<i64, T>(call, reduction, parts, from, len)),
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 if reduction == Reduction::Mean => {
            Ok(mean::<T>(call, parts, from, len))
        }
        DType::F64 => Ok(folded::<f64, T>(call, reduction, parts, from, len)),
        DType::F32 | DType::BF16 | DType::F16 => Ok(folded::<f32, T>(call, reduction, parts, from, len)),
        DType::Bool => Err(Rule::Dtype { arg: 0, dtype: DType::Bool, expected: "a number" }),
    }
}

/// By running results.
fn folded<A: Fold, T: Element>(
    call: &Call<'_>,
    reduction: Reduction,
    parts: &[Arc<[u8]>],
    from: usize,
    len: usize,
) -> Vec<T> {
    each(call, parts, from, len, |parts, i| {
        let start = A::start(reduction);
        let all = parts.iter().fold(start, |so_far, part| so_far.join(A::load(part[i]), reduction));
        all.result(reduction, parts.len())
    })
}

/// The mean as that of micro-batches: each term is divided before it is added, and each sum is rounded.
fn mean<T: Element>(call: &Call<'_>, parts: &[Arc<[u8]>], from: usize, len: usize) -> Vec<T> {
    fn in_accumulation<T: Element, A: Arith>(
        call: &Call<'_>,
        parts: &[Arc<[u8]>],
        at: (usize, usize),
    ) -> Vec<T> {
        let factor = A::of_f64(1.0 / parts.len() as f64);
        each(call, parts, at.0, at.1, |parts, i| {
            let mut terms = parts.iter().map(|part| A::load(part[i]) * factor);
            let first: T = terms.next().map_or_else(|| T::from_f64(0.0), A::store);
            terms.fold(first, |sum, term| (A::load(sum) + term).store())
        })
    }
    if T::DTYPE == DType::F64 {
        in_accumulation::<T, f64>(call, parts, (from, len))
    } else {
        in_accumulation::<T, f32>(call, parts, (from, len))
    }
}

/// Each element of `from..from + len` of what `combine` makes of the parts.
fn each<T: Element>(
    call: &Call<'_>,
    parts: &[Arc<[u8]>],
    from: usize,
    len: usize,
    combine: impl Fn(&[Cow<'_, [T]>], usize) -> T + Sync,
) -> Vec<T> {
    let parts: Vec<Cow<'_, [T]>> = parts.iter().map(|part| typed(part)).collect();
    let mut out = parts[0][from..from + len].to_vec();
    let whole = ViewMut::over(&mut out, Layout::contiguous([len].into()));
    call.parallel(whole, len, GRAIN, |start, mut part| {
        (0..part.elements()).for_each(|i| part.set_flat(i, combine(&parts, from + start + i)));
    });
    out
}
