//! Files in the forms that pandas writes, against facts that pandas gives (`data/make_formats.py` makes both).

use landfall_data::{DataError, Panel, ReadOptions, parse};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The rows of the table of facts, as cells.
fn facts() -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_path(folder().join("formats.csv")).expect("the table of facts");
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        record.expect("a row").iter().map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = reader.records().map(row).collect();
    assert!(rows.len() > 40, "{} files", rows.len());
    rows
}

fn file(name: &str) -> PathBuf {
    folder().join("formats").join(format!("{name}.csv"))
}

#[test]
fn facts_are_those_of_pandas() -> Result<(), DataError> {
    for fact in facts() {
        let panel = Panel::read(&[file(&fact[0])], &ReadOptions::default())?;
        let s = panel.summary();
        let found = [
            fact[0].clone(),
            s.date_columns.join("|"),
            s.series_columns.join("|"),
            s.series.to_string(),
            s.rows.to_string(),
            s.columns.len().to_string(),
            s.frequency.clone().unwrap_or_default(),
            s.season.period.to_string(),
            s.last.clone().unwrap_or_default(),
        ];
        assert_eq!(found, fact[..9], "{s:?}");
        for series in panel.series() {
            let dates = series.dates().expect("dated");
            let future = dates.future(2)?.into_iter().map(|date| dates.format(date));
            assert_eq!(future.collect::<Vec<_>>(), fact[9..], "{}", fact[0]);
        }
    }
    Ok(())
}

/// A file reads the same with what was found in it as options, and without its last row one row shorter.
#[test]
fn what_was_found_reads_the_file_again() -> Result<(), DataError> {
    for fact in facts() {
        let path = file(&fact[0]);
        let panel = Panel::read(&[&path], &ReadOptions::default())?;
        let found = panel.found().clone();
        let options = ReadOptions {
            columns: Some(panel.columns().to_vec()),
            separator: found.separator,
            date_column: (!found.date_column.is_empty()).then_some(found.date_column),
            date_format: found.date_format,
            series_id: (!found.series_id.is_empty()).then_some(found.series_id),
            ..ReadOptions::default()
        };
        let again = Panel::read(&[&path], &options)?;
        assert_eq!(again.series(), panel.series(), "{}", fact[0]);
    }
    Ok(())
}

/// The dates of a file, written back, are the cells of its date column.
#[test]
fn dates_are_written_as_they_were_read() -> Result<(), DataError> {
    for fact in facts().iter().filter(|fact| !fact[1].contains('|') && fact[2].is_empty()) {
        // The hour that is there twice has two names on the clock of the last row, and a file may be newest first.
        if ["clock_offset", "clock_autumn", "day_newest_first"].contains(&fact[0].as_str()) {
            continue;
        }
        let bytes = std::fs::read(file(&fact[0])).expect("a file");
        let series = parse(&bytes, "f", &ReadOptions::default())?;
        let dates = series.dates().expect("dated");
        let text: String = match bytes.as_slice() {
            [0xff, 0xfe, rest @ ..] => rest.iter().step_by(2).map(|&b| char::from(b)).collect(),
            all => all.iter().map(|&b| char::from(b)).collect(),
        };
        let present = |date: &String| text.contains(date.as_str());
        let written: Vec<String> = dates.values().iter().map(|date| dates.format(*date)).collect();
        let absent = written.iter().filter(|date| !present(date)).count();
        // Three business days were left out of this one, and inserted.
        let inserted = if fact[0] == "business_days_and_holidays" { 3 } else { 0 };
        assert_eq!(absent, inserted, "{}: {written:?}", fact[0]);
    }
    Ok(())
}
