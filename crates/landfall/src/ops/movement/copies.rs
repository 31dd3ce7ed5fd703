//! Ops that move elements: copy, pad, concat's building block `pack`, and fold. All of them are `Disjoint`: a kernel
//! that moves elements while another block still reads them corrupts them.

pub(in crate::ops) mod cuda;

use crate::contract::{
    Body, Data, ENTRY_ALIGNMENT, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, arity,
    attributes, op_attributes, part_offsets, rules,
};
use crate::kernel::cpu::{Call, Row, RowMut, View, ViewMut, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec, collapse, with_dtype};

op_list! { Copy, Fold, Pack, Pad }

/// Elements that one task moves.
const GRAIN: usize = 32 * 1024;

/// Copies elements between views of one shape, row by row of what is left after joining axes.
pub(in crate::ops) fn copy_elements<T: Element>(call: &Call<'_>, x: View<'_, T>, out: ViewMut<'_, T>) {
    if out.elements() == 0 {
        return;
    }
    let mut layouts = [*out.layout(), *x.layout()];
    collapse(&mut layouts);
    let (out, x) = (out.relaid(layouts[0]), x.with_layout(layouts[1]));
    let outer = out.outer();
    let each = out.elements() / outer;
    call.parallel(out, outer, (GRAIN / each).max(1), |start, mut part| {
        let rank = part.dims().len();
        if rank <= 1 {
            let from = x.row(0);
            let mut to = part.row_mut(0);
            copy_row(from, start, &mut to);
        } else {
            let rows = part.rows() / part.outer();
            for r in 0..part.rows() {
                copy_row(x.row(start * rows + r), 0, &mut part.row_mut(r));
            }
        }
    });
}

#[inline(always)]
fn copy_row<T: Element>(from: Row<'_, T>, start: usize, to: &mut RowMut<'_, T>) {
    let n = to.read().len();
    match (from.as_slice(), to.as_slice()) {
        (Some(f), Some(t)) => t.copy_from_slice(&f[start..start + n]),
        (None, Some(t)) => t.iter_mut().enumerate().for_each(|(j, o)| *o = from.get(start + j)),
        _ => (0..n).for_each(|j| to.set(j, from.get(start + j))),
    }
}

op_attributes! {
    /// `out = x`, row-major without gaps.
    ///
    /// `x`: any shape, dtype and layout. Result: of its shape and dtype. Disjoint. Gradient: the cotangent. Errors: none.
    /// Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Copy(x);
}

impl Op for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::arity::<1>(self, args).map(|a| Outputs::one(a[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
        Some(vec![args[0].shape.rank(); 2])
    }
    fn body(&self) -> Body {
        Body::Primitive("movement")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| Ok(vec![Some(cx.cotangent()?)]))
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("copy", |_, call| {
                    with_dtype!(any call.dtype(0)?, T => copy_elements(call, call.input::<T>(0)?, call.output::<T>(0)?));
                    Ok(())
                }),
                Kernel::cuda("copy", cuda::copy_op),
            ]
        }
    }
}

impl Tested for Copy {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        let shapes: &[&[usize]] = &[
            &[],
            &[0],
            &[1],
            &[7],
            &[3, 5],
            &[4, 4],
            &[2, 3, 4],
            &[3, 3, 3],
            &[1, 5, 1],
            &[70, 90],
            &[2, 1, 40_000],
        ];
        let shapes = shapes.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(*self, vec![SampleArg::any(s)])).collect();
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

op_attributes! {
    /// `out[.., before + i, ..] = x[.., i, ..]` along one axis, zero elsewhere.
    ///
    /// `x`: any dtype, rank 1 or more. Result: `x` with `before + after` more elements along the axis. Disjoint. Gradient: the
    /// slice of the cotangent. Errors: no such axis. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Pad(x) {
        /// The axis that grows.
        pub axis of x: usize = 0 => required,
        /// Zeros put before.
        pub before: usize = 0,
        /// Zeros put after.
        pub after: usize = 0,
    }
}

impl Op for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [x] = rules::arity(self, args)?;
        let size = x
            .shape
            .dims()
            .get(self.axis)
            .ok_or(Rule::Axis { axis: self.axis as isize, rank: x.shape.rank() })?;
        let size = size.saturating_add(self.before).saturating_add(self.after);
        Ok(Outputs::one(Spec { shape: x.shape.with(self.axis, size), ..x }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Primitive("movement")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("pad", &[], None, None))?;
            let len = cx.graph.shape(cx.inputs[0]).dims()[op.axis];
            Ok(vec![Some(cx.graph.slice(cx.cotangent()?, op.axis, op.before, len)?)])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Movement
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("pad", |op, call| {
                    let op = attributes::<Pad>(op)?;
                    with_dtype!(any call.dtype(0)?, T => {
                        let (x, mut out) = (call.input::<T>(0)?, call.output::<T>(0)?);
                        let n = x.dims()[op.axis];
                        let inside = out.layout().slice(op.axis, op.before, n, 1)?;
                        for (start, len) in [(0, op.before), (op.before + n, op.after)] {
                            let edge = out.layout().slice(op.axis, start, len, 1)?;
                            out.reborrow().relaid(edge).fill(T::from_f64(0.0));
                        }
                        copy_elements(call, x, out.relaid(inside));
                    });
                    Ok(())
                }),
                Kernel::cuda("pad", cuda::pad),
            ]
        }
    }
}

