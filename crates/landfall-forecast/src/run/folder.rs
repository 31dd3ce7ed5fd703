//! The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `best.safetensors`, `plan.json`, and
//! event files for TensorBoard.

use super::RunError;
use super::ensembles::ENSEMBLE;
use super::events::{self, Events};
use super::past_windows::ERRORS;
use super::record::{EvaluationRecord, Scalars};
use crate::data::Segment;
use crate::files::{append, is_draft, read_text, remove_drafts, replace};
use crate::models::ModelKind;
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const PLAN: &str = "plan.json";
const LOCK: &str = "lock";
const CHOICE: &str = "choice.json";

/// The file of a run's directory with the errors that it is compared by.
pub(super) const COMPARED: &str = "compared.json";

/// The file of a run's directory with the data that it was trained on, in a run that keeps it.
pub const KEPT_DATA: &str = "data.arrow";

/// The name that runs of version 0.1.0 kept their data by, as text.
const KEPT_TEXT: &str = "data.csv";

/// The file with what is to be known of the data frame that this was.
pub const KEPT_FRAME: &str = "frame.json";

/// The right to write a run directory. One process has it at a time; the system takes it back when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    /// Locked while it is open.
    _file: File,
}

impl RunLock {
    /// Locks an existing run directory.
    ///
    /// # Errors
    /// [`RunError::InUse`] while another process writes the run; [`RunError::Write`].
    pub fn take(path: &Path) -> Result<Self, RunError> {
        let failed = |why| RunError::Write { path: path.join(LOCK), why };
        let file = append(&path.join(LOCK)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                // A process that was killed may have left some, and no other one writes here.
                remove_drafts(path).map_err(failed)?;
                Ok(Self { path: path.to_owned(), _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(RunError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(why)) => Err(failed(why)),
        }
    }
}

/// What every line of the metrics has, and the segment of an evaluation.
#[derive(Deserialize)]
struct Line {
    step: usize,
    split: Option<String>,
}

/// The text of a run's metrics, empty where there is none yet.
fn metrics(path: &Path) -> Result<String, RunError> {
    match read_text(&path.join(METRICS)) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(RunError::NotARun { path: path.to_owned(), why: format!("{METRICS}: {e}") }),
    }
}

/// Whether the metrics of a run have an evaluation of a segment after this step.
pub(super) fn evaluated(path: &Path, segment: Segment, step: usize) -> Result<bool, RunError> {
    let (text, name) = (metrics(path)?, segment.to_string());
    let mut lines = text.lines().filter_map(|l| serde_json::from_str::<Line>(l).ok());
    Ok(lines.any(|l| l.step == step && l.split.as_deref() == Some(name.as_str())))
}

/// A run's folder, with its metrics open for appending.
#[derive(Debug)]
pub struct RunFolder {
    lock: RunLock,
    metrics: File,
    events: Events,
    /// Tags and steps of the evaluations that the event files have.
    drawn: HashSet<(String, usize)>,
}

impl RunFolder {
    /// Makes a new folder; or takes one in which nothing has been trained yet ([`RunFolder::is_unbegun`]), over its files.
    ///
    /// # Errors
    /// [`RunError::Exists`]; [`RunError::InUse`]; [`RunError::Write`] when it cannot be made, and then nothing is left
    /// behind.
    pub fn create(path: &Path, configuration: &str) -> Result<Self, RunError> {
        let failed = |why| RunError::Write { path: path.to_owned(), why };
        // What this call makes, it also takes back: the folders above the run's that were not there.
        let made = path.ancestors().filter(|a| !a.as_os_str().is_empty()).take_while(|a| !a.exists()).last();
        if let Some(above) = path.ancestors().find(|a| a.exists() && !a.is_dir()) {
            let why = std::io::Error::other(format!("{} is a file, not a folder", above.display()));
            return Err(failed(why));
        }
        let make = || -> Result<(RunLock, File, Events), std::io::Error> {
            if let Some(parent) = path.parent().filter(|p| !p.is_dir()) {
                std::fs::create_dir_all(parent)?;
            }
            match std::fs::create_dir(path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists && Self::is_unbegun(path) => {}
                done => done?,
            }
            let lock = match RunLock::take(path) {
                Ok(lock) => lock,
                Err(RunError::Write { why, .. }) => return Err(why),
                Err(_) => return Err(ErrorKind::ResourceBusy.into()),
            };
            // Another process may have begun a run here before the lock was taken.
            if !Self::is_unbegun(path) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            replace(&path.join(CONFIG), configuration.as_bytes())?;
            let metrics = append(&path.join(METRICS))?;
            metrics.set_len(0)?;
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(events::PREFIX) {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok((lock, metrics, Events::create(path, None)?))
        };
        match make() {
            Ok((lock, metrics, events)) => Ok(Self { lock, metrics, events, drawn: HashSet::new() }),
            Err(e) if e.kind() == ErrorKind::ResourceBusy => Err(RunError::InUse { path: path.to_owned() }),
            Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
                Err(RunError::Exists { path: path.to_owned() })
            }
            Err(why) => {
                if let Some(made) = made {
                    // Made a moment ago; holds nothing that anybody could miss.
                    let _ = std::fs::remove_dir_all(made);
                }
                Err(failed(why))
            }
        }
    }

