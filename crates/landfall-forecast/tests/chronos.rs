//! Chronos-2 and Chronos-Bolt from a folder: what is forecast, and folders of strangers. Beside the authors' package they are tested in Python.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{DType, Engine, Graph, HostTensor, Program, State};
use landfall_forecast::chronos::{
    ChronosError, FineTuning, FineTuningOptions, Forecaster, Group, Known, Weights,
};
use landfall_forecast::ensemble::{
    Ahead, Ensemble, Known as KnownRows, Members, NamedNetwork, Past, PretrainedMember,
};
use landfall_train::checkpoint::{File, Tensor};
use landfall_train::models::chronos::{
    Activation, Chronos2, Chronos2Config, ChronosBolt, ChronosBoltConfig, Network,
};
use landfall_train::nn::{Context, Mode};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

type Done = Result<(), Box<dyn std::error::Error>>;

on_each_device!(
    a_batch_forecasts_what_each_group_alone_does,
    bf16_is_near_f32,
    an_ensemble_has_either_of_both_as_its_network
);

fn chronos2() -> (Network, Value) {
    let sizes = Chronos2Config {
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
    };
    let config = json!({
        "architectures": ["Chronos2Model"],
        "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 2,
        "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "rope_theta": 1e4,
        "chronos_config": {
            "context_length": 64, "input_patch_size": 4, "input_patch_stride": 4, "output_patch_size": 4,
            "quantiles": [0.1, 0.5, 0.9], "use_reg_token": true, "use_arcsinh": true, "max_output_patches": 2
        }
    });
    (Network::Chronos2(Chronos2::new(sizes).expect("sizes that fit")), config)
}

fn bolt() -> (Network, Value) {
    let sizes = ChronosBoltConfig {
        patch: 4,
        context: 64,
        horizon: 6,
        levels: vec![0.1, 0.5, 0.9],
        width: 16,
        features: 4,
        heads: 2,
        hidden: 24,
        layers: 2,
        decoder_layers: 1,
        buckets: 8,
        distance: 12,
        activation: Activation::Silu,
        gated: true,
        register: true,
        start: 0,
        eps: 1e-6,
    };
    let config = json!({
        "architectures": ["ChronosBoltModelForForecasting"],
        "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 2,
        "layer_norm_epsilon": 1e-6, "feed_forward_proj": "gated-silu", "dense_act_fn": "silu", "is_gated_act": true,
        "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0,
        "chronos_config": {
            "context_length": 64, "input_patch_size": 4, "input_patch_stride": 4, "prediction_length": 6,
            "quantiles": [0.1, 0.5, 0.9], "use_reg_token": true
        }
    });
    (Network::Bolt(ChronosBolt::new(sizes).expect("sizes that fit")), config)
}

/// Both models.
const MODELS: [fn() -> (Network, Value); 2] = [chronos2, bolt];

/// A folder as the authors' package writes it, of initial weights.
fn folder(path: &Path, (network, config): &(Network, Value)) -> Done {
    let engine = Engine::cpu_with_threads(1)?;
    let mut state = State::new(&engine, &network.parameters().state_spec(DType::F32)?)?;
    network.parameters().initialise(&mut state, 1)?;
    let mut file = File::default();
    for parameter in network.parameters().list() {
        let (value, shape) = (state.read_host(&parameter.name)?, parameter.part());
        for (name, data) in parameter.parts.iter().zip(value.data.chunks(shape.elements())) {
            let own = HostTensor::new(DType::F32, shape, data.to_vec()).map_err(landfall::Error::from)?;
            file.tensors.insert(name.clone(), Tensor::from(&own));
        }
    }
    std::fs::create_dir_all(path)?;
    file.write(&path.join("model.safetensors"))?;
    Ok(std::fs::write(path.join("config.json"), config.to_string())?)
}

fn wave(rows: usize, first: usize) -> Vec<f64> {
    (first..first + rows).map(|i| 10.0 + (i as f64 * 0.7).sin() * 3.0).collect()
}

fn forecaster(
    engine: &Engine,
    path: &Path,
    model: fn() -> (Network, Value),
) -> Result<Forecaster, Box<dyn std::error::Error>> {
    folder(path, &model())?;
    Ok(Forecaster::new(engine, &Weights::read(path)?)?)
}

