//! L2 normalisation over the last axis, and its gradient.

mod cuda;

use super::layer_norm::affine_dtype;
use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value,
    attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{TILE, rows, sum, sum2};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Row, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Keep, Rule, Shape, Spec};

op_list! { L2Norm, L2NormGrad }

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;

/// Rows and columns of `x`.
fn sizes(x: &Shape) -> (usize, usize) {
    (x.without(x.rank().saturating_sub(1)).elements(), x.last())
}

op_attributes! {
    /// `y = scale · x / √(Σ x² + eps)`, the sum over the last axis: rows of length `scale`, or 1 without one, but for `eps`.
    ///
    /// `x`: `[.., d]`, float; result the same. `scale`, where `scaled` says that there is one: `[..]`, a factor for each row of at least one element, in
    /// the dtype of `x` or in the one that it accumulates in; one for many rows is a view that repeats it. Queries and keys that it
    /// has passed give scores that are cosines of their angle, and a scale of the queries is a temperature. Accumulation: squares in f32 in tiles (f64 for f64), f64 over tiles; one rounding to the dtype. In place on
    /// `x`. Gradient: [`L2NormGrad`]. A row of zeros gives zeros (NaN without `eps`). Errors: `x` has an axis.
    /// Deterministic, whatever the number of threads. Source: Henry et al., "Query-Key Normalization for Transformers"
    /// (2020).
    ///
    /// ```
    /// use landfall::{DType::F64, Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([1, 2], &[3.0f64, 4.0])?;
    /// let mut y = engine.empty(F64, [1, 2])?;
    /// engine.call(&ops::L2Norm { eps: 0.0, scaled: false }, &[x.view()], &mut [y.view_mut()])?;
    /// assert!((y.read::<f64>()?[1] - 0.8).abs() < 1e-15);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct L2Norm(x, scale if scaled) {
        /// Added to the sum of squares.
        pub eps: f64 = 1e-6,
        /// Whether there is a scale.
        pub scaled: bool = false,
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let L2Norm { eps, scaled } = *attributes::<L2Norm>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
    let spec = g.spec(args[0]);
    let x = g.cast(args[0], spec.dtype.accumulate())?;
    let axis = spec.shape.rank().saturating_sub(1);
    let squares = g.sum(g.mul(x, x)?, [axis])?;
    let mut factor = g.rsqrt(g.affine(squares, 1.0, eps)?)?;
    if scaled {
        factor = g.mul(factor, g.cast(args[1], spec.dtype.accumulate())?)?;
    }
    let factor = g.reshape(factor, spec.shape.with(axis, 1))?;
    Ok(vec![g.cast(g.mul(x, factor)?, spec.dtype)?])
}

fn check(args: &[Spec], arg: usize) -> Result<(), Rule> {
    rules::float(args, &[arg])?;
    match args[arg].shape.rank() {
        0 => Err(Rule::Rank { arg, rank: 0, expected: "at least 1" }),
        _ => Ok(()),
    }
}

/// A factor for each row of `x`. What has no element has no length that could be scaled.
fn check_scale(args: &[Spec], x: usize, scale: usize) -> Result<(), Rule> {
    affine_dtype(args, x, scale)?;
    let shape = args[x].shape;
    if shape.last() == 0 {
        return Err(Rule::Attribute {
            name: "size of the axis of a scaled row",
            value: 0.0,
            expected: "at least 1",
        });
    }
    rules::shape(args, scale, shape.without(shape.rank() - 1))
}

