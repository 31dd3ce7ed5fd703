//! Values limited to an interval.

use super::pointwise::{kernels, map, samples};
use super::scalar::{Compare, Comparison};
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::values::{Binary, DeviceKind, HostTensor, Rule, Spec};

op_list! { Clamp }

op_attributes! {
    /// `out = min(max(x, low), high)`; NaN stays NaN.
    ///
    /// `x`: any shape, float. Result: as `x`. In place on `x`. The bounds are rounded to the accumulation dtype, the result to the dtype of `x`.
    /// Gradient: the cotangent where `low ≤ x ≤ high`, else 0. Errors: `low` above `high`, or NaN. Source: the definition.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([3], &[-2.0f32, 0.5, 2.0])?;
    /// let mut y = engine.empty(landfall::DType::F32, [3])?;
    /// engine.call(&ops::Clamp { low: -1.0, high: 1.0 }, &[x.view()], &mut [y.view_mut()])?;
    /// assert_eq!(y.read::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Clamp(x) {
        /// The least result.
        pub low: f64 = f64::NEG_INFINITY,
        /// The greatest result.
        pub high: f64 = f64::INFINITY,
    }
}

impl Graph {
    /// `min(max(x, low), high)` ([`Clamp`]).
    ///
    /// # Errors
    /// The rule that the argument or the bounds break, with the caller's line.
    #[track_caller]
    pub fn clamp(&self, x: Value, low: f64, high: f64) -> Result<Value, Error> {
        self.op1(Clamp { low, high }, &[x])
    }
}

impl Op for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let x = rules::one_float(self, args)?;
        // False for NaN too.
        if self.low <= self.high {
            Ok(Outputs::one(x))
        } else {
            Err(Rule::Attribute { name: "low", value: self.low, expected: "at most high" })
        }
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let Self { low, high } = attributes::<Self>(op).copied().unwrap_or_default();
            let x = e.arg(0);
            let low = e.constant(low);
            let high = e.constant(high);
            let x = e.binary(Binary::Max, x, low);
            e.binary(Binary::Min, x, high)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (g, c) = (cx.graph, cx.cotangent()?);
            // Inside of the interval, its ends included, the result is the argument; NaN equals nothing.
            let inside = g.op1(Compare { comparison: Comparison::Equal }, &[cx.inputs[0], cx.outputs[0]])?;
            let zero = g.fill(g.spec(c).dtype, g.shape(c), 0.0)?;
            Ok(vec![Some(g.select(inside, c, zero)?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for Clamp {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        // Unlike `f64::clamp` and `f64::min`, NaN in, NaN out.
        map(
            args,
            args[0].spec.dtype,
            |x| if x[0].is_nan() { x[0] } else { x[0].max(self.low).min(self.high) },
        )
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(Self { low: -1.0, high: 1.0 }, &[(-3.0, 3.0)]);
        let one_sided = Self { low: 0.25, high: f64::INFINITY };
        all.push(Sample::new(one_sided, vec![SampleArg::with(None, [300], Data::Wide)]));
        all.push(Sample::bad(
            Self { low: 1.0, high: 0.5 },
            vec![SampleArg::any([3])],
            "low is 1; it must be at most high",
        ));
        all.push(Sample::bad(
            Self { low: f64::NAN, high: 0.5 },
            vec![SampleArg::any([3])],
            "it must be at most high",
        ));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}