impl Tested for Pad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let Ok(outputs) = self.infer(&[args[0].spec]) else { return Vec::new() };
        let inner: usize = args[0].dims()[self.axis + 1..].iter().product();
        let (n, m) = (args[0].dims()[self.axis], outputs[0].shape.dims()[self.axis]);
        vec![HostTensor::from_fn(outputs[0], |i| {
            let (outer, at, rest) = (i / (m * inner), i / inner % m, i % inner);
            if (self.before..self.before + n).contains(&at) {
                args[0].data[(outer * n + at - self.before) * inner + rest]
            } else {
                0.0
            }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |axis, before, after, shape: &[usize]| {
            Shape::new(shape).map(|s| Sample::new(Self { axis, before, after }, vec![SampleArg::any(s)]))
        };
        let all = [
            case(0, 1, 2, &[5]),
            case(1, 0, 3, &[4, 4]),
            case(0, 2, 0, &[3, 4, 3]),
            case(2, 1, 1, &[2, 3, 1]),
            case(1, 0, 0, &[3, 3]),
            case(0, 2, 2, &[0, 3]),
            case(1, 3, 0, &[200, 300]),
        ];
        let mut all: Vec<Sample> = all.into_iter().flatten().collect();
        all.push(Sample::bad(
            Self { axis: 2, before: 0, after: 0 },
            vec![SampleArg::any([4, 8])],
            "axis is 2, the rank is 2",
        ));
        all
    }
}

op_attributes! {
    /// The arguments behind each other in one flat tensor: `out[s_k + i] = x_k[i]`, where each `s_k` is the first multiple
    /// of 16 elements behind the argument before; gaps are zero.
    /// The layout of a state's slab, so that gradients packed in the order of the parameters match them element for element.
    ///
    /// Arguments: one or more `x`, any shapes, one dtype. Result: `[n]`. Alias: an argument may already lie in its place, then it is not
    /// copied (a program's producers write there). Gradient: the parts of the cotangent. Errors: no argument, dtypes
    /// that differ. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Pack(x and more);
}

impl Op for Pack {
    fn name(&self) -> &'static str {
        "pack"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let first = args[0];
        (1..args.len()).try_for_each(|i| rules::same_dtype(args, 0, i))?;
        let aligned = |at: usize| at.checked_next_multiple_of(ENTRY_ALIGNMENT);
        let end = args.iter().try_fold(0, |at, part| aligned(at)?.checked_add(part.shape.elements()));
        // More than a shape can be is refused as one.
        Ok(Outputs::one(Spec::new(first.dtype, [end.and_then(aligned).unwrap_or(usize::MAX)])))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::parts(ENTRY_ALIGNMENT)] }
    }
    fn body(&self) -> Body {
        Body::Primitive("movement")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let c = cx.cotangent()?;
            let specs = cx.graph.specs(cx.inputs);
            let parts = part_offsets(specs.iter().copied(), ENTRY_ALIGNMENT).zip(&specs);
            parts
                .map(|(at, spec)| {
                    let part = cx.graph.slice(c, 0, at, spec.shape.elements())?;
                    Ok(Some(cx.graph.reshape(part, spec.shape)?))
                })
                .collect()
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("pack", |_, call| {
                    with_dtype!(any call.dtype(0)?, T => pack::<T>(call)?);
                    Ok(())
                }),
                Kernel::cuda("pack", cuda::pack),
            ]
        }
    }
}

impl Tested for Pack {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let mut out = HostTensor::from_fn(outputs[0], |_| 0.0);
        for (at, a) in part_offsets(specs, ENTRY_ALIGNMENT).zip(args) {
            out.data[at..at + a.data.len()].copy_from_slice(&a.data);
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        vec![
            Sample::new(*self, vec![SampleArg::any([4, 4])]),
            Sample::new(
                *self,
                vec![
                    SampleArg::any([3, 5]),
                    SampleArg::any([16]),
                    SampleArg::any([]),
                    SampleArg::any([2, 2, 2]),
                ],
            ),
            Sample::new(*self, vec![SampleArg::any([0]), SampleArg::any([7]), SampleArg::any([7])]),
            Sample::bad(*self, vec![], "takes at least 1 argument (x, ..), got 0"),
            Sample::bad(
                *self,
                vec![SampleArg::any([4]), SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2))],
                "their dtypes must be equal",
            ),
        ]
    }
}

