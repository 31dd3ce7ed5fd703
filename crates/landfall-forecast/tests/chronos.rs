//! Chronos-2 from a folder: what is forecast, and folders of strangers. Beside the authors' package it is tested in Python.

use landfall::{DType, Engine, State};
use landfall_forecast::chronos::{ChronosError, Forecaster, Group, Known, Weights};
use landfall_train::checkpoint::File;
use landfall_train::models::chronos::Chronos2Config;
use serde_json::{Value, json};
use std::path::Path;

type Done = Result<(), Box<dyn std::error::Error>>;

fn sizes() -> Chronos2Config {
    Chronos2Config {
        patch: 4,
        context: 64,
        patches: 2,
        levels: vec![0.1, 0.5, 0.9],
        width: 16,
        features: 4,
        heads: 2,
        hidden: 24,
        layers: 2,
        arcsinh: true,
        time_scale: 64.0,
        eps: 1e-6,
        rope: 1e4,
    }
}

/// A folder of initial weights.
fn folder(path: &Path) -> Done {
    Ok(Weights::initial(sizes(), 1)?.write(path)?)
}

fn wave(rows: usize, first: usize) -> Vec<f64> {
    (first..first + rows).map(|i| 10.0 + (i as f64 * 0.7).sin() * 3.0).collect()
}

fn forecaster(path: &Path) -> Result<Forecaster, Box<dyn std::error::Error>> {
    folder(path)?;
    Ok(Forecaster::new(&Engine::cpu_with_threads(2)?, &Weights::read(path)?)?)
}

#[test]
fn a_batch_forecasts_what_each_group_alone_does() -> Done {
    let temporary = tempfile::tempdir()?;
    let mut forecaster = forecaster(temporary.path())?;
    let mut groups: Vec<Group> = [1, 5, 30, 64, 200].map(|rows| Group::of(wave(rows, rows))).into();
    groups[2].targets[0][7] = f64::NAN;
    groups.push(Group {
        targets: vec![wave(40, 0), wave(40, 9)],
        past: vec![wave(40, 3)],
        known: vec![Known { past: wave(40, 5), future: wave(20, 45) }],
    });
    // Three passes.
    let together = forecaster.forecast(&groups, 20)?;
    for (group, all) in groups.iter().zip(&together) {
        let alone = forecaster.forecast(std::slice::from_ref(group), 20)?.remove(0);
        assert_eq!((all.len(), all[0].len(), all[0][0].len()), (group.targets.len(), 20, 3));
        for (a, b) in alone.iter().flatten().flatten().zip(all.iter().flatten().flatten()) {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b}");
        }
    }
    // What is known of the future matters, and so do the other series.
    let base = &together[5][0][0];
    for change in [|g: &mut Group| g.known[0].future[0] += 5.0, |g: &mut Group| g.past[0][39] += 5.0] {
        let mut other = groups[5].clone();
        change(&mut other);
        let row = forecaster.forecast(&[other], 20)?.remove(0).remove(0).remove(0);
        assert!(row.iter().zip(base).any(|(a, b)| (a - b).abs() > 1e-4), "{row:?} {base:?}");
    }
    Ok(())
}

#[test]
fn written_weights_are_read_alike() -> Done {
    let temporary = tempfile::tempdir()?;
    let (first, second) = (temporary.path().join("first"), temporary.path().join("second"));
    folder(&first)?;
    let weights = Weights::read(&first)?;
    let mut state =
        State::new(&Engine::cpu_with_threads(1)?, &weights.network.parameters().state_spec(DType::F32)?)?;
    weights.load(&mut state)?;
    let list = weights.network.parameters().list();
    let values = list.iter().map(|p| state.read_host(&p.name)).collect::<Result<Vec<_>, _>>()?;
    let mut values = values.into_iter();
    weights.with(|_| Ok(values.next().expect("a value of each")))?.write(&second)?;
    assert_eq!(
        File::read(&first.join("model.safetensors"))?.tensors,
        File::read(&second.join("model.safetensors"))?.tensors
    );
    assert_eq!(std::fs::read(first.join("config.json"))?, std::fs::read(second.join("config.json"))?);
    Ok(())
}

