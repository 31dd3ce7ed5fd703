//! Layers: names and shapes of their parameters are PyTorch's, and so are their results on the same values. Expected numbers are
//! those of PyTorch 2.15 in f64, with the weights and inputs of this file.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{
    DType, Engine, Error, Graph, Labels, Program, Shape, State, StateSpec, Value, Visible, Windows,
};
use landfall_train::nn::{
    AttentionConfig, Context, Conv1d, Embedding, GroupNorm, Gru, Linear, Lstm, Mode, MultiHeadAttention,
    Parameters, RmsNorm, loss,
};
use landfall_train::train::{Arrays, Trainer, TrainingOptions};
use std::sync::Arc;

type Check = Result<(), Error>;

on_each_device!(
    an_embedding_gives_rows,
    a_convolution_is_pytorchs,
    recurrent_layers_are_pytorchs,
    norms_are_pytorchs,
    attention_is_pytorchs,
    heads_share_key_heads_and_places_turn_queries_and_keys,
    losses_are_pytorchs,
    layers_train_in_every_dtype
);

/// `½·sin(0.7·i + k)` for element i of parameter k.
fn weights(k: usize, elements: usize) -> Vec<f64> {
    (0..elements).map(|i| (0.7 * i as f64 + k as f64).sin() / 2.0).collect()
}

/// `cos(0.3·i)`.
fn wave(elements: usize) -> Vec<f64> {
    (0..elements).map(|i| (0.3 * i as f64).cos()).collect()
}

/// Names and shapes of the parameters, as a state dict lists them.
fn names(p: &Parameters) -> Vec<(&str, &[usize])> {
    p.list().iter().map(|p| (p.name.as_str(), p.shape.dims())).collect()
}

/// A forward pass in f64 with the weights of this file, on inputs x0, x1 and so on.
fn forward(
    engine: &Engine,
    p: &Parameters,
    inputs: &[(&[usize], Vec<f64>)],
    build: impl FnOnce(&Context<'_>, &[Value]) -> Result<Value, Error>,
) -> Result<Vec<f64>, Error> {
    let spec = p.state_spec(DType::F64)?;
    let mut state = State::new(engine, &spec)?;
    for (k, parameter) in p.list().iter().enumerate() {
        state.write(&parameter.name, &weights(k, parameter.shape.elements()))?;
    }
    let g = Graph::new(&spec);
    let cx = Context::new(&g, p, Mode::Evaluate);
    let shape = |dims: &[usize]| Shape::new(dims).unwrap_or(Shape::SCALAR);
    let values: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(i, (dims, _))| g.input(&format!("x{i}"), DType::F64, shape(dims)))
        .collect();
    g.output("y", build(&cx, &values)?);
    let mut program = Program::compile(engine, &state, "forward", &g)?;
    for (i, (_, data)) in inputs.iter().enumerate() {
        program.write(&format!("x{i}"), data)?;
    }
    program.run(&mut state)?;
    program.read("y")
}

/// Elements 1, the one before the middle and the last one.
fn assert_some(y: &[f64], expected: [f64; 3]) {
    for (at, expected) in [1, y.len() / 2 - 1, y.len() - 1].into_iter().zip(expected) {
        assert!((y[at] - expected).abs() <= 1e-12, "{at}: {} instead of {expected}", y[at]);
    }
}

fn an_embedding_gives_rows(e: &Engine) -> Check {
    let mut p = Parameters::new();
    let layer = Embedding::new(&mut p, "embedding", 5, 3);
    assert_eq!(names(&p), [("embedding.weight", &[5, 3][..])]);
    let y = forward(e, &p, &[(&[2], vec![4.0, 0.0])], |cx, x| {
        layer.forward(cx, cx.graph.cast(x[0], DType::I64)?)
    })?;
    let table = weights(0, 15);
    assert_eq!(y, [&table[12..], &table[..3]].concat());
    Ok(())
}

fn a_convolution_is_pytorchs(e: &Engine) -> Check {
    let mut p = Parameters::new();
    let layer = Conv1d::new(&mut p, "conv", 4, 6, Windows::of(3).stride(2).padding(1).dilation(2), 2);
    assert_eq!(names(&p), [("conv.weight", &[6, 2, 3][..]), ("conv.bias", &[6])]);
    let y = forward(e, &p, &[(&[2, 4, 7], wave(56))], |cx, x| layer.forward(cx, x[0]))?;
    assert_eq!(y.len(), 2 * 6 * 3);
    assert_some(&y, [0.32901898584329603, -0.5093542979029652, 0.6386858451684679]);
    Ok(())
}

