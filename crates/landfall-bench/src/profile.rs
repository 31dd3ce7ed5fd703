//! `--profile`: where the time of training steps goes, node by node.

use crate::args::Args;
use crate::error::BenchError;
use crate::ours::session;
use crate::output;
use crate::record;
use crate::rows::{LaunchMode, Row, Step};
use landfall::DeviceKind;
use landfall::profile::{Profile, trace};
use landfall_forecast::run::{Precision, on_device};
use landfall_train::files;
use serde_json::{Value, json};

/// Profiles the step rows that are asked for.
pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    // What is asked is refused before a device is looked for.
    steps(args, true)?;
    if let Some(path) = args.trace.as_ref().filter(|p| p.exists()) {
        return Err(BenchError::Exists(path.clone()));
    }
    let threads = args.threads();
    let placed = on_device(args.device, Some(threads), |engine| Ok(engine.clone()))?;
    output::note(&placed.line());
    let engine = placed.made;
    let device = record::device(engine.device(), threads);
    let mut profiles: Vec<(String, Precision, Profile)> = Vec::new();
    for step in steps(args, matches!(engine.device(), DeviceKind::Cuda(_)))? {
        for &dtype in &args.dtypes {
            for mode in
                [LaunchMode::Captured, LaunchMode::Tuned].into_iter().take(1 + usize::from(args.tuned))
            {
                let profile = session(&engine, step, mode, dtype)?.profile(args.samples)?;
                let name = Row::Step(step, mode).name();
                if !args.json {
                    output::line(&format!("{name} {}: {profile}", dtype.name()))?;
                }
                profiles.push((name, dtype, profile));
            }
        }
    }
    if let Some(path) = &args.trace {
        let names: Vec<String> =
            profiles.iter().map(|(name, dtype, _)| format!("{name} {}", dtype.name())).collect();
        let named = names.iter().map(String::as_str).zip(profiles.iter().map(|p| &p.2));
        let written = files::create(path, trace(named).as_bytes());
        written.map_err(|why| BenchError::Write { path: path.clone(), why })?;
        output::note(&format!("timeline written to {}; ui.perfetto.dev opens it", path.display()));
    }
    if args.json {
        let mut rows: Vec<Value> = Vec::new();
        for (name, dtype, profile) in &profiles {
            rows.push(json!({"row": name, "dtype": dtype.name(), "profile": profile}));
        }
        output::json(&json!({"device": device, "threads": threads, "rows": rows}))?;
    }
    Ok(())
}

/// The step rows that are asked for; without a word all of them, the large ones only if `large`.
fn steps(args: &Args, large: bool) -> Result<Vec<&'static Step>, BenchError> {
    let rows = Row::select(&args.rows, large)?;
    let mut steps = Vec::new();
    for row in rows {
        match row {
            Row::Step(step, _) => steps.push(step),
            Row::Op(_) | Row::Routing(_) if args.rows.is_empty() => {}
            Row::Op(_) | Row::Routing(_) => {
                return Err(BenchError::NoStep { row: row.name() });
            }
        }
    }
    Ok(steps)
}
