//! Our side of a row: what is timed, built and warmed up.

use crate::calls::{Arg, Call, Data, call};
use crate::error::BenchError;
use crate::rows::{LaunchMode, OpRow, Row, Step};
use landfall::ops::{self, Cost, Op};
use landfall::rng::Rng;
use landfall::{
    DType, DeviceKind, Element, Engine, Error, Graph, HostTensor, Program, Shape, Spec, State, StateSpec,
    Tensor, TensorMut, TensorRef,
};
use landfall_forecast::run::{Precision, SettingsError};
use landfall_train::data::{Split, TokenSegments, synthetic};
use landfall_train::train::{Betas, Dataset, Loss, OptimizerKind, Schedule, Session, TrainingOptions};
use std::sync::Arc;
use std::time::Instant;

/// Submits this many steps.
type Run = Box<dyn FnMut(usize) -> Result<(), Error>>;

/// A row that is ready to be timed.
pub(crate) struct OurSide {
    engine: Engine,
    run: Run,
    /// What each step of a row with a cold L2 begins with, alone. Its time is not the row's.
    flush: Option<Run>,
    steps: usize,
    /// Bytes and operations of one step.
    pub(crate) cost: Cost,
    /// What the host has to do with a step on a GPU.
    pub(crate) host: Option<HostTime>,
    /// Number of trainable parameters, first and last loss of the warm-up, for step rows.
    pub(crate) training: Option<TrainingFacts>,
}

/// What shows that a step row trains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrainingFacts {
    pub(crate) parameters: usize,
    /// Windows or samples of a step.
    pub(crate) samples: usize,
    pub(crate) first_loss: f64,
    pub(crate) last_loss: f64,
}

/// What the host does for one step on a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostTime {
    /// Microseconds of the call that submits it, which waits for nothing.
    pub(crate) us: f64,
    /// Launches that it issues.
    pub(crate) launches: f64,
    /// Of an op row.
    pub(crate) floor: Option<HostFloor>,
}

/// What the host's time for the calls of an op row is measured against, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostFloor {
    /// The bare launches of the same kernels.
    pub(crate) bare_us: f64,
    /// The same calls on the null device.
    pub(crate) null_us: f64,
}

/// Steps in flight while the host is timed: few enough that the driver's queue never fills, which would make it wait.
const IN_FLIGHT: usize = 64;
/// And at least: a loop of training submits one step after another, and the first after a wait costs more.
const FEW_IN_FLIGHT: usize = 8;
/// How often it is timed; the median counts.
const SUBMISSIONS: usize = 15;
/// How often where steps are slow.
const FEW_SUBMISSIONS: usize = 5;
/// How often where steps are single calls.
const SHORT_SUBMISSIONS: usize = 101;
/// Steps before which the first loss, and at which the last loss, is read.
const WARM_UP: usize = 8;
/// Rows of the generated series: 4,096 windows and a bit, as the peers have.
const SERIES_ROWS: usize = 6500;
/// Generated samples of tokens: 16,408 of them train, as the peers have.
const SAMPLES: usize = 23_441;
/// Bytes that are read to flush an L2: five of an H200's (50 MB), two of the largest.
const FLUSH: usize = 1 << 28;
/// Random values after which those of a large argument repeat: the host draws no more.
const PERIOD: usize = 1 << 20;
/// The most steps of a sample.
const MOST_STEPS: usize = 1 << 22;

impl OurSide {
    /// Builds a row, warms it up, and chooses how many steps make a sample of `seconds`.
    pub(crate) fn new(engine: &Engine, row: Row, dtype: Precision, seconds: f64) -> Result<Self, BenchError> {
        let mut ours = match row {
            Row::Step(step, mode) => Self::step(engine, step, mode, dtype)?,
            Row::Op(op) => Self::op(engine, op, dtype.parts().0)?,
            Row::Routing(row) => Self::cold(engine, &row.calls(dtype.parts().0), FLUSH)?,
        };
        (ours.run)(3)?;
        let mut taken = ours.spent()?;
        while taken < seconds / 8.0 && ours.steps < MOST_STEPS {
            ours.steps *= 2;
            taken = ours.spent()?;
        }
        let steps = (seconds / taken * ours.steps as f64).ceil();
        ours.steps = (steps as usize).clamp(1, MOST_STEPS);
        // Of rows that a GPU is timed at, the host's time does not show.
        if matches!(engine.device(), DeviceKind::Cuda(_)) && !row.on_gpus() {
            ours.host = Some(match row {
                Row::Op(op) => ours.issued(op)?,
                Row::Step(..) | Row::Routing(_) => ours.submitted()?,
            });
        }
        Ok(ours)
    }

