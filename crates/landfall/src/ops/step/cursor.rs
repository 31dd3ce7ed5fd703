//! What advances the cursor, and what follows from the step that it counts.

mod cuda;

use crate::contract::cursor::{self, BATCH, EPOCH, LEN, MICRO, SEED, STEP, WINDOWS};
use crate::contract::{
    Body, Cost, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, arity, attributes,
    op_attributes, rules,
};
use crate::kernel::cpu::with_float;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec};

op_list! { Advance, AdvanceMicro, Lookup, RingPush }

/// A truth value for samples.
pub(in crate::ops) fn sample_ok(ok: bool) -> SampleArg {
    SampleArg::with(Some(DType::Bool), [], Data::Exact(vec![f64::from(u8::from(ok))]))
}

op_attributes! {
    /// The next cursor: with `ok`, `STEP += 1`, `BATCH += 1`, and when `BATCH` reaches `batches`, `BATCH = 0` and
    /// `EPOCH += 1`; else the cursor as it is, so that a step that overflowed is as if it had not been.
    ///
    /// Arguments: `cursor` `i64[8]`, `ok` `bool[]`. Result: `i64[8]`, which is the cursor itself. No gradient. Deterministic.
    /// Errors: `batches` is 0, other dtypes or shapes.
    #[derive(Debug, Clone, Copy)]
    pub struct Advance(cursor, ok) {
        /// Batches of an epoch.
        pub batches: usize = 3 => required,
    }
}

impl Advance {
    fn next(&self, mut cursor: [i64; LEN]) -> [i64; LEN] {
        cursor[STEP] = cursor[STEP].saturating_add(1);
        cursor[BATCH] = cursor[BATCH].saturating_add(1);
        if u64::try_from(cursor[BATCH]).is_ok_and(|b| b >= self.batches as u64) {
            cursor[BATCH] = 0;
            cursor[EPOCH] = cursor[EPOCH].saturating_add(1);
        }
        cursor
    }
}

impl Op for Advance {
    fn name(&self) -> &'static str {
        "advance"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        cursor::rule(&args, 0)?;
        rules::dtype(&args, 1, DType::Bool)?;
        rules::shape(&args, 1, [])?;
        if self.batches == 0 {
            return Err(Rule::Attribute { name: "batches", value: 0.0, expected: "at least 1" });
        }
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("a cursor counts")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("advance", |op, call| {
                    let op = attributes::<Advance>(op)?;
                    let ok = call.input::<u8>(1)?.flat(0) != 0;
                    let mut cursor = call.output::<i64>(0)?;
                    if ok {
                        let next = op.next(std::array::from_fn(|i| cursor.read().flat(i)));
                        next.iter().enumerate().for_each(|(i, &value)| cursor.set_flat(i, value));
                    }
                    Ok(())
                }),
                Kernel::cuda("advance", cuda::advance),
            ]
        }
    }
}

impl Tested for Advance {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let mut out = args[0].clone();
        if args[1].data[0] != 0.0 {
            out.data[STEP] += 1.0;
            let position = out.data[EPOCH] * self.batches as f64 + out.data[BATCH] + 1.0;
            out.data[EPOCH] = (position / self.batches as f64).floor();
            out.data[BATCH] = position - out.data[EPOCH] * self.batches as f64;
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let at = |batches, epoch, batch, ok| {
            let cursor =
                cursor::sample(&[(STEP, 41), (EPOCH, epoch), (BATCH, batch), (SEED, 7), (WINDOWS, 9)]);
            Sample::new(Self { batches }, vec![cursor, sample_ok(ok)])
        };
        vec![
            at(3, 0, 0, true),
            at(3, 0, 2, true),
            at(3, 4, 2, false),
            at(1, 5, 0, true),
            Sample::bad(
                Self { batches: 0 },
                vec![cursor::sample(&[]), sample_ok(true)],
                "batches is 0; it must be at least 1",
            ),
            Sample::bad(
                *self,
                vec![SampleArg::with(Some(DType::I64), [4], Data::Int(0, 3)), sample_ok(true)],
                "it must be [8]",
            ),
        ]
    }
}

op_attributes! {
    /// The cursor of the next micro-batch: `MICRO ← MICRO + 1`, after the rank's last its first again: a multiple of `micro_batches`.
    ///
    /// Argument: `cursor` `i64[8]`. Result: `i64[8]`, which is the cursor itself. No gradient. Deterministic. Errors:
    /// `micro_batches` is 0, another dtype or shape.
    #[derive(Debug, Clone, Copy)]
    pub struct AdvanceMicro(cursor) {
        /// Micro-batches of a step, of one rank.
        pub micro_batches: usize = 3 => required,
    }
}

