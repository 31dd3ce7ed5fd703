//! L2 normalisation over the last axis, and its gradient.

mod cuda;

use super::lanes::{TILE, rows, sum, sum2};
use super::pointwise::cotangent;
use super::{
    Alias, Body, Cost, Coverage, Data, Grad, Kernel, Op, Outputs, Sample, SampleArg, attributes, rules,
};
use crate::codegen::tile::Arith;
use crate::cpu::{Call, Row};
use crate::device::DeviceKind;
use crate::error::{Error, Rule};
use crate::graph::{Graph, Value};
use crate::host::HostTensor;
use crate::shape::{Shape, Spec};
use crate::{DType, Element, with_dtype};

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;

/// Rows and columns of `x`.
fn sizes(x: &Shape) -> (usize, usize) {
    (x.without(x.rank().saturating_sub(1)).elements(), x.last())
}

/// `y = x / √(Σ x² + eps)`, the sum over the last axis: rows of length 1, but for `eps`.
///
/// `x`: `[.., d]`, float; result the same. Queries and keys that it has passed give scores that are cosines of their
/// angle. Accumulation: squares in f32 in tiles (f64 for f64), f64 over tiles; one rounding to the dtype. In place on
/// `x`. Gradient: [`L2NormGrad`]. A row of zeros gives zeros (NaN without `eps`). Errors: `x` has an axis.
/// Deterministic, whatever the number of threads. Source: Henry et al., "Query-Key Normalization for Transformers"
/// (2020).
///
/// ```
/// use landfall::{DType::F64, Engine, ops};
/// let engine = Engine::cpu()?;
/// let x = engine.tensor([1, 2], &[3.0f64, 4.0])?;
/// let mut y = engine.empty(F64, [1, 2])?;
/// engine.call(&ops::L2Norm { eps: 0.0 }, &[x.view()], &mut [y.view_mut()])?;
/// assert!((y.read::<f64>()?[1] - 0.8).abs() < 1e-15);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct L2Norm {
    /// Added to the sum of squares.
    pub eps: f64,
}

impl Default for L2Norm {
    fn default() -> Self {
        Self { eps: 1e-6 }
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<L2Norm>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let spec = g.spec(args[0]);
    let x = g.cast(args[0], spec.dtype.accumulate())?;
    let axis = spec.shape.rank().saturating_sub(1);
    let squares = g.sum(g.mul(x, x)?, &[axis])?;
    let factor = g.reshape(g.rsqrt(g.affine(squares, 1.0, eps)?)?, spec.shape.with(axis, 1))?;
    Ok(vec![g.cast(g.mul(x, factor)?, spec.dtype)?])
}

fn check(args: &[Spec], arg: usize) -> Result<(), Rule> {
    rules::float(args, &[arg])?;
    match args[arg].shape.rank() {
        0 => Err(Rule::Rank { arg, rank: 0, expected: "at least 1" }),
        _ => Ok(()),
    }
}

impl Op for L2Norm {
    fn name(&self) -> &'static str {
        "l2_norm"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(args)?;
        check(&args, 0)?;
        Ok(Outputs::one(args[0]))
    }
    fn alias(&self) -> &[Alias] {
        &[Alias::InPlace(&[0])]
    }
    fn coverage(&self) -> &[Coverage] {
        &[Coverage::Full]
    }
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let eps = attributes::<Self>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
            Ok(vec![Some(cx.graph.op1(L2NormGrad { eps }, &[cotangent(cx)?, cx.inputs[0]])?)])
        })
    }
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, d) = (&args[0].data, args[0].spec.shape.last());
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let row = &x[i / d * d..][..d];
            x[i] / (row.iter().map(|v| v * v).sum::<f64>() + self.eps).sqrt()
        })]
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("l2_norm", |op, call| {
                    let (op, dtype) = (attributes::<Self>(op)?, call.dtype(0)?);
                    with_dtype!(float dtype, T => forward::<T>(op.eps, call),
                        else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }))
                }),
                Kernel::cuda("l2_norm", cuda::forward),
            ]
        }
    }
    fn cost(&self, args: &[Spec]) -> Cost {
        // Square, sum, product.
        self.infer(args)
            .map_or(Cost::default(), |o| Cost::of(args, &o, args[0].shape.elements().saturating_mul(3)))
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = SHAPES
            .iter()
            .filter_map(|s| Shape::new(s))
            .map(|s| Sample::new(*self, vec![SampleArg::any(s)]))
            .collect();
        all.push(Sample::new(Self { eps: 0.5 }, vec![SampleArg::range([6, 16], -0.1, 0.1)]));
        all.push(Sample::new(Self { eps: 0.5 }, vec![SampleArg::any([1, 1])]));
        all.push(Sample::new(*self, vec![SampleArg::with(None, [3, 40], Data::Wide)]));
        all.push(Sample::bad(*self, vec![SampleArg::any([])], "arg 0 has rank 0; it must be at least 1"));
        let ints = SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
        all.push(Sample::bad(*self, vec![ints], "it must be f32, f64, bf16 or f16"));
        all.push(Sample::bad(*self, vec![], "takes 1 arguments, got 0"));
        all
    }
}

