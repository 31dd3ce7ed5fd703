//! Hostile requests: a server answers each with a right code or ends its connection, and stays as it was.

use super::hostile::{Case, Then, columns, csv, hostile, post, queries};
use super::options::Options;
use super::random::Random;
use super::server::{Kind, Server};
use super::tally::Tally;
use crate::command::must;
use crate::http;
use serde_json::Value;
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that ask at once.
const CLIENTS: usize = 16;
/// How long a client waits for an answer: longer than any server gives a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Milliseconds in which 99 of 100 questions for its health are answered meanwhile.
const HEALTHY: f64 = 100.0;
/// The most MiB that the server may have grown by, from the state after a tenth of the requests: threads that start later have
/// memory of their own, 18 were seen.
const GROWTH: f64 = 32.0;

/// An attack on a server.
struct Attack<'a> {
    kind: Kind,
    program: &'a Path,
    folder: &'a Path,
    history: &'a str,
    seed: u64,
}

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let program = options.program()?;
    let history = csv();
    std::fs::write(folder.path().join("d.csv"), &history).map_err(|e| e.to_string())?;
    let train =
        "train --data d.csv --preset dlinear --context 48 --horizon 12 --max-steps 3 --device cpu --out run";
    must(Command::new(&program).current_dir(folder.path()).args(train.split(' ')).stdout(Stdio::null()))?;
    let mut tally = Tally { count: options.count, ..Tally::default() };
    let half = options.count / 2;
    for (kind, cases) in [(Kind::OfRun, 0..half), (Kind::WithoutRun, half..options.count)] {
        let (folder, seed) = (folder.path(), options.seed);
        let attack = Attack { kind, program: &program, folder, history: &history, seed };
        attack.run(cases, &mut tally)?;
    }
    Ok(tally)
}

impl Attack<'_> {
    /// Starts the server, sends it the cases of these numbers, and looks at what they left behind.
    fn run(&self, cases: Range<usize>, tally: &mut Tally) -> Result<(), String> {
        let server = Server::start(self.program, self.folder, self.kind)?;
        let good = post(self.kind.path(), "text/csv", self.history.as_bytes());
        let before = server.ask(&good)?;
        self.warm(&server)?;
        for case in queries(self.history, self.kind) {
            if let Err(why) = try_one(&server.address, &case) {
                tally.finding(self.says(&format!("to a stated query: {why}")));
            }
        }
        let tenth = cases.start + cases.len() / 10;
        let (over, times) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let (memory, threads) = std::thread::scope(|scope| {
            scope.spawn(|| {
                if let Ok(mut times) = times.lock() {
                    times.extend(health(&server.address, &over));
                }
            });
            self.send(&server, cases.start..tenth, tally);
            let state = (server.memory(), server.threads());
            self.send(&server, tenth..cases.end, tally);
            over.store(true, Ordering::Relaxed);
            state
        });
        self.times(times.into_inner().unwrap_or_default(), tally);
        self.memory(&server, memory, tally);
        if server.ask(&good).as_ref() != Ok(&before) {
            tally.finding(self.says("a forecast after the requests is not that from before them"));
        }
        if let (Some(before), Some(after)) = (threads, server.threads()) {
            tally.note(self.says(&format!("threads {before} and {after}")));
        }
        let (code, said) = server.stop()?;
        if code != Some(0) {
            tally.finding(self.says(&format!("after SIGTERM it ends with {code:?}")));
        }
        if said.contains("internal error") {
            tally.finding(self.says(&format!("it says {said:?}")));
        }
        Ok(())
    }

    /// A line about this server.
    fn says(&self, line: &str) -> String {
        format!("the server {}: {line}", self.kind.name())
    }

    /// Has the pretrained network compiled for each length and number of series, and for near and far horizons: that is kept, and
    /// is no growth.
    fn warm(&self, server: &Server) -> Result<(), String> {
        if self.kind == Kind::OfRun {
            return Ok(());
        }
        for horizon in [12, 128] {
            let path = format!("/forecast?horizon={horizon}");
            for rows in [32, 64, 128, 256, 512, 1024] {
                for n in [1, 2, 4, 8, 16] {
                    server.ask(&post(&path, "application/json", columns(n, rows).as_bytes()))?;
                }
            }
        }
        Ok(())
    }

    /// Judges how long questions for its health took.
    fn times(&self, mut times: Vec<f64>, tally: &mut Tally) {
        times.sort_by(f64::total_cmp);
        let late = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::INFINITY);
        let count = times.len();
        let line = self
            .says(&format!("99 of 100 of {count} questions for its health were answered in {late:.1} ms"));
        if late > HEALTHY { tally.finding(line) } else { tally.note(line) }
    }

    /// Judges its memory at any moment, and what it has more than after a tenth of the requests.
    fn memory(&self, server: &Server, tenth: Option<f64>, tally: &mut Tally) {
        let (Some(peak), Some(before), Some(after)) = (server.peak(), tenth, server.memory()) else {
            return tally.note(self.says("memory is not measured on this system, or the process is gone"));
        };
        let ceiling = self.kind.ceiling();
        let line = self.says(&format!("memory of at most {peak:.1} MiB, of {ceiling} that it may have"));
        if peak > ceiling {
            tally.finding(line)
        } else {
            tally.note(line)
        }
        let line = self.says(&format!(
            "memory {before:.1} MiB after a tenth of the requests, {after:.1} MiB after all of them"
        ));
        if after - before > GROWTH { tally.finding(line) } else { tally.note(line) }
    }

    /// Sends the cases of these numbers over several connections at once.
    fn send(&self, server: &Server, cases: Range<usize>, tally: &mut Tally) {
        let (next, found) = (Mutex::new(cases), Mutex::new(Vec::new()));
        let name = self.kind.name();
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    loop {
                        let taken = next.lock().ok().and_then(|mut cases| cases.next());
                        let Some(number) = taken else { return };
                        let case =
                            hostile(&mut Random::of(self.seed, number as u64), self.history, self.kind);
                        if let Err(why) = try_one(&server.address, &case)
                            && let Ok(mut found) = found.lock()
                        {
                            found.push(format!("serve case {number} ({}, {name}): {why}", case.name));
                        }
                    }
                });
            }
        });
        for line in found.into_inner().unwrap_or_default() {
            tally.finding(line);
        }
    }
}

