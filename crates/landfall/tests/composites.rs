//! Functions that are written in ops: each against naive loops in f64, its gradient against differences, on each device.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::rng::Rng;
use landfall::{
    All, DType, Engine, Error, Graph, HostTensor, Keep, Program, Spec, State, StateSpec, Value, grad, ops,
};
use std::sync::Arc;

on_each_device!(
    values_are_those_of_naive_loops,
    gradients_are_those_of_differences,
    elu_is_smooth_at_zero,
    truth_values_and_masks,
    a_detached_value_is_a_constant,
    second_derivatives_are_those_of_differences,
    made_of_ranges,
    reductions_of_integers_are_exact,
    normal_draws,
);

type Built = fn(&Graph, Value) -> Result<Value, Error>;
/// Rows of 5 in, the numbers of a row's result out.
type Naive = fn(&[f64]) -> Vec<f64>;

/// Functions of `[3, 5]`, each row by itself, over the given range.
const ROWS: &[(&str, (f64, f64), Built, Naive)] = &[
    ("square", (-2.0, 2.0), |g, x| g.square(x), |r| each(r, |x| x * x)),
    ("cube", (-2.0, 2.0), |g, x| g.powf(x, 3.0), |r| each(r, |x| x * x * x)),
    ("power", (0.3, 2.0), |g, x| g.powf(x, 1.7), |r| each(r, |x| x.powf(1.7))),
    ("root", (0.3, 2.0), |g, x| g.powf(x, -0.5), |r| each(r, |x| x.powf(-0.5))),
    ("leaky relu", (0.2, 2.0), |g, x| g.leaky_relu(g.neg(x)?, 0.1), |r| each(r, |x| -0.1 * x)),
    ("elu", (-3.0, -0.2), |g, x| g.elu(x, 1.5), |r| each(r, |x| 1.5 * x.exp_m1())),
    ("elu above", (0.2, 3.0), |g, x| g.elu(x, 1.5), |r| each(r, |x| x)),
    ("variance", (-2.0, 2.0), |g, x| g.variance(x, -1, 0), |r| vec![variance(r, 0.0)]),
    ("unbiased", (-2.0, 2.0), |g, x| g.variance(x, [1], 1), |r| vec![variance(r, 1.0)]),
    (
        "deviation",
        (-2.0, 2.0),
        |g, x| g.standard_deviation(x, Keep(-1), 1),
        |r| vec![variance(r, 1.0).sqrt()],
    ),
    ("norm", (-2.0, 2.0), |g, x| g.norm(x, 1), |r| vec![r.iter().map(|x| x * x).sum::<f64>().sqrt()]),
    ("logsumexp", (-9.0, 9.0), |g, x| g.logsumexp(x, -1), |r| vec![logsumexp(r)]),
    ("softmax", (-4.0, 4.0), |g, x| g.softmax(x, -1), |r| each(r, |x| (x - logsumexp(r)).exp())),
    ("log softmax", (-4.0, 4.0), |g, x| g.log_softmax(x, -1), |r| each(r, |x| x - logsumexp(r))),
    ("every second", (-2.0, 2.0), |g, x| g.slice_step(x, -1, 1, 2, 2), |r| vec![r[1], r[3]]),
    (
        "sum, kept",
        (-2.0, 2.0),
        |g, x| g.sub(x, g.sum(x, Keep(-1))?),
        |r| each(r, |x| x - r.iter().sum::<f64>()),
    ),
    (
        "cosine similarity",
        (0.5, 2.0),
        |g, x| g.cosine_similarity(x, g.slice_step(x, 0, 0, 3, 1)?, -1, 1e-8),
        |_| vec![1.0],
    ),
];

fn each(row: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
    row.iter().map(|&x| f(x)).collect()
}

fn variance(row: &[f64], correction: f64) -> f64 {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - correction)
}

fn logsumexp(row: &[f64]) -> f64 {
    row.iter().map(|x| x.exp()).sum::<f64>().ln()
}

