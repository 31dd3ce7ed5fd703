//! Layers, losses and attention that are written in ops: each against naive loops in f64, its gradient against differences of
//! those loops, on each device.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::rng::Rng;
use landfall::{
    All, DType, Engine, Error, Graph, HostTensor, KvCache, Labels, Program, Shape, State, StateSpec, Value,
    Visible, Windows, grad,
};
use std::sync::Arc;

on_each_device!(
    convolutions_and_pools,
    norms_gates_and_positions,
    losses,
    rows_are_overwritten,
    attention,
    loops,
    generation
);

/// An input: its shape and range, or integers below a bound.
enum In<'a> {
    Range(&'a [usize], f64, f64),
    Below(&'a [usize], u64),
}
use In::{Below, Range};

fn draw(dtype: DType, inputs: &[In<'_>]) -> Result<Vec<HostTensor>, Error> {
    let of = |(i, input): (usize, &In<'_>)| {
        let mut rng = Rng::new(3, i as u32);
        let shape = |s: &[usize]| Shape::new(s).unwrap_or(Shape::SCALAR);
        match *input {
            Range(dims, lo, hi) => {
                let data = (0..shape(dims).elements()).map(|_| lo + (hi - lo) * rng.uniform()).collect();
                Ok(HostTensor::new(dtype, shape(dims), data)?.rounded())
            }
            Below(dims, n) => {
                let data = (0..shape(dims).elements()).map(|_| (rng.uniform() * n as f64) as i64).collect();
                HostTensor::from_ints(shape(dims), data)
            }
        }
    };
    inputs.iter().enumerate().map(of).collect::<Result<_, _>>().map_err(Into::into)
}

type Build<'a> = &'a dyn Fn(&Graph, &[Value]) -> Result<Value, Error>;
type Naive<'a> = &'a dyn Fn(&[Vec<f64>]) -> Vec<f64>;

/// Runs a graph and gives its result and the gradients of `Σ result · weights` with respect to the float inputs.
fn run(
    e: &Engine,
    inputs: &[HostTensor],
    build: Build<'_>,
) -> Result<(HostTensor, Vec<Option<HostTensor>>), Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let values: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(i, x)| g.input(&format!("x{i}"), x.spec.dtype, x.spec.shape))
        .collect();
    let out = build(&g, &values)?;
    g.output("out", out);
    let weights = g.arange(DType::F64, 0.5, 0.25, 7)?;
    let flat = g.cast(g.reshape(out, [g.shape(out).elements()])?, DType::F64)?;
    let picked = g.cast(g.arange(DType::F64, 0.0, 1.0, g.shape(out).elements())?, DType::I64)?;
    let weights = g.take(weights, 0, g.rem(picked, g.fill(DType::I64, [], 7.0)?)?)?;
    let loss = g.sum(g.mul(flat, weights)?, All)?;
    let floats: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].spec.dtype.is_float()).collect();
    let named: Vec<(String, Value)> = floats.iter().map(|&i| (format!("x{i}"), values[i])).collect();
    for (&i, slope) in floats.iter().zip(grad(&g, loss, &named)?) {
        g.output(&format!("g{i}"), slope);
    }
    let mut program = Program::compile(e, &state, "layer", &g)?;
    for (i, x) in inputs.iter().enumerate() {
        let name = format!("x{i}");
        if x.spec.dtype == DType::F64 {
            program.write(&name, &x.data)?;
        } else if x.spec.dtype == DType::F32 {
            program.write(&name, &x.data.iter().map(|&v| v as f32).collect::<Vec<f32>>())?;
        } else {
            program.write(&name, &(0..x.data.len()).map(|k| x.int(k)).collect::<Vec<i64>>())?;
        }
    }
    program.run(&mut state)?;
    let slope = |i: usize| floats.contains(&i).then(|| program.read_host(&format!("g{i}"))).transpose();
    Ok((program.read_host("out")?, (0..inputs.len()).map(slope).collect::<Result<_, _>>()?))
}

