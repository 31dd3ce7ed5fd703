//! One run in this process, from its settings to what it says when it ends.

use super::results::Results;
use crate::args::Train;
use crate::commands::forecast::draw;
use crate::commands::{note_all, note_texts};
use crate::error::CliError;
use crate::output::{self, Watch};
use crate::signals::Stop;
use landfall::World;
use landfall_forecast::forecasting::series;
use landfall_forecast::run::{AutoReason, EvaluationRecord, Run, Settings, Source, Weights, count};
use landfall_forecast::training::{Begun, Comparison, Ended as Part, Finished, NewRun, Ready};
use landfall_train::data::WindowedPanel;
use landfall_train::models::Predicts;
use landfall_train::train::Session;
use serde_json::json;
use std::cell::OnceCell;
use std::io::IsTerminal;
use std::path::Path;

/// How a run ended.
pub(in crate::commands) struct Ended {
    /// The exit code.
    pub(in crate::commands) code: u8,
    /// The last evaluation, of a run that finished.
    pub(in crate::commands) last: Option<EvaluationRecord>,
}

impl Ended {
    fn early(code: u8) -> Self {
        Self { code, last: None }
    }
}

/// The settings of the flags over those of a file.
pub(in crate::commands) fn settings(flags: Settings, config: Option<&Path>) -> Result<Settings, CliError> {
    match config {
        Some(file) => Ok(flags.over(&Settings::read(file)?.for_new_run())?),
        None => Ok(flags),
    }
}

/// The settings of a new run.
pub(in crate::commands) fn new_settings(args: &Train) -> Result<Settings, CliError> {
    settings(args.settings(), args.setup.shapes.config.as_deref())
}

/// A new run.
pub(in crate::commands) fn fresh(
    (tuned, json): (bool, bool),
    settings: Settings,
    out: Option<&Path>,
    world: &World,
    stop: Stop,
) -> Result<Ended, CliError> {
    let ready = Ready::new(NewRun {
        settings,
        out: out.map(Path::to_owned),
        tuned,
        frame: None,
        world: world.clone(),
    })?;
    if ready.only_counts() {
        return count_only(ready, json).map(Ended::early);
    }
    if let Some(path) = out.filter(|path| path.exists()) {
        output::note(&format!("note: {} had no checkpoint yet; it starts over", path.display()));
    }
    go(ready.begin()?, json, stop)
}

/// Refuses what a resumed run cannot be given.
pub(super) fn only_resumes(args: &Train) -> Result<(), CliError> {
    let kept = "a resumed run keeps its folder and settings; leave it out";
    for (flag, given) in [("--out", args.out.is_some()), ("--config", args.setup.shapes.config.is_some())] {
        if given {
            return Err(CliError::Flags { flag, other: "--resume".to_owned(), why: kept });
        }
    }
    Ok(())
}

/// An earlier run, with the settings that these flags change.
pub(in crate::commands) fn go_on(
    flags: &Settings,
    path: &Path,
    json: bool,
    world: &World,
    stop: Stop,
) -> Result<Ended, CliError> {
    let (ready, notes) = Ready::resumed(flags, path, world)?;
    if ready.only_counts() {
        return count_only(ready, json).map(Ended::early);
    }
    let begun = ready.begin()?;
    output::line(&format!("resuming {} after step {}", path.display(), begun.ready().done()))?;
    note_all(&notes);
    go(begun, json, stop)
}

fn announce(ready: &Ready) -> Result<(), CliError> {
    let Ready { resolved, session, comparison, .. } = ready;
    let (s, n) = (&resolved.settings, &resolved.network);
    let seed = resolved.training.seed;
    let data = match (&resolved.source, comparison) {
        (Source::Demo { rows, channels }, _) => format!(
            "no --data: this trains on a generated hourly series, {rows} rows of {channels} columns, seed {seed}"
        ),
        (Source::Files { .. } | Source::Walk { .. } | Source::Assets { .. }, Comparison::Series(_)) => {
            ready.summary.as_ref().map_or_else(String::new, |summary| summary.lines().join("\n"))
        }
        (_, Comparison::Labels(w)) => {
            let (n, c) = (w.samples, w.channels);
            format!(
                "generated random walks with their mean as label: {n} windows of {c} channels, seed {seed}"
            )
        }
        (_, Comparison::Classes(known)) => known.line.clone(),
    };
    output::line(&data)?;
    note_texts(&ready.notes);
    let preset = s.preset.as_deref().unwrap_or_default();
    let (sizes, unit) = match n.predicts() {
        Predicts::Rows(_) | Predicts::Value => {
            (format!("context {}, horizon {}", n.context(), n.horizon()), "windows")
        }
        Predicts::Classes(classes) => (format!("{} features, {classes} classes", n.context()), "samples"),
    };
    let how = match (resolved.untested || !resolved.has_networks(), resolved.trains()) {
        (true, _) => "no network is trained".to_owned(),
        (false, false) => "ridge regression, in no steps".to_owned(),
        (false, true) => format!(
            "{} trainable parameters; {} steps of {} {unit}{}, {} an epoch",
            session.model().parameters().count(),
            resolved.steps(session),
            session.options().batch,
            if session.is_by_column() { " of one column" } else { "" },
            session.steps_per_epoch(),
        ),
    };
    output::line(&format!("model {preset}: {sizes}; {how}; configuration {}", s.hash()?))?;
    if ready.chosen == Some(AutoReason::NoGpu) {
        return Ok(());
    }
    output::line(&ready.device().line(ready.chosen.as_ref()))
}

