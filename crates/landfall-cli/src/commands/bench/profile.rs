//! `landfall bench --profile`: where the time of training steps goes, node by node.

use super::ours::session;
use super::rows::{Row, Step, Way};
use super::{record, threads};
use crate::args::Bench;
use crate::commands::forecast;
use crate::error::CliError;
use crate::output;
use landfall::DeviceKind;
use landfall::profile::{Profile, trace};
use landfall_train::run::{Precision, SettingsError, on_device};
use serde_json::{Value, json};

/// Profiles the step rows that are asked for; the exit code.
pub(super) fn run(args: &Bench) -> Result<u8, CliError> {
    // What is asked is refused before a device is looked for.
    steps(args, true)?;
    if let Some(path) = args.trace.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let threads = threads(args);
    let placed = on_device(args.device, Some(threads), |engine| Ok(engine.clone()))?;
    output::note(&placed.line());
    let engine = placed.made;
    let device = record::device(engine.device(), threads);
    let mut profiles: Vec<(String, Precision, Profile)> = Vec::new();
    for step in steps(args, matches!(engine.device(), DeviceKind::Cuda(_)))? {
        for &dtype in &args.dtypes {
            for way in [Way::Captured, Way::Tuned].into_iter().take(1 + usize::from(args.tuned)) {
                let profile = session(&engine, step, way, dtype)?.profile(args.samples)?;
                let name = Row::Step(step, way).name();
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
        forecast::write(path, &trace(named))?;
        output::note(&format!("timeline written to {}; ui.perfetto.dev opens it", path.display()));
    }
    if args.json {
        let mut rows: Vec<Value> = Vec::new();
        for (name, dtype, profile) in &profiles {
            rows.push(json!({"row": name, "dtype": dtype.name(), "profile": profile}));
        }
        output::json(&json!({"device": device, "threads": threads, "rows": rows}))?;
    }
    Ok(0)
}

/// The step rows that are asked for; without a word all of them, the large ones only if `large`.
fn steps(args: &Bench, large: bool) -> Result<Vec<&'static Step>, CliError> {
    let known = |(value, known)| SettingsError::Unknown { key: "row", value, known };
    let rows = Row::select(&args.rows, large).map_err(known)?;
    let mut steps = Vec::new();
    for row in rows {
        match row {
            Row::Step(step, _) => steps.push(step),
            Row::Op(_) | Row::Routing(_) if args.rows.is_empty() => {}
            Row::Op(_) | Row::Routing(_) => {
                let other = format!("--rows {}", row.name());
                let why = "a profile is of whole steps; name rows of steps, such as seed or deep (`--rows steps` is all of them)";
                return Err(CliError::Flags { flag: "--profile", other, why });
            }
        }
    }
    Ok(steps)
}
