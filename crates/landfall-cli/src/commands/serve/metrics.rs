//! What the server counts, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Status codes that are counted, each on its own.
const CODES: [u16; 13] = [200, 400, 401, 403, 404, 405, 406, 408, 413, 415, 422, 500, 503];
/// Upper ends of the latency's buckets, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Upper ends of the buckets of batches.
const BATCHES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1024.0];

/// Counts of values up to each bound, and their sum.
struct Histogram<const N: usize> {
    bounds: [f64; N],
    counts: [AtomicU64; N],
    count: AtomicU64,
    /// In millionths, so that it is one atomic number.
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: [f64; N]) -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, counts, count: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    fn add(&self, value: f64) {
        if let Some(at) = self.bounds.iter().position(|bound| value <= *bound) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    fn text(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            below += count.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {below}");
        }
        let (count, sum) = (self.count.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed));
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum {}\n{name}_count {count}", sum as f64 / 1e6);
    }
}

/// The server's counts.
pub(super) struct Metrics {
    codes: [AtomicU64; CODES.len()],
    other: AtomicU64,
    forecasts: AtomicU64,
    seconds: Histogram<{ SECONDS.len() }>,
    batches: Histogram<{ BATCHES.len() }>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            codes: std::array::from_fn(|_| AtomicU64::new(0)),
            other: AtomicU64::new(0),
            forecasts: AtomicU64::new(0),
            seconds: Histogram::new(SECONDS),
            batches: Histogram::new(BATCHES),
        }
    }

    /// A request was answered.
    pub(super) fn answered(&self, code: u16) {
        let at = CODES.iter().position(|c| *c == code);
        at.map_or(&self.other, |at| &self.codes[at]).fetch_add(1, Ordering::Relaxed);
    }

    /// A request for forecasts took so long, whatever its answer.
    pub(super) fn took(&self, time: Duration) {
        self.seconds.add(time.as_secs_f64());
    }

    /// The network ran once, for so many histories.
    pub(super) fn ran(&self, histories: usize) {
        self.batches.add(histories as f64);
        self.forecasts.fetch_add(histories as u64, Ordering::Relaxed);
    }

    /// All of it, with how many histories wait and how many connections are open.
    pub(super) fn text(&self, waiting: usize, connections: usize) -> String {
        let mut out = String::from("# HELP landfall_requests_total Requests by status code.\n");
        out.push_str("# TYPE landfall_requests_total counter\n");
        for (code, count) in CODES.iter().zip(&self.codes) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "landfall_requests_total{{code=\"{code}\"}} {count}");
        }
        let other = self.other.load(Ordering::Relaxed);
        let _ = writeln!(out, "landfall_requests_total{{code=\"other\"}} {other}");
        let forecasts = self.forecasts.load(Ordering::Relaxed);
        let _ = writeln!(out, "# HELP landfall_forecasts_total Histories that were forecast.");
        let _ =
            writeln!(out, "# TYPE landfall_forecasts_total counter\nlandfall_forecasts_total {forecasts}");
        self.seconds.text(
            "landfall_request_seconds",
            "Time of a request for forecasts, from its first byte.",
            &mut out,
        );
        self.batches.text("landfall_batch_histories", "Histories of one run of the network.", &mut out);
        let _ = writeln!(out, "# HELP landfall_waiting_histories Histories that wait for the network.");
        let _ =
            writeln!(out, "# TYPE landfall_waiting_histories gauge\nlandfall_waiting_histories {waiting}");
        let _ = writeln!(out, "# HELP landfall_connections Open connections.");
        let _ = writeln!(out, "# TYPE landfall_connections gauge\nlandfall_connections {connections}");
        out
    }
}
