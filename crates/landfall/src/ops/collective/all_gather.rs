//! The tensors of all ranks behind one another.

use super::ReduceScatter;
use super::cuda;
use super::exchange::{block, copied, elements, exchange, ranks, refused, samples, typed, write};
use crate::contract::{
    Body, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, Tested, attributes, op_attributes, rules,
};
use crate::kernel::cpu::Call;
use crate::kernel::cuda::Collective;
use crate::ops::reduce::reduction::Reduction;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, with_dtype};

op_list! { AllGather }

op_attributes! {
    /// `out[r·n + i, ..] = xᵣ[i, ..]`: the tensors of all ranks along the first axis, in the order of the ranks.
    ///
    /// `x`: `[n, ..]`, any dtype; result `[ranks·n, ..]`. Disjoint. Gradient: the ranks' cotangents are summed and each rank gets
    /// its block ([`ReduceScatter`](crate::ops::ReduceScatter)). Errors: a scalar; a world of another size; a rank that does not
    /// come, or calls another op. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct AllGather(x) {
        /// Ranks of the world.
        pub ranks: usize = 1 => required,
    }
}

impl Op for AllGather {
    fn name(&self) -> &'static str {
        "all_gather"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        let Spec { dtype, shape } = args[0];
        // The rules of the ranks are those of a block of the result.
        block(if shape.rank() == 0 { shape } else { shape.with(0, self.ranks) }, self.ranks)?;
        Ok(Outputs::one(Spec { dtype, shape: shape.with(0, shape.dims()[0].saturating_mul(self.ranks)) }))
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
        Grad::Rule(|op, cx| {
            let ranks = attributes::<Self>(op).map_err(|r| r.of("all_gather", &[], None, None))?.ranks;
            let back = ReduceScatter { ranks, reduction: Reduction::Sum };
            Ok(vec![Some(cx.graph.op1(back, &[cx.cotangent()?])?)])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("all_gather", |op, call| {
                    ranks(call, attributes::<AllGather>(op)?.ranks)?;
                    with_dtype!(any call.dtype(0)?, T => run::<T>(op, call))
                }),
                Kernel::cuda("all_gather", |op, call| {
                    cuda::run(call, Collective::AllGather, Some(attributes::<AllGather>(op)?.ranks))
                }),
            ]
        }
    }
}

impl Tested for AllGather {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, [DType::Bool, DType::I64]);
        all.extend(refused(|ranks| Self { ranks }));
        all
    }
}

fn run<T: Element>(op: &dyn Op, call: &Call<'_>) -> Result<(), Rule> {
    if call.world().is_single() {
        return copied::<T>(call);
    }
    let parts = exchange(op, call, &elements(&call.input::<T>(0)?))?;
    let mut out = call.output::<T>(0)?;
    let each = out.elements() / parts.len();
    parts.iter().enumerate().for_each(|(r, part)| write(&mut out, r * each, &typed(part)));
    Ok(())
}