fn an_ensemble_has_either_of_both_as_its_network(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    let (path, rows) = (temporary.path(), wave(90, 0));
    let known = || KnownRows { name: "a", first: None, columns: vec![&rows[..]] };
    for model in MODELS {
        let mut alone = forecaster(engine, path, model)?;
        let named = NamedNetwork::read(path)?;
        assert_eq!(named.name, alone.name());
        assert_eq!((named.context, named.most_rows), (alone.context(), alone.most_rows()));
        let member = Arc::new(PretrainedMember::new(Some((path.to_owned(), named))));
        member.compute_on(engine);
        let of = |members| -> Result<Ahead, Box<dyn std::error::Error>> {
            let ensemble = Ensemble::fit(members, 9, [known()], Some(1))?.with_network(Arc::clone(&member));
            ensemble.make_ready()?;
            let past = Past { fit: Some((0, 0)), column: 0, values: &rows };
            Ok(ensemble.forecast(&[past], 20)?.remove(0))
        };
        let (own, all, half) = (of(Members::Pretrained)?, of(Members::All)?, of(Members::Statistical)?);
        // Beyond the rows of a pass, too; quantiles of random weights cross, those of an ensemble ascend.
        let mut expected = alone.forecast(&[Group::of(rows.clone())], 20)?.remove(0).remove(0);
        expected.iter_mut().for_each(|row| row.sort_by(f64::total_cmp));
        for (step, row) in expected.iter().enumerate() {
            assert_eq!(own.values[step], row[1], "{step}");
            assert!((all.values[step] - 0.5 * row[1] - 0.5 * half.values[step]).abs() < 1e-9);
            let spread = &own.spread[step];
            assert!(spread.is_sorted() && spread[4] == 0.0, "{spread:?}");
            // Three levels of nine are the network's, those between them on lines.
            assert_eq!((spread[0], spread[8]), (row[0] - row[1], row[2] - row[1]));
            assert!((spread[2] - 0.5 * spread[0]).abs() < 1e-9);
        }
    }
    Ok(())
}

fn a_batch_forecasts_what_each_group_alone_does(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    for model in MODELS {
        let mut forecaster = forecaster(engine, temporary.path(), model)?;
        let mut groups: Vec<Group> = [1, 5, 30, 64, 200].map(|rows| Group::of(wave(rows, rows))).into();
        groups[2].targets[0][7] = f64::NAN;
        groups[3].targets[0][20..33].fill(f64::NAN);
        if forecaster.name() == "chronos-2" {
            groups.push(Group {
                targets: vec![wave(40, 0), wave(40, 9)],
                past: vec![wave(40, 3)],
                known: vec![Known { past: wave(40, 5), future: wave(20, 45) }],
            });
        }
        // Several passes.
        let together = forecaster.forecast(&groups, 20)?;
        for (group, all) in groups.iter().zip(&together) {
            let alone = forecaster.forecast(std::slice::from_ref(group), 20)?.remove(0);
            assert_eq!((all.len(), all[0].len(), all[0][0].len()), (group.targets.len(), 20, 3));
            for (a, b) in alone.iter().flatten().flatten().zip(all.iter().flatten().flatten()) {
                assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b}");
            }
        }
        // What is known of the future matters, and so do the other series.
        let Some(with_covariates) = groups.get(5) else { continue };
        let base = &together[5][0][0];
        for change in [|g: &mut Group| g.known[0].future[0] += 5.0, |g: &mut Group| g.past[0][39] += 5.0] {
            let mut other = with_covariates.clone();
            change(&mut other);
            let row = forecaster.forecast(&[other], 20)?.remove(0).remove(0).remove(0);
            assert!(row.iter().zip(base).any(|(a, b)| (a - b).abs() > 1e-4), "{row:?} {base:?}");
        }
    }
    Ok(())
}

