//! Files as public packages ship them, read with no options at all; skipped where they are absent.

use landfall_data::{DataError, Panel, ReadOptions, Summary};
use std::path::PathBuf;

/// The folder of those files beside the workspace, or in the one that LANDFALL_SHARED names.
fn real(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let folder = std::env::var_os("LANDFALL_SHARED").map_or_else(beside, PathBuf::from).join("data/real");
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

fn read(name: &str) -> Result<Option<(Panel, Summary)>, DataError> {
    let Some(path) = real(name) else { return Ok(None) };
    let panel = Panel::read(&[path], &ReadOptions::default())?;
    let summary = panel.summary();
    Ok(Some((panel, summary)))
}

#[test]
fn facts_are_found() -> Result<(), DataError> {
    for (file, rows, series, columns, date, frequency, first, last, period) in [
        ("Airline.csv", 144, 1, 1, "Date", "monthly", "1949-01", "1960-12", 12),
        ("Lynx.csv", 114, 1, 1, "date", "yearly", "1821", "1934", 10),
        ("ShampooSales.csv", 36, 1, 1, "Time", "monthly", "1991-01", "1993-12", 12),
        ("co2.csv", 2284, 1, 1, "date", "weekly (Saturday)", "19580329", "20011229", 52),
        ("seattle-weather.csv", 1461, 1, 4, "date", "daily", "2012/01/01", "2015/12/31", 7),
        ("stocks.csv", 560, 5, 1, "date", "monthly", "Jan 1 2000", "Mar 1 2010", 12),
        ("sunspots.csv", 309, 1, 1, "YEAR", "yearly", "1700", "2008", 11),
        ("us-employment.csv", 120, 1, 23, "month", "monthly", "2006-01-01", "2015-12-01", 12),
    ] {
        let Some((_, s)) = read(file)? else { continue };
        let text = |of: &Option<String>| of.clone().unwrap_or_default();
        assert_eq!(
            (s.rows, s.series, s.columns.len(), s.season.period),
            (rows, series, columns, period),
            "{file}"
        );
        assert_eq!(s.date_columns, [date], "{file}");
        assert_eq!([text(&s.frequency), text(&s.first), text(&s.last)], [frequency, first, last], "{file}");
    }
    Ok(())
}

#[test]
fn what_was_left_out_or_filled_is_said() -> Result<(), DataError> {
    if let Some((_, s)) = read("seattle-weather.csv")? {
        assert_eq!(s.notes, ["1 column left out: weather (text)"]);
    }
    if let Some((_, s)) = read("co2.csv")? {
        assert_eq!(
            s.notes,
            [
                "59 missing values interpolated between the values on both sides, so a filled row knows of the next value: \
              co2 (59)"
            ]
        );
    }
    if let Some((panel, s)) = read("stocks.csv")? {
        assert_eq!((s.series_columns, s.notes.len()), (vec!["symbol".to_owned()], 0));
        let names: Vec<&str> = panel.series().iter().map(|s| s.name()).collect();
        assert_eq!(names, ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]);
    }
    Ok(())
}

#[test]
fn dates_go_on_as_they_are_written() -> Result<(), DataError> {
    for (file, next) in [
        ("Airline.csv", "1961-01"),
        ("Lynx.csv", "1935"),
        ("co2.csv", "20020105"),
        ("seattle-weather.csv", "2016/01/01"),
        ("stocks.csv", "Apr 1 2010"),
        ("sunspots.csv", "2009"),
        ("us-employment.csv", "2016-01-01"),
    ] {
        let Some((panel, _)) = read(file)? else { continue };
        let dates = panel.series()[0].dates().expect("dated");
        assert_eq!(dates.format(dates.future(1)?[0]), next, "{file}");
    }
    Ok(())
}
