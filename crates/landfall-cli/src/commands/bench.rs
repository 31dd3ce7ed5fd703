//! `landfall bench`: training steps and single ops, timed in turn with other libraries.

mod experts;
mod ours;
mod peer;
mod profile;
mod ranks;
mod record;
mod routing;
mod rows;

pub(crate) use record::processor;

use crate::args::Bench;
use crate::device::on;
use crate::error::CliError;
use crate::output::{self, table};
use crate::signals::Stop;
use landfall::DeviceKind;
use landfall::Engine;
use landfall::ops::Cost;
use landfall_train::ranks::Launch;
use landfall_train::run::{Precision, SettingsError};
use ours::{Host, Ours, Training};
use peer::{Fault, Peer, Ready, Request};
use rows::{Row, Way};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Idle time before each sample: threads of a side that has just finished spin for some milliseconds before they
/// sleep, and would take processors from the other side.
const PAUSE: Duration = Duration::from_millis(100);

/// Samples of one side of a row, in microseconds of one step.
#[derive(Debug, Clone)]
struct Samples {
    /// `torch-compile`, say.
    name: String,
    us: Vec<f64>,
}

/// What was measured of a row.
struct Measured {
    row: String,
    dtype: Precision,
    ours: Samples,
    peers: Vec<Samples>,
    cost: Cost,
    host: Option<Host>,
    training: Option<Training>,
}

impl Samples {
    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The middle sample, or the mean of the two in the middle.
    fn median(&self) -> f64 {
        let sorted = self.sorted();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        0.5 * (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2))
    }

    /// The smallest and the largest sample.
    fn spread(&self) -> (f64, f64) {
        let sorted = self.sorted();
        (sorted.first().copied().unwrap_or(f64::NAN), sorted.last().copied().unwrap_or(f64::NAN))
    }

    fn json(&self) -> Value {
        let (least, most) = self.spread();
        json!({"name": self.name, "us": self.median(), "least_us": least, "most_us": most, "samples": self.us.len()})
    }
}

impl Measured {
    /// The peer with the lowest median.
    fn best(&self) -> Option<&Samples> {
        self.peers.iter().min_by(|a, b| a.median().total_cmp(&b.median()))
    }

    /// Windows or samples that a step row trains on in a second.
    fn samples_per_s(&self) -> Option<f64> {
        self.training.map(|t| t.samples as f64 / self.ours.median() * 1e6)
    }

    /// Bytes and operations in a nanosecond: GB/s and GFLOP/s.
    fn rates(&self) -> (f64, f64) {
        let ns = self.ours.median() * 1e3;
        (self.cost.bytes as f64 / ns, self.cost.flops as f64 / ns)
    }
}

/// Measures; the exit code.
pub(crate) fn run(args: &Bench) -> Result<u8, CliError> {
    if !(args.seconds > 0.0 && args.seconds <= 60.0) {
        let (value, rule) = (args.seconds.to_string(), "it must be above 0 and at most 60");
        return Err(CliError::Range { flag: "--seconds", value, rule });
    }
    if args.samples == 0 {
        let rule = "it must be at least 1";
        return Err(CliError::Range { flag: "--samples", value: "0".to_owned(), rule });
    }
    // Ranks have a row of their own.
    if let Some(launch) = Launch::from_environment()?.filter(|_| !args.profile) {
        return ranks::run(args, &launch);
    }
    let known = |(value, known)| SettingsError::Unknown { key: "row", value, known };
    // What is asked is refused before a device is looked for.
    let dtypes = args.dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(",");
    for row in Row::select(&args.rows, true).map_err(known)? {
        if row.precisions(&args.dtypes).is_empty() {
            let rule = "large and routing rows are of f32 or bf16";
            return Err(CliError::Range { flag: "--dtypes", value: dtypes, rule });
        }
    }
    if args.profile {
        return profile::run(args);
    }
    let threads = threads(args);
    let placed = on(args.device, Some(threads), |engine| Ok(engine.clone()))?;
    let gpu = matches!(placed.made.device(), DeviceKind::Cuda(_));
    let rows = Row::select(&args.rows, gpu).map_err(known)?;
    if let (false, Some(row)) = (gpu, rows.iter().find(|r| r.on_gpus())) {
        let (key, value, rule) = ("--rows", row.name(), "this row needs a GPU (--device cuda)");
        return Err(CliError::Range { flag: key, value, rule });
    }
    output::note(&placed.line());
    let engine = placed.made;
    let root = root();
    let device = record::device(engine.device(), threads);
    let record = args.record.then(|| record::path(root.as_deref().unwrap_or(Path::new("")), &device));
    if let Some(path) = &record {
        record::check(path)?;
    }
    // Without a handler a signal still ends the bench; the peers end when their standard input does.
    let stop = Stop::watch();
    let folder = args.peers_folder.clone().or_else(|| root.map(|r| r.join("bench/peers")));
    output::note(&format!("{device}: {} samples of {} s, in turn", args.samples, args.seconds));
    let (mut measured, mut versions) = (Vec::new(), BTreeMap::new());
    for rows in Row::turns(rows, gpu) {
        let request = Request {
            folder: folder.as_deref().unwrap_or(Path::new("bench/peers")),
            device: engine.device(),
            dtypes: &dtypes,
            threads,
            seconds: args.seconds,
            processes: &Row::processes(&rows),
            limit: Duration::from_secs(args.peer_limit),
            stop: &stop,
        };
        let Some(new) = compare(&engine, &rows, args, &request, &mut versions)? else { return interrupted() };
        // What is measured stays, whatever becomes of the rows that follow.
        if let Some(path) = &record {
            record::append(path, &new.iter().map(recorded).collect::<Vec<_>>())?;
        }
        measured.extend(new);
    }
    if let Some(path) = &record {
        output::note(&format!("recorded in {}", path.display()));
    }
    if args.json {
        let rows: Vec<Value> = measured.iter().map(object).collect();
        let about: Vec<Value> =
            versions.iter().map(|(name, version)| json!({"name": name, "version": version})).collect();
        output::json(&json!({"device": device, "threads": threads, "peers": about, "rows": rows}))?;
    } else {
        output::line(&report(&measured))?;
    }
    Ok(0)
}

