//! `landfall serve`: its forecasts are those of `landfall forecast`, several at once too; what is wrong is refused in words; it
//! ends when it is asked to.
#![cfg(unix)]

mod program;

use program::server::{Answer, Server};
use program::{Folder, csv};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const TRAIN: &str =
    "train --data d.csv --context 32 --horizon 8 --batch 16 --threads 2 --device cpu --max-steps 3 --out run";

fn trained(flags: &str) -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs(&format!("{TRAIN} {flags}"));
    f
}

/// The rows of a CSV before `end`, as columns of JSON.
fn columns(text: &str, end: usize) -> Value {
    let rows: Vec<Vec<&str>> = text.lines().skip(1).take(end).map(|l| l.split(',').collect()).collect();
    let numbers = |c: usize| rows.iter().map(|r| r[c].parse::<f64>().expect("a number")).collect::<Vec<_>>();
    let dates: Vec<&str> = rows.iter().map(|r| r[0]).collect();
    json!({"dates": dates, "columns": {"load": numbers(1), "wind": numbers(2)}})
}

#[test]
fn forecasts_are_those_of_the_program_to_the_last_digit() {
    for flags in ["--preset patchtst-42 --quantiles 0.1,0.5,0.9", "--preset dlinear --target wind"] {
        let f = trained(flags);
        let text = f.read("d.csv");
        let server = Server::start(&f, "run --max-batch 8");
        let expected = f.runs("forecast run --device cpu").out;
        assert_eq!(server.csv(&text).body, expected);
        // By columns, by rows, and JSON of a CSV.
        let told = f.runs("forecast run --device cpu --json").json();
        let object = columns(&text, usize::MAX);
        let rows: Vec<Value> = (0..300)
            .map(|i| json!({"date": object["dates"][i], "load": object["columns"]["load"][i], "wind": object["columns"]["wind"][i]}))
            .collect();
        let as_json = "Content-Type: text/csv\r\nAccept: application/json\r\n";
        for answer in [
            server.object(&object),
            server.object(&json!({"rows": rows})),
            server.post("/forecast", as_json, &text),
        ] {
            let answer = answer.json();
            let one = &answer["forecasts"][0];
            assert_eq!(
                (&answer["columns"], &one["dates"], &one["values"]),
                (&told["columns"], &told["date"], &told["values"])
            );
            assert_eq!(
                (answer.get("levels"), one.get("quantiles")),
                (told.get("levels"), told.get("quantiles"))
            );
        }
        // Many at once are put into one batch, and each has its own forecast.
        let ends: Vec<usize> = (200..230).collect();
        let histories: Vec<Value> = ends.iter().map(|&end| columns(&text, end)).collect();
        let together = server.object(&json!({"histories": histories})).json();
        std::thread::scope(|scope| {
            for (history, one) in histories.iter().zip(together["forecasts"].as_array().expect("forecasts")) {
                let server = &server;
                scope.spawn(move || {
                    let alone = server.object(history).json();
                    assert_eq!(
                        (&alone["forecasts"][0]["values"], &alone["forecasts"][0]["dates"]),
                        (&one["values"], &one["dates"])
                    );
                });
            }
        });
        let metrics = server.get("/metrics").body;
        let of = |key: &str| {
            let line = metrics.lines().find(|l| l.starts_with(key)).expect(key);
            line.rsplit_once(' ').expect("a value").1.parse::<f64>().expect("a number")
        };
        assert_eq!(of("landfall_forecasts_total"), 64.0);
        assert!(of("landfall_batch_histories_count") < 40.0, "{metrics}");
        assert_eq!(
            (of("landfall_requests_total{code=\"200\"}"), of("landfall_request_seconds_count")),
            (35.0, 35.0)
        );
    }
}

#[test]
fn series_are_told_apart_by_their_names() {
    let f = Folder::new();
    let mut text = "site,date,load,wind\n".to_owned();
    for (site, factor) in [("north", 1.0), ("south", 40.0)] {
        for line in csv(300).lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let [load, wind] = [1, 2].map(|i| cells[i].parse::<f64>().expect("a number") * factor);
            text += &format!("{site},{},{load:.4},{wind:.4}\n", cells[0]);
        }
    }
    f.write("d.csv", &text);
    f.runs(&format!("{TRAIN} --preset dlinear --series-id site"));
    let server = Server::start(&f, "run");
    let all = f.runs("forecast run --device cpu").out;
    assert_eq!(server.csv(&text).body, all);
    let south: String = text.lines().filter(|l| !l.starts_with("north")).map(|l| format!("{l}\n")).collect();
    let of_south: Vec<&str> = all.lines().filter_map(|l| l.strip_prefix("south,")).collect();
    assert_eq!(server.csv(&south).body.lines().skip(1).collect::<Vec<_>>(), of_south);
    let bare: String = south.lines().map(|l| format!("{}\n", l.split_once(',').expect("cells").1)).collect();
    let named = server.post("/forecast?series=south", "Content-Type: text/csv\r\n", &bare);
    assert_eq!(named.body.lines().skip(1).collect::<Vec<_>>(), of_south);
    let mut object = columns(&bare, usize::MAX);
    let unknown = server.object(&object);
    assert_eq!(unknown.code, 422);
    assert!(unknown.error().contains("north, south"), "{}", unknown.error());
    object["series"] = json!("south");
    assert_eq!(server.object(&object).json()["forecasts"][0]["series"], "south");
}

