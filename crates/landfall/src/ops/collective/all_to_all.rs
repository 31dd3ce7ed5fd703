//! Blocks that travel from every rank to every other.

use super::cuda;
use super::exchange::{block, copied, elements, exchange, ranks, refused, samples, typed, write};
use crate::contract::{
    Body, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::kernel::cuda::Collective;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, with_dtype};

op_list! { AllToAll }

op_attributes! {
    /// `out[s·n + i, ..] = xₛ[r·n + i, ..]` on rank r: block r of every rank s, in the order of the ranks.
    ///
    /// `x`: `[ranks·n, ..]`, any dtype; result as `x`. Disjoint. Gradient: the cotangent's blocks travel back, by the same op.
    /// Errors: a scalar, or a first axis that `ranks` does not divide; a world of another size; a rank that does not come, or
    /// calls another op. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct AllToAll(x) {
        /// Ranks of the world.
        pub ranks: usize = 1 => required,
    }
}

impl Op for AllToAll {
    fn name(&self) -> &'static str {
        "all_to_all"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        block(args[0].shape, self.ranks)?;
        Ok(Outputs::one(args[0]))
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
            let op = *attributes::<Self>(op).map_err(|r| r.of("all_to_all", &[], None, None))?;
            Ok(vec![Some(cx.graph.op1(op, &[cx.cotangent()?])?)])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("all_to_all", |op, call| {
                    ranks(call, attributes::<AllToAll>(op)?.ranks)?;
                    with_dtype!(any call.dtype(0)?, T => run::<T>(op, call))
                }),
                Kernel::cuda("all_to_all", |op, call| {
                    cuda::run(call, Collective::AllToAll, Some(attributes::<AllToAll>(op)?.ranks))
                }),
            ]
        }
    }
}

impl Tested for AllToAll {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, [DType::Bool, DType::I64]);
        all.extend(refused(|ranks| Self { ranks }));
        let text = "ranks is 3; it must be a divisor of the first axis";
        all.push(Sample::bad(Self { ranks: 3 }, vec![SampleArg::any([4])], text));
        all
    }
}

fn run<T: Element>(op: &dyn Op, call: &Call<'_>) -> Result<(), Rule> {
    if call.world().is_single() {
        return copied::<T>(call);
    }
    let parts = exchange(op, call, &elements(&call.input::<T>(0)?))?;
    let mut out = call.output::<T>(0)?;
    let (each, rank) = (out.elements() / parts.len(), call.world().rank());
    for (s, part) in parts.iter().enumerate() {
        write(&mut out, s * each, &typed(part)[rank * each..][..each]);
    }
    Ok(())
}
