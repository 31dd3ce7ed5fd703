//! What the precision pass runs in which dtype, and where it casts.

use landfall::ops::{self, Precision};
use landfall::{
    DType, Engine, Error, Graph, HostTensor, Program, Spec, State, StateSpec, Value, grad, mixed_precision,
};
use std::sync::Arc;

fn state() -> Result<Arc<StateSpec>, Error> {
    let mut spec = StateSpec::new();
    let entry = |name: &str, shape: [usize; 2]| (name.to_owned(), shape.into());
    let vector = |name: &str| (name.to_owned(), [8].into());
    spec.add("parameters", DType::F32, &[entry("w", [8, 8]), vector("norm.weight"), vector("norm.bias")])?;
    Ok(Arc::new(spec))
}

/// Two products by one weight with a norm and a residual between them, the scaling of the input before, and a loss behind.
struct Model {
    graph: Graph,
    loss: Value,
}

fn model(spec: &Arc<StateSpec>) -> Result<Model, Error> {
    let g = Graph::new(spec);
    let x = g.input("x", DType::F32, [4, 8]);
    let scaled = g.name(g.affine(x, 0.5, 0.25)?, "scaled");
    let w = g.entry("w")?;
    let hidden = g.name(g.matmul(scaled, w)?, "hidden");
    let residual = g.name(g.add(hidden, scaled)?, "residual");
    let norm =
        g.op(ops::LayerNorm { eps: 1e-5 }, &[residual, g.entry("norm.weight")?, g.entry("norm.bias")?])?;
    let normed = g.name(norm[0], "normed");
    let out = g.name(g.matmul(normed, g.transpose(w)?)?, "out");
    let shifted = g.name(g.add(out, x)?, "shifted");
    let squared = g.name(g.mul(shifted, shifted)?, "squared");
    let loss = g.mean(squared, [0, 1])?;
    g.output("prediction", shifted);
    g.output("loss", loss);
    Ok(Model { graph: g, loss })
}

/// The lines of a program's plan: name, dtype and shape, op.
fn plan(program: &Program) -> Vec<(String, String, String)> {
    program.report().rows.into_iter().map(|r| (r.name, r.spec, r.op)).collect()
}

fn dtype_of(plan: &[(String, String, String)], name: &str) -> String {
    let line = plan.iter().find(|(n, ..)| n == name);
    line.map_or_else(|| format!("no {name}"), |(_, spec, _)| spec.split('[').next().unwrap_or("").to_owned())
}

#[test]
fn products_and_what_lies_between_them_run_in_the_compute_dtype() -> Result<(), Error> {
    let spec = state()?;
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let Model { graph, loss } = model(&spec)?;
        let mixed = mixed_precision(&graph, dtype, Precision::Strict)?;
        let g = mixed.graph();
        let wrt = ["w", "norm.weight", "norm.bias"].map(|n| Ok::<_, Error>((n.to_owned(), g.entry(n)?)));
        let wrt = wrt.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (v, (name, _)) in grad(g, mixed.value(loss)?, &wrt)?.into_iter().zip(&wrt) {
            assert_eq!(g.spec(v).dtype, DType::F32, "gradient of {name}");
            g.output(&format!("gradient of {name}"), v);
        }
        let engine = Engine::null();
        let plan = plan(&Program::compile(&engine, &State::new(&engine, &spec)?, "step", g)?);
        // The first product adds the residual itself, the second one gives the prediction itself, in f32.
        for low in ["residual", "normed"] {
            assert_eq!(dtype_of(&plan, low), dtype.name(), "{low}: {plan:#?}");
        }
        assert_eq!(dtype_of(&plan, "squared"), "f32", "{plan:#?}");
        // It is made in f32, and cast where it is made.
        let scaled = if dtype == DType::F32 { "scaled".to_owned() } else { format!("scaled ({dtype})") };
        assert_eq!(dtype_of(&plan, &scaled), dtype.name(), "{plan:#?}");
        // Of the weight once, though two products and their gradients read it; of no norm's parameters at all.
        let casts: Vec<&str> = plan.iter().filter(|l| l.2 == "cast").map(|l| l.0.as_str()).collect();
        let of_weight = casts.iter().filter(|name| name.starts_with("w (")).count();
        assert_eq!(of_weight, usize::from(dtype != DType::F32), "{casts:?}");
        assert!(!casts.iter().any(|name| name.starts_with("norm.")), "{casts:?}");
        assert_eq!(casts.is_empty(), dtype == DType::F32, "{casts:?}");
    }
    Ok(())
}