fn bf16_is_near_f32(engine: &Engine) -> Done {
    let temporary = tempfile::tempdir()?;
    for model in MODELS {
        let mut exact = forecaster(engine, temporary.path(), model)?;
        let mut rounded = Forecaster::with_dtype(engine, &Weights::read(temporary.path())?, DType::BF16)?;
        let mut groups: Vec<Group> = [3, 30, 64].map(|rows| Group::of(wave(rows, rows))).into();
        groups[2].targets[0][20..33].fill(f64::NAN);
        let (a, b) = (exact.forecast(&groups, 6)?, rounded.forecast(&groups, 6)?);
        let each = |all: &[Vec<Vec<Vec<f64>>>]| {
            all.iter().flatten().flatten().flatten().copied().collect::<Vec<_>>()
        };
        let far = each(&a).iter().zip(each(&b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("{}: {far}", exact.name());
        assert!(far > 0.0 && far < 0.2, "{far}");
    }
    Ok(())
}

/// The graph that a GPU would capture implies every edge of its plan; the engine refuses otherwise. No GPU is needed.
#[test]
fn a_forecast_is_one_captured_graph() -> Done {
    let planning = Engine::planning_for_cuda();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        // Tokens that whole heads of a kernel take, and more.
        for (rows, whole) in [(64, false), (64, true), (2048, false), (2048, true)] {
            let (Network::Bolt(network), _) = bolt() else { return Err("another model".into()) };
            let state = State::new(&planning, &network.parameters().state_spec(dtype)?)?;
            let g = Graph::new(state.spec());
            let cx = Context::new(&g, network.parameters(), Mode::Evaluate);
            let both = ["x", "known"].map(|name| g.input(name, DType::F32, [32, rows]));
            let ahead = network.forward(&cx, both, whole)?;
            g.output("forecast", ahead.scale.original(&g, ahead.quantiles)?);
            let program = Program::compile(&planning, &state, "chronos", &g)?;
            let instructions = program.report().rows.len();
            assert!(instructions > 30, "{dtype:?}: {instructions} instructions");
        }
    }
    Ok(())
}

#[test]
fn written_weights_are_read_alike() -> Done {
    let temporary = tempfile::tempdir()?;
    let (first, second) = (temporary.path().join("first"), temporary.path().join("second"));
    for model in MODELS {
        folder(&first, &model())?;
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
    }
    Ok(())
}

/// Copies that the decoder and the encoder have of the tokens, and a head that nothing reads, may stand in a file.
#[test]
fn copies_of_tokens_may_stand_in_a_file() -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path(), &bolt())?;
    let path = temporary.path().join("model.safetensors");
    let mut file = File::read(&path)?;
    for name in ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"] {
        file.tensors.insert(name.to_owned(), file.tensors["shared.weight"].clone());
    }
    file.write(&path)?;
    Weights::read(temporary.path())?;
    file.tensors.insert("another".to_owned(), file.tensors["shared.weight"].clone());
    file.write(&path)?;
    let why = Weights::read(temporary.path()).err().ok_or("it was read")?.to_string();
    assert!(why.contains("tensor another belongs to no parameter"), "{why}");
    Ok(())
}

/// A thousand folders with a byte changed, cut off, added or repeated are refused, or forecast.
#[test]
fn folders_of_strangers_are_refused_or_read() -> Done {
    MODELS.into_iter().try_for_each(strangers)
}

fn strangers(model: fn() -> (Network, Value)) -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path(), &model())?;
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

/// What is told of a folder whose `config.json` has another value at each of these places, which is part of this text.
fn assert_told(model: fn() -> (Network, Value), cases: &[(&str, Value, &str)]) -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path(), &model())?;
    for (place, value, text) in cases {
        let mut own = model().1;
        let at = own.pointer_mut(place).ok_or("no such place")?;
        *at = value.clone();
        std::fs::write(temporary.path().join("config.json"), own.to_string())?;
        let why = Weights::read(temporary.path()).err().map_or_else(String::new, |why| why.to_string());
        assert!(why.contains(text), "{place}: {why}");
    }
    Ok(())
}

