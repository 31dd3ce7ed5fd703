//! Update of running statistics.

mod cuda;

use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec};

op_list! { RunningUpdate }

op_attributes! {
    /// `running ← (1 − momentum)·running + momentum·batch·c` if `ok`, else unchanged; `c = n/(n − 1)` with
    /// `unbiased_count = Some(n)` and `n > 1`, which makes a biased variance unbiased, else 1.
    ///
    /// `running`, `batch`: one shape and float dtype; `ok`: a bool scalar, false where the step overflowed. Arithmetic in
    /// the accumulation dtype, rounded once. The result is `running` itself (`Must(0)`). No gradient. Errors: shapes and
    /// dtypes must be equal. Deterministic. Source: Ioffe and Szegedy, "Batch Normalization" (2015).
    ///
    /// ```
    /// use landfall::{DType, Engine, HostTensor, ops};
    /// let engine = Engine::cpu()?;
    /// let mut running = engine.tensor([1], &[1.0f32])?;
    /// let batch = engine.tensor([1], &[3.0f32])?;
    /// let ok = engine.from_host(&HostTensor::new(DType::Bool, [], vec![1.0])?)?;
    /// let op = ops::RunningUpdate { momentum: 0.5, unbiased_count: None };
    /// engine.call_in_place(&op, 0, &mut running.view_mut(), &[batch.view(), ok.view()])?;
    /// assert_eq!(running.read::<f32>()?, [2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct RunningUpdate(running, batch, ok) {
        /// Weight of the batch.
        pub momentum: f64 = 0.1,
        /// Number of elements that a biased batch variance was taken over, to make it unbiased.
        pub unbiased_count: Option<usize> = None,
    }
}

impl RunningUpdate {
    /// Factors of the running and of the batch statistic.
    fn factors(&self) -> (f64, f64) {
        let correction = match self.unbiased_count {
            Some(n) if n > 1 => n as f64 / (n - 1) as f64,
            Some(_) | None => 1.0,
        };
        (1.0 - self.momentum, self.momentum * correction)
    }
}

impl Op for RunningUpdate {
    fn name(&self) -> &'static str {
        "running_update"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        if !(0.0..=1.0).contains(&self.momentum) {
            return Err(Rule::Attribute { name: "momentum", value: self.momentum, expected: "in [0, 1]" });
        }
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        rules::dtype(&args, 2, DType::Bool)?;
        rules::shape(&args, 2, Shape::SCALAR)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("an update in place")
    }
    fn vjp(&self) -> Grad {
        Grad::None("running statistics are updated, not learned")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("running_update", |op, call| {
                    let op = attributes::<RunningUpdate>(op)?;
                    with_float!(call, 0, T => run::<T>(op.factors(), call))
                }),
                Kernel::cuda("running_update", cuda::running_update),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(3)
    }
}

impl Tested for RunningUpdate {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (keep, take) = self.factors();
        let (running, batch, ok) = (&args[0], &args[1], args[2].data[0] != 0.0);
        vec![HostTensor::from_fn(running.spec, |i| {
            if ok { keep * running.data[i] + take * batch.data[i] } else { running.data[i] }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |d: usize, ok: f64| {
            let ok = SampleArg::with(Some(DType::Bool), [], Data::Exact(vec![ok]));
            vec![SampleArg::any([d]), SampleArg::range([d], 0.0, 2.0), ok]
        };
        let mut all = Vec::new();
        for unbiased_count in [None, Some(0), Some(1), Some(2), Some(300)] {
            for d in [0, 1, 7, 64] {
                all.push(Sample::new(Self { momentum: 0.1, unbiased_count }, args(d, 1.0)));
            }
            all.push(Sample::new(Self { momentum: 0.25, unbiased_count }, args(5, 0.0)));
        }
        let mut bad = args(4, 1.0);
        bad[1] = SampleArg::any([5]);
        all.push(Sample::bad(*self, bad, "their shapes must be equal"));
        let mut bad = args(4, 1.0);
        bad[2] = SampleArg::with(Some(DType::F32), [], Data::Exact(vec![1.0]));
        all.push(Sample::bad(*self, bad, "it must be bool"));
        for momentum in [-0.1, 1.5, f64::NAN] {
            let outside = Self { momentum, unbiased_count: None };
            all.push(Sample::bad(outside, args(4, 1.0), "it must be in [0, 1]"));
        }
        all
    }
}

fn run<T: Element>((keep, take): (f64, f64), call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (batch, ok) = (call.input::<T>(1)?, call.input::<u8>(2)?);
    let mut running = call.output::<T>(0)?;
    if ok.flat(0) == 0 {
        return Ok(());
    }
    let (keep, take) = (T::Acc::of_f64(keep), T::Acc::of_f64(take));
    for i in 0..running.elements() {
        let old = running.read().flat(i).widen();
        running.set_flat(i, T::narrow(keep * old + take * batch.flat(i).widen()));
    }
    Ok(())
}
