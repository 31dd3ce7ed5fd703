//! What does not count does not matter, whatever it holds: ignored rows, weights of 0, hidden keys. And what two arguments of one
//! method may be to each other.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{All, DType, Engine, Error, Graph, Labels, Program, State, StateSpec, Value, Visible, grad};
use std::sync::Arc;

on_each_device!(
    ignored_rows_do_not_matter,
    a_loss_of_nothing_is_zero,
    classes_without_weight_do_not_matter,
    a_probability_of_zero_adds_nothing,
    hidden_keys_do_not_matter,
    similarity_of_short_and_of_long_vectors,
    similarity_broadcasts,
    arguments_that_do_not_fit_are_refused,
);

/// The results of `build` for f32 inputs, and the gradients of the first one to each of them.
fn run(
    e: &Engine,
    inputs: &[(&[usize], &[f32])],
    build: impl Fn(&Graph, &[Value]) -> Result<Vec<Value>, Error>,
) -> Result<Vec<Vec<f32>>, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let shape = |s: &[usize]| landfall::Shape::new(s).unwrap_or(landfall::Shape::SCALAR);
    let values: Vec<Value> = (inputs.iter().enumerate())
        .map(|(i, (s, _))| g.input(&format!("x{i}"), DType::F32, shape(s)))
        .collect();
    let mut results = build(&g, &values)?;
    let named: Vec<(String, Value)> = values.iter().map(|&v| ("x".to_owned(), v)).collect();
    results.extend(grad(&g, g.sum(results[0], All)?, &named)?);
    results.iter().enumerate().for_each(|(i, &v)| g.output(&format!("y{i}"), v));
    let mut program = Program::compile(e, &state, "hidden", &g)?;
    for (i, (_, data)) in inputs.iter().enumerate() {
        program.write(&format!("x{i}"), data)?;
    }
    program.run(&mut state)?;
    (0..results.len()).map(|i| program.read::<f32>(&format!("y{i}"))).collect()
}

/// Labels as a value.
fn labels(g: &Graph, of: &[i64]) -> Result<Value, Error> {
    let each = of.iter().map(|&label| g.fill(DType::I64, [1], label as f64));
    g.concat(&each.collect::<Result<Vec<_>, _>>()?, 0)
}

fn ignored_rows_do_not_matter(e: &Engine) -> Result<(), Error> {
    let rows = [0.5f32, -1.0, 2.0, 1.5, 0.25, -0.75];
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    for smoothing in [0.0, 0.2] {
        let weighted = |g: &Graph| g.affine(g.arange(DType::F32, 1.0, 1.0, 3)?, 0.5, 0.0);
        for weights in [false, true] {
            let loss = |of: &'static [i64]| {
                move |g: &Graph, x: &[Value]| {
                    let weights = if weights { Some(weighted(g)?) } else { None };
                    let options = Labels { weights, ignored: Some(-100), smoothing };
                    Ok(vec![g.cross_entropy(x[0], labels(g, of)?, options)?])
                }
            };
            let want = run(e, &[(&[2, 3], &rows)], loss(&[2, 0]))?;
            for bad in [[nan; 3], [-infinite; 3], [infinite, nan, 0.0], [0.0, -infinite, 1.0]] {
                let data = [&rows[..3], &bad, &rows[3..]].concat();
                let got = run(e, &[(&[3, 3], &data)], loss(&[2, -100, 0]))?;
                assert_eq!(got[0], want[0], "{bad:?}");
                assert_eq!(got[1][3..6], [0.0; 3], "{bad:?}");
                assert_eq!([&got[1][..3], &got[1][6..]].concat(), want[1], "{bad:?}");
            }
        }
    }
    Ok(())
}

fn a_loss_of_nothing_is_zero(e: &Engine) -> Result<(), Error> {
    for smoothing in [0.0, 0.1] {
        let got = run(e, &[(&[2, 2], &[1.0, f32::NAN, 3.0, 4.0])], |g, x| {
            let options = Labels { ignored: Some(1), smoothing, ..Labels::default() };
            Ok(vec![g.cross_entropy(x[0], labels(g, &[1, 1])?, options)?])
        })?;
        assert_eq!(got, [vec![0.0], vec![0.0; 4]]);
    }
    Ok(())
}

