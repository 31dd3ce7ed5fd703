//! `landfall compare`: several forecasters on the same data, and a leaderboard of them.

use super::train::one_run::settings;
use super::{note_all, note_texts};
use crate::args::Compare;
use crate::error::CliError;
use crate::output::{self, Watch, digits};
use crate::signals::Stop;
use landfall_forecast::ForecastError;
use landfall_forecast::comparing::{Contender, How, Leaderboard, Plan, Watcher, compare};
use landfall_forecast::run::{EvaluationRecord, Observer, RunError, Settings, StepLine};
use landfall_forecast::training::Ready;
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Compares; the exit code. What is done when it is stopped stays.
pub(crate) fn run(args: &Compare) -> Result<u8, CliError> {
    let stop = Stop::watch();
    let (plan, folder) = match &args.resume {
        Some(folder) => (resumed(args, folder)?, folder.clone()),
        None => begun(args)?,
    };
    let mut shown = Shown { watch: Watch::new(0, 0, stop.clone()), stop: stop.clone(), told: HashSet::new() };
    let Some(leaderboard) = compare(&plan, &folder, None, &mut shown)? else {
        let path = folder.display();
        output::note(&format!(
            "interrupted; what is done stays; resume with: landfall compare --resume {path}"
        ));
        if args.json {
            output::json(&json!({"folder": folder, "interrupted": true}))?;
        }
        return Ok(stop.code());
    };
    print(&leaderboard)?;
    if args.json {
        output::json(&leaderboard)?;
    }
    Ok(u8::from(leaderboard.best().is_none()))
}

/// That what was taken for a run is the directory of a comparison.
pub(crate) fn of_several(why: &CliError) -> Option<String> {
    let CliError::Forecast(ForecastError::Run(RunError::NotARun { path, .. })) = why else { return None };
    let plan = Plan::is_in(path).then(|| Plan::read(path).ok()).flatten()?;
    let first = path.join(plan.candidates.first()?);
    let (folder, first) = (path.display(), first.display());
    Some(format!("{folder} holds the runs of a comparison; name one of them, as {first}"))
}

/// A new comparison, with its directory.
fn begun(args: &Compare) -> Result<(Plan, PathBuf), CliError> {
    let contenders = match &args.candidates {
        Some(names) => Contender::named(names)?,
        None => Contender::USUAL.to_vec(),
    };
    let given = settings(args.given.settings.clone(), args.config.as_deref())?;
    let folder = args.out.clone().unwrap_or_else(free);
    if folder.exists() {
        let path = folder.display();
        let text = format!(
            "the directory {path} already exists; choose another with --out, or go on with a comparison by --resume {path}"
        );
        return Err(CliError::OfRun { text, code: 2 });
    }
    let planned = Plan::made(given, &contenders, None)?;
    let ready = &planned.ready;
    if let Some(summary) = &ready.summary {
        summary.lines().iter().try_for_each(|line| output::line(line))?;
    }
    note_texts(&ready.notes);
    let (context, horizon) = (ready.resolved.network.context(), ready.resolved.network.horizon());
    output::line(&format!("{} forecasters; context {context}, horizon {horizon}", contenders.len()))?;
    output::line(&ready.device().line(ready.chosen.as_ref()))?;
    planned.plan.write(&folder)?;
    output::line(&format!("directory {}\n", folder.display()))?;
    Ok((planned.plan, folder))
}

/// A comparison that goes on.
fn resumed(args: &Compare, folder: &Path) -> Result<Plan, CliError> {
    let others = [
        ("--out", args.out.is_some()),
        ("--config", args.config.is_some()),
        ("--candidates", args.candidates.is_some()),
        ("other flags", args.given.settings != Settings::default()),
    ];
    if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
        let why = "a comparison keeps its folder, candidates and settings; leave out all flags but --json";
        return Err(CliError::Flags { flag: "--resume", other: (*other).to_owned(), why });
    }
    if !Plan::is_in(folder) {
        let path = folder.display();
        let text = format!("{path} holds no comparison; --resume takes the directory of a landfall compare");
        return Err(CliError::OfRun { text, code: 2 });
    }
    let plan = Plan::read(folder)?;
    if plan.of_frame {
        let path = folder.display();
        let text = format!(
            "{path} compares forecasters on a data frame of Python; go on with it there, by Forecaster.resume()"
        );
        return Err(CliError::OfRun { text, code: 2 });
    }
    Ok(plan)
}

/// The first free `runs/compare-<number>`.
fn free() -> PathBuf {
    let numbered = |number: usize| PathBuf::from("runs").join(format!("compare-{number}"));
    (1..).map(numbered).find(|p| !p.exists()).unwrap_or_else(|| numbered(0))
}

fn print(leaderboard: &Leaderboard) -> Result<(), CliError> {
    output::line(&format!("\n{}\n", output::table(&leaderboard.table())))?;
    leaderboard.notes.iter().try_for_each(|note| output::line(note))?;
    for row in &leaderboard.rows {
        if let Some(why) = &row.failed {
            output::line(&format!("{} failed: {why}", row.candidate))?;
        }
    }
    let folder = leaderboard.folder.display();
    output::line(&format!("Saved to {folder}: a run directory for each candidate, and leaderboard.json"))?;
    match leaderboard.best().and_then(|best| best.run.as_ref()) {
        Some(run) => output::line(&format!("Forecast with: landfall forecast {}", run.display())),
        None => Ok(()),
    }
}

/// Shows a line for each candidate, and a bar at a terminal.
struct Shown {
    watch: Watch,
    stop: Stop,
    /// Notes that were told: most are of the data, which is that of all.
    told: HashSet<String>,
}

impl Watcher for Shown {
    fn begins(&mut self, candidate: &str, number: usize, count: usize) {
        // The comparison goes on, whatever becomes of standard output.
        let _ = output::line(&format!("{number} of {count}, {candidate}"));
    }

    fn ready(&mut self, _: &Path, ready: &Ready, notes: Vec<String>) {
        self.watch = Watch::new(ready.done(), ready.steps(), self.stop.clone());
        let new = |note: &String| self.told.insert(note.clone());
        let of_run = ready.notes.iter().map(ToString::to_string);
        let new: Vec<String> = of_run.chain(notes).filter(new).collect();
        note_all(&new);
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn ended(&mut self, _: &str, how: &How) {
        self.watch.finish();
        let text = match how {
            How::Failed(why) => format!("  failed: {why}"),
            How::Done { compared, seconds, before } => {
                let error = compared.validation.map_or_else(|| "-".to_owned(), digits);
                let name = compared.metric.name();
                let when = if *before { "done before".to_owned() } else { format!("{seconds:.1} s") };
                format!("  {}: {name} {error}, {when}", compared.forecaster)
            }
        };
        let _ = output::line(&text);
    }

    fn stops(&self) -> bool {
        self.stop.raised()
    }
}

impl Observer for Shown {
    fn step(&mut self, _: &StepLine) {}

    fn progress(&mut self, done: usize, total: usize) {
        self.watch.progress(done, total);
    }

    fn evaluation(&mut self, _: &EvaluationRecord, _: bool) {}

    fn stop(&self) -> bool {
        self.stop.raised()
    }
}