    /// A step row that the ranks of the engine's world compute together, in a sample of as many steps on all.
    pub(crate) fn of_ranks(
        engine: &Engine,
        step: &Step,
        dtype: Precision,
        seconds: f64,
    ) -> Result<Self, BenchError> {
        let mut ours = Self::step(engine, step, LaunchMode::Captured, dtype)?;
        (ours.run)(3)?;
        let mut taken = ours.spent()?;
        // All ranks double as often as the first.
        while first_says(engine, taken < seconds / 8.0 && ours.steps < MOST_STEPS)? {
            ours.steps *= 2;
            taken = ours.spent()?;
        }
        let steps = ((seconds / taken * ours.steps as f64).ceil() as usize).clamp(1, MOST_STEPS);
        let parts =
            engine.world().exchange("steps of a sample", &steps.to_le_bytes()).map_err(Error::from)?;
        let first = parts.first().and_then(|part| <[u8; size_of::<usize>()]>::try_from(&part[..]).ok());
        ours.steps = first.map_or(steps, usize::from_le_bytes);
        Ok(ours)
    }

    /// Microseconds of one step, over a sample.
    pub(crate) fn sample(&mut self) -> Result<f64, BenchError> {
        Ok(self.time()? / self.steps as f64 * 1e6)
    }

    /// Seconds that the steps of a sample take, flushes taken off.
    fn time(&mut self) -> Result<f64, Error> {
        let whole = timed(&self.engine, &mut self.run, self.steps)?;
        let flushes = match &mut self.flush {
            Some(flush) => timed(&self.engine, flush, self.steps)?,
            None => 0.0,
        };
        Ok(whole - flushes)
    }