impl Op for AdvanceMicro {
    fn name(&self) -> &'static str {
        "advance_micro"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        cursor::rule(&args, 0)?;
        micro_batches(self.micro_batches)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("a cursor counts")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("advance_micro", |op, call| {
                    let count = attributes::<AdvanceMicro>(op)?.micro_batches as i64;
                    let mut cursor = call.output::<i64>(0)?;
                    let next = cursor.read().flat(MICRO).saturating_add(1);
                    let last = next.checked_rem(count) == Some(0);
                    cursor.set_flat(MICRO, if last { next.saturating_sub(count) } else { next });
                    Ok(())
                }),
                Kernel::cuda("advance_micro", cuda::advance_micro),
            ]
        }
    }
}

impl Tested for AdvanceMicro {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let mut out = args[0].clone();
        let next = out.data[MICRO] + 1.0;
        let count = self.micro_batches as f64;
        out.data[MICRO] = if next % count == 0.0 { next - count } else { next };
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let at = |micro_batches, micro| {
            Sample::new(
                Self { micro_batches },
                vec![cursor::sample(&[(STEP, 41), (BATCH, 2), (MICRO, micro)])],
            )
        };
        vec![
            at(3, 0),
            at(3, 1),
            at(3, 2),
            at(1, 0),
            at(256, 254),
            at(256, 255),
            at(3, 6),
            at(3, 8),
            at(1, 7),
            Sample::bad(
                Self { micro_batches: 0 },
                vec![cursor::sample(&[])],
                "micro_batches is 0; it must be at least 1",
            ),
            Sample::bad(
                *self,
                vec![SampleArg::with(Some(DType::I64), [4], Data::Int(0, 3))],
                "it must be [8]",
            ),
        ]
    }
}

/// Checks the number of micro-batches of a step.
pub(in crate::ops) fn micro_batches(count: usize) -> Result<(), Rule> {
    match count {
        0 => Err(Rule::Attribute { name: "micro_batches", value: 0.0, expected: "at least 1" }),
        _ => Ok(()),
    }
}

op_attributes! {
    /// `out = table[min(STEP, n − 1)]`: a schedule computed before the run, such as the learning rate of each step.
    ///
    /// Arguments: `table` `f64[n]` (n ≥ 1), `cursor` `i64[8]`. Result: `f64[]`. Disjoint. No gradient. Deterministic. Errors:
    /// an empty table, other dtypes or shapes.
    #[derive(Debug, Clone, Copy)]
    pub struct Lookup(table, cursor);
}

impl Op for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::dtype(&args, 0, DType::F64)?;
        cursor::rule(&args, 1)?;
        match args[0].shape.dims() {
            [0] => Err(Rule::Attribute { name: "length of the table", value: 0.0, expected: "at least 1" }),
            [_] => Ok(Outputs::one(Spec::new(DType::F64, []))),
            dims => Err(Rule::Rank { arg: 0, rank: dims.len(), expected: "1" }),
        }
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("its index lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::None("the table is data")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("lookup", |_, call| {
                    let table = call.input::<f64>(0)?;
                    let step = usize::try_from(cursor::read(call, 1)?[STEP]).unwrap_or(0);
                    let value = table.flat(step.min(table.elements() - 1));
                    call.output::<f64>(0)?.set_flat(0, value);
                    Ok(())
                }),
                Kernel::cuda("lookup", cuda::lookup),
            ]
        }
    }
    fn bytes(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // An element of the table is read.
        Cost::bytes_of(&args[1..], &[outputs[0]; 2])
    }
}

impl Tested for Lookup {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let table = &args[0].data;
        let mut at = 0;
        while at + 1 < table.len() && (at as f64) < args[1].data[STEP] {
            at += 1;
        }
        vec![HostTensor::from_fn(Spec::new(DType::F64, []), |_| table[at])]
    }
    fn samples(&self) -> Vec<Sample> {
        let table = |n: usize| SampleArg::with(Some(DType::F64), [n], Data::Range(0.0, 1.0));
        let at = |n, step| Sample::new(*self, vec![table(n), cursor::sample(&[(STEP, step)])]);
        vec![
            at(1, 0),
            at(1, 9),
            at(7, 3),
            at(7, 6),
            at(7, 7),
            at(300, 255),
            Sample::bad(*self, vec![table(0), cursor::sample(&[])], "length of the table is 0"),
            Sample::bad(
                *self,
                vec![SampleArg::with(Some(DType::F32), [3], Data::Range(0.0, 1.0)), cursor::sample(&[])],
                "it must be f64",
            ),
        ]
    }
}