/// Times some rows beside their peers, which start for them and end with them. `None` when interrupted.
fn compare(
    engine: &Engine,
    rows: &[Row],
    args: &Bench,
    request: &Request<'_>,
    versions: &mut BTreeMap<String, String>,
) -> Result<Option<Vec<Measured>>, CliError> {
    let mut peers = Vec::new();
    for name in args.peers.iter().filter(|p| *p != "none") {
        match Peer::start(name, request) {
            Ok(peer) => {
                output::note(&format!(
                    "{name} {}: {} rows and modes are warm",
                    peer.version,
                    peer.ready.len()
                ));
                peer.failures.iter().for_each(|f| output::note(&format!("{name}: {f}")));
                versions.insert(peer.name.clone(), peer.version.clone());
                peers.push(peer);
            }
            Err(Fault::Interrupted) => return Ok(None),
            Err(fault) => output::note(&format!("{name} is left out: {fault}")),
        }
    }
    let ways = [(args.tuned, Way::Tuned), (args.issued, Way::Issued)];
    let ways = ways.into_iter().filter_map(|(asked, way)| asked.then_some(way));
    let mut measured = Vec::new();
    for row in rows
        .iter()
        .flat_map(|&row| std::iter::once(row).chain(ways.clone().filter_map(move |way| row.also(way))))
    {
        for dtype in row.precisions(&args.dtypes) {
            match measure(engine, (row, dtype), args, &mut peers, request)? {
                Some(m) => measured.push(m),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(measured))
}

fn threads(args: &Bench) -> usize {
    args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn interrupted() -> Result<u8, CliError> {
    output::note("interrupted; with --record, the rows that were complete are recorded");
    Ok(130)
}

/// The nearest folder upwards that holds the peers' programs.
fn root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|a| a.join("bench/peers").is_dir()).map(Path::to_owned)
}

/// Times one row: ours, then each mode of each peer, round by round. `None` when interrupted.
fn measure(
    engine: &Engine,
    (row, dtype): (Row, Precision),
    args: &Bench,
    peers: &mut [Peer],
    request: &Request<'_>,
) -> Result<Option<Measured>, CliError> {
    let name = row.name();
    let mut ours = Ours::new(engine, row, dtype, args.seconds)?;
    let mut times = Samples { name: "landfall".to_owned(), us: Vec::new() };
    let mut modes: Vec<(Ready, Samples)> = Vec::new();
    for peer in peers.iter() {
        let compared = row.compared();
        for ready in compared.iter().flat_map(|name| peer.of(name, dtype.name())) {
            if let (Some(t), Some(theirs)) = (ours.training, ready.parameters)
                && t.parameters != theirs
            {
                let (ours, peer) = (t.parameters, peer.name.clone());
                return Err(CliError::OtherModel { row: name.clone(), ours, peer, theirs });
            }
            modes.push((
                ready.clone(),
                Samples { name: format!("{}-{}", peer.name, ready.mode), us: Vec::new() },
            ));
        }
    }
    for _ in 0..args.samples {
        if request.stop.raised() {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
        times.us.push(ours.sample()?);
        for (ready, samples) in &mut modes {
            let asked = |p: &Peer| p.has(ready) && samples.name == format!("{}-{}", p.name, ready.mode);
            let Some(at) = peers.iter().position(asked) else { continue };
            std::thread::sleep(PAUSE);
            match peers[at].sample(ready, request) {
                Ok(us) => samples.us.push(us),
                Err(Fault::Interrupted) => return Ok(None),
                Err(fault) => {
                    output::note(&format!("{} is left out from here on: {fault}", samples.name));
                }
            }
        }
    }
    // A mode that did not get through every round has no median to compare with.
    let whole = modes.into_iter().map(|(_, s)| s).filter(|s| s.us.len() == args.samples);
    let (peers, cost, host, training) = (whole.collect(), ours.cost, ours.host, ours.training);
    Ok(Some(Measured { row: name, dtype, ours: times, peers, cost, host, training }))
}

fn recorded(m: &Measured) -> record::Line {
    record::Line {
        row: m.row.clone(),
        dtype: m.dtype.name().to_owned(),
        ours_us: m.ours.median(),
        peer: m.best().map(|p| (p.median(), p.name.clone())),
    }
}

fn object(m: &Measured) -> Value {
    let peers: Vec<Value> = m.peers.iter().map(Samples::json).collect();
    let mut object = json!({"row": m.row, "dtype": m.dtype.name(), "ours": m.ours.json(), "peers": peers});
    if let Some(best) = m.best() {
        object["best_peer"] = json!(best.name);
        object["ratio"] = json!(m.ours.median() / best.median());
    }
    let (gb, gflop) = m.rates();
    object["gb_per_s"] = json!(gb);
    object["gflop_per_s"] = json!(gflop);
    object["bytes"] = json!(m.cost.bytes);
    object["flops"] = json!(m.cost.flops);
    if let Some(host) = m.host {
        object["host_us"] = json!(host.us);
        object["launches"] = json!(host.launches);
        if let Some(floor) = host.floor {
            object["bare_us"] = json!(floor.bare_us);
            object["null_us"] = json!(floor.null_us);
        }
    }
    if let Some(t) = &m.training {
        object["parameters"] = json!(t.parameters);
        object["samples_per_s"] = json!(m.samples_per_s());
        object["losses"] = json!([t.first_loss, t.last_loss]);
    }
    object
}

/// A table of rows, one of every side with its spread and, of a GPU, one of what the host does for a step.
fn report(measured: &[Measured]) -> String {
    let words = |list: &[&str]| list.iter().map(|&w| w.to_owned()).collect::<Vec<String>>();
    let mut rows = vec![words(&[
        "row",
        "dtype",
        "ours us",
        "samples/s",
        "GB/s",
        "GFLOP/s",
        "best peer us",
        "peer",
        "ours/peer",
    ])];
    let mut sides = vec![words(&["row", "dtype", "side", "median us", "least", "most"])];
    let mut hosts =
        vec![words(&["row", "dtype", "host us", "bare us", "null us", "launches", "MB", "MFLOP"])];
    for m in measured {
        let dtype = m.dtype.name().to_owned();
        let (gb, gflop) = m.rates();
        let mut cells = vec![m.row.clone(), dtype.clone()];
        cells.push(format!("{:.1}", m.ours.median()));
        cells.push(m.samples_per_s().map_or_else(String::new, |x| format!("{x:.0}")));
        cells.extend([gb, gflop].map(|x| format!("{x:.1}")));
        if let Some(host) = m.host {
            let mut cells = vec![m.row.clone(), dtype.clone(), format!("{:.2}", host.us)];
            cells.extend(host.floor.map_or_else(
                || words(&["", ""]),
                |f| [f.bare_us, f.null_us].map(|x| format!("{x:.2}")).to_vec(),
            ));
            let numbers = [host.launches, m.cost.bytes as f64 / 1e6, m.cost.flops as f64 / 1e6];
            cells.extend(numbers.map(|x| format!("{x:.1}")));
            hosts.push(cells);
        }
        if let Some(best) = m.best() {
            let ratio = m.ours.median() / best.median();
            cells.extend([format!("{:.1}", best.median()), best.name.clone(), format!("{ratio:.2}")]);
        }
        rows.push(cells);
        for side in std::iter::once(&m.ours).chain(&m.peers) {
            let (least, most) = side.spread();
            let times = [side.median(), least, most].map(|us| format!("{us:.1}"));
            sides.push([m.row.clone(), dtype.clone(), side.name.clone()].into_iter().chain(times).collect());
        }
    }
    let tables = [rows, sides, hosts];
    tables.iter().filter(|t| t.len() > 1).map(|t| table(t)).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn medians() {
        let samples = |us: &[f64]| Samples { name: String::new(), us: us.to_vec() };
        assert_eq!(samples(&[9.0, 1.0, 4.0]).median(), 4.0);
        assert_eq!(samples(&[9.0, 1.0, 4.0, 2.0]).median(), 3.0);
        assert_eq!(samples(&[7.0]).median(), 7.0);
        assert_eq!(samples(&[9.0, 1.0, 4.0]).spread(), (1.0, 9.0));
    }
}