    /// Seconds that it takes to time a sample.
    fn spent(&mut self) -> Result<f64, Error> {
        let start = Instant::now();
        self.time()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The host's time for a step.
    fn submitted(&mut self) -> Result<HostTime, Error> {
        let before = self.engine.counters().launches;
        // Of slow steps fewer, and less often: the device has to do what is submitted here.
        let steps = (self.steps / 8).clamp(FEW_IN_FLIGHT, IN_FLIGHT);
        let count = if steps > FEW_IN_FLIGHT { SUBMISSIONS } else { FEW_SUBMISSIONS };
        let ([us], engine) = (submissions(&self.engine, count, [&mut || (self.run)(steps)])?, &self.engine);
        let launches = (engine.counters().launches - before) as f64 / (steps * count) as f64;
        Ok(HostTime { us: us / steps as f64, launches, floor: None })
    }

    /// The host's time for the calls of an op row, in turn with their floor.
    fn issued(&mut self, row: &OpRow) -> Result<HostTime, Error> {
        let engine = self.engine.clone();
        let (mut program, mut state) = bare(&engine, row)?;
        let null = Engine::null();
        let mut calls = prepared(&null, &row.calls(DType::F32))?;
        let before = engine.counters().launches;
        (self.run)(IN_FLIGHT)?;
        let launches = (engine.counters().launches - before) as f64 / IN_FLIGHT as f64;
        let sides: [&mut dyn FnMut() -> Result<(), Error>; 3] = [
            &mut || (self.run)(IN_FLIGHT),
            &mut || (0..IN_FLIGHT).try_for_each(|_| program.reissue(&mut state)),
            &mut || issue(&null, &mut calls, IN_FLIGHT),
        ];
        let times = submissions(&engine, SHORT_SUBMISSIONS, sides)?;
        let [us, bare_us, null_us] = times.map(|us| us / IN_FLIGHT as f64);
        Ok(HostTime { us, launches, floor: Some(HostFloor { bare_us, null_us }) })
    }

    fn step(engine: &Engine, step: &Step, mode: LaunchMode, dtype: Precision) -> Result<Self, BenchError> {
        let mut session = session(engine, step, mode, dtype)?;
        let parameters = session.model().parameters().count();
        for _ in 0..WARM_UP {
            session.step()?;
        }
        let records = session.records(1, WARM_UP)?;
        let loss = |i: usize| records.get(i).map_or(f64::NAN, |r| r.loss);
        let (first_loss, last_loss) = (loss(0), loss(WARM_UP - 1));
        let training = TrainingFacts { parameters, samples: step.batch, first_loss, last_loss };
        let cost = session.programs()[0].cost();
        let inside = engine.clone();
        let run = move |steps: usize| {
            let session = &mut session;
            inside.enter(move || {
                (0..steps).try_for_each(|_| match mode {
                    LaunchMode::Captured | LaunchMode::Tuned => session.step(),
                    LaunchMode::Issued => session.issue(),
                })
            })
        };
        Ok(Self::ready(engine, Box::new(run), cost, Some(training)))
    }

    fn op(engine: &Engine, row: &OpRow, dtype: DType) -> Result<Self, BenchError> {
        let calls = prepared(engine, &row.calls(dtype))?;
        let cost = cost(&calls);
        Ok(Self::ready(engine, issuing(engine, calls), cost, None))
    }

    /// Calls of which each step begins with a flush of the L2: a read of `flush` bytes. A read leaves nothing behind that
    /// must be written before its place is taken, and what the calls have left to write is written during the next one,
    /// so all of their traffic is in the difference of the two times.
    fn cold(engine: &Engine, calls: &[Call], flush: usize) -> Result<Self, BenchError> {
        let columns = 1 << 15;
        let buffer = Arg {
            dtype: DType::F32,
            shape: [flush / size_of::<f32>() / columns, columns].into(),
            data: Data::Normal,
            transposed: false,
        };
        let flush = [call(ops::Reduce::new(ops::Reduction::Sum, &[1]), [buffer])];
        let calls = prepared(engine, calls)?;
        let (cost, mut step) = (cost(&calls), prepared(engine, &flush)?);
        step.extend(calls);
        let flush = Some(issuing(engine, prepared(engine, &flush)?));
        Ok(Self { flush, ..Self::ready(engine, issuing(engine, step), cost, None) })
    }

    fn ready(engine: &Engine, run: Run, cost: Cost, training: Option<TrainingFacts>) -> Self {
        Self { engine: engine.clone(), run, flush: None, steps: 1, cost, host: None, training }
    }
}

/// The session of a step row; in the way `Tuned` with the kernels that the tuner finds.
pub(crate) fn session(
    engine: &Engine,
    step: &Step,
    mode: LaunchMode,
    dtype: Precision,
) -> Result<Session, BenchError> {
    let config = (step.config)();
    let (context, horizon) = (config.context(), config.predicts().values());
    let split = Split::ratio(0.7, 0.15, 0.15)?;
    let (dataset, loss) = match config.tokens() {
        Some(tokens) => {
            let data = synthetic::assets(SAMPLES, tokens, context, 2021)?;
            let segments = TokenSegments::new(&data, split)?;
            (Dataset::classification(&data, segments), Loss::CrossEntropy)
        }
        None => {
            let series = synthetic::demo(SERIES_ROWS, step.channels, 2021)?;
            (Dataset::forecast(series, split, context, horizon)?.0, Loss::Mse)
        }
    };
    let (dtype, products) = dtype.parts();
    let options = TrainingOptions {
        // Of ranks each has the row's batch.
        batch: step.batch * engine.world().size(),
        accumulate: step.accumulate,
        loss,
        epochs: 1,
        max_steps: None,
        lr: 1e-3,
        schedule: Schedule::Constant,
        optimizer: OptimizerKind::AdamW,
        betas: Betas { first: 0.9, second: 0.999 },
        weight_decay: 0.01,
        clip: Some(1.0),
        dtype,
        products,
        seed: 2021,
        ..TrainingOptions::default()
    };
    let model = || config.build().map_err(SettingsError::Network);
    let made = Session::new(engine, model()?, &dataset, context, horizon, options.clone())?;
    if mode != LaunchMode::Tuned {
        return Ok(made);
    }
    let engine = engine.with_choices(made.tune(false)?.choices);
    Ok(Session::new(&engine, model()?, &dataset, context, horizon, options)?)
}

/// What the first rank says.
fn first_says(engine: &Engine, own: bool) -> Result<bool, Error> {
    let parts = engine.world().exchange("whether a sample takes longer", &[u8::from(own)])?;
    Ok(parts.first().is_some_and(|part| **part == [1]))
}

/// Seconds until the device has done these steps.
fn timed(engine: &Engine, run: &mut Run, steps: usize) -> Result<f64, Error> {
    engine.synchronize()?;
    let start = Instant::now();
    run(steps)?;
    engine.synchronize()?;
    Ok(start.elapsed().as_secs_f64())
}

fn prepared(engine: &Engine, calls: &[Call]) -> Result<Vec<PreparedCall>, Error> {
    calls.iter().map(|c| PreparedCall::new(engine, c)).collect()
}

fn cost(calls: &[PreparedCall]) -> Cost {
    calls.iter().fold(Cost::default(), |sum, c| sum + c.cost)
}

/// A step is all of these calls.
fn issuing(engine: &Engine, mut calls: Vec<PreparedCall>) -> Run {
    let inside = engine.clone();
    Box::new(move |steps: usize| {
        let (engine, calls) = (&inside, &mut calls);
        engine.enter(move || issue(engine, calls, steps))
    })
}

/// Microseconds until each of these submissions returns, which wait for nothing: medians of `count`, taken in turn.
fn submissions<const N: usize>(
    engine: &Engine,
    count: usize,
    mut sides: [&mut dyn FnMut() -> Result<(), Error>; N],
) -> Result<[f64; N], Error> {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..count {
        for (submit, times) in sides.iter_mut().zip(&mut times) {
            engine.synchronize()?;
            let start = Instant::now();
            submit()?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    engine.synchronize()?;
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// An op row's calls as a program, whose launches are prepared.
fn bare(engine: &Engine, row: &OpRow) -> Result<(Program, State), Error> {
    let graph = Graph::new(&Arc::new(StateSpec::new()));
    let mut inputs = Vec::new();
    for (c, call) in row.calls(DType::F32).into_iter().enumerate() {
        let args = call.args.iter().enumerate().map(|(a, arg)| {
            let name = format!("{c}.{a}");
            let input = graph.input(&name, arg.dtype, arg.shape);
            inputs.push((name, graph.spec(input)));
            if arg.transposed { graph.transpose(input) } else { Ok(input) }
        });
        let args = args.collect::<Result<Vec<_>, _>>()?;
        for (o, output) in graph.op_dyn(call.op, &args)?.into_iter().enumerate() {
            graph.output(&format!("{c}:{o}"), output);
        }
    }
    let mut state = State::new(engine, graph.state_spec())?;
    let mut program = Program::compile(engine, &state, "bare", &graph)?;
    // What the numbers are does not change how long the launches take.
    for (name, spec) in inputs {
        let n = spec.shape.elements();
        landfall::with_dtype!(any spec.dtype, T => program.write(&name, &vec![<T as Element>::from_f64(0.0); n]))?;
    }
    program.run(&mut state)?;
    Ok((program, state))
}

/// A call with its tensors. An output that must be an input holds that input's data.
struct PreparedCall {
    op: Arc<dyn Op>,
    inputs: Vec<(Tensor, bool)>,
    outputs: Vec<Tensor>,
    shared: Vec<(usize, usize)>,
    cost: Cost,
}

impl PreparedCall {
    fn new(engine: &Engine, call: &Call) -> Result<Self, Error> {
        let (op, args) = (Arc::clone(&call.op), &call.args);
        let specs: Vec<Spec> = args.iter().map(spec_seen).collect();
        let outputs = op.infer(&specs).map_err(|r| r.of(op.name(), &specs, None, None))?;
        let shared: Vec<(usize, usize)> =
            op.outputs().iter().zip(0..).filter_map(|(o, output)| Some((o.updated()?, output))).collect();
        let cost = Cost::of(op.as_ref(), &specs);
        engine.reserve(engine.workspace(op.as_ref(), &specs)?)?;
        let mut inputs = Vec::new();
        let mut taken: Vec<Option<Tensor>> = outputs.iter().map(|_| None).collect();
        for (i, arg) in args.iter().enumerate() {
            let tensor = tensor_of(engine, arg, i as u32)?;
            match shared.iter().find(|s| s.0 == i) {
                Some(&(_, output)) => taken[output] = Some(tensor),
                None => inputs.push((tensor, arg.transposed)),
            }
        }
        let outputs = taken
            .into_iter()
            .zip(outputs.iter())
            .map(|(tensor, spec)| tensor.map_or_else(|| engine.empty(spec.dtype, spec.shape), Ok))
            .collect::<Result<_, _>>()?;
        Ok(Self { op, inputs, outputs, shared, cost })
    }

    /// The call's operands as views.
    fn ready(&mut self) -> Result<CallOperands<'_>, Error> {
        Ok(CallOperands {
            op: self.op.as_ref(),
            shared: &self.shared,
            inputs: self.inputs.iter().map(view).collect::<Result<_, _>>()?,
            outputs: self.outputs.iter_mut().map(Tensor::view_mut).collect(),
        })
    }

    fn issue(&mut self, engine: &Engine) -> Result<(), Error> {
        self.ready()?.issue(engine)
    }
}

/// A call whose views are made: what is left is the call, whose host time is measured too.
struct CallOperands<'a> {
    op: &'a dyn Op,
    shared: &'a [(usize, usize)],
    inputs: Vec<TensorRef<'a>>,
    outputs: Vec<TensorMut<'a>>,
}

impl CallOperands<'_> {
    fn issue(&mut self, engine: &Engine) -> Result<(), Error> {
        if self.shared.is_empty() {
            engine.call(self.op, &self.inputs, &mut self.outputs)
        } else {
            engine.call_sharing(self.op, self.shared, &mut self.outputs, &self.inputs)
        }
    }
}

/// So many steps of all of these calls.
fn issue(engine: &Engine, calls: &mut [PreparedCall], steps: usize) -> Result<(), Error> {
    let mut calls = calls.iter_mut().map(PreparedCall::ready).collect::<Result<Vec<_>, _>>()?;
    (0..steps).try_for_each(|_| calls.iter_mut().try_for_each(|c| c.issue(engine)))
}

fn view((tensor, transposed): &(Tensor, bool)) -> Result<TensorRef<'_>, Error> {
    if *transposed { tensor.view().permute(&[1, 0]) } else { Ok(tensor.view()) }
}

