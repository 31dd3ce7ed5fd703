//! Rows beside other libraries: samples in turn, medians, the record.

use crate::args::Args;
use crate::error::BenchError;
use crate::measured::{MeasuredRow, report};
use crate::ours::OurSide;
use crate::output;
use crate::peer::{Fault, Peer, PeerRow, Request};
use crate::record;
use crate::rows::{LaunchMode, Row};
use crate::samples::Samples;
use crate::stop::Stop;
use landfall::{DeviceKind, Engine};
use landfall_forecast::run::{Precision, on_device};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Idle time before each sample: threads of a side that has just finished spin for some milliseconds before they
/// sleep, and would take processors from the other side.
const PAUSE: Duration = Duration::from_millis(100);

/// Times the rows that are asked for; the exit code.
pub(crate) fn run(args: &Args) -> Result<u8, BenchError> {
    // What is asked is refused before a device is looked for.
    let dtypes = args.dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(",");
    for row in Row::select(&args.rows, true)? {
        if row.precisions(&args.dtypes).is_empty() {
            let rule = "large and routing rows are of f32 or bf16";
            return Err(BenchError::Range { flag: "--dtypes", value: dtypes, rule });
        }
    }
    let threads = args.threads();
    let placed = on_device(args.device, Some(threads), |engine| Ok(engine.clone()))?;
    let gpu = matches!(placed.made.device(), DeviceKind::Cuda(_));
    let rows = Row::select(&args.rows, gpu)?;
    if let (false, Some(row)) = (gpu, rows.iter().find(|r| r.on_gpus())) {
        let (flag, value, rule) = ("--rows", row.name(), "this row needs a GPU (--device cuda)");
        return Err(BenchError::Range { flag, value, rule });
    }
    output::note(&placed.line());
    let engine = placed.made;
    let root = root();
    let device = record::device(engine.device(), threads);
    let record = args.record.then(|| record::path(root.as_deref().unwrap_or(Path::new("")), &device));
    if let Some(path) = &record {
        record::check(path)?;
    }
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
        let Some(new) = compare(&engine, &rows, args, &request, &mut versions)? else {
            return Ok(interrupted());
        };
        // What is measured stays, whatever becomes of the rows that follow.
        if let Some(path) = &record {
            record::append(path, &new.iter().map(MeasuredRow::recorded).collect::<Vec<_>>())?;
        }
        measured.extend(new);
    }
    if let Some(path) = &record {
        output::note(&format!("recorded in {}", path.display()));
    }
    if args.json {
        let rows: Vec<Value> = measured.iter().map(MeasuredRow::json).collect();
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
    args: &Args,
    request: &Request<'_>,
    versions: &mut BTreeMap<String, String>,
) -> Result<Option<Vec<MeasuredRow>>, BenchError> {
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
    let modes = [(args.tuned, LaunchMode::Tuned), (args.issued, LaunchMode::Issued)];
    let modes = modes.into_iter().filter_map(|(asked, mode)| asked.then_some(mode));
    let mut measured = Vec::new();
    for row in rows
        .iter()
        .flat_map(|&row| std::iter::once(row).chain(modes.clone().filter_map(move |mode| row.also(mode))))
    {
        for dtype in row.precisions(&args.dtypes) {
            match measure(engine, row, dtype, args, &mut peers, request)? {
                Some(m) => measured.push(m),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(measured))
}

fn interrupted() -> u8 {
    output::note("interrupted; with --record, the rows that were complete are recorded");
    130
}

/// The nearest folder upwards that holds the peers' programs.
fn root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|a| a.join("bench/peers").is_dir()).map(Path::to_owned)
}

/// Times one row: ours, then each mode of each peer, round by round. `None` when interrupted.
fn measure(
    engine: &Engine,
    row: Row,
    dtype: Precision,
    args: &Args,
    peers: &mut [Peer],
    request: &Request<'_>,
) -> Result<Option<MeasuredRow>, BenchError> {
    let name = row.name();
    let mut ours = OurSide::new(engine, row, dtype, args.seconds)?;
    let mut times = Samples { name: "landfall".to_owned(), us: Vec::new() };
    let mut modes: Vec<(PeerRow, Samples)> = Vec::new();
    for peer in peers.iter() {
        let compared = row.compared();
        for ready in compared.iter().flat_map(|name| peer.of(name, dtype.name())) {
            if let (Some(t), Some(theirs)) = (ours.training, ready.parameters)
                && t.parameters != theirs
            {
                let (ours, peer) = (t.parameters, peer.name.clone());
                return Err(BenchError::OtherModel { row: name.clone(), ours, peer, theirs });
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
    Ok(Some(MeasuredRow { row: name, dtype, ours: times, peers, cost, host, training }))
}
