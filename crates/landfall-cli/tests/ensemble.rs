//! The ensemble of the default recipe: who forecasts, from which rows, and with which intervals.

mod program;

use program::Folder;
use serde_json::Value;

/// The month of a row, from 2000 on.
fn month(row: usize) -> String {
    format!("{}-{:02}-01", 2000 + row / 12, row % 12 + 1)
}

/// A trend with a yearly season, of a series.
fn value(series: usize, row: usize) -> f64 {
    const SEASON: [f64; 12] = [8.0, -3.0, 0.0, 5.0, -9.0, 2.0, 4.0, -6.0, 1.0, 7.0, -4.0, -5.0];
    let noise = ((row * 37 + series * 101) % 23) as f64 / 23.0 - 0.5;
    100.0 + 20.0 * series as f64 + 0.4 * row as f64 + SEASON[(row + series) % 12] + 2.0 * noise
}

/// Monthly series in long form, each of its rows from a first one on.
fn monthly(series: &[(usize, std::ops::Range<usize>)]) -> String {
    let mut text = "id,ds,y\n".to_owned();
    for (number, rows) in series {
        for row in rows.clone() {
            text += &format!("s{number},{},{}\n", month(row), value(*number, row));
        }
    }
    text
}

const TRAIN: &str = "--series-id id --columns y --max-steps 4 --device cpu --threads 2";

/// Cells of the rows of a series.
fn cells(text: &str, series: &str) -> Vec<Vec<f64>> {
    let own = text.lines().filter(|line| line.starts_with(&format!("{series},")));
    own.map(|line| line.split(',').skip(2).map(|cell| cell.parse().expect("a number")).collect()).collect()
}