fn check(e: &Engine, name: &str, inputs: &[In<'_>], build: Build<'_>, naive: Naive<'_>) -> Result<(), Error> {
    for (dtype, bound) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
        let inputs = draw(dtype, inputs)?;
        let data: Vec<Vec<f64>> = inputs.iter().map(|x| x.data.clone()).collect();
        let (got, slopes) = run(e, &inputs, build)?;
        let want = naive(&data);
        assert_eq!(got.data.len(), want.len(), "{name}");
        for (i, (g, w)) in got.data.iter().zip(&want).enumerate() {
            assert!((g - w).abs() <= bound * (1.0 + w.abs()), "{name} in {dtype}, {i}: {g}, it must be {w}");
        }
        if dtype != DType::F64 {
            continue;
        }
        let loss = |data: &[Vec<f64>]| -> f64 {
            naive(data).iter().enumerate().map(|(i, y)| y * (0.5 + 0.25 * (i % 7) as f64)).sum()
        };
        for (i, slope) in slopes.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?))) {
            for at in (0..slope.data.len()).step_by((slope.data.len() / 12).max(1)) {
                let moved = |by: f64| {
                    let mut data = data.clone();
                    data[i][at] += by;
                    loss(&data)
                };
                let (h, got) = (1e-5, slope.data[at]);
                let want = (moved(h) - moved(-h)) / (2.0 * h);
                assert!(
                    (got - want).abs() <= 1e-6 * (1.0 + want.abs()),
                    "{name}, input {i} at {at}: {got}, it must be {want}"
                );
            }
        }
    }
    Ok(())
}

