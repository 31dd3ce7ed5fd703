//! Models, losses, quantiles, early stopping and several seeds through the program.

mod program;

use program::{Folder, SMALL, csv, native};

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f
}

const DLINEAR: &str =
    "train --data d.csv --preset dlinear --context 32 --horizon 8 --batch 16 --log-every 100";

#[test]
fn dlinear_trains_early_stops_resumes_and_forecasts() {
    let f = folder();
    let ran =
        f.runs(&format!("{DLINEAR} --lr 0.5 --schedule constant --epochs 40 --patience 2 --json --out run"));
    let ended = ran.out.lines().find(|l| l.starts_with("stopped after")).expect("an early stop");
    let steps: usize = ended.split(' ').nth(2).and_then(|w| w.parse().ok()).expect("a number");
    let per_epoch = 10;
    let epochs = steps / per_epoch;
    assert!(epochs < 40 && ended.ends_with("2 validations without improvement"), "{ended}");
    let object = ran.json();
    assert_eq!(object["steps"].as_u64(), Some(steps as u64));
    // The best epoch is two before the last, and its weights are the ones tested.
    let metrics = f.read("run/metrics.jsonl");
    let test = metrics.lines().last().expect("lines");
    assert!(test.contains(&format!("{{\"step\":{},\"split\":\"test\"", (epochs - 2) * per_epoch)), "{test}");
    assert_eq!(object["configuration"].as_str().map(str::len), Some(12));
    assert!(ran.out.contains(&format!("configuration {}", object["configuration"].as_str().expect("text"))));
    let forecast = f.runs("forecast run").out;
    assert_eq!(forecast.lines().next(), Some("date,load,wind"));
    assert_eq!(forecast.lines().count(), 9);
    f.runs("evaluate run");
}

#[test]
fn nbeats_learns_a_season_and_forecasts() {
    let f = folder();
    let sizes = "--context 48 --horizon 8 --seed 1";
    f.write("small.toml", "[network]\nblocks = 2\nlayers = 2\nd-ff = 32\n");
    let ran = f.runs(&format!(
        "train --data d.csv --model nbeats --config small.toml {sizes} --max-steps 150 --json --out run"
    ));
    assert!(ran.json()["mse"].as_f64().is_some_and(f64::is_finite));
    let choice: serde_json::Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    let mse = |name: &str| {
        let candidates = choice["candidates"].as_array().expect("a list");
        candidates.iter().find(|c| c["name"] == name).and_then(|c| c["mse"].as_f64()).expect(name)
    };
    assert!(mse("nbeats") < 0.8 * mse("last value"), "{choice}");
    assert!(f.read("run/config.toml").contains("model = \"nbeats\""));
    let forecast = f.runs("forecast run").out;
    assert_eq!(forecast.lines().count(), 9);
    // With quantiles and in bf16 too; of an option that it does not have the nearest is named.
    f.runs(&format!(
        "train --data d.csv --model nbeats {sizes} --quantiles 0.1,0.5,0.9 --dtype bf16 --max-steps 5 --out q"
    ));
    f.write("c.toml", "[network]\nd-model = 3\n");
    let text = f.refused("train --data d.csv --model nbeats --config c.toml --horizon 8 --context 48");
    assert!(text.contains("that model has no such option"), "{text}");
}

#[test]
fn quantiles_stand_beside_the_point_forecast() {
    let f = folder();
    let ran = f.runs(&format!("{DLINEAR} --max-steps 30 --quantiles 0.1,0.5,0.9 --json --out run"));
    let scores = &ran.json()["quantiles"];
    assert_eq!(scores["coverage_nominal"].as_f64(), Some(0.8));
    assert!(scores["pinball"].as_f64().is_some_and(|p| p > 0.0 && p.is_finite()), "{scores}");
    assert!(ran.out.contains("% (nominal 80 %)"), "{}", ran.out);
    let text = f.runs("forecast run").out;
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("date,load,load_q0.1,load_q0.5,load_q0.9,wind,wind_q0.1,wind_q0.5,wind_q0.9")
    );
    for line in lines {
        let cells: Vec<f64> = line.split(',').skip(1).map(|c| c.parse().expect("a number")).collect();
        for c in cells.chunks_exact(4) {
            assert!(c[0] == c[2] && c[1] <= c[2] && c[2] <= c[3], "{line}");
        }
    }
    let object = f.runs("forecast run --json").json();
    assert_eq!(object["levels"], serde_json::json!([0.1, 0.5, 0.9]));
    assert_eq!(object["quantiles"][1][2].as_array().map(Vec::len), Some(8));
    assert_eq!(object["quantiles"][0][1], object["values"][0]);
    // PatchTST's head is as wide as the levels ask, and weights of another width are refused.
    f.runs(&format!("{SMALL} --max-steps 2 --quantiles 0.25,0.5,0.75 --out wide"));
    let error = f.refused(&format!("{SMALL} --max-steps 2 --init wide/best.safetensors --out narrow"));
    assert!(error.contains("model.head.linear.weight"), "{error}");
}

