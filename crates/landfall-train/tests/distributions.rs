//! Distribution losses: values and quantiles against SciPy, gradients against finite differences, parameters of made series.

use landfall::{DType, Engine, Graph, Program, State, StateSpec, grad};
use landfall_train::data::{Segment, Series, Split};
use landfall_train::models::{DLinear, DLinearConfig};
use landfall_train::nn::Family;
use landfall_train::train::{Dataset, Loss, Session, TrainingOptions};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Negative log-likelihood of one row, and its gradient with respect to the predicted values.
fn nll(family: Family, dtype: DType, predicted: &[f64], y: f64) -> Result<(f64, Vec<f64>)> {
    let engine = Engine::cpu()?;
    let mut spec = StateSpec::new();
    spec.add("p", dtype, &[("prediction".to_owned(), [1, 1, predicted.len()].into())])?;
    let spec = Arc::new(spec);
    let mut state = State::new(&engine, &spec)?;
    let g = Graph::new(&spec);
    let (p, t) = (g.entry("prediction")?, g.input("target", dtype, [1, 1, 1]));
    let value = Loss::Distribution(family, vec![0.5]).of(&g, p, t)?;
    let gradients = grad(&g, value, &[("prediction".to_owned(), p)])?;
    g.output("loss", g.cast(value, DType::F64)?);
    g.output("gradient", g.cast(gradients[0], DType::F64)?);
    let mut program = Program::compile(&engine, &state, "nll", &g)?;
    if dtype == DType::F64 {
        state.write("prediction", predicted)?;
        program.write("target", &[y])?;
    } else {
        state.write("prediction", &predicted.iter().map(|x| *x as f32).collect::<Vec<_>>())?;
        program.write("target", &[y as f32])?;
    }
    program.run(&mut state)?;
    Ok((program.read::<f64>("loss")?[0], program.read::<f64>("gradient")?))
}

