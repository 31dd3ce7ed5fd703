//! `landfall train`: a new run, or an old one that goes on.

mod choice;
mod results;

use super::device::{Placed, line, on};
use super::{note_all, tune};
use crate::args::{Setup, Train};
use crate::error::CliError;
use crate::output::{self, Watch};
use crate::signals::Stop;
use landfall_train::checkpoint::{File, Progress, load_checkpoint, load_weights};
use landfall_train::choice::Plan;
use landfall_train::data::synthetic::WalkData;
use landfall_train::data::{DataError, Segment, Split, TokenData, TokenNames, TokenSegments, WindowedPanel};
use landfall_train::models::Task;
use landfall_train::run::{
    Data, Device, EvaluationRecord, FitOptions, Outcome, Resolved, Run, RunError, RunFolder, RunLock,
    Settings, Source, TestScoring, Units, Weights, complete, count, fit,
};
use landfall_train::train::{Dataset, Schedule, Session};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the results are compared with.
enum Comparison {
    Series(Arc<WindowedPanel>),
    Labels(WalkData),
    Classes(Classes),
}

/// What is known of samples of tokens without a model.
struct Classes {
    /// They in one line.
    said: String,
    /// How often the most frequent class of all test tokens is right.
    most_frequent: f64,
    /// How often the best of all classifiers is right, of generated samples.
    bayes: Option<f64>,
}

impl Classes {
    fn of(data: &TokenData, split: Split) -> Result<Self, DataError> {
        let TokenNames { tokens, classes, features } = &data.names;
        let (source, n) = (&data.source, data.samples.len());
        let test = TokenSegments::new(data, split)?.samples(Segment::Test);
        Ok(Self {
            said: format!(
                "data {source}: {n} samples of {} tokens with {} features, classes {}",
                tokens.len(),
                features.len(),
                classes.join(", ")
            ),
            most_frequent: data.most_frequent(test),
            bayes: data.bayes,
        })
    }

    fn scores(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let frequent = Some(("most frequent class", self.most_frequent));
        [frequent, self.bayes.map(|b| ("Bayes classifier", b))].into_iter().flatten()
    }
}

/// A run that can begin.
struct Ready {
    resolved: Resolved,
    session: Session,
    comparison: Comparison,
    /// How a forecaster will be chosen, and on which data.
    choice: Option<(Plan, Dataset)>,
    /// Why `auto` chose the device that it did.
    chosen: Option<String>,
    /// What was read of a series, for a person.
    summary: Vec<String>,
    /// What else a person has to know.
    notes: Vec<String>,
    from: Progress,
}

impl Ready {
    /// How long the run goes on and what it reports.
    fn options(&self, configuration: String) -> FitOptions {
        let Self { resolved, comparison, choice, .. } = self;
        let test = match comparison {
            Comparison::Series(panel) => {
                Some(TestScoring { panel: Arc::clone(panel), period: resolved.period })
            }
            Comparison::Labels(_) | Comparison::Classes(_) => None,
        };
        let units = match comparison {
            Comparison::Series(panel) => Units::of(panel),
            Comparison::Labels(_) => Units::labels(),
            Comparison::Classes(_) => resolved.settings.names.as_ref().map(Units::tokens).unwrap_or_default(),
        };
        FitOptions {
            epochs: resolved.training.epochs,
            max_steps: resolved.training.max_steps,
            validate_every: choice.as_ref().and_then(|(plan, _)| resolved.validate_every(plan)),
            patience: resolved.patience,
            checkpoint: resolved.checkpoint,
            log_every: resolved.log_every,
            units,
            test,
            configuration,
        }
    }
}