const SHAPES: &[&[usize]] = &[
    &[8],
    &[3, 5],
    &[4, 4],
    &[2, 3, 16],
    &[0, 8],
    &[3, 0],
    &[70, 33],
    &[5, 1300],
    &[2, 2100],
    &[700, 64],
    &[3, 12, 4, 64],
];

/// Gradient of [`L2Norm`]: with `s = Σ x² + eps` in each row, `gx = (gy − x · (Σ gy·x) / s) / √s`: what lies along `x`
/// is taken off `gy`, so errors are relative to `gy/√s`.
///
/// `gy`, `x`: `[.., d]`, one float dtype; result as `x`. Accumulation: f32 in tiles (f64 for f64), f64 over tiles. In
/// place on `gy` or `x`. No second derivatives. Errors: shapes or dtypes that differ. Deterministic, whatever the number
/// of threads.
#[derive(Debug, Clone, Copy)]
pub struct L2NormGrad {
    /// As in the forward pass.
    pub eps: f64,
}

impl Default for L2NormGrad {
    fn default() -> Self {
        Self { eps: 1e-6 }
    }
}

impl Op for L2NormGrad {
    fn name(&self) -> &'static str {
        "l2_norm_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(args)?;
        check(&args, 0)?;
        rules::same_dtype(&args, 0, 1)?;
        rules::same_shape(&args, 0, 1)?;
        Ok(Outputs::one(args[1]))
    }
    fn alias(&self) -> &[Alias] {
        &[Alias::InPlace(&[0, 1])]
    }
    fn coverage(&self) -> &[Coverage] {
        &[Coverage::Full]
    }
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    fn body(&self) -> Body {
        Body::Opaque("both sums are taken in one pass over a row")
    }
    fn vjp(&self) -> Grad {
        Grad::None("second derivatives are not provided")
    }
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (gy, x, d) = (&args[0].data, &args[1].data, args[1].spec.shape.last());
        vec![HostTensor::from_fn(args[1].spec, |i| {
            let row = || i / d * d..i / d * d + d;
            let squares = row().map(|j| x[j] * x[j]).sum::<f64>() + self.eps;
            let along = row().map(|j| gy[j] * x[j]).sum::<f64>() / squares;
            (gy[i] - x[i] * along) / squares.sqrt()
        })]
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("l2_norm_grad", |op, call| {
                    let (op, dtype) = (attributes::<Self>(op)?, call.dtype(0)?);
                    with_dtype!(float dtype, T => backward::<T>(op.eps, call),
                        else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }))
                }),
                Kernel::cuda("l2_norm_grad", cuda::backward),
            ]
        }
    }
    fn cost(&self, args: &[Spec]) -> Cost {
        // Two products and two sums, then a product, a difference and a product.
        self.infer(args)
            .map_or(Cost::default(), |o| Cost::of(args, &o, args[0].shape.elements().saturating_mul(7)))
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |s: Shape| vec![SampleArg::any(s), SampleArg::any(s)];
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(*self, args(s))).collect();
        // Rows of one element are all along x: without an eps of their size nothing but rounding is left.
        all.extend([[6, 16], [1, 1]].map(|s| Sample::new(Self { eps: 0.5 }, args(s.into()))));
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![SampleArg::any([4, 8]), SampleArg::any([4, 6])], "their shapes must be equal"),
            bad(
                vec![SampleArg::any([4]), SampleArg::with(Some(DType::Bool), [4], Data::Int(0, 2))],
                "their dtypes must be equal",
            ),
            bad(vec![SampleArg::any([]), SampleArg::any([])], "arg 0 has rank 0; it must be at least 1"),
        ]);
        all
    }
}