#[test]
fn notes_say_what_was_filled() {
    let f = trained("--preset dlinear");
    let server = Server::start(&f, "run");
    let mut history = columns(&f.read("d.csv"), usize::MAX);
    assert_eq!(server.object(&history).json().get("notes"), None);
    for column in [&["dates"][..], &["columns", "load"], &["columns", "wind"]] {
        let cells = column.iter().fold(&mut history, |all, key| &mut all[*key]);
        cells.as_array_mut().expect("a list").drain(50..60);
    }
    history["columns"]["load"][290 - 20] = Value::Null;
    let by = "interpolated between the values on both sides, so a filled row knows of the next value";
    let places = "10 of them between 2021-01-03 01:00:00 and 2021-01-03 12:00:00";
    let notes = |source: &str| {
        [
            format!("{source}: 10 rows inserted where the dates skip them ({places}), {by}"),
            format!("{source}: 1 missing value {by}: load (1)"),
        ]
    };
    assert_eq!(server.object(&history).json()["notes"], json!(notes("the history")));
    let both = json!({"histories": [columns(&f.read("d.csv"), usize::MAX), history]});
    assert_eq!(server.object(&both).json()["notes"], json!(notes("history 2")));
}

#[test]
fn what_is_wrong_is_refused_in_words() {
    let f = trained("--preset dlinear");
    let text = f.read("d.csv");
    let server = Server::start(&f, "run --max-body 1 --max-histories 3 --timeout 1");
    let says = |answer: &Answer, code: u16, words: &str| {
        assert_eq!(answer.code, code, "{}", answer.body);
        assert!(answer.error().contains(words), "{}", answer.error());
    };
    let short = server.object(&json!({"columns": {"load": [1, 2], "wind": [1, 2]}}));
    says(&short, 422, "2 rows where 32 are needed");
    says(&server.object(&json!({"columns": {"load": [1]}})), 422, "no column `wind`");
    says(
        &server.object(&json!({"columns": {"load": [1, "a"], "wind": [1, 2]}})),
        422,
        "column `load`, row 2: \"a\" is not a number",
    );
    says(
        &server.object(&json!({"columns": {"load": [1, 2], "wind": [1]}})),
        422,
        "column `wind` has 1 values and the series 2 rows",
    );
    says(&server.object(&json!({"colums": {}})), 400, "unknown field `colums`");
    says(&server.object(&json!({})), 422, "the run reads load, wind");
    says(&server.object(&json!({"histories": []})), 422, "`histories` is empty");
    says(&server.object(&json!({"histories": [{}, {}, {}, {}]})), 413, "4 histories, and at most 3");
    let far = server.object(&json!({"columns": {"load": vec![1e300; 32], "wind": vec![1.0; 32]}}));
    says(&far, 422, "standard deviations from the mean");
    let bad = |body: &str| server.post("/forecast", "Content-Type: application/json\r\n", body);
    says(&bad("{\"columns\": {\"load\": [NaN]}}"), 400, "line 1 column 23");
    says(&bad(&"[".repeat(100_000)), 400, "the body is not JSON");
    says(&server.csv(&"1".repeat(2 << 20)), 413, "2097152 bytes, and at most 1048576");
    says(&server.csv("date,load\n"), 422, "no rows");
    says(&server.post("/forecast", "", &text), 415, "Content-Type: text/csv");
    says(&server.post("/forecast", "Content-Type: text/csv\r\nAccept: image/png\r\n", &text), 406, "Accept");
    says(&server.post("/forecast?serie=a", "Content-Type: text/csv\r\n", &text), 400, "?series=NAME");
    says(&server.get("/forecasts"), 404, "GET / describes");
    let wrong = server.get("/forecast");
    says(&wrong, 405, "use POST");
    assert!(wrong.head.contains("allow: post"), "{}", wrong.head);
    let slow = server.send(
        b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 9\r\n\r\nd",
    );
    says(&slow, 408, "within 1 s");
    // It is as well as before.
    assert_eq!(server.csv(&text).body, f.runs("forecast run --device cpu").out);
    assert_eq!(server.get("/health").json(), json!({"status": "ok", "forecaster": "dlinear"}));
    let model = server.get("/model").json();
    assert_eq!(
        (&model["columns"], &model["rows"], &model["horizon"]),
        (&json!(["load", "wind"]), &json!(32), &json!(8))
    );
    assert!(server.get("/").body.contains("curl http://127.0.0.1:"));
}

#[test]
fn a_signal_lets_requests_finish() {
    let f = trained("--preset dlinear");
    let text = f.read("d.csv");
    for signal in ["-TERM", "-INT"] {
        let mut server = Server::start(&f, "run");
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        let head = format!(
            "POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        stream.write_all(&[head.as_bytes(), &text.as_bytes()[..100]].concat()).expect("sent");
        // The server has read the head and waits for the rest.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let id = server.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(TcpStream::connect(&server.address).is_err(), "it still listens");
        stream.write_all(&text.as_bytes()[100..]).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert_eq!(server.process.wait().expect("its end").code(), Some(0));
    }
}

#[test]
fn runs_without_future_rows_and_taken_ports_are_refused() {
    let f = trained("--preset dlinear");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let refused = f.refused(&format!("serve run --port {port}"));
    assert!(refused.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")), "{refused}");
    f.runs("train --preset window-regressor --samples 100 --max-steps 1 --device cpu --out walk");
    assert!(f.refused("serve walk --port 0").contains("holds a window-regressor"));
}
