//! Data of several series, targets among inputs, gaps.

mod program;

use program::{Folder, csv};
use serde_json::Value;

const SIZES: &str = "--preset patchtst-42 --context 32 --horizon 8 --batch 16 --threads 2";

/// Two files of the same columns, one longer than the other.
fn folder() -> Folder {
    let f = Folder::new();
    f.write("north.csv", csv(300));
    f.write("south.csv", csv(240));
    f
}

/// Both files as one, with a column for the series.
fn joined(f: &Folder) -> String {
    let mut text = "site,date,load,wind\n".to_owned();
    for name in ["north", "south"] {
        for line in f.read(&format!("{name}.csv")).lines().skip(1) {
            text += &format!("{name},{line}\n");
        }
    }
    text
}

#[test]
fn several_files_train_one_model() {
    let f = folder();
    let ran = f.runs(&format!("train --data north.csv --data south.csv {SIZES} --epochs 1 --json --out run"));
    assert!(
        ran.out.starts_with("data north.csv, south.csv: 2 series, 540 rows, 2 columns (load, wind)\n"),
        "{}",
        ran.out
    );
    assert_eq!(ran.err, "");
    let object = ran.json();
    let windows = |o: &Value| -> Vec<u64> {
        o["series"]
            .as_array()
            .expect("series")
            .iter()
            .map(|s| s["windows"].as_u64().expect("a count"))
            .collect()
    };
    // 60 and 48 rows of test, a window for each but the last seven.
    assert_eq!((object["windows"].as_u64(), windows(&object)), (Some(94), vec![53, 41]));
    let config = f.read("run/config.toml");
    assert_eq!(config.matches("[[scaler]]").count(), 2, "{config}");
    assert!(config.contains("series = \"south\""), "{config}");

    let evaluated = f.runs("evaluate run --json");
    assert!(evaluated.out.contains("series, scaled"), "{}", evaluated.out);
    let evaluated = evaluated.json();
    assert_eq!((&evaluated["mse"], &evaluated["series"]), (&object["mse"], &object["series"]));
    let mean = |of: &Value| {
        let all = of["series"].as_array().expect("series");
        let sum: f64 = all
            .iter()
            .map(|s| s["mse"].as_f64().expect("a number") * s["windows"].as_f64().expect("a number"))
            .sum();
        sum / 94.0
    };
    let mse = evaluated["mse"].as_f64().expect("a number");
    assert!((mean(&evaluated) - mse).abs() < 1e-12 * mse, "{evaluated}");
    // One of the series alone is scored with its own scaler.
    let south = f.runs("evaluate run --data south.csv --json").json();
    let (alone, within) = (&south["mse"], &evaluated["series"][1]["mse"]);
    let (alone, within) = (alone.as_f64().expect("a number"), within.as_f64().expect("a number"));
    assert!((alone - within).abs() < 1e-6 * within, "{alone} {within}");

    let forecast = f.runs("forecast run").out;
    let lines: Vec<Vec<&str>> = forecast.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!((lines[0].as_slice(), lines.len()), (&["series", "date", "load", "wind"][..], 17));
    assert_eq!(
        (&lines[1][..2], &lines[9][..2]),
        (&["north", "2021-01-13 12:00:00"][..], &["south", "2021-01-11 00:00:00"][..])
    );
    let object = f.runs("forecast run --json").json();
    assert_eq!(object["series"][1]["name"], "south");
    assert_eq!(object["series"][1]["values"][0][0].as_f64().expect("a number").to_string(), lines[9][2]);

    // The same series from one file, to the same numbers.
    f.write("both.csv", joined(&f));
    f.runs(&format!("train --data both.csv --series-id site {SIZES} --epochs 1 --out same"));
    assert_eq!(f.read("same/metrics.jsonl"), f.read("run/metrics.jsonl"));
    assert_eq!(f.runs("forecast same").out, forecast);

    // Resumed, the series must be those of the run.
    f.write("south.csv", csv(20));
    assert_eq!(
        f.refused("train --resume run --epochs 2"),
        "run: its data holds series north, the run was trained on north, south; bring that data back, or start a new run"
    );
}

#[test]
fn series_that_do_not_fit() {
    let f = folder();
    f.write("short.csv", csv(30));
    let ran = f.runs(&format!("train --data north.csv --data short.csv {SIZES} --max-steps 1 --out run"));
    assert!(
        ran.err.starts_with(
            "note: series `short` (30 rows) is left out: training split has 21 rows; 40 needed (context 32 + horizon 8): "
        ),
        "{}",
        ran.err
    );
    assert!(ran.out.starts_with("data north.csv, short.csv: 2 series, 330 rows"), "{}", ran.out);
    let scored = f.runs("evaluate run --data north.csv --data south.csv");
    assert_eq!(scored.notes(), "note: series `south` is left out: the run has no scaler for it\n");
    let forecast = f.runs("forecast run --data north.csv --data short.csv");
    assert!(
        forecast.notes().starts_with("note: series `short` is left out: short.csv: "),
        "{}",
        forecast.err
    );
    assert!(forecast.out.starts_with("date,load,wind\n"), "{}", forecast.out);
    f.write("short2.csv", csv(31));
    let text = f.refused(&format!("train --data short.csv --data short2.csv {SIZES} --max-steps 1"));
    assert!(
        text.starts_with(
            "none of 2 series holds a window in each segment; `short`: training split has 21 rows"
        ),
        "{text}"
    );

    f.write("other.csv", csv(300).replace("wind", "sun"));
    assert_eq!(
        f.refused(&format!("train --data north.csv --data other.csv {SIZES}")),
        "other.csv: no column `wind`, unlike north.csv; give all series the same columns, or choose with --columns"
    );
    assert_eq!(
        f.refused(&format!("train --data north.csv --data ./north.csv {SIZES}")),
        "north.csv and ./north.csv hold series of one name, `north`; rename one of them"
    );
    assert_eq!(
        f.refused(&format!("train --data north.csv --series-id site {SIZES}")),
        "north.csv: no column `site` among date, load, wind; add it or correct its name"
    );
    assert_eq!(
        f.refused("train --series-id site"),
        "--series-id and generated data: it belongs to a file; give --data too"
    );
    #[cfg(not(feature = "parquet"))]
    {
        f.write("t.parquet", "PAR1");
        assert_eq!(
            f.refused("train --data t.parquet"),
            "t.parquet: this build does not read Parquet; build it with `cargo build --release --features parquet`, or \
             save the table as CSV"
        );
    }
}