fn pack<T: Element>(call: &Call<'_>) -> Result<(), Rule> {
    let mut out = call.output::<T>(0)?;
    let mut end = 0;
    let zero = T::from_f64(0.0);
    for i in 0..call.inputs() {
        let start = usize::next_multiple_of(end, ENTRY_ALIGNMENT);
        (end..start).for_each(|k| out.set_flat(k, zero));
        let n = call.elements(i)?;
        if let Some(x) = call.input_or_in_place::<T>(i)? {
            let at = out.layout().slice(0, start, n, 1)?;
            // The part under the argument's own shape, which a contiguous piece always allows.
            let at = at.reshape(*x.layout().shape())?;
            copy_elements(call, x, out.reborrow().relaid(at));
        }
        end = start + n;
    }
    (end..out.elements()).for_each(|k| out.set_flat(k, zero));
    Ok(())
}

op_attributes! {
    /// The adjoint of `unfold`: `out[.., i] = Σ x[.., w, j]` over all windows `w` and positions `j` with `w·step + j = i`.
    ///
    /// `x`: `[.., windows, size]`, float; result `[.., length]`. Accumulation in window order. Disjoint. Gradient: the
    /// cotangent unfolded. Errors: no float, windows of another size or number. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct Fold(x) {
        /// Elements of a window.
        pub size: usize = 3 => required,
        /// Distance between starts of windows.
        pub step: usize = 2 => required,
        /// Elements of the result's last axis.
        pub length: usize = 7 => required,
    }
}

impl Op for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [x] = rules::arity(self, args)?;
        rules::float(args, &[0])?;
        let rank = x.shape.rank();
        if rank < 2 {
            return Err(Rule::Rank { arg: 0, rank, expected: "at least 2" });
        }
        let windows = if self.step == 0 || self.size > self.length {
            0
        } else {
            ((self.length - self.size) / self.step).saturating_add(1)
        };
        let outer = x.shape.without(rank - 1).without(rank - 2);
        let mut expected = outer;
        expected.push(windows);
        expected.push(self.size);
        rules::shape(args, 0, expected)?;
        let mut shape = outer;
        shape.push(self.length);
        Ok(Outputs::one(Spec { shape, ..x }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::ZEROED]
    }
    fn body(&self) -> Body {
        Body::Primitive("movement")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("fold", &[], None, None))?;
            Ok(vec![Some(cx.graph.unfold(cx.cotangent()?, op.size, op.step)?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("fold", |op, call| {
                    let op = attributes::<Fold>(op)?;
                    with_float!(call, 0, T => fold::<T>(op, call))
                }),
                Kernel::cuda("fold", cuda::fold),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements()
    }
}

impl Tested for Fold {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let Ok(outputs) = self.infer(&[args[0].spec]) else { return Vec::new() };
        let mut out = HostTensor::from_fn(outputs[0], |_| 0.0);
        let windows = args[0].dims()[args[0].dims().len() - 2];
        for (i, v) in args[0].data.iter().enumerate() {
            let (outer, w, j) = (i / (windows * self.size), i / self.size % windows, i % self.size);
            out.data[outer * self.length + w * self.step + j] += v;
        }
        vec![out]
    }
    fn samples(&self) -> Vec<Sample> {
        vec![
            Sample::new(*self, vec![SampleArg::any([2, 3, 3])]),
            Sample::new(Self { size: 16, step: 8, length: 344 }, vec![SampleArg::any([2, 3, 42, 16])]),
            Sample::new(Self { size: 2, step: 3, length: 9 }, vec![SampleArg::any([3, 2])]),
            Sample::new(Self { size: 4, step: 4, length: 8 }, vec![SampleArg::any([0, 2, 4])]),
            Sample::new(Self { size: 1, step: 1, length: 5 }, vec![SampleArg::any([5, 1])]),
            Sample::bad(*self, vec![SampleArg::any([2, 4, 3])], "arg 0 is [2, 4, 3]; it must be [2, 3, 3]"),
        ]
    }
}

fn fold<T: Element>(op: &Fold, call: &Call<'_>) -> Result<(), Rule> {
    let (x, out) = (call.input::<T>(0)?, call.output::<T>(0)?.merge_outer());
    if out.elements() == 0 {
        return Ok(());
    }
    let windows = x.dims()[x.dims().len() - 2];
    let outer = out.outer();
    let rows = out.rows() / outer;
    call.parallel(out, outer, (GRAIN / (op.length * rows)).max(1), |start, mut part| {
        for r in 0..part.rows() {
            let mut row = part.row_mut(r);
            for i in 0..op.length {
                // Windows that hold element i, first to last.
                let last = (i / op.step).min(windows.wrapping_sub(1));
                let first = (i + 1).saturating_sub(op.size).div_ceil(op.step);
                let mut sum = T::Acc::default();
                for w in first..(last + 1).min(windows) {
                    let at = ((start * rows + r) * windows + w) * op.size + i - w * op.step;
                    sum = sum + x.flat(at).widen();
                }
                row.set(i, T::narrow(sum));
            }
        }
    });
    Ok(())
}
