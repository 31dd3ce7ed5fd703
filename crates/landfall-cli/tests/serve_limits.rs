//! `landfall serve` among strangers: its memory and its time have limits, and it answers those alone who may ask.
#![cfg(target_os = "linux")]

mod program;

use program::server::Server;
use program::{Folder, csv};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

fn trained() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs(
        "train --data d.csv --context 32 --horizon 8 --batch 16 --threads 1 --device cpu --max-steps 2 --preset dlinear --out run",
    );
    f
}

/// The most MiB that the server has had so far.
fn peak(server: &Server) -> usize {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") >> 10
}

/// A history that is right, with further fields.
fn history(text: &str) -> (Vec<f64>, Vec<f64>) {
    let cells = |column: usize| {
        text.lines()
            .skip(1)
            .map(|l| l.split(',').nth(column).expect("a cell").parse().expect("a number"))
            .collect()
    };
    (cells(1), cells(2))
}

#[test]
fn memory_is_linear_in_the_body() {
    let f = trained();
    let (load, wind) = history(&f.read("d.csv"));
    let server = Server::start(&f, "run");
    let before = peak(&server);
    // A row of 12,000 has a name of its own: rows times names were 3 GB.
    let rows: Vec<Value> = (0..12_000).map(|i| json!({format!("c{i}"): 1})).collect();
    let answer = server.object(&json!({"rows": rows}));
    assert_eq!((answer.code, answer.error().contains("no column `load`")), (422, true), "{}", answer.body);
    // The same beside what the run reads is a history like any other.
    let rows: Vec<Value> = load
        .iter()
        .zip(&wind)
        .enumerate()
        .map(|(i, (a, b))| json!({"load": a, "wind": b, format!("c{i}"): 1}))
        .collect();
    let alone = server.object(&json!({"columns": {"load": load, "wind": wind}})).json();
    assert_eq!(server.object(&json!({"rows": rows})).json()["forecasts"], alone["forecasts"]);
    let mut columns = json!({"load": load, "wind": wind});
    (0..12_000).for_each(|i| columns[format!("c{i}")] = json!([1, 2, 3]));
    assert_eq!(server.object(&json!({"columns": columns})).json()["forecasts"], alone["forecasts"]);
    // Rows without a cell take nothing, and a column that one row has takes a cell of each.
    let empty = format!("{{\"rows\":[{}{{\"load\":1,\"wind\":2}}]}}", "{},".repeat(2_000_000));
    let answer = server.post("/forecast", "Content-Type: application/json\r\n", &empty);
    assert!([200, 413, 422].contains(&answer.code), "{}", answer.body);
    assert!(peak(&server) < before + 400, "{before} MiB, and then {}", peak(&server));
}

#[test]
fn many_columns_take_no_time_and_others_do_not_wait() {
    let f = trained();
    let server = Server::start(&f, "run --timeout 5");
    let line = |name: &dyn Fn(usize) -> String, n: usize| (0..n).map(name).collect::<Vec<_>>().join(",");
    let bodies = [
        format!("{}\n{}\n", line(&|_| "c".to_owned(), 4000), line(&|_| "1".to_owned(), 4000)),
        format!("{}\n{}\n", line(&|i| format!("c{i}"), 4000), line(&|_| "1".to_owned(), 4000)),
    ];
    let started = Instant::now();
    std::thread::scope(|scope| {
        for body in bodies.iter().cycle().take(8) {
            let server = &server;
            scope.spawn(move || {
                let answer = server.csv(body);
                assert_eq!(answer.code, 422, "{}", answer.body);
            });
        }
        for _ in 0..20 {
            let asked = Instant::now();
            assert_eq!(server.get("/health").code, 200);
            assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        }
    });
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let wide = line(&|i| format!("c{i}"), 20_000);
    let answer = server.csv(&format!("{wide}\n{wide}\n"));
    assert_eq!(answer.code, 413);
    assert!(answer.error().contains("20000 columns, and at most 4099"), "{}", answer.error());
}

