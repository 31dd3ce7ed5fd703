//! `landfall serve` of runs with covariates, quantiles, distributions and intervals: its answers are those of
//! `landfall forecast`, and rows that are missing after a history are refused with their columns and numbers.
#![cfg(unix)]

mod program;

use program::Folder;
use program::known::{cell, rows};
use program::server::{Answer, Server};
use serde_json::{Value, json};

const ROWS: usize = 300;
const HORIZON: usize = 6;
const ALL: [&str; 4] = ["sales", "price", "event", "weather"];

/// The same as columns of JSON.
fn columns(from: usize, count: usize, names: &[&str]) -> Value {
    let list = |name: &str| (from..from + count).map(|t| cell(t, name)).collect::<Vec<_>>();
    let all: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), list(name).into())).collect();
    json!({"dates": list("date"), "columns": all})
}

/// A history with the rows after it.
fn history(end: usize) -> Value {
    let mut history = columns(0, end, &ALL);
    history["future"] = columns(end, HORIZON, &["price", "event"]);
    history
}

const COVARIATES: &str = "--target sales --known-future price,event --categorical event --calendar hour";

fn trained(flags: &str) -> Folder {
    let f = Folder::new();
    f.write("d.csv", rows(0, ROWS, &ALL));
    f.write("future.csv", rows(ROWS, HORIZON, &["price", "event"]));
    f.write("t.toml", "[network]\ntemporal-norm = false\n");
    f.runs(&format!(
        "train --data d.csv --context 24 --horizon {HORIZON} --max-steps 4 --batch 16 --threads 2 --device cpu {flags} --out run"
    ));
    f
}

/// Compares an answer in JSON with what `forecast --json` printed.
fn same(answer: &Answer, told: &Value) {
    assert_eq!(answer.code, 200, "{}", answer.body);
    let answer = answer.json();
    let one = &answer["forecasts"][0];
    assert_eq!((&answer["columns"], &one["dates"]), (&told["columns"], &told["date"]), "{answer}");
    for key in ["values", "quantiles", "intervals"] {
        assert_eq!(one.get(key), told.get(key), "{key}");
    }
    for key in ["levels", "interval_levels"] {
        assert_eq!(answer.get(key), told.get(key), "{key}");
    }
}

