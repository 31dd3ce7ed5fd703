//! The tensor of one rank, on all ranks.

use super::cuda;
use super::exchange::{copied, elements, exchange, samples, typed, write};
use crate::contract::{
    Body, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::values::{DType, DeviceKind, Element, HostTensor, RankFault, Rule, Shape, Spec, with_dtype};

op_list! { Broadcast }

op_attributes! {
    /// `out[i] = x_root[i]`: every rank gets the tensor of one.
    ///
    /// `x`: any shape and dtype, on every rank; result as `x`. In place on `x`. No gradient: it would be on the root alone. Errors:
    /// no such rank; a rank that does not come, or calls another op. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Broadcast(x) {
        /// The rank whose tensor it is.
        pub root: usize = 0 => required,
    }
}

impl Op for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
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
        Grad::None("the gradient of a broadcast would be on its root alone; use all_reduce or all_gather")
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("broadcast", |op, call| {
                    let root = attributes::<Broadcast>(op)?.root;
                    with_dtype!(any call.dtype(0)?, T => run::<T>(op, root, call))
                }),
                Kernel::cuda("broadcast", |op, call| {
                    cuda::broadcast(call, attributes::<Broadcast>(op)?.root)
                }),
            ]
        }
    }
}

impl Tested for Broadcast {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, [DType::Bool, DType::I64]);
        all.push(Sample::new(*self, vec![SampleArg::any(Shape::SCALAR)]));
        let two = vec![SampleArg::any([3]), SampleArg::any([3])];
        all.push(Sample::bad(*self, two, "takes 1 argument (x), got 2"));
        all
    }
}

fn run<T: Element>(op: &dyn Op, root: usize, call: &Call<'_>) -> Result<(), Rule> {
    let size = call.world().size();
    if root >= size {
        return Err(RankFault::Size { expected: root.saturating_add(1), size }.into());
    }
    if size == 1 {
        return copied::<T>(call);
    }
    let mut out = call.output::<T>(0)?;
    let own = if call.world().rank() == root {
        match call.input_or_in_place::<T>(0)? {
            Some(x) => elements(&x).into_owned(),
            None => elements(&out.read()).into_owned(),
        }
    } else {
        Vec::new()
    };
    let parts = exchange(op, call, &own)?;
    write(&mut out, 0, &typed(&parts[root]));
    Ok(())
}