/// Trains; the exit code.
pub(crate) fn run(args: &Train) -> Result<u8, CliError> {
    if let Some(flag) = args.setup.ahead.given() {
        return Err(CliError::KnownAhead(flag));
    }
    let stop = Stop::watch();
    match (&args.resume, &args.seeds) {
        (Some(path), _) => resume(args, path, stop),
        (None, Some(seeds)) => super::seeds::run(args, seeds, &stop),
        (None, None) => {
            let settings = settings(&args.setup)?;
            fresh(args.tuned, args.json, settings, args.out.as_deref(), stop).map(|ended| ended.code)
        }
    }
}

/// How a run ended.
pub(super) struct Ended {
    /// The exit code.
    pub(super) code: u8,
    /// The last evaluation, of a run that finished.
    pub(super) last: Option<EvaluationRecord>,
}

impl Ended {
    fn early(code: u8) -> Self {
        Self { code, last: None }
    }
}

/// The settings of the flags over those of a file.
pub(super) fn settings(setup: &Setup) -> Result<Settings, CliError> {
    let settings = setup.settings();
    match &setup.shapes.config {
        Some(file) => Ok(settings.over(&Settings::read(file)?.for_new_run())?),
        None => Ok(settings),
    }
}

/// A new run.
pub(super) fn fresh(
    tuned: bool,
    json: bool,
    settings: Settings,
    out: Option<&Path>,
    stop: Stop,
) -> Result<Ended, CliError> {
    let init = settings.init.clone();
    let resolved = settings.resolve()?;
    if let Some(path) = out.filter(|p| p.exists() && !RunFolder::is_unbegun(p)) {
        return Err(RunError::Exists { path: path.to_owned() }.into());
    }
    let init = init.map(|path| File::read(&path).map(|file| (path, file))).transpose()?;
    let ready = prepare(resolved, tuned, |session| {
        if let Some((path, file)) = &init {
            load_weights(path, file, session)?;
        }
        Ok(Progress::default())
    })?;
    if ready.resolved.settings.device == Some(Device::Null) {
        return count_only(ready, json).map(Ended::early);
    }
    let configuration = ready.resolved.settings.to_toml()?;
    let folder = match out {
        Some(path) => {
            if path.exists() {
                output::note(&format!("note: {} had no checkpoint yet; it starts over", path.display()));
            }
            RunFolder::create(path, &configuration)?
        }
        None => numbered(&ready.resolved, &configuration)?,
    };
    go(ready, folder, configuration, json, stop)
}

fn resume(args: &Train, path: &Path, stop: Stop) -> Result<u8, CliError> {
    let kept = "a resumed run keeps its folder and settings; leave it out";
    for (flag, given) in [("--out", args.out.is_some()), ("--config", args.setup.shapes.config.is_some())] {
        if given {
            return Err(CliError::Flags { flag, other: "--resume".to_owned(), why: kept });
        }
    }
    let flags = args.setup.settings();
    if super::seeds::is_one(path) {
        return super::seeds::resume(args, path, &flags, &stop);
    }
    flags.changes_nothing_else()?;
    go_on(&flags, path, args.json, stop).map(|ended| ended.code)
}