fn classes_without_weight_do_not_matter(e: &Engine) -> Result<(), Error> {
    let factors = |g: &Graph| {
        let zero = g.fill(DType::F32, [1], 0.0)?;
        Ok::<_, Error>(Some(g.concat(&[g.fill(DType::F32, [2], 1.0)?, zero], 0)?))
    };
    // The last class has no weight; of the second row it is the label.
    let rows = [0.5f32, -1.0, 0.25];
    let (two, one) = ([2i64, 0], [0i64]);
    let want = run(e, &[(&[1, 3], &rows)], |g, x| {
        let options = Labels { weights: factors(g)?, ..Labels::default() };
        Ok(vec![g.cross_entropy(x[0], labels(g, &one)?, options)?])
    })?;
    for bad in [[f32::NAN; 3], [0.0, 1.0, f32::NEG_INFINITY], [1.0, f32::INFINITY, 2.0]] {
        let data = [bad, rows].concat();
        let got = run(e, &[(&[2, 3], &data)], |g, x| {
            let options = Labels { weights: factors(g)?, ..Labels::default() };
            Ok(vec![g.cross_entropy(x[0], labels(g, &two)?, options)?])
        })?;
        assert_eq!((&got[0], &got[1][3..]), (&want[0], &want[1][..]), "{bad:?}");
        assert_eq!(got[1][..3], [0.0; 3], "{bad:?}");
    }
    // A class that is masked out and has no weight, with smoothed labels.
    let got = run(e, &[(&[1, 3], &[0.5, 0.5, f32::NEG_INFINITY])], |g, x| {
        let options = Labels { weights: factors(g)?, smoothing: 0.3, ..Labels::default() };
        Ok(vec![g.cross_entropy(x[0], labels(g, &one)?, options)?])
    })?;
    assert!((got[0][0] - 0.9 * 2f32.ln()).abs() < 1e-6 && got[1].iter().all(|v| v.is_finite()), "{got:?}");
    Ok(())
}

fn a_probability_of_zero_adds_nothing(e: &Engine) -> Result<(), Error> {
    let log_q = [0.5f32.ln(), 0.5f32.ln(), f32::NEG_INFINITY];
    let got = run(e, &[(&[1, 3], &log_q), (&[1, 3], &[0.25, 0.75, 0.0])], |g, x| {
        Ok(vec![g.kl_divergence(x[0], x[1])?])
    })?;
    let want = 0.25 * 0.5f32.ln() + 0.75 * 1.5f32.ln();
    assert!((got[0][0] - want).abs() < 1e-6, "{got:?}");
    assert_eq!(got[1], [-0.25, -0.75, 0.0]);
    assert!(got[2].iter().all(|v| v.is_finite()), "{got:?}");
    Ok(())
}

fn hidden_keys_do_not_matter(e: &Engine) -> Result<(), Error> {
    let (q, k, v) = ([0.5f32, -1.0, 0.25, 2.0], [1.0f32, 0.5, -0.5, 1.5], [1.0f32, 2.0, -3.0, 0.5]);
    let shown = &[1usize, 2, 1, 2][..];
    let want = run(e, &[(shown, &q), (shown, &k), (shown, &v)], |g, x| {
        let all = Visible { mask: None, lengths: None, causal: false };
        // Of a mask that hides nothing: by the same kernel.
        let mask = g.fill(DType::Bool, [1, 1, 2, 2], 1.0)?;
        Ok(vec![g.attend(x[0], x[1], x[2], Visible { mask: Some(mask), ..all })?])
    })?;
    let three = &[1usize, 3, 1, 2][..];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for kind in ["bool", "added"] {
            let (keys, values) = ([&k[..], &[bad, bad]].concat(), [&v[..], &[bad, 1.0]].concat());
            let got = run(e, &[(shown, &q), (three, &keys), (three, &values)], |g, x| {
                let seen = g.less(g.arange(DType::I64, 0.0, 1.0, 3)?, g.fill(DType::I64, [3], 2.0)?)?;
                let mask = if kind == "bool" {
                    seen
                } else {
                    g.select(
                        seen,
                        g.fill(DType::F32, [3], 0.0)?,
                        g.fill(DType::F32, [3], f64::NEG_INFINITY)?,
                    )?
                };
                let mask = g.broadcast_to(mask, [1, 1, 2, 3])?;
                let visible = Visible { mask: Some(mask), lengths: None, causal: false };
                Ok(vec![g.attend(x[0], x[1], x[2], visible)?])
            })?;
            assert_eq!((&got[0], &got[1]), (&want[0], &want[1]), "{kind} {bad}");
            for i in [2, 3] {
                assert_eq!((&got[i][..4], &got[i][4..]), (&want[i][..], &[0.0; 2][..]), "{kind} {bad}");
            }
        }
    }
    Ok(())
}