#[test]
fn a_column_of_the_wrong_kind_is_named() {
    let f = trained();
    let server = Server::start(&f, "run");
    let refused = |body: Value| {
        let answer = server.object(&body);
        assert_eq!(answer.code, 422, "{}", answer.body);
        answer.error()
    };
    for (cells, said) in [
        (
            json!(5),
            "the history: column `load` is the number 5; give the list of its values, as in [1.5, 1.7]",
        ),
        (
            json!("5"),
            "the history: column `load` is the text \"5\"; give the list of its values, as in [1.5, 1.7]",
        ),
        (
            json!({"a": 1}),
            "the history: column `load` is an object; give the list of its values, as in [1.5, 1.7]",
        ),
        (json!([1, [2]]), "the history: column `load`, row 2: a list is not a number"),
        (json!([1, 2, "x"]), "the history: column `load`, row 3: \"x\" is not a number"),
    ] {
        assert_eq!(refused(json!({"columns": {"load": cells, "wind": [1]}})), said);
    }
    assert_eq!(
        refused(json!({"columns": {"Load": [1], "wind": [1]}})),
        "the history: no column `load` among Load, which the run does not read; add it or correct its name"
    );
    assert_eq!(
        refused(
            json!({"histories": [{"columns": {"load": [1], "load": 1, "wind": [1]}}, {"columns": {"load": 1}}]})
        ),
        "history 1: column `load` is the number 1; give the list of its values, as in [1.5, 1.7]"
    );
    let twice = server.post(
        "/forecast",
        "Content-Type: application/json\r\n",
        "{\"columns\": {\"load\": [1], \"load\": [2], \"wind\": [1]}}",
    );
    assert_eq!(
        (twice.code, twice.error().contains("column `load` is there twice")),
        (422, true),
        "{}",
        twice.body
    );
}

#[test]
fn hosts_and_pages_of_others_are_refused() {
    let f = trained();
    let server = Server::start(&f, "run --allow-host shop.example");
    let ask = |headers: &str| {
        server.send(format!("GET /model HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    };
    let port = server.address.rsplit_once(':').expect("a port").1;
    assert_eq!(ask(&format!("Host: {}\r\n", server.address)).code, 200);
    assert_eq!(ask("Host: shop.example\r\nOrigin: https://shop.example\r\n").code, 200);
    assert_eq!(ask(&format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n")).code, 200);
    let other = ask("Host: evil.example\r\n");
    assert_eq!((other.code, other.error().contains("--allow-host")), (403, true), "{}", other.body);
    for origin in ["http://evil.example", "null"] {
        assert_eq!(ask(&format!("Host: localhost\r\nOrigin: {origin}\r\n")).code, 403);
    }
    assert!(server.get("/metrics").body.contains("landfall_requests_total{code=\"403\"} 3"));
}

#[test]
fn beyond_the_machine_a_token_is_needed() {
    let f = trained();
    let refused = f.refused("serve run --host 0.0.0.0 --port 0");
    assert!(
        refused.starts_with("--host 0.0.0.0 lets other machines ask, and there is no token"),
        "{refused}"
    );
    f.write("token", "s3cret-of-many-letters\n");
    let server = Server::start(&f, "run --host 0.0.0.0 --token-file token");
    let ask = |path: &str, more: &str| {
        server.send(format!("GET {path} HTTP/1.1\r\nHost: box\r\nConnection: close\r\n{more}\r\n").as_bytes())
    };
    let without = ask("/model", "");
    assert_eq!(
        (without.code, without.head.contains("www-authenticate: bearer")),
        (401, true),
        "{}",
        without.head
    );
    assert_eq!(ask("/model", "Authorization: Bearer s3cret\r\n").code, 401);
    assert_eq!(ask("/model", "Authorization: Bearer s3cret-of-many-letters\r\n").code, 200);
    assert_eq!(ask("/health", "").code, 200);
    drop(server);
    let server = Server::start(&f, "run --host 0.0.0.0 --no-token");
    assert_eq!(server.get("/model").code, 200);
}

#[test]
fn a_signal_ends_it_in_time_whatever_arrives() {
    let f = trained();
    let mut server = Server::start(&f, "run --timeout 1");
    let head = "POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 100000\r\n\r\n";
    let mut slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).expect("it listens");
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let asked = Instant::now();
    let id = server.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    // A byte now and then keeps a body arriving.
    while server.process.try_wait().expect("its state").is_none() && asked.elapsed() < Duration::from_secs(30)
    {
        slow.iter_mut().for_each(|stream| drop(stream.write(b"d")));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!(server.process.wait().expect("its end").code(), Some(0));
    let mut said = Vec::new();
    drop(slow.pop().expect("a stream").read_to_end(&mut said));
}