/// A thousand folders with a byte changed, cut off, added or repeated are refused, or forecast.
#[test]
fn folders_of_strangers_are_refused_or_read() -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path())?;
    let files = ["config.json", "model.safetensors"];
    let whole = files.map(|name| std::fs::read(temporary.path().join(name)).unwrap_or_default());
    let header = 8 + usize::try_from(u64::from_le_bytes(whole[1][..8].try_into()?))?;
    let mut number = 1u64;
    let mut next = |below: usize| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as usize % below.max(1)
    };
    let mut refused = 0;
    for case in 0..1000 {
        let at = case % 2;
        let mut bytes = whole[at].clone();
        // Most in the header: numbers and names matter more than values.
        let reach = if at == 1 && next(4) > 0 { header } else { bytes.len() };
        let place = next(reach);
        match next(5) {
            0 => bytes[place] ^= 1 << next(8),
            1 => bytes[place] = b'0' + next(10) as u8,
            2 => bytes.truncate(place),
            3 => bytes.insert(place, b'9'),
            _ => drop(bytes.drain(place..(place + 1 + next(40)).min(reach))),
        }
        std::fs::write(temporary.path().join(files[at]), &bytes)?;
        match Weights::read(temporary.path()) {
            Ok(weights) => assert!(weights.network.parameters().count() < 1 << 20, "case {case}"),
            Err(why) => {
                refused += 1;
                assert!(!why.to_string().is_empty());
            }
        }
        std::fs::write(temporary.path().join(files[at]), &whole[at])?;
    }
    assert!(refused > 700, "{refused}");
    Ok(())
}

#[test]
fn what_is_not_supported_is_named() -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path())?;
    let config = std::fs::read_to_string(temporary.path().join("config.json"))?;
    let told = |change: &dyn Fn(&mut Value)| -> Result<String, Box<dyn std::error::Error>> {
        let mut own: Value = serde_json::from_str(&config)?;
        change(&mut own);
        std::fs::write(temporary.path().join("config.json"), own.to_string())?;
        Ok(Weights::read(temporary.path()).err().map_or_else(String::new, |why| why.to_string()))
    };
    for (key, value, text) in [
        ("architectures", json!(["ChronosBoltModelForForecasting"]), "only Chronos2Model is read"),
        ("feed_forward_proj", json!("gated-gelu"), "only relu is supported"),
        ("num_layers", json!(0), "num_layers is 0"),
        ("d_kv", json!(3), "d_kv is 3; it must be even"),
        ("d_model", json!(32), "the model has it as"),
        ("num_layers", json!(3), "is missing"),
        ("num_layers", json!(1), "belongs to no parameter"),
        ("num_heads", json!(1u64 << 40), "num_heads is 1099511627776"),
    ] {
        let why = told(&|own: &mut Value| own[key] = value.clone())?;
        assert!(why.contains(text), "{key}: {why}");
    }
    for (key, value, text) in [
        ("input_patch_stride", json!(2), "only that of input_patch_size"),
        ("use_reg_token", json!(false), "use_reg_token is false"),
        ("quantiles", json!([0.5, 0.1]), "ascending"),
    ] {
        let why = told(&|own: &mut Value| own["chronos_config"][key] = value.clone())?;
        assert!(why.contains(text), "{key}: {why}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_forecast_is_told() -> Done {
    let temporary = tempfile::tempdir()?;
    let mut forecaster = forecaster(temporary.path())?;
    let known = |past, future| Group { known: vec![Known { past, future }], ..Group::of(wave(3, 0)) };
    for (group, horizon, text) in [
        (Group::default(), 4, "group 0, counted from 0, has no series to forecast"),
        (
            Group { past: vec![wave(2, 0)], ..Group::of(wave(3, 0)) },
            4,
            "past covariate 0 has 2 rows; the first target has 3",
        ),
        (known(wave(3, 0), wave(3, 0)), 4, "the future of known covariate 0 has 3 rows; the forecast has 4"),
        (Group::of(vec![1.0, f64::INFINITY]), 4, "target 0 has inf in row 1"),
        (Group::of(vec![f64::NAN]), 4, "target 0 has no value"),
        (Group::of(wave(3, 0)), 0, "the horizon is 0"),
        (Group::of(wave(3, 0)), 513, "the horizon is 513; it must be 1 to 512 rows"),
    ] {
        let why: ChronosError = forecaster.forecast(&[group], horizon).err().ok_or(text)?;
        assert!(why.to_string().contains(text), "{why}");
    }
    Ok(())
}
