//! A frame of typed columns gives the series of a file with the same cells, in memory and as an Arrow file.

use landfall_data::{
    Column, DataError, Fill, Frame, MISSING_DATE, Panel, ReadError, ReadOptions, SeriesError, TimeUnit, Unit,
};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// 2024-01-01 in seconds.
const START: i64 = 1_704_067_200;

fn named(columns: Vec<(&str, Column)>) -> std::result::Result<Frame, DataError> {
    Frame::new(columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect())
}

fn roles(columns: &[&str]) -> ReadOptions {
    ReadOptions {
        columns: Some(columns.iter().map(|&name| name.to_owned()).collect()),
        series_id: Some(vec!["shop".to_owned()]),
        date_column: Some(vec!["day".to_owned()]),
        date_format: Some("%Y-%m-%d".to_owned()),
        ..ReadOptions::default()
    }
}

/// Two shops whose rows stand in no order, with a gap, a missing value and names.
fn shops() -> Result<(Frame, String)> {
    let rows = [
        ("north,1", 3, 4.5, "fair"),
        ("south", 0, 10.0, "none"),
        ("north,1", 0, 1.0, "none"),
        ("south", 1, f64::NAN, "fair"),
        ("north,1", 1, 2.25, "none"),
        ("south", 2, 12.0, "none"),
        ("south", 3, 13.0, "none"),
    ];
    let mut text = "shop,day,sales,event\n".to_owned();
    for (shop, day, sales, event) in rows {
        let sales = if sales.is_nan() { String::new() } else { format!("{sales:?}") };
        text += &format!("\"{shop}\",2024-01-{:02},{sales},{event}\n", day + 1);
    }
    let days = rows.iter().map(|row| START + row.1 * 86_400).collect();
    let frame = named(vec![
        ("shop", Column::texts(rows.iter().map(|row| Some(row.0)))),
        ("day", Column::dates(days, TimeUnit::Second, false)),
        ("sales", Column::numbers(rows.iter().map(|row| row.2).collect())),
        ("event", Column::texts(rows.iter().map(|row| Some(row.3)))),
    ])?;
    Ok((frame, text))
}

#[test]
fn a_frame_is_read_as_a_file_of_it() -> Result<()> {
    let (frame, text) = shops()?;
    let options = ReadOptions { categorical: vec!["event".to_owned()], ..roles(&["sales", "event"]) };
    let (typed, read) = (frame.panel("shops", &options)?, Panel::parse(text.as_bytes(), "shops", &options)?);
    assert_eq!(typed.series(), read.series());
    assert_eq!(typed.notices(), read.notices());
    assert!(typed.notices().iter().any(|note| note == "rows sorted by date"), "{:?}", typed.notices());
    // As an Arrow file too, under whatever unit.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shops.arrow");
    frame.write_arrow(std::fs::File::create(&path)?)?;
    let again = Panel::read(&[&path], &options)?;
    let values = |panel: &Panel| panel.series().iter().map(|s| s.values().to_vec()).collect::<Vec<_>>();
    assert_eq!((values(&again), again.series()[0].dates()), (values(&typed), typed.series()[0].dates()));
    Ok(())
}

#[test]
fn every_type_comes_back_from_a_file() -> Result<()> {
    let large = (1 << 53) + 1;
    let frame = named(vec![
        ("numbers", Column::numbers(vec![0.1, f64::NAN, -0.0])),
        ("integers", Column::integers(vec![Some(large), None, Some(i64::MIN)])),
        ("truths", Column::booleans(vec![Some(true), None, Some(false)])),
        ("texts", Column::texts([Some("a,\"b\"\n"), None, Some("")])),
        ("dates", Column::dates(vec![1, MISSING_DATE, -1], TimeUnit::Nanosecond, true)),
    ])?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("frame.arrow");
    frame.write_arrow(std::fs::File::create(&path)?)?;
    let read = Frame::read(&path)?;
    let column = |name: &str| read.column(name).ok_or(name.to_owned());
    let numbers = column("numbers")?.as_numbers().ok_or("numbers")?;
    assert_eq!(numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>()[..1], [0.1_f64.to_bits()]);
    assert!(numbers[1].is_nan() && numbers[2].is_sign_negative());
    assert_eq!(column("integers")?.as_integers(), Some(&[Some(large), None, Some(i64::MIN)][..]));
    assert_eq!(
        column("texts")?.as_categories(),
        Some((vec![0, -1, 1], vec!["a,\"b\"\n".to_owned(), String::new()]))
    );
    assert_eq!(column("dates")?.as_dates(), Some((&[1, MISSING_DATE, -1][..], TimeUnit::Nanosecond)));
    let truths = column("truths")?.as_numbers().ok_or("truths")?;
    assert!(truths[0] == 1.0 && truths[1].is_nan() && truths[2] == 0.0);
    assert!(column("texts")?.as_numbers().is_none() && read.column("none").is_none());
    Ok(())
}

