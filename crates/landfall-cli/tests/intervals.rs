//! `--interval`: bounds from the errors of earlier windows, and what is refused.

mod program;

use program::{Folder, SMALL, csv};
use std::path::PathBuf;

/// The windows of a predictions file: for each window the rows, for each row its cells by column.
struct Windows {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    horizon: usize,
}

impl Windows {
    fn read(text: &str, horizon: usize) -> Self {
        let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        Self { header: lines.next().expect("a header"), rows: lines.collect(), horizon }
    }

    fn len(&self) -> usize {
        self.rows.len() / self.horizon
    }

    fn at(&self, window: usize, step: usize, column: &str) -> f64 {
        let place = self.header.iter().position(|name| name == column).expect(column);
        self.rows[window * self.horizon + step][place].parse().expect("a number")
    }

    fn error(&self, window: usize, step: usize, column: &str) -> f64 {
        (self.at(window, step, column) - self.at(window, step, &format!("{column}_actual"))).abs()
    }
}

/// The half width of an interval: the ⌈(n + 1)·level⌉-th smallest of n errors.
fn half_width(mut errors: Vec<f64>, level: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[((errors.len() + 1) as f64 * level / 100.0).ceil() as usize - 1]
}

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{what}: {found} is not {expected}");
}

/// Copies the files of a run.
fn copy(f: &Folder, from: &str, to: &str) {
    std::fs::create_dir(f.path().join(to)).expect("a folder");
    for name in Folder::names_in(&f.path().join(from)) {
        std::fs::copy(f.path().join(from).join(&name), f.path().join(to).join(&name)).expect("copied");
    }
}

const HORIZON: usize = 8;

#[test]
fn bounds_are_order_statistics_of_the_errors_that_are_known_at_each_origin() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    let ran = f.runs(&format!("{SMALL} --epochs 2 --interval 80,95 --json --out run"));
    let trained = ran.json();
    // The test windows have one line, with the scores of their intervals.
    let metrics = f.read("run/metrics.jsonl");
    let tested: Vec<&str> = metrics.lines().filter(|line| line.contains("\"split\":\"test\"")).collect();
    assert_eq!((tested.len(), ran.out.matches("test after step").count()), (1, 1), "{metrics}");
    assert!(tested[0].contains("\"interval_score\""), "{}", tested[0]);
    let scores = f.runs("evaluate run --predictions test.csv --json").json();
    assert_eq!(trained["intervals"], scores["intervals"]);
    let test = Windows::read(&f.read("test.csv"), HORIZON);
    assert_eq!(
        test.header[3..9],
        ["load", "load-lo-80", "load-hi-80", "load-lo-95", "load-hi-95", "load_actual"]
    );
    // Rows 210 to 239 validate and 240 to 299 test. The same weights on a split whose test rows begin at 210 give the
    // forecasts of the validation windows.
    copy(&f, "run", "earlier");
    let config = f.read("run/config.toml").replace("split = \"0.7,0.1,0.2\"", "split = \"0.5,0.2,0.3\"");
    f.write("earlier/config.toml", config);
    f.runs("evaluate earlier --interval 80 --predictions earlier.csv");
    let earlier = Windows::read(&f.read("earlier.csv"), HORIZON);
    let validation = 30 - HORIZON + 1;
    assert_eq!((test.len(), earlier.len()), (60 - HORIZON + 1, 90 - HORIZON + 1));
    let mut covered = 0;
    for (window, step) in (0..test.len()).flat_map(|w| (0..HORIZON).map(move |s| (w, s))) {
        for (column, level) in ["load", "wind"].into_iter().flat_map(|c| [(c, 80), (c, 95)]) {
            // Of the test windows those that end before this one begins.
            let mut errors: Vec<f64> = (0..validation).map(|w| earlier.error(w, step, column)).collect();
            errors.extend((0..(window + 1).saturating_sub(HORIZON)).map(|w| test.error(w, step, column)));
            let half = half_width(errors, f64::from(level));
            let forecast = test.at(window, step, column);
            let [low, high] =
                ["lo", "hi"].map(|end| test.at(window, step, &format!("{column}-{end}-{level}")));
            close(low, forecast - half, "the lower bound");
            close(high, forecast + half, "the upper bound");
            let actual = test.at(window, step, &format!("{column}_actual"));
            covered += usize::from(level == 80 && low <= actual && actual <= high);
        }
    }
    let coverage = scores["intervals"][0]["coverage"].as_f64().expect("a number");
    close(coverage, covered as f64 / (test.len() * HORIZON * 2) as f64, "the coverage");

    // Beyond the end all windows of the file are known.
    let text = f.runs("forecast run --interval 80").out;
    let ahead = Windows::read(&text, HORIZON);
    for (step, column) in (0..HORIZON).flat_map(|s| ["load", "wind"].map(|c| (s, c))) {
        let mut errors: Vec<f64> = (0..validation).map(|w| earlier.error(w, step, column)).collect();
        errors.extend((0..test.len()).map(|w| test.error(w, step, column)));
        let high = ahead.at(0, step, &format!("{column}-hi-80"));
        close(high, ahead.at(0, step, column) + half_width(errors, 80.0), "the upper bound beyond the end");
    }
    assert!(!text.contains("-95"), "the flag replaces the run's levels: {text:.200}");
    let report = f.runs("report run --json").json();
    assert!(report["bytes"].as_u64().expect("a number") > 0);
    let html = f.read("run/report.html");
    assert!(
        html.contains("95 % interval") && html.contains("80 % interval") && html.contains("Interval score")
    );
}