/// Runs a graph of one input on the device and gives its outputs.
fn run(
    e: &Engine,
    x: &HostTensor,
    build: impl FnOnce(&Graph, Value) -> Result<Vec<Value>, Error>,
) -> Result<Vec<HostTensor>, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let outputs = build(&g, g.input("x", x.spec.dtype, x.spec.shape))?;
    let names: Vec<String> = (0..outputs.len()).map(|i| format!("out {i}")).collect();
    names.iter().zip(outputs).for_each(|(name, v)| g.output(name, v));
    let mut program = Program::compile(e, &state, "composite", &g)?;
    if x.spec.dtype == DType::F64 {
        program.write("x", &x.data)?;
    } else {
        program.write("x", &x.data.iter().map(|&v| v as f32).collect::<Vec<f32>>())?;
    }
    program.run(&mut state)?;
    names.iter().map(|name| program.read_host(name)).collect()
}

fn drawn(dtype: DType, (lo, hi): (f64, f64), stream: u32) -> Result<HostTensor, Error> {
    let mut rng = Rng::new(7, stream);
    let data = (0..15).map(|_| lo + (hi - lo) * rng.uniform()).collect();
    Ok(HostTensor::new(dtype, [3, 5], data)?.rounded())
}

fn values_are_those_of_naive_loops(e: &Engine) -> Result<(), Error> {
    for (dtype, bound) in [(DType::F64, 1e-13), (DType::F32, 3e-6)] {
        for (i, &(name, range, build, naive)) in ROWS.iter().enumerate() {
            let x = drawn(dtype, range, i as u32)?;
            let got = run(e, &x, |g, x| Ok(vec![build(g, x)?]))?.remove(0);
            let want: Vec<f64> = x.data.chunks(5).flat_map(naive).collect();
            assert_eq!(got.data.len(), want.len(), "{name}");
            for (g, w) in got.data.iter().zip(&want) {
                assert!((g - w).abs() <= bound * (1.0 + w.abs()), "{name} in {dtype}: {g}, it must be {w}");
            }
        }
    }
    Ok(())
}

fn gradients_are_those_of_differences(e: &Engine) -> Result<(), Error> {
    for (i, &(name, range, build, naive)) in ROWS.iter().enumerate() {
        let x = drawn(DType::F64, range, i as u32)?;
        // Weights that differ, so that no error cancels.
        let weighed =
            |row: &[f64]| naive(row).iter().enumerate().map(|(k, y)| y * (k as f64 + 0.5)).sum::<f64>();
        let got = run(e, &x, |g, x| {
            let y = build(g, x)?;
            let y = if g.shape(y).rank() == 1 { g.reshape(y, [3, 1])? } else { y };
            let width = g.shape(y).dims()[1];
            let mut loss = g.scalar(x, 0.0)?;
            for k in 0..width {
                let part = g.affine(g.sum(g.slice(y, 1, k, 1)?, All)?, k as f64 + 0.5, 0.0)?;
                loss = g.add(loss, part)?;
            }
            grad(g, loss, &[("x".to_owned(), x)])
        })?
        .remove(0);
        for (at, &slope) in got.data.iter().enumerate() {
            let (row, h) = (at / 5, 1e-5);
            let moved = |by: f64| {
                let mut r = x.data[row * 5..row * 5 + 5].to_vec();
                r[at % 5] += by;
                weighed(&r)
            };
            let want = (moved(h) - moved(-h)) / (2.0 * h);
            assert!(
                (slope - want).abs() <= 1e-7 * (1.0 + want.abs()),
                "{name} at {at}: {slope}, it must be {want}"
            );
        }
    }
    Ok(())
}

/// With an alpha of 1 both sides have the slope 1; else it is that of the side below, as in PyTorch.
fn elu_is_smooth_at_zero(e: &Engine) -> Result<(), Error> {
    let x = HostTensor::new(DType::F64, [3], vec![0.0, -0.0, 90.0])?;
    for alpha in [1.0, 1.5] {
        let slope = run(e, &x, |g, x| grad(g, g.sum(g.elu(x, alpha)?, All)?, &[("x".to_owned(), x)]))?;
        assert_eq!(slope[0].data, [alpha, alpha, 1.0]);
    }
    Ok(())
}