/// An earlier run, with the settings that these flags change.
pub(super) fn go_on(flags: &Settings, path: &Path, json: bool, stop: Stop) -> Result<Ended, CliError> {
    let stored = Run::open(path)?;
    let lock = RunLock::take(path)?;
    let before = stored.resolved().settings.clone();
    let resolved = flags.over(&before)?.resolve()?;
    let checkpoint = path.join("checkpoint.safetensors");
    if !checkpoint.exists() && RunFolder::last_evaluation(path)?.is_some() {
        // Linear networks are fit without steps, so a run of theirs has no checkpoint.
        return Err(CliError::Complete { run: path.to_owned(), done: 0, total: 0 });
    }
    if !checkpoint.exists() {
        return Err(RunError::NoCheckpoint { path: path.to_owned() }.into());
    }
    let file = File::read(&checkpoint)?;
    let ready = prepare(resolved, false, |session| {
        load_checkpoint(&checkpoint, &file, session).map_err(CliError::from)
    })?;
    match &ready.comparison {
        Comparison::Series(now) => unchanged(path, &stored, now)?,
        Comparison::Classes(_) => samples_unchanged(path, &before, &ready.resolved.settings)?,
        Comparison::Labels(_) => {}
    }
    // A run that was stopped while it chose has done its steps.
    let chooses = ready.choice.is_some() && before.forecaster.is_none();
    if !chooses && complete(&ready.session, path, &ready.from, &ready.options(String::new()))? {
        let total = ready.resolved.steps(&ready.session);
        return Err(CliError::Complete { run: path.to_owned(), done: ready.from.step, total });
    }
    if ready.resolved.settings.device == Some(Device::Null) {
        return count_only(ready, json).map(Ended::early);
    }
    let configuration = ready.resolved.settings.to_toml()?;
    let folder = RunFolder::resume(lock, ready.from.step)?;
    folder.write("config.toml", &configuration)?;
    output::line(&format!("resuming {} after step {}", path.display(), ready.from.step))?;
    let s = &ready.resolved.settings;
    if let (Some(was), Some(now)) = (before.computed_on, s.computed_on)
        && was != now
    {
        output::note(&format!(
            "note: the run computed on {was} and goes on on {now}: its results differ by rounding from those of one \
             device"
        ));
    }
    let longer = (s.epochs, s.max_steps) != (before.epochs, before.max_steps);
    if longer && matches!(s.schedule, Some(Schedule::Cosine | Schedule::OneCycle)) {
        output::note(
            "note: this schedule spans the whole run, so the rates from here on are those of the new length",
        );
    }
    go(ready, folder, configuration, json, stop)
}

/// Checks that the series of a run have the statistics that they had when it began.
fn unchanged(path: &Path, stored: &Run, now: &WindowedPanel) -> Result<(), CliError> {
    let (run, was) = (path.to_owned(), stored.scalers());
    let names = || now.members().iter().map(|m| m.series.name());
    if was.len() != now.members().len() || !was.iter().map(|(name, _)| name.as_str()).eq(names()) {
        let (before, now) =
            (was.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names().collect::<Vec<_>>());
        return Err(CliError::SeriesChanged { run, before: before.join(", "), now: now.join(", ") });
    }
    for ((_, was), m) in was.iter().zip(now.members()) {
        let same = |c: &usize| was.mean()[*c] == m.scaler.mean()[*c] && was.std()[*c] == m.scaler.std()[*c];
        if let Some(c) = (0..was.channels()).find(|c| !same(c)) {
            let (source_name, column) = (m.series.source().to_owned(), m.series.columns()[c].clone());
            return Err(CliError::DataChanged { run, source_name, column });
        }
    }
    Ok(())
}

/// Checks that the tokens of a run have the statistics that they had when it began.
fn samples_unchanged(path: &Path, was: &Settings, now: &Settings) -> Result<(), CliError> {
    let tables = |s: &Settings| s.scaler.clone().unwrap_or_default();
    let features = now.names.as_ref().map_or(&[][..], |names| &names.features);
    for (was, now) in tables(was).iter().zip(&tables(now)) {
        let same = |f: &usize| was.mean.get(*f) == now.mean.get(*f) && was.std.get(*f) == now.std.get(*f);
        if let Some(f) = (0..features.len()).find(|f| !same(f)) {
            let column = format!("{}.{}", now.series, features[f]);
            let (run, source_name) = (path.to_owned(), "its data".to_owned());
            return Err(CliError::DataChanged { run, source_name, column });
        }
    }
    Ok(())
}

