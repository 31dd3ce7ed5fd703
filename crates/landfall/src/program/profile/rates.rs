//! The rates of a device that floors are computed with, measured as the nodes of a program are.

use super::{per_ns, times};
use crate::contract::{Cost, Op, attributes, check};
use crate::device::times::Times;
use crate::device::{LaunchList, RecordedLaunch};
use crate::engine::{Buffer, Engine, Tensor};
use crate::error::Error;
use crate::ops::{Copy, MatMul};
use crate::rng::Rng;
use crate::values::{DType, HostTensor, Operand, Precision, Repeat, Rule, Shape, Spec};
use std::sync::Arc;
use std::time::Duration;

/// What a device does at most in a second, as measured: the best of several sizes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// Bytes per second that a large copy reads and writes.
    pub copy: f64,
    /// Square matmuls, for each dtype and precision in which an instruction computes.
    pub products: Vec<ProductRate>,
    /// Time of a copy of one element: what a node takes however little it does. It is no part of any floor.
    pub launch: Duration,
}

/// The rate of a square matmul.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductRate {
    /// Dtype of the factors.
    pub dtype: DType,
    /// Whether f32 factors are rounded to TF32.
    pub precision: Precision,
    /// Operations per second.
    pub flops: f64,
    /// Rows of the matrices with the best rate.
    pub size: usize,
}

impl ProductRate {
    /// The dtype, or `tf32`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.dtype, self.precision) {
            (DType::F32, Precision::Tf32) => "tf32",
            (dtype, _) => dtype.name(),
        }
    }
}

/// Timed runs of a copy or product.
const RUNS: usize = 3;
/// Bytes of the smallest buffer of a copy: four of the device's largest cache, in this range.
const FIRST_COPY: [usize; 2] = [1 << 25, 1 << 28];
/// And of the largest.
const LAST_COPY: usize = 1 << 30;
/// Rows of the smallest and the largest matrix.
const SIZES: [usize; 2] = [256, 8192];
/// What takes so long has reached its rate: a larger one is not tried.
const LONG: Duration = Duration::from_millis(5);
/// Random values, after which those of an operand repeat. Zeros would take less power, and so less time.
const PERIOD: usize = SIZES[0] * SIZES[0];

/// The dtype and precision in which an instruction computes: those of its factors for a matmul, else the first float dtype
/// among its operands. `None` if there is none.
fn computes_in(launch: &RecordedLaunch) -> Option<(DType, Precision)> {
    let operands = launch.inputs.iter().chain(&launch.outputs);
    let dtype = operands.map(|o| o.dtype).find(|d| d.is_float())?;
    let precision = attributes::<MatMul>(launch.op.as_ref()).map(|m| m.precision).unwrap_or_default();
    Some((dtype, if dtype == DType::F32 { precision } else { Precision::Strict }))
}

impl Rates {
    /// Measures what the launches of a list need. All memory is the measurement's own.
    pub(super) fn measure(engine: &Engine, list: &LaunchList) -> Result<Self, Error> {
        // A sanitizer's copies of every operand are not what a device does.
        let engine = engine.unchecked();
        let bytes = (4 * engine.handle().hardware()?.cache).clamp(FIRST_COPY[0], FIRST_COPY[1]);
        let sizes = [bytes, LAST_COPY].map(|b| (b / DType::F32.size()).next_multiple_of(PERIOD));
        let (copy, _) = fastest(sizes, |elements| {
            let (time, cost) = copied(&engine, elements)?;
            Ok((time, cost.bytes))
        })?;
        let launch = copied(&engine, 1)?.0;
        let mut rates = Self { copy, products: Vec::new(), launch };
        for launch in &list.launches {
            let specs: Vec<Spec> = launch.inputs.iter().map(Operand::spec).collect();
            let Some(compute) =
                computes_in(launch).filter(|_| Cost::of(launch.op.as_ref(), &specs).flops > 0)
            else {
                continue;
            };
            if rates.product(compute).is_none() {
                rates.products.push(product(&engine, compute)?);
            }
        }
        Ok(rates)
    }

    fn product(&self, (dtype, precision): (DType, Precision)) -> Option<&ProductRate> {
        self.products.iter().find(|p| (p.dtype, p.precision) == (dtype, precision))
    }