/// Attention is a product: it reads what the projection gave, in its dtype, and temperatures as they are.
#[test]
fn temperatures_stay_in_f32() -> Result<(), Error> {
    let spec = state()?;
    let g = Graph::new(&spec);
    let projected = g.matmul(g.input("x", DType::F32, [10, 8]), g.input("weight", DType::F32, [8, 24]))?;
    let qkv = g.reshape(projected, [2, 5, 3, 2, 4])?;
    let temperature = g.input("temperature", DType::F32, [2]);
    let attended = g.op(ops::CosineAttention { eps: 1e-6 }, &[qkv, temperature])?;
    g.output("attended", attended[0]);
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let mixed = mixed_precision(&g, dtype, Precision::Strict)?;
        let engine = Engine::null();
        let program = Program::compile(&engine, &State::new(&engine, &spec)?, "step", mixed.graph())?;
        let plan = plan(&program);
        let ops: Vec<(&str, &str)> = plan.iter().map(|(_, spec, op)| (op.as_str(), spec.as_str())).collect();
        assert!(
            ops.iter().any(|(op, spec)| *op == "cosine_attention" && spec.starts_with(dtype.name())),
            "{ops:?}"
        );
        let casts = plan.iter().filter(|l| l.2 == "cast").map(|l| l.0.as_str()).collect::<Vec<_>>();
        assert!(!casts.iter().any(|name| name.starts_with("temperature")), "{casts:?}");
        assert_eq!(casts.is_empty(), dtype == DType::F32, "{casts:?}");
    }
    Ok(())
}

/// The gradient of a cast back is that of what was widened; the wide value between them has its own.
#[test]
fn a_gradient_is_not_cast_to_and_fro() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = g.input("x", DType::BF16, [4]);
    let wide = g.cast(x, DType::F32)?;
    let back = g.cast(wide, DType::BF16)?;
    let loss = g.sum(g.mul(back, back)?, 0)?;
    let named = [("x".to_owned(), x), ("wide".to_owned(), wide), ("back".to_owned(), back)];
    let found = grad(&g, loss, &named)?;
    assert_eq!(found[0], found[2]);
    assert_eq!(g.spec(found[1]), Spec::new(DType::F32, [4]));
    Ok(())
}

/// What is written down in docs/numerics.md: the whole way through bf16 and back to f32 stays near that in f32.
#[test]
fn results_stay_near_those_of_f32() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let spec = state()?;
    let wave = |n: usize, shift: f64| {
        HostTensor::from_fn(Spec::new(DType::F32, [n]), |i| (i as f64 * 0.7 + shift).sin())
    };
    let mut results = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let Model { graph, .. } = model(&spec)?;
        let graph = mixed_precision(&graph, dtype, Precision::Strict)?.into_graph();
        let mut state = State::new(&engine, &spec)?;
        let mut program = Program::compile(&engine, &state, "forward", &graph)?;
        for (name, n, shift) in [("w", 64, 0.0), ("norm.weight", 8, 1.5), ("norm.bias", 8, 0.1)] {
            let values = wave(n, shift).data.iter().map(|&x| x as f32).collect::<Vec<_>>();
            state.write(name, &values)?;
        }
        let x = wave(32, 0.3).data.iter().map(|&x| x as f32).collect::<Vec<_>>();
        program.write("x", &x)?;
        program.run(&mut state)?;
        results.push(program.read::<f32>("prediction")?);
    }
    for (dtype, got) in [DType::BF16, DType::F16].into_iter().zip(&results[1..]) {
        let far = got.iter().zip(&results[0]).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        println!("{dtype}: largest difference {far:.1e}");
        assert!(far > 0.0 && f64::from(far) < 4.0 * dtype.epsilon(), "{dtype}: {far}");
    }
    Ok(())
}