#[test]
fn what_is_not_supported_is_named() -> Done {
    assert_told(
        chronos2,
        &[
            (
                "/architectures",
                json!(["T5ForConditionalGeneration"]),
                "only Chronos2Model and ChronosBoltModel",
            ),
            ("/chronos_config", json!(null), "chronos_config is not there"),
            ("/feed_forward_proj", json!("gated-gelu"), "only relu is supported"),
            ("/num_layers", json!(0), "num_layers is 0"),
            ("/d_kv", json!(3), "d_kv is 3; it must be even"),
            ("/d_model", json!(32), "the model has it as"),
            ("/num_layers", json!(3), "is missing"),
            ("/num_layers", json!(1), "belongs to no parameter"),
            ("/num_heads", json!(1u64 << 40), "num_heads is 1099511627776"),
            ("/chronos_config/input_patch_stride", json!(2), "only that of input_patch_size"),
            ("/chronos_config/output_patch_size", json!(2), "only that of input_patch_size"),
            ("/chronos_config/output_patch_size", json!(null), "output_patch_size is not there"),
            ("/chronos_config/use_reg_token", json!(false), "use_reg_token is false"),
            ("/chronos_config/quantiles", json!([0.5, 0.1]), "ascending"),
        ],
    )?;
    assert_told(
        bolt,
        &[
            ("/feed_forward_proj", json!("gated-tanh"), "relu, gelu, gelu_new and silu are supported"),
            ("/feed_forward_proj", json!("silu"), "is_gated_act is true; only what feed_forward_proj says"),
            ("/dense_act_fn", json!("relu"), "dense_act_fn is \"relu\"; only what feed_forward_proj says"),
            ("/num_decoder_layers", json!(0), "num_decoder_layers is 0"),
            ("/num_decoder_layers", json!(null), "is missing"),
            ("/relative_attention_num_buckets", json!(3), "it must be at least 4"),
            ("/relative_attention_num_buckets", json!(16), "relative_attention_bias.weight is [8, 2]"),
            ("/relative_attention_max_distance", json!(2), "it must be above 2, a quarter of the buckets"),
            ("/decoder_start_token_id", json!(2), "the model has 2 tokens, from 0 on"),
            ("/decoder_start_token_id", json!(null), "decoder_start_token_id is not there"),
            ("/d_ff", json!(1u64 << 40), "d_ff is 1099511627776"),
            ("/chronos_config/input_patch_stride", json!(2), "only that of input_patch_size"),
            ("/chronos_config/prediction_length", json!(null), "prediction_length is not there"),
            ("/chronos_config/prediction_length", json!(7), "the model has it as [21, 24]"),
            ("/chronos_config/use_reg_token", json!(false), "shared.weight is [2, 16]"),
            ("/chronos_config/quantiles", json!([]), "quantiles are []"),
        ],
    )
}

#[test]
fn what_cannot_be_forecast_is_told() -> Done {
    let temporary = tempfile::tempdir()?;
    let engine = Engine::cpu_with_threads(2)?;
    let mut bolt = forecaster(&engine, &temporary.path().join("bolt"), bolt)?;
    let mut forecaster = forecaster(&engine, temporary.path(), chronos2)?;
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
    for group in [
        Group { targets: vec![wave(3, 0), wave(3, 1)], ..Group::default() },
        Group { past: vec![wave(3, 1)], ..Group::of(wave(3, 0)) },
        known(wave(3, 0), wave(4, 0)),
    ] {
        let why =
            bolt.forecast(&[Group::of(wave(3, 0)), group], 4).err().ok_or("it was forecast")?.to_string();
        assert!(
            why.contains("group 1, counted from 0, has 2 series; a Chronos-Bolt forecasts each"),
            "{why}"
        );
    }
    let why = bolt.forecast(&[Group::of(wave(3, 0))], 385).err().ok_or("it was forecast")?.to_string();
    assert!(why.contains("the horizon is 385; it must be 1 to 384 rows"), "{why}");
    Ok(())
}

/// A Chronos-Bolt is forecast with, and not trained further.
#[test]
fn a_bolt_is_not_trained() -> Done {
    let temporary = tempfile::tempdir()?;
    folder(temporary.path(), &bolt())?;
    let (engine, weights) = (Engine::cpu_with_threads(1)?, Weights::read(temporary.path())?);
    let training = FineTuning::new(
        &engine,
        &weights,
        FineTuningOptions::new(6),
        vec![Group::of(wave(40, 0))],
        &[],
        None,
    );
    let why = training.err().ok_or("it was trained")?.to_string();
    assert!(why.contains("a chronos-bolt is not trained further"), "{why}");
    Ok(())
}