fn forward<T: Element>(eps: f64, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input_or_in_place::<T>(0)?.map(|x| x.merge_outer());
    let y = call.output::<T>(0)?;
    let (n, d) = sizes(y.layout().shape());
    let (y, cut) = rows(y, &[n, d]);
    call.parallel(
        y,
        n,
        if cut { (GRAIN / d.max(1)).max(1) } else { n },
        #[inline(always)]
        |start, mut y| {
            let mut tile = [T::Acc::default(); TILE];
            for r in 0..if cut { y.outer() } else { n } {
                let mut out = y.row_mut(r);
                let read = |from: usize, own: Row<'_, T>, tile: &mut [T::Acc]| match &x {
                    Some(x) => x.row(start + r).widen(from, tile),
                    None => own.widen(from, tile),
                };
                let mut squares = 0.0;
                for from in (0..d).step_by(TILE) {
                    let tile = &mut tile[..TILE.min(d - from)];
                    read(from, out.read(), tile);
                    squares += sum(tile, |v| v * v).as_f64();
                }
                let factor = T::Acc::of_f64(1.0 / (squares + eps).sqrt());
                for from in (0..d).step_by(TILE) {
                    let tile = &mut tile[..TILE.min(d - from)];
                    if d > TILE {
                        read(from, out.read(), tile);
                    }
                    tile.iter_mut().for_each(|v| *v = *v * factor);
                    out.narrow(from, tile);
                }
            }
        },
    );
    Ok(())
}

fn backward<T: Element>(eps: f64, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let gy = call.input_or_in_place::<T>(0)?.map(|gy| gy.merge_outer());
    let x = call.input_or_in_place::<T>(1)?.map(|x| x.merge_outer());
    let gx = call.output::<T>(0)?;
    let (n, d) = sizes(gx.layout().shape());
    let (gx, cut) = rows(gx, &[n, d]);
    call.parallel(
        gx,
        n,
        if cut { (GRAIN / d.max(1)).max(1) } else { n },
        #[inline(always)]
        |start, mut gx| {
            let (mut a, mut b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            for r in 0..if cut { gx.outer() } else { n } {
                let mut out = gx.row_mut(r);
                // An argument that the result lies on is read from the result.
                let read = |from: usize, own: Row<'_, T>, a: &mut [T::Acc], b: &mut [T::Acc]| {
                    gy.as_ref().map_or(own, |gy| gy.row(start + r)).widen(from, a);
                    x.as_ref().map_or(own, |x| x.row(start + r)).widen(from, b);
                };
                let (mut squares, mut product) = (eps, 0.0);
                for from in (0..d).step_by(TILE) {
                    let cols = TILE.min(d - from);
                    let (a, b) = (&mut a[..cols], &mut b[..cols]);
                    read(from, out.read(), a, b);
                    squares += sum(b, |v| v * v).as_f64();
                    product += sum2(a, b, |g, v| g * v).as_f64();
                }
                let factor = T::Acc::of_f64(1.0 / squares.sqrt());
                let along = T::Acc::of_f64(product / squares);
                for from in (0..d).step_by(TILE) {
                    let cols = TILE.min(d - from);
                    let (a, b) = (&mut a[..cols], &mut b[..cols]);
                    if d > TILE {
                        read(from, out.read(), a, b);
                    }
                    for (g, &v) in a.iter_mut().zip(&*b) {
                        *g = factor * (*g - v * along);
                    }
                    out.narrow(from, a);
                }
            }
        },
    );
    Ok(())
}