#[test]
fn weights_of_a_slab_are_cast_by_one_launch() -> Result<(), Error> {
    let mut spec = StateSpec::new();
    let entry = |name: &str, shape: [usize; 2]| (name.to_owned(), shape.into());
    spec.add("parameters", DType::F32, &[entry("a", [8, 8]), entry("b", [8, 3]), entry("c", [3, 8])])?;
    // Two entries that are a small part of theirs are cast one by one.
    spec.add("table", DType::F32, &[entry("d", [8, 8]), entry("far", [64, 64]), entry("e", [8, 8])])?;
    let spec = Arc::new(spec);
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F32, [4, 8]);
    let through = |x: Value, name: &str| g.matmul(x, g.entry(name)?);
    let y = through(through(through(x, "a")?, "b")?, "c")?;
    // The same weight the other way round: a view of the same cast.
    let y = through(through(g.matmul(y, g.transpose(g.entry("a")?)?)?, "d")?, "e")?;
    g.output("y", y);
    let engine = Engine::cpu()?;
    let mut state = State::new(&engine, &spec)?;
    for name in ["a", "b", "c", "d", "far", "e"] {
        let of = state.read_host(name)?.spec;
        state.write_host(name, &HostTensor::from_fn(of, |i| (i % 7) as f64 / 7.0 - 0.4))?;
    }
    let low = mixed_precision(&g, DType::BF16, Precision::Strict)?.into_graph();
    let mut program = Program::compile(&engine, &state, "low", &low)?;
    let casts = plan(&program).into_iter().filter(|(_, spec, op)| op == "cast" && spec.starts_with("bf16"));
    let casts: Vec<String> = casts.map(|(name, ..)| name).collect();
    // The input, the slab of a, b and c, d and e.
    assert_eq!(casts.len(), 4, "{casts:?}");
    assert_eq!(casts.iter().filter(|n| n.starts_with("parameters")).count(), 1, "{casts:?}");
    program.write("x", &(0..32).map(|i| i as f32 / 16.0 - 1.0).collect::<Vec<_>>())?;
    program.run(&mut state)?;
    // The same, of weights that are rounded before.
    let rounded: Vec<(&str, HostTensor)> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .map(|name| {
            let w = state.read_host(name)?;
            let spec = Spec { dtype: DType::BF16, ..w.spec };
            Ok((name, HostTensor::from_fn(spec, |i| half::bf16::from_f64(w.data[i]).to_f64())))
        })
        .collect::<Result<_, Error>>()?;
    let plain = Graph::new(&Arc::new(StateSpec::new()));
    let weight = |name: &str| {
        let of = rounded.iter().find(|(n, _)| *n == name).map(|(_, w)| w.spec);
        plain.input(name, DType::BF16, of.map_or([0].into(), |s| s.shape))
    };
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(weight);
    let x = plain.cast(plain.input("x", DType::F32, [4, 8]), DType::BF16)?;
    let y = plain.matmul(plain.matmul(plain.matmul(x, a)?, b)?, c)?;
    let y = plain.matmul(plain.matmul(plain.matmul(y, plain.transpose(a)?)?, d)?, e)?;
    plain.output("y", plain.cast(y, DType::F32)?);
    let mut none = State::new(&engine, plain.state_spec())?;
    let mut expected = Program::compile(&engine, &none, "plain", &plain)?;
    for (name, w) in &rounded {
        expected.write(name, &w.data.iter().map(|&x| half::bf16::from_f64(x)).collect::<Vec<_>>())?;
    }
    expected.write("x", &(0..32).map(|i| i as f32 / 16.0 - 1.0).collect::<Vec<_>>())?;
    expected.run(&mut none)?;
    assert_eq!(program.read_host("y")?.data, expected.read_host("y")?.data);
    Ok(())
}
