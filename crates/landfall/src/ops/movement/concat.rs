//! Concatenation along an axis.

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, arity,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::{Call, ViewMut};
use crate::ops::movement::copies::copy_elements;
use crate::ops::movement::copies::cuda::{COPIES, copies};
use crate::values::{Axis, DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec, with_dtype};
use arrayvec::ArrayVec;
use std::panic::Location;

op_list! { Concat }

op_attributes! {
    /// The arguments behind each other along one axis: `out[.., n_0 + … + n_(k−1) + i, ..] = x_k[.., i, ..]`.
    ///
    /// Arguments: one or more `x`, number k `[.., n_k, ..]`, of one dtype, any, whose other sizes are equal. Result:
    /// `[.., Σ n_k, ..]`. Disjoint: moving elements while another task still reads them corrupts them. Gradient: the slices
    /// of the cotangent. Deterministic. Errors: no argument, no such axis, other dtypes, ranks or sizes.
    #[derive(Debug, Clone, Copy)]
    pub struct Concat(x and more) {
        /// The axis along which they lie.
        pub axis of x: usize = 0,
    }
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let first = args[0];
        let rank = first.shape.rank();
        if self.axis >= rank {
            return Err(Rule::Axis { axis: self.axis as isize, rank });
        }
        let mut size = 0usize;
        for (arg, spec) in args.iter().enumerate() {
            rules::same_dtype(args, 0, arg)?;
            if spec.shape.rank() != rank {
                let expected = "that of arg 0";
                return Err(Rule::Rank { arg, rank: spec.shape.rank(), expected });
            }
            let mut others = (0..rank).filter(|&axis| axis != self.axis);
            others.try_for_each(|axis| rules::same_dim(args, (0, axis), (arg, axis)))?;
            size = size.saturating_add(spec.shape.dims()[self.axis]);
        }
        Ok(Outputs::one(Spec { shape: first.shape.with(self.axis, size), ..first }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn independent(&self, args: &[Spec], outputs: &[Spec]) -> Option<Vec<usize>> {
        // Of the axes before the one along which they lie.
        (self.axis > 0).then(|| vec![self.axis; args.len() + outputs.len()])
    }
    fn body(&self) -> Body {
        Body::Primitive("movement")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let axis = attributes::<Self>(op).map_err(|r| r.of("concat", &[], None, None))?.axis;
            let (c, mut start) = (cx.cotangent()?, 0);
            let mut parts = Vec::with_capacity(cx.inputs.len());
            for (&x, &need) in cx.inputs.iter().zip(cx.needs) {
                let len = cx.graph.shape(x).dims()[axis];
                parts.push(if need { Some(cx.graph.slice(c, axis, start, len)?) } else { None });
                start += len;
            }
            Ok(parts)
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("concat", |op, call| {
                    let op = attributes::<Concat>(op)?;
                    with_dtype!(any call.dtype(0)?, T => concat::<T>(op, call))
                }),
                Kernel::cuda("concat", |op, call| {
                    let axis = attributes::<Concat>(op)?.axis;
                    let (out, mut start) = (*call.output(0)?, 0);
                    for some in call.inputs().chunks(COPIES) {
                        let mut pairs = ArrayVec::<_, COPIES>::new();
                        for x in some {
                            let len = x.spec().shape.dims()[axis];
                            pairs.push((*x, out.relaid(out.layout().slice(axis, start, len, 1)?)));
                            start += len;
                        }
                        copies(call, &pairs)?;
                    }
                    Ok(())
                }),
            ]
        }
    }
}

