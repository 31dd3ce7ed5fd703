//! A run with a directory: its steps, the choice of a forecaster, its end.

use super::choice::{Chosen, chosen};
use super::comparison::Comparison;
use super::ready::{KeptFrame, Place, Ready};
use crate::choice::Plan;
use crate::error::ForecastError;
use crate::run::{
    EvaluationRecord, KEPT_DATA, Observer, OneOrMore, Outcome, Resolved, RunError, RunFolder, fit,
};
use crate::train::{Dataset, Session};
use std::path::{Path, PathBuf};

/// A run with a directory, before its first step or the next one.
pub struct Begun {
    pub(super) ready: Ready,
    pub(super) folder: RunFolder,
    pub(super) configuration: String,
}

/// How a part of a run ended.
pub enum Ended<T> {
    /// It is done.
    Done(T),
    /// The observer stopped it after so many updates, with a checkpoint.
    Interrupted {
        /// Updates done.
        step: usize,
    },
}

/// A run that has taken its steps.
pub struct Trained {
    resolved: Resolved,
    session: Session,
    comparison: Comparison,
    choice: Option<(Plan, Dataset)>,
    folder: RunFolder,
    records: Vec<EvaluationRecord>,
    steps: usize,
}

/// A run that is done.
pub struct Finished {
    /// Its settings.
    pub resolved: Resolved,
    /// Its session, with the best weights.
    pub session: Session,
    /// What its errors are compared with.
    pub comparison: Comparison,
    /// What it forecasts with, by the default recipe.
    pub chosen: Option<Chosen>,
    pub(crate) records: Vec<EvaluationRecord>,
    pub(crate) steps: usize,
}

impl Ready {
    /// Makes the run's directory, or opens the one of a run that goes on.
    ///
    /// # Errors
    /// A directory that cannot be made or written, or that another process has just begun a run in.
    pub fn begin(mut self) -> Result<Begun, ForecastError> {
        let (folder, configuration) =
            match std::mem::replace(&mut self.place, Place::New { out: None, frame: None }) {
                Place::New { out: Some(path), frame } => self.create(&path, frame.as_ref())?,
                Place::New { out: None, frame } => self.numbered(frame.as_ref())?,
                Place::Resumed(lock) => {
                    let folder = RunFolder::resume(lock, self.from.step)?;
                    let configuration = self.resolved.settings.to_toml_in(folder.path())?;
                    folder.write("config.toml", &configuration)?;
                    (folder, configuration)
                }
            };
        Ok(Begun { ready: self, folder, configuration })
    }

    /// A new directory, with the data where it is kept.
    fn create(
        &mut self,
        path: &Path,
        frame: Option<&KeptFrame>,
    ) -> Result<(RunFolder, String), ForecastError> {
        if frame.is_some() {
            self.resolved.settings.data = Some(OneOrMore(vec![path.join(KEPT_DATA)]));
        }
        let configuration = self.resolved.settings.to_toml_in(path)?;
        let folder = RunFolder::create(path, &configuration)?;
        if let Some(frame) = frame {
            folder.keep(&frame.columns, &frame.description)?;
        }
        Ok((folder, configuration))
    }

    /// The first free `runs/<model>-<number>`.
    fn numbered(&mut self, frame: Option<&KeptFrame>) -> Result<(RunFolder, String), ForecastError> {
        let name = self.resolved.settings.preset.clone().unwrap_or_else(|| "run".to_owned());
        for number in 1usize.. {
            match self.create(&PathBuf::from("runs").join(format!("{name}-{number}")), frame) {
                Err(ForecastError::Run(RunError::Exists { .. })) => {}
                other => return other,
            }
        }
        unreachable!("a folder holds fewer entries than there are numbers")
    }
}

impl Begun {
    /// The run's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What is to be done.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Takes the steps, or those that remain.
    ///
    /// # Errors
    /// A step that is not finite, a file that cannot be written, a device fault.
    pub fn fit(self, observer: &mut dyn Observer) -> Result<Ended<Trained>, ForecastError> {
        let Self { ready, mut folder, configuration } = self;
        folder.write("plan.json", &ready.plans()).map_err(ForecastError::During)?;
        let options = ready.options(configuration);
        let Ready { resolved, mut session, comparison, choice, from, .. } = ready;
        let outcome = if resolved.trains() {
            fit(&mut session, &mut folder, from, &options, observer).map_err(ForecastError::During)?
        } else {
            Outcome::Finished { records: Vec::new(), steps: 0 }
        };
        Ok(match outcome {
            Outcome::Interrupted { step } => Ended::Interrupted { step },
            Outcome::Finished { records, steps } => {
                Ended::Done(Trained { resolved, session, comparison, choice, folder, records, steps })
            }
        })
    }
}

impl Trained {
    /// Updates done.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Where the run ended before its last step: the number of validations without improvement that it allows.
    #[must_use]
    pub fn patience(&self) -> Option<usize> {
        let early = self.resolved.trains() && self.steps < self.resolved.steps(&self.session);
        self.resolved.patience.filter(|_| early)
    }

    /// Chooses what the run forecasts with and scores it, by the default recipe; other runs are done. `stop` is asked
    /// between steps.
    ///
    /// # Errors
    /// As [`Begun::fit`].
    pub fn choose(self, stop: &dyn Fn() -> bool) -> Result<Ended<Finished>, ForecastError> {
        let Self { mut resolved, mut session, comparison, choice, mut folder, mut records, steps } = self;
        let mut made = None;
        if let (Some(choice), Comparison::Series(panel)) = (&choice, &comparison) {
            made = chosen(&mut resolved, &mut session, panel, choice, &mut folder, stop)?;
            let Some(chosen) = &made else { return Ok(Ended::Interrupted { step: steps }) };
            records = chosen.tested.iter().map(|tested| tested.forecast.clone()).collect();
        }
        Ok(Ended::Done(Finished { resolved, session, comparison, chosen: made, records, steps }))
    }
}

impl Finished {
    /// The evaluations of what the run forecasts with; the last one is that of the test windows.
    #[must_use]
    pub fn records(&self) -> &[EvaluationRecord] {
        &self.records
    }

    /// Updates done.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }
}
