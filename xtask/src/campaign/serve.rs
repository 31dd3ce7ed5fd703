//! Hostile requests: the server answers each with a refusal or ends its connection, and stays as it was.

use super::options::Options;
use super::random::Random;
use super::tally::Tally;
use crate::command::must;
use crate::http;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that ask at once.
const CLIENTS: usize = 16;
/// Seconds that the server gives a request, and clients the server beyond that.
const LIMIT: u64 = 2;
/// The token that the server asks for.
const TOKEN: &str = "of-the-campaign";
/// MiB that the server may have at any moment: what docs/serving.md says of `--max-body 1`, and what it has at rest.
const CEILING: f64 = 256.0;
/// Milliseconds in which 99 of 100 questions for its health are answered meanwhile.
const HEALTHY: f64 = 100.0;
/// The most MiB that the server may have grown by, from the state after a tenth of the requests: threads that start later have
/// memory of their own, 18 were seen.
const GROWTH: f64 = 32.0;

/// What a request may end with.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// The codes that are right.
    codes: &'static [u16],
    /// What the client does once it has written.
    then: Then,
}

/// What a client does once it has written.
#[derive(PartialEq)]
enum Then {
    /// It waits for the answer.
    Waits,
    /// It waits too, and the server may end the connection without an answer.
    Stalls,
    /// It ends its side of the connection, and may have no answer.
    Ends,
}

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let program = options.program()?;
    let history = csv();
    std::fs::write(folder.path().join("d.csv"), &history).map_err(|e| e.to_string())?;
    let train =
        "train --data d.csv --preset dlinear --context 48 --horizon 12 --max-steps 3 --device cpu --out run";
    must(Command::new(&program).current_dir(folder.path()).args(train.split(' ')).stdout(Stdio::null()))?;
    let server = Server::start(&program, folder.path())?;
    let good = post("text/csv", history.as_bytes());
    let before = server.ask(&good)?;
    let tenth = options.count / 10;
    let mut tally = Tally::default();
    let (over, times) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (memory, threads) = std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Ok(mut times) = times.lock() {
                times.extend(health(&server.address, &over));
            }
        });
        attack(&server, options, &history, 0..tenth, &mut tally);
        let state = (server.memory(), server.threads());
        attack(&server, options, &history, tenth..options.count, &mut tally);
        over.store(true, Ordering::Relaxed);
        state
    });
    tally.count = options.count;
    let mut times = times.into_inner().unwrap_or_default();
    times.sort_by(f64::total_cmp);
    let late = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::INFINITY);
    let line = format!("99 of 100 of {} questions for its health were answered in {late:.1} ms", times.len());
    if late > HEALTHY {
        tally.finding(line)
    } else {
        tally.note(line)
    }
    if let Some(peak) = server.peak() {
        let line = format!("memory of at most {peak:.1} MiB, of {CEILING} that it may have");
        if peak > CEILING { tally.finding(line) } else { tally.note(line) }
    }
    let after = server.ask(&good)?;
    if before != after {
        tally.finding("a forecast after the requests is not that from before them".to_owned());
    }
    match (memory, server.memory()) {
        (Some(before), Some(after)) => {
            let grown = after - before;
            let line =
                format!("memory {before:.1} MiB after {tenth} requests, {after:.1} MiB after all of them");
            if grown > GROWTH { tally.finding(line) } else { tally.note(line) }
        }
        _ => tally.note("memory is not measured on this system".to_owned()),
    }
    if let (Some(before), Some(after)) = (threads, server.threads()) {
        tally.note(format!("threads {before} and {after}"));
    }
    let (code, said) = server.stop()?;
    if code != Some(0) {
        tally.finding(format!("after SIGTERM it ends with {code:?}"));
    }
    if said.contains("internal error") {
        tally.finding(format!("it says {said:?}"));
    }
    Ok(tally)
}

/// A request with a body and the token.
fn post(kind: &str, body: &[u8]) -> Vec<u8> {
    with_header(&http::post("/forecast", kind, body), &format!("Authorization: Bearer {TOKEN}"))
}

