//! Histories that are short, flat, or of a part of the calendar; many of them, and of different lengths.

mod program;

use program::{Folder, csv};
use serde_json::Value;

/// A number between -1 and 1 for each row of a seed.
fn noise(seed: u64, row: usize) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (row as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Date of a day from 2022-01-01 on.
fn day(row: usize) -> String {
    let start = chrono::NaiveDate::from_ymd_opt(2022, 1, 1).expect("a date");
    (start + chrono::Days::new(row as u64)).to_string()
}

/// A product with a strong week.
fn weekly(row: usize) -> f64 {
    const WEEK: [f64; 7] = [10.0, 12.0, 17.0, 11.0, 9.0, 20.0, 25.0];
    WEEK[row % 7] + noise(7, row)
}

/// Series of daily rows, in long form.
fn long(series: &[(&str, &dyn Fn(usize) -> f64)], rows: usize) -> String {
    let mut text = "id,ds,y\n".to_owned();
    for (name, value) in series {
        for row in 0..rows {
            text += &format!("{name},{},{}\n", day(row), value(row));
        }
    }
    text
}

/// The forecast of a series of a file in long form, or of an only series.
fn forecast(text: &str, series: Option<&str>) -> Vec<f64> {
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let own = rows.filter(|cells| series.is_none_or(|name| cells[0] == name));
    own.map(|cells| cells.last().and_then(|cell| cell.parse().ok()).expect("a number")).collect()
}

const DAILY: &str = "--horizon 7 --max-steps 4 --device cpu --threads 2";

#[test]
fn a_product_that_is_launched_does_not_choose_for_others() {
    let launched = |row: usize| if row < 72 { 0.0 } else { 500.0 + 20.0 * (row - 72) as f64 };
    let f = Folder::new();
    f.write("alone.csv", long(&[("a", &weekly)], 100));
    f.write("both.csv", long(&[("new", &launched), ("a", &weekly)], 100));
    // Nearly constant before it is launched, and in a unit a million times larger.
    let nearly = |row: usize| 1e6 * (launched(row) + 1e-7 * noise(3, row));
    f.write("nearly.csv", long(&[("new", &nearly), ("a", &weekly)], 100));
    f.runs(&format!("train --data alone.csv --series-id id --columns y {DAILY} --out alone"));
    let alone = forecast(&f.runs("forecast alone").out, None);
    for data in ["both", "nearly"] {
        f.runs(&format!("train --data {data}.csv --series-id id --columns y {DAILY} --out {data}"));
        let own = forecast(&f.runs(&format!("forecast {data}")).out, Some("a"));
        assert_eq!((alone.len(), own.len()), (7, 7));
        for (alone, own) in alone.iter().zip(&own) {
            assert!((alone - own).abs() < 0.15 * alone, "{data}: {own} beside {alone}");
        }
    }
}

#[test]
fn what_was_always_constant_is_forecast_by_itself_in_any_unit() {
    let five = |_: usize| 0.0005;
    let zero = |_: usize| 0.0;
    let small = |row: usize| 0.01 * (1.0 + 0.1 * (row as f64 * 0.9).sin() + 0.02 * noise(1, row));
    let other = |row: usize| 0.02 * (1.0 + 0.1 * (row as f64 * 0.9).cos() + 0.02 * noise(2, row));
    let f = Folder::new();
    f.write("d.csv", long(&[("a", &small), ("zero", &zero), ("b", &other), ("five", &five)], 150));
    f.runs(&format!("train --data d.csv --series-id id --columns y {DAILY} --out run"));
    let text = f.runs("forecast run").out;
    assert_eq!(forecast(&text, Some("zero")), [0.0; 7], "{text}");
    assert_eq!(forecast(&text, Some("five")), [0.0005; 7], "{text}");
    assert!(!text.contains(",-0"), "{text}");
    // Its test windows are forecast so too.
    f.runs("evaluate run --predictions p.csv");
    for line in f.read("p.csv").lines().filter(|line| line.starts_with("five,")) {
        assert!(line.ends_with(",0.0005,0.0005"), "{line}");
    }
}

#[test]
fn the_season_is_that_of_the_rows_that_are_there() {
    let f = Folder::new();
    let start = chrono::NaiveDate::from_ymd_opt(2021, 1, 4).expect("a date");
    let mut text = "time,load\n".to_owned();
    for day in 0..170 {
        let date = start + chrono::Days::new(day);
        if chrono::Datelike::weekday(&date).num_days_from_monday() > 4 {
            continue;
        }
        for hour in 8..18usize {
            let swing = 160.0 * ((hour as f64 - 8.0) * 0.35).sin();
            text += &format!("{date} {hour:02}:00,{}\n", 100.0 + swing + noise(5, day as usize * 24 + hour));
        }
    }
    f.write("d.csv", text);
    let words = "train --data d.csv --horizon 10 --max-steps 2 --device cpu --threads 2 --json --out run";
    let object = f.runs(words).json();
    assert_eq!(object["seasonal_period"].as_u64(), Some(10));
    // Seasonal naive repeats the same hour of the day before.
    assert!(object["seasonal-naive"]["mse"].as_f64() < Some(0.01), "{object}");
}

/// A monthly series of so many rows.
fn months(rows: usize) -> String {
    let row = |i: usize| {
        let value = 100.0 + 10.0 * (i as f64 * std::f64::consts::TAU / 12.0).sin() + noise(9, i);
        format!("{}-{:02}-01,{value:.2}\n", 2020 + i / 12, i % 12 + 1)
    };
    format!("ds,y\n{}", (0..rows).map(row).collect::<String>())
}

#[test]
fn a_history_without_room_for_a_test_is_forecast_and_that_is_said() {
    let f = Folder::new();
    for rows in [1, 2, 3, 13, 30, 40] {
        f.write("d.csv", months(rows));
        let run = format!("run{rows}");
        let ran =
            f.runs(&format!("train --data d.csv --columns y --horizon 12 --device cpu --json --out {run}"));
        assert!(ran.err.contains("nothing is tested"), "{}", ran.err);
        assert!(ran.out.contains("Nothing was tested"), "{}", ran.out);
        assert_eq!(ran.json()["tested"], Value::Bool(false));
        let text = f.runs(&format!("forecast {run}")).out;
        assert_eq!(text.lines().count(), 13, "{rows} rows: {text}");
        if rows > 1 {
            let (year, month) = (2020 + rows / 12, rows % 12 + 1);
            assert!(text.starts_with(&format!("ds,y\n{year}-{month:02}-01,")), "{rows} rows: {text}");
        }
        if rows == 30 {
            let season = forecast(&text, None);
            let largest = season.iter().fold(0.0_f64, |a, b| a.max(*b));
            assert!(largest > 107.0, "{rows} rows: a season, and not {season:?}");
        }
    }
    // With its last rows as the test rows a history of 60 has a window that tests, and one of 20 has none.
    f.write("d.csv", months(60));
    let words = "train --data d.csv --horizon 12 --split last --max-steps 2 --device cpu --json --out last";
    let object = f.runs(words).json();
    assert_eq!((object["windows"].as_u64(), &object["tested"]), (Some(1), &Value::Bool(true)));
    assert!(f.read("last/config.toml").contains("split = \"last:12\""));
    // A network that nothing fits is no network.
    let told = f.refused("train --data d.csv --horizon 12 --split last:0");
    assert!(told.starts_with("split `last:0` cannot be read"), "{told}");
}

#[test]
fn short_series_among_longer_ones_are_forecast_by_themselves() {
    let f = Folder::new();
    let mut text = long(&[("a", &weekly), ("b", &|row| 2.0 * weekly(row + 3))], 120);
    for (name, rows) in [("one", 1), ("two", 2), ("ten", 10)] {
        for row in 120 - rows..120 {
            text += &format!("{name},{},{}\n", day(row), 100 + row % 7);
        }
    }
    f.write("d.csv", text);
    let ran =
        f.runs(&format!("train --data d.csv --series-id id --columns y {DAILY} --interval 80 --out run"));
    let said = "series `ten` (10 rows) is forecast by itself, and not tested: ";
    assert!(ran.err.contains(said), "{}", ran.err);
    let ran = f.runs("forecast run");
    assert_eq!(ran.out.lines().count(), 1 + 5 * 7, "{}", ran.out);
    let row = |name: &str| -> Vec<String> {
        let mut own = ran.out.lines().filter(|line| line.starts_with(&format!("{name},")));
        own.next().expect("a row").split(',').map(str::to_owned).collect()
    };
    let next = day(120);
    // One row shows no bounds; ten are forecast by their own ensemble.
    assert_eq!(row("one"), ["one", &next, "100.0", "", ""].map(str::to_owned));
    let ten: Vec<f64> = row("ten")[2..].iter().map(|cell| cell.parse().expect("a number")).collect();
    assert!(
        row("ten")[1] == next && (98.0..108.0).contains(&ten[0]) && ten[1] < ten[0] && ten[0] < ten[2],
        "{ten:?}"
    );
    assert!(row("a").iter().all(|cell| !cell.is_empty()), "{:?}", row("a"));
}

#[test]
fn a_series_with_few_windows_has_no_intervals_and_the_others_have() {
    let f = Folder::new();
    let mut text = long(&[("a", &weekly), ("b", &|row| 2.0 * weekly(row + 3))], 300);
    (0..60).for_each(|row| text += &format!("few,{},{}\n", day(240 + row), weekly(row)));
    f.write("d.csv", text);
    let words = "--model nlinear --horizon 7 --context 14 --device cpu --interval 97";
    let ran = f.runs(&format!("train --data d.csv --series-id id --columns y {words} --out run"));
    let said = "note: series `few` without intervals: of 33 windows that the run was not fit on it has ";
    assert!(ran.err.contains(said), "{}", ran.err);
    f.runs("evaluate run --predictions p.csv");
    let ran = f.runs("forecast run --out ahead.csv");
    assert!(ran.err.contains("series `few` without intervals"), "{}", ran.err);
    assert!(ran.out.contains(" and 2 more series are in ahead.csv"), "{}", ran.out);
    for line in f.read("ahead.csv").lines().skip(1) {
        assert_eq!(line.ends_with(",,"), line.starts_with("few,"), "{line}");
    }
    // From a past row before any such window there is a forecast without bounds; bounds that are asked for are refused.
    let early = format!("forecast run --at {}", day(150));
    let ran = f.runs(&early);
    assert!(ran.err.contains("the forecast has no intervals: "), "{}", ran.err);
    assert!(ran.out.starts_with("series,ds,y\n"), "{}", ran.out);
    let ran = f.run(&format!("{early} --interval 97"));
    assert!(ran.code == Some(2) && ran.err.contains("error: --interval 97: series `a` has "), "{}", ran.err);
    assert!(f.runs("forecast run --no-interval").out.starts_with("series,ds,y\n"));
}

#[test]
fn many_series_are_summed_up() {
    let f = Folder::new();
    let mut text = "id,ds,y\n".to_owned();
    for series in 0..40 {
        let rows = if series < 20 { 80 } else { 5 };
        (0..rows).for_each(|row| text += &format!("s{series:02},{},{}\n", day(row), weekly(row + series)));
    }
    f.write("d.csv", text);
    let words = "--model nlinear --horizon 7 --device cpu";
    let ran = f.runs(&format!("train --data d.csv --series-id id --columns y {words} --out run"));
    assert!(ran.err.contains("note: and 17 more series, for the like reasons"), "{}", ran.err);
    assert!(ran.out.contains("14 more, the median"), "{}", ran.out);
    assert!(ran.out.contains("ridge regression, in no steps"), "{}", ran.out);
    assert!(ran.out.lines().count() + ran.err.lines().count() < 45, "{}{}", ran.out, ran.err);
}

#[test]
fn a_file_of_many_columns_is_trained_on_column_by_column() {
    let f = Folder::new();
    let (columns, rows) = (80, 160);
    let mut text = "ds".to_owned();
    (0..columns).for_each(|c| text += &format!(",c{c}"));
    for row in 0..rows {
        text += &format!("\n{}", day(row));
        (0..columns).for_each(|c| text += &format!(",{:.3}", (c + 1) as f64 * weekly(row + c)));
    }
    f.write("d.csv", text);
    let words = "train --data d.csv --horizon 5 --max-steps 3 --model patchtst --device cpu --threads 2 --json --out run";
    let ran = f.runs(words);
    assert!(ran.out.contains("3 steps of 128 windows of one column"), "{}", ran.out);
    let object = ran.json();
    let scored = f.runs("evaluate run --predictions p.csv --json").json();
    assert_eq!((&scored["mse"], &scored["windows"]), (&object["mse"], &object["windows"]));
    // The error is that of the forecasts, whichever column they are of.
    let text = f.read("p.csv");
    let head: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
    let at = |name: &str| head.iter().position(|h| *h == name).expect("a column");
    for (number, column) in ["c0", "c41", "c79"].iter().enumerate() {
        let (own, actual) = (at(column), at(&format!("{column}_actual")));
        let errors = text.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let value = |at: usize| cells[at].parse::<f64>().expect("a number");
            (value(own) - value(actual)).powi(2)
        });
        let (sum, n) = errors.fold((0.0, 0.0), |(sum, n), e| (sum + e, n + 1.0));
        let place = [0, 41, 79][number];
        let mse = scored["columns"][place]["mse"].as_f64().expect("a number");
        assert!((sum / n - mse).abs() < 1e-4 * mse, "{column}: {} and {mse}", sum / n);
    }
}