/// The spec that the op sees.
fn spec_seen(arg: &Arg) -> Spec {
    let mut dims = arg.shape.dims().to_vec();
    if arg.transposed {
        dims.reverse();
    }
    Spec { dtype: arg.dtype, shape: Shape::new(&dims).unwrap_or(arg.shape) }
}

/// A tensor that holds the argument's data.
fn tensor_of(engine: &Engine, arg: &Arg, stream: u32) -> Result<Tensor, Error> {
    let mut rng = Rng::new(2021, stream);
    let whole = Spec { dtype: arg.dtype, shape: arg.shape };
    match &arg.data {
        Data::Normal => {
            let times = arg.shape.elements() / PERIOD;
            if times < 2 || !arg.shape.elements().is_multiple_of(PERIOD) {
                return engine.from_host(&HostTensor::from_fn(whole, |_| rng.normal()));
            }
            let period = Spec::new(arg.dtype, [PERIOD]);
            let period = engine.from_host(&HostTensor::from_fn(period, |_| rng.normal()))?;
            let mut tensor = engine.empty(arg.dtype, arg.shape)?;
            let out = tensor.view_mut().reshape([times, PERIOD])?;
            engine.call(&ops::Copy, &[period.view().broadcast_to([times, PERIOD])?], &mut [out])?;
            engine.synchronize()?;
            Ok(tensor)
        }
        Data::Squares => engine.from_host(&HostTensor::from_fn(whole, |_| rng.normal().powi(2))),
        Data::All(value) => engine.from_host(&HostTensor::from_fn(whole, |_| *value)),
        Data::Exact(values) => engine.from_host(&HostTensor::new(arg.dtype, arg.shape, values.to_vec())?),
        Data::Result(call, output) => {
            let mut call = PreparedCall::new(engine, call)?;
            call.issue(engine)?;
            engine.synchronize()?;
            Ok(call.outputs.swap_remove(*output))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::RoutingRow;

    #[test]
    fn routing_rows_on_a_small_layer() {
        let engine = Engine::cpu().expect("a processor");
        for dtype in [DType::F32, DType::BF16] {
            for (op, calls) in RoutingRow::small(dtype) {
                let mut row = OurSide::cold(&engine, &calls, 1 << 20).expect(op);
                (row.run)(2).expect(op);
                assert!(row.cost.bytes > 0, "{op}");
                // What was issued had valid indices: reading would say if not.
                for call in prepared(&engine, &calls).expect(op).iter_mut() {
                    call.issue(&engine).expect(op);
                    for output in &call.outputs {
                        let read = output.read_host().expect(op);
                        assert!(read.data.iter().any(|&x| x != 0.0), "{op}: {} is zero", read.spec);
                    }
                }
            }
        }
    }

    #[test]
    fn large_arguments_repeat() {
        let engine = Engine::cpu().expect("a processor");
        let shape = Shape::from([3, PERIOD]);
        let arg = Arg { dtype: DType::BF16, shape, data: Data::Normal, transposed: false };
        let data = tensor_of(&engine, &arg, 1).expect("made").read_host().expect("read").data;
        let (first, rest) = data.split_at(PERIOD);
        assert!(rest.chunks_exact(PERIOD).all(|again| again == first));
        let mean_square = first.iter().map(|x| x * x).sum::<f64>() / PERIOD as f64;
        assert!((mean_square - 1.0).abs() < 0.01, "{mean_square}");
    }
}
