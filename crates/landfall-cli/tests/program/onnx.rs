//! Models of ONNX that are run by onnxruntime, where Python has it.

use super::Folder;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

/// `[horizon, columns]` of a forecast's values, one list for each column.
pub(crate) fn rows(values: &Value) -> Vec<Vec<f64>> {
    let columns: Vec<Vec<f64>> = values.as_array().expect("columns").iter().map(numbers).collect();
    (0..columns[0].len()).map(|row| columns.iter().map(|c| c[row]).collect()).collect()
}

/// `[horizon, columns, levels]` of a forecast's quantiles.
pub(crate) fn levels(quantiles: &Value) -> Vec<Vec<Vec<f64>>> {
    let columns: Vec<Vec<Vec<f64>>> = quantiles
        .as_array()
        .expect("columns")
        .iter()
        .map(|c| c.as_array().expect("levels").iter().map(numbers).collect())
        .collect();
    let level = |row: usize| columns.iter().map(|c| c.iter().map(|l| l[row]).collect()).collect();
    (0..columns[0][0].len()).map(level).collect()
}

/// Runs the cases in onnxruntime, and checks that the largest error of each is small; or says why not.
pub(crate) fn compare(f: &Folder, cases: &[Value], most: f64) {
    f.write("cases.json", json!(cases).to_string());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_round_trip.py");
    let python = std::env::var_os("LANDFALL_PYTHON").unwrap_or_else(|| "python3".into());
    let Ok(ran) = Command::new(python).arg(script).arg(f.path().join("cases.json")).output() else {
        eprintln!("SKIPPED: no model was run by onnxruntime, because python3 does not start");
        return;
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if ran.status.code() == Some(3) {
        eprintln!("SKIPPED: no model was run by onnxruntime: {}", out.trim());
        return;
    }
    assert!(ran.status.success(), "{err}");
    let errors: Value = serde_json::from_str(out.trim()).expect("JSON");
    eprintln!("largest scaled errors: {errors}");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        for (output, error) in errors[name].as_object().expect("outputs") {
            assert!(error.as_f64().expect("a number") < most, "{name}, {output}: {error}");
        }
    }
}

/// The largest error that is accepted, in standard deviations of the column; 5e-7 was measured.
pub(crate) const MOST: f64 = 2e-6;