/// A session on the device that was asked for, with its data.
pub(super) struct Begun {
    pub(super) placed: Placed<Session>,
    pub(super) dataset: Dataset,
    comparison: Comparison,
    /// How a forecaster will be chosen, by the default recipe.
    plan: Option<Plan>,
    /// The data in words.
    summary: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Reads the data and makes a session of it.
pub(super) fn begin(resolved: &mut Resolved) -> Result<Begun, CliError> {
    let (mut plan, mut summary) = (None, Vec::new());
    let (dataset, comparison, notes) = match resolved.load()? {
        Data::Series(panel) => {
            summary = panel.summary().lines();
            *resolved = resolved.clone().sized(&panel)?;
            let (mut dataset, panel) = resolved.forecast(panel)?;
            let left_out = panel.left_out().to_vec();
            if resolved.is_default_recipe() {
                let (folds, planned) = resolved.planned(&dataset, &panel);
                (plan, dataset) = (Some(folds), planned);
            }
            (dataset, Comparison::Series(Arc::new(panel)), left_out)
        }
        Data::Tokens(data) => {
            let (dataset, data) = resolved.classify(data)?;
            (dataset, Comparison::Classes(Classes::of(&data, resolved.split)?), Vec::new())
        }
        Data::Walk(walk) => (Dataset::regression(&walk), Comparison::Labels(walk), Vec::new()),
    };
    let asked = resolved.settings.device.unwrap_or(Device::Auto);
    let placed = on(asked, resolved.settings.threads, |engine| resolved.session(engine, &dataset))?;
    Ok(Begun { placed, dataset, comparison, plan, summary, notes })
}

/// Everything that can be refused happens here, before a file is written.
fn prepare(
    mut resolved: Resolved,
    tuned: bool,
    start: impl FnOnce(&mut Session) -> Result<Progress, CliError>,
) -> Result<Ready, CliError> {
    let Begun { placed, dataset, comparison, plan, summary, mut notes } = begin(&mut resolved)?;
    let Placed { made: mut session, device, why: chosen } = placed;
    if tuned {
        let engine = session.engine.clone();
        let found = tune::of(session, false)?;
        notes.extend(found.notices.iter().map(ToString::to_string));
        resolved.settings.kernels = Some(found.choices);
        session = resolved.session(&engine, &dataset)?;
    }
    if let Some(why) = resolved.unpinned(&session.engine)? {
        notes.push(format!("the run's tuned kernels do not hold here ({why}): the ops' own are taken"));
    }
    resolved.settings.computed_on = Some(device);
    let from = start(&mut session)?;
    let choice = plan.map(|plan| (plan, dataset));
    Ok(Ready { resolved, session, comparison, choice, summary, chosen, notes, from })
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
            ready.summary.join("\n")
        }
        (_, Comparison::Labels(w)) => {
            let (n, c) = (w.samples, w.channels);
            format!(
                "generated random walks with their mean as label: {n} windows of {c} channels, seed {seed}"
            )
        }
        (_, Comparison::Classes(known)) => known.said.clone(),
    };
    output::line(&data)?;
    note_all(&ready.notes);
    let parameters = session.model().parameters().count();
    let preset = s.preset.as_deref().unwrap_or_default();
    let (sizes, unit) = match n.task() {
        Task::Forecast | Task::Regress => {
            (format!("context {}, horizon {}", n.context(), n.horizon()), "windows")
        }
        Task::Classify => (format!("{} features, {} classes", n.context(), n.horizon()), "samples"),
    };
    output::line(&format!(
        "model {preset}: {parameters} trainable parameters, {sizes}; {} steps of {} {unit}, {} an epoch; \
         configuration {}",
        resolved.steps(session),
        session.options().batch,
        session.steps_per_epoch(),
        s.hash()?
    ))?;
    output::line(&line(s.computed_on.unwrap_or(Device::Auto), ready.chosen.as_deref()))
}

