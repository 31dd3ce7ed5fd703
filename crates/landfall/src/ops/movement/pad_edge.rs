//! Padding with the last value.

use crate::contract::{
    Body, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::ops::movement::copies as movement;
use crate::values::{DeviceKind, Element, HostTensor, Rule, Shape, Spec, with_dtype};

op_list! { PadEdge }

/// Elements that one task moves.
const GRAIN: usize = 32 * 1024;

op_attributes! {
    /// `out[.., i] = x[.., min(i, n − 1)]` for `i < n + after`.
    ///
    /// Argument: `x` `[.., n]` (n ≥ 1), any dtype. Result: `[.., n + after]`. Disjoint. Gradient: the cotangent, its tail
    /// added up into the last element. Deterministic. Errors: rank 0, n is 0.
    #[derive(Debug, Clone, Copy)]
    pub struct PadEdge(x) {
        /// Elements put behind.
        pub after: usize = 3 => required,
    }
}

impl Op for PadEdge {
    fn name(&self) -> &'static str {
        "pad_edge"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [x] = rules::arity(self, args)?;
        let Some(axis) = x.shape.rank().checked_sub(1) else {
            return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" });
        };
        if x.shape.last() == 0 {
            return Err(Rule::Attribute { name: "last size", value: 0.0, expected: "at least 1" });
        }
        let size = x.shape.last().saturating_add(self.after);
        Ok(Outputs::one(Spec { shape: x.shape.with(axis, size), ..x }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Fused(|op, g, args| {
            let after = attributes::<Self>(op).map_err(|r| r.of("pad_edge", &[], None, None))?.after;
            let shape = g.shape(args[0]);
            let axis = shape.rank() - 1;
            if after == 0 {
                return Ok(vec![g.copy(args[0])?]);
            }
            let last = g.slice(args[0], axis, shape.last() - 1, 1)?;
            let tail = g.broadcast_to(last, shape.with(axis, after))?;
            Ok(vec![g.concat(&[args[0], tail], axis)?])
        })
    }
    fn vjp(&self) -> Grad {
        // Through the body the cotangent would be padded with zeros and added: a pass more than this.
        Grad::Rule(|op, cx| {
            let after = attributes::<Self>(op).map_err(|r| r.of("pad_edge", &[], None, None))?.after;
            let (g, c) = (cx.graph, cx.cotangent()?);
            let shape = g.shape(cx.inputs[0]);
            let (axis, kept) = (shape.rank() - 1, shape.last() - 1);
            let head = g.slice(c, axis, 0, kept)?;
            let tail = g.sum(g.slice(c, axis, kept, after + 1)?, [axis])?;
            let tail = g.reshape(tail, shape.with(axis, 1))?;
            Ok(vec![Some(g.concat(&[head, tail], axis)?)])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("pad_edge", |_, call| with_dtype!(any call.dtype(0)?, T => pad_edge::<T>(call))),
                Kernel::cuda("pad_edge", |_, call| {
                    let (x, out) = (*call.input(0)?, *call.output(0)?);
                    let (axis, n, m) =
                        (x.spec().shape.rank() - 1, x.spec().shape.last(), out.spec().shape.last());
                    let head = out.relaid(out.layout().slice(axis, 0, n, 1)?);
                    movement::cuda::copy(call, &x, &head)?;
                    let tail = out.relaid(out.layout().slice(axis, n, m - n, 1)?);
                    let last = x.layout().slice(axis, n - 1, 1, 1)?.broadcast_to(tail.spec().shape)?;
                    movement::cuda::copy(call, &x.relaid(last), &tail)
                }),
            ]
        }
    }
}

impl Tested for PadEdge {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let Ok(outputs) = self.infer(&[args[0].spec]) else { return Vec::new() };
        let (n, m) = (args[0].spec.shape.last(), outputs[0].shape.last());
        vec![HostTensor::from_fn(outputs[0], |i| args[0].data[i / m * n + (i % m).min(n - 1)])]
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(usize, &[usize])] = &[
            (3, &[1]),
            (2, &[5]),
            (0, &[4, 4]),
            (8, &[3, 16]),
            (1, &[2, 3, 4]),
            (4, &[2, 3, 1]),
            (4, &[0, 3]),
            (8, &[112, 336]),
        ];
        let shaped = cases.iter().filter_map(|&(after, s)| Some((after, Shape::new(s)?)));
        let mut all: Vec<Sample> =
            shaped.map(|(after, s)| Sample::new(Self { after }, vec![SampleArg::any(s)])).collect();
        all.push(Sample::bad(*self, vec![SampleArg::any([3, 0])], "last size is 0; it must be at least 1"));
        all.push(Sample::bad(*self, vec![SampleArg::any([])], "arg 0 has rank 0; it must be at least 1"));
        all
    }
}

fn pad_edge<T: Element>(call: &Call<'_>) -> Result<(), Rule> {
    // At least two axes, so that work is cut between rows.
    let (x, out) = (call.input::<T>(0)?.merge_outer(), call.output::<T>(0)?.merge_outer());
    if out.elements() == 0 {
        return Ok(());
    }
    let (n, outer) = (x.cols(), out.outer());
    let rows = out.rows() / outer;
    call.parallel(out, outer, (GRAIN / (rows * n)).max(1), |start, mut part| {
        for r in 0..part.rows() {
            let from = x.row(start * rows + r);
            let (mut to, edge) = (part.row_mut(r), from.get(n - 1));
            if let (Some(from), Some(to)) = (from.as_slice(), to.as_slice()) {
                let (head, tail) = to.split_at_mut(n);
                head.copy_from_slice(from);
                tail.fill(edge);
            } else {
                (0..to.read().len()).for_each(|j| to.set(j, from.get(j.min(n - 1))));
            }
        }
    });
    Ok(())
}
