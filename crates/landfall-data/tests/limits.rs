//! Time and memory of reading grow with a table and not faster.

use landfall_data::{DataError, LimitError, Most, Panel, ReadOptions, parse};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What is quadratic in the columns of these tables takes minutes.
const LONG: Duration = Duration::from_secs(120);

/// A header, and rows of numbers below it.
fn wide(columns: usize, rows: usize, name: impl Fn(usize) -> String) -> String {
    let mut text = (0..columns).map(name).collect::<Vec<_>>().join(",");
    for row in 0..rows {
        text.push('\n');
        for column in 0..columns {
            let comma = if column > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{}", (row * 7 + column * 3) % 11);
        }
    }
    text
}

#[test]
fn a_hundred_thousand_columns_are_read() {
    let started = Instant::now();
    let columns = 100_000;
    for (text, last) in [
        (wide(columns, 12, |_| "c".to_owned()), "c.99999"),
        (wide(columns, 12, |column| format!("column {column}")), "column 99999"),
        // Names that equal ones would be given are there already.
        (
            wide(
                columns,
                12,
                |column| if column < columns / 2 { format!("c.{column}") } else { "c".to_owned() },
            ),
            "c.99998",
        ),
    ] {
        let series = parse(text.as_bytes(), "wide.csv", &ReadOptions::default()).expect("a series");
        assert_eq!((series.channels(), series.columns()[columns - 1].as_str()), (columns, last));
        let names = series.columns().to_vec();
        let options = ReadOptions { columns: Some(names.clone()), ..ReadOptions::default() };
        let again = Panel::parse(text.as_bytes(), "wide.csv", &options).expect("a panel");
        assert_eq!(again.columns(), names);
        let chosen = again.with_targets(&names[columns / 2..]).expect("targets");
        assert_eq!((chosen.targets(), &chosen.columns()[0]), (columns / 2, &names[columns / 2]));
        assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
    }
}

#[test]
fn a_note_of_renamed_columns_is_short() {
    let text = wide(5000, 12, |_| "c".to_owned());
    let panel = Panel::parse(text.as_bytes(), "wide.csv", &ReadOptions::default()).expect("a panel");
    let note = panel.notices().iter().find(|note| note.contains("renamed")).expect("a note");
    assert!(note.starts_with("columns of one name renamed: `c` (column 2) is `c.1`, "), "{note}");
    assert!(note.ends_with(" and 4979 more"), "{note}");
}

#[test]
fn columns_that_may_name_series_are_not_combined_without_end() {
    // Four rows of each date, which no column tells apart; three of 300 would be tried in 4,455,100 ways.
    let mut text = format!("date,{}\n", (0..300).map(|c| format!("k{c}")).collect::<Vec<_>>().join(","));
    for row in 0..120 {
        let cells =
            (0..300).map(|c| if (row / 4 + c) % 3 == 0 { "a" } else { "b" }).collect::<Vec<_>>().join(",");
        let _ = writeln!(text, "2024-01-{:02},{cells}", 1 + row / 4);
    }
    let started = Instant::now();
    assert!(Panel::parse(text.as_bytes(), "long.csv", &ReadOptions::default()).is_err());
    assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
}

#[test]
fn many_gaps_are_filled_in_one_pass() {
    // Every fourth minute is left out.
    let mut text = "date,load\n".to_owned();
    let start =
        chrono::NaiveDate::from_ymd_opt(2020, 1, 1).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a date");
    let minutes = 300_000;
    for minute in (0..minutes).filter(|minute| minute % 4 != 1) {
        let _ = writeln!(text, "{},{}", start + chrono::TimeDelta::minutes(minute), minute % 7);
    }
    let started = Instant::now();
    let series = parse(text.as_bytes(), "gaps.csv", &ReadOptions::default()).expect("a series");
    assert_eq!(series.rows(), 300_000);
    assert_eq!(series.values()[0][..4], [0.0, 1.0, 2.0, 3.0]);
    assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
}

#[test]
fn a_stranger_has_as_many_columns_and_series_as_he_may() {
    let options = ReadOptions {
        series_id: Some(vec!["id".to_owned()]),
        most: Some(Most { columns: 3, series: 2 }),
        ..ReadOptions::default()
    };
    let read = |text: &str| Panel::parse(text.as_bytes(), "the CSV", &options);
    let rows = |ids: &[&str]| {
        ids.iter()
            .flat_map(|id| (1..4).map(move |day| format!("{id},2024-01-0{day},{day}\n")))
            .collect::<String>()
    };
    assert_eq!(read(&format!("id,date,y\n{}", rows(&["a", "b"]))).expect("two series").series().len(), 2);
    let series = read(&format!("id,date,y\n{}", rows(&["a", "b", "c"]))).expect_err("three");
    assert!(matches!(series, DataError::Limit(LimitError::Series { most: 2, .. })), "{series}");
    let columns = read("id,date,y,z\na,2024-01-01,1,2\n").expect_err("four");
    assert_eq!(
        columns.to_string(),
        "the CSV: 4 columns, and at most 3 are read; leave those out that the run does not read"
    );
}

#[test]
fn what_is_no_text_is_refused() {
    let refused =
        |bytes: &[u8]| parse(bytes, "d.csv", &ReadOptions::default()).expect_err("no table").to_string();
    assert!(refused(b"date,load\n2024-01-01,\0\n").starts_with("d.csv:2: a byte 0, which no text has"));
    assert!(refused(&vec![0; 1 << 20]).starts_with("d.csv:1: a byte 0"));
    let long = refused(&vec![b'7'; 65 << 20]);
    assert!(long.starts_with("d.csv:1: a line of 65 MiB, and lines have 64 at most"), "{long}");
}