#[test]
fn integers_name_series_exactly() -> Result<()> {
    let ids = [(1_i64 << 53) + 1, 1 << 53].map(|id| [Some(id); 3]).concat();
    let days = [0, 1, 2, 0, 1, 2].map(|day| START + day * 86_400).to_vec();
    let frame = named(vec![
        ("shop", Column::integers(ids)),
        ("day", Column::dates(days, TimeUnit::Second, false)),
        ("sales", Column::numbers(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
    ])?;
    let panel = frame.panel("shops", &roles(&["sales"]))?;
    let names: Vec<&str> = panel.series().iter().map(|s| s.name()).collect();
    assert_eq!(names, ["9007199254740993", "9007199254740992"]);
    Ok(())
}

#[test]
fn an_error_names_the_row_of_the_frame() -> Result<()> {
    let frame = named(vec![
        ("shop", Column::texts([Some("a"); 3])),
        ("day", Column::dates([0, 1, 2].map(|day| START + day * 86_400).to_vec(), TimeUnit::Second, false)),
        ("sales", Column::numbers(vec![f64::NAN, 2.0, 3.0])),
    ])?;
    let options = ReadOptions { fill: Some(Fill::Previous), ..roles(&["sales"]) };
    let refused = |frame: &Frame| frame.panel("the frame", &options).expect_err("no previous value");
    let first = refused(&frame);
    assert_eq!(first.place().map(|at| (at.line, at.unit)), Some((1, Unit::Row)));
    let sorted = refused(&frame.with_origins(vec![7, 3, 5]));
    assert_eq!(sorted.place().map(|at| (at.line, at.unit)), Some((7, Unit::FrameRow)));
    assert_eq!(sorted.column(), Some("sales"));
    assert!(
        sorted.to_string().starts_with("the frame, row 7 (from 0): column `sales` starts with"),
        "{sorted}"
    );
    Ok(())
}

#[test]
fn dates_keep_their_unit_and_a_form_that_loses_a_part_is_refused() -> Result<()> {
    let frame = |step: i64| {
        named(vec![
            ("shop", Column::texts([Some("a"); 3])),
            ("day", Column::dates((0..3).map(|row| row * step).collect(), TimeUnit::Nanosecond, true)),
            ("sales", Column::numbers(vec![1.0, 2.0, 3.0])),
        ])
    };
    let given = |form: &str| ReadOptions { date_format: Some(form.to_owned()), ..roles(&["sales"]) };
    let panel = frame(5)?.panel("the frame", &given("%Y-%m-%d %H:%M:%S%.9f"))?;
    let dates = panel.series()[0].dates().ok_or("dates")?;
    assert_eq!(dates.format(dates.values()[2]), "1970-01-01 00:00:00.000000010");
    let error = frame(5)?.panel("the frame", &given("%Y-%m-%d")).expect_err("nanoseconds").to_string();
    assert!(error.contains("cannot be read"), "{error}");
    // Midnights are days, and dates of a zone are written with their offset.
    let day = 86_400_000_000_000;
    for (form, last) in [("%Y-%m-%d", "1970-01-03"), ("%Y-%m-%d %H:%M:%S%:z", "1970-01-03 00:00:00+00:00")] {
        let panel = frame(day)?.panel("the frame", &given(form))?;
        let dates = panel.series()[0].dates().ok_or("dates")?;
        assert_eq!(dates.format(dates.values()[2]), last);
    }
    Ok(())
}

#[test]
fn columns_that_make_no_frame_are_refused() {
    let column = || Column::numbers(vec![1.0]);
    let error = named(vec![("a", column()), ("a", column())]).expect_err("twice");
    assert!(matches!(error, DataError::Series(SeriesError::DuplicateColumn { .. })));
    let error = named(vec![("a", column()), ("b", Column::numbers(Vec::new()))]).expect_err("shorter");
    assert!(
        matches!(error, DataError::Series(SeriesError::ColumnLength { found: 0, expected: 1, .. })),
        "{error}"
    );
    assert!(Column::categories(&[0, 2], &["x".to_owned()]).is_none());
}

#[test]
fn a_damaged_file_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shops.arrow");
    let mut whole = Vec::new();
    shops()?.0.write_arrow(&mut whole)?;
    // Each byte of a file of some thousand ones, and each end that is cut off: read, or an error, and no panic.
    let (mut refused, mut tried) = (0, 0);
    for at in 0..whole.len() {
        let changed: Vec<u8> =
            whole.iter().enumerate().map(|(i, byte)| if i == at { byte ^ 0x7f } else { *byte }).collect();
        for bytes in [&changed[..], &whole[..at]] {
            std::fs::write(&path, bytes)?;
            tried += 1;
            match Frame::read(&path) {
                Ok(_) => {}
                Err(DataError::Read(ReadError::BadArrow { .. } | ReadError::ArrowType { .. })) => {
                    refused += 1
                }
                Err(DataError::Series(
                    SeriesError::DuplicateColumn { .. } | SeriesError::ColumnLength { .. },
                )) => refused += 1,
                Err(other) => return Err(other.into()),
            }
        }
    }
    assert!(refused > tried / 2, "{refused} of {tried} files are refused");
    Ok(())
}
