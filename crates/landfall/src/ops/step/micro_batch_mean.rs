//! Means over the micro-batches of a step.

mod cuda;

use super::cursor::micro_batches;
use crate::contract::cursor::{self, MICRO};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::lanes::{TILE, flat, load, store};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec};

op_list! { MicroBatchMean }

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;

op_attributes! {
    /// `mean ← value/n` in the first micro-batch of the rank, `mean + value/n` in the others, n their number: after the last, the mean over all.
    ///
    /// `mean`, `value`: one shape and float dtype; `cursor` `i64[8]`, whose MICRO says which micro-batch it is: the first if it is a multiple of n. What `mean`
    /// held before the first is not read, so nothing of a step that was given up stays. Arithmetic in the accumulation
    /// dtype, rounded once each time; the order of the sum is that of the micro-batches. The result is `mean` itself
    /// (`Must(0)`). No gradient. Errors: `micro_batches` is 0; shapes and dtypes must be equal. Deterministic.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let mut mean = engine.tensor([1], &[f32::NAN])?;
    /// let mut cursor = engine.tensor([ops::cursor::LEN], &[0i64; 8])?;
    /// for gradient in [1.0f32, 5.0] {
    ///     let value = engine.tensor([1], &[gradient])?;
    ///     let op = ops::MicroBatchMean { micro_batches: 2 };
    ///     engine.call_in_place(&op, 0, &mut mean.view_mut(), &[value.view(), cursor.view()])?;
    ///     let next = ops::AdvanceMicro { micro_batches: 2 };
    ///     engine.call_in_place(&next, 0, &mut cursor.view_mut(), &[])?;
    /// }
    /// assert_eq!(mean.read::<f32>()?, [3.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct MicroBatchMean(mean, value, cursor) {
        /// Micro-batches of a step, of one rank.
        pub micro_batches: usize = 3 => required,
    }
}

impl MicroBatchMean {
    fn factor(&self) -> f64 {
        1.0 / self.micro_batches as f64
    }
}

impl Op for MicroBatchMean {
    fn name(&self) -> &'static str {
        "micro_batch_mean"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        cursor::rule(&args, 2)?;
        micro_batches(self.micro_batches)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("it updates the state in place")
    }
    fn vjp(&self) -> Grad {
        Grad::None("it updates the state in place")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("micro_batch_mean", |op, call| {
                    let op = attributes::<MicroBatchMean>(op)?;
                    with_float!(call, 0, T => run::<T>(op, call))
                }),
                Kernel::cuda("micro_batch_mean", cuda::micro_batch_mean),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements().saturating_mul(2)
    }
}

impl Tested for MicroBatchMean {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let begins = args[2].data[MICRO] % self.micro_batches as f64 == 0.0;
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let part = args[1].data[i] / self.micro_batches as f64;
            if begins { part } else { args[0].data[i] + part }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let cursor = |micro| cursor::sample(&[(cursor::STEP, 4), (MICRO, micro)]);
        let case = |shape: &[usize], micro_batches, micro| {
            let shape = Shape::new(shape)?;
            let args = vec![SampleArg::any(shape), SampleArg::any(shape), cursor(micro)];
            Some(Sample::new(Self { micro_batches }, args))
        };
        let shapes: [&[usize]; 7] = [&[], &[1], &[0], &[4], &[3, 5], &[2, 3, 7], &[40_001]];
        let mut all: Vec<Sample> =
            shapes.iter().flat_map(|s| [0, 2].into_iter().filter_map(|m| case(s, 3, m))).collect();
        all.extend(case(&[33], 1, 0));
        all.extend(case(&[33], 256, 255));
        // Those of ranks after the first begin at a multiple of their number.
        all.extend([case(&[33], 2, 6), case(&[33], 2, 7), case(&[33], 1, 5)].into_iter().flatten());
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![SampleArg::any([3]), SampleArg::any([4]), cursor(0)], "their shapes must be equal"),
            bad(
                vec![SampleArg::any([3]), SampleArg::with(Some(DType::I32), [3], Data::Int(0, 3)), cursor(0)],
                "their dtypes must be equal",
            ),
            bad(
                vec![SampleArg::any([3]), SampleArg::any([3])],
                "takes 3 arguments (mean, value, cursor), got 2",
            ),
            Sample::bad(
                Self { micro_batches: 0 },
                vec![SampleArg::any([3]), SampleArg::any([3]), cursor(0)],
                "micro_batches is 0; it must be at least 1",
            ),
        ]);
        all
    }
}

fn run<T: Element>(op: &MicroBatchMean, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let value = flat(&call.input::<T>(1)?);
    let begins = cursor::read(call, 2)?[MICRO].checked_rem(op.micro_batches as i64) == Some(0);
    let mean = call.output::<T>(0)?;
    if mean.elements() == 0 {
        return Ok(());
    }
    let layout = mean.layout().collapsed();
    let mean = mean.relaid(layout);
    let outer = mean.outer();
    let each = mean.elements() / outer;
    let factor = T::Acc::of_f64(op.factor());
    call.parallel(
        mean,
        outer,
        (GRAIN / each).max(1),
        #[inline(always)]
        |start, mut mean| {
            let (mut part, mut sum) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            let n = mean.elements();
            for from in (0..n).step_by(TILE) {
                let len = TILE.min(n - from);
                let (part, sum) = (&mut part[..len], &mut sum[..len]);
                load(&value, start * each + from, part);
                if begins {
                    sum.iter_mut().zip(&*part).for_each(|(s, &p)| *s = p * factor);
                } else {
                    load(&mean.read(), from, sum);
                    sum.iter_mut().zip(&*part).for_each(|(s, &p)| *s = *s + p * factor);
                }
                store(&mut mean, from, sum);
            }
        },
    );
    Ok(())
}
