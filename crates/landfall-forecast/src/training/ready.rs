//! Runs that can begin: new ones, and earlier ones that go on.

use super::choice::enough_for;
use super::comparison::Comparison;
use super::loaded::{Loaded, load, start_of};
use super::unchanged::{samples_unchanged, unchanged};
use crate::checkpoint::{File, Progress, load_checkpoint, load_weights};
use crate::choice::Plan;
use crate::data::{Frame, Panel, Segment, Summary};
use crate::error::ForecastError;
use crate::run::{
    AutoReason, CheckpointEvery, Device, FitOptions, KEPT_DATA, OnDevice, OneOrMore, Resolved, Run, RunError,
    RunFolder, RunLock, Settings, SettingsError, TestScoring, Text, Units, complete,
};
use crate::train::{Dataset, Schedule, Session};
use landfall::World;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A run to be made.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// Its settings, as in a configuration file.
    pub settings: Settings,
    /// Its directory, a new one; `None` for the first free `runs/<model>-<number>`.
    pub out: Option<PathBuf>,
    /// Whether it takes the kernels that tuning found.
    pub tuned: bool,
    /// The data frame that it is trained on, in place of files. The directory keeps it, so that nothing outside of it is needed.
    pub frame: Option<KeptFrame>,
    /// The ranks that train it together; by default this process alone.
    pub world: World,
}

/// A data frame that a run is trained on and keeps.
#[derive(Debug, Clone, Default)]
pub struct KeptFrame {
    /// Its columns.
    pub columns: Frame,
    /// What messages call it.
    pub source: String,
    /// What else is to be known of it, for whoever reads it again: kept as it is.
    pub description: String,
}

/// Where a run is written.
pub(super) enum Place {
    New { out: Option<PathBuf>, frame: Option<KeptFrame> },
    Resumed(RunLock),
}

/// A run that can begin: its data is read and its session made, and nothing is written yet.
pub struct Ready {
    /// Its settings.
    pub resolved: Resolved,
    /// Its session.
    pub session: Session,
    /// What its errors are compared with.
    pub comparison: Comparison,
    /// How a forecaster will be chosen, and on which data.
    pub(crate) choice: Option<(Plan, Dataset)>,
    /// Why `auto` chose the device that it did.
    pub chosen: Option<AutoReason>,
    /// What was read of a series.
    pub summary: Option<Summary>,
    /// What else a person has to know.
    pub notes: Vec<Text>,
    /// Steps that are done.
    pub from: Progress,
    pub(super) place: Place,
}

impl Ready {
    /// A new run.
    ///
    /// # Errors
    /// Settings that do not fit together, a directory that holds a run already, data that cannot be read or is too short, a
    /// device that is not there.
    pub fn new(run: NewRun) -> Result<Self, ForecastError> {
        Self::made(run, None)
    }

    /// A new run on series that are read already, in place of the data of its settings.
    ///
    /// # Errors
    /// As [`Ready::new`].
    pub fn on(run: NewRun, panel: Panel) -> Result<Self, ForecastError> {
        Self::made(run, Some(panel))
    }

    fn made(run: NewRun, panel: Option<Panel>) -> Result<Self, ForecastError> {
        let begun = Instant::now();
        let NewRun { mut settings, out, tuned, frame, world } = run;
        if let Some(limit) = settings.time_limit.filter(|_| !world.is_single()) {
            return Err(RunError::from(SettingsError::Conflict {
                first: Text::given("time_limit", limit),
                second: "several ranks".into(),
                why: "each measures for itself what it has time for; leave it out".into(),
            })
            .into());
        }
        if frame.is_some() {
            settings.data = Some(OneOrMore(vec![PathBuf::from(KEPT_DATA)]));
        }
        let (settings, init, of_weights) = start_of(settings)?;
        let end = settings.time_limit.and_then(|limit| begun.checked_add(limit.duration()));
        let resolved = settings.resolve()?.until(end);
        if let Some(path) = out.as_ref().filter(|p| p.exists() && !RunFolder::is_unbegun(p)) {
            return Err(RunError::Exists { path: path.clone() }.into());
        }
        let panel = match &frame {
            Some(KeptFrame { columns, source, .. }) => Some(resolved.load_frame(columns, source)?),
            None => panel,
        };
        let mut ready =
            Self::prepare(resolved, panel, tuned, Place::New { out, frame }, &world, |session| {
                if let Some(init) = &init {
                    load_weights(&init.source, &init.file, session)?;
                }
                Ok(Progress::default())
            })?;
        ready.notes.extend(of_weights);
        Ok(ready)
    }

