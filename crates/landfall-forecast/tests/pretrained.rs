//! Directories of transformers and official files that are damaged or of another model. Whole ones are read by the Python
//! tests.

use landfall_forecast::pretrained::{Origin, Pretrained, hugging_face, official};
use landfall_forecast::run::Settings;
use landfall_train::checkpoint::{File, save};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{DropoutMasks, Order, PatchTst, PatchTstConfig};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::error::Error;
use std::path::{Path, PathBuf};

type Check = Result<(), Box<dyn Error>>;

fn config() -> PatchTstConfig {
    PatchTstConfig {
        context: 24,
        horizon: 4,
        patch: 8,
        stride: 4,
        d_model: 8,
        heads: 2,
        layers: 2,
        d_ff: 16,
        residual_attention: false,
        padding: false,
        dropout: 0.1,
        dropout_masks: DropoutMasks::Branches,
        ..PatchTstConfig::default()
    }
}

/// Weights of a new model, with the official names.
fn weights(folder: &Path, config: &PatchTstConfig) -> Result<File, Box<dyn Error>> {
    let engine = landfall::Engine::cpu_with_threads(1)?;
    let series = synthetic::demo(200, 2, 1)?;
    let (dataset, _) =
        Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context, config.horizon)?;
    let model = Box::new(PatchTst::new(config.clone())?);
    let session =
        Session::new(&engine, model, &dataset, config.context, config.horizon, TrainingOptions::default())?;
    let path = folder.join("own.safetensors");
    save(&path, &session, "", &Default::default(), false)?;
    Ok(File::read(&path)?)
}

fn said<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => panic!("{value:?}"),
        Err(e) => e.to_string(),
    }
}

/// A directory that is whole, and the file of its weights.
fn directory(folder: &Path) -> Result<(PathBuf, PathBuf), Box<dyn Error>> {
    let path = folder.join("hf");
    hugging_face::write(&path, &config(), 2, &weights(folder, &config())?)?;
    Ok((path.clone(), path.join("model.safetensors")))
}

#[test]
fn what_is_written_for_transformers_is_read_as_it_was() -> Check {
    let folder = tempfile::tempdir()?;
    let own = weights(folder.path(), &config())?;
    let (path, _) = directory(folder.path())?;
    let read = Pretrained::read(&path)?;
    let Origin::HuggingFace(described) = &read.origin else { panic!("{:?}", read.origin) };
    assert_eq!((&described.network, described.fixed_positions), (&config(), false));
    assert!(described.notes.is_empty(), "{:?}", described.notes);
    for (name, tensor) in &read.file.tensors {
        assert_eq!(Some(tensor), own.tensors.get(name), "{name}");
    }
    // Of ours only the constant scales have no counterpart.
    let left: Vec<_> = own.tensors.keys().filter(|name| !read.file.tensors.contains_key(*name)).collect();
    assert!(left.len() == 2 && left.iter().all(|name| name.ends_with("sdp_attn.scale")), "{left:?}");
    assert!(
        said(hugging_face::write(&path, &config(), 2, &own)).ends_with("exists already; choose another path")
    );
    let (settings, _) = Settings { init: Some(path), ..Settings::default() }.with_weights(&read)?;
    assert_eq!(settings.resolve()?.network.patchtst(), Some(config()));
    Ok(())
}

#[test]
fn tensors_that_do_not_fit_are_named_as_in_the_file() -> Check {
    let folder = tempfile::tempdir()?;
    let (path, file) = directory(folder.path())?;
    let whole = File::read(&file)?;
    let changed = |change: &dyn Fn(&mut File)| -> Result<String, Box<dyn Error>> {
        let mut other = whole.clone();
        change(&mut other);
        other.write(&file)?;
        Ok(said(Pretrained::read(&path)))
    };
    let bias = "model.encoder.layers.1.self_attn.q_proj.bias";
    let text = changed(&|f| drop(f.tensors.remove(bias)))?;
    assert!(text.ends_with(&format!("tensor {bias} is missing; the model needs it as [8]")), "{text}");
    let text = changed(&|f| drop(f.tensors.insert("head.other".to_owned(), f.tensors[bias].clone())))?;
    assert!(text.contains("tensor head.other belongs to no parameter of the model"), "{text}");
    let text =
        changed(&|f| drop(f.tensors.insert("head.projection.weight".to_owned(), f.tensors[bias].clone())))?;
    assert!(text.ends_with("tensor head.projection.weight is f32[8], the model has it as [4, 40]"), "{text}");
    let step = landfall::HostTensor::new(landfall::DType::I64, [8], vec![1.0; 8])?;
    let text = changed(&|f| drop(f.tensors.insert(bias.to_owned(), (&step).into())))?;
    assert!(text.ends_with(&format!("tensor {bias} is i64[8], the model has it as [8]")), "{text}");
    std::fs::remove_file(&file)?;
    assert!(said(Pretrained::read(&path)).starts_with(&format!("cannot read {}", file.display())));

    let options = path.join("config.json");
    std::fs::write(&options, "{\"d_model\": \"wide\"}")?;
    let text = said(Pretrained::read(&path));
    assert!(text.contains("config.json: invalid type: string \"wide\""), "{text}");
    std::fs::write(&options, "{\"d_model\": 10, \"num_attention_heads\": 4, \"context_length\": 9}")?;
    let text = said(Pretrained::read(&path));
    assert!(text.ends_with("d_model is 10, heads is 4; heads must divide d_model"), "{text}");
    std::fs::write(&options, "{\"patch_stride\": 0}")?;
    assert!(said(Pretrained::read(&path)).ends_with("stride is 0; it must be at least 1"));
    std::fs::write(&options, "{\"num_hidden_layers\": 4000000000}")?;
    assert!(said(Pretrained::read(&path)).contains("it must be at most 10000"));
    std::fs::remove_file(&options)?;
    assert!(said(Pretrained::read(&path)).ends_with("a directory of transformers has it"));
    std::fs::write(path.join("config.toml"), "")?;
    assert!(
        said(Pretrained::read(&path)).contains("it is a run directory; give a file of weights, such as ")
    );
    Ok(())
}

