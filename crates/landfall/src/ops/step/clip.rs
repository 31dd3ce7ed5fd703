//! Clipping of gradients: their norm, the factor that bounds it, and whether all of them are finite.

mod cuda;

use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, arity, attributes,
    op_attributes, rules,
};
use crate::kernel::cpu::pointwise::pieces;
use crate::kernel::cpu::{Call, Chunks, View, with_float};
use crate::ops::elementwise::pointwise::{SHAPES, kernels, map, samples};
use crate::ops::elementwise::scalar::{Compare, Comparison};
use crate::values::{Binary, DType, DeviceKind, Element, HostTensor, Layout, Rule, Shape, Spec};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

op_list! { AllFinite, ClipScale, GlobalNorm }

/// Elements of one task, and of one partial sum.
const CHUNK: usize = 16 * 1024;
/// Sums side by side.
const LANES: usize = 16;

op_attributes! {
    /// `out = √(Σ xᵢ²)`.
    ///
    /// Argument: `x` of any shape, float. Result: a scalar of the accumulation dtype (f32, for f64 f64). Squares and sums in
    /// f64, in an order that depends on the number of elements alone (on the processor 16 lanes side by side in chunks): no
    /// f32 overflows or loses small elements. Disjoint. Gradient: `cotangent · x / norm`, 0 where the norm is 0.
    /// Deterministic, whatever the number of threads. Errors: a dtype that is not a float.
    #[derive(Debug, Clone, Copy)]
    pub struct GlobalNorm(x);
}

impl Op for GlobalNorm {
    fn name(&self) -> &'static str {
        "global_norm"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let x = rules::one_float(self, args)?;
        Ok(Outputs::one(Spec::new(x.dtype.accumulate(), [])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn accumulate(&self, _: DType) -> DType {
        DType::F64
    }
    fn body(&self) -> Body {
        Body::Primitive("reduction")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (g, x, norm) = (cx.graph, cx.inputs[0], cx.outputs[0]);
            let dtype = g.spec(norm).dtype;
            let zero = g.fill(dtype, Shape::SCALAR, 0.0)?;
            let none = g.op1(Compare { comparison: Comparison::Equal }, &[norm, zero])?;
            // Of elements that are all 0 a quotient by their norm would have no slope.
            let slope = g.div(cx.cotangent()?, g.masked_fill(norm, none, 1.0)?)?;
            let product = g.mul(g.cast(x, dtype)?, slope)?;
            Ok(vec![Some(g.cast(product, g.spec(x).dtype)?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("global_norm", |_, call| with_float!(call, 0, T => norm::<T>(call)))
                    .with_workspace(|_, args| {
                        let n = args.first().map_or(0, |a| a.shape.elements());
                        if n > CHUNK { n.div_ceil(CHUNK) * size_of::<f64>() } else { 0 }
                    }),
                Kernel::cuda("global_norm", cuda::global_norm).with_workspace(cuda::norm_workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(2)
    }
}

impl Tested for GlobalNorm {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        // Compensated (Kahan 1965): a plain chain of f64 is further off than the kernel's lanes.
        let (mut sum, mut lost) = (0.0f64, 0.0f64);
        for x in &args[0].data {
            let term = x * x - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        let norm = sum.sqrt();
        vec![HostTensor::from_fn(Spec::new(args[0].spec.dtype.accumulate(), []), |_| norm)]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, &[(-3.0, 3.0)]);
        all.push(Sample::new(*self, vec![SampleArg::any([3, 17_001])]));
        all.push(Sample::new(*self, vec![SampleArg::with(None, [40], Data::Exact(vec![0.0; 40]))]));
        let far = Data::Exact(vec![3e30, -4e30, 1.0]);
        all.push(Sample::new(*self, vec![SampleArg::with(Some(DType::F32), [3], far)]));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5))],
            "it must be f32, f64, bf16 or f16",
        ));
        all
    }
}