impl Op for L2Norm {
    fn name(&self) -> &'static str {
        "l2_norm"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::at_least_0("eps", self.eps)?;
        if self.scaled {
            let args: [Spec; 2] = rules::arity(self, args)?;
            check(&args, 0)?;
            check_scale(&args, 0, 1)?;
        } else {
            let args: [Spec; 1] = rules::arity(self, args)?;
            check(&args, 0)?;
        }
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Self { eps, scaled } =
                *attributes::<Self>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
            let args: Vec<Value> =
                std::iter::once(cx.cotangent()?).chain(cx.inputs.iter().copied()).collect();
            Ok(cx.graph.op(L2NormGrad { eps, scaled }, &args)?.into_iter().map(Some).collect())
        })
    }
    fn mixing(&self) -> Mixing {
        // It rounds once, whatever the dtype of its weights.
        Mixing::BetweenProducts { operands: 1 }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("l2_norm", |op, call| {
                    let op = attributes::<Self>(op)?;
                    with_float!(call, 0, T => match op.scaled && call.dtype(1)? == T::DTYPE {
                        true => forward::<T, T>(op, call),
                        false => forward::<T, <T as Element>::Acc>(op, call),
                    })
                }),
                Kernel::cuda("l2_norm", cuda::forward),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Square, sum, product.
        args[0].shape.elements().saturating_mul(3)
    }
}

impl Tested for L2Norm {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, d) = (&args[0].data, args[0].spec.shape.last());
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let row = &x[i / d * d..][..d];
            let scale = args.get(1).map_or(1.0, |scale| scale.data[i / d]);
            scale * x[i] / (row.iter().map(|v| v * v).sum::<f64>() + self.eps).sqrt()
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all: Vec<Sample> = SHAPES
            .iter()
            .filter_map(|s| Shape::new(s))
            .map(|s| Sample::new(*self, vec![SampleArg::any(s)]))
            .collect();
        let soft = Self { eps: 0.5, ..*self };
        all.push(Sample::new(soft, vec![SampleArg::range([6, 16], -0.1, 0.1)]));
        all.push(Sample::new(soft, vec![SampleArg::any([1, 1])]));
        let scaled = Self { scaled: true, ..*self };
        all.extend(scaled_args().map(|[x, scale]| Sample::new(scaled, vec![x, scale])));
        let short = vec![SampleArg::any([4, 3, 8]), SampleArg::any([3])];
        all.push(Sample::bad(scaled, short, "arg 1 is [3]; it must be [4, 3]"));
        let whole = SampleArg::with(Some(DType::I32), [4], Data::Int(0, 5));
        all.push(Sample::bad(scaled, vec![SampleArg::any([4, 8]), whole], "arg 1 is i32"));
        all.push(Sample::bad(scaled, vec![SampleArg::any([4, 8])], "takes 2 arguments (x, scale), got 1"));
        let empty = vec![SampleArg::any([3, 0]), SampleArg::any([3])];
        all.push(Sample::bad(scaled, empty, "size of the axis of a scaled row is 0"));
        all.push(Sample::new(*self, vec![SampleArg::with(None, [3, 40], Data::Wide)]));
        all.push(Sample::bad(*self, vec![SampleArg::any([])], "arg 0 has rank 0; it must be at least 1"));
        let below = Self { eps: -1e-6, ..*self };
        all.push(Sample::bad(below, vec![SampleArg::any([4, 8])], "eps is -0.000001; it must be finite"));
        let ints = SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
        all.push(Sample::bad(*self, vec![ints], "it must be f32, f64, bf16 or f16"));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