    /// The time that the device needs for a launch of this cost at least.
    pub(super) fn floor(&self, cost: Cost, launch: &RecordedLaunch) -> Duration {
        let seconds = |count: usize, rate: f64| if rate > 0.0 { count as f64 / rate } else { 0.0 };
        let product = computes_in(launch).and_then(|compute| self.product(compute)).map_or(0.0, |p| p.flops);
        Duration::from_secs_f64(seconds(cost.bytes, self.copy).max(seconds(cost.flops, product)))
    }
}

/// The time and cost of a copy of so many elements.
fn copied(engine: &Engine, elements: usize) -> Result<(Duration, Cost), Error> {
    timed(engine, Arc::new(Copy), &[filled(engine, DType::F32, [elements].into())?])
}

/// The rate of square products; 0 where there is no kernel for them.
fn product(engine: &Engine, (dtype, precision): (DType, Precision)) -> Result<ProductRate, Error> {
    let op: Arc<dyn Op> = Arc::new(MatMul { precision, wide: false });
    let spec = |size: usize| Spec::new(dtype, [size, size]);
    if check::kernel(op.as_ref(), engine.device(), &[spec(SIZES[0]); 2]).is_err() {
        return Ok(ProductRate { dtype, precision, flops: 0.0, size: 0 });
    }
    let (flops, size) = fastest(SIZES, |size| {
        let factor = || filled(engine, dtype, spec(size).shape);
        let (time, cost) = timed(engine, Arc::clone(&op), &[factor()?, factor()?])?;
        Ok((time, cost.flops))
    })?;
    Ok(ProductRate { dtype, precision, flops, size })
}

/// The best rate, in a second, of a work that doubles its size until it takes long, and its size. `work` gives its time and
/// what it did.
fn fastest(
    [first, last]: [usize; 2],
    mut work: impl FnMut(usize) -> Result<(Duration, usize), Error>,
) -> Result<(f64, usize), Error> {
    let (mut best, mut size) = ((0.0, 0), first);
    while size <= last {
        let (time, done) = match work(size) {
            // The smaller ones have a rate.
            Err(Error::Memory { .. }) if size > first => break,
            worked => worked?,
        };
        let rate = 1e9 * per_ns(done, time);
        if rate > best.0 {
            best = (rate, size);
        }
        if time > LONG {
            break;
        }
        size *= 2;
    }
    Ok(best)
}

/// A tensor of random values.
fn filled(engine: &Engine, dtype: DType, shape: Shape) -> Result<Tensor, Error> {
    let mut rng = Rng::new(1, 0);
    let elements = shape.elements();
    let period = HostTensor::from_fn(Spec::new(dtype, [elements.min(PERIOD)]), |_| rng.normal());
    let period = engine.from_host(&period)?;
    let mut tensor = engine.empty(dtype, shape)?;
    let times = elements.div_ceil(PERIOD);
    let rows = [times, elements / times];
    engine.call(&Copy, &[period.view().broadcast_to(rows)?], &mut [tensor.view_mut().reshape(rows)?])?;
    Ok(tensor)
}

/// The time and cost of a call, as a list of one launch.
fn timed(engine: &Engine, op: Arc<dyn Op>, inputs: &[Tensor]) -> Result<(Duration, Cost), Error> {
    let device = engine.handle();
    let specs: Vec<Spec> = inputs.iter().map(Tensor::spec).collect();
    let fail = |rule: Rule| Error::from(rule.of(op.name(), &specs, Some(engine.device()), None));
    let kernel = check::kernel(op.as_ref(), engine.device(), &specs).map_err(fail)?;
    let mut outputs = Vec::new();
    for spec in op.infer(&specs).map_err(fail)?.iter() {
        outputs.push(engine.empty(spec.dtype, spec.shape)?);
    }
    let workspace_bytes = (kernel.workspace)(op.as_ref(), &specs);
    let workspace = Buffer::new(device, workspace_bytes)?;
    let operands = |tensors: &[Tensor]| tensors.iter().map(|t| *t.view().operand()).collect();
    let launch = RecordedLaunch {
        op: Arc::clone(&op),
        kernel,
        inputs: operands(inputs),
        outputs: operands(&outputs),
        workspace: workspace.address(),
        workspace_bytes,
        after: Vec::new(),
    };
    let list = LaunchList {
        launches: vec![launch],
        repeat: Repeat::default(),
        segments: Vec::new(),
        grouped: false,
    };
    let recording = Arc::clone(device).record(list.clone())?;
    let Times { launches, .. } = times(engine, recording.as_ref(), &list, RUNS)?;
    Ok((launches.iter().flatten().map(|node| node.time).sum(), Cost::of(op.as_ref(), &specs)))
}