/// Of ops that are fused, and of their bodies in primitives.
fn second_derivatives_are_those_of_differences(e: &Engine) -> Result<(), Error> {
    let cases: [(&str, Built); 6] = [
        ("gelu", |g, x| g.op1(ops::Gelu { approximation: ops::Approximation::Erf }, &[x])),
        ("gelu by tanh", |g, x| g.op1(ops::Gelu { approximation: ops::Approximation::Tanh }, &[x])),
        ("softmax", |g, x| g.softmax(x, -1)),
        ("layer norm", |g, x| {
            let (one, zero) = (g.fill(DType::F64, [5], 1.0)?, g.fill(DType::F64, [5], 0.0)?);
            Ok(g.op(ops::LayerNorm { eps: 1e-5 }, &[x, one, zero])?[0])
        }),
        ("unit rows", |g, x| g.op1(ops::L2Norm { eps: 1e-3, scaled: false }, &[x])),
        ("attention", |g, x| {
            let x = g.reshape(x, [1, 3, 1, 5])?;
            let op = ops::MaskedAttention { scale: 0.5, causal: true, mask: false, lengths: false };
            g.reshape(g.op(op, &[x, x, x])?[0], [3, 5])
        }),
    ];
    for (i, (name, build)) in cases.into_iter().enumerate() {
        let x = drawn(DType::F64, (-1.5, 1.5), 40 + i as u32)?;
        // A function of the first gradient whose slope differs from element to element, and its gradient.
        let both = |x: &HostTensor, primitives: bool| {
            run(e, x, |g, x| {
                let y = if primitives { g.in_primitives(|| build(g, x))? } else { build(g, x)? };
                let slope = grad(g, g.sum(g.mul(y, g.square(y)?)?, All)?, &named_x(x))?[0];
                let value = g.sum(g.mul(slope, g.sin(slope)?)?, All)?;
                Ok(vec![value, grad(g, value, &named_x(x))?[0]])
            })
        };
        let (got, in_primitives) = (both(&x, false)?, both(&x, true)?);
        for (got, want) in got[1].data.iter().zip(&in_primitives[1].data) {
            assert!((got - want).abs() <= 1e-12 * (1.0 + want.abs()), "{name}: {got}, in primitives {want}");
        }
        for at in 0..15 {
            let moved = |by: f64| -> Result<f64, Error> {
                let mut x = x.clone();
                x.data[at] += by;
                Ok(both(&x, false)?[0].data[0])
            };
            let want = (moved(1e-5)? - moved(-1e-5)?) / 2e-5;
            let got = got[1].data[at];
            assert!(
                (got - want).abs() <= 1e-6 * (1.0 + want.abs()),
                "{name} at {at}: {got}, it must be {want}"
            );
        }
    }
    Ok(())
}

fn named_x(x: Value) -> [(String, Value); 1] {
    [("x".to_owned(), x)]
}