    /// An earlier run, with the settings that these change, trained by the ranks of a world; and what a person has to know of its
    /// going on.
    ///
    /// # Errors
    /// [`ForecastError::Complete`], [`ForecastError::FewerSteps`]; what is no run, or has no checkpoint; other data than it was trained on; as [`Ready::new`].
    pub fn resumed(
        changes: &Settings,
        path: &Path,
        world: &World,
    ) -> Result<(Self, Vec<String>), ForecastError> {
        let stored = Run::open(path)?;
        let lock = RunLock::take(path)?;
        let before = stored.resolved().settings.clone();
        let resolved = changes.over(&before)?.resolve()?;
        let end = resolved.settings.time_limit.and_then(|limit| Instant::now().checked_add(limit.duration()));
        let resolved = resolved.until(end);
        let checkpoint = path.join("checkpoint.safetensors");
        if !checkpoint.exists() && RunFolder::last_evaluation(path)?.is_some() {
            // Linear networks are fit without steps, and imported weights take none: such a run has no checkpoint.
            return Err(ForecastError::NoSteps(path.to_owned()));
        }
        if !checkpoint.exists() {
            return Err(RunError::NoCheckpoint { path: path.to_owned() }.into());
        }
        resolved.settings.check_known_network()?;
        let file = File::read(&checkpoint)?;
        let ready = Self::prepare(resolved, None, false, Place::Resumed(lock), world, |session| {
            load_checkpoint(&checkpoint, &file, session).map_err(ForecastError::from)
        })?;
        match &ready.comparison {
            Comparison::Series(now) => unchanged(path, &stored, now, &ready.resolved.settings)?,
            Comparison::Classes(_) => samples_unchanged(path, &before, &ready.resolved.settings)?,
            Comparison::Labels(_) => {}
        }
        let (run, done, total) = (path.to_owned(), ready.from.step, ready.steps());
        if total < done {
            return Err(ForecastError::FewerSteps { run, done, total });
        }
        // A run that was stopped while it chose has done its steps.
        let chooses = ready.choice.is_some() && before.forecaster.is_none();
        if !chooses && complete(&ready.session, path, &ready.from, &ready.options(String::new()))? {
            return Err(ForecastError::Complete { run, done, total });
        }
        let notes = ready.changed(&before);
        Ok((ready, notes))
    }

    /// What a run that goes on does unlike before, a sentence each.
    fn changed(&self, before: &Settings) -> Vec<String> {
        let (s, mut notes) = (&self.resolved.settings, Vec::new());
        if let (Some(was), Some(now)) = (before.computed_on, s.computed_on)
            && was != now
        {
            notes.push(format!(
                "the run computed on {was} and goes on on {now}: its results differ by rounding from those of one device"
            ));
        }
        let longer = (s.epochs, s.max_steps) != (before.epochs, before.max_steps);
        if longer && matches!(s.schedule, Some(Schedule::Cosine | Schedule::OneCycle)) {
            let note =
                "this schedule spans the whole run, so the rates from here on are those of the new length";
            notes.push(note.to_owned());
        }
        notes
    }