op_attributes! {
    /// Writes `v_0 … v_(K−1)` into row `STEP mod R` of a ring: what the host may read later, some steps at once.
    ///
    /// Arguments: `ring` `f64[R, K]` (R ≥ 1), `cursor` `i64[8]`, then K `values` of any float dtype and shape `[]`. Result: the
    /// ring itself; the other rows keep what they held. No gradient. Deterministic. Errors: R is 0, a number of values
    /// that differs from K, other dtypes or shapes.
    #[derive(Debug, Clone, Copy)]
    pub struct RingPush(ring, cursor, values or none and more);
}

impl Op for RingPush {
    fn name(&self) -> &'static str {
        "ring_push"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let ring = args[0];
        rules::dtype(args, 0, DType::F64)?;
        cursor::rule(args, 1)?;
        match *ring.shape.dims() {
            [0, _] => Err(Rule::Attribute { name: "rows of the ring", value: 0.0, expected: "at least 1" }),
            [_, k] if k.saturating_add(2) != args.len() => {
                let takes = format!(
                    "{} arguments (ring, cursor, a value for each of {k} columns)",
                    k.saturating_add(2)
                );
                Err(Rule::Arity { takes, got: args.len() })
            }
            [_, _] => {
                for arg in 2..args.len() {
                    rules::float(args, &[arg])?;
                    rules::shape(args, arg, [])?;
                }
                Ok(Outputs::one(ring))
            }
            ref dims => Err(Rule::Rank { arg: 0, rank: dims.len(), expected: "2" }),
        }
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("update of a ring")
    }
    fn vjp(&self) -> Grad {
        Grad::None("a ring is for the host")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("ring_push", |_, call| {
                    let step = cursor::read(call, 1)?[STEP];
                    let mut ring = call.output::<f64>(0)?;
                    let row = step.rem_euclid(ring.dims()[0] as i64) as usize;
                    for i in 2..call.inputs() {
                        let value = with_float!(call, i, T => call.input::<T>(i)?.flat(0).to_f64());
                        ring.set(&[row, i - 2], value);
                    }
                    Ok(())
                }),
                Kernel::cuda("ring_push", cuda::ring_push),
            ]
        }
    }
    fn bytes(&self, args: &[Spec], _: &[Spec]) -> usize {
        // One row is written, whatever the size of the ring.
        Cost::bytes_of(&args[1..], &[Spec::new(DType::F64, [args.len() - 2])])
    }
}

impl Tested for RingPush {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (rows, cols) = (args[0].dims()[0], args[0].dims()[1]);
        let at = args[1].data[STEP] as usize % rows;
        vec![HostTensor::from_fn(args[0].spec, |i| {
            if i / cols == at { args[2 + i % cols].data[0] } else { args[0].data[i] }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let ring = |r: usize, k: usize| SampleArg::with(Some(DType::F64), [r, k], Data::Range(-1.0, 1.0));
        let push = |r, k, step, dtypes: &[Option<DType>]| {
            let values = dtypes.iter().map(|&d| SampleArg::with(d, [], Data::Range(-3.0, 3.0)));
            let cursor = cursor::sample(&[(STEP, step)]);
            Sample::new(*self, [ring(r, k), cursor].into_iter().chain(values).collect())
        };
        vec![
            push(4, 2, 0, &[None, Some(DType::F64)]),
            push(4, 2, 3, &[None, Some(DType::F32)]),
            push(4, 3, 4, &[None, Some(DType::BF16), Some(DType::F64)]),
            push(1, 1, 17, &[None]),
            push(5, 0, 2, &[]),
            Sample::bad(
                *self,
                vec![ring(4, 2), cursor::sample(&[]), SampleArg::any([])],
                "takes 4 arguments (ring, cursor, a value for each of 2 columns), got 3",
            ),
            Sample::bad(
                *self,
                vec![ring(4, 1), cursor::sample(&[]), SampleArg::with(Some(DType::I32), [], Data::Int(0, 3))],
                "it must be f32, f64, bf16 or f16",
            ),
            Sample::bad(
                *self,
                vec![ring(0, 1), cursor::sample(&[]), SampleArg::any([])],
                "rows of the ring is 0",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Error};

    #[test]
    fn counters_wrap_at_the_epoch_and_stand_still_when_not_ok() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let mut cursor = engine.tensor([LEN], &[0i64, 0, 0, 11, 5, 9, 0, 0])?;
        let yes = engine.from_host(&HostTensor::new(DType::Bool, [], vec![1.0])?)?;
        let no = engine.from_host(&HostTensor::new(DType::Bool, [], vec![0.0])?)?;
        for step in 1..=7i64 {
            let op = Advance { batches: 3 };
            engine.call_in_place(&op, 0, &mut cursor.view_mut(), &[no.view()])?;
            engine.call_in_place(&op, 0, &mut cursor.view_mut(), &[yes.view()])?;
            assert_eq!(cursor.read::<i64>()?, [step, step / 3, step % 3, 11, 5, 9, 0, 0]);
        }
        Ok(())
    }
}