/// A request with one header more.
fn with_header(request: &[u8], header: &str) -> Vec<u8> {
    let first = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    [&request[..first], header.as_bytes(), b"\r\n", &request[first..]].concat()
}

/// How many milliseconds questions for the health of a server take until `over`; endless where there is no right answer.
fn health(address: &str, over: &AtomicBool) -> Vec<f64> {
    let ask = || -> Option<f64> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(LIMIT + 20))).ok()?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
        let answer = http::read(&mut BufReader::new(stream)).ok()??;
        (answer.code == 200).then(|| begun.elapsed().as_secs_f64() * 1e3)
    };
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        times.push(ask().unwrap_or(f64::INFINITY));
        std::thread::sleep(Duration::from_millis(20));
    }
    times
}

/// Sends the cases of these numbers over several connections at once.
fn attack(
    server: &Server,
    options: &Options,
    history: &str,
    cases: std::ops::Range<usize>,
    tally: &mut Tally,
) {
    let (next, found) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().ok().and_then(|mut cases| cases.next());
                    let Some(number) = taken else { return };
                    let case = hostile(&mut Random::of(options.seed, number as u64), history);
                    if let Err(why) = try_one(&server.address, &case)
                        && let Ok(mut found) = found.lock()
                    {
                        found.push(format!("serve case {number} ({}): {why}", case.name));
                    }
                }
            });
        }
    });
    for line in found.into_inner().unwrap_or_default() {
        tally.finding(line);
    }
}

/// Sends one case and looks at what comes back.
fn try_one(address: &str, case: &Case) -> Result<(), String> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).map_err(|e| format!("connect: {e}"))?;
    let patience = Duration::from_secs(LIMIT + 20);
    stream.set_read_timeout(Some(patience)).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(patience)).map_err(|e| e.to_string())?;
    // The server may refuse before it has read everything.
    let sent = stream.write_all(&case.bytes);
    if case.then == Then::Ends {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let silent = sent.is_err() || case.then != Then::Waits;
    let mut reader = BufReader::new(stream);
    match http::read(&mut reader) {
        Ok(Some(answer)) if case.codes.contains(&answer.code) => {
            let object: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
            // The HTTP library refuses what is no HTTP without a body.
            match object {
                _ if answer.body.is_empty() || answer.code == 200 => Ok(()),
                Ok(o) if o["error"].as_str().is_some_and(|e| !e.is_empty()) => Ok(()),
                _ => Err(format!(
                    "{} without an error: {:?}",
                    answer.code,
                    String::from_utf8_lossy(&answer.body)
                )),
            }
        }
        Ok(Some(answer)) => {
            Err(format!("{}, not {:?}: {}", answer.code, case.codes, String::from_utf8_lossy(&answer.body)))
        }
        Ok(None) if silent => Ok(()),
        Ok(None) => Err(format!("no answer, not {:?}", case.codes)),
        // Reset while the rest was on its way: the answer may be lost with it.
        Err(_) if (silent || case.bytes.len() > 1 << 20) && start.elapsed() < patience => Ok(()),
        Err(why) => Err(why),
    }
}

