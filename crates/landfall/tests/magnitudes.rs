//! Every method and every op in 16 bits, from small numbers to the largest, against the same in f64: the error is at most two
//! roundings of the result, and what the same has in f32. And functions of one number in f32 over all magnitudes, with their
//! first and second derivatives.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{self, AttributeValue, Data, Method, Sample, Tested};
use landfall::rng::Rng;
use landfall::{All, DType, Engine, Error, Graph, HostTensor, Program, Shape, State, StateSpec, Value, grad};
use std::sync::Arc;

on_each_device!(
    methods_round_once,
    ops_round_once,
    functions_keep_their_digits,
    ties_are_counted_beyond_what_16_bits_hold,
);

/// Builds results from arguments.
type Build<'a> = &'a dyn Fn(&Graph, &[Value]) -> Result<Vec<Value>, Error>;

/// The results, then the gradients of each float argument of the sum of the float results, each element with a weight of its own;
/// no gradients where the path has none.
fn run(
    e: &Engine,
    args: &[HostTensor],
    build: Build<'_>,
) -> Result<(Vec<HostTensor>, Vec<HostTensor>), Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let inputs: Vec<Value> = (args.iter().enumerate())
        .map(|(i, a)| g.input(&format!("x{i}"), a.spec.dtype, a.spec.shape))
        .collect();
    let results = build(&g, &inputs)?;
    results.iter().enumerate().for_each(|(i, &v)| g.output(&format!("y{i}"), v));
    let slopes = gradients(&g, args, &inputs, &results)?;
    slopes.iter().enumerate().for_each(|(i, &v)| g.output(&format!("g{i}"), v));
    let mut program = Program::compile(e, &state, "magnitudes", &g)?;
    for (i, a) in args.iter().enumerate() {
        match write(&mut program, &format!("x{i}"), a) {
            // An argument that nothing reads is not part of the program.
            Ok(()) | Err(Error::NoBinding { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    program.run(&mut state)?;
    let read = |kind: &str, n: usize| {
        (0..n).map(|i| program.read_host(&format!("{kind}{i}"))).collect::<Result<Vec<_>, _>>()
    };
    Ok((read("y", results.len())?, read("g", slopes.len())?))
}

fn write(program: &mut Program, name: &str, x: &HostTensor) -> Result<(), Error> {
    let floats = || x.data.iter().map(|&v| v as f32);
    match x.spec.dtype {
        DType::F64 => program.write(name, &x.data),
        DType::F32 => program.write(name, &floats().collect::<Vec<f32>>()),
        DType::BF16 => program.write(name, &floats().map(half::bf16::from_f32).collect::<Vec<_>>()),
        DType::F16 => program.write(name, &floats().map(half::f16::from_f32).collect::<Vec<_>>()),
        DType::I64 => program.write(name, &x.data.iter().map(|&v| v as i64).collect::<Vec<_>>()),
        DType::I32 => program.write(name, &x.data.iter().map(|&v| v as i32).collect::<Vec<_>>()),
        DType::U8 | DType::Bool => program.write(name, &x.data.iter().map(|&v| v as u8).collect::<Vec<_>>()),
    }
}

/// The gradients of the first result that carries any.
fn gradients(
    g: &Graph,
    args: &[HostTensor],
    inputs: &[Value],
    results: &[Value],
) -> Result<Vec<Value>, Error> {
    for &y in results.iter().filter(|&&y| g.spec(y).dtype.is_float()) {
        let n = g.shape(y).elements();
        // From ½ on in steps that 16 bits hold.
        let steps = g.affine(g.arange(DType::F32, 0.0, 1.0, n.clamp(1, 32))?, 1.0 / 32.0, 0.5)?;
        let steps =
            g.take(steps, 0, g.rem(g.arange(DType::I64, 0.0, 1.0, n)?, g.fill(DType::I64, [], 32.0)?)?)?;
        let weights = g.reshape(g.cast(steps, g.spec(y).dtype)?, g.shape(y))?;
        let loss = g.sum(g.cast(g.mul(y, weights)?, DType::F64)?, All)?;
        let float = inputs.iter().zip(args).filter(|(_, a)| a.spec.dtype.is_float());
        let mut all = Vec::new();
        let mut none = false;
        for (&x, _) in float {
            match grad(g, loss, &[("x".to_owned(), x)]) {
                Ok(found) => all.push(found[0]),
                Err(Error::NoPath { .. }) => {}
                Err(Error::Gradient { .. } | Error::Op(_)) => none = true,
                Err(other) => return Err(other),
            }
        }
        if !none {
            return Ok(all);
        }
    }
    Ok(Vec::new())
}

/// The same numbers in the float dtype; what is not of `from` stays as it is.
fn recast(args: &[HostTensor], from: DType, to: DType) -> Vec<HostTensor> {
    args.iter().map(|a| if a.spec.dtype == from { a.cast(to) } else { a.clone() }).collect()
}

/// Ops with gradients that start from results kept in 16 bits, and methods that are such ops.
const KEPT: &[&str] = &[
    "attend",
    "scaled_dot_product_attention",
    "attention",
    "attention_grad",
    "masked_attention",
    "masked_attention_grad",
    "cosine_attention",
    "cosine_attention_grad",
    "gru",
    "gru_grad",
    "lstm",
    "lstm_grad",
];

/// Where 16 bits are further from f64 than two roundings and the error of f32, as text.
fn faults(
    e: &Engine,
    what: &str,
    dtype: DType,
    args: &[HostTensor],
    build: Build<'_>,
) -> Result<Vec<String>, Error> {
    // Their gradients start from results that they keep in 16 bits: the error is one of the largest element, at sizes where these
    // results are not all at their limits.
    let kept = what.split(' ').next().is_some_and(|name| KEPT.contains(&name));
    let of = |dtype_of: DType| run(e, &recast(args, dtype, dtype_of), build);
    let (exact, single, narrow) = (of(DType::F64)?, of(DType::F32)?, of(dtype)?);
    let mut found = Vec::new();
    let parts = [("result", exact.0, single.0, narrow.0), ("gradient", exact.1, single.1, narrow.1)];
    for (kind, exact, single, narrow) in parts {
        assert_eq!(exact.len(), narrow.len(), "{what} in {dtype}: {kind}s");
        for (i, ((want, in_f32), got)) in exact.iter().zip(&single).zip(&narrow).enumerate() {
            let largest = want.data.iter().filter(|w| w.is_finite()).fold(0.0, |m: f64, w| m.max(w.abs()));
            let slack = if kept { 8.0 * dtype.epsilon() * largest } else { 0.0 };
            let far = (0..want.data.len()).find(|&k| {
                let (want, in_f32, got) = (want.data[k], in_f32.data[k], got.data[k]);
                !near(dtype, want, in_f32, got) && !within(got - want, slack)
            });
            if let Some(k) = far {
                let (want, got, in_f32) = (want.data[k], got.data[k], in_f32.data[k]);
                found.push(format!(
                    "{what} in {dtype}: {kind} {i}[{k}] is {got:e}, it must be {want:e} (f32: {in_f32:e})"
                ));
            }
        }
    }
    Ok(found)
}

/// Largest numbers, and smallest normal ones.
fn range_of(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (65_504.0, 2f64.powi(-14)),
        DType::BF16 => (3.389e38, 2f64.powi(-126)),
        DType::F32 => (f64::from(f32::MAX), 2f64.powi(-126)),
        DType::F64 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => (f64::MAX, 0.0),
    }
}

/// Whether an error is at most `bound`; NaN is not.
fn within(error: f64, bound: f64) -> bool {
    error.abs() <= bound
}

fn near(dtype: DType, want: f64, in_f32: f64, got: f64) -> bool {
    if want == got || want.is_nan() && got.is_nan() {
        return true;
    }
    let (most, least) = range_of(dtype);
    if want.is_nan() && !in_f32.is_nan() {
        // A power that f64 holds and f32 does not, times a logarithm of a negative number.
        return got == in_f32;
    }
    if !in_f32.is_finite() && (dtype == DType::BF16 || !within(want, most)) {
        // f32 inside is the precision of 16 bits: of bf16 it overflows where squares do.
        return true;
    }
    if !dtype.is_float() || !want.is_finite() {
        return false;
    }
    if want.abs() >= most * (1.0 - dtype.epsilon()) {
        return got.is_infinite()
            || (got - want).abs() <= want.abs() * dtype.epsilon()
            || got.abs() >= most * 0.99;
    }
    (got - want).abs() <= dtype.epsilon() * (want.abs() + least) + 2.0 * (in_f32 - want).abs()
}

/// Magnitudes of the numbers of a dtype, and what is added to them.
fn magnitudes(dtype: DType) -> Vec<(f64, f64)> {
    let most = range_of(dtype).0;
    let mut all = vec![(1e-3, 0.0), (1.0, 0.0), (6.0, 0.0), (300.0, 0.0), (1.0, 1000.0), (most, 0.0)];
    if dtype == DType::BF16 {
        all.extend([(1e5, 0.0), (1e10, 0.0), (1e18, 0.0)]);
    }
    all
}

/// An argument of a method: its name decides what it may hold.
fn argument(
    name: &str,
    shape: &[usize],
    dtype: DType,
    (size, middle): (f64, f64),
    stream: u32,
) -> HostTensor {
    let shape = Shape::new(shape).unwrap_or(Shape::SCALAR);
    let mut rng = Rng::new(11, stream);
    let (dtype, mut draw): (DType, Box<dyn FnMut(usize) -> f64>) = match name {
        "labels" | "ids" | "index" => (DType::I64, Box::new(|i| (i * 7 % 4) as f64)),
        "positions" => (DType::I64, Box::new(|i| i as f64 * 3.0)),
        "mask" | "condition" => (DType::Bool, Box::new(|i| f64::from(u8::from(i % 3 != 0)))),
        // Probabilities and factors.
        "p" | "targets" | "weights" | "weight" | "bias" => (dtype, Box::new(move |_| rng.uniform())),
        "log_q" => (dtype, Box::new(move |_| -size * rng.uniform())),
        _ => (dtype, Box::new(move |_| middle + size * (2.0 * rng.uniform() - 1.0))),
    };
    let data = (0..shape.elements()).map(&mut draw).collect();
    HostTensor::new(dtype, shape, data).map(|x| x.rounded()).unwrap_or_else(|rule| panic!("{name}: {rule}"))
}

/// Shapes of a method's arguments, where they are not `[4, 6]` each.
fn shapes(method: &Method) -> Vec<Vec<usize>> {
    let known: &[&[usize]] = match method.name {
        "matmul" => &[&[4, 6], &[6, 5]],
        "matmul_add" => &[&[4, 6], &[6, 5], &[5]],
        "not" | "and" | "or" | "any" | "all" => return Vec::new(),
        "hadamard" => &[&[3, 8]],
        "layer_norm" => &[&[4, 6], &[6], &[6]],
        "rms_norm" => &[&[4, 6], &[6]],
        "group_norm" => &[&[2, 4, 32], &[4], &[4]],
        "conv1d" => &[&[2, 4, 8], &[6, 2, 3], &[6]],
        "max_pool" | "mean_pool" => &[&[2, 3, 8]],
        "attend" => &[&[2, 3, 2, 4], &[2, 3, 2, 4], &[2, 3, 2, 4]],
        "scaled_dot_product_attention" => &[&[2, 2, 3, 4], &[2, 2, 3, 4], &[2, 2, 3, 4]],
        "rotary" => &[&[1, 4, 2, 6], &[4]],
        "gru" => &[&[2, 3, 12], &[2, 4], &[12, 4], &[12]],
        "lstm" => &[&[2, 3, 16], &[2, 4], &[2, 4], &[16, 4], &[16]],
        "cross_entropy" => &[&[4, 6], &[4]],
        "embedding" => &[&[4, 6], &[3]],
        "take" => &[&[4, 6], &[3]],
        "gather" => &[&[4, 6], &[3, 6]],
        "scatter" | "index_add" => &[&[4, 6], &[3], &[3, 6]],
        "scatter_add" => &[&[4, 6], &[3, 6], &[3, 6]],
        "reshape" => &[&[4, 6]],
        _ => &[],
    };
    if known.is_empty() {
        return method.arguments.iter().map(|_| vec![4, 6]).collect();
    }
    known.iter().map(|shape| shape.to_vec()).collect()
}

/// Parameters without a default, and such that choose another way.
fn parameters(method: &Method) -> Vec<Vec<(&'static str, AttributeValue)>> {
    use AttributeValue::{Float, Int, Ints, Text};
    let needed: Vec<(&'static str, AttributeValue)> = (method.parameters.iter())
        .filter(|p| p.default().is_none() || ["axis", "groups"].contains(&p.name))
        .map(|p| {
            let value = match p.name {
                "axis"
                    if ["scatter", "index_add", "scatter_add", "gather", "take"].contains(&method.name) =>
                {
                    Int(0)
                }
                "axis" => Int(1),
                "groups" if method.name == "conv1d" => Int(2),
                "exponent" => Float(3.0),
                "value" => Float(0.5),
                "dtype" => Text("f32".to_owned()),
                "shape" => Ints(vec![6, 4]),
                "axes" => Ints(vec![1, 0]),
                "step" | "start" => Int(1),
                _ => Int(2),
            };
            (p.name, value)
        })
        .collect();
    let more: &[&[(&str, AttributeValue)]] = match method.name {
        "cross_entropy" => &[&[("ignored", Int(0))], &[("smoothing", Float(0.25))]],
        "powf" => &[&[("exponent", Float(-0.5))], &[("exponent", Float(1.7))]],
        "elu" => &[&[("alpha", Float(1.7))]],
        "cosine_similarity" => &[&[("eps", Float(1e-3))]],
        _ => &[],
    };
    let with = |more: &[(&'static str, AttributeValue)]| {
        needed.iter().cloned().chain(more.iter().cloned()).collect()
    };
    std::iter::once(needed.clone()).chain(more.iter().map(|m| with(m))).collect()
}

fn methods_round_once(e: &Engine) -> Result<(), Error> {
    // These take no float, or memory of the program.
    const APART: &[&str] = &[
        "assign",
        "assign_rows",
        "normal",
        "not",
        "and",
        "or",
        "any",
        "all",
        "one_hot",
        "scalar",
        "broadcast_to",
    ];
    let mut found = Vec::new();
    for method in ops::methods().iter().filter(|m| !m.arguments.is_empty() && !APART.contains(&m.name)) {
        let shapes = shapes(method);
        for given in parameters(method) {
            for dtype in [DType::F16, DType::BF16] {
                for size in magnitudes(dtype)
                    .into_iter()
                    .filter(|&(size, _)| size <= 6.0 || !KEPT.contains(&method.name))
                    // Of queries and keys around 1,000 scores are 10⁶, whose rounding decides the weights: a slope from 16-bit results is noise.
                    .filter(|&(_, middle)| middle < 100.0 || method.name != "scaled_dot_product_attention")
                {
                    let arguments = method.arguments.iter().zip(&shapes).enumerate();
                    let args: Vec<HostTensor> =
                        arguments.map(|(i, (a, s))| argument(a.name, s, dtype, size, i as u32)).collect();
                    let what = format!("{} {given:?} of {size:?}", method.name);
                    let build = |g: &Graph, inputs: &[Value]| {
                        let args: Vec<Option<Value>> = inputs.iter().copied().map(Some).collect();
                        ops::method(g, method.name, &args, &given)
                    };
                    found.extend(faults(e, &what, dtype, &args, &build)?);
                }
            }
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
    Ok(())
}

fn ops_round_once(e: &Engine) -> Result<(), Error> {
    let mut found = Vec::new();
    for op in ops::table() {
        let samples = op.samples();
        let plain = samples.iter().filter(|s| s.refused.is_none() && small(s)).take(8);
        for (n, sample) in plain.enumerate() {
            for dtype in [DType::F16, DType::BF16] {
                for size in [1e-3, 1.0, 300.0, range_of(dtype).0] {
                    if size > 6.0 && KEPT.contains(&op.name()) {
                        continue;
                    }
                    let Some(args) = drawn(sample, dtype, size) else { continue };
                    let specs: Vec<_> = args.iter().map(|a| a.spec).collect();
                    let wide: Vec<_> = recast(&args, dtype, DType::F64).iter().map(|a| a.spec).collect();
                    if sample.op.infer(&specs).is_err() || sample.op.infer(&wide).is_err() {
                        continue;
                    }
                    let what = format!("{} sample {n} {:?} of {size:e}", op.name(), sample.op);
                    let build = |g: &Graph, inputs: &[Value]| g.op_dyn(as_op(&sample.op), inputs);
                    found.extend(faults(e, &what, dtype, &args, &build)?);
                }
            }
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
    Ok(())
}

fn as_op(op: &Arc<dyn Tested>) -> Arc<dyn ops::Op> {
    Arc::clone(op) as Arc<dyn ops::Op>
}

/// Few elements, at least one of them in the dtype under test, and no update of an argument.
fn small(sample: &Sample) -> bool {
    let updates = sample.op.outputs().iter().any(|o| o.updated().is_some());
    !updates
        && sample.args.iter().any(|a| a.dtype.is_none() && a.shape.elements() > 0)
        && sample.args.iter().all(|a| a.shape.elements() <= 4000)
}

/// The arguments of a sample, those of the dtype under test times `size`.
fn drawn(sample: &Sample, dtype: DType, size: f64) -> Option<Vec<HostTensor>> {
    let arg = |(i, a): (usize, &ops::SampleArg)| {
        let mut rng = Rng::new(5, i as u32);
        let mut draw = |k: usize| match &a.data {
            Data::Range(lo, hi) => lo + (hi - lo) * rng.uniform(),
            Data::Wide => 4.0 * rng.uniform() - 2.0,
            Data::Int(lo, hi) => (*lo + (k as i64 * 7 + i as i64) % (hi - lo).max(1)) as f64,
            Data::Exact(values) => values[k],
        };
        let factor = if a.dtype.is_none() && matches!(a.data, Data::Range(..)) { size } else { 1.0 };
        let data = (0..a.shape.elements()).map(|k| draw(k) * factor).collect();
        HostTensor::new(a.dtype.unwrap_or(dtype), a.shape, data).ok().map(|x| x.rounded())
    };
    sample.args.iter().enumerate().map(arg).collect()
}

type Function = fn(&Graph, Value) -> Result<Value, Error>;

/// Functions of one number that must keep their digits, with their derivatives.
const FUNCTIONS: &[(&str, Function)] = &[
    ("sigmoid", |g, x| g.sigmoid(x)),
    ("tanh", |g, x| g.tanh(x)),
    ("silu", |g, x| g.silu(x)),
    ("softplus", |g, x| g.softplus(x)),
    ("gelu", |g, x| g.gelu(x)),
    ("gelu by tanh", |g, x| g.op1(ops::Gelu { approximation: ops::Approximation::Tanh }, &[x])),
    ("elu", |g, x| g.elu(x, 1.5)),
    ("expm1", |g, x| g.expm1(x)),
    ("log1p", |g, x| g.log1p(x)),
    ("erf", |g, x| g.erf(x)),
    ("exp", |g, x| g.exp(x)),
    ("ln", |g, x| g.ln(x)),
    ("sqrt", |g, x| g.sqrt(x)),
    ("square", |g, x| g.square(x)),
    ("swiglu", |g, x| g.swiglu(x, g.scalar(x, 1.5)?)),
    ("certainly true", |g, x| likely(g, x, 1.0)),
    ("certainly false", |g, x| likely(g, x, 0.0)),
    ("true by 0.9", |g, x| likely(g, x, 0.9)),
];

/// The binary cross entropy of each number by itself.
fn likely(g: &Graph, x: Value, target: f64) -> Result<Value, Error> {
    let n = g.shape(x).elements();
    let each = (0..n).map(|i| {
        let one = g.slice(x, 0, i, 1)?;
        g.reshape(g.binary_cross_entropy(one, g.scalar(x, target)?)?, [1])
    });
    g.concat(&each.collect::<Result<Vec<_>, _>>()?, 0)
}

fn functions_keep_their_digits(e: &Engine) -> Result<(), Error> {
    let sizes = [
        0.0, 1e-30, 1e-20, 1e-10, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.5, 5.0, 6.5, 8.0, 10.0, 12.0, 17.0, 25.0,
        40.0, 80.0, 87.0, 100.0, 1e3, 1e6, 1e10, 2e13, 1e20, 1e30, 3e38,
    ];
    let data: Vec<f64> = sizes.iter().flat_map(|&s| [s, -s]).collect();
    // Moved by a relative ε each, to see how much of an error the argument alone makes.
    let step = 1e-5;
    let moved: Vec<f64> = data.iter().map(|x| x * (1.0 + step)).collect();
    let mut found = Vec::new();
    for &(name, build) in FUNCTIONS {
        let of = |dtype: DType, data: &[f64]| {
            let x = HostTensor::new(dtype, [data.len()], data.to_vec())?.rounded();
            let derived = |g: &Graph, inputs: &[Value]| {
                let mut all = vec![build(g, inputs[0])?];
                for order in 1..3 {
                    let loss = g.sum(all[order - 1], All)?;
                    all.extend(grad(g, loss, &[("x".to_owned(), inputs[0])])?);
                }
                Ok(all)
            };
            Ok::<_, Error>((x.clone(), values(e, &x, &derived)?))
        };
        let (x, single) = of(DType::F32, &data)?;
        let (_, exact) = of(DType::F64, &x.data)?;
        let (_, shifted) = of(DType::F64, &moved)?;
        for (order, (got, want)) in single.iter().zip(&exact).enumerate() {
            for (k, (&got, &want)) in got.data.iter().zip(&want.data).enumerate() {
                let (most, least) = range_of(DType::F32);
                let finite = want.is_finite() && want.abs() < most * 0.99;
                let swing = (shifted[order].data[k] - want).abs() / step;
                let swing = if swing.is_finite() { swing } else { 0.0 };
                // A second derivative near its zero is the difference of two products.
                let zero = if order == 2 && x.data[k].abs() <= 0.1 { 1.0 } else { 0.0 };
                let bound = 3e-6 * want.abs() + 4.0 * DType::F32.epsilon() * (swing + zero) + 2.0 * least;
                if finite && !within(got - want, bound) {
                    found.push(format!(
                        "{name}, derivative {order} at {:e}: {got:e}, it must be {want:e}",
                        x.data[k]
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
    Ok(())
}

/// The results alone.
fn values(e: &Engine, x: &HostTensor, build: Build<'_>) -> Result<Vec<HostTensor>, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let results = build(&g, &[g.input("x", x.spec.dtype, x.spec.shape)])?;
    results.iter().enumerate().for_each(|(i, &v)| g.output(&format!("y{i}"), v));
    let mut program = Program::compile(e, &state, "values", &g)?;
    write(&mut program, "x", x)?;
    program.run(&mut state)?;
    (0..results.len()).map(|i| program.read_host(&format!("y{i}"))).collect()
}

fn ties_are_counted_beyond_what_16_bits_hold(e: &Engine) -> Result<(), Error> {
    let n = 70_000;
    for dtype in [DType::F16, DType::BF16] {
        let x = HostTensor::new(dtype, [n], vec![1.0; n])?;
        let slopes = values(e, &x, &|g, x| {
            let loss = g.affine(g.max(x[0], All)?, 1024.0, 0.0)?;
            grad(g, loss, &[("x".to_owned(), x[0])])
        })?;
        let want = 1024.0 / n as f64;
        assert!(
            slopes[0].data.iter().all(|s| (s - want).abs() <= dtype.epsilon() * want),
            "{}",
            slopes[0].data[0]
        );
        // As many rows of labels, one of them ignored.
        let logits = HostTensor::new(dtype, [n, 2], vec![0.0; 2 * n])?;
        let loss = values(e, &logits, &|g, x| {
            let labels = g.arange(DType::I64, 0.0, 1.0, n)?;
            let labels = g.minimum(labels, g.fill(DType::I64, [], 1.0)?)?;
            let options = landfall::Labels { ignored: Some(0), smoothing: 0.1, ..Default::default() };
            Ok(vec![g.cross_entropy(x[0], labels, options)?])
        })?;
        assert!((loss[0].data[0] - 2f64.ln()).abs() <= dtype.epsilon(), "{}", loss[0].data[0]);
    }
    Ok(())
}