fn truth_values_and_masks(e: &Engine) -> Result<(), Error> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = HostTensor::new(DType::F32, [2, 4], vec![1.0, nan, inf, -2.0, 0.5, 3.0, 4.0, -1.0])?;
    let out = run(e, &x, |g, x| {
        let (nan, finite) = (g.is_nan(x)?, g.is_finite(x)?);
        let filled = g.masked_fill(x, g.not(finite)?, 9.0)?;
        let either = g.maximum(nan, g.less(x, g.scalar(x, 0.0)?)?)?;
        Ok(vec![nan, finite, filled, either, g.any(nan, -1)?, g.all(finite, Keep(1))?, g.logsumexp(x, 1)?])
    })?;
    let data: Vec<&[f64]> = out.iter().map(|t| t.data.as_slice()).collect();
    assert_eq!(data[0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(data[1], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(data[2], [1.0, 9.0, 9.0, -2.0, 0.5, 3.0, 4.0, -1.0]);
    assert_eq!(data[3], [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!((data[4], data[5]), (&[1.0, 0.0][..], &[0.0, 1.0][..]));
    assert!(data[6][0].is_nan() && data[6][1] > 4.0);
    // Of numbers that are all −∞ the result is −∞, of one that is ∞ it is that.
    let edge = HostTensor::new(DType::F32, [2, 2], vec![-inf, -inf, inf, 1.0])?;
    let out = run(e, &edge, |g, x| Ok(vec![g.logsumexp(x, -1)?]))?;
    assert_eq!(out[0].data, [-inf, inf]);
    Ok(())
}

fn a_detached_value_is_a_constant(e: &Engine) -> Result<(), Error> {
    let x = HostTensor::new(DType::F64, [2], vec![3.0, -1.0])?;
    let out = run(e, &x, |g, x| {
        let product = g.mul(x, g.detach(g.square(x)?))?;
        let slope = grad(g, g.sum(product, All)?, &[("x".to_owned(), x)])?.remove(0);
        Ok(vec![product, slope])
    })?;
    assert_eq!(out[0].data, [27.0, -1.0]);
    assert_eq!(out[1].data, [9.0, 1.0]);
    Ok(())
}

/// What is made of ranges and rows: one-hot, triangles, flips and the like, against what they are by definition.
fn made_of_ranges(e: &Engine) -> Result<(), Error> {
    let x = HostTensor::new(DType::F32, [2, 3], vec![1.0, 2.0, 3.0, 4.0, 6.0, 5.0])?;
    let out = run(e, &x, |g, x| {
        let ids = g.cast(x, DType::I64)?;
        Ok(vec![
            g.one_hot(g.slice(ids, 0, 0, 1)?, 4, DType::F32)?,
            g.cast(g.lower_triangle(2, 3, 0)?, DType::F32)?,
            g.eye(DType::F32, 2)?,
            g.flip(x, -1)?,
            g.roll(x, 1, -1)?,
            g.tile(x, 0, 2)?,
            g.repeat_interleave(x, 1, 2)?,
            g.argmax(x, -1)?,
            g.argmin(x, 0)?,
            g.min(x, 1)?,
            g.linspace(DType::F32, 1.0, 2.0, 5)?,
            g.largest(x, -1, 2)?.1,
            g.gather(x, 1, g.argsort(x, 1, true)?)?,
        ])
    })?;
    let want: [(&[usize], &[f64]); 13] = [
        (&[1, 3, 4], &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
        (&[2, 3], &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]),
        (&[2, 2], &[1.0, 0.0, 0.0, 1.0]),
        (&[2, 3], &[3.0, 2.0, 1.0, 5.0, 6.0, 4.0]),
        (&[2, 3], &[2.0, 3.0, 1.0, 6.0, 5.0, 4.0]),
        (&[4, 3], &[1.0, 2.0, 3.0, 4.0, 6.0, 5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 5.0]),
        (&[2, 6], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, 5.0, 5.0]),
        (&[2], &[2.0, 1.0]),
        (&[3], &[0.0, 0.0, 0.0]),
        (&[2], &[1.0, 4.0]),
        (&[5], &[1.0, 1.25, 1.5, 1.75, 2.0]),
        (&[2, 2], &[2.0, 1.0, 1.0, 2.0]),
        (&[2, 3], &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0]),
    ];
    for (i, (got, (shape, data))) in out.iter().zip(want).enumerate() {
        assert_eq!((got.dims(), got.data.as_slice()), (shape, data), "result {i}");
    }
    Ok(())
}

/// Extremes, their first places, sums and products, also where a negative would wrap or f64 does not hold the number.
fn reductions_of_integers_are_exact(e: &Engine) -> Result<(), Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let (big, bytes) = (g.input("big", DType::I64, [2, 3]), g.input("bytes", DType::U8, [4]));
    for (name, x) in [("big", big), ("bytes", bytes)] {
        g.output(&format!("{name} max"), g.argmax(x, -1)?);
        g.output(&format!("{name} min"), g.argmin(x, -1)?);
    }
    g.output("least", g.min(big, All)?);
    g.output("sum", g.sum(bytes, All)?);
    g.output("wrapped", g.sum(big, -1)?);
    g.output("product", g.prod(bytes, Keep(0))?);
    g.output("one row", g.sum(g.reshape(bytes, [4, 1])?, 1)?);
    g.output("running", g.cumsum(bytes, 0)?);
    assert!(g.mean(bytes, -1).is_err() && g.argmax(g.input("none", DType::F32, [0]), 0).is_err());
    let mut p = Program::compile(e, &state, "integers", &g)?;
    p.write("big", &[1i64 << 53, (1 << 53) + 1, 1 << 53, i64::MIN, i64::MAX, i64::MIN])?;
    p.write("bytes", &[1u8, 7, 255, 7])?;
    p.run(&mut state)?;
    let read = |name: &str| p.read::<i64>(name);
    assert_eq!((read("big max")?, read("big min")?), (vec![1, 1], vec![0, 0]));
    assert_eq!((read("bytes max")?, read("bytes min")?), (vec![2], vec![0]));
    // Sums and products of bytes are i64; what i64 does not hold wraps.
    assert_eq!((read("least")?, read("sum")?, read("product")?), (vec![i64::MIN], vec![270], vec![255 * 49]));
    assert_eq!((read("one row")?, read("running")?), (vec![1, 7, 255, 7], vec![1, 8, 263, 270]));
    assert_eq!(read("wrapped")?, [3 * (1 << 53) + 1, i64::MAX]);
    Ok(())
}

/// Draws have mean 0 and standard deviation 1, differ from stream to stream, and are the same again for the same cursor.
fn normal_draws(e: &Engine) -> Result<(), Error> {
    let x = HostTensor::new(DType::F32, [], vec![0.0])?;
    let draw = || {
        run(e, &x, |g, _| {
            let cursor = g.fill(DType::I64, [ops::cursor::LEN], 3.0)?;
            let of = |stream| g.normal(Spec::new(DType::F32, [20_000]), stream, cursor);
            Ok(vec![of(1)?, of(7)?])
        })
    };
    let (first, again) = (draw()?, draw()?);
    assert_eq!(first, again);
    assert_ne!(first[0], first[1]);
    for t in &first {
        let mean = t.data.iter().sum::<f64>() / 20_000.0;
        let spread = (t.data.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 20_000.0).sqrt();
        let beyond = t.data.iter().filter(|v| v.abs() > 2.0).count() as f64 / 20_000.0;
        // Four standard errors of each.
        assert!(
            mean.abs() < 0.029 && (spread - 1.0).abs() < 0.021 && (beyond - 0.0455).abs() < 0.006,
            "{mean} {spread} {beyond}"
        );
    }
    Ok(())
}

#[test]
fn errors_name_the_axis_and_the_rank() {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = g.input("x", DType::F32, [4, 3]);
    let text = |r: Result<Value, Error>| r.err().map(|e| e.to_string()).unwrap_or_default();
    let wrong = text(g.sum(x, -3));
    assert!(wrong.starts_with("sum(f32[4, 3]): axis is -3, the rank is 2; axis must be < rank"), "{wrong}");
    assert!(wrong.contains("composites.rs"), "{wrong}");
    let wrong = text(g.variance(x, 1, 3));
    assert!(wrong.contains("correction is 3; it must be less than the number of elements"), "{wrong}");
    let wrong = text(g.slice_step(x, 1, 0, 3, 2));
    assert!(wrong.starts_with("slice_step(f32[4, 3])"), "{wrong}");
    let y = g.input("y", DType::F32, [2, 4, 3]);
    let wrong = text(g.matmul(y, g.input("z", DType::F32, [4, 5])));
    let rule = "matmul(f32[2, 4, 3], f32[4, 5]): arg 0 axis 2 is 3, arg 1 axis 0 is 4; they must be equal";
    assert!(wrong.starts_with(rule), "{wrong}");
    let wrong = text(g.not(x));
    assert!(wrong.starts_with("not(f32[4, 3]): arg 0 is f32; it must be bool"), "{wrong}");
    let wrong = text(g.and(g.is_nan(x).unwrap_or(x), x));
    assert!(wrong.starts_with("and(bool[4, 3], f32[4, 3]): arg 1 is f32; it must be bool"), "{wrong}");
}