#[test]
fn covariates_that_a_winner_does_not_read_are_said() {
    let f = Folder::new();
    let mut text = "ds,y,price\n".to_owned();
    (0..200).for_each(|row| text += &format!("{},{:.3},{:.2}\n", day(row), weekly(row), 5.0 + noise(4, row)));
    f.write("d.csv", text);
    let words = "train --data d.csv --target y --horizon 7 --max-steps 2 --device cpu --json --out run";
    let ran = f.runs(words);
    let forecaster = &ran.json()["forecaster"];
    let reads = forecaster["ridge"].is_null() && forecaster["share"].as_f64() > Some(0.0);
    assert_eq!(!reads, ran.out.contains("reads no covariates, so that they have no part"), "{}", ran.out);
    assert!(!reads, "a network of two steps wins: {}", ran.out);
}

#[test]
fn series_of_two_frequencies_are_refused_by_name() {
    let f = Folder::new();
    let mut text = long(&[("a", &weekly)], 120);
    for i in 0..60 {
        text += &format!("m,{}-{:02}-01,{}\n", 2018 + i / 12, i % 12 + 1, 100 + i);
    }
    f.write("d.csv", text);
    let words = "train --data d.csv --series-id id --columns y --horizon 6 --model nlinear --device cpu";
    let told = f.refused(words);
    assert!(told.starts_with("series `a` is daily and series `m` monthly, and one season"), "{told}");
    f.runs(&format!("{words} --period 7 --out run"));
}

