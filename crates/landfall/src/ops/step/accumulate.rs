//! Running sums in the state, by group.

mod cuda;

use crate::contract::{
    Body, Cost, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, op_attributes, rules,
};
use crate::kernel::cpu::Call;
use crate::values::{DType, DeviceKind, HostTensor, Rule, Spec};

op_list! { Accumulate }

op_attributes! {
    /// `sums[groups[b], c] ← sums[groups[b], c] + values[b, c]`, for `b` from first to last.
    ///
    /// Arguments: `sums` `f64[G, C]` with `G ≥ 1`, `groups` `i64[B]`, `values` `f64[B, C]`. The result is `sums` itself. Sums of
    /// rows in one order: deterministic. A group out of range is clamped, and the next read on the host returns
    /// `Error::Index` with its position. Not differentiable: it updates the state. Errors: other dtypes or shapes.
    #[derive(Debug, Clone, Copy)]
    pub struct Accumulate(sums, groups, values);
}

impl Op for Accumulate {
    fn name(&self) -> &'static str {
        "accumulate"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        rules::dtype(&args, 0, DType::F64)?;
        rules::dtype(&args, 1, DType::I64)?;
        rules::dtype(&args, 2, DType::F64)?;
        let &[groups, columns] = args[0].shape.dims() else {
            return Err(Rule::Rank { arg: 0, rank: args[0].shape.rank(), expected: "2" });
        };
        if groups == 0 {
            return Err(Rule::Attribute { name: "rows of the sums", value: 0.0, expected: "at least 1" });
        }
        let &[rows] = args[1].shape.dims() else {
            return Err(Rule::Rank { arg: 1, rank: args[1].shape.rank(), expected: "1" });
        };
        rules::shape(&args, 2, [rows, columns])?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("its indices lie on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::None("it updates the state in place")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cpu("accumulate", |_, call| run(call)), Kernel::cuda("accumulate", cuda::accumulate)] }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[2].shape.elements()
    }
    fn bytes(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Only the rows that are added to are read and written.
        Cost::bytes_of(&args[1..], &args[2..])
    }
}

impl Tested for Accumulate {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (groups, columns) = (args[0].dims()[0], args[0].dims()[1]);
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let (group, column) = (i / columns, i % columns);
            let of = |&(_, g): &(usize, &f64)| g.clamp(0.0, (groups - 1) as f64) as usize == group;
            let rows = args[1].data.iter().enumerate().filter(of);
            args[0].data[i] + rows.map(|(b, _)| args[2].data[b * columns + column]).sum::<f64>()
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let sums = |g: usize, c: usize| SampleArg::with(Some(DType::F64), [g, c], Data::Range(-1.0, 1.0));
        let groups = |b: usize, g: usize| SampleArg::with(Some(DType::I64), [b], Data::Int(0, g as i64));
        let case = |g, c, b| Sample::new(*self, vec![sums(g, c), groups(b, g), sums(b, c)]);
        let mut all: Vec<Sample> =
            [(1, 1, 1), (1, 7, 33), (3, 5, 40), (6, 1, 4), (2, 0, 3), (4, 3, 0), (50, 2, 7)]
                .map(|(g, c, b)| case(g, c, b))
                .into();
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![sums(2, 3), groups(4, 2), sums(4, 2)], "it must be [4, 3]"),
            bad(vec![sums(0, 3), groups(4, 1), sums(4, 3)], "rows of the sums is 0; it must be at least 1"),
            bad(
                vec![sums(2, 3), SampleArg::with(Some(DType::I32), [4], Data::Int(0, 2)), sums(4, 3)],
                "it must be i64",
            ),
            bad(
                vec![SampleArg::with(Some(DType::F32), [2, 3], Data::Wide), groups(4, 2), sums(4, 3)],
                "it must be f64",
            ),
        ]);
        all
    }
}

fn run(call: &Call<'_>) -> Result<(), Rule> {
    let (groups, values, mut sums) = (call.input::<i64>(1)?, call.input::<f64>(2)?, call.output::<f64>(0)?);
    let &[count, columns] = sums.dims() else { return Ok(()) };
    for b in 0..groups.elements() {
        let group = groups.flat(b);
        if group < 0 || group >= count as i64 {
            call.flag(b, group, count);
        }
        let group = group.clamp(0, count as i64 - 1) as usize;
        for c in 0..columns {
            let sum = sums.read().at(&[group, c]) + values.at(&[b, c]);
            sums.set(&[group, c], sum);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Error};

    #[test]
    fn a_group_out_of_range_is_reported() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let mut sums = engine.tensor([2, 1], &[1.0f64, 2.0])?;
        let groups = engine.tensor([3], &[1i64, 2, 0])?;
        let values = engine.tensor([3, 1], &[10.0f64, 20.0, 40.0])?;
        engine.call_in_place(&super::Accumulate, 0, &mut sums.view_mut(), &[groups.view(), values.view()])?;
        let fault = Error::Index { op: "accumulate", position: 1, value: 2, limit: 2 };
        let copy = engine.eval(&crate::ops::Copy, &[sums.view()])?;
        assert_eq!(copy.read::<f64>(), sums.read::<f64>());
        assert_eq!(sums.read::<f64>(), Err(fault));
        Ok(())
    }
}
