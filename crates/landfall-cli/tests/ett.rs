//! The simple forecasts on the hourly ETT series, against the published figures. The series are not part of the
//! project: without them these tests say that they were skipped.

mod program;

use program::Folder;
use std::path::PathBuf;

/// The folder with `data/ETTh1.csv`, if there is one.
fn shared() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LANDFALL_SHARED").map_or_else(beside, PathBuf::from);
    let found = folder.join("data/ETTh1.csv").exists();
    if !found {
        eprintln!("skipped: no data/ETTh1.csv in {} (set LANDFALL_SHARED)", folder.display());
    }
    found.then_some(folder)
}

#[test]
fn last_value_scores_as_published() {
    let Some(shared) = shared() else { return };
    // Horizon, then MSE and MAE over all windows and over whole batches.
    let figures = [
        ("ETTh1", 96, [1.2944, 0.7132, 1.2975, 0.7169], 2785),
        ("ETTh1", 720, [1.3351, 0.7550, 1.3529, 0.7584], 2161),
        ("ETTh2", 96, [0.4317, 0.4216, 0.4369, 0.4245], 2785),
        ("ETTh2", 336, [0.5973, 0.5109, 0.5561, 0.4920], 2545),
    ];
    let f = Folder::new();
    for (name, horizon, expected, windows) in figures {
        let file = shared.join(format!("data/{name}.csv"));
        let ran = f.runs(&format!(
            "evaluate --model last-value --data {} --context 336 --horizon {horizon} --split ett --batch 128 --json",
            file.display()
        ));
        let object = ran.json();
        for (key, expected) in ["mse", "mae", "mse_drop_last", "mae_drop_last"].into_iter().zip(expected) {
            let found = object[key].as_f64().expect("a number");
            assert!(
                (found - expected).abs() <= 0.5e-4 + 1e-9,
                "{name} {horizon} {key}: {found}, published {expected}"
            );
        }
        assert_eq!(object["windows"].as_u64(), Some(windows));
        let keys: Vec<&str> = object.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        for key in ["rmse", "mase", "smape", "r2"] {
            assert!(object[key].as_f64().is_some_and(f64::is_finite), "{key}: {}", object[key]);
        }
        assert!(!keys.contains(&"series"), "{keys:?}");
    }
}

#[test]
fn seasonal_naive_scores_as_published() {
    let Some(shared) = shared() else { return };
    let file = shared.join("data/ETTh1.csv");
    let words = "--context 336 --horizon 96 --split ett --batch 128 --json";
    let ran =
        Folder::new().runs(&format!("evaluate --model seasonal-naive --data {} {words}", file.display()));
    let mse = ran.json()["mse"].as_f64().expect("a number");
    assert!((mse - 0.512).abs() <= 0.5e-3, "{mse}");
}
