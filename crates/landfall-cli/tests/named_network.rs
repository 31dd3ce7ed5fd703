//! A Chronos as the pretrained network of the default recipe's ensemble.

mod program;

use landfall_forecast::chronos::Weights;
use program::known::rows;
use program::{Folder, chronos};
use serde_json::Value;
use std::path::Path;

const ON: &str = "--device cpu --threads 2";
const TRAIN: &str = "--data d.csv --columns sales --horizon 6 --device cpu --threads 2";

/// A small Chronos-2, and sales.
fn folder() -> Folder {
    let f = Folder::new();
    chronos::folder(&f.path().join("small"));
    f.write("d.csv", rows(0, 200, &["sales"]));
    f
}

/// Writes other weights of the same sizes.
fn change(path: &Path) {
    let sizes = match Weights::read(path).expect("weights").network {
        landfall_train::models::chronos::Network::Chronos2(network) => network.config().clone(),
        landfall_train::models::chronos::Network::Bolt(_) => panic!("a Chronos-2"),
    };
    Weights::initial(sizes, 2).and_then(|weights| weights.write(path)).expect("written");
}

/// The forecast values of a CSV.
fn sales(text: &str) -> Vec<f64> {
    let cell = |line: &str| line.split(',').nth(1).expect("a cell").parse().expect("a number");
    text.lines().skip(1).map(cell).collect()
}

fn names(choice: &Value) -> Vec<&str> {
    choice["candidates"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect()
}

#[test]
fn alone_it_forecasts_as_without_a_run_and_other_weights_are_refused() {
    let f = folder();
    let words = format!("{TRAIN} --ensemble pretrained --candidates none --pretrained small --out run");
    let ran = f.runs(&format!("train {words}"));
    assert!(ran.out.contains("Forecaster: chronos-2"), "{}", ran.out);
    let choice: Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    assert_eq!(choice["winner"]["name"], "chronos-2");
    let config = f.read("run/config.toml");
    assert!(config.contains("[pretrained-weights]\nname = \"chronos-2\"\nsha256 = \""), "{config}");
    // Rows that came later are followed.
    f.write("later.csv", rows(30, 190, &["sales"]));
    for data in ["d.csv", "later.csv"] {
        let [own, without] = ["forecast run", "forecast --pretrained small --columns sales --horizon 6"]
            .map(|words| sales(&f.runs(&format!("{words} --data {data} --no-interval {ON}")).out));
        assert_eq!((own.len(), without.len()), (6, 6));
        // A run rounds by the deviation of its rows, a forecast without one by half their range.
        assert!(own.iter().zip(&without).all(|(a, b)| (a - b).abs() < 5.1e-5), "{own:?} {without:?}");
    }
    f.runs(&format!("evaluate run {ON}"));
    let ran = f.run("export run --onnx m.onnx");
    assert!(ran.code == Some(2) && ran.err.contains("form in ONNX"), "{}", ran.err);
    change(&f.path().join("small"));
    for words in ["forecast run", "evaluate run", "serve run --port 0"] {
        let ran = f.run(&format!("{words} {ON}"));
        let why = "its options or values are not those that the run was made with; bring the weights of the run back, or train it again";
        assert!(ran.code != Some(0) && ran.err.contains(why), "{}", ran.err);
    }
    std::fs::remove_dir_all(f.path().join("small")).expect("removed");
    let ran = f.run(&format!("forecast run {ON}"));
    assert!(ran.code != Some(0) && ran.err.contains("small: nothing is there; bring"), "{}", ran.err);
}

#[test]
fn it_is_half_of_the_ensemble_and_competes_with_networks() {
    let f = folder();
    let train = |words: &str| f.runs(&format!("train {TRAIN} --candidates nlinear {words}"));
    train("--ensemble all --pretrained small --out half");
    train("--ensemble all --out shipped");
    train("--ensemble all --pretrained zero-shot --out named");
    let read =
        |run: &str| -> Value { serde_json::from_str(&f.read(&format!("{run}/choice.json"))).expect("JSON") };
    let (half, shipped) = (read("half"), read("shipped"));
    for name in ["ensemble with chronos-2", "mean of nlinear and ensemble with chronos-2", "nlinear"] {
        assert!(names(&half).contains(&name), "{name} {half}");
    }
    assert!(names(&shipped).contains(&"ensemble") && half["ensemble"]["mse"] != shipped["ensemble"]["mse"]);
    // The network that the program carries may be named too.
    assert_eq!(read("named")["ensemble"], shipped["ensemble"]);
    assert!(!f.read("named/config.toml").contains("pretrained-weights"));
}

#[test]
fn a_run_goes_on_with_the_same_weights_alone() {
    let f = folder();
    f.runs(&format!(
        "train {TRAIN} --candidates patchtst,nlinear --ensemble all --pretrained small --max-steps 4 --out run"
    ));
    let before = f.read("run/config.toml");
    f.runs("train --resume run --max-steps 6");
    let after = f.read("run/config.toml");
    let table =
        |config: &str| config.split("[pretrained-weights]").nth(1).map(str::to_owned).expect("a table");
    assert_eq!(table(&before).split('[').next(), table(&after).split('[').next());
    f.runs(&format!("forecast run {ON}"));
    change(&f.path().join("small"));
    let why = f.refused("train --resume run --max-steps 8");
    assert!(why.contains("not those that the run was made with"), "{why}");
    let why = f.refused("train --resume run --pretrained small");
    assert!(why.contains("--pretrained and --resume: a resumed run keeps its settings"), "{why}");
}

#[test]
fn it_is_refused_where_no_ensemble_has_a_network() {
    let f = folder();
    for (words, told) in [
        (
            "--ensemble ets",
            "--pretrained and --ensemble ets: it is the network of the default recipe's ensemble",
        ),
        ("--ensemble none", "--pretrained and --ensemble none"),
        ("--ensemble statistical", "give --ensemble all or --ensemble pretrained"),
        ("--model nlinear", "--pretrained and --model without --ensemble"),
        ("--candidates none", "--pretrained and --candidates without --ensemble"),
        ("--preset patchtst-42", "--pretrained and --preset patchtst-42"),
        ("--quantiles 0.1,0.5,0.9", "--pretrained and another loss than mse"),
        ("--horizon 600 --context 12", "that network forecasts at most 512 rows"),
    ] {
        let train =
            if words.contains("horizon") { TRAIN.replace("--horizon 6 ", "") } else { TRAIN.to_owned() };
        let why = f.refused(&format!("train {train} --pretrained small {words}"));
        assert!(why.contains(told), "{words}: {why}");
    }
    let why = f.refused(&format!("train {TRAIN} --pretrained none"));
    assert!(why.contains("none"), "{why}");
    std::fs::create_dir(f.path().join("empty")).expect("a folder");
    let why = f.refused(&format!("train {TRAIN} --pretrained empty"));
    assert!(why.contains("give a folder with config.json and model.safetensors"), "{why}");
}

#[test]
fn a_comparison_has_it_in_place_of_the_shipped_one() {
    let f = folder();
    let ran = f.runs(&format!(
        "compare {TRAIN} --candidates ets,pretrained,ensemble,seasonal-naive --pretrained small --out board --json"
    ));
    let rows = ran.json();
    let of = |candidate: &str| {
        let rows = rows["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["candidate"] == candidate).expect(candidate);
        assert!(row["failed"].is_null(), "{row}");
        row["forecaster"].as_str().expect("a name").to_owned()
    };
    assert_eq!(["pretrained", "ensemble", "ets"].map(of), ["chronos-2", "ensemble with chronos-2", "ets"]);
}