fn recurrent_layers_are_pytorchs(e: &Engine) -> Check {
    let mut p = Parameters::new();
    let layer = Gru::new(&mut p, "rnn", 3, 4);
    let expected: [(&str, &[usize]); 4] = [
        ("rnn.weight_ih_l0", &[12, 3]),
        ("rnn.weight_hh_l0", &[12, 4]),
        ("rnn.bias_ih_l0", &[12]),
        ("rnn.bias_hh_l0", &[12]),
    ];
    assert_eq!(names(&p), expected);
    let x: (&[usize], _) = (&[2, 5, 3], wave(30));
    assert_some(
        &forward(e, &p, std::slice::from_ref(&x), |cx, x| layer.forward(cx, x[0]))?,
        [0.6812925634961671, 0.279186068004248, -0.21553193587808256],
    );
    let h0: (&[usize], _) = (&[2, 4], (0..8).map(|i| f64::from(i).sin()).collect());
    assert_some(
        &forward(e, &p, &[x.clone(), h0], |cx, x| layer.forward_from(cx, x[0], x[1]))?,
        [0.8969959733379966, 0.3544476086286515, -0.2003450462148778],
    );

    let mut p = Parameters::new();
    let layer = Lstm::new(&mut p, "rnn", 3, 4);
    let expected: [(&str, &[usize]); 4] = [
        ("rnn.weight_ih_l0", &[16, 3]),
        ("rnn.weight_hh_l0", &[16, 4]),
        ("rnn.bias_ih_l0", &[16]),
        ("rnn.bias_hh_l0", &[16]),
    ];
    assert_eq!(names(&p), expected);
    assert_some(
        &forward(e, &p, &[x], |cx, x| layer.forward(cx, x[0]))?,
        [0.19462168495160423, -0.03580230488935645, -0.2529351895120782],
    );
    Ok(())
}

fn norms_are_pytorchs(e: &Engine) -> Check {
    let mut p = Parameters::new();
    let layer = GroupNorm::new(&mut p, "norm", 2, 4);
    assert_eq!(names(&p), [("norm.weight", &[4][..]), ("norm.bias", &[4])]);
    assert_some(
        &forward(e, &p, &[(&[2, 4, 3], wave(24))], |cx, x| layer.forward(cx, x[0]))?,
        [0.42073549240394825, -0.3847340547769533, -0.15509683613951247],
    );
    let wide: (&[usize], _) = (&[2, 1, 3], wave(6));
    let refused = forward(e, &p, &[wide], |cx, x| layer.forward(cx, x[0])).err().map(|e| e.to_string());
    assert!(refused.is_some_and(|text| text.contains("arg 0 axis 1 is 1, arg 1 axis 0 is 4")));

    let mut p = Parameters::new();
    let layer = RmsNorm::new(&mut p, "norm", 4);
    assert_eq!(names(&p), [("norm.weight", &[4][..])]);
    assert_some(
        &forward(e, &p, &[(&[2, 3, 4], wave(24))], |cx, x| layer.forward(cx, x[0]))?,
        [0.35650043606272486, -0.4680745183353261, 0.376916509369582],
    );
    let wide: (&[usize], _) = (&[3, 1], wave(3));
    let refused = forward(e, &p, &[wide], |cx, x| layer.forward(cx, x[0])).err().map(|e| e.to_string());
    assert!(refused.is_some_and(|text| text.contains("arg 0 axis 1 is 1, arg 1 axis 0 is 4")));
    Ok(())
}

fn attention_is_pytorchs(e: &Engine) -> Check {
    let mut p = Parameters::new();
    let config = AttentionConfig { features: 6, heads: 3, key_heads: 3, rotary: None };
    let layer = MultiHeadAttention::new(&mut p, "attention", config);
    let expected: [(&str, &[usize]); 4] = [
        ("attention.in_proj_weight", &[18, 6]),
        ("attention.in_proj_bias", &[18]),
        ("attention.out_proj.weight", &[6, 6]),
        ("attention.out_proj.bias", &[6]),
    ];
    assert_eq!(names(&p), expected);
    let x: (&[usize], _) = (&[2, 4, 6], wave(48));
    let causal = Visible { causal: true, ..Visible::default() };
    let y = forward(e, &p, std::slice::from_ref(&x), |cx, x| layer.forward(cx, x[0], causal))?;
    assert_some(&y, [-0.9062588791698714, 0.1115403162165004, 0.32303168355289713]);
    let context: (&[usize], _) = (&[2, 5, 6], (0..60).map(|i| (0.2 * f64::from(i)).sin()).collect());
    let y = forward(e, &p, &[x, context], |cx, x| layer.forward_over(cx, x[0], x[1], Visible::default()))?;
    assert_some(&y, [-0.9071850477364538, 0.16135678484499424, 0.2056229861341929]);
    Ok(())
}