/// Rows and a factor for each, also rows in 16 bits with factors in f32.
fn scaled_args() -> impl Iterator<Item = [SampleArg; 2]> {
    let each = |s: Shape| s.without(s.rank() - 1);
    let own = SHAPES
        .iter()
        .filter_map(|s| Shape::new(s))
        .filter(|s| s.last() > 0)
        .map(move |s| [SampleArg::any(s), SampleArg::any(each(s))]);
    let mixed = [(DType::BF16, [6, 64]), (DType::F16, [70, 24]), (DType::BF16, [5, 33])];
    own.chain(mixed.map(move |(dtype, s)| {
        let of = |dtype, shape: Shape| SampleArg::with(Some(dtype), shape, Data::Range(-2.0, 2.0));
        [of(dtype, s.into()), of(DType::F32, each(s.into()))]
    }))
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

op_attributes! {
    /// Gradient of [`L2Norm`]: with `s = Σ x² + eps` in each row, `gx = scale · (gy − x · (Σ gy·x) / s) / √s`: what lies along
    /// `x` is taken off `gy`, so errors are relative to `scale·gy/√s`. Where there is a scale, its gradient is the second result,
    /// `gscale = (Σ gy·x) / √s`.
    ///
    /// `gy`, `x`: `[.., d]`, one float dtype; result as `x`; `scale`: `[..]`, as in the forward pass, and `gscale` the same.
    /// Accumulation: f32 in tiles (f64 for f64), f64 over tiles. In place on `gy` or `x`. Gradient: through the body. Errors: shapes
    /// or dtypes that differ. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct L2NormGrad(gy, x, scale if scaled) {
        /// As in the forward pass.
        pub eps: f64 = 1e-6,
        /// As in the forward pass.
        pub scaled: bool = false,
    }
}

impl Op for L2NormGrad {
    fn name(&self) -> &'static str {
        "l2_norm_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        rules::at_least_0("eps", self.eps)?;
        let rows = |args: &[Spec]| {
            check(args, 0)?;
            rules::same_dtype(args, 0, 1)?;
            rules::same_shape(args, 0, 1)
        };
        if self.scaled {
            let args: [Spec; 3] = rules::arity(self, args)?;
            rows(&args)?;
            check_scale(&args, 1, 2)?;
            Ok([args[1], args[2]].into())
        } else {
            let args: [Spec; 2] = rules::arity(self, args)?;
            rows(&args)?;
            Ok(Outputs::one(args[1]))
        }
    }
    fn outputs(&self) -> &[Output] {
        const BOTH: &[Output] = &[Output::in_place(&[0, 1]), Output::FULL];
        if self.scaled { BOTH } else { &BOTH[..1] }
    }
    fn body(&self) -> Body {
        Body::Fused(gradient_body)
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("l2_norm_grad", |op, call| {
                    let op = attributes::<Self>(op)?;
                    with_float!(call, 0, T => match op.scaled && call.dtype(2)? == T::DTYPE {
                        true => backward::<T, T>(op, call),
                        false => backward::<T, <T as Element>::Acc>(op, call),
                    })
                }),
                Kernel::cuda("l2_norm_grad", cuda::backward),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Two products and two sums, then a product, a difference and a product.
        args[0].shape.elements().saturating_mul(7)
    }
}

/// The gradient in other ops.
fn gradient_body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<L2NormGrad>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let spec = g.spec(args[1]);
    let wide = |v| g.cast(v, spec.dtype.accumulate());
    let (gy, x, axis) = (wide(args[0])?, wide(args[1])?, spec.shape.rank().saturating_sub(1));
    let squares = g.affine(g.sum(g.square(x)?, Keep(axis))?, 1.0, eps)?;
    let (product, rstd) = (g.sum(g.mul(gy, x)?, Keep(axis))?, g.rsqrt(squares)?);
    let mut gx = g.mul(g.sub(gy, g.mul(x, g.div(product, squares)?)?)?, rstd)?;
    let Some(&scale) = args.get(2) else { return Ok(vec![g.cast(gx, spec.dtype)?]) };
    gx = g.mul(gx, g.reshape(wide(scale)?, spec.shape.with(axis, 1))?)?;
    let gscale = g.reshape(g.mul(product, rstd)?, g.shape(scale))?;
    Ok(vec![g.cast(gx, spec.dtype)?, g.cast(gscale, g.spec(scale).dtype)?])
}

