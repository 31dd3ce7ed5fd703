//! The loop: steps, logs, validation, best weights, checkpoints.

use super::{EvaluationRecord, RunError, RunFolder, StepLine, Units};
use crate::checkpoint::{self, File, Progress};
use crate::data::Segment;
use crate::train::Session;

/// How long a run goes on and what it reports.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Passes over the training windows.
    pub epochs: usize,
    /// Updates in all instead of epochs; then one evaluation, unless [`FitOptions::validate_every`] asks for more.
    pub max_steps: Option<usize>,
    /// Steps between validations, the last one after the last step; `None` for one an epoch.
    pub validate_every: Option<usize>,
    /// Validations without a better one after which training ends, if it does.
    pub patience: Option<usize>,
    /// Steps between shown ones; the run folder has them all.
    pub log_every: usize,
    /// Names and scales of the predicted columns.
    pub units: Units,
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

/// Trains until the last step or until the observer stops the run.
///
/// Validation runs at the end of each epoch; the best weights are kept (of equal ones the newer) and tested at the end.
/// Where no windows are held out there is nothing to choose by: the last weights are kept, and their error on the
/// training windows is recorded as such.
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
    // Inside, every launch finds the engine's threads at hand.
    engine.enter(move || Fit { session, folder, options, observer, progress: from, logged: from.step }.run())
}

struct Fit<'a> {
    session: &'a mut Session,
    folder: &'a mut RunFolder,
    options: &'a FitOptions,
    observer: &'a mut dyn Observer,
    progress: Progress,
    /// The last step that has been read back.
    logged: usize,
}

impl Fit<'_> {
    fn run(mut self) -> Result<Outcome, RunError> {
        let per_epoch = self.session.steps_per_epoch();
        let total = self.options.max_steps.unwrap_or(self.options.epochs.saturating_mul(per_epoch));
        let every = self.options.log_every.clamp(1, crate::train::RING);
        let validates = self.validates();
        let validate_every = self.options.validate_every.unwrap_or(per_epoch).max(1);
        while self.progress.step < total && !self.exhausted(validate_every) {
            if self.observer.stop() {
                self.report(true)?;
                self.checkpoint()?;
                return Ok(Outcome::Interrupted { step: self.progress.step });
            }
            self.session.step()?;
            self.progress.step += 1;
            let step = self.progress.step;
            self.observer.progress(step, total);
            let epoch_ends = step.is_multiple_of(per_epoch);
            let validation = step.is_multiple_of(validate_every)
                || (step == total && self.options.validate_every.is_some());
            if step.is_multiple_of(every) || epoch_ends || validation || step == total {
                self.report(step == total)?;
                if self.progress.step < step {
                    // Steps that overflowed: as many are missing, and come before the epoch or the run can end.
                    continue;
                }
            }
            if validation && validates {
                self.validate()?;
            } else if epoch_ends && self.options.max_steps.is_none() {
                self.checkpoint()?;
            }
        }
        self.finish()
    }

    /// Whether validations choose the weights.
    fn validates(&self) -> bool {
        let often = self.options.max_steps.is_none() || self.options.validate_every.is_some();
        often && self.session.holds_out() && self.session.windows(Segment::Validation) > 0
    }

    /// Whether as many validations as the patience allows have passed since the best one. They are evenly spaced, so the
    /// steps say how many there were, in a resumed run too.
    fn exhausted(&self, validate_every: usize) -> bool {
        let (Some(patience), Some((_, best))) = (self.options.patience, self.progress.best) else {
            return false;
        };
        (self.progress.step - best.min(self.progress.step)) / validate_every >= patience
    }

    /// Reads back the steps since the last time, records each, shows those that are to be shown, and stops at one that did
    /// not go through.
    fn report(&mut self, last: bool) -> Result<(), RunError> {
        let (done, epoch, batch) = self.session.position()?;
        (self.progress.epoch, self.progress.batch) = (epoch, batch);
        let per_epoch = self.session.steps_per_epoch();
        let upto = self.progress.step;
        for record in self.session.records(self.logged + 1, done.min(upto))? {
            let line = StepLine::new(&record, per_epoch);
            self.folder.log(&line)?;
            if record.step % self.options.log_every.max(1) == 0
                || record.step == 1
                || (last && record.step == upto)
            {
                self.observer.step(&line);
            }
        }
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
        let failed = self.session.records(done + 1, done + 1)?;
        let (loss, grad_norm) = failed.first().map_or((f64::NAN, f64::NAN), |r| (r.loss, r.grad_norm));
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

    fn evaluate(&mut self, segment: Segment, best: bool) -> Result<EvaluationRecord, RunError> {
        let e = self.session.evaluate(segment)?;
        let record = EvaluationRecord::new(self.progress.step, segment, &e, &self.options.units);
        self.folder.log(&record)?;
        self.observer.evaluation(&record, best);
        Ok(record)
    }

    fn validate(&mut self) -> Result<(), RunError> {
        let e = self.session.evaluate(Segment::Validation)?;
        let record = EvaluationRecord::new(self.progress.step, Segment::Validation, &e, &self.options.units);
        let best = self.progress.best.is_none_or(|(error, _)| record.error() <= error);
        if best {
            self.progress.best = Some((record.error(), self.progress.step));
            checkpoint::save(
                &self.folder.best(),
                self.session,
                &self.options.configuration,
                &self.progress,
                false,
            )?;
        }
        self.folder.log(&record)?;
        self.observer.evaluation(&record, best);
        self.checkpoint()
    }

    fn checkpoint(&self) -> Result<(), RunError> {
        let path = self.folder.checkpoint();
        Ok(checkpoint::save(&path, self.session, &self.options.configuration, &self.progress, true)?)
    }

    fn finish(mut self) -> Result<Outcome, RunError> {
        let steps = self.progress.step;
        if !self.session.holds_out() {
            self.checkpoint()?;
            let training = self.evaluate(Segment::Train, true)?;
            let best = Progress { best: Some((training.error(), self.progress.step)), ..self.progress };
            checkpoint::save(&self.folder.best(), self.session, &self.options.configuration, &best, false)?;
            return Ok(Outcome::Finished { records: vec![training], steps });
        }
        if !self.validates() {
            // No validation chose weights: the last ones are kept.
            self.checkpoint()?;
            let mut records = Vec::new();
            if self.session.windows(Segment::Validation) > 0 {
                records.push(self.evaluate(Segment::Validation, true)?);
            }
            let error = records.first().map(|r| (r.error(), self.progress.step));
            let best = Progress { best: error, ..self.progress };
            checkpoint::save(&self.folder.best(), self.session, &self.options.configuration, &best, false)?;
            records.push(self.evaluate(Segment::Test, true)?);
            return Ok(Outcome::Finished { records, steps });
        }
        let best = self.folder.best();
        if best.exists() {
            let file = File::read(&best)?;
            checkpoint::load_weights(&best, &file, self.session)?;
            self.progress.step = self.progress.best.map_or(self.progress.step, |(_, step)| step);
        }
        let validation = self.session.evaluate(Segment::Validation)?;
        let validation =
            EvaluationRecord::new(self.progress.step, Segment::Validation, &validation, &self.options.units);
        Ok(Outcome::Finished { records: vec![validation, self.evaluate(Segment::Test, true)?], steps })
    }
}
