//! Sizes at the ends of what numbers hold: each is computed with or refused in words, and no arithmetic on it overflows.
//!
//! Nothing here needs memory: devices that compute nothing infer, choose kernels, plan and list launches for sizes that no
//! memory holds. The processor computes where a size is large and another one is 0.

use crate::case::{Case, Check, Failure, cases, ensure, generic, specs};
use crate::launch::run;
use crate::place::{Place, Placed};
use landfall::cuda::launches;
use landfall::ops::{AttributeValue, Cost, Output, Tested};
use landfall::{
    DType, Engine, Error, Graph, HostTensor, MAX_ELEMENTS, Program, Shape, Spec, State, StateSpec, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Integers that attributes are given: those round the ends of numbers of 32 and 64 bits, and round what memories hold.
const INTEGERS: &[i64] = &[
    i64::MIN,
    i64::MIN + 1,
    -(1 << 31),
    -1,
    0,
    1,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    (1 << 32) + 1,
    1 << 40,
    1 << 48,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
];

/// Floats that attributes are given.
const FLOATS: &[f64] =
    &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 9_223_372_036_854_775_808.0];

/// Sizes that axes of arguments are given.
const SIZES: &[usize] = &[0, 1, 1 << 31, (1 << 32) + 1, 1 << 40, MAX_ELEMENTS, 1 << 62, usize::MAX];

/// The size of an axis of a call that is computed: what walks over it takes seconds.
const LONG: usize = 1 << 31;

/// How long one call may be worked on.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that a call may need to be computed.
const ROOM: usize = 64 << 20;

/// Samples of an op whose arguments get other sizes.
const SAMPLES: usize = 6;

/// What an attribute of this value may be set to instead.
fn others(value: &AttributeValue) -> Vec<AttributeValue> {
    match value {
        AttributeValue::Int(_) | AttributeValue::None => {
            INTEGERS.iter().map(|&n| AttributeValue::Int(n)).collect()
        }
        AttributeValue::Ints(sizes) => {
            let mut all = vec![AttributeValue::Ints(Vec::new()), AttributeValue::Ints(vec![1; 9])];
            for at in 0..sizes.len() {
                all.extend(INTEGERS.iter().map(|&n| {
                    let mut sizes = sizes.clone();
                    sizes[at] = n;
                    AttributeValue::Ints(sizes)
                }));
            }
            all
        }
        AttributeValue::Float(_) => FLOATS.iter().map(|&x| AttributeValue::Float(x)).collect(),
        AttributeValue::Text(text) => match text.split_once('[') {
            // A dtype and sizes.
            Some((dtype, _)) => {
                let with = |sizes: &[usize]| AttributeValue::Text(format!("{dtype}{sizes:?}"));
                SIZES
                    .iter()
                    .flat_map(|&n| [with(&[n]), with(&[2, n]), with(&[n, n]), with(&[n, n, 0])])
                    .collect()
            }
            None => Vec::new(),
        },
        AttributeValue::Bool(_) => Vec::new(),
    }
}

/// A dtype in which a sample's arguments are tried.
fn dtype(sample: &landfall::ops::Sample) -> DType {
    let taken = |&dtype: &DType| sample.op.infer(&specs(&sample.args, dtype)).is_ok();
    if generic(sample) && !taken(&DType::F32) {
        return DType::ALL.iter().copied().find(taken).unwrap_or(DType::F32);
    }
    DType::F32
}