#[test]
fn rows_known_in_advance_come_with_the_history() {
    for flags in [
        "--preset dlinear --loss student-t --interval 80,95",
        "--preset tide --config t.toml --quantiles 0.1,0.5,0.9",
        "--preset tsmixer",
    ] {
        let f = trained(&format!("{flags} {COVARIATES}"));
        let server = Server::start(&f, "run --max-batch 4");
        let (data, future) = (f.read("d.csv"), f.read("future.csv"));
        let expected = f.runs("forecast run --future future.csv --device cpu").out;
        let parts = [("data", data.as_str()), ("future", future.as_str())];
        assert_eq!(server.parts("", &parts).body, expected, "{flags}");
        let told = f.runs("forecast run --future future.csv --device cpu --json").json();
        same(&server.parts("Accept: application/json\r\n", &parts), &told);
        same(&server.object(&history(ROWS)), &told);
        let mut missing = history(ROWS);
        missing["future"]["columns"]["price"][HORIZON - 1] = Value::Null;
        let notes = server.object(&missing).json()["notes"].to_string();
        assert!(notes.contains("`future` of the history: 1 missing value interpolated"), "{notes}");
        // By rows, without the date of those that follow.
        let row = |t: usize, names: &[&str]| -> Value {
            names
                .iter()
                .map(|name| ((*name).to_owned(), cell(t, name)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let of =
            |range: std::ops::Range<usize>, names: &[&str]| range.map(|t| row(t, names)).collect::<Vec<_>>();
        let all = ["date", "sales", "price", "event", "weather"];
        let ahead = of(ROWS..ROWS + HORIZON, &["price", "event"]);
        same(&server.object(&json!({"rows": of(0..ROWS, &all), "future": {"rows": ahead}})), &told);
        // Each of several has its own, and is what it is alone.
        let ends = [200, 207, 219, 230, 231, 240];
        let together = server.object(&json!({"histories": ends.map(history)})).json();
        for (end, one) in ends.into_iter().zip(together["forecasts"].as_array().expect("forecasts")) {
            let alone = server.object(&history(end)).json();
            assert_eq!(alone["forecasts"][0]["values"], one["values"], "{flags}, {end} rows");
        }
        f.write("older.csv", rows(0, 219, &ALL));
        f.write("after.csv", rows(219, HORIZON, &["price", "event"]));
        let older = f.runs("forecast run --data older.csv --future after.csv --device cpu --json");
        let (older, served) = (older.json(), &together["forecasts"][2]);
        assert_eq!((&older["values"], older.get("quantiles")), (&served["values"], served.get("quantiles")));
        let model = server.get("/model").json();
        assert_eq!(
            (&model["columns"], &model["known_future"], &model["categorical"], &model["calendar"]),
            (
                &json!(["sales", "weather", "price", "event"]),
                &json!(["price", "event"]),
                &json!(["event"]),
                &json!(["hour"])
            )
        );
        let help = server.get("/").body;
        assert!(help.contains("-F data=@history.csv -F future=@future.csv"), "{help}");
        assert!(
            help.contains("\"event\": [\"name\"") && help.contains("by columns, with dates; null"),
            "{help}"
        );
        assert!(help.contains("\"dates\": [\"2024-12-31 13:00:00\", ...]"), "{help}");
        assert!(!help.contains("--data-binary"), "a history alone is refused: {help}");
    }
}

#[test]
fn rows_that_are_missing_or_of_other_dates_are_refused() {
    let f = trained(&format!("--preset dlinear {COVARIATES}"));
    let server = Server::start(&f, "run");
    let says = |answer: &Answer, words: &str| {
        assert_eq!(answer.code, 422, "{}", answer.body);
        assert!(answer.error().contains(words), "{}", answer.error());
    };
    let with = |future: Value| {
        let mut history = columns(0, ROWS, &ALL);
        history["future"] = future;
        server.object(&history)
    };
    let ahead = |from, count| columns(from, count, &["price", "event"]);
    says(
        &server.object(&columns(0, ROWS, &ALL)),
        "columns price, event=fair, event=none, event=strike are known in advance, and 6 rows after its last (2024-01-13 11:00:00) \
         are forecast; give their values with `future`",
    );
    says(
        &with(ahead(ROWS, 4)),
        "`future` of the history: series `the history` has 4 of the 6 rows after 2024-01-13 11:00:00 that are forecast, and columns price, \
         event=fair, event=none, event=strike are known in advance; add the others",
    );
    says(&with(ahead(ROWS + 1, 6)), "has 2024-01-13 13:00:00 where 2024-01-13 12:00:00 is forecast");
    says(&with(columns(ROWS, HORIZON, &["price"])), "no column `event`; add it or correct its name");
    let mut uneven = ahead(ROWS, HORIZON);
    uneven["columns"]["price"] = json!([1, 2]);
    says(&with(uneven), "column `price` has 2 values and the series 6 rows");
    let mut unknown = ahead(ROWS, HORIZON);
    unknown["columns"]["event"][2] = json!("parade");
    says(&with(unknown), "has `parade`, which the run was not trained on; it knows fair, none, strike");
    let mut text = ahead(ROWS, HORIZON);
    text["columns"]["price"][1] = json!("dear");
    says(&with(text), "`future` of the history: column `price`, row 2: \"dear\" is not a number");
    let mut undated = history(ROWS);
    undated["dates"] = Value::Null;
    says(
        &server.object(&undated),
        "the history: no dates, and the run reads features of them; give each row its date",
    );
    let (data, short) = (f.read("d.csv"), rows(ROWS, 4, &["price", "event"]));
    says(&server.parts("", &[("data", &data), ("future", &short)]), "the future: series ");
    says(&server.csv(&data), "give their values with `future`");
    for (parts, words) in [
        (vec![("data", data.as_str()), ("futur", short.as_str())], "a part has the name \"futur\""),
        (vec![("future", short.as_str())], "the part `data` is missing"),
        (vec![("data", data.as_str()), ("data", data.as_str())], "the part `data` is there twice"),
    ] {
        let answer = server.parts("", &parts);
        assert!(answer.code == 400 && answer.error().contains(words), "{}", answer.body);
    }
    let cut =
        server.post("/forecast", "Content-Type: multipart/form-data; boundary=edge\r\n", "--edge\r\nContent");
    assert!(cut.code == 400 && cut.error().contains("no multipart/form-data"), "{}", cut.body);
    // Nothing is known in advance: there is no place for it.
    let f = trained("--preset dlinear --target sales");
    let server = Server::start(&f, "run");
    says(&server.object(&history(ROWS)), "the run has no columns known in advance");
    assert_eq!(server.csv(&f.read("d.csv")).body, f.runs("forecast run --device cpu").out);
}

/// Series with a static column of names, and intervals that each series has of its own.
#[test]
fn static_columns_and_intervals_are_those_of_each_series() {
    let f = Folder::new();
    let mut text = "shop,kind,date,sales,price\n".to_owned();
    let mut future = "shop,date,price\n".to_owned();
    for (shop, kind, factor) in [("a", "kiosk", 1), ("b", "hall", 30)] {
        for t in 0..ROWS + HORIZON {
            let date = cell(t, "date");
            let (date, price) = (date.as_str().expect("a date"), t * 7919 % 101);
            if t < ROWS {
                text += &format!("{shop},{kind},{date},{},{price}\n", factor * (2 * price + t % 24));
            } else {
                future += &format!("{shop},{date},{price}\n");
            }
        }
    }
    f.write("d.csv", &text);
    f.write("future.csv", &future);
    f.runs(
        "train --data d.csv --series-id shop --target sales --known-future price --static kind --categorical kind \
         --preset dlinear --context 24 --horizon 6 --max-steps 4 --batch 16 --device cpu --threads 2 --interval 80 --out run",
    );
    let server = Server::start(&f, "run");
    let expected = f.runs("forecast run --future future.csv --device cpu").out;
    assert!(expected.starts_with("series,date,sales,sales-lo-80,sales-hi-80\n"), "{expected:.80}");
    assert_eq!(server.parts("", &[("data", &text), ("future", &future)]).body, expected);
    // One series alone has the intervals of its name.
    let of = |text: &str, shop: &str| -> String {
        text.lines()
            .enumerate()
            .filter(|(i, l)| *i == 0 || l.starts_with(shop))
            .map(|(_, l)| format!("{l}\n"))
            .collect()
    };
    let alone = server.parts("", &[("data", &of(&text, "b,")), ("future", &of(&future, "b,"))]).body;
    let expected: Vec<&str> = expected.lines().filter_map(|l| l.strip_prefix("b,")).collect();
    assert_eq!(alone.lines().skip(1).collect::<Vec<_>>(), expected);
    // Other levels, none, and errors of another file.
    drop(server);
    let server = Server::start(&f, "run --interval 50");
    let body = server.parts("", &[("data", &text), ("future", &future)]).body;
    assert_eq!(body, f.runs("forecast run --future future.csv --interval 50 --device cpu").out);
    drop(server);
    f.write("b.csv", of(&text, "b,"));
    let server = Server::start(&f, "run --data b.csv");
    let refused = server.parts("", &[("data", &text), ("future", &future)]);
    assert!(refused.code == 422 && refused.error().contains("series `a` has 0 windows"), "{}", refused.body);
    drop(server);
    assert!(f.refused("serve run --interval 99.9").contains("an interval of 99.9 % needs 999"));
    std::fs::remove_file(f.path().join("d.csv")).expect("removed");
    assert!(f.refused("serve run").contains("d.csv"), "its data is not there");
    let server = Server::start(&f, "run --no-interval");
    let body = server.parts("", &[("data", &text), ("future", &future)]).body;
    assert!(body.starts_with("series,date,sales\n"), "{body:.80}");
}
