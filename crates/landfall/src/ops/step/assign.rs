//! The write of a value into a state entry.

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    op_attributes, rules,
};
use crate::error::Error;
use crate::ops::elementwise::pointwise::{SHAPES, kernels, map};
use crate::values::{DType, DeviceKind, HostTensor, Rule, Shape, Spec, Step};

op_list! { Assign }

op_attributes! {
    /// `target ← value` where `ok` holds; elsewhere it keeps its contents.
    ///
    /// `target`, `value`: one dtype and shape; `ok`: bool, of the same shape (one truth value is a view that repeats it). The
    /// result is `target`, updated in place. Not differentiable. Errors: other dtypes or shapes. Deterministic. The end of an optimizer that is written in other ops.
    #[derive(Debug, Clone, Copy)]
    pub struct Assign(target, value, ok);
}

impl Graph {
    /// Writes `value` into `target`, an entry of the state, at the end of a step; where `ok` (bool, broadcast) does not hold the
    /// entry keeps its contents.
    ///
    /// # Errors
    /// Dtype and shape must be the entry's, and `ok` bool.
    #[track_caller]
    pub fn assign(&self, target: Value, value: Value, ok: Value) -> Result<Value, Error> {
        let ok = self.broadcast_to(ok, self.shape(target))?;
        self.op1(Assign, &[target, value, ok])
    }
}

impl Op for Assign {
    fn name(&self) -> &'static str {
        "assign"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        rules::dtype(&args, 2, DType::Bool)?;
        rules::same_shape(&args, 0, 2)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|_, e| {
            let (target, value, ok) = (e.arg(0), e.arg(1), e.arg(2));
            e.push(Step::Select(ok, value, target))
        })
    }
    fn vjp(&self) -> Grad {
        Grad::None("it updates the state")
    }
    fn mixing(&self) -> Mixing {
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Assign {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |x| if x[2] != 0.0 { x[1] } else { x[0] })
    }
    fn samples(&self) -> Vec<Sample> {
        let ok = |shape: Shape| SampleArg::with(Some(DType::Bool), shape, Data::Int(0, 2));
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> =
            shapes.map(|s| Sample::new(*self, vec![SampleArg::any(s), SampleArg::any(s), ok(s)])).collect();
        let bad = |value: [usize; 1], truth, text| {
            let truth = SampleArg::with(Some(truth), [4], Data::Int(0, 2));
            Sample::bad(*self, vec![SampleArg::any([4]), SampleArg::any(value), truth], text)
        };
        all.push(bad([5], DType::Bool, "their shapes must be equal"));
        all.push(bad([4], DType::F32, "it must be bool"));
        all
    }
}
