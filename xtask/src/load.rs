//! `cargo xtask load`: how many forecasts a server answers in a second, and how long they take.

use crate::http;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask load HOST:PORT FILE [--connections N] [--seconds N]
  posts FILE (.csv or .json) to /forecast again and again over N connections [default: 32] for N seconds [default: 10], one
  request at a time on each, and prints the rate and the percentiles of the time of a request";

/// Runs it.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match load(arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn load(arguments: &[String]) -> Result<String, String> {
    let (mut connections, mut seconds, mut names) = (32u64, 10u64, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || rest.next().and_then(|n| n.parse().ok()).ok_or_else(|| USAGE.to_owned());
        match argument.as_str() {
            "--connections" => connections = number()?,
            "--seconds" => seconds = number()?,
            name => names.push(name),
        }
    }
    let [address, file] = names[..] else { return Err(USAGE.to_owned()) };
    let body = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let kind = if file.ends_with(".json") { "application/json" } else { "text/csv" };
    let request = http::post("/forecast", kind, &body);
    // The first second warms up and is not counted.
    let begin = Instant::now() + Duration::from_secs(1);
    let end = begin + Duration::from_secs(seconds);
    let each = || requests(address, &request, begin, end);
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(each)).collect();
        let all = threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked".to_owned())?);
        all.collect::<Result<Vec<Vec<f64>>, String>>()
    })?;
    let mut times = times.concat();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN) * 1e3;
    Ok(format!(
        "{:.0} requests/s over {connections} connections; {:.2} ms at p50, {:.2} at p90, {:.2} at p99, {:.2} at most",
        times.len() as f64 / seconds as f64,
        at(0.5),
        at(0.9),
        at(0.99),
        times.last().copied().unwrap_or(f64::NAN) * 1e3
    ))
}

/// Posts until the end; the seconds of each request that began after the beginning.
fn requests(address: &str, request: &[u8], begin: Instant, end: Instant) -> Result<Vec<f64>, String> {
    let mut stream = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let mut reader = BufReader::new(stream.try_clone().map_err(|e| e.to_string())?);
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(times);
        }
        stream.write_all(request).map_err(|e| format!("a request: {e}"))?;
        let answer = http::read(&mut reader)?.ok_or("the connection ended")?;
        if answer.code != 200 {
            return Err(format!("{}: {}", answer.code, String::from_utf8_lossy(&answer.body)));
        }
        if start >= begin {
            times.push(start.elapsed().as_secs_f64());
        }
    }
}