fn count_only(mut ready: Ready, json: bool) -> Result<u8, CliError> {
    announce(&ready)?;
    let steps = ready.steps() - ready.done();
    let before = ready.session.engine.counters();
    let after = count(&mut ready.session, steps).map_err(CliError::during)?;
    let (launches, allocations) = (after.launches - before.launches, after.allocations - before.allocations);
    output::line(&format!(
        "{steps} steps counted: {launches} launches, {allocations} allocations while running, {} bytes of device memory; \
         no run directory was written",
        after.bytes_in_use
    ))?;
    if json {
        let bytes = after.bytes_in_use;
        output::json(
            &json!({"device": "null", "steps": steps, "launches": launches, "allocations": allocations, "bytes": bytes}),
        )?;
    }
    Ok(0)
}

fn go(begun: Begun, json: bool, stop: Stop) -> Result<Ended, CliError> {
    announce(begun.ready())?;
    let (path, world) = (begun.path().to_owned(), begun.ready().session.engine.world().clone());
    output::line(&format!("run directory {}", path.display()))?;
    let mut watch = Watch::new(begun.ready().done(), begun.ready().steps(), stop.clone());
    let trained = begun.fit(&mut watch);
    watch.finish();
    let trained = match trained? {
        Part::Done(trained) => trained,
        Part::Interrupted { step } => {
            return interrupted(&path, step, (&stop, &world), json).map(Ended::early);
        }
    };
    if let Some(patience) = trained.patience() {
        let steps = trained.steps();
        output::line(&format!("stopped after {steps} steps: {patience} validations without improvement"))?;
    }
    // All ranks ask at the same places, and stop together; a fault among them ends the choice too.
    let fault = OnceCell::new();
    let stops = || match world.any("whether to stop", stop.raised()) {
        Ok(stops) => stops,
        Err(why) => fault.set(why).is_ok(),
    };
    let chosen = trained.choose(&stops)?;
    if let Some(why) = fault.into_inner() {
        return Err(CliError::during(landfall::Error::from(why).into()));
    }
    let finished = match chosen {
        Part::Done(finished) => finished,
        Part::Interrupted { step } => {
            return interrupted(&path, step, (&stop, &world), json).map(Ended::early);
        }
    };
    Results::of(&finished, &path).print()?;
    let Finished { resolved, session, comparison, .. } = &finished;
    if let (Comparison::Series(panel), false) = (comparison, json) {
        picture(&path, panel, session)?;
    }
    if json {
        let mut object = finished.object(&path);
        object["configuration"] = json!(resolved.settings.hash()?);
        output::json(&object)?;
    }
    Ok(Ended { code: 0, last: finished.records().last().cloned() })
}

/// Draws the forecast beyond the end of the first series, for a person at a terminal.
fn picture(path: &Path, panel: &WindowedPanel, session: &Session) -> Result<(), CliError> {
    let Some(first) = panel.members().first().filter(|_| std::io::stdout().is_terminal()) else {
        return Ok(());
    };
    let run = Run::open(path)?;
    if run.needs_future() {
        return Ok(());
    }
    let mut predictor = run.predictor(&session.engine, Weights::Best).map_err(CliError::during)?;
    let all;
    let last = if run.columns().len() > run.targets() {
        // Covariates stand in the file alone by now.
        all = series(&run, &[], None)?;
        all.series().first()
    } else {
        Some(&first.series)
    };
    let Some(last) = last else { return Ok(()) };
    let forecast = run.forecast(&mut predictor, last).map_err(CliError::during)?;
    draw(&forecast, run.resolved().network.horizon(), panel.members().len() > 1)
}

/// Says that a run was interrupted and how to go on with it.
fn interrupted(path: &Path, step: usize, (stop, world): (&Stop, &World), json: bool) -> Result<u8, CliError> {
    if world.rank() > 0 {
        // Its directory goes with its process; the first rank says where the run is.
        output::note(&format!("interrupted after step {step}; the first rank saved the run"));
        return Ok(stop.code());
    }
    output::note(&format!(
        "interrupted after step {step}; checkpoint saved; resume with: landfall train --resume {}",
        path.display()
    ));
    if json {
        output::json(&json!({"run": path, "steps": step, "interrupted": true}))?;
    }
    Ok(stop.code())
}
