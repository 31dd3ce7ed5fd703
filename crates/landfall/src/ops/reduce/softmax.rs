//! Softmax over one axis.

mod cuda;

pub(in crate::ops) use cuda::{cross_entropy, cross_entropy_grad, loss_workspace};

use crate::contract::{
    Body, Data, Grad, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::lanes::{TILE, sum};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, Row, RowMut, View, ViewMut, lanes, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Layout, MAX_RANK, Math, Rule, Shape, Spec};

op_list! { Softmax }

/// Elements that one task works on.
const GRAIN: usize = 16 * 1024;

op_attributes! {
    /// `out[.., i, ..] = exp(x[.., i, ..] − m) / Σᵢ exp(x[.., i, ..] − m)`, `m` the largest element along the axis.
    ///
    /// `x`: any shape of rank 1 or more, float; result the same. Accumulation: f32 in tiles (f64 for f64), f64 over tiles.
    /// In place on `x`. A row of nothing but −∞, or with a NaN or +∞, is NaN, as the formula says. Gradient:
    /// `out · (cotangent − Σ cotangent · out)`. Errors: the axis must be below the rank. Deterministic, whatever the
    /// number of threads. Source: Bridle, "Probabilistic Interpretation of Feedforward Classification Network Outputs" (1990).
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let x = engine.tensor([1, 2], &[0.0f32, 0.0])?;
    /// let mut out = engine.empty(landfall::DType::F32, [1, 2])?;
    /// engine.call(&ops::Softmax { axis: 1 }, &[x.view()], &mut [out.view_mut()])?;
    /// assert_eq!(out.read::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct Softmax(x) {
        /// The axis that sums to 1.
        pub axis of x: usize = 0 => (-1),
    }
}

/// `of` with size 1 put back at `axis`, so that it broadcasts against the whole.
fn keep(g: &Graph, of: Value, shape: Shape, axis: usize) -> Result<Value, Error> {
    g.reshape(of, shape.with(axis, 1))
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let Softmax { axis } = *attributes::<Softmax>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
    let made = g.composed(op.name(), [args[0]], |[x]| {
        let shape = g.shape(x);
        let max = keep(g, g.max(x, [axis])?, shape, axis)?;
        let e = g.exp(g.sub(x, max)?)?;
        g.div(e, keep(g, g.sum(e, [axis])?, shape, axis)?)
    });
    Ok(vec![made?])
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let x = rules::one_float(self, args)?;
        let rank = x.shape.rank();
        if self.axis >= rank {
            return Err(Rule::Axis { axis: self.axis as isize, rank });
        }
        Ok(Outputs::one(x))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let Softmax { axis } =
                *attributes::<Softmax>(op).map_err(|r| r.of(op.name(), &[], None, None))?;
            let g = cx.graph;
            // Of the argument: a result of 16 bits is rounded, and the difference cancels.
            let slope = g.composed(op.name(), [cx.cotangent()?, cx.inputs[0]], |[c, x]| {
                let y = g.softmax(x, axis)?;
                let along = keep(g, g.sum(g.mul(c, y)?, [axis])?, g.shape(y), axis)?;
                g.mul(y, g.sub(c, along)?)
            });
            Ok(vec![Some(slope?)])
        })
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("softmax", |op, call| {
                    let op = attributes::<Softmax>(op)?;
                    with_float!(call, 0, T => run::<T>(op.axis, call))
                }),
                Kernel::cuda("softmax", cuda::softmax),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Maximum, difference, exponential, sum, quotient.
        args[0].shape.elements().saturating_mul(5)
    }
}