/// Of one token attention is its value: the first key head's for two heads, the second's for the others.
fn heads_share_key_heads_and_places_turn_queries_and_keys(e: &Engine) -> Check {
    let grouped = AttentionConfig { features: 8, heads: 4, key_heads: 2, rotary: Some(100.0) };
    let mut p = Parameters::new();
    let layer = MultiHeadAttention::new(&mut p, "a", grouped);
    let x = wave(8);
    let y = forward(e, &p, &[(&[1, 1, 8], x.clone())], |cx, x| layer.forward(cx, x[0], Visible::default()))?;
    let (w, b, o, c) = (weights(0, 16 * 8), weights(1, 16), weights(2, 64), weights(3, 8));
    let row = |w: &[f64], i: usize, x: &[f64]| -> f64 { (0..8).map(|j| w[i * 8 + j] * x[j]).sum() };
    // The values' rows are those behind 8 of queries and 4 of keys.
    let merged: Vec<f64> = (0..8).map(|i| 12 + i / 4 * 2 + i % 2).map(|i| row(&w, i, &x) + b[i]).collect();
    for (i, y) in y.iter().enumerate() {
        let expected = row(&o, i, &merged) + c[i];
        assert!((y - expected).abs() <= 1e-12, "{i}: {y} instead of {expected}");
    }
    // Places count only in differences: the last of three queries is at the last key, as one query alone is.
    let run = |queries: usize| {
        let keys: (&[usize], _) = (&[1, 3, 8], wave(24));
        let all = wave(24);
        let dims = [1, queries, 8];
        let own: (&[usize], _) = (&dims, all[24 - 8 * queries..].to_vec());
        forward(e, &p, &[own, keys], |cx, x| layer.forward_over(cx, x[0], x[1], Visible::default()))
    };
    let (three, one) = (run(3)?, run(1)?);
    assert!(three[16..].iter().zip(&one).all(|(a, b)| (a - b).abs() <= 1e-12), "{three:?} {one:?}");

    for (config, text) in [
        (
            AttentionConfig { heads: 3, key_heads: 3, ..grouped },
            "heads is 3; it must be a divisor of the features",
        ),
        (AttentionConfig { heads: 0, ..grouped }, "heads is 0; it must be a divisor of the features"),
        (AttentionConfig { key_heads: 3, ..grouped }, "key_heads is 3; it must be a divisor of the heads"),
        (AttentionConfig { heads: 8, ..grouped }, "number of features is 1; it must be even"),
    ] {
        let mut p = Parameters::new();
        let layer = MultiHeadAttention::new(&mut p, "a", config);
        let x: (&[usize], _) = (&[1, 3, 8], wave(24));
        let refused = forward(e, &p, &[x], |cx, x| layer.forward(cx, x[0], Visible::default()));
        let refused = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refused.contains(text), "{refused}");
    }
    Ok(())
}

fn losses_are_pytorchs(e: &Engine) -> Check {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let logits = g.input("logits", DType::F64, [4, 3]);
    let (labels, targets) = (g.input("labels", DType::I64, [4]), g.input("targets", DType::F64, [4, 3]));
    let options = Labels { ignored: Some(-1), smoothing: 0.1, ..Labels::default() };
    g.output("cross entropy", loss::cross_entropy_with(&g, logits, labels, options)?);
    g.output("binary", loss::binary_cross_entropy(&g, logits, targets)?);
    g.output("kl", loss::kl_divergence(&g, g.log_softmax(logits, -1)?, g.softmax(targets, -1)?)?);
    let row = g.slice(targets, 0, 0, 1)?;
    let refused = loss::binary_cross_entropy(&g, logits, row).err().map(|e| e.to_string());
    assert!(refused.is_some_and(|text| text.contains("their shapes must be equal")));
    let mut program = Program::compile(e, &state, "losses", &g)?;
    program.write("logits", &wave(12))?;
    program.write("labels", &[0i64, 2, -1, 1])?;
    program.write("targets", &(0..12).map(|i| (f64::from(i).sin() + 1.0) / 2.0).collect::<Vec<f64>>())?;
    program.run(&mut state)?;
    for (name, expected) in
        [("cross entropy", 1.1792844822487012), ("binary", 0.7004742639726741), ("kl", 0.04376797741171981)]
    {
        let got = program.read::<f64>(name)?[0];
        assert!((got - expected).abs() <= 1e-14, "{name}: {got} instead of {expected}");
    }
    Ok(())
}

