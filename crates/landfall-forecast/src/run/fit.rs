//! The loop: steps, logs, validation, best weights, checkpoints.

use super::resolve::CheckpointEvery;
use super::{EvaluationRecord, RunError, RunFolder, StepLine, TestScoring, Units};
use crate::checkpoint::{self, File, Progress};
use crate::data::Segment;
use crate::train::{Session, StepRecord};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a run goes on and what it reports.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Passes over the training windows.
    pub epochs: usize,
    /// Updates in all, instead of epochs. Without [`FitOptions::validate_every`] the run is validated once, at its end,
    /// and its last weights are tested.
    pub max_steps: Option<usize>,
    /// Updates from one validation to the next; `None` validates at the end of each epoch. With it the end of the run is
    /// validated too, and the best weights are tested, under epochs and `max_steps` alike.
    pub validate_every: Option<usize>,
    /// Validations without a better one after which training ends, if it does.
    pub patience: Option<usize>,
    /// Whether the first weights are not drawn but given: they are validated before the first step, and kept where no others are better.
    pub weights_given: bool,
    /// How often the last state is written.
    pub checkpoint: CheckpointEvery,
    /// Steps between shown ones; the run directory has them all.
    pub log_every: usize,
    /// Names and scales of the predicted columns.
    pub units: Units,
    /// What the test windows are scored on besides; `None` for what forecasts no rows of series.
    pub test: Option<TestScoring>,
    /// Levels of the intervals in percent whose scores the test windows have too; none where a forecaster is chosen after the
    /// last step, whose intervals they are.
    pub intervals: Vec<f64>,
    /// The run's configuration, kept in its checkpoints.
    pub configuration: String,
}

/// Who watches a run.
pub trait Observer: Send {
    /// A logged step.
    fn step(&mut self, line: &StepLine);
    /// Every step, logged or not: `done` of `total` updates.
    fn progress(&mut self, done: usize, total: usize);
    /// An evaluation; `best` says that its weights are the best so far.
    fn evaluation(&mut self, record: &EvaluationRecord, best: bool);
    /// Whether the run shall stop after this step.
    fn stop(&self) -> bool;
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All steps done, or those that the patience allowed; the evaluations of the weights that were kept: validation and test, or, where no windows are
    /// held out, training.
    Finished {
        /// The evaluations.
        records: Vec<EvaluationRecord>,
        /// Updates done.
        steps: usize,
    },
    /// Stopped by its observer after this many updates, with a checkpoint.
    Interrupted {
        /// Updates done.
        step: usize,
    },
}

/// Runs the steps and reads nothing back: on a device that computes nothing this checks and counts a run.
///
/// # Errors
/// A device fault.
pub fn count(session: &mut Session, steps: usize) -> Result<landfall::Counters, RunError> {
    let engine = session.engine.clone();
    engine.enter(|| (0..steps).try_for_each(|_| session.step()))?;
    Ok(engine.counters())
}

impl FitOptions {
    /// Whether the weights of the best validation are those that are kept and tested; else it is the last ones.
    fn keeps_best(&self, session: &Session) -> bool {
        let often = self.max_steps.is_none() || self.validate_every.is_some();
        often && session.holds_out() && session.windows(Segment::Validation) > 0
    }

    /// Updates of the whole run.
    fn total(&self, session: &Session) -> usize {
        self.max_steps.unwrap_or(self.epochs.saturating_mul(session.steps_per_epoch()))
    }
}

/// Whether nothing is left to do of a run that has come so far: no step, and no evaluation of the weights that it keeps.
///
/// # Errors
/// [`RunError::NotARun`] when its metrics cannot be read.
pub fn complete(
    session: &Session,
    path: &Path,
    at: &Progress,
    options: &FitOptions,
) -> Result<bool, RunError> {
    let step = if options.keeps_best(session) { at.kept() } else { at.step };
    let last = if session.holds_out() { Segment::Test } else { Segment::Train };
    Ok(at.step >= options.total(session) && super::folder::evaluated(path, last, step)?)
}

/// Trains until the last step or until the observer stops the run.
///
/// Validation runs at the end of each epoch, or as often as the options say; the best weights are kept (of equal ones the
/// newer) and tested at the end. Where no windows are held out there is nothing to choose by: the last weights are kept,
/// and their error on the training windows is recorded as such.
///
/// A new run writes a checkpoint before its first step, so that there is one to go on from whenever it is killed.
///
/// # Errors
/// [`RunError::NonFinite`] when a step gives a loss or gradient that is not finite (the state stays as before it); a
/// checkpoint or metrics line that cannot be written; a device fault.
pub fn fit(
    session: &mut Session,
    folder: &mut RunFolder,
    from: Progress,
    options: &FitOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let engine = session.engine.clone();
    let (progress, logged, saved) = (from, from.step, (from.step, Instant::now()));
    let mut fit = Fit { session, folder, options, observer, progress, logged, saved, kept: None };
    // Inside, every launch finds the engine's threads at hand.
    engine.enter(move || {
        let outcome = fit.run();
        if outcome.is_err() {
            // The weights that are lost otherwise; the run has failed already, and that is what it reports.
            let _ = fit.write_kept();
        }
        outcome
    })
}