#[test]
fn a_run_that_is_fit_again_on_validation_rows_keeps_errors_from_before() {
    let f = Folder::new();
    let rows = |sites: &[&str]| -> String {
        let row = |i: usize| {
            sites.iter().enumerate().map(move |(s, site)| {
                let noise = ((i * 7919 + s * 31) % 101) as f64 / 101.0;
                format!("2024-{:02}-{:02},{site},{:.3}\n", i / 28 + 1, i % 28 + 1, (i % 7) as f64 + noise)
            })
        };
        format!("date,site,load\n{}", (0..240).flat_map(row).collect::<String>())
    };
    f.write("d.csv", rows(&["a", "b"]));
    let words = "train --data d.csv --horizon 4 --period 7 --max-steps 4 --interval 80 --json --out run";
    let object = f.runs(words).json();
    let winner = object["winner"].as_str().expect("a name");
    assert!(winner.contains("linear"), "{winner} on a linear series of a season");
    assert!(f.path().join("run/errors.safetensors").exists());
    let coverage = object["intervals"][0]["coverage"].as_f64().expect("a number");
    assert!((0.6..0.95).contains(&coverage), "{coverage}");
    let ahead = f.runs("forecast run --interval 50 --json").json();
    let of = |series: usize, bound: usize| ahead["series"][series]["intervals"][0][0][bound][0].as_f64();
    for series in 0..2 {
        let point = ahead["series"][series]["values"][0][0].as_f64();
        assert!(of(series, 0) < point && point < of(series, 1), "{ahead}");
    }
    // Of the windows that were scored those that end by a past row are known there: ten fewer ten rows before.
    let known = |at: &str| -> usize {
        let told = f.refused(&format!("forecast run --at {at} --interval 99.9"));
        let found = told.split("has ").nth(1).and_then(|rest| rest.split(' ').next());
        found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    let (later, earlier) = (known("2024-07-12"), known("2024-07-02"));
    assert_eq!((later - earlier, earlier > 0, known("2024-01-20")), (10, true, 0));
    std::fs::remove_file(f.path().join("run/errors.safetensors")).expect("removed");
    let told = f.refused("evaluate run --interval 80");
    assert!(told.contains("errors.safetensors is not there") && told.ends_with("train it again"), "{told}");
}

#[test]
fn what_makes_no_interval_is_refused_with_the_numbers() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    for (given, rule) in [
        ("0.8", "levels are percent: write 80, not 0.8"),
        ("100", "levels are percent, above 0 and below 100, as in --interval 80,95"),
        ("80,80", "a level is given twice"),
    ] {
        assert_eq!(f.refused(&format!("{SMALL} --interval {given}")), format!("--interval {given}: {rule}"));
    }
    let few = "--interval 99: series `d` has 23 windows to take errors from that the run was not fit on, and an interval of 99 % \
               needs 99; ask for a lower level, or train with a shorter --horizon or more validation rows (--split)";
    assert_eq!(f.refused(&format!("{SMALL} --interval 99")), few);
    f.runs(&format!("{SMALL} --max-steps 2 --out run"));
    assert_eq!(f.refused("evaluate run --interval 99"), few);
    // At the end of the file the test windows are known too: 23 + 53.
    let ahead = few.replace("has 23", "has 76");
    assert_eq!(f.refused("forecast run --interval 99"), ahead);
    f.runs("forecast run --interval 98");
    // At row 229 those of the windows from row 210 on that end by then: the rows are divided as they were for training.
    let told = f.refused("forecast run --at 2021-01-10T13:00 --interval 99");
    assert_eq!(told, few.replace("has 23", "has 13"));
    let told = f.refused("forecast run --at 2021-01-09T08:00 --interval 80");
    assert!(told.contains("has 0 windows"), "{told}");
}

