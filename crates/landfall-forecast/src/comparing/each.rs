//! The runs of a comparison, one after the other.

use super::attempts::{done, tried, write};
use super::contenders::Contender;
use super::leaderboard::Leaderboard;
use super::plan::Plan;
use crate::error::ForecastError;
use crate::run::{Compared, Observer, RunFolder, Settings};
use crate::training::{Ended, KeptFrame, NewRun, Ready};
use landfall::World;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a candidate's run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum How {
    /// It is done, with this error before the test rows.
    Done {
        /// What it forecasts with.
        compared: Compared,
        /// Seconds of all its attempts.
        seconds: f64,
        /// Whether it was done before.
        before: bool,
    },
    /// It failed, for this reason.
    Failed(String),
}

/// Watches a comparison.
pub trait Watcher {
    /// A candidate begins, this one of so many.
    fn begins(&mut self, candidate: &str, number: usize, count: usize);
    /// Its run begins in this directory, or goes on; what has to be known of that.
    fn ready(&mut self, run: &Path, ready: &Ready, notes: Vec<String>);
    /// Observes its steps.
    fn observer(&mut self) -> &mut dyn Observer;
    /// A candidate ended.
    fn ended(&mut self, candidate: &str, how: &How);
    /// Whether the comparison shall stop.
    fn stops(&self) -> bool;
}

/// Trains the candidates of a plan that are not trained yet, each in its own directory in `folder`; the leaderboard, which is written
/// there too, or none when it was stopped. What is done stays. A candidate that fails is told, and the others go on; one that failed
/// before is tried again. Where the data is a frame, `frame` gives it for each run, which keeps it.
///
/// # Errors
/// A plan of unknown candidates; files of the folder that cannot be read or written.
pub fn compare(
    plan: &Plan,
    folder: &Path,
    frame: Option<&dyn Fn(Contender) -> KeptFrame>,
    watcher: &mut dyn Watcher,
) -> Result<Option<Leaderboard>, ForecastError> {
    let contenders = plan.contenders()?;
    for (i, contender) in contenders.iter().enumerate() {
        if watcher.stops() {
            return Ok(None);
        }
        let (name, run) = (contender.name(), folder.join(contender.name()));
        watcher.begins(name, i + 1, contenders.len());
        let mut all = tried(folder)?;
        let own = all.entry(name.to_owned()).or_default();
        let how = match done(&run)? {
            Some(compared) => How::Done { compared, seconds: own.seconds, before: true },
            None => {
                let begin = Instant::now();
                let ended = train(plan, *contender, &run, frame, watcher);
                own.seconds += begin.elapsed().as_secs_f64();
                own.failed = ended.as_ref().err().map(ToString::to_string);
                let seconds = own.seconds;
                write(folder, &all)?;
                match ended {
                    Ok(false) => return Ok(None),
                    Err(why) => How::Failed(why.to_string()),
                    Ok(true) => match done(&run)? {
                        Some(compared) => How::Done { compared, seconds, before: false },
                        None => How::Failed("the run has no errors to compare".to_owned()),
                    },
                }
            }
        };
        watcher.ended(name, &how);
    }
    let leaderboard = Leaderboard::of(plan, folder)?;
    leaderboard.write(folder)?;
    Ok(Some(leaderboard))
}

/// Trains the run of a candidate, or what remains of it; false when it was stopped.
fn train(
    plan: &Plan,
    contender: Contender,
    run: &Path,
    frame: Option<&dyn Fn(Contender) -> KeptFrame>,
    watcher: &mut dyn Watcher,
) -> Result<bool, ForecastError> {
    let (ready, notes) = if run.exists() && !RunFolder::is_unbegun(run) {
        Ready::resumed(&Settings::default(), run, &World::single())?
    } else {
        let (settings, out): (_, PathBuf) = (plan.settings(contender), run.to_owned());
        let new =
            NewRun { settings, out: Some(out), frame: frame.map(|of| of(contender)), ..NewRun::default() };
        (Ready::new(new)?, Vec::new())
    };
    let begun = ready.begin()?;
    watcher.ready(run, begun.ready(), notes);
    let trained = match begun.fit(watcher.observer())? {
        Ended::Done(trained) => trained,
        Ended::Interrupted { .. } => return Ok(false),
    };
    match trained.choose(&|| watcher.stops())? {
        Ended::Done(_) => Ok(true),
        Ended::Interrupted { .. } => Ok(false),
    }
}