/// `[B, C, L]` by `[O, C/groups, K]`.
fn convolved(x: &[f64], w: &[f64], sizes: [usize; 5], win: Windows, groups: usize) -> Vec<f64> {
    let [batch, channels, len, outputs, kernel] = sizes;
    let n = (len + 2 * win.padding - (kernel - 1) * win.dilation - 1) / win.stride + 1;
    let (cin, cout) = (channels / groups, outputs / groups);
    let mut out = Vec::new();
    for b in 0..batch {
        for o in 0..outputs {
            for i in 0..n {
                let mut sum = 0.0;
                for c in 0..cin {
                    for k in 0..kernel {
                        let at = (i * win.stride + k * win.dilation).wrapping_sub(win.padding);
                        if at < len {
                            let from = (b * channels + o / cout * cin + c) * len + at;
                            sum += w[(o * cin + c) * kernel + k] * x[from];
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn pooled(x: &[f64], len: usize, win: Windows, f: impl Fn(&[f64]) -> f64, fill: f64) -> Vec<f64> {
    let n = (len + 2 * win.padding - (win.size - 1) * win.dilation - 1) / win.stride + 1;
    let one = |row: &[f64], i: usize| {
        let at = |k: usize| (i * win.stride + k * win.dilation).wrapping_sub(win.padding);
        let all: Vec<f64> = (0..win.size).map(|k| row.get(at(k)).copied().unwrap_or(fill)).collect();
        f(&all)
    };
    x.chunks(len).flat_map(|row| (0..n).map(|i| one(row, i)).collect::<Vec<_>>()).collect()
}

fn convolutions_and_pools(e: &Engine) -> Result<(), Error> {
    let forms = [
        (Windows::of(3), 1, 4, 6),
        (Windows::of(5).padding(2).stride(2), 1, 3, 2),
        (Windows::of(3).dilation(2).padding(3), 2, 4, 6),
        (Windows::of(1), 4, 4, 4),
        (Windows::of(2).stride(3).dilation(4).padding(1), 1, 2, 3),
    ];
    for (w, groups, channels, outputs) in forms {
        let inputs = [
            Range(&[2, channels, 11], -1.0, 1.0),
            Range(&[outputs, channels / groups, w.size], -1.0, 1.0),
            Range(&[outputs], -1.0, 1.0),
        ];
        let sizes = [2, channels, 11, outputs, w.size];
        let naive = |x: &[Vec<f64>]| {
            let y = convolved(&x[0], &x[1], sizes, w, groups);
            let n = y.len() / (2 * outputs);
            y.iter().enumerate().map(|(i, y)| y + x[2][i / n % outputs]).collect()
        };
        check(
            e,
            &format!("conv1d {w:?}"),
            &inputs,
            &|g, x| g.conv1d(x[0], x[1], Some(x[2]), w, groups),
            &naive,
        )?;
    }
    for w in [Windows::of(2).stride(2), Windows::of(3).padding(1), Windows::of(2).dilation(3).stride(2)] {
        let most = |r: &[f64]| r.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = |r: &[f64]| r.iter().sum::<f64>() / r.len() as f64;
        let x = [Range(&[2, 3, 9], -1.0, 1.0)];
        check(e, "max_pool", &x, &|g, x| g.max_pool(x[0], w), &|x| {
            pooled(&x[0], 9, w, most, f64::NEG_INFINITY)
        })?;
        check(e, "mean_pool", &x, &|g, x| g.mean_pool(x[0], w), &|x| pooled(&x[0], 9, w, mean, 0.0))?;
    }
    Ok(())
}

fn norms_gates_and_positions(e: &Engine) -> Result<(), Error> {
    check(
        e,
        "rms_norm",
        &[Range(&[4, 6], -2.0, 2.0), Range(&[6], -1.0, 1.0)],
        &|g, x| g.rms_norm(x[0], x[1], 1e-3),
        &|x| {
            let one = |r: &[f64]| {
                let scale = (r.iter().map(|v| v * v).sum::<f64>() / 6.0 + 1e-3).sqrt().recip();
                r.iter().zip(&x[1]).map(|(v, w)| v * scale * w).collect::<Vec<_>>()
            };
            x[0].chunks(6).flat_map(one).collect()
        },
    )?;
    check(
        e,
        "group_norm",
        &[Range(&[2, 6, 5], -2.0, 2.0), Range(&[6], -1.0, 1.0), Range(&[6], -1.0, 1.0)],
        &|g, x| g.group_norm(x[0], 3, x[1], x[2], 1e-3),
        &|x| {
            let mut out = Vec::new();
            for (group, r) in x[0].chunks(10).enumerate() {
                let mean = r.iter().sum::<f64>() / 10.0;
                let variance = r.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 10.0;
                for (i, v) in r.iter().enumerate() {
                    let c = group % 3 * 2 + i / 5;
                    out.push((v - mean) / (variance + 1e-3).sqrt() * x[1][c] + x[2][c]);
                }
            }
            out
        },
    )?;
    check(
        e,
        "rotary",
        &[Range(&[2, 3, 2, 4], -1.0, 1.0), Below(&[2, 3], 50)],
        &|g, x| g.rotary(x[0], x[1], 100.0),
        &|x| {
            let mut out = x[0].clone();
            for token in 0..6 {
                for (head, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let at = (token * 2 + head) * 4 + c;
                    let (sin, cos) = (x[1][token] * 100f64.powf(-(c as f64) / 2.0)).sin_cos();
                    let (low, high) = (x[0][at], x[0][at + 2]);
                    (out[at], out[at + 2]) = (low * cos - high * sin, high * cos + low * sin);
                }
            }
            out
        },
    )?;
    check(
        e,
        "swiglu",
        &[Range(&[7], -3.0, 3.0), Range(&[7], -3.0, 3.0)],
        &|g, x| g.swiglu(x[0], x[1]),
        &|x| x[0].iter().zip(&x[1]).map(|(a, b)| a / (1.0 + (-a).exp()) * b).collect(),
    )?;
    for n in [1, 2, 8, 64, 2048] {
        let naive = |x: &[Vec<f64>]| {
            let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
            let one = |r: &[f64], i: usize| {
                r.iter().enumerate().map(|(j, v)| sign(i, j) * v).sum::<f64>() / (n as f64).sqrt()
            };
            x[0].chunks(n).flat_map(|r| (0..n).map(|i| one(r, i)).collect::<Vec<_>>()).collect()
        };
        check(e, &format!("hadamard {n}"), &[Range(&[2, n], -1.0, 1.0)], &|g, x| g.hadamard(x[0]), &naive)?;
    }
    check(
        e,
        "prod",
        &[Range(&[3, 4], -2.0, 2.0)],
        &|g, x| g.prod(g.mul(x[0], g.cast(g.lower_triangle(3, 4, 2)?, g.spec(x[0]).dtype)?)?, -1),
        &|x| {
            vec![
                x[0][..3].iter().product::<f64>() * 0.0,
                x[0][4..8].iter().product(),
                x[0][8..].iter().product(),
            ]
        },
    )
}

fn losses(e: &Engine) -> Result<(), Error> {
    for (weighted, ignored, smoothing) in
        [(false, None, 0.0), (true, None, 0.0), (false, Some(2), 0.1), (true, Some(1), 0.3)]
    {
        let naive = |x: &[Vec<f64>]| {
            let (mut total, mut count) = (0.0, 0.0);
            for (r, &label) in x[0].chunks(5).zip(&x[1]) {
                if ignored == Some(label as i64) {
                    continue;
                }
                let sum = r.iter().map(|v| v.exp()).sum::<f64>().ln();
                let weight = |k: usize| if weighted { x[2][k] } else { 1.0 };
                let own = (sum - r[label as usize]) * weight(label as usize);
                let even: f64 = r.iter().enumerate().map(|(k, v)| (sum - v) * weight(k)).sum();
                total += (1.0 - smoothing) * own + smoothing * even / 5.0;
                count += weight(label as usize);
            }
            vec![total / count]
        };
        let build = |g: &Graph, x: &[Value]| {
            let options = Labels { weights: weighted.then_some(x[2]), ignored, smoothing };
            let loss = g.cross_entropy(x[0], x[1], options)?;
            // So that each input is used in each form.
            g.add(loss, g.affine(g.sum(x[2], All)?, 0.0, 0.0)?)
        };
        let inputs = [Range(&[2, 6, 5], -3.0, 3.0), Below(&[2, 6], 5), Range(&[5], 0.5, 2.0)];
        check(e, &format!("cross entropy {weighted} {ignored:?} {smoothing}"), &inputs, &build, &naive)?;
    }
    check(
        e,
        "binary cross entropy",
        &[Range(&[4, 3], -4.0, 4.0), Range(&[4, 3], 0.0, 1.0)],
        &|g, x| g.binary_cross_entropy(x[0], x[1]),
        &|x| {
            let one = |(x, t): (&f64, &f64)| x.exp().ln_1p() - t * x;
            vec![x[0].iter().zip(&x[1]).map(one).sum::<f64>() / 12.0]
        },
    )?;
    check(
        e,
        "divergence",
        &[Range(&[4, 3], -4.0, -0.1), Range(&[4, 3], 0.1, 1.0)],
        &|g, x| g.kl_divergence(x[0], x[1]),
        &|x| vec![x[0].iter().zip(&x[1]).map(|(q, p)| p * (p.ln() - q)).sum::<f64>() / 4.0],
    )
}

fn rows_are_overwritten(e: &Engine) -> Result<(), Error> {
    for (axis, shape, updates) in [(0, [6, 2], [9, 2]), (1, [2, 6], [2, 9])] {
        let naive = |x: &[Vec<f64>]| {
            let mut out = x[0].clone();
            for (j, &row) in x[1].iter().enumerate() {
                for other in 0..2 {
                    let (to, from) = match axis {
                        0 => (row as usize * 2 + other, j * 2 + other),
                        _ => (other * 6 + row as usize, other * 9 + j),
                    };
                    out[to] = x[2][from];
                }
            }
            out
        };
        let inputs = [Range(&shape, -1.0, 1.0), Below(&[9], 5), Range(&updates, -1.0, 1.0)];
        check(e, "scatter", &inputs, &|g, x| g.scatter(x[0], axis, x[1], x[2]), &naive)?;
    }
    Ok(())
}

/// Masks that are broadcast, and the gradient of an added one, which is by products that keep the scores.
fn attention(e: &Engine) -> Result<(), Error> {
    // Two heads over one key head, three queries at the end of five keys.
    let attend = |x: &[Vec<f64>], causal: bool, added: bool| {
        let mut out = vec![0.0; 2 * 3 * 2 * 4];
        for (b, i, h) in (0..12).map(|r| (r / 6, r / 2 % 3, r % 2)) {
            let q = &x[0][((b * 3 + i) * 2 + h) * 4..][..4];
            let dot =
                |j: usize| q.iter().zip(&x[1][(b * 5 + j) * 4..]).map(|(a, b)| a * b).sum::<f64>() / 2.0;
            let seen = |j: usize| !causal || j <= i + 2;
            let w: Vec<f64> =
                (0..5)
                    .map(|j| {
                        if seen(j) { (dot(j) + if added { x[3][i * 5 + j] } else { 0.0 }).exp() } else { 0.0 }
                    })
                    .collect();
            for c in 0..4 {
                let sum: f64 = (0..5).map(|j| w[j] * x[2][(b * 5 + j) * 4 + c]).sum();
                out[((b * 3 + i) * 2 + h) * 4 + c] = sum / w.iter().sum::<f64>();
            }
        }
        out
    };
    let inputs = [
        Range(&[2, 3, 2, 4], -1.0, 1.0),
        Range(&[2, 5, 1, 4], -1.0, 1.0),
        Range(&[2, 5, 1, 4], -1.0, 1.0),
        Range(&[3, 5], -1.0, 1.0),
    ];
    for causal in [false, true] {
        let build = |g: &Graph, x: &[Value]| {
            g.attend(x[0], x[1], x[2], Visible { causal, mask: Some(x[3]), ..Default::default() })
        };
        check(e, "attention with an added mask", &inputs, &build, &|x| attend(x, causal, true))?;
    }
    let build = |g: &Graph, x: &[Value]| {
        let mask = g.lower_triangle(3, 5, 2)?;
        g.attend(x[0], x[1], x[2], Visible { mask: Some(mask), ..Default::default() })
    };
    check(e, "attention with a mask of truth values", &inputs[..3], &build, &|x| attend(x, true, false))
}

/// A GRU as one op and as a loop of its steps, both against naive loops.
fn loops(e: &Engine) -> Result<(), Error> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let naive = |x: &[Vec<f64>]| {
        let mut out = Vec::new();
        for b in 0..2 {
            let mut h = x[1][b * 3..b * 3 + 3].to_vec();
            for t in 0..5 {
                let gates = &x[0][(b * 5 + t) * 9..][..9];
                let sums: Vec<f64> =
                    (0..9).map(|j| x[3][j] + (0..3).map(|k| x[2][j * 3 + k] * h[k]).sum::<f64>()).collect();
                for u in 0..3 {
                    let (r, z) = (sigmoid(gates[u] + sums[u]), sigmoid(gates[3 + u] + sums[3 + u]));
                    let n = (gates[6 + u] + r * sums[6 + u]).tanh();
                    h[u] = (1.0 - z) * n + z * h[u];
                }
                out.extend(&h);
            }
        }
        out
    };
    let inputs = [
        Range(&[2, 5, 9], -1.0, 1.0),
        Range(&[2, 3], -1.0, 1.0),
        Range(&[9, 3], -1.0, 1.0),
        Range(&[9], -1.0, 1.0),
    ];
    check(e, "gru", &inputs, &|g, x| g.gru(x[0], x[1], x[2], x[3]), &naive)?;
    let steps = |g: &Graph, x: &[Value]| {
        let (last, states) = g.scan(&[x[1]], &[x[0]], |_, carried, gates| {
            let h = carried[0];
            let sums = g.matmul_add(h, g.transpose(x[2])?, x[3])?;
            let of = |v, gate: usize| g.slice(v, 1, gate * 3, 3);
            let r = g.sigmoid(g.add(of(gates[0], 0)?, of(sums, 0)?)?)?;
            let z = g.sigmoid(g.add(of(gates[0], 1)?, of(sums, 1)?)?)?;
            let n = g.tanh(g.add(of(gates[0], 2)?, g.mul(r, of(sums, 2)?)?)?)?;
            let h = g.add(n, g.mul(z, g.sub(h, n)?)?)?;
            Ok((vec![h], vec![h]))
        })?;
        let end = g.slice(states[0], 1, 4, 1)?;
        g.add(states[0], g.sub(end, g.reshape(last[0], [2, 1, 3])?)?)
    };
    check(e, "scan", &inputs, &steps, &naive)
}

/// Tokens one by one, and some at once, over a cache, against attention over all of them; then one too many.
fn generation(e: &Engine) -> Result<(), Error> {
    let (batch, tokens, heads, shared, e_size) = (2, 7, 4, 2, 3);
    let all = draw(
        DType::F32,
        &[
            Range(&[batch, tokens, heads, e_size], -1.0, 1.0),
            Range(&[batch, tokens, shared, e_size], -1.0, 1.0),
            Range(&[batch, tokens, shared, e_size], -1.0, 1.0),
        ],
    )?;
    let causal = Visible { causal: true, ..Default::default() };
    let (whole, _) = run(e, &all, &|g, x| g.attend(x[0], x[1], x[2], causal))?;
    let mut spec = StateSpec::new();
    let cache = KvCache::new(&mut spec, "cache", DType::F32, [batch, tokens, shared, e_size])?;
    let spec = Arc::new(spec);
    let mut state = State::new(e, &spec)?;
    let mut programs = Vec::new();
    for n in [3, 1] {
        let g = Graph::new(&spec);
        let x = |name: &str, heads: usize| g.input(name, DType::F32, [batch, n, heads, e_size]);
        g.output("out", cache.attend(&g, x("q", heads), x("k", shared), x("v", shared))?);
        programs.push((n, Program::compile(e, &state, "generate", &g)?));
    }
    let slice = |t: &HostTensor, heads: usize, from: usize, n: usize| -> Vec<f32> {
        let row = heads * e_size;
        (0..batch)
            .flat_map(|b| t.data[(b * tokens + from) * row..][..n * row].iter().map(|&v| v as f32))
            .collect()
    };
    let mut at = 0;
    for which in [0, 1, 1, 1, 1] {
        let (n, program) = &mut programs[which];
        for (name, t, heads) in [("q", &all[0], heads), ("k", &all[1], shared), ("v", &all[2], shared)] {
            program.write(name, &slice(t, heads, at, *n))?;
        }
        program.run(&mut state)?;
        let got = program.read::<f32>("out")?;
        for (g, w) in got.iter().zip(slice(&whole, heads, at, *n)) {
            assert!((g - w).abs() < 1e-5, "token {at}: {g}, it must be {w}");
        }
        at += *n;
    }
    assert_eq!(state.read::<i64>("cache.length")?, [7]);
    programs[1].1.run(&mut state)?;
    let full = programs[1].1.read::<f32>("out").err().map(|e| e.to_string()).unwrap_or_default();
    assert!(full.contains("assign_rows: index 7"), "{full}");
    Ok(())
}

#[test]
fn errors_name_op_shapes_and_rule() {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let (x, w) = (g.input("x", DType::F32, [2, 4, 9]), g.input("w", DType::F32, [6, 4, 3]));
    let text = |r: Result<Value, Error>| r.err().map(|e| e.to_string()).unwrap_or_default();
    let wrong = text(g.conv1d(x, w, None, Windows::of(5), 1));
    assert!(
        wrong.starts_with("conv1d(f32[2, 4, 9], f32[6, 4, 3]): arg 1 is [6, 4, 3]; it must be [6, 4, 5]"),
        "{wrong}"
    );
    let wrong = text(g.max_pool(x, Windows::of(4).dilation(4)));
    assert!(wrong.contains("span of the window is 13; it must be at most the padded length"), "{wrong}");
    let wrong = text(g.scan(&[w], &[x], |_, _, x| Ok((vec![x[0]], vec![]))).map(|r| r.0[0]));
    assert!(wrong.contains("what step 0 carries on differs in number, shapes or dtypes"), "{wrong}");
    let wrong = text(g.hadamard(x));
    assert!(wrong.contains("last size is 9; it must be a power of two"), "{wrong}");
    let wrong = text(g.group_norm(x, 3, w, w, 0.0));
    assert!(wrong.contains("groups is 3; it must be a divisor of the number of channels"), "{wrong}");
    let wrong = text(g.cross_entropy(x, w, Labels { smoothing: 1.0, ..Default::default() }));
    assert!(wrong.contains("smoothing is 1; it must be in [0, 1)"), "{wrong}");
}