    /// Whether a directory holds nothing but what a run writes before its first checkpoint, or, of a run that trains by no
    /// steps, before its test errors. A run that was killed there has lost nothing by starting over.
    #[must_use]
    pub fn is_unbegun(path: &Path) -> bool {
        let before = |name: &str| {
            is_draft(name)
                || name.starts_with(events::PREFIX)
                || [CONFIG, METRICS, PLAN, LOCK, CHOICE, ERRORS, ENSEMBLE, COMPARED].contains(&name)
                || [ModelKind::Nlinear, ModelKind::Dlinear].iter().any(|kind| weights_name(*kind) == name)
        };
        // Beside a configuration this is a run's own copy; alone it is somebody's data.
        let kept =
            |name: &str| [KEPT_DATA, KEPT_TEXT, KEPT_FRAME].contains(&name) && path.join(CONFIG).exists();
        let before = |name: &str| before(name) || kept(name);
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        entries.into_iter().all(|e| e.is_ok_and(|e| e.file_name().to_str().is_some_and(before)))
            && matches!(Self::last_evaluation(path), Ok(None))
    }

    /// The last evaluation of a run that is not one of validation: that of the forecast that the run ended with. `None`
    /// where there is none yet.
    ///
    /// # Errors
    /// [`RunError::NotARun`] when the metrics cannot be read.
    pub fn last_evaluation(path: &Path) -> Result<Option<EvaluationRecord>, RunError> {
        let validation = Segment::Validation.to_string();
        let text = metrics(path)?;
        let mut records = text.lines().rev().filter_map(|l| serde_json::from_str::<EvaluationRecord>(l).ok());
        Ok(records.find(|r| r.split != validation))
    }

    /// Opens the folder of an earlier run to go on with it from `step`: lines about later steps are dropped, because
    /// they will be made again.
    ///
    /// # Errors
    /// [`RunError::NotARun`]; [`RunError::Write`].
    pub fn resume(lock: RunLock, step: usize) -> Result<Self, RunError> {
        let path = &lock.path;
        let file = path.join(METRICS);
        let failed = |why| RunError::Write { path: file.clone(), why };
        let text = metrics(path)?;
        let of = |line: &str| serde_json::from_str::<Line>(line).ok().map(|l| l.step);
        let kept: String =
            text.lines().filter(|l| of(l).is_some_and(|s| s <= step)).map(|l| format!("{l}\n")).collect();
        if kept.len() != text.len() {
            replace(&file, kept.as_bytes()).map_err(failed)?;
        }
        let metrics = append(&file).map_err(failed)?;
        let events = Events::create(path, Some(step + 1)).map_err(failed)?;
        Ok(Self { metrics, events, drawn: evaluations(&kept), lock })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.lock.path
    }

    /// The last state, to resume from.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.lock.path.join("checkpoint.safetensors")
    }

    /// The weights of the best validation error.
    #[must_use]
    pub fn best(&self) -> PathBuf {
        self.lock.path.join("best.safetensors")
    }

    /// The weights of a linear network that was chosen.
    #[must_use]
    pub fn weights(&self, kind: ModelKind) -> PathBuf {
        self.lock.path.join(weights_name(kind))
    }

    /// Appends one line to the metrics.
    ///
    /// # Errors
    /// As [`RunFolder::log_all`].
    pub fn log(&mut self, line: &impl Scalars) -> Result<(), RunError> {
        self.log_all(std::slice::from_ref(line))
    }

    /// Appends lines to the metrics in one write, and their scalars to the event file in another.
    ///
    /// # Errors
    /// [`RunError::Write`]; [`RunError::Gone`].
    pub fn log_all(&mut self, lines: &[impl Scalars]) -> Result<(), RunError> {
        // A file that is open stays writable after its directory is removed, so nothing else would say so.
        if !self.lock.path.is_dir() {
            return Err(RunError::Gone { path: self.lock.path.clone() });
        }
        let failed = |why| RunError::Write { path: self.lock.path.join(METRICS), why };
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line).map_err(|e| failed(e.into()))?;
            text.push('\n');
        }
        self.metrics.write_all(text.as_bytes()).map_err(failed)?;
        let mut scalars: Vec<_> = lines.iter().map(Scalars::scalars).collect();
        for (step, all) in &mut scalars {
            // The weights of one step may be evaluated twice, when a run goes on: they are drawn once.
            all.retain(|(tag, _)| tag.starts_with("train/") || self.drawn.insert((tag.clone(), *step)));
        }
        let steps = scalars.iter().map(|(step, all)| (*step, all.as_slice()));
        self.events.add(steps).map_err(failed)
    }

    /// Writes a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.lock.path.join(name);
        replace(&path, text.as_bytes()).map_err(|why| RunError::Write { path, why })
    }
}

/// Tags and steps of the evaluations in some metrics.
fn evaluations(text: &str) -> HashSet<(String, usize)> {
    let lines = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let tags = |line: serde_json::Value| -> Option<Vec<(String, usize)>> {
        let step = usize::try_from(line["step"].as_u64()?).ok()?;
        let of = if line["forecaster"].is_string() { "forecaster" } else { line["split"].as_str()? };
        Some(line.as_object()?.keys().map(|name| (format!("{of}/{name}"), step)).collect())
    };
    lines.filter_map(tags).flatten().collect()
}

/// Name of the file with the weights of a linear network that was chosen.
pub(super) fn weights_name(kind: ModelKind) -> String {
    format!("{}.safetensors", kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_beside_a_configuration_is_a_runs_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        std::fs::create_dir(&run).expect("made");
        std::fs::write(run.join(KEPT_DATA), "a table").expect("written");
        assert!(!RunFolder::is_unbegun(&run), "somebody's data is no run");
        assert!(matches!(RunFolder::create(&run, ""), Err(RunError::Exists { .. })));
        std::fs::write(run.join(CONFIG), "").expect("written");
        std::fs::write(run.join(ERRORS), "errors").expect("written");
        assert!(RunFolder::is_unbegun(&run));
        std::fs::write(run.join("checkpoint.safetensors"), "").expect("written");
        assert!(!RunFolder::is_unbegun(&run));
    }
}