#[test]
fn baselines_need_no_context_and_names_stand_once() {
    let f = Folder::new();
    f.write("d.csv", months(60));
    let scored = f.runs("evaluate --model seasonal-naive --data d.csv --horizon 6 --json").json();
    assert_eq!(scored["windows"].as_u64(), Some(7));
    let text = csv(300).replacen("wind", "load-lo-80", 1);
    f.write("e.csv", text);
    f.runs("train --data e.csv --horizon 8 --model nlinear --device cpu --out run");
    let told = f.refused("forecast run --interval 80");
    assert!(told.starts_with("two columns of the table would be called `load-lo-80`: "), "{told}");
    f.runs("forecast run");
}

#[test]
fn forecasts_have_the_digits_of_their_dtype() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs("train --data d.csv --horizon 8 --model nlinear --device cpu --interval 80 --out run");
    let ran = f.runs("forecast run");
    assert!(!ran.err.contains("device"), "{}", ran.err);
    f.runs("evaluate run --predictions p.csv");
    for text in [ran.out, f.read("p.csv")] {
        for cell in text.lines().skip(1).flat_map(|line| line.split(',')) {
            let digits = cell.chars().filter(char::is_ascii_digit).count();
            let date = cell.contains(':');
            assert!(date || digits <= 10, "{cell}");
        }
    }
}