fn count_only(mut ready: Ready, json: bool) -> Result<u8, CliError> {
    announce(&ready)?;
    let steps = ready.resolved.steps(&ready.session) - ready.from.step;
    let before = ready.session.engine.counters();
    let after = count(&mut ready.session, steps).map_err(CliError::During)?;
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

/// The first free `runs/<model>-<number>`.
fn numbered(resolved: &Resolved, configuration: &str) -> Result<RunFolder, CliError> {
    let name = resolved.settings.preset.as_deref().unwrap_or("run");
    for number in 1usize.. {
        match RunFolder::create(&PathBuf::from("runs").join(format!("{name}-{number}")), configuration) {
            Err(RunError::Exists { .. }) => {}
            other => return Ok(other?),
        }
    }
    unreachable!("a folder holds fewer entries than there are numbers")
}

fn go(
    ready: Ready,
    mut folder: RunFolder,
    configuration: String,
    json: bool,
    stop: Stop,
) -> Result<Ended, CliError> {
    announce(&ready)?;
    let options = ready.options(configuration);
    let Ready { mut resolved, mut session, comparison, choice, from, .. } = ready;
    let reports: Vec<_> =
        session.programs().iter().map(|p| json!({"program": p.name(), "plan": p.report()})).collect();
    folder.write("plan.json", &json!(reports).to_string()).map_err(CliError::During)?;
    output::line(&format!("run directory {}", folder.path().display()))?;
    let mut watch = Watch::new(from.step, resolved.steps(&session), stop.clone());
    let trained = if resolved.trains() {
        fit(&mut session, &mut folder, from, &options, &mut watch)
    } else {
        Ok(Outcome::Finished { records: Vec::new(), steps: 0 })
    };
    watch.finish();
    let (mut records, steps) = match trained.map_err(CliError::During)? {
        Outcome::Interrupted { step } => {
            return interrupted(folder.path(), step, &stop, json).map(Ended::early);
        }
        Outcome::Finished { records, steps } => (records, steps),
    };
    if let (true, Some(patience)) = (steps < resolved.steps(&session) && resolved.trains(), resolved.patience)
    {
        output::line(&format!("stopped after {steps} steps: {patience} validations without improvement"))?;
    }
    let mut made = None;
    if let (Some(choice), Comparison::Series(panel)) = (&choice, &comparison) {
        let stopped = || stop.raised();
        made = choice::chosen(&mut resolved, &mut session, panel, choice, &mut folder, &stopped)?;
        let Some(chosen) = &made else {
            return interrupted(folder.path(), steps, &stop, json).map(Ended::early);
        };
        records = vec![chosen.forecast.clone()];
    }
    let path = folder.path();
    let finished = results::Finished {
        resolved: &resolved,
        records: &records,
        simple: records.last().map_or(&[], |r| &r.baselines),
        comparison: &comparison,
        chosen: made.as_ref(),
        path,
    };
    finished.print()?;
    if let (Comparison::Series(panel), false) = (&comparison, json) {
        picture(path, panel, &session)?;
    }
    if json {
        let mut object = finished.object(steps);
        object["configuration"] = json!(resolved.settings.hash()?);
        output::json(&object)?;
    }
    Ok(Ended { code: 0, last: records.pop() })
}

/// Draws the forecast beyond the end of the first series, for a person at a terminal.
fn picture(path: &Path, panel: &WindowedPanel, session: &Session) -> Result<(), CliError> {
    let Some(first) = panel.members().first().filter(|_| std::io::stdout().is_terminal()) else {
        return Ok(());
    };
    let run = Run::open(path)?;
    let mut predictor = run.predictor(&session.engine, Weights::Best).map_err(CliError::During)?;
    let forecast = run.forecast(&mut predictor, &first.series).map_err(CliError::During)?;
    super::forecast::draw(&forecast, run.resolved().network.horizon())
}

/// Says that a run was interrupted and how to go on with it.
fn interrupted(path: &Path, step: usize, stop: &Stop, json: bool) -> Result<u8, CliError> {
    output::note(&format!(
        "interrupted after step {step}; checkpoint saved; resume with: landfall train --resume {}",
        path.display()
    ));
    if json {
        output::json(&json!({"run": path, "steps": step, "interrupted": true}))?;
    }
    Ok(stop.code())
}
