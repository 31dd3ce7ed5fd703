use super::*;
use crate::nn::{Context, Mode};
use landfall::{DType, Engine, Graph, Program, State};

fn small() -> ZeroShotConfig {
    ZeroShotConfig { patch: 4, context: 32, horizon: 8, width: 24, layers: 2, heads: 3 }
}

/// Quantiles of windows of one length, whose unknown rows hold `hidden`.
fn quantiles(network: &ZeroShot, rows: usize, known: usize, hidden: f32) -> Vec<f32> {
    let engine = Engine::cpu_with_threads(1).expect("a CPU");
    let spec = network.parameters().state_spec(DType::F32).expect("a layout");
    let mut state = State::new(&engine, &spec).expect("memory");
    network.parameters().initialise(&mut state, 7).expect("values");
    let g = Graph::new(&spec);
    let cx = Context::new(&g, network.parameters(), Mode::Evaluate);
    let (x, m) = (g.input("x", DType::F32, [1, rows]), g.input("known", DType::F32, [1, rows]));
    let scale = scaled(&g, x, m).expect("a scale");
    let seen = Seen { values: scale.context, known: m, queries: 2 };
    g.output("y", network.forward(&cx, &[seen]).expect("a pass"));
    let mut program = Program::compile(&engine, &state, "forward", &g).expect("a program");
    let value = |i: usize| if rows - i > known { hidden } else { ((rows - i) as f32 * 0.9).sin() + 3.0 };
    program.write("x", &(0..rows).map(value).collect::<Vec<_>>()).expect("x");
    let mask = |i: usize| if rows - i > known { 0.0 } else { 1.0f32 };
    program.write("known", &(0..rows).map(mask).collect::<Vec<_>>()).expect("known");
    program.run(&mut state).expect("a run");
    program.read::<f32>("y").expect("quantiles")
}

#[test]
fn what_lies_before_a_short_context_changes_nothing() {
    let network = ZeroShot::new(small()).expect("sizes that fit");
    let short = quantiles(&network, 12, 10, 0.0);
    assert_eq!(short.len(), 2 * LEVELS.len() * 4);
    // The same ten rows in a longer frame, whose other rows hold anything.
    for (rows, hidden) in [(32, 0.0), (32, 9e9), (16, f32::NAN)] {
        let long = quantiles(&network, rows, 10, hidden);
        let apart = short.iter().zip(&long).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 2e-5, "{rows} rows: {apart}");
    }
    let other = quantiles(&network, 32, 14, 0.0);
    assert!(short.iter().zip(&other).any(|(a, b)| (a - b).abs() > 1e-3), "more context changes the forecast");
}

/// Scaled context, and it in original units again.
fn there_and_back(x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let engine = Engine::cpu_with_threads(1).expect("a CPU");
    let spec = std::sync::Arc::new(landfall::StateSpec::new());
    let mut state = State::new(&engine, &spec).expect("memory");
    let g = Graph::new(&spec);
    let (v, m) = (g.input("x", DType::F32, [1, x.len()]), g.input("known", DType::F32, [1, x.len()]));
    let scale = scaled(&g, v, m).expect("a scale");
    g.output("scaled", scale.context);
    g.output("back", scale.original(&g, scale.context).expect("original units"));
    let mut program = Program::compile(&engine, &state, "scale", &g).expect("a program");
    program.write("x", x).expect("x");
    let known: Vec<f32> = x.iter().map(|x| f32::from(u8::from(!x.is_nan()))).collect();
    program.write("known", &known).expect("known");
    program.run(&mut state).expect("a run");
    (program.read("scaled").expect("scaled"), program.read("back").expect("back"))
}

#[test]
fn a_scale_holds_series_of_any_size() {
    let shape = [1.0f32, 4.0, 2.0, f32::NAN, 7.0, 3.5];
    let (plain, _) = there_and_back(&shape);
    let known: Vec<f64> = shape.iter().filter(|x| !x.is_nan()).map(|&x| f64::from(x)).collect();
    let mean = known.iter().sum::<f64>() / 5.0;
    let deviation = (known.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
    for (got, x) in plain.iter().zip(shape) {
        let want = if x.is_nan() { 0.0 } else { ((f64::from(x) - mean) / deviation).asinh() };
        assert!((f64::from(*got) - want).abs() < 1e-6, "{got} {want}");
    }
    for size in [1e30f32, 1e-30, -2.5] {
        let (scaled, back) = there_and_back(&shape.map(|x| x * size));
        for i in 0..shape.len() {
            assert!((scaled[i] - plain[i] * size.signum()).abs() < 1e-5, "{size}: {scaled:?}");
            if !shape[i].is_nan() {
                assert!((back[i] / (shape[i] * size) - 1.0).abs() < 1e-5, "{size}: {back:?}");
            }
        }
    }
    for constant in [0.0f32, 5.0, -1e30, 1e-37] {
        let (scaled, back) = there_and_back(&[constant; 4]);
        assert_eq!(scaled, [0.0; 4], "{constant}");
        assert!(back.iter().all(|b| (b - constant).abs() <= constant.abs() * 1e-6), "{constant}: {back:?}");
    }
    let (scaled, back) = there_and_back(&[f32::NAN; 3]);
    assert!(scaled.iter().chain(&back).all(|x| *x == 0.0), "{scaled:?} {back:?}");
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let told = |change: fn(&mut ZeroShotConfig)| {
        let mut config = small();
        change(&mut config);
        ZeroShot::new(config).expect_err("sizes that do not fit")
    };
    assert_eq!(told(|c| c.horizon = 9), "horizon is 9; it must be a multiple of the patch, 4 rows");
    assert!(told(|c| c.heads = 5).contains("width is 24, heads is 5"));
    assert!(told(|c| c.layers = 0).contains("layers is 0"));
}
