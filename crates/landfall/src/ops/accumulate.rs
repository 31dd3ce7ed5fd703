//! A running sum in the state.

use super::{Alias, Body, Cost, Coverage, Data, Grad, Kernel, Op, Outputs, Sample, SampleArg, rules};
use crate::DType;
use crate::codegen::Expression;
use crate::device::DeviceKind;
use crate::error::Rule;
use crate::host::HostTensor;
use crate::shape::{Shape, Spec};

/// `sum ← sum + value`.
///
/// `sum`, `value`: one shape and dtype, a number. The output is `sum` itself. Arithmetic in the accumulation dtype,
/// rounded once. Not differentiable: it updates the state. Deterministic.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accumulate;

impl Op for Accumulate {
    fn name(&self) -> &'static str {
        "accumulate"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(args)?;
        if args[0].dtype == DType::Bool {
            return Err(Rule::Dtype { arg: 0, dtype: DType::Bool, expected: "a number" });
        }
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        Ok(Outputs::one(args[0]))
    }
    fn alias(&self) -> &[Alias] {
        &[Alias::Must(0)]
    }
    fn coverage(&self) -> &[Coverage] {
        &[Coverage::Full]
    }
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    fn body(&self) -> Body {
        Body::Pointwise(|_| {
            Expression::new(|e| {
                let (sum, value) = (e.arg(0), e.arg(1));
                e.add(sum, value)
            })
        })
    }
    fn vjp(&self) -> Grad {
        Grad::None("it updates the state in place")
    }
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        super::pointwise::map(args, args[0].spec.dtype, |x| x[0] + x[1])
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cpu("pointwise", super::pointwise::run::<Accumulate>)] }
    }
    fn cost(&self, args: &[Spec]) -> Cost {
        super::pointwise::cost(self, args)
    }
    fn samples(&self) -> Vec<Sample> {
        let shapes: &[&[usize]] = &[&[], &[0], &[1], &[7], &[3, 5], &[257]];
        let shapes = shapes.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> =
            shapes.map(|s| Sample::new(*self, vec![SampleArg::any(s), SampleArg::any(s)])).collect();
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([4]), SampleArg::any([5])],
            "their shapes must be equal",
        ));
        let truth = SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2));
        all.push(Sample::bad(*self, vec![SampleArg::any([4]), truth], "their dtypes must be equal"));
        all
    }
}
