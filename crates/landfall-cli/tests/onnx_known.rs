//! `landfall export --onnx` of runs with covariates, distributions and intervals: onnxruntime makes the program's forecasts.

mod program;

use landfall_forecast::run::Run;
use landfall_train::data::Calendar;
use program::Folder;
use program::known::{cell, rows as csv};
use program::onnx::{MOST, compare, levels, rows};
use serde_json::{Value, json};

const ROWS: usize = 300;
const HORIZON: usize = 6;
const ALL: [&str; 4] = ["sales", "price", "event", "weather"];
const COVARIATES: &str =
    "--target sales --known-future price,event --categorical event --calendar hour,weekday";
const TRAIN: &str =
    "train --data d.csv --context 24 --horizon 6 --max-steps 4 --batch 16 --threads 2 --device cpu";

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(0, ROWS, &ALL));
    f.write("e.csv", csv(0, ROWS - 37, &ALL));
    f.write("d-future.csv", csv(ROWS, HORIZON, &["price", "event"]));
    f.write("e-future.csv", csv(ROWS - 37, HORIZON, &["price", "event"]));
    f.write("t.toml", "[network]\ntemporal-norm = false\n");
    f
}

/// The value of a run's column in a row.
fn value(t: usize, column: &str) -> f64 {
    if let Some(feature) = Calendar::ALL.iter().find(|f| f.column() == column) {
        let date = cell(t, "date");
        let date = chrono::NaiveDateTime::parse_from_str(date.as_str().expect("a date"), "%Y-%m-%d %H:%M:%S");
        return feature.at(date.expect("a date"));
    }
    match column.split_once('=') {
        Some((column, name)) => f64::from(u8::from(cell(t, column) == name)),
        None => cell(t, column).as_f64().expect("a number"),
    }
}

fn table(range: std::ops::Range<usize>, columns: &[String]) -> Vec<Vec<f64>> {
    range.map(|t| columns.iter().map(|c| value(t, c)).collect()).collect()
}

/// A run's model with what the program forecasts after both files; `future` says whether they need more rows.
fn case(f: &Folder, run: &str, flags: &str, future: bool) -> Value {
    let written = f.runs(&format!("export {run} --onnx {run}.onnx {flags} --json")).json();
    let property = |key: &str| written["properties"][key].as_str();
    let list = |key: &str| -> Vec<String> {
        property(key).map_or_else(Vec::new, |text| serde_json::from_str(text).expect("a list"))
    };
    let context: usize = property("context").expect("rows").parse().expect("a number");
    let (columns, ahead) = (list("columns"), list("future"));
    assert_eq!(!ahead.is_empty(), future, "{written}");
    let opened = Run::open(&f.path().join(run)).expect("a run");
    let mut inputs = json!({"context": [], "future": []});
    let mut outputs = json!({"forecast": []});
    let add = |object: &mut Value, key: &str, value: Value| {
        if object.get(key).is_none() {
            object[key] = json!([]);
        }
        object[key].as_array_mut().expect("a list").push(value);
    };
    for (file, end) in [("d", ROWS), ("e", ROWS - 37)] {
        add(&mut inputs, "context", json!(table(end - context..end, &columns)));
        add(&mut inputs, "future", json!(table(end..end + HORIZON, &ahead)));
        let with = if opened.needs_future() { format!("--future {file}-future.csv") } else { String::new() };
        let told = f.runs(&format!("forecast {run} --data {file}.csv {with} --device cpu --json")).json();
        add(&mut outputs, "forecast", json!(rows(&told["values"])));
        if told.get("quantiles").is_some() {
            let key = if written["properties"].get("quantiles").is_some()
                && written["outputs"].to_string().contains("parameters")
            {
                "parameters"
            } else {
                "quantiles"
            };
            add(&mut outputs, key, json!(levels(&told["quantiles"])));
        }
    }
    let scale = &opened.scalers()[0].1.std()[..opened.targets()];
    let model = f.path().join(format!("{run}.onnx"));
    json!({"name": run, "model": model, "inputs": inputs, "outputs": outputs, "scale": scale, "levels": opened.levels()})
}