impl Tested for Concat {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let inner: usize = outputs[0].shape.dims()[self.axis + 1..].iter().product();
        let size = outputs[0].shape.dims()[self.axis];
        vec![HostTensor::from_fn(outputs[0], |i| {
            let (outer, mut at, rest) = (i / (size * inner), i / inner % size, i % inner);
            let mut k = 0;
            while at >= args[k].dims()[self.axis] {
                at -= args[k].dims()[self.axis];
                k += 1;
            }
            args[k].data[(outer * args[k].dims()[self.axis] + at) * inner + rest]
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |axis, shapes: &[&[usize]]| {
            let args = shapes.iter().filter_map(|s| Shape::new(s)).map(SampleArg::any);
            Sample::new(Self { axis }, args.collect())
        };
        let bad = |axis, shapes: &[&[usize]], text| {
            let args = shapes.iter().filter_map(|s| Shape::new(s)).map(SampleArg::any);
            Sample::bad(Self { axis }, args.collect(), text)
        };
        vec![
            case(0, &[&[5]]),
            case(0, &[&[1], &[1]]),
            case(0, &[&[3], &[0], &[7]]),
            case(0, &[&[0], &[0]]),
            case(1, &[&[4, 4], &[4, 4]]),
            case(0, &[&[2, 3, 4], &[1, 3, 4], &[3, 3, 4]]),
            case(1, &[&[2, 3, 4], &[2, 1, 4]]),
            case(2, &[&[2, 3, 17], &[2, 3, 16], &[2, 3, 1]]),
            case(1, &[&[0, 3], &[0, 2]]),
            case(1, &[&[90, 336], &[90, 24]]),
            case(2, &[&[33, 12, 64], &[33, 12, 64], &[33, 12, 64]]),
            case(1, &[&[5, 8], &[5, 16], &[5, 0], &[5, 3], &[5, 1], &[5, 24]]),
            bad(0, &[], "takes at least 1 argument (x, ..), got 0"),
            bad(1, &[&[3], &[3]], "axis is 1, the rank is 1; axis must be < rank"),
            bad(0, &[&[3, 4], &[3, 5]], "arg 0 axis 1 is 4, arg 1 axis 1 is 5; they must be equal"),
            bad(0, &[&[3, 4], &[3]], "arg 1 has rank 1; it must be that of arg 0"),
            Sample::bad(
                Self { axis: 0 },
                vec![SampleArg::any([4]), SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2))],
                "their dtypes must be equal",
            ),
        ]
    }
}

fn concat<T: Element>(op: &Concat, call: &Call<'_>) -> Result<(), Rule> {
    let (mut out, mut start) = (call.output::<T>(0)?, 0);
    for i in 0..call.inputs() {
        let x = call.input::<T>(i)?;
        let n = x.dims()[op.axis];
        let part = out.layout().slice(op.axis, start, n, 1)?;
        // The part as a view of its own, which begins at its first element; an empty one may begin past the end.
        if let Some(data) = out.data().get_mut(part.offset()..) {
            copy_elements(call, x, ViewMut::over(data, part.at_origin()));
        }
        start += n;
    }
    Ok(())
}

impl Graph {
    /// The values behind each other along an axis.
    ///
    /// # Errors
    /// They must be of one dtype, and of one shape but for that axis, which must exist.
    #[track_caller]
    pub fn concat(&self, values: &[Value], axis: impl Axis) -> Result<Value, Error> {
        let axis = match values.first() {
            Some(&x) => self.axis("concat", x, axis)?,
            // The op says that there must be one.
            None => 0,
        };
        self.op1(Concat { axis }, values)
    }

    /// The values behind each other along a new axis, counted in the result.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [8, 3]);
    /// assert_eq!(g.shape(g.stack(&[x, g.neg(x)?], -1)?).dims(), [8, 3, 2]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// They must be of one dtype and shape, and there must be such a place.
    #[track_caller]
    pub fn stack(&self, values: &[Value], axis: impl Axis) -> Result<Value, Error> {
        let rank = values.first().map_or(0, |&x| self.shape(x).rank());
        let at = Location::caller();
        let axis =
            axis.index(rank + 1).map_err(|rule| rule.of("stack", &self.specs(values), None, Some(at)))?;
        let mut wide = values.to_vec();
        for x in &mut wide {
            *x = self.unsqueeze(*x, axis)?;
        }
        self.concat(&wide, axis)
    }

    /// As many equal parts along an axis as are named, one after the other: views.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [8, 6]);
    /// let [value, gate] = g.chunk(x, -1)?;
    /// assert_eq!(g.shape(g.mul(value, g.sigmoid(gate)?)?).dims(), [8, 3]); // a gated linear unit
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The axis must exist, and its size be a multiple of the number of parts.
    #[track_caller]
    pub fn chunk<const N: usize>(&self, x: Value, axis: impl Axis) -> Result<[Value; N], Error> {
        let at = Location::caller();
        let axis = self.axis("chunk", x, axis)?;
        let size = self.shape(x).dims()[axis];
        if N == 0 || !size.is_multiple_of(N) {
            let (name, expected) = ("number of parts", "a divisor of the size of the axis");
            let rule = Rule::Attribute { name, value: N as f64, expected };
            return Err(rule.of("chunk", &self.specs(&[x]), None, Some(at)).into());
        }
        let mut parts = [x; N];
        for (number, part) in parts.iter_mut().enumerate() {
            *part = self.slice(x, axis, number * (size / N), size / N)?;
        }
        Ok(parts)
    }
}