fn similarity_of_short_and_of_long_vectors(e: &Engine) -> Result<(), Error> {
    for size in [1e-6f32, 1e-5, 5e-5, 1e-3, 1.0, 1e5, 1e18] {
        let got = run(e, &[(&[2], &[size, 0.0]), (&[2], &[size, 0.0])], |g, x| {
            Ok(vec![g.cosine_similarity(x[0], x[1], 0, 1e-8)?])
        })?;
        assert!((got[0][0] - 1.0).abs() < 1e-6, "of length {size}: {}", got[0][0]);
    }
    // Of vectors shorter than eps, which stands in for their lengths.
    let got = run(e, &[(&[2], &[1e-3, 0.0]), (&[2], &[0.0, 0.0])], |g, x| {
        Ok(vec![g.cosine_similarity(x[0], x[1], 0, 0.5)?])
    })?;
    assert_eq!(got, [vec![0.0], vec![0.0; 2], vec![4e-3, 0.0]]);
    Ok(())
}

fn similarity_broadcasts(e: &Engine) -> Result<(), Error> {
    let (a, b) = ([3.0f32, 4.0], [1.0f32, 0.0, 0.0, 2.0]);
    for (axis, swapped) in [(1, false), (-1, false), (1, true), (-1, true)] {
        let got = run(e, &[(&[2], &a), (&[2, 2], &b)], |g, x| {
            let (lhs, rhs) = if swapped { (x[1], x[0]) } else { (x[0], x[1]) };
            Ok(vec![g.cosine_similarity(lhs, rhs, axis, 1e-8)?])
        })?;
        assert!((got[0][0] - 0.6).abs() < 1e-6 && (got[0][1] - 0.8).abs() < 1e-6, "{axis}: {:?}", got[0]);
    }
    Ok(())
}

fn arguments_that_do_not_fit_are_refused(_: &Engine) -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let (x, y) = (g.input("x", DType::F32, [2, 3, 4]), g.input("y", DType::F32, [3, 4]));
    let half = g.input("half", DType::F16, [3, 4]);
    let turned = g.input("turned", DType::I64, [3, 2]);
    let (wide, four) = (g.input("wide", DType::F32, [2, 3]), g.input("four", DType::F32, [4]));
    let ignored = Labels { ignored: Some(0), ..Labels::default() };
    let fitting = g.input("fitting", DType::I64, [2, 3]);
    let refused = [
        ("kl_divergence", g.kl_divergence(x, y), "their shapes must be equal"),
        ("cosine_similarity", g.cosine_similarity(y, half, 1, 1e-8), "their dtypes must be equal"),
        ("cosine_similarity", g.cosine_similarity(y, four, 2, 1e-8), "axis is 2"),
        ("cross_entropy", g.cross_entropy(x, turned, ignored), "arg 1 is [3, 2]; it must be [2, 3]"),
        (
            "cross_entropy",
            g.cross_entropy(x, fitting, Labels { weights: Some(wide), ..Labels::default() }),
            "arg 2 is [2, 3]; it must be [4]",
        ),
        ("group_norm", g.group_norm(x, 1, g.input("w", DType::F32, [1, 3]), wide, 1e-5), "it must be [3]"),
        ("rms_norm", g.rms_norm(four, y, 1e-5), "arg 1 is [3, 4]; it must be [4]"),
        ("binary_cross_entropy", g.binary_cross_entropy(y, half), "their dtypes must be equal"),
    ];
    for (name, result, text) in refused {
        let told = result.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(told.starts_with(name) && told.contains(text), "{name}: {told:?}");
    }
    Ok(())
}