#[test]
fn columns_known_in_advance_are_inputs() {
    let f = folder();
    let mut cases = Vec::new();
    for (run, flags, future) in [
        ("dlinear", "--preset dlinear", true),
        ("patchtst", "--preset patchtst-42 --patch 8 --stride 4", true),
        ("tide", "--preset tide --config t.toml --quantiles 0.1,0.5,0.9", true),
        ("tsmixer", "--preset tsmixer", true),
        ("normal", "--preset dlinear --loss normal --quantiles 0.01,0.5,0.8", true),
    ] {
        f.runs(&format!("{TRAIN} {flags} {COVARIATES} --out {run}"));
        cases.push(case(&f, run, "", future));
    }
    // Features of the dates alone follow from them, and past columns alone need nothing.
    f.runs(&format!("{TRAIN} --preset nlinear-none --out none").replace(
        "--preset nlinear-none",
        "--preset dlinear --target sales --columns sales,price,weather --calendar hour",
    ));
    cases.push(case(&f, "none", "", true));
    f.runs(&format!("{TRAIN} --preset tsmixer --target sales --columns sales,weather --out past"));
    cases.push(case(&f, "past", "", false));
    // A forecaster that reads none of them has no input for them.
    f.runs(&format!("{TRAIN} --model dlinear {COVARIATES} --out unread"));
    let config = f.read("unread/config.toml");
    let (before, after) = config.split_once("[forecaster]").expect("a chosen forecaster");
    let after = after.split_once("\n[").map(|(_, rest)| format!("[{rest}")).unwrap_or_default();
    let alone =
        "[forecaster]\nnetwork = \"dlinear\"\nshare = 0.0\nrepeats = 24\nnon-negative = [\"sales\"]\n";
    f.write("unread/config.toml", format!("{before}{alone}{after}"));
    let unread = case(&f, "unread", "", false);
    assert_eq!(unread["inputs"]["context"][0][0].as_array().map(Vec::len), Some(2), "sales and weather");
    cases.push(unread);
    compare(&f, &cases, MOST);
}

#[test]
fn distributions_are_reproduced() {
    let f = folder();
    // Counts whose spread is large, and small.
    let row = |i: usize| format!("2024-01-{:02} {:02}:00,{}\n", i / 24 + 1, i % 24, (i * 7919 % 11) + i % 7);
    let counts = |rows: usize| format!("date,sold\n{}", (0..rows).map(row).collect::<String>());
    let mut cases = Vec::new();
    for (run, flags) in [
        ("normal", "--loss normal --quantiles 0.001,0.1,0.5,0.9,0.999"),
        ("student-t", "--loss student-t --quantiles 0.001,0.1,0.5,0.9,0.999"),
        ("student-t-steps", "--loss student-t --lr 0.05 --max-steps 60"),
    ] {
        let train =
            TRAIN.replace("--max-steps 4", if flags.contains("--max-steps") { "" } else { "--max-steps 4" });
        f.runs(&format!(
            "{train} --preset dlinear --target sales --columns sales,weather {flags} --out {run}"
        ));
        cases.push(case(&f, run, "", false));
    }
    // The quantile at 0.001 lies up to 22 scales off the mean, and so does the rounding of the scale in f32.
    compare(&f, &cases, 1e-5);
    f.write("d.csv", counts(ROWS));
    f.write("e.csv", counts(ROWS - 37));
    f.runs(&format!("{TRAIN} --preset dlinear --loss negative-binomial --out counts"));
    let ran = f.runs("export counts --onnx note.onnx");
    assert!(
        ran.err.contains("scipy.stats.nbinom") && ran.out.contains("parameters double[batch, 6, 1, 2]"),
        "{}",
        ran.err
    );
    let opened = Run::open(&f.path().join("counts")).expect("a run");
    let (mut contexts, mut forecasts, mut quantiles) = (Vec::new(), Vec::new(), Vec::new());
    for (file, end) in [("d", ROWS), ("e", ROWS - 37)] {
        contexts.push((end - 24..end).map(|i| [((i * 7919 % 11) + i % 7) as f64]).collect::<Vec<_>>());
        let told = f.runs(&format!("forecast counts --data {file}.csv --device cpu --json")).json();
        forecasts.push(rows(&told["values"]));
        quantiles.push(levels(&told["quantiles"]));
    }
    let model = f.path().join("note.onnx");
    let outputs = json!({"forecast": forecasts, "parameters": quantiles});
    let one = json!({"name": "counts", "model": model, "inputs": {"context": contexts}, "outputs": outputs, "scale": [1.0], "levels": opened.levels()});
    compare(&f, &[one], 1e-5);
}