#[test]
fn a_baselines_intervals_cover_the_ett_series() {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("LANDFALL_SHARED").map_or_else(beside, PathBuf::from);
    let f = Folder::new();
    // Shares counted in integers, with the values as thousandths. Many errors equal a half width exactly, and rounding decides on
    // which side those fall: 0.8 % of ETTh1's values do.
    for (name, exact) in [("ETTh1", [0.817273, 0.948317]), ("ETTh2", [0.786539, 0.924483])] {
        let data = shared.join(format!("data/{name}.csv"));
        if !data.exists() {
            eprintln!("skipped: no {} (set LANDFALL_SHARED)", data.display());
            continue;
        }
        let words = "evaluate --model seasonal-naive --split ett --interval 80,95 --json --data";
        let scores = f.runs(&format!("{words} {}", data.display())).json();
        for (i, expected) in exact.into_iter().enumerate() {
            let coverage = scores["intervals"][i]["coverage"].as_f64().expect("a number");
            assert!((coverage - expected).abs() < 3e-3, "{name}: {coverage}, counted in integers {expected}");
        }
    }
}

#[test]
fn distributions_forecast_their_mean_and_any_quantiles() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    let words = format!("{SMALL} --epochs 2 --json --loss");
    let wrong = f.refused(&format!("{SMALL} --loss negative-binomial"));
    assert!(
        wrong.starts_with("--loss negative-binomial: column `load` of series `d` is ")
            && wrong.contains("whole numbers"),
        "{wrong}"
    );
    let object = f.runs(&format!("{words} student-t --quantiles 0.05,0.9 --out t")).json();
    let levels = &object["quantile_scores"]["levels"];
    assert_eq!((levels[0]["level"].as_f64(), levels[1]["level"].as_f64()), (Some(0.05), Some(0.9)));
    assert!(object["nll"].as_f64().is_some_and(f64::is_finite), "{object}");
    let scores = f.runs("evaluate t --predictions t.csv --json").json();
    assert_eq!((&scores["nll"], &scores["quantile_scores"]), (&object["nll"], &object["quantile_scores"]));
    let file = Windows::read(&f.read("t.csv"), HORIZON);
    assert_eq!(file.header[3..7], ["load", "load_q0.05", "load_q0.9", "load_actual"]);
    let (mut loss, mut size) = (0.0, 0.0);
    for (window, step, column) in
        (0..file.len()).flat_map(|w| (0..HORIZON).flat_map(move |s| ["load", "wind"].map(|c| (w, s, c))))
    {
        let y = file.at(window, step, &format!("{column}_actual"));
        size += y.abs();
        let [low, high] = [0.05, 0.9].map(|level| {
            let q = file.at(window, step, &format!("{column}_q{level}"));
            loss += (level * (y - q)).max((level - 1.0) * (y - q)) / 2.0;
            q
        });
        assert!(low < file.at(window, step, column) && file.at(window, step, column) < high);
    }
    close(scores["quantile_scores"]["wql"].as_f64().expect("a number"), 2.0 * loss / size, "WQL");
    let ahead = f.runs("forecast t --interval 80").out;
    assert!(ahead.starts_with("date,load,load_q0.05,load_q0.9,load-lo-80,load-hi-80,wind,"), "{ahead:.200}");

    let row = |i: usize| format!("2024-01-{:02} {:02}:00,{}\n", i / 24 + 1, i % 24, (i * 7919 % 11) + i % 7);
    f.write("d.csv", format!("date,sold\n{}", (0..300).map(row).collect::<String>()));
    let said = f.runs(&format!("{words} negative-binomial --out n")).out;
    assert!(said.contains(" test windows, original units") && said.contains(" (original units)\n"), "{said}");
    assert!(!said.contains("scaled"), "{said}");
    let tested = f.runs("backtest n --windows 2").out;
    assert!(tested.contains("original units  ") && !tested.contains("scaled"), "{tested}");
    f.runs("report n");
    let report = f.read("n/report.html");
    assert!(
        report.contains(" test windows, original units") && !report.contains("scaled<"),
        "counts are not scaled"
    );
    for line in f.runs("forecast n").out.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').skip(1).map(|c| c.parse().expect("a number")).collect();
        assert!(cells[1..].iter().all(|q| q.fract() == 0.0 && *q >= 0.0) && cells[0] > 0.0, "{line}");
    }
}

