//! `landfall train --init zero-shot`: the pretrained forecaster, trained further on a file.

mod program;

use program::{Folder, csv};
use serde_json::Value;

const TRAIN: &str = "train --data d.csv --context 32 --horizon 8 --batch 8 --device cpu --threads 2";
const LEVELS: &str = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9";

/// Values around 0, which no power bends, so that the forecaster without a run sees what the network of a run does.
fn around_zero() -> String {
    let text = csv(300);
    let mut out = "date,load\n".to_owned();
    for line in text.lines().skip(1) {
        let mut cells = line.split(',');
        let (date, load) = (cells.next().expect("a date"), cells.next().expect("a load"));
        out += &format!("{date},{:.4}\n", load.parse::<f64>().expect("a number") - 50.0);
    }
    out
}

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", around_zero());
    f
}

fn numbers(value: &Value) -> Vec<f64> {
    if let Some(all) = value.as_array() {
        return all.iter().flat_map(numbers).collect();
    }
    vec![value.as_f64().expect("a number")]
}

#[test]
fn it_begins_where_the_forecaster_without_a_run_stands() {
    let f = folder();
    for horizon in [8, 60] {
        f.runs(&format!(
            "train --data d.csv --init zero-shot --context 60 --horizon {horizon} --quantiles {LEVELS} --max-steps 1 --lr 1e-30 \
             --device cpu --out r{horizon}"
        ));
        let run = f.runs(&format!("forecast r{horizon} --device cpu --json")).json();
        let text = around_zero();
        let rows: Vec<&str> = text.lines().collect();
        f.write("last.csv", format!("{}\n{}\n", rows[0], rows[rows.len() - 60..].join("\n")));
        let alone = f.runs(&format!(
            "forecast --data last.csv --horizon {horizon} --quantiles {LEVELS} --no-interval --device cpu --json"
        ));
        let (ours, theirs) = (numbers(&run["quantiles"]), numbers(&alone.json()["quantiles"]));
        assert_eq!((ours.len(), theirs.len()), (9 * horizon, 9 * horizon));
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() < 2e-5, "{horizon} rows: {a} {b}");
        }
    }
}

#[test]
fn its_first_weights_are_validated_and_it_learns() {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    let ran = f.runs(&format!("{TRAIN} --init zero-shot --max-steps 20 --json --out run"));
    assert!(ran.json()["mse"].as_f64().is_some_and(f64::is_finite));
    let lines: Vec<Value> =
        f.read("run/metrics.jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let validation: Vec<&Value> = lines.iter().filter(|line| line["split"] == "validation").collect();
    assert_eq!(validation[0]["step"], 0, "the weights that were given are validated");
    let error = |line: &&Value| line["mse"].as_f64().expect("an error");
    let best = validation.iter().map(error).fold(f64::MAX, f64::min);
    assert!(best < error(&validation[0]), "{validation:?}");
    let config = f.read("run/config.toml");
    assert!(config.contains("init = \"zero-shot\"") && config.contains("lr = 0.0001"), "{config}");
    // Every door of a run takes it.
    assert_eq!(f.runs("forecast run").out.lines().count(), 9);
    f.runs("evaluate run");
    f.runs("export run --onnx run.onnx");
    // The model's name stands for the same.
    f.runs(&format!("{TRAIN} --model zero-shot --max-steps 2 --out named"));
    assert!(f.read("named/config.toml").contains("init = \"zero-shot\""));
    f.runs("train --resume named --max-steps 3");
    // It competes with others.
    f.runs("train --data d.csv --candidates zero-shot,nlinear --context 40 --horizon 30 --max-steps 1 --batch 4 --out many");
    assert!(f.read("many/choice.json").contains("\"zero-shot\""));
}

#[test]
fn sizes_of_a_network_that_no_rows_train_are_of_no_use() {
    let f = folder();
    f.write("small.toml", "[network]\nd-model = 16\npatch = 4\n");
    let ran = f
        .runs("train --data d.csv --model patchtst --config small.toml --horizon 290 --device cpu --out run");
    assert!(ran.err.contains("too few for a test window"), "{}", ran.err);
}

#[test]
fn what_it_cannot_be_is_refused() {
    let f = folder();
    for (flags, told) in [
        ("--model dlinear", "leave the model out"),
        ("--quantiles 0.1,0.5,0.9", "its quantiles are 0.1,0.2"),
        ("--loss normal", "outputs is"),
        ("--context 2000", "context is 2000; it must be at most 1024"),
        ("--horizon 400", "so few rows"),
        (
            &format!("--quantiles {LEVELS} --horizon 130"),
            "horizon is 130; with quantiles it must be at most 128",
        ),
    ] {
        let flags_of = if flags.contains("--context") { "" } else { "--context 64" };
        let horizon = if flags.contains("--horizon") { "" } else { "--horizon 8" };
        let text = f.refused(&format!("train --data d.csv --init zero-shot {flags_of} {horizon} {flags}"));
        assert!(text.contains(told), "{flags}: {text}");
    }
}