/// Each series has its static columns, its scaler and its intervals.
#[test]
fn static_columns_and_intervals_are_those_of_each_series() {
    let f = Folder::new();
    let mut text = "shop,size,kind,date,sales,price\n".to_owned();
    let mut future = "shop,date,price\n".to_owned();
    let sales = |factor: usize, t: usize| factor * (2 * (t * 7919 % 101) + t % 24);
    let shops = [("a", 3, "kiosk", 1), ("b", 80, "hall", 30)];
    for (shop, size, kind, factor) in shops {
        for t in 0..ROWS + HORIZON {
            let date = cell(t, "date");
            let (date, price) = (date.as_str().expect("a date"), t * 7919 % 101);
            if t < ROWS {
                text += &format!("{shop},{size},{kind},{date},{},{price}\n", sales(factor, t));
            } else {
                future += &format!("{shop},{date},{price}\n");
            }
        }
    }
    f.write("d.csv", &text);
    f.write("future.csv", &future);
    let words = "--series-id shop --target sales --known-future price --static size,kind --categorical kind --calendar hour";
    f.runs(&format!("{TRAIN} --preset dlinear --lr 0.01 {words} --interval 80,95 --out run"));
    let written = f.runs("export run --onnx run.onnx --json").json();
    assert_eq!(
        written["inputs"],
        json!([
            "context double[batch, 24, 3]",
            "future double[batch, 6, 2]",
            "static double[batch, 3]",
            "series int64[batch]"
        ])
    );
    let properties = &written["properties"];
    assert_eq!(
        (&properties["columns"], &properties["future"], &properties["static"], &properties["intervals"]),
        (
            &json!("[\"sales\",\"price\",\"calendar: hour\"]"),
            &json!("[\"price\",\"calendar: hour\"]"),
            &json!("[\"size\",\"kind=hall\",\"kind=kiosk\"]"),
            &json!("[80.0,95.0]")
        )
    );
    let told = f.runs("forecast run --future future.csv --device cpu --json").json();
    let told = told["series"].as_array().expect("series");
    let hour = |t: usize| value(t, "calendar: hour");
    let price = |t: usize| (t * 7919 % 101) as f64;
    let of = |factor: usize| {
        (ROWS - 24..ROWS).map(|t| [sales(factor, t) as f64, price(t), hour(t)]).collect::<Vec<_>>()
    };
    let after: Vec<_> = (ROWS..ROWS + HORIZON).map(|t| [price(t), hour(t)]).collect();
    // `[horizon, targets, levels, 2]` of one target's levels.
    let bounds = |one: &Value| -> Vec<Value> {
        let at = |level: usize, side: usize, step: usize| one["intervals"][0][level][side][step].clone();
        (0..HORIZON).map(|h| json!([[[at(0, 0, h), at(0, 1, h)], [at(1, 0, h), at(1, 1, h)]]])).collect()
    };
    let case = json!({
        "name": "run",
        "model": f.path().join("run.onnx"),
        "inputs": {
            "context": [of(1), of(30)],
            "future": [after, after],
            "static": [[3, 0, 1], [80, 1, 0]],
            "series": [0, 1],
        },
        "outputs": {
            "forecast": told.iter().map(|s| rows(&s["values"])).collect::<Vec<_>>(),
            "intervals": told.iter().map(bounds).collect::<Vec<_>>(),
        },
        "scale": Run::open(&f.path().join("run")).expect("a run").scalers()[1].1.std()[..1],
    });
    compare(&f, &[case], MOST);
    assert!(
        !f.runs("export run --onnx plain.onnx --no-interval --json").json()["outputs"]
            .to_string()
            .contains("intervals")
    );
    assert_eq!(
        f.refused("export run --no-interval --official run.pth"),
        "--onnx is needed; intervals are a part of an ONNX model alone"
    );
    assert!(
        f.refused("export run --onnx x.onnx --interval 99.9").contains("an interval of 99.9 % needs 999")
    );
}

#[test]
fn a_level_without_an_accurate_series_is_refused() {
    let f = folder();
    f.runs(&format!(
        "{TRAIN} --preset dlinear --target sales --columns sales --loss student-t --quantiles 1e-60,0.5 --out far"
    ));
    let told = f.refused("export far --onnx far.onnx");
    assert!(told.contains("the loss student-t, whose quantile at level 0.000"), "{told}");
}