/// How many milliseconds questions for the health of a server take until `over`; endless where there is no right answer.
fn health(address: &str, over: &AtomicBool) -> Vec<f64> {
    let ask = || -> Option<f64> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
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

/// Sends one case and looks at what comes back.
fn try_one(address: &str, case: &Case) -> Result<(), String> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).map_err(|e| format!("connect: {e}"))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    // The server may refuse before it has read everything.
    let sent = stream.write_all(&case.bytes);
    if case.then == Then::Ends {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let silent = sent.is_err() || case.then != Then::Waits;
    let mut reader = BufReader::new(stream);
    match http::read(&mut reader) {
        Ok(Some(answer)) if case.codes.contains(&answer.code) => right(&answer),
        Ok(Some(answer)) => Err(format!("{}, not {:?}: {}", answer.code, case.codes, shown(&answer))),
        Ok(None) if silent => Ok(()),
        Ok(None) => Err(format!("no answer, not {:?}", case.codes)),
        // Reset while the rest was on its way: the answer may be lost with it.
        Err(_) if (silent || case.bytes.len() > 1 << 20) && start.elapsed() < PATIENCE => Ok(()),
        Err(why) => Err(why),
    }
}

/// Looks whether an answer with the right code says what it should: why not, or a forecast of numbers.
fn right(answer: &http::Answer) -> Result<(), String> {
    let object: Result<Value, _> = serde_json::from_slice(&answer.body);
    let text = String::from_utf8_lossy(&answer.body);
    match object {
        // The HTTP library refuses what is no HTTP without a body.
        _ if answer.body.is_empty() => Ok(()),
        Ok(o) if answer.code == 200 && forecast(&o).all(numbers) => Ok(()),
        Err(_) if answer.code == 200 && cells(&text).all(f64::is_finite) => Ok(()),
        _ if answer.code == 200 => Err(format!("200 with what is no number: {}", shown(answer))),
        Ok(o) if o["error"].as_str().is_some_and(|e| !e.is_empty()) => Ok(()),
        _ => Err(format!("{} without an error: {}", answer.code, shown(answer))),
    }
}

/// The beginning of an answer, as a finding shows it in a line.
fn shown(answer: &http::Answer) -> String {
    String::from_utf8_lossy(&answer.body).chars().take(300).collect::<String>().replace('\n', " ")
}

/// The lists of numbers in a forecast as JSON.
fn forecast(object: &Value) -> impl Iterator<Item = &Value> {
    let all = object["forecasts"].as_array().into_iter().flatten();
    all.flat_map(|one| ["values", "quantiles", "intervals"].iter().filter_map(|key| one.get(key)))
}

/// Whether a list holds numbers alone, at any depth: JSON has null for what is none.
fn numbers(value: &Value) -> bool {
    value.as_array().map_or_else(|| value.is_number(), |all| all.iter().all(numbers))
}

/// The cells of a CSV that are numbers, below its header.
fn cells(text: &str) -> impl Iterator<Item = f64> {
    text.lines().skip(1).flat_map(|line| line.split(',')).filter_map(|cell| cell.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_right_with_numbers_alone_and_a_refusal_with_words() {
        let says = |code: u16, body: &str| right(&http::Answer { code, body: body.as_bytes().to_vec() });
        assert_eq!(says(200, "date,y\n2021-01-01,1e300\n"), Ok(()));
        assert_eq!(
            says(200, r#"{"forecasts": [{"dates": null, "values": [[1.5]], "intervals": [[[[1]]]]}]}"#),
            Ok(())
        );
        assert_eq!(says(422, r#"{"status": 422, "error": "no rows"}"#), Ok(()));
        assert!(says(200, "date,y\n2021-01-01,NaN\n").is_err());
        assert!(says(200, r#"{"forecasts": [{"values": [[1.5]]}, {"values": [[null]]}]}"#).is_err());
        assert!(says(422, r#"{"status": 422, "error": ""}"#).is_err());
    }
}
