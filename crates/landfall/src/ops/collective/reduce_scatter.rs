//! Tensors combined over the ranks, of which each gets a block.

use super::AllGather;
use super::all_reduce::{check, combined};
use super::cuda;
use super::exchange::{block, copied, elements, exchange, ranks, refused, samples, write};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::kernel::cuda::Collective;
use crate::ops::reduce::reduction::Reduction;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, with_dtype};

op_list! { ReduceScatter }

op_attributes! {
    /// `out[i, ..] = x₀[r·n + i, ..] ∘ x₁[r·n + i, ..] ∘ …` on rank r: block r of the ranks' combination, as
    /// [`AllReduce`](crate::ops::AllReduce) computes it.
    ///
    /// `x`: `[ranks·n, ..]`, a number; result `[n, ..]`. Disjoint. Gradient: of a sum the ranks' cotangents behind one another
    /// ([`AllGather`](crate::ops::AllGather)), of a mean the same divided by their number; of the others none. Errors: a scalar, or
    /// a first axis that `ranks` does not divide; bool, a mean of integers; a world of another size; a rank that does not come, or
    /// calls another op. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct ReduceScatter(x) {
        /// Ranks of the world.
        pub ranks: usize = 1 => required,
        /// What is computed.
        pub reduction: Reduction = Reduction::Sum,
    }
}

impl Op for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        check(self.reduction, &args)?;
        let shape = block(args[0].shape, self.ranks)?;
        Ok(Outputs::one(Spec { shape, ..args[0] }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
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
                let op = *attributes::<Self>(op).map_err(|r| r.of("reduce_scatter", &[], None, None))?;
                let back = cx.graph.op1(AllGather { ranks: op.ranks }, &[cx.cotangent()?])?;
                let back = match op.reduction {
                    Reduction::Mean => cx.graph.affine(back, 1.0 / op.ranks as f64, 0.0)?,
                    Reduction::Sum | Reduction::Max | Reduction::Min | Reduction::Prod => back,
                };
                Ok(vec![Some(back)])
            }),
            Reduction::Max | Reduction::Min | Reduction::Prod => {
                Grad::None("only sums and means over ranks have gradients")
            }
        }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("reduce_scatter", |op, call| {
                    let reduction = attributes::<ReduceScatter>(op)?.reduction;
                    ranks(call, attributes::<ReduceScatter>(op)?.ranks)?;
                    with_dtype!(any call.dtype(0)?, T => run::<T>(op, reduction, call))
                }),
                Kernel::cuda("reduce_scatter", |op, call| {
                    let op = attributes::<ReduceScatter>(op)?;
                    let of = cuda::combination(op.reduction);
                    cuda::run(call, Collective::ReduceScatter(of), Some(op.ranks))
                }),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements()
    }
}

impl Tested for ReduceScatter {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, [DType::I32, DType::I64]);
        all.extend(refused(|ranks| Self { ranks, ..*self }));
        let text = "ranks is 3; it must be a divisor of the first axis";
        all.push(Sample::bad(Self { ranks: 3, ..*self }, vec![SampleArg::any([4])], text));
        let truth = SampleArg::with(Some(DType::Bool), [5], Data::Int(0, 2));
        all.push(Sample::bad(*self, vec![truth], "it must be a number"));
        all
    }
}

fn run<T: Element>(op: &dyn Op, reduction: Reduction, call: &Call<'_>) -> Result<(), Rule> {
    if call.world().is_single() {
        return copied::<T>(call);
    }
    let parts = exchange(op, call, &elements(&call.input::<T>(0)?))?;
    let mut out = call.output::<T>(0)?;
    let each = out.elements();
    let own = combined::<T>(call, reduction, &parts, call.world().rank() * each, each)?;
    write(&mut out, 0, &own);
    Ok(())
}