impl Tested for L2NormGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (gy, x, d) = (&args[0].data, &args[1].data, args[1].spec.shape.last());
        let sums = |r: usize| {
            let squares = (r * d..r * d + d).map(|j| x[j] * x[j]).sum::<f64>() + self.eps;
            (squares, (r * d..r * d + d).map(|j| gy[j] * x[j]).sum::<f64>())
        };
        let mut all = vec![HostTensor::from_fn(args[1].spec, |i| {
            let (squares, product) = sums(i / d);
            let scale = args.get(2).map_or(1.0, |scale| scale.data[i / d]);
            scale * (gy[i] - x[i] * product / squares) / squares.sqrt()
        })];
        if let Some(scale) = args.get(2) {
            all.push(HostTensor::from_fn(scale.spec, |r| {
                let (squares, product) = sums(r);
                product / squares.sqrt()
            }));
        }
        all
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |s: Shape| vec![SampleArg::any(s), SampleArg::any(s)];
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> = shapes.map(|s| Sample::new(*self, args(s))).collect();
        // Rows of one element are all along x: without an eps of their size nothing but rounding is left.
        all.extend([[6, 16], [1, 1]].map(|s| Sample::new(Self { eps: 0.5, ..*self }, args(s.into()))));
        let scaled = Self { eps: 0.5, scaled: true };
        all.extend(scaled_args().map(|[x, scale]| Sample::new(scaled, vec![x.clone(), x, scale])));
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

fn forward<T: Element, W: Element<Acc = T::Acc>>(op: &L2Norm, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input_or_in_place::<T>(0)?.map(|x| x.merge_outer());
    let scale = if op.scaled { Some(call.input::<W>(1)?) } else { None };
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
                let length = scale.as_ref().map_or(1.0, |s| s.flat(start + r).widen().as_f64());
                let factor = T::Acc::of_f64(length / (squares + op.eps).sqrt());
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

fn backward<T: Element, W: Element<Acc = T::Acc>>(op: &L2NormGrad, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let gy = call.input_or_in_place::<T>(0)?.map(|gy| gy.merge_outer());
    let x = call.input_or_in_place::<T>(1)?.map(|x| x.merge_outer());
    let scale = if op.scaled { Some(call.input::<W>(2)?) } else { None };
    let gx = call.output::<T>(0)?;
    let (n, d) = sizes(gx.layout().shape());
    let (gx, mut cut) = rows(gx, &[n, d]);
    let gscale = if op.scaled {
        let (gscale, cut_gscale) = rows(call.output::<W>(1)?, &[n]);
        cut &= cut_gscale;
        Some(gscale)
    } else {
        None
    };
    call.parallel(
        (gx, gscale),
        n,
        if cut { (GRAIN / d.max(1)).max(1) } else { n },
        #[inline(always)]
        |start, (mut gx, mut gscale)| {
            let (mut a, mut b) = ([T::Acc::default(); TILE], [T::Acc::default(); TILE]);
            for r in 0..if cut { gx.outer() } else { n } {
                let mut out = gx.row_mut(r);
                // An argument that the result lies on is read from the result.
                let read = |from: usize, own: Row<'_, T>, a: &mut [T::Acc], b: &mut [T::Acc]| {
                    gy.as_ref().map_or(own, |gy| gy.row(start + r)).widen(from, a);
                    x.as_ref().map_or(own, |x| x.row(start + r)).widen(from, b);
                };
                let (mut squares, mut product) = (op.eps, 0.0);
                for from in (0..d).step_by(TILE) {
                    let cols = TILE.min(d - from);
                    let (a, b) = (&mut a[..cols], &mut b[..cols]);
                    read(from, out.read(), a, b);
                    squares += sum(b, |v| v * v).as_f64();
                    product += sum2(a, b, |g, v| g * v).as_f64();
                }
                let length = scale.as_ref().map_or(1.0, |s| s.flat(start + r).widen().as_f64());
                let factor = T::Acc::of_f64(length / squares.sqrt());
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
                if let Some(gscale) = &mut gscale {
                    gscale.set_flat(r, W::narrow(W::Acc::of_f64(product / squares.sqrt())));
                }
            }
        },
    );
    Ok(())
}