#[test]
fn an_official_file_says_its_sizes() -> Check {
    let folder = tempfile::tempdir()?;
    let config = PatchTstConfig { padding: true, residual_attention: true, ..config() };
    let own = weights(folder.path(), &config)?;
    let path = folder.path().join("w.pth");
    official::write(&path, &config, &own)?;
    let read = Pretrained::read(&path)?;
    assert_eq!(read.file.tensors, own.tensors);
    let with = |settings: Settings| settings.with_weights(&read);
    let (settings, notes) = with(Settings::default())?;
    assert!(notes[0].to_string().contains("taken are context 24, stride 4, padding true"), "{notes:?}");
    let network = settings.resolve()?.network.patchtst().ok_or("a PatchTST")?;
    assert_eq!(PatchTstConfig { dropout: 0.1, dropout_masks: DropoutMasks::Branches, ..network }, config);
    let text = said(with(Settings { context: Some(30), ..Settings::default() }));
    assert!(
        text.starts_with("context = 30 and 6 patches of ") && text.contains("context of 24 to 27"),
        "{text}"
    );
    let text = said(with(Settings { horizon: Some(5), ..Settings::default() }));
    assert!(text.starts_with("horizon = 5 and horizon 4 of "), "{text}");

    // Models of the official program that there are none of here.
    for (name, told) in [
        ("model.revin_layer.affine_weight", "affine is "),
        ("model.head.linears.0.weight", "individual is "),
        ("model_trend.backbone.W_pos", "decomposition is "),
    ] {
        let mut other = own.clone();
        other.tensors.insert(name.to_owned(), own.tensors["model.backbone.W_pos"].clone());
        other.write(&folder.path().join("other.safetensors"))?;
        let text = said(Pretrained::read(&folder.path().join("other.safetensors")));
        assert!(text.contains(&format!("{told}{name}; ")), "{text}");
    }
    Ok(())
}

#[test]
fn what_others_cannot_express_is_refused_by_its_option() {
    let official = |config: PatchTstConfig| said(official::expresses(&config));
    let hugging_face = |config: PatchTstConfig| said(hugging_face::expresses(&config));
    assert!(
        official(PatchTstConfig { order: Order::Pre, ..config() }).contains("cannot express order = \"pre\"")
    );
    assert!(
        official(PatchTstConfig { outputs: 3, ..config() }).contains("cannot express quantiles (3 of them)")
    );
    let norm = landfall_train::nn::NormKind::Layer;
    assert!(official(PatchTstConfig { norm, ..config() }).contains("norm = \"layer\""));
    let first = PatchTstConfig { context: 25, drop_first_rows: true, ..config() };
    assert!(official(first.clone()).contains("drop-first-rows = true"));
    assert!(hugging_face::expresses(&first).is_ok());
    let residual = PatchTstConfig { residual_attention: true, ..config() };
    assert!(hugging_face(residual.clone()).contains("cannot express residual-attention = true"));
    assert!(hugging_face::expresses(&PatchTstConfig { layers: 1, ..residual }).is_ok());
    assert!(hugging_face(PatchTstConfig { padding: true, ..config() }).contains("padding = true"));
    let last = hugging_face(PatchTstConfig { context: 26, ..config() });
    assert!(last.contains("context 26 with patch 8 and stride 4: 2 rows fill no patch"), "{last}");
}