fn norm<T: Element>(call: &Call<'_>) -> Result<(), Rule> {
    let x = call.input::<T>(0)?;
    let (n, layout) = (x.elements(), x.layout().collapsed());
    let total = if n <= CHUNK {
        let mut total = [0.0];
        call.parallel(Chunks { data: &mut total, width: 1 }, 1, 1, |_, part: Chunks<'_, f64>| {
            part.data.fill(squares(&x, &layout, 0, n));
        });
        total[0]
    } else {
        let partial = call.workspace::<f64>()?;
        let chunks = n.div_ceil(CHUNK);
        let whole = Chunks { data: &mut partial[..chunks], width: 1 };
        call.parallel(
            whole,
            chunks,
            1,
            #[inline(always)]
            |chunk, part| {
                let from = chunk * CHUNK;
                part.data.fill(squares(&x, &layout, from, CHUNK.min(n - from)));
            },
        );
        partial[..chunks].iter().sum()
    };
    call.output::<T::Acc>(0)?.set_flat(0, T::Acc::from_f64(total.sqrt()));
    Ok(())
}

/// Sum of the squares of elements `from..from + len`.
#[inline(always)]
fn squares<T: Element>(x: &View<'_, T>, layout: &Layout, from: usize, len: usize) -> f64 {
    let (data, mut lanes) = (x.data(), [0.0; LANES]);
    if len == 0 {
        return 0.0;
    }
    pieces(
        layout,
        from,
        len,
        #[inline(always)]
        |first, at, n, stride| {
            // A piece goes on in the lane where the one before it ended, so that no layout changes the order.
            let head = if stride == 1 { ((LANES - first % LANES) % LANES).min(n) } else { n };
            for j in 0..head {
                let v = data[at + j * stride].widen().to_f64();
                lanes[(first + j) % LANES] += v * v;
            }
            if stride == 1 {
                add_squares(&mut lanes, &data[at + head..at + n]);
            }
        },
    );
    lanes.iter().sum()
}

/// Adds the squares of contiguous elements to the lanes, which are a local array here, so that they stay in registers.
#[inline(always)]
fn add_squares<T: Element>(lanes: &mut [f64; LANES], data: &[T]) {
    let mut sums = *lanes;
    let (whole, rest) = data.as_chunks::<LANES>();
    for some in whole {
        for (sum, v) in sums.iter_mut().zip(some) {
            let v = v.widen().to_f64();
            *sum += v * v;
        }
    }
    for (sum, v) in sums.iter_mut().zip(rest) {
        let v = v.widen().to_f64();
        *sum += v * v;
    }
    *lanes = sums;
}

op_attributes! {
    /// `out = min(1, max / (norm + 10⁻⁶))`: what gradients are multiplied by so that their norm is at most `max`.
    ///
    /// Argument: `norm`, a float scalar (any shape is taken element by element). Result: as the argument. In place on `norm`. NaN stays
    /// NaN. No gradient: clipping is outside of the loss. Deterministic. Errors: `max` not above 0. Source: Pascanu,
    /// Mikolov and Bengio 2013, with PyTorch's 10⁻⁶.
    #[derive(Debug, Clone, Copy)]
    pub struct ClipScale(norm) {
        /// The largest norm that is left as it is.
        pub max: f64 = 1.0 => required,
    }
}

impl Op for ClipScale {
    fn name(&self) -> &'static str {
        "clip_scale"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let x = rules::one_float(self, args)?;
        // Not `<=`: NaN is refused too.
        if self.max > 0.0 {
            Ok(Outputs::one(x))
        } else {
            Err(Rule::Attribute { name: "max", value: self.max, expected: "above 0" })
        }
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Pointwise(|op, e| {
            let max = attributes::<Self>(op).copied().unwrap_or_default().max;
            let norm = e.arg(0);
            let small = e.constant(1e-6);
            let norm = e.add(norm, small);
            let max = e.constant(max);
            let scale = e.binary(Binary::Div, max, norm);
            let one = e.constant(1.0);
            e.binary(Binary::Min, scale, one)
        })
    }
    fn vjp(&self) -> Grad {
        Grad::None("clipping is outside of the loss")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        kernels::<Self>()
    }
}

