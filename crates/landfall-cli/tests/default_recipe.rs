//! The default recipe: `landfall train --data F --horizon H` chooses sizes and a forecaster.

mod program;

use program::Folder;
use serde_json::Value;

/// A monthly series of counts that doubles over its length and swings by a third each year, with a little noise.
fn counts(rows: usize) -> String {
    let row = |i: usize| {
        let (year, month) = (1980 + i / 12, i % 12 + 1);
        let season = 1.0 + 0.3 * (i as f64 * std::f64::consts::TAU / 12.0).sin();
        let noise = ((i * 7919 % 101) as f64 - 50.0) * 0.2;
        let value = (200.0 * (1.0 + i as f64 / rows as f64) * season + noise).round();
        format!("{year}-{month:02}-01,{value}\n")
    };
    format!("date,sales\n{}", (0..rows).map(row).collect::<String>())
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_forecaster_is_chosen_scored_kept_and_forecasts() {
    let f = Folder::new();
    f.write("sales.csv", counts(120));
    let words = "train --data sales.csv --horizon 6 --period 12 --max-steps 4 --json --out run";
    let ran = f.runs(words);
    let object = ran.json();
    let winner = object["winner"].as_str().expect("a winner").to_owned();
    assert!(winner.contains("linear"), "{winner} on a linear series of a season");
    assert!(number(&object["mse"]) < 0.2 * number(&object["seasonal-naive"]["mse"]), "{object}");
    assert_eq!(object["context"].as_u64(), Some(24));
    // Validation has 7 windows, so rolling origins choose, and both are said.
    assert_eq!(object["choice"]["rolling"], Value::Bool(true));
    assert!(ran.out.contains("chosen by rolling origins before the test rows"), "{}", ran.out);
    assert!(ran.out.contains("Test has 19 windows: these errors may be chance"), "{}", ran.out);

    // The folder scores as the run did, and the choice stands in it with every candidate.
    let evaluated = f.runs("evaluate run --json").json();
    assert_eq!((&evaluated["mse"], &evaluated["mae"]), (&object["mse"], &object["mae"]));
    let choice: Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    let candidates = choice["candidates"].as_array().expect("candidates");
    let errors: Vec<f64> = candidates.iter().map(|c| number(&c["mse"])).collect();
    assert!(errors.is_sorted() && candidates[0]["name"] == winner.as_str(), "{choice}");
    for name in ["patchtst", "nlinear", "last value", "seasonal naive (12)"] {
        assert!(candidates.iter().any(|c| c["name"] == name), "{name} in {choice}");
    }
    assert!(f.read("run/config.toml").contains("non-negative = [\"sales\"]"));

    // Appended rows are forecast from, without training again.
    let forecast = f.runs("forecast run").out;
    assert!(forecast.starts_with("date,sales\n1990-01-01,"), "{forecast}");
    f.write("more.csv", counts(123));
    assert!(f.runs("forecast run --data more.csv").out.starts_with("date,sales\n1990-04-01,"));

    // The same words give the same bytes.
    f.runs(&words.replace("--out run", "--out again"));
    assert_eq!(f.read("again/choice.json"), f.read("run/choice.json"));
    assert_eq!(f.runs("forecast again").out, forecast);
}

#[test]
fn quantiles_leave_networks_to_choose_from() {
    let f = Folder::new();
    f.write("sales.csv", counts(120));
    let flags = "--quantiles 0.1,0.5,0.9 --interval 80,95 --out run";
    let ran = f.runs(&format!("train --data sales.csv --horizon 6 --period 12 --max-steps 4 {flags}"));
    let why = "Only networks have quantiles, so that one of them is chosen.\n";
    assert!(ran.out.contains("Forecaster: patchtst, chosen") && ran.out.contains(why), "{}", ran.out);
    // Rolling origins give the forecast more errors than validation has windows for a baseline's.
    let alone = "No intervals of seasonal naive (12) stand beside those of the forecast: validation has too few windows for them";
    assert!(ran.out.contains(alone), "{}", ran.out);
    f.runs("report run");
    let report = f.read("run/report.html");
    assert!(report.contains("RMSSE: patchtst ") && report.contains("so that one of them is chosen"));
    assert!(report.contains(alone));
}

#[test]
fn counts_near_zero_get_no_negative_forecast() {
    let f = Folder::new();
    let row = |i: usize| {
        format!("2020-01-{:02} {:02}:00,{}\n", 1 + i / 24, i % 24, if i.is_multiple_of(9) { 3 } else { 0 })
    };
    f.write("rain.csv", format!("date,rain\n{}", (0..400).map(row).collect::<String>()));
    f.runs("train --data rain.csv --horizon 4 --period 24 --max-steps 2 --model nlinear --out run");
    let lowest = f
        .runs("forecast run")
        .out
        .lines()
        .skip(1)
        .map(|l| l.split_once(',').and_then(|(_, v)| v.parse::<f64>().ok()).expect("a number"))
        .fold(f64::INFINITY, f64::min);
    assert!(lowest >= 0.0, "{lowest}");
}

#[test]
fn a_series_that_nothing_forecasts_says_so_first() {
    let f = Folder::new();
    let mut level = 100.0;
    let mut state = 12_345_u64;
    let mut row = |i: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        level += (state >> 40) as f64 / f64::from(1 << 24) - 0.5;
        format!("2020-01-{:02} {:02}:00,{level}\n", 1 + i / 24, i % 24)
    };
    f.write("walk.csv", format!("date,price\n{}", (0..600).map(&mut row).collect::<String>()));
    let ran = f
        .runs("train --data walk.csv --horizon 4 --period 24 --max-steps 2 --model nlinear --json --out run");
    let object = ran.json();
    let better = number(&object["last-value"]["mse"]).min(number(&object["seasonal-naive"]["mse"]));
    assert_eq!(number(&object["mse"]) >= better, ran.out.contains("Try a longer series"), "{}", ran.out);
}