/// A program of one call, on a device that computes nothing.
fn compiled(engine: &Engine, op: &Arc<dyn Tested>, args: &[Spec]) -> Result<(), Error> {
    let mut spec = StateSpec::new();
    let updated = |i: usize| op.outputs().iter().any(|o| Output::updated(o) == Some(i));
    for (i, arg) in args.iter().enumerate().filter(|(i, _)| updated(*i)) {
        spec.add(&format!("slab{i}"), arg.dtype, &[(format!("input{i}"), arg.shape)])?;
    }
    let (spec, mut values) = (Arc::new(spec), Vec::<Value>::new());
    let graph = Graph::new(&spec);
    for (i, arg) in args.iter().enumerate() {
        let name = format!("input{i}");
        // A copy, so that the plan has values of its own to place.
        values.push(match updated(i) {
            true => graph.entry(&name)?,
            false => graph.copy(graph.input(&name, arg.dtype, arg.shape))?,
        });
    }
    for (j, value) in graph.op_dyn(op.clone(), &values)?.into_iter().enumerate() {
        graph.output(&format!("output{j}"), value);
    }
    Program::compile(engine, &State::new(engine, &spec)?, "sizes", &graph).map(drop)
}

/// The devices on which a call is planned: as on the processor, and as on a GPU.
fn planners() -> [Engine; 2] {
    [Engine::null(), Engine::planning_for_cuda()]
}

/// Everything that is done for a call before it runs. Each part may refuse it.
fn planned(op: &Arc<dyn Tested>, args: &[Spec]) {
    _ = op.infer(args);
    _ = Cost::of(op.as_ref(), args);
    for engine in planners() {
        _ = engine.workspace(op.as_ref(), args);
        _ = compiled(&engine, op, args);
    }
    _ = launches(op.as_ref(), args);
}

/// That `work` ends in time and does not panic.
fn sound<T>(what: impl Fn() -> String, work: impl FnOnce() -> T) -> Check<T> {
    let from = Instant::now();
    let Ok(done) = catch_unwind(AssertUnwindSafe(work)) else {
        return Err(Failure(format!("{} panicked", what())));
    };
    ensure!(from.elapsed() < PATIENCE, "{} took {:.1} s", what(), from.elapsed().as_secs_f64());
    Ok(done)
}

fn text(op: &Arc<dyn Tested>, args: &[Spec]) -> String {
    let args: Vec<String> = args.iter().map(Spec::to_string).collect();
    format!("{op:?}({})", args.join(", "))
}

/// Each attribute of each sample, set to every end.
fn attributes(prototype: &dyn Tested) -> Check {
    for mut sample in prototype.samples().into_iter().filter(|s| s.refused.is_none()) {
        let args = specs(&sample.args, dtype(&sample));
        for (index, attribute) in sample.op.declared().iter().enumerate() {
            let Some(own) = sample.op.attribute(index) else { continue };
            for value in others(&own) {
                let Some(op) = Arc::get_mut(&mut sample.op) else {
                    return Err(Failure("a sample's op is shared".to_owned()));
                };
                if op.set(attribute.name, &value).is_ok() {
                    let op = &sample.op;
                    sound(|| text(op, &args), || planned(op, &args))?;
                }
            }
            if let Some(op) = Arc::get_mut(&mut sample.op) {
                _ = op.set(attribute.name, &own);
            }
        }
    }
    Ok(())
}

/// Arguments with axes of another size: the axis alone, or all axes of its size in all arguments; another one may be 0.
fn resized(args: &[Spec], to: usize) -> Vec<Vec<Spec>> {
    let mut all = Vec::new();
    let axes = || args.iter().enumerate().flat_map(|(i, a)| (0..a.shape.rank()).map(move |axis| (i, axis)));
    let alike = |args: &[Spec], from: usize, to: usize| -> Vec<Spec> {
        let size = |&d: &usize| if d == from { to } else { d };
        let shape = |s: &Shape| Shape::new(&s.dims().iter().map(size).collect::<Vec<_>>()).unwrap_or(*s);
        args.iter().map(|a| Spec { shape: shape(&a.shape), ..*a }).collect()
    };
    for (i, axis) in axes() {
        let from = args[i].shape.dims()[axis];
        let mut one = args.to_vec();
        one[i].shape = one[i].shape.with(axis, to);
        all.push(one);
        let many = alike(args, from, to);
        for (k, other) in axes() {
            let size = args[k].shape.dims()[other];
            if size != from {
                all.push(alike(&many, size, 0));
            }
        }
        all.push(many);
    }
    all.sort_by_key(|args| format!("{args:?}"));
    all.dedup();
    all
}