impl Tested for ClipScale {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        map(args, args[0].spec.dtype, |x| {
            let scale = self.max / (x[0] + 1e-6);
            if scale > 1.0 { 1.0 } else { scale }
        })
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = samples(*self, &[(0.0, 4.0)]);
        let norms = Data::Exact(vec![0.0, 0.5, 4.9, 5.0, 5.1, 1e4]);
        all.push(Sample::new(Self { max: 5.0 }, vec![SampleArg::with(None, [6], norms)]));
        all.push(Sample::bad(Self { max: 0.0 }, vec![SampleArg::any([])], "max is 0; it must be above 0"));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (norm), got 0"));
        all
    }
}

op_attributes! {
    /// `out = 1` if every element of every argument is finite, else 0.
    ///
    /// Arguments: one or more `x`, floats, shapes and dtypes mixed. Result: `bool[]`. Disjoint. No gradient. Deterministic.
    /// Errors: no argument, a dtype that is not a float.
    #[derive(Debug, Clone, Copy)]
    pub struct AllFinite(x and more);
}

impl Op for AllFinite {
    fn name(&self) -> &'static str {
        "all_finite"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        (0..args.len()).try_for_each(|i| rules::float(args, &[i]))?;
        Ok(Outputs::one(Spec::new(DType::Bool, [])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("a truth value of many arguments")
    }
    fn vjp(&self) -> Grad {
        Grad::Zero
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("all_finite", |_, call| {
                    // Tasks only ever set it, so their order does not matter.
                    let bad = AtomicBool::new(false);
                    for i in 0..call.inputs() {
                        with_float!(call, i, T => search::<T>(call, call.input::<T>(i)?, &bad));
                    }
                    call.output::<u8>(0)?.set_flat(0, u8::from(!bad.into_inner()));
                    Ok(())
                }),
                Kernel::cuda("all_finite", cuda::all_finite),
            ]
        }
    }
}

impl Tested for AllFinite {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let all = args.iter().all(|a| a.data.iter().all(|x| x.is_finite()));
        vec![HostTensor::from_fn(Spec::new(DType::Bool, []), |_| f64::from(u8::from(all)))]
    }
    fn samples(&self) -> Vec<Sample> {
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(*self, vec![SampleArg::any(s)])).collect();
        let mixed = || vec![SampleArg::any([5, 7]), SampleArg::with(Some(DType::F64), [], Data::Wide)];
        all.push(Sample::new(*self, mixed()));
        for (at, value) in [(0, f64::NAN), (36, f64::INFINITY), (17, f64::NEG_INFINITY)] {
            let mut data = vec![1.0; 37];
            data[at] = value;
            let mut args = mixed();
            args.push(SampleArg::with(None, [37], Data::Exact(data)));
            all.push(Sample::new(*self, args));
        }
        all.push(Sample::new(*self, vec![SampleArg::any([40_000]), SampleArg::any([3, 11_000])]));
        all.push(Sample::bad(*self, vec![], "takes at least 1 argument (x, ..), got 0"));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([2]), SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5))],
            "it must be f32, f64, bf16 or f16",
        ));
        all
    }
}

fn search<T: Element>(call: &Call<'_>, x: View<'_, T>, bad: &AtomicBool) {
    let (n, layout) = (x.elements(), x.layout().collapsed());
    if n == 0 {
        return;
    }
    // Nothing is written but the flag: the parts are empty.
    let nothing = Chunks { data: &mut [0u8; 0], width: 0 };
    call.parallel(
        nothing,
        n.div_ceil(CHUNK),
        1,
        #[inline(always)]
        |chunk, _| {
            let from = chunk * CHUNK;
            let len = CHUNK.min(n - from);
            let mut found = false;
            pieces(
                &layout,
                from,
                len,
                #[inline(always)]
                |_, at, n, stride| {
                    found |= if stride == 1 {
                        any_bad(&x.data()[at..at + n])
                    } else {
                        (0..n).any(|j| bad_value(x.data()[at + j * stride]))
                    };
                },
            );
            if found {
                bad.store(true, Relaxed);
            }
        },
    );
}

/// Whether it is infinite or NaN: v − v is 0 for all others.
#[inline(always)]
fn bad_value<T: Element>(v: T) -> bool {
    v.widen() - v.widen() != T::Acc::default()
}

/// Whether any element is bad, without an exit in the loop, so that it vectorises.
#[inline(always)]
fn any_bad<T: Element>(data: &[T]) -> bool {
    data.iter().fold(false, |found, &v| found | bad_value(v))
}