#[test]
fn candidates_that_are_named_compete_alone() {
    let f = Folder::new();
    f.write("sales.csv", counts(120));
    let words = "train --data sales.csv --horizon 6 --period 12";
    let named = |run: &str| -> Vec<String> {
        let choice: Value = serde_json::from_str(&f.read(&format!("{run}/choice.json"))).expect("JSON");
        let candidates = choice["candidates"].as_array().expect("candidates");
        candidates.iter().map(|c| c["name"].as_str().expect("a name").to_owned()).collect()
    };
    // Nothing is trained by steps, whatever number of them is asked for, and DLinear competes with few windows too.
    let ran = f.runs(&format!("{words} --candidates dlinear,nlinear --json --out linear"));
    assert!(ran.out.contains("ridge regression, in no steps"), "{}", ran.out);
    let names = named("linear");
    for name in ["nlinear", "dlinear", "last value", "mean of dlinear and seasonal naive (12)"] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|n| n.contains("patchtst")), "{names:?}");
    assert!(f.read("linear/config.toml").contains("candidates = [\"dlinear\", \"nlinear\"]"));
    assert_eq!(f.runs("forecast linear").out.lines().count(), 7);
    assert_eq!(f.runs("evaluate linear --json").json()["mse"], ran.json()["mse"]);
    // Another network takes PatchTST's place.
    f.write("small.toml", "candidates = [\"tsmixer\", \"nlinear\"]\n[network]\nlayers = 1\nd-ff = 8\n");
    f.runs(&format!("{words} --config small.toml --max-steps 4 --out mixed"));
    let names = named("mixed");
    assert!(names.iter().any(|n| n == "tsmixer") && !names.iter().any(|n| n == "patchtst"), "{names:?}");
    assert_eq!(f.runs("forecast mixed").out.lines().count(), 7);

    for (wrong, says) in [
        (
            "--candidates nlinear --model tide",
            "--candidates and --model tide: that is the only candidate; leave one of them out",
        ),
        (
            "--candidates nlinear --preset dlinear",
            "--candidates and --preset dlinear: a preset is of one model; leave one of them out",
        ),
        ("--candidates tide,tsmixer", "--candidates tide,tsmixer: at most one besides dlinear and nlinear"),
        ("--candidates nlinear,nlinear", "--candidates nlinear,nlinear: a network is named twice"),
        ("--candidates cross-asset", "--candidates cross-asset: name networks that forecast rows"),
        (
            "--candidates nlinear,dlinear --loss mae",
            "--candidates and another loss than mse: networks are compared by",
        ),
        ("--candidates linear", "invalid value 'linear' for '--candidates <A,B>': did you mean `dlinear`?"),
    ] {
        let text = f.refused(&format!("{words} {wrong} --out never"));
        assert!(text.starts_with(says), "{text}");
    }
}