impl Tested for Softmax {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, dims) = (&args[0].data, args[0].dims());
        let (n, inner) = (dims[self.axis], dims[self.axis + 1..].iter().product::<usize>());
        vec![HostTensor::from_fn(args[0].spec, |i| {
            let first = i / (n * inner) * n * inner + i % inner;
            let row = || (0..n).map(|k| x[first + k * inner]);
            let max = row().fold(f64::NEG_INFINITY, f64::max);
            (x[i] - max).exp() / row().map(|v| (v - max).exp()).sum::<f64>()
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(&[usize], usize)] = &[
            (&[7], 0),
            (&[1], 0),
            (&[0], 0),
            (&[3, 5], 1),
            (&[3, 5], 0),
            (&[4, 4, 4], 1),
            (&[2, 3, 4, 5], 2),
            (&[2, 17, 64], 2),
            (&[3, 0], 1),
            (&[0, 3], 1),
            (&[5, 1], 1),
            (&[2, 1300], 1),
            (&[2, 2100], 1),
            (&[600, 3], 0),
            (&[700, 42], 1),
        ];
        let mut all = Vec::new();
        for &(shape, axis) in cases {
            let Some(shape) = Shape::new(shape) else { continue };
            all.push(Sample::new(Self { axis }, vec![SampleArg::range(shape, -6.0, 6.0)]));
        }
        all.push(Sample::new(Self { axis: 1 }, vec![SampleArg::with(None, [6, 40], Data::Wide)]));
        all.push(Sample::bad(
            Self { axis: 2 },
            vec![SampleArg::any([4, 8])],
            "axis is 2, the rank is 2; axis must be < rank",
        ));
        let ints = SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
        all.push(Sample::bad(*self, vec![ints], "it must be f32, f64, bf16 or f16"));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}

/// The layout with `axis` as its last axis.
fn rotated(layout: &Layout, axis: usize) -> Result<Layout, Rule> {
    let rank = layout.shape().rank();
    let mut order = [0; MAX_RANK];
    for (to, from) in (0..rank).filter(|&a| a != axis).chain([axis]).enumerate() {
        order[to] = from;
    }
    layout.permute(&order[..rank])
}

fn run<T: Element>(axis: usize, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let x = call.input_or_in_place::<T>(0)?;
    let out = call.output::<T>(0)?;
    let layout = rotated(out.layout(), axis)?;
    let x = match x {
        Some(x) => Some(x.with_layout(rotated(x.layout(), axis)?)),
        None => None,
    };
    rows(
        call,
        x,
        out.relaid(layout),
        #[inline(always)]
        |_, x, out| row(x, out, None, 1.0),
    );
    Ok(())
}

/// Runs `work(i, row i of x, row i of out)` for each row, in tasks that are cut along the first axis.
pub(in crate::ops) fn rows<T: Element>(
    call: &Call<'_>,
    x: Option<View<'_, T>>,
    out: ViewMut<'_, T>,
    work: impl Fn(usize, Option<Row<'_, T>>, &mut RowMut<'_, T>) + Sync,
) {
    if out.elements() == 0 {
        return;
    }
    let (x, out) = (x.map(|x| x.merge_outer()), out.merge_outer());
    let (outer, all) = (out.outer(), out.rows());
    // A vector is one row, whose only axis is the one that must not be cut.
    let (outer, each) = if out.dims().len() < 2 { (1, 1) } else { (outer, all / outer) };
    let grain = (GRAIN / (each * out.cols())).max(1);
    call.parallel(
        out,
        outer,
        grain,
        #[inline(always)]
        |start, mut part| {
            for r in 0..part.rows() {
                let i = start * each + r;
                work(i, x.as_ref().map(|x| x.row(i)), &mut part.row_mut(r));
            }
        },
    );
}

/// What is known of a row once its exponentials `exp(x − max)` are summed.
pub(in crate::ops) struct Exponentials<A> {
    /// The largest element.
    pub(in crate::ops) max: A,
    /// The exponential of the label's element; 0 without a label.
    pub(in crate::ops) own: f64,
    /// The sum of all others. Apart, because the sum less the label's own would cancel where the label is likely.
    pub(in crate::ops) others: f64,
}

/// Sums the exponentials of a row of `n` elements. A row that fits the tile is read once, and leaves its exponentials
/// there, the label's excepted.
#[inline(always)]
pub(in crate::ops) fn exponentials<A: Arith>(
    n: usize,
    label: Option<usize>,
    tile: &mut [A; TILE],
    read: impl Fn(usize, &mut [A]),
) -> Exponentials<A> {
    let mut max = A::of_f64(f64::NEG_INFINITY);
    for (from, len) in tiles(n) {
        read(from, &mut tile[..len]);
        max = Math::max(max, lanes::max(&tile[..len]));
    }
    let (mut own, mut others) = (0.0, 0.0);
    for (from, len) in tiles(n) {
        if n > TILE {
            read(from, &mut tile[..len]);
        }
        off(max, &mut tile[..len]);
        if let Some(at) = inside(label, from, len) {
            own = std::mem::take(&mut tile[at]).as_f64();
        }
        others += sum(&tile[..len], |v| v).as_f64();
    }
    Exponentials { max, own, others }
}

/// Starts and lengths of the tiles of a row.
#[inline(always)]
fn tiles(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(TILE).map(move |from| (from, TILE.min(n - from)))
}

/// Where the label lies in a tile, if it does.
#[inline(always)]
fn inside(label: Option<usize>, from: usize, len: usize) -> Option<usize> {
    label?.checked_sub(from).filter(|&at| at < len)
}

#[inline(always)]
fn off<A: Arith>(max: A, tile: &mut [A]) {
    for v in tile {
        *v = Math::exp(*v - max);
    }
}

/// One row of `scale · (softmax(x) − onehot(label))`: the maximum, the sum of exponentials, the quotients. A row that
/// fits a tile is read once; a longer one in each pass, which also keeps 16-bit results from being rounded twice.
#[inline(always)]
pub(in crate::ops) fn row<T: Element>(
    x: Option<Row<'_, T>>,
    out: &mut RowMut<'_, T>,
    label: Option<usize>,
    scale: f64,
) where
    T::Acc: Arith,
{
    let mut tile = [T::Acc::default(); TILE];
    let n = out.read().len();
    let read = |own: Row<'_, T>, from: usize, tile: &mut [T::Acc]| match &x {
        Some(x) => x.widen(from, tile),
        None => own.widen(from, tile),
    };
    let e = exponentials(
        n,
        label,
        &mut tile,
        #[inline(always)]
        |from, tile| read(out.read(), from, tile),
    );
    let factor = scale / (e.own + e.others);
    for (from, len) in tiles(n) {
        let tile = &mut tile[..len];
        if n > TILE {
            read(out.read(), from, tile);
            off(e.max, tile);
        }
        for v in &mut *tile {
            *v = *v * T::Acc::of_f64(factor);
        }
        if let Some(at) = inside(label, from, len) {
            tile[at] = T::Acc::of_f64(-e.others * factor);
        }
        out.narrow(from, tile);
    }
}