/// Computes a call on arguments that hold next to nothing.
fn computed(engine: &Engine, op: &Arc<dyn Tested>, args: &[Spec]) -> Check {
    let Ok(outputs) = op.infer(args) else { return Ok(()) };
    let bytes = args.iter().chain(outputs.iter()).fold(0, |n: usize, s| n.saturating_add(s.bytes()));
    let empty = args.iter().chain(outputs.iter()).all(|s| s.shape.bounded().is_ok());
    if !empty || bytes > ROOM || op.outputs().iter().any(|o| o.updated().is_some()) {
        return Ok(());
    }
    let needed = engine.workspace(op.as_ref(), args)?;
    // What a kernel asks for may be more than there is, which is an error of the call.
    if needed > ROOM {
        return Ok(());
    }
    let inputs =
        args.iter().map(|&s| Placed::empty(engine, s, Place::Whole, 0)).collect::<Result<Vec<_>, _>>()?;
    let views = inputs.iter().map(Placed::view).collect::<Result<Vec<_>, _>>()?;
    engine.eval_all(op.as_ref(), &views)?;
    Ok(())
}

/// Each axis of the arguments of a few samples, with every size.
fn arguments(prototype: &dyn Tested) -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    for sample in prototype.samples().into_iter().filter(|s| s.refused.is_none()).take(SAMPLES) {
        let (op, args) = (&sample.op, specs(&sample.args, dtype(&sample)));
        for args in SIZES.iter().flat_map(|&size| resized(&args, size)) {
            sound(|| text(op, &args), || planned(op, &args))?;
        }
        for args in resized(&args, LONG) {
            let what = || format!("{} computed", text(op, &args));
            sound(what, || computed(&engine, op, &args))?
                .map_err(|Failure(why)| Failure(format!("{}: {why}", what())))?;
        }
    }
    Ok(())
}

/// Arguments of integers (indices, counts, cursors) that hold each end, on the processor: kernels compute with what they read.
fn elements(prototype: &dyn Tested) -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    for case in cases(prototype)?.into_iter().filter(|case| !case.large()) {
        let whole = |h: &HostTensor| matches!(h.spec.dtype, DType::I32 | DType::I64);
        // Where all arguments may be anything, so may the integers.
        if generic_alone(&case) {
            continue;
        }
        for (i, spec) in case.specs().into_iter().enumerate().filter(|(i, _)| whole(&case.inputs[*i])) {
            for (end, place) in INTEGERS.iter().flat_map(|&end| [(end, false), (end, true)]) {
                let value = if spec.dtype == DType::I32 { i64::from(end as i32) } else { end };
                // One of them, or all.
                let at = |k: usize| if place && k > 0 { case.inputs[i].int(k) } else { value };
                let ints: Vec<i64> = (0..spec.shape.elements()).map(at).collect();
                let mut inputs = case.inputs.clone();
                inputs[i] = if spec.dtype == DType::I64 {
                    HostTensor::from_ints(spec.shape, ints)?
                } else {
                    HostTensor::from_fn(spec, |k| ints[k] as f64)
                };
                let case = case.with_inputs(inputs);
                sound(
                    || format!("{case} with {value} in argument {i}"),
                    || run(&engine, &case, &[], Place::Whole),
                )?
                .ok();
            }
        }
    }
    Ok(())
}

/// Whether no argument has a dtype of its own.
fn generic_alone(case: &Case) -> bool {
    case.args.iter().all(|arg| arg.dtype.is_none())
}

/// Sizes at the ends of what numbers hold are refused in words, or computed with, in attributes and in arguments; and so are
/// integers that arguments hold.
pub(crate) fn sizes(op: &dyn Tested) -> Check {
    attributes(op)?;
    arguments(op)?;
    elements(op)
}
