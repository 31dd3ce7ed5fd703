//! The ETT benchmark files against published check values; skipped where the files are absent.

use std::path::PathBuf;

use landfall_data::{
    Baseline, DataError, Frequency, Part, ReadOptions, Scaler, Scores, Segment, Segments, Series, Split,
    baseline, read,
};

const CONTEXT: usize = 336;
const BATCH: usize = 128;

/// A file of the shared folder beside the workspace, or of the one that LANDFALL_SHARED names.
fn shared(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let path = std::env::var_os("LANDFALL_SHARED").map_or_else(beside, PathBuf::from).join("data").join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

fn ett(name: &str) -> Result<Option<(Series, Scaler)>, DataError> {
    let Some(path) = shared(name) else { return Ok(None) };
    let series = read(path, &ReadOptions::default())?;
    let segments = Segments::new(Split::Ett, series.rows(), CONTEXT, 96)?;
    let scaler = Scaler::fit(&series, segments.rows(Segment::Train))?;
    Ok(Some((series, scaler)))
}

fn test_scores(
    kind: Baseline,
    series: &Series,
    scaler: &Scaler,
    horizon: usize,
) -> Result<Scores, DataError> {
    let segments = Segments::new(Split::Ett, series.rows(), CONTEXT, horizon)?;
    let part = Part { series, scaler, windows: segments.windows(Segment::Test) };
    baseline::score(kind, &[part], series.channels(), BATCH)
}

fn scaler_matches(file: &str, expected: [(&str, &str); 2]) -> Result<(), DataError> {
    let Some((series, scaler)) = ett(file)? else { return Ok(()) };
    assert_eq!(series.rows(), 17_420);
    assert_eq!(series.columns(), ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]);
    for (name, statistics) in expected {
        let column = series.column_index(name).expect("a column of the file");
        let (mean, std) = (scaler.mean()[column], scaler.std()[column]);
        assert_eq!(format!("{mean:.6}/{std:.6}"), statistics, "{file} {name}");
    }
    let dates = series.dates().expect("dated");
    assert_eq!(dates.frequency().to_string(), "hourly");
    assert!(matches!(dates.frequency(), Frequency::Regular { .. }));
    let future: Vec<_> = dates.future(2)?.into_iter().map(|date| dates.format(date)).collect();
    assert_eq!(future, ["2018-06-26 20:00:00", "2018-06-26 21:00:00"]);
    Ok(())
}

#[test]
fn scaler_of_etth1() -> Result<(), DataError> {
    scaler_matches("ETTh1.csv", [("HUFL", "7.937742/5.812749"), ("OT", "17.128262/9.176491")])
}

#[test]
fn scaler_of_etth2() -> Result<(), DataError> {
    scaler_matches("ETTh2.csv", [("HUFL", "41.536835/10.448841"), ("OT", "26.872023/11.584719")])
}

/// Per horizon: MSE/MAE of all windows, then of the windows in whole batches.
fn last_value_matches(file: &str, expected: [(usize, &str, &str); 4]) -> Result<(), DataError> {
    let Some((series, scaler)) = ett(file)? else { return Ok(()) };
    for (horizon, all, whole) in expected {
        let scores = test_scores(Baseline::LastValue, &series, &scaler, horizon)?;
        let (mse, mae) = (scores.mse, scores.mae);
        assert_eq!(format!("{mse:.4}/{mae:.4}"), all, "{file} {horizon}, {} windows", scores.windows);
        let (mse, mae) = scores.mse_drop_last.zip(scores.mae_drop_last).expect("whole batches");
        assert_eq!(
            format!("{mse:.4}/{mae:.4}"),
            whole,
            "{file} {horizon}, {} windows",
            scores.windows_drop_last
        );
        // Scaled errors averaged over columns, each column's own unit undone.
        let columns = scores.per_column.iter().zip(scaler.std());
        let mean = columns.map(|(column, std)| column.mse / std / std).sum::<f64>() / 7.0;
        assert!((mean - scores.mse).abs() < 1e-9);
    }
    Ok(())
}

#[test]
fn last_value_on_etth1() -> Result<(), DataError> {
    last_value_matches(
        "ETTh1.csv",
        [
            (96, "1.2944/0.7132", "1.2975/0.7169"),
            (192, "1.3249/0.7331", "1.3251/0.7332"),
            (336, "1.3299/0.7460", "1.2915/0.7360"),
            (720, "1.3351/0.7550", "1.3529/0.7584"),
        ],
    )
}

#[test]
fn last_value_on_etth2() -> Result<(), DataError> {
    last_value_matches(
        "ETTh2.csv",
        [
            (96, "0.4317/0.4216", "0.4369/0.4245"),
            (192, "0.5337/0.4725", "0.5336/0.4725"),
            (336, "0.5973/0.5109", "0.5561/0.4920"),
            (720, "0.5945/0.5190", "0.5777/0.5108"),
        ],
    )
}

#[test]
fn seasonal_naive_on_etth1() -> Result<(), DataError> {
    let Some((series, scaler)) = ett("ETTh1.csv")? else { return Ok(()) };
    let scores = test_scores(Baseline::SeasonalNaive { period: 24 }, &series, &scaler, 96)?;
    assert_eq!(format!("{:.3}", scores.mse), "0.512");
    Ok(())
}

/// The first rows of ETTh1 as a spreadsheet of a decimal-comma country saves them.
#[test]
fn a_spreadsheet_export_reads_as_the_original() -> Result<(), DataError> {
    let Some(path) = shared("ETTh1.csv") else { return Ok(()) };
    let text = std::fs::read_to_string(&path).expect("just found");
    let rows: Vec<_> = text.lines().take(50).map(|row| row.replace(',', ";").replace('.', ",")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let export = folder.path().join("export.csv");
    std::fs::write(&export, format!("\u{feff}{}\r\n", rows.join("\r\n"))).expect("written");
    let (original, export) = (read(path, &ReadOptions::default())?, read(export, &ReadOptions::default())?);
    assert_eq!(export.columns(), original.columns());
    assert_eq!(export.rows(), 49);
    for (export, original) in export.values().iter().zip(original.values()) {
        assert_eq!(export, &original[..49]);
    }
    let dates = |series: &Series| series.dates().expect("dated").values()[..49].to_vec();
    assert_eq!(dates(&export), dates(&original));
    Ok(())
}