#[test]
fn every_series_has_a_forecast_and_intervals_and_later_rows_are_followed() {
    let f = Folder::new();
    // Two that are long enough for windows, and two that are not.
    f.write("d.csv", monthly(&[(0, 0..72), (1, 0..60), (2, 50..72), (3, 69..72)]));
    f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --out run"));
    let choice: Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    let names: Vec<&str> =
        choice["candidates"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(names.contains(&"ensemble") && names.contains(&"mean of nlinear and ensemble"), "{names:?}");
    assert_eq!(choice["metric"], "rmsse");
    let config = f.read("run/config.toml");
    assert!(config.contains("\nensemble = true\n"), "{config}");
    // 99 % needs more windows than a series has: the ensemble's own spread takes their place.
    let ran = f.runs("forecast run --interval 80,99");
    assert!(ran.err.contains("the intervals are those of the ensemble's members"), "{}", ran.err);
    for (series, number, from) in [("s0", 0, 72), ("s1", 1, 60), ("s2", 2, 72), ("s3", 3, 72)] {
        let rows = cells(&ran.out, series);
        assert_eq!(rows.len(), 6, "{}", ran.out);
        for (step, row) in rows.iter().enumerate() {
            let [y, low80, high80, low99, high99] = row[..] else { panic!("{row:?}") };
            assert!(low99 < low80 && low80 < y && y < high80 && high80 < high99, "{row:?}");
            // Three rows show no season.
            let far = if number == 3 { 30.0 } else { 6.0 };
            assert!((y - value(number, from + step)).abs() < far, "{series} {step}: {y}");
        }
    }
    // Past windows have no such intervals, and are scored without them.
    f.runs("evaluate run --interval 99 --predictions p.csv");
    assert!(!f.read("p.csv").contains("-lo-99"), "{:.100}", f.read("p.csv"));
    f.runs("report run --interval 99");
    // The season keeps its phase in a file that begins later and ends later.
    f.write("later.csv", monthly(&[(0, 31..77), (1, 0..65)]));
    let ran = f.runs("forecast run --data later.csv --no-interval");
    for (series, number, from) in [("s0", 0, 77), ("s1", 1, 65)] {
        for (step, row) in cells(&ran.out, series).iter().enumerate() {
            assert!((row[0] - value(number, from + step)).abs() < 6.0, "{series} {step}: {}", row[0]);
        }
    }
    let ran = f.run("export run --onnx m.onnx");
    let why = "forecasts by its ensemble, whose statistical models have no form in ONNX; train it with --ensemble none";
    assert!(ran.code != Some(0) && ran.err.contains(why), "{}", ran.err);
}

#[test]
fn its_members_are_a_setting_and_its_file_is_needed() {
    let f = Folder::new();
    f.write("d.csv", monthly(&[(0, 0..72), (1, 0..72)]));
    f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --ensemble none --out without"));
    assert!(
        !f.path().join("without/ensemble.json").exists()
            && !f.read("without/choice.json").contains("ensemble")
    );
    f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --model nlinear --out asked"));
    assert!(!f.read("asked/choice.json").contains("ensemble"));
    for members in ["all", "statistical"] {
        f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --ensemble {members} --out {members}"));
        let models = f.read(&format!("{members}/ensemble.json"));
        assert!(models.starts_with(&format!("{{\"members\":\"{members}\",\"season\":12,")), "{models:.60}");
    }
    let [all, statistical] = ["all", "statistical"].map(|run| f.runs(&format!("forecast {run}")).out);
    assert_ne!(all, statistical);
    std::fs::remove_file(f.path().join("all/ensemble.json")).expect("a file");
    let ran = f.run("forecast all");
    assert!(ran.code != Some(0) && ran.err.contains("ensemble.json is not in its directory"), "{}", ran.err);
}

#[test]
fn a_history_without_a_test_is_forecast_by_it() {
    let f = Folder::new();
    f.write("d.csv", monthly(&[(0, 0..15), (1, 0..9)]));
    let ran = f.runs(&format!("train --data d.csv {TRAIN} --horizon 12 --interval 80 --out run"));
    assert!(ran.err.contains("the forecast is the ensemble's"), "{}", ran.err);
    let ran = f.runs("forecast run --interval 80");
    for series in ["s0", "s1"] {
        let rows = cells(&ran.out, series);
        assert!(rows.len() == 12 && rows.iter().all(|row| row[1] < row[0] && row[0] < row[2]), "{}", ran.out);
    }
}

#[test]
fn levels_that_a_network_has_too_few_windows_for_cost_no_run() {
    let f = Folder::new();
    // Waves that a linear map continues exactly, with no season that a model of seasons could find.
    let mut text = "id,ds,y\n".to_owned();
    for row in 0..72 {
        let t = row as f64;
        text += &format!("s,{},{}\n", month(row), 50.0 + 9.0 * (t * 0.861).sin() + 7.0 * (t * 2.027).sin());
    }
    f.write("d.csv", text);
    let ran = f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --interval 99 --out run"));
    assert!(ran.out.contains("Forecaster: nlinear, chosen by "), "{}", ran.out);
    assert!(ran.out.contains("The run has no intervals: --interval 99: series `s` has "), "{}", ran.out);
    for words in ["forecast run", "evaluate run", "report run"] {
        f.runs(words);
    }
    let why = f.refused("forecast run --interval 99");
    assert!(why.contains("needs 99"), "{why}");
}

#[test]
fn of_many_long_series_the_last_rows_test_and_nlinear_is_the_only_network() {
    let f = Folder::new();
    let all: Vec<_> = (0..22).map(|series| (series, 0..1300)).collect();
    f.write("d.csv", monthly(&all));
    let ran = f.runs(
        "train --data d.csv --series-id id --columns y --ensemble statistical --context 8 --horizon 4 --device cpu --out run",
    );
    let told = format!("{}{}", ran.out, ran.err);
    assert!(told.contains("the last 4 rows of each of the 22 series test"), "{told}");
    let choice: Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    let names: Vec<&str> =
        choice["candidates"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(names.contains(&"ensemble") && names.contains(&"nlinear"), "{names:?}");
    assert!(
        !names.contains(&"patchtst") && choice["rolling"] == true && choice["left_out"].is_null(),
        "{choice}"
    );
    let config = f.read("run/config.toml");
    assert!(config.contains("split = \"last:4\"") && config.contains("model = \"nlinear\""), "{config}");
    assert!(config.contains("ensemble = \"statistical\""), "{config}");
    let rows = f.runs("forecast run --interval 80");
    assert!(cells(&rows.out, "s21").iter().all(|row| row.len() == 3 && row[1] < row[0] && row[0] < row[2]));
    f.runs("evaluate run");
}

#[test]
fn an_ensemble_that_is_asked_for_competes_beside_a_model_that_is() {
    let f = Folder::new();
    f.write("d.csv", monthly(&[(0, 0..72), (1, 0..60)]));
    let names = |run: &str| {
        let choice: Value = serde_json::from_str(&f.read(&format!("{run}/choice.json"))).expect("JSON");
        let all = choice["candidates"].as_array().expect("a list").clone();
        all.iter().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    f.runs(&format!(
        "train --data d.csv {TRAIN} --horizon 6 --model nlinear --ensemble statistical --out both"
    ));
    assert!(names("both").contains(&"mean of nlinear and ensemble".to_owned()), "{:?}", names("both"));
    f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --model nlinear --out alone"));
    // Of many series it is not replaced by NLinear either.
    f.write("many.csv", monthly(&(0..20).map(|series| (series, 0..60)).collect::<Vec<_>>()));
    f.runs(&format!(
        "train --data many.csv {TRAIN} --horizon 6 --model tide --ensemble statistical --out many"
    ));
    assert!(names("many").contains(&"mean of tide and ensemble".to_owned()), "{:?}", names("many"));
    assert!(!names("alone").iter().any(|name| name.contains("ensemble")), "{:?}", names("alone"));
}

#[test]
fn intervals_of_many_short_series_are_of_the_errors_of_all_and_hold() {
    let f = Folder::new();
    // A level and noise, of which more rows teach nothing.
    let noise =
        |series: usize, row: usize| ((row * 7919 + series * 104_729 + row * row * 31) % 1009) as f64 / 100.9;
    let noisy = |series: &[(usize, std::ops::Range<usize>)]| {
        let rows = |(number, rows): &(usize, std::ops::Range<usize>)| {
            let line = |row: usize| format!("s{number},{},{:.3}\n", month(row), 50.0 + noise(*number, row));
            rows.clone().map(line).collect::<String>()
        };
        format!("id,ds,y\n{}", series.iter().map(rows).collect::<String>())
    };
    let mut series: Vec<_> = (0..30).map(|number| (number, 0..72 + number % 3)).collect();
    series.push((40, 0..9));
    f.write("d.csv", noisy(&series));
    let ran = f.runs(&format!("train --data d.csv {TRAIN} --horizon 6 --interval 80 --json --out run"));
    assert!(f.path().join("run/pooled.safetensors").exists());
    let coverage = ran.json()["intervals"][0]["coverage"].as_f64().expect("a share");
    assert!((0.70..=0.90).contains(&coverage), "{coverage}");
    // A level that no single series has windows for; a series that is too short for windows borrows from the others.
    f.write("more.csv", noisy(&[(0, 0..72), (1, 0..73), (40, 0..9)]));
    let ran = f.runs("forecast run --data more.csv --interval 80,97");
    assert!(!ran.err.contains("windows"), "{}", ran.err);
    for series in ["s0", "s1", "s40"] {
        let rows = cells(&ran.out, series);
        assert_eq!(rows.len(), 6, "{}", ran.out);
        for row in &rows {
            let [y, low80, high80, low97, high97] = row[..] else { panic!("{row:?}") };
            assert!(low97 < low80 && low80 < y && y < high80 && high80 < high97, "{row:?}");
        }
    }
    f.runs("report run --interval 80,97");
}
