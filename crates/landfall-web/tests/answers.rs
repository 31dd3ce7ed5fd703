//! Answers of the page: the numbers of the library, and what is wrong as text.

use landfall_data::{Panel, ReadOptions};
use landfall_forecast::run::Device;
use landfall_forecast::without_run::{PanelForecaster, Spread};
use serde_json::{Value, json};

fn answer(csv: &str, horizon: usize) -> Value {
    serde_json::from_str(&landfall_web::answer(csv.as_bytes(), horizon)).expect("JSON")
}

/// Two shops of two columns, with one cell that is missing.
fn shops() -> String {
    let mut csv = "shop,month,sales,visits\n".to_owned();
    for shop in ["north", "south"] {
        for i in 0..40 {
            let (year, month) = (2020 + i / 12, i % 12 + 1);
            let sales = 100.0 + f64::from(i) + 20.0 * (f64::from(i) * std::f64::consts::TAU / 12.0).sin();
            let sales = if i == 7 { String::new() } else { format!("{sales:.3}") };
            csv += &format!("{shop},{year}-{month:02}-01,{sales},{}\n", 10 * i + i32::from(shop == "south"));
        }
    }
    csv
}

#[test]
fn numbers_are_those_of_the_forecaster() {
    let (csv, horizon) = (shops(), 7);
    let panel = Panel::parse(csv.as_bytes(), "a CSV", &ReadOptions::default()).expect("a panel");
    let mut forecaster = PanelForecaster::new(None, Device::Cpu, Some(1)).expect("a forecaster");
    let spread = Spread { quantiles: &[], intervals: &[80.0] };
    let forecasts = forecaster.forecast(&panel, horizon, spread).expect("forecasts");
    let answer = answer(&csv, horizon);
    assert_eq!(answer["columns"], json!(["sales", "visits"]), "{answer}");
    assert_eq!((&answer["label"], &answer["level"]), (&json!("month"), &json!(80.0)));
    assert_eq!(answer["series"].as_array().map(Vec::len), Some(2));
    for (series, expected) in answer["series"].as_array().into_iter().flatten().zip(&forecasts) {
        assert_eq!(series["name"], expected.context.name());
        assert_eq!(series["median"], json!(expected.values));
        for (column, bounds) in expected.intervals.iter().enumerate() {
            assert_eq!(series["low"][column], json!(bounds[0][0]));
            assert_eq!(series["high"][column], json!(bounds[0][1]));
        }
        assert_eq!(series["history"], json!(expected.context.values()));
        let (dates, rows) = (&series["dates"], &series["rows"]);
        assert_eq!((&dates[0], &dates[39]), (&json!("2020-01-01"), &json!("2023-04-01")));
        assert_eq!((&rows[0], &rows[6]), (&json!("2023-05-01"), &json!("2023-11-01")));
    }
    assert_eq!(answer["notes"], json!(panel.notices()));
    let csv = answer["csv"].as_str().expect("a CSV");
    assert!(csv.starts_with("series,month,sales,sales-lo-80,sales-hi-80,visits,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 2 * horizon);
}

#[test]
fn rows_without_dates_are_numbered() {
    let csv = (0..30).fold("load\n".to_owned(), |csv, i| csv + &format!("{}\n", i % 5));
    let answer = answer(&csv, 2);
    assert_eq!(answer["label"], "step");
    assert_eq!(
        (&answer["series"][0]["dates"], &answer["series"][0]["rows"]),
        (&Value::Null, &json!(["1", "2"]))
    );
}

#[test]
fn what_is_wrong_is_said() {
    for (csv, horizon, part) in [
        ("", 3, "the CSV"),
        ("day,load\n2024-01-01,1\n2024-01-02,two\n2024-01-03,3\n", 3, "two"),
        ("day,load\n2024-01-01,1\n2024-01-01,2\n", 3, "2024-01-01"),
        ("load\n1\n2\n3\n4\n", 0, "horizon"),
        ("load\n1\n2\n3\n4\n", usize::MAX, "horizon"),
        ("load,load-lo-80\n1,1\n2,4\n3,5\n4,4\n", 2, "`load-lo-80`"),
    ] {
        let answer = answer(csv, horizon);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(part), "{csv:?} {horizon}: {answer}");
    }
}