/// One of these.
fn word(random: &mut Random, of: &[&'static str]) -> &'static str {
    of[random.below(of.len())]
}

/// A text with some bytes changed, left out or repeated.
fn damaged(random: &mut Random, text: &str) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(20) {
        let at = random.below(text.len());
        match random.below(4) {
            0 => text[at] = random.next() as u8,
            1 => text.truncate(at.max(1)),
            2 => text.insert(at, *random.pick(b",;\n\"\0\xff9-")),
            _ => {
                let piece = text[at..(at + random.below(200)).min(text.len())].to_vec();
                text.extend_from_slice(&piece);
            }
        }
    }
    text
}

/// One hostile request.
fn hostile(random: &mut Random, history: &str) -> Case {
    let json = |body: &str| post("application/json", body.as_bytes());
    let head = |rest: &str| {
        format!(
            "POST /forecast HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: text/csv\r\n{rest}"
        )
    };
    let column = |cell: &str| format!("{{\"columns\": {{\"load\": [{cell}]}}}}");
    let many = |cell: &str, n: usize| column(&vec![cell; n].join(","));
    let case = |name, bytes, codes| Case { name, bytes, codes, then: Then::Waits };
    match random.below(35) {
        0 => {
            let whole = many("1.5", 60);
            case("truncated JSON", json(&whole[..random.below(whole.len())]), &[400, 422])
        }
        1 => {
            let cells = ["\"a\"", "[1]", "{}", "{\"a\": {}}", "true, []", "\"\\ud800\"", "1 2", "nul"];
            case("wrong types", json(&column(word(random, &cells))), &[400, 422])
        }
        2 => case(
            "not a number",
            json(&column(word(random, &["NaN", "Infinity", "-Infinity", "1e999", "-1e400"]))),
            &[400, 422],
        ),
        3 => {
            let depth = 1 + random.below(200_000);
            case(
                "deep JSON",
                json(&word(random, &["[", "{\"a\":", "{\"histories\":["]).repeat(depth)),
                // Histories that stand in a history are understood, and refused.
                &[400, 413, 422],
            )
        }
        4 => case("far values", json(&many(word(random, &["1e300", "-1e308", "1e40"]), 48)), &[422]),
        5 => case("huge by its header", head("Content-Length: 99999999999\r\n\r\na").into_bytes(), &[413]),
        6 => {
            let mut bytes = head("Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            let chunk = [b"10000\r\n".as_slice(), &[b'7'; 0x10000], b"\r\n"].concat();
            (0..20).for_each(|_| bytes.extend_from_slice(&chunk));
            bytes.extend_from_slice(b"0\r\n\r\n");
            case("huge in chunks", bytes, &[413])
        }
        7 => {
            let n = 1 + random.below(400);
            let bytes: Vec<u8> = (0..n).map(|_| random.next() as u8).collect();
            case("bytes", [bytes, b"\r\n\r\n".to_vec()].concat(), &[400]).ends()
        }
        8 => case(
            "long header",
            format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(100_000 + random.below(100_000)))
                .into_bytes(),
            &[431],
        ),
        9 => {
            let headers: String = (0..100 + random.below(1000)).fold(String::new(), |mut all, i| {
                let _ = write!(all, "X-{i}: 1\r\n");
                all
            });
            case(
                "many headers",
                format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").into_bytes(),
                &[431],
            )
        }
        10 => {
            let head = head(&format!("Content-Length: {}\r\n\r\n", history.len()));
            let body = &history.as_bytes()[..random.below(history.len())];
            case("body cut off", [head.as_bytes(), body].concat(), &[400]).ends()
        }
        // Rarely: each takes as long as the server waits.
        11 if random.below(8) == 0 => {
            let whole = post("text/csv", history.as_bytes());
            let head = whole.len() - history.len();
            let at = 1 + random.below(whole.len() - 1);
            let then = if at >= head { Then::Waits } else { Then::Stalls };
            Case { name: "slow client", bytes: whole[..at].to_vec(), codes: &[408], then }
        }
        11 => case("nothing", Vec::new(), &[]).ends(),
        12 => case(
            "content type",
            post(
                word(
                    random,
                    &[
                        "text/html",
                        "",
                        "json",
                        "application/x-www-form-urlencoded",
                        "multipart/mixed; boundary=x",
                    ],
                ),
                b"a",
            ),
            &[415],
        ),
        13 | 14 => case("damaged CSV", post("text/csv", &damaged(random, history)), &[200, 413, 422]),
        15 => case("other columns", json("{\"columns\": {\"lead\": [1, 2, 3]}}"), &[422]),
        16 => case("empty body", post(word(random, &["text/csv", "application/json"]), b""), &[400, 422]),
        17 => {
            let path = format!("/{}", "x".repeat(random.below(2000)));
            let method = word(random, &["GET", "POST", "DELETE", "OPTIONS", "BREW"]);
            case("other paths", format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n").into_bytes(), &[200, 404, 405])
        }
        18 => {
            let n = 65 + random.below(2000);
            case(
                "many histories",
                json(&format!("{{\"histories\": [{}]}}", vec![column("1"); n].join(","))),
                &[413],
            )
        }
        19 => {
            let text = head(
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            );
            case("two lengths", text.into_bytes(), &[400, 422])
        }
        20 => case("not UTF-8", post("application/json", b"{\"columns\": {\"l\xff\xfe\": [1]}}"), &[400]),
        21 => case(
            "dates",
            json(&format!(
                "{{\"dates\": [{}], \"columns\": {{\"load\": [{}]}}}}",
                vec![
                    word(
                        random,
                        &[
                            "\"\"",
                            "\"2021-13-45\"",
                            "null",
                            "1e18",
                            "\"2021-01-01 00:00:00\"",
                            "\"9999999999-01-01\""
                        ]
                    );
                    48
                ]
                .join(","),
                vec!["1"; 48].join(",")
            )),
            &[200, 422],
        ),
        22 => case("short history", json(&many("1", random.below(48))), &[422]),
        23 => case("missing values", json(&many("null", 1 + random.below(100))), &[422]),
        24 => case(
            "query",
            head("Content-Length: 1\r\n\r\na")
                .replacen(
                    "/forecast",
                    &format!(
                        "/forecast?{}",
                        word(random, &["series", "series=%", "series=%ff%fe", "a=b", "series=a&series=b"])
                    ),
                    1,
                )
                .into_bytes(),
            &[400],
        ),
        25 => case(
            "parts without a boundary",
            post(
                word(
                    random,
                    &[
                        "multipart/form-data",
                        "multipart/form-data; boundary",
                        "multipart/form-data; charset=x",
                    ],
                ),
                b"a",
            ),
            &[400],
        ),
        26 => {
            let part = |name: &str| {
                format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{history}\r\n")
            };
            let names = [&["data"][..], &["data", "future"], &["data", "data"], &["future"], &["other"], &[]];
            let parts: String = names[random.below(names.len())].iter().map(|name| part(name)).collect();
            let whole = damaged(random, &format!("{parts}--x--\r\n"));
            case("damaged parts", post("multipart/form-data; boundary=x", &whole), &[200, 400, 413, 422])
        }
        27 => {
            let n = 1000 + random.below(60_000);
            let name = word(random, &["c", "load", "x"]);
            let rows: Vec<String> =
                (0..n).map(|i| format!("{{\"{name}{}\":1}}", if name == "load" { 0 } else { i })).collect();
            case(
                "rows with names of their own",
                json(&format!("{{\"rows\":[{}]}}", rows.join(","))),
                &[413, 422],
            )
        }
        28 => {
            let n = 1000 + random.below(60_000);
            let columns: Vec<String> = (0..n).map(|i| format!("\"c{i}\":[1]")).collect();
            case("many names", json(&format!("{{\"columns\":{{{}}}}}", columns.join(","))), &[413, 422])
        }
        29 => {
            let cells = word(random, &["{},", "{\"load\":1},{},", "{\"wind\":null},"])
                .repeat(1000 + random.below(60_000));
            case("rows without cells", json(&format!("{{\"rows\":[{cells}{{\"wind\":1}}]}}")), &[413, 422])
        }
        30 => {
            let n = 1000 + random.below(100_000);
            let equal = random.below(2) == 0;
            let names: Vec<String> =
                (0..n).map(|i| if equal { "c".to_owned() } else { format!("c{i}") }).collect();
            let rows = vec!["1"; n].join(",");
            case(
                "wide header",
                post("text/csv", format!("{}\n{rows}\n", names.join(",")).as_bytes()),
                &[413, 422],
            )
        }
        31 => {
            let n = 65 + random.below(20_000);
            let rows: String = (0..n).map(|i| format!("k{i},{},1,1\n", i % 7)).collect();
            case(
                "a series a row",
                post("text/csv", format!("id,date,load,wind\n{rows}").as_bytes()),
                &[413, 422],
            )
        }
        32 => {
            let headers = [
                "Host: evil.example",
                "Host: 127.0.0.1.evil.example:80",
                "Host: localhost\r\nOrigin: http://evil.example",
                "Host: localhost\r\nOrigin: null",
                "Host: ",
                "Host: localhost\r\nHost: evil.example",
                "X-Host: localhost",
            ];
            let text = format!(
                "GET /model HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{}\r\n\r\n",
                word(random, &headers)
            );
            case("other hosts", text.into_bytes(), &[400, 403])
        }
        33 => {
            let tokens = [
                "",
                "Authorization: Bearer\r\n",
                "Authorization: Bearer of-the-campaigm\r\n",
                "Authorization: Basic of-the-campaign\r\n",
            ];
            let path = word(random, &["/", "/model", "/metrics", "/forecast"]);
            let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", word(random, &tokens));
            case("no token", text.into_bytes(), &[401])
        }
        _ => case(
            "lengths that differ",
            json("{\"dates\": [\"2021-01-01\"], \"columns\": {\"load\": [1, 2], \"wind\": [1]}}"),
            &[422],
        ),
    }
}

impl Case {
    /// The client ends its side of the connection.
    fn ends(self) -> Self {
        Self { then: Then::Ends, ..self }
    }
}

/// A server of its own.
struct Server {
    process: Child,
    address: String,
    said: std::thread::JoinHandle<String>,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let line = format!("serve run --port 0 --device cpu --max-body 1 --timeout {LIMIT} --token {TOKEN}");
        let mut process = Command::new(program)
            .current_dir(folder)
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let (out, err) = (process.stdout.take(), process.stderr.take());
        let (Some(out), Some(mut err)) = (out, err) else { return Err("no output".to_owned()) };
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let mut first = String::new();
        BufReader::new(out).read_line(&mut first).map_err(|e| e.to_string())?;
        let address =
            first.trim().rsplit_once("http://").ok_or_else(|| format!("it says {first:?}"))?.1.to_owned();
        Ok(Self { process, address, said })
    }

    /// The answer of a good request.
    fn ask(&self, request: &[u8]) -> Result<Vec<u8>, String> {
        let mut stream = TcpStream::connect(&self.address).map_err(|e| e.to_string())?;
        stream.write_all(request).map_err(|e| e.to_string())?;
        match http::read(&mut BufReader::new(stream))? {
            Some(answer) if answer.code == 200 => Ok(answer.body),
            Some(answer) => Err(format!("a good request: {}", String::from_utf8_lossy(&answer.body))),
            None => Err("a good request has no answer".to_owned()),
        }
    }

    /// A line of the process's status.
    fn status(&self, key: &str) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        text.lines().find_map(|l| l.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
    }

    /// The most resident memory that it has had, in MiB.
    fn peak(&self) -> Option<f64> {
        Some(self.status("VmHWM:")? / 1024.0)
    }

    /// Resident memory in MiB.
    fn memory(&self) -> Option<f64> {
        Some(self.status("VmRSS:")? / 1024.0)
    }

    fn threads(&self) -> Option<f64> {
        self.status("Threads:")
    }

    /// Asks it to end: its exit code, and what it said.
    fn stop(self) -> Result<(Option<i32>, String), String> {
        let Self { mut process, said, .. } = self;
        must(Command::new("kill").arg("-TERM").arg(process.id().to_string()))?;
        let ended = process.wait().map_err(|e| e.to_string())?;
        Ok((ended.code(), said.join().unwrap_or_default()))
    }
}

/// An hourly series of 300 rows.
fn csv() -> String {
    let mut text = "date,load,wind\n".to_owned();
    for i in 0..300usize {
        let wave = (i as f64 / 24.0 * std::f64::consts::TAU).sin();
        let noise = ((i * 7919 + 13) % 101) as f64 / 101.0;
        let _ = writeln!(
            text,
            "2021-01-{:02} {:02}:00:00,{:.4},{:.4}",
            1 + i / 24,
            i % 24,
            50.0 + 9.0 * wave + noise,
            3.0 + noise
        );
    }
    text
}
