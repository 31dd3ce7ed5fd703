//! The write of rows into a state entry, at a place that the device knows.

mod cuda;

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::Call;
use crate::values::{Axis, DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec, with_dtype};

op_list! { AssignRows }

op_attributes! {
    /// `target[.., start + j, ..] ← rows[.., j, ..]` along an axis; the other rows keep their contents.
    ///
    /// `target`: any dtype and shape; `rows`: the same with at most as many rows along the axis; `start`: i64 `[]`. The result is
    /// `target`, updated in place. A start for which the rows do not fit is reported when the result is read; the rows then go to the
    /// nearest place where they do. Not differentiable. Errors: no such axis, more rows than `target` has, other dtypes or shapes. Deterministic. Appends to a cache of keys and values.
    #[derive(Debug, Clone, Copy)]
    pub struct AssignRows(target, rows, start) {
        /// The axis.
        pub axis of target: usize = 0 => required,
    }
}

impl Graph {
    /// Writes rows into an entry of the state from the place `start` (i64 `[]`) of an axis on ([`AssignRows`]).
    ///
    /// # Errors
    /// The axis must exist; `rows` must be as the entry but for the axis, which is not longer.
    #[track_caller]
    pub fn assign_rows(
        &self,
        target: Value,
        axis: impl Axis,
        rows: Value,
        start: Value,
    ) -> Result<Value, Error> {
        let axis = self.axis("assign_rows", target, axis)?;
        self.op1(AssignRows { axis }, &[target, rows, start])
    }
}

impl Op for AssignRows {
    fn name(&self) -> &'static str {
        "assign_rows"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 3] = rules::arity(self, args)?;
        let (target, rows) = (args[0].shape, args[1].shape);
        let Some(&all) = target.dims().get(self.axis) else {
            return Err(Rule::Axis { axis: self.axis as isize, rank: target.rank() });
        };
        rules::same_dtype(&args, 0, 1)?;
        let count = rows.dims().get(self.axis).copied().unwrap_or(all);
        rules::shape(&args, 1, target.with(self.axis, count))?;
        if count > all {
            let (value, expected) = (count as f64, "at most those of the target");
            return Err(Rule::Attribute { name: "number of rows", value, expected });
        }
        rules::dtype(&args, 2, DType::I64)?;
        rules::shape(&args, 2, [])?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("its place lies on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::None("it updates the state")
    }
    fn mixing(&self) -> Mixing {
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("assign_rows", |op, call| {
                    let op = attributes::<AssignRows>(op)?;
                    with_dtype!(any call.dtype(1)?, T => run::<T>(op, call))
                }),
                Kernel::cuda("assign_rows", cuda::assign_rows),
            ]
        }
    }
    fn bytes(&self, args: &[Spec], _: &[Spec]) -> usize {
        // The rows are read and written; the rest of the target is not touched.
        2 * args[1].bytes() + args[2].bytes()
    }
}

impl Tested for AssignRows {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (target, rows) = (&args[0], &args[1]);
        let (all, count) = (target.dims()[self.axis], rows.dims()[self.axis]);
        let start = args[2].int(0).clamp(0, (all - count) as i64) as usize;
        let inner: usize = target.dims()[self.axis + 1..].iter().product();
        let mut out = target.clone();
        for (i, &v) in rows.data.iter().enumerate() {
            let (outer, row, rest) = (i / (count * inner), i / inner % count, i % inner);
            out.data[(outer * all + start + row) * inner + rest] = v;
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        let start = |at: i64| SampleArg::with(Some(DType::I64), [], Data::Exact(vec![at as f64]));
        let shape = |s: &[usize]| Shape::new(s).unwrap_or(Shape::SCALAR);
        let of = |axis, target: &[usize], rows: &[usize], at| {
            Sample::new(
                Self { axis },
                vec![SampleArg::any(shape(target)), SampleArg::any(shape(rows)), start(at)],
            )
        };
        let mut all = vec![
            of(0, &[5], &[2], 3),
            of(0, &[1], &[1], 0),
            of(1, &[2, 9, 3], &[2, 1, 3], 4),
            of(1, &[2, 64, 2, 8], &[2, 5, 2, 8], 59),
            of(2, &[3, 2, 7], &[3, 2, 7], 0),
            of(0, &[4, 3], &[0, 3], 2),
            of(1, &[0, 4], &[0, 2], 1),
        ];
        let bad = |axis, rows: &[usize], at: SampleArg, text| {
            Sample::bad(Self { axis }, vec![SampleArg::any([4, 3]), SampleArg::any(shape(rows)), at], text)
        };
        all.extend([
            bad(2, &[4, 3], start(0), "axis is 2, the rank is 2"),
            bad(0, &[2, 2], start(0), "arg 1 is [2, 2]; it must be [2, 3]"),
            bad(0, &[5, 3], start(0), "number of rows is 5; it must be at most those of the target"),
            bad(
                0,
                &[2, 3],
                SampleArg::with(Some(DType::I32), [], Data::Int(0, 1)),
                "arg 2 is i32; it must be i64",
            ),
        ]);
        all
    }
}

fn run<T: Element>(op: &AssignRows, call: &Call<'_>) -> Result<(), Rule> {
    let (rows, start, target) = (call.input::<T>(1)?, call.input::<i64>(2)?, call.output::<T>(0)?);
    let (all, count) = (target.dims()[op.axis], rows.layout().shape().dims()[op.axis]);
    let given = start.flat(0);
    let at = given.clamp(0, (all - count) as i64);
    if at != given {
        call.flag(0, given, all - count + 1);
    }
    let layout = target.layout().slice(op.axis, at as usize, count, 1)?;
    let mut to = target.relaid(layout);
    for i in 0..rows.layout().shape().elements() {
        to.set_flat(i, rows.flat(i));
    }
    Ok(())
}