struct Fit<'a> {
    session: &'a mut Session,
    folder: &'a mut RunFolder,
    options: &'a FitOptions,
    observer: &'a mut dyn Observer,
    progress: Progress,
    /// The last step that has been read back.
    logged: usize,
    /// The step of the last checkpoint, and when it was written or the run began.
    saved: (usize, Instant),
    /// The best weights, while the folder does not have them. They are written with the next checkpoint, which names them: where
    /// epochs take less time than a file, each would wait for one.
    kept: Option<File>,
}

impl Fit<'_> {
    fn run(&mut self) -> Result<Outcome, RunError> {
        let per_epoch = self.session.steps_per_epoch();
        let total = self.options.total(self.session);
        let every = self.options.log_every.clamp(1, crate::train::RING);
        if self.progress.step == 0 {
            let validates = self.options.weights_given && self.options.keeps_best(self.session);
            if validates && self.progress.best.is_none() {
                self.validate()?;
            }
            self.checkpoint()?;
        }
        while self.progress.step < total && !self.exhausted() {
            if self.stops(every, per_epoch)? {
                self.report(true)?;
                self.checkpoint()?;
                return Ok(Outcome::Interrupted { step: self.progress.step });
            }
            self.session.step()?;
            self.progress.step += 1;
            let step = self.progress.step;
            self.observer.progress(step, total);
            let validates =
                self.options.keeps_best(self.session) && self.validates_after(step, per_epoch, total);
            // A checkpoint waits for the device anyway, so it may as well read the losses back.
            let epoch_ends = step.is_multiple_of(per_epoch);
            let due = self.checkpoint_is_due(step.is_multiple_of(every) || epoch_ends)?;
            if step.is_multiple_of(every) || epoch_ends || validates || due || step == total {
                self.report(step == total)?;
                if self.progress.step < step {
                    // Steps that overflowed: as many are missing, and come before the epoch or the run can end.
                    continue;
                }
            }
            if validates {
                self.validate()?;
            }
            if due {
                self.checkpoint()?;
            }
        }
        self.finish()
    }

    /// Whether the run shall stop before the next step. Ranks stop together: they ask each other where they read back their steps
    /// anyway, so that none waits for another at every step.
    fn stops(&self, every: usize, per_epoch: usize) -> Result<bool, RunError> {
        let (world, step) = (self.session.engine.world(), self.progress.step);
        if world.is_single() {
            return Ok(self.observer.stop());
        }
        let meets = step.is_multiple_of(every) || step.is_multiple_of(per_epoch);
        Ok(meets && world.any("whether to stop", self.observer.stop()).map_err(landfall::Error::from)?)
    }

    /// Whether the weights after this step are to be validated.
    fn validates_after(&self, step: usize, per_epoch: usize, total: usize) -> bool {
        match (self.options.validate_every, self.options.max_steps) {
            (Some(every), _) => step.is_multiple_of(every.max(1)) || step == total,
            (None, Some(_)) => false,
            (None, None) => step.is_multiple_of(per_epoch),
        }
    }

    /// Whether there were as many validations since the best one as the patience allows.
    fn exhausted(&self) -> bool {
        let Progress { best, since_best, .. } = self.progress;
        best.is_some() && self.options.patience.is_some_and(|patience| since_best >= patience)
    }

    /// Whether a checkpoint is to be written after this step. Ranks that share out the optimizer's state write it together, and their
    /// clocks differ: they ask each other where they read back their steps (`meets`).
    fn checkpoint_is_due(&self, meets: bool) -> Result<bool, RunError> {
        let CheckpointEvery { steps, minutes } = self.options.checkpoint;
        let (step, at) = self.saved;
        let late = at.elapsed() >= Duration::try_from_secs_f64(60.0 * minutes).unwrap_or(Duration::MAX);
        if self.progress.step - step.min(self.progress.step) >= steps.max(1) {
            return Ok(true);
        }
        if !self.session.shares_state() {
            return Ok(late);
        }
        let world = self.session.engine.world();
        Ok(meets && world.any("whether to write a checkpoint", late).map_err(landfall::Error::from)?)
    }

    /// Reads back the steps since the last time, records each, shows those that are to be shown, and stops at one that did
    /// not go through.
    fn report(&mut self, last: bool) -> Result<(), RunError> {
        let (done, epoch, batch) = self.session.position()?;
        (self.progress.epoch, self.progress.batch) = (epoch, batch);
        let per_epoch = self.session.steps_per_epoch();
        let upto = self.progress.step;
        let records = self.session.records(self.logged + 1, done.min(upto))?;
        let lines: Vec<_> = records.iter().map(|record| StepLine::new(record, per_epoch)).collect();
        self.folder.log_all(&lines)?;
        let every = self.options.log_every.max(1);
        let shown = |l: &&StepLine| l.step.is_multiple_of(every) || l.step == 1 || (last && l.step == upto);
        lines.iter().filter(shown).for_each(|line| self.observer.step(line));
        self.logged = done.min(upto);
        if done >= upto {
            return Ok(());
        }
        // A step that is not finite updates nothing, the counter included: it is the one after the last done.
        self.progress.step = done;
        if self.session.loss_scale()?.is_some_and(|[scale, _]| scale >= 1.0) {
            // It overflowed in f16 and is run again, with half the loss scale each time.
            return Ok(());
        }
        let StepRecord { loss, grad_norm, .. } = self.session.failed()?;
        let cause = match self.session.explain_non_finite() {
            Err(cause) => cause,
            Ok(()) => {
                landfall::Error::NonFinite { name: "loss".to_owned(), op: "loss", element: 0, value: loss }
            }
        };
        let kept = self.folder.checkpoint();
        let checkpoint = kept.exists().then_some(kept);
        Err(RunError::NonFinite { step: done + 1, loss, grad_norm, cause, checkpoint })
    }

    fn evaluation(&mut self, segment: Segment) -> Result<EvaluationRecord, RunError> {
        let e = self.session.evaluate(segment)?;
        let mut record = EvaluationRecord::new(self.progress.step, segment, &e, &self.options.units);
        if let Some(test) = &self.options.test {
            test.add_to(&mut record, self.session, None)?;
            if segment == Segment::Test && !self.options.intervals.is_empty() {
                record.intervals = test.intervals(self.session, &self.options.intervals)?;
            }
        }
        Ok(record)
    }

    fn validate(&mut self) -> Result<(), RunError> {
        let record = self.evaluation(Segment::Validation)?;
        // Weights whose error is not finite are nothing to keep, though they be the first.
        let finite = record.error().is_finite();
        let best = finite && self.progress.best.is_none_or(|(error, _)| record.error() <= error);
        if best {
            self.progress.best = Some((record.error(), self.progress.step));
            self.progress.since_best = 0;
            self.kept = Some(self.weights(&self.progress)?);
        } else {
            self.progress.since_best += 1;
        }
        self.folder.log(&record)?;
        self.observer.evaluation(&record, best);
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), RunError> {
        self.write_kept()?;
        let path = self.folder.checkpoint();
        checkpoint::save(&path, self.session, &self.options.configuration, &self.progress, true)?;
        self.saved = (self.progress.step, Instant::now());
        Ok(())
    }

    /// The weights, as the file of those that the run keeps.
    fn weights(&self, progress: &Progress) -> Result<File, RunError> {
        Ok(checkpoint::snapshot(self.session, &self.options.configuration, progress, false)?)
    }

    /// Writes the weights that the run keeps, where the folder does not have them.
    fn write_kept(&mut self) -> Result<(), RunError> {
        match self.kept.take() {
            Some(file) => Ok(file.write(&self.folder.best())?),
            None => Ok(()),
        }
    }

    /// Evaluates the weights that are kept. All lines are written at once: of a run that is killed here, none or all are
    /// there, and it is finished when it is resumed.
    fn finish(&mut self) -> Result<Outcome, RunError> {
        let steps = self.progress.step;
        if self.options.keeps_best(self.session) && self.progress.best.is_none() {
            self.validate()?;
        }
        self.checkpoint()?;
        if self.options.keeps_best(self.session) && self.progress.best.is_none() {
            return Err(RunError::Diverged { step: steps });
        }
        let (records, new) = if self.options.keeps_best(self.session) {
            let best = self.folder.best();
            let file = File::read(&best)?;
            checkpoint::load_weights(&best, &file, self.session)?;
            self.progress.step = self.progress.kept();
            // The validation has its line already.
            (vec![self.evaluation(Segment::Validation)?, self.evaluation(Segment::Test)?], 1)
        } else {
            let segments: &[Segment] =
                match (self.session.holds_out(), self.session.windows(Segment::Validation)) {
                    (true, 0) => &[Segment::Test],
                    (true, _) => &[Segment::Validation, Segment::Test],
                    (false, _) => &[Segment::Train],
                };
            let mut records = Vec::with_capacity(segments.len());
            for segment in segments {
                records.push(self.evaluation(*segment)?);
            }
            if records.iter().any(|r| !r.error().is_finite()) {
                return Err(RunError::Diverged { step: steps });
            }
            let chosen = records.first().filter(|r| r.split != Segment::Test.to_string());
            let best = chosen.map(|r| (r.error(), steps));
            self.weights(&Progress { best, ..self.progress })?.write(&self.folder.best())?;
            (records, 0)
        };
        self.folder.log_all(&records[new..])?;
        records[new..].iter().for_each(|record| self.observer.evaluation(record, true));
        Ok(Outcome::Finished { records, steps })
    }
}
