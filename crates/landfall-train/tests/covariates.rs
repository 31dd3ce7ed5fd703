//! Covariates reach the models: errors fall with them, forecasts depend on what is known in advance, and on nothing else that
//! lies ahead.

use landfall::{DType, Engine, Graph, Program, State};
use landfall_train::data::{Calendar, Covariates, Panel, ReadOptions, Segment, Series, Split, WindowedPanel};
use landfall_train::models::{
    Columns, DLinearConfig, Inputs, ModelConfig, PatchTstConfig, TideConfig, TsMixerConfig,
};
use landfall_train::nn::{Context, Mode, NormKind};
use landfall_train::train::{Dataset, Loss, Session, TrainingOptions};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const CONTEXT: usize = 24;
const HORIZON: usize = 6;

/// Small models of every kind that reads covariates.
fn models(outputs: usize) -> Vec<ModelConfig> {
    let (context, horizon) = (CONTEXT, HORIZON);
    let patchtst = PatchTstConfig {
        context,
        horizon,
        patch: 8,
        stride: 4,
        d_model: 16,
        heads: 2,
        layers: 1,
        d_ff: 32,
        dropout: 0.0,
        outputs,
        ..PatchTstConfig::default()
    };
    let tide = TideConfig {
        context,
        horizon,
        d_model: 32,
        d_decoder: 8,
        dropout: 0.0,
        outputs,
        ..TideConfig::default()
    };
    let tsmixer = TsMixerConfig {
        context,
        horizon,
        layers: 2,
        d_ff: 16,
        dropout: 0.0,
        outputs,
        ..TsMixerConfig::default()
    };
    vec![
        ModelConfig::Patchtst(patchtst),
        ModelConfig::Dlinear(DLinearConfig { context, horizon, kernel: 5, outputs }),
        ModelConfig::Tide(tide),
        ModelConfig::Tsmixer(tsmixer),
    ]
}

fn dlinear() -> ModelConfig {
    ModelConfig::Dlinear(DLinearConfig { context: CONTEXT, horizon: HORIZON, kernel: 5, outputs: 1 })
}