#[test]
fn targets_alone_are_learnt_scored_and_forecast() {
    let f = folder();
    let words = format!("train --data north.csv {SIZES} --epochs 1 --json");
    let ran = f.runs(&format!("{words} --target wind --out run"));
    assert!(
        ran.out.starts_with("data north.csv: 300 rows, targets wind, further inputs load\n"),
        "{}",
        ran.out
    );
    let metrics = f.read("run/metrics.jsonl");
    let last: Value = serde_json::from_str(metrics.lines().last().expect("lines")).expect("JSON");
    let names: Vec<&str> =
        last["columns"].as_array().expect("columns").iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["wind"]);
    assert_eq!(f.runs("evaluate run --json").json()["mse"], ran.json()["mse"]);
    let forecast = f.runs("forecast run").out;
    assert!(forecast.starts_with("date,wind\n2021-01-13 12:00:00,"), "{forecast}");

    // The simple forecasts beside it are those of the target.
    let alone = "evaluate --model last-value --data north.csv --context 32 --horizon 8 --batch 16 --json";
    let of = |flags: &str| f.runs(&format!("{alone} {flags}")).json();
    let wind = of("--columns wind");
    assert_eq!(of("--target wind"), wind);
    assert_eq!(ran.json()["last-value"]["mse"], wind["mse"]);
    assert_ne!(of("")["mse"], wind["mse"]);
    // Its loss is the target's: not that of all columns.
    let all = f.runs(&format!("{words} --out all"));
    assert_ne!(all.json()["mse"], ran.json()["mse"]);

    assert_eq!(
        f.refused(&format!("{words} --target sun")),
        "north.csv: no column `sun` among load, wind; add it or correct its name"
    );
    assert_eq!(
        f.refused(&format!("{words} --target wind,wind")),
        "north.csv: column `wind` is asked for twice; name each column once"
    );
    assert_eq!(
        f.refused("train --model window-regressor --target label"),
        "--target and --model window-regressor: it predicts the label of a window, no column; leave it out"
    );
    assert_eq!(
        f.refused("evaluate run --target wind"),
        "--target and a run directory: a run has its own; leave it out"
    );
}

#[test]
fn gaps_are_named_and_filled_when_asked() {
    let f = Folder::new();
    let kept = |line: &&str| {
        !["2021-01-03 05", "2021-01-03 06", "2021-01-05 09"].iter().any(|d| line.starts_with(d))
    };
    f.write("g.csv", csv(300).lines().filter(kept).map(|l| format!("{l}\n")).collect::<String>());
    let words = format!("train --data g.csv {SIZES} --max-steps 1");
    let ran = f.runs(&format!("{words} --out found"));
    assert_eq!(ran.err, "");
    let places = "2 of them between 2021-01-03 04:00:00 and 2021-01-03 07:00:00";
    assert!(
        ran.out.contains(&format!(
            "  note: 3 rows inserted where the dates skip them ({places}), interpolated between the values on both sides, so \
             a filled row knows of the next value\n"
        )),
        "{}",
        ran.out
    );
    assert!(ran.out.starts_with("data g.csv: 300 rows"), "{}", ran.out);
    // A fill that is asked for adds no rows, unless they are asked for too.
    let ran = f.runs(&format!("{words} --fill previous --out kept"));
    let gaps = "  note: dates are hourly with 3 missing: 2 between 2021-01-03 04:00:00 and 2021-01-03 07:00:00, 1 between \
                2021-01-05 08:00:00 and 2021-01-05 10:00:00; windows count rows as if none were missing\n";
    assert!(ran.out.starts_with("data g.csv: 297 rows") && ran.out.contains(gaps), "{}", ran.out);
    let ran = f.runs(&format!("{words} --fill linear --fill-gaps --out filled"));
    let note = format!("3 rows inserted where the dates skip them ({places}), filled by the rule linear\n");
    assert!(ran.out.contains(&format!("  note: {note}")), "{}", ran.out);
    assert_eq!(f.runs("evaluate filled").notes(), format!("note: {note}"));
}

#[test]
fn columns_that_go_on_after_others_are_refused() {
    let f = folder();
    let ahead = csv(300) + "2021-01-13 12:00:00,,3.0\n2021-01-13 13:00:00,,3.1\n";
    f.write("ahead.csv", ahead);
    let words = format!("train --data ahead.csv {SIZES} --max-steps 1");
    assert_eq!(
        f.refused(&words),
        "ahead.csv: wind has values in 2 rows after the last value of load; move rows to forecast to a file of their \
         own, for `forecast --future` and columns named by --known-future, or leave columns out with --columns; if the \
         values are missing by accident, --fill previous|linear|zero fills them"
    );
    let ran = f.runs(&format!("{words} --fill previous --out run"));
    let note = ran.out.lines().find_map(|l| l.strip_prefix("  note: "));
    assert_eq!(
        note.unwrap_or_default(),
        "ahead.csv: wind has values in 2 rows after the last value of load; the rule previous fills them"
    );
}
