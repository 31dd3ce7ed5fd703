//! `cargo xtask load`: how many forecasts a server answers in a second, and how long they take.

use crate::http;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask load`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the server listens
    #[arg(value_name = "HOST:PORT")]
    address: String,
    /// The body of each request; JSON if its name ends with .json, otherwise CSV
    file: PathBuf,
    /// Connections, with one request at a time on each
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How long requests are counted
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
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

fn load(arguments: &Arguments) -> Result<String, String> {
    let Arguments { address, file, connections, seconds } = arguments;
    let body = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let json = file.extension().is_some_and(|extension| extension == "json");
    let kind = if json { "application/json" } else { "text/csv" };
    let request = http::post("/forecast", kind, &body);
    // The first second warms up and is not counted.
    let begin = Instant::now() + Duration::from_secs(1);
    let end = begin + Duration::from_secs(*seconds);
    let each = || requests(address, &request, begin, end);
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..*connections).map(|_| scope.spawn(each)).collect();
        let all = threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked".to_owned())?);
        all.collect::<Result<Vec<Vec<f64>>, String>>()
    })?;
    let mut times = times.concat();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN) * 1e3;
    Ok(format!(
        "{:.0} requests/s over {connections} connections; {:.2} ms at p50, {:.2} at p90, {:.2} at p99, {:.2} at most",
        times.len() as f64 / *seconds as f64,
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