/// Numbers from −1 to 1 that repeat after far more rows than a test has.
fn noise(row: usize, salt: u64) -> f64 {
    let mut x =
        (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

const ROWS: usize = 1200;

/// A series of the columns `y`, `past` and `known`; `y` is twice `known` and a small wave.
fn made() -> Vec<Vec<f64>> {
    let known: Vec<f64> = (0..ROWS).map(|t| noise(t, 1)).collect();
    let y = (0..ROWS).map(|t| 2.0 * known[t] + 0.1 * (t as f64 / 4.0).sin()).collect();
    vec![y, (0..ROWS).map(|t| noise(t, 2)).collect(), known]
}

fn series(values: Vec<Vec<f64>>) -> Result<Series> {
    Ok(Series::new("made", ["y", "past", "known"].map(str::to_owned).to_vec(), values, None)?)
}

/// A panel with `y` to forecast and `known` known in advance.
fn panel(values: Vec<Vec<f64>>) -> Result<Panel> {
    let known = vec!["known".to_owned()];
    let panel = Panel::from(series(values)?).with_targets(&["y".to_owned()])?;
    Ok(panel.with_covariates(&Covariates { known, ..Covariates::default() })?)
}

/// A model trained on a panel for some steps.
fn trained(config: &ModelConfig, panel: Panel, steps: usize) -> Result<(Session, WindowedPanel)> {
    let known = panel.known().len();
    let past = panel.columns().len() - panel.targets() - known;
    let columns = Columns { targets: panel.targets(), past, known };
    let model = config.clone().with_columns(columns).build_for(&columns)?;
    let (dataset, windowed) = Dataset::forecast(panel, Split::ratio(0.7, 0.1, 0.2)?, CONTEXT, HORIZON)?;
    let options = TrainingOptions { lr: 1e-2, batch: 32, seed: 1, ..TrainingOptions::default() };
    let mut session = Session::new(&Engine::cpu()?, model, &dataset, CONTEXT, HORIZON, options)?;
    for _ in 0..steps {
        session.step()?;
    }
    Ok((session, windowed))
}

/// The error on the test windows after some steps.
fn error(config: &ModelConfig, panel: Panel, steps: usize) -> Result<f64> {
    Ok(trained(config, panel, steps)?.0.evaluate(Segment::Test)?.errors().0)
}

#[test]
fn a_column_known_in_advance_lowers_the_error_of_every_model() -> Result<()> {
    for config in models(1) {
        let with = error(&config, panel(made())?, 300)?;
        let without = error(&config, Panel::from(series(made())?.with_columns(&["y".to_owned()])?), 300)?;
        println!("{config:?}: {with:.4} with it, {without:.4} without");
        assert!(with * 10.0 < without, "{config:?}: {with} with it, {without} without");
    }
    Ok(())
}

#[test]
fn a_forecast_follows_the_column_known_in_advance() -> Result<()> {
    for config in models(1) {
        let (mut session, _) = trained(&config, panel(made())?, 30)?;
        let context: Vec<f64> = (0..2 * CONTEXT).map(|i| noise(i, 3)).collect();
        let known: Vec<f64> = (0..CONTEXT + HORIZON).map(|i| noise(i, 4)).collect();
        let mut shifted = known.clone();
        shifted.rotate_left(1);
        let forecast = session.predict_with(&context, &known)?;
        assert_eq!(forecast, session.predict_with(&context, &known)?);
        assert_ne!(forecast, session.predict_with(&context, &shifted)?, "{config:?}");
    }
    Ok(())
}

/// The forecasts of the test windows, one after another.
fn forecasts(config: &ModelConfig, values: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>> {
    let (mut session, _) = trained(config, panel(values)?, 30)?;
    let mut all = Vec::new();
    session.predict_all(Segment::Test, |_, predictions| -> Result<()> {
        all.extend(predictions.chunks_exact(HORIZON).map(<[f64]>::to_vec));
        Ok(())
    })?;
    Ok(all)
}

/// Values from a row in the middle of the test part on are changed. A window before it shows them where the column is known in
/// advance and the window forecasts the row, and nowhere else.
#[test]
fn windows_show_what_lies_ahead_of_known_columns_alone() -> Result<()> {
    // The first test window forecasts this row.
    let first = ROWS * 8 / 10;
    let changed = first + 40;
    for config in models(1) {
        let before = forecasts(&config, made())?;
        assert_eq!(before.len(), ROWS - first - HORIZON + 1);
        for (column, ahead) in [(0, 0), (1, 0), (2, HORIZON - 1)] {
            let mut values = made();
            values[column][changed..].iter_mut().for_each(|x| *x += 1.0);
            let after = forecasts(&config, values)?;
            let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
            // Window w forecasts rows from first + w on; the last that does not depend on the changed row.
            assert_eq!(
                same,
                changed - first + 1 - usize::from(ahead > 0) - ahead,
                "column {column}: {config:?}"
            );
        }
    }
    Ok(())
}

/// Hourly rows of two shops. A promotion raises sales in one region and lowers them in the other; an event changes them by its
/// name; from Monday to Sunday they rise day by day.
fn shops() -> String {
    let mut text = "date,shop,region,area,promotion,event,sales\n".to_owned();
    let start =
        chrono::NaiveDate::from_ymd_opt(2024, 1, 1).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a date");
    for (shop, region, area, sign) in [("a", "north", 1.0, 1.0), ("b", "south", 2.0, -1.0)] {
        for t in 0..ROWS {
            let date = start + chrono::TimeDelta::hours(t as i64);
            let promotion = noise(t, shop.len() as u64 + area as u64);
            let event = ["none", "fair", "strike"][(noise(t, 9).abs() * 3.0) as usize % 3];
            let of_event = match event {
                "fair" => 2.0,
                "strike" => -2.0,
                _ => 0.0,
            };
            let sales = 2.0 * sign * promotion + of_event + (t / 24 % 7) as f64 - 3.0;
            text += &format!("{date},{shop},{region},{area},{promotion},{event},{sales}\n");
        }
    }
    text
}

/// The panel of the shops with these covariates; columns that are not named are left out.
fn shops_with(folder: &std::path::Path, covariates: Covariates) -> Result<Panel> {
    let file = folder.join("shops.csv");
    std::fs::write(&file, shops())?;
    let columns =
        ["sales".to_owned()].into_iter().chain(covariates.known.clone()).chain(covariates.fixed.clone());
    let options = ReadOptions {
        columns: Some(columns.collect()),
        series_id: Some(vec!["shop".to_owned()]),
        categorical: covariates.categorical.clone(),
        ..ReadOptions::default()
    };
    Ok(Panel::read(&[file], &options)?.with_covariates(&covariates)?)
}

/// Each covariate explains a part of the sales, so that the error falls with each that is added, and all of it with all.
#[test]
fn static_categorical_and_calendar_columns_lower_the_error() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let mut covariates = Covariates { known: names(&["promotion"]), ..Covariates::default() };
    let mut errors = vec![error(&dlinear(), shops_with(folder.path(), covariates.clone())?, 400)?];
    covariates.calendar = Some(vec![Calendar::Weekday]);
    errors.push(error(&dlinear(), shops_with(folder.path(), covariates.clone())?, 400)?);
    covariates.known.push("event".to_owned());
    covariates.categorical.push("event".to_owned());
    errors.push(error(&dlinear(), shops_with(folder.path(), covariates.clone())?, 400)?);
    covariates.fixed.push("region".to_owned());
    covariates.categorical.push("region".to_owned());
    errors.push(error(&dlinear(), shops_with(folder.path(), covariates.clone())?, 1200)?);
    println!("{errors:?}");
    assert!(errors.windows(2).all(|pair| pair[1] < 0.8 * pair[0]), "{errors:?}");
    assert!(errors[3] < 0.1 * errors[0], "{errors:?}");
    Ok(())
}

/// Shapes with levels of quantiles and all kinds of columns, and a gradient for every parameter.
#[test]
fn every_parameter_is_trained() -> Result<()> {
    let columns = Columns { targets: 2, past: 1, known: 3 };
    let dataset = {
        let mut blank = Dataset::blank(6, CONTEXT, HORIZON, 64);
        blank.target = landfall_train::train::Target::Future(2);
        blank.known = 3;
        blank.values.iter_mut().enumerate().for_each(|(i, x)| *x = noise(i, 5) as f32);
        blank
    };
    for config in models(3) {
        let model = config.clone().with_columns(columns).build_for(&columns)?;
        let loss = Loss::Quantile(vec![0.1, 0.5, 0.9]);
        let options = TrainingOptions { lr: 1e-3, batch: 32, seed: 1, loss, ..TrainingOptions::default() };
        let mut session = Session::new(&Engine::cpu()?, model, &dataset, CONTEXT, HORIZON, options)?;
        let names: Vec<String> = session.model().parameters().list().iter().map(|p| p.name.clone()).collect();
        let read = |s: &Session| {
            names.iter().map(|n| s.state.read::<f32>(n)).collect::<std::result::Result<Vec<_>, _>>()
        };
        let before = read(&session)?;
        // Parts that begin as 0 pass a gradient on from the second step on.
        session.step()?;
        session.step()?;
        let after = read(&session)?;
        for ((name, before), after) in names.iter().zip(before).zip(after) {
            assert_ne!(before, after, "{name} of {config:?}");
        }
        let predicted = session.predict_with(&[0.5; 3 * CONTEXT], &[0.5; 3 * (CONTEXT + HORIZON)])?;
        assert_eq!(predicted.len(), 2 * 3 * HORIZON, "{config:?}");
    }
    Ok(())
}

/// A forward pass in f64 of two windows with the weights `½·sin(0.7·i + k + 1)` for element i of parameter k, on inputs
/// `cos(0.3·i)`: elements 1, the one before the middle, and the last.
fn passed(config: ModelConfig) -> Result<[f64; 3]> {
    let columns = Columns { targets: 2, past: 1, known: 3 };
    let (context, horizon) = (config.context(), config.horizon());
    let model = config.with_columns(columns).build_for(&columns)?;
    let p = model.parameters();
    let spec = p.state_spec(DType::F64)?;
    let mut state = State::new(&Engine::cpu()?, &spec)?;
    for (k, parameter) in p.list().iter().enumerate() {
        let elements = parameter.shape.elements();
        let values: Vec<f64> = (0..elements).map(|i| (0.7 * i as f64 + k as f64 + 1.0).sin() / 2.0).collect();
        state.write(&parameter.name, &values)?;
    }
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F64, [2, 3, context]);
    let known = Some(g.input("known", DType::F64, [2, 3, context + horizon]));
    g.output("y", model.forecast(&Context::new(&g, p, Mode::Evaluate), &Inputs { x, known })?);
    let mut program = Program::compile(&Engine::cpu()?, &state, "forward", &g)?;
    let wave = |elements: usize| -> Vec<f64> { (0..elements).map(|i| (0.3 * i as f64).cos()).collect() };
    program.write("x", &wave(2 * 3 * context))?;
    program.write("known", &wave(2 * 3 * (context + horizon)))?;
    program.run(&mut state)?;
    let y: Vec<f64> = program.read("y")?;
    assert_eq!(y.len(), 2 * 2 * 3 * horizon);
    Ok([y[1], y[y.len() / 2 - 1], y[y.len() - 1]])
}

/// Expected numbers are those of both papers' equations, written out window by window in PyTorch 2.11, in f64.
#[test]
fn tide_and_tsmixer_compute_what_their_papers_say() -> Result<()> {
    let (context, horizon, columns, outputs) = (8, 4, Columns::default(), 3);
    let tide = TideConfig {
        context,
        horizon,
        columns,
        d_model: 6,
        layers: 3,
        d_decoder: 3,
        d_temporal: 5,
        layer_norm: true,
        temporal_norm: false,
        revin: true,
        dropout: 0.0,
        outputs,
    };
    let tsmixer = TsMixerConfig {
        context,
        horizon,
        columns,
        layers: 2,
        d_ff: 5,
        norm: NormKind::Layer,
        revin: true,
        dropout: 0.0,
        outputs,
    };
    for (config, expected) in [
        (ModelConfig::Tide(tide), [0.37134208441378536, -1.386557530167055, -1.660473766072976]),
        (ModelConfig::Tsmixer(tsmixer), [-0.008581257956723154, -0.8577690329545904, -0.5935795104549964]),
    ] {
        let got = passed(config.clone())?;
        for (got, expected) in got.iter().zip(expected) {
            assert!(
                (got - expected).abs() <= 1e-9 * expected.abs().max(1.0),
                "{got} for {expected}: {config:?}"
            );
        }
    }
    Ok(())
}