#[test]
fn scores_are_those_of_the_forecasts_that_are_written() {
    let f = Folder::new();
    // Mostly 0, so that a forecast that is not held at 0 or above has other errors.
    let sold = |i: usize| if i.is_multiple_of(12) { 40.0 } else { (i * 7919 % 5 / 4) as f64 };
    let row = |i: usize| format!("2024-01-{:02} {:02}:00,{}\n", i / 24 + 1, i % 24, sold(i));
    f.write("d.csv", format!("date,sold\n{}", (0..300).map(row).collect::<String>()));
    let training: Vec<f64> = (0..210).map(sold).collect();
    let mean = training.iter().sum::<f64>() / 210.0;
    let variance = training.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 210.0;
    for loss in ["--loss mse", "--loss normal", "--quantiles 0.1,0.5,0.9"] {
        let words = format!("train --data d.csv --model nlinear --context 24 --horizon {HORIZON} {loss}");
        f.runs(&format!("{words} --max-steps 20 --interval 80 --json --out n"));
        let scores = f.runs("evaluate n --predictions n.csv --json").json();
        let file = Windows::read(&f.read("n.csv"), HORIZON);
        let places = (0..file.len()).flat_map(|w| (0..HORIZON).map(move |s| (w, s)));
        let least = places.clone().map(|(w, s)| file.at(w, s, "sold")).fold(f64::INFINITY, f64::min);
        assert_eq!(least, 0.0, "{loss}: a forecast is held at 0");
        let squares: f64 = places.map(|(w, s)| file.error(w, s, "sold").powi(2)).sum();
        let found = scores["mse"].as_f64().expect("a number");
        close(found, squares / (file.len() * HORIZON) as f64 / variance, &format!("{loss}: MSE"));
        if let Some(pinball) = scores["quantiles"]["pinball"].as_f64() {
            let crps = scores["quantile_scores"]["crps"].as_f64().expect("a number");
            close(crps, 2.0 * pinball, "CRPS of the mean quantile loss");
        }
        // Intervals are of the test windows.
        let told = f.refused("evaluate n --segment train --interval 80");
        assert!(
            told.starts_with("--interval and --segment train: intervals are of the test windows"),
            "{told}"
        );
        let other = f.runs("evaluate n --segment train --json").json();
        assert!(other["intervals"].as_array().is_none_or(Vec::is_empty), "{other}");
        for made in ["n", "n.csv"] {
            let path = f.path().join(made);
            _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
    }
}
