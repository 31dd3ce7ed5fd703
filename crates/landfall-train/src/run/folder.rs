//! The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `best.safetensors`, `plan.json`.

use super::RunError;
use super::settings::ModelKind;
use crate::checkpoint::replace;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A run's folder, with its metrics open for appending.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
}

impl RunFolder {
    /// Makes a new folder.
    ///
    /// # Errors
    /// [`RunError::Exists`]; [`RunError::Write`] when it cannot be made, and then nothing is left behind.
    pub fn create(path: &Path, configuration: &str) -> Result<Self, RunError> {
        let failed = |why| RunError::Write { path: path.to_owned(), why };
        // What this call makes, it also takes back: the folders above the run's that were not there.
        let made = path.ancestors().filter(|a| !a.as_os_str().is_empty()).take_while(|a| !a.exists()).last();
        if made.is_none() {
            return Err(RunError::Exists { path: path.to_owned() });
        }
        if let Some(above) = path.ancestors().find(|a| a.exists() && !a.is_dir()) {
            let why = std::io::Error::other(format!("{} is a file, not a folder", above.display()));
            return Err(failed(why));
        }
        let make = || {
            if let Some(parent) = path.parent().filter(|p| !p.is_dir()) {
                std::fs::create_dir_all(parent)?;
            }
            // Fails where the folder is there already: another run may have made it this moment.
            std::fs::create_dir(path)?;
            replace(&path.join("config.toml"), configuration.as_bytes())?;
            OpenOptions::new().create(true).append(true).open(path.join("metrics.jsonl"))
        };
        match make() {
            Ok(metrics) => Ok(Self { path: path.to_owned(), metrics }),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => {
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

    /// Opens the folder of an earlier run to go on with it from `step`: lines about later steps are dropped, because
    /// they will be made again.
    ///
    /// # Errors
    /// [`RunError::NotARun`]; [`RunError::Write`].
    pub fn resume(path: &Path, step: usize) -> Result<Self, RunError> {
        let file = path.join("metrics.jsonl");
        let failed = |why| RunError::Write { path: file.clone(), why };
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(RunError::NotARun { path: path.to_owned(), why: e.to_string() }),
        };
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("step")?.as_u64();
        let kept: String = text
            .lines()
            .filter(|l| of(l).is_some_and(|s| s <= step as u64))
            .map(|l| format!("{l}\n"))
            .collect();
        if kept.len() != text.len() {
            replace(&file, kept.as_bytes()).map_err(failed)?;
        }
        let metrics = OpenOptions::new().create(true).append(true).open(&file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), metrics })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last state, to resume from.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// The weights of the best validation error.
    #[must_use]
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// The weights of a linear network that was chosen.
    #[must_use]
    pub fn weights(&self, kind: ModelKind) -> PathBuf {
        self.path.join(weights_name(kind))
    }

    /// Appends one line to the metrics.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn log(&mut self, line: &impl Serialize) -> Result<(), RunError> {
        let failed = |why| RunError::Write { path: self.path.join("metrics.jsonl"), why };
        let mut text = serde_json::to_string(line).map_err(|e| failed(e.into()))?;
        text.push('\n');
        self.metrics.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.path.join(name);
        replace(&path, text.as_bytes()).map_err(|why| RunError::Write { path, why })
    }
}

/// Name of the file with the weights of a linear network that was chosen.
pub(super) fn weights_name(kind: ModelKind) -> String {
    format!("{}.safetensors", kind.name())
}
