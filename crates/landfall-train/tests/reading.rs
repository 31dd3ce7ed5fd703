//! Files as people have them: what is found in them without being told.

use landfall_train::data::{Fill, Panel, ReadOptions, Series};
use std::fs;
use std::path::{Path, PathBuf};

/// A file read with nothing else given.
fn read(text: &str) -> Panel {
    read_with(text.as_bytes(), &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn read_with(text: &[u8], options: &ReadOptions) -> Result<Panel, landfall_train::data::DataError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.csv");
    fs::write(&path, text).expect("written");
    Panel::read(&[&path], options)
}

fn only(panel: &Panel) -> &Series {
    assert_eq!(panel.series().len(), 1);
    &panel.series()[0]
}

fn notes(panel: &Panel) -> String {
    panel.notices().join("\n")
}

/// The frequency of the dates, and the next two dates as they would be written.
fn dated(series: &Series) -> (String, Vec<String>) {
    let dates = series.dates().expect("dates");
    let next = dates.future(2).expect("a frequency");
    (dates.frequency().to_string(), next.into_iter().map(|d| dates.format(d)).collect())
}

fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("LANDFALL_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let real = folder.join("data/real");
    if real.is_dir() {
        return Some(real);
    }
    eprintln!("skipped: {} is not there", real.display());
    None
}

#[test]
fn public_files_are_read_as_they_are_shipped() {
    let Some(folder) = shared() else { return };
    // File, column of dates, frequency, seasonal period, series, their column, columns.
    for (file, date, frequency, period, series, id, columns) in [
        ("Airline", "Date", "monthly", 12, 1, None, 1),
        ("us-employment", "month", "monthly", 12, 1, None, 23),
        ("ShampooSales", "Time", "monthly", 12, 1, None, 1),
        ("stocks", "date", "monthly", 12, 5, Some("symbol"), 1),
        ("co2", "date", "weekly", 52, 1, None, 1),
        ("seattle-weather", "date", "daily", 7, 1, None, 4),
        ("sunspots", "YEAR", "yearly", 11, 1, None, 1),
        ("Lynx", "date", "yearly", 10, 1, None, 1),
    ] {
        let panel = Panel::read(&[folder.join(format!("{file}.csv"))], &ReadOptions::default()).expect(file);
        let first = panel.series()[0].dates().expect(file);
        assert_eq!((first.column(), first.frequency().to_string().as_str()), (date, frequency), "{file}");
        assert_eq!(panel.season().period, period, "{file}: {}", panel.season());
        assert_eq!((panel.series().len(), panel.columns().len()), (series, columns), "{file}");
        assert_eq!(panel.found().series_id.as_deref(), id, "{file}");
    }
}

#[test]
fn separators_are_found() {
    let rows = [("2020-01-01", "1.5"), ("2020-01-02", "2.5"), ("2020-01-03", "3")];
    for separator in [",", ";", "\t", "|", " ", "   "] {
        let body: String = rows.iter().map(|(d, v)| format!("{d}{separator}{v}\n")).collect();
        let panel = read(&format!("date{separator}load\n{body}"));
        assert_eq!(only(&panel).values(), [[1.5, 2.5, 3.0]], "{separator:?}");
        assert_eq!(dated(only(&panel)).1, ["2020-01-04", "2020-01-05"]);
    }
    let options = ReadOptions { separator: Some(';'), ..ReadOptions::default() };
    let panel = read_with(b"a,b;c\n1;2\n3;5\n", &options).expect("told");
    assert_eq!(panel.columns(), ["a,b", "c"]);
}

#[test]
fn dates_stand_anywhere_and_continue_as_they_are_written() {
    for (text, frequency, next) in [
        ("load,day\n1,2020-01-01\n2,2020-01-02\n4,2020-01-03\n", "daily", ["2020-01-04", "2020-01-05"]),
        ("d,y\n31/01/2020,1\n29/02/2020,2\n31/03/2020,4\n", "monthly", ["30/04/2020", "31/05/2020"]),
        (
            "d,y\n11/02/2020,1\n12/02/2020,2\n13/02/2020,4\n14/02/2020,5\n",
            "daily",
            ["15/02/2020", "16/02/2020"],
        ),
        ("d,y\n11/1/2020,1\n12/1/2020,2\n1/1/2021,4\n2/1/2021,4\n", "monthly", ["3/1/2021", "4/1/2021"]),
        ("q,y\n2020Q1,1\n2020Q2,2\n2020Q3,5\n", "quarterly", ["2020Q4", "2021Q1"]),
        ("w,y\n2020-W51,1\n2020-W52,2\n2020-W53,5\n", "weekly", ["2021-W01", "2021-W02"]),
        (
            "t,y\n2020-01-01 23:00,1\n2020-01-01 23:30,2\n2020-01-02 00:00,9\n",
            "every 30 min",
            ["2020-01-02 00:30", "2020-01-02 01:00"],
        ),
        ("timestamp,y\n1577836800,1\n1577840400,5\n1577844000,2\n", "hourly", ["1577847600", "1577851200"]),
        ("year,month,y\n2020,11,1\n2020,12,2\n2021,1,4\n", "monthly", ["2021-02", "2021-03"]),
        ("year,quarter,y\n1959.0,3.0,1\n1959.0,4.0,2\n1960.0,1.0,4\n", "quarterly", ["1960Q2", "1960Q3"]),
        (
            "date,time,y\n2020-01-01,22:00,1\n2020-01-01,23:00,2\n2020-01-02,00:00,5\n",
            "hourly",
            ["2020-01-02 01:00", "2020-01-02 02:00"],
        ),
        (",y\n1821,269\n1822,321\n1823,585\n", "yearly", ["1824", "1825"]),
    ] {
        let panel = read(text);
        let (found, dates) = dated(only(&panel));
        assert_eq!(
            (found.as_str(), dates.as_slice()),
            (frequency, next.map(str::to_owned).as_slice()),
            "{text}"
        );
        assert_eq!(panel.columns().len(), 1, "{text}");
    }
    let options = ReadOptions { date_format: Some("%d/%m/%Y".to_owned()), ..ReadOptions::default() };
    let told = read_with(b"d,y\n01/02/2020,1\n02/03/2020,2\n", &options).expect("told");
    assert_eq!(only(&told).dates().expect("dates").values()[0].to_string(), "2020-02-01 00:00:00");
    let options = ReadOptions { date_column: Some("b".to_owned()), ..ReadOptions::default() };
    let told =
        read_with(b"a,b,y\n2020-01-01,2021-01-01,1\n2020-01-02,2021-01-03,2\n", &options).expect("told");
    assert_eq!(only(&told).dates().expect("dates").column(), "b");
}

#[test]
fn long_files_are_found_by_the_column_that_tells_rows_of_a_date_apart() {
    let panel = read("site,date,load\nx,2020-01-01,1\ny,2020-01-01,5\nx,2020-01-02,2\ny,2020-01-02,6\n");
    let names: Vec<&str> = panel.series().iter().map(Series::name).collect();
    assert_eq!((names, panel.columns()), (vec!["x", "y"], &["load".to_owned()][..]));
    assert_eq!(panel.notices()[0], "2 series, told apart by column `site`");
    assert_eq!(panel.found().series_id.as_deref(), Some("site"));
    // Numbers name series too, and a column of text that does not tell them apart is left out.
    let panel =
        read("store,kind,date,y\n1,a,2020-01-01,1\n2,a,2020-01-01,5\n1,a,2020-01-02,2\n2,b,2020-01-02,6\n");
    assert_eq!((panel.series().len(), panel.found().series_id.as_deref()), (2, Some("store")));
    // Without repeated dates a column of text is no series.
    assert_eq!(read("kind,date,y\na,2020-01-01,1\na,2020-01-02,5\nb,2020-01-03,2\n").series().len(), 1);
}

#[test]
fn what_is_no_value_is_left_out_and_said() {
    let panel = read(
        ",date,load,unit,site,empty,spare,on\n0,2020-01-01,1,5,north,,2,true\n1,2020-01-02,3,5,north,,,false\n\
         2,2020-01-03,2,5,south,,,true\n",
    );
    assert_eq!(panel.columns(), ["load", "on"]);
    let said = notes(&panel);
    for note in [
        "column `(no name)` is left out: it holds row numbers",
        "column `unit` is left out: it never changes",
        "column `site` is left out: it holds text",
        "column `empty` is left out: it is empty",
        "column `spare` is left out: more than half of its values are missing",
        "column `on`: true and false are read as 1 and 0",
    ] {
        assert!(said.contains(note), "{note} in\n{said}");
    }
    // What is named is read, constant or not.
    let options = ReadOptions { columns: Some(vec!["b".to_owned()]), ..ReadOptions::default() };
    assert_eq!(only(&read_with(b"a,b\n1,5\n2,5\n", &options).expect("named")).values(), [[5.0, 5.0]]);
    let prices = read("date,price,rate\n2020-01-01,\"$1,234.50\",3%\n2020-01-02,$900,4.5%\n");
    assert_eq!(only(&prices).values(), [[1234.5, 900.0], [3.0, 4.5]]);
    assert!(
        notes(&prices).contains("column `rate`: percent and currency signs are dropped"),
        "{}",
        notes(&prices)
    );
    assert_eq!(read("a,a\n1,2\n3,5\n").columns(), ["a", "a.1"]);
}

#[test]
fn holes_are_filled_and_said_once() {
    let panel = read(
        "date,a,b\n2020-01-01,,\n2020-01-02,1,2\n2020-01-03,,4\n2020-01-04,3,8\n2020-01-05,5,9\n2020-01-06,NA,-\n",
    );
    assert_eq!(only(&panel).values(), [[1.0, 2.0, 3.0, 5.0], [2.0, 4.0, 8.0, 9.0]]);
    let said = notes(&panel);
    assert!(said.contains("2 rows without any value at an end of the file: dropped"), "{said}");
    assert!(
        said.contains("1 missing values were filled by a straight line") && said.ends_with("a 1"),
        "{said}"
    );
    let options = ReadOptions { fill: Some(Fill::Zero), ..ReadOptions::default() };
    let zeros = read_with(b"date,a\n2020-01-01,1\n2020-01-02,\n", &options).expect("asked");
    assert_eq!(only(&zeros).values(), [[1.0, 0.0]]);
}

#[test]
fn rows_are_put_in_order_and_copies_dropped() {
    let panel = read("date,a\n2020-01-03,3\n2020-01-01,1\n2020-01-02,2\n2020-01-02,2\n");
    assert_eq!(only(&panel).values(), [[1.0, 2.0, 3.0]]);
    let said = notes(&panel);
    assert!(said.contains("rows of 1 series were out of order: sorted by date"), "{said}");
    assert!(said.contains("1 rows were copies of another one: dropped"), "{said}");
}

#[test]
fn a_clock_that_is_put_back_repeats_no_row() {
    // Local times in Vienna: 2:00 is there twice on 31 October 2021.
    let local = |i: usize| {
        let (day, hour) = if i < 27 { (30 + i / 24, i % 24) } else { (31, i - 25) };
        format!("2021-10-{day} {hour:02}:00,{i}\n")
    };
    let rows: String = (0..45).map(local).collect();
    let panel = read(&format!("date,load\n{rows}"));
    let (frequency, next) = dated(only(&panel));
    assert_eq!(
        (only(&panel).rows(), frequency.as_str(), next[0].as_str()),
        (45, "hourly", "2021-10-31 20:00")
    );
    assert!(notes(&panel).contains("the clock changes 1 times"), "{}", notes(&panel));
}