    /// Everything that can be refused happens here, before a file is written.
    fn prepare(
        mut resolved: Resolved,
        panel: Option<Panel>,
        tuned: bool,
        place: Place,
        world: &World,
        start: impl FnOnce(&mut Session) -> Result<Progress, ForecastError>,
    ) -> Result<Self, ForecastError> {
        let Loaded { placed, dataset, comparison, plan, summary, mut notes } =
            load(&mut resolved, panel, world)?;
        let OnDevice { made: mut session, device, reason: chosen } = placed;
        if let (Comparison::Series(panel), Some(levels)) = (&comparison, &resolved.settings.interval) {
            // The ensemble has intervals of its own; whether it forecasts the choice tells.
            if !resolved.has_ensemble() {
                notes.extend(enough_for(levels, panel, plan.as_ref())?.map(Text::from));
            }
        }
        if let (Some(plan), Place::New { .. }) = (&plan, &place) {
            let known = resolved.notes.len();
            session = resolved.shortened(session, &dataset, plan)?;
            notes.extend(resolved.notes.iter().skip(known).cloned());
        }
        if tuned {
            let engine = session.engine.clone();
            let found = session.tune(false)?;
            notes.extend(found.notices.iter().map(|notice| Text::from(notice.to_string())));
            resolved.settings.kernels = Some(found.choices);
            session = resolved.session(&engine, &dataset)?;
        }
        if let Some(why) = resolved.unpinned(&session.engine)? {
            let own = format!("the run's tuned kernels do not hold here ({why}): the ops' own are taken");
            notes.push(own.into());
        }
        resolved.settings.computed_on = Some(device);
        let from = start(&mut session)?;
        same_step(world, &from)?;
        let choice = plan.map(|plan| (plan, dataset));
        Ok(Self { resolved, session, comparison, choice, summary, chosen, notes, from, place })
    }

    /// What a person has to know of how the data was read, and of the run.
    #[must_use]
    pub fn notes(&self) -> Vec<Text> {
        let of_data = self.summary.as_ref().map_or(&[][..], |summary| &summary.notes);
        of_data.iter().cloned().map(Text::from).chain(self.notes.iter().cloned()).collect()
    }

    /// Where it computes.
    #[must_use]
    pub fn device(&self) -> Device {
        self.resolved.settings.computed_on.unwrap_or(Device::Auto)
    }

    /// Updates done before it goes on.
    #[must_use]
    pub fn done(&self) -> usize {
        self.from.step
    }

    /// Updates of the whole run.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.resolved.steps(&self.session)
    }

    /// Whether it only counts: a device that computes nothing leaves no run.
    #[must_use]
    pub fn only_counts(&self) -> bool {
        self.resolved.settings.device == Some(Device::Null)
    }

    /// The memory plan of each program.
    pub(super) fn plans(&self) -> String {
        let plan = |p: &landfall::Program| json!({"program": p.name(), "plan": p.report()});
        json!(self.session.programs().map(plan)).to_string()
    }

    /// How long the run goes on and what it reports.
    pub(super) fn options(&self, configuration: String) -> FitOptions {
        let Self { resolved, comparison, choice, .. } = self;
        let test = match comparison {
            Comparison::Series(panel) => Some(TestScoring {
                panel: Arc::clone(panel),
                period: resolved.period,
                segment: Segment::Test,
            }),
            Comparison::Labels(_) | Comparison::Classes(_) => None,
        };
        let units = match comparison {
            Comparison::Series(panel) => Units::of(panel),
            Comparison::Labels(_) => Units::labels(),
            Comparison::Classes(_) => resolved.settings.names.as_ref().map(Units::tokens).unwrap_or_default(),
        };
        // A run is resumed from the first rank's checkpoint alone.
        let checkpoint = match self.session.engine.world().rank() {
            0 => resolved.checkpoint,
            _ => CheckpointEvery { steps: usize::MAX, minutes: f64::INFINITY },
        };
        FitOptions {
            epochs: resolved.training.epochs,
            max_steps: resolved.training.max_steps,
            validate_every: choice.as_ref().and_then(|(plan, _)| resolved.validate_every(plan)),
            patience: resolved.patience,
            weights_given: resolved.settings.init.is_some(),
            checkpoint,
            log_every: resolved.log_every,
            units,
            test,
            intervals: resolved.settings.interval.clone().filter(|_| choice.is_none()).unwrap_or_default(),
            configuration,
        }
    }
}

/// Checks that all ranks go on from the same step.
fn same_step(world: &World, from: &Progress) -> Result<(), ForecastError> {
    if world.is_single() {
        return Ok(());
    }
    let agreed = world.agree("checkpoints", &format!("step = {}\n", from.step));
    agreed.map_err(|fault| RunError::from(landfall::Error::from(fault)).into())
}