#[test]
fn a_run_draws_as_it_is_told_and_resumes_its_order() {
    let f = folder();
    let records = |run: &str| {
        let all = f.read(&format!("{run}/metrics.jsonl"));
        all.lines().filter(|l| l.contains("\"loss\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    // Ten steps an epoch: the second part begins in the middle of the second one.
    f.runs(&format!("{DLINEAR} --epochs 3 --seed 9 --out whole"));
    assert!(f.read("whole/config.toml").contains("draws = \"pytorch\""), "{}", f.read("whole/config.toml"));
    f.runs(&format!("{DLINEAR} --epochs 3 --seed 9 --draws pytorch --out same"));
    f.runs(&format!("{DLINEAR} --epochs 3 --seed 9 --draws philox --out ours"));
    f.runs(&format!("{DLINEAR} --epochs 3 --seed 9 --order sequential --out in-order"));
    let whole = records("whole");
    assert_eq!(whole.len(), 30);
    assert_eq!(whole, records("same"));
    f.runs(&format!("{DLINEAR} --max-steps 15 --seed 9 --out parts"));
    f.runs("train --resume parts --max-steps 30");
    assert_eq!(whole, records("parts"));
    for other in ["ours", "in-order"] {
        assert!(whole.iter().zip(records(other)).all(|(a, b)| *a != b), "{other}");
    }
}

#[test]
fn several_seeds_make_a_table() {
    let f = folder();
    let ran = f.runs(&format!("{DLINEAR} --epochs 1 --seeds 3,1,4 --json --out all"));
    let object = ran.json();
    let mses: Vec<f64> = ["seed-3", "seed-1", "seed-4"]
        .iter()
        .map(|seed| {
            let metrics = f.read(&format!("all/{seed}/metrics.jsonl"));
            let line: serde_json::Value =
                serde_json::from_str(metrics.lines().last().expect("lines")).expect("JSON");
            line["mse"].as_f64().expect("a number")
        })
        .collect();
    let mean = mses.iter().sum::<f64>() / 3.0;
    let deviation = (mses.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert!(deviation > 0.0);
    assert!((object["mse"]["mean"].as_f64().expect("mean") - mean).abs() < 1e-15);
    assert!((object["mse"]["std"].as_f64().expect("std") - deviation).abs() < 1e-15);
    assert!(ran.out.contains(&format!("{mean:.6}")) && ran.out.contains("standard deviation"), "{}", ran.out);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&f.read("all/summary.json")).expect("JSON"), object);
    assert_eq!(
        f.refused("forecast all"),
        format!("all holds the runs of several seeds; name one of them, as {}", native("all/seed-1"))
    );
    // A seed is no part of the configuration; what changes a result is.
    let alone = f.runs(&format!("{DLINEAR} --epochs 1 --seed 9 --json --out one")).json();
    assert_eq!(alone["configuration"], object["configuration"]);
    let other = f.runs(&format!("{DLINEAR} --epochs 1 --lr 0.1 --json --out two")).json();
    assert_ne!(other["configuration"], object["configuration"]);
}

#[test]
fn losses_train_by_name() {
    let f = folder();
    for loss in ["mae", "huber", "huber --huber-delta 0.5"] {
        let out = loss.replace([' ', '.'], "");
        f.runs(&format!("{DLINEAR} --max-steps 3 --loss {loss} --out {out}"));
    }
    let delta = f.read("huber--huber-delta05/config.toml");
    assert!(delta.contains("loss = \"huber\"") && delta.contains("huber-delta = 0.5"), "{delta}");
    f.runs("evaluate huber--huber-delta05");
}

#[test]
fn what_does_not_fit_is_refused() {
    let f = folder();
    for (flags, text) in [
        ("--seeds 1", "--seeds 1: give at least two, each once (--seed takes one)"),
        ("--seeds 1,2,1", "--seeds 1,2,1: give at least two, each once (--seed takes one)"),
        (
            "--quantiles 0.1,0.9",
            "--quantiles 0.1,0.9: they must be between 0 and 1, ascending, with 0.5 (the point forecast) among them",
        ),
        (
            "--quantiles 0.5 --loss mae",
            "--quantiles and --loss mae: quantiles are trained by the quantile loss; leave one of them out",
        ),
        (
            "--loss quantile",
            "--loss quantile and no --quantiles: it needs levels; give them, as in --quantiles 0.1,0.5,0.9",
        ),
        (
            "--loss l2",
            "unknown loss `l2`; choose from mse, mae, huber, quantile, normal, student-t, negative-binomial, cross-entropy",
        ),
        (
            "--huber-delta 1",
            "--huber-delta and another loss than huber: it belongs to that loss; give --loss huber, or leave it out",
        ),
        ("--loss huber --huber-delta 0", "--huber-delta 0.0: it must be above 0"),
        (
            "--patience 2 --max-steps 5",
            "--patience 2 and --max-steps 5: a run of so many steps is validated once, at its end; use --epochs",
        ),
        ("--dropout 0.1", "--dropout and --preset dlinear: that model has no such option; leave it out"),
    ] {
        assert_eq!(f.refused(&format!("{DLINEAR} {flags} --out run")), text);
    }
    f.write("c.toml", "[network]\nkernel = 4\n");
    assert_eq!(
        f.refused("train --data d.csv --preset dlinear --config c.toml --out run"),
        "kernel is 4; it must be odd, to have a middle row"
    );
    assert_eq!(
        f.refused("train --data d.csv --preset patchtst-42 --config c.toml --out run"),
        "[network] kernel and --preset patchtst-42: that model has no such option; leave it out"
    );
    assert_eq!(
        f.refused("train --model window-regressor --quantiles 0.5 --out run"),
        "--quantiles and --model window-regressor: it predicts one value for a window; leave one of them out"
    );
}