/// Predicted values, a target, its negative log-likelihood, and the quantiles at 0.05, 0.5 and 0.9.
type Case = (Family, &'static [f64], f64, f64, [f64; 3]);

/// Of SciPy 1.17: `stats.norm`, `stats.t` and `stats.nbinom`, with the parameters of [`Family`]'s definition.
const CASES: [Case; 10] = [
    (Family::Normal, &[0.3, 0.9], -0.7, 1.4203295448796924, [-1.4081606719021103, 0.3, 1.6308758587443901]),
    (
        Family::StudentT,
        &[0.3, 0.9, 1.5],
        -0.7,
        1.5570155448384944,
        [-2.013974069425779, 0.3, 1.940098808994406],
    ),
    (Family::Normal, &[-1.2, -3.0], 2.5, 287.7556465205795, [-1.4532706311431343, -1.2, -1.002669752171493]),
    (
        Family::StudentT,
        &[-1.2, -3.0, 4.0],
        2.5,
        17.135062371799293,
        [-1.4904171812340152, -1.2, -0.9828057188982093],
    ),
    (Family::Normal, &[2.0, 2.1], 2.05, 0.627349515035039, [0.7739316001604726, 2.0, 2.9552642566690013]),
    (
        Family::StudentT,
        &[2.0, 2.1, -6.0],
        2.05,
        0.7486622779674486,
        [-0.16893553057193955, 2.0, 3.4023557932413526],
    ),
    (Family::NegativeBinomial, &[0.5, 1.5], 0.0, 0.5614114189835907, [0.0, 0.0, 3.0]),
    (Family::NegativeBinomial, &[30.0, 40.0], 27.0, 3.3071572235177333, [14.0, 29.0, 45.0]),
    (Family::NegativeBinomial, &[800.0, 700.0], 801.0, 4.301077764137972, [752.0, 800.0, 838.0]),
    (Family::NegativeBinomial, &[-4.0, -3.0], 1.0, 8.467942166164246, [0.0, 0.0, 0.0]),
];

#[test]
fn likelihoods_and_quantiles_are_scipys_and_gradients_finite_differences() -> Result<()> {
    for (family, predicted, y, expected, quantiles) in CASES {
        let case = format!("{family:?} {predicted:?} at {y}");
        let (value, gradient) = nll(family, DType::F64, predicted, y)?;
        assert!((value - expected).abs() < 2e-9 * expected.max(1.0), "{case}: {value} is not {expected}");
        for i in 0..predicted.len() {
            let mut moved = predicted.to_vec();
            let step = 1e-5 * moved[i].abs().max(1.0);
            moved[i] += step;
            let up = nll(family, DType::F64, &moved, y)?.0;
            moved[i] -= 2.0 * step;
            let slope = (up - nll(family, DType::F64, &moved, y)?.0) / (2.0 * step);
            let tolerance = 1e-6 * slope.abs().max(1.0);
            assert!((gradient[i] - slope).abs() < tolerance, "{case}, {i}: {} is not {slope}", gradient[i]);
        }
        let (single, slopes) = nll(family, DType::F32, predicted, y)?;
        assert!((single - expected).abs() < 2e-5 * expected.max(1.0), "{case}: f32 gives {single}");
        for (single, double) in slopes.iter().zip(&gradient) {
            assert!((single - double).abs() < 1e-3 * double.abs().max(0.1), "{case}: f32 {slopes:?}");
        }
        let forecast = family.forecast(predicted, &[0.05, 0.5, 0.9]);
        for (found, expected) in forecast.iter().zip(quantiles) {
            assert!((found - expected).abs() < 1e-8 * expected.abs().max(1.0), "{case}: {forecast:?}");
        }
    }
    assert!(Family::Normal.forecast(&[f64::NAN, 0.0], &[0.5]).iter().all(|x| x.is_nan()));
    Ok(())
}

#[test]
fn likelihoods_of_large_counts_and_of_heavy_freedom_keep_their_digits_in_f32() -> Result<()> {
    let cases: [(Family, &[f64], f64); 9] = [
        (Family::NegativeBinomial, &[1e5, 1.02e5], 1.01e5),
        (Family::NegativeBinomial, &[1e6, 1.01e6], 990_000.0),
        (Family::NegativeBinomial, &[1e6, 3e6], 0.0),
        (Family::NegativeBinomial, &[1e6, 3e6], 17.0),
        (Family::NegativeBinomial, &[-20.0, -19.0], 50_000.0),
        (Family::NegativeBinomial, &[0.5, 1e4], 3.0),
        (Family::StudentT, &[0.0, 1.0, 1e4], 1.5),
        (Family::StudentT, &[0.0, 1.0, 1e7], -0.5),
        (Family::StudentT, &[0.0, 1.0, 3e3], 40.0),
    ];
    for (family, predicted, y) in cases {
        // Both of the numbers that f32 holds.
        let predicted: Vec<f64> = predicted.iter().map(|&p| f64::from(p as f32)).collect();
        let ((exact, slopes), (single, rough)) =
            (nll(family, DType::F64, &predicted, y)?, nll(family, DType::F32, &predicted, y)?);
        let case = format!("{family:?} {predicted:?} at {y}");
        assert!((single - exact).abs() < 1e-4 * exact.abs().max(1.0), "{case}: {single} is not {exact}");
        for (rough, slope) in rough.iter().zip(&slopes) {
            assert!((rough - slope).abs() < 1e-5 + 2e-2 * slope.abs(), "{case}: {rough:?} is not {slope:?}");
        }
    }
    Ok(())
}

#[test]
fn parameters_of_a_made_series_are_found() -> Result<()> {
    const LEVELS: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
    // a, b and c of each family, in the units of the data: means 0 and 40, scales and shapes of their own.
    let cases: [(Family, &[f64]); 3] = [
        (Family::Normal, &[0.0, 1.5]),
        (Family::StudentT, &[0.0, 1.5, 1.5]),
        (Family::NegativeBinomial, &[40.0, 50.0]),
    ];
    for (family, parameters) in cases {
        let mut state = 11u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let draws: Vec<f64> = (0..6000).map(|_| family.forecast(parameters, &[uniform()])[0]).collect();
        let series = Series::new("s", vec!["y".to_owned()], vec![draws], None)?;
        let split = Split::ratio(0.7, 0.1, 0.2)?;
        let panel = if family == Family::NegativeBinomial {
            let required = landfall_train::data::Validation::Required;
            landfall_train::data::WindowedPanel::unscaled(series.into(), split, (8, 2), required)?
        } else {
            landfall_train::data::WindowedPanel::fit(series.into(), split, 8, 2)?
        };
        let loss = Loss::Distribution(family, LEVELS.to_vec());
        let config = DLinearConfig { context: 8, horizon: 2, kernel: 3, outputs: loss.parameters() };
        let options = TrainingOptions {
            loss,
            lr: 5e-3,
            batch: 128,
            max_steps: Some(1500),
            ..TrainingOptions::default()
        };
        let dataset = Dataset::windowed(&panel)?;
        let mut session =
            Session::new(&Engine::cpu()?, Box::new(DLinear::new(config)?), &dataset, 8, 2, options)?;
        for _ in 0..1500 {
            session.step()?;
        }
        let (mut sums, mut windows) = (vec![0.0; LEVELS.len() + 1], 0.0);
        session.predict_all(Segment::Test, |_, all| {
            for window in all.chunks_exact(2 * (LEVELS.len() + 1)) {
                sums.iter_mut().zip(window.chunks_exact(2)).for_each(|(sum, steps)| *sum += steps[0]);
                windows += 1.0;
            }
            Ok::<(), landfall::Error>(())
        })?;
        let scaler = &panel.members()[0].scaler;
        let found: Vec<f64> = sums.iter().map(|sum| scaler.inverse(0, sum / windows)).collect();
        let known = family.forecast(parameters, &LEVELS);
        let spread = known[4] - known[0];
        for (found, known) in found.iter().zip(&known) {
            // Measured: at most 0.6 % of the width of the 90 % interval, of counts 3.9 %.
            assert!(
                (found - known).abs() < 0.06 * spread,
                "{family:?}: {found} is not {known}; all {sums:?}"
            );
        }
        let nll = session.evaluate(Segment::Test)?.nll.ok_or("no likelihood")?;
        assert!(nll.is_finite());
    }
    Ok(())
}