/// All layers behind one another learn the parity of a sequence's first token, in each compute dtype.
fn layers_train_in_every_dtype(e: &Engine) -> Check {
    const ROWS: usize = 64;
    const LENGTH: usize = 6;
    let tokens: Vec<i64> = (0..ROWS * LENGTH).map(|i| (i * i * 7 + i) as i64 % 11).collect();
    let labels: Vec<i64> = tokens.iter().step_by(LENGTH).map(|token| token % 2).collect();
    let data = Arrays::new().with("tokens", [ROWS, LENGTH], tokens)?.with("label", [ROWS], labels)?;
    let mut p = Parameters::new();
    let embedding = Embedding::new(&mut p, "embedding", 11, 8);
    let config = AttentionConfig { features: 8, heads: 4, key_heads: 2, rotary: Some(100.0) };
    let attention = MultiHeadAttention::new(&mut p, "attention", config);
    let norm = RmsNorm::new(&mut p, "norm", 8);
    let (gru, lstm) = (Gru::new(&mut p, "gru", 8, 8), Lstm::new(&mut p, "lstm", 8, 8));
    let conv = Conv1d::new(&mut p, "conv", 8, 8, Windows::of(3).padding(1), 2);
    let groups = GroupNorm::new(&mut p, "groups", 2, 8);
    let last = Linear::new(&mut p, "last", 8, 2);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let options =
            TrainingOptions { dtype, batch: 16, epochs: 40, lr: 0.01, ..TrainingOptions::default() };
        let mut trainer = Trainer::new(e, &p, &data, options, |cx, batch| {
            let (g, x) = (cx.graph, embedding.forward(cx, batch.get("tokens")?)?);
            let x = g.add(x, attention.forward(cx, norm.forward(cx, x)?, Visible::default())?)?;
            let x = lstm.forward(cx, gru.forward(cx, x)?)?;
            let x = groups.forward(cx, conv.forward(cx, g.transpose(x)?)?)?;
            loss::cross_entropy(g, last.forward(cx, g.mean(x, -1)?)?, batch.get("label")?)
        })?;
        let mut losses = Vec::new();
        trainer.run(|_, epoch| {
            losses.push(epoch.loss());
            Ok::<_, Error>(std::ops::ControlFlow::Continue(()))
        })?;
        assert!(losses.last() < Some(&0.1), "{dtype}: {losses:?}");
    }
    Ok(())
}

#[test]
fn a_wrong_input_is_named_with_its_line() -> Check {
    let mut p = Parameters::new();
    let gru = Gru::new(&mut p, "gru", 3, 4);
    let conv = Conv1d::new(&mut p, "conv", 4, 6, Windows::of(3), 4);
    let g = Graph::new(&p.state_spec(DType::F32)?);
    let cx = Context::new(&g, &p, Mode::Evaluate);
    let input = |name, shape: &[usize]| g.input(name, DType::F32, Shape::new(shape).unwrap_or(Shape::SCALAR));
    let text = |result: Result<Value, Error>| result.err().map(|e| e.to_string()).unwrap_or_default();
    for (refused, expected) in [
        (text(gru.forward(&cx, input("a", &[2, 5, 4]))), "arg 0 axis 2 is 4, arg 1 axis 0 is 3"),
        (text(gru.forward(&cx, input("b", &[5, 3]))), "arg 0 has rank 2; it must be 3"),
        (text(gru.forward(&cx, input("c", &[]))), "rank"),
        (text(conv.forward(&cx, input("d", &[2, 4, 7]))), "groups is 4; it must be a divisor"),
    ] {
        assert!(refused.contains(expected) && refused.contains("tests/layers.rs"), "{refused}");
    }
    Ok(())
}
